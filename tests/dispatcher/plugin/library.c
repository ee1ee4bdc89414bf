/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator library without a device: one operator with a shape rule by default and a kernel for the CPU
 * that adds one to float32 numbers. With CASE_late_failure its init fails after it has registered them. With
 * CASE_stateless it has no state, so its rows have no `self`.
 */
#include <tenon/operator_library.h>

static int32_t add_one(void *self, const tn_call *call)
{
    const tn_tensor *x = tn_value_as_tensor(call->args[0]), *y = tn_value_as_tensor(call->outs[0]);
    const float *from = tn_desc(x)->host;
    float *to = tn_desc(y)->host;
    (void)self;
    for (int64_t i = 0; i < tn_tensor_numel(x); i++) to[i] = from[i] + 1;
    return TN_OK;
}

static const tn_dtype dtypes[] = {TN_FLOAT32, 0};
static const tn_kernel_row rows[] = {{.size = sizeof(tn_kernel_row),
                                      .strides = TN_STRIDES_CONTIGUOUS,
                                      .schema = "testlib::add_one(Tensor x) -> Tensor",
                                      .dtypes = dtypes,
                                      .run = add_one}};
static const tn_operator_def definition = {
    .size = sizeof(tn_operator_def), .schema = "testlib::add_one(Tensor x) -> Tensor", .doc = "Adds one."};

static int32_t init(const tn_host *host, void **out_self)
{
    static int32_t state;
    int32_t status = host->register_operator(host->context, &definition);
    if (status != TN_OK) return status;
#ifdef CASE_stateless
    *out_self = NULL;
    return host->register_kernels(host->context, "cpu", NULL, rows, 1, sizeof(rows[0]));
#endif
    status = host->register_kernels(host->context, "cpu", &state, rows, 1, sizeof(rows[0]));
    if (status != TN_OK) return status;
#ifdef CASE_late_failure
    return host->error(host->context, TN_E_STATE, "second thoughts");
#endif
    *out_self = &state;
    return TN_OK;
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    return tn_operators_entry(offer, out, init);
}

TN_DEFINE_PLUGIN("testlib", "0.3", "Tests", 0, entry);
