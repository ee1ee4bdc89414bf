/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products with weights of 8 or 4 bits. Some rows of the weight at a time become float32, in memory that fits the
 * cache, and are multiplied there; the weight is read from memory once, packed. A few rows are multiplied by 8-bit weights
 * without that.
 */
#include <string.h>
#include "gemm.h"
#include "kernel_lists.h"
#include "nn/contiguous.h"
#include "packed.h"

CPU_KERNEL_TABLE(static cpu_kernel_table packed_table, CPU_PACKED_LISTS, cpu_packed_kernels);

enum { PANEL_FLOATS = 1 << 16 }; /* 256 KiB: half of a second-level cache */
/* Up to so many rows are multiplied by 8-bit weights directly. */
enum { FEW_ROWS = 4 };

typedef struct packed_job {
    const tn_call *call;
    const cpu_packed_kernels *kernels;
    int64_t m, n, k, panel; /* weight rows of a panel */
    int64_t group;          /* elements with one scale; 0: int8 */
    const char *weight;
    int64_t weight_row;  /* bytes */
    const float *scales; /* int8: [n]; int4: [k / group, n, 2] */
    const float *x;      /* [m, k] */
    float *out;          /* [m, n] */
    float *panels;       /* of each thread */
    atomic_int status;
} packed_job;

static void unpack_row(const packed_job *job, int64_t row, float *to)
{
    const char *from = job->weight + row * job->weight_row;
    if (!job->group) {
        job->kernels->unpack_int8((const int8_t *)from, job->k, job->scales[row], to);
        return;
    }
    for (int64_t i = 0; i < job->k; i += job->group) {
        const float *scale = job->scales + (i / job->group * job->n + row) * 2;
        job->kernels->unpack_int4((const uint8_t *)from + i / 2, job->group, scale[0], scale[1], to + i);
    }
}

static bool is_direct(const packed_job *job)
{
    return !job->group && job->m <= FEW_ROWS;
}

static void run_direct(const packed_job *job, int64_t first, int64_t rows)
{
    const int8_t *weight = (const int8_t *)job->weight + first * job->k;
    for (int64_t i = 0; i < job->m; i++)
        job->kernels->dots_int8(weight, rows, job->k, job->scales + first, job->x + i * job->k,
                                job->out + i * job->n + first);
}

static void run_panels(void *user, int64_t begin, int64_t end, int32_t thread)
{
    packed_job *job = user;
    float *panel = job->panels + thread * job->panel * job->k;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * job->panel, rows = min_i64(job->panel, job->n - first);
        if (is_direct(job)) {
            run_direct(job, first, rows);
            continue;
        }
        for (int64_t r = 0; r < rows; r++) unpack_row(job, first + r, panel + r * job->k);
        const cpu_gemm g = {.m = job->m,
                            .n = rows,
                            .k = job->k,
                            .a = job->x,
                            .a_row = job->k,
                            .a_col = 1,
                            .b = panel,
                            .b_row = 1,
                            .b_col = job->k,
                            .c = job->out + first,
                            .c_row = job->n,
                            .alpha = {1, 0}};
        int32_t status = cpu_gemm_serial(job->call, TN_FLOAT32, &g);
        if (status) atomic_store(&job->status, status);
    }
}

/* The elements of t, row by row, as float32: its own memory if it has them. */
static const float *read_floats(const tn_call *call, const tn_tensor_desc *t)
{
    int64_t count = cpu_numel(t);
    void *elements;
    if (cpu_contiguous_read(call, t, &elements)) return NULL;
    if (t->dtype == TN_FLOAT32) return elements;
    float *wide = cpu_scratch(call, (uint64_t)max_i64(count, 1) * sizeof *wide);
    if (wide) cpu_gemm_kernels_of(t->dtype)->widen(wide, elements, count, 1, 1, count);
    return wide;
}

static int32_t run_packed(const tn_call *call, packed_job *job, const tn_tensor_desc *scales)
{
    const tn_tensor_desc *x = tensor_arg(call, 0), *out = tensor_out(call, 0);
    static const double zero[2] = {0, 0};
    bool is_half = out->dtype != TN_FLOAT32;
    void *to;
    job->call = call;
    job->kernels = cpu_kernels_of(packed_table, TN_FLOAT32);
    job->m = out->sizes[0], job->n = out->sizes[1], job->k = x->sizes[1];
    job->panel = max_i64(4, min_i64(64, PANEL_FLOATS / max_i64(job->k, 1)));
    if (job->m * job->n == 0) return TN_OK;
    int32_t status = cpu_contiguous_write(call, out, &to);
    if (status) return status;
    job->x = read_floats(call, x);
    job->scales = read_floats(call, scales);
    job->out = is_half ? cpu_scratch(call, (uint64_t)(job->m * job->n) * sizeof *job->out) : to;
    if (!is_direct(job))
        job->panels = cpu_scratch(call, (uint64_t)(cpu_thread_count(call) * job->panel * max_i64(job->k, 1)) *
                                            sizeof *job->panels);
    if (!job->x || !job->scales || !job->out || !(job->panels || is_direct(job))) return TN_E_OUT_OF_MEMORY;
    cpu_parallel_ranges(call, ceil_div(job->n, job->panel), 1, run_panels, job);
    if (is_half) cpu_gemm_kernels_of(out->dtype)->narrow(to, job->out, job->m * job->n, zero);
    cpu_contiguous_finish(call, out, to);
    return atomic_load(&job->status);
}

/* (self, mat2, scales) */
static int32_t run_int8(void *self, const tn_call *call)
{
    const tn_tensor_desc *weight = tensor_arg(call, 1);
    void *elements;
    int32_t status = cpu_contiguous_read(call, weight, &elements);
    if (status) return status;
    packed_job job = {.weight = elements, .weight_row = weight->sizes[1]};
    return run_packed(call, &job, tensor_arg(call, 2));
}

/* (self, mat2, qGroupSize, qScaleAndZeros) */
static int32_t run_int4(void *self, const tn_call *call)
{
    const tn_tensor_desc *weight = tensor_arg(call, 1);
    void *elements;
    int32_t status = cpu_contiguous_read(call, weight, &elements);
    if (status) return status;
    packed_job job = {.weight = elements, .weight_row = weight->sizes[1], .group = int_arg(call, 2)};
    return run_packed(call, &job, tensor_arg(call, 3));
}

/* (self, innerKTiles) */
static int32_t pack_int4(void *self, const tn_call *call)
{
    const tn_tensor_desc *from = tensor_arg(call, 0), *out = tensor_out(call, 0);
    void *elements, *to;
    int32_t status = cpu_contiguous_read(call, from, &elements);
    if (!status) status = cpu_contiguous_write(call, out, &to);
    if (status) return status;
    int64_t columns = from->sizes[1];
    for (int64_t row = 0; row < from->sizes[0]; row++) {
        const int32_t *in = (const int32_t *)elements + row * columns;
        uint8_t *packed = (uint8_t *)to + row * (columns / 2);
        for (int64_t i = 0; i < columns; i += CPU_PACKED_BLOCK) {
            int64_t half = min_i64(CPU_PACKED_BLOCK, columns - i) / 2;
            for (int64_t j = 0; j < half; j++)
                packed[i / 2 + j] = (uint8_t)((in[i + j] & 15) | (in[i + j + half] & 15) << 4);
        }
    }
    cpu_contiguous_finish(call, out, to);
    return TN_OK;
}

/* The dtypes of the first argument. */
static const tn_dtype float_dtypes[] = {TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, 0},
                      int32_dtypes[] = {TN_INT32, 0};
const tn_kernel_row cpu_packed_rows[] = {
    CPU_ROW("aten::_weight_int8pack_mm(Tensor self, Tensor mat2, Tensor scales) -> Tensor", float_dtypes,
            run_int8),
    CPU_ROW("aten::_weight_int4pack_mm_for_cpu(Tensor self, Tensor mat2, int qGroupSize, Tensor "
            "qScaleAndZeros) -> Tensor",
            float_dtypes, run_int4),
    CPU_ROW("aten::_convert_weight_to_int4pack_for_cpu(Tensor self, int innerKTiles) -> Tensor", int32_dtypes,
            pack_int4),
};
const uint32_t cpu_packed_row_count = CPU_ROW_COUNT(cpu_packed_rows);
