/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of options that are refused in shape rules and in composites alike. */
#ifndef TNI_OPS_REFUSED_H
#define TNI_OPS_REFUSED_H

#define TNI_ONLY_CPU_PINNED "argument 'pin_memory': Only dense CPU tensors can be pinned"
#define TNI_NO_SPARSE       "argument '%s': sparse gradients are not supported (got True, expected False)"

#define TNI_SHARED_MEMORY                                                                                   \
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single " \
    "memory location. Please clone() the tensor before performing the operation."

#endif
