/* SPDX-License-Identifier: Apache-2.0 */
/* What call.c gives shim.c: wrapping of kernel rows. */
#ifndef TENON_SHIM_WRAP_H
#define TENON_SHIM_WRAP_H

#include "shim.h"

/* Replaces the rows of the table by wrapped ones. Rows that cannot be read are left to the host to refuse. */
int32_t shim_wrap_kernels(shim_plugin *w, tn_kernels_interface *kernels);
void shim_free_rows(shim_plugin *w);

#endif
