/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that hangs from a thread: one struct. */
#ifndef TNI_CORE_THREAD_H
#define TNI_CORE_THREAD_H

#include <tenon/context.h>

struct tni_magazine;
struct tni_current;
struct tni_saved_hook_frame;

typedef struct tni_thread {
    uint32_t grad_mode;       /* TN_GRAD_ON, _OFF or _INFERENCE; 0 means ON */
    uint32_t call_depth;      /* operators that are running on this thread */
    uint32_t excluded_layers; /* layers that calls on this thread skip */
    tn_dtype default_dtype;   /* of the innermost scope that sets one, else 0 */
    tn_device default_device;
    struct tni_magazine *magazine;            /* cache of small blocks, see memory.h */
    struct tni_current *current;              /* current devices and streams, see device.h */
    struct tni_saved_hook_frame *saved_hooks; /* autograd's */
    void *engine;                             /* autograd's: the backward call that runs here */
    void *dying;                              /* autograd's: nodes whose last reference is gone */
    void *running; /* dispatcher's: the innermost frame whose call is in a plugin's or program's hands */
    uint64_t observer_count;
} tni_thread;

extern _Thread_local tni_thread tni_tls __attribute__((tls_model("initial-exec")));

/* 1 if operators on this thread record gradients. */
static inline int32_t tni_grad_enabled(void)
{
    return tni_tls.grad_mode <= TN_GRAD_ON;
}

#endif
