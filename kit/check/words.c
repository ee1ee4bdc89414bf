/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of calls in words; see words.h. */
#include "words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t read_list(const char *text, int64_t *out, uint32_t room)
{
    uint32_t n = 0;
    char *end;
    if (!strchr("-0123456789", *text) || !*text) return 0;
    for (; n < room; text = end + 1) {
        out[n++] = strtoll(text, &end, 10);
        if (*end != ',') break;
    }
    return n;
}

/* Of "7,3:5" 5; 4 without a colon. */
static double limit_of(const char *shape)
{
    shape += strspn(shape, "0123456789,");
    return *shape == ':' ? strtod(shape + 1, NULL) : 4;
}

#define ALL_WIDE                                                                                            \
    0, 1, -1, INT64_C(1) << 32, -(INT64_C(1) << 32), INT64_C(9007199254740993), INT64_C(-9007199254740993), \
        INT64_C(9007199254740992), INT64_C(-9007199254740992), INT64_C(2147483648), INT64_C(8589934599),    \
        INT64_C(-8589934601), INT64_C(18014398509481987), INT64_C(-18014398509481989), 3,                   \
        INT64_C(4294967301), INT64_C(-1099511627775), 7
const int64_t words_wide[2 * WORDS_WIDE] = {ALL_WIDE, ALL_WIDE};
/* What a narrower dtype keeps of them is 0 for the first one only, and never its least number. */
const int64_t words_narrow[WORDS_WIDE] = {
    0,          1,          -1,          0x1000001, -0x1000003, 0x7fffffff, -0x7fffffff, 0x1008281, 0x1007e7d,
    -0x1007f83, 0x4000c041, -0x2000205b, 3,         0x2000005,  -0x1000b7d, 0x7ffffffd,  -0x640065, 7};

static const double bools[] = {0, 1, 1, 0, 1, 0, 0};
static const double masked[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, 0.5, -INFINITY,
                                1,         -INFINITY, -INFINITY, -2,        0,   3};

static const double ones[] = {1};
/* A period that no window meets twice: of two NaN either may be the greatest. */
static const double with_nan[31] = {1,  -2,   3, (double)NAN, -1, 0.5, 2, -3, 4,
                                    -4, 0.25, 5, -0.5,        6,  -6,  7, -7};
static const double grains[] = {1 + 0x1p-30, -1};

/* Half of them with one sign, then the same with the other, then 3. */
#define HALF 10000
static const double *cancelling(void)
{
    static double values[2 * HALF + 4];
    for (int i = 0; i < HALF; i++) {
        values[i] = 0.25 * (1 + (i * 5 + i / 7) % 4);
        values[HALF + i] = -values[i];
    }
    for (int i = 0; i < 4; i++) values[2 * HALF + i] = i < 2 ? 1 : 0.5;
    return values;
}

static void set_values(call_tensor *x, const double *values, size_t count)
{
    x->values = values;
    x->count = (uint32_t)count;
}

static call_tensor *make_tensor(words *w, call_tensor *x, char kind, const char *shape)
{
    int64_t sizes[CALL_MAX_RANK];
    uint32_t rank = read_list(shape, sizes, CALL_MAX_RANK);
    *x = (call_tensor){.dtype = kind == 'z' || kind == 'w'   ? TN_INT64
                                : kind == 'y' || kind == 'v' ? TN_INT32
                                                             : w->dtype,
                       .low = 0.25,
                       .high = 1};
    if (kind == 'x') x->low = -1;
    if (kind == 'q') x->low = -3;
    if (kind == 'q') x->high = 3;
    if (kind == 'q') x->step = 0.25;
    if (kind == 'z' || kind == 'y') x->low = 0;
    if (kind == 'z' || kind == 'y') x->high = limit_of(shape);
    if (kind == 'j') x->low = 4;
    if (kind == 'j') x->high = 5;
    if (kind == 'w') x->integers = words_wide + (x - w->tensors) * 5 % WORDS_WIDE;
    if (kind == 'v') x->integers = words_narrow;
    if (kind == 'w' || kind == 'v') x->count = WORDS_WIDE;
    if (kind == 'm') x->low = -2000; /* exp of it is 0, of the other end infinite, in float64 too */
    if (kind == 'm') x->high = 2000;
    call_shape(x, rank, sizes);
    if (kind == 'h') x->dtype = TN_BOOL;
    if (kind == 'h') set_values(x, bools, sizeof bools / sizeof *bools);
    if (kind == 'u') set_values(x, masked, sizeof masked / sizeof *masked);
    if (kind == 'l') set_values(x, ones, 1);
    if (kind == 'a') set_values(x, with_nan, sizeof with_nan / sizeof *with_nan);
    if (kind == 'g') set_values(x, grains, 2);
    if (kind == 'k') set_values(x, cancelling(), 2 * HALF + 4);
    if (kind == 'o') set_values(x, w->ascending, sizeof w->ascending / sizeof *w->ascending);
    for (uint32_t k = 0; kind == 'o' && k < x->count; k++) w->ascending[k] = 0.25 * (k + 1);
    return x;
}

static tn_value make_list(words *w, const char *text)
{
    int64_t *list = w->lists[w->n_lists++ % (sizeof w->lists / sizeof *w->lists)];
    return tn_value_ints(list, read_list(text, list, CALL_MAX_RANK));
}

static tn_value make_bools(words *w, const char *text)
{
    int64_t n = 0;
    for (; n < (int64_t)sizeof w->bools && (text[n] == '0' || text[n] == '1'); n++)
        w->bools[n] = text[n] == '1';
    return tn_value_bools(w->bools, n);
}

static tn_value make_argument(words *w, uint32_t i, const char *word)
{
    const char *rest = word + 1;
    switch (*word) {
    case 'x':
    case 'p':
    case 'o':
    case 'q':
    case 'z':
    case 'w':
    case 'v':
    case 'm':
    case 'h':
    case 'u':
    case 'l':
    case 'g':
    case 'k':
    case 'j':
    case 'y':
    case 'a':
        return call_argument(make_tensor(w, &w->tensors[i], *word, rest));
    case 'c':
        for (uint32_t k = 0; k < 2; k++) make_tensor(w, &w->pair[k], 'x', rest);
        return call_arguments_list(w->pair, 2);
    case 'i':
        return make_list(w, rest);
    case 'B':
        return make_bools(w, rest);
    case 'n':
        return tn_value_int(strtoll(rest, NULL, 10));
    case 'b':
        return tn_value_bool(*rest == '1');
    case 'f':
    case 's':
        return tn_value_float(*rest && *rest != ' ' ? strtod(rest, NULL) : 0.5);
    case 'e':
        return tn_value_dtype(w->dtype);
    default:
        return tn_value_none();
    }
}

const char *words_next(const char *at)
{
    at += strcspn(at, " ");
    return at + strspn(at, " ");
}

void words_write(words *w, call_plan *p, const char *arguments)
{
    for (const char *at = arguments; *at && p->n_args < CALL_MAX_ARGS; at = words_next(at), p->n_args++)
        p->args[p->n_args] = make_argument(w, p->n_args, at);
}
