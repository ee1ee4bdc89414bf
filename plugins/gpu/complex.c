/* SPDX-License-Identifier: Apache-2.0 */
/* Complex numbers: pointwise operators, products, and copies that convert (device/complex.cl). */
#include "gpu.h"

#include "device/complex_list.h"

#define HAS_FORMULA(op, formula) [GPU_OP_##op] = 1,
static const uint8_t formulas[GPU_OP_COUNT] = {GPU_COMPLEX_OPS(HAS_FORMULA)};

int32_t gpu_is_complex(tn_dtype dtype)
{
    return dtype == TN_COMPLEX32 || dtype == TN_COMPLEX64 || dtype == TN_COMPLEX128;
}

static const tn_tensor_desc *tensor_of(const tn_call *call, uint32_t i)
{
    return gpu_optional(i < call->n_args ? call->args[i] : call->outs[i - call->n_args]);
}

int32_t gpu_has_complex(const tn_call *call)
{
    for (uint32_t i = 0; i < call->n_args + call->n_outs; i++)
        if (tensor_of(call, i) && gpu_is_complex(tensor_of(call, i)->dtype)) return 1;
    return 0;
}

const char *gpu_can_complex(const tn_call *call)
{
    const gpu_device *d = gpu_device_of(call);
    for (uint32_t i = 0; i < call->n_args + call->n_outs; i++) {
        const tn_tensor_desc *t = tensor_of(call, i);
        if (!t) continue;
        int32_t is_wide = t->dtype == TN_COMPLEX128 || t->dtype == TN_FLOAT64;
        if (is_wide && !d->properties.has_double)
            return "the device has no float64, of which complex128 is made";
        if (t->dtype != TN_COMPLEX64 && t->dtype != TN_COMPLEX128 && gpu_dtype(t->dtype) < 0)
            return "a tensor has a dtype that the device does not compute in";
    }
    return NULL;
}

const char *gpu_can_complex_pointwise(const tn_call *call, uint32_t op)
{
    return formulas[op] ? gpu_can_complex(call) : "the device has no formula for complex numbers";
}

static uint32_t code_of(tn_dtype dtype)
{
    return dtype == TN_COMPLEX64 ? GPU_C64 : dtype == TN_COMPLEX128 ? GPU_C128 : (uint32_t)gpu_dtype(dtype);
}

/* The parts of a number in host memory as two T. */
static void parts_of_element(uint8_t type, tn_dtype dtype, const void *at, uint64_t out[2])
{
    tn_dtype part = dtype == TN_COMPLEX64 ? TN_FLOAT32 : dtype == TN_COMPLEX128 ? TN_FLOAT64 : dtype;
    out[0] = gpu_number_bits(type, tn_number_load(part, at));
    out[1] = gpu_number_bits(type, part == dtype ? tn_number_whole(0)
                                                 : tn_number_load(part, (const char *)at + gpu_bytes(part)));
}

/* A scalar as two T. */
static void parts_of_scalar(uint8_t type, tn_value v, uint64_t out[2])
{
    tn_number re = tn_number_of(v), im = tn_number_whole(0);
    if (v.tag == TN_TAG_COMPLEX) {
        re = tn_number_real(v.as.floats[0]);
        im = tn_number_real(v.as.floats[1]);
    }
    out[0] = gpu_number_bits(type, re);
    out[1] = gpu_number_bits(type, im);
}

/* The first argument that is neither a tensor nor text, as two T. */
static void scalar_of(const tn_call *call, uint8_t type, uint64_t out[2])
{
    for (uint32_t i = 0; i < call->n_args; i++) {
        const tn_value *v = &call->args[i];
        if (v->tag != TN_TAG_TENSOR && v->tag != TN_TAG_STRING) return parts_of_scalar(type, *v, out);
    }
}

int32_t gpu_complex_pointwise(const tn_call *call, uint32_t op)
{
    const tn_nest *from = call->nest;
    void *allocations[GPU_OPERANDS] = {NULL};
    uint32_t n_values = 0;
    uint8_t type = 32;
    gpu_nest nest;
    gpu_nest_of_call(&nest, from, GPU_OPERANDS);
    nest.opcode = op;
    for (uint32_t k = 0; k < from->n_operands; k++) {
        tn_dtype dtype = tn_nest_operand(from, k)->dtype;
        if (dtype == TN_COMPLEX128 || dtype == TN_FLOAT64) type = 64;
    }
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) {
        const tn_operand *o = k < from->n_operands ? tn_nest_operand(from, k) : NULL;
        if (o && !(o->flags & TN_OPERAND_IMMEDIATE)) {
            nest.dtypes[k] = code_of(o->dtype);
            allocations[k] = o->allocation;
            continue;
        }
        nest.immediate |= 1u << k;
        if (o && n_values < 2) parts_of_element(type, o->dtype, o->host, &nest.values[2 * n_values++]);
    }
    scalar_of(call, type, nest.scalars);
    gpu_job job = gpu_job_of(call, GPU_FILE_COMPLEX, type, "complex_pointwise");
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) gpu_give_memory(&job, allocations[k]);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.numel, GPU_LIGHT);
}

int32_t gpu_complex_convert(const tn_call *call, gpu_nest *nest, const tn_tensor_desc *to,
                            const tn_tensor_desc *from, uint32_t lazy)
{
    int32_t is_wide = to->dtype == TN_FLOAT64 || to->dtype == TN_COMPLEX128 || from->dtype == TN_COMPLEX128 ||
                      from->dtype == TN_FLOAT64;
    nest->dtypes[0] = code_of(to->dtype);
    nest->dtypes[1] = code_of(from->dtype);
    nest->opcode = (lazy & TN_DESC_CONJ ? 1u : 0) | (lazy & TN_DESC_NEG ? 2u : 0);
    gpu_job job = gpu_job_of(call, GPU_FILE_COMPLEX, is_wide ? 64 : 32, "complex_convert");
    gpu_give_memory(&job, to->allocation);
    gpu_give_memory(&job, from->allocation);
    gpu_give(&job, nest, sizeof *nest);
    return gpu_launch(&job, nest->numel, GPU_LIGHT);
}

int32_t gpu_complex_product(gpu_product *p, tn_value alpha, tn_value beta)
{
    gpu_nest *n = &p->nest;
    tn_dtype dtype = gpu_tensor(p->call->outs[0])->dtype;
    uint8_t type = dtype == TN_COMPLEX128 ? 64 : 32;
    if (!n->numel) return TN_OK;
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) n->dtypes[k] = code_of(dtype);
    parts_of_scalar(type, alpha, n->values);
    parts_of_scalar(type, beta, n->values + 2);
    if (!p->memory[3]) n->immediate = 8;
    gpu_job job = gpu_job_of(p->call, GPU_FILE_COMPLEX, type, "complex_product");
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) gpu_give_memory(&job, p->memory[k]);
    gpu_give(&job, n, sizeof *n);
    return gpu_launch(&job, n->numel, GPU_LIGHT);
}
