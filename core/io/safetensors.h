/* SPDX-License-Identifier: Apache-2.0 */
/* What reading and writing of the safetensors format share. */
#ifndef TNI_CORE_IO_SAFETENSORS_H
#define TNI_CORE_IO_SAFETENSORS_H

#include "core/tensor.h"
#include "core/text.h"

#define TNI_SAFETENSORS_METADATA "__metadata__"
#define TNI_SAFETENSORS_HEADER   (100ull << 20) /* the format's limit of the header's length */

/* A tensor of a vendor's dtype is one of bytes, with one more dimension, and metadata "tenon.dtype.NAME" with the dtype's
 * name and bits: "acme_float6:6". */
#define TNI_SAFETENSORS_VENDOR "tenon.dtype."

/* The format's name of a dtype, or NULL where it has none. */
const char *tni_safetensors_dtype_name(tn_dtype dtype);
/* 0 for a name that is not known. */
tn_dtype tni_safetensors_dtype_parse(const char *name);

#endif
