/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes plans of Fourier transforms and keeps them. Tables are computed in float64 and written by a queue of their own,
 * which is waited for: a plan can be used by all queues at once, and made while one captures.
 */
#include "fft.h"
#include "turn.h"

#include <stdlib.h>

#define KEPT_BYTES \
    (64u << 20)          /* of the tables of a device; what more needs, takes the place of all idle ones */
#define LONG_POINTS 512u /* of a pass of several: then a group reads whole sectors of memory */
#define FULL_TWIDDLES \
    (1u << 14) /* the longest line whose roots are all in one table; else they are products of two */

/* ---- Factors ------------------------------------------------------------------------------------------------ */

/* Gives what is left of n without the factors 2, 3, 5, 7, 11 and 13, which `out` receives, the largest first. */
static uint32_t primes_of(uint32_t n, uint32_t out[32], uint32_t *out_count)
{
    static const uint32_t primes[] = {13, 11, 7, 5, 3, 2};
    *out_count = 0;
    for (uint32_t i = 0; i < sizeof primes / sizeof *primes; i++)
        for (; n % primes[i] == 0; n /= primes[i]) out[(*out_count)++] = primes[i];
    return n;
}

/* Divides n, a product of small primes, into passes of at most `most` points. 0: it takes more than `count`. */
static int32_t divide(gpu_fft_passes *p, uint32_t n, uint32_t count, uint32_t most)
{
    uint32_t primes[32], n_primes;
    primes_of(n, primes, &n_primes);
    *p = (gpu_fft_passes){.size = n, .count = count};
    for (uint32_t i = 0; i < count; i++) p->points[i] = 1;
    for (uint32_t k = 0; k < n_primes; k++) {
        uint32_t least = 0;
        for (uint32_t i = 1; i < count; i++)
            if (p->points[i] < p->points[least]) least = i;
        p->points[least] *= primes[k];
        if (p->points[least] > most) return 0;
    }
    return 1;
}

/* Radices of the steps of a pass: eights and fours for the twos, at most one 2. */
static void choose_radices(gpu_fft_passes *p, uint32_t pass)
{
    uint32_t primes[32], n_primes, twos = 0, count = 0, *out = p->radices[pass];
    primes_of(p->points[pass], primes, &n_primes);
    for (uint32_t k = 0; k < n_primes; k++) {
        if (primes[k] == 2)
            twos++;
        else
            out[count++] = primes[k];
    }
    for (; twos > 1 && twos % 3; twos -= 2) out[count++] = 4;
    for (; twos > 2; twos -= 3) out[count++] = 8;
    if (twos) out[count++] = 2;
    p->n_radices[pass] = count;
}

static void make_passes(gpu_fft_passes *p, uint32_t n, uint8_t type)
{
    int32_t is_made = divide(p, n, 1, GPU_FFT_POINTS(type));
    for (uint32_t count = 2; !is_made && count <= GPU_FFT_PASSES; count++)
        is_made = divide(p, n, count, count < GPU_FFT_PASSES ? LONG_POINTS : GPU_FFT_POINTS(type));
    for (uint32_t i = 0; i < p->count; i++) choose_radices(p, i);
}

/* ---- Tables ------------------------------------------------------------------------------------------------- */

/* Pairs that are written one after the other. */
typedef struct tables {
    double *pairs;
    uint64_t count;
} tables;

/* e^(-2 pi i k step / n) for k below `count`; gives its place. */
static int64_t add_roots(tables *t, uint64_t count, uint64_t step, uint64_t n)
{
    const int64_t place = (int64_t)t->count;
    for (uint64_t k = 0; t->pairs && k < count; k++)
        turn_of((int64_t)(k * step), (int64_t)n, t->pairs + 2 * (t->count + k));
    t->count += count;
    return place;
}

static void add_passes(tables *t, gpu_fft_passes *p)
{
    for (uint32_t i = 0; i < p->count; i++) p->roots[i] = add_roots(t, p->points[i], 1, p->points[i]);
    p->fine = p->size <= FULL_TWIDDLES ? p->size : FULL_TWIDDLES;
    if (p->count == 1) return;
    p->fine_at = add_roots(t, p->fine, 1, p->size);
    p->coarse_at = add_roots(t, (p->size + p->fine - 1) / p->fine, p->fine, p->size);
}

/* In place, of 2^bits pairs: bits of places are reversed, then pairs of transforms are joined. */
static void transform_in_place(double *z, uint32_t bits)
{
    const uint64_t n = (uint64_t)1 << bits;
    for (uint64_t i = 0, reversed = 0; i < n; i++) {
        for (uint32_t part = 0; part < 2 && i < reversed; part++) {
            double kept = z[2 * i + part];
            z[2 * i + part] = z[2 * reversed + part];
            z[2 * reversed + part] = kept;
        }
        uint64_t bit = n / 2;
        for (; bit && reversed & bit; bit /= 2) reversed ^= bit;
        reversed |= bit;
    }
    for (uint64_t half = 1; half < n; half *= 2)
        for (uint64_t k = 0; k < half; k++) {
            double root[2];
            turn_of((int64_t)k, (int64_t)(2 * half), root);
            for (uint64_t i = k; i < n; i += 2 * half) {
                double *a = z + 2 * i, *b = a + 2 * half;
                const double re = b[0] * root[0] - b[1] * root[1], im = b[0] * root[1] + b[1] * root[0];
                b[0] = a[0] - re, b[1] = a[1] - im;
                a[0] += re, a[1] += im;
            }
        }
}

/* The chirp e^(-pi i k^2 / n), and the spectrum of its conjugate, which is the same backwards, divided by the length. */
static void add_chirp(tables *t, gpu_fft_plan *plan)
{
    const uint64_t n = plan->size, length = plan->passes.size;
    plan->chirp = (int64_t)t->count;
    plan->spectrum = plan->chirp + (int64_t)n;
    t->count += n + length;
    if (!t->pairs) return;
    double *chirp = t->pairs + 2 * plan->chirp, *spectrum = t->pairs + 2 * plan->spectrum;
    uint32_t bits = 0;
    memset(spectrum, 0, 2 * length * sizeof *spectrum);
    for (uint64_t k = 0, square = 0; k < n; k++) {
        const uint64_t back = k ? length - k : 0;
        turn_of((int64_t)square, (int64_t)(2 * n), chirp + 2 * k);
        spectrum[2 * k] = spectrum[2 * back] = chirp[2 * k];
        spectrum[2 * k + 1] = spectrum[2 * back + 1] = -chirp[2 * k + 1];
        square = (square + 2 * k + 1) % (2 * n);
    }
    while ((uint64_t)1 << bits < length) bits++;
    transform_in_place(spectrum, bits);
    for (uint64_t i = 0; i < 2 * length; i++) spectrum[i] /= (double)length;
}

static void add_tables(tables *t, gpu_fft_plan *plan)
{
    t->count = 0;
    add_passes(t, &plan->passes);
    if (plan->is_padded) add_chirp(t, plan);
}

/* Writes numbers to the plan's memory, which the device then has. */
static int32_t upload(const gpu_device *d, const gpu_fft_plan *plan, const void *numbers)
{
    void *queue = NULL;
    int32_t status = gpu_the_driver.queue_create(d->handle, 0, &queue);
    if (status) return status;
    status = gpu_the_driver.write(d->handle, queue, plan->memory, 0, numbers, plan->bytes);
    int32_t finished = gpu_the_driver.queue_finish(d->handle, queue);
    gpu_the_driver.queue_destroy(d->handle, queue);
    return status ? status : finished;
}

static int32_t make_tables(gpu_device *d, gpu_fft_plan *plan)
{
    tables t = {0};
    add_tables(&t, plan);
    t.pairs = malloc(2 * t.count * sizeof *t.pairs);
    if (!t.pairs) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    add_tables(&t, plan);
    plan->bytes = 2 * t.count * (plan->type == 64 ? sizeof(double) : sizeof(float));
    if (plan->type == 32)
        for (uint64_t i = 0; i < 2 * t.count; i++) {
            const float narrow = (float)t.pairs[i]; /* in place: it ends before the next number begins */
            memcpy((char *)t.pairs + i * sizeof narrow, &narrow, sizeof narrow);
        }
    int32_t status = gpu_the_driver.alloc(d->handle, plan->bytes, &plan->memory);
    if (!status) status = upload(d, plan, t.pairs);
    free(t.pairs);
    return status;
}

/* ---- Plans -------------------------------------------------------------------------------------------------- */

static void destroy(const gpu_device *d, gpu_fft_plan *plan)
{
    if (plan->memory) gpu_the_driver.free(d->handle, plan->memory);
    free(plan);
}

static int32_t make_plan(gpu_device *d, uint32_t size, uint8_t type, gpu_fft_plan **out)
{
    uint32_t primes[32], n_primes, length = 1;
    gpu_fft_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    plan->size = size;
    plan->type = type;
    plan->is_padded = primes_of(size, primes, &n_primes) != 1;
    while (length < 2 * size - 1) length *= 2;
    make_passes(&plan->passes, plan->is_padded ? length : size, type);
    int32_t status = make_tables(d, plan);
    if (status)
        destroy(d, plan);
    else
        *out = plan;
    return status;
}

/* Waits for all queued work and forgets the plans that neither a call nor a graph has. */
static int32_t forget_idle(gpu_device *d)
{
    int32_t status = TN_OK;
    pthread_mutex_lock(&d->lock);
    for (const gpu_stream *s = d->streams; s && !status; s = s->next)
        if (!gpu_stream_capture(s)) status = gpu_the_driver.queue_finish(d->handle, s->queue);
    pthread_mutex_unlock(&d->lock);
    for (gpu_fft_plan **at = &d->fft.plans; *at && !status;) {
        gpu_fft_plan *plan = *at;
        if (plan->users || plan->is_pinned) {
            at = &plan->next;
            continue;
        }
        *at = plan->next;
        d->fft.bytes -= plan->bytes;
        destroy(d, plan);
    }
    return status;
}

/* With the lock held. */
static int32_t find_plan(gpu_device *d, uint32_t size, uint8_t type, gpu_fft_plan **out)
{
    gpu_fft_plan *p = d->fft.plans;
    while (p && (p->size != size || p->type != type)) p = p->next;
    int32_t status = TN_OK;
    if (!p) {
        status = make_plan(d, size, type, &p);
        if (!status && d->fft.bytes + p->bytes > KEPT_BYTES) {
            status = forget_idle(d);
            if (status) destroy(d, p);
        }
        if (status) return status;
        p->next = d->fft.plans;
        d->fft.plans = p;
        d->fft.bytes += p->bytes;
    }
    *out = p;
    return status;
}

int32_t gpu_fft_plan_take(const tn_call *call, uint32_t size, uint8_t type, gpu_fft_plan **out)
{
    gpu_device *d = gpu_device_of(call);
    pthread_mutex_lock(&d->fft.lock);
    int32_t status = find_plan(d, size, type, out);
    if (!status) {
        (*out)->users++;
        if (gpu_stream_capture(gpu_stream_of(call))) (*out)->is_pinned = 1;
    }
    pthread_mutex_unlock(&d->fft.lock);
    return status;
}

void gpu_fft_plan_give_back(const tn_call *call, gpu_fft_plan *plan)
{
    gpu_device *d = gpu_device_of(call);
    pthread_mutex_lock(&d->fft.lock);
    plan->users--;
    pthread_mutex_unlock(&d->fft.lock);
}

void gpu_fft_init(gpu_device *d)
{
    pthread_mutex_init(&d->fft.lock, NULL);
}

void gpu_fft_finish(gpu_device *d)
{
    for (gpu_fft_plan *p = d->fft.plans, *next; p; p = next) {
        next = p->next;
        destroy(d, p);
    }
    pthread_mutex_destroy(&d->fft.lock);
}
