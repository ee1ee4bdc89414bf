/* SPDX-License-Identifier: Apache-2.0 */
/* A row that was written for an operator of another shape. */
#include "../honest.h"

void lie(void)
{
    the.rows[0].schema = "aten::add.Tensor(Tensor self) -> (Tensor, Tensor)";
}
