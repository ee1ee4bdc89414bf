/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradients by the plain formula in float64, which tests of plugins compare with. */
#ifndef TENON_TESTS_ATTENTION_FORMULA_H
#define TENON_TESTS_ATTENTION_FORMULA_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <tenon/tenon.h>
#include "noise.h"

/* A problem: sizes, and which scores are left out. */
typedef struct problem {
    int64_t batch, heads, key_heads, queries, keys, width, value_width;
    bool causal;
    int32_t mask; /* 0: none; 1: [queries, keys]; 2: [1, heads, 1, keys] */
    tn_dtype dtype;
} problem;

enum { QUERY, KEY, VALUE, GRAD, MASK, INPUTS };
enum { OUT, LOG_SUM, GRAD_QUERY, GRAD_KEY, GRAD_VALUE, RESULTS };

/* Numbers of a problem in float64, and what the formula makes of them. */
typedef struct attention_numbers {
    double *in[INPUTS], *out[RESULTS];
    int64_t in_count[INPUTS], out_count[RESULTS];
} attention_numbers;

static inline double rounded(double x, tn_dtype dtype)
{
    if (dtype == TN_FLOAT64) return x;
    if (dtype == TN_FLOAT32) return (double)(float)x;
    int exponent;
    double part = frexp(x, &exponent), scale = ldexp(1, dtype == TN_FLOAT16 ? 11 : 8);
    return x == 0 || isinf(x) ? x : ldexp(nearbyint(part * scale) / scale, exponent);
}

static inline double mask_at(const problem *p, const double *mask, int64_t h, int64_t i, int64_t j)
{
    if (p->causal && j > i) return -INFINITY;
    if (p->mask == 1) return mask[i * p->keys + j];
    return p->mask == 2 ? mask[h * p->keys + j] : 0;
}

/* One query of one head: weights, result and gradients. */
static inline void attend(const problem *p, attention_numbers *n, int64_t b, int64_t h, int64_t i)
{
    int64_t group = p->heads / p->key_heads, key_head = b * p->key_heads + h / group;
    int64_t row = (b * p->heads + h) * p->queries + i, d = p->width, e = p->value_width;
    const double *q = n->in[QUERY] + row * d, *g = n->in[GRAD] + row * e, scale = 1 / sqrt((double)d);
    const double *k = n->in[KEY] + key_head * p->keys * d, *v = n->in[VALUE] + key_head * p->keys * e;
    double *weights = calloc((size_t)p->keys + 1, sizeof(double)), largest = -INFINITY, sum = 0, mean = 0;
    for (int64_t j = 0; j < p->keys; j++) {
        for (int64_t x = 0; x < d; x++) weights[j] += q[x] * k[j * d + x] * scale;
        weights[j] += mask_at(p, n->in[MASK], h, i, j);
        largest = fmax(largest, weights[j]);
    }
    for (int64_t j = 0; j < p->keys; j++) {
        weights[j] = largest == -INFINITY ? 0 : exp(weights[j] - largest);
        sum += weights[j];
    }
    n->out[LOG_SUM][row] = largest + log(sum);
    for (int64_t j = 0; j < p->keys; j++) {
        weights[j] = sum == 0 ? 0 : weights[j] / sum;
        for (int64_t x = 0; x < e; x++) n->out[OUT][row * e + x] += weights[j] * v[j * e + x];
    }
    for (int64_t x = 0; x < e; x++) mean += g[x] * n->out[OUT][row * e + x];
    for (int64_t j = 0; j < p->keys; j++) {
        double inner = 0;
        for (int64_t x = 0; x < e; x++) {
            inner += g[x] * v[j * e + x];
            n->out[GRAD_VALUE][(key_head * p->keys + j) * e + x] += weights[j] * g[x];
        }
        for (int64_t x = 0; x < d; x++) {
            n->out[GRAD_QUERY][row * d + x] += weights[j] * (inner - mean) * k[j * d + x] * scale;
            n->out[GRAD_KEY][(key_head * p->keys + j) * d + x] += weights[j] * (inner - mean) * q[x] * scale;
        }
    }
    free(weights);
}

static inline void make_numbers(const problem *p, attention_numbers *n)
{
    int64_t queries = p->batch * p->heads * p->queries, keys = p->batch * p->key_heads * p->keys;
    int64_t mask = p->mask == 1 ? p->queries * p->keys : p->mask == 2 ? p->heads * p->keys : 0;
    const int64_t in[INPUTS] = {queries * p->width, keys * p->width, keys * p->value_width,
                                queries * p->value_width, mask};
    const int64_t out[RESULTS] = {in[GRAD], queries, in[QUERY], in[KEY], in[VALUE]};
    for (int t = 0; t < INPUTS; t++) {
        uint32_t state = noise_begin((uint32_t)t + 1);
        n->in_count[t] = in[t];
        n->in[t] = calloc((size_t)in[t] + 1, sizeof(double));
        for (int64_t i = 0; i < in[t]; i++) n->in[t][i] = rounded(2 * (double)noise_next(&state), p->dtype);
    }
    for (int64_t i = 0; i < mask; i++)
        if (i % 3 == 1 || i / p->keys == 1) n->in[MASK][i] = -INFINITY; /* row or head 1 sees no key */
    for (int t = 0; t < RESULTS; t++) {
        n->out_count[t] = out[t];
        n->out[t] = calloc((size_t)out[t] + 1, sizeof(double));
    }
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t i = 0; i < p->queries; i++) attend(p, n, b, h, i);
}

static inline void free_numbers(attention_numbers *n)
{
    for (int t = 0; t < INPUTS; t++) free(n->in[t]);
    for (int t = 0; t < RESULTS; t++) free(n->out[t]);
}

#endif
