/* SPDX-License-Identifier: Apache-2.0 */
/* Bags of table rows and their gradients; sums are rounded once. */
#include "embedding.h"
#include "nn/lanes.h"
#include "nn/runs.h"

static const E *table_row(const cpu_bags *b, int64_t i)
{
    return (const E *)b->table + b->indices[i] * b->width;
}

static T weight_of(const cpu_bags *b, int64_t i)
{
    return b->weights ? load(&((const E *)b->weights)[i]) : 1;
}

/* ---- Sums of rows ------------------------------------------------------------------------------------ */

/* Columns are processed in stretches whose sums fit on the stack, rows in groups. */
enum { STRETCH = 256, GROUP = 64, SETS = LANE_BYTES == 64 ? 12 : 8 };

typedef struct row_group {
    const E *rows[GROUP];
    T factors[GROUP];
    int count;
    bool far; /* the table does not fit the second-level cache */
} row_group;

enum { NEAR_BYTES = 1 << 20 };
static bool is_far(const cpu_bags *b)
{
    return b->rows * b->width * (int64_t)sizeof(E) > NEAR_BYTES;
}

/* Adds `sets` vectors of columns of all rows; the vectors stay in registers. */
ALWAYS_INLINE void add_columns(const row_group *g, int64_t first, int sets, T *sum)
{
    lanes total[SETS];
    for (int s = 0; s < sets; s++) total[s] = lanes_of_acc(sum + s * LANE_COUNT);
    for (int k = 0; k < g->count; k++)
        for (int s = 0; s < sets; s++)
            total[s] += lanes_load(g->rows[k] + first + s * LANE_COUNT) * g->factors[k];
    for (int s = 0; s < sets; s++) memcpy(sum + s * LANE_COUNT, &total[s], sizeof(total[s]));
}

/* Adds columns [first, first + width) of the group's rows and empties the group. */
static void add_group(row_group *g, int64_t first, int64_t width, T *sum)
{
    int64_t j = 0;
    for (; j + SETS * LANE_COUNT <= width; j += SETS * LANE_COUNT) add_columns(g, first + j, SETS, sum + j);
    if (SETS > 8 && j + 8 * LANE_COUNT <= width) add_columns(g, first + j, 8, sum + j), j += 8 * LANE_COUNT;
    for (; j + 4 * LANE_COUNT <= width; j += 4 * LANE_COUNT) add_columns(g, first + j, 4, sum + j);
    for (; j + LANE_COUNT <= width; j += LANE_COUNT) add_columns(g, first + j, 1, sum + j);
    for (; j < width; j++)
        for (int k = 0; k < g->count; k++) sum[j] += load(&g->rows[k][first + j]) * g->factors[k];
    g->count = 0;
}

/* The same straight from the indices of a bag, for a table that the cache holds. */
ALWAYS_INLINE void add_near_columns(const cpu_bags *b, int64_t bag, int64_t first, int sets, T *sum)
{
    lanes total[SETS];
    for (int s = 0; s < sets; s++) total[s] = lanes_of_acc(sum + s * LANE_COUNT);
    for (int64_t i = b->starts[bag]; i < b->starts[bag + 1]; i++) {
        const E *row = table_row(b, i) + first;
        T factor = weight_of(b, i);
        if (b->indices[i] == b->padding) continue;
        for (int s = 0; s < sets; s++) total[s] += lanes_load(row + s * LANE_COUNT) * factor;
    }
    for (int s = 0; s < sets; s++) memcpy(sum + s * LANE_COUNT, &total[s], sizeof(total[s]));
}

/* Adds the first columns of a stretch, by whole vectors, and returns how many. */
static int64_t add_near_rows(const cpu_bags *b, int64_t bag, int64_t first, int64_t width, T *sum)
{
    int64_t j = 0;
    for (; j + SETS * LANE_COUNT <= width; j += SETS * LANE_COUNT)
        add_near_columns(b, bag, first + j, SETS, sum + j);
    for (; j + 4 * LANE_COUNT <= width; j += 4 * LANE_COUNT) add_near_columns(b, bag, first + j, 4, sum + j);
    return j;
}

static void enter_row(row_group *g, const E *row, T factor, int64_t first, int64_t width, T *sum)
{
    if (g->count == GROUP) add_group(g, first, width, sum);
    /* Rows are anywhere in the table: prefetch them while the group fills. */
    for (int64_t j = 0; g->far && j < width; j += 64 / (int64_t)sizeof(E))
        __builtin_prefetch(row + first + j);
    g->rows[g->count] = row;
    g->factors[g->count++] = factor;
}

static void sum_bag(const cpu_bags *b, int64_t bag, int64_t first, int64_t width, int64_t used)
{
    T sum[STRETCH] = {0};
    row_group g;
    E *out = (E *)b->out + bag * b->width + first;
    int64_t done = is_far(b) ? 0 : add_near_rows(b, bag, first, width, sum);
    g.count = 0;
    g.far = is_far(b);
    for (int64_t i = b->starts[bag]; done < width && i < b->starts[bag + 1]; i++)
        if (b->indices[i] != b->padding)
            enter_row(&g, table_row(b, i), weight_of(b, i), first + done, width - done, sum + done);
    add_group(&g, first + done, width - done, sum + done);
    for (int64_t j = 0; b->mode == CPU_BAG_MEAN && used > 0 && j < width; j++) sum[j] /= (T)used;
    run_write(sum, width, out);
}

static void max_bag(const cpu_bags *b, int64_t bag)
{
    E *out = (E *)b->out + bag * b->width;
    int64_t *largest = b->out_largest ? b->out_largest + bag * b->width : NULL;
    bool first = true;
    memset(out, 0, (size_t)b->width * sizeof(E));
    if (largest) memset(largest, 0, (size_t)b->width * sizeof(int64_t));
    for (int64_t i = b->starts[bag]; i < b->starts[bag + 1]; i++) {
        const E *row = table_row(b, i);
        if (b->indices[i] == b->padding) continue;
        for (int64_t j = 0; j < b->width; j++) {
            if (!first && !(load(&row[j]) > load(&out[j]))) continue;
            out[j] = row[j];
            if (largest) largest[j] = b->indices[i];
        }
        first = false;
    }
}

static void forward(const cpu_bags *b, int64_t begin, int64_t end)
{
    for (int64_t bag = begin; bag < end; bag++) {
        int64_t used = 0;
        for (int64_t i = b->starts[bag]; i < b->starts[bag + 1]; i++) used += b->indices[i] != b->padding;
        if (b->out_sizes) b->out_sizes[bag] = used;
        if (b->mode == CPU_BAG_MAX) {
            max_bag(b, bag);
            continue;
        }
        for (int64_t first = 0; first < b->width; first += STRETCH)
            sum_bag(b, bag, first, min_i64(STRETCH, b->width - first), used);
    }
}

/* The factor of a bag's gradient for index i. */
static T share_of(const cpu_bags *b, int64_t i, int64_t bag)
{
    T share = weight_of(b, i);
    if (b->mode == CPU_BAG_MEAN) share /= (T)max_i64(1, b->sizes[bag]);
    if (b->frequency) share /= (T)b->frequency[b->indices[i]];
    return share;
}

/* Sums over the indices of each row, in order; rows without an index are 0. */
static void backward(const cpu_bags *b, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++) {
        E *out = (E *)b->out + row * b->width;
        if (b->row_starts[row] == b->row_starts[row + 1] || row == b->padding) {
            memset(out, 0, (size_t)b->width * sizeof(E));
            continue;
        }
        for (int64_t first = 0; first < b->width; first += STRETCH) {
            T sum[STRETCH] = {0};
            int64_t width = min_i64(STRETCH, b->width - first);
            row_group g;
            g.count = 0;
            g.far = true; /* gradients of all bags */
            for (int64_t k = b->row_starts[row]; k < b->row_starts[row + 1]; k++) {
                int64_t i = b->row_order[k], bag = b->bag_of ? b->bag_of[i] : i;
                enter_row(&g, (const E *)b->grad + bag * b->width, share_of(b, i, bag), first, width, sum);
            }
            add_group(&g, first, width, sum);
            run_write(sum, width, out + first);
        }
    }
}

static void add_largest(const cpu_bags *b, int64_t begin, int64_t end, T *sums)
{
    for (int64_t bag = 0; bag < b->count; bag++) {
        const E *grad = (const E *)b->grad + bag * b->width;
        if (b->sizes[bag] == 0) continue;
        for (int64_t j = 0; j < b->width; j++) {
            int64_t row = b->largest[bag * b->width + j];
            if (row >= begin && row < end) sums[(row - begin) * b->width + j] += load(&grad[j]);
        }
    }
}

static void backward_max(const cpu_bags *b, int64_t begin, int64_t end, void *sums)
{
    int64_t elements = (end - begin) * b->width;
    memset(sums, 0, (size_t)elements * sizeof(T));
    add_largest(b, begin, end, sums);
    run_write(sums, elements, (E *)b->out + begin * b->width);
}

static void backward_weights(const cpu_bags *b, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const E *row = table_row(b, i), *grad = (const E *)b->grad + b->bag_of[i] * b->width;
        T sum = 0;
        for (int64_t j = 0; b->indices[i] != b->padding && j < b->width; j++)
            sum += load(&row[j]) * load(&grad[j]);
        store(&((E *)b->out)[i], sum);
    }
}

static void renorm(void *row_v, int64_t width, int64_t step, double max_norm, double p)
{
    E *row = row_v;
    double norm = 0;
    for (int64_t j = 0; j < width; j++) {
        double x = fabs((double)load(&row[j * step]));
        norm = isinf(p) ? (x > norm || x != x ? x : norm)
                        : norm + (p == 2   ? x * x
                                  : p == 1 ? x
                                  : p == 0 ? x != 0
                                           : pow(x, p));
    }
    if (!isinf(p) && p != 0) norm = p == 2 ? sqrt(norm) : pow(norm, 1 / p);
    if (!(norm > max_norm)) return;
    for (int64_t j = 0; j < width; j++)
        store(&row[j * step], (T)((double)load(&row[j * step]) * (max_norm / (norm + 1e-7))));
}

CPU_KERNELS(cpu_embedding_kernels, .acc_bytes = sizeof(T), .forward = forward, .backward = backward,
            .backward_max = backward_max, .backward_weights = backward_weights, .renorm = renorm);
