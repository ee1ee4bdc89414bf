/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sobol sequences. The state has a row of 30 direction numbers for each dimension; a point is the exclusive or of
 * some of them, times 2^-30. Consecutive points differ in one direction number, by the lowest zero bit of the index
 * (I. A. Antonov and V. M. Saleev, 1979).
 */
#include "support/cpu.h"
#include "sobol_numbers.h"

enum { BITS = 30 };

static int32_t degree_of(uint32_t polynomial)
{
    return 31 - __builtin_clz(polynomial);
}

/* The recurrence of a polynomial; `numbers` are the first ones. v[i] has its highest bit at BITS - 1 - i. */
static void extend(uint32_t polynomial, const uint16_t *numbers, int64_t v[BITS])
{
    int32_t degree = degree_of(polynomial);
    for (int32_t i = 0; i < BITS; i++) {
        if (i < degree) {
            v[i] = (int64_t)numbers[i] << (BITS - 1 - i);
            continue;
        }
        v[i] = v[i - degree] ^ v[i - degree] >> degree;
        for (int32_t k = 1; k < degree; k++) {
            if (polynomial >> (degree - k) & 1) v[i] ^= v[i - k];
        }
    }
}

/* Element (i, j) of a matrix of int64. */
static int64_t *at(const tn_tensor_desc *t, int64_t i, int64_t j)
{
    return (int64_t *)t->host + i * t->strides[0] + j * t->strides[1];
}

static int32_t initialize(void *self, const tn_call *call)
{
    const tn_tensor_desc *state = tensor_arg(call, 0);
    const uint16_t *next = sobol_numbers;
    int64_t v[BITS], dimension = int_arg(call, 1);
    for (int64_t d = 0; d < dimension; d++) {
        if (d == 0) {
            for (int32_t i = 0; i < BITS; i++) v[i] = INT64_C(1) << (BITS - 1 - i);
        } else {
            extend(next[0], next + 1, v);
            next += 1 + degree_of(next[0]);
        }
        for (int32_t i = 0; i < BITS; i++) *at(state, d, i) = v[i];
    }
    return TN_OK;
}

static int32_t lowest_zero(int64_t index)
{
    return __builtin_ctzll(~(uint64_t)index);
}

static int32_t fast_forward(void *self, const tn_call *call)
{
    const tn_tensor_desc *quasi = tensor_arg(call, 0), *state = tensor_arg(call, 2);
    int64_t n = int_arg(call, 1), dimension = int_arg(call, 3), first = int_arg(call, 4);
    for (int64_t d = 0; d < dimension; d++) {
        int64_t x = ((int64_t *)quasi->host)[d * quasi->strides[0]];
        for (int64_t i = 0; i < n; i++) x ^= *at(state, d, lowest_zero(first + i));
        ((int64_t *)quasi->host)[d * quasi->strides[0]] = x;
    }
    return TN_OK;
}

static int32_t draw(void *self, const tn_call *call)
{
    const tn_tensor_desc *quasi = tensor_arg(call, 0), *state = tensor_arg(call, 2),
                         *points = tensor_out(call, 0), *after = tensor_out(call, 1);
    int64_t n = int_arg(call, 1), dimension = int_arg(call, 3), first = int_arg(call, 4);
    const double unit = 1.0 / (1 << BITS);
    for (int64_t d = 0; d < dimension; d++) {
        int64_t x = ((const int64_t *)quasi->host)[d * quasi->strides[0]];
        for (int64_t i = 0; i < n; i++) {
            int64_t place = i * points->strides[0] + d * points->strides[1];
            x ^= *at(state, d, lowest_zero(first + i));
            if (points->dtype == TN_FLOAT64)
                ((double *)points->host)[place] = (double)x * unit;
            else
                ((float *)points->host)[place] = (float)x * (float)unit;
        }
        ((int64_t *)after->host)[d * after->strides[0]] = x;
    }
    return TN_OK;
}

/* Multiplies the bits of each direction number by a matrix with ones on its diagonal, over two elements. */
static int32_t scramble(void *self, const tn_call *call)
{
    const tn_tensor_desc *state = tensor_arg(call, 0), *matrices = tensor_arg(call, 1);
    int64_t dimension = int_arg(call, 2);
    for (int64_t d = 0; d < dimension; d++) {
        uint64_t rows[BITS]; /* row p of the matrix, its first element the highest bit */
        for (int32_t p = 0; p < BITS; p++) {
            const int64_t *row =
                (const int64_t *)matrices->host + d * matrices->strides[0] + p * matrices->strides[1];
            rows[p] = UINT64_C(1) << (BITS - 1 - p);
            for (int32_t k = 0; k < BITS; k++) {
                if (k != p) rows[p] += (uint64_t)row[k * matrices->strides[2]] << (BITS - 1 - k);
            }
        }
        for (int32_t j = 0; j < BITS; j++) {
            uint64_t old = (uint64_t)*at(state, d, j), fresh = 0;
            for (int32_t p = 0; p < BITS; p++)
                fresh |= (uint64_t)__builtin_parityll(rows[p] & old & ((1u << BITS) - 1)) << (BITS - 1 - p);
            *at(state, d, j) = (int64_t)fresh;
        }
    }
    return TN_OK;
}

const tn_kernel_row cpu_sobol_rows[] = {
    CPU_ROW("aten::_sobol_engine_initialize_state_(Tensor(a!) self, int dimension) -> Tensor(a!)", NULL,
            initialize),
    CPU_ROW("aten::_sobol_engine_ff_(Tensor(a!) self, int n, Tensor sobolstate, int dimension, int "
            "num_generated) -> "
            "Tensor(a!)",
            NULL, fast_forward),
    CPU_ROW(
        "aten::_sobol_engine_draw(Tensor quasi, int n, Tensor sobolstate, int dimension, int num_generated, "
        "ScalarType? dtype) -> (Tensor, Tensor)",
        NULL, draw),
    CPU_ROW("aten::_sobol_engine_scramble_(Tensor(a!) self, Tensor ltm, int dimension) -> Tensor(a!)", NULL,
            scramble),
};
const uint32_t cpu_sobol_row_count = CPU_ROW_COUNT(cpu_sobol_rows);
