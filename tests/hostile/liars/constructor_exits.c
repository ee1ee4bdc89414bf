/* SPDX-License-Identifier: Apache-2.0 */
/* A static constructor ends the process. */
#include "../honest.h"

#include <unistd.h>

__attribute__((constructor)) static void leave(void)
{
    _exit(0);
}

void lie(void) {}
