/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers and cells: parameters under PyTorch's names, and the calls of the operators. */
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

tn_tensor *nn_recurrent_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_recurrent_cell_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
void nn_recurrent_init(tn_scope *s, tn_module *m);
void nn_recurrent_cell_init(tn_scope *s, tn_module *m);

static int32_t is_lstm(const tn_module *m)
{
    return !strncmp(m->class->name, "LSTM", 4);
}

static int64_t gates_of(const tn_module *m)
{
    return is_lstm(m) ? 4 : strncmp(m->class->name, "GRU", 3) ? 1 : 3;
}

/* RNN with tanh 0, with relu 1; a text that is neither fails the tree. */
static int32_t is_relu(tn_module *m, const char *nonlinearity)
{
    if (strcmp(nonlinearity, "tanh") && strcmp(nonlinearity, "relu"))
        nn_fail(m, TN_E_ARGUMENT, "%s '%s': nonlinearity: got '%.40s', expected 'tanh' or 'relu'",
                m->class->name, m->name, nonlinearity);
    return !strcmp(nonlinearity, "relu");
}

/* The structs of options of RNN, LSTM and GRU have the same fields. */
void nn_recurrent_init(tn_scope *s, tn_module *m)
{
    const tn_lstm_options *o = m->state;
    int64_t h = o->hidden_size, out = o->proj_size ? o->proj_size : h, directions = o->bidirectional ? 2 : 1;
    double bound = h > 0 ? 1 / sqrt((double)h) : 0;
    (void)is_relu(m, o->nonlinearity);
    if (o->num_layers < 1)
        nn_fail(m, TN_E_ARGUMENT, "%s '%s': num_layers: got %lld, expected at least 1", m->class->name,
                m->name, (long long)o->num_layers);
    if (o->proj_size && (!is_lstm(m) || o->proj_size < 0 || o->proj_size >= h))
        nn_fail(m, TN_E_ARGUMENT,
                "%s '%s': proj_size: got %lld, expected 0, or for LSTM less than hidden_size", m->class->name,
                m->name, (long long)o->proj_size);
    for (int64_t layer = 0; layer < o->num_layers && !m->tree->status; layer++)
        for (int64_t d = 0; d < directions; d++) {
            char name[4][48];
            static const char *const parts[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
            int64_t width = layer ? out * directions : o->input_size, gates = gates_of(m) * h;
            for (uint32_t i = 0; i < 4; i++)
                snprintf(name[i], sizeof name[i], "%s_l%lld%s", parts[i], (long long)layer,
                         d ? "_reverse" : "");
            nn_add_uniform(s, m, name[0], TN_INTS(gates, width), bound);
            nn_add_uniform(s, m, name[1], TN_INTS(gates, out), bound);
            if (o->bias) nn_add_uniform(s, m, name[2], TN_INTS(gates), bound);
            if (o->bias) nn_add_uniform(s, m, name[3], TN_INTS(gates), bound);
            snprintf(name[0], sizeof name[0], "weight_hr_l%lld%s", (long long)layer, d ? "_reverse" : "");
            if (o->proj_size) nn_add_uniform(s, m, name[0], TN_INTS(out, h), bound);
        }
}

static int64_t width_of(const tn_lstm_options *o, int64_t state)
{
    return state == 0 && o->proj_size ? o->proj_size : o->hidden_size;
}

/* An LSTM takes both of its states or none, the others one or none. */
static int32_t refuse_states(tn_scope *s, const tn_module *m, tn_tensors in)
{
    if (!is_lstm(m) || !nn_input(in, 1) == !nn_input(in, 2)) return TN_OK;
    return nn_scope_fail(s, TN_E_ARGUMENT, "%s: got one of the states h and c, expected both or none",
                         m->class->name);
}

/* Refuses state i (0 or 1; NULL passes) unless it has these sizes. */
static int32_t refuse_state(tn_scope *s, const tn_module *m, const tn_tensor *state, int64_t i, tn_ints sizes)
{
    char which[8] = "", got[96], want[96];
    if (!state || (tn_tensor_rank(state) == sizes.count &&
                   !memcmp(tn_tensor_sizes(state), sizes.data, (size_t)sizes.count * sizeof *sizes.data)))
        return TN_OK;
    uint64_t n = 0;
    for (int64_t d = 0; d < sizes.count; d++) /* at most 3 of them */
        n += (uint64_t)snprintf(want + n, sizeof want - n, "%s%lld", d ? ", " : "", (long long)sizes.data[d]);
    if (is_lstm(m)) snprintf(which, sizeof which, "[%d]", (int)i);
    return nn_scope_fail(s, TN_E_SHAPE, "%s: Expected hidden%s size (%s), got %s", m->class->name, which,
                         want, nn_sizes(state, got, sizeof got));
}

/* Refuses what a layer does not take: rows of another length, or states of other sizes for this batch; -1: no batch. */
static int32_t refuse_sizes(tn_scope *s, const tn_module *m, tn_tensors in, int64_t batch)
{
    const tn_lstm_options *o = m->state;
    const int64_t layers = o->num_layers * (o->bidirectional ? 2 : 1), width = tn_tensor_size(in.data[0], -1);
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (width != o->input_size)
        return nn_scope_fail(s, TN_E_SHAPE,
                             "%s: input.size(-1) must be equal to input_size. Expected %lld, got %lld",
                             m->class->name, (long long)o->input_size, (long long)width);
    for (int64_t i = 0; i < (is_lstm(m) ? 2 : 1); i++) {
        const tn_ints sizes =
            batch < 0 ? TN_INTS(layers, width_of(o, i)) : TN_INTS(layers, batch, width_of(o, i));
        int32_t status = refuse_state(s, m, nn_input(in, i + 1), i, sizes);
        if (status) return status;
    }
    return TN_OK;
}

/* The state of a call that was given none. */
static tn_tensor *zeros(tn_scope *s, const tn_tensor *x, int64_t layers, int64_t batch, int64_t width)
{
    return tn_zeros(s, TN_INTS(layers, batch, width), .dtype = tn_tensor_dtype(x),
                    .device = tn_tensor_device(x));
}

/* The layer's own tensors, which stand before those of pruning and of the program; out of memory: an empty list. */
static tn_tensors weights_of(tn_scope *s, const tn_module *m)
{
    const tn_lstm_options *o = m->state;
    const int64_t each = 2 + (o->bias ? 2 : 0) + (o->proj_size ? 1 : 0),
                  n = each * o->num_layers * (o->bidirectional ? 2 : 1);
    tn_tensor **weights = tn_scope_memory(s, (uint64_t)n * sizeof *weights);
    for (int64_t i = 0; weights && i < n; i++) weights[i] = m->slots[i].tensor;
    return (tn_tensors){weights, weights ? n : 0};
}

/* Of the thread: the layer that is called with packed sequences. */
typedef struct packed_call {
    const tn_module *module;
    tn_packed_sequence sequence;
} packed_call;
static _Thread_local packed_call packed;

tn_outputs nn_call_packed(tn_scope *s, tn_module *m, tn_packed_sequence sequence, tn_tensors in)
{
    const tn_outputs none = {NULL, {NULL}};
    if (!m || m->class->forward != nn_layer_forward || nn_layer_of(m)->forward != nn_recurrent_forward) {
        tn_scope_fail(s, TN_E_ARGUMENT, "tn_module_call_packed: the module is not an RNN, LSTM or GRU");
        return none;
    }
    const packed_call outer = packed; /* a hook of a layer may run another one */
    packed = (packed_call){m, sequence};
    const tn_outputs y = tn_module_call(s, m, in);
    packed = outer;
    return y;
}

/* The operator of this kind of layer, of those for an LSTM, a GRU and networks with relu and tanh. */
static uint32_t op_of(const tn_module *m, const uint32_t ops[4])
{
    const tn_lstm_options *o = m->state;
    return ops[is_lstm(m) ? 0 : gates_of(m) == 3 ? 1 : !strcmp(o->nonlinearity, "relu") ? 2 : 3];
}

/* The arguments that all of these operators have, from the states on. */
enum { LAYER_ARGS = 7 };
static void add_layer_args(tn_scope *s, tn_module *m, tn_tensor **state, tn_value args[LAYER_ARGS])
{
    const tn_lstm_options *o = m->state;
    const tn_tensors weights = weights_of(s, m);
    args[0] = is_lstm(m) ? tn_value_tensors(state, 2) : tn_value_tensor(state[0]);
    args[1] = tn_value_tensors(weights.data, (uint32_t)weights.count);
    args[2] = tn_value_bool(o->bias);
    args[3] = tn_value_int(o->num_layers);
    args[4] = tn_value_float(o->dropout);
    args[5] = tn_value_bool(m->is_training);
    args[6] = tn_value_bool(o->bidirectional);
}

static tn_tensor *packed_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_lstm_options *o = m->state;
    tn_tensor *x = in.data[0], *sizes = packed.sequence.batch_sizes, *order = packed.sequence.sorted_indices;
    tn_tensor *state[2] = {nn_input(in, 1), nn_input(in, 2)};
    char text[96];
    const int64_t states = is_lstm(m) ? 2 : 1, layers = o->num_layers * (o->bidirectional ? 2 : 1);
    if (tn_tensor_rank(x) != 2)
        return nn_scope_fail(s, TN_E_SHAPE, "%s: packed sequences must have 2 dimensions, got %lld",
                             m->class->name, (long long)tn_tensor_rank(x)),
               NULL;
    if (tn_tensor_rank(sizes) != 1 || !tn_tensor_numel(sizes))
        return nn_scope_fail(s, TN_E_SHAPE, "%s: batch_sizes must be a list that is not empty, got %s",
                             m->class->name, nn_sizes(sizes, text, sizeof text)),
               NULL;
    const int64_t batch = tn_item_int(s, tn_select(s, sizes, 0, 0));
    if (refuse_sizes(s, m, in, batch)) return NULL;
    for (int64_t i = 0; i < states; i++) {
        if (!state[i])
            state[i] = zeros(s, x, layers, batch, width_of(o, i));
        else if (order)
            state[i] = tn_index_select(s, state[i], 1, order);
    }
    static const uint32_t ops[] = {TN_OP_LSTM_DATA, TN_OP_GRU_DATA, TN_OP_RNN_RELU_DATA, TN_OP_RNN_TANH_DATA};
    tn_value out[3] = {tn_value_none(), tn_value_none(), tn_value_none()};
    tn_value args[LAYER_ARGS + 2] = {tn_value_tensor(x), tn_value_tensor(sizes)};
    add_layer_args(s, m, state, args + 2);
    tn_scope_call(s, op_of(m, ops), args, LAYER_ARGS + 2, out, (uint32_t)states + 1);
    for (int64_t i = 0; i < states; i++) more[i] = tn_value_as_tensor(out[i + 1]);
    return tn_value_as_tensor(out[0]);
}

tn_tensor *nn_recurrent_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_lstm_options *o = m->state;
    tn_tensor *x = in.data[0], *state[2] = {nn_input(in, 1), nn_input(in, 2)};
    int64_t rank = tn_tensor_rank(x), states = is_lstm(m) ? 2 : 1,
            layers = o->num_layers * (o->bidirectional ? 2 : 1);
    if (refuse_states(s, m, in)) return NULL;
    if (packed.module == m) return packed_forward(s, m, in, more);
    if (rank != 2 && rank != 3) {
        nn_scope_fail(s, TN_E_SHAPE, "%s: the input must have 2 dimensions (no batch) or 3, got %lld",
                      m->class->name, (long long)rank);
        return NULL;
    }
    int32_t is_single = rank == 2;
    if (refuse_sizes(s, m, in, is_single ? -1 : tn_tensor_size(x, o->batch_first ? 0 : 1))) return NULL;
    if (is_single) x = tn_unsqueeze(s, x, o->batch_first ? 0 : 1);
    if (!tn_tensor_size(x, o->batch_first ? 1 : 0))
        return nn_scope_fail(s, TN_E_SHAPE, "%s: Expected sequence length to be larger than 0 in RNN",
                             m->class->name),
               NULL;
    int64_t batch = tn_tensor_size(x, o->batch_first ? 0 : 1);
    for (int64_t i = 0; i < states; i++) {
        if (!state[i])
            state[i] = zeros(s, x, layers, batch, width_of(o, i));
        else if (is_single)
            state[i] = tn_unsqueeze(s, state[i], 1);
    }
    static const uint32_t ops[] = {TN_OP_LSTM, TN_OP_GRU, TN_OP_RNN_RELU, TN_OP_RNN_TANH};
    tn_value out[3] = {tn_value_none(), tn_value_none(), tn_value_none()};
    tn_value args[LAYER_ARGS + 2] = {tn_value_tensor(x)};
    add_layer_args(s, m, state, args + 1);
    args[LAYER_ARGS + 1] = tn_value_bool(o->batch_first);
    tn_scope_call(s, op_of(m, ops), args, LAYER_ARGS + 2, out, (uint32_t)states + 1);
    tn_tensor *y = tn_value_as_tensor(out[0]);
    for (int64_t i = 0; i < states; i++) {
        more[i] = tn_value_as_tensor(out[i + 1]);
        if (is_single && more[i]) more[i] = tn_squeeze_dim(s, more[i], 1);
    }
    return is_single && y ? tn_squeeze_dim(s, y, o->batch_first ? 0 : 1) : y;
}

/* ---- Cells --------------------------------------------------------------------------------------------- */

void nn_recurrent_cell_init(tn_scope *s, tn_module *m)
{
    const tn_lstm_cell_options *o = m->state;
    int64_t h = o->hidden_size, gates = gates_of(m) * h;
    double bound = h > 0 ? 1 / sqrt((double)h) : 0;
    (void)is_relu(m, o->nonlinearity);
    nn_add_uniform(s, m, "weight_ih", TN_INTS(gates, o->input_size), bound);
    nn_add_uniform(s, m, "weight_hh", TN_INTS(gates, h), bound);
    if (o->bias) nn_add_uniform(s, m, "bias_ih", TN_INTS(gates), bound);
    if (o->bias) nn_add_uniform(s, m, "bias_hh", TN_INTS(gates), bound);
}

/* The same for a cell. */
static int32_t refuse_cell_sizes(tn_scope *s, const tn_module *m, tn_tensors in)
{
    const tn_lstm_cell_options *o = m->state;
    const tn_tensor *x = in.data[0];
    const int64_t rank = tn_tensor_rank(x), width = rank ? tn_tensor_size(x, -1) : 0;
    if (rank != 1 && rank != 2)
        return nn_scope_fail(s, TN_E_SHAPE, "%s: Expected input to be 1D or 2D, got %lldD instead",
                             m->class->name, (long long)rank);
    if (width != o->input_size)
        return nn_scope_fail(s, TN_E_SHAPE, "%s: input has inconsistent input_size: got %lld, expected %lld",
                             m->class->name, (long long)width, (long long)o->input_size);
    for (int64_t i = 0; i < 2; i++) {
        const tn_ints sizes =
            rank == 1 ? TN_INTS(o->hidden_size) : TN_INTS(tn_tensor_size(x, 0), o->hidden_size);
        int32_t status = refuse_state(s, m, nn_input(in, i + 1), i, sizes);
        if (status) return status;
    }
    return TN_OK;
}

tn_tensor *nn_recurrent_cell_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_lstm_cell_options *o = m->state;
    tn_tensor *x = in.data[0], *state[2] = {nn_input(in, 1), nn_input(in, 2)};
    int32_t is_single = tn_tensor_rank(x) == 1;
    if (refuse_states(s, m, in) || refuse_cell_sizes(s, m, in)) return NULL;
    if (is_single) x = tn_unsqueeze(s, x, 0);
    for (uint32_t i = 0; i < 2; i++) {
        if (!state[i])
            state[i] = tn_zeros(s, TN_INTS(tn_tensor_size(x, 0), o->hidden_size), .dtype = tn_tensor_dtype(x),
                                .device = tn_tensor_device(x));
        else if (is_single)
            state[i] = tn_unsqueeze(s, state[i], 0);
    }
    uint32_t op = is_lstm(m)                         ? TN_OP_LSTM_CELL
                  : gates_of(m) == 3                 ? TN_OP_GRU_CELL
                  : !strcmp(o->nonlinearity, "relu") ? TN_OP_RNN_RELU_CELL
                                                     : TN_OP_RNN_TANH_CELL;
    tn_value args[] = {tn_value_tensor(x),
                       is_lstm(m) ? tn_value_tensors(state, 2) : tn_value_tensor(state[0]),
                       tn_value_tensor(tn_module_own(m, 0)),
                       tn_value_tensor(tn_module_own(m, 1)),
                       tn_value_tensor(o->bias ? tn_module_own(m, 2) : NULL),
                       tn_value_tensor(o->bias ? tn_module_own(m, 3) : NULL)};
    tn_value out[2] = {tn_value_none(), tn_value_none()};
    tn_scope_call(s, op, args, 6, out, is_lstm(m) ? 2 : 1);
    tn_tensor *y = tn_value_as_tensor(out[0]), *cell = tn_value_as_tensor(out[1]);
    more[0] = is_single && cell ? tn_squeeze_dim(s, cell, 0) : cell;
    return is_single && y ? tn_squeeze_dim(s, y, 0) : y;
}
