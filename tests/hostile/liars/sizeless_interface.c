/* SPDX-License-Identifier: Apache-2.0 */
/* An interface whose size was forgotten. */
#include "../honest.h"

void lie(void)
{
    the.copy.size = 0;
}
