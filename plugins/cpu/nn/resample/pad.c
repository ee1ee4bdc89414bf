/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Padding. Reflection and replication are resampling with one tap. Constant padding fills the result and
 * copies the input into its part.
 */
#include "copy/copy.h"
#include "nn/contiguous.h"
#include "resample.h"

enum { REFLECTION, REPLICATION };

static int64_t count_one(const tn_call *call, const cpu_resample_form *form, const cpu_resample *r, int i)
{
    return 1;
}

/* Padding lists two sizes for each dimension, from the last dimension on. */
static void pad_taps(const tn_call *call, const cpu_resample_form *form, const cpu_resample *r, int i,
                     cpu_taps *out)
{
    int64_t before = call->args[form->scales].as.ints[2 * (2 - i)], size = r->in[i];
    for (int64_t o = 0; o < r->out[i]; o++) {
        int64_t at = o - before;
        if (form->kind == REFLECTION) {
            if (at < 0) at = -at;
            if (at >= size) at = 2 * (size - 1) - at;
        }
        out->at[o] = max_i64(0, min_i64(at, size - 1));
    }
}

/* (self, pad, value) */
static int32_t run_constant(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = tensor_arg(call, 0), *out = tensor_out(call, 0);
    const int64_t *pads = call->args[1].as.ints;
    uint32_t padded = call->args[1].count / 2;
    int64_t sizes[TN_MAX_RANK], from_at = 0, to_at = 0, bytes = tn_dtype_bytes(out->dtype);
    tn_tensor_desc from = *in, to = *out;
    bool empty = false, covered = true; /* by the input alone: all padding is negative */
    for (uint32_t i = 0; i < 2 * padded; i++)
        if (pads[i] > 0) covered = false;
    if (!covered) {
        int32_t status = cpu_fill(call, out, call->args[2]);
        if (status != TN_OK) return status;
    }
    for (uint32_t i = 0; i < in->rank; i++) {
        uint32_t back = in->rank - 1 - i;
        int64_t before = back < padded ? pads[2 * back] : 0, after = back < padded ? pads[2 * back + 1] : 0;
        from_at += max_i64(0, -before) * in->strides[i];
        to_at += max_i64(0, before) * out->strides[i];
        sizes[i] = in->sizes[i] + min_i64(0, before) + min_i64(0, after);
        if (sizes[i] <= 0) empty = true;
    }
    if (empty) return TN_OK;
    from.sizes = to.sizes = sizes;
    from.host = (char *)in->host + from_at * bytes;
    to.host = (char *)out->host + to_at * bytes;
    cpu_copy(call, &from, &to);
    return TN_OK;
}

#define FORM(dims, backwards, what, argument) \
    (&(const cpu_resample_form){(dims), (backwards), pad_taps, count_one, (what), -1, (argument)})
#define ROW(text, form) CPU_ROW("aten::" text, cpu_all_dtypes, cpu_resample_run, .data = (form))
#define PAD_ROWS(name, dims, numbers, what)                                                                  \
    ROW(name #dims "d(Tensor self, SymInt[" numbers "] padding) -> Tensor", FORM(dims, false, what, 1)),     \
        ROW(name #dims "d_backward(Tensor grad_output, Tensor self, SymInt[" numbers "] padding) -> Tensor", \
            FORM(dims, true, what, 2))

const tn_kernel_row cpu_pad_rows[] = {
    PAD_ROWS("reflection_pad", 1, "2", REFLECTION),
    PAD_ROWS("reflection_pad", 2, "4", REFLECTION),
    PAD_ROWS("reflection_pad", 3, "6", REFLECTION),
    PAD_ROWS("replication_pad", 1, "2", REPLICATION),
    PAD_ROWS("replication_pad", 2, "4", REPLICATION),
    PAD_ROWS("replication_pad", 3, "6", REPLICATION),
    CPU_ROW("aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", cpu_all_dtypes,
            run_constant),
};
const uint32_t cpu_pad_row_count = CPU_ROW_COUNT(cpu_pad_rows);
