/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are not built in, and the functions of tn_host that take a call. */
#ifndef TNI_DISPATCHER_CUSTOM_H
#define TNI_DISPATCHER_CUSTOM_H

#include "dispatcher/registry.h"

/* Sets the kind: composite if there is a composite and no shape rule. */
void tni_custom_prepare(tni_op *op);

/* The tensor that result i goes to: the written argument of its alias set, wherever that stands; else f->given[i]. */
tn_tensor *tni_written_argument(const tni_frame *f, uint32_t i);

/* A name in `saves`, "self, result0". */
typedef struct tni_saved_name {
    uint32_t is_result;
    uint32_t index; /* of the argument or the result */
} tni_saved_name;
/* Reads the next one. *out_found is 0 at the end, and after an error. */
int32_t tni_saved_name_next(const tni_schema *schema, const char **text, tni_saved_name *out,
                            int32_t *out_found);

/* The status that a plugin's function ("the kernel", "the composite") returned, with an error recorded; maps
 * invalid codes to TN_E_CONTRACT. */
int32_t tni_plugin_status(const tni_op *op, const char *function, int32_t status);
/* After a kernel or a shape rule: closes the scope that it asked for and may not have. `status`, or the error if it called
 * an operator. */
int32_t tni_frame_end_refusing(tni_frame *f, int32_t status);

/* The functions of tn_host that take a call; see plugin.h. */
int32_t tni_host_workspace(const tn_call *call, const tn_memory_request *request, tn_memory *out);
int32_t tni_host_resize_output(const tn_call *call, uint32_t i, uint32_t rank, const int64_t *sizes);
int32_t tni_host_define_output(const tn_call *call, uint32_t i, const tn_output *output);
int32_t tni_host_set_output(const tn_call *call, uint32_t i, tn_tensor *t);
tn_scope *tni_host_call_scope(const tn_call *call);
int32_t tni_host_random_reserve(const tn_call *call, tn_generator *generator, uint64_t count,
                                tn_random_numbers *out);
int32_t tni_host_keep_alive(const tn_call *call, void *pointer, void (*release)(void *pointer));
/* Fills ctx->host. */
void tni_host_fill(tn_context *ctx);

#endif
