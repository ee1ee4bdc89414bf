/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is current on a thread: one device index for each type, one stream for each device. Empty on most
 * threads, so the common answer (index 0, the default stream) costs one load.
 */
#ifndef TNI_CORE_CURRENT_H
#define TNI_CORE_CURRENT_H

#include "core/device.h"

/* Current index of a device type; 0 unless set. */
int32_t tni_current_index(const tn_context *ctx, uint32_t type);
int32_t tni_current_set_index(const tn_context *ctx, uint32_t type, int32_t index);
/* The operator that runs, for the history of allocators: a name that lives as long as its context, or NULL. It is
 * told only while a device records its history. Setting returns the name before. */
const char *tni_current_operator(void);
const char *tni_current_set_operator(const char *name);
/* A number that no other thread of the process has or had, from the first tni_thread_number_make on; 0 before. */
uint64_t tni_thread_number(void);
int32_t tni_thread_number_make(void);
/* NULL sets the default stream. */
int32_t tni_current_set_stream(tni_device *device, tn_stream *stream);

#endif
