/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans over a loop nest whose last dimension is the scanned one: cumsum, cumprod, cummax, cummin,
 * logcumsumexp. Where lines are contiguous they are scanned one by one, else many neighbouring lines
 * together, one row of elements at a time. Sums of floats are kept in float64, those of integers in int64.
 */
#include "walk/staging.h"

#include <math.h>
#include <string.h>

/* Least elements for a thread. */
#define SCAN_GRAIN ((int64_t)16 * 1024)

enum { SCAN_SUM, SCAN_PRODUCT, SCAN_MAX, SCAN_MIN, SCAN_LOG_SUM_EXP };

typedef struct scan_call {
    const tn_nest *nest;
    const tn_operand *out, *positions, *in;
    int32_t out_slot, in_slot, hub, kind;
    int64_t length;
} scan_call;

/* The state of a line: the value so far in the hub dtype, and the position of an extreme. */
typedef struct line_state {
    double re, im;
    double rest; /* what rounding has removed from the sum of real numbers so far */
    int64_t whole, position;
} line_state;

static void start(const scan_call *c, line_state *s)
{
    *s = (line_state){.position = -1};
    if (c->kind == SCAN_PRODUCT) {
        s->re = 1;
        s->whole = 1;
    }
    if (c->kind == SCAN_LOG_SUM_EXP) s->re = -INFINITY;
}

/* 1 if b replaces a, which comes before it: of equals the last one counts. */
static inline int32_t goes_on(int32_t kind, int64_t a, int64_t b)
{
    return kind == SCAN_MAX ? b >= a : b <= a;
}
static void scan_whole(const scan_call *c, line_state *s, int64_t *x, int64_t *positions, int64_t n,
                       int64_t first)
{
    if (c->kind == SCAN_SUM) {
        for (int64_t i = 0; i < n; i++) x[i] = s->whole += x[i];
        return;
    }
    if (c->kind == SCAN_PRODUCT) {
        for (int64_t i = 0; i < n; i++) x[i] = s->whole *= x[i];
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (s->position < 0 || goes_on(c->kind, s->whole, x[i])) {
            s->whole = x[i];
            s->position = first + i;
        }
        x[i] = s->whole;
        if (positions) positions[i] = s->position;
    }
}

/* log(e^a + e^b) without overflow. */
static double log_add(double a, double b)
{
    double high = a < b ? b : a, low = a < b ? a : b;
    if (a != a || b != b) return a + b;
    return high == low && isinf(high) ? high : high + log1p(exp(low - high));
}

/*
 * Keeps the rounding errors (Knuth, "The Art of Computer Programming" 2, 4.2.2), so a sum of many numbers is
 * as exact as a sum of two. Infinities and NaN have no error term.
 */
static void scan_sum(line_state *s, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = s->re + x[i], part = sum - s->re, lost = (s->re - (sum - part)) + (x[i] - part);
        s->re = sum;
        s->rest += lost - lost == 0 ? lost : 0;
        x[i] = sum + s->rest;
    }
}

/*
 * Sums of a shorter dtype need only float64's own digits. Each step waits for the one before it, so several
 * lines are summed or multiplied side by side.
 */
enum { BESIDE = 4 };
static void scan_beside(const scan_call *c, line_state *s, cpu_buffer *buffers, int64_t n)
{
    double *x[BESIDE], come[BESIDE];
    for (int k = 0; k < BESIDE; k++) {
        x[k] = (double *)(void *)buffers[k].bytes;
        come[k] = s[k].re;
    }
    if (c->kind == SCAN_SUM)
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < BESIDE; k++) x[k][i] = come[k] += x[k][i];
    else
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < BESIDE; k++) x[k][i] = come[k] *= x[k][i];
    for (int k = 0; k < BESIDE; k++) s[k].re = come[k];
}
static void scan_short_sum(line_state *s, double *x, int64_t n)
{
    double sum = s->re;
    for (int64_t i = 0; i < n; i++) x[i] = sum += x[i];
    s->re = sum;
}

static void scan_float(const scan_call *c, line_state *s, double *x, int64_t *positions, int64_t n,
                       int64_t first)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t further = c->kind == SCAN_MAX ? x[i] >= s->re : x[i] <= s->re;
        switch (c->kind) {
        case SCAN_PRODUCT:
            s->re *= x[i];
            break;
        case SCAN_LOG_SUM_EXP:
            s->re = log_add(s->re, x[i]);
            break;
        default:
            /* NaN replaces all else; of equals the last one counts. */
            if (s->position < 0 || x[i] != x[i] || further) {
                s->re = x[i];
                s->position = first + i;
            }
            break;
        }
        x[i] = s->re;
        if (positions) positions[i] = s->position;
    }
}

/* The same for complex numbers, scaled by the one with the larger real part. */
static void complex_log_add(line_state *s, double re, double im)
{
    int32_t higher = re > s->re;
    double high_re = higher ? re : s->re, high_im = higher ? im : s->im;
    double low_re = higher ? s->re : re, low_im = higher ? s->im : im;
    if (isinf(low_re) && low_re < 0 && !isnan(high_re)) {
        s->re = high_re;
        s->im = high_im;
        return;
    }
    double size = exp(low_re - high_re), turn = low_im - high_im, x = 1 + size * cos(turn),
           y = size * sin(turn);
    s->re = high_re + log(hypot(x, y));
    s->im = high_im + atan2(y, x);
}

static void scan_complex(const scan_call *c, line_state *s, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double re = x[2 * i], im = x[2 * i + 1];
        if (c->kind == SCAN_SUM) {
            s->re += re;
            s->im += im;
        } else if (c->kind == SCAN_LOG_SUM_EXP) {
            complex_log_add(s, re, im);
        } else {
            double real = s->re * re - s->im * im;
            s->im = s->re * im + s->im * re;
            s->re = real;
        }
        x[2 * i] = s->re;
        x[2 * i + 1] = s->im;
    }
}

static void scan_run(const scan_call *c, line_state *s, void *x, int64_t *positions, int64_t n, int64_t first)
{
    if (c->hub == CPU_I64)
        scan_whole(c, s, x, positions, n, first);
    else if (c->hub == CPU_C128)
        scan_complex(c, s, x, n);
    else if (c->kind == SCAN_SUM && c->out_slot == CPU_F64)
        scan_sum(s, x, n);
    else if (c->kind == SCAN_SUM)
        scan_short_sum(s, x, n);
    else
        scan_float(c, s, x, positions, n, first);
}

static char *operand_at(const scan_call *c, const tn_operand *o, int64_t line)
{
    char *address = o->host;
    for (uint32_t d = 0; d + 1 < c->nest->rank; d++) {
        address += line % c->nest->sizes[d] * o->strides[d];
        line /= c->nest->sizes[d];
    }
    return address;
}

/* Scans `count` lines (1 or BESIDE) from `line` on, side by side. */
static void scan_some(const scan_call *c, int64_t line, int64_t count, cpu_buffer *x)
{
    uint32_t along = c->nest->rank - 1;
    int64_t in_stride = c->in->strides[along], out_stride = c->out->strides[along];
    int64_t out_bytes = cpu_slot_bytes[c->out_slot], positions[CPU_CHUNK];
    const char *in[BESIDE];
    char *out[BESIDE], *at = c->positions ? operand_at(c, c->positions, line) : NULL;
    cpu_buffer *raw = x + BESIDE;
    line_state s[BESIDE];
    /* A contiguous line of the hub dtype is scanned in its own memory. */
    bool direct = count == 1 && c->out_slot == c->hub && out_stride == out_bytes;
    for (int64_t k = 0; k < count; k++) {
        in[k] = operand_at(c, c->in, line + k);
        out[k] = operand_at(c, c->out, line + k);
        start(c, &s[k]);
    }
    for (int64_t i = 0; i < c->length; i += CPU_CHUNK) {
        int64_t n = c->length - i < CPU_CHUNK ? c->length - i : CPU_CHUNK;
        char *work = direct ? out[0] + i * out_stride : x->bytes;
        for (int64_t k = 0; k < count; k++) {
            const char *from = in[k] + i * in_stride;
            if (from != work) /* otherwise the scan is in place */
                cpu_gather(k ? x[k].bytes : work, c->hub, from, c->in_slot, in_stride, n, raw->bytes);
        }
        if (count == BESIDE)
            scan_beside(c, s, x, n);
        else
            scan_run(c, s, work, at ? positions : NULL, n, i);
        for (int64_t k = 0; k < count && !direct; k++) {
            char *to = out[k] + i * out_stride;
            if (out_stride == out_bytes) {
                cpu_convert(to, c->out_slot, x[k].bytes, c->hub, n);
                continue;
            }
            cpu_convert(raw->bytes, c->out_slot, x[k].bytes, c->hub, n);
            cpu_move(to, out_stride, raw->bytes, out_bytes, n, out_bytes);
        }
        if (!at) continue;
        int64_t stride = c->positions->strides[along];
        cpu_move(at + i * stride, stride, positions, 8, n, 8);
    }
}

static void scan_lines(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const scan_call *c = user;
    int32_t beside =
        c->hub == CPU_F64 && (c->kind == SCAN_PRODUCT || (c->kind == SCAN_SUM && c->out_slot != CPU_F64));
    cpu_buffer x[BESIDE + 1];
    for (int64_t line = begin; line < end;) {
        int64_t count = beside && end - line >= BESIDE ? BESIDE : 1;
        scan_some(c, line, count, x);
        line += count;
    }
}

/* ---- Across lines ------------------------------------------------------------------------------------ */

/* Lines with neighbouring elements are scanned together, row by row. */
enum { ROW = 512 };

typedef struct row_state {
    double re[ROW], rest[ROW];
    int64_t whole[ROW], position[ROW];
} row_state;

static void row_of_floats(const scan_call *c, row_state *s, double *restrict x, int64_t n, int64_t index)
{
    double *restrict re = s->re, *restrict rest = s->rest;
    int64_t *restrict position = s->position;
    int32_t sign = c->kind == SCAN_MAX ? 1 : -1;
    if (c->kind == SCAN_SUM && c->out_slot == CPU_F64) {
        for (int64_t i = 0; i < n; i++) {
            double sum = re[i] + x[i], part = sum - re[i], lost = (re[i] - (sum - part)) + (x[i] - part);
            rest[i] += lost - lost == 0 ? lost : 0;
            re[i] = sum;
            x[i] = sum + rest[i];
        }
    } else if (c->kind == SCAN_SUM) {
        for (int64_t i = 0; i < n; i++) x[i] = re[i] += x[i];
    } else if (c->kind == SCAN_PRODUCT) {
        for (int64_t i = 0; i < n; i++) x[i] = re[i] *= x[i];
    } else {
        for (int64_t i = 0; i < n; i++) {
            int32_t on = (index == 0) | (x[i] != x[i]) | (sign * x[i] >= sign * re[i]);
            x[i] = re[i] = on ? x[i] : re[i];
            position[i] = on ? index : position[i];
        }
    }
}
static void row_of_wholes(const scan_call *c, row_state *s, int64_t *restrict x, int64_t n, int64_t index)
{
    int64_t *restrict whole = s->whole, *restrict position = s->position;
    if (c->kind == SCAN_SUM) {
        for (int64_t i = 0; i < n; i++) x[i] = whole[i] += x[i];
    } else if (c->kind == SCAN_PRODUCT) {
        for (int64_t i = 0; i < n; i++) x[i] = whole[i] *= x[i];
    } else {
        for (int64_t i = 0; i < n; i++) {
            int32_t on = (index == 0) | goes_on(c->kind, whole[i], x[i]);
            x[i] = whole[i] = on ? x[i] : whole[i];
            position[i] = on ? index : position[i];
        }
    }
}

static void scan_across(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const scan_call *c = user;
    uint32_t along = c->nest->rank - 1;
    _Alignas(64) char x[ROW * 8];
    row_state s;
    for (int64_t line = begin, n; line < end; line += n) {
        const char *in = operand_at(c, c->in, line);
        char *out = operand_at(c, c->out, line);
        char *at = c->positions ? operand_at(c, c->positions, line) : NULL;
        n = c->nest->sizes[0] - line % c->nest->sizes[0];
        if (n > end - line) n = end - line;
        if (n > ROW) n = ROW;
        for (int64_t i = 0; i < n; i++) {
            s.re[i] = (double)(s.whole[i] = c->kind == SCAN_PRODUCT);
            s.rest[i] = 0;
        }
        for (int64_t i = 0; i < c->length; i++) {
            cpu_convert(x, c->hub, in + i * c->in->strides[along], c->in_slot, n);
            if (c->hub == CPU_I64)
                row_of_wholes(c, &s, (int64_t *)(void *)x, n, i);
            else
                row_of_floats(c, &s, (double *)(void *)x, n, i);
            cpu_convert(out + i * c->out->strides[along], c->out_slot, x, c->hub, n);
            if (at) memcpy(at + i * c->positions->strides[along], s.position, (size_t)n * 8);
        }
    }
}

/* Whether neighbouring lines are contiguous and their own elements are not. */
static bool goes_across(const scan_call *c)
{
    const tn_nest *nest = c->nest;
    if (nest->rank < 2 || nest->sizes[0] < 8 || c->hub == CPU_C128 || c->kind == SCAN_LOG_SUM_EXP)
        return false;
    return c->in->strides[0] == cpu_slot_bytes[c->in_slot] &&
           c->out->strides[0] == cpu_slot_bytes[c->out_slot] &&
           (!c->positions || c->positions->strides[0] == 8);
}

static int32_t run_scan(void *self, const tn_call *call)
{
    const tn_nest *nest = call->nest;
    scan_call c = {.nest = nest, .kind = *(const int32_t *)call->data, .length = nest->sizes[nest->rank - 1]};
    c.out = cpu_operand(nest, 0);
    c.positions = nest->n_outputs > 1 ? cpu_operand(nest, 1) : NULL;
    c.in = cpu_operand(nest, nest->n_outputs);
    c.out_slot = cpu_slot(c.out->dtype);
    c.in_slot = cpu_slot(c.in->dtype);
    c.hub = cpu_slot_is_complex(c.out_slot) ? CPU_C128 : cpu_slot_is_float(c.out_slot) ? CPU_F64 : CPU_I64;
    if (c.hub == CPU_C128 && (c.kind == SCAN_MAX || c.kind == SCAN_MIN))
        return cpu_error(call, TN_E_UNSUPPORTED, "cpu: this scan has no order of complex numbers");
    int64_t grain = SCAN_GRAIN / c.length;
    cpu_parallel_for(call, nest->numel / c.length, grain > 0 ? grain : 1,
                     goes_across(&c) ? scan_across : scan_lines, &c);
    return TN_OK;
}

#define SCAN_ROW(row_schema, row_dtypes, kind)                                                \
    {                                                                                         \
        .size = sizeof(tn_kernel_row), .flags = TN_ROW_CASTS, .strides = TN_STRIDES_ANY,      \
        .schema = row_schema, .dtypes = row_dtypes, .run = run_scan, .data = &(const int32_t) \
        {                                                                                     \
            kind                                                                              \
        }                                                                                     \
    }
const tn_kernel_row cpu_scan_rows[] = {
    SCAN_ROW("aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cpu_all_dtypes,
             SCAN_SUM),
    SCAN_ROW("aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cpu_all_dtypes,
             SCAN_PRODUCT),
    SCAN_ROW("aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", cpu_ordered_dtypes,
             SCAN_MAX),
    SCAN_ROW("aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", cpu_ordered_dtypes,
             SCAN_MIN),
    SCAN_ROW("aten::logcumsumexp(Tensor self, int dim) -> Tensor", cpu_inexact_dtypes, SCAN_LOG_SUM_EXP),
    SCAN_ROW("aten::_logcumsumexp(Tensor self, int dim) -> Tensor", cpu_inexact_dtypes, SCAN_LOG_SUM_EXP),
};
const uint32_t cpu_scan_row_count = CPU_ROW_COUNT(cpu_scan_rows);
