/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans over a nest whose last dimension is the scanned one: cumsum, cumprod, cummax, cummin, logcumsumexp.
 * Many neighbouring lines go together, a row of elements at a time, where lines are not dense; else line by
 * line. Sums of floats are kept in float64, of integers in int64.
 */
#include "staging.h"

#include <math.h>
#include <string.h>

/* Elements that are worth a thread. */
#define SCAN_GRAIN ((int64_t)16 * 1024)

enum { SCAN_SUM, SCAN_PRODUCT, SCAN_MAX, SCAN_MIN, SCAN_LOG_SUM_EXP };

typedef struct scan_call {
    const tn_nest *nest;
    const tn_operand *out, *positions, *in;
    int32_t out_slot, in_slot, hub, kind;
    int64_t length;
} scan_call;

/* What a line has come to: a number of the hub and where it stood. */
typedef struct line_state {
    double re, im;
    double rest; /* what rounding has taken off a sum of real numbers so far */
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

static void scan_whole(const scan_call *c, line_state *s, int64_t *x, int64_t *positions, int64_t n,
                       int64_t first)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t on = s->position < 0 || (c->kind == SCAN_MAX ? x[i] >= s->whole : x[i] <= s->whole);
        if (c->kind == SCAN_SUM)
            s->whole += x[i];
        else if (c->kind == SCAN_PRODUCT)
            s->whole *= x[i];
        else if (on) {
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

/* Keeps what is rounded away (Knuth, "The Art of Computer Programming" 2, 4.2.2): the sum of many numbers is
 * as exact as that of two. Infinities and NaN have no rest. */
static void scan_sum(line_state *s, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = s->re + x[i], part = sum - s->re, lost = (s->re - (sum - part)) + (x[i] - part);
        s->re = sum;
        s->rest += lost - lost == 0 ? lost : 0;
        x[i] = sum + s->rest;
    }
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
            /* NaN wins, and the last of equals. */
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

/* The same of complex numbers, by the one with the larger real part. */
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
    else if (c->kind == SCAN_SUM)
        scan_sum(s, x, n);
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

static void scan_lines(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const scan_call *c = user;
    uint32_t along = c->nest->rank - 1;
    int64_t in_stride = c->in->strides[along], out_stride = c->out->strides[along];
    int64_t out_bytes = cpu_slot_bytes[c->out_slot], positions[CPU_CHUNK];
    cpu_buffer x, raw;
    for (int64_t line = begin; line < end; line++) {
        const char *in = operand_at(c, c->in, line);
        char *out = operand_at(c, c->out, line),
             *at = c->positions ? operand_at(c, c->positions, line) : NULL;
        line_state s;
        start(c, &s);
        for (int64_t i = 0; i < c->length; i += CPU_CHUNK) {
            int64_t n = c->length - i < CPU_CHUNK ? c->length - i : CPU_CHUNK;
            cpu_gather(x.bytes, c->hub, in + i * in_stride, c->in_slot, in_stride, n, &raw);
            scan_run(c, &s, x.bytes, at ? positions : NULL, n, i);
            cpu_convert(raw.bytes, c->out_slot, x.bytes, c->hub, n);
            cpu_move(out + i * out_stride, out_stride, raw.bytes, out_bytes, n, out_bytes);
            if (!at) continue;
            int64_t stride = c->positions->strides[along];
            cpu_move(at + i * stride, stride, positions, 8, n, 8);
        }
    }
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
    switch (c.out_slot) {
    case CPU_F32:
    case CPU_F64:
    case CPU_F16:
    case CPU_BF16:
        c.hub = CPU_F64;
        break;
    case CPU_C32:
    case CPU_C64:
    case CPU_C128:
        c.hub = CPU_C128;
        break;
    default:
        c.hub = CPU_I64;
        break;
    }
    if (c.hub == CPU_C128 && (c.kind == SCAN_MAX || c.kind == SCAN_MIN))
        return cpu_error(call, TN_E_UNSUPPORTED, "cpu: this scan has no order of complex numbers");
    int64_t grain = SCAN_GRAIN / c.length;
    cpu_parallel_for(call, nest->numel / c.length, grain > 0 ? grain : 1, scan_lines, &c);
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
