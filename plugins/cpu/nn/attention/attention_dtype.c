/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention by tiles, without the matrix of weights (Dao et al., "FlashAttention", 2022; Milakov and
 * Gimelshein, "Online normalizer calculation for softmax", 2018). Scores of a block of queries and a tile of
 * keys stay in the second-level cache. The forward pass keeps each query's largest score so far and the sum
 * of its weights, and scales the result so far when a larger score comes. The backward pass recomputes the
 * weights from the logarithms of the sums.
 *
 * Scores are in powers of two: queries are multiplied by scale * log2(e) when they are read, so a weight is
 * 2^(score - largest). Rows of half types are widened when they are read.
 */
#include "attention.h"
#include "kernels/products.h"
#include "nn/lanes.h"
#include "walk/staging.h"
#include "walk/transpose.h"

#define LOG2_E 1.44269504088896340736
#define LN_2   0.693147180559945309417

/* ---- Products ---------------------------------------------------------------------------------------- */

/* Rows and vectors of the accumulators that fit the registers. */
#if defined(__AVX512F__)
enum { ROWS = 12, VECTORS = 2 };
#else
enum { ROWS = 6, VECTORS = 2 };
#endif

enum {
    QUERIES = CPU_ATTENTION_QUERIES, /* of a block; a multiple of ROWS */
    KEYS = CPU_ATTENTION_KEYS,       /* of a tile */
    STEP = KEYS + LANE_COUNT, /* between rows of scores; not a power of two, so rows spread over cache sets */
    FEW_QUERIES = 2,          /* up to so many, keys are read in place */
};

/*
 * C = A B, or C += A B. Rows up to the next multiple of ROWS and columns up to the next multiple of LANE_COUNT are
 * computed as well; all matrices have room for them.
 */
typedef struct product {
    int64_t m, n, k;
    const T *a;
    int64_t a_row, a_column;
    const T *b;
    int64_t b_row;
    T *c;
    int64_t c_row;
    bool add;
} product;

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

ALWAYS_INLINE void multiply_tile(const product *p, int64_t i, int64_t j, const int vectors, const bool add)
{
    const T *a = p->a + i * p->a_row, *b = p->b + j;
    T *c = p->c + i * p->c_row + j;
    lanes sum[ROWS][VECTORS];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < vectors; v++) sum[r][v] = (lanes){0};
    for (int64_t k = 0; k < p->k; k++, a += p->a_column, b += p->b_row) {
        lanes right[VECTORS];
        for (int v = 0; v < vectors; v++) right[v] = lanes_of_acc(b + v * LANE_COUNT);
        for (int r = 0; r < ROWS; r++)
            for (int v = 0; v < vectors; v++) sum[r][v] += right[v] * a[r * p->a_row];
    }
    UNROLLED
    for (int r = 0; r < ROWS; r++) {
        T *to = c + r * p->c_row;
        for (int v = 0; v < vectors; v++) {
            if (add) sum[r][v] += lanes_of_acc(to + v * LANE_COUNT);
            memcpy(to + v * LANE_COUNT, &sum[r][v], sizeof sum[r][v]);
        }
    }
}

ALWAYS_INLINE void multiply_as(const product *p, const bool add)
{
    int64_t j = 0;
    for (; j + LANE_COUNT < p->n; j += VECTORS * LANE_COUNT)
        for (int64_t i = 0; i < p->m; i += ROWS) multiply_tile(p, i, j, VECTORS, add);
    for (; j < p->n; j += LANE_COUNT)
        for (int64_t i = 0; i < p->m; i += ROWS) multiply_tile(p, i, j, 1, add);
}
static void multiply(const product *p)
{
    if (p->add)
        multiply_as(p, true);
    else
        multiply_as(p, false);
}

/* ---- Reading and writing rows ------------------------------------------------------------------------ */

static char *row_at(const cpu_heads *h, int64_t batch, int64_t head, int64_t row)
{
    return h->data + batch * h->batch + head * h->head + row * h->row;
}

/* Rows [first, first + count) as T, `step` apart, times `factor`. */
static void read_rows(const cpu_attention *a, const cpu_heads *h, const cpu_attention_part *part,
                      int64_t head, int64_t first, int64_t count, int64_t width, T factor, T *to,
                      int64_t step)
{
    const char *from = row_at(h, part->batch, head, first);
    for (int64_t i = 0; i < count; i++) {
        T *row = to + i * step;
        cpu_convert(row, CPU_SLOT, from + i * h->row, a->slot, width);
        if (factor != 1)
            for (int64_t j = 0; j < width; j++) row[j] *= factor;
    }
}

/* The transposed matrix of rows [first, first + count), STEP apart; `rows` is room for them. */
static void read_transposed(const cpu_attention *a, const cpu_heads *h, const cpu_attention_part *part,
                            int64_t head, int64_t first, int64_t count, int64_t width, T *rows, T *to)
{
    const char *from = row_at(h, part->batch, head, first);
    int64_t step = h->row;
    if (a->slot != CPU_SLOT) {
        read_rows(a, h, part, head, first, count, width, 1, rows, width);
        from = (const char *)rows;
        step = width * (int64_t)sizeof(T);
    }
    cpu_transpose((char *)to, STEP * (int64_t)sizeof(T), from, step, count, width, sizeof(T));
}

static void write_row(const cpu_attention *a, const cpu_heads *h, const cpu_attention_part *part,
                      int64_t head, int64_t row, int64_t width, T factor, T *from)
{
    for (int64_t j = 0; j < width; j++) from[j] *= factor;
    cpu_convert(row_at(h, part->batch, head, row), a->slot, from, CPU_SLOT, width);
}

static T *logsumexp_at(const cpu_attention *a, const cpu_attention_part *part, int64_t head, int64_t query)
{
    return (T *)(void *)row_at(&a->logsumexp, part->batch, head, query);
}

/* ---- Scores and weights ------------------------------------------------------------------------------ */

/* A block of queries against a tile of keys. */
typedef struct block {
    int64_t head, query, queries; /* the first query, and how many */
    int64_t key, keys;            /* those that any of the queries sees */
} block;

/* How many keys of the block its row i sees. */
static int64_t seen_keys(const cpu_attention *a, const block *b, int64_t i)
{
    return a->causal ? min_i64(b->keys, b->query + i + 1 - b->key) : b->keys;
}

static void add_mask(const cpu_attention *a, const cpu_attention_part *part, const block *b, T *scores)
{
    cpu_buffer raw;
    T mask[KEYS];
    if (!a->mask.data) return;
    for (int64_t i = 0; i < b->queries; i++) {
        const char *from = row_at(&a->mask, part->batch, b->head, b->query + i) + b->key * a->mask_column;
        T *row = scores + i * STEP;
        cpu_gather(mask, CPU_SLOT, from, a->mask_slot, a->mask_column, b->keys, raw.bytes);
        for (int64_t j = 0; j < b->keys; j++) row[j] += mask[j] * (T)LOG2_E;
    }
}

/*
 * Weights 2^(score - less) of the keys that a query sees, and 0 for the others up to `keys` and to the end of their
 * vector.
 */
static void to_weights(T *row, int64_t seen, int64_t keys, T less)
{
    int64_t whole = round_up(seen, LANE_COUNT), end = max_i64(whole, keys);
    for (int64_t j = 0; j < whole; j++) row[j] = E_POWER(exp2_weight)(row[j] - less);
    for (int64_t j = seen; j < end; j++) row[j] = 0;
}

/* ---- Forward ----------------------------------------------------------------------------------------- */

static int64_t padded(int64_t width)
{
    return round_up(width, LANE_COUNT);
}

/* The next `count` elements of a thread's room. */
static T *take(char **room, int64_t count)
{
    T *memory = (T *)(void *)*room;
    *room += round_up(count * (int64_t)sizeof(T), 64);
    return memory;
}

typedef struct forward_room {
    T *query, *out;   /* rows of the part: scaled queries, results so far */
    T *largest, *sum; /* of each query so far */
    T *keys, *values; /* the tile: transposed keys, rows of values */
    T *rows;          /* room for converted keys */
    T *scores;        /* of a block */
} forward_room;

static forward_room forward_room_at(const cpu_attention *a, int64_t queries, char **memory)
{
    int64_t rows = round_up(queries, QUERIES), wide = padded(max_i64(a->width, a->value_width));
    return (forward_room){
        .query = take(memory, rows * a->width),
        .out = take(memory, rows * padded(a->value_width)),
        .largest = take(memory, rows),
        .sum = take(memory, rows),
        .keys = take(memory, a->width * STEP),
        .values = take(memory, KEYS * padded(a->value_width)),
        .rows = take(memory, KEYS * wide),
        .scores = take(memory, QUERIES * STEP),
    };
}
static int64_t forward_room_bytes(const cpu_attention *a, int64_t queries)
{
    char *end = NULL;
    (void)forward_room_at(a, queries, &end);
    return (int64_t)(uintptr_t)end;
}

static inline lanes greater(lanes a, lanes b)
{
    lane_bits take = (lane_bits)(a > b);
    return (lanes)((take & (lane_bits)a) | (~take & (lane_bits)b));
}

/*
 * The largest score. A NaN among numbers may be passed over, since it gives a weight that is NaN; the careful
 * search is for rows without numbers.
 */
static T largest_of(const T *row, int64_t count)
{
    T part[LANE_COUNT], best = -INFINITY;
    lanes most[LANE_SETS];
    int64_t i = 0;
    for (int s = 0; s < LANE_SETS; s++) most[s] = (lanes){0} - INFINITY;
    for (; i + LANE_STEP <= count; i += LANE_STEP)
        for (int s = 0; s < LANE_SETS; s++)
            most[s] = greater(lanes_of_acc(row + i + s * LANE_COUNT), most[s]);
    for (; i + LANE_COUNT <= count; i += LANE_COUNT) most[0] = greater(lanes_of_acc(row + i), most[0]);
    for (; i < count; i++) best = best < row[i] ? row[i] : best;
    most[0] = greater(greater(most[0], most[1]), greater(most[2], most[3]));
    memcpy(part, &most[0], sizeof part);
    for (int s = 0; s < LANE_COUNT; s++) best = best < part[s] ? part[s] : best;
    return best == -INFINITY ? lanes_max(row, count) : best;
}

/* Makes weights of a query's scores and brings what it had before to the new largest score. */
static void weigh_row(T *row, int64_t seen, int64_t keys, T *largest, T *sum, T *out, int64_t width)
{
    T best = largest_of(row, seen), before = *largest;
    if (best > before || best != best) *largest = best;
    if (*largest == -INFINITY) { /* all masked */
        memset(row, 0, (size_t)keys * sizeof(T));
        return;
    }
    to_weights(row, seen, keys, *largest);
    if (*largest != before) {
        T factor = E_POWER(exp2_weight)(before - *largest);
        *sum *= factor;
        for (int64_t j = 0; j < width; j++) out[j] *= factor;
    }
    *sum += lanes_sum_acc(row, round_up(seen, LANE_COUNT));
}

/* Scores of one query against keys that are read in place. */
static void dot_keys(const T *query, const T *keys, int64_t step, int64_t count, int64_t width, T *scores)
{
    for (int64_t j = 0; j < count; j++, keys += step) {
        lanes sum[2] = {{0}};
        T rest = 0;
        int64_t i = 0;
        for (; i + 2 * LANE_COUNT <= width; i += 2 * LANE_COUNT)
            for (int v = 0; v < 2; v++)
                sum[v] += lanes_of_acc(query + i + v * LANE_COUNT) * lanes_of_acc(keys + i + v * LANE_COUNT);
        for (; i < width; i++) rest += query[i] * keys[i];
        scores[j] = lanes_total(sum[0] + sum[1]) + rest;
    }
}

/* out += weights * values for one query. */
static void add_values(const T *weights, const T *values, int64_t step, int64_t count, int64_t width, T *out)
{
    int64_t i = 0;
    for (; i + LANE_STEP <= width; i += LANE_STEP) {
        lanes sum[LANE_SETS];
        for (int s = 0; s < LANE_SETS; s++) sum[s] = lanes_of_acc(out + i + s * LANE_COUNT);
        for (int64_t j = 0; j < count; j++)
            for (int s = 0; s < LANE_SETS; s++)
                sum[s] += lanes_of_acc(values + j * step + i + s * LANE_COUNT) * weights[j];
        memcpy(out + i, sum, sizeof sum);
    }
    for (; i < width; i++)
        for (int64_t j = 0; j < count; j++) out[i] += weights[j] * values[j * step + i];
}

/* The rows of a tile as T: in place, or converted. */
static const T *rows_in_place(const cpu_attention *a, const cpu_heads *h, const cpu_attention_part *part,
                              int64_t head, int64_t first, int64_t count, int64_t width, T *room,
                              int64_t *step)
{
    *step = h->row / (int64_t)sizeof(T);
    if (a->slot == CPU_SLOT) return (const T *)(const void *)row_at(h, part->batch, head, first);
    *step = width;
    read_rows(a, h, part, head, first, count, width, 1, room, width);
    return room;
}

/* A tile for a part of few queries: packing the keys would take longer than using them. */
static void few_queries(const cpu_attention *a, const cpu_attention_part *part, const forward_room *r,
                        int64_t key, int64_t keys)
{
    int64_t queries = part->query_end - part->query_begin, wide = padded(a->value_width);
    int64_t head = part->head / (a->heads / a->key_heads), key_step, value_step;
    const T *k = rows_in_place(a, &a->key, part, head, key, keys, a->width, r->rows, &key_step);
    block all = {part->head, part->query_begin, queries, key, keys};
    for (int64_t i = 0; i < queries; i++)
        dot_keys(r->query + i * a->width, k, key_step, keys, a->width, r->scores + i * STEP);
    add_mask(a, part, &all, r->scores);
    const T *v = rows_in_place(a, &a->value, part, head, key, keys, a->value_width, r->values, &value_step);
    for (int64_t i = 0; i < queries; i++) {
        int64_t seen = seen_keys(a, &all, i);
        if (seen <= 0) continue;
        T *row = r->scores + i * STEP, *out = r->out + i * wide;
        weigh_row(row, seen, keys, r->largest + i, r->sum + i, out, a->value_width);
        add_values(row, v, value_step, seen, a->value_width, out);
    }
}

static void many_queries(const cpu_attention *a, const cpu_attention_part *part, const forward_room *r,
                         int64_t key, int64_t keys)
{
    int64_t queries = part->query_end - part->query_begin, wide = padded(a->value_width);
    int64_t head = part->head / (a->heads / a->key_heads);
    read_transposed(a, &a->key, part, head, key, keys, a->width, r->rows, r->keys);
    read_rows(a, &a->value, part, head, key, keys, a->value_width, 1, r->values, wide);
    for (int64_t first = 0; first < queries; first += QUERIES) {
        block b = {part->head, part->query_begin + first, min_i64(QUERIES, queries - first), key, keys};
        b.keys = seen_keys(a, &b, b.queries - 1);
        if (b.keys <= 0) continue;
        multiply(&(product){b.queries, b.keys, a->width, r->query + first * a->width, a->width, 1, r->keys,
                            STEP, r->scores, STEP, false});
        add_mask(a, part, &b, r->scores);
        for (int64_t i = 0; i < b.queries; i++)
            weigh_row(r->scores + i * STEP, max_i64(seen_keys(a, &b, i), 0), b.keys, r->largest + first + i,
                      r->sum + first + i, r->out + (first + i) * wide, wide);
        multiply(&(product){b.queries, wide, b.keys, r->scores, STEP, 1, r->values, wide,
                            r->out + first * wide, wide, true});
    }
}

static void forward(const cpu_attention *a, const cpu_attention_part *part, char *memory)
{
    int64_t queries = part->query_end - part->query_begin, wide = padded(a->value_width);
    int64_t keys = a->causal ? min_i64(a->keys, part->query_end) : a->keys;
    forward_room r = forward_room_at(a, queries, &memory);
    read_rows(a, &a->query, part, part->head, part->query_begin, queries, a->width, (T)(a->scale * LOG2_E),
              r.query, a->width);
    memset(r.out, 0, (size_t)(round_up(queries, QUERIES) * wide) * sizeof(T));
    for (int64_t i = 0; i < queries; i++) {
        r.largest[i] = -INFINITY;
        r.sum[i] = 0;
    }
    for (int64_t key = 0; key < keys; key += KEYS)
        (queries <= FEW_QUERIES ? few_queries : many_queries)(a, part, &r, key, min_i64(KEYS, keys - key));
    for (int64_t i = 0; i < queries; i++) {
        int64_t row = part->query_begin + i;
        T sum = r.sum[i];
        *logsumexp_at(a, part, part->head, row) = r.largest[i] * (T)LN_2 + (T)log((double)sum);
        write_row(a, &a->out, part, part->head, row, a->value_width, sum == 0 ? 0 : 1 / sum,
                  r.out + i * wide);
    }
}

/* ---- Backward ---------------------------------------------------------------------------------------- */

typedef struct backward_room {
    T *query, *grad;             /* rows of a block: scaled queries, gradients of results */
    T *scores, *slopes;          /* of a block: weights, gradients of scores */
    T *keys, *values, *key_rows; /* the tile: transposed keys and values, rows of keys */
    T *rows;                     /* room for converted rows */
    T *grad_key, *grad_value;    /* of the tile */
    T *grad_query;               /* of all queries of the part and heads that share its keys */
    T *less, *mean;              /* of all queries: the logarithm of the sum, and grad . out */
} backward_room;

static backward_room backward_room_at(const cpu_attention *a, int64_t queries, char **memory)
{
    int64_t wide = padded(a->width), wide_value = padded(a->value_width), group = a->heads / a->key_heads;
    int64_t widest = max_i64(wide, wide_value);
    return (backward_room){
        .query = take(memory, QUERIES * wide),
        .grad = take(memory, QUERIES * wide_value),
        .scores = take(memory, QUERIES * STEP),
        .slopes = take(memory, QUERIES * STEP),
        .keys = take(memory, a->width * STEP),
        .values = take(memory, a->value_width * STEP),
        .key_rows = take(memory, KEYS * wide),
        .rows = take(memory, KEYS * widest),
        .grad_key = take(memory, (KEYS + ROWS) * wide),
        .grad_value = take(memory, (KEYS + ROWS) * wide_value),
        .grad_query = take(memory, group * round_up(queries, QUERIES) * wide),
        .less = take(memory, group * a->queries),
        .mean = take(memory, group * a->queries),
    };
}
static int64_t backward_room_bytes(const cpu_attention *a, int64_t queries)
{
    char *end = NULL;
    (void)backward_room_at(a, queries, &end);
    return (int64_t)(uintptr_t)end;
}

/* What each query of a head needs besides its scores. A query without keys has the sum 0; its weights are 0. */
static void read_queries(const cpu_attention *a, const cpu_attention_part *part, int64_t head, T *room,
                         T *less, T *mean)
{
    T *grad = room, *out = room + a->value_width;
    for (int64_t i = 0; i < a->queries; i++) {
        T log = *logsumexp_at(a, part, head, i), dot = 0;
        less[i] = log == -INFINITY ? INFINITY : log * (T)LOG2_E;
        read_rows(a, &a->grad, part, head, i, 1, a->value_width, 1, grad, 0);
        read_rows(a, &a->out, part, head, i, 1, a->value_width, 1, out, 0);
        dot_keys(grad, out, 0, 1, a->value_width, &dot);
        mean[i] = dot;
    }
}

/*
 * Weights and gradients of scores of a block whose rows are read. They are 0 up to the next multiple of ROWS: those
 * columns are added to gradients of keys that later blocks see.
 */
static void differentiate_block(const cpu_attention *a, const cpu_attention_part *part, const block *b,
                                const backward_room *r, const T *less, const T *mean)
{
    int64_t keys = round_up(b->keys, ROWS);
    multiply(&(product){b->queries, b->keys, a->width, r->query, padded(a->width), 1, r->keys, STEP,
                        r->scores, STEP, false});
    multiply(&(product){b->queries, b->keys, a->value_width, r->grad, padded(a->value_width), 1, r->values,
                        STEP, r->slopes, STEP, false});
    add_mask(a, part, b, r->scores);
    for (int64_t i = 0; i < b->queries; i++) {
        T *weights = r->scores + i * STEP, *slopes = r->slopes + i * STEP, subtract = mean[b->query + i];
        int64_t seen = max_i64(seen_keys(a, b, i), 0);
        to_weights(weights, seen, keys, less[b->query + i]);
        for (int64_t j = 0; j < seen; j++) slopes[j] = weights[j] * (slopes[j] - subtract);
        for (int64_t j = seen; j < keys; j++) slopes[j] = 0;
    }
}

/* One tile of keys and all queries of one head that the part needs. */
static void backward_tile(const cpu_attention *a, const cpu_attention_part *part, const backward_room *r,
                          int64_t head, int64_t key, int64_t keys, const T *less, const T *mean,
                          T *grad_query)
{
    bool of_keys = key >= part->key_begin && key < part->key_end;
    int64_t wide = padded(a->width), wide_value = padded(a->value_width);
    int64_t begin = of_keys ? 0 : part->query_begin, end = of_keys ? a->queries : part->query_end;
    if (a->causal) begin = max_i64(begin, key / QUERIES * QUERIES);
    for (int64_t first = begin; first < end; first += QUERIES) {
        block b = {head, first, min_i64(QUERIES, end - first), key, keys};
        b.keys = seen_keys(a, &b, b.queries - 1);
        if (b.keys <= 0) continue;
        read_rows(a, &a->query, part, head, first, b.queries, a->width, (T)(a->scale * LOG2_E), r->query,
                  wide);
        read_rows(a, &a->grad, part, head, first, b.queries, a->value_width, 1, r->grad, wide_value);
        differentiate_block(a, part, &b, r, less, mean);
        if (of_keys) {
            multiply(&(product){b.keys, wide_value, b.queries, r->scores, 1, STEP, r->grad, wide_value,
                                r->grad_value, wide_value, true});
            multiply(&(product){b.keys, wide, b.queries, r->slopes, 1, STEP, r->query, wide, r->grad_key,
                                wide, true});
        }
        if (first >= part->query_begin && first < part->query_end)
            multiply(&(product){b.queries, wide, b.keys, r->slopes, STEP, 1, r->key_rows, wide,
                                grad_query + (first - part->query_begin) * wide, wide, true});
    }
}

/* Whether any gradient of the part needs the tile of keys that begins at `key`. */
static bool needs_tile(const cpu_attention *a, const cpu_attention_part *part, int64_t key)
{
    if (key >= part->key_begin && key < part->key_end) return true;
    return part->query_begin < part->query_end && (!a->causal || key < part->query_end);
}

static void backward(const cpu_attention *a, const cpu_attention_part *part, char *memory)
{
    int64_t queries = part->query_end - part->query_begin, wide = padded(a->width),
            group = a->heads / a->key_heads;
    int64_t wide_value = padded(a->value_width), head = part->head * group, rows = round_up(queries, QUERIES);
    backward_room r = backward_room_at(a, queries, &memory);
    for (int64_t g = 0; g < group; g++)
        read_queries(a, part, head + g, r.rows, r.less + g * a->queries, r.mean + g * a->queries);
    memset(r.grad_query, 0, (size_t)(group * rows * wide) * sizeof(T));
    memset(r.grad, 0, (size_t)(QUERIES * wide_value) * sizeof(T));
    for (int64_t key = 0; key < a->keys; key += KEYS) {
        int64_t keys = min_i64(KEYS, a->keys - key);
        if (!needs_tile(a, part, key)) continue;
        read_transposed(a, &a->key, part, part->head, key, keys, a->width, r.rows, r.keys);
        read_transposed(a, &a->value, part, part->head, key, keys, a->value_width, r.rows, r.values);
        read_rows(a, &a->key, part, part->head, key, keys, a->width, 1, r.key_rows, wide);
        memset(r.grad_key, 0, (size_t)((KEYS + ROWS) * wide) * sizeof(T));
        memset(r.grad_value, 0, (size_t)((KEYS + ROWS) * wide_value) * sizeof(T));
        for (int64_t g = 0; g < group; g++)
            backward_tile(a, part, &r, head + g, key, keys, r.less + g * a->queries, r.mean + g * a->queries,
                          r.grad_query + g * rows * wide);
        if (key < part->key_begin || key >= part->key_end) continue;
        for (int64_t i = 0; i < keys; i++) {
            write_row(a, &a->grad_key, part, part->head, key + i, a->width, (T)LN_2, r.grad_key + i * wide);
            write_row(a, &a->grad_value, part, part->head, key + i, a->value_width, 1,
                      r.grad_value + i * wide_value);
        }
    }
    for (int64_t g = 0; g < group; g++)
        for (int64_t i = 0; i < queries; i++)
            write_row(a, &a->grad_query, part, head + g, part->query_begin + i, a->width, (T)a->scale,
                      r.grad_query + (g * rows + i) * wide);
}

CPU_KERNELS(cpu_attention_kernels, .forward_room = forward_room_bytes, .backward_room = backward_room_bytes,
            .forward = forward, .backward = backward);
