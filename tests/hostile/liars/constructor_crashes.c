/* SPDX-License-Identifier: Apache-2.0 */
/* A static constructor reads where nothing is. */
#include "../honest.h"

static int *volatile nowhere;

__attribute__((constructor)) static void crash(void)
{
    *nowhere = 1;
}

void lie(void) {}
