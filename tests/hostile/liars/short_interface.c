/* SPDX-License-Identifier: Apache-2.0 */
/* Says that its memory interface has eight bytes. */
#include "../honest.h"

void lie(void)
{
    the.memory.size = 8;
}
