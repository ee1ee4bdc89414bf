/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a kernel without the library; see hand_call.h. */
#include "hand_call.h"

#include <stdio.h>
#include <string.h>

/* ---- The host of a kernel ------------------------------------------------------------------------------ */

static int32_t host_workspace(const tn_call *call, const tn_memory_request *request, tn_memory *out)
{
    hand_call *k = call->state;
    uint64_t bytes = request->bytes ? request->bytes : 1;
    void *host = NULL;
    if (k->n_workspaces == HAND_KEPT) return TN_E_OUT_OF_MEMORY;
    void *memory = hand_alloc(k->h, 0, bytes, &host, k->out);
    if (!memory) return TN_E_OUT_OF_MEMORY;
    k->workspaces[k->n_workspaces] = memory;
    k->workspace_bytes[k->n_workspaces++] = bytes;
    *out = (tn_memory){
        .size = out->size, .kind = TN_MEMORY_DEVICE, .allocation = memory, .host = host, .bytes = bytes};
    return TN_OK;
}

/* The output becomes another tensor, whose contents do not matter. */
static int32_t host_resize_output(const tn_call *call, uint32_t i, uint32_t rank, const int64_t *sizes)
{
    hand_call *k = call->state;
    if (i > 0 || rank > HAND_RANK) return TN_E_CONTRACT;
    hand_tensor *old = (hand_tensor *)(void *)tn_value_as_tensor(k->outs[0]);
    hand_tensor *made = hand_call_tensor(k, old->desc.dtype, rank, sizes, NULL);
    if (!made) return TN_E_OUT_OF_MEMORY;
    /* A kernel may have read the descriptor's address before. */
    memcpy(old->sizes, made->sizes, sizeof old->sizes);
    memcpy(old->strides, made->strides, sizeof old->strides);
    old->desc.rank = rank;
    old->desc.host = made->desc.host;
    const hand_tensor before = *old;
    old->desc.allocation = made->desc.allocation;
    old->bytes = made->bytes;
    made->desc.allocation = before.desc.allocation; /* freed with the others */
    made->bytes = before.bytes;
    return TN_OK;
}

static int32_t host_keep_alive(const tn_call *call, void *pointer, void (*release)(void *pointer))
{
    hand_call *k = call->state;
    if (k->n_kept == HAND_KEPT) return TN_E_OUT_OF_MEMORY;
    k->kept[k->n_kept].pointer = pointer;
    k->kept[k->n_kept++].release = release;
    return TN_OK;
}

/* ---- Arguments ----------------------------------------------------------------------------------------- */

void hand_call_give(hand_call *k, tn_value v)
{
    if (k->call.n_args < HAND_ARGUMENTS) k->args[k->call.n_args++] = v;
}

tn_value hand_call_value(hand_tensor *t)
{
    return tn_value_tensor((tn_tensor *)(void *)&t->desc);
}

void hand_call_write(hand_call *k, const hand_tensor *t, const void *data, uint64_t bytes)
{
    hand_ok(k->h, k->out,
            k->h->copy->host_to_device(k->h->self, k->h->devices[0], t->desc.allocation, 0, data, NULL, bytes,
                                       k->h->streams[0]),
            "copy.host_to_device");
}

void hand_call_move(hand_call *k, const hand_tensor *to, const hand_tensor *from)
{
    hand_ok(k->h, k->out,
            k->h->copy->device_to_device(k->h->self, k->h->devices[0], to->desc.allocation, 0,
                                         from->desc.allocation, 0, to->bytes, k->h->streams[0]),
            "copy.device_to_device");
}

hand_tensor *hand_call_tensor(hand_call *k, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                              const void *data)
{
    void *host = NULL;
    if (k->n_tensors == HAND_TENSORS) return NULL;
    hand_tensor *t = &k->tensors[k->n_tensors];
    int64_t numel = 1;
    for (uint32_t d = rank; d-- > 0; numel *= sizes[d]) {
        t->sizes[d] = sizes[d];
        t->strides[d] = numel;
    }
    uint64_t bytes = (uint64_t)numel * (uint64_t)tn_dtype_bytes(dtype);
    t->bytes = bytes ? bytes : 1;
    void *memory = hand_alloc(k->h, 0, t->bytes, &host, k->out);
    if (!memory) return NULL;
    k->n_tensors++;
    t->desc = (tn_tensor_desc){.size = sizeof t->desc,
                               .dtype = dtype,
                               .rank = rank,
                               .layout = TN_INTERNED_STRIDED,
                               .device = k->h->target->device,
                               .allocation = memory,
                               .host = host,
                               .sizes = t->sizes,
                               .strides = t->strides};
    if (data) hand_call_write(k, t, data, bytes);
    return t;
}

static void add_operand(hand_call *k, uint32_t flags, tn_value v)
{
    const tn_tensor_desc *t = tn_desc(tn_value_as_tensor(v));
    if (!t) return;
    k->operands[k->nest.n_operands++] = (tn_operand){.size = sizeof k->operands[0],
                                                     .flags = flags,
                                                     .dtype = t->dtype,
                                                     .allocation = t->allocation,
                                                     .host = t->host,
                                                     .strides = k->nest_strides};
}

void hand_call_nest(hand_call *k)
{
    const tn_tensor *result = tn_value_as_tensor(k->outs[0]);
    k->nest_sizes[0] = 1;
    for (int64_t d = 0; d < tn_tensor_rank(result); d++) k->nest_sizes[0] *= tn_tensor_sizes(result)[d];
    k->nest_strides[0] = (int64_t)tn_dtype_bytes(tn_tensor_dtype(result));
    k->nest = (tn_nest){.size = sizeof k->nest,
                        .rank = 1,
                        .kept = 1,
                        .n_outputs = 1,
                        .operand_bytes = sizeof k->operands[0],
                        .numel = k->nest_sizes[0],
                        .sizes = k->nest_sizes,
                        .operands = k->operands};
    add_operand(k, TN_OPERAND_OUTPUT, k->outs[0]);
    for (uint32_t i = 0; i < k->call.n_args; i++) add_operand(k, 0, k->args[i]);
    k->call.nest = &k->nest;
}

int hand_call_read(hand_call *k, const hand_tensor *t, void *data, uint64_t bytes)
{
    hand *h = k->h;
    return hand_ok(h, k->out,
                   h->copy->device_to_host(h->self, h->devices[0], data, NULL, t->desc.allocation, 0, bytes,
                                           h->streams[0]),
                   "copy.device_to_host") &&
           hand_ok(h, k->out, h->stream->synchronize(h->self, h->devices[0], h->streams[0]),
                   "stream.synchronize");
}

/* ---- The call ------------------------------------------------------------------------------------------ */

static void complete(hand_call *k)
{
    k->host = k->h->mini.host;
    k->host.workspace = host_workspace;
    k->host.resize_output = host_resize_output;
    k->host.keep_alive = host_keep_alive;
    k->call.size = sizeof k->call;
    k->call.n_outs = 1;
    k->call.args = k->args;
    k->call.outs = k->outs;
    k->call.device = k->h->devices[0];
    k->call.stream = k->h->streams[0];
    k->call.host = &k->host;
    k->call.state = k;
    k->call.threads = 1;
}

static int takes(hand_call *k, const tn_kernel_row *row, const char *op, tn_dtype dtype)
{
    size_t length = strlen(op);
    if (!row->run || !row->schema || strncmp(row->schema, op, length) || row->schema[length] != '(') return 0;
    const tn_dtype *d = row->dtypes;
    while (d && *d && *d != dtype) d++;
    if (d && !*d) return 0;
    k->call.data = row->data;
    return !row->can_run || !row->can_run(k->h->self, &k->call);
}

/* Of the rows that take the call, the one with the highest priority; of equals the last. */
int hand_call_find(hand_call *k, const char *op, tn_dtype dtype)
{
    const tn_kernels_interface *all = k->h->table.get_interface(k->h->self, "tenon.kernels", 1);
    complete(k);
    for (uint32_t i = 0; all && i < all->count; i++) {
        const char *at = (const char *)all->rows + (size_t)i * all->row_bytes;
        const tn_kernel_row *row = (const tn_kernel_row *)(const void *)at;
        if (takes(k, row, op, dtype) && (!k->row || row->priority >= k->row->priority)) k->row = row;
    }
    if (!k->row) check_skip(k->out, "the plugin has no kernel for %s", op);
    return k->row != NULL;
}

int32_t hand_call_run(hand_call *k)
{
    k->call.data = k->row->data;
    return k->row->run(k->h->self, &k->call);
}

void hand_call_finish(hand_call *k)
{
    while (k->n_kept) {
        k->n_kept--;
        k->kept[k->n_kept].release(k->kept[k->n_kept].pointer);
    }
    while (k->n_tensors) {
        k->n_tensors--;
        hand_free(k->h, 0, k->tensors[k->n_tensors].desc.allocation, k->tensors[k->n_tensors].bytes);
    }
    while (k->n_workspaces) {
        k->n_workspaces--;
        hand_free(k->h, 0, k->workspaces[k->n_workspaces], k->workspace_bytes[k->n_workspaces]);
    }
}
