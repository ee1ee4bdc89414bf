/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resampling. A line of outputs is computed in two steps: the input lines that it needs are summed with
 * their weights, which vectorises; then each output gathers from that sum. Backward does the same in
 * reverse.
 */
#include "resample.h"
#include "nn/runs.h"

/* The type of sums: float for integers. */
#if CPU_IS_INTEGER
typedef float real;
#define TO_REAL(x) (float)(x)
static inline E from_real(real x)
{
    const double high = sizeof(E) == 8 ? INT32_MAX : (double)HIGHEST;
    double nearest = rint((double)x);
    return (E)(nearest < LOWEST ? LOWEST : nearest > high ? high : nearest);
}
#else
typedef acc real;
#define TO_REAL(x) load_acc(&x)
static inline E from_real(real x)
{
    E e;
    store_acc(&e, x);
    return e;
}
#endif

/* Weights are rounded to the half type where ATen stores them in it. */
static inline real kept(const cpu_resample *r, double weight)
{
#if CPU_IS_HALF
    if (r->narrow_weights) {
        E half;
        store_acc(&half, (acc)weight);
        return load_acc(&half);
    }
#endif
    return (real)weight;
}

static inline bool is_input(const cpu_resample *r, real weight)
{
    return weight != 0 || !r->taps[2].has_spare;
}

/* Adds one input line times its weight. */
static void add_line(const E *restrict from, real weight, int64_t count, real *restrict to)
{
    for (int64_t i = 0; i < count; i++) to[i] += TO_REAL(from[i]) * weight;
}

static void sum_lines(const cpu_resample *r, const E *plane, int64_t oz, int64_t oy, real *line)
{
    const cpu_taps *z = &r->taps[0], *y = &r->taps[1];
    for (int64_t i = 0; i < r->in[2]; i++) line[i] = 0;
    for (int64_t i = 0; i < z->taps; i++) {
        for (int64_t j = 0; j < y->taps; j++) {
            real weight = kept(r, z->weight[oz * z->taps + i]) * kept(r, y->weight[oy * y->taps + j]);
            int64_t at = z->at[oz * z->taps + i] * r->in[1] + y->at[oy * y->taps + j];
            if (is_input(r, weight)) add_line(plane + at * r->in[2], weight, r->in[2], line);
        }
    }
}

/* A line of outputs from the sum of input lines. `taps` is a constant of the caller where lines are many. */
ALWAYS_INLINE void gather_line(const cpu_resample *r, const real *restrict line, const real *restrict weights,
                               int64_t taps, E *restrict out)
{
    const int64_t *at = r->taps[2].at;
    bool spare = r->taps[2].has_spare;
    for (int64_t o = 0; o < r->out[2]; o++) {
        real sum = 0;
        for (int64_t t = o * taps; t < (o + 1) * taps; t++)
            sum += spare && weights[t] == 0 ? 0 : line[at[t]] * weights[t];
        out[o] = from_real(sum);
    }
}
static void gather(const cpu_resample *r, const real *line, const real *weights, E *out)
{
    if (r->taps[2].taps == 2 && !r->taps[2].has_spare)
        gather_line(r, line, weights, 2, out);
    else if (r->taps[2].taps == 4 && !r->taps[2].has_spare)
        gather_line(r, line, weights, 4, out);
    else
        gather_line(r, line, weights, r->taps[2].taps, out);
}

static void forward(const cpu_resample *r, int64_t begin, int64_t end, void *line_v)
{
    const cpu_taps *x = &r->taps[2];
    real *line = line_v, *weights = line + r->in[2];
    int64_t in = r->in[0] * r->in[1] * r->in[2];
    E *out = (E *)r->y + begin * r->out[0] * r->out[1] * r->out[2];
    for (int64_t t = 0; t < r->out[2] * x->taps; t++) weights[t] = kept(r, x->weight[t]);
    for (int64_t plane = begin; plane < end; plane++) {
        for (int64_t row = 0; row < r->out[0] * r->out[1]; row++, out += r->out[2]) {
            sum_lines(r, (const E *)r->x + plane * in, row / r->out[1], row % r->out[1], line);
            gather(r, line, weights, out);
        }
    }
}

#if defined(DTYPE_U8)
/* Images of bytes are resampled first along lines and then across them, with 16-bit weights and rounding
 * to bytes after each step: PIL's results, which ATen follows. */
static int fixed_point(const cpu_taps *t, int64_t outputs, int16_t *to)
{
    double largest = 0;
    int precision = 0;
    for (int64_t i = 0; i < t->taps * outputs; i++) largest = t->weight[i] > largest ? t->weight[i] : largest;
    while (precision < 22 && 0.5 + largest * (double)(1 << (precision + 1)) < (double)(1 << 15)) precision++;
    for (int64_t i = 0; i < t->taps * outputs; i++) {
        double scaled = t->weight[i] * (double)(1 << precision);
        to[i] = (int16_t)(int)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    }
    return precision;
}

/* One output byte from `taps` inputs `step` apart. */
static inline E byte_of(const E *from, int64_t step, const cpu_taps *t, const int16_t *weight, int precision,
                        int64_t o)
{
    int32_t sum = 1 << (precision - 1);
    for (int64_t i = o * t->taps; i < (o + 1) * t->taps; i++) sum += from[t->at[i] * step] * weight[i];
    sum >>= precision;
    return (E)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* `memory` holds the weights of both directions and one plane of `in` lines of outputs. */
static void forward_bytes(const cpu_resample *r, int64_t begin, int64_t end, void *memory)
{
    const cpu_taps *x = &r->taps[2], *y = &r->taps[1];
    int16_t *x_weight = memory, *y_weight = x_weight + x->taps * r->out[2];
    E *between = (E *)(y_weight + y->taps * r->out[1]);
    int x_precision = fixed_point(x, r->out[2], x_weight), y_precision = fixed_point(y, r->out[1], y_weight);
    for (int64_t plane = begin; plane < end; plane++) {
        const E *in = (const E *)r->x + plane * r->in[1] * r->in[2];
        E *out = (E *)r->y + plane * r->out[1] * r->out[2];
        for (int64_t line = 0; line < r->in[1]; line++)
            for (int64_t o = 0; o < r->out[2]; o++)
                between[line * r->out[2] + o] = byte_of(in + line * r->in[2], 1, x, x_weight, x_precision, o);
        for (int64_t line = 0; line < r->out[1]; line++)
            for (int64_t o = 0; o < r->out[2]; o++)
                out[line * r->out[2] + o] = byte_of(between + o, r->out[2], y, y_weight, y_precision, line);
    }
}
#else
#define forward_bytes NULL
#endif

static void spread_line(const cpu_resample *r, const real *restrict line, int64_t oz, int64_t oy, real *sums)
{
    const cpu_taps *z = &r->taps[0], *y = &r->taps[1];
    for (int64_t i = 0; i < z->taps; i++) {
        for (int64_t j = 0; j < y->taps; j++) {
            real weight = (real)(z->weight[oz * z->taps + i] * y->weight[oy * y->taps + j]);
            int64_t at = z->at[oz * z->taps + i] * r->in[1] + y->at[oy * y->taps + j];
            real *restrict to = sums + at * r->in[2];
            for (int64_t k = 0; is_input(r, weight) && k < r->in[2]; k++) to[k] += line[k] * weight;
        }
    }
}

/* Whether every output is one input; the gradients of an input are then summed in a register. */
static bool is_move(const cpu_resample *r)
{
    return r->taps[0].taps == 1 && r->taps[1].taps == 1 && r->taps[2].taps == 1;
}

static void collect_moved(const cpu_taps *x, const E *grad, int64_t count, real *line)
{
    int64_t at = count > 0 ? x->at[0] : 0;
    real sum = line[at];
    for (int64_t o = 0; o < count; o++) {
        if (x->at[o] != at) {
            line[at] = sum;
            at = x->at[o];
            sum = line[at];
        }
        sum += TO_REAL(grad[o]);
    }
    line[at] = sum;
}

/* Whether outputs 2 i and 2 i + 1 are input i, and there are no others. */
static bool is_doubling(const cpu_taps *x, int64_t in, int64_t out)
{
    int64_t other = out - 2 * in;
    for (int64_t o = 0; other == 0 && o < out; o++) other |= x->at[o] - o / 2;
    return other == 0;
}
static void collect_pairs(const E *grad, int64_t count, real *line)
{
    for (int64_t i = 0; i < count; i++) line[i] = line[i] + TO_REAL(grad[2 * i]) + TO_REAL(grad[2 * i + 1]);
}

static void write_sums(const real *sums, int64_t count, E *out)
{
#if CPU_IS_INTEGER
    for (int64_t i = 0; i < count; i++) out[i] = from_real(sums[i]);
#else
    run_write(sums, count, out);
#endif
}

static void backward(const cpu_resample *r, int64_t begin, int64_t end, void *line_v, void *sums_v)
{
    const cpu_taps *x = &r->taps[2];
    real *line = line_v, *sums = sums_v;
    bool moves = is_move(r), pairs = moves && is_doubling(x, r->in[2], r->out[2]);
    int64_t in = r->in[0] * r->in[1] * r->in[2];
    const E *grad = (const E *)r->x + begin * r->out[0] * r->out[1] * r->out[2];
    for (int64_t plane = begin; plane < end; plane++) {
        E *out = (E *)r->y + plane * in;
        for (int64_t i = 0; i < in; i++) sums[i] = 0;
        for (int64_t row = 0; row < r->out[0] * r->out[1]; row++, grad += r->out[2]) {
            for (int64_t i = 0; i < r->in[2]; i++) line[i] = 0;
            if (pairs)
                collect_pairs(grad, r->in[2], line);
            else if (moves)
                collect_moved(x, grad, r->out[2], line);
            for (int64_t o = 0; !moves && o < r->out[2]; o++)
                for (int64_t t = o * x->taps; t < (o + 1) * x->taps; t++)
                    if (is_input(r, (real)x->weight[t]))
                        line[x->at[t]] += TO_REAL(grad[o]) * (real)x->weight[t];
            spread_line(r, line, row / r->out[1], row % r->out[1], sums);
        }
        write_sums(sums, in, out);
    }
}

/* The longest range [*first, *last) of outputs that are neighbours in the input: the middle of a padded
 * line. */
static void find_neighbours(const int64_t *at, int64_t count, int64_t *first, int64_t *last)
{
    int64_t begin = 0;
    *first = *last = 0;
    for (int64_t o = 1; o <= count; o++) {
        if (o < count && at[o] == at[o - 1] + 1) continue;
        if (o - begin > *last - *first) *first = begin, *last = o;
        begin = o;
    }
}

static void move_line(const E *restrict from, const int64_t *at, int64_t begin, int64_t end, E *restrict out)
{
    for (int64_t o = begin; o < end; o++) out[o] = from[at[o]];
}

/* The processor's own prefetching stays behind, as lines are short. Lines of large images are prefetched so many bytes ahead,
 * for reading and for writing. */
enum { AHEAD = 4096, LARGE_BYTES = 8 << 20 };
static void read_ahead(const E *from, const E *out, int64_t count)
{
    const char *next = (const char *)from + AHEAD, *to = (const char *)out + AHEAD;
    for (int64_t k = 0; k < count * (int64_t)sizeof(E); k += 64) {
        __builtin_prefetch(next + k);
        __builtin_prefetch(to + k, 1);
    }
}

static void move(const cpu_resample *r, int64_t begin, int64_t end)
{
    int64_t in = r->in[0] * r->in[1] * r->in[2], width = r->out[2], first, last;
    const int64_t *x = r->taps[2].at;
    E *out = (E *)r->y + begin * r->out[0] * r->out[1] * r->out[2];
    bool large = r->planes * r->out[0] * r->out[1] * width * (int64_t)sizeof(E) >= LARGE_BYTES;
    find_neighbours(x, width, &first, &last);
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t before = -1;
        for (int64_t row = 0; row < r->out[0] * r->out[1]; row++, out += width) {
            int64_t at = r->taps[0].at[row / r->out[1]] * r->in[1] + r->taps[1].at[row % r->out[1]];
            const E *from = (const E *)r->x + plane * in + at * r->in[2];
            if (at == before) {
                memcpy(out, out - width, (size_t)width * sizeof(E));
                continue;
            }
            before = at;
            if (large) read_ahead(from, out, width);
            move_line(from, x, 0, first, out);
            memcpy(out + first, from + x[first], (size_t)(last - first) * sizeof(E));
            move_line(from, x, last, width, out);
        }
    }
}

/* ---- Channels-last ----------------------------------------------------------------------------------- */

/* Channels of one output whose sums are kept in the first-level cache. */
enum { CHANNELS = 64 };

/* Adds `count` channels of one input pixel; the first pixel is written instead. */
static inline void add_pixel(const E *x, real weight, int64_t count, bool first, real *restrict sum)
{
    real room[CHANNELS];
#if CPU_IS_HALF
    const real *from = run_read(x, count, room);
#elif CPU_IS_INTEGER
    const real *from = room;
    for (int64_t c = 0; c < count; c++) room[c] = TO_REAL(x[c]);
#else
    const real *from = (const real *)x;
    (void)room;
#endif
    if (first)
        for (int64_t c = 0; c < count; c++) sum[c] = from[c] * weight;
    else
        for (int64_t c = 0; c < count; c++) sum[c] += from[c] * weight;
}

/* `count` channels of the output pixel o; x and y point to the first of them. */
static void sum_pixel(const cpu_resample *r, const E *x, int64_t channels, const int64_t o[3], int64_t count,
                      E *y)
{
    const cpu_taps *tz = &r->taps[0], *ty = &r->taps[1], *tx = &r->taps[2];
    real room[CHANNELS], *sum = CPU_IS_HALF || CPU_IS_INTEGER ? room : (real *)(void *)y;
    bool first = true;
    for (int64_t i = o[0] * tz->taps; i < (o[0] + 1) * tz->taps; i++) {
        for (int64_t j = o[1] * ty->taps; j < (o[1] + 1) * ty->taps; j++) {
            real line = kept(r, tz->weight[i]) * kept(r, ty->weight[j]);
            for (int64_t k = o[2] * tx->taps; k < (o[2] + 1) * tx->taps; k++) {
                int64_t at = (tz->at[i] * r->in[1] + ty->at[j]) * r->in[2] + tx->at[k];
                real weight = line * kept(r, tx->weight[k]);
                if (!is_input(r, weight)) continue;
                add_pixel(x + at * channels, weight, count, first, sum);
                first = false;
            }
        }
    }
    for (int64_t c = 0; first && c < count; c++) sum[c] = 0;
    if (sum == room) write_sums(room, count, y);
}

static void forward_last(const cpu_resample *r, int64_t channels, int64_t begin, int64_t end)
{
    int64_t in = r->in[0] * r->in[1] * r->in[2] * channels, lines = r->out[0] * r->out[1];
    bool moves = is_move(r);
    E *y = (E *)r->y + begin * r->out[2] * channels;
    for (int64_t line = begin; line < end; line++) {
        const E *x = (const E *)r->x + line / lines * in;
        int64_t o[3] = {line % lines / r->out[1], line % r->out[1], 0};
        const E *row = x + (r->taps[0].at[o[0]] * r->in[1] + r->taps[1].at[o[1]]) * r->in[2] * channels;
        for (; o[2] < r->out[2]; o[2]++, y += channels) {
            if (moves) {
                memcpy(y, row + r->taps[2].at[o[2]] * channels, (size_t)channels * sizeof(E));
                continue;
            }
            for (int64_t c = 0; c < channels; c += CHANNELS)
                sum_pixel(r, x + c, channels, o, min_i64(CHANNELS, channels - c), y + c);
        }
    }
}

CPU_KERNELS(cpu_resample_kernels, .line_bytes = sizeof(real), .acc_bytes = sizeof(real), .forward = forward,
            .backward = backward, .move = move, .forward_last = forward_last,
            .forward_images = forward_bytes);
