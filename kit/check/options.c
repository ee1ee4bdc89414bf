/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 1, options: each text, float and scalar option and each dimension of each operator that the plugin has a
 * kernel for, at values other than the default. A kernel that ignores an option gives the result of another
 * value. And operators on exponentials with large inputs: their kernels must subtract the maximum first.
 *
 * Pointwise operators, reductions and scans take their arguments from table.c. The calls of others are listed
 * here in words (words.h); a word f, s, t or d without a value is what is tried.
 */
#include "table.h"
#include "words.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *op, *arguments;
} calls[] = {
    {"aten::native_layer_norm", "x4,16 i16 x16 x16 f"},
    {"aten::_fused_rms_norm", "x4,16 i16 x16 f"},
    {"aten::native_group_norm", "x2,6,10 x6 x6 n2 n6 n10 n3 f"},
    {"aten::native_batch_norm", "x4,3,5 x3 x3 x3 p3 b0 f.1 f"},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "x1,2,5,8 x1,2,7,8 x1,2,7,8 f0 b0 - f"},
    {"aten::smooth_l1_loss", "x40 x40 n1 f"},
    {"aten::huber_loss", "x40 x40 n1 f"},
    {"aten::cross_entropy_loss", "x5,4 p5,4 - n1 n-100 f"},
    {"aten::binary_cross_entropy_with_logits", "x5,4 p5,4 - - n1"},
    {"aten::margin_ranking_loss", "x40 x40 x40 f n1"},
    {"aten::hinge_embedding_loss", "x40 x40 f n1"},
    {"aten::_cdist_forward", "x5,4 x6,4 f -"},
    {"aten::searchsorted.Tensor", "o9 o9 b0 b0 t -"},
    {"aten::addmm", "x5,7 x5,4 x4,7 s s"},
    {"aten::baddbmm", "x2,5,7 x2,5,4 x2,4,7 s s"},
    {"aten::addmv", "x5 x5,4 x4 s s"},
    {"aten::scatter_reduce_.two", "x5,4 n0 z3,4 x3,4 t b1"},
    {"aten::index_reduce_", "x5,4 n0 z3 x3,4 t b1"},
    {"aten::index_add_", "x5,4 n0 z3 x3,4 s"},
    /* Dimensions */
    {"aten::_softmax", "x3,4,5 d b0"},
    {"aten::_log_softmax", "x3,4,5 d b0"},
    {"aten::_softmax_backward_data", "x3,4,5 p3,4,5 d e"},
    {"aten::_log_softmax_backward_data", "x3,4,5 x3,4,5 d e"},
    {"aten::glu", "x4,6,8 d"},
    {"aten::linalg_cross", "x3,3,3 x3,3,3 d"},
    {"aten::gather", "x4,4,4 d z4,4,4 b0"},
    {"aten::scatter_add_", "x4,4,4 d z4,4,4 x4,4,4"},
    {"aten::index_select", "x4,4,4 d z4"},
    {"aten::index_add_", "x4,4,4 d z4 x4,4,4 s1"},
    {"aten::index_fill_.int_Scalar", "x4,4,4 d z4 s1"},
    {"aten::cat", "c4,4,4 d"},
    {"aten::flip", "x3,4,5 d"},
    {"aten::roll", "x3,4,5 i1 d"},
    {"aten::sort.stable", "x3,4,5 b1 d b0"},
    {"aten::topk", "x3,4,5 n2 d b1 b1"},
    {"aten::kthvalue", "x3,4,5 n2 d b0"},
    {"aten::median.dim", "x3,4,5 d b0"},
    {"aten::nanmedian.dim", "x3,4,5 d b0"},
    {"aten::mode", "z3,4,5 d b0"},
    {"aten::unique_dim", "z4,4,4 d b1 b1 b1"},
};

/* In these the greatest exponent is subtracted before the exponentials, which would overflow. */
static const struct {
    const char *op, *arguments;
} large_calls[] = {
    {"aten::_softmax", "m4,33 n-1 b0"},
    {"aten::_log_softmax", "m4,33 n-1 b0"},
    {"aten::logcumsumexp", "m4,33 n-1"},
    {"aten::_logcumsumexp", "m4,33 n-1"},
    {"aten::cross_entropy_loss", "m5,4 p5,4 - n1 n-100 f0"},
    {"aten::binary_cross_entropy_with_logits", "m5,4 p5,4 - - n1"},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "m1,2,5,8 m1,2,7,8 x1,2,7,8 f0 b0 - f.25"},
};

/* The texts that an option may have, by its name. */
static const struct {
    const char *name, *texts;
} vocabulary[] = {
    {"approximate", "none tanh"},
    {"rounding_mode", "trunc floor"},
    {"reduce", "sum prod mean amax amin"},
    {"side", "left right"},
    {"UPLO", "L U"},
    {"mode", "constant reflect replicate circular"},
    {"indexing", "ij xy"},
};

/* No operator has these as a default, and all accept them: shares, slopes, weights. */
static const double floats[] = {0.25, 0.375};

static const int64_t dims[] = {0, 1, 2, -2};

enum { TEXT, NUMBER, DIM, DIM_LIST, NOTHING };

typedef struct option_case {
    table_case table;      /* of operators of the table */
    const char *arguments; /* of the others */
    int kind;              /* of the value that is tried */
    const char *text;
    double number;
    int64_t dim;
    uint32_t argument;
} option_case;

/* ---- The case ------------------------------------------------------------------------------------------ */

static void run(check_target *t, const check_case *c, check_result *out)
{
    const option_case *o = c->data;
    words d = {.dtype = o->table.dtype};
    call_plan p = {
        .op = o->table.op, .name = o->table.name, .seed = check_seed(t, c), .tolerance = {.rtol = -1}};
    if (o->arguments) {
        words_write(&d, &p, o->arguments);
    } else {
        int special = strstr(o->table.name, "nan_to_num") != NULL;
        table_plan(t, &o->table, special ? TABLE_SPECIAL : TABLE_CONTIGUOUS, &p, d.tensors);
    }
    if (o->kind == TEXT) p.args[o->argument] = tn_value_string(o->text);
    if (o->kind == NUMBER) p.args[o->argument] = tn_value_float(o->number);
    if (o->kind == DIM) p.args[o->argument] = tn_value_int(o->dim);
    if (o->kind == DIM_LIST) p.args[o->argument] = tn_value_ints(&o->dim, 1);
    call_compare(t, &p, out);
}

/* ---- The list ------------------------------------------------------------------------------------------ */

static void add_case(check_list *list, const option_case *o, const char *option, const char *value)
{
    option_case *data = check_memory(list, sizeof *data);
    *data = *o;
    check_add(list, &(check_case){.tier = 1, .tags = CHECK_TAG_OPTIONAL, .run = run, .data = data},
              "1/options/%s/%s=%s", o->table.name, option, value);
}

static void add_texts(check_list *list, option_case o, const char *option)
{
    for (size_t i = 0; i < sizeof vocabulary / sizeof *vocabulary; i++) {
        if (strcmp(vocabulary[i].name, option)) continue;
        for (const char *at = vocabulary[i].texts; *at; at = words_next(at)) {
            o.kind = TEXT;
            o.text = check_text(list, "%.*s", (int)strcspn(at, " "), at);
            add_case(list, &o, option, o.text);
        }
    }
}

static void add_numbers(check_list *list, option_case o, const char *option)
{
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        char value[32];
        snprintf(value, sizeof value, "%g", floats[i]);
        o.kind = NUMBER;
        o.number = floats[i];
        add_case(list, &o, option, value);
    }
}

/* Tensors of the table have two dimensions, the others at least three. */
static void add_dims(check_list *list, option_case o, const tn_argument_info *a)
{
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        char value[32];
        if (!o.arguments && dims[i] > 1) continue;
        snprintf(value, sizeof value, "%lld", (long long)dims[i]);
        o.kind = a->flags & TN_ARG_LIST ? DIM_LIST : DIM;
        o.dim = dims[i];
        add_case(list, &o, a->name, value);
    }
}

/* "s", "f", "t" and "d" are tried, "s1" and "f.1" are not. */
static int is_tried(const char *arguments, uint32_t i)
{
    for (; i; i--) arguments = words_next(arguments);
    return strchr("sftd", *arguments) && *arguments && (!arguments[1] || arguments[1] == ' ');
}

static void add_operator(check_target *t, check_list *list, const option_case *o)
{
    for (uint32_t i = 0; i < tn_inspect_argument_count(t->ctx, o->table.op, 0); i++) {
        tn_argument_info a = {.size = sizeof a};
        option_case one = *o;
        if (tn_inspect_argument(t->ctx, o->table.op, 0, i, &a) || i >= CALL_MAX_ARGS) continue;
        if (o->arguments && !is_tried(o->arguments, i)) continue;
        one.argument = i;
        if (!strcmp(a.name, "dim") || !strcmp(a.name, "dims"))
            add_dims(list, one, &a);
        else if (a.flags & TN_ARG_LIST)
            continue;
        else if (!strncmp(a.type, "str", 3))
            add_texts(list, one, a.name);
        else if (!strncmp(a.type, "float", 5) ||
                 (!strncmp(a.type, "Scalar", 6) && strncmp(a.type, "ScalarType", 10)))
            add_numbers(list, one, a.name);
    }
}

static void add_large(check_target *t, check_list *list)
{
    static const tn_dtype dtypes[] = {TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64};
    for (size_t i = 0; i < sizeof large_calls / sizeof *large_calls; i++) {
        for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
            uint32_t op = tn_operator_find(t->ctx, large_calls[i].op);
            if (!op || !check_has_kernel(t, op, t->type, dtypes[k])) continue;
            option_case *o = check_memory(list, sizeof *o);
            *o = (option_case){.table = {.op = op, .name = large_calls[i].op, .dtype = dtypes[k]},
                               .arguments = large_calls[i].arguments,
                               .kind = NOTHING};
            check_add(list, &(check_case){.tier = 1, .tags = CHECK_TAG_OPTIONAL, .run = run, .data = o},
                      "1/large-inputs/%s/%s", o->table.name, tn_dtype_name(o->table.dtype));
        }
    }
}

void check_option_cases(check_target *t, check_list *list)
{
    add_large(t, list);
    if (!check_has_dtype(t, TN_FLOAT32)) return;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        option_case o = {
            .table = {.op = tn_operator_find(t->ctx, calls[i].op), .name = calls[i].op, .dtype = TN_FLOAT32},
            .arguments = calls[i].arguments};
        if (o.table.op && check_has_kernel(t, o.table.op, t->type, TN_FLOAT32)) add_operator(t, list, &o);
    }
    for (uint32_t i = 0; i < tn_inspect_operator_count(t->ctx); i++) {
        tn_operator_info op = {.size = sizeof op};
        if (tn_inspect_operator(t->ctx, i, &op) || op.base != op.number) continue;
        if (strcmp(op.kind, "pointwise") && strcmp(op.kind, "reduction") && strcmp(op.kind, "scan")) continue;
        option_case o = {.table = {op.number, op.name, op.kind, TN_FLOAT32}};
        if (check_has_kernel(t, op.number, t->type, TN_FLOAT32)) add_operator(t, list, &o);
    }
}
