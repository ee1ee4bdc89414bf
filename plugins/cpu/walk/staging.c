/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion, strided moves and the walk over a loop nest; see staging.h. It knows dtypes and strides, no
 * operator.
 */
#include "kernel_lists.h"
#include "staging.h"
#include "support/kernel_table.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/*
 * Bytes that are written past the caches at a time: with so few the processor reads on meanwhile, with more
 * it waits.
 */
#define STREAM_STRETCH 1024

/* Shorter rows are walked several at a time. */
#define SHORT_ROW 256

#define SLOT_BYTES(name, slot, bytes, dtype, hub, kind) bytes,
#define SLOT_HUB(name, slot, bytes, dtype, hub, kind)   CPU_##hub,
const uint8_t cpu_slot_bytes[CPU_SLOT_COUNT] = {CPU_DTYPES(SLOT_BYTES)};
const int8_t cpu_slot_hubs[CPU_SLOT_COUNT] = {CPU_DTYPES(SLOT_HUB)};

/* The list agrees with the dtypes' own numbers. */
#define SLOT_HAS(kinds, code, kind, dtype) \
    (((CPU_KIND_##kind & (kinds)) != 0) == (TN_DTYPE_CODE(dtype) == (code)))
#define SLOT_CHECK(name, slot, bytes, dtype, hub, kind)                            \
    _Static_assert(TN_DTYPE_BITS(dtype) == 8 * (bytes), "the size of " #name);     \
    _Static_assert(SLOT_HAS(CPU_KIND_SIGNED, TN_CODE_INT, kind, dtype) &&          \
                       SLOT_HAS(CPU_KIND_UNSIGNED, TN_CODE_UINT, kind, dtype) &&   \
                       SLOT_HAS(CPU_KIND_BOOL, TN_CODE_BOOL, kind, dtype) &&       \
                       SLOT_HAS(CPU_KIND_COMPLEX, TN_CODE_COMPLEX, kind, dtype) && \
                       ((CPU_KIND_##kind & CPU_KIND_FLOAT8) != 0) ==               \
                           (TN_DTYPE_CODE(dtype) >= TN_CODE_FLOAT8_E4M3FN),        \
                   "the kind of " #name);
CPU_DTYPES(SLOT_CHECK)

int32_t cpu_slot(tn_dtype dtype)
{
#define SLOT_CASE(name, slot, bytes, dtype, hub, kind) \
    case dtype:                                        \
        return CPU_##slot;
    switch (dtype) {
        CPU_DTYPES(SLOT_CASE)
    default:
        return -1;
    }
}

/* ---- Conversion -------------------------------------------------------------------------------------- */

CPU_KERNEL_TABLE(static cpu_kernel_table hub_table, CPU_CONVERT_LISTS, cpu_hub);

static inline const cpu_hub *find_hub(int32_t slot)
{
    return cpu_kernels_at(hub_table, slot);
}

cpu_convert_fn cpu_converter(int32_t to, int32_t from)
{
    if (to < CPU_HUB_COUNT) return find_hub(to)->from[from];
    if (from < CPU_HUB_COUNT) return find_hub(from)->to[to];
    return NULL;
}

/* The hub for a conversion between two dtypes that are not hubs. */
static int32_t middle_hub(int32_t to, int32_t from)
{
    if (cpu_slot_is_integer(to) && cpu_slot_is_integer(from)) return CPU_I64;
    return cpu_slot_is_complex(to) || cpu_slot_is_complex(from) ? CPU_C64 : CPU_F32;
}

void cpu_convert(void *to, int32_t to_slot, const void *from, int32_t from_slot, int64_t n)
{
    if (to_slot == from_slot) {
        if (n) memcpy(to, from, (size_t)(n * cpu_slot_bytes[to_slot]));
        return;
    }
    cpu_convert_fn direct = cpu_converter(to_slot, from_slot);
    if (direct) {
        direct(to, from, n);
        return;
    }
    _Alignas(64) char middle[CPU_CHUNK * 8];
    int32_t hub = middle_hub(to_slot, from_slot);
    /* The 8-bit floats convert from and to float32 only. */
    bool float8 = cpu_slot_is(from_slot, CPU_KIND_FLOAT8) || cpu_slot_is(to_slot, CPU_KIND_FLOAT8);
    if (from_slot < CPU_HUB_COUNT || to_slot < CPU_HUB_COUNT) hub = CPU_F32;
    if (float8 && hub == CPU_C64) hub = CPU_F32;
    cpu_convert_fn in = cpu_converter(hub, from_slot), out = cpu_converter(to_slot, hub);
    for (int64_t i = 0; i < n; i += CPU_CHUNK) {
        int64_t m = n - i < CPU_CHUNK ? n - i : CPU_CHUNK;
        in(middle, (const char *)from + i * cpu_slot_bytes[from_slot], m);
        out((char *)to + i * cpu_slot_bytes[to_slot], middle, m);
    }
}

/* ---- Strided moves ----------------------------------------------------------------------------------- */

typedef struct wide_t {
    uint64_t words[2];
} wide_t;

/* Elements need not be aligned: they may be several smaller ones taken as one. */
static inline __attribute__((always_inline)) void move_strided(char *to, int64_t to_stride, const char *from,
                                                               int64_t from_stride, int64_t n, size_t bytes)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * from_stride, bytes);
}

/* Fills a contiguous run with one value, which may be its first element. */
static void splat(char *to, const char *from, int64_t n, int64_t bytes)
{
    wide_t value;
    memcpy(&value, from, (size_t)bytes);
    if (bytes == 2)
        for (int64_t i = 0; i < n; i++) memcpy(to + 2 * i, &value, 2);
    else if (bytes == 4)
        for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, &value, 4);
    else if (bytes == 8)
        for (int64_t i = 0; i < n; i++) memcpy(to + 8 * i, &value, 8);
    else if (bytes == 1)
        memset(to, *(const uint8_t *)&value, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) memcpy(to + bytes * i, &value, (size_t)bytes);
}

/* Reverses contiguous runs: `from` is the last element. */
static void back_1(uint8_t *restrict to, const uint8_t *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = from[-i];
}
static void back_2(uint16_t *restrict to, const uint16_t *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = from[-i];
}
static void back_4(uint32_t *restrict to, const uint32_t *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = from[-i];
}
static void back_8(uint64_t *restrict to, const uint64_t *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = from[-i];
}
static void back_16(wide_t *restrict to, const wide_t *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = from[-i];
}
/* A case of a switch over the bytes of an element. */
#define CASE(bytes, work) \
    case bytes:           \
        work;             \
        break

static void move_back(void *to, const void *from, int64_t n, int64_t bytes)
{
    switch (bytes) {
        CASE(1, back_1(to, from, n));
        CASE(2, back_2(to, from, n));
        CASE(4, back_4(to, from, n));
        CASE(8, back_8(to, from, n));
    default:
        back_16(to, from, n);
    }
}

void cpu_move(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t n, int64_t bytes)
{
    if (to_stride == bytes && from_stride == bytes) {
        if (n) memcpy(to, from, (size_t)(n * bytes));
        return;
    }
    if (to_stride == bytes && from_stride == 0 && n > 0) {
        splat(to, from, n, bytes);
        return;
    }
    if (to_stride == bytes && from_stride == -bytes) {
        move_back(to, from, n, bytes);
        return;
    }
    switch (bytes) {
        CASE(1, move_strided(to, to_stride, from, from_stride, n, 1));
        CASE(2, move_strided(to, to_stride, from, from_stride, n, 2));
        CASE(4, move_strided(to, to_stride, from, from_stride, n, 4));
        CASE(8, move_strided(to, to_stride, from, from_stride, n, 8));
    default:
        move_strided(to, to_stride, from, from_stride, n, 16);
    }
}

#if defined(__SSE2__)
void cpu_stream(void *to, const void *from, int64_t bytes)
{
    char *o = to;
    const char *a = from;
    int64_t head = (int64_t)(-(uintptr_t)o & 15u);
    if (head > bytes) head = bytes;
    memcpy(o, a, (size_t)head);
    o += head, a += head, bytes -= head;
    for (; bytes >= 64; bytes -= 64, o += 64, a += 64) {
        __m128i v0 = _mm_loadu_si128((const __m128i *)(const void *)a);
        __m128i v1 = _mm_loadu_si128((const __m128i *)(const void *)(a + 16));
        __m128i v2 = _mm_loadu_si128((const __m128i *)(const void *)(a + 32));
        __m128i v3 = _mm_loadu_si128((const __m128i *)(const void *)(a + 48));
        _mm_stream_si128((__m128i *)(void *)o, v0);
        _mm_stream_si128((__m128i *)(void *)(o + 16), v1);
        _mm_stream_si128((__m128i *)(void *)(o + 32), v2);
        _mm_stream_si128((__m128i *)(void *)(o + 48), v3);
    }
    memcpy(o, a, (size_t)bytes);
}
void cpu_stream_end(void)
{
    _mm_sfence();
}
#else
void cpu_stream(void *to, const void *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}
void cpu_stream_end(void) {}
#endif

void cpu_gather(void *to, int32_t to_slot, const void *from, int32_t from_slot, int64_t stride, int64_t n,
                char *raw)
{
    int64_t bytes = cpu_slot_bytes[from_slot];
    if (to_slot == from_slot) {
        cpu_move(to, bytes, from, stride, n, bytes);
        return;
    }
    if (stride != bytes) {
        cpu_move(raw, bytes, from, stride, n, bytes);
        from = raw;
    }
    cpu_convert(to, to_slot, from, from_slot, n);
}

/* ---- Plans ------------------------------------------------------------------------------------------- */

static bool is_linear(const int64_t *strides, const int64_t *sizes, uint32_t rank)
{
    for (uint32_t d = 1; d < rank; d++)
        if (strides[d] != strides[d - 1] * sizes[d - 1]) return false;
    return true;
}

static bool shares_memory(const cpu_plan *plan, uint32_t output)
{
    for (uint32_t i = plan->n_outputs; i < plan->n_operands; i++)
        if (plan->operands[i].base == plan->operands[output].base) return true;
    return false;
}

/* The bytes of all inputs; elements that are broadcast count once. */
static int64_t input_bytes(const cpu_plan *plan)
{
    int64_t all = 0;
    for (uint32_t i = plan->n_outputs; i < plan->n_operands; i++) {
        int64_t bytes = plan->operands[i].bytes;
        for (uint32_t d = 0; d < plan->rank; d++)
            if (plan->operands[i].strides[d]) bytes *= plan->sizes[d];
        all += bytes;
    }
    return all;
}

/* Whether a contiguous output is to be written past the caches. */
static bool streams(const cpu_plan *plan, uint32_t output)
{
    const cpu_plan_operand *p = &plan->operands[output];
    int64_t bytes = plan->numel * p->bytes;
    /* Rows that end inside a cache line would write it twice. */
    bool whole_lines = !plan->by_rows || plan->sizes[0] * p->bytes % 64 == 0;
    return bytes >= CPU_STREAM_OUT && p->linear && p->stride == p->bytes && whole_lines &&
           !shares_memory(plan, output) && cpu_streams(bytes, input_bytes(plan));
}

void cpu_plan_finish(cpu_plan *plan)
{
    int32_t all_linear = 1;
    plan->uniform = 0;
    for (uint32_t i = 0; i < plan->n_operands; i++) {
        cpu_plan_operand *p = &plan->operands[i];
        p->linear = (uint8_t)is_linear(p->strides, plan->sizes, plan->rank);
        p->streamed = 0;
        all_linear &= p->linear;
    }
    plan->by_rows = plan->rank > 1 && !all_linear && plan->sizes[0] >= SHORT_ROW;
    for (uint32_t i = 0; i < plan->n_outputs; i++) plan->operands[i].streamed = (uint8_t)streams(plan, i);
}

void cpu_plan_elementwise(cpu_plan *plan)
{
    plan->uniform = 1;
    for (uint32_t i = plan->n_outputs; i < plan->n_operands; i++) {
        const cpu_plan_operand *p = &plan->operands[i];
        plan->uniform &= p->stride == 0 && (p->linear || plan->by_rows);
    }
}

static int32_t set_operand(cpu_plan_operand *p, tn_dtype dtype, void *base, const int64_t *strides,
                           uint32_t rank, int32_t want)
{
    static const int64_t no_strides[1] = {0};
    p->slot = cpu_slot(dtype);
    if (p->slot < 0) return TN_E_UNSUPPORTED;
    p->base = base;
    p->strides = rank ? strides : no_strides;
    p->want = want;
    p->bytes = cpu_slot_bytes[p->slot];
    p->stride = rank ? strides[0] : p->bytes;
    return TN_OK;
}

int32_t cpu_plan_make(cpu_plan *plan, const tn_nest *nest, uint32_t rank, const int32_t *want)
{
    plan->rank = rank;
    plan->n_operands = nest->n_operands;
    plan->n_outputs = nest->n_outputs;
    plan->sizes = nest->sizes;
    plan->numel = 1;
    for (uint32_t d = 0; d < rank; d++) plan->numel *= nest->sizes[d];
    for (uint32_t i = 0; i < nest->n_operands; i++) {
        const tn_operand *o = cpu_operand(nest, i);
        int32_t status = set_operand(&plan->operands[i], o->dtype, o->host, o->strides, rank, want[i]);
        if (status != TN_OK) return status;
    }
    cpu_plan_finish(plan);
    return TN_OK;
}

int32_t cpu_plan_axes(cpu_plan *plan, const cpu_axes *axes, const tn_tensor_desc *const *tensors,
                      uint32_t n_outputs, const int32_t *want)
{
    plan->rank = axes->rank;
    plan->n_operands = axes->n_tensors;
    plan->n_outputs = n_outputs;
    plan->sizes = axes->sizes;
    plan->numel = axes->numel;
    for (uint32_t i = 0; i < axes->n_tensors; i++) {
        int32_t status = set_operand(&plan->operands[i], tensors[i]->dtype, tensors[i]->host,
                                     axes->strides[i], axes->rank, want[i]);
        if (status != TN_OK) return status;
    }
    cpu_plan_finish(plan);
    return TN_OK;
}

/* ---- Axes -------------------------------------------------------------------------------------------- */

/* Stride in bytes of tensor t in dimension d of a shape of `rank`; 0 where it is broadcast. */
static int64_t broadcast_stride(const tn_tensor_desc *t, uint32_t rank, uint32_t d)
{
    int64_t own = (int64_t)d - (int64_t)(rank - t->rank);
    if (own < 0 || t->sizes[own] == 1) return 0;
    return t->strides[own] * tn_dtype_bytes(t->dtype);
}

static void swap_axes(cpu_axes *axes, uint32_t d, uint32_t e)
{
    int64_t size = axes->sizes[d];
    axes->sizes[d] = axes->sizes[e];
    axes->sizes[e] = size;
    for (uint32_t i = 0; i < axes->n_tensors; i++) {
        int64_t stride = axes->strides[i][d];
        axes->strides[i][d] = axes->strides[i][e];
        axes->strides[i][e] = stride;
    }
}

/* Whether axis d continues axis `inner` in all tensors. */
static bool can_join(const cpu_axes *axes, uint32_t inner, uint32_t d)
{
    for (uint32_t i = 0; i < axes->n_tensors; i++)
        if (axes->strides[i][d] != axes->strides[i][inner] * axes->sizes[inner]) return false;
    return true;
}

static void join_axes(cpu_axes *axes)
{
    uint32_t kept = 0;
    for (uint32_t d = 1; d < axes->rank; d++) {
        if (can_join(axes, kept, d)) {
            axes->sizes[kept] *= axes->sizes[d];
            continue;
        }
        kept++;
        if (kept != d) swap_axes(axes, kept, d);
    }
    if (axes->rank) axes->rank = kept + 1;
}

void cpu_axes_make(cpu_axes *axes, const tn_tensor_desc *const *tensors, uint32_t n, int32_t sort)
{
    uint32_t rank = tensors[0]->rank;
    axes->rank = 0;
    axes->n_tensors = n;
    axes->numel = 1;
    for (uint32_t k = 0; k < rank; k++) {
        uint32_t d = rank - 1 - k;
        if (tensors[0]->sizes[d] == 1) continue;
        axes->sizes[axes->rank] = tensors[0]->sizes[d];
        axes->numel *= tensors[0]->sizes[d];
        for (uint32_t i = 0; i < n; i++) axes->strides[i][axes->rank] = broadcast_stride(tensors[i], rank, d);
        axes->rank++;
    }
    for (uint32_t d = 1; sort && d < axes->rank; d++)
        for (uint32_t e = d; e > 0 && axes->strides[0][e] < axes->strides[0][e - 1]; e--)
            swap_axes(axes, e, e - 1);
    join_axes(axes);
}

/* ---- The walk ---------------------------------------------------------------------------------------- */

/* Room for all buffers of a walk: on the stack, which may have 128 KiB in all. Four operands of up to eight bytes have runs
 * of CPU_CHUNK elements in it; runs of wider or more operands are shorter. */
#define WALK_BYTES (5 * (CPU_CHUNK * 8 + BUFFER_GAP))
#define BUFFER_GAP 320

typedef struct walker {
    const cpu_plan *plan;
    int64_t position;
    int64_t length;             /* of the run */
    int64_t index[TN_MAX_RANK]; /* of position */
    void *pointers[CPU_MAX_OPERANDS];
    const char *splatted[CPU_MAX_OPERANDS]; /* address of the value that the buffer is filled with */
    int64_t splatted_length[CPU_MAX_OPERANDS];
    char *buffers;        /* one for each operand, then the raw one */
    int64_t buffer_bytes; /* of each */
    int64_t chunk;        /* the most elements of a run */
} walker;

static char *buffer_of(const walker *w, uint32_t i)
{
    return w->buffers + i * w->buffer_bytes;
}

/* The buffers hold runs of the widest dtype, and of eight bytes. */
static void divide_buffers(walker *w)
{
    const cpu_plan *plan = w->plan;
    int32_t bytes = 0;
    for (uint32_t i = 0; i < plan->n_operands; i++) {
        bytes |= plan->operands[i].bytes | cpu_slot_bytes[plan->operands[i].want];
        w->splatted[i] = NULL;
    }
    w->chunk = bytes >= 16 ? CPU_CHUNK / 2 : CPU_CHUNK;
    if (plan->n_operands >= 5) w->chunk /= 2;
    w->buffer_bytes = w->chunk * (bytes >= 16 ? 16 : 8) + BUFFER_GAP;
}

static void set_index(walker *w, int64_t position)
{
    w->position = position;
    for (uint32_t d = 0; d < w->plan->rank; d++) {
        w->index[d] = position % w->plan->sizes[d];
        position /= w->plan->sizes[d];
    }
}

static void advance(walker *w)
{
    const cpu_plan *plan = w->plan;
    int64_t carry = w->length;
    w->position += w->length;
    for (uint32_t d = 0; d < plan->rank && carry; d++) {
        int64_t i = w->index[d] + carry;
        carry = i < plan->sizes[d] ? 0 : i / plan->sizes[d];
        w->index[d] = carry ? i % plan->sizes[d] : i;
    }
}

static char *address(const walker *w, const cpu_plan_operand *p)
{
    int64_t offset = 0;
    if (p->linear) return p->base + w->position * p->stride;
    for (uint32_t d = 0; d < w->plan->rank; d++) offset += w->index[d] * p->strides[d];
    return p->base + offset;
}

/*
 * Moves a run that crosses rows between memory and a contiguous buffer, row by row (`out`: from buffer to
 * memory).
 */
static void move_rows(const walker *w, const cpu_plan_operand *p, char *buffer, int32_t out)
{
    const cpu_plan *plan = w->plan;
    int64_t index[TN_MAX_RANK], left = w->length;
    char *memory = address(w, p);
    memcpy(index, w->index, plan->rank * sizeof index[0]);
    while (left > 0) {
        int64_t n = plan->sizes[0] - index[0];
        if (n > left) n = left;
        if (out)
            cpu_move(memory, p->stride, buffer, p->bytes, n, p->bytes);
        else
            cpu_move(buffer, p->bytes, memory, p->stride, n, p->bytes);
        buffer += n * p->bytes;
        left -= n;
        memory -= index[0] * p->strides[0];
        index[0] = 0;
        for (uint32_t d = 1; d < plan->rank; d++) {
            memory += p->strides[d];
            if (++index[d] < plan->sizes[d]) break;
            memory -= index[d] * p->strides[d];
            index[d] = 0;
        }
    }
}

/*
 * A result that takes the place of an operand of this size, which the last-level cache does not hold, is computed from runs
 * that are read ahead of their time: the processor's own prefetching stays behind memory. With two operands it does not.
 */
#define AHEAD_BYTES ((int64_t)24 << 20)
/* Reads the next run. Addresses behind the operand do no harm. */
static void read_ahead(const cpu_plan *plan, const cpu_plan_operand *p, const char *run, int64_t n)
{
    const char *next = run + CPU_CHUNK * p->bytes;
    if (plan->n_operands != 2 || plan->numel * p->bytes < AHEAD_BYTES || plan->operands[0].streamed) return;
    for (int64_t k = 0; k < n * p->bytes; k += 64) __builtin_prefetch(next + k);
}

static void bring_in(walker *w, uint32_t i)
{
    const cpu_plan_operand *p = &w->plan->operands[i];
    char *buffer = buffer_of(w, i);
    char *raw = buffer_of(w, w->plan->n_operands);
    w->pointers[i] = buffer;
    if (!p->linear && !w->plan->by_rows) {
        char *to = p->want == p->slot ? buffer : raw;
        move_rows(w, p, to, 0);
        if (to != buffer) cpu_convert(buffer, p->want, to, p->slot, w->length);
        return;
    }
    char *memory = address(w, p);
    if (p->stride == p->bytes) read_ahead(w->plan, p, memory, w->length);
    if (p->stride == p->bytes && p->want == p->slot) {
        w->pointers[i] = memory;
        return;
    }
    if (p->stride == 0) {
        if (w->splatted[i] == memory && w->splatted_length[i] >= w->length) return;
        w->splatted[i] = memory;
        w->splatted_length[i] = w->length;
        cpu_convert(raw, p->want, memory, p->slot, 1);
        splat(buffer, raw, w->length, cpu_slot_bytes[p->want]);
        return;
    }
    cpu_gather(buffer, p->want, memory, p->slot, p->stride, w->length, raw);
}

/* The kernel writes to memory itself or to a buffer. */
static void prepare_output(walker *w, uint32_t i)
{
    const cpu_plan_operand *p = &w->plan->operands[i];
    int32_t direct =
        !p->streamed && p->stride == p->bytes && p->want == p->slot && (p->linear || w->plan->by_rows);
    w->pointers[i] = direct ? address(w, p) : buffer_of(w, i);
}

static void bring_out(walker *w, uint32_t i)
{
    const cpu_plan_operand *p = &w->plan->operands[i];
    char *raw = buffer_of(w, w->plan->n_operands);
    char *buffer = buffer_of(w, i);
    if (w->pointers[i] != (void *)buffer) return;
    bool in_row = p->linear || w->plan->by_rows;
    if (in_row && p->stride == p->bytes && !p->streamed) {
        cpu_convert(address(w, p), p->slot, buffer, p->want, w->length);
        return;
    }
    if (p->want != p->slot) {
        cpu_convert(raw, p->slot, buffer, p->want, w->length);
        buffer = raw;
    }
    if (p->streamed)
        cpu_stream(address(w, p), buffer, w->length * p->bytes);
    else if (in_row)
        cpu_move(address(w, p), p->stride, buffer, p->bytes, w->length, p->bytes);
    else
        move_rows(w, p, buffer, 1);
}

/* Runs the kernel on one run; if all inputs are one repeated element, on that element alone. */
static void run_kernel(walker *w, cpu_run_fn fn, void *user)
{
    const cpu_plan *plan = w->plan;
    int64_t length = w->length;
    if (plan->uniform) w->length = 1;
    for (uint32_t i = plan->n_outputs; i < plan->n_operands; i++) bring_in(w, i);
    fn(user, w->pointers, w->length, w->position);
    w->length = length;
    for (uint32_t i = 0; plan->uniform && i < plan->n_outputs; i++)
        splat(w->pointers[i], w->pointers[i], length, cpu_slot_bytes[plan->operands[i].want]);
}

/* Whether the only output is written past the caches without conversion. */
static bool streams_directly(const cpu_plan *plan)
{
    const cpu_plan_operand *o = &plan->operands[0];
    return plan->n_outputs == 1 && o->streamed && o->want == o->slot && !plan->uniform;
}

/* The same for such an output, stretch by stretch through its buffer. */
static void run_streamed(walker *w, cpu_run_fn fn, void *user)
{
    const cpu_plan *plan = w->plan;
    char *out = address(w, &plan->operands[0]);
    int64_t bytes = plan->operands[0].bytes, stretch = STREAM_STRETCH / bytes;
    for (uint32_t i = 1; i < plan->n_operands; i++) bring_in(w, i);
    for (int64_t k = 0; k < w->length; k += stretch) {
        int64_t n = w->length - k < stretch ? w->length - k : stretch;
        w->pointers[0] = buffer_of(w, 0);
        fn(user, w->pointers, n, w->position + k);
        cpu_stream(out + k * bytes, w->pointers[0], n * bytes);
        for (uint32_t i = 1; i < plan->n_operands; i++)
            w->pointers[i] = (char *)w->pointers[i] + n * cpu_slot_bytes[plan->operands[i].want];
    }
}

void cpu_plan_walk(const cpu_plan *plan, int64_t begin, int64_t end, cpu_run_fn fn, void *user)
{
    _Alignas(64) char buffers[WALK_BYTES];
    walker w;
    if (begin >= end) return;
    int32_t direct = streams_directly(plan);
    w.plan = plan;
    w.buffers = buffers;
    divide_buffers(&w);
    for (set_index(&w, begin); w.position < end; advance(&w)) {
        w.length = min_i64(end - w.position, w.chunk);
        if (plan->by_rows && w.length > plan->sizes[0] - w.index[0]) w.length = plan->sizes[0] - w.index[0];
        if (direct) {
            run_streamed(&w, fn, user);
            continue;
        }
        for (uint32_t i = 0; i < plan->n_outputs; i++) prepare_output(&w, i);
        run_kernel(&w, fn, user);
        for (uint32_t i = 0; i < plan->n_outputs; i++) bring_out(&w, i);
    }
    for (uint32_t i = 0; i < plan->n_outputs; i++)
        if (plan->operands[i].streamed) cpu_stream_end();
}
