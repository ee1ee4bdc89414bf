/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: recurrent cells and networks (LSTM: S. Hochreiter, J. Schmidhuber, 1997; GRU: K. Cho et al., 2014). A layer
 * multiplies its whole input by the weights at once; only the product with the last state is done step by step.
 */
#include "ops/composite/composite.h"

typedef enum cell_kind { RNN_TANH, RNN_RELU, GRU, LSTM } cell_kind;

typedef struct cell {
    cell_kind kind;
    tn_tensor *w_input, *w_state, *b_input, *b_state; /* biases may be NULL */
    tn_tensor *projection;                            /* LSTM: of the state, or NULL */
} cell;

typedef struct state {
    tn_tensor *h, *c; /* c: LSTM */
} state;

/* The state after a step, from the weighted input of the step. */
static state step(tn_scope *s, const cell *c, tn_tensor *x, state last)
{
    tn_tensor *h = tn_linear(s, last.h, c->w_state, .bias = c->b_state);
    if (c->kind == LSTM) {
        tn__thnn_fused_lstm_cell_result r = tn__thnn_fused_lstm_cell(s, x, h, last.c);
        return (state){c->projection ? tn_linear(s, r.result0, c->projection) : r.result0, r.result1};
    }
    if (c->kind == GRU) return (state){.h = tn__thnn_fused_gru_cell(s, x, h, last.h).result0};
    x = tn_add(s, x, h);
    return (state){.h = c->kind == RNN_TANH ? tn_tanh(s, x) : tn_relu(s, x)};
}

/* ---- cells ---- */

static int32_t check_cell(tn_scope *s, const tn_tensor *x, const tn_tensor *h, const cell *c)
{
    int64_t gates = c->kind == LSTM ? 4 : c->kind == GRU ? 3 : 1;
    if (tn_tensor_size(x, -1) != tn_tensor_size(c->w_input, 1))
        return tni_scope_failf(s, TN_E_SHAPE, "input has inconsistent input_size: got %lld expected %lld",
                               (long long)tn_tensor_size(x, -1), (long long)tn_tensor_size(c->w_input, 1));
    if (tn_tensor_size(x, 0) != tn_tensor_size(h, 0))
        return tni_scope_failf(s, TN_E_SHAPE, "Input batch size %lld doesn't match hidden hx batch size %lld",
                               (long long)tn_tensor_size(x, 0), (long long)tn_tensor_size(h, 0));
    if (tn_tensor_size(h, 1) != tn_tensor_size(c->w_state, 1) ||
        (!c->projection && tn_tensor_size(c->w_state, 0) != gates * tn_tensor_size(c->w_state, 1)))
        return tni_scope_failf(
            s, TN_E_SHAPE, "hidden hx has inconsistent hidden_size: got %lld, expected %lld",
            (long long)tn_tensor_size(h, 1), (long long)tn_tensor_size(c->w_state, 0) / gates);
    return TN_OK;
}

/* (input, hx, w_ih, w_hh, b_ih, b_hh) */
static state run_cell(tn_scope *s, cell_kind kind, const tn_value *args, state last)
{
    cell c = {.kind = kind,
              .w_input = arg_tensor(args, 2),
              .w_state = arg_tensor(args, 3),
              .b_input = arg_tensor(args, 4),
              .b_state = arg_tensor(args, 5)};
    tn_tensor *x = arg_tensor(args, 0);
    if (rank_of(x) != 2 || rank_of(last.h) != 2 || rank_of(c.w_input) != 2 || rank_of(c.w_state) != 2)
        return tn_scope_fail(s, TN_E_SHAPE,
                             "input, hidden state and weights of a cell must have 2 dimensions"),
               (state){NULL, NULL};
    if (check_cell(s, x, last.h, &c)) return (state){NULL, NULL};
    return step(s, &c, tn_linear(s, x, c.w_input, .bias = c.b_input), last);
}

void composite_lstm_cell(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors hx = arg_tensors(args, 1);
    if (hx.count != 2) return (void)tn_scope_fail(s, TN_E_ARGUMENT, "lstm_cell expects two hidden states");
    state last = run_cell(s, LSTM, args, (state){hx.data[0], hx.data[1]});
    give(outs, 0, last.h);
    give(outs, 1, last.c);
}

void composite_gru_cell(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, run_cell(s, GRU, args, (state){.h = arg_tensor(args, 1)}).h);
}

void composite_rnn_tanh_cell(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, run_cell(s, RNN_TANH, args, (state){.h = arg_tensor(args, 1)}).h);
}

void composite_rnn_relu_cell(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, run_cell(s, RNN_RELU, args, (state){.h = arg_tensor(args, 1)}).h);
}

/* ---- layers ---- */

/* The steps of a sequence [step, batch, feature], or packed: [row, feature], where step t has sizes.data[t] rows. */
typedef struct sequence {
    tn_tensor *data;
    tn_ints sizes; /* data NULL: not packed */
} sequence;

static state rows_of(tn_scope *s, state all, int64_t start, int64_t count)
{
    return (state){tni_narrow(s, all.h, 0, start, count),
                   all.c ? tni_narrow(s, all.c, 0, start, count) : NULL};
}

static state joined(tn_scope *s, const state *list, int64_t count)
{
    tn_tensor **h = tni_scope_tensors(s, count), **c = tni_scope_tensors(s, count);
    if (count == 1) return list[0];
    for (int64_t i = 0; h && c && i < count; i++) {
        h[i] = list[i].h;
        c[i] = list[i].c;
    }
    if (!h || !c || tn_scope_failed(s)) return (state){NULL, NULL};
    return (state){tn_cat(s, (tn_tensors){h, count}), c[0] ? tn_cat(s, (tn_tensors){c, count}) : NULL};
}

/* Sequences of a packed batch end at different steps. Going forward the states of those that have ended are set aside,
 * going back those that begin get the first state. */
typedef struct batch {
    state first, now;
    state *ended; /* the last one first */
    int64_t n_ended, rows;
} batch;

static void resize_batch(tn_scope *s, batch *b, int64_t rows)
{
    if (rows < b->rows) {
        b->ended[-++b->n_ended] = rows_of(s, b->now, rows, b->rows - rows);
        b->now = rows_of(s, b->now, 0, rows);
    } else if (rows > b->rows) {
        const state both[] = {b->now, rows_of(s, b->first, b->rows, rows - b->rows)};
        b->now = b->rows ? joined(s, both, 2) : both[1];
    }
    b->rows = rows;
}

/* Runs a layer in one direction. *io is the first state, then the last. Returns the outputs in the order of the input. */
static tn_tensor *run_layer(tn_scope *s, const cell *c, sequence in, int32_t reverse, state *io)
{
    int32_t packed = in.sizes.data != NULL;
    int64_t steps = packed ? in.sizes.count : in.data ? tn_tensor_size(in.data, 0) : 0;
    tn_tensor *x = tn_linear(s, in.data, c->w_input, .bias = c->b_input), **out = tni_scope_tensors(s, steps);
    state *ended = tn_scope_memory(s, (uint64_t)(steps + 1) * sizeof *ended);
    /* At once: the gradient of views one by one would be a sequence of zeros for each. */
    tn_tensors inputs = packed ? tn_split_with_sizes(s, x, in.sizes) : tn_unbind(s, x);
    if (inputs.count != steps || !out || !ended) return NULL;
    batch b = {.first = *io, .now = *io, .ended = ended + steps + 1};
    if (packed && !reverse) b.rows = tn_tensor_size(io->h, 0);
    for (int64_t i = 0; i < steps && !tn_scope_failed(s); i++) {
        int64_t t = reverse ? steps - 1 - i : i;
        if (packed) resize_batch(s, &b, in.sizes.data[t]);
        b.now = step(s, c, inputs.data[t], b.now);
        out[t] = b.now.h;
    }
    if (tn_scope_failed(s)) return NULL;
    b.ended[-++b.n_ended] = b.now;
    *io = joined(s, b.ended - b.n_ended, b.n_ended);
    return packed ? tn_cat(s, (tn_tensors){out, steps}) : tn_stack(s, (tn_tensors){out, steps});
}

/* ---- networks ---- */

typedef struct network {
    cell_kind kind;
    state first; /* [layer and direction, batch, feature] */
    tn_tensors params;
    int32_t has_biases, train, directions;
    int64_t layers;
    double dropout;
    int32_t has_projections;
} network;

static int64_t params_of_cell(const network *n)
{
    return (n->has_biases ? 4 : 2) + n->has_projections;
}

static cell cell_of(const network *n, int64_t i)
{
    tn_tensor *const *p = n->params.data + i * params_of_cell(n);
    return (cell){.kind = n->kind,
                  .w_input = p[0],
                  .w_state = p[1],
                  .b_input = n->has_biases ? p[2] : NULL,
                  .b_state = n->has_biases ? p[3] : NULL,
                  .projection = n->has_projections ? p[n->has_biases ? 4 : 2] : NULL};
}

/* All layers and directions. *last: the last states, stacked. */
static tn_tensor *run_network(tn_scope *s, const network *n, sequence in, state *last)
{
    int64_t cells = n->layers * n->directions;
    tn_tensor **h = tni_scope_tensors(s, cells), **c = tni_scope_tensors(s, cells);
    for (int64_t i = 0; i < cells && h && c && !tn_scope_failed(s); i += n->directions) {
        tn_tensor *out[2] = {NULL, NULL};
        for (int64_t d = 0; d < n->directions; d++) {
            cell parts = cell_of(n, i + d);
            state now = {tn_select(s, n->first.h, 0, i + d),
                         n->first.c ? tn_select(s, n->first.c, 0, i + d) : NULL};
            out[d] = run_layer(s, &parts, in, d == 1, &now);
            h[i + d] = now.h;
            c[i + d] = now.c;
        }
        in.data = out[1] ? tn_cat(s, TN_TENSORS(out[0], out[1]), .dim = -1) : out[0];
        if (n->dropout != 0 && n->train && i + n->directions < cells)
            in.data = tn_dropout(s, in.data, n->dropout, 1);
    }
    if (tn_scope_failed(s)) return NULL;
    last->h = tn_stack(s, (tn_tensors){h, cells});
    last->c = n->first.c ? tn_stack(s, (tn_tensors){c, cells}) : NULL;
    return in.data;
}

/* From `at` on: hx, params, has_biases, num_layers, dropout, train, bidirectional. */
static network network_of(cell_kind kind, const tn_value *args, uint32_t at)
{
    tn_tensors hx = arg_tensors(args, at);
    network n = {.kind = kind,
                 .first = {kind == LSTM && hx.count == 2 ? hx.data[0] : arg_tensor(args, at),
                           kind == LSTM && hx.count == 2 ? hx.data[1] : NULL},
                 .params = arg_tensors(args, at + 1),
                 .has_biases = arg_bool(args, at + 2),
                 .layers = arg_int(args, at + 3),
                 .dropout = arg_float(args, at + 4),
                 .train = arg_bool(args, at + 5),
                 .directions = arg_bool(args, at + 6) ? 2 : 1};
    n.has_projections = n.first.c && tn_tensor_size(n.first.h, -1) != tn_tensor_size(n.first.c, -1);
    return n;
}

static int32_t check_network(tn_scope *s, const network *n, const tn_tensor *input, int64_t rank)
{
    int64_t cells =
        n->layers < 0 || n->layers > INT32_MAX ? -1 : n->layers * n->directions; /* -1: not a valid length */
    if (n->kind == LSTM && !n->first.c)
        return tn_scope_fail(s, TN_E_ARGUMENT, "lstm expects two hidden states");
    if (rank_of(input) != rank || rank_of(n->first.h) != 3 || (n->first.c && rank_of(n->first.c) != 3))
        return tni_scope_failf(s, TN_E_SHAPE, "the input must have %lld dimensions and hidden states 3",
                               (long long)rank);
    if (n->params.count != cells * params_of_cell(n) || tn_tensor_size(n->first.h, 0) != cells)
        return tn_scope_fail(s, TN_E_ARGUMENT, "got an incorrect number of RNN parameters");
    return TN_OK;
}

/* (input, hx, ..., bidirectional, batch_first), or packed (data, batch_sizes, hx, ..., bidirectional). */
static void run(tn_scope *s, cell_kind kind, const tn_value *args, tn_value *outs)
{
    int32_t packed = args[kind == LSTM ? 1 : 2].tag == TN_TAG_TENSOR;
    uint32_t at = packed ? 2 : 1;
    network n = network_of(kind, args, at);
    sequence in = {.data = arg_tensor(args, 0)};
    int32_t batch_first = !packed && arg_bool(args, 8);
    state last = {NULL, NULL};
    if (check_network(s, &n, in.data, packed ? 2 : 3)) return;
    if (packed) in.sizes = tni_integers_of(s, arg_tensor(args, 1), "batch_sizes");
    if (batch_first) in.data = tn_transpose(s, in.data, 0, 1);
    tn_tensor *out = run_network(s, &n, in, &last);
    give(outs, 0, batch_first ? tn_transpose(s, out, 0, 1) : out);
    give(outs, 1, last.h);
    if (kind == LSTM) give(outs, 2, last.c);
}

void composite_lstm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run(s, LSTM, args, outs);
}

void composite_gru(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run(s, GRU, args, outs);
}

void composite_rnn_tanh(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run(s, RNN_TANH, args, outs);
}

void composite_rnn_relu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run(s, RNN_RELU, args, outs);
}
