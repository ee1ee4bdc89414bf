/* SPDX-License-Identifier: Apache-2.0 */
/* The walks of index_walk.h: how lines and chosen positions are cut into rows and given to threads. */
#include "index_walk.h"

#include <string.h>

/* Elements below which a further thread does not pay. */
#define INDEX_GRAIN ((int64_t)16 * 1024)
/* From this many lines on, rows run along the lines instead of along the chosen positions. */
#define LONG_LINE 8
/* How many chosen lines ahead data is prefetched. */
#define AHEAD 4

int64_t cpu_dim(const tn_tensor_desc *t, int64_t d)
{
    return d < 0 ? d + (t->rank ? t->rank : 1) : d;
}
int64_t cpu_size(const tn_tensor_desc *t, int64_t d)
{
    return t->rank ? t->sizes[d] : 1;
}
int64_t cpu_stride(const tn_tensor_desc *t, int64_t d)
{
    return t->rank ? t->strides[d] * tn_dtype_bytes(t->dtype) : 0;
}

typedef int64_t two_indices __attribute__((vector_size(16)));

/* An index outside shows in the sign of one of two differences. */
int32_t cpu_indices_inside(const int64_t *x, int64_t n, int64_t low, int64_t size)
{
    int64_t last = size - 1 - low, any = 0, i = 0;
    two_indices outside[4] = {{0}}, v; /* sums that do not wait for each other */
    for (; i + 8 <= n; i += 8)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            memcpy(&v, x + i + 2 * k, sizeof v);
            v -= low;
            outside[k] |= v | (last - v);
        }
    for (; i < n; i++) any |= (x[i] - low) | (last - (x[i] - low));
    for (int k = 0; k < 4; k++) any |= outside[k][0] | outside[k][1];
    return any >= 0;
}

/* ---- Moving rows ----------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void take_row(const cpu_row *r, size_t bytes)
{
    if (!r->offsets) {
        cpu_move(r->other, r->other_stride, r->base, r->stride, r->n, (int64_t)bytes);
        return;
    }
    const int64_t *offsets = r->offsets;
    const char *base = r->base;
    char *other = r->other;
    int64_t n = r->n, scale = r->scale, stride = r->stride, step = r->other_stride;
    if (stride == 0 && step == (int64_t)bytes)
        for (int64_t i = 0; i < n; i++) memcpy(other + i * (int64_t)bytes, base + offsets[i] * scale, bytes);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(other + i * step, base + offsets[i] * scale + i * stride, bytes);
}
static inline __attribute__((always_inline)) void put_row(const cpu_row *r, size_t bytes)
{
    if (!r->offsets && r->stride) {
        cpu_move(r->base, r->stride, r->other, r->other_stride, r->n, (int64_t)bytes);
        return;
    }
    const int64_t *offsets = r->offsets;
    const char *other = r->other;
    char *base = r->base;
    int64_t n = r->n, scale = r->scale, stride = r->stride, step = r->other_stride;
    if (!offsets)
        for (int64_t i = 0; i < n; i++) memcpy(base + i * stride, other + i * step, bytes);
    else if (stride == 0 && step == (int64_t)bytes)
        for (int64_t i = 0; i < n; i++) memcpy(base + offsets[i] * scale, other + i * (int64_t)bytes, bytes);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(base + offsets[i] * scale + i * stride, other + i * step, bytes);
}

/* With the size a constant. */
#define SIZED(bytes)                                       \
    static void take_##bytes(void *user, const cpu_row *r) \
    {                                                      \
        take_row(r, bytes);                                \
    }                                                      \
    static void put_##bytes(void *user, const cpu_row *r)  \
    {                                                      \
        put_row(r, bytes);                                 \
    }
SIZED(1)
SIZED(2)
SIZED(4)
SIZED(8)
SIZED(16)

cpu_row_fn cpu_take_fn(int64_t bytes)
{
    return bytes == 1 ? take_1 : bytes == 2 ? take_2 : bytes == 4 ? take_4 : bytes == 8 ? take_8 : take_16;
}
cpu_row_fn cpu_put_fn(int64_t bytes)
{
    return bytes == 1 ? put_1 : bytes == 2 ? put_2 : bytes == 4 ? put_4 : bytes == 8 ? put_8 : put_16;
}

/* ---- Lines ----------------------------------------------------------------------------------------- */

void cpu_walk_lines(cpu_walk *w, const tn_tensor_desc *shape, int64_t dim, const tn_tensor_desc *self,
                    const tn_tensor_desc *other, const tn_tensor_desc *index)
{
    w->rank = 0;
    w->lines = 1;
    for (int64_t d = (int64_t)shape->rank - 1; d >= 0; d--) {
        if (d == dim || shape->sizes[d] == 1) continue;
        w->sizes[w->rank] = shape->sizes[d];
        w->self_strides[w->rank] = cpu_stride(self, d);
        w->other_strides[w->rank] = other ? cpu_stride(other, d) : 0;
        w->index_strides[w->rank] = index ? cpu_stride(index, d) : 0;
        w->lines *= shape->sizes[d];
        w->rank++;
    }
}

int64_t cpu_walk_widen(cpu_walk *w, int64_t bytes)
{
    int64_t line = w->rank ? w->sizes[0] * bytes : 0;
    /* An index tensor with its own indices for each line chooses single elements. */
    if (w->index || !line || w->self_strides[0] != bytes || w->other_strides[0] != bytes) return bytes;
    if (line != 2 && line != 4 && line != 8 && line != 16) return bytes;
    w->lines /= w->sizes[0];
    w->rank--;
    for (uint32_t d = 0; d < w->rank; d++) {
        w->sizes[d] = w->sizes[d + 1];
        w->self_strides[d] = w->self_strides[d + 1];
        w->other_strides[d] = w->other_strides[d + 1];
    }
    return line;
}

/* ---- The walk -------------------------------------------------------------------------------------- */

typedef struct place {
    char *self;
    char *other;
    const char *index;
} place;

static place place_of(const cpu_walk *w, int64_t line)
{
    place p = {w->self, w->other, w->index};
    for (uint32_t d = 0; d < w->rank; d++) {
        int64_t i = line % w->sizes[d];
        line /= w->sizes[d];
        p.self += i * w->self_strides[d];
        p.other += i * w->other_strides[d];
        if (p.index) p.index += i * w->index_strides[d];
    }
    return p;
}

static int64_t place_in_other(const cpu_walk *w, int64_t j)
{
    return w->places ? w->places[j] : j * w->other_step;
}

/* Turns n indices into the offsets of a row; contiguous int64 indices are used in place. */
static void set_offsets(const cpu_walk *w, cpu_row *row, const char *index, int64_t step, int64_t n,
                        int64_t *room)
{
    row->scale = w->index_scale;
    row->offsets = room;
    if (!w->index_wide)
        for (int64_t i = 0; i < n; i++) room[i] = cpu_index_at(index + i * step, 0);
    else if (step == 8)
        row->offsets = (const int64_t *)(const void *)index;
    else
        for (int64_t i = 0; i < n; i++) room[i] = cpu_index_at(index + i * step, 1);
}

/* n neighbouring lines from `p` on, at chosen position j. */
static void row_of_lines(const cpu_walk *w, place p, int64_t n, int64_t j)
{
    int64_t room[CPU_CHUNK];
    cpu_row row = {.base = p.self,
                   .stride = w->rank ? w->self_strides[0] : 0,
                   .other = p.other + place_in_other(w, j),
                   .other_stride = w->rank ? w->other_strides[0] : 0,
                   .n = n};
    if (w->chosen) {
        row.base += w->chosen[j];
        w->fn(w->user, &row);
        return;
    }
    const char *index = p.index + j * w->index_step;
    if (w->index_strides[0] == 0) { /* the lines share their indices */
        row.base += cpu_index_at(index, w->index_wide) * w->index_scale;
        w->fn(w->user, &row);
        return;
    }
    for (int64_t i = 0; i < n; i += CPU_CHUNK) {
        row.n = n - i < CPU_CHUNK ? n - i : CPU_CHUNK;
        set_offsets(w, &row, index + i * w->index_strides[0], w->index_strides[0], row.n, room);
        w->fn(w->user, &row);
        row.base += row.n * row.stride;
        row.other += row.n * row.other_stride;
    }
}

/* Chosen positions [begin, end) of one line. */
static void row_of_chosen(const cpu_walk *w, place p, int64_t begin, int64_t end)
{
    int64_t room[CPU_CHUNK];
    for (int64_t j = begin; j < end; j += CPU_CHUNK) {
        cpu_row row = {.base = p.self,
                       .other = p.other + place_in_other(w, j),
                       .other_stride = w->other_step,
                       .n = end - j < CPU_CHUNK ? end - j : CPU_CHUNK};
        if (w->chosen) {
            row.offsets = w->chosen + j;
            row.scale = 1;
        } else {
            set_offsets(w, &row, p.index + j * w->index_step, w->index_step, row.n, room);
        }
        w->fn(w->user, &row);
    }
}

/* Prefetches the start of a line; the hardware fetches the rest. */
static inline void prefetch_line(const char *line)
{
    for (int i = 0; i < 4; i++) __builtin_prefetch(line + 64 * i);
}

static void walk(const cpu_walk *w, int64_t line_begin, int64_t line_end, int64_t begin, int64_t end)
{
    int64_t length = w->rank ? w->sizes[0] : 1, step;
    bool chosen_dense = w->other_step != 0 && w->rank && w->other_step < w->other_strides[0];
    bool along_lines = w->places || (length >= LONG_LINE && !(chosen_dense && end - begin >= LONG_LINE));
    for (int64_t line = line_begin; line < line_end; line += step) {
        place p = place_of(w, line);
        step = 1;
        if (!along_lines) {
            row_of_chosen(w, p, begin, end);
            continue;
        }
        step = length - line % length;
        if (step > line_end - line) step = line_end - line;
        for (int64_t j = begin; j < end; j++) {
            if (w->chosen && j + AHEAD < end) prefetch_line(p.self + w->chosen[j + AHEAD]);
            row_of_lines(w, p, step, j);
        }
    }
}

static void walk_lines(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const cpu_walk *w = user;
    walk(w, begin, end, 0, w->count);
}

static void walk_chosen(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const cpu_walk *w = user;
    walk(w, 0, w->lines, begin, end);
}

void cpu_walk_run(const tn_call *call, const cpu_walk *w)
{
    if (w->lines == 0 || w->count == 0) return;
    bool by_lines = w->shared || w->lines > w->count;
    int64_t grain = INDEX_GRAIN / (by_lines ? w->count : w->lines);
    if (grain < 1) grain = 1;
    if (by_lines)
        cpu_parallel_for(call, w->lines, grain, walk_lines, (void *)(uintptr_t)w);
    else
        cpu_parallel_for(call, w->count, grain, walk_chosen, (void *)(uintptr_t)w);
}
