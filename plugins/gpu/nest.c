/* SPDX-License-Identifier: Apache-2.0 */
/* Dtypes, numbers and loop nests as device code gets them, and what rows ask before they take a call. */
#include "gpu.h"

/* ---- Dtypes -------------------------------------------------------------------------------------------- */

static const tn_dtype dtypes_by_code[GPU_DTYPES] = {
    [GPU_BOOL] = TN_BOOL,   [GPU_U8] = TN_UINT8,    [GPU_I8] = TN_INT8,     [GPU_I16] = TN_INT16,
    [GPU_I32] = TN_INT32,   [GPU_I64] = TN_INT64,   [GPU_F16] = TN_FLOAT16, [GPU_BF16] = TN_BFLOAT16,
    [GPU_F32] = TN_FLOAT32, [GPU_F64] = TN_FLOAT64, [GPU_U16] = TN_UINT16,  [GPU_U32] = TN_UINT32,
};

#define INTEGERS TN_UINT8, TN_INT8, TN_INT16, TN_INT32, TN_INT64
#define FLOATS   TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64
#define COMPLEX  TN_COMPLEX64, TN_COMPLEX128
const tn_dtype gpu_everything_dtypes[] = {TN_BOOL, INTEGERS, FLOATS, COMPLEX, 0};
const tn_dtype gpu_number_or_complex_dtypes[] = {INTEGERS, FLOATS, COMPLEX, 0};
const tn_dtype gpu_inexact_dtypes[] = {FLOATS, COMPLEX, 0};
const tn_dtype gpu_all_dtypes[] = {TN_BOOL, INTEGERS, FLOATS, 0};
const tn_dtype gpu_number_dtypes[] = {INTEGERS, FLOATS, 0};
const tn_dtype gpu_float_dtypes[] = {FLOATS, 0};
const tn_dtype gpu_integer_dtypes[] = {INTEGERS, 0};
const tn_dtype gpu_integral_dtypes[] = {TN_BOOL, INTEGERS, 0};
static const tn_dtype without_double[] = {TN_BOOL, INTEGERS, TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, 0};

int32_t gpu_dtype(tn_dtype dtype)
{
    for (int32_t code = 0; code < GPU_DTYPES; code++)
        if (dtypes_by_code[code] == dtype) return code;
    return -1;
}

uint32_t gpu_code_bytes(uint32_t code)
{
    return gpu_bytes(dtypes_by_code[code]);
}

uint8_t gpu_type(tn_dtype dtype)
{
    if (dtype == TN_FLOAT64) return 64;
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT16 || dtype == TN_BFLOAT16 ? 32 : 1;
}

const tn_dtype *gpu_device_dtypes(const gpu_device *device)
{
    return device->properties.has_double ? gpu_all_dtypes : without_double;
}

/* ---- Numbers ------------------------------------------------------------------------------------------- */

uint64_t gpu_number_bits(uint8_t type, tn_number n)
{
    uint64_t bits = 0;
    float f = (float)n.f;
    if (type == 1) return (uint64_t)n.i;
    if (type == 64)
        memcpy(&bits, &n.f, sizeof n.f);
    else
        memcpy(&bits, &f, sizeof f);
    return bits;
}

void gpu_element_bits(tn_dtype dtype, tn_value value, uint64_t out[2])
{
    tn_number re = tn_number_of(value), im = tn_number_whole(0);
    out[0] = out[1] = 0;
    if (value.tag == TN_TAG_COMPLEX) {
        re = tn_number_real(value.as.floats[0]);
        im = tn_number_real(value.as.floats[1]);
    }
    switch (dtype) {
    case TN_COMPLEX128:
        tn_number_store(TN_FLOAT64, &out[0], re);
        tn_number_store(TN_FLOAT64, &out[1], im);
        break;
    case TN_COMPLEX64:
        tn_number_store(TN_FLOAT32, out, re);
        tn_number_store(TN_FLOAT32, (char *)out + 4, im);
        break;
    case TN_COMPLEX32:
        tn_number_store(TN_FLOAT16, out, re);
        tn_number_store(TN_FLOAT16, (char *)out + 2, im);
        break;
    default:
        tn_number_store(dtype, out, re);
    }
}

/* ---- Nests --------------------------------------------------------------------------------------------- */

void gpu_nest_of_tensor(gpu_nest *nest, const tn_tensor_desc *t)
{
    int64_t numel = 1;
    memset(nest, 0, sizeof *nest);
    nest->rank = t->rank;
    for (uint32_t d = 0; d < t->rank; d++) {
        nest->sizes[d] = (uint32_t)t->sizes[t->rank - 1 - d];
        numel *= t->sizes[t->rank - 1 - d];
    }
    nest->numel = (uint32_t)numel;
    gpu_nest_add(nest, 0, t);
}

void gpu_nest_add(gpu_nest *nest, uint32_t k, const tn_tensor_desc *t)
{
    int64_t bytes = gpu_bytes(t->dtype);
    for (uint32_t d = 0; d < nest->rank; d++) {
        uint32_t from = t->rank - 1 - d;
        nest->strides[k][d] = d >= t->rank || t->sizes[from] == 1 ? 0 : t->strides[from] * bytes;
    }
    nest->offsets[k] = (int64_t)t->byte_offset;
    int32_t code = gpu_dtype(t->dtype);
    nest->dtypes[k] = code < 0 ? 0 : (uint32_t)code;
}

void gpu_nest_of_call(gpu_nest *nest, const tn_nest *from, uint32_t count)
{
    memset(nest, 0, sizeof *nest);
    nest->numel = (uint32_t)from->numel;
    nest->rank = from->rank;
    for (uint32_t d = 0; d < from->rank; d++) nest->sizes[d] = (uint32_t)from->sizes[d];
    for (uint32_t k = 0; k < count && k < from->n_operands; k++) {
        const tn_operand *o = tn_nest_operand(from, k);
        int32_t code = gpu_dtype(o->dtype);
        for (uint32_t d = 0; d < from->rank; d++) nest->strides[k][d] = o->strides[d];
        nest->offsets[k] = (int64_t)o->byte_offset;
        nest->dtypes[k] = code < 0 ? 0 : (uint32_t)code;
    }
}

void gpu_nest_merge(gpu_nest *nest, uint32_t first, uint32_t count)
{
    uint32_t to = first;
    for (uint32_t d = first; d < nest->rank; d++) {
        if (nest->sizes[d] == 1) continue;
        int32_t joins = to > first;
        for (uint32_t k = 0; k < count && joins; k++)
            joins = nest->strides[k][d] == nest->strides[k][to - 1] * (int64_t)nest->sizes[to - 1];
        if (joins) {
            nest->sizes[to - 1] *= nest->sizes[d];
            continue;
        }
        nest->sizes[to] = nest->sizes[d];
        for (uint32_t k = 0; k < count; k++) nest->strides[k][to] = nest->strides[k][d];
        to++;
    }
    nest->rank = to;
}

uint64_t gpu_numel(const tn_tensor_desc *t)
{
    uint64_t numel = 1;
    for (uint32_t d = 0; d < t->rank; d++) numel *= (uint64_t)t->sizes[d];
    return numel;
}

int32_t gpu_is_contiguous(const tn_tensor_desc *t)
{
    int64_t stride = 1;
    for (uint32_t d = t->rank; d-- > 0;) {
        if (t->sizes[d] != 1 && t->strides[d] != stride) return 0;
        stride *= t->sizes[d];
    }
    return 1;
}

/* ---- What rows ask ------------------------------------------------------------------------------------- */

static const char *fits(const tn_tensor_desc *t)
{
    int64_t numel = 1;
    if (t->rank > GPU_RANK) return "the device takes tensors of at most 12 dimensions";
    for (uint32_t d = 0; d < t->rank; d++) {
        numel *= t->sizes[d];
        if (numel > INT32_MAX) return "the device takes tensors of at most 2^31 - 1 elements";
    }
    return NULL;
}

const char *gpu_can_move(void *self, const tn_call *call)
{
    for (uint32_t i = 0; i < call->n_args + call->n_outs; i++) {
        tn_value v = i < call->n_args ? call->args[i] : call->outs[i - call->n_args];
        const char *reason = v.tag == TN_TAG_TENSOR && v.as.tensor ? fits(gpu_tensor(v)) : NULL;
        if (reason) return reason;
    }
    return NULL;
}

const char *gpu_can_run(void *self, const tn_call *call)
{
    const char *reason = gpu_can_move(self, call);
    if (reason) return reason;
    return tn_call_dtypes_in(call, gpu_device_dtypes(gpu_device_of(call)))
               ? NULL
               : "a tensor has a dtype that the device does not compute in";
}
