/* SPDX-License-Identifier: Apache-2.0 */
/* Compares tensors of two devices on the host, without running any operator: code that is under
 * test must not convert the values. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../calls/fill.h"

check_tolerance check_tolerance_of(tn_dtype dtype)
{
    switch (dtype) {
    case TN_FLOAT16:
    case TN_COMPLEX32:
        return (check_tolerance){1e-3, 1e-5, 0};
    case TN_BFLOAT16:
        return (check_tolerance){1.6e-2, 1e-5, 0};
    case TN_FLOAT32:
    case TN_COMPLEX64:
        return (check_tolerance){1.3e-6, 1e-5, 0};
    case TN_FLOAT64:
    case TN_COMPLEX128:
        return (check_tolerance){1e-9, 1e-9, 0}; /* what a kernel that computes in float32 does not reach */
    default:
        return (check_tolerance){0, 0, 0};
    }
}

/* ---- Elements ------------------------------------------------------------------------------------------ */

static int64_t read_signed(const char *at, tn_dtype dtype)
{
    uint32_t bits = TN_DTYPE_BITS(dtype);
    uint64_t u = 0;
    memcpy(&u, at, bits / 8);
    return TN_DTYPE_CODE(dtype) == TN_CODE_INT ? (int64_t)(u << (64 - bits)) >> (64 - bits) : (int64_t)u;
}

static double read_whole(const char *at, tn_dtype dtype)
{
    int64_t i = read_signed(at, dtype);
    return TN_DTYPE_CODE(dtype) == TN_CODE_INT ? (double)i : (double)(uint64_t)i;
}

/* All digits: float64 does not hold every integer of 64 bits. */
static void whole_text(const char *at, tn_dtype dtype, char *text, size_t bytes)
{
    int64_t i = read_signed(at, dtype);
    if (TN_DTYPE_CODE(dtype) == TN_CODE_INT)
        snprintf(text, bytes, "%lld", (long long)i);
    else
        snprintf(text, bytes, "%llu", (unsigned long long)i);
}

static double read_number(const char *at, tn_dtype dtype)
{
    uint16_t bits;
    float single;
    double wide;
    switch (dtype) {
    case TN_FLOAT64:
        memcpy(&wide, at, 8);
        return wide;
    case TN_FLOAT32:
        memcpy(&single, at, 4);
        return (double)single;
    case TN_FLOAT16:
    case TN_BFLOAT16:
        memcpy(&bits, at, 2);
        return dtype == TN_FLOAT16 ? fill_half(bits) : fill_bfloat(bits);
    default:
        return read_whole(at, dtype);
    }
}

/* Parts of an element (2 for complex) and their dtype. */
static uint32_t parts_of(tn_dtype dtype, tn_dtype *out_part)
{
    *out_part = dtype;
    if (!tn_dtype_is_complex(dtype)) return 1;
    *out_part = TN_DTYPE(TN_CODE_FLOAT, TN_DTYPE_BITS(dtype) / 2);
    return 2;
}

static char *bytes_of(tn_scope *s, const tn_tensor *t)
{
    uint64_t bytes = (uint64_t)tn_tensor_numel(t) * (uint64_t)tn_dtype_bytes(tn_tensor_dtype(t));
    char *data = tn_scope_memory(s, bytes + 1);
    return data && tn_to_host(s, t, data, bytes) == TN_OK ? data : NULL;
}

double *check_doubles(tn_scope *s, const tn_tensor *t)
{
    tn_dtype part;
    uint32_t parts = parts_of(tn_tensor_dtype(t), &part);
    uint64_t n = (uint64_t)tn_tensor_numel(t) * parts, size = (uint64_t)tn_dtype_bytes(part);
    char *data = bytes_of(s, t);
    double *out = data ? tn_scope_memory(s, n * 8 + 8) : NULL;
    for (uint64_t i = 0; out && i < n; i++) out[i] = read_number(data + i * size, part);
    return out;
}

/* ---- Comparison ---------------------------------------------------------------------------------------- */

static int is_close(double got, double want, check_tolerance tolerance)
{
    if (isnan(want)) return isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    if (tolerance.signs && got == 0 && want == 0) return !signbit(got) == !signbit(want);
    return fabs(got - want) <= tolerance.atol + tolerance.rtol * fabs(want);
}

/* Compares element i of `parts` numbers; *distance is 0 if not finite. */
static int close_at(const double *got, const double *want, uint64_t i, uint32_t parts,
                    check_tolerance tolerance, double *distance)
{
    const double *g = got + i * parts, *w = want + i * parts;
    *distance = parts == 2 ? hypot(g[0] - w[0], g[1] - w[1]) : fabs(g[0] - w[0]);
    if (!isfinite(*distance)) *distance = 0;
    if (parts == 1) return is_close(g[0], w[0], tolerance);
    if (!isfinite(w[0]) || !isfinite(w[1]) || !isfinite(g[0]) || !isfinite(g[1]))
        return is_close(g[0], w[0], tolerance) && is_close(g[1], w[1], tolerance);
    return *distance <= tolerance.atol + tolerance.rtol * hypot(w[0], w[1]);
}

static void shape_text(const tn_tensor *t, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "[");
    for (int64_t i = 0; i < tn_tensor_rank(t) && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", i ? ", " : "",
                                 (long long)tn_tensor_size(t, i));
    if (used < bytes) snprintf(text + used, bytes - used, "]");
}

static int same_kind(check_result *out, const char *what, const tn_tensor *got, const tn_tensor *want)
{
    char a[96], b[96];
    if (tn_tensor_dtype(got) != tn_tensor_dtype(want)) {
        check_fail(out, "%s: dtype %s, expected %s", what, tn_dtype_name(tn_tensor_dtype(got)),
                   tn_dtype_name(tn_tensor_dtype(want)));
        return 0;
    }
    int64_t rank = tn_tensor_rank(want);
    if (tn_tensor_rank(got) == rank &&
        (!rank || !memcmp(tn_tensor_sizes(got), tn_tensor_sizes(want), (size_t)rank * 8)))
        return 1;
    shape_text(got, a, sizeof a);
    shape_text(want, b, sizeof b);
    check_fail(out, "%s: shape %s, expected %s", what, a, b);
    return 0;
}

static void number_text(const double *at, uint32_t parts, char *text, size_t bytes)
{
    if (parts == 2)
        snprintf(text, bytes, "%.9g%+.9gj", at[0], at[1]);
    else
        snprintf(text, bytes, "%.9g", at[0]);
}

/* Integers and bools, bit for bit: float64 cannot hold all of them. */
static int same_bits(check_result *out, tn_scope *s, const char *what, tn_tensor *got, tn_tensor *want)
{
    size_t size = (size_t)tn_dtype_bytes(tn_tensor_dtype(want));
    int64_t n = tn_tensor_numel(want);
    const char *g = bytes_of(s, got), *w = bytes_of(s, want);
    if (!g || !w) {
        check_fail_with_error(out, s, what);
        return 0;
    }
    for (int64_t i = 0; i < n; i++, g += size, w += size) {
        if (memcmp(g, w, size) == 0) continue;
        char a[32], b[32];
        whole_text(g, tn_tensor_dtype(want), a, sizeof a);
        whole_text(w, tn_tensor_dtype(want), b, sizeof b);
        check_fail(out, "%s: element %lld of %lld is %s, expected %s", what, (long long)i, (long long)n, a,
                   b);
        return 0;
    }
    return 1;
}

int check_same(check_result *out, tn_scope *s, const char *what, tn_tensor *got, tn_tensor *want,
               check_tolerance tolerance)
{
    tn_dtype part;
    double *g, *w, largest = 0, distance;
    uint64_t n, wrong = 0, first = 0;
    char a[64], b[64];
    if (tn_scope_failed(s) || !got || !want) {
        check_fail_with_error(out, s, what);
        return 0;
    }
    if (!same_kind(out, what, got, want)) return 0;
    if (!tn_dtype_is_floating(tn_tensor_dtype(want)) && !tn_dtype_is_complex(tn_tensor_dtype(want)))
        return same_bits(out, s, what, got, want);
    uint32_t parts = parts_of(tn_tensor_dtype(want), &part);
    g = check_doubles(s, got);
    w = check_doubles(s, want);
    if (!g || !w) {
        check_fail_with_error(out, s, what);
        return 0;
    }
    n = (uint64_t)tn_tensor_numel(want);
    for (uint64_t i = 0; i < n; i++) {
        if (close_at(g, w, i, parts, tolerance, &distance)) continue;
        if (!wrong++) first = i;
        if (distance > largest) largest = distance;
    }
    if (largest > out->difference) out->difference = largest;
    if (!wrong) return 1;
    number_text(g + first * parts, parts, a, sizeof a);
    number_text(w + first * parts, parts, b, sizeof b);
    check_fail(out, "%s: %llu of %llu differ, first at %llu: %s, expected %s", what,
               (unsigned long long)wrong, (unsigned long long)n, (unsigned long long)first, a, b);
    return 0;
}
