/* SPDX-License-Identifier: Apache-2.0 */
/* The same call on two devices; see call.h. */
#include "call.h"

#include <stdio.h>
#include <string.h>
#include "../calls/fill.h"

void call_shape(call_tensor *t, uint32_t rank, const int64_t *sizes)
{
    int64_t stride = 1;
    t->rank = rank;
    for (uint32_t d = rank; d-- > 0;) {
        t->sizes[d] = sizes[d];
        t->strides[d] = stride;
        stride *= sizes[d] ? sizes[d] : 1;
    }
}

/* ---- Tensors ------------------------------------------------------------------------------------------- */

#define BEHIND 5

/* Elements of the storage: those that the view reaches and, where it has an offset, some behind it. A kernel that writes past its
 * output changes these. */
static int64_t extent(const call_tensor *t)
{
    int64_t last = t->offset;
    for (uint32_t d = 0; d < t->rank; d++) {
        if (t->sizes[d] == 0) return 0;
        last += (t->sizes[d] - 1) * t->strides[d];
    }
    return last + 1 + (t->offset ? BEHIND : 0);
}

static tn_tensor *storage_of_values(tn_scope *s, const call_tensor *t, int64_t n)
{
    int64_t parts = tn_dtype_is_complex(t->dtype) ? 2 : 1;
    tn_dtype part = parts == 2 ? TN_DTYPE(TN_CODE_FLOAT, TN_DTYPE_BITS(t->dtype) / 2) : t->dtype;
    uint64_t size = (uint64_t)tn_dtype_bytes(part);
    char *data = tn_scope_memory(s, (uint64_t)(n * parts) * size + 1);
    for (int64_t i = 0; data && i < n * parts; i++) {
        if (t->integers)
            memcpy(data + (uint64_t)i * size, &t->integers[i % t->count], size);
        else
            fill_store(data + (uint64_t)i * size, part, t->values[i % t->count]);
    }
    return data ? tn_from_data(s, t->dtype, TN_INTS(n), data, TN_CPU) : NULL;
}

/* Seeds of a plan differ little, and the generator's first numbers are alike for such seeds: this spreads them
 * (the finalizer of SplitMix64). */
static uint64_t spread(uint64_t seed)
{
    seed += 0x9e3779b97f4a7c15u;
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111ebu;
    return seed ^ seed >> 31;
}

tn_tensor *call_make(tn_scope *s, const call_tensor *t, uint64_t seed, tn_device device)
{
    int64_t n = extent(t);
    const fill_wish wish = {.dtype = t->dtype,
                            .sizes = {&n, 1},
                            .low = t->low,
                            .high = t->high,
                            .step = t->step,
                            .seed = spread(seed)};
    tn_tensor *x = t->values || t->integers ? storage_of_values(s, t, n) : fill_tensor(s, &wish);
    if (!t->on_host && device != TN_CPU) x = tn_to_device(s, x, device, t->dtype);
    x = tn_as_strided(s, x, ((tn_ints){t->sizes, t->rank}), ((tn_ints){t->strides, t->rank}),
                      .storage_offset = t->offset);
    if (t->conjugated) x = tn__conj(s, x);
    return x;
}

static tn_value make_list(tn_scope *s, const call_tensor *t, uint32_t count, uint64_t seed, tn_device device)
{
    tn_tensor **list = tn_scope_memory(s, count * sizeof *list);
    for (uint32_t i = 0; list && i < count; i++) list[i] = call_make(s, t + i, seed + i * 104729u, device);
    return tn_value_tensors(list, count);
}

int call_arguments(tn_scope *s, const call_plan *p, tn_device device, tn_value *args)
{
    for (uint32_t i = 0; i < p->n_args; i++) {
        args[i] = p->args[i];
        uint64_t seed = p->seed + i * 7919u;
        if (args[i].tag == TN_TAG_POINTER)
            args[i] = args[i].count ? make_list(s, args[i].as.pointer, args[i].count, seed, device)
                                    : tn_value_tensor(call_make(s, args[i].as.pointer, seed, device));
        if (args[i].tag == TN_TAG_DEVICE) args[i] = tn_value_device(device);
    }
    return tn_scope_failed(s) != TN_OK;
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

typedef struct side {
    tn_scope *s;
    tn_value args[CALL_MAX_ARGS];
    tn_value outs[CALL_MAX_OUTS];
    uint32_t n_outs;
    int32_t status;
    int32_t way;
    check_watch watch;
    char error[240];
} side;

static void note_error(side *a)
{
    check_error_text(tn_scope_failed(a->s) ? tn_scope_error(a->s) : tn_last_error(), a->error,
                     sizeof a->error);
}

/* 0 if the call was made, even if it failed. */
static int call_on(check_target *t, const call_plan *p, tn_device device, side *out)
{
    memset(out, 0, sizeof *out);
    out->s = tn_scope_open(t->ctx);
    out->n_outs = tn_inspect_argument_count(t->ctx, p->op, 1);
    if (!out->s || out->n_outs > CALL_MAX_OUTS || call_arguments(out->s, p, device, out->args)) {
        note_error(out);
        return 1;
    }
    check_watch_begin(t, &out->watch);
    out->status = tn_scope_call(out->s, p->op, out->args, p->n_args, out->outs, out->n_outs);
    out->way = check_watch_end(t, &out->watch);
    if (out->way == CHECK_WAY_NATIVE &&
        !check_has_kernel(t, p->op, tn_interned(t->ctx, TN_DEVICE_TYPE(device)), 0))
        out->way = CHECK_WAY_NONE; /* no kernel was needed, so none ran */
    if (!out->status) out->status = tn_device_synchronize(t->ctx, device);
    if (out->status) note_error(out);
    return 0;
}

static int compare_output(const call_plan *p, side *a, side *b, uint32_t i, check_result *out)
{
    tn_tensor *got = tn_value_as_tensor(a->outs[i]), *want = tn_value_as_tensor(b->outs[i]);
    check_tolerance tolerance = p->tolerance;
    char what[128];
    if (!got || !want) return check_that(out, got == want, "%s: output %u is missing", p->name, i);
    if (p->positions && !tn_dtype_is_floating(tn_tensor_dtype(want)) && i > 0) return 1;
    if (tolerance.rtol < 0) tolerance = check_tolerance_of(tn_tensor_dtype(want));
    tolerance.signs = p->tolerance.signs;
    snprintf(what, sizeof what, a->n_outs > 1 ? "%s, output %u" : "%s", p->name, i);
    /* Compared in the scope of one side: an error of the other side must not show here. */
    return check_same(out, a->s, what, got, want, tolerance);
}

/* Where a call writes, the whole storage is compared: bytes between the elements must not change. */
static int compare_written(check_target *t, const call_plan *p, side *a, side *b, check_result *out)
{
    for (uint32_t i = 0; i < p->n_args; i++) {
        const call_tensor *x = p->args[i].tag == TN_TAG_POINTER ? p->args[i].as.pointer : NULL;
        tn_argument_info info = {.size = sizeof info};
        char what[128];
        if (!x || tn_inspect_argument(t->ctx, p->op, 0, i, &info) || !(info.flags & TN_ARG_WRITTEN)) continue;
        int64_t n = extent(x), one = 1;
        snprintf(what, sizeof what, "%s, the storage of '%s'", p->name, info.name);
        tn_tensor *got = tn_as_strided(a->s, a->args[i].as.tensor, ((tn_ints){&n, 1}), ((tn_ints){&one, 1}),
                                       .storage_offset = 0),
                  *want = tn_as_strided(b->s, b->args[i].as.tensor, ((tn_ints){&n, 1}), ((tn_ints){&one, 1}),
                                        .storage_offset = 0);
        check_tolerance tolerance = p->tolerance.rtol < 0 ? check_tolerance_of(x->dtype) : p->tolerance;
        tolerance.signs = p->tolerance.signs;
        if (!check_same(out, a->s, what, got, want, tolerance)) return 0;
    }
    return 1;
}

static void compare_sides(check_target *t, const call_plan *p, side *a, side *b, check_result *out)
{
    out->way = a->way;
    if (a->status && b->status && a->status == b->status) {
        check_skip(out, "refused by both: %s", b->error);
        return;
    }
    if (a->status || b->status) {
        check_fail(out, "%s: %s refuses: %s; %s %s", p->name, a->status ? t->name : t->other_name,
                   a->status ? a->error : b->error, a->status ? t->other_name : t->name, "gives a result");
        return;
    }
    for (uint32_t i = 0; i < a->n_outs; i++) {
        if (!compare_output(p, a, b, i, out)) return;
    }
    if (!compare_written(t, p, a, b, out)) return;
    if (a->way == CHECK_WAY_CPU) check_absent(out, "the CPU answers for %s", a->watch.fallbacks);
}

void call_compare(check_target *t, const call_plan *p, check_result *out)
{
    call_compare_plans(t, p, p, out);
}

void call_compare_plans(check_target *t, const call_plan *p, const call_plan *on_other, check_result *out)
{
    side a, b = {0};
    if (!t->other) {
        check_skip(out, "there is no other device to compare with");
        return;
    }
    if (call_on(t, p, t->device, &a)) {
        check_fail(out, "%s: its arguments could not be made on %s: %s", p->name, t->name, a.error);
    } else if (call_on(t, on_other, t->other, &b)) {
        check_fail(out, "%s: its arguments could not be made on %s: %s", p->name, t->other_name, b.error);
    } else if (b.way == CHECK_WAY_CPU) {
        check_skip(out, "%s has no kernel to compare with", t->other_name);
    } else {
        compare_sides(t, p, &a, &b, out);
    }
    tn_scope_close(a.s);
    tn_scope_close(b.s);
}
