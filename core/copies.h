/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between tensors of one dtype whose elements lie alike in memory: see copies.c. */
#ifndef TNI_CORE_COPIES_H
#define TNI_CORE_COPIES_H

#include "core/tensor.h"

#define TNI_STAGED_BYTES \
    (16ull << 20) /* more than this is not staged, because the copy on the host takes as long */
#define TNI_PIECE_BYTES (4ull << 20) /* of a copy between devices: large enough for full bandwidth */

/* `bytes` from the first element on. `non_blocking`: may return before the copy is done. */
int32_t tni_upload(tn_tensor *dst, const tn_tensor *cpu, uint64_t bytes, int32_t non_blocking);
int32_t tni_download(tn_tensor *cpu, const tn_tensor *src, uint64_t bytes, int32_t non_blocking);

#endif
