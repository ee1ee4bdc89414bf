/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prim::copy: any strides, any two dtypes, conjugated and negated tensors, `src` broadcast. Copies of one
 * dtype are memcpy where runs are contiguous, a transposition by blocks where source and target are
 * contiguous along different dimensions, else element by element. Other dtypes are converted.
 */
#include "copy.h"
#include "walk/staging.h"
#include "walk/transpose.h"

#include <string.h>

/* Least elements for a thread. */
#define COPY_GRAIN ((int64_t)32 * 1024)
/* Elements of a transposed strip along the source's contiguous dimension; one item of the parallel loop. */
#define STRIP 256
/* A block that is transposed and then converted fits the first-level cache in both dtypes. */
#define BLOCK_ROWS    16
#define BLOCK_COLUMNS 64

typedef struct copy_call {
    cpu_axes axes;
    cpu_plan plan;
    char *to;
    const char *from;
    int64_t bytes;
    uint32_t across; /* transposition: dimension along which the source is contiguous */
    int64_t strips;  /* of that dimension */
    int32_t hub;     /* dtype in which conjugation and negation are computed */
    bool conjugate, negate;
} copy_call;

/* ---- Conversion -------------------------------------------------------------------------------------- */

static void convert_contiguous(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const copy_call *c = user;
    const cpu_plan_operand *to = &c->plan.operands[0], *from = &c->plan.operands[1];
    cpu_convert(to->base + begin * to->bytes, to->slot, from->base + begin * from->bytes, from->slot,
                end - begin);
}

/* Conjugates and negates a run of the hub dtype. */
static void resolve_bits(const copy_call *c, void *to, const void *from, int64_t n)
{
    bool complex = c->hub == CPU_C64 || c->hub == CPU_C128;
    int64_t parts = complex ? 2 : 1;
    double sign[2] = {c->negate ? -1 : 1, c->negate != (c->conjugate && complex) ? -1 : 1};
    if (c->hub == CPU_F32 || c->hub == CPU_C64) {
        for (int64_t i = 0; i < n * parts; i++)
            ((float *)to)[i] = ((const float *)from)[i] * (float)sign[i % parts];
    } else if (c->hub == CPU_F64 || c->hub == CPU_C128) {
        for (int64_t i = 0; i < n * parts; i++)
            ((double *)to)[i] = ((const double *)from)[i] * sign[i % parts];
    } else {
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)to)[i] = c->negate ? -((const int64_t *)from)[i] : ((const int64_t *)from)[i];
    }
}

static void run_bits(void *user, void *const *pointers, int64_t n, int64_t position)
{
    resolve_bits(user, pointers[0], pointers[1], n);
}

static void run_plain(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const copy_call *c = user;
    memcpy(pointers[0], pointers[1], (size_t)(n * cpu_slot_bytes[c->hub]));
}

static void walk_bits(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const copy_call *c = user;
    cpu_plan_walk(&c->plan, begin, end, run_bits, user);
}

static void walk_plain(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const copy_call *c = user;
    cpu_plan_walk(&c->plan, begin, end, run_plain, user);
}

/* ---- Equal dtypes ------------------------------------------------------------------------------------ */

static void copy_contiguous(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const copy_call *c = user;
    memcpy(c->to + begin * c->bytes, c->from + begin * c->bytes, (size_t)((end - begin) * c->bytes));
}

/* Position of a walk over the dimensions above 0 except `without`. */
typedef struct cursor {
    char *to;
    const char *from;
    int64_t position[TN_MAX_RANK];
} cursor;

static void cursor_set(cursor *at, const copy_call *c, int64_t position, uint32_t without)
{
    at->to = c->to;
    at->from = c->from;
    for (uint32_t d = 1; d < c->axes.rank; d++) {
        if (d == without) continue;
        at->position[d] = position % c->axes.sizes[d];
        position /= c->axes.sizes[d];
        at->to += at->position[d] * c->axes.strides[0][d];
        at->from += at->position[d] * c->axes.strides[1][d];
    }
}

static void cursor_next(cursor *at, const copy_call *c, uint32_t without)
{
    for (uint32_t d = 1; d < c->axes.rank; d++) {
        if (d == without) continue;
        at->to += c->axes.strides[0][d];
        at->from += c->axes.strides[1][d];
        if (++at->position[d] < c->axes.sizes[d]) return;
        at->to -= at->position[d] * c->axes.strides[0][d];
        at->from -= at->position[d] * c->axes.strides[1][d];
        at->position[d] = 0;
    }
}

/* Short rows are read so many bytes ahead; the calls between them keep the processor from doing it by itself. */
enum { AHEAD = 2048, SHORT_BYTES = 512 };
static void read_ahead(const char *from, int64_t bytes)
{
    for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(from + AHEAD + k);
}

/* Rows of dimension 0. */
static void copy_rows(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const copy_call *c = user;
    cursor at;
    int64_t row_bytes = c->axes.sizes[0] * c->bytes;
    bool near = row_bytes <= SHORT_BYTES && c->axes.strides[1][0] == c->bytes;
    cursor_set(&at, c, begin, 0);
    for (int64_t row = begin; row < end; row++) {
        if (near) read_ahead(at.from, row_bytes);
        cpu_move(at.to, c->axes.strides[0][0], at.from, c->axes.strides[1][0], c->axes.sizes[0], c->bytes);
        cursor_next(&at, c, 0);
    }
}

/* Pieces of one long row. */
static void copy_piece(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const copy_call *c = user;
    cpu_move(c->to + begin * c->axes.strides[0][0], c->axes.strides[0][0],
             c->from + begin * c->axes.strides[1][0], c->axes.strides[1][0], end - begin, c->bytes);
}

/* Whether source and target are contiguous along different dimensions; `across` is then the source's. */
static bool is_crossed(copy_call *c, int64_t to_bytes, int64_t from_bytes)
{
    const cpu_axes *axes = &c->axes;
    c->across = 0;
    for (uint32_t d = 1; d < axes->rank; d++)
        if (axes->strides[1][d] == from_bytes && axes->sizes[d] > 1) c->across = d;
    if (!c->across || axes->strides[0][0] != to_bytes) return false;
    c->strips = (axes->sizes[c->across] + STRIP - 1) / STRIP;
    return axes->strides[1][0] != from_bytes && axes->strides[1][0] != 0;
}

static void transpose_strip(const copy_call *c, char *to, const char *from, int64_t rows)
{
    cpu_transpose(to, c->axes.strides[0][c->across], from, c->axes.strides[1][0], c->axes.sizes[0], rows,
                  c->bytes);
}

static void convert_strip(const copy_call *c, char *to, const char *from, int64_t rows)
{
    const cpu_plan_operand *o = c->plan.operands;
    _Alignas(64) char block[BLOCK_ROWS * BLOCK_COLUMNS * 16];
    int64_t line = BLOCK_COLUMNS * o[1].bytes, columns = c->axes.sizes[0];
    for (int64_t r = 0; r < rows; r += BLOCK_ROWS) {
        for (int64_t i = 0; i < columns; i += BLOCK_COLUMNS) {
            int64_t n = columns - i < BLOCK_COLUMNS ? columns - i : BLOCK_COLUMNS;
            int64_t m = rows - r < BLOCK_ROWS ? rows - r : BLOCK_ROWS;
            cpu_transpose(block, line, from + i * c->axes.strides[1][0] + r * o[1].bytes,
                          c->axes.strides[1][0], n, m, o[1].bytes);
            for (int64_t k = 0; k < m; k++)
                cpu_convert(to + (r + k) * c->axes.strides[0][c->across] + i * o[0].bytes, o[0].slot,
                            block + k * line, o[1].slot, n);
        }
    }
}

/* Items are strips of STRIP rows, for each position of the other dimensions. */
static void walk_strips(const copy_call *c, int64_t begin, int64_t end,
                        void (*strip)(const copy_call *c, char *to, const char *from, int64_t rows))
{
    int64_t m = c->axes.sizes[c->across];
    cursor at;
    cursor_set(&at, c, begin / c->strips, c->across);
    for (int64_t item = begin; item < end; item++) {
        int64_t row = item % c->strips * STRIP, rows = m - row < STRIP ? m - row : STRIP;
        strip(c, at.to + row * c->axes.strides[0][c->across], at.from + row * c->axes.strides[1][c->across],
              rows);
        if (row + rows == m) cursor_next(&at, c, c->across);
    }
}

static void transpose(void *user, int64_t begin, int64_t end, int32_t thread)
{
    walk_strips(user, begin, end, transpose_strip);
}

static void convert_crossed(void *user, int64_t begin, int64_t end, int32_t thread)
{
    walk_strips(user, begin, end, convert_strip);
}

static int64_t grain_of(int64_t elements)
{
    return COPY_GRAIN / elements > 0 ? COPY_GRAIN / elements : 1;
}

static void walk_crossed(const tn_call *call, copy_call *c, cpu_range_fn fn)
{
    int64_t m = c->axes.sizes[c->across], others = c->axes.numel / c->axes.sizes[0] / m;
    int64_t rows = m < STRIP ? m : STRIP;
    cpu_parallel_for(call, others * c->strips, grain_of(c->axes.sizes[0] * rows), fn, c);
}

static void copy_same(const tn_call *call, copy_call *c)
{
    const cpu_axes *axes = &c->axes;
    int64_t rows = axes->rank ? axes->numel / axes->sizes[0] : 1;
    if (axes->rank == 0 ||
        (axes->rank == 1 && axes->strides[0][0] == c->bytes && axes->strides[1][0] == c->bytes)) {
        cpu_parallel_for(call, axes->numel, COPY_GRAIN, copy_contiguous, c);
        return;
    }
    if (axes->rank == 1) {
        cpu_parallel_for(call, axes->numel, COPY_GRAIN, copy_piece, c);
        return;
    }
    if (is_crossed(c, c->bytes, c->bytes))
        walk_crossed(call, c, transpose);
    else
        cpu_parallel_for(call, rows, grain_of(axes->sizes[0]), copy_rows, c);
}

/* ---- The choice ------------------------------------------------------------------------------------ */

static int32_t convert(const tn_call *call, copy_call *c, const tn_tensor_desc *const *tensors)
{
    int32_t slots[2] = {cpu_slot(tensors[0]->dtype), cpu_slot(tensors[1]->dtype)};
    if (slots[0] < 0 || slots[1] < 0) return cpu_error(call, TN_E_UNSUPPORTED, "copy: the dtype is unknown");
    bool bits = c->conjugate || c->negate;
    c->hub = bits ? cpu_exact_hub(slots[1]) : slots[0];
    int32_t want[2] = {c->hub, c->hub};
    cpu_plan_axes(&c->plan, &c->axes, tensors, 1, want);
    const cpu_plan_operand *o = c->plan.operands;
    bool contiguous = o[0].linear && o[0].stride == o[0].bytes && o[1].linear && o[1].stride == o[1].bytes;
    c->to = o[0].base;
    c->from = o[1].base;
    if (!bits && is_crossed(c, o[0].bytes, o[1].bytes)) {
        walk_crossed(call, c, convert_crossed);
        return TN_OK;
    }
    cpu_range_fn fn = bits ? walk_bits : contiguous ? convert_contiguous : walk_plain;
    cpu_parallel_for(call, c->axes.numel, COPY_GRAIN, fn, c);
    return TN_OK;
}

int32_t cpu_copy_tensor(const tn_call *call, const tn_tensor_desc *to, const tn_tensor_desc *from)
{
    const tn_tensor_desc *tensors[2] = {to, from};
    uint32_t flags = to->flags ^ from->flags;
    copy_call c;
    c.to = to->host;
    c.from = from->host;
    c.bytes = tn_dtype_bytes(to->dtype);
    c.conjugate = (flags & TN_DESC_CONJ) != 0;
    c.negate = (flags & TN_DESC_NEG) != 0;
    cpu_axes_make(&c.axes, tensors, 2, 1);
    if (c.axes.numel == 0) return TN_OK;
    if (to->dtype != from->dtype || c.conjugate || c.negate) return convert(call, &c, tensors);
    copy_same(call, &c);
    return TN_OK;
}

static int32_t copy(void *self, const tn_call *call)
{
    return cpu_copy_tensor(call, tensor_out(call, 0), tensor_arg(call, 1));
}

const tn_kernel_row cpu_copy_rows[] = {CPU_ROW(TN_SCHEMA_COPY, NULL, copy, .flags = TN_ROW_LAZY_BITS)};
const uint32_t cpu_copy_row_count = CPU_ROW_COUNT(cpu_copy_rows);
