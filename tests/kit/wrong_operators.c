/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library of operators, each wrong in one way: what `tenon check --op` must find, and in which part. All
 * copy x, times two where that matters, for tensors of float64.
 */
#define TN_PLUGIN
#include <tenon/operator_library.h>
#include <tenon/ops.h>
#include "../plugins/slots.h"

static const tn_dtype doubles[] = {TN_FLOAT64, 0};

static const double *input(const tn_call *call)
{
    return tn_desc(call->args[0].as.tensor)->host;
}
static double *output(const tn_call *call)
{
    return tn_desc(call->outs[0].as.tensor)->host;
}
static int64_t count(const tn_call *call)
{
    return tn_tensor_numel(call->outs[0].as.tensor);
}

static int32_t like_input(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tn_desc(call->args[0].as.tensor);
    if (x->dtype != TN_FLOAT64)
        return call->host->error(call->host->context, TN_E_DTYPE, "x must be float64");
    return slot_define(call, call->host, 0, x->dtype, x->rank, x->sizes, 0);
}
static int32_t doubled(void *self, const tn_call *call)
{
    for (int64_t i = 0; i < count(call); i++) output(call)[i] = 2 * input(call)[i];
    return TN_OK;
}
/* The first argument times `factor`. */
static int32_t give_multiple(const tn_call *call, double factor)
{
    tn_scope *s = call->host->call_scope(call);
    return call->host->set_output(call, 0, tn_mul_scalar(s, call->args[0].as.tensor, factor));
}
static int32_t doubled_composite(void *self, const tn_call *call)
{
    return give_multiple(call, 2);
}
static int32_t doubled_backward(void *self, const tn_call *call)
{
    return give_multiple(call, 2);
}

/* ---- Schema ---- */

/* Writes to an argument that the schema does not mark as written. */
static int32_t mutates(void *self, const tn_call *call)
{
    double *x = tn_desc(call->args[0].as.tensor)->host;
    for (int64_t i = 0; i < count(call); i++) output(call)[i] = x[i], x[i] = -1;
    return TN_OK;
}
/* Returns its argument as the result. */
static int32_t aliases(void *self, const tn_call *call)
{
    return call->host->set_output(call, 0, call->args[0].as.tensor);
}

/* ---- Gradient ---- */

/* Reads x, which `saves` does not list. */
static int32_t reads_unsaved(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *g = call->args[0].as.tensor, *x = call->args[1].as.tensor;
    return call->host->set_output(call, 0, tn_mul(s, g, x));
}
/* Gives a gradient for the float argument, too. */
static int32_t gradient_of_number(void *self, const tn_call *call)
{
    tn_tensor *g = call->args[0].as.tensor;
    call->host->set_output(call, 0, g);
    return call->host->set_output(call, 1, g);
}
static int32_t no_gradient(void *self, const tn_call *call)
{
    return TN_OK;
}
static int32_t wrong_gradient(void *self, const tn_call *call)
{
    return give_multiple(call, 3);
}

/* ---- Shape rule ---- */

/* The composite gives twice as many rows as the rule says. */
static int32_t longer(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *x = call->args[0].as.tensor;
    return call->host->set_output(call, 0, tn_cat(s, TN_TENSORS(x, x)));
}
/* Does not write the last element. */
static int32_t leaves_one(void *self, const tn_call *call)
{
    for (int64_t i = 0; i + 1 < count(call); i++) output(call)[i] = input(call)[i];
    return TN_OK;
}

/* ---- Traced and eager ---- */

/* The kernel doubles, the composite triples. */
static int32_t tripled_composite(void *self, const tn_call *call)
{
    return give_multiple(call, 3);
}

#define OPERATOR(name, tail) "wrong::" name "(Tensor x" tail ") -> Tensor"

#define DEFINED(name, tail, ...)                                                     \
    {                                                                                \
        .size = sizeof(tn_operator_def), .schema = OPERATOR(name, tail), __VA_ARGS__ \
    }

static const tn_operator_def operators[] = {
    DEFINED("right", "", .infer = like_input, .composite = doubled_composite, .backward = doubled_backward),
    DEFINED("mutates", "", .composite = NULL),
    DEFINED("aliases", "", .composite = aliases),
    DEFINED("reads_unsaved", "", .composite = doubled_composite, .backward = reads_unsaved),
    DEFINED("gradient_of_number", ", float k=1.0", .composite = doubled_composite,
            .backward = gradient_of_number),
    DEFINED("no_gradient", "", .composite = doubled_composite, .backward = no_gradient),
    DEFINED("wrong_gradient", "", .composite = doubled_composite, .backward = wrong_gradient),
    DEFINED("longer", "", .infer = like_input, .composite = longer),
    DEFINED("leaves_one", "", .composite = NULL),
    DEFINED("two_ways", "", .infer = like_input, .composite = tripled_composite),
    DEFINED("needs_number", ", int k", .composite = doubled_composite),
};

#define ROW(operator_name, function)                                              \
    {                                                                             \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_CONTIGUOUS,          \
        .schema = OPERATOR(operator_name, ""), .dtypes = doubles, .run = function \
    }

static const tn_kernel_row rows[] = {ROW("right", doubled), ROW("mutates", mutates),
                                     ROW("leaves_one", leaves_one), ROW("two_ways", doubled)};

static int32_t init(const tn_host *host, void **out_self)
{
    *out_self = NULL;
    return tn_operators_register(host, operators, sizeof operators / sizeof *operators, "cpu", rows,
                                 sizeof rows / sizeof *rows);
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    return tn_operators_entry(offer, out, init);
}

TN_DEFINE_PLUGIN("wrong_operators", "1.0", "tenon tests", 0, entry);
