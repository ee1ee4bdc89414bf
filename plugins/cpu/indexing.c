/* SPDX-License-Identifier: Apache-2.0 */
/* The walks of indexing.h: how lines and chosen positions are cut into rows and given to threads. */
#include "indexing.h"

#include <string.h>

/* Elements that are worth a thread. */
#define INDEX_GRAIN ((int64_t)16 * 1024)
/* From this length on a row along the lines is worth more than one along the chosen positions. */
#define LONG_LINE 8

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

/* ---- Moving rows
 * --------------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void take_row(const cpu_row *r, size_t bytes)
{
    if (!r->offsets) {
        cpu_move(r->other, r->other_stride, r->base, r->stride, r->n, (int64_t)bytes);
        return;
    }
    for (int64_t i = 0; i < r->n; i++)
        memcpy(r->other + i * r->other_stride, r->base + r->offsets[i] + i * r->stride, bytes);
}
static inline __attribute__((always_inline)) void put_row(const cpu_row *r, size_t bytes)
{
    if (!r->offsets && r->stride) {
        cpu_move(r->base, r->stride, r->other, r->other_stride, r->n, (int64_t)bytes);
        return;
    }
    for (int64_t i = 0; i < r->n; i++)
        memcpy(r->base + (r->offsets ? r->offsets[i] : 0) + i * r->stride, r->other + i * r->other_stride,
               bytes);
}
static void take_1(void *user, const cpu_row *r)
{
    take_row(r, 1);
}
static void take_2(void *user, const cpu_row *r)
{
    take_row(r, 2);
}
static void take_4(void *user, const cpu_row *r)
{
    take_row(r, 4);
}
static void take_8(void *user, const cpu_row *r)
{
    take_row(r, 8);
}
static void take_16(void *user, const cpu_row *r)
{
    take_row(r, 16);
}
static void put_1(void *user, const cpu_row *r)
{
    put_row(r, 1);
}
static void put_2(void *user, const cpu_row *r)
{
    put_row(r, 2);
}
static void put_4(void *user, const cpu_row *r)
{
    put_row(r, 4);
}
static void put_8(void *user, const cpu_row *r)
{
    put_row(r, 8);
}
static void put_16(void *user, const cpu_row *r)
{
    put_row(r, 16);
}
cpu_row_fn cpu_take_fn(int64_t bytes)
{
    return bytes == 1 ? take_1 : bytes == 2 ? take_2 : bytes == 4 ? take_4 : bytes == 8 ? take_8 : take_16;
}
cpu_row_fn cpu_put_fn(int64_t bytes)
{
    return bytes == 1 ? put_1 : bytes == 2 ? put_2 : bytes == 4 ? put_4 : bytes == 8 ? put_8 : put_16;
}

/* ---- Lines
 * --------------------------------------------------------------------------------------------------- */

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

/* ---- The walk
 * ------------------------------------------------------------------------------------------------ */

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

/* Offsets in self of n indices. */
static void read_offsets(const cpu_walk *w, const char *index, int64_t step, int64_t n, int64_t *out)
{
    for (int64_t i = 0; i < n; i++) out[i] = cpu_index_at(index + i * step, w->index_wide) * w->index_scale;
}

/* n neighbouring lines from `p` on, chosen position j. */
static void row_of_lines(const cpu_walk *w, place p, int64_t n, int64_t j)
{
    int64_t offsets[CPU_CHUNK];
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
    for (int64_t i = 0; i < n; i += CPU_CHUNK) {
        row.n = n - i < CPU_CHUNK ? n - i : CPU_CHUNK;
        read_offsets(w, index + i * w->index_strides[0], w->index_strides[0], row.n, offsets);
        row.offsets = offsets;
        w->fn(w->user, &row);
        row.base += row.n * row.stride;
        row.other += row.n * row.other_stride;
    }
}

/* Chosen positions [begin, end) of one line. */
static void row_of_chosen(const cpu_walk *w, place p, int64_t begin, int64_t end)
{
    int64_t offsets[CPU_CHUNK];
    for (int64_t j = begin; j < end; j += CPU_CHUNK) {
        cpu_row row = {.base = p.self,
                       .other = p.other + place_in_other(w, j),
                       .other_stride = w->other_step,
                       .n = end - j < CPU_CHUNK ? end - j : CPU_CHUNK};
        if (w->chosen) {
            row.offsets = w->chosen + j;
        } else {
            read_offsets(w, p.index + j * w->index_step, w->index_step, row.n, offsets);
            row.offsets = offsets;
        }
        w->fn(w->user, &row);
    }
}

static void walk(const cpu_walk *w, int64_t line_begin, int64_t line_end, int64_t begin, int64_t end)
{
    int64_t length = w->rank ? w->sizes[0] : 1, step;
    int32_t chosen_dense = w->other_step != 0 && w->rank && w->other_step < w->other_strides[0];
    int32_t along_lines = w->places || (length >= LONG_LINE && !(chosen_dense && end - begin >= LONG_LINE));
    for (int64_t line = line_begin; line < line_end; line += step) {
        place p = place_of(w, line);
        step = 1;
        if (!along_lines) {
            row_of_chosen(w, p, begin, end);
            continue;
        }
        step = length - line % length;
        if (step > line_end - line) step = line_end - line;
        for (int64_t j = begin; j < end; j++) row_of_lines(w, p, step, j);
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
    int32_t by_lines = w->shared || w->lines > w->count;
    int64_t grain = INDEX_GRAIN / (by_lines ? w->count : w->lines);
    if (grain < 1) grain = 1;
    if (by_lines)
        cpu_parallel_for(call, w->lines, grain, walk_lines, (void *)(uintptr_t)w);
    else
        cpu_parallel_for(call, w->count, grain, walk_chosen, (void *)(uintptr_t)w);
}
