/* SPDX-License-Identifier: Apache-2.0 */
/* Plausible contents for tensors; see fill.h. */
#include "fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Numbers repeat after this many elements: drawing 64 MiB of them would take longer than the case. A prime, so that an
 * index that wraps at a power of two meets other numbers. */
#define PERIOD 4093
/* Larger tensors are allocated by the device, as a program's are: in large pages, which matter as much as
 * a kernel's loop. Smaller ones come from the C library, whose bounds tools watch. */
#define LARGE_BYTES ((uint64_t)1 << 20)

/* _Float16 is not in every compiler for every target. Rounds to even. */
static uint16_t half_bits(double value)
{
    uint16_t sign = signbit(value) ? 0x8000u : 0;
    double magnitude = fabs(value);
    int exponent;
    if (isnan(value)) return 0x7e00u;
    if (magnitude == 0) return sign;
    if (magnitude >= 65520.0) return (uint16_t)(sign | 0x7c00u);
    frexp(magnitude, &exponent);
    if (exponent < -13) exponent = -13; /* denormal: steps of 2^-24 */
    double steps = nearbyint(ldexp(magnitude, 11 - exponent));
    /* 1024 steps reach the next exponent; adding lets a carry go there by itself. */
    return (uint16_t)(sign | (uint16_t)((exponent + 13) * 1024 + (int)steps));
}

double fill_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    double mantissa = bits & 0x3ffu, sign = bits & 0x8000u ? -1.0 : 1.0;
    if (exponent == 31) return mantissa > 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, -24);
    return sign * ldexp(1024.0 + mantissa, exponent - 25);
}

double fill_bfloat(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return (double)value;
}

void fill_store(void *at, tn_dtype dtype, double value)
{
    float single = (float)value;
    uint16_t half = half_bits((double)single);
    uint32_t bits;
    int64_t whole = value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : 0;
    switch (dtype) {
    case TN_BOOL: /* 0 or 1: tenon/op.h promises kernels no other byte */
        *(uint8_t *)at = whole != 0;
        break;
    case TN_FLOAT32:
    case TN_COMPLEX64:
        memcpy(at, &single, 4);
        break;
    case TN_FLOAT64:
    case TN_COMPLEX128:
        memcpy(at, &value, 8);
        break;
    case TN_FLOAT16:
    case TN_COMPLEX32:
        memcpy(at, &half, 2);
        break;
    case TN_BFLOAT16:
        memcpy(&bits, &single, 4);
        bits >>= 16;
        memcpy(at, &bits, 2);
        break;
    default:
        memcpy(at, &whole, (size_t)tn_dtype_bytes(dtype));
    }
}

/* A generator by Marsaglia (xorshift64), in [0, 1). */
static double draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-53;
}

static void fill_numbers(char *data, int64_t n, tn_dtype dtype, const fill_wish *w)
{
    uint64_t state = w->seed ? w->seed : 88172645463325252u;
    size_t size = (size_t)tn_dtype_bytes(dtype);
    int64_t first = n < PERIOD ? n : PERIOD;
    for (int64_t i = 0; i < first; i++) {
        double value = w->low + draw(&state) * (w->high - w->low);
        if (w->step > 0) value = floor(value / w->step) * w->step;
        fill_store(data + (size_t)i * size, dtype, value);
    }
    for (int64_t i = first; i < n; i += first) {
        int64_t count = n - i < first ? n - i : first;
        memcpy(data + (size_t)i * size, data, (size_t)count * size);
    }
}

/* Rising positions from 0, below `high`. */
static void fill_offsets(char *data, int64_t n, tn_dtype dtype, double high)
{
    size_t size = (size_t)tn_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++) fill_store(data + (size_t)i * size, dtype, (double)i * high / (double)n);
}

static void release_memory(void *user)
{
    free(user);
}
static void release_tensor(void *user)
{
    tn_release(user);
}

/* Memory for a tensor, and the function that frees it. */
static void *find_room(tn_scope *s, uint64_t bytes, void (**out_release)(void *), void **out_user)
{
    if (bytes >= LARGE_BYTES) {
        tn_tensor *room = tn_empty(s, TN_INTS((int64_t)bytes), .dtype = TN_UINT8, .device = TN_CPU);
        *out_release = release_tensor;
        *out_user = tn_retain(room);
        tn_drop(s, room);
        return *out_user ? tn_tensor_data(*out_user) : NULL;
    }
    *out_release = release_memory;
    *out_user = aligned_alloc(64, bytes);
    if (!*out_user) tn_scope_fail(s, TN_E_OUT_OF_MEMORY, "fill: no memory");
    return *out_user;
}

/* The position of the last element in the storage, -1 for an empty tensor, -2 for sizes and strides that cannot be. */
static int64_t last_position(const fill_wish *w)
{
    int64_t last = w->offset, stride = 1, step;
    int empty = 0;
    if (last < 0 || (w->strides.data && w->strides.count != w->sizes.count)) return -2;
    for (int64_t i = w->sizes.count - 1; i >= 0; i--) {
        int64_t size = w->sizes.data[i], own = w->strides.data ? w->strides.data[i] : stride;
        empty |= size == 0;
        if (size < 0 || own < 0) return -2;
        if (empty) continue;
        if (__builtin_mul_overflow(size - 1, own, &step) || __builtin_add_overflow(last, step, &last) ||
            __builtin_mul_overflow(stride, size, &stride))
            return -2;
    }
    return empty ? -1 : last;
}

/* Half of the machine's memory: a damaged file may ask for anything. */
static int64_t most_bytes(void)
{
    return sysconf(_SC_PHYS_PAGES) / 2 * sysconf(_SC_PAGESIZE);
}

tn_tensor *fill_tensor(tn_scope *s, const fill_wish *w)
{
    int64_t last = last_position(w), element = tn_dtype_bytes(w->dtype);
    uint64_t bytes;
    void *data, *user, (*release)(void *);
    if (last < -1 || element <= 0 || last >= most_bytes() / element) {
        tn_scope_fail(s, TN_E_SHAPE,
                      "a tensor of these sizes and strides cannot be made, or is larger than half of memory");
        return NULL;
    }
    /* Whole cache lines, and one more so that nothing is empty. */
    bytes = ((uint64_t)(last + 1) * (uint64_t)tn_dtype_bytes(w->dtype) / 64 + 1) * 64;
    data = find_room(s, bytes, &release, &user);
    if (!data) return NULL;
    memset(data, 0, bytes);
    if (w->offsets)
        fill_offsets(data, last + 1, w->dtype, w->high);
    else if (tn_dtype_is_complex(w->dtype))
        fill_numbers(data, 2 * (last + 1), TN_DTYPE(TN_CODE_FLOAT, TN_DTYPE_BITS(w->dtype) / 2), w);
    else
        fill_numbers(data, last + 1, w->dtype, w);
    return tn_from_blob(s, &(tn_blob){.size = sizeof(tn_blob),
                                      .dtype = w->dtype,
                                      .data = data,
                                      .sizes = w->sizes,
                                      .strides = w->strides,
                                      .storage_offset = last < 0 ? 0 : w->offset,
                                      .deleter = release,
                                      .user = user});
}
