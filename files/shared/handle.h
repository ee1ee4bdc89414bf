/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an object of libtenon-train. Without TENON_DEBUG=handles a destroyed object is freed, and using it again is
 * undefined. With it the object's memory is kept until the program ends, marked as dead, so that a second use is an error.
 * Other rooms of libtenon-train use it, too.
 */
#ifndef TENON_FILES_HANDLE_H
#define TENON_FILES_HANDLE_H

#include <tenon/base.h>

/* A member of the object, 0 while it is alive. */
typedef uint32_t handle_mark;

/* An object was made; `format` says what it is: "module '%s'". With TENON_DEBUG=leaks it is listed if it is never destroyed. */
void handle_begin(tn_context *ctx, const void *object, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/*
 * Begins the end of an object: 1, and the object is dead. 0 if it was dead before: then that is the thread's error and a
 * line on standard error, with the address of the call (addr2line finds its line). `caller` is __builtin_return_address(0).
 */
int32_t handle_end(handle_mark *mark, const char *what, void *caller);
/* The end: frees the memory, or keeps it. Its mark must stay readable. NULL is ignored. */
void handle_free(void *memory);
/* TN_OK, or TN_E_DEAD_HANDLE, which is the thread's error. */
int32_t handle_check(const handle_mark *mark, const char *what);
/* The same, and fails the scope (NULL: the thread's error alone). */
int32_t handle_refuse(tn_scope *s, const handle_mark *mark, const char *what);
/* TN_OK, or the error of a context that is NULL or was made before a fork, which is the thread's. */
int32_t handle_context_check(tn_context *ctx);
/* 1 with TENON_DEBUG=handles. */
int32_t handle_is_kept(void);

#endif
