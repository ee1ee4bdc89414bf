/* SPDX-License-Identifier: Apache-2.0 */
/* fill, copy, iota, random numbers, and the parts of floats. */
#include "gpu.h"

/* 1 if the elements of operand k are contiguous in the nest's order. */
static int32_t is_contiguous(const gpu_nest *nest, uint32_t k, uint32_t bytes)
{
    int64_t stride = bytes;
    for (uint32_t d = 0; d < nest->rank; d++) {
        if (nest->sizes[d] != 1 && nest->strides[k][d] != stride) return 0;
        stride *= nest->sizes[d];
    }
    return 1;
}

/* prim::fill(Tensor(a!) self, Scalar value) */
static int32_t fill(void *self, const tn_call *call)
{
    const tn_tensor_desc *t = gpu_tensor(call->outs[0]);
    gpu_device *d = gpu_device_of(call);
    uint32_t bytes = gpu_bytes(t->dtype);
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, t);
    gpu_element_bits(t->dtype, call->args[1], nest.values);
    gpu_nest_merge(&nest, 0, 1);
    if (!nest.numel) return TN_OK;
    if (is_contiguous(&nest, 0, bytes))
        return gpu_the_driver.fill(d->handle, gpu_stream_of(call)->queue, t->allocation, t->byte_offset,
                                   (uint64_t)nest.numel * bytes, nest.values, bytes);
    nest.opcode = bytes;
    gpu_job job = gpu_job_of(call, GPU_FILE_MEMORY, 0, "fill");
    gpu_give_memory(&job, t->allocation);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.numel, GPU_LIGHT);
}

#define TILE 16 /* rows and columns that an item moves: GPU_TILE of device/memory.cl */

/*
 * Whether rows become columns: then a processor moves tiles, since else every element is in another line
 * of the cache. The nest is merged, dimension 0 that of the output's rows.
 */
static int32_t is_transposed(const tn_call *call, const gpu_nest *nest)
{
    int64_t bytes = (int64_t)gpu_code_bytes(nest->dtypes[0]);
    return gpu_device_of(call)->properties.is_processor && nest->rank >= 2 && nest->sizes[0] >= TILE &&
           nest->sizes[1] >= TILE && nest->strides[0][0] == bytes && nest->strides[1][1] == bytes &&
           nest->strides[1][0] != bytes && gpu_dtype(gpu_tensor(call->outs[0])->dtype) >= 0;
}

static int32_t transpose(const tn_call *call, gpu_nest *nest, void *to, void *from)
{
    uint64_t tiles = (uint64_t)((nest->sizes[0] + TILE - 1) / TILE) * ((nest->sizes[1] + TILE - 1) / TILE);
    uint64_t rest = 1;
    gpu_job job = gpu_job_of(call, GPU_FILE_MEMORY, 0, "transpose");
    for (uint32_t d = 2; d < nest->rank; d++) rest *= nest->sizes[d];
    nest->opcode = gpu_code_bytes(nest->dtypes[0]);
    gpu_give_memory(&job, to);
    gpu_give_memory(&job, from);
    gpu_give(&job, nest, sizeof *nest);
    return gpu_launch(&job, tiles * rest, GPU_HEAVY);
}

/* Rows are moved as integers of the same size. 0 if the call is not one of rows. */
static int32_t move_rows(const tn_call *call, const gpu_nest *nest, void *to, void *from, uint32_t bytes,
                         int32_t *out_status)
{
    gpu_nest integers = *nest;
    if (bytes > 8) return 0;
    integers.dtypes[0] = integers.dtypes[1] = bytes == 1   ? GPU_U8
                                              : bytes == 2 ? GPU_I16
                                              : bytes == 4 ? GPU_I32
                                                           : GPU_I64;
    return gpu_convert_dense(call, &integers, 1, to, from, out_status);
}

#define LEAST_ROWS 4096 /* elements for which a processor walks rows; also those of an item */

static int32_t copy_rows(const tn_call *call, gpu_nest *nest, void *to, void *from)
{
    uint64_t rows = nest->numel / nest->sizes[0], each = LEAST_ROWS / nest->sizes[0] + 1;
    gpu_job job = gpu_job_of(call, GPU_FILE_MEMORY, 0, "copy_rows");
    nest->scalars[0] = each;
    gpu_give_memory(&job, to);
    gpu_give_memory(&job, from);
    gpu_give(&job, nest, sizeof *nest);
    return gpu_launch(&job, (rows + each - 1) / each, GPU_HEAVY);
}

int32_t gpu_contiguous_begin(const tn_call *call, const tn_tensor_desc *t, gpu_contiguous *out)
{
    uint64_t offset;
    *out = (gpu_contiguous){.tensor = t, .memory = t->allocation, .offset = (int64_t)t->byte_offset};
    if (gpu_is_contiguous(t)) return TN_OK;
    int32_t status = gpu_workspace(call, gpu_numel(t) * gpu_bytes(t->dtype), &out->memory, &offset);
    out->offset = (int64_t)offset;
    return status;
}

int32_t gpu_contiguous_end(const tn_call *call, const gpu_contiguous *c)
{
    const tn_tensor_desc *t = c->tensor;
    gpu_nest nest;
    if (gpu_is_contiguous(t)) return TN_OK;
    gpu_nest_of_tensor(&nest, t);
    int64_t stride = gpu_bytes(t->dtype);
    for (uint32_t d = 0; d < nest.rank; d++) {
        nest.strides[1][d] = stride;
        stride *= nest.sizes[d];
    }
    nest.offsets[1] = c->offset;
    nest.opcode = gpu_bytes(t->dtype);
    gpu_job job = gpu_job_of(call, GPU_FILE_MEMORY, 0, "copy");
    gpu_give_memory(&job, t->allocation);
    gpu_give_memory(&job, c->memory);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.numel, GPU_LIGHT);
}

int32_t gpu_move_elements(const tn_call *call, gpu_nest *nest, void *to, void *from, uint32_t bytes)
{
    int32_t status;
    gpu_nest_merge(nest, 0, 2);
    if (move_rows(call, nest, to, from, bytes, &status)) return status;
    if (is_transposed(call, nest)) return transpose(call, nest, to, from);
    nest->opcode = bytes;
    if (gpu_device_of(call)->properties.is_processor && bytes <= 8 && nest->rank && nest->numel >= LEAST_ROWS)
        return copy_rows(call, nest, to, from);
    gpu_job job = gpu_job_of(call, GPU_FILE_MEMORY, 0, "copy");
    gpu_give_memory(&job, to);
    gpu_give_memory(&job, from);
    gpu_give(&job, nest, sizeof *nest);
    return gpu_launch(&job, nest->numel, GPU_LIGHT);
}

/* Operand 1 of the nest becomes operand 0, converted. */
static int32_t convert(const tn_call *call, const gpu_nest *nest, uint8_t type, void *to, void *from)
{
    int32_t status;
    if (gpu_convert_dense(call, nest, type, to, from, &status)) return status;
    gpu_job job = gpu_job_of(call, GPU_FILE_NUMBERS, type, "convert");
    gpu_give_memory(&job, to);
    gpu_give_memory(&job, from);
    gpu_give(&job, nest, sizeof *nest);
    return gpu_launch(&job, nest->numel, GPU_LIGHT);
}

/* Whether sums can be in the result itself. */
static int32_t has_own_sums(const tn_tensor_desc *t)
{
    return (t->dtype == TN_FLOAT32 || t->dtype == TN_FLOAT64) && gpu_is_contiguous(t);
}

int32_t gpu_sums_begin(const tn_call *call, const tn_tensor_desc *t, gpu_contiguous *out)
{
    uint64_t offset;
    *out = (gpu_contiguous){.tensor = t, .memory = t->allocation, .offset = (int64_t)t->byte_offset};
    if (has_own_sums(t)) return TN_OK;
    int32_t status =
        gpu_workspace(call, gpu_numel(t) * (t->dtype == TN_FLOAT64 ? 8 : 4), &out->memory, &offset);
    out->offset = (int64_t)offset;
    return status;
}

/* From operand 1 to operand 0: one of them is the tensor, the other one, `sums`, what it is added up in. */
static int32_t convert_sums(const tn_call *call, const gpu_contiguous *c, uint32_t sums)
{
    const tn_tensor_desc *t = c->tensor;
    int64_t stride = t->dtype == TN_FLOAT64 ? 8 : 4;
    gpu_nest nest;
    if (has_own_sums(t)) return TN_OK;
    gpu_nest_of_tensor(&nest, t);
    gpu_nest_add(&nest, 1 - sums, t);
    nest.dtypes[sums] = t->dtype == TN_FLOAT64 ? GPU_F64 : GPU_F32;
    for (uint32_t d = 0; d < nest.rank; d++) {
        nest.strides[sums][d] = stride;
        stride *= nest.sizes[d];
    }
    nest.offsets[sums] = c->offset;
    gpu_nest_merge(&nest, 0, 2);
    return convert(call, &nest, gpu_type(t->dtype), sums ? t->allocation : c->memory,
                   sums ? c->memory : t->allocation);
}

int32_t gpu_sums_load(const tn_call *call, const gpu_contiguous *c)
{
    return convert_sums(call, c, 0);
}

int32_t gpu_sums_end(const tn_call *call, const gpu_contiguous *c)
{
    return convert_sums(call, c, 1);
}

/* Whether what is read as conjugated or negated is stored as it is read, or the other way round: TN_DESC_CONJ, TN_DESC_NEG. */
static uint32_t lazy_bits(const tn_tensor_desc *to, const tn_tensor_desc *from)
{
    return (to->flags ^ from->flags) & (TN_DESC_CONJ | TN_DESC_NEG);
}

/* Whether an element of one dtype has the bits of the same number of the other: integers wrap. */
static int32_t have_same_bits(tn_dtype a, tn_dtype b)
{
    static const tn_dtype pairs[][2] = {
        {TN_INT16, TN_UINT16}, {TN_INT32, TN_UINT32}, {TN_INT64, TN_UINT64}, {TN_INT8, TN_UINT8}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if ((a == pairs[i][0] && b == pairs[i][1]) || (a == pairs[i][1] && b == pairs[i][0])) return 1;
    return a == b;
}

/* prim::copy(Tensor(a!) self, Tensor src) */
static int32_t copy(void *self, const tn_call *call)
{
    const tn_tensor_desc *to = gpu_tensor(call->outs[0]), *from = gpu_tensor(call->args[1]);
    gpu_device *d = gpu_device_of(call);
    uint32_t bytes = gpu_bytes(to->dtype), lazy = lazy_bits(to, from);
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, to);
    gpu_nest_add(&nest, 1, from);
    gpu_nest_merge(&nest, 0, 2);
    if (!nest.numel) return TN_OK;
    int32_t moves = have_same_bits(to->dtype, from->dtype) && !lazy;
    if (moves && is_contiguous(&nest, 0, bytes) && is_contiguous(&nest, 1, bytes))
        return gpu_the_driver.copy(d->handle, gpu_stream_of(call)->queue, to->allocation, to->byte_offset,
                                   from->allocation, from->byte_offset, (uint64_t)nest.numel * bytes);
    if (lazy || (!moves && (gpu_is_complex(to->dtype) || gpu_is_complex(from->dtype))))
        return gpu_complex_convert(call, &nest, to, from, lazy);
    if (moves) return gpu_move_elements(call, &nest, to->allocation, from->allocation, bytes);
    return convert(call, &nest, gpu_type(from->dtype), to->allocation, from->allocation);
}

static const char *can_copy(void *self, const tn_call *call)
{
    const tn_tensor_desc *to = gpu_tensor(call->args[0]), *from = gpu_tensor(call->args[1]);
    uint32_t lazy = lazy_bits(to, from);
    int32_t has_complex = gpu_is_complex(to->dtype) || gpu_is_complex(from->dtype);
    if (lazy && !has_complex && gpu_type(to->dtype) == 1) return "integers are not negated by a copy";
    if (have_same_bits(to->dtype, from->dtype) && !lazy) return gpu_can_move(self, call);
    if (!lazy && !has_complex) return gpu_can_run(self, call);
    return gpu_can_move(self, call) ? gpu_can_move(self, call) : gpu_can_complex(call);
}

/* prim::iota(Tensor(a!) self, Scalar start, Scalar step) */
static int32_t iota(void *self, const tn_call *call)
{
    const tn_tensor_desc *t = gpu_tensor(call->outs[0]);
    int32_t is_real = call->args[1].tag == TN_TAG_FLOAT || call->args[2].tag == TN_TAG_FLOAT;
    uint8_t type = !is_real ? 1 : gpu_device_of(call)->properties.has_double ? 64 : 32;
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, t);
    for (uint32_t k = 0; k < 2; k++) nest.scalars[k] = gpu_number_bits(type, tn_number_of(call->args[1 + k]));
    if (!nest.numel) return TN_OK;
    gpu_job job = gpu_job_of(call, GPU_FILE_NUMBERS, type, "iota");
    gpu_give_memory(&job, t->allocation);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.numel, GPU_LIGHT);
}

/*
 * prim::random(Tensor(a!) self, int distribution, Scalar a, Scalar b, int seed, int offset, Tensor? state=None). A captured
 * call has a state: {seed, first counter} in device memory, which each launch of the graph changes.
 */
static int32_t draw(void *self, const tn_call *call)
{
    const tn_tensor_desc *t = gpu_tensor(call->outs[0]);
    const tn_tensor_desc *state = gpu_argument_tensor(call, 6);
    int64_t distribution = call->args[1].as.i;
    tn_number a = tn_number_of(call->args[2]), b = tn_number_of(call->args[3]);
    int32_t is_bits = distribution == TN_RANDOM_BITS;
    uint8_t type = is_bits ? 1 : TN_DTYPE_BITS(t->dtype) == 64 ? 64 : 32;
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, t);
    if (!nest.numel) return TN_OK;
    uint64_t range = (uint64_t)b.i;
    int32_t is_wide =
        is_bits ? TN_DTYPE_BITS(t->dtype) == 64 || range == 0 || range > (uint64_t)1 << 32 : type == 64;
    nest.opcode = (uint32_t)distribution;
    nest.values[0] = gpu_number_bits(type, a);
    nest.values[1] = gpu_number_bits(type, b);
    nest.values[2] = (uint64_t)is_wide;
    nest.scalars[0] = (uint64_t)call->args[4].as.i;
    nest.scalars[1] = (uint64_t)call->args[5].as.i;
    nest.values[3] = state != NULL;
    if (state) nest.offsets[1] = (int64_t)state->byte_offset;
    gpu_job job = gpu_job_of(call, GPU_FILE_RANDOM, type, "random_numbers");
    gpu_give_memory(&job, t->allocation);
    gpu_give_memory(&job, state ? state->allocation : NULL);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, (nest.numel + (is_wide ? 1u : 3u)) / (is_wide ? 2u : 4u), GPU_LIGHT);
}

/* The state is uint64, in which the device need not compute. */
static const char *can_draw(void *self, const tn_call *call)
{
    const tn_tensor_desc *t = gpu_tensor(call->args[0]);
    const tn_dtype *dtypes = gpu_device_dtypes(gpu_device_of(call));
    const char *reason = gpu_can_move(self, call);
    while (*dtypes && *dtypes != t->dtype) dtypes++;
    if (!reason && !*dtypes) return "the device does not compute in this dtype";
    int32_t wants_double = TN_DTYPE_BITS(t->dtype) == 64 && call->args[1].as.i != TN_RANDOM_BITS;
    if (!reason && wants_double && !gpu_device_of(call)->properties.has_double)
        return "the device has no float64, in which these numbers are computed";
    return reason;
}

/* frexp.Tensor(Tensor self): mantissa and exponent. */
static int32_t split(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]);
    gpu_job job = gpu_job_of(call, GPU_FILE_NUMBERS, gpu_type(in->dtype), "split_number");
    gpu_nest nest;
    gpu_nest_of_call(&nest, call->nest, 3);
    for (uint32_t k = 0; k < 3; k++) gpu_give_memory(&job, tn_nest_operand(call->nest, k)->allocation);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.numel, GPU_LIGHT);
}

#define ROW(text, list, function, can, ...)                                                       \
    {                                                                                             \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = text, .dtypes = list, \
        .run = function, .can_run = can, __VA_ARGS__                                              \
    }
static const tn_kernel_row rows[] = {
    ROW(TN_SCHEMA_FILL, NULL, fill, gpu_can_move),
    ROW(TN_SCHEMA_COPY, NULL, copy, can_copy, .flags = TN_ROW_LAZY_BITS),
    ROW(TN_SCHEMA_IOTA, gpu_all_dtypes, iota, gpu_can_run),
    ROW(TN_SCHEMA_RANDOM, gpu_all_dtypes, draw, can_draw),
    ROW("aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", gpu_float_dtypes, split,
        gpu_can_run),
};
const gpu_rows gpu_basic_rows = GPU_ROW_LIST(rows);
