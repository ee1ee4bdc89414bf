/* SPDX-License-Identifier: Apache-2.0 */
/* A row for dtypes that do not exist: it is never chosen. */
#include "../honest.h"

void lie(void)
{
    static const tn_dtype garbage[] = {0xdeadbeefu, 0xffffffffu, 0};
    the.rows[0].dtypes = garbage;
}
