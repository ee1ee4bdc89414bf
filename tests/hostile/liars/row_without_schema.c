/* SPDX-License-Identifier: Apache-2.0 */
/* A row without a schema. */
#include "../honest.h"

void lie(void)
{
    the.rows[0].schema = NULL;
}
