/* SPDX-License-Identifier: Apache-2.0 */
/* What shim.c, call.c and operator.c share: the parts of wrapping. */
#ifndef TENON_SHIM_WRAP_H
#define TENON_SHIM_WRAP_H

#include "shim.h"

/* Replaces the slots that are present by their forwarding functions. */
void shim_replace_slots(void *table, uint32_t size, const shim_wrapped_slot *slots, uint32_t count);
/* Replaces the rows of the table by wrapped ones. Unreadable rows are left for the host to refuse. */
int32_t shim_wrap_kernels(shim_plugin *w, tn_kernels_interface *kernels);
void shim_free_rows(shim_plugin *w);
/* host.register_operator: wraps the definition's functions and replaces its self. */
int32_t shim_adapt_operator(shim_call *c);
void shim_free_operators(shim_plugin *w);
/* The plugin that this thread is in, or NULL. */
shim_plugin *shim_here(void);
/* A call to a function of the plugin that takes `call`: its argument is *out_inner, the call as the plugin sees it, with
 * the plugin's own `data` and host. */
shim_call shim_call_inside(shim_plugin *plugin, uint32_t id, const char *op, const tn_call *call,
                           const void *data, tn_call *out_inner);

#endif
