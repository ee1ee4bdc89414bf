/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 1, the nine kernels whose arguments cannot be derived from the schema: fill, copy, iota, random,
 * gather, scatter, bmm, sort, nonzero. Each family makes its arguments for a dtype and a class.
 */
#include "call.h"
#include "sources.h"

#include <math.h>
#include <string.h>

enum {
    CONTIGUOUS,
    TRANSPOSED,
    SLICED,
    BROADCAST,
    CHANNELS_LAST,
    NO_DIMENSIONS,
    EMPTY,
    LARGE,
    SPECIAL,
    OFFSET,
    CLASSES
};
static const char *const class_names[CLASSES] = {"contiguous",    "transposed", "sliced", "broadcast",
                                                 "channels-last", "0-dim",      "empty",  "large",
                                                 "special",       "offset"};
#define ALL     0x3ffu /* as far as a dtype has special values */
#define WRITTEN 0x3f7u /* a written tensor cannot be broadcast */

typedef struct family family;
typedef struct family_case {
    const family *family;
    const char *variant; /* text between dtype and class, or NULL */
    tn_dtype dtype, source;
    int64_t number; /* of the variant */
} family_case;

/* A call in preparation: the plan and the tensors that it may need. */
typedef struct draft {
    call_plan *plan;
    call_tensor tensors[4];
    double values[512]; /* room for indices */
} draft;

struct family {
    const char *kernel, *op;
    void (*build)(draft *d, const family_case *c, int64_t class);
    uint32_t classes; /* bits */
    uint32_t tags;
};

static int inexact(tn_dtype dtype)
{
    return tn_dtype_is_floating(dtype) || tn_dtype_is_complex(dtype);
}

/* ---- Tensors ------------------------------------------------------------------------------------------- */

static void contents(call_tensor *x, tn_dtype dtype)
{
    int is_signed = TN_DTYPE_CODE(dtype) == TN_CODE_INT;
    *x = (call_tensor){.dtype = dtype, .low = -3, .high = 3, .step = 0.25};
    if (inexact(dtype)) return;
    x->low = is_signed ? -9 : 0;
    x->high = dtype == TN_BOOL ? 2 : is_signed ? 10 : 20;
    x->step = 0;
}

/* The shape of a class, and its strides. */
static void view(call_tensor *x, int64_t class)
{
    static const int64_t plain[] = {5, 33}, sliced[] = {5, 17}, pictures[] = {2, 3, 4, 5}, none[] = {0, 5},
                         large[] = {19, 1061}, whole[] = {8, 32};
    call_shape(x, 2, plain);
    if (class == TRANSPOSED) memcpy(x->strides, (const int64_t[]){1, 5}, 16);
    if (class == SLICED) {
        call_shape(x, 2, sliced);
        memcpy(x->strides, (const int64_t[]){71, 2}, 16);
        x->offset = 3;
    }
    if (class == BROADCAST) memcpy(x->strides, (const int64_t[]){0, 1}, 16);
    if (class == CHANNELS_LAST) {
        call_shape(x, 4, pictures);
        memcpy(x->strides, (const int64_t[]){60, 1, 15, 3}, 32);
    }
    if (class == NO_DIMENSIONS) call_shape(x, 0, NULL);
    if (class == EMPTY) call_shape(x, 2, none);
    if (class == LARGE) call_shape(x, 2, large);
    if (class == OFFSET) call_shape(x, 2, whole);
    if (class == OFFSET) x->offset = 1; /* aligned to an element only */
}

static void special_contents(call_tensor *x)
{
    static const double values[] = {3,         (double)NAN, -1,          INFINITY, -0.0, 0.0,
                                    -INFINITY, 2,           (double)NAN, 2,        -1};
    x->values = values;
    x->count = sizeof values / sizeof *values;
}

static call_tensor *tensor(draft *d, uint32_t i, tn_dtype dtype, int64_t class)
{
    call_tensor *x = &d->tensors[i];
    contents(x, dtype);
    view(x, class);
    if (class == SPECIAL) special_contents(x);
    return x;
}

static void give(draft *d, tn_value v)
{
    d->plan->args[d->plan->n_args++] = v;
}

static void give_tensor(draft *d, const call_tensor *x)
{
    give(d, call_argument(x));
}

/* ---- fill, copy, iota, random -------------------------------------------------------------------------- */

static void build_fill(draft *d, const family_case *c, int64_t class)
{
    static const double pair[] = {-1.5, 0.75};
    give_tensor(d, tensor(d, 0, c->dtype, class));
    d->plan->tolerance.signs = 1;
    give(d, class == SPECIAL                 ? tn_value_float(c->number ? -0.0 : (double)NAN)
            : tn_dtype_is_complex(c->dtype)  ? tn_value_complex(pair)
            : tn_dtype_is_floating(c->dtype) ? tn_value_float(-1.5)
            : c->dtype == TN_BOOL            ? tn_value_bool(1)
                                             : tn_value_int(7));
}

/* Numbers that are rounded, to even where they lie in the middle, or overflow in float16. */
static void exact_casts(draft *d, call_tensor *from)
{
    static const double values[] = {1.00048828125, 1.00146484375, 1.00390625, 1.01171875, 0.1,   -0.3, 70000,
                                    65519.99,      65520,         -65536,     1.0005,     3.333, 1e-3, 2.7};
    from->values = values;
    from->count = sizeof values / sizeof *values;
    d->plan->tolerance = (check_tolerance){0, 0, 1};
}

/* The target has other strides than the source. */
static void build_copy(draft *d, const family_case *c, int64_t class)
{
    static const int64_t target_class[CLASSES] = {TRANSPOSED,    CONTIGUOUS,    SLICED, CONTIGUOUS,
                                                  CHANNELS_LAST, NO_DIMENSIONS, EMPTY,  LARGE,
                                                  CONTIGUOUS,    OFFSET};
    static const int64_t tall[] = {301, 67};
    call_tensor *to = tensor(d, 0, c->dtype, target_class[class]), *from = tensor(d, 1, c->source, class);
    if (class == SLICED) from->strides[0] = 37;
    if (class == OFFSET) from->offset = 2;
    if (class == LARGE) { /* from columns to rows, more than any tile in both dimensions */
        call_shape(to, 2, tall);
        call_shape(from, 2, tall);
        memcpy(from->strides, (const int64_t[]){1, tall[0]}, 16);
    }
    if (class == CHANNELS_LAST) call_shape(from, 4, from->sizes);
    if (class == BROADCAST) call_shape(from, 1, (const int64_t[]){33});
    if (c->source != c->dtype && class != SPECIAL) {
        from->low = 0;
        from->high = c->source == TN_BOOL ? 2 : 9;
        from->step = inexact(c->dtype) || c->dtype == TN_BOOL ? 0.25 : 1;
        if (tn_dtype_is_floating(c->source) && tn_dtype_is_floating(c->dtype)) exact_casts(d, from);
    }
    d->plan->tolerance.signs = 1;
    give_tensor(d, to);
    give_tensor(d, from);
}

/* With a number: from an odd integer that float64 does not hold, in odd steps. */
static void build_iota(draft *d, const family_case *c, int64_t class)
{
    give_tensor(d, tensor(d, 0, c->dtype, class));
    if (c->number) {
        give(d, tn_value_int(INT64_C(-9007199254740995)));
        give(d, tn_value_int(INT64_C(9007199254740993)));
        return;
    }
    give(d, inexact(c->dtype) ? tn_value_float(-2.5) : tn_value_int(3));
    give(d, inexact(c->dtype) ? tn_value_float(0.25) : tn_value_int(2));
}

typedef struct distribution {
    const char *name;
    double a, b;
    int whole;         /* also for integers */
    double rtol, atol; /* -1: the dtype's; otherwise wider, for functions near their steps or poles */
} distribution;
/* In the order of TN_RANDOM_... . */
static const distribution distributions[] = {
    {"uniform", -1, 2, 0, 0, 0},       {"normal", 0.5, 2, 0, -1, 0},       {"bits", 3, 1000, 1, 0, 0},
    {"bernoulli", 0.3, 0, 1, 0, 0},    {"exponential", 1.5, 0, 0, -1, 0},  {"geometric", 0.2, 0, 1, 0, 1},
    {"cauchy", 0.5, 2, 0, 1e-2, 1e-3}, {"log-normal", 0.1, 0.5, 0, -1, 0},
};
#define DISTRIBUTIONS (int64_t)(sizeof distributions / sizeof *distributions)

/* Where the counters start: far below 2^32, so that they pass it, and with both words used. */
static const struct {
    const char *name; /* behind that of the distribution */
    int64_t offset;
} starts[] = {{"", 7}, {"-past-32-bits", INT64_C(0xfffffffd)}, {"-far", INT64_C(0x123456789abcd)}};
#define STARTS (int64_t)(sizeof starts / sizeof *starts)

static void build_random(draft *d, const family_case *c, int64_t class)
{
    int64_t number = c->number / STARTS;
    const distribution *r = &distributions[number];
    int whole = number == TN_RANDOM_BITS;
    give_tensor(d, tensor(d, 0, c->dtype, class));
    give(d, tn_value_int(number));
    give(d, whole ? tn_value_int((int64_t)r->a) : tn_value_float(r->a));
    give(d, whole ? tn_value_int((int64_t)r->b) : tn_value_float(r->b));
    give(d, tn_value_int(123456789012345));
    give(d, tn_value_int(starts[c->number % STARTS].offset));
    d->plan->tolerance = (check_tolerance){r->rtol, r->atol, 0};
}

/* ---- gather, scatter ----------------------------------------------------------------------------------- */

static int64_t dim_of_class(int64_t class)
{
    return class == TRANSPOSED || class == SLICED ? 0 : 1;
}

/* Positions along `dim` of x; with `apart` no two name the same element. */
static call_tensor *positions(draft *d, uint32_t i, const call_tensor *x, int64_t dim, int apart)
{
    call_tensor *index = &d->tensors[i];
    *index = (call_tensor){.dtype = TN_INT64};
    call_shape(index, x->rank, x->sizes);
    if (x->rank < 2 || x->sizes[0] == 0) {
        index->high = 1;
        return index;
    }
    if (x->rank == 2 && x->sizes[1] < 100) index->sizes[1] = x->sizes[1] - 3;
    index->high = (double)x->sizes[dim];
    call_shape(index, x->rank, index->sizes);
    /* Where elements are drawn their order is free: columns first. */
    if (!apart && x->rank == 2 && x->strides[0] != index->strides[0]) {
        index->strides[0] = 1;
        index->strides[1] = index->sizes[0];
    }
    if (!apart || x->rank != 2) return index;
    int64_t rows = index->sizes[0], columns = index->sizes[1];
    for (int64_t k = 0; k < rows * columns && k < 512; k++)
        d->values[k] = dim ? (double)((k % columns * 2 + k / columns) % x->sizes[1])
                           : (double)((k / columns + k % columns) % x->sizes[0]);
    index->values = d->values;
    index->count = 512;
    return index;
}

static void build_gather(draft *d, const family_case *c, int64_t class)
{
    const call_tensor *x = tensor(d, 0, c->dtype, class);
    int64_t dim = x->rank ? dim_of_class(class) : 0;
    d->plan->tolerance.signs = 1;
    give_tensor(d, x);
    give(d, tn_value_int(dim));
    give_tensor(d, positions(d, 1, x, dim, 0));
}

/* self, dim, index, and with `source` a source. */
static void begin_scatter(draft *d, const family_case *c, int64_t class, int apart, int source)
{
    call_tensor *x = tensor(d, 0, c->dtype, class);
    int64_t dim = x->rank ? dim_of_class(class) : 0;
    const call_tensor *index = positions(d, 1, x, dim, apart);
    give_tensor(d, x);
    give(d, tn_value_int(dim));
    give_tensor(d, index);
    if (!source) return;
    contents(&d->tensors[2], c->dtype);
    if (class == SPECIAL) special_contents(&d->tensors[2]);
    /* The source may be larger than the index. */
    const int64_t larger[] = {index->sizes[0] + 1, index->sizes[1] + 2};
    call_shape(&d->tensors[2], index->rank, class == SLICED ? larger : index->sizes);
    give_tensor(d, &d->tensors[2]);
}

static void build_scatter(draft *d, const family_case *c, int64_t class)
{
    begin_scatter(d, c, class, 1, 1);
}

static void build_scatter_value(draft *d, const family_case *c, int64_t class)
{
    begin_scatter(d, c, class, 0, 0);
    give(d, inexact(c->dtype) ? tn_value_float(class == SPECIAL ? (double)NAN : 1.5) : tn_value_int(1));
}

static void build_scatter_add(draft *d, const family_case *c, int64_t class)
{
    begin_scatter(d, c, class, 0, 1);
}

static const char *const reductions[] = {"sum", "prod", "mean", "amax", "amin"};

static void build_scatter_reduce(draft *d, const family_case *c, int64_t class)
{
    static const double factors[] = {1, 1, 2, 1, 0.5, 1, 1};
    begin_scatter(d, c, class, 0, 1);
    if (c->number % 5 == 1 && inexact(c->dtype)) {
        d->tensors[2].values = d->tensors[0].values = factors;
        d->tensors[2].count = d->tensors[0].count = 7;
    }
    give(d, tn_value_string(reductions[c->number % 5]));
    give(d, tn_value_bool(c->number < 5));
}

/* ---- bmm, sort, nonzero -------------------------------------------------------------------------------- */

static void factor(call_tensor *x, tn_dtype dtype, uint32_t rank, int64_t batch, int64_t rows,
                   int64_t columns)
{
    const int64_t sizes[] = {batch, rows, columns};
    contents(x, dtype);
    x->low = TN_DTYPE_CODE(dtype) == TN_CODE_UINT ? 0 : -2;
    x->high = 2;
    x->step = inexact(dtype) ? 0.5 : 0;
    call_shape(x, rank, sizes + (3 - rank));
}

/* One number in a row that is not finite, or none. */
static void special_rows(call_tensor *x)
{
    static double values[61];
    for (uint32_t i = 0; i < 61; i++) values[i] = 0.5 * (i % 9) - 2;
    values[7] = (double)NAN;
    values[20] = values[58] = INFINITY;
    values[40] = -INFINITY;
    x->values = values;
    x->count = 61;
}

/* Zeros among them: infinity times 0 is NaN. */
static void special_columns(call_tensor *x)
{
    static const double values[] = {0.5, 0, -1, 2, 0};
    x->values = values;
    x->count = sizeof values / sizeof *values;
}

/* The class decides which of the two factors is transposed, sliced or broadcast. */
static void build_product(draft *d, const family_case *c, int64_t class)
{
    int64_t m = class == LARGE ? 65 : 5, k = class == LARGE ? 129 : 17, n = class == LARGE ? 67 : 7;
    uint32_t rank = strstr(c->family->op, "bmm") ? 3 : 2, row = rank - 2, column = rank - 1;
    call_tensor *a = &d->tensors[0], *b = &d->tensors[1];
    if (class == EMPTY) k = 0;
    if (class == OFFSET) m = n = 8;
    if (class == OFFSET) k = 16;
    if (class == NO_DIMENSIONS) m = n = 1; /* the smallest product */
    factor(a, c->dtype, rank, 3, m, k);
    factor(b, c->dtype, rank, 3, k, n);
    if (class == LARGE && c->dtype == TN_FLOAT64) a->step = b->step = 0x1p-16; /* exact, but not in float32 */
    if (class == TRANSPOSED) {
        a->strides[row] = 1;
        a->strides[column] = m;
    }
    if (class == CHANNELS_LAST) { /* the right one transposed */
        b->strides[row] = 1;
        b->strides[column] = k;
    }
    if (class == SLICED) {
        a->strides[column] = 2;
        a->strides[row] = 2 * k + 3;
        a->strides[0] = rank == 3 ? m * a->strides[row] : a->strides[0];
        a->offset = 1;
        b->strides[row] = n + 2;
        b->strides[0] = rank == 3 ? k * b->strides[row] : b->strides[0];
    }
    if (class == BROADCAST) a->strides[0] = 0;
    if (class == OFFSET) a->offset = 1;
    if (class == OFFSET) b->offset = 2;
    if (class == SPECIAL) special_rows(a);
    if (class == SPECIAL) special_columns(b);
    give_tensor(d, a);
    give_tensor(d, b);
}

static void build_sort(draft *d, const family_case *c, int64_t class)
{
    give_tensor(d, tensor(d, 0, c->dtype, class));
    give(d, tn_value_bool(1));
    give(d, tn_value_int(class == TRANSPOSED ? 0 : -1));
    give(d, tn_value_bool(c->number));
}

static void build_nonzero(draft *d, const family_case *c, int64_t class)
{
    call_tensor *x = tensor(d, 0, c->dtype, class);
    if (inexact(c->dtype)) x->step = 1; /* a zero among six */
    give_tensor(d, x);
}

/* ---- The list ------------------------------------------------------------------------------------------ */

static const family families[] = {
    {"fill", "prim::fill", build_fill, WRITTEN, 0},
    {"copy", "prim::copy", build_copy, ALL, 0},
    {"iota", "prim::iota", build_iota, WRITTEN & ~(1u << SPECIAL), 0},
    {"random", "prim::random", build_random, WRITTEN & ~(1u << CHANNELS_LAST | 1u << SPECIAL),
     CHECK_TAG_RANDOM},
    {"gather", "aten::gather", build_gather, ALL & ~(1u << CHANNELS_LAST), 0},
    {"scatter", "aten::scatter_.src", build_scatter, 0x3e7u & ~(1u << LARGE), 0},
    {"scatter", "aten::scatter_.value", build_scatter_value, 0x3e7u, 0},
    {"scatter", "aten::scatter_add_", build_scatter_add, 0x3e7u, 0},
    {"scatter", "aten::scatter_reduce_.two", build_scatter_reduce, 0x367u, 0},
    {"bmm", "aten::bmm", build_product, ALL, 0},
    {"bmm", "aten::mm", build_product, ALL, 0},
    {"sort", "aten::sort.stable", build_sort, ALL, 0},
    {"nonzero", "aten::nonzero", build_nonzero, ALL, CHECK_TAG_DATA_DEPENDENT},
};
static const tn_dtype dtypes[] = {TN_BOOL,    TN_UINT8,   TN_INT8,      TN_INT16,
                                  TN_INT32,   TN_INT64,   TN_FLOAT16,   TN_BFLOAT16,
                                  TN_FLOAT32, TN_FLOAT64, TN_COMPLEX64, TN_COMPLEX128};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

static void run_family_case(check_target *t, const check_case *c, check_result *out)
{
    const family_case *data = c->data;
    call_plan plan = {.op = tn_operator_find(t->ctx, data->family->op),
                      .name = data->family->op,
                      .seed = check_seed(t, c),
                      .tolerance = {.rtol = -1}};
    draft d = {.plan = &plan};
    if (!check_that(out, plan.op != 0, "there is no operator %s", data->family->op)) return;
    data->family->build(&d, data, c->number);
    call_compare(t, &plan, out);
}

static void add_classes(check_list *list, const family_case *c, uint32_t classes)
{
    family_case *data = check_memory(list, sizeof *data);
    *data = *c;
    for (int64_t class = 0; class < CLASSES; class ++) {
        /* No kernel is called for empty tensors, and ATen has no scatter_reduce of complex numbers. */
        uint32_t optional =
            class == EMPTY || (c->family->build == build_scatter_reduce && tn_dtype_is_complex(c->dtype));
        int has_special =
            tn_dtype_is_floating(c->dtype) || (tn_dtype_is_floating(c->source) && c->dtype == TN_BOOL);
        if (!(classes >> class & 1u) || (class == SPECIAL && !has_special)) continue;
        check_add(list,
                  &(check_case){.tier = 1,
                                .tags = c->family->tags | (optional ? CHECK_TAG_OPTIONAL : 0u),
                                .run = run_family_case,
                                .data = data,
                                .number = class},
                  "1/%s/%s/%s/%s%s%s", c->family->kernel, c->family->op, tn_dtype_name(c->dtype),
                  c->variant ? c->variant : "", c->variant ? "-" : "", class_names[class]);
    }
}

/* Casts from each other dtype, except from complex to real. */
static void add_copies(const check_target *t, check_list *list, family_case *c)
{
    c->source = c->dtype;
    add_classes(list, c, c->family->classes);
    for (size_t i = 0; i < DTYPES; i++) {
        c->source = dtypes[i];
        if (c->source == c->dtype || !check_has_dtype(t, c->source)) continue;
        if (tn_dtype_is_complex(c->source) && !tn_dtype_is_complex(c->dtype)) continue;
        c->variant = check_text(list, "from-%s", tn_dtype_name(c->source));
        add_classes(list, c,
                    1u << SLICED | 1u << NO_DIMENSIONS |
                        (tn_dtype_is_floating(c->source) ? 1u << SPECIAL : 0u));
    }
}

static void add_variants(const check_target *t, check_list *list, family_case *c)
{
    void (*build)(draft *, const family_case *, int64_t) = c->family->build;
    if (build == build_copy) {
        add_copies(t, list, c);
    } else if (build == build_fill) {
        add_classes(list, c, c->family->classes);
        c->number = 1;
        c->variant = "negative-zero";
        add_classes(list, c, 1u << SPECIAL);
    } else if (build == build_random) {
        for (c->number = 0; c->number < DISTRIBUTIONS * STARTS; c->number++) {
            const distribution *r = &distributions[c->number / STARTS];
            const char *start = starts[c->number % STARTS].name;
            c->variant = check_text(list, "%s%s", r->name, start);
            if (tn_dtype_is_complex(c->dtype) || c->dtype == TN_BOOL) continue;
            if (tn_dtype_is_floating(c->dtype) || r->whole)
                add_classes(list, c, *start ? 1u << CONTIGUOUS : c->family->classes);
        }
    } else if (build == build_iota) {
        add_classes(list, c, c->family->classes);
        c->number = 1;
        c->variant = "beyond-float64";
        if (c->dtype == TN_INT64) add_classes(list, c, 1u << CONTIGUOUS);
    } else if (build == build_scatter_reduce) {
        for (c->number = 0; c->number < 10; c->number++) {
            c->variant =
                check_text(list, "%s%s", reductions[c->number % 5], c->number < 5 ? "" : "-without-self");
            add_classes(list, c, c->family->classes);
        }
    } else if (build == build_sort) {
        for (c->number = 0; c->number < 2; c->number++) {
            c->variant = c->number ? "descending" : NULL;
            add_classes(list, c, c->family->classes);
        }
    } else {
        add_classes(list, c, c->family->classes);
    }
}

void check_family_cases(check_target *t, check_list *list)
{
    int unknown = !t->facts.dtypes || !*t->facts.dtypes;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        uint32_t op = tn_operator_find(t->ctx, families[i].op);
        for (size_t k = 0; k < DTYPES; k++) {
            family_case c = {.family = &families[i], .dtype = dtypes[k]};
            if (unknown ? dtypes[k] != TN_FLOAT32 : !check_has_dtype(t, dtypes[k])) continue;
            if (check_has_kernel(t, op, "cpu", dtypes[k])) add_variants(t, list, &c);
        }
    }
}
