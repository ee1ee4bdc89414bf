/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors. The detail is recorded where the error arises, in the thread's error slot, which needs no memory;
 * the status travels up. Scopes and boxed calls copy the slot into an object of their own.
 */
#ifndef TNI_CORE_ERROR_H
#define TNI_CORE_ERROR_H

#include <tenon/base.h>

#if defined(__GNUC__)
#define TNI_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#define TNI_LIKELY(x)           __builtin_expect(!!(x), 1)
#define TNI_UNLIKELY(x)         __builtin_expect(!!(x), 0)
#else
#define TNI_PRINTF(text, first)
#define TNI_LIKELY(x)   (x)
#define TNI_UNLIKELY(x) (x)
#endif

/* Records an error in this thread's slot and returns `status`. Replaces what was there. */
int32_t tni_error(int32_t status, const char *format, ...) TNI_PRINTF(2, 3);
/* The same; what was in the slot becomes the cause. */
int32_t tni_error_wrap(int32_t status, const char *format, ...) TNI_PRINTF(2, 3);
/* Out of memory; takes none. */
int32_t tni_error_no_memory(const char *what, uint64_t bytes);
/* Adds the vendor's number and text, the operator, the plugin to the error in the slot (NULL: unchanged). The message
 * names the operator, in the place of one that failed inside it. */
void tni_error_native(int32_t code, const char *text);
void tni_error_operator(const char *op);
/* The operator of a library: the one that failed in its composite, which is not ours, stays named: "prod: mm: ...". */
void tni_error_library_operator(const char *op);
void tni_error_plugin(const char *plugin);
/* An independent copy of the slot; never NULL (a static out-of-memory error when there is no memory). */
tn_error *tni_error_copy(void);
/* An independent copy of an error, with its place; never NULL. */
tn_error *tni_error_duplicate(const tn_error *error);
/* The same error with the place of the program's call (in it and at the start of its message) and with `more` at the
 * end of its message; `error` is released. Without memory it is `error` itself. */
tn_error *tni_error_extended(tn_error *error, const char *file, uint32_t line, const char *more);
/* Puts a copied error back into the slot, without its place. */
void tni_error_restore(const tn_error *error);
/* The same with the place of the call in front of the message. */
void tni_error_restore_placed(const tn_error *error);
/* If the slot is empty or of another status (a callee failed silently), records a plain error for `status`. */
int32_t tni_error_ensure(int32_t status, const char *who);

#endif
