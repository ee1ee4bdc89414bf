/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of a call in a line of text, one word for each:
 *
 *     x4,16   a float tensor of that shape       p3   the same, positive       o9   the same, ascending
 *     q4,16   the same, of multiples of 1/4      m3   the same, of large numbers
 *     z3      indices from 0 to 3                z7:5 the same, from 0 to 4    c3,4 a list of two of x3,4
 *     w3      int64 that neither 32 bits nor a double hold       v3   int32 that a float does not hold
 *     h3      bools                              u3,4 a row of -infinity, then numbers with some among them
 *     j3      floats from 4 to 5                 y3   indices as of z, of int32        a3,4 numbers with NaN among them
 *     l3      ones                               g3   1 + 2^-30 and -1 in turn
 *     k3      40004 multiples of 1/4 with the sum 3, in turn: sums of the first 20000 exceed 12000
 *     x       a 0-dim tensor, as with the other letters
 *     i16     a list of integers                 n3   an integer               b1   a bool
 *     B011    a list of bools
 *     f.1     a float                            s1   a scalar                 e    the dtype
 *     t  d    a text, a dimension: for the caller to fill in, as f and s without a number
 *     -       None
 */
#ifndef TENON_KIT_CHECK_WORDS_H
#define TENON_KIT_CHECK_WORDS_H

#include "call.h"

/* What the arguments of a plan point to. Begins zeroed except for `dtype`, that of the tensors. */
typedef struct words {
    tn_dtype dtype;
    uint32_t n_lists;
    call_tensor tensors[CALL_MAX_ARGS], pair[2];
    int64_t lists[6][CALL_MAX_RANK];
    uint8_t bools[4];
    double ascending[CALL_MAX_RANK * 4];
} words;

/* The integers of w, twice, so that each tensor may begin elsewhere; and those of v, whose low bits serve narrower dtypes. The
 * first is 0, no other is. Sums of some hundred of w are far from the ends of the range. */
#define WORDS_WIDE 18
extern const int64_t words_wide[2 * WORDS_WIDE], words_narrow[WORDS_WIDE];

/* Adds the arguments to the plan, which points into *w from then on. */
void words_write(words *w, call_plan *p, const char *arguments);
/* The word behind the one at `at`, or the end of the text. */
const char *words_next(const char *at);

#endif
