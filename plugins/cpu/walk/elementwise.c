/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks in any order of elements; see elementwise.h. Two kinds of loop nests gain from that: inputs that are
 * transposed against the output, whose cache lines are then read once for several rows, and inputs that are
 * broadcast along short rows, which are then computed once for each row. It knows plans, no operator.
 */
#include "elementwise.h"
#include "transpose.h"

#include <string.h>

/* ---- Transposed inputs --------------------------------------------------------------- */

/*
 * Columns of a tile, and the bytes of a cache line, which a tile's rows cover in a transposed input. A
 * transposed tile of an operand takes 16 KiB.
 */
#define TILE_COLUMNS 256
#define TILE_LINE    64

typedef struct transposed_tiles {
    _Alignas(64) char bytes[CPU_MAX_OPERANDS][TILE_COLUMNS * TILE_LINE];
} transposed_tiles;

static bool is_transposed(const cpu_plan *plan, uint32_t i)
{
    const cpu_plan_operand *p = &plan->operands[i];
    return i >= plan->n_outputs && p->strides[1] == p->bytes && p->stride >= TILE_LINE;
}

/* Rows of a tile, by the smallest element of a transposed input; 0 if there is none. */
static int64_t tile_rows(const cpu_plan *plan)
{
    int64_t rows = 0;
    if (plan->rank < 2 || !plan->by_rows || plan->sizes[1] < 4) return 0;
    for (uint32_t i = 0; i < plan->n_operands; i++) {
        if (!is_transposed(plan, i)) continue;
        int64_t line = TILE_LINE / plan->operands[i].bytes;
        if (rows == 0 || line < rows) rows = line;
    }
    return rows;
}

/* Walks one tile of `n` columns and `rows` rows; `from` has the addresses of its first elements. */
static void walk_tile(const cpu_plan *plan, char *const *from, int64_t n, int64_t rows,
                      transposed_tiles *room, cpu_run_fn fn, void *user)
{
    const int64_t sizes[2] = {n, rows};
    int64_t strides[CPU_MAX_OPERANDS][2];
    cpu_plan tile = *plan;
    tile.rank = 2;
    tile.sizes = sizes;
    tile.numel = n * rows;
    for (uint32_t i = 0; i < plan->n_operands; i++) {
        cpu_plan_operand *p = &tile.operands[i];
        p->base = from[i];
        strides[i][0] = p->strides[0];
        strides[i][1] = p->strides[1];
        if (is_transposed(plan, i)) {
            p->base = room->bytes[i];
            cpu_transpose(p->base, n * p->bytes, from[i], p->stride, n, rows, p->bytes);
            strides[i][0] = p->bytes;
            strides[i][1] = n * p->bytes;
        }
        p->strides = strides[i];
        p->stride = strides[i][0];
    }
    cpu_plan_finish(&tile);
    for (uint32_t i = 0; i < plan->n_outputs; i++)
        tile.operands[i].streamed = tile.by_rows && plan->operands[i].streamed && n % TILE_LINE == 0;
    cpu_plan_elementwise(&tile);
    cpu_plan_walk(&tile, 0, tile.numel, fn, user);
}

/* Addresses of the operands where row `row` begins. */
static void row_addresses(const cpu_plan *plan, int64_t row, char **out)
{
    for (uint32_t i = 0; i < plan->n_operands; i++) out[i] = plan->operands[i].base;
    for (uint32_t d = 1; d < plan->rank; d++) {
        for (uint32_t i = 0; i < plan->n_operands; i++)
            out[i] += row % plan->sizes[d] * plan->operands[i].strides[d];
        row /= plan->sizes[d];
    }
}

static void walk_tiles(const cpu_plan *plan, int64_t first, int64_t last, int64_t most, cpu_run_fn fn,
                       void *user)
{
    char *from[CPU_MAX_OPERANDS];
    transposed_tiles room;
    for (int64_t row = first, rows; row < last; row += rows) {
        rows = plan->sizes[1] - row % plan->sizes[1];
        if (rows > most) rows = most;
        if (rows > last - row) rows = last - row;
        row_addresses(plan, row, from);
        for (int64_t column = 0; column < plan->sizes[0]; column += TILE_COLUMNS) {
            int64_t rest = plan->sizes[0] - column, n = rest < TILE_COLUMNS ? rest : TILE_COLUMNS;
            walk_tile(plan, from, n, rows, &room, fn, user);
            for (uint32_t i = 0; i < plan->n_operands; i++) from[i] += n * plan->operands[i].stride;
        }
    }
}

/* ---- Rows of one element ----------------------------------------------------------------------------- */

typedef struct repeated {
    const cpu_plan *plan;
    cpu_run_fn fn;
    void *user;
} repeated;

/*
 * 1 for one contiguous output and inputs that are broadcast along each row. These rows are not split over
 * threads, so they must be short.
 */
static int32_t repeats(const cpu_plan *plan)
{
    const cpu_plan_operand *o = &plan->operands[0];
    if (plan->rank < 2 || plan->sizes[0] > CPU_CHUNK || plan->n_outputs != 1 || plan->uniform || !o->linear ||
        o->stride != o->bytes)
        return 0;
    for (uint32_t i = 1; i < plan->n_operands; i++)
        if (plan->operands[i].strides[0] != 0) return 0;
    return plan->n_operands > 1;
}

/* An element of 1, 2, 4, 8 or 16 bytes, as often as 16 bytes hold it. */
static void make_pattern(uint64_t pattern[2], const char *element, int64_t bytes)
{
    uint64_t word = 0;
    switch (bytes) {
    case 1:
        word = *(const uint8_t *)element * UINT64_C(0x0101010101010101);
        break;
    case 2:
        memcpy(&word, element, 2);
        word *= UINT64_C(0x0001000100010001);
        break;
    case 4:
        memcpy(&word, element, 4);
        word *= UINT64_C(0x0000000100000001);
        break;
    default:
        memcpy(&word, element, 8);
    }
    pattern[0] = pattern[1] = word;
    if (bytes == 16) memcpy(&pattern[1], element + 8, 8);
}

/* Writes an element n times, by vectors; the last vector ends with the row. */
static void repeat(char *to, const char *element, int64_t n, int64_t bytes)
{
    uint64_t pattern[2];
    int64_t all = n * bytes, i = 0;
    make_pattern(pattern, element, bytes);
    if (all < 16) {
        for (; i < all; i += bytes) memcpy(to + i, pattern, (size_t)bytes);
        return;
    }
    for (; i + 64 <= all; i += 64)
        for (int k = 0; k < 4; k++) memcpy(to + i + 16 * k, pattern, 16);
    for (; i + 16 <= all; i += 16) memcpy(to + i, pattern, 16);
    memcpy(to + all - 16, pattern, 16);
}

static void repeat_run(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const repeated *r = user;
    const cpu_plan_operand *o = &r->plan->operands[0];
    int64_t length = r->plan->sizes[0];
    _Alignas(64) char results[CPU_CHUNK * 16], converted[CPU_CHUNK * 16];
    void *all[CPU_MAX_OPERANDS] = {results};
    for (uint32_t i = 1; i < r->plan->n_operands; i++) all[i] = pointers[i - 1];
    r->fn(r->user, all, n, position);
    if (o->want != o->slot) cpu_convert(converted, o->slot, results, o->want, n);
    for (int64_t i = 0; i < n; i++)
        repeat(o->base + (position + i) * length * o->bytes,
               (o->want != o->slot ? converted : results) + i * o->bytes, length, o->bytes);
}

/* Computes the first element of each row and repeats it. */
static void walk_repeated(const cpu_plan *plan, int64_t first, int64_t last, cpu_run_fn fn, void *user)
{
    repeated r = {plan, fn, user};
    cpu_plan rows = {.rank = plan->rank - 1,
                     .n_operands = plan->n_operands - 1,
                     .sizes = plan->sizes + 1,
                     .numel = plan->numel / plan->sizes[0]};
    for (uint32_t i = 1; i < plan->n_operands; i++) {
        cpu_plan_operand *p = &rows.operands[i - 1];
        *p = plan->operands[i];
        p->strides++;
        p->stride = p->strides[0];
    }
    cpu_plan_finish(&rows);
    cpu_plan_walk(&rows, first, last, repeat_run, &r);
}

void cpu_elementwise_walk(const cpu_plan *plan, int64_t begin, int64_t end, cpu_run_fn fn, void *user)
{
    int64_t most = tile_rows(plan), row = plan->rank ? plan->sizes[0] : 1;
    int64_t first = (begin + row - 1) / row, last = (end + row - 1) / row;
    if (most > 0)
        walk_tiles(plan, first, last, most, fn, user);
    else if (repeats(plan))
        walk_repeated(plan, first, last, fn, user);
    else
        cpu_plan_walk(plan, begin, end, fn, user);
}
