/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel call. Each tensor gets the recorded bytes, so a difference is found where it arises: at the
 * recorded place of an allocation, or in a temporary one if the bytes were in memory of the program. Then
 * the plugin's rows are tried in order, as a host does.
 */
#include "replay.h"

#include "record_format.h"
#include "wire.h"

#include <stdlib.h>
#include <string.h>

typedef struct kernel_call {
    uint64_t number;
    int32_t status; /* recorded */
    char op[96];
    tn_call call;
    replay_tensor *tensors;
    replay_nest_in_file nest;
    replay_cursor host_calls;
    uint32_t n_host_calls;
} kernel_call;

/* ---- Reading ----------------------------------------------------------------------------------------- */

/* Streams of two devices may have the same handle. */
static const replay_handle *find_stream(const replay_player *p, const replay_handle *device,
                                        uint64_t recorded)
{
    for (size_t i = p->n_handles; device && i-- > 0;) {
        const replay_handle *h = &p->handles[i];
        if (h->kind == 's' && h->recorded == recorded && h->device == device->here) return h;
    }
    return NULL;
}

static void read_call(replay_player *p, replay_cursor *c, kernel_call *k)
{
    tn_call *call = &k->call;
    k->status = (int32_t)replay_u32(c);
    replay_text(c, k->op, sizeof(k->op));
    *call = (tn_call){.size = sizeof(*call), .flags = replay_u32(c)};
    call->threads = (int32_t)replay_u32(c);
    const replay_handle *device = replay_handle_find(p, 'd', replay_u64(c));
    const replay_handle *stream = find_stream(p, device, replay_u64(c));
    p->call_device = call->device = device ? device->here : NULL;
    p->call_stream = call->stream = stream ? stream->here : NULL;
    call->n_args = replay_u32(c);
    call->args = replay_values(p, c, call->n_args, &k->tensors);
    call->n_outs = replay_u32(c);
    call->outs = replay_values(p, c, call->n_outs, &k->tensors);
    if (replay_u32(c)) {
        replay_nest(p, c, &k->nest);
        call->nest = &k->nest.nest;
    }
    k->n_host_calls = replay_u32(c);
    k->host_calls = *c;
    for (uint32_t i = 0; i < k->n_host_calls && !c->bad; i++) {
        replay_u32(c);
        uint64_t count = replay_u64(c);
        replay_bytes(c, count < (1u << 20) ? count * 8 : UINT64_MAX);
    }
    call->host = &p->mini.host;
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

/* Writes recorded bytes into the memory of a tensor. */
static int upload(replay_player *p, const replay_tensor *t, uint64_t id)
{
    const replay_blob *blob = replay_find(p->file, id);
    if (!blob || blob->bytes > t->extent) return 0;
    if (t->desc.host) {
        memcpy(t->desc.host, blob->data, blob->bytes);
        return 0;
    }
    return p->copy->host_to_device(p->self, p->call_device, t->desc.allocation, t->desc.byte_offset,
                                   blob->data, NULL, blob->bytes, p->call_stream);
}

/* The allocation that holds all of an operand, or NULL. */
static const replay_handle *find_operand(replay_player *p, const kernel_call *k, uint32_t i)
{
    const tn_nest *n = &k->nest.nest;
    const tn_operand *o = &k->nest.operands[i];
    const replay_handle *h = replay_handle_at(p, k->nest.handles[i], o->byte_offset);
    uint64_t last = 0, step;
    for (uint32_t d = 0; h && n->numel && d < n->rank; d++) {
        if (o->strides[d] < 0 ||
            __builtin_mul_overflow((uint64_t)o->strides[d], (uint64_t)(n->sizes[d] - 1), &step) ||
            __builtin_add_overflow(last, step, &last))
            return NULL;
    }
    if (!h || !n->numel) return h;
    uint64_t room = h->bytes - (o->byte_offset - h->from), element = (uint64_t)tn_dtype_bytes(o->dtype);
    return element <= room && last <= room - element ? h : NULL;
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
        if (!h || t->recorded_offset - h->from > h->bytes ||
            h->bytes - (t->recorded_offset - h->from) < t->extent)
            return -1;
        t->desc.allocation = h->here;
        t->desc.byte_offset = replay_offset(h, t->recorded_offset);
        t->desc.host = h->host ? (char *)h->host + t->desc.byte_offset : NULL;
        if (upload(p, t, t->blob)) return -1;
    }
    for (uint32_t i = 0; i < k->nest.nest.n_operands; i++) {
        tn_operand *o = &k->nest.operands[i];
        if (o->flags & TN_OPERAND_IMMEDIATE) continue;
        const replay_handle *h = find_operand(p, k, i);
        if (!h) return -1;
        o->allocation = h->here;
        o->byte_offset = replay_offset(h, o->byte_offset);
        o->host = h->host ? (char *)h->host + o->byte_offset : NULL;
    }
    return p->stream->synchronize(p->self, p->call_device, p->call_stream);
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

/* The dtype by which rows are chosen: that of the first tensor; for nests, of the first input other than a
 * condition. */
static tn_dtype dtype_of(const kernel_call *k)
{
    tn_dtype found = 0;
    for (uint32_t i = k->nest.nest.n_outputs; k->call.nest && i < k->nest.nest.n_operands; i++)
        if (!found || found == TN_BOOL) found = k->nest.operands[i].dtype;
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

/* ---- Schemas ----------------------------------------------------------------------------------------- */

/* 1 if a value fits an argument of that type, "Tensor?[] x=None". Other types accept any value. */
static int may_be(const char *type, const tn_value *v)
{
    static const struct {
        const char *name;
        uint32_t single, list;
    } types[] = {{"Tensor", TN_TAG_TENSOR, TN_TAG_TENSORS},
                 {"int", TN_TAG_INT, TN_TAG_INTS},
                 {"float", TN_TAG_FLOAT, TN_TAG_FLOATS},
                 {"bool", TN_TAG_BOOL, TN_TAG_BOOLS},
                 {"str", TN_TAG_STRING, TN_TAG_STRINGS}};
    size_t length = strcspn(type, " "); /* of the type, without the name */
    const char *list = memchr(type, '[', length);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        size_t n = strlen(types[i].name);
        if (strncmp(type, types[i].name, n) || (type[n] != ' ' && !strchr("([?", type[n]))) continue;
        if (v->tag == TN_TAG_NONE) return memchr(type, '?', length) != NULL;
        return v->tag == (list ? types[i].list : types[i].single);
    }
    return 1;
}

/* The next argument or result after `at`, skipping "*"; NULL at the end. */
static const char *next_part(const char *at)
{
    int depth = 0;
    for (; *at && (depth || (*at != ',' && *at != ')')); at++)
        depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
    if (*at != ',') return NULL;
    at += 1 + strspn(at + 1, " ");
    return *at == '*' ? next_part(at) : at;
}

/* 1 if the values of the call have the types of the schema. A row for an older schema has fewer. */
static int matches(const char *schema, const tn_call *call)
{
    const char *at = strchr(schema, '('), *results = strstr(schema, "-> ");
    uint32_t n = 0;
    if (!at || !results) return 0;
    at += 1;
    if (*at == ')') at = NULL;
    if (at && *at == '*') at = next_part(at);
    for (; at; at = next_part(at), n++)
        if (n >= call->n_args || !may_be(at, &call->args[n])) return 0;
    results += 3;
    if (*results == '(') results++;
    if (*results == ')') return 1;
    for (n = 0; results; results = next_part(results), n++)
        if (n >= call->n_outs || (call->outs[n].tag != TN_TAG_NONE && !may_be(results, &call->outs[n])))
            return 0;
    return 1;
}

/* A row of another plugin may have other requirements than the recorded one. */
static int fits(const replay_player *p, const kernel_call *k, const tn_kernel_row *row, tn_dtype dtype)
{
    size_t length = strlen(k->op);
    if (!row->schema || !row->run || strncmp(row->schema, k->op, length) || row->schema[length] != '(')
        return 0;
    if (!matches(row->schema, &k->call)) return 0;
    const tn_dtype *d = row->dtypes;
    while (d && *d && *d != dtype) d++;
    if (d && !*d) return 0;
    for (const replay_tensor *t = k->tensors; t && !p->same; t = t->next) {
        if (row->strides != TN_STRIDES_ANY && !k->call.nest && !is_contiguous(&t->desc)) return 0;
        if (t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG) && !(row->flags & TN_ROW_LAZY_BITS)) return 0;
    }
    for (uint32_t i = k->nest.nest.n_outputs; k->call.nest && i < k->nest.nest.n_operands; i++) {
        tn_dtype other = k->nest.operands[i].dtype;
        int32_t wide = k->nest.operands[i].flags & TN_OPERAND_IMMEDIATE && row->flags & TN_ROW_WIDE_IMMEDIATE;
        if (other != dtype && other != TN_BOOL && !wide && !(row->flags & TN_ROW_CASTS)) return 0;
    }
    return 1;
}

/* Runs the rows that fit: the highest priority first, among equals the last one. -1: no row fits. */
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
    uint64_t bytes = record_extent(d);
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
        status = p->copy->device_to_host(p->self, p->call_device, copy, NULL, d->allocation, d->byte_offset,
                                         bytes, p->call_stream);
    if (!status) status = p->stream->synchronize(p->self, p->call_device, p->call_stream);
    if (status)
        replay_differs(p, k->number, k->op, "output %u cannot be read: %s", i, mini_host_error);
    else
        replay_compare(p, k->number, k->op, i, d, copy, &want->desc, blob->data);
}

/* The plugin has no such kernel: gives the outputs what the recorded one left there, for the calls behind it. */
static void take_one(replay_player *p, const kernel_call *k, uint32_t i, const tn_tensor *found,
                     const replay_tensor *want)
{
    const replay_tensor *t = (const replay_tensor *)(const void *)found;
    if (t->extent == want->extent && upload(p, t, want->blob))
        replay_differs(p, k->number, k->op, "output %u cannot be written: %s", i, mini_host_error);
}

typedef void output_fn(replay_player *p, const kernel_call *k, uint32_t i, const tn_tensor *found,
                       const replay_tensor *want);

static void each_output(replay_player *p, const kernel_call *k, replay_cursor *c, output_fn *visit)
{
    replay_tensor *list = NULL;
    uint32_t n = replay_u32(c);
    const tn_value *wanted = replay_values(p, c, n, &list);
    for (uint32_t i = 0; i < n && i < k->call.n_outs && !c->bad; i++) {
        const tn_tensor *found = tn_value_as_tensor(k->call.outs[i]), *want = tn_value_as_tensor(wanted[i]);
        tn_tensors many = tn_value_as_tensors(k->call.outs[i]), many_wanted = tn_value_as_tensors(wanted[i]);
        if (found && want) visit(p, k, i, found, (const replay_tensor *)(const void *)want);
        for (int64_t j = 0; j < many.count && j < many_wanted.count; j++)
            if (many.data[j] && many_wanted.data[j])
                visit(p, k, i, many.data[j], (const replay_tensor *)(const void *)many_wanted.data[j]);
    }
}

static void play(replay_player *p, kernel_call *k, replay_cursor *c)
{
    int32_t status = TN_OK;
    mini_host_error[0] = 0;
    if (k->status) { /* refused or failed when it was recorded: nothing to compare */
        p->passed_over++;
    } else if (place(p, k)) {
        replay_differs(p, k->number, k->op, "its arguments cannot be made: %s", mini_host_error);
    } else if (run_rows(p, k, &status)) {
        if (!p->kernels_absent++) snprintf(p->first_absent, sizeof(p->first_absent), "%s", k->op);
        each_output(p, k, c, take_one);
    } else {
        p->kernels_played++;
        if (!status) status = p->stream->synchronize(p->self, p->call_device, p->call_stream);
        if (status)
            replay_differs(p, k->number, k->op, "status %d (%s), recorded was success", status,
                           mini_host_error);
        else
            each_output(p, k, c, compare_one);
    }
}

int replay_kernel(replay_player *p, replay_cursor *c)
{
    kernel_call k = {.number = replay_u64(c)};
    if (replay_u32(c) != p->index) return 0;
    read_call(p, c, &k);
    snprintf(p->now, sizeof(p->now), "call %llu, %s", (unsigned long long)k.number, k.op);
    int bad = c->bad || !k.call.device || !k.call.stream;
    if (!bad) play(p, &k, c);
    if (bad || c->bad)
        snprintf(mini_host_error, sizeof(mini_host_error), "call %llu, %s: the record is damaged",
                 (unsigned long long)k.number, k.op);
    replay_end_call(p);
    return bad || c->bad ? -1 : 0;
}
