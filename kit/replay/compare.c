/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares results: bit for bit on the recorded plugin, otherwise within what a dtype allows for sums in
 * another order: a share of the result's greatest value.
 */
#include "replay.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include "../calls/fill.h"

void replay_differs(replay_player *p, uint64_t number, const char *op, const char *format, ...)
{
    p->differences++;
    if (p->difference[0]) return;
    int used =
        snprintf(p->difference, sizeof(p->difference), "call %llu, %s: ", (unsigned long long)number, op);
    va_list list;
    va_start(list, format);
    vsnprintf(p->difference + used, sizeof(p->difference) - (size_t)used, format, list);
    va_end(list);
}

/* The real parts of one element; returns their number, 0 for dtypes without. */
static int as_reals(tn_dtype dtype, const char *at, double *out)
{
    uint16_t bits;
    float f;
    switch (dtype) {
    case TN_FLOAT64:
    case TN_COMPLEX128:
        memcpy(out, at, dtype == TN_FLOAT64 ? 8 : 16);
        return dtype == TN_FLOAT64 ? 1 : 2;
    case TN_FLOAT32:
    case TN_COMPLEX64:
        for (int i = 0; i < (dtype == TN_FLOAT32 ? 1 : 2); i++) {
            memcpy(&f, at + 4 * i, 4);
            out[i] = f;
        }
        return dtype == TN_FLOAT32 ? 1 : 2;
    case TN_FLOAT16:
    case TN_BFLOAT16:
        memcpy(&bits, at, 2);
        out[0] = dtype == TN_FLOAT16 ? fill_half(bits) : fill_bfloat(bits);
        return 1;
    default:
        return 0;
    }
}

static double tolerance(tn_dtype dtype)
{
    switch (dtype) {
    case TN_FLOAT64:
    case TN_COMPLEX128:
        return 1e-10;
    case TN_FLOAT32:
    case TN_COMPLEX64:
        return 2e-5;
    case TN_FLOAT16:
        return 1e-2;
    default:
        return 6e-2; /* bfloat16 */
    }
}

/* All elements, row-major, of two tensors of one shape. */
typedef struct walk {
    const tn_tensor_desc *d, *want_desc;
    int64_t index[TN_MAX_RANK];
    int64_t at, want_at; /* in elements */
} walk;

static int next(walk *w)
{
    for (uint32_t d = w->d->rank; d-- > 0;) {
        w->at += w->d->strides[d];
        w->want_at += w->want_desc->strides[d];
        if (++w->index[d] < w->d->sizes[d]) return 1;
        w->at -= w->d->strides[d] * w->d->sizes[d];
        w->want_at -= w->want_desc->strides[d] * w->d->sizes[d];
        w->index[d] = 0;
    }
    return 0;
}

static int close_enough(const double *a, const double *b, int lanes, double allowed)
{
    for (int i = 0; i < lanes; i++) {
        if (isnan(a[i]) && isnan(b[i])) continue;
        if (a[i] == b[i] || fabs(a[i] - b[i]) <= allowed) continue;
        return 0;
    }
    return 1;
}

void replay_compare(replay_player *p, uint64_t number, const char *op, uint32_t output,
                    const tn_tensor_desc *d, const char *found, const tn_tensor_desc *want_desc,
                    const char *want)
{
    int64_t item = tn_dtype_bytes(d->dtype), element = 0;
    double a[2] = {0}, b[2] = {0}, greatest = 0;
    walk w = {.d = d, .want_desc = want_desc};
    do {
        int lanes = as_reals(d->dtype, want + w.want_at * item, b);
        for (int i = 0; i < lanes; i++)
            if (isfinite(b[i]) && fabs(b[i]) > greatest) greatest = fabs(b[i]);
    } while (next(&w));
    w = (walk){.d = d, .want_desc = want_desc};
    do {
        const char *x = found + w.at * item, *y = want + w.want_at * item;
        if (memcmp(x, y, (size_t)item)) {
            int lanes = p->same ? 0 : as_reals(d->dtype, x, a);
            if (lanes) as_reals(d->dtype, y, b);
            if (!lanes || !close_enough(a, b, lanes, tolerance(d->dtype) * (greatest + 1e-30))) {
                lanes = as_reals(d->dtype, x, a);
                as_reals(d->dtype, y, b);
                long long i = 0, k = 0;
                memcpy(&i, x, (size_t)(item < 8 ? item : 8));
                memcpy(&k, y, (size_t)(item < 8 ? item : 8));
                if (lanes)
                    replay_differs(p, number, op, "output %u, element %lld is %.9g, recorded was %.9g",
                                   output, (long long)element, a[0], b[0]);
                else
                    replay_differs(p, number, op, "output %u, element %lld is 0x%llx, recorded was 0x%llx",
                                   output, (long long)element, i, k);
                return;
            }
        }
        element++;
    } while (next(&w));
}
