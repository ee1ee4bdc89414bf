/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tables.c knows: which of the functions that are compiled for each dtype and level serve this process.
 * The tni_..._of functions declared beside each family are defined there, too.
 */
#ifndef TENON_CPU_NN_TABLES_H
#define TENON_CPU_NN_TABLES_H

#include "nn.h"

/* All rows of this room at the level of this process, one list after the other; `to` may be NULL. Returns how
 * many they are. */
uint32_t cpu_nn_rows(tn_kernel_row *to);

#endif
