/* SPDX-License-Identifier: Apache-2.0 */
/* What another library knows of DLPack 1.x: the structs of its specification (https://dmlc.github.io/dlpack). */
#ifndef TESTS_BEHAVIOUR_DLPACK_H
#define TESTS_BEHAVIOUR_DLPACK_H

#include <stdint.h>

struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags; /* 1: read-only */
    struct {
        void *data;
        struct {
            int32_t type, id;
        } device;
        int32_t ndim;
        struct {
            uint8_t code, bits;
            uint16_t lanes;
        } dtype;
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } tensor;
};

#define DL_CUDA      2
#define DL_EXTENSION 12

#endif
