/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_CPU_COPY_H
#define TENON_CPU_COPY_H

#include "support/cpu.h"

/*
 * Copies `from`, broadcast, into `to`: any strides (negative ones too), any two dtypes; conjugation and
 * negation bits are resolved.
 */
int32_t cpu_copy_tensor(const tn_call *call, const tn_tensor_desc *to, const tn_tensor_desc *from);

/* One number in every element of `out`, converted as a cast would: to bool, all but 0 is true. Any strides. */
int32_t cpu_fill(const tn_call *call, const tn_tensor_desc *out, tn_value value);

#endif
