/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that other libraries and other processes use: DLPack with streams, and memory that several processes share.
 * The short forms tn_to_dlpack and tn_from_dlpack (tensor.h) are for programs that do not mind waiting.
 */
#ifndef TENON_INTEROP_H
#define TENON_INTEROP_H

#include <tenon/device.h>

TN_BEGIN_DECLS

#ifndef TN_PLUGIN
/* ---- DLPack ------------------------------------------------------------------------------------------ */

#define TN_DLPACK_STREAM    1u /* `stream` waits for the tensor; without: this thread waits */
#define TN_DLPACK_NO_WAIT   2u /* nobody waits: the consumer orders its work itself */
#define TN_DLPACK_READ_ONLY 4u /* the consumer must not write */

/* How a capsule is made; what `__dlpack__` takes in Python. */
typedef struct tn_dlpack_options {
    uint32_t size;
    uint32_t flags;  /* TN_DLPACK_... */
    uint64_t stream; /* the consumer's: the native handle; 0 may be a handle */
} tn_dlpack_options;

/* As tn_to_dlpack. `options` NULL: none. */
TN_API int32_t tn_to_dlpack_with(tn_tensor *t, TN_NULLABLE const tn_dlpack_options *options,
                                 TN_OUT TN_GIVES struct DLManagedTensorVersioned **out) TN_ANY_THREAD;
/* DLPack's type and number of a device; what `__dlpack_device__` returns. TN_E_UNSUPPORTED if it has none. */
TN_API int32_t tn_device_dlpack(tn_context *ctx, tn_device device, TN_OUT int32_t *out_type,
                                TN_OUT int32_t *out_id) TN_ANY_THREAD;

/* ---- Other processes --------------------------------------------------------------------------------- */

/*
 * A tensor whose memory other processes can open: on the CPU a file in memory, elsewhere memory that the plugin gave
 * for it. A copy of `t`, row-major; `t` itself if its memory is of that kind. TN_E_UNSUPPORTED if the device has no
 * such memory.
 */
TN_API TN_SCOPED tn_tensor *tn_share(tn_scope *s, tn_tensor *t);

/* Such a tensor as another process sees it. */
typedef struct tn_shared_tensor {
    uint32_t size;
    tn_dtype dtype; /* not one of a vendor */
    uint32_t rank;
    int32_t device_index;
    char device_type[32];
    uint64_t storage_offset; /* of the first element, in elements */
    int64_t sizes[TN_MAX_RANK];
    int64_t strides[TN_MAX_RANK]; /* in elements */
    tn_process_handle memory;
} tn_shared_tensor;
/* Waits for the tensor's stream. The caller closes out->memory.file; the memory lives until no process uses it any
 * more. TN_E_STATE for a tensor that tn_share did not give. */
TN_API int32_t tn_share_export(tn_tensor *t, TN_OUT tn_shared_tensor *out) TN_ANY_THREAD;
/* The tensor of another process. Both sides see what either writes; they agree on the order themselves. Refuses
 * files that are closed, too small, or of other memory. The caller closes shared->memory.file afterwards. */
TN_API TN_SCOPED tn_tensor *tn_share_import(tn_scope *s, const tn_shared_tensor *shared);

/* The same through a connected UNIX socket, of type SOCK_SEQPACKET or SOCK_STREAM: one message with the descriptor
 * of the file. `event` (may be NULL) goes along: then the sender does not wait for the tensor. */
TN_API int32_t tn_share_send(int32_t socket, tn_tensor *t, TN_NULLABLE tn_event *event) TN_ANY_THREAD;
/* Waits for a message. *out_event is NULL if none came along; `out_event` NULL: this thread waits for it. */
TN_API TN_SCOPED tn_tensor *tn_share_receive(tn_scope *s, int32_t socket,
                                             TN_OUT TN_NULLABLE TN_GIVES tn_event **out_event);

/* An event with TN_EVENT_INTERPROCESS for another process, which may wait for what is recorded now and later. The
 * caller closes the file. */
TN_API int32_t tn_event_export(tn_event *event, TN_OUT tn_process_handle *out) TN_ANY_THREAD;
/* It can be waited for and queried, not recorded. If the other process ends before it is done, waiting fails. */
TN_API int32_t tn_event_import(tn_context *ctx, tn_device device, const tn_process_handle *handle,
                               TN_OUT TN_GIVES tn_event **out) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
