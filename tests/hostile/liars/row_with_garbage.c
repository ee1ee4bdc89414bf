/* SPDX-License-Identifier: Apache-2.0 */
/* A row whose schema is garbage behind the name. */
#include "../honest.h"

void lie(void)
{
    the.rows[0].schema = "aten::add.Tensor(((Tensor self ->";
}
