/* SPDX-License-Identifier: Apache-2.0 */
/* For a reference plugin whose tanh is compiled as sinh: a sinh that crashes. */
#include <math.h>

double sinh(double x)
{
    (void)x;
    __builtin_trap();
}
