/* SPDX-License-Identifier: Apache-2.0 */
/* Bags of table rows and their gradients for one dtype and level; sums in accumulators, rounded once. */
#include "embedding.h"
#include "types.h"

static const T *table_row(const tni_bags *b, int64_t i)
{
    return (const T *)b->table + b->indices[i] * b->width;
}

static acc weight_of(const tni_bags *b, int64_t i)
{
    return b->weights ? load(((const T *)b->weights)[i]) : 1;
}

/* Columns are taken in stretches whose sums fit on the stack. */
enum { STRETCH = 256 };

static void sum_bag(const tni_bags *b, int64_t bag, int64_t first, int64_t width, int64_t used)
{
    acc sum[STRETCH];
    T *out = (T *)b->out + bag * b->width + first;
    for (int64_t j = 0; j < width; j++) sum[j] = 0;
    for (int64_t i = b->starts[bag]; i < b->starts[bag + 1]; i++) {
        const T *restrict row = table_row(b, i) + first;
        acc w = weight_of(b, i);
        if (b->indices[i] == b->padding) continue;
        for (int64_t j = 0; j < width; j++) sum[j] += load(row[j]) * w;
    }
    for (int64_t j = 0; j < width; j++)
        out[j] = store(b->mode == TNI_BAG_MEAN && used > 0 ? sum[j] / (acc)used : sum[j]);
}

static void max_bag(const tni_bags *b, int64_t bag)
{
    T *out = (T *)b->out + bag * b->width;
    int64_t *largest = b->out_largest ? b->out_largest + bag * b->width : NULL;
    bool first = true;
    memset(out, 0, (size_t)b->width * sizeof(T));
    if (largest) memset(largest, 0, (size_t)b->width * sizeof(int64_t));
    for (int64_t i = b->starts[bag]; i < b->starts[bag + 1]; i++) {
        const T *row = table_row(b, i);
        if (b->indices[i] == b->padding) continue;
        for (int64_t j = 0; j < b->width; j++) {
            if (!first && !(load(row[j]) > load(out[j]))) continue;
            out[j] = row[j];
            if (largest) largest[j] = b->indices[i];
        }
        first = false;
    }
}

static void forward(const tni_bags *b, int64_t begin, int64_t end)
{
    for (int64_t bag = begin; bag < end; bag++) {
        int64_t used = 0;
        for (int64_t i = b->starts[bag]; i < b->starts[bag + 1]; i++) used += b->indices[i] != b->padding;
        if (b->out_sizes) b->out_sizes[bag] = used;
        if (b->mode == TNI_BAG_MAX) {
            max_bag(b, bag);
            continue;
        }
        for (int64_t first = 0; first < b->width; first += STRETCH)
            sum_bag(b, bag, first, min_i64(STRETCH, b->width - first), used);
    }
}

/* What the gradient of a bag counts for index i. */
static acc share_of(const tni_bags *b, int64_t i, int64_t bag)
{
    acc share = weight_of(b, i);
    if (b->mode == TNI_BAG_MEAN) share /= (acc)max_i64(1, b->sizes[bag]);
    if (b->frequency) share /= (acc)b->frequency[b->indices[i]];
    return share;
}

static void add_indices(const tni_bags *b, int64_t begin, int64_t end, acc *sums)
{
    for (int64_t i = 0; i < b->count; i++) {
        int64_t row = b->indices[i], bag = b->bag_of ? b->bag_of[i] : i;
        const T *restrict grad = (const T *)b->grad + bag * b->width;
        acc *restrict sum = sums + (row - begin) * b->width, share;
        if (row < begin || row >= end || row == b->padding) continue;
        share = share_of(b, i, bag);
        for (int64_t j = 0; j < b->width; j++) sum[j] += load(grad[j]) * share;
    }
}

static void add_largest(const tni_bags *b, int64_t begin, int64_t end, acc *sums)
{
    for (int64_t bag = 0; bag < b->count; bag++) {
        const T *grad = (const T *)b->grad + bag * b->width;
        if (b->sizes[bag] == 0) continue;
        for (int64_t j = 0; j < b->width; j++) {
            int64_t row = b->largest[bag * b->width + j];
            if (row >= begin && row < end) sums[(row - begin) * b->width + j] += load(grad[j]);
        }
    }
}

static void backward(const tni_bags *b, int64_t begin, int64_t end, void *sums_v)
{
    T *out = (T *)b->out + begin * b->width;
    acc *sums = sums_v;
    int64_t elements = (end - begin) * b->width;
    memset(sums, 0, (size_t)elements * sizeof(acc));
    if (b->mode == TNI_BAG_MAX)
        add_largest(b, begin, end, sums);
    else
        add_indices(b, begin, end, sums);
    for (int64_t i = 0; i < elements; i++) out[i] = store(sums[i]);
}

static void backward_weights(const tni_bags *b, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const T *row = table_row(b, i), *grad = (const T *)b->grad + b->bag_of[i] * b->width;
        acc sum = 0;
        for (int64_t j = 0; b->indices[i] != b->padding && j < b->width; j++)
            sum += load(row[j]) * load(grad[j]);
        ((T *)b->out)[i] = store(sum);
    }
}

static void renorm(void *row_v, int64_t width, int64_t step, double max_norm, double p)
{
    T *row = row_v;
    double norm = 0;
    for (int64_t j = 0; j < width; j++) {
        double x = fabs((double)load(row[j * step]));
        norm = isinf(p) ? (x > norm || x != x ? x : norm)
                        : norm + (p == 2   ? x * x
                                  : p == 1 ? x
                                  : p == 0 ? x != 0
                                           : pow(x, p));
    }
    if (!isinf(p) && p != 0) norm = p == 2 ? sqrt(norm) : pow(norm, 1 / p);
    if (!(norm > max_norm)) return;
    for (int64_t j = 0; j < width; j++)
        row[j * step] = store((acc)((double)load(row[j * step]) * (max_norm / (norm + 1e-7))));
}

extern const tni_embedding_kernels K(tni_embedding_kernels);
const tni_embedding_kernels K(tni_embedding_kernels) = {
    .acc_bytes = sizeof(acc),
    .forward = forward,
    .backward = backward,
    .backward_weights = backward_weights,
    .renorm = renorm,
};
