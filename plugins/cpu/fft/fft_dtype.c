/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms of vectors of lines, for one dtype and level. See fft_plan.h for the algorithms. */
#include "fft_kernels.h"
#include "kernels/vocabulary.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#if defined(DTYPE_F64)
#define LANES (VECTOR_BYTES / 8)
#else
#define LANES (VECTOR_BYTES / 4)
#endif

/* Loops over the elements of a small transform, whose number is a constant. */
#if defined(__clang__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

typedef T vec __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef T vec_anywhere __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
typedef struct cell {
    vec re, im;
} cell;

/* LOW, HIGH: the elements of the first, of the second halves of two vectors in turn. EVEN, ODD: the elements of two
 * vectors at even, at odd places. */
#if LANES == 16
#define LOW(a, b)  __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define REVERSE(a) __builtin_shufflevector(a, a, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#elif LANES == 8
#define LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define REVERSE(a) __builtin_shufflevector(a, a, 7, 6, 5, 4, 3, 2, 1, 0)
#elif LANES == 4
#define LOW(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b)  __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define REVERSE(a) __builtin_shufflevector(a, a, 3, 2, 1, 0)
#else
#define LOW(a, b)  __builtin_shufflevector(a, b, 0, 2)
#define HIGH(a, b) __builtin_shufflevector(a, b, 1, 3)
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2)
#define ODD(a, b)  __builtin_shufflevector(a, b, 1, 3)
#define REVERSE(a) __builtin_shufflevector(a, a, 1, 0)
#endif

ALWAYS_INLINE vec get(const T *p)
{
    return *(const vec_anywhere *)(const void *)p;
}
ALWAYS_INLINE void put(T *p, vec x)
{
    *(vec_anywhere *)(void *)p = x;
}
ALWAYS_INLINE cell multiply_cells(cell a, cell b)
{
    return (cell){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
ALWAYS_INLINE cell turn(cell a, T re, T im)
{
    return (cell){a.re * re - a.im * im, a.re * im + a.im * re};
}
ALWAYS_INLINE cell add_cells(cell a, cell b)
{
    return (cell){a.re + b.re, a.im + b.im};
}
ALWAYS_INLINE cell subtract_cells(cell a, cell b)
{
    return (cell){a.re - b.re, a.im - b.im};
}
/* a - i b, a + i b */
ALWAYS_INLINE cell minus_i(cell a, cell b)
{
    return (cell){a.re + b.im, a.im - b.re};
}
ALWAYS_INLINE cell plus_i(cell a, cell b)
{
    return (cell){a.re - b.im, a.im + b.re};
}
ALWAYS_INLINE cell exchanged(cell a)
{
    return (cell){a.im, a.re};
}

/* ---- contiguous pairs <-> cells ---- */

ALWAYS_INLINE cell load_pairs(const T *p)
{
    vec a = get(p), b = get(p + LANES);
    return (cell){EVEN(a, b), ODD(a, b)};
}
ALWAYS_INLINE void store_pairs(T *p, cell x)
{
    put(p, LOW(x.re, x.im));
    put(p + LANES, HIGH(x.re, x.im));
}
/* The first `count` lanes; loading makes the others 0. */
ALWAYS_INLINE cell load_some_pairs(const T *p, int64_t count)
{
    T all[2 * LANES] = {0};
    if (count == LANES) return load_pairs(p);
    memcpy(all, p, (size_t)count * 2 * sizeof(T));
    return load_pairs(all);
}
ALWAYS_INLINE void store_some_pairs(T *p, cell x, int64_t count)
{
    T all[2 * LANES];
    if (count == LANES) return store_pairs(p, x);
    store_pairs(all, x);
    memcpy(p, all, (size_t)count * 2 * sizeof(T));
}

/* Each step moves the highest bit of the place's row number to the column number, and that one's to the row. */
ALWAYS_INLINE void transpose(vec *rows)
{
    for (int step = 1; step < LANES; step *= 2) {
        vec next[LANES];
        UNROLLED
        for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = LOW(rows[i], rows[i + LANES / 2]);
            next[2 * i + 1] = HIGH(rows[i], rows[i + LANES / 2]);
        }
        UNROLLED
        for (int i = 0; i < LANES; i++) rows[i] = next[i];
    }
}

/* ---- transforms of a few elements ---- */

ALWAYS_INLINE void transform_2(cell *x)
{
    cell a = x[0], b = x[1];
    x[0] = add_cells(a, b);
    x[1] = subtract_cells(a, b);
}

ALWAYS_INLINE void transform_4(cell *x)
{
    cell a = add_cells(x[0], x[2]), b = subtract_cells(x[0], x[2]);
    cell c = add_cells(x[1], x[3]), d = subtract_cells(x[1], x[3]);
    x[0] = add_cells(a, c);
    x[1] = minus_i(b, d);
    x[2] = subtract_cells(a, c);
    x[3] = plus_i(b, d);
}

ALWAYS_INLINE void transform_8(cell *x)
{
    const T r = (T)0.70710678118654752440;
    cell even[4] = {x[0], x[2], x[4], x[6]}, odd[4] = {x[1], x[3], x[5], x[7]};
    transform_4(even);
    transform_4(odd);
    odd[1] = (cell){(odd[1].re + odd[1].im) * r, (odd[1].im - odd[1].re) * r};
    odd[3] = (cell){(odd[3].im - odd[3].re) * r, -(odd[3].re + odd[3].im) * r};
    for (int k = 0; k < 4; k++) {
        x[k] = k == 2 ? minus_i(even[k], odd[k]) : add_cells(even[k], odd[k]);
        x[k + 4] = k == 2 ? plus_i(even[k], odd[k]) : subtract_cells(even[k], odd[k]);
    }
}

/* cos and sin of 2 pi k / radix, k from 0 to radix / 2 */
static const double cosines[14][7] = {
    [3] = {1, -0.5},
    [5] = {1, 0.30901699437494742410, -0.80901699437494742410},
    [7] = {1, 0.62348980185873353053, -0.22252093395631440429, -0.90096886790241912624},
    [11] = {1, 0.84125353283118116886, 0.41541501300188642553, -0.14231483827328514044,
            -0.65486073394528506406, -0.95949297361449738989},
    [13] = {1, 0.88545602565320989590, 0.56806474673115580251, 0.12053668025532305335,
            -0.35460488704253562597, -0.74851074817110109863, -0.97094181742605202716},
};
static const double sines[14][7] = {
    [3] = {0, 0.86602540378443864676},
    [5] = {0, 0.95105651629515357212, 0.58778525229247312917},
    [7] = {0, 0.78183148246802980871, 0.97492791218182360702, 0.43388373911755812048},
    [11] = {0, 0.54064081745559758211, 0.90963199535451837141, 0.98982144188093273238, 0.75574957435425828377,
            0.28173255684142969771},
    [13] = {0, 0.46472317204376854566, 0.82298386589365639458, 0.99270887409805399280, 0.93501624268541482344,
            0.66312265824079520238, 0.23931566428755776715},
};

/* An odd radix: the outputs k and radix - k are a sum over even parts minus and plus i times one over odd parts. */
ALWAYS_INLINE void transform_odd(cell *x, const int radix)
{
    const int half = radix / 2;
    cell even[6], odd[6], first = x[0];
    UNROLLED
    for (int j = 1; j <= half; j++) {
        even[j - 1] = add_cells(x[j], x[radix - j]);
        odd[j - 1] = subtract_cells(x[j], x[radix - j]);
        x[0] = add_cells(x[0], even[j - 1]);
    }
    UNROLLED
    for (int k = 1; k <= half; k++) {
        cell a = first, b = {{0}, {0}};
        UNROLLED
        for (int j = 1; j <= half; j++) {
            const int at = j * k % radix, place = at > half ? radix - at : at;
            const T c = (T)cosines[radix][place];
            const T s = at > half ? -(T)sines[radix][place] : (T)sines[radix][place];
            a = (cell){a.re + even[j - 1].re * c, a.im + even[j - 1].im * c};
            b = (cell){b.re + odd[j - 1].re * s, b.im + odd[j - 1].im * s};
        }
        x[k] = minus_i(a, b);
        x[radix - k] = plus_i(a, b);
    }
}

ALWAYS_INLINE void transform(cell *x, const int radix)
{
    if (radix == 2)
        transform_2(x);
    else if (radix == 4)
        transform_4(x);
    else if (radix == 8)
        transform_8(x);
    else
        transform_odd(x, radix);
}

/* ---- passes ---- */

ALWAYS_INLINE void run_pass(const cpu_fft_pass *p, const cell *from, cell *to, const int radix)
{
    const int64_t groups = p->groups, stride = p->stride, apart = groups * stride;
    const T *w = p->twiddles;
    for (int64_t x = 0; x < groups; x++, w += 2 * (radix - 1)) {
        const cell *in = from + x * stride;
        cell *out = to + x * stride * radix;
        for (int64_t y = 0; y < stride; y++) {
            cell z[13];
            UNROLLED
            for (int k = 0; k < radix; k++) z[k] = in[y + k * apart];
            transform(z, radix);
            out[y] = z[0];
            if (x == 0) {
                UNROLLED
                for (int k = 1; k < radix; k++) out[y + k * stride] = z[k];
            } else {
                UNROLLED
                for (int k = 1; k < radix; k++) out[y + k * stride] = turn(z[k], w[2 * k - 2], w[2 * k - 1]);
            }
        }
    }
}

#define PASS(radix)                                                             \
    static void pass_##radix(const cpu_fft_pass *p, const cell *from, cell *to) \
    {                                                                           \
        run_pass(p, from, to, radix);                                           \
    }
PASS(2)
PASS(3)
PASS(4)
PASS(5)
PASS(7)
PASS(8)
PASS(11)
PASS(13)

static void (*const passes[14])(const cpu_fft_pass *p, const cell *from,
                                cell *to) = {[2] = pass_2, [3] = pass_3, [4] = pass_4,   [5] = pass_5,
                                             [7] = pass_7, [8] = pass_8, [11] = pass_11, [13] = pass_13};

/* Transforms a; returns the buffer that has the result. */
static cell *run_passes(const cpu_fft_plan *plan, cell *a, cell *b)
{
    for (int32_t i = 0; i < plan->pass_count; i++) {
        cell *result = b;
        passes[plan->passes[i].radix](&plan->passes[i], a, b);
        b = a;
        a = result;
    }
    return a;
}

/* The same of any plan in the form CPU_FFT_LANES. */
static cell *run_plan(const cpu_fft_plan *plan, cell *a, cell *b)
{
    const T *chirp = plan->chirp, *spectrum = plan->spectrum;
    cell *result;
    int64_t n = plan->n, padded;
    if (!plan->padded) return run_passes(plan, a, b);
    padded = plan->padded->n;
    for (int64_t i = 0; i < n; i++) a[i] = turn(a[i], chirp[2 * i], chirp[2 * i + 1]);
    memset(a + n, 0, (size_t)(padded - n) * sizeof *a);
    result = run_passes(plan->padded, a, b);
    for (int64_t i = 0; i < padded; i++)
        result[i] = exchanged(turn(result[i], spectrum[2 * i], spectrum[2 * i + 1]));
    result = run_passes(plan->padded, result, result == a ? b : a);
    for (int64_t i = 0; i < n; i++) result[i] = turn(exchanged(result[i]), chirp[2 * i], chirp[2 * i + 1]);
    return result;
}

/* ---- lines <-> lanes ---- */

/*
 * `n` points of `count` lines: the real part of point j of a line is at its start plus j * step bytes, the
 * imaginary part `apart` bytes behind, which may be 0 in an expanded signal. With `exchange` parts change places. With
 * `is_real` there are no imaginary parts.
 */
typedef struct points {
    int64_t n, step, apart;
    int32_t count;
    bool exchange, is_real;
} points;

typedef enum layout {
    LAYOUT_ACROSS, /* neighbouring lanes are neighbours in memory */
    LAYOUT_ALONG,  /* neighbouring points are neighbours in memory */
    LAYOUT_ANY
} layout;

static layout layout_of(const points *p, const char *const *lines)
{
    int64_t size = p->apart == (int64_t)sizeof(T) ? 2 * (int64_t)sizeof(T) : (int64_t)sizeof(T);
    if (p->apart == (int64_t)sizeof(T) && p->step == 2 * (int64_t)sizeof(T)) return LAYOUT_ALONG;
    for (int32_t l = 1; l < p->count; l++)
        if (lines[l] - lines[0] != l * size) return LAYOUT_ANY;
    return LAYOUT_ACROSS;
}

ALWAYS_INLINE T *lane_of(vec *v, int32_t l)
{
    return (T *)(void *)v + l;
}

static void load_any(const points *p, const char *const *lines, cell *cells, int64_t from)
{
    for (int64_t j = from; j < p->n; j++) {
        vec *v = &cells[j].re;
        cells[j] = (cell){{0}, {0}};
        for (int32_t l = 0; l < p->count; l++) {
            const char *at = lines[l] + j * p->step;
            *lane_of(&v[p->exchange], l) = *(const T *)(const void *)at;
            if (!p->is_real) *lane_of(&v[!p->exchange], l) = *(const T *)(const void *)(at + p->apart);
        }
    }
}

static void store_any(const points *p, char *const *lines, cell *cells, int64_t from, T scale)
{
    for (int64_t j = from; j < p->n; j++) {
        vec *v = &cells[j].re;
        for (int32_t l = 0; l < p->count; l++) {
            char *at = lines[l] + j * p->step;
            *(T *)(void *)at = *lane_of(&v[p->exchange], l) * scale;
            if (!p->is_real) *(T *)(void *)(at + p->apart) = *lane_of(&v[!p->exchange], l) * scale;
        }
    }
}

static int64_t load_along(const points *p, const char *const *lines, cell *cells)
{
    int64_t j = 0;
    for (; j + LANES <= p->n; j += LANES) {
        vec re[LANES], im[LANES], *v = &cells[j].re;
        for (int32_t l = 0; l < LANES; l++) {
            cell x = {{0}, {0}};
            if (l < p->count) x = load_pairs((const T *)(const void *)(lines[l] + j * p->step));
            re[l] = x.re;
            im[l] = x.im;
        }
        transpose(re);
        transpose(im);
        for (int l = 0; l < LANES; l++) {
            v[2 * l + p->exchange] = re[l];
            v[2 * l + !p->exchange] = im[l];
        }
    }
    return j;
}

static int64_t store_along(const points *p, char *const *lines, cell *cells, T scale)
{
    int64_t j = 0;
    for (; j + LANES <= p->n; j += LANES) {
        vec re[LANES], im[LANES], *v = &cells[j].re;
        for (int l = 0; l < LANES; l++) {
            re[l] = v[2 * l + p->exchange] * scale;
            im[l] = v[2 * l + !p->exchange] * scale;
        }
        transpose(re);
        transpose(im);
        for (int32_t l = 0; l < p->count; l++)
            store_pairs((T *)(void *)(lines[l] + j * p->step), (cell){re[l], im[l]});
    }
    return j;
}

ALWAYS_INLINE vec load_some(const T *p, int32_t count)
{
    T all[LANES] = {0};
    if (count == LANES) return get(p);
    memcpy(all, p, (size_t)count * sizeof(T));
    return get(all);
}
ALWAYS_INLINE void store_some(T *p, vec x, int32_t count)
{
    T all[LANES];
    if (count == LANES) return put(p, x);
    put(all, x);
    memcpy(p, all, (size_t)count * sizeof(T));
}

static void load_across(const points *p, const char *line, cell *cells)
{
    for (int64_t j = 0; j < p->n; j++) {
        const T *at = (const T *)(const void *)(line + j * p->step);
        cell x = {{0}, {0}};
        if (p->apart == (int64_t)sizeof(T)) {
            x = load_some_pairs(at, p->count);
        } else {
            x.re = load_some(at, p->count);
            if (!p->is_real)
                x.im = load_some((const T *)(const void *)(line + j * p->step + p->apart), p->count);
        }
        cells[j] = p->exchange ? exchanged(x) : x;
    }
}

static void store_across(const points *p, char *line, const cell *cells, T scale)
{
    for (int64_t j = 0; j < p->n; j++) {
        T *at = (T *)(void *)(line + j * p->step);
        cell x = {cells[j].re * scale, cells[j].im * scale};
        if (p->exchange) x = exchanged(x);
        if (p->apart == (int64_t)sizeof(T)) {
            store_some_pairs(at, x, p->count);
        } else {
            store_some(at, x.re, p->count);
            if (!p->is_real) store_some((T *)(void *)(line + j * p->step + p->apart), x.im, p->count);
        }
    }
}

static void load_points(const points *p, const char *const *lines, cell *cells)
{
    layout way = layout_of(p, lines);
    if (way == LAYOUT_ACROSS)
        load_across(p, lines[0], cells);
    else
        load_any(p, lines, cells, way == LAYOUT_ALONG ? load_along(p, lines, cells) : 0);
}

static void store_points(const points *p, char *const *lines, cell *cells, double scale)
{
    layout way = layout_of(p, (const char *const *)lines);
    if (way == LAYOUT_ACROSS)
        store_across(p, lines[0], cells, (T)scale);
    else
        store_any(p, lines, cells, way == LAYOUT_ALONG ? store_along(p, lines, cells, (T)scale) : 0,
                  (T)scale);
}

/* ---- real signals ---- */

/*
 * With the transform z of the n pairs of a real signal of 2 n, and w = e^(-pi i k / n): the spectrum at k is e + w o, at n
 * - k the conjugate of e - w o, where e and o are the transforms of the elements at even and odd places.
 */
ALWAYS_INLINE void unpack_cells(cell a, cell b, cell w, cell *at_k, cell *at_rest)
{
    const T half = (T)0.5;
    cell e = {(a.re + b.re) * half, (a.im - b.im) * half}, o = {(a.im + b.im) * half, (b.re - a.re) * half};
    cell t = multiply_cells(o, w);
    *at_k = add_cells(e, t);
    *at_rest = (cell){e.re - t.re, t.im - e.im};
}
/* The inverse, times 2. */
ALWAYS_INLINE void pack_cells(cell a, cell b, cell w, cell *at_k, cell *at_rest)
{
    cell e = {a.re + b.re, a.im - b.im}, d = {a.re - b.re, a.im + b.im};
    cell o = multiply_cells(d, (cell){w.re, -w.im});
    *at_k = plus_i(e, o);
    *at_rest = (cell){e.re + o.im, o.re - e.im};
}

/* In lanes, in place. Spectra have n + 1 cells. */
static void unpack_lanes(const cpu_fft_plan *plan, cell *z)
{
    const T *w = plan->turns;
    int64_t n = plan->n;
    cell first = z[0];
    for (int64_t k = 1; k <= n / 2; k++) {
        cell turns = {w[2 * k] - (vec){0}, w[2 * k + 1] - (vec){0}};
        unpack_cells(z[k], z[n - k], turns, &z[k], &z[n - k]);
    }
    z[0] = (cell){first.re + first.im, {0}};
    z[n] = (cell){first.re - first.im, {0}};
}
static void pack_lanes(const cpu_fft_plan *plan, cell *z)
{
    const T *w = plan->turns;
    int64_t n = plan->n;
    z[0] = (cell){z[0].re + z[n].re, z[0].re - z[n].re};
    for (int64_t k = 1; k <= n / 2; k++) {
        cell turns = {w[2 * k] - (vec){0}, w[2 * k + 1] - (vec){0}};
        pack_cells(z[k], z[n - k], turns, &z[k], &z[n - k]);
    }
}

static void run_complex(const cpu_fft_lanes *l, cell *a, cell *b)
{
    points in = {l->n, l->in_step, sizeof(T), l->count, l->backward, false};
    points out = {l->n, l->out_step, sizeof(T), l->count, l->backward, false};
    load_points(&in, l->in, a);
    store_points(&out, l->out, run_plan(l->plan, a, b), l->scale);
}

static void run_real_in(const cpu_fft_lanes *l, cell *a, cell *b)
{
    bool odd = l->n % 2;
    points in = {
        odd ? l->n : l->n / 2, odd ? l->in_step : 2 * l->in_step, odd ? 0 : l->in_step, l->count, false, odd};
    points out = {l->written, l->out_step, sizeof(T), l->count, false, false};
    cell *z;
    load_points(&in, l->in, a);
    z = run_plan(l->plan, a, b);
    if (!odd) {
        unpack_lanes(l->plan, z);
        for (int64_t k = l->n / 2 + 1; k < l->written; k++) z[k] = (cell){z[l->n - k].re, -z[l->n - k].im};
    }
    store_points(&out, l->out, z, l->scale);
}

/* The imaginary parts of the first element, and of the middle one of an even length, count as 0. */
static void run_real_out(const cpu_fft_lanes *l, cell *a, cell *b)
{
    bool odd = l->n % 2;
    int64_t half = l->n / 2, n = odd ? l->n : half;
    points in = {half + 1, l->in_step, sizeof(T), l->count, false, false};
    points out = {n, odd ? l->out_step : 2 * l->out_step, odd ? 0 : l->out_step, l->count, true, odd};
    load_points(&in, l->in, a);
    if (odd) {
        a[0].im = (vec){0};
        for (int64_t k = 1; k <= half; k++) a[l->n - k] = (cell){a[k].re, -a[k].im};
    } else {
        pack_lanes(l->plan, a);
    }
    for (int64_t k = 0; k < n; k++) a[k] = exchanged(a[k]);
    store_points(&out, l->out, run_plan(l->plan, a, b), l->scale);
}

static void run_lanes(const cpu_fft_lanes *l)
{
    int64_t padded = l->plan->padded ? l->plan->padded->n : 0;
    cell *a = l->scratch, *b = a + max_i64(l->n + 1, padded);
    if (l->kind == CPU_FFT_REAL_IN)
        run_real_in(l, a, b);
    else if (l->kind == CPU_FFT_REAL_OUT)
        run_real_out(l, a, b);
    else
        run_complex(l, a, b);
}

/* ---- long lines ---- */

static void twist(const cpu_fft_plan *plan, int64_t group, cell *z)
{
    int64_t rows = plan->columns->n;
    if (!plan->lane_twiddles) {
        const cell *w = (const cell *)plan->group_twiddles + group * rows;
        for (int64_t i = 0; i < rows; i++) z[i] = multiply_cells(z[i], w[i]);
    } else {
        const cell *lanes = plan->lane_twiddles;
        const T *w = (const T *)plan->group_twiddles + group * rows * 2;
        for (int64_t i = 0; i < rows; i++)
            z[i] = multiply_cells(z[i], turn(lanes[i], w[2 * i], w[2 * i + 1]));
    }
}

/* The middle is [group of rows of the result, column] cells; a cell has the rows of a group in its lanes. */
static void run_columns(const cpu_fft_line *l, void *scratch, int64_t begin, int64_t end)
{
    int64_t rows = l->plan->columns->n, columns = l->plan->rows->n;
    cell *a = scratch, *b = a + max_i64(rows, columns);
    for (int64_t group = begin; group < end; group++) {
        int64_t first = group * LANES, count = min_i64(LANES, columns - first);
        const T *in = (const T *)l->in + 2 * first;
        cell *z;
        for (int64_t i = 0; i < rows; i++) {
            cell x = load_some_pairs(in + 2 * i * columns, count);
            a[i] = l->backward ? exchanged(x) : x;
        }
        z = run_passes(l->plan->columns, a, b);
        twist(l->plan, group, z);
        for (int64_t i = 0; i < rows; i += LANES) {
            vec re[LANES], im[LANES];
            cell *to = (cell *)l->middle + i / LANES * columns + first;
            for (int64_t k = 0; k < LANES; k++) {
                re[k] = i + k < rows ? z[i + k].re : (vec){0};
                im[k] = i + k < rows ? z[i + k].im : (vec){0};
            }
            transpose(re);
            transpose(im);
            for (int64_t k = 0; k < count; k++) to[k] = (cell){re[k], im[k]};
        }
    }
}

static void run_rows(const cpu_fft_line *l, void *scratch, int64_t begin, int64_t end)
{
    int64_t rows = l->plan->columns->n, columns = l->plan->rows->n;
    const T scale = (T)l->scale;
    for (int64_t group = begin; group < end; group++) {
        int64_t first = group * LANES, count = min_i64(LANES, rows - first);
        T *out = (T *)l->out + 2 * first;
        const cell *z = run_passes(l->plan->rows, (cell *)l->middle + group * columns, scratch);
        for (int64_t j = 0; j < columns; j++) {
            cell x = {z[j].re * scale, z[j].im * scale};
            if (l->backward) x = exchanged(x);
            store_some_pairs(out + 2 * j * rows, x, count);
        }
    }
}

static void multiply(const void *a, const void *b, void *out, int64_t n, bool exchange_a, bool exchange_out,
                     double scale)
{
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t count = min_i64(LANES, n - i);
        cell x = load_some_pairs((const T *)a + 2 * i, count),
             y = load_some_pairs((const T *)b + 2 * i, count);
        cell z = multiply_cells(exchange_a ? exchanged(x) : x, y);
        z = (cell){z.re * (T)scale, z.im * (T)scale};
        store_some_pairs((T *)out + 2 * i, exchange_out ? exchanged(z) : z, count);
    }
}

ALWAYS_INLINE cell reversed(cell x)
{
    return (cell){REVERSE(x.re), REVERSE(x.im)};
}

typedef void pair_fn(cell a, cell b, cell w, cell *at_k, cell *at_rest);

/* Applies f to the elements at k and n - k, k from begin to end. The last `count` lanes of `b` are used. */
ALWAYS_INLINE void along_pairs(const T *w, int64_t n, const T *in, T *out, int64_t begin, int64_t end,
                               pair_fn *f, T scale)
{
    for (int64_t k = begin; k < end; k += LANES) {
        int64_t count = min_i64(LANES, end - k), rest = n - k - count + 1;
        T tail[2 * LANES] = {0};
        cell x, y, b;
        if (count == LANES) {
            b = load_pairs(in + 2 * rest);
        } else {
            memcpy(tail + 2 * (LANES - count), in + 2 * rest, (size_t)count * 2 * sizeof(T));
            b = load_pairs(tail);
        }
        f(load_some_pairs(in + 2 * k, count), reversed(b), load_some_pairs(w + 2 * k, count), &x, &y);
        x = (cell){x.re * scale, x.im * scale};
        y = reversed((cell){y.re * scale, y.im * scale});
        store_some_pairs(out + 2 * k, x, count);
        store_pairs(tail, y);
        memcpy(out + 2 * rest, tail + 2 * (LANES - count), (size_t)count * 2 * sizeof(T));
    }
}

static void unpack(const cpu_fft_plan *plan, void *data, double scale, int64_t begin, int64_t end)
{
    T *z = data;
    int64_t n = plan->n;
    if (begin == 0) {
        T re = z[0], im = z[1];
        z[0] = (re + im) * (T)scale;
        z[2 * n] = (re - im) * (T)scale;
        z[1] = z[2 * n + 1] = 0;
    }
    along_pairs(plan->turns, n, z, z, max_i64(begin, 1), end, unpack_cells, (T)scale);
}

static void pack(const cpu_fft_plan *plan, const void *in, void *out, int64_t begin, int64_t end)
{
    const T *x = in;
    T *z = out, last = x[2 * plan->n];
    if (begin == 0) {
        T first = x[0];
        z[0] = first + last;
        z[1] = first - last;
    }
    along_pairs(plan->turns, plan->n, x, z, max_i64(begin, 1), end, pack_cells, 1);
}

CPU_KERNELS(cpu_fft_kernels, .lanes = LANES, .cell_bytes = sizeof(cell), .run_lanes = run_lanes,
            .run_columns = run_columns, .run_rows = run_rows, .multiply = multiply, .unpack = unpack,
            .pack = pack);
