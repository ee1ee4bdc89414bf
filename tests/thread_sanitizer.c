/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into Criterion's tests in builds with ThreadSanitizer. Criterion puts its shared arena at an address
 * that rand_r proposes, of which the sanitizer allows few: this one proposes those.
 */
#include <stdlib.h>

int rand_r(unsigned int *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return (int)(0x350000 + (*seed >> 8 & 0x3ff));
}
