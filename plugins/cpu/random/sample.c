/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that need an unknown number of random words: Poisson, binomial, gamma, Dirichlet. Element i uses
 * the counters {offset + i, j} for j = 1, 2, ... (those of prim::random have j = 0), so a sample does not
 * depend on the number of threads or on other elements. Computed in float64.
 */
#include <math.h>
#include "walk/staging.h"
#include "kernels/draw.h"

/* Least elements for a thread. */
#define SAMPLE_GRAIN 512

/* ---- Words of one element --------------------------------------------------------------------------------
 */

typedef struct words {
    uint64_t seed, counter;
    uint32_t step, left;
    uint32_t next[4];
} words;

/* In (0, 1), with 53 bits. */
static double uniform(words *w)
{
    if (!w->left) {
        cpu_philox_step(w->seed, w->counter, ++w->step, w->next);
        w->left = 2;
    }
    w->left--;
    uint64_t bits = w->next[2 * w->left] | (uint64_t)w->next[2 * w->left + 1] << 32;
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

static double normal(words *w)
{
    double radius = sqrt(-2 * log(uniform(w)));
    return radius * cos(6.283185307179586 * uniform(w));
}

/* lgamma(x) without the global variable signgam. */
static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* ---- Distributions --------------------------------------------------------------------------------- */

/*
 * The logarithm of a gamma sample: Marsaglia and Tsang, "A simple method for generating gamma variables",
 * 2000. A shape below 1 uses the shape one above it.
 */
static double log_of_gamma(words *w, double a)
{
    double boost = 0, d, c;
    if (!(a >= 0)) return NAN;
    if (a == INFINITY) return INFINITY; /* the test below would be false for ever */
    if (a < 1) {
        boost = log(uniform(w)) / a;
        a += 1;
    }
    d = a - 1.0 / 3;
    c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(w), root = 1 + c * x, v = root * root * root;
        if (root <= 0) continue;
        if (log(uniform(w)) < 0.5 * x * x + d * (1 - v + log(v))) return boost + log(d) + log(v);
    }
}

/*
 * For small means counts arrivals; else Hörmann's transformed rejection (PTRS), "The transformed rejection
 * method for generating Poisson random variables", 1993, with its constants.
 */
static double poisson(words *w, double mean)
{
    if (mean == INFINITY) return INFINITY;
    if (mean < 10) {
        double product = 1, least = exp(-mean), k = -1;
        for (; product > least; k++) product *= uniform(w);
        return mean == 0 ? 0 : k;
    }
    double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b, log_mean = log(mean);
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), squeeze = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = uniform(w) - 0.5, v = uniform(w), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= squeeze) return k;
        if (k < 0 || (us < 0.013 && v > us)) continue;
        if (log(v * inverse_alpha / (a / (us * us) + b)) <= k * log_mean - mean - log_gamma(k + 1)) return k;
    }
}

/* The gaps between successes are geometric. */
static double binomial_by_gaps(words *w, double n, double p)
{
    double sum = 0, k = -1, scale = 1 / log1p(-p);
    while (sum <= n) {
        sum += ceil(log(uniform(w)) * scale);
        k++;
    }
    return k;
}

/*
 * Hörmann's BTRS, "The generation of binomial random variates", 1993; for p up to 1/2 and n p of 10 or more.
 */
static double binomial_by_rejection(words *w, double n, double p)
{
    double deviation = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation,
           a = -0.0873 + 0.0248 * b + 0.01 * p;
    double center = n * p + 0.5, squeeze = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * deviation;
    double log_odds = log(p / (1 - p)), mode = floor((n + 1) * p);
    double at_mode = log_gamma(mode + 1) + log_gamma(n - mode + 1);
    for (;;) {
        double u = uniform(w) - 0.5, v = uniform(w), us = 0.5 - fabs(u),
               k = floor((2 * a / us + b) * u + center);
        if (us >= 0.07 && v <= squeeze) return k;
        if (k < 0 || k > n) continue;
        double density = at_mode - log_gamma(k + 1) - log_gamma(n - k + 1) + (k - mode) * log_odds;
        if (log(v * alpha / (a / (us * us) + b)) <= density) return k;
    }
}

static double binomial(words *w, double n, double p)
{
    if (n != n || p != p) return NAN;
    if (n <= 0 || p <= 0) return 0;
    if (p >= 1 || n == INFINITY) return n;
    if (p > 0.5) return n - binomial(w, n, 1 - p);
    return n * p < 10 ? binomial_by_gaps(w, n, p) : binomial_by_rejection(w, n, p);
}

/* ---- Kernels --------------------------------------------------------------------------------------- */

typedef enum family { POISSON, BINOMIAL, GAMMA, DIRICHLET } family;

typedef struct sample_call {
    cpu_plan plan;
    uint64_t seed, offset;
    family family;
    double least;    /* smallest positive normal number of the dtype: gamma samples are never 0 */
    int32_t refused; /* a rate is negative */
    int64_t row;     /* for DIRICHLET: size of the last dimension, and the logarithms of all samples */
    double *logs;
} sample_call;

static void sample_run(void *user, void *const *pointers, int64_t n, int64_t position)
{
    sample_call *c = user;
    double *o = pointers[0];
    const double *a = pointers[1], *b = pointers[2];
    for (int64_t i = 0; i < n; i++) {
        words w = {.seed = c->seed, .counter = c->offset + (uint64_t)(position + i)};
        switch (c->family) {
        case POISSON:
            if (!(a[i] >= 0)) __atomic_store_n(&c->refused, 1, __ATOMIC_RELAXED);
            o[i] = a[i] >= 0 ? poisson(&w, a[i]) : NAN;
            break;
        case BINOMIAL:
            o[i] = binomial(&w, floor(a[i]), b[i]);
            break;
        case GAMMA:
            o[i] = fmax(exp(log_of_gamma(&w, a[i])), a[i] >= 0 ? c->least : NAN);
            break;
        case DIRICHLET:
            c->logs[position + i] = log_of_gamma(&w, a[i]);
            o[i] = 0; /* written when its row is complete */
        }
    }
}

static void sample_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const sample_call *c = user;
    cpu_plan_walk(&c->plan, begin, end, sample_run, user);
}

/*
 * Turns rows of logarithms into shares of their sum. The largest is subtracted first, so tiny shapes do not
 * give 0 / 0.
 */
static void share_rows(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const sample_call *c = user;
    for (int64_t r = begin; r < end; r++) {
        double *x = c->logs + r * c->row, most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < c->row; i++) most = x[i] > most || x[i] != x[i] ? x[i] : most;
        for (int64_t i = 0; i < c->row; i++) sum += x[i] = exp(x[i] - most);
        for (int64_t i = 0; i < c->row; i++) x[i] /= sum;
    }
}

static void store_run(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const sample_call *c = user;
    double *o = pointers[0];
    for (int64_t i = 0; i < n; i++) o[i] = fmax(c->logs[position + i], c->least);
}

static void store_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const sample_call *c = user;
    cpu_plan_walk(&c->plan, begin, end, store_run, user);
}

static int32_t finish_rows(const tn_call *call, sample_call *c, const tn_tensor_desc *out, int64_t numel)
{
    c->row = out->rank ? out->sizes[out->rank - 1] : 1;
    cpu_parallel_for(call, numel / c->row, 1 + SAMPLE_GRAIN / c->row, share_rows, c);
    cpu_parallel_for(call, numel, CPU_CHUNK, store_range, c);
    return TN_OK;
}

static double least_normal(tn_dtype dtype)
{
    return dtype == TN_FLOAT64 ? 0x1p-1022 : dtype == TN_FLOAT16 ? 0x1p-14 : 0x1p-126;
}

static int32_t sample(const tn_call *call, family which, uint32_t n_inputs)
{
    const tn_tensor_desc *tensors[3] = {tensor_out(call, 0), tensor_arg(call, 0),
                                        n_inputs > 1 ? tensor_arg(call, 1) : NULL};
    const int32_t hubs[3] = {CPU_F64, CPU_F64, CPU_F64};
    const tn_value *generator = &call->args[n_inputs];
    sample_call c = {.family = which, .least = least_normal(tensors[0]->dtype)};
    int64_t numel = cpu_numel(tensors[0]);
    cpu_axes axes;
    if (numel == 0) return TN_OK;
    if (which == DIRICHLET && !(c.logs = cpu_scratch(call, (uint64_t)numel * sizeof *c.logs)))
        return TN_E_OUT_OF_MEMORY;
    tn_random_numbers numbers = {.size = sizeof numbers};
    int32_t status = call->host->random_reserve(
        call, generator->tag == TN_TAG_GENERATOR ? generator->as.generator : NULL, (uint64_t)numel, &numbers);
    if (status) return status;
    c.seed = numbers.seed;
    c.offset = numbers.offset;
    cpu_axes_make(&axes, tensors, 1 + n_inputs, 0);
    status = cpu_plan_axes(&c.plan, &axes, tensors, 1, hubs);
    if (status) return status;
    cpu_parallel_for(call, numel, SAMPLE_GRAIN, sample_range, &c);
    if (c.refused)
        return cpu_error(call, TN_E_ARGUMENT,
                         "poisson: invalid Poisson rate, expected rate to be non-negative");
    return which == DIRICHLET ? finish_rows(call, &c, tensors[0], numel) : TN_OK;
}

static int32_t run_poisson(void *self, const tn_call *call)
{
    return sample(call, POISSON, 1);
}
static int32_t run_binomial(void *self, const tn_call *call)
{
    return sample(call, BINOMIAL, 2);
}
static int32_t run_gamma(void *self, const tn_call *call)
{
    return sample(call, GAMMA, 1);
}
static int32_t run_dirichlet(void *self, const tn_call *call)
{
    return sample(call, DIRICHLET, 1);
}

static const char *count_fits(void *self, const tn_call *call)
{
    const tn_tensor_desc *count = tensor_arg(call, 0), *prob = tensor_arg(call, 1);
    int fits = prob->rank <= count->rank && prob->dtype == count->dtype;
    for (uint32_t i = 0; i < prob->rank && fits; i++) {
        int64_t n = prob->sizes[prob->rank - 1 - i];
        fits = n == 1 || n == count->sizes[count->rank - 1 - i];
    }
    return fits ? NULL : "binomial: prob must have the dtype of count and broadcast to its sizes";
}

#define ROW(text, function, check)                                                \
    {                                                                             \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = text, \
        .dtypes = cpu_float_dtypes, .run = function, .can_run = check             \
    }
const tn_kernel_row cpu_sample_rows[] = {
    ROW("aten::poisson(Tensor self, Generator? generator=None) -> Tensor", run_poisson, NULL),
    ROW("aten::binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor", run_binomial,
        count_fits),
    ROW("aten::_standard_gamma(Tensor self, Generator? generator=None) -> Tensor", run_gamma, NULL),
    ROW("aten::_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor", run_dirichlet, NULL),
};
const uint32_t cpu_sample_row_count = CPU_ROW_COUNT(cpu_sample_rows);
