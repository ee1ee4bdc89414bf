/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that appear while a library is loaded. A plugin that can be unloaded may still have left a thread
 * behind, and unloading its code would crash the process. So a library is unloaded only if no thread that
 * appeared since it was loaded is left; one with the library's code on its stack is reported.
 *
 * The threads are listed in /proc/self/task, with the top of the stack of those that sleep. Stacks are read through
 * /proc/self/mem, so that a thread that ends meanwhile does no harm.
 */
#ifndef TNI_PLUGIN_THREADS_H
#define TNI_PLUGIN_THREADS_H

#include "core/memory.h"

/* The threads of this process, as int32_t. An error leaves the list short. */
int32_t tni_threads_read(tn_context *ctx, tni_vector *out);

enum {
    TNI_THREADS_NONE,   /* no thread that appeared is left */
    TNI_THREADS_OTHERS, /* some are left; whose is not known */
    TNI_THREADS_INSIDE  /* one has the library's code on its stack: *out_thread */
};

/* Looks at the threads that are not in `before`, after the library `handle` (of dlopen) was shut down. Waits some
 * milliseconds for threads that are about to end. */
int32_t tni_threads_left(const tni_vector *before, void *handle, int32_t *out_thread);

#endif
