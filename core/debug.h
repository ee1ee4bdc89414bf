/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TENON_DEBUG, a comma-separated list, makes a program look for its own mistakes:
 *
 *   handles   as TN_CONTEXT_DEBUG_HANDLES: objects that are used after their end are errors
 *   leaks     tensors, scopes and other objects that are alive when the context is destroyed are logged, with their makers
 *   nan       the first NaN and the first infinity that a call produces are logged, with the call
 *   anomaly   backward fails at the first NaN that a node gives, and its errors name the call of the forward pass
 *
 * All name file and line of the program's call, if it was one of ops.h or place.h.
 * What is found is logged as an error. The dispatcher watches the calls (dispatcher/debug.c).
 */
#ifndef TNI_CORE_DEBUG_H
#define TNI_CORE_DEBUG_H

#include "core/pointer_map.h"
#include "core/tensor.h"

#define TNI_DEBUG_HANDLES 1u
#define TNI_DEBUG_LEAKS   2u
#define TNI_DEBUG_NAN     4u
#define TNI_DEBUG_ANOMALY 8u /* see autograd/anomaly.c */

/* Reads TENON_DEBUG and sets up what it asks for. A word that is not in the list above is an error. */
int32_t tni_debug_init(tn_context *ctx);
/* TNI_DEBUG_..., what was asked for. */
uint32_t tni_debug_wishes(const tn_context *ctx);
/* A tensor or a scope begins or ends, in a context with TNI_CONTEXT_LEAKS. `maker` is a call's name. A tensor
 * that is known keeps its first maker. */
void tni_debug_made(const tn_tensor *t, const char *maker);
void tni_debug_ended(const tn_tensor *t);
void tni_debug_scope_opened(tn_scope *s);
void tni_debug_scope_closed(tn_scope *s);
/* The same for another object, which `what` names; one that is not known may end. */
void tni_debug_object_begin(tn_context *ctx, const void *object, const char *what);
void tni_debug_object_end(tn_context *ctx, const void *object);
/* The place of the call that made the object, unless it has one. */
void tni_debug_object_place(tn_context *ctx, const void *object, const char *file, uint32_t line);
/*
 * A call of the program on this scope, whose place follows with tni_debug_place_end: what it makes and finds on
 * this thread until then gets the place; `from` is s->placed_from. Calls of another scope may lie between.
 */
void tni_debug_place_begin(tn_scope *s);
void tni_debug_place_end(tn_scope *s, uint64_t from, const char *file, uint32_t line);
/* The place of the call that has just run on this thread: what it made gets it. NULL: a call begins, which has not made what is
 * there. Only to be called if tni_tls.has_new_objects. */
void tni_debug_place_objects(const char *file, uint32_t line);
/* Logs a finding about the call that is running, with its place as soon as that is known. */
void tni_debug_found(tn_context *ctx, const char *text);
/* Writes " (made by aten::linear at model.c:31, number 40)" for a tensor, a scope or another object, also one that has ended
 * while the context keeps it; "" without TENON_DEBUG=leaks. Returns `out`. */
const char *tni_debug_origin(tn_context *ctx, const void *handle, TN_OUT char *out, uint64_t bytes);
#define TNI_ORIGIN_BYTES 400
/* Logs what is alive; the program lets go of the context. */
void tni_debug_report(tn_context *ctx);
void tni_debug_finish(tn_context *ctx);

#endif
