/* SPDX-License-Identifier: Apache-2.0 */
/* Starting partner.c. */
#ifndef TESTS_BEHAVIOUR_PARTNER_H
#define TESTS_BEHAVIOUR_PARTNER_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts the program with these arguments, NULL at the end; file descriptors without FD_CLOEXEC go along. */
static inline pid_t start_partner(char *const *argv)
{
    const char *program = getenv("TENON_PARTNER");
    cr_assert_not_null(program);
    pid_t child = fork();
    if (child == 0) {
        execv(program, argv);
        _exit(127);
    }
    cr_assert_gt(child, 0);
    return child;
}

static inline void expect_good(pid_t child)
{
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process ended with 0x%x",
              (unsigned)status);
}

#endif
