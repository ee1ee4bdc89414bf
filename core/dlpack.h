/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structs of DLPack 1.x (https://dmlc.github.io/dlpack), an exchange format of tensors between libraries
 * of one process. Names and layouts are those of its specification; nothing of ours may be added.
 */
#ifndef TNI_CORE_DLPACK_H
#define TNI_CORE_DLPACK_H

#include <stdint.h>

#define DLPACK_MAJOR_VERSION 1u
#define DLPACK_MINOR_VERSION 1u

#define DLPACK_FLAG_READ_ONLY 1u /* whoever imports must not write */
#define DLPACK_FLAG_IS_COPIED 2u /* the exporter made a copy: nobody else sees writes */

/* Device types whose memory the host reads. */
#define DLPACK_CPU       1
#define DLPACK_CUDA_HOST 3
#define DLPACK_ROCM_HOST 11

typedef struct DLPackVersion {
    uint32_t major;
    uint32_t minor;
} DLPackVersion;

typedef struct DLDevice {
    int32_t device_type;
    int32_t device_id;
} DLDevice;

typedef struct DLDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} DLDataType;

typedef struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: row-major */
    uint64_t byte_offset;
} DLTensor;

/* A major version other than 1 may only be read as far as `deleter`. */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#endif
