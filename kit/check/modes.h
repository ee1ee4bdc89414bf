/* SPDX-License-Identifier: Apache-2.0 */
/* The modes that report more than passed and failed; see check.h for what a mode is. */
#ifndef TENON_KIT_CHECK_MODES_H
#define TENON_KIT_CHECK_MODES_H

#include "check.h"

int32_t check_coverage(check_run *run);
int32_t check_speed(check_run *run);
int32_t check_gradient(check_run *run);

#endif
