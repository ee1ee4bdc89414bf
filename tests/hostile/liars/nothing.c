/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the truth: the scenario works. */
#include "../honest.h"

void lie(void) {}
