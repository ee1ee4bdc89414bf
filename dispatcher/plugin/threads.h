/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that appear while a library is loaded. A plugin that says it can be unloaded may have left one
 * behind all the same, and taking its code away would end the process: so a library is unloaded only when no
 * thread has appeared since it came, and a thread with the library's code on its stack is named.
 *
 * The kernel's list of tasks (/proc/self/task) is all that is asked; of a thread that sleeps it tells the top
 * of the stack, which is read through /proc/self/mem, so that one that ends meanwhile does no harm.
 */
#ifndef TNI_PLUGIN_THREADS_H
#define TNI_PLUGIN_THREADS_H

#include "core/memory.h"

/* The threads of this process, as int32_t. An error leaves the list short. */
int32_t tni_threads_read(tn_context *ctx, tni_vector *out);

enum {
    TNI_THREADS_NONE,   /* no thread has appeared that still is there */
    TNI_THREADS_OTHERS, /* some have; nothing shows whose they are */
    TNI_THREADS_INSIDE  /* one has the library's code on its stack: *out_thread */
};

/* What became of the threads that are not in `before`, after the library at `handle` (of dlopen) was shut
 * down. Waits some milliseconds for those that are about to end. */
int32_t tni_threads_left(const tni_vector *before, void *handle, int32_t *out_thread);

#endif
