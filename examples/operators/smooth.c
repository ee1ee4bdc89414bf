/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator library in one file: mylib::smooth_max(x, y) = log(exp(beta x) + exp(beta y)) / beta, a maximum
 * with a gradient everywhere. It has a schema, a shape rule, a kernel for the CPU, a composite for all other
 * devices, and a gradient. It uses the installed headers and links nothing of Tenon.
 */
#define TN_PLUGIN
#include <tenon/operator_library.h>
#include <tenon/ops.h>

#include <math.h>

static int32_t fail(const tn_call *call, int32_t status, const char *message)
{
    return call->host->error(call->host->context, status, message);
}

/* Arguments of the schema, in its order. */
enum { X, Y, BETA };

/* ---- Shape rule: both of one shape and dtype, and so is the result ---- */

static int32_t is_float(tn_dtype dtype)
{
    return dtype == TN_FLOAT64 || dtype == TN_FLOAT32 || dtype == TN_FLOAT16 || dtype == TN_BFLOAT16;
}

static int32_t infer(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tn_desc(call->args[X].as.tensor), *y = tn_desc(call->args[Y].as.tensor);
    int32_t same = x->rank == y->rank && x->dtype == y->dtype;
    for (uint32_t i = 0; same && i < x->rank; i++) same = x->sizes[i] == y->sizes[i];
    if (!same) return fail(call, TN_E_SHAPE, "smooth_max: x and y must have the same shape and dtype");
    /* The composite would return the default dtype for integers, against the shape rule. */
    if (!is_float(x->dtype)) return fail(call, TN_E_DTYPE, "smooth_max: x and y must be floating");
    if (tn_value_as_float(call->args[BETA]) <= 0)
        return fail(call, TN_E_ARGUMENT, "smooth_max: beta must be positive");
    const tn_output out = {.size = sizeof(out), .dtype = x->dtype, .rank = x->rank, .sizes = x->sizes};
    return call->host->define_output(call, 0, &out);
}

/* ---- Kernel for the CPU: row-major tensors of float32 or float64 ---- */

/* max + log1p(exp(-beta |a - b|)) / beta: large arguments do not overflow. */
static double smooth_max_elem(double a, double b, double beta)
{
    return fmax(a, b) + log1p(exp(-beta * fabs(a - b))) / beta;
}

static int32_t forward(void *self, const tn_call *call)
{
    const tn_tensor *x = call->args[X].as.tensor, *y = call->args[Y].as.tensor,
                    *out = call->outs[0].as.tensor;
    double beta = tn_value_as_float(call->args[BETA]);
    int64_t n = tn_tensor_numel(out);
    if (tn_tensor_dtype(x) == TN_FLOAT32) {
        const float *a = tn_desc(x)->host, *b = tn_desc(y)->host;
        float *c = tn_desc(out)->host;
        for (int64_t i = 0; i < n; i++) c[i] = (float)smooth_max_elem((double)a[i], (double)b[i], beta);
    } else {
        const double *a = tn_desc(x)->host, *b = tn_desc(y)->host;
        double *c = tn_desc(out)->host;
        for (int64_t i = 0; i < n; i++) c[i] = smooth_max_elem(a[i], b[i], beta);
    }
    return TN_OK;
}

static const tn_dtype floats[] = {TN_FLOAT32, TN_FLOAT64, 0};

#define SCHEMA "mylib::smooth_max(Tensor x, Tensor y, *, float beta=1.0) -> Tensor"

static const tn_kernel_row rows[] = {
    {.size = sizeof(tn_kernel_row),
     .strides = TN_STRIDES_CONTIGUOUS,
     .schema = SCHEMA,
     .dtypes = floats,
     .run = forward},
};

/* ---- Composite over other operators: any device, any floating dtype ---- */

static int32_t composite(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *x = call->args[X].as.tensor, *y = call->args[Y].as.tensor;
    double beta = tn_value_as_float(call->args[BETA]);
    tn_tensor *sum = tn_logaddexp(s, tn_mul_scalar(s, x, beta), tn_mul_scalar(s, y, beta));
    return call->host->set_output(call, 0, tn_div_scalar(s, sum, beta));
}

/* ---- Gradient: d/dx = g sigmoid(beta (x - y)), d/dy = g - d/dx ---- */

/* The arguments are the gradient of the output, then x, y, beta. */
static int32_t backward(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *g = call->args[0].as.tensor, *x = call->args[1 + X].as.tensor,
              *y = call->args[1 + Y].as.tensor;
    double beta = tn_value_as_float(call->args[1 + BETA]);
    tn_tensor *to_x = tn_mul(s, g, tn_sigmoid(s, tn_mul_scalar(s, tn_sub(s, x, y), beta)));
    call->host->set_output(call, X, to_x);
    return call->host->set_output(call, Y, tn_sub(s, g, to_x));
}

/* ---- The plugin: no device, one operator ---- */

static const tn_operator_def smooth_max = {
    .size = sizeof(tn_operator_def),
    .schema = SCHEMA,
    .saves = "x, y",
    .doc = "Maximum with a gradient everywhere.",
    .infer = infer,
    .composite = composite,
    .backward = backward,
    .autocast = TN_AUTOCAST_FULL,
};

static int32_t init(const tn_host *host, void **out_self)
{
    *out_self = NULL;
    return tn_operators_register(host, &smooth_max, 1, "cpu", rows, 1);
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    return tn_operators_entry(offer, out, init);
}

TN_DEFINE_PLUGIN("smooth", "1.0", "mylib", 0, entry);
