/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of parameters, with PyTorch's formulas. */
#include "module.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Closes the child; t, which was written, or NULL. Without a child nothing was. */
static tn_tensor *written(tn_scope *s, tn_tensor *t)
{
    return !s || tn_scope_close(s) ? NULL : t;
}

/* Fails the scope unless the tensor has from `least` to `most` dimensions. */
static int32_t refuse_rank(tn_scope *s, const char *call, const tn_tensor *t, int64_t least, int64_t most)
{
    char expected[48];
    const int64_t rank = tn_tensor_rank(t);
    if (tn_scope_failed(s) || (rank >= least && rank <= most)) return tn_scope_failed(s);
    if (most == TN_MAX_RANK)
        snprintf(expected, sizeof expected, "%lld or more", (long long)least);
    else if (least == most)
        snprintf(expected, sizeof expected, "%lld", (long long)least);
    else
        snprintf(expected, sizeof expected, "%lld to %lld", (long long)least, (long long)most);
    return nn_scope_fail(s, TN_E_SHAPE, "%s: got a tensor of %lld dimension%s, expected %s", call,
                         (long long)rank, rank == 1 ? "" : "s", expected);
}

tn_tensor *tn_init_uniform(tn_scope *scope, tn_tensor *t, double from, double to, tn_generator *generator)
{
    tn_scope *s = nn_without_recording(scope);
    tn_uniform_(s, t, .from = from, .to = to, .generator = generator);
    return written(s, t);
}

tn_tensor *tn_init_normal(tn_scope *scope, tn_tensor *t, double mean, double std, tn_generator *generator)
{
    tn_scope *s = nn_without_recording(scope);
    tn_normal_(s, t, .mean = mean, .std = std, .generator = generator);
    return written(s, t);
}

static double normal_cdf(double x)
{
    return 0.5 * (1 + erf(x / sqrt(2.0)));
}

tn_tensor *tn_init_trunc_normal(tn_scope *scope, tn_tensor *t, double mean, double std, double low,
                                double high, tn_generator *generator)
{
    tn_scope *s = nn_without_recording(scope);
    double from = normal_cdf((low - mean) / std), to = normal_cdf((high - mean) / std);
    tn_uniform_(s, t, .from = 2 * from - 1, .to = 2 * to - 1, .generator = generator);
    tn_erfinv_(s, t);
    tn_add_scalar_(s, tn_mul_scalar_(s, t, std * sqrt(2.0)), mean);
    tn_clamp_(s, t, .min = TN_SCALAR(low), .max = TN_SCALAR(high));
    return written(s, t);
}

tn_tensor *tn_init_constant(tn_scope *scope, tn_tensor *t, double value)
{
    tn_scope *s = nn_without_recording(scope);
    tn_fill_scalar_(s, t, value);
    return written(s, t);
}

tn_tensor *tn_init_eye(tn_scope *scope, tn_tensor *t)
{
    tn_scope *s = nn_without_recording(scope);
    refuse_rank(s, "init_eye", t, 2, 2);
    tn_copy_(s, t,
             tn_eye_m(s, tn_tensor_size(t, 0), tn_tensor_size(t, 1), .dtype = tn_tensor_dtype(t),
                      .device = tn_tensor_device(t)));
    return written(s, t);
}

tn_tensor *tn_init_dirac(tn_scope *scope, tn_tensor *t, int64_t groups)
{
    tn_scope *s = nn_without_recording(scope);
    int64_t rank = tn_tensor_rank(t), each = groups > 0 ? tn_tensor_size(t, 0) / groups : 0;
    refuse_rank(s, "init_dirac", t, 3, 5);
    if (!tn_scope_failed(s) && (groups < 1 || tn_tensor_size(t, 0) % groups))
        nn_scope_fail(s, TN_E_SHAPE,
                      "init_dirac: argument 'groups': got %lld, which does not divide the %lld outputs",
                      (long long)groups, (long long)tn_tensor_size(t, 0));
    tn_fill_scalar_(s, t, 0.0);
    for (int64_t g = 0; g < groups && !tn_scope_failed(s); g++)
        for (int64_t d = 0; d < each && d < tn_tensor_size(t, 1); d++) {
            tn_index_item at[5];
            at[0] = TN_AT(g * each + d);
            at[1] = TN_AT(d);
            for (int64_t k = 2; k < rank; k++) at[k] = TN_AT(tn_tensor_size(t, k) / 2);
            tn_fill_scalar_(s, tn_index_items(s, t, at, rank), 1.0);
        }
    return written(s, t);
}

/* Elements of a weight that one output, or one input, has; 0 and a failed scope for fewer than 2 dimensions. */
static double fan_of(tn_scope *s, const tn_tensor *t, uint32_t fan)
{
    double field = 1;
    if (refuse_rank(s, "init", t, 2, TN_MAX_RANK)) return 0;
    for (int64_t d = 2; d < tn_tensor_rank(t); d++) field *= (double)tn_tensor_sizes(t)[d];
    return field * (double)tn_tensor_sizes(t)[fan == TN_FAN_IN ? 1 : 0];
}

double tn_init_gain(const char *nonlinearity, double slope)
{
    static const char *const ones[] = {"linear",  "conv1d",           "conv2d",           "conv3d",
                                       "sigmoid", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};
    if (!nonlinearity) return 0;
    for (uint32_t i = 0; i < sizeof ones / sizeof *ones; i++)
        if (!strcmp(nonlinearity, ones[i])) return 1;
    if (!strcmp(nonlinearity, "tanh")) return 5.0 / 3;
    if (!strcmp(nonlinearity, "relu")) return sqrt(2.0);
    if (!strcmp(nonlinearity, "leaky_relu")) return sqrt(2.0 / (1 + slope * slope));
    return strcmp(nonlinearity, "selu") ? 0 : 0.75;
}

static double xavier_std(tn_scope *s, const tn_tensor *t, double gain)
{
    return gain * sqrt(2.0 / (fan_of(s, t, TN_FAN_IN) + fan_of(s, t, TN_FAN_OUT)));
}

static double kaiming_std(tn_scope *s, const tn_tensor *t, double a, uint32_t fan, const char *nonlinearity)
{
    double gain = tn_init_gain(nonlinearity, a);
    if (gain == 0)
        nn_scope_fail(
            s, TN_E_ARGUMENT,
            "init_kaiming: argument 'nonlinearity': got '%.60s', expected one of tn_init_gain's names",
            nonlinearity ? nonlinearity : "NULL");
    return gain / sqrt(fan_of(s, t, fan));
}

/* A uniform distribution with the standard deviation std, or a normal one. */
static tn_tensor *draw(tn_scope *s, tn_tensor *t, double std, int32_t is_normal, tn_generator *generator)
{
    double bound = sqrt(3.0) * std;
    if (tn_scope_failed(s)) return NULL;
    return is_normal ? tn_init_normal(s, t, 0, std, generator)
                     : tn_init_uniform(s, t, -bound, bound, generator);
}

tn_tensor *tn_init_xavier_uniform(tn_scope *s, tn_tensor *t, double gain, tn_generator *generator)
{
    return draw(s, t, xavier_std(s, t, gain), 0, generator);
}
tn_tensor *tn_init_xavier_normal(tn_scope *s, tn_tensor *t, double gain, tn_generator *generator)
{
    return draw(s, t, xavier_std(s, t, gain), 1, generator);
}
tn_tensor *tn_init_kaiming_uniform(tn_scope *s, tn_tensor *t, double a, uint32_t fan,
                                   const char *nonlinearity, tn_generator *generator)
{
    return draw(s, t, kaiming_std(s, t, a, fan, nonlinearity), 0, generator);
}
tn_tensor *tn_init_kaiming_normal(tn_scope *s, tn_tensor *t, double a, uint32_t fan, const char *nonlinearity,
                                  tn_generator *generator)
{
    return draw(s, t, kaiming_std(s, t, a, fan, nonlinearity), 1, generator);
}

tn_tensor *tn_init_orthogonal(tn_scope *scope, tn_tensor *t, double gain, tn_generator *generator)
{
    tn_scope *s = nn_without_recording(scope);
    int64_t rows = tn_tensor_size(t, 0), columns = rows ? tn_tensor_numel(t) / rows : 0;
    refuse_rank(s, "init_orthogonal", t, 2, TN_MAX_RANK);
    tn_tensor *flat =
        tn_empty(s, TN_INTS(rows, columns), .dtype = tn_tensor_dtype(t), .device = tn_tensor_device(t));
    tn_normal_(s, flat, .generator = generator);
    if (rows < columns) flat = tn_t(s, flat);
    tn_linalg_qr_result qr = tn_linalg_qr(s, flat);
    tn_tensor *q = tn_mul(s, qr.Q, tn_sign(s, tn_diag(s, qr.R))); /* Mezzadri 2007: uniform over all */
    if (rows < columns) q = tn_t(s, q);
    tn_mul_scalar_(s, tn_copy_(s, t, tn_reshape(s, q, (tn_ints){tn_tensor_sizes(t), tn_tensor_rank(t)})),
                   gain);
    return written(s, t);
}

tn_tensor *tn_init_sparse(tn_scope *scope, tn_tensor *t, double sparsity, double std, tn_generator *generator)
{
    tn_scope *s = nn_without_recording(scope);
    int64_t rows = tn_tensor_size(t, 0), zeros = (int64_t)ceil(sparsity * (double)rows);
    refuse_rank(s, "init_sparse", t, 2, 2);
    if (!(sparsity >= 0 && sparsity <= 1) && !tn_scope_failed(s))
        nn_scope_fail(s, TN_E_ARGUMENT, "init_sparse: argument 'sparsity': got %g, expected 0 to 1",
                      sparsity);
    tn_normal_(s, t, .std = std, .generator = generator);
    for (int64_t c = 0; c < tn_tensor_size(t, 1) && !tn_scope_failed(s); c++) {
        tn_tensor *order = tn_randperm_generator(s, rows, generator, .device = tn_tensor_device(t));
        tn_index_fill_(s, tn_select(s, t, 1, c), 0, tn_narrow(s, order, 0, 0, zeros), 0.0);
    }
    return written(s, t);
}
