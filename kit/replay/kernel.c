/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel call. Each tensor gets the bytes that were recorded, so that a difference is found where it
 * arises: in allocations that the recording made, at the same place, or in one of its own where the bytes lay
 * in memory of the program. Then the plugin's rows are asked in their order, as a host does.
 */
#include "replay.h"

#include "record_format.h"

#include <stdlib.h>
#include <string.h>

typedef struct kernel_call {
    uint64_t number;
    int32_t status; /* recorded */
    char op[96];
    tn_call call;
    replay_tensor *tensors;
    tn_nest nest;
    tn_operand *operands;
    uint64_t *operand_handles;
    replay_cursor host_calls;
    uint32_t n_host_calls;
} kernel_call;

/* ---- Reading ----------------------------------------------------------------------------------------- */

static void read_nest(replay_player *p, replay_cursor *c, kernel_call *k)
{
    tn_nest *n = &k->nest;
    n->size = sizeof(*n);
    n->rank = replay_u32(c);
    n->kept = replay_u32(c);
    n->n_outputs = replay_u32(c);
    n->n_operands = replay_u32(c);
    n->operand_bytes = sizeof(tn_operand);
    n->numel = 1;
    if (n->rank > TN_MAX_RANK || n->n_operands > 256) c->bad = 1;
    if (c->bad) return;
    uint64_t dims = n->rank * sizeof(int64_t);
    int64_t *sizes = replay_memory(p, dims + 8);
    const void *at = replay_bytes(c, dims);
    k->operands = replay_memory(p, (n->n_operands + 1u) * sizeof(*k->operands));
    k->operand_handles = replay_memory(p, (n->n_operands + 1u) * sizeof(uint64_t));
    if (!sizes || !at || !k->operands || !k->operand_handles) {
        c->bad = 1;
        return;
    }
    memcpy(sizes, at, dims);
    for (uint32_t d = 0; d < n->rank; d++) n->numel *= sizes[d];
    n->sizes = sizes;
    n->operands = k->operands;
    for (uint32_t i = 0; i < n->n_operands && !c->bad; i++) {
        tn_operand *o = &k->operands[i];
        o->size = sizeof(*o);
        o->flags = replay_u32(c);
        o->dtype = replay_u32(c);
        o->byte_offset = replay_u64(c);
        k->operand_handles[i] = replay_u64(c);
        const replay_blob *blob = replay_find(p->file, replay_u64(c));
        int64_t *strides = replay_memory(p, dims + 8);
        at = replay_bytes(c, dims);
        if (!strides || !at) {
            c->bad = 1;
            return;
        }
        memcpy(strides, at, dims);
        o->strides = strides;
        if (o->flags & TN_OPERAND_IMMEDIATE && (o->host = replay_memory(p, 16)) && blob && blob->bytes <= 16)
            memcpy(o->host, blob->data, blob->bytes);
    }
}

static void read_call(replay_player *p, replay_cursor *c, kernel_call *k)
{
    tn_call *call = &k->call;
    k->status = (int32_t)replay_u32(c);
    replay_text(c, k->op, sizeof(k->op));
    *call = (tn_call){.size = sizeof(*call), .flags = replay_u32(c)};
    call->threads = (int32_t)replay_u32(c);
    const replay_handle *device = replay_handle_find(p, 'd', replay_u64(c));
    const replay_handle *stream = replay_handle_find(p, 's', replay_u64(c));
    p->call_device = call->device = device ? device->here : NULL;
    p->call_stream = call->stream = stream ? stream->here : NULL;
    call->n_args = replay_u32(c);
    call->args = replay_values(p, c, call->n_args, &k->tensors);
    call->n_outs = replay_u32(c);
    call->outs = replay_values(p, c, call->n_outs, &k->tensors);
    if (replay_u32(c)) {
        read_nest(p, c, k);
        call->nest = &k->nest;
    }
    k->n_host_calls = replay_u32(c);
    k->host_calls = *c;
    for (uint32_t i = 0; i < k->n_host_calls && !c->bad; i++) {
        replay_u32(c);
        uint64_t count = replay_u64(c);
        replay_bytes(c, count < (1u << 20) ? count * 8 : UINT64_MAX);
    }
    call->host = &p->host;
    call->state = p;
    p->host_calls = &k->host_calls;
    p->n_host_calls = k->n_host_calls;
    p->next_random = 0;
}

/* ---- Memory ------------------------------------------------------------------------------------------ */

/* Bytes that this call reaches in the allocation that the file calls `recorded`. */
static uint64_t reach(const kernel_call *k, uint64_t recorded)
{
    uint64_t most = 0;
    for (const replay_tensor *t = k->tensors; t; t = t->next) {
        uint64_t end = t->extent ? t->recorded_offset + t->extent : 0;
        if (t->recorded == recorded && t->place != RECORD_HOST_NUMBER && end > most) most = end;
    }
    return most;
}

static int upload(replay_player *p, const replay_tensor *t)
{
    const replay_blob *blob = replay_find(p->file, t->blob);
    if (!blob || blob->bytes > t->extent) return 0;
    if (t->desc.host) {
        memcpy(t->desc.host, blob->data, blob->bytes);
        return 0;
    }
    return p->copy->host_to_device(p->self, p->call_device, t->desc.allocation, t->desc.byte_offset,
                                   blob->data, blob->bytes, p->call_stream);
}

/* 0 when all tensors have memory and bytes. */
static int place(replay_player *p, kernel_call *k)
{
    for (replay_tensor *t = k->tensors; t; t = t->next) {
        if (t->place == RECORD_HOST_NUMBER) {
            const replay_blob *blob = replay_find(p->file, t->blob);
            t->desc.host = replay_memory(p, 16);
            if (!t->desc.host) return -1;
            if (blob && blob->bytes <= 16) memcpy(t->desc.host, blob->data, blob->bytes);
            t->desc.allocation = t->desc.host;
            t->desc.byte_offset = 0;
            continue;
        }
        if (!t->extent) continue;
        const replay_handle *h = replay_handle_at(p, t->recorded, t->recorded_offset);
        uint64_t bytes = reach(k, t->recorded);
        uint64_t end = h && (h->part || h->from) ? t->recorded_offset + t->extent : bytes;
        if (!h || (!h->temporary && h->from + h->bytes < end)) h = replay_temporary(p, t->recorded, bytes);
        if (!h) return -1;
        t->desc.allocation = h->here;
        t->desc.byte_offset = replay_offset(h, t->recorded_offset);
        t->desc.host = h->host ? (char *)h->host + t->desc.byte_offset : NULL;
        if (upload(p, t)) return -1;
    }
    for (uint32_t i = 0; i < k->nest.n_operands; i++) {
        tn_operand *o = &k->operands[i];
        const replay_handle *h = replay_handle_at(p, k->operand_handles[i], o->byte_offset);
        if (o->flags & TN_OPERAND_IMMEDIATE) continue;
        if (!h) return -1;
        o->allocation = h->here;
        o->byte_offset = replay_offset(h, o->byte_offset);
        o->host = h->host ? (char *)h->host + o->byte_offset : NULL;
    }
    return p->stream->synchronize(p->self, p->call_device, p->call_stream);
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

/* The dtype by which rows are chosen: of the first tensor; for nests of the first input that is no condition.
 */
static tn_dtype dtype_of(const kernel_call *k)
{
    tn_dtype found = 0;
    for (uint32_t i = k->nest.n_outputs; k->call.nest && i < k->nest.n_operands; i++)
        if (!found || found == TN_BOOL) found = k->operands[i].dtype;
    const tn_tensor *first = NULL;
    for (uint32_t i = 0; i < k->call.n_args && !first; i++) {
        tn_tensors list = tn_value_as_tensors(k->call.args[i]);
        first = list.count ? list.data[0] : tn_value_as_tensor(k->call.args[i]);
    }
    return found ? found : first ? tn_desc(first)->dtype : 0;
}

static int is_contiguous(const tn_tensor_desc *d)
{
    int64_t expected = 1;
    for (uint32_t i = d->rank; i-- > 0;) {
        if (d->sizes[i] != 1 && d->strides[i] != expected) return 0;
        expected *= d->sizes[i];
    }
    return 1;
}

/* A row of another plugin may want what the recorded one did not. */
static int fits(const replay_player *p, const kernel_call *k, const tn_kernel_row *row, tn_dtype dtype)
{
    size_t length = strlen(k->op);
    if (!row->schema || !row->run || strncmp(row->schema, k->op, length) || row->schema[length] != '(')
        return 0;
    const tn_dtype *d = row->dtypes;
    while (d && *d && *d != dtype) d++;
    if (d && !*d) return 0;
    for (const replay_tensor *t = k->tensors; t && !p->same; t = t->next) {
        if (row->strides != TN_STRIDES_ANY && !k->call.nest && !is_contiguous(&t->desc)) return 0;
        if (t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG) && !(row->flags & TN_ROW_LAZY_BITS)) return 0;
    }
    for (uint32_t i = k->nest.n_outputs; k->call.nest && i < k->nest.n_operands; i++) {
        tn_dtype other = k->operands[i].dtype;
        int32_t wide = k->operands[i].flags & TN_OPERAND_IMMEDIATE && row->flags & TN_ROW_WIDE_IMMEDIATE;
        if (other != dtype && other != TN_BOOL && !wide && !(row->flags & TN_ROW_CASTS)) return 0;
    }
    return 1;
}

/* Runs the rows that fit, the highest priority first, among equals the later. -1: there is none. */
static int run_rows(replay_player *p, kernel_call *k, int32_t *out_status)
{
    const tn_kernels_interface *all = p->kernels;
    tn_dtype dtype = dtype_of(k);
    int64_t limit = INT64_MAX;
    for (;;) {
        int64_t best = INT64_MIN;
        const tn_kernel_row *row = NULL;
        for (uint32_t i = 0; all && i < all->count; i++) {
            const char *at = (const char *)all->rows + (size_t)i * all->row_bytes;
            const tn_kernel_row *r = (const tn_kernel_row *)(const void *)at;
            int64_t rank = (int64_t)r->priority * ((int64_t)1 << 32) + i;
            if (rank >= limit || rank <= best || !fits(p, k, r, dtype)) continue;
            best = rank;
            row = r;
        }
        if (!row) return -1;
        limit = best;
        k->call.data = row->data;
        if (row->can_run && row->can_run(p->self, &k->call)) continue;
        *out_status = row->run(p->self, &k->call);
        if (*out_status != TN_E_UNSUPPORTED) return 0;
    }
}

/* ---- Results ----------------------------------------------------------------------------------------- */

static void compare_one(replay_player *p, const kernel_call *k, uint32_t i, const tn_tensor *found,
                        const replay_tensor *want)
{
    const tn_tensor_desc *d = tn_desc(found);
    const replay_blob *blob = replay_find(p->file, want->blob);
    uint64_t bytes = replay_extent(d);
    if (d->rank != want->desc.rank || d->dtype != want->desc.dtype ||
        memcmp(d->sizes, want->desc.sizes, d->rank * sizeof(int64_t))) {
        replay_differs(p, k->number, k->op, "output %u has another shape than was recorded", i);
        return;
    }
    if (!bytes || !blob || blob->bytes < want->extent) return;
    char *copy = replay_memory(p, bytes);
    int32_t status = copy ? TN_OK : TN_E_OUT_OF_MEMORY;
    if (copy && d->host)
        memcpy(copy, d->host, bytes);
    else if (copy)
        status = p->copy->device_to_host(p->self, p->call_device, copy, d->allocation, d->byte_offset, bytes,
                                         p->call_stream);
    if (!status) status = p->stream->synchronize(p->self, p->call_device, p->call_stream);
    if (status)
        replay_differs(p, k->number, k->op, "output %u cannot be read: %s", i, p->error);
    else
        replay_compare(p, k->number, k->op, i, d, copy, &want->desc, blob->data);
}

static void compare_outputs(replay_player *p, const kernel_call *k, replay_cursor *c)
{
    replay_tensor *list = NULL;
    uint32_t n = replay_u32(c);
    const tn_value *wanted = replay_values(p, c, n, &list);
    for (uint32_t i = 0; i < n && i < k->call.n_outs && !c->bad; i++) {
        const tn_tensor *found = tn_value_as_tensor(k->call.outs[i]), *want = tn_value_as_tensor(wanted[i]);
        tn_tensors many = tn_value_as_tensors(k->call.outs[i]), many_wanted = tn_value_as_tensors(wanted[i]);
        if (found && want) compare_one(p, k, i, found, (const replay_tensor *)(const void *)want);
        for (int64_t j = 0; j < many.count && j < many_wanted.count; j++)
            if (many.data[j] && many_wanted.data[j])
                compare_one(p, k, i, many.data[j], (const replay_tensor *)(const void *)many_wanted.data[j]);
    }
}

static void play(replay_player *p, kernel_call *k, replay_cursor *c)
{
    int32_t status = TN_OK;
    p->error[0] = 0;
    if (k->status) { /* refused or failed when it was recorded: nothing to compare */
        p->passed_over++;
    } else if (place(p, k)) {
        replay_differs(p, k->number, k->op, "its arguments cannot be made: %s", p->error);
    } else if (run_rows(p, k, &status)) {
        if (!p->kernels_absent++) snprintf(p->first_absent, sizeof(p->first_absent), "%s", k->op);
    } else {
        p->kernels_played++;
        if (!status) status = p->stream->synchronize(p->self, p->call_device, p->call_stream);
        if (status)
            replay_differs(p, k->number, k->op, "status %d (%s), recorded was success", status, p->error);
        else
            compare_outputs(p, k, c);
    }
}

int replay_kernel(replay_player *p, replay_cursor *c)
{
    kernel_call k = {.number = replay_u64(c)};
    if (replay_u32(c) != p->index) return 0;
    read_call(p, c, &k);
    int bad = c->bad || !k.call.device || !k.call.stream;
    if (!bad) play(p, &k, c);
    if (bad || c->bad)
        snprintf(p->error, sizeof(p->error), "call %llu, %s: the record is damaged",
                 (unsigned long long)k.number, k.op);
    if (k.call.device) replay_end_call(p);
    return bad || c->bad ? -1 : 0;
}
