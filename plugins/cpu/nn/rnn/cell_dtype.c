/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise part of recurrent cells, for one dtype and level. */
#include "cell.h"
#include "nn/words.h"

ALWAYS_INLINE T sigmoid(T x)
{
    return 1 / (1 + exponential(-x));
}

/* float: a polynomial near 0 (S. Moshier, Cephes), else from the exponential. */
ALWAYS_INLINE T hyperbolic_tangent(T x)
{
#if defined(DTYPE_F64)
    return tanh(x);
#else
    T z = x * x, far = 1 - 2 / (exponential(2 * x) + 1), near = -5.70498872745e-3f;
    near = near * z + 2.06390887954e-2f;
    near = near * z - 5.37397155531e-2f;
    near = near * z + 1.33314422036e-1f;
    near = near * z - 3.33332819422e-1f;
    near = near * z * x + x;
    return z < 0.390625f ? near : far;
#endif
}

ALWAYS_INLINE E *row_of(const cpu_cell *c, int which, int64_t row, int64_t parts)
{
    return (E *)c->data[which] + row * parts * c->width;
}

/* Element `at` of a row of gates, with its bias if there is one. Loops over gates are compiled once without biases:
 * vector code would load from NULL under a mask, which is slow. */
ALWAYS_INLINE T gate(const E *row, const E *bias, int64_t at)
{
    T x = load(&row[at]);
    return bias ? x + load(&bias[at]) : x;
}

typedef void rows_fn(const cpu_cell *c, int64_t begin, int64_t end, const E *x_bias, const E *h_bias);

/* The workspace has the gates: input, forget, value, output. */
ALWAYS_INLINE void lstm_rows(const cpu_cell *c, int64_t begin, int64_t end, const E *x_bias, const E *h_bias)
{
    const int64_t n = c->width;
    for (int64_t row = begin; row < end; row++) {
        const E *x = row_of(c, CPU_CELL_INPUT, row, 4), *h = row_of(c, CPU_CELL_HIDDEN, row, 4);
        const E *cx = row_of(c, CPU_CELL_STATE, row, 1);
        E *restrict work = row_of(c, CPU_CELL_WORKSPACE, row, 4);
        E *restrict hy = row_of(c, CPU_CELL_OUT, row, 1), *restrict cy = row_of(c, CPU_CELL_OUT_NEXT, row, 1);
        CPU_INDEPENDENT
        for (int64_t k = 0; k < n; k++) {
            T i = sigmoid(gate(x, x_bias, k) + gate(h, h_bias, k));
            T f = sigmoid(gate(x, x_bias, n + k) + gate(h, h_bias, n + k));
            T v = hyperbolic_tangent(gate(x, x_bias, 2 * n + k) + gate(h, h_bias, 2 * n + k));
            T o = sigmoid(gate(x, x_bias, 3 * n + k) + gate(h, h_bias, 3 * n + k));
            T next = f * load(&cx[k]) + i * v;
            store(&work[k], i);
            store(&work[n + k], f);
            store(&work[2 * n + k], v);
            store(&work[3 * n + k], o);
            store(&cy[k], next);
            store(&hy[k], o * hyperbolic_tangent(next));
        }
    }
}

/* Compiled twice: without biases their loads go. */
ALWAYS_INLINE void with_biases(const cpu_cell *c, int64_t begin, int64_t end, rows_fn *rows)
{
    const E *x_bias = c->data[CPU_CELL_INPUT_BIAS], *h_bias = c->data[CPU_CELL_HIDDEN_BIAS];
    if (!x_bias && !h_bias)
        rows(c, begin, end, NULL, NULL);
    else
        rows(c, begin, end, x_bias, h_bias);
}

static void lstm(const cpu_cell *c, int64_t begin, int64_t end)
{
    with_biases(c, begin, end, lstm_rows);
}

static void lstm_backward(const cpu_cell *c, int64_t begin, int64_t end)
{
    const int64_t n = c->width;
    const bool has_h = c->data[CPU_CELL_GRAD], has_c = c->data[CPU_CELL_GRAD_NEXT];
    for (int64_t row = begin; row < end; row++) {
        const E *work = row_of(c, CPU_CELL_WORKSPACE, row, 4), *cx = row_of(c, CPU_CELL_STATE, row, 1);
        const E *cy = row_of(c, CPU_CELL_NEXT, row, 1), *gh = row_of(c, CPU_CELL_GRAD, row, 1);
        const E *gc = row_of(c, CPU_CELL_GRAD_NEXT, row, 1);
        E *restrict gates = row_of(c, CPU_CELL_OUT, row, 4), *restrict gx =
                                                                 row_of(c, CPU_CELL_OUT_NEXT, row, 1);
        CPU_INDEPENDENT
        for (int64_t k = 0; k < n; k++) {
            T i = load(&work[k]), f = load(&work[n + k]), v = load(&work[2 * n + k]),
              o = load(&work[3 * n + k]);
            T out = hyperbolic_tangent(load(&cy[k])), g = has_h ? load(&gh[k]) : 0;
            T up = g * o * (1 - out * out) + (has_c ? load(&gc[k]) : 0);
            store(&gates[k], up * v * (1 - i) * i);
            store(&gates[n + k], up * load(&cx[k]) * (1 - f) * f);
            store(&gates[2 * n + k], up * i * (1 - v * v));
            store(&gates[3 * n + k], g * out * (1 - o) * o);
            store(&gx[k], up * f);
        }
    }
}

/* The workspace has the gates reset, update, the new value, the old state, and the state's share of the value. */
ALWAYS_INLINE void gru_rows(const cpu_cell *c, int64_t begin, int64_t end, const E *x_bias, const E *h_bias)
{
    const int64_t n = c->width;
    for (int64_t row = begin; row < end; row++) {
        const E *x = row_of(c, CPU_CELL_INPUT, row, 3), *h = row_of(c, CPU_CELL_HIDDEN, row, 3);
        const E *hx = row_of(c, CPU_CELL_STATE, row, 1);
        E *restrict work = row_of(c, CPU_CELL_WORKSPACE, row, 5), *restrict hy =
                                                                      row_of(c, CPU_CELL_OUT, row, 1);
        CPU_INDEPENDENT
        for (int64_t k = 0; k < n; k++) {
            T r = sigmoid(gate(x, x_bias, k) + gate(h, h_bias, k));
            T z = sigmoid(gate(x, x_bias, n + k) + gate(h, h_bias, n + k));
            T share = gate(h, h_bias, 2 * n + k), old = load(&hx[k]);
            T value = hyperbolic_tangent(gate(x, x_bias, 2 * n + k) + r * share);
            store(&work[k], r);
            store(&work[n + k], z);
            store(&work[2 * n + k], value);
            store(&work[3 * n + k], old);
            store(&work[4 * n + k], share);
            store(&hy[k], (old - value) * z + value);
        }
    }
}

static void gru(const cpu_cell *c, int64_t begin, int64_t end)
{
    with_biases(c, begin, end, gru_rows);
}

static void gru_backward(const cpu_cell *c, int64_t begin, int64_t end)
{
    const int64_t n = c->width;
    for (int64_t row = begin; row < end; row++) {
        const E *work = row_of(c, CPU_CELL_WORKSPACE, row, 5), *grad = row_of(c, CPU_CELL_GRAD, row, 1);
        E *restrict gi = row_of(c, CPU_CELL_OUT, row, 3), *restrict gh =
                                                              row_of(c, CPU_CELL_OUT_HIDDEN, row, 3);
        E *restrict gx = row_of(c, CPU_CELL_OUT_NEXT, row, 1);
        CPU_INDEPENDENT
        for (int64_t k = 0; k < n; k++) {
            T r = load(&work[k]), z = load(&work[n + k]), v = load(&work[2 * n + k]), g = load(&grad[k]);
            T to_value = g * (1 - z) * (1 - v * v),
              to_update = g * (load(&work[3 * n + k]) - v) * (1 - z) * z;
            T to_reset = to_value * load(&work[4 * n + k]) * (1 - r) * r;
            store(&gi[k], to_reset);
            store(&gh[k], to_reset);
            store(&gi[n + k], to_update);
            store(&gh[n + k], to_update);
            store(&gi[2 * n + k], to_value);
            store(&gh[2 * n + k], to_value * r);
            store(&gx[k], g * z);
        }
    }
}

static void sum_rows(const void *in, void *out, int64_t rows, int64_t width)
{
    for (int64_t k = 0; k < width; k++) {
        T sum = 0;
        for (int64_t row = 0; row < rows; row++) sum += load((const E *)in + row * width + k);
        store((E *)out + k, sum);
    }
}

CPU_KERNELS(cpu_cell_kernels, .lstm = lstm, .lstm_backward = lstm_backward, .gru = gru,
            .gru_backward = gru_backward, .sum_rows = sum_rows);
