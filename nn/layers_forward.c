/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that are more than one operator. */
#include "layers.h"

#include <math.h>
#include <string.h>

tn_tensor *nn_conv_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_batch_norm_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_instance_norm_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_max_unpool_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_adaptive_pool_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_fractional_max_pool_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_lp_pool_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_softmin_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_softsign_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_tanhshrink_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_local_response_norm_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_embedding_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_embedding_bag_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_upsample_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_upsampling_nearest2d_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_upsampling_bilinear2d_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_gaussian_nll_loss_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_kl_div_loss_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_multilabel_soft_margin_loss_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
void nn_zero_padding_row_init(tn_scope *s, tn_module *m);

/* Calls an operator with one result. */
#define CALL(op, ...) \
    call(s, op, (const tn_value[]){__VA_ARGS__}, sizeof((const tn_value[]){__VA_ARGS__}) / sizeof(tn_value))

static tn_tensor *call(tn_scope *s, uint32_t op, const tn_value *args, uint64_t count)
{
    tn_value out = tn_value_none();
    tn_scope_call(s, op, args, (uint32_t)count, &out, 1);
    return tn_value_as_tensor(out);
}

static tn_value of_list(tn_ints list)
{
    return tn_value_ints(list.data, list.count);
}

/* ---- Convolution --------------------------------------------------------------------------------------- */

/* The three structs of options have the same fields in the same places. */
tn_tensor *nn_conv_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    static const uint32_t ops[] = {TN_OP_CONV1D, TN_OP_CONV2D, TN_OP_CONV3D};
    const tn_conv1d_options *o = m->state;
    uint32_t n = nn_layer_of(m)->rank;
    tn_tensor *x = in.data[0];
    int64_t sides[6], none[3] = {0, 0, 0};
    int32_t is_zeros = !strcmp(o->padding_mode, "zeros"), is_even = 1;
    (void)more;
    for (uint32_t i = 0; i < n; i++) { /* last dimension first */
        int64_t total = o->same ? o->dilation.data[i] * (o->kernel_size.data[i] - 1) : 2 * o->padding.data[i];
        sides[2 * (n - 1 - i)] = total / 2;
        sides[2 * (n - 1 - i) + 1] = total - total / 2;
        is_even &= total % 2 == 0;
        if (o->same && o->stride.data[i] != 1)
            tn_scope_fail(s, TN_E_ARGUMENT, "conv: same needs a stride of 1");
    }
    if (!is_zeros || (o->same && !is_even)) /* "zeros" is "constant" for the operator */
        x = tn_pad(s, x, (tn_ints){sides, 2 * (int64_t)n}, .mode = is_zeros ? "constant" : o->padding_mode);
    tn_ints padding = o->padding;
    if (!is_zeros || (o->same && !is_even)) padding = (tn_ints){none, n};
    int64_t same[3] = {0, 0, 0};
    if (o->same && is_zeros && is_even) {
        for (uint32_t i = 0; i < n; i++) same[i] = sides[2 * (n - 1 - i)];
        padding = (tn_ints){same, n};
    }
    return CALL(ops[n - 1], tn_value_tensor(x), tn_value_tensor(tn_module_own(m, 0)),
                tn_value_tensor(tn_module_own(m, 1)), of_list(o->stride), of_list(padding),
                of_list(o->dilation), tn_value_int(o->groups));
}

/* ---- Norms --------------------------------------------------------------------------------------------- */

static int32_t check_rank(tn_scope *s, const tn_module *m, const tn_tensor *x, int64_t from, int64_t to)
{
    nn_text t = {.scope = s};
    int64_t rank = tn_tensor_rank(x);
    if (rank >= from && rank <= to) return TN_OK;
    if (from == to)
        nn_print(&t, "%s: got an input of %lld dimension%s, expected %lld", tn_module_class_name(m),
                 (long long)rank, rank == 1 ? "" : "s", (long long)from);
    else
        nn_print(&t, "%s: got an input of %lld dimension%s, expected %lld or %lld", tn_module_class_name(m),
                 (long long)rank, rank == 1 ? "" : "s", (long long)from, (long long)to);
    return tn_scope_fail(s, TN_E_SHAPE, t.text);
}

/* Refuses an input of which each mean would be over `count` elements if that is one. */
static int32_t refuse_single(tn_scope *s, const tn_tensor *x, int64_t count, const char *what)
{
    char sizes[96];
    if (count != 1) return TN_OK;
    return nn_scope_fail(s, TN_E_SHAPE, "Expected more than 1 %s when training, got input size %s", what,
                         nn_sizes(x, sizes, sizeof sizes));
}

/* Slots of both norms: weight, bias, running_mean, running_var, num_batches_tracked. */
tn_tensor *nn_batch_norm_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_batch_norm1d_options *o = m->state;
    tn_tensor *mean = tn_module_own(m, 2), *var = tn_module_own(m, 3), *batches = tn_module_own(m, 4);
    uint32_t n = nn_layer_of(m)->rank;
    double momentum = o->momentum;
    (void)more;
    if (check_rank(s, m, in.data[0], n == 1 ? 2 : n + 2, n + 2)) return NULL;
    if (m->is_training && m->communicator) return nn_sync_batch_norm(s, m, in.data[0]);
    const int64_t channels = tn_tensor_size(in.data[0], 1);
    if ((m->is_training || !mean) &&
        refuse_single(s, in.data[0], channels ? tn_tensor_numel(in.data[0]) / channels : 0,
                      "value per channel"))
        return NULL;
    if (m->is_training && batches) {
        tn_scope_options quiet = {.size = sizeof quiet, .grad_mode = TN_GRAD_OFF};
        tn_scope *child = tn_scope_open_child(s, &quiet);
        tn_add_scalar_(child, batches, (int64_t)1);
        if (momentum == (double)TN_NONE || m->is_averaging)
            momentum = 1 / (double)tn_item_int(child, batches);
        tn_scope_close(child);
    }
    return tn_batch_norm(s, in.data[0], tn_module_own(m, 0), tn_module_own(m, 1), mean, var,
                         m->is_training || !mean, momentum, o->eps, 1);
}

tn_tensor *nn_instance_norm_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_batch_norm1d_options *o = m->state; /* the same fields */
    tn_tensor *x = in.data[0], *mean = tn_module_own(m, 2);
    uint32_t n = nn_layer_of(m)->rank;
    int32_t is_single = tn_tensor_rank(x) == n + 1, uses_input = m->is_training || !mean;
    int64_t each = 1; /* elements of a channel */
    (void)more;
    if (check_rank(s, m, x, n + 1, n + 2)) return NULL;
    for (int64_t d = -(int64_t)n; d < 0; d++) each *= tn_tensor_size(x, d);
    if (uses_input && refuse_single(s, x, each, "spatial element")) return NULL;
    if (is_single) x = tn_unsqueeze(s, x, 0);
    x = CALL(
        TN_OP_INSTANCE_NORM, tn_value_tensor(x), tn_value_tensor(tn_module_own(m, 0)),
        tn_value_tensor(tn_module_own(m, 1)), tn_value_tensor(mean), tn_value_tensor(tn_module_own(m, 3)),
        tn_value_bool(uses_input),
        tn_value_float(o->momentum == (double)TN_NONE ? 0 : o->momentum), /* as PyTorch: not a mean of all */
        tn_value_float(o->eps), tn_value_bool(1));
    return is_single ? tn_squeeze_dim(s, x, 0) : x;
}

tn_tensor *nn_local_response_norm_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_local_response_norm_options *o = m->state;
    tn_tensor *x = in.data[0];
    int64_t rank = tn_tensor_rank(x), n = tn_tensor_size(x, 0), channels = tn_tensor_size(x, 1);
    int64_t rest = n * channels > 0 ? tn_tensor_numel(x) / (n * channels) : 0;
    (void)more;
    if (rank < 3) {
        tn_scope_fail(s, TN_E_SHAPE, "LocalResponseNorm: expected an input of 3 or more dimensions");
        return NULL;
    }
    tn_tensor *square = tn_reshape(s, tn_mul(s, x, x), TN_INTS(n, 1, channels, rest));
    square = tn_pad(s, square, TN_INTS(0, 0, o->size / 2, (o->size - 1) / 2));
    tn_tensor *mean = tn_avg_pool2d(s, square, TN_INTS(o->size, 1), .stride = TN_INTS(1));
    mean = tn_reshape(s, mean, (tn_ints){tn_tensor_sizes(x), rank});
    return tn_div(s, x,
                  tn_pow_tensor_scalar(s, tn_add_scalar(s, tn_mul_scalar(s, mean, o->alpha), o->k), o->beta));
}

/* ---- Pooling ------------------------------------------------------------------------------------------- */

tn_tensor *nn_max_unpool_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_max_unpool1d_options *o = m->state;
    uint32_t n = nn_layer_of(m)->rank;
    tn_tensor *x = in.data[0], *places = nn_input(in, 1);
    int64_t sizes[3] = {0, 0, 0};
    (void)more;
    if (!places) {
        tn_scope_fail(s, TN_E_ARGUMENT, "MaxUnpool: the second input has the places that MaxPool returned");
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        sizes[i] = (tn_tensor_size(x, (int64_t)i - n) - 1) * o->stride.data[i] - 2 * o->padding.data[i] +
                   o->kernel_size.data[i];
    if (n == 3)
        return CALL(TN_OP_MAX_UNPOOL3D, tn_value_tensor(x), tn_value_tensor(places), tn_value_ints(sizes, 3),
                    of_list(o->stride), of_list(o->padding));
    if (n == 2)
        return CALL(TN_OP_MAX_UNPOOL2D, tn_value_tensor(x), tn_value_tensor(places), tn_value_ints(sizes, 2));
    x = tn_unsqueeze(s, x, -1); /* one dimension is a plane of width 1 */
    sizes[1] = 1;
    x = CALL(TN_OP_MAX_UNPOOL2D, tn_value_tensor(x), tn_value_tensor(tn_unsqueeze(s, places, -1)),
             tn_value_ints(sizes, 2));
    return tn_squeeze_dim(s, x, -1);
}

/* Of means and of maxima, whose structs of options have the same field. */
tn_tensor *nn_adaptive_pool_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    static const uint32_t ops[2][3] = {
        {TN_OP_ADAPTIVE_AVG_POOL1D, TN_OP_ADAPTIVE_AVG_POOL2D, TN_OP_ADAPTIVE_AVG_POOL3D},
        {TN_OP_ADAPTIVE_MAX_POOL1D, TN_OP_ADAPTIVE_MAX_POOL2D, TN_OP_ADAPTIVE_MAX_POOL3D}};
    const tn_adaptive_avg_pool1d_options *o = m->state;
    const uint32_t n = nn_layer_of(m)->rank, is_max = !strncmp(m->class->name, "AdaptiveMax", 11);
    tn_tensor *x = in.data[0];
    int64_t sizes[3] = {0, 0, 0};
    if (check_rank(s, m, x, n + 1, n + 2)) return NULL;
    for (uint32_t d = 0; d < n; d++)
        sizes[d] =
            o->output_size.data[d] == TN_NONE ? tn_tensor_size(x, (int64_t)d - n) : o->output_size.data[d];
    const tn_value args[] = {tn_value_tensor(x), tn_value_ints(sizes, n)};
    tn_value out[2] = {tn_value_none(), tn_value_none()};
    tn_scope_call(s, ops[is_max][n - 1], args, 2, out, is_max ? 2 : 1);
    if (is_max) more[0] = tn_value_as_tensor(out[1]);
    return tn_value_as_tensor(out[0]);
}

tn_tensor *nn_fractional_max_pool_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_fractional_max_pool2d_options *o = m->state;
    uint32_t n = nn_layer_of(m)->rank;
    tn_tensor *x = in.data[0];
    int32_t is_single = tn_tensor_rank(x) == n + 1;
    if (check_rank(s, m, x, n + 1, n + 2)) return NULL;
    int64_t batch = is_single ? 1 : tn_tensor_size(x, 0), channels = tn_tensor_size(x, is_single ? 0 : 1);
    tn_tensor *places =
        tn_rand(s, TN_INTS(batch, channels, n), .dtype = tn_tensor_dtype(x), .device = tn_tensor_device(x));
    int64_t sizes[3] = {0, 0, 0};
    for (uint32_t d = 0; d < n; d++)
        sizes[d] = o->output_size.data
                       ? o->output_size.data[d]
                       : (int64_t)((double)tn_tensor_size(x, (int64_t)d - n) * o->output_ratio);
    tn_value args[] = {tn_value_tensor(x), of_list(o->kernel_size), tn_value_ints(sizes, n),
                       tn_value_tensor(places)};
    tn_value out[2] = {tn_value_none(), tn_value_none()};
    tn_scope_call(s, n == 2 ? TN_OP_FRACTIONAL_MAX_POOL2D : TN_OP_FRACTIONAL_MAX_POOL3D, args, 4, out, 2);
    more[0] = tn_value_as_tensor(out[1]);
    return tn_value_as_tensor(out[0]);
}

/* The mean of |x|^p times the elements of a window, to the power 1 / p; as PyTorch, of x^p with its sign. */
tn_tensor *nn_lp_pool_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    static const uint32_t ops[] = {TN_OP_AVG_POOL1D, TN_OP_AVG_POOL2D, TN_OP_AVG_POOL3D};
    const tn_lp_pool1d_options *o = m->state;
    uint32_t n = nn_layer_of(m)->rank;
    double elements = 1;
    const int64_t none = 0;
    (void)more;
    for (uint32_t i = 0; i < n; i++) elements *= (double)o->kernel_size.data[i];
    tn_tensor *mean = CALL(ops[n - 1], tn_value_tensor(tn_pow_tensor_scalar(s, in.data[0], o->norm_type)),
                           of_list(o->kernel_size), of_list(o->stride), tn_value_ints(&none, 1),
                           tn_value_bool(o->ceil_mode));
    tn_tensor *positive = tn_mul(s, tn_sign(s, mean), tn_relu(s, tn_abs(s, mean)));
    return tn_pow_tensor_scalar(s, tn_mul_scalar(s, positive, elements), 1 / o->norm_type);
}

/* ---- Activations --------------------------------------------------------------------------------------- */

tn_tensor *nn_softmin_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_softmin_options *o = m->state;
    (void)more;
    return tn_softmax(s, tn_neg(s, in.data[0]), o->dim);
}

tn_tensor *nn_softsign_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    (void)m;
    (void)more;
    return tn_div(s, in.data[0], tn_add_scalar(s, tn_abs(s, in.data[0]), (int64_t)1));
}

tn_tensor *nn_tanhshrink_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    (void)m;
    (void)more;
    return tn_sub(s, in.data[0], tn_tanh(s, in.data[0]));
}

/* ---- Embeddings ---------------------------------------------------------------------------------------- */

/* The row of padding_idx is zeros and gets no gradient. */
void nn_zero_padding_row_init(tn_scope *s, tn_module *m)
{
    const tn_embedding_options *o = m->state;
    if (o->padding_idx < -1 || o->padding_idx >= o->num_embeddings) {
        nn_fail(m, TN_E_ARGUMENT, "%s '%s': padding_idx: got %lld, expected -1 (none) to %lld",
                m->class->name, m->name, (long long)o->padding_idx, (long long)o->num_embeddings - 1);
        return;
    }
    if (o->padding_idx >= 0) tn_zero_(s, tn_select(s, tn_module_own(m, 0), 0, o->padding_idx));
}

/* Rows that are used are shortened to max_norm, in place, as PyTorch does it. */
static void shorten_rows(tn_scope *s, tn_tensor *weight, tn_tensor *indices, double max_norm,
                         double norm_type)
{
    tn_scope_options quiet = {.size = sizeof quiet, .grad_mode = TN_GRAD_OFF};
    tn_scope *child = tn_scope_open_child(s, &quiet);
    tn_embedding_renorm_(child, weight, indices, max_norm, norm_type);
    tn_scope_close(child);
}

tn_tensor *nn_embedding_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_embedding_options *o = m->state;
    tn_tensor *weight = tn_module_own(m, 0);
    (void)more;
    if (o->max_norm != 0) shorten_rows(s, weight, in.data[0], o->max_norm, o->norm_type);
    return tn_embedding(s, weight, in.data[0], .padding_idx = o->padding_idx,
                        .scale_grad_by_freq = o->scale_grad_by_freq);
}

tn_tensor *nn_embedding_bag_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    static const char *const modes[] = {"sum", "mean", "max"};
    const tn_embedding_bag_options *o = m->state;
    tn_tensor *indices = in.data[0], *offsets = nn_input(in, 1), *weights = nn_input(in, 2);
    int64_t mode = 0;
    int32_t has_last = o->include_last_offset;
    (void)more;
    while (mode < 3 && strcmp(o->mode, modes[mode])) mode++;
    if (mode == 3) tn_scope_fail(s, TN_E_ARGUMENT, "EmbeddingBag: mode must be 'sum', 'mean' or 'max'");
    if (tn_tensor_rank(indices) == 2) { /* bags of equal length */
        if (offsets) tn_scope_fail(s, TN_E_ARGUMENT, "EmbeddingBag: indices of 2 dimensions take no offsets");
        int64_t bags = tn_tensor_size(indices, 0), each = tn_tensor_size(indices, 1);
        offsets = tn_arange_start_step(s, (int64_t)0, bags * each, .step = TN_SCALAR(each ? each : 1),
                                       .dtype = TN_INT64, .device = tn_tensor_device(indices));
        has_last = 0;
        indices = tn_reshape(s, indices, TN_INTS(-1));
        if (weights) weights = tn_reshape(s, weights, TN_INTS(-1));
    } else if (!offsets) {
        tn_scope_fail(s, TN_E_ARGUMENT,
                      "EmbeddingBag: indices of 1 dimension need offsets, the second input");
    }
    if (o->max_norm != 0) shorten_rows(s, tn_module_own(m, 0), indices, o->max_norm, o->norm_type);
    tn_value args[] = {tn_value_tensor(tn_module_own(m, 0)),
                       tn_value_tensor(indices),
                       tn_value_tensor(offsets),
                       tn_value_bool(o->scale_grad_by_freq),
                       tn_value_int(mode),
                       tn_value_bool(0),
                       tn_value_tensor(weights),
                       tn_value_bool(has_last),
                       tn_value_int(o->padding_idx)};
    tn_value out[4] = {tn_value_none(), tn_value_none(), tn_value_none(), tn_value_none()};
    tn_scope_call(s, o->padding_idx >= 0 ? TN_OP_EMBEDDING_BAG_PADDING_IDX : TN_OP_EMBEDDING_BAG, args,
                  o->padding_idx >= 0 ? 9 : 8, out, 4);
    return tn_value_as_tensor(out[0]);
}

/* ---- Upsampling ---------------------------------------------------------------------------------------- */

static tn_tensor *upsample(tn_scope *s, tn_tensor *x, tn_ints size, double factor, const char *mode,
                           int32_t align_corners)
{
    static const struct {
        const char *mode;
        uint32_t dims, op;
        int32_t aligns;
    } rows[] = {{"nearest", 1, TN_OP_UPSAMPLE_NEAREST1D_VEC, 0},
                {"nearest", 2, TN_OP_UPSAMPLE_NEAREST2D_VEC, 0},
                {"nearest", 3, TN_OP_UPSAMPLE_NEAREST3D_VEC, 0},
                {"nearest-exact", 1, TN_OP__UPSAMPLE_NEAREST_EXACT1D_VEC, 0},
                {"nearest-exact", 2, TN_OP__UPSAMPLE_NEAREST_EXACT2D_VEC, 0},
                {"nearest-exact", 3, TN_OP__UPSAMPLE_NEAREST_EXACT3D_VEC, 0},
                {"linear", 1, TN_OP_UPSAMPLE_LINEAR1D_VEC, 1},
                {"bilinear", 2, TN_OP_UPSAMPLE_BILINEAR2D_VEC, 1},
                {"bicubic", 2, TN_OP_UPSAMPLE_BICUBIC2D_VEC, 1},
                {"trilinear", 3, TN_OP_UPSAMPLE_TRILINEAR3D_VEC, 1}};
    int64_t dims = tn_tensor_rank(x) - 2, sizes[3];
    double factors[3] = {factor, factor, factor};
    if ((size.data != NULL) == (factor != 0))
        return tn_scope_fail(s, TN_E_ARGUMENT, "Upsample: give either size or scale_factor"), NULL;
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].mode, mode) || rows[i].dims != dims) continue;
        for (int64_t d = 0; d < dims && size.data; d++) sizes[d] = size.data[size.count == 1 ? 0 : d];
        if (size.data && size.count != 1 && size.count != dims) break;
        tn_value v[4] = {tn_value_tensor(x), size.data ? tn_value_ints(sizes, dims) : tn_value_none()};
        tn_value scale = size.data ? tn_value_none() : tn_value_floats(factors, dims);
        uint32_t n = 2;
        if (rows[i].aligns) v[n++] = tn_value_bool(align_corners);
        v[n++] = scale;
        return call(s, rows[i].op, v, n);
    }
    char text[160];
    snprintf(text, sizeof text,
             "Upsample: mode '%s' and a size of %lld do not go with an input of %lld dimension%s behind its "
             "channels",
             mode, (long long)size.count, (long long)dims, dims == 1 ? "" : "s");
    tn_scope_fail(s, TN_E_ARGUMENT, text);
    return NULL;
}

tn_tensor *nn_upsample_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_upsample_options *o = m->state;
    const int64_t dims = tn_tensor_rank(in.data[0]) - 2;
    int64_t sizes[3];
    (void)more;
    if (!o->recompute_scale_factor || dims < 1 || dims > 3)
        return upsample(s, in.data[0], o->size, o->scale_factor, o->mode, o->align_corners);
    if (o->size.data)
        return tn_scope_fail(s, TN_E_ARGUMENT,
                             "Upsample: recompute_scale_factor needs scale_factor, not size"),
               NULL;
    for (int64_t d = 0; d < dims; d++)
        sizes[d] = (int64_t)floor((double)tn_tensor_size(in.data[0], d + 2) * o->scale_factor);
    return upsample(s, in.data[0], (tn_ints){sizes, dims}, 0, o->mode, o->align_corners);
}

tn_tensor *nn_upsampling_nearest2d_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_upsampling_nearest2d_options *o = m->state;
    (void)more;
    return upsample(s, in.data[0], o->size, o->scale_factor, "nearest", 0);
}

tn_tensor *nn_upsampling_bilinear2d_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_upsampling_bilinear2d_options *o = m->state;
    (void)more;
    return upsample(s, in.data[0], o->size, o->scale_factor, "bilinear", 1);
}

/* ---- Losses -------------------------------------------------------------------------------------------- */

static tn_tensor *reduce(tn_scope *s, tn_tensor *loss, const char *reduction)
{
    switch (nn_reduction(s, reduction)) {
    case 0:
        return loss;
    case 1:
        return tn_mean(s, loss);
    default:
        return tn_sum(s, loss);
    }
}

static int32_t needs(tn_scope *s, const tn_module *m, tn_tensors in, int64_t count)
{
    nn_text t = {.scope = s};
    if (in.count >= count) return TN_OK;
    nn_print(&t, "%s: got %lld inputs, expected %lld", tn_module_class_name(m), (long long)in.count,
             (long long)count);
    return tn_scope_fail(s, TN_E_ARGUMENT, t.text);
}

/* A variance has the sizes of the input, but one may be 1, and the last one may be left out. */
static int32_t refuse_variance(tn_scope *s, const tn_module *m, const tn_tensor *x, const tn_tensor *var)
{
    char of_x[96], of_var[96];
    const int64_t rank = tn_tensor_rank(x), is_short = tn_tensor_rank(var) == rank - 1;
    int64_t spread = is_short; /* dimensions of the input along which the variance is the same */
    int32_t fits = is_short || tn_tensor_rank(var) == rank;
    for (int64_t d = 0; d < rank - is_short && fits; d++) {
        if (tn_tensor_size(var, d) == tn_tensor_size(x, d)) continue;
        fits = tn_tensor_size(var, d) == 1;
        spread++;
    }
    if (fits && spread <= 1) return TN_OK;
    return nn_scope_fail(s, TN_E_SHAPE, "%s: var is of incorrect size: got %s for an input of %s",
                         tn_module_class_name(m), nn_sizes(var, of_var, sizeof of_var),
                         nn_sizes(x, of_x, sizeof of_x));
}

/* 0.5 * (log(var) + (x - target)^2 / var), with var at least eps. */
tn_tensor *nn_gaussian_nll_loss_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_gaussian_nll_loss_options *o = m->state;
    const double half_log_2pi = 0.91893853320467274178;
    (void)more;
    if (needs(s, m, in, 3)) return NULL;
    tn_tensor *x = in.data[0], *y = in.data[1], *var = in.data[2];
    if (refuse_variance(s, m, x, var)) return NULL;
    if (tn_tensor_rank(var) == tn_tensor_rank(x) - 1) var = tn_unsqueeze(s, var, -1);
    /* The bound gives no gradient, and takes none away. */
    tn_tensor *floor = tn_sub(s, tn_clamp(s, tn_detach(s, var), .min = TN_SCALAR(o->eps)), tn_detach(s, var));
    var = tn_add(s, var, floor);
    tn_tensor *d = tn_sub(s, x, y);
    tn_tensor *loss = tn_mul_scalar(s, tn_add(s, tn_log(s, var), tn_div(s, tn_mul(s, d, d), var)), 0.5);
    if (o->full) loss = tn_add_scalar(s, loss, half_log_2pi);
    return reduce(s, loss, o->reduction);
}

tn_tensor *nn_kl_div_loss_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_kl_div_loss_options *o = m->state;
    int32_t by_batch = !strcmp(o->reduction, "batchmean");
    (void)more;
    if (needs(s, m, in, 2)) return NULL;
    tn_tensor *loss =
        tn_kl_div(s, in.data[0], in.data[1], .reduction = by_batch ? 2 : nn_reduction(s, o->reduction),
                  .log_target = o->log_target);
    return by_batch ? tn_div_scalar(s, loss, tn_tensor_size(in.data[0], 0)) : loss;
}

tn_tensor *nn_multilabel_soft_margin_loss_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_multilabel_soft_margin_loss_options *o = m->state;
    tn_tensor *weight = tn_module_tensor(m, "weight");
    (void)more;
    if (needs(s, m, in, 2)) return NULL;
    tn_tensor *x = in.data[0], *y = in.data[1];
    tn_tensor *loss = tn_add(s, tn_mul(s, y, tn_log_sigmoid(s, x)),
                             tn_mul(s, tn_rsub_scalar(s, y, (int64_t)1), tn_log_sigmoid(s, tn_neg(s, x))));
    if (weight) loss = tn_mul(s, loss, weight);
    return reduce(s, tn_mean_dim(s, tn_neg(s, loss), TN_INTS(-1)), o->reduction);
}
