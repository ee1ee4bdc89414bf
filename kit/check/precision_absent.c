/* SPDX-License-Identifier: Apache-2.0 */
/* The precision report in a build without MPFR: an error. */
#include <stdio.h>
#include "check.h"

int32_t check_precision(check_run *run)
{
    snprintf(
        run->fatal, sizeof(run->fatal),
        "mode precision needs MPFR, which was not found when this tenon was built (Debian: libmpfr-dev)");
    return 2;
}
