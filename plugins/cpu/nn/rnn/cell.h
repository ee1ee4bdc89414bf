/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of cell_dtype.c, for cell.c. */
#ifndef TENON_CPU_NN_CELL_H
#define TENON_CPU_NN_CELL_H

#include "support/cpu.h"

/* Operands of recurrent cells, contiguous; absent ones are NULL. */
enum {
    CPU_CELL_INPUT,  /* gates of the input, [rows, gates * width] */
    CPU_CELL_HIDDEN, /* gates of the state */
    CPU_CELL_INPUT_BIAS,
    CPU_CELL_HIDDEN_BIAS,
    CPU_CELL_STATE,      /* LSTM: cx, GRU: hx */
    CPU_CELL_NEXT,       /* backward of LSTM: cy */
    CPU_CELL_WORKSPACE,  /* forward: written; LSTM [rows, 4 width], GRU [rows, 5 width] */
    CPU_CELL_GRAD,       /* of hy */
    CPU_CELL_GRAD_NEXT,  /* of cy */
    CPU_CELL_OUT,        /* hy; backward: gradient of the gates (GRU: of the input) */
    CPU_CELL_OUT_NEXT,   /* cy; backward: gradient of the state */
    CPU_CELL_OUT_HIDDEN, /* backward of GRU: gradient of the gates of the state */
    CPU_CELL_OPERANDS
};

typedef struct cpu_cell {
    int64_t width;
    void *data[CPU_CELL_OPERANDS];
} cpu_cell;

/* Rows [begin, end). */
typedef void cpu_cell_fn(const cpu_cell *c, int64_t begin, int64_t end);

typedef struct cpu_cell_kernels {
    cpu_cell_fn *lstm, *lstm_backward, *gru, *gru_backward;
    /* The sums of contiguous rows, for gradients of biases. */
    void (*sum_rows)(const void *in, void *out, int64_t rows, int64_t width);
} cpu_cell_kernels;

#endif
