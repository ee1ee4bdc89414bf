/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 1, far elements: a tensor whose second row lies 4 GiB behind its first, or one that begins 4 GiB behind the
 * beginning of its storage. So the offset of an element in bytes does not fit into 32 bits, nor, with elements of one byte,
 * its number. The results are compared with those of the same elements side by side. Only a few pages of
 * the memory are used; devices with too little of it are passed over.
 */
#include "sources.h"
#include "words.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/plugin.h>

#define FAR_BYTES ((INT64_C(1) << 32) + 4096)

/* The first argument is the tensor with far rows. */
static const struct {
    const char *op, *arguments;
    tn_dtype dtype;
} calls[] = {
    {"prim::fill", "x2,3 f1.5", TN_FLOAT32},
    {"prim::fill", "x2,3 n5", TN_UINT8},
    {"prim::copy", "x2,3 x2,3", TN_FLOAT32},
    {"prim::copy", "x2,3 x2,3", TN_UINT8},
    {"aten::add.Tensor", "q2,3 q2,3 s1", TN_FLOAT32},
    {"aten::exp", "x2,3", TN_FLOAT32},
    {"aten::relu_", "x2,3", TN_FLOAT32},
    {"aten::sum", "q2,3 -", TN_FLOAT32},
    {"aten::sum.dim_IntList", "q2,3 i0 b0 -", TN_FLOAT32},
    {"aten::cumsum", "q2,3 n0 -", TN_FLOAT32},
    {"aten::gather", "q2,3 n0 z2,3:2 b0", TN_FLOAT32},
    {"aten::gather", "x2,3 n0 z2,3:2 b0", TN_UINT8},
    {"aten::index_select", "q2,3 n0 z4:2", TN_FLOAT32},
    {"aten::embedding", "q2,3 z4:2 n-1 b0 b0", TN_FLOAT32},
    {"aten::scatter_add_", "q2,3 n0 z2,3:2 q2,3", TN_FLOAT32},
    {"aten::mm", "q2,3 q3,4", TN_FLOAT32},
    {"aten::sort.stable", "q2,3 b1 n0 b0", TN_FLOAT32},
    {"aten::_softmax", "x2,3 n0 b0", TN_FLOAT32},
};

/* The elements of `near`, of two dimensions, with far rows or, with `behind`, far from the beginning of their memory.
 * NULL and a skipped or failed case. */
static tn_tensor *move_far(check_target *t, tn_scope *s, tn_tensor *near, int behind, check_result *out)
{
    int64_t bytes = tn_dtype_bytes(tn_tensor_dtype(near)), columns = tn_tensor_sizes(near)[1];
    int64_t distance = (INT64_C(1) << 32) / bytes;
    tn_tensor *room =
        tn_empty(s, TN_INTS(FAR_BYTES / bytes), .dtype = tn_tensor_dtype(near), .device = t->device);
    if (tn_scope_failed(s) == TN_E_OUT_OF_MEMORY) {
        check_skip(out, "the device has too little memory");
        return NULL;
    }
    tn_tensor *far = tn_as_strided(s, room, TN_INTS(2, columns), TN_INTS(behind ? columns : distance, 1),
                                   .storage_offset = behind ? distance : 0);
    return far ? tn_copy_(s, far, near) : NULL;
}

static void run_in(check_target *t, const check_case *c, tn_scope *s, int behind, check_result *out)
{
    const char *op = calls[c->number].op;
    words w = {.dtype = calls[c->number].dtype};
    call_plan p = {.op = tn_operator_find(t->ctx, op), .name = op, .seed = check_seed(t, c)};
    tn_value args[CALL_MAX_ARGS], want[CALL_MAX_OUTS], got[CALL_MAX_OUTS];
    uint32_t n = tn_inspect_argument_count(t->ctx, p.op, 1);
    words_write(&w, &p, calls[c->number].arguments);
    for (uint32_t i = 0; i < p.n_args; i++) {
        if (w.tensors[i].dtype != TN_UINT8) continue;
        w.tensors[i].low = 1; /* the words are about floats */
        w.tensors[i].high = 200;
    }
    if (call_arguments(s, &p, t->device, args)) return;
    tn_tensor *far = move_far(t, s, tn_value_as_tensor(args[0]), behind, out);
    if (!far || tn_scope_call(s, p.op, args, p.n_args, want, n)) return;
    args[0] = tn_value_tensor(far);
    if (tn_scope_call(s, p.op, args, p.n_args, got, n)) return;
    for (uint32_t i = 0; i < n && out->outcome == CHECK_PASSED; i++) {
        char what[160];
        tn_tensor *a = tn_clone(s, tn_value_as_tensor(got[i])), *b = tn_value_as_tensor(want[i]);
        snprintf(what, sizeof what, "%s of a tensor %s, output %u", op,
                 behind ? "that begins 4 GiB behind its storage" : "whose rows are 4 GiB apart", i);
        if (a && b) check_same(out, s, what, a, b, check_tolerance_of(tn_tensor_dtype(b)));
    }
}

/* With MALLOC_PERTURB_ the C library writes to all that it allocates, which would use 4 GiB of pages. */
static void let_malloc_fill(int on)
{
    const char *byte = getenv("MALLOC_PERTURB_");
    if (byte) mallopt(M_PERTURB, on ? atoi(byte) : 0);
}

static void run(check_target *t, const check_case *c, check_result *out)
{
    let_malloc_fill(0);
    for (int behind = 0; behind < 2 && out->outcome == CHECK_PASSED; behind++) {
        tn_scope *s = tn_scope_open(t->ctx);
        run_in(t, c, s, behind, out);
        if (tn_scope_failed(s) && out->outcome == CHECK_PASSED)
            check_fail_with_error(out, s, calls[c->number].op);
        tn_scope_close(s);
    }
    tn_memory_empty_cache(t->ctx, t->device);
    let_malloc_fill(1);
}

static void run_too_small(check_target *t, const check_case *c, check_result *out)
{
    check_skip(out, "the device has less than 12 GiB or no allocation of 4 GiB, or a sanitizer watches");
}

static int is_too_small(const check_target *t)
{
    const tn_device_facts *f = &t->facts;
    return TN_SANITIZER || (f->total_memory && f->total_memory < 3 * (uint64_t)FAR_BYTES) ||
           (f->max_allocation && f->max_allocation < (uint64_t)FAR_BYTES) ||
           (f->max_binding_range && f->max_binding_range < (uint64_t)FAR_BYTES);
}

void check_far_cases(check_target *t, check_list *list)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        uint32_t op = tn_operator_find(t->ctx, calls[i].op);
        if (!op || !check_has_dtype(t, calls[i].dtype) || !check_has_kernel(t, op, t->type, calls[i].dtype))
            continue;
        check_add(list,
                  &(check_case){.tier = 1,
                                .tags = CHECK_TAG_OPTIONAL,
                                .run = is_too_small(t) ? run_too_small : run,
                                .number = (int64_t)i},
                  "1/far/%s/%s", calls[i].op, tn_dtype_name(calls[i].dtype));
    }
}
