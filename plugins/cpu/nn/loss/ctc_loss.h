/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of ctc_loss_dtype.c, for ctc_loss.c. */
#ifndef TENON_CPU_NN_CTC_LOSS_H
#define TENON_CPU_NN_CTC_LOSS_H

#include "support/cpu.h"

/*
 * One sequence: `length` rows of log probabilities, and labels with blanks between, before and behind them: `states` of
 * them. Strides in elements; log_alpha and scratch memory are contiguous.
 */
typedef struct cpu_ctc {
    const void *log_probs;
    int64_t row, column;    /* strides of log_probs */
    void *grad;             /* backward: strides grad_row, 1 */
    int64_t rows, grad_row; /* rows in all: those from `length` on have no gradient */
    int64_t length, classes, states;
    const int64_t *labels; /* of the states */
    void *log_alpha;       /* [rows, alpha_row] */
    int64_t alpha_row;
    void *scratch;          /* CPU_CTC_SCRATCH elements */
    double loss_grad, loss; /* backward */
} cpu_ctc;

/* Elements of scratch memory for so many states and classes. */
#define CPU_CTC_SCRATCH(states, classes) (5 * (states) + 6 + (classes))

typedef struct cpu_ctc_loss_kernels {
    /* Fills log_alpha, gives the negative log likelihood. */
    double (*forward)(const cpu_ctc *c);
    void (*backward)(const cpu_ctc *c);
} cpu_ctc_loss_kernels;

#endif
