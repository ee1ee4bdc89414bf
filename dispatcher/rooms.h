/* SPDX-License-Identifier: Apache-2.0 */
/* init and finish of the parts that a context consists of; autograd is linked into the same library. */
#ifndef TNI_DISPATCHER_ROOMS_H
#define TNI_DISPATCHER_ROOMS_H

#include "core/context.h"

/* The layer of observers, see observe.c. */
int32_t tni_observe_init(tn_context *ctx, const tn_context_options *options);
/* TENON_DEBUG, see debug.c. */
int32_t tni_call_watch_init(tn_context *ctx, const tn_context_options *options);
void tni_call_watch_finish(tn_context *ctx);
/* The first element that is a NaN; -1: none, or a tensor that cannot be read here. */
int64_t tni_first_nan(const tn_tensor *t);
/* The layer that records call traces, see trace.c. */
int32_t tni_trace_init(tn_context *ctx, const tn_context_options *options);
/* TENON_TRACE, see trace_file.c. */
int32_t tni_trace_file_init(tn_context *ctx, const tn_context_options *options);
void tni_trace_file_finish(tn_context *ctx);
/* Profiles of calls and TENON_PROFILE, see profile.c. */
int32_t tni_call_profile_init(tn_context *ctx, const tn_context_options *options);
void tni_call_profile_finish(tn_context *ctx);
/* The layer of mixed precision, see autocast.c. */
int32_t tni_autocast_init(tn_context *ctx, const tn_context_options *options);
int32_t tni_autograd_init(tn_context *ctx, const tn_context_options *options);
void tni_autograd_finish(tn_context *ctx);
/* Discovery and loading; closes the devices at the end. */
int32_t tni_plugins_init(tn_context *ctx, const tn_context_options *options);
void tni_plugins_finish(tn_context *ctx);

#endif
