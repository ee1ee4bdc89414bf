/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of tensors in the safetensors format: an 8-byte little-endian header length, a JSON header, raw data.
 */
#ifndef TENON_IO_H
#define TENON_IO_H

#include <tenon/tensor.h>

TN_BEGIN_DECLS

#ifndef TN_PLUGIN
/* One tensor of a file. */
typedef struct tn_named_tensor {
    const char *name;
    tn_tensor *tensor;
} tn_named_tensor;

/*
 * Writes tensors of any device and strides to `path`, row-major. A new file of the same mode replaces the old one at the end
 * (also one that a link leads to), so a failure leaves the old one. `metadata` has 2 * n_metadata texts: key, value, ...; may be
 * NULL. Returns the status, TN_E_IO if the file cannot be written.
 */
TN_API int32_t tn_safetensors_save(tn_scope *s, const char *path, const tn_named_tensor *tensors,
                                   uint64_t count, TN_NULLABLE const char *const *metadata,
                                   uint64_t n_metadata);

/* An open file. Opening checks every offset, shape and dtype; a corrupt or truncated file is TN_E_CORRUPT. A
 * file may be read from several threads at once, and must be closed after the last of them. */
typedef struct tn_safetensors tn_safetensors;
TN_API int32_t tn_safetensors_open(tn_context *ctx, const char *path,
                                   TN_OUT TN_GIVES tn_safetensors **out) TN_ANY_THREAD;
TN_API void tn_safetensors_close(TN_TAKES TN_NULLABLE tn_safetensors *file);
/* Number of tensors, and the name of tensor i (NULL past the end), which lives as long as the file. */
TN_API uint64_t tn_safetensors_count(const tn_safetensors *file);
TN_API const char *tn_safetensors_name(const tn_safetensors *file, uint64_t i);
/* Value of a metadata key, or NULL; lives as long as the file. */
TN_API const char *tn_safetensors_metadata(const tn_safetensors *file, const char *key);
/* A copy of one tensor on a device (0: the scope's default device). NULL on failure: TN_E_NOT_FOUND for an
 * unknown name, TN_E_CORRUPT for a bool tensor with a byte other than 0 and 1. */
TN_API TN_SCOPED tn_tensor *tn_safetensors_get(tn_scope *s, tn_safetensors *file, const char *name,
                                               tn_device device);
/*
 * One tensor on the CPU over the pages of the file, which are read when they are first touched, so that a file of any
 * size opens at once. Writing to the tensor does not change the file. The tensor may outlive `file`. The file must not
 * be made shorter while the tensor lives: a read past its end raises SIGBUS (a file that is replaced by renaming is
 * safe). Bool tensors, vendors' dtypes and tensors that are not aligned in the file are copied.
 */
TN_API TN_SCOPED tn_tensor *tn_safetensors_map(tn_scope *s, tn_safetensors *file, const char *name);
#endif

TN_END_DECLS
#endif
