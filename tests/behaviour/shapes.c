/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded calls of training runs whose arguments alone fix the sizes of the results. Each is made on the
 * meta device, where nothing is computed, and sizes and dtypes are compared with the operator's formula,
 * written here again. Rows are `line<TAB>operator<TAB>count<TAB>holds<TAB>((T([2, 3], f16), 1), {})`.
 * shapes.tsv beside this file has one row of each operator; the program takes any list (.gz too).
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <zlib.h>

#define MOST_ITEMS 64
#define META       TN_DEVICE(TN_INTERNED_META, 0)

/* ---- Reading a call ------------------------------------------------------------------------------------ */

typedef struct reader {
    tn_scope *s;
    const char *at;
} reader;

static int accept(reader *r, const char *token)
{
    size_t n = strlen(token);
    while (*r->at == ' ' || *r->at == ',') r->at++;
    if (strncmp(r->at, token, n) != 0) return 0;
    r->at += n;
    return 1;
}

static tn_dtype read_dtype(reader *r)
{
    static const struct {
        const char *text;
        tn_dtype dtype;
    } names[] = {{"f16", TN_FLOAT16}, {"f32", TN_FLOAT32}, {"f64", TN_FLOAT64},
                 {"i64", TN_INT64},   {"i32", TN_INT32},   {"b8", TN_BOOL}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (accept(r, names[i].text)) return names[i].dtype;
    return 0;
}

static int64_t read_numbers(reader *r, const char *close, int64_t *out)
{
    int64_t n = 0;
    while (!accept(r, close) && *r->at && n < MOST_ITEMS) out[n++] = strtoll(r->at, (char **)&r->at, 10);
    return n;
}

static tn_value read_tensor(reader *r)
{
    int64_t sizes[MOST_ITEMS], strides[MOST_ITEMS], n, rank = 0;
    accept(r, "[");
    n = read_numbers(r, "]", sizes);
    tn_dtype dtype = read_dtype(r);
    if (accept(r, "stride=(")) rank = read_numbers(r, ")", strides);
    accept(r, ")");
    tn_ints size = {sizes, n};
    if (!rank) return tn_value_tensor(tn_empty(r->s, size, .dtype = dtype, .device = META));
    return tn_value_tensor(
        tn_empty_strided(r->s, size, (tn_ints){strides, n}, .dtype = dtype, .device = META));
}

static tn_value read_value(reader *r);

/* Integers, bools or tensors, in the scope's memory. */
static tn_value read_list(reader *r)
{
    tn_value items[MOST_ITEMS];
    int64_t n = 0;
    while (!accept(r, "]") && *r->at && n < MOST_ITEMS) items[n++] = read_value(r);
    void *memory = tn_scope_memory(r->s, MOST_ITEMS * 8);
    uint32_t tag = n ? items[0].tag : TN_TAG_INT;
    for (int64_t i = 0; i < n; i++) {
        if (tag == TN_TAG_TENSOR)
            ((tn_tensor **)memory)[i] = items[i].as.tensor;
        else if (tag == TN_TAG_BOOL)
            ((uint8_t *)memory)[i] = (uint8_t)items[i].as.i;
        else
            ((int64_t *)memory)[i] = items[i].as.i;
    }
    return tag == TN_TAG_TENSOR ? tn_value_tensors(memory, n)
           : tag == TN_TAG_BOOL ? tn_value_bools(memory, n)
                                : tn_value_ints(memory, n);
}

static tn_value read_value(reader *r)
{
    char *end;
    if (accept(r, "None")) return tn_value_none();
    if (accept(r, "True")) return tn_value_bool(1);
    if (accept(r, "False")) return tn_value_bool(0);
    if (accept(r, "T(")) return read_tensor(r);
    if (accept(r, "[")) return read_list(r);
    tn_dtype dtype = read_dtype(r);
    if (dtype) return tn_value_dtype(dtype);
    double number = strtod(r->at, &end);
    int64_t whole = strtoll(r->at, (char **)&r->at, 10);
    if (r->at == end) return tn_value_int(whole);
    r->at = end;
    return tn_value_float(number);
}

/*
 * ---- Expected sizes -------------------------------------------------------------------------------------
 */

typedef struct sizes {
    int64_t rank, n[8];
    int absent;
} sizes;

static sizes of(tn_value v)
{
    sizes z = {.absent = v.tag == TN_TAG_NONE};
    if (v.tag == TN_TAG_INTS) {
        z.rank = v.count;
        memcpy(z.n, v.as.ints, (size_t)z.rank * 8);
    } else if (v.tag == TN_TAG_TENSOR) {
        z.rank = tn_tensor_rank(v.as.tensor);
        memcpy(z.n, tn_tensor_sizes(v.as.tensor), (size_t)z.rank * 8);
    }
    return z;
}

static sizes broadcast(sizes a, sizes b)
{
    sizes z = a.rank > b.rank ? a : b;
    for (int64_t i = 0; i < z.rank; i++) {
        int64_t x = i < a.rank ? a.n[a.rank - 1 - i] : 1, y = i < b.rank ? b.n[b.rank - 1 - i] : 1;
        z.n[z.rank - 1 - i] = x == 1 ? y : x;
    }
    return z;
}

static sizes convolution(const tn_value *v)
{
    sizes x = of(v[0]), w = of(v[1]), stride = of(v[3]), pad = of(v[4]), step = of(v[5]), more = of(v[7]);
    int transposed = (int)v[6].as.i;
    sizes z = x;
    z.n[1] = transposed ? w.n[1] * v[8].as.i : w.n[0];
    for (int64_t i = 2; i < x.rank; i++) {
        int64_t k = i - 2, reach = step.n[k] * (w.n[i] - 1);
        z.n[i] = transposed ? (x.n[i] - 1) * stride.n[k] - 2 * pad.n[k] + reach + more.n[k] + 1
                            : (x.n[i] + 2 * pad.n[k] - reach - 1) / stride.n[k] + 1;
    }
    return z;
}

static sizes cat(const tn_value *v)
{
    sizes z = of(tn_value_tensor(v[0].as.tensors[0]));
    int64_t dim = v[1].tag == TN_TAG_INT ? v[1].as.i : 0;
    if (dim < 0) dim += z.rank;
    for (uint32_t i = 1; i < v[0].count; i++) z.n[dim] += tn_tensor_size(v[0].as.tensors[i], dim);
    return z;
}

static sizes matrix(int64_t rows, int64_t columns)
{
    return (sizes){2, {rows, columns}, 0};
}

static sizes wanted_if(tn_value mask, uint32_t i, sizes z)
{
    if (!mask.as.bools[i]) z.absent = 1;
    return z;
}

/* Sizes of the results by the operator's formula; their number, or 0 for an operator without one. */
static int expected(const char *op, const tn_value *v, sizes *out)
{
    sizes a = of(v[0]), b = of(v[1]), c = of(v[2]);
    out[1].absent = out[2].absent = 0;
    if (!strcmp(op, "convolution")) return out[0] = convolution(v), 1;
    if (!strcmp(op, "cat")) return out[0] = cat(v), 1;
    if (!strcmp(op, "mm")) return out[0] = matrix(a.n[0], b.n[1]), 1;
    if (!strcmp(op, "addmm")) return out[0] = matrix(b.n[0], c.n[1]), 1;
    if (!strcmp(op, "bmm")) return out[0] = (sizes){3, {a.n[0], a.n[1], b.n[2]}, 0}, 1;
    if (!strcmp(op, "_unsafe_view")) return out[0] = b, 1;
    if (!strcmp(op, "embedding_dense_backward")) return out[0] = matrix(v[2].as.i, a.n[a.rank - 1]), 1;
    if (!strcmp(op, "nll_loss_forward"))
        return out[0] = v[3].as.i ? (sizes){0} : (sizes){1, {a.n[0]}, 0}, out[1] = (sizes){0}, 2;
    if (!strcmp(op, "convolution_backward")) {
        out[0] = wanted_if(v[10], 0, b);
        out[1] = wanted_if(v[10], 1, c);
        out[2] = wanted_if(v[10], 2, (sizes){1, {a.n[1]}, 0});
        return 3;
    }
    if (!strcmp(op, "native_batch_norm_backward")) {
        out[0] = wanted_if(v[9], 0, b);
        out[1] = wanted_if(v[9], 1, (sizes){1, {b.n[1]}, 0});
        out[2] = wanted_if(v[9], 2, (sizes){1, {b.n[1]}, 0});
        return 3;
    }
    if (!strcmp(op, "native_layer_norm_backward")) {
        out[0] = wanted_if(v[7], 0, b);
        out[1] = wanted_if(v[7], 1, c);
        out[2] = wanted_if(v[7], 2, c);
        return 3;
    }
    if (strstr(op, "_backward")) return out[0] = b, 1; /* the sizes of the input */
    if (!strcmp(op, "add") || !strcmp(op, "add_") || !strcmp(op, "sub") || !strcmp(op, "mul") ||
        !strcmp(op, "div"))
        return out[0] = broadcast(a, b), 1;
    return 0;
}

/* ---- One row -------------------------------------------------------------------------------------------- */

static int same(tn_value v, sizes z, tn_dtype dtype)
{
    if (z.absent) return v.tag == TN_TAG_NONE;
    tn_tensor *t = tn_value_as_tensor(v);
    if (!t || tn_tensor_rank(t) != z.rank || (dtype && tn_tensor_dtype(t) != dtype)) return 0;
    return memcmp(tn_tensor_sizes(t), z.n, (size_t)z.rank * 8) == 0;
}

static int check(tn_context *ctx, const char *name, const char *args)
{
    char full[128];
    tn_value v[MOST_ITEMS], out[3];
    sizes want[3] = {{0}, {0}, {0}};
    int n = 0, good;
    /* "aten.add.Tensor" is aten::add.Tensor; "aten.mm.default" is aten::mm. */
    size_t length = strlen(name + 5);
    if (length > 8 && !strcmp(name + 5 + length - 8, ".default")) length -= 8;
    snprintf(full, sizeof full, "aten::%.*s", (int)length, name + 5);
    tn_scope *s = tn_scope_open(ctx);
    reader r = {s, args};
    for (int i = 0; i < MOST_ITEMS; i++) v[i] = tn_value_none();
    accept(&r, "((");
    while (!accept(&r, ")") && *r.at && n < MOST_ITEMS) v[n++] = read_value(&r);
    char plain[128];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(full + 6, "."), full + 6);
    int results = expected(plain, v, want);
    tn_dtype dtype = v[0].tag == TN_TAG_TENSOR ? tn_tensor_dtype(v[0].as.tensor) : 0;
    /* Sums of two dtypes are of the wider one: float16 and float32, int32 and float16. */
    if (results == 1 && !strncmp(plain, "add", 4) && v[1].tag == TN_TAG_TENSOR)
        dtype = tn_promote_types(dtype, tn_tensor_dtype(v[1].as.tensor));
    good = results > 0 && !tn_scope_failed(s);
    if (good)
        good = tn_scope_call(s, tn_operator_find(ctx, full), v, (uint32_t)n, out, (uint32_t)results) == TN_OK;
    for (int i = 0; i < results && good; i++) good = same(out[i], want[i], dtype);
    if (!good)
        printf("FAIL %s %s: %s\n", full, args,
               tn_scope_failed(s) ? tn_scope_error(s)->message : "other sizes");
    tn_scope_close(s);
    return good;
}

int main(int argc, char **argv)
{
    static char line[65536];
    tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY};
    tn_context *ctx;
    int passed = 0, failed = 0;
    gzFile file = argc > 1 ? gzopen(argv[1], "rb") : NULL;
    if (!file) {
        printf("skipped: no list of recorded calls\n0 passed, 0 failed, 1 skipped\n");
        return 77;
    }
    if (tn_context_create(&options, &ctx)) return 1;
    while (gzgets(file, line, sizeof line)) {
        char *field[5] = {strtok(line, "\t\n"), strtok(NULL, "\t\n"), strtok(NULL, "\t\n"),
                          strtok(NULL, "\t\n"), strtok(NULL, "\t\n")};
        if (!field[4] || !isdigit((unsigned char)field[0][0])) continue;
        if (check(ctx, field[1], field[4]))
            passed++;
        else
            failed++;
    }
    gzclose(file);
    tn_context_destroy(ctx);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0 || passed == 0;
}
