/* SPDX-License-Identifier: Apache-2.0 */
/* The end that another program asks for: `timeout`, or whoever runs out of patience. */
#include <signal.h>
#include "cmd.h"

static volatile sig_atomic_t ended;

static void note(int signal)
{
    (void)signal;
    ended = 1;
}

void cmd_catch_end(void)
{
    const struct sigaction action = {.sa_handler = note}; /* calls that wait return */
    sigaction(SIGTERM, &action, NULL);
}

int cmd_has_ended(void)
{
    return ended;
}

void cmd_pass_over_end(void)
{
    signal(SIGTERM, SIG_IGN);
}
