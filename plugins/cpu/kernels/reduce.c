/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduction kernels of real numbers (DTYPE=f32|f64|i64|f16|bf16); see reduce_ops.h. NaN wins in extremes.
 * Half types have those that go along runs or over rows; for the others they are brought to float32.
 */
#include "support/blocks.h"
#include "reduce_ops.h"
#include "vocabulary.h"

#if defined(DTYPE_I64)
typedef int64_t A;
#define LOWEST       INT64_MIN
#define HIGHEST      INT64_MAX
#define IS_NAN(x)    0
#define MAGNITUDE(x) ((x) < 0 ? -(x) : (x))
#else
typedef double A;
#define LOWEST       (-INFINITY)
#define HIGHEST      INFINITY
#define IS_NAN(x)    ((x) != (x))
#define MAGNITUDE(x) fabs(x)
#endif

/* ---- One plane: a map of the element, then an operation that joins ---------------------------------------
 */

ALWAYS_INLINE void init_one(cpu_lanes s, int64_t lanes, A value)
{
    A *a = s.words;
    for (int64_t i = 0; i < lanes; i++) a[i] = value;
}
ALWAYS_INLINE void take_one(cpu_lanes s, const void *x, int64_t lanes, A (*map)(A), A (*join)(A, A))
{
    A *a = s.words;
    const E *v = x;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < lanes; i++) a[i] = join(a[i], map((A)load(v + i)));
}
ALWAYS_INLINE void merge_one(cpu_lanes s, cpu_lanes from, int64_t lanes, A (*join)(A, A))
{
    A *a = s.words;
    const A *b = from.words;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < lanes; i++) a[i] = join(a[i], b[i]);
}

ALWAYS_INLINE A itself(A x)
{
    return x;
}
ALWAYS_INLINE A without_nan(A x)
{
    return IS_NAN(x) ? 0 : x;
}
ALWAYS_INLINE A truth(A x)
{
    return x != 0;
}
ALWAYS_INLINE A magnitude(A x)
{
    return MAGNITUDE(x);
}
ALWAYS_INLINE A squared(A x)
{
    return x * x;
}
ALWAYS_INLINE A plus(A a, A b)
{
    return a + b;
}
ALWAYS_INLINE A times(A a, A b)
{
    return a * b;
}
ALWAYS_INLINE A larger(A a, A b)
{
    return b > a || IS_NAN(b) ? b : a;
}
ALWAYS_INLINE A smaller(A a, A b)
{
    return b < a || IS_NAN(b) ? b : a;
}

static void init_sum(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, 0);
}
static void take_sum(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, itself, plus);
}
static void merge_sum(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, plus);
}

static void init_nansum(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, 0);
}
static void take_nansum(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, without_nan, plus);
}
static void merge_nansum(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, plus);
}

#if !CPU_IS_HALF
static void init_prod(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, 1);
}
static void take_prod(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, itself, times);
}
static void merge_prod(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, times);
}
#endif

static void init_max(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, LOWEST);
}
static void take_max(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, itself, larger);
}
static void merge_max(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, larger);
}

static void init_min(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, HIGHEST);
}
static void take_min(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, itself, smaller);
}
static void merge_min(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, smaller);
}

#if !CPU_IS_HALF
static void init_any(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, 0);
}
static void take_any(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, truth, larger);
}
static void merge_any(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, larger);
}

static void init_all(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, 1);
}
static void take_all(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, truth, smaller);
}
static void merge_all(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, smaller);
}

static void init_count(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, 0);
}
static void take_count(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, truth, plus);
}
static void merge_count(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, plus);
}

static void init_norm_1(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, 0);
}
static void take_norm_1(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, magnitude, plus);
}
static void merge_norm_1(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, plus);
}

#endif

static void init_norm_2(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, 0);
}
static void take_norm_2(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, squared, plus);
}
static void merge_norm_2(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, plus);
}

#if !CPU_IS_HALF
static void init_norm_inf(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, 0);
}
static void take_norm_inf(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, magnitude, larger);
}
static void merge_norm_inf(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, larger);
}

static void init_norm_negative_inf(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, HIGHEST);
}
static void take_norm_negative_inf(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step,
                                   double p)
{
    take_one(s, x, lanes, magnitude, smaller);
}
static void merge_norm_negative_inf(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, smaller);
}

static void take_norm_p(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    A *a = s.words;
    const T *v = x;
    for (int64_t i = 0; i < lanes; i++) a[i] += (A)pow(fabs((double)v[i]), p);
}
#endif

#if !CPU_IS_HALF
/* ---- Both extremes ---------------------------------------------------------------------------------------
 */

static void init_minmax(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, HIGHEST);
    init_one((cpu_lanes){(A *)s.words + s.stride, s.stride}, lanes, LOWEST);
}
static void take_minmax(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_one(s, x, lanes, itself, smaller);
    take_one((cpu_lanes){(A *)s.words + s.stride, s.stride}, x, lanes, itself, larger);
}
static void merge_minmax(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_one(s, from, lanes, smaller);
    merge_one((cpu_lanes){(A *)s.words + s.stride, s.stride},
              (cpu_lanes){(A *)from.words + from.stride, from.stride}, lanes, larger);
}
#endif

/* ---- Positions of extremes: value, position (-1: nothing taken) -------------------------------------------
 */

/* 1 if b at position j is to be preferred to a at position i: the first of equals, and of NaNs. */
ALWAYS_INLINE int32_t is_better(A a, A i, A b, A j, int32_t sign)
{
    int32_t better = sign > 0 ? b > a : b < a, equal = b == a || (IS_NAN(a) & IS_NAN(b));
    return (i < 0) | better | (IS_NAN(b) & !IS_NAN(a)) | (equal & (j < i));
}
static void init_position(cpu_lanes s, int64_t lanes)
{
    init_one(s, lanes, 0);
    init_one((cpu_lanes){(A *)s.words + s.stride, s.stride}, lanes, -1);
}
ALWAYS_INLINE void take_position(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step,
                                 int32_t sign)
{
    A *a = s.words, *position = a + s.stride;
    const E *v = x;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < lanes; i++) {
        A b = (A)load(v + i), j = (A)(index + i * step);
        /* What a lane has taken stands before this. */
        int32_t larger_one = sign > 0 ? b > a[i] : b < a[i];
        int32_t better = (position[i] < 0) | larger_one | (IS_NAN(b) & !IS_NAN(a[i]));
        a[i] = better ? b : a[i];
        position[i] = better ? j : position[i];
    }
}
ALWAYS_INLINE void merge_position(cpu_lanes s, cpu_lanes from, int64_t lanes, int32_t sign)
{
    A *a = s.words, *position = a + s.stride;
    const A *b = from.words, *other = b + from.stride;
    for (int64_t i = 0; i < lanes; i++) {
        if (other[i] < 0 || !is_better(a[i], position[i], b[i], other[i], sign)) continue;
        a[i] = b[i];
        position[i] = other[i];
    }
}
static void take_argmax(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_position(s, x, lanes, index, step, 1);
}
static void merge_argmax(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_position(s, from, lanes, 1);
}
static void take_argmin(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    take_position(s, x, lanes, index, step, -1);
}
static void merge_argmin(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    merge_position(s, from, lanes, -1);
}

#if !defined(DTYPE_I64) && !CPU_IS_HALF
/*
 * ---- Moments: count, mean, sum of squared differences from it (Welford 1962; Chan, Golub and LeVeque 1979)
 * ----
 *
 * All lanes that take at once have taken equally many before.
 */
static void init_moments(cpu_lanes s, int64_t lanes)
{
    for (int64_t k = 0; k < 3; k++) init_one((cpu_lanes){(A *)s.words + k * s.stride, s.stride}, lanes, 0);
}
static void take_moments(cpu_lanes s, const void *x, int64_t lanes, int64_t index, int64_t step, double p)
{
    A *count = s.words, *mean = count + s.stride, *squares = mean + s.stride;
    const T *v = x;
    A n = count[0] + 1, share = 1 / n;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < lanes; i++) {
        A before = (A)v[i] - mean[i];
        mean[i] += before * share;
        squares[i] += before * ((A)v[i] - mean[i]);
        count[i] = n;
    }
}
static void merge_moments(cpu_lanes s, cpu_lanes from, int64_t lanes)
{
    A *count = s.words, *mean = count + s.stride, *squares = mean + s.stride;
    const A *count_b = from.words, *mean_b = count_b + from.stride, *squares_b = mean_b + from.stride;
    for (int64_t i = 0; i < lanes; i++) {
        A n = count[i] + count_b[i], apart = mean_b[i] - mean[i];
        if (count_b[i] == 0) continue;
        mean[i] += apart * (count_b[i] / n);
        squares[i] += squares_b[i] + apart * apart * (count[i] * count_b[i] / n);
        count[i] = n;
    }
}
#endif

#if !defined(DTYPE_I64)
/* ---- Whole runs and rows in registers
 * ------------------------------------------------------------------------ */

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
/* NaN wins: b is taken where it is NaN, and nothing is larger than a NaN in a. */
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

/* Two vectors of neighbouring elements, in any order: a pair of bfloat16 is taken apart where it lies. */
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

/* So many elements of a run are joined in T before they go into A, which keeps sums of float32 good. */
#define STRETCH (16 * AT_ONCE * LANES)

/* The vectors of a stretch, joined to one; n is a multiple of AT_ONCE vectors. */
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
            two_vectors_at(two, x + i + k * LANES);
            sums[k] = step(sums[k], map(two[0]));
            sums[k + 1] = step(sums[k + 1], map(two[1]));
        }
    for (int k = AT_ONCE / 2; k > 0; k /= 2)
        for (int j = 0; j < k; j++) sums[j] = step(sums[j], sums[j + k]);
    return sums[0];
}

/* Runs are cut the same way wherever they stand, so the result depends on their elements alone. */
ALWAYS_INLINE A join_run(const E *x, int64_t n, A start, T neutral, V (*map)(V), V (*step)(V, V), A (*one)(A),
                         A (*join)(A, A))
{
    A lanes[LANES];
    int64_t i = 0, whole = n - n % (AT_ONCE * LANES);
    for (int k = 0; k < LANES; k++) lanes[k] = (A)neutral;
    while (i < whole) {
        int64_t m = whole - i < STRETCH ? whole - i : STRETCH;
        T out[LANES];
        V joined = join_stretch(x + i, m, map, step);
        memcpy(out, &joined, sizeof out);
        for (int k = 0; k < LANES; k++) lanes[k] = join(lanes[k], (A)out[k]);
        i += m;
    }
    if (i + LANES <= n) {
        T out[LANES];
        V sum = (V){0} + neutral;
        for (; i + LANES <= n; i += LANES) sum = step(sum, map(vector_at(x + i)));
        memcpy(out, &sum, sizeof out);
        for (int k = 0; k < LANES; k++) lanes[k] = join(lanes[k], (A)out[k]);
    }
    for (int width = (int)LANES / 2; width > 0; width /= 2)
        for (int k = 0; k < width; k++) lanes[k] = join(lanes[k], lanes[k + width]);
    A result = join(start, lanes[0]);
    for (; i < n; i++) result = join(result, one((A)load(x + i)));
    return result;
}
ALWAYS_INLINE A sum_of(const E *x, int64_t n)
{
    return join_run(x, n, 0, 0, vector_itself, vector_plus, itself, plus);
}
ALWAYS_INLINE A sum_of_numbers(const E *x, int64_t n)
{
    return join_run(x, n, 0, 0, vector_without_nan, vector_plus, without_nan, plus);
}
ALWAYS_INLINE A largest_of(const E *x, int64_t n, A start)
{
    return join_run(x, n, start, LOWEST, vector_itself, vector_larger, itself, larger);
}
ALWAYS_INLINE A smallest_of(const E *x, int64_t n, A start)
{
    return join_run(x, n, start, HIGHEST, vector_itself, vector_smaller, itself, smaller);
}

ALWAYS_INLINE const E *row_at(const char *x, int64_t row, int64_t column)
{
    return (const E *)(const void *)(x + row) + column;
}
ALWAYS_INLINE void join_rows(cpu_lanes s, const char *x, int64_t row_bytes, int64_t rows, int64_t lanes,
                             V (*map)(V), V (*step)(V, V), A (*one)(A), A (*join)(A, A))
{
    A *a = s.words;
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
    /* The rest in the same order and precision, so that it does not matter where a column stands. */
    for (; i + LANES <= lanes; i += LANES) {
        V sum = map(vector_at(row_at(x, 0, i)));
        T out[LANES];
        for (int64_t r = 1; r < rows; r++) sum = step(sum, map(vector_at(row_at(x, r * row_bytes, i))));
        memcpy(out, &sum, sizeof out);
        for (int64_t k = 0; k < LANES; k++) a[i + k] = join(a[i + k], out[k]);
    }
    for (; i < lanes; i++) {
        T sum = (T)one((A)load(row_at(x, 0, i)));
        for (int64_t r = 1; r < rows; r++) sum = (T)join(sum, one((A)load(row_at(x, r * row_bytes, i))));
        a[i] = join(a[i], sum);
    }
}
static void rows_sum(cpu_lanes s, const void *x, int64_t row_bytes, int64_t rows, int64_t lanes)
{
    join_rows(s, x, row_bytes, rows, lanes, vector_itself, vector_plus, itself, plus);
}
static void rows_nansum(cpu_lanes s, const void *x, int64_t row_bytes, int64_t rows, int64_t lanes)
{
    join_rows(s, x, row_bytes, rows, lanes, vector_without_nan, vector_plus, without_nan, plus);
}
static void rows_max(cpu_lanes s, const void *x, int64_t row_bytes, int64_t rows, int64_t lanes)
{
    join_rows(s, x, row_bytes, rows, lanes, vector_itself, vector_larger, itself, larger);
}
static void rows_min(cpu_lanes s, const void *x, int64_t row_bytes, int64_t rows, int64_t lanes)
{
    join_rows(s, x, row_bytes, rows, lanes, vector_itself, vector_smaller, itself, smaller);
}
#define ROWS(name) rows_##name
#else
/* The compiler makes vectors of these. */
#define SIDE       16
ALWAYS_INLINE A join_run(const E *x, int64_t n, A start, A neutral, A (*join)(A, A))
{
    A lanes[SIDE];
    int64_t i = 0;
    for (int k = 0; k < SIDE; k++) lanes[k] = neutral;
    for (; i + SIDE <= n; i += SIDE)
        for (int k = 0; k < SIDE; k++) lanes[k] = join(lanes[k], x[i + k]);
    for (int k = 0; k < SIDE; k++) start = join(start, lanes[k]);
    for (; i < n; i++) start = join(start, x[i]);
    return start;
}
ALWAYS_INLINE A sum_of(const E *x, int64_t n)
{
    return join_run(x, n, 0, 0, plus);
}
ALWAYS_INLINE A sum_of_numbers(const E *x, int64_t n)
{
    return sum_of(x, n);
}
ALWAYS_INLINE A largest_of(const E *x, int64_t n, A start)
{
    return join_run(x, n, start, LOWEST, larger);
}
ALWAYS_INLINE A smallest_of(const E *x, int64_t n, A start)
{
    return join_run(x, n, start, HIGHEST, smaller);
}
#define ROWS(name) NULL
#endif

static void run_sum(cpu_lanes s, const void *x, int64_t n, int64_t index)
{
    A *a = s.words;
    *a += sum_of(x, n);
}
static void run_nansum(cpu_lanes s, const void *x, int64_t n, int64_t index)
{
    A *a = s.words;
    *a += sum_of_numbers(x, n);
}
static void run_max(cpu_lanes s, const void *x, int64_t n, int64_t index)
{
    A *a = s.words;
    *a = largest_of(x, n, *a);
}
static void run_min(cpu_lanes s, const void *x, int64_t n, int64_t index)
{
    A *a = s.words;
    *a = smallest_of(x, n, *a);
}

/* The extreme of the run first; its position is looked for only where it is a new one. */
ALWAYS_INLINE void run_position(cpu_lanes s, const E *x, int64_t n, int64_t index, int32_t sign)
{
    A *a = s.words, *position = a + s.stride;
    A best = sign > 0 ? largest_of(x, n, LOWEST) : smallest_of(x, n, HIGHEST);
    int64_t i = 0;
    if (!is_better(*a, *position, best, (A)index, sign)) return;
    if (IS_NAN(best))
        while (!IS_NAN(load(x + i))) i++;
    else
        while (load(x + i) != (T)best) i++;
    *a = best;
    *position = (A)(index + i);
}
static void run_argmax(cpu_lanes s, const void *x, int64_t n, int64_t index)
{
    run_position(s, x, n, index, 1);
}
static void run_argmin(cpu_lanes s, const void *x, int64_t n, int64_t index)
{
    run_position(s, x, n, index, -1);
}

/* Squares are summed in A alone: float32 has no room for those of its numbers. */
#define SQUARES 16
static void run_norm_2(cpu_lanes s, const void *x, int64_t n, int64_t index)
{
    A *a = s.words, sums[SQUARES] = {0};
    const E *v = x;
    int64_t i = 0;
    for (; i + SQUARES <= n; i += SQUARES)
        for (int k = 0; k < SQUARES; k++) sums[k] += squared((A)load(v + i + k));
    for (; i < n; i++) sums[0] += squared((A)load(v + i));
    for (int width = SQUARES / 2; width > 0; width /= 2)
        for (int k = 0; k < width; k++) sums[k] += sums[k + width];
    *a += sums[0];
}

extern const cpu_reduce_kernel CPU_NAME(cpu_reduce)[];
const cpu_reduce_kernel CPU_NAME(cpu_reduce)[] = {
    {CPU_REDUCE_sum, 1, init_sum, take_sum, merge_sum, run_sum, ROWS(sum)},
    {CPU_REDUCE_nansum, 1, init_nansum, take_nansum, merge_nansum, run_nansum, ROWS(nansum)},
    {CPU_REDUCE_norm_2, 1, init_norm_2, take_norm_2, merge_norm_2, run_norm_2, NULL},
#if !CPU_IS_HALF
    {CPU_REDUCE_prod, 1, init_prod, take_prod, merge_prod, NULL, NULL},
#endif
    {CPU_REDUCE_max, 1, init_max, take_max, merge_max, run_max, ROWS(max)},
    {CPU_REDUCE_min, 1, init_min, take_min, merge_min, run_min, ROWS(min)},
#if !CPU_IS_HALF
    {CPU_REDUCE_any, 1, init_any, take_any, merge_any, NULL, NULL},
    {CPU_REDUCE_all, 1, init_all, take_all, merge_all, NULL, NULL},
    {CPU_REDUCE_count, 1, init_count, take_count, merge_count, NULL, NULL},
    {CPU_REDUCE_norm_1, 1, init_norm_1, take_norm_1, merge_norm_1, NULL, NULL},
    {CPU_REDUCE_norm_inf, 1, init_norm_inf, take_norm_inf, merge_norm_inf, NULL, NULL},
    {CPU_REDUCE_norm_negative_inf, 1, init_norm_negative_inf, take_norm_negative_inf, merge_norm_negative_inf,
     NULL, NULL},
    {CPU_REDUCE_norm_p, 1, init_sum, take_norm_p, merge_sum, NULL, NULL},
    {CPU_REDUCE_minmax, 2, init_minmax, take_minmax, merge_minmax, NULL, NULL},
#endif
    {CPU_REDUCE_argmax, 2, init_position, take_argmax, merge_argmax, run_argmax, NULL},
    {CPU_REDUCE_argmin, 2, init_position, take_argmin, merge_argmin, run_argmin, NULL},
#if !defined(DTYPE_I64) && !CPU_IS_HALF
    {CPU_REDUCE_moments, 3, init_moments, take_moments, merge_moments, NULL, NULL},
#endif
    {0, 0, NULL, NULL, NULL, NULL, NULL},
};
