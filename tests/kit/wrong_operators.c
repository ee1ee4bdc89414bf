/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library of operators, each wrong in one way: what `tenon check --op` must find, and in which part. All
 * copy x, times two where that matters, for tensors of float64.
 */
#define TN_PLUGIN
#include <tenon/operator_library.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kernel.h>
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
/* Also float32, which no row takes. */
static int32_t like_wide_input(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tn_desc(call->args[0].as.tensor);
    if (x->dtype != TN_FLOAT32) return like_input(self, call);
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
/* x + bias; backward gives bias a gradient only if it sees bias. */
static int32_t add_bias(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *x = call->args[0].as.tensor, *bias = tn_value_as_tensor(call->args[1]);
    return call->host->set_output(call, 0, bias ? tn_add(s, x, bias) : tn_mul_scalar(s, x, 1));
}
static int32_t add_bias_backward(void *self, const tn_call *call)
{
    tn_tensor *g = call->args[0].as.tensor;
    if (tn_value_as_tensor(call->args[2])) call->host->set_output(call, 1, g);
    return call->host->set_output(call, 0, g);
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

/* In float32, on the device meta, complex. */
static int32_t give_gradient(const tn_call *call, tn_dtype dtype)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *g = tn_mul_scalar(s, call->args[0].as.tensor, 2);
    return call->host->set_output(call, 0, tn_to_dtype_layout(s, g, .dtype = dtype));
}
static int32_t float_gradient(void *self, const tn_call *call)
{
    return give_gradient(call, TN_FLOAT32);
}
static int32_t meta_gradient(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    const tn_device meta = TN_DEVICE(TN_INTERNED_META, 0);
    return call->host->set_output(call, 0, tn_to_dtype_layout(s, call->args[0].as.tensor, .device = meta));
}
static int32_t complex_gradient(void *self, const tn_call *call)
{
    return give_gradient(call, TN_COMPLEX128);
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

/* Writes behind the last element: of an empty output, whose address is NULL, too. */
static int32_t overruns(void *self, const tn_call *call)
{
    int64_t n = count(call);
    double *y = output(call);
    for (int64_t i = 0; i < n; i++) y[i] = input(call)[i];
    memset(y + n, 0, sizeof *y);
    return TN_OK;
}

/* ---- Calls that fail by a fault of the library, for tensors of two dimensions ---- */

static int32_t refuses_late(void *self, const tn_call *call)
{
    return tn_desc(call->args[0].as.tensor)->rank == 2 ? TN_E_UNSUPPORTED : doubled(self, call);
}
static int32_t bad_status(void *self, const tn_call *call)
{
    return tn_desc(call->args[0].as.tensor)->rank == 2 ? -77 : like_input(self, call);
}
static int32_t no_text(void *self, const tn_call *call)
{
    return tn_desc(call->args[0].as.tensor)->rank == 2 ? TN_E_SHAPE : like_input(self, call);
}
static int32_t negative_size(void *self, const tn_call *call)
{
    static const int64_t sizes[] = {3, -1};
    if (tn_desc(call->args[0].as.tensor)->rank != 2) return like_input(self, call);
    return slot_define(call, call->host, 0, TN_FLOAT64, 2, sizes, 0);
}

/* Reads an element of x, which has none on the device 'meta'. */
static int32_t reads_elements(void *self, const tn_call *call)
{
    const tn_tensor *x = call->args[0].as.tensor;
    if (tn_desc(x)->dtype == TN_FLOAT64 && tn_tensor_numel(x) &&
        *(volatile const double *)tn_desc(x)->host < 0)
        return call->host->error(call->host->context, TN_E_ARGUMENT, "x must be positive");
    return like_input(self, call);
}
/* Ends the process behind a call of an operator. */
static int32_t aborts(void *self, const tn_call *call)
{
    tn_mul(call->host->call_scope(call), call->args[0].as.tensor, call->args[0].as.tensor);
    abort();
}

/* ---- Leaks; sanitizers would report them, so their builds have none ---- */

static int32_t leaks_heap(void *self, const tn_call *call)
{
    volatile char *lost = malloc(40);
    if (lost) *lost = 1;
    return doubled(self, call);
}
static int32_t leaks_of_host(void *self, const tn_call *call)
{
    return call->host->alloc(call->host->context, 40) ? doubled(self, call) : TN_E_OUT_OF_MEMORY;
}
static int32_t leaks_in_backward(void *self, const tn_call *call)
{
    volatile char *lost = malloc(40);
    if (lost) *lost = 1;
    return doubled_backward(self, call);
}
/* ---- Layouts ---- */

/* Reads and writes tensors of any strides. */
static int32_t doubled_strided(void *self, const tn_call *call)
{
    tn_strided x = tn_strided_tensor(tn_desc(call->args[0].as.tensor)),
               y = tn_strided_tensor(tn_desc(call->outs[0].as.tensor));
    for (int64_t i = 0; i < count(call); i++)
        tn_strided_put(&y, i, tn_number_real(2 * tn_strided_get(&x, i).f));
    return TN_OK;
}
/* Reads a storage from its begin. */
static int32_t reads_allocation(void *self, const tn_call *call)
{
    const double *x = tn_desc(call->args[0].as.tensor)->allocation;
    for (int64_t i = 0; i < count(call); i++) output(call)[i] = 2 * x[i];
    return TN_OK;
}
/* Doubles in place, and writes zero between the elements of a vector that leaves room there. */
static int32_t writes_between(void *self, const tn_call *call)
{
    tn_strided y = tn_strided_tensor(tn_desc(call->outs[0].as.tensor));
    for (int64_t i = 0; i < count(call); i++) {
        double *at = tn_strided_at(&y, i);
        at[0] *= 2;
        if (y.rank == 1 && y.strides[0] > (int64_t)sizeof *at && i + 1 < count(call)) at[1] = 0;
    }
    return TN_OK;
}

/* ---- In place, with lists, with a given result, with a text, random ---- */

/* Reads self, which the library gives as the output, too. */
static int32_t doubled_in_place(void *self, const tn_call *call)
{
    for (int64_t i = 0; i < count(call); i++) output(call)[i] *= 2;
    return TN_OK;
}

static int32_t like_first_item(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tn_desc(call->args[0].as.tensors[0]);
    if (x->dtype != TN_FLOAT64)
        return call->host->error(call->host->context, TN_E_DTYPE, "xs must be float64");
    return slot_define(call, call->host, 0, x->dtype, x->rank, x->sizes, 0);
}
static int32_t sum_of_list(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *sum = call->args[0].as.tensors[0];
    for (uint32_t i = 1; i < call->args[0].count; i++) sum = tn_add(s, sum, call->args[0].as.tensors[i]);
    return call->host->set_output(call, 0, tn_mul_scalar(s, sum, 1));
}
/* The gradients of a list are a list, in memory of the scope. `self` is not NULL: the last one is wrong. */
static int32_t gradients_of_list(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *g = tn_value_as_tensor(call->args[0]);
    uint32_t n = call->args[1].count;
    tn_tensor **grads = tn_scope_memory(s, (n + 1u) * sizeof *grads);
    for (uint32_t i = 0; grads && i < n; i++) grads[i] = self && i + 1 == n ? tn_mul_scalar(s, g, 3) : g;
    call->outs[0] = tn_value_tensors(grads, grads ? n : 0);
    return TN_OK;
}

/* The two halves of x, as views. */
static int32_t halves(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *x = call->args[0].as.tensor, **list = tn_scope_memory(s, 2 * sizeof *list);
    if (!tn_tensor_rank(x))
        return call->host->error(call->host->context, TN_E_SHAPE, "x must have a dimension");
    const int64_t n = tn_tensor_size(x, 0) / 2;
    if (!list) return tn_scope_failed(s);
    list[0] = tn_narrow(s, x, 0, 0, n);
    list[1] = tn_narrow(s, x, 0, n, tn_tensor_size(x, 0) - n);
    call->outs[0] = tn_value_tensors(list, 2);
    return tn_scope_failed(s);
}
/* x and 2 x, in new tensors. */
static int32_t multiples(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *x = call->args[0].as.tensor, **list = tn_scope_memory(s, 2 * sizeof *list);
    if (!list) return tn_scope_failed(s);
    list[0] = tn_mul_scalar(s, x, 1);
    list[1] = tn_mul_scalar(s, x, 2);
    call->outs[0] = tn_value_tensors(list, 2);
    return tn_scope_failed(s);
}
static int32_t rank(void *self, const tn_call *call)
{
    call->outs[0] = tn_value_int(tn_tensor_rank(call->args[0].as.tensor));
    return TN_OK;
}
/* The gradient of x * x; the operator is tagged as differentiable once. */
static int32_t square(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *x = call->args[0].as.tensor;
    return call->host->set_output(call, 0, tn_mul(s, x, x));
}
static int32_t square_backward(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *g = tn_mul(s, call->args[0].as.tensor, call->args[1].as.tensor);
    return call->host->set_output(call, 0, tn_mul_scalar(s, g, self ? 3 : 2)); /* not NULL: wrong */
}
/* The elements above 1: how many there are depends on the data. */
static int32_t at_most_all(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tn_desc(call->args[0].as.tensor);
    const int64_t n = tn_tensor_numel(call->args[0].as.tensor);
    if (x->dtype != TN_FLOAT64)
        return call->host->error(call->host->context, TN_E_DTYPE, "x must be float64");
    return slot_define(call, call->host, 0, x->dtype, 1, &n, 0);
}
static int32_t above_one(void *self, const tn_call *call)
{
    const int64_t n = tn_tensor_numel(call->args[0].as.tensor);
    int64_t found = 0, k = 0;
    for (int64_t i = 0; i < n; i++) found += input(call)[i] > 1;
    int32_t status = call->host->resize_output(call, 0, 1, &found);
    for (int64_t i = 0; i < n && !status; i++)
        if (input(call)[i] > 1) output(call)[k++] = input(call)[i];
    return status;
}

/* Accepts the mode "tanh" alone. */
static int32_t of_mode(void *self, const tn_call *call)
{
    const tn_value *mode = &call->args[1];
    if (mode->tag != TN_TAG_STRING || strcmp(mode->as.string, "tanh") != 0)
        return call->host->error(call->host->context, TN_E_ARGUMENT, "mode must be 'tanh'");
    return like_input(self, call);
}

/* Tensors of several shapes, of three dtypes: weight is as long as the last dimension of x, and gate like x. */
static int32_t like_rows(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tn_desc(call->args[0].as.tensor), *weight = tn_desc(call->args[1].as.tensor),
                         *gate = tn_desc(call->args[2].as.tensor);
    if (x->dtype != TN_FLOAT64 && x->dtype != TN_FLOAT32 && x->dtype != TN_BFLOAT16)
        return call->host->error(call->host->context, TN_E_DTYPE, "x must be wide, or bfloat16");
    if (!x->rank || weight->rank != 1 || weight->sizes[0] != x->sizes[x->rank - 1] || gate->rank != x->rank)
        return call->host->error(call->host->context, TN_E_SHAPE, "weight must be a vector, and gate like x");
    return slot_define(call, call->host, 0, x->dtype, x->rank, x->sizes, 0);
}
static int32_t scaled_rows(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *y = tn_mul(s, call->args[0].as.tensor, call->args[1].as.tensor);
    return call->host->set_output(call, 0, tn_mul(s, y, call->args[2].as.tensor));
}

static int32_t noise(void *self, const tn_call *call)
{
    tn_random_numbers r = {.size = sizeof r};
    int32_t status = call->host->random_reserve(call, NULL, 1, &r);
    for (int64_t i = 0; i < count(call) && !status; i++)
        output(call)[i] = input(call)[i] + (double)(r.offset % 1000) + (double)(r.seed % 1000);
    return status;
}

static int32_t calls_itself(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    uint32_t op = call->host->find_operator(call->host->context, "wrong::calls_itself");
    tn_value out = tn_value_none();
    call->host->scope_call(s, op, call->args, 1, &out, 1);
    return call->host->set_output(call, 0, tn_value_as_tensor(out));
}

/* ---- Traced and eager ---- */

/* The kernel doubles, the composite triples. */
static int32_t tripled_composite(void *self, const tn_call *call)
{
    return give_multiple(call, 3);
}

#define OPERATOR(name, tail) "wrong::" name "(Tensor x" tail ") -> Tensor"

#define TEXT           "wrong::text(Tensor x, str mode=\"none\", int[] l=[], float e=1e-5) -> Tensor"
#define IN_PLACE(name) "wrong::" name "(Tensor(a!) x) -> Tensor(a!)"
#define GIVEN(name)    "wrong::" name "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"

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
    DEFINED("float_gradient", "", .infer = like_input, .composite = doubled_composite,
            .backward = float_gradient),
    DEFINED("meta_gradient", "", .infer = like_input, .composite = doubled_composite,
            .backward = meta_gradient),
    DEFINED("complex_gradient", "", .infer = like_input, .composite = doubled_composite,
            .backward = complex_gradient),
    DEFINED("longer", "", .infer = like_input, .composite = longer),
    DEFINED("leaves_one", "", .composite = NULL),
    DEFINED("two_ways", "", .infer = like_input, .composite = tripled_composite),
    DEFINED("any", "", .infer = like_input),
    DEFINED("ignores_strides", "", .infer = like_input),
    DEFINED("reads_allocation", "", .infer = like_input),
    {.size = sizeof(tn_operator_def), .schema = IN_PLACE("any_"), .infer = like_input},
    {.size = sizeof(tn_operator_def), .schema = IN_PLACE("ignores_strides_"), .infer = like_input},
    {.size = sizeof(tn_operator_def), .schema = GIVEN("any.out"), .infer = like_input},
    {.size = sizeof(tn_operator_def), .schema = IN_PLACE("writes_between_"), .infer = like_input},
    DEFINED("refuses_late", "", .infer = like_input),
    DEFINED("bad_status", "", .infer = bad_status, .composite = doubled_composite),
    DEFINED("no_text", "", .infer = no_text, .composite = doubled_composite),
    DEFINED("negative_size", "", .infer = negative_size, .composite = doubled_composite),
    DEFINED("reads_elements", "", .infer = reads_elements, .composite = doubled_composite),
    DEFINED("aborts", "", .composite = aborts),
#ifdef TWICE
    DEFINED("aborts", "", .composite = aborts),
#endif
    DEFINED("leaks_heap", "", .infer = like_input),
    DEFINED("leaks_of_host", "", .infer = like_input),
    DEFINED("leaks_in_backward", "", .infer = like_input, .composite = doubled_composite,
            .backward = leaks_in_backward),
    DEFINED("partly", "", .infer = like_wide_input, .composite = doubled_composite),
    DEFINED("unsaved_bias", ", Tensor? bias=None", .composite = add_bias, .backward = add_bias_backward,
            .saves = "x"),
    DEFINED("saved_bias", ", Tensor? bias=None", .composite = add_bias, .backward = add_bias_backward,
            .saves = "x, bias"),
    DEFINED("needs_number", ", int k", .composite = doubled_composite),
    DEFINED("overruns", "", .infer = like_input),
    DEFINED("calls_itself", "", .composite = calls_itself),
    DEFINED("noise", "", .infer = like_input),
    {.size = sizeof(tn_operator_def),
     .schema = "wrong::halves(Tensor(a) x) -> Tensor(a)[]",
     .composite = halves},
    {.size = sizeof(tn_operator_def),
     .schema = "wrong::aliased_list(Tensor x) -> Tensor[]",
     .composite = halves},
    {.size = sizeof(tn_operator_def),
     .schema = "wrong::multiples(Tensor x) -> Tensor[]",
     .composite = multiples},
    {.size = sizeof(tn_operator_def), .schema = "wrong::rank(Tensor x) -> int", .composite = rank},
    DEFINED("once", "", .infer = like_input, .composite = square, .backward = square_backward, .saves = "x",
            .tags = TN_TAG_BIT_DIFFERENTIABLE_ONCE),
    DEFINED("wrong_once", "", .infer = like_input, .composite = square, .backward = square_backward,
            .saves = "x", .tags = TN_TAG_BIT_DIFFERENTIABLE_ONCE, .self = (void *)(uintptr_t)doubles),
    DEFINED("above_one", "", .infer = at_most_all, .tags = TN_TAG_BIT_DATA_DEPENDENT),
    {.size = sizeof(tn_operator_def),
     .schema = "wrong::rows(Tensor x, Tensor weight, Tensor gate) -> Tensor",
     .infer = like_rows,
     .composite = scaled_rows},
    {.size = sizeof(tn_operator_def), .schema = TEXT, .infer = of_mode, .composite = doubled_composite},
    {.size = sizeof(tn_operator_def),
     .schema = IN_PLACE("right_"),
     .infer = like_input,
     .backward = doubled_backward},
    {.size = sizeof(tn_operator_def),
     .schema = IN_PLACE("wrong_"),
     .infer = like_input,
     .backward = wrong_gradient},
    {.size = sizeof(tn_operator_def), .schema = GIVEN("right.out"), .infer = like_input},
    {.size = sizeof(tn_operator_def),
     .schema = "wrong::right_list(Tensor[] xs) -> Tensor",
     .infer = like_first_item,
     .composite = sum_of_list,
     .backward = gradients_of_list},
    {.size = sizeof(tn_operator_def),
     .schema = "wrong::wrong_list(Tensor[] xs) -> Tensor",
     .infer = like_first_item,
     .composite = sum_of_list,
     .backward = gradients_of_list,
     .self = (void *)(uintptr_t)doubles},
};

#define STRIDES_ROW(text, function, which)                                                                 \
    {                                                                                                      \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_##which, .schema = (text), .dtypes = doubles, \
        .run = function                                                                                    \
    }
#define SCHEMA_ROW(text, function)   STRIDES_ROW(text, function, CONTIGUOUS)
#define ROW(operator_name, function) SCHEMA_ROW(OPERATOR(operator_name, ""), function)

static const tn_kernel_row rows[] = {
    ROW("right", doubled),
    ROW("mutates", mutates),
    ROW("leaves_one", leaves_one),
    ROW("two_ways", doubled),
    ROW("overruns", overruns),
    ROW("noise", noise),
    ROW("above_one", above_one),
    ROW("reads_allocation", reads_allocation),
    ROW("partly", doubled),
    ROW("leaks_heap", leaks_heap),
    ROW("leaks_of_host", leaks_of_host),
    ROW("refuses_late", refuses_late),
    STRIDES_ROW(OPERATOR("any", ""), doubled_strided, ANY),
    STRIDES_ROW(IN_PLACE("any_"), doubled_strided, ANY),
    STRIDES_ROW(GIVEN("any.out"), doubled_strided, ANY),
    STRIDES_ROW(OPERATOR("ignores_strides", ""), doubled, ANY),
    STRIDES_ROW(IN_PLACE("ignores_strides_"), doubled_in_place, ANY),
    STRIDES_ROW(IN_PLACE("writes_between_"), writes_between, ANY),
    SCHEMA_ROW(IN_PLACE("right_"), doubled_in_place),
    SCHEMA_ROW(IN_PLACE("wrong_"), doubled_in_place),
    SCHEMA_ROW(GIVEN("right.out"), doubled),
#ifdef MISSPELT
    ROW("rihgt", doubled),
#endif
#ifdef OTHER_NAMESPACE
    SCHEMA_ROW("aten::tril(Tensor self, SymInt diagonal=0) -> Tensor", doubled),
    SCHEMA_ROW("wrongs::right(Tensor x) -> Tensor", doubled),
    SCHEMA_ROW("elsewhere::right(Tensor x) -> Tensor", doubled),
    {.size = sizeof(tn_kernel_row),
     .flags = 1u << 30,
     .schema = OPERATOR("longer", ""),
     .run = doubled}, /* of a flag of no version */
#endif
};

static int32_t init(const tn_host *host, void **out_self)
{
    *out_self = NULL;
#ifdef MISSPELT
    int32_t status =
        host->register_kernels(host->context, "cpuu", NULL, rows, 1, (uint32_t)sizeof(tn_kernel_row));
    if (status) return status;
#endif
#ifdef __SANITIZE_ADDRESS__ /* leaks nothing */
#elif defined MISSPELT
    *out_self = malloc(100); /* never freed: the library has no shutdown of its own */
#elif defined OTHER_NAMESPACE
    *out_self = host->alloc(host->context, 100);
#endif
    return tn_operators_register(host, operators, sizeof operators / sizeof *operators, "cpu", rows,
                                 sizeof rows / sizeof *rows);
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    return tn_operators_entry(offer, out, init);
}

TN_DEFINE_PLUGIN("wrong_operators", "1.0", "tenon tests", 0, entry);
