/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of contiguous runs and of rows of real numbers, in registers; for reduce.c, whose maps and joins
 * they use. A run goes to one state, rows go to one state for each column.
 */
#ifndef TENON_CPU_REDUCE_RUNS_H
#define TENON_CPU_REDUCE_RUNS_H

#if !CPU_IS_INTEGER
#if defined(LEVEL_AVX512)
#define VECTOR_BYTES 64
#elif defined(LEVEL_AVX2)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES   ((int64_t)(VECTOR_BYTES / sizeof(T)))
#define AT_ONCE 8 /* vectors that are summed side by side, to hide the time of an addition */
#if !defined(DTYPE_F64)
typedef int32_t bits_t;
#else
typedef int64_t bits_t;
#endif
typedef T V __attribute__((vector_size(VECTOR_BYTES)));
typedef bits_t VB __attribute__((vector_size(VECTOR_BYTES)));

ALWAYS_INLINE V choose(VB mask, V a, V b)
{
    return (V)((mask & (VB)a) | (~mask & (VB)b));
}
ALWAYS_INLINE V vector_plus(V a, V b)
{
    return a + b;
}
ALWAYS_INLINE V vector_itself(V a)
{
    return a;
}
ALWAYS_INLINE V vector_without_nan(V a)
{
    return (V)((VB)a & (a == a));
}
/*
 * The result is NaN where an operand is: b is taken where it is NaN, and nothing is larger than a NaN in a.
 */
ALWAYS_INLINE V vector_larger(V a, V b)
{
    return choose((b > a) | (b != b), b, a);
}
ALWAYS_INLINE V vector_smaller(V a, V b)
{
    return choose((b < a) | (b != b), b, a);
}

/* A vector of neighbouring elements. */
ALWAYS_INLINE V vector_at(const E *x)
{
    V v;
#if defined(DTYPE_F16) && defined(__F16C__)
    T wide[LANES];
    cpu_widen(wide, x, LANES);
    memcpy(&v, wide, sizeof v);
#elif CPU_IS_HALF
    T wide[LANES];
    for (int k = 0; k < LANES; k++) wide[k] = load(x + k);
    memcpy(&v, wide, sizeof v);
#else
    memcpy(&v, x, sizeof v);
#endif
    return v;
}

/* Two vectors of neighbouring elements, in any order: a pair of bfloat16 is split within its 32-bit word. */
ALWAYS_INLINE void two_vectors_at(V *to, const E *x)
{
#if defined(DTYPE_BF16)
    VB pairs;
    memcpy(&pairs, x, sizeof pairs);
    to[0] = (V)(pairs << 16);
    to[1] = (V)(pairs & (int32_t)0xffff0000u);
#else
    to[0] = vector_at(x);
    to[1] = vector_at(x + LANES);
#endif
}

/*
 * Vectors are read ahead of their time: the end of each run takes so long that the processor's own prefetching falls behind
 * memory. Addresses behind the tensor do no harm.
 */
#define AHEAD 2048
ALWAYS_INLINE void prefetch_vectors(const E *x, int64_t count)
{
    const char *from = (const char *)x + AHEAD;
    for (int64_t i = 0; i < count * LANES * (int64_t)sizeof(E); i += 64) __builtin_prefetch(from + i);
}

/*
 * Elements of a run that are joined in T before they go into acc: few, so that sums of float32 stay exact
 * enough.
 */
#define STRETCH (16 * AT_ONCE * LANES)

/* Joins the vectors of a stretch to one; n is a multiple of AT_ONCE vectors. */
ALWAYS_INLINE V join_stretch(const E *x, int64_t n, V (*map)(V), V (*step)(V, V))
{
    V sums[AT_ONCE], two[2];
    for (int k = 0; k < AT_ONCE; k += 2) {
        two_vectors_at(two, x + k * LANES);
        sums[k] = map(two[0]);
        sums[k + 1] = map(two[1]);
    }
    for (int64_t i = AT_ONCE * LANES; i < n; i += AT_ONCE * LANES)
        for (int k = 0; k < AT_ONCE; k += 2) {
            prefetch_vectors(x + i + k * LANES, 2);
            two_vectors_at(two, x + i + k * LANES);
            sums[k] = step(sums[k], map(two[0]));
            sums[k + 1] = step(sums[k + 1], map(two[1]));
        }
    for (int k = AT_ONCE / 2; k > 0; k /= 2)
        for (int j = 0; j < k; j++) sums[j] = step(sums[j], sums[j + k]);
    return sums[0];
}

/* The first `width` of the lanes with those behind them; a width that the compiler knows keeps them in registers. */
ALWAYS_INLINE void join_half(acc *lanes, int64_t width, acc (*join)(acc, acc))
{
    for (int64_t k = 0; width < LANES && k < width; k++) lanes[k] = join(lanes[k], lanes[k + width]);
}
ALWAYS_INLINE acc join_halves(acc *lanes, acc (*join)(acc, acc))
{
    join_half(lanes, 8, join);
    join_half(lanes, 4, join);
    join_half(lanes, 2, join);
    join_half(lanes, 1, join);
    return lanes[0];
}

/* The same of a vector in T. The sum of float32 is taken in halves, in which the compiler finds no vectors by itself. */
#if defined(__AVX2__) && !defined(DTYPE_F64)
typedef double D4 __attribute__((vector_size(32)));
typedef double D2 __attribute__((vector_size(16)));
#if defined(LEVEL_AVX512)
typedef double D8 __attribute__((vector_size(64)));
ALWAYS_INLINE D4 sum_to_four(V v)
{
    D8 sum = __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7), D8) +
             __builtin_convertvector(__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15), D8);
    return __builtin_shufflevector(sum, sum, 0, 1, 2, 3) + __builtin_shufflevector(sum, sum, 4, 5, 6, 7);
}
#else
ALWAYS_INLINE D4 sum_to_four(V v)
{
    return __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3), D4) +
           __builtin_convertvector(__builtin_shufflevector(v, v, 4, 5, 6, 7), D4);
}
#endif
ALWAYS_INLINE acc join_vector(V v, acc (*join)(acc, acc))
{
    if (join == plus) {
        D4 four = sum_to_four(v);
        D2 two = __builtin_shufflevector(four, four, 0, 1) + __builtin_shufflevector(four, four, 2, 3);
        return two[0] + two[1];
    }
    acc lanes[LANES];
    for (int k = 0; k < LANES; k++) lanes[k] = (acc)v[k];
    return join_halves(lanes, join);
}
#else
ALWAYS_INLINE acc join_vector(V v, acc (*join)(acc, acc))
{
    acc lanes[LANES];
    T out[LANES];
    memcpy(out, &v, sizeof out);
    for (int k = 0; k < LANES; k++) lanes[k] = (acc)out[k];
    return join_halves(lanes, join);
}
#endif

/* A mask of the last n lanes. */
ALWAYS_INLINE VB last_lanes(int64_t n)
{
    VB order;
    for (int k = 0; k < LANES; k++) order[k] = k;
    return order >= (bits_t)(LANES - n);
}

/* A run of fewer than AT_ONCE vectors; one that ends inside a vector reads the elements before its end again. */
ALWAYS_INLINE acc join_short(const E *x, int64_t n, acc start, T neutral, V (*map)(V), V (*step)(V, V),
                             acc (*one)(T, double), acc (*join)(acc, acc))
{
    V sum = (V){0} + neutral;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        prefetch_vectors(x + i, 1);
        sum = step(sum, map(vector_at(x + i)));
    }
    if (i > 0 && i < n) {
        sum = step(sum, choose(last_lanes(n - i), map(vector_at(x + n - LANES)), (V){0} + neutral));
        i = n;
    }
    acc result = join(start, join_vector(sum, join));
    for (; i < n; i++) result = join(result, one(load(x + i), 0));
    return result;
}

/* Runs are cut in the same way at every address, so the result depends on the elements alone. */
ALWAYS_INLINE acc join_run(const E *x, int64_t n, acc start, T neutral, V (*map)(V), V (*step)(V, V),
                           acc (*one)(T, double), acc (*join)(acc, acc))
{
    acc lanes[LANES];
    int64_t i = 0, whole = n - n % (AT_ONCE * LANES);
    if (whole > 0 && whole <= STRETCH) {
        start = join(start, join_vector(join_stretch(x, whole, map, step), join));
        return join_short(x + whole, n - whole, start, neutral, map, step, one, join);
    }
    for (int k = 0; k < LANES; k++) lanes[k] = (acc)neutral;
    while (i < whole) {
        int64_t m = whole - i < STRETCH ? whole - i : STRETCH;
        T out[LANES];
        V joined = join_stretch(x + i, m, map, step);
        memcpy(out, &joined, sizeof out);
        for (int k = 0; k < LANES; k++) lanes[k] = join(lanes[k], (acc)out[k]);
        i += m;
    }
    if (whole > 0) start = join(start, join_halves(lanes, join));
    return join_short(x + i, n - i, start, neutral, map, step, one, join);
}
ALWAYS_INLINE acc sum_of(const E *x, int64_t n)
{
    return join_run(x, n, 0, 0, vector_itself, vector_plus, itself, plus);
}
ALWAYS_INLINE acc sum_of_numbers(const E *x, int64_t n)
{
    return join_run(x, n, 0, 0, vector_without_nan, vector_plus, without_nan, plus);
}
ALWAYS_INLINE acc largest_of(const E *x, int64_t n, acc start)
{
    return join_run(x, n, start, LOWEST, vector_itself, vector_larger, itself, larger);
}
ALWAYS_INLINE acc smallest_of(const E *x, int64_t n, acc start)
{
    return join_run(x, n, start, HIGHEST, vector_itself, vector_smaller, itself, smaller);
}

ALWAYS_INLINE const E *row_at(const char *x, int64_t row, int64_t column)
{
    return (const E *)(const void *)(x + row) + column;
}
ALWAYS_INLINE void join_rows(cpu_lanes s, const char *x, int64_t row_bytes, int64_t rows, int64_t lanes,
                             V (*map)(V), V (*step)(V, V), acc (*one)(T, double), acc (*join)(acc, acc))
{
    acc *a = s.words;
    int64_t i = 0;
    for (; i + 4 * LANES <= lanes; i += 4 * LANES) {
        V sums[4];
        T out[4 * LANES];
        for (int k = 0; k < 4; k++) sums[k] = map(vector_at(row_at(x, 0, i + k * LANES)));
        for (int64_t r = 1; r < rows; r++)
            for (int k = 0; k < 4; k++)
                sums[k] = step(sums[k], map(vector_at(row_at(x, r * row_bytes, i + k * LANES))));
        memcpy(out, sums, sizeof out);
        CPU_INDEPENDENT
        for (int64_t k = 0; k < 4 * LANES; k++) a[i + k] = join(a[i + k], out[k]);
    }
    /* The rest in the same order and precision, so the result does not depend on the position of a column. */
    for (; i + LANES <= lanes; i += LANES) {
        V sum = map(vector_at(row_at(x, 0, i)));
        T out[LANES];
        for (int64_t r = 1; r < rows; r++) sum = step(sum, map(vector_at(row_at(x, r * row_bytes, i))));
        memcpy(out, &sum, sizeof out);
        for (int64_t k = 0; k < LANES; k++) a[i + k] = join(a[i + k], out[k]);
    }
    for (; i < lanes; i++) {
        T sum = (T)one(load(row_at(x, 0, i)), 0);
        for (int64_t r = 1; r < rows; r++) sum = (T)join(sum, one(load(row_at(x, r * row_bytes, i)), 0));
        a[i] = join(a[i], sum);
    }
}
/* Sums or means of rows without states: the divisor is 1 for a sum. Adding 0 makes a zero positive, as in a state. */
static void sum_few(void *out, const void *x, int64_t row_bytes, int64_t rows, int64_t lanes, double divisor)
{
    E *o = out;
    const V share = (V){0} + (T)divisor;
    int64_t i = 0;
    for (; i + LANES <= lanes; i += LANES) {
        V sum = vector_at(row_at(x, 0, i)) + (T)0;
        T wide[LANES];
        for (int64_t r = 1; r < rows; r++) sum += vector_at(row_at(x, r * row_bytes, i));
        if (divisor != 1) sum /= share;
        memcpy(wide, &sum, sizeof wide);
#if defined(DTYPE_F16) && defined(__F16C__)
        cpu_narrow(o + i, wide, LANES);
#else
        for (int k = 0; k < LANES; k++) store(o + i + k, wide[k]);
#endif
    }
    for (; i < lanes; i++) {
        T sum = load(row_at(x, 0, i)) + (T)0;
        for (int64_t r = 1; r < rows; r++) sum += load(row_at(x, r * row_bytes, i));
        store(o + i, sum / (T)divisor);
    }
}
#define ROWS_OF(name, vector_map, vector_step, map, join)                                               \
    static void rows_##name(cpu_lanes s, const void *x, int64_t row_bytes, int64_t rows, int64_t lanes) \
    {                                                                                                   \
        join_rows(s, x, row_bytes, rows, lanes, vector_map, vector_step, map, join);                    \
    }
ROWS_OF(sum, vector_itself, vector_plus, itself, plus)
ROWS_OF(nansum, vector_without_nan, vector_plus, without_nan, plus)
ROWS_OF(max, vector_itself, vector_larger, itself, larger)
ROWS_OF(min, vector_itself, vector_smaller, itself, smaller)
#define ROWS(name) rows_##name
#define SUM_FEW    sum_few
#else
/* For int64 the compiler makes vectors of the lanes. */
#define SIDE       16
ALWAYS_INLINE acc join_run(const E *x, int64_t n, acc start, acc neutral, acc (*join)(acc, acc))
{
    acc lanes[SIDE];
    int64_t i = 0;
    for (int k = 0; k < SIDE; k++) lanes[k] = neutral;
    for (; i + SIDE <= n; i += SIDE)
        for (int k = 0; k < SIDE; k++) lanes[k] = join(lanes[k], x[i + k]);
    for (int k = 0; k < SIDE; k++) start = join(start, lanes[k]);
    for (; i < n; i++) start = join(start, x[i]);
    return start;
}
ALWAYS_INLINE acc sum_of(const E *x, int64_t n)
{
    return join_run(x, n, 0, 0, plus);
}
ALWAYS_INLINE acc sum_of_numbers(const E *x, int64_t n)
{
    return sum_of(x, n);
}
ALWAYS_INLINE acc largest_of(const E *x, int64_t n, acc start)
{
    return join_run(x, n, start, LOWEST, larger);
}
ALWAYS_INLINE acc smallest_of(const E *x, int64_t n, acc start)
{
    return join_run(x, n, start, HIGHEST, smaller);
}
#define ROWS(name) NULL
#define SUM_FEW    NULL
#endif

/* Sums of squares, in acc alone: those of large float32 numbers overflow float32. */
#define SQUARES 16
ALWAYS_INLINE acc sum_of_squares(const E *x, int64_t n)
{
    acc sums[SQUARES] = {0};
    int64_t i = 0;
    for (; i + SQUARES <= n; i += SQUARES)
        for (int k = 0; k < SQUARES; k++) sums[k] += squared(load(x + i + k), 0);
    for (; i < n; i++) sums[0] += squared(load(x + i), 0);
    for (int width = SQUARES / 2; width > 0; width /= 2)
        for (int k = 0; k < width; k++) sums[k] += sums[k + width];
    return sums[0];
}

#endif
