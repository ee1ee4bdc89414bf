/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of the program's objects other than tensors, scopes and streams, which have their own ways: files, generators,
 * events, graphs and others. With TN_CONTEXT_DEBUG_HANDLES the memory of an object that has ended stays until its context
 * ends, marked as dead, so that a second use of it is an error. With TENON_DEBUG=leaks objects that are alive when the
 * context is destroyed are listed. A dead context stays for good.
 */
#ifndef TNI_CORE_HANDLE_H
#define TNI_CORE_HANDLE_H

#include "core/context.h"

/* An object of the program begins: "generator". */
void tni_handle_made(tn_context *ctx, const void *handle, const char *what);
/* 0 for a dead object: TN_E_DEAD_HANDLE is then the thread's error, and logged with the address of the call, which addr2line
 * makes a line of. `caller` is __builtin_return_address(0). */
int32_t tni_handle_may_end(tn_context *ctx, const tni_handle_mark *mark, const char *what, void *caller);
/* TN_OK, or TN_E_DEAD_HANDLE. */
int32_t tni_handle_check(tn_context *ctx, const tni_handle_mark *mark, const char *what);
/* The object is dead: frees its memory, or keeps it. Everything but the mark and what leads to the context may be gone. */
void tni_handle_free(tn_context *ctx, void *memory, uint64_t bytes, tni_handle_mark *mark);
/* The program has ended an object whose memory stays. */
void tni_handle_mark_dead(tni_handle_mark *mark);
/* Frees what is kept. */
void tni_dead_handles_finish(tn_context *ctx);

#endif
