/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices: mm, bmm, addmm, baddbmm, linear, and what convolutions are made of. */
#include "gpu.h"

#define COLUMNS    64 /* of a panel; see device/product.cl */
#define ROWS       6
#define DEPTH      16
#define LEAST_WORK ((uint64_t)1 << 18) /* multiplications that repay packing and a program of its own */

/* ---- Two ways ------------------------------------------------------------------------------------------- */

static uint8_t type_of(const gpu_nest *n)
{
    return n->dtypes[0] == GPU_F64 ? 64 : n->dtypes[0] >= GPU_F16 && n->dtypes[0] <= GPU_F32 ? 32 : 1;
}

void gpu_product_scale(gpu_product *p, double alpha, double beta)
{
    uint8_t type = type_of(&p->nest);
    tn_number a = type == 1 ? tn_number_whole((int64_t)alpha) : tn_number_real(alpha);
    tn_number b = type == 1 ? tn_number_whole((int64_t)beta) : tn_number_real(beta);
    p->nest.values[0] = 1;
    p->nest.values[2] = gpu_number_bits(type, a);
    p->nest.values[3] = gpu_number_bits(type, b);
    if (!p->memory[3]) p->nest.immediate = 8;
}

uint64_t gpu_panel_bytes(const gpu_device *device, uint8_t type, uint64_t columns, uint64_t depth)
{
    if (type != 32) return 0;
    if (device->properties.is_processor) columns = (columns + COLUMNS - 1) / COLUMNS * COLUMNS;
    return columns * depth * 4;
}

/* Whether packed panels are worth it: not for few rows, which use each packed element only so often. */
static int32_t wants_panels(const gpu_product *p, uint8_t type)
{
    const gpu_nest *n = &p->nest;
    return type == 32 && gpu_device_of(p->call)->properties.is_processor && n->sizes[1] >= 4 &&
           n->sizes[0] >= 16 && n->numel * n->scalars[0] * n->values[0] >= LEAST_WORK;
}

static uint64_t batches_of(const gpu_nest *n)
{
    return n->numel / n->sizes[0] / n->sizes[1];
}

/* Queues the kernel that makes the panels, at `first`, in elements. */
static int32_t pack(const gpu_product *p, void *panels, int64_t first)
{
    const gpu_nest *nest = &p->nest;
    uint64_t depth = nest->scalars[0] * nest->values[0];
    uint32_t rows = (uint32_t)depth, columns = nest->sizes[0];
    gpu_job job = gpu_job_of(p->call, GPU_FILE_PRODUCT, 32, p->window ? "pack_windows" : "pack_panels");
    job.program.dtypes[0] = (uint8_t)nest->dtypes[1];
    gpu_give_memory(&job, panels);
    gpu_give_memory(&job, p->memory[2]);
    gpu_give(&job, &first, sizeof first);
    if (p->window) {
        gpu_give(&job, p->window, sizeof *p->window);
        gpu_give(&job, &rows, sizeof rows);
        gpu_give(&job, &columns, sizeof columns);
    } else {
        gpu_give(&job, nest, sizeof *nest);
    }
    return gpu_launch(&job, batches_of(nest) * nest->scalars[3] * ((depth + DEPTH - 1) / DEPTH), GPU_HEAVY);
}

static int32_t multiply_panels(gpu_product *p)
{
    gpu_nest *nest = &p->nest;
    uint64_t panels = (nest->sizes[0] + COLUMNS - 1) / COLUMNS, depth = nest->scalars[0] * nest->values[0],
             offset;
    void *packed;
    int32_t status =
        gpu_workspace(p->call, batches_of(nest) * panels * depth * COLUMNS * 4, &packed, &offset);
    int64_t first = (int64_t)offset / 4;
    nest->scalars[3] = panels;
    if (!status) status = pack(p, packed, first);
    gpu_job job = gpu_job_of(p->call, GPU_FILE_PRODUCT, 32, "product_panels");
    job.program.dtypes[0] = (uint8_t)nest->dtypes[1];
    gpu_give_memory(&job, p->memory[0]);
    gpu_give_memory(&job, p->memory[1]);
    gpu_give_memory(&job, packed);
    gpu_give_memory(&job, p->memory[3]);
    gpu_give(&job, &first, sizeof first);
    gpu_give(&job, nest, sizeof *nest);
    return status ? status
                  : gpu_launch(&job, batches_of(nest) * panels * ((nest->sizes[1] + ROWS - 1) / ROWS),
                               GPU_HEAVY);
}

#define TILE_ROWS    32 /* of product_tiles, as the next two */
#define TILE_COLUMNS 64
#define TILE_RUN     256 /* products that are added up apart */

/* The windows of an image as a matrix of float32 in memory, which becomes the right one. For GPUs. */
static int32_t unfold(gpu_product *p)
{
    gpu_nest *n = &p->nest;
    const gpu_window *w = p->window;
    int32_t is_transposed = (w->flags & GPU_WINDOW_TRANSPOSED) != 0;
    uint32_t rows = (uint32_t)(n->scalars[0] * n->values[0]), columns = n->sizes[0];
    uint64_t batches = (uint64_t)w->groups * (is_transposed ? 1 : w->images),
             matrix = (uint64_t)rows * columns, offset;
    void *matrices;
    int32_t status = gpu_workspace(p->call, batches * matrix * 4, &matrices, &offset);
    int64_t first = (int64_t)offset / 4;
    if (status) return status;
    gpu_job job = gpu_job_of(p->call, GPU_FILE_WINDOWS, 32, "unfold");
    job.program.dtypes[0] = (uint8_t)w->dtype;
    gpu_give_memory(&job, matrices);
    gpu_give_memory(&job, p->memory[2]);
    gpu_give(&job, &first, sizeof first);
    gpu_give(&job, w, sizeof *w);
    gpu_give(&job, &rows, sizeof rows);
    gpu_give(&job, &columns, sizeof columns);
    p->memory[2] = matrices;
    n->offsets[2] = (int64_t)offset;
    n->dtypes[2] = GPU_F32;
    n->strides[2][0] = 4;
    n->strides[2][1] = 0;
    n->strides[2][2] = (int64_t)matrix * 4;
    n->strides[2][3] = (int64_t)matrix * 4 * w->groups;
    n->scalars[2] = (uint64_t)columns * 4;
    return gpu_launch(&job, batches * matrix, GPU_LIGHT);
}

/* A group is a tile. */
static uint64_t tile_items(const gpu_nest *n)
{
    uint64_t tiles = (uint64_t)((n->sizes[0] + TILE_COLUMNS - 1) / TILE_COLUMNS) *
                     ((n->sizes[1] + TILE_ROWS - 1) / TILE_ROWS);
    return batches_of(n) * tiles * GPU_GROUP_ITEMS;
}

/* Whether tiles pay, on GPUs. A matrix with fewer elements than a group has items leaves most of a tile empty; the kernel with an
 * item for each element gives the same bits as long as a tile would not add up in runs. */
static int32_t wants_tiles(const gpu_product *p, uint8_t type)
{
    const gpu_nest *n = &p->nest;
    if (gpu_device_of(p->call)->properties.is_processor || type == 1) return 0;
    if (n->numel * n->scalars[0] < LEAST_WORK || tile_items(n) > GPU_MOST_ITEMS) return 0;
    return (uint64_t)n->sizes[0] * n->sizes[1] >= GPU_GROUP_ITEMS || n->scalars[0] > TILE_RUN;
}

static int32_t multiply_tiles(const gpu_product *p, uint8_t type)
{
    const gpu_nest *n = &p->nest;
    gpu_job job = gpu_job_of(p->call, GPU_FILE_PRODUCT, type, "product_tiles");
    job.program.dtypes[0] = (uint8_t)n->dtypes[1];
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) gpu_give_memory(&job, p->memory[k]);
    gpu_give(&job, n, sizeof *n);
    return gpu_launch(&job, tile_items(n), GPU_HEAVY);
}

#define FEW 4 /* rows or columns for which tiles and panels are mostly empty */

/* Whether the elements that are multiplied are neighbours in both matrices, and there are few rows or columns. */
static int32_t wants_dots(const gpu_product *p, uint8_t type)
{
    const gpu_nest *n = &p->nest;
    int64_t bytes = gpu_code_bytes(n->dtypes[1]);
    int32_t is_processor = gpu_device_of(p->call)->properties.is_processor;
    uint64_t least = is_processor ? 32 : 2 * GPU_GROUP_ITEMS;
    if (!is_processor && (uint64_t)n->numel * GPU_GROUP_ITEMS > GPU_MOST_ITEMS) return 0;
    return type != 1 && n->dtypes[1] == n->dtypes[2] && (int64_t)n->scalars[1] == bytes &&
           n->values[0] == 1 && (int64_t)n->scalars[2] == bytes && n->scalars[0] >= least &&
           (n->sizes[0] < FEW || n->sizes[1] < FEW);
}

static int32_t multiply_dots(const gpu_product *p, uint8_t type)
{
    const gpu_nest *n = &p->nest;
    int32_t is_processor = gpu_device_of(p->call)->properties.is_processor;
    gpu_job job = gpu_job_of(p->call, GPU_FILE_PRODUCT, type, "product_dots");
    job.program.dtypes[0] = (uint8_t)n->dtypes[1];
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) gpu_give_memory(&job, p->memory[k]);
    gpu_give(&job, n, sizeof *n);
    return gpu_launch(&job, is_processor ? n->numel : (uint64_t)n->numel * GPU_GROUP_ITEMS,
                      is_processor ? GPU_LIGHT : GPU_HEAVY);
}

int32_t gpu_product_run(gpu_product *p)
{
    gpu_nest *n = &p->nest;
    uint8_t type = type_of(n);
    if (!n->numel) return TN_OK;
    int32_t is_processor = (int32_t)gpu_device_of(p->call)->properties.is_processor;
    if ((p->window && is_processor) || wants_panels(p, type)) return multiply_panels(p);
    int32_t has_window = p->window != NULL, status = has_window ? unfold(p) : TN_OK;
    if (!status) status = gpu_library_product(p);
    if (status != TN_E_UNSUPPORTED) return status;
    if (has_window) return multiply_tiles(p, type);
    if (wants_dots(p, type)) return multiply_dots(p, type);
    if (wants_tiles(p, type)) return multiply_tiles(p, type);
    gpu_job job = gpu_job_of(p->call, GPU_FILE_NUMBERS, type, "product");
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) gpu_give_memory(&job, p->memory[k]);
    gpu_give(&job, n, sizeof *n);
    return gpu_launch(&job, n->numel, GPU_LIGHT);
}

/* ---- Rows ----------------------------------------------------------------------------------------------- */

/*
 * out = alpha * a b + beta * added: column, row and batch are the dimensions of the nest. The right matrix is b, or
 * its transpose if `is_weight`. `added` (may be NULL) is broadcast.
 */
static int32_t multiply(const tn_call *call, const tn_tensor_desc *a, const tn_tensor_desc *b,
                        int32_t is_weight, const tn_tensor_desc *added, tn_value alpha, tn_value beta)
{
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    int64_t bytes = gpu_bytes(out->dtype);
    uint32_t inner = b->rank - (is_weight ? 1 : 2), outer = b->rank - (is_weight ? 2 : 1);
    gpu_product p = {
        .call = call,
        .memory = {out->allocation, a->allocation, b->allocation, added ? added->allocation : NULL}};
    gpu_nest *nest = &p.nest;
    gpu_nest_of_tensor(nest, out);
    gpu_nest_add(nest, 1, a);
    gpu_nest_add(nest, 2, b);
    if (added) gpu_nest_add(nest, 3, added);
    nest->strides[1][0] = 0;
    nest->strides[2][0] = b->strides[outer] * bytes;
    nest->strides[2][1] = 0;
    nest->scalars[0] = (uint64_t)a->sizes[a->rank - 1];
    nest->scalars[1] = (uint64_t)(a->strides[a->rank - 1] * bytes);
    nest->scalars[2] = (uint64_t)(b->strides[inner] * bytes);
    if (is_weight) { /* all of a's rows are rows of one product */
        for (uint32_t d = 2; d < nest->rank; d++) nest->strides[2][d] = 0;
        if (nest->rank == 1) nest->sizes[nest->rank++] = 1;
        gpu_nest_merge(nest, 1, GPU_OPERANDS);
        if (nest->rank == 1) nest->sizes[nest->rank++] = 1;
    }
    if (gpu_is_complex(out->dtype)) return gpu_complex_product(&p, alpha, beta);
    gpu_product_scale(&p, tn_number_of(alpha).f, tn_number_of(beta).f);
    return gpu_product_run(&p);
}

/* mm(Tensor self, Tensor mat2) and bmm */
static int32_t product(void *self, const tn_call *call)
{
    return multiply(call, gpu_tensor(call->args[0]), gpu_tensor(call->args[1]), 0, NULL, tn_value_float(1),
                    tn_value_float(0));
}

/* addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) and baddbmm */
static int32_t add_product(void *self, const tn_call *call)
{
    tn_value beta = call->args[3];
    int32_t is_added = beta.tag == TN_TAG_COMPLEX ? beta.as.floats[0] != 0 || beta.as.floats[1] != 0
                                                  : tn_number_of(beta).f != 0;
    return multiply(call, gpu_tensor(call->args[1]), gpu_tensor(call->args[2]), 0,
                    is_added ? gpu_tensor(call->args[0]) : NULL, call->args[4], beta);
}

/* linear(Tensor input, Tensor weight, Tensor? bias=None) */
static int32_t linear(void *self, const tn_call *call)
{
    return multiply(call, gpu_tensor(call->args[0]), gpu_tensor(call->args[1]), 1,
                    gpu_argument_tensor(call, 2), tn_value_float(1), tn_value_float(1));
}

static const char *can_multiply(void *self, const tn_call *call)
{
    const char *reason = gpu_can_move(self, call);
    if (reason || !gpu_has_complex(call)) return reason ? reason : gpu_can_run(self, call);
    return gpu_can_complex(call);
}

static const char *can_linear(void *self, const tn_call *call)
{
    if (gpu_tensor(call->args[1])->rank != 2) return "the weight is not a matrix";
    return can_multiply(self, call);
}

#define ROW(text, list, function, can) GPU_ROW(ANY, text, list, .run = function, .can_run = can)
static const tn_kernel_row rows[] = {
    ROW("mm(Tensor self, Tensor mat2) -> Tensor", gpu_number_or_complex_dtypes, product, can_multiply),
    ROW("bmm(Tensor self, Tensor mat2) -> Tensor", gpu_number_or_complex_dtypes, product, can_multiply),
    ROW("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        gpu_inexact_dtypes, add_product, can_multiply),
    ROW("baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        gpu_inexact_dtypes, add_product, can_multiply),
    ROW("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", gpu_inexact_dtypes, linear,
        can_linear),
};
const gpu_rows gpu_product_rows = GPU_ROW_LIST(rows);
