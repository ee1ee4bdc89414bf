/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the reader and the writer of safetensors files. */
#ifndef TNI_CORE_IO_SAFETENSORS_H
#define TNI_CORE_IO_SAFETENSORS_H

#include <tenon/io.h>

/* Name of a dtype in the format, or NULL; and back, 0 if unknown. */
const char *tni_safetensors_dtype_name(tn_dtype dtype);
tn_dtype tni_safetensors_dtype(const char *name);

#endif
