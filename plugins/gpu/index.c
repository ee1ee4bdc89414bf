/* SPDX-License-Identifier: Apache-2.0 */
/* gather, index_select, scatter and nonzero. Positions out of range are found by the kernels and reported late. */
#include "gpu.h"

/* The nest's dimension that operators call `dim`. */
static uint32_t dim_of(const gpu_nest *nest, int64_t dim)
{
    return (uint32_t)(dim < 0 ? -1 - dim : (int64_t)nest->rank - 1 - dim);
}

/* A tensor without dimensions is a line of one element. */
static void at_least_a_line(gpu_nest *nest)
{
    if (nest->rank) return;
    nest->rank = 1;
    nest->sizes[0] = 1;
}

/* What kernels want of the tensor that the index goes into: scalars, and stride 0 in the nest. */
static void index_into(gpu_nest *nest, uint32_t operand, const tn_tensor_desc *t, uint32_t dim,
                       uint64_t operation)
{
    uint32_t from = t->rank - 1 - dim;
    nest->scalars[0] = t->rank ? (uint64_t)(t->strides[from] * gpu_bytes(t->dtype)) : 0;
    nest->scalars[1] = t->rank ? (uint64_t)t->sizes[from] : 1;
    nest->scalars[2] = operation;
    nest->strides[operand][dim] = 0;
}

/* An index of one dimension, as operand `k` of a nest whose dimension `dim` it goes along. */
static void add_list(gpu_nest *nest, uint32_t k, const tn_tensor_desc *index, uint32_t dim)
{
    memset(nest->strides[k], 0, sizeof nest->strides[k]);
    if (index->rank && index->sizes[0] > 1)
        nest->strides[k][dim] = index->strides[0] * gpu_bytes(index->dtype);
    nest->offsets[k] = (int64_t)index->byte_offset;
    nest->dtypes[k] = (uint32_t)gpu_dtype(index->dtype);
}

/* Operands of the nest: out, in, index. */
static int32_t launch_gather(const tn_call *call, gpu_nest *nest)
{
    gpu_job job = gpu_job_of(call, GPU_FILE_MEMORY, 0, "gather");
    uint64_t run = gpu_device_of(call)->properties.is_processor ? gpu_dense_run(gpu_device_of(call)) : 1;
    gpu_nest_merge(nest, 0, 3);
    at_least_a_line(nest);
    uint64_t rows = nest->numel / nest->sizes[0], pieces = (nest->sizes[0] + run - 1) / run;
    uint64_t each = gpu_rows_each(nest->sizes[0], run);
    nest->scalars[3] = run;
    nest->values[0] = each;
    nest->opcode = gpu_bytes(gpu_tensor(call->args[0])->dtype);
    gpu_give_memory(&job, gpu_tensor(call->outs[0])->allocation);
    gpu_give_memory(&job, gpu_tensor(call->args[0])->allocation);
    gpu_give_memory(&job, gpu_tensor(call->args[2])->allocation);
    gpu_give_faults(&job);
    gpu_give(&job, nest, sizeof *nest);
    return gpu_launch(&job, (rows + each - 1) / each * pieces, run > 1 ? GPU_HEAVY : GPU_LIGHT);
}

/* gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) */
static int32_t gather(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *index = gpu_tensor(call->args[2]);
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, index);
    if (!nest.numel) return TN_OK;
    gpu_nest_add(&nest, 0, gpu_tensor(call->outs[0]));
    gpu_nest_add(&nest, 1, in);
    gpu_nest_add(&nest, 2, index);
    at_least_a_line(&nest);
    index_into(&nest, 1, in, dim_of(&nest, tn_value_as_int(call->args[1])), GPU_BY_GATHER);
    return launch_gather(call, &nest);
}

#define LEAST_WIDTH 8 /* elements that are worth being copied as a row */

/* index_select(Tensor self, int dim, Tensor index) */
static int32_t index_select(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *index = gpu_tensor(call->args[2]);
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    uint32_t width = 1;
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, out);
    if (!nest.numel) return TN_OK;
    gpu_nest_add(&nest, 1, in);
    at_least_a_line(&nest);
    uint32_t dim = dim_of(&nest, tn_value_as_int(call->args[1]));
    add_list(&nest, 2, index, dim);
    for (uint32_t d = 0; d < dim; d++) width *= nest.sizes[d];
    if (width >= LEAST_WIDTH && gpu_is_contiguous(in) && gpu_is_contiguous(out) && gpu_is_contiguous(index)) {
        nest.sizes[1] = nest.sizes[dim];
        nest.sizes[0] = width;
        nest.scalars[0] = (uint64_t)in->sizes[in->rank - 1 - dim];
        nest.scalars[2] = GPU_BY_INDEX_SELECT;
        return gpu_gather_rows(call, &nest, out->allocation, in->allocation, index->allocation);
    }
    index_into(&nest, 1, in, dim, GPU_BY_INDEX_SELECT);
    return launch_gather(call, &nest);
}

/* flip(Tensor self, int[] dims) */
static int32_t flip(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *out = gpu_tensor(call->outs[0]);
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, out);
    gpu_nest_add(&nest, 1, in);
    if (!nest.numel) return TN_OK;
    for (uint32_t i = 0; i < call->args[1].count && nest.rank; i++) {
        uint32_t dim = dim_of(&nest, call->args[1].as.ints[i]);
        nest.offsets[1] += (int64_t)(nest.sizes[dim] - 1) * nest.strides[1][dim];
        nest.strides[1][dim] = -nest.strides[1][dim];
    }
    return gpu_move_elements(call, &nest, out->allocation, in->allocation, gpu_bytes(in->dtype));
}

/* Moves dimension `dim` of the nest before the innermost one. The others stay in order. */
static void to_front(gpu_nest *n, uint32_t dim)
{
    for (uint32_t d = dim; d > 0; d--) {
        uint32_t size = n->sizes[d];
        n->sizes[d] = n->sizes[d - 1];
        n->sizes[d - 1] = size;
        for (uint32_t k = 0; k < GPU_OPERANDS; k++) {
            int64_t stride = n->strides[k][d];
            n->strides[k][d] = n->strides[k][d - 1];
            n->strides[k][d - 1] = stride;
        }
    }
}

/* A scatter in preparation. The source is a tensor, or one element in temporary memory. */
typedef struct scattering {
    const tn_call *call;
    const tn_tensor_desc *out, *index, *source;
    void *target; /* what kernels write: of `out`, or its sums */
    void *element;
    uint32_t dim;
    gpu_nest nest;   /* out, index, source; dimension 0 is that of the index */
    gpu_order order; /* of the index */
} scattering;

/* The element is what the source has, from now on. */
static int32_t set_element(scattering *c, tn_value value)
{
    uint64_t bits[2], offset;
    uint32_t bytes = gpu_bytes(c->out->dtype);
    int32_t status = gpu_workspace(c->call, bytes, &c->element, &offset);
    gpu_element_bits(c->out->dtype, value, bits);
    if (status) return status;
    memset(c->nest.strides[2], 0, sizeof c->nest.strides[2]);
    c->nest.offsets[2] = (int64_t)offset;
    c->nest.dtypes[2] = c->nest.dtypes[0];
    return gpu_the_driver.fill(gpu_device_of(c->call)->handle, gpu_stream_of(c->call)->queue, c->element,
                               offset, bytes, bits, bytes);
}

/* The tensor may be larger than the index: its strides count, not its sizes. */
static void set_operand(scattering *c, uint32_t k, const tn_tensor_desc *t)
{
    gpu_nest whole = c->nest;
    whole.rank = t->rank;
    gpu_nest_add(&whole, k, t);
    to_front(&whole, c->dim);
    memcpy(c->nest.strides[k], whole.strides[k], sizeof whole.strides[k]);
    c->nest.offsets[k] = whole.offsets[k];
    c->nest.dtypes[k] = whole.dtypes[k];
}

static void set_source(scattering *c)
{
    set_operand(c, 2, c->source);
    c->element = NULL;
}

/* `is_list`: the index has one dimension, and the source says how often it counts. An empty index leaves nest.numel 0. */
static void begin_scatter(scattering *c, const tn_call *call, uint64_t operation, int32_t is_list)
{
    *c = (scattering){.call = call, .out = gpu_tensor(call->outs[0]), .index = gpu_tensor(call->args[2])};
    c->target = c->out->allocation;
    if (call->args[3].tag == TN_TAG_TENSOR) c->source = gpu_tensor(call->args[3]);
    gpu_nest_of_tensor(&c->nest, is_list ? c->source : c->index);
    if (!c->nest.numel) return; /* its rank may be another */
    gpu_nest_add(&c->nest, 0, c->out);
    at_least_a_line(&c->nest);
    c->dim = dim_of(&c->nest, tn_value_as_int(call->args[1]));
    if (is_list)
        add_list(&c->nest, 1, c->index, c->dim);
    else
        gpu_nest_add(&c->nest, 1, c->index);
    index_into(&c->nest, 0, c->out, c->dim, operation);
    to_front(&c->nest, c->dim);
}

static void give_operands(gpu_job *job, const scattering *c)
{
    gpu_give_memory(job, c->target);
    gpu_give_memory(job, c->index->allocation);
    gpu_give_memory(job, c->element ? c->element : c->source ? c->source->allocation : NULL);
    gpu_give_faults(job);
}

/* An item is a line, or an element of the order. */
static int32_t launch_items(gpu_job *job, const scattering *c)
{
    int32_t has_order = c->order.memory != NULL;
    if (has_order) gpu_give_order(job, &c->order);
    gpu_give(job, &c->nest, sizeof c->nest);
    return gpu_launch(job, has_order ? c->nest.numel : c->nest.numel / c->nest.sizes[0],
                      !has_order && c->nest.sizes[0] >= 64 ? GPU_HEAVY : GPU_LIGHT);
}

static int32_t overwrite(scattering *c)
{
    int32_t status = gpu_order_index(c->call, c->index, &c->nest, 0, &c->order);
    gpu_job job = gpu_job_of(c->call, GPU_FILE_MEMORY, 0, c->order.memory ? "scatter_sorted" : "scatter");
    c->nest.opcode = gpu_bytes(c->out->dtype);
    give_operands(&job, c);
    return status ? status : launch_items(&job, c);
}

/* Whether a step would be rounded that a sum in float32 does not round. */
static int32_t rounds_steps(const scattering *c, uint32_t reduction)
{
    int32_t has_steps =
        reduction == GPU_MEAN || ((reduction == GPU_SUM || reduction == GPU_PROD) && c->nest.sizes[0] > 1);
    return has_steps && (c->out->dtype == TN_FLOAT16 || c->out->dtype == TN_BFLOAT16);
}

/* Operand 0 becomes sums in float32, which begin with the elements of `out`. */
static int32_t use_sums(scattering *c, gpu_contiguous *sums)
{
    int64_t strides[TN_MAX_RANK], numel = 1;
    tn_tensor_desc target = *c->out;
    int32_t status = gpu_sums_begin(c->call, c->out, sums);
    for (uint32_t k = target.rank; k-- > 0; numel *= target.sizes[k]) strides[k] = numel;
    target.dtype = TN_FLOAT32;
    target.strides = strides;
    target.byte_offset = (uint64_t)sums->offset;
    set_operand(c, 0, &target);
    c->nest.scalars[0] = (uint64_t)c->nest.strides[0][0];
    c->nest.strides[0][0] = 0;
    c->target = sums->memory;
    return status ? status : gpu_sums_load(c->call, sums);
}

/* How often each position of each line is met: from element *out_first on. */
static int32_t begin_counts(const scattering *c, void **out_counts, int64_t *out_first)
{
    uint64_t offset, zero = 0, bytes = (uint64_t)c->nest.numel / c->nest.sizes[0] * c->nest.scalars[1] * 4;
    int32_t status = gpu_workspace(c->call, bytes, out_counts, &offset);
    *out_first = (int64_t)offset / 4;
    return status ? status
                  : gpu_the_driver.fill(gpu_device_of(c->call)->handle, gpu_stream_of(c->call)->queue,
                                        *out_counts, offset, bytes, &zero, 4);
}

/* Divides the sums by the counts, `more` added to each of them. */
static int32_t divide(scattering *c, void *counts, int64_t first, uint64_t more)
{
    gpu_job job = gpu_job_of(c->call, GPU_FILE_NUMBERS, gpu_type(c->out->dtype), "scatter_mean");
    c->nest.scalars[2] = more;
    gpu_give_memory(&job, c->target);
    gpu_give_memory(&job, counts);
    gpu_give(&job, &first, sizeof first);
    gpu_give(&job, &c->nest, sizeof c->nest);
    return gpu_launch(&job, (uint64_t)c->nest.numel / c->nest.sizes[0] * c->nest.scalars[1], GPU_LIGHT);
}

/* An item takes a line. */
static int32_t combine_lines(scattering *c, uint32_t reduction, uint64_t keeps)
{
    gpu_contiguous sums;
    void *counts = NULL;
    int64_t first = 0;
    int32_t status = TN_OK, has_sums = rounds_steps(c, reduction);
    if (has_sums) status = use_sums(c, &sums);
    if (!status && reduction == GPU_MEAN) status = begin_counts(c, &counts, &first);
    gpu_job job = gpu_job_of(c->call, GPU_FILE_NUMBERS, gpu_type(c->out->dtype), "scatter_combine");
    give_operands(&job, c);
    gpu_give_memory(&job, counts);
    gpu_give(&job, &first, sizeof first);
    if (!status) status = launch_items(&job, c);
    if (!status && counts) status = divide(c, counts, first, keeps);
    return status || !has_sums ? status : gpu_sums_end(c->call, &sums);
}

/*
 * `keeps`: means count what was there. Sums of half types are rounded once: in the order of the index in registers, else in
 * memory of the result's size. So short lines are sorted as well for them.
 */
static int32_t combine(scattering *c, uint32_t reduction, uint64_t keeps)
{
    int32_t status = TN_OK;
    c->nest.opcode = reduction;
    if (!c->order.memory)
        status = gpu_order_index(c->call, c->index, &c->nest, rounds_steps(c, reduction), &c->order);
    if (status || !c->order.memory) return status ? status : combine_lines(c, reduction, keeps);
    gpu_job job = gpu_job_of(c->call, GPU_FILE_NUMBERS, gpu_type(c->out->dtype), "scatter_combine_sorted");
    c->nest.values[1] = keeps;
    give_operands(&job, c);
    return launch_items(&job, c);
}

/* scatter_(Tensor(a!) self, int dim, Tensor index, Tensor src | Scalar value) */
static int32_t scatter(void *self, const tn_call *call)
{
    scattering c;
    int32_t status = TN_OK;
    begin_scatter(&c, call, GPU_BY_SCATTER, 0);
    if (!c.nest.numel) return TN_OK;
    if (c.source)
        set_source(&c);
    else
        status = set_element(&c, call->args[3]);
    return status ? status : overwrite(&c);
}

#define LEAST_COLUMNS 16 /* of a row, for which a vector is worth it */

/* Whether all elements of a row have one index, as in index_add. Then dimension 1 becomes that of the columns. */
static int32_t are_rows(scattering *c)
{
    gpu_nest n = c->nest;
    uint8_t type = gpu_type(c->out->dtype);
    uint32_t dtype = type == 32 ? GPU_F32 : type == 64 ? GPU_F64 : GPU_I64;
    int64_t bytes = gpu_code_bytes(dtype);
    if (!gpu_device_of(c->call)->properties.is_processor || n.dtypes[0] != dtype || n.dtypes[2] != dtype ||
        !c->dim)
        return 0;
    for (uint32_t d = 1; d < n.rank; d++)
        if (n.strides[1][d]) return 0;
    gpu_nest_merge(&n, 1, 3);
    if (n.rank < 2 || n.strides[0][1] != bytes || n.strides[2][1] != bytes || n.sizes[1] < LEAST_COLUMNS)
        return 0;
    c->nest = n;
    return 1;
}

/* The columns of all rows in pieces, as many as keep the device busy. */
static int32_t add_rows(scattering *c)
{
    gpu_nest *n = &c->nest;
    uint64_t others = n->numel / n->sizes[0] / n->sizes[1], wanted = gpu_items_wanted(gpu_device_of(c->call));
    uint64_t pieces = (wanted + others - 1) / others, run = (n->sizes[1] + pieces - 1) / pieces;
    n->scalars[3] = run < LEAST_COLUMNS ? LEAST_COLUMNS : run;
    gpu_job job = gpu_job_of(c->call, GPU_FILE_NUMBERS, gpu_type(c->out->dtype), "scatter_add_rows");
    give_operands(&job, c);
    gpu_give(&job, n, sizeof *n);
    return gpu_launch(&job, others * ((n->sizes[1] + n->scalars[3] - 1) / n->scalars[3]), GPU_HEAVY);
}

/* scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) */
static int32_t scatter_add(void *self, const tn_call *call)
{
    scattering c;
    begin_scatter(&c, call, GPU_BY_SCATTER_ADD, 0);
    if (!c.nest.numel) return TN_OK;
    set_source(&c);
    return are_rows(&c) ? add_rows(&c) : combine(&c, GPU_SUM, 0);
}

/* scatter_(Tensor(a!) self, int dim, Tensor index, Tensor src | Scalar value, *, str reduce) */
static int32_t scatter_with(void *self, const tn_call *call)
{
    scattering c;
    begin_scatter(&c, call, GPU_BY_SCATTER, 0);
    if (!c.nest.numel) return TN_OK;
    if (c.source) {
        set_source(&c);
    } else {
        c.nest.immediate = 4;
        c.nest.values[2] = gpu_number_bits(gpu_type(c.out->dtype), tn_number_of(call->args[3]));
    }
    return combine(&c, strcmp(call->args[4].as.string, "add") == 0 ? GPU_SUM : GPU_PROD, 0);
}

static const char *can_scatter_with(void *self, const tn_call *call)
{
    const char *reduce = call->args[4].as.string;
    return strcmp(reduce, "add") != 0 && strcmp(reduce, "multiply") != 0 ? "the reduction is unknown"
                                                                         : gpu_can_run(self, call);
}

static int32_t reduction_of(const tn_call *call)
{
    static const struct {
        const char *name;
        uint32_t reduction;
    } names[] = {
        {"sum", GPU_SUM}, {"prod", GPU_PROD}, {"mean", GPU_MEAN}, {"amax", GPU_MAX}, {"amin", GPU_MIN}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(call->args[4].as.string, names[i].name) == 0) return (int32_t)names[i].reduction;
    return -1;
}

/* Arguments: self, dim, index, source, reduce, include_self. */
static int32_t reduce_into(const tn_call *call, int32_t is_list)
{
    int32_t reduction = reduction_of(call), keeps = tn_value_as_bool(call->args[5]), status = TN_OK;
    scattering c;
    begin_scatter(&c, call, is_list ? GPU_BY_INDEX_REDUCE : GPU_BY_SCATTER_REDUCE, is_list);
    if (!c.nest.numel) return TN_OK;
    /* Without self a position begins with what changes nothing: for an extreme any of its own elements. */
    int32_t is_extreme = reduction == GPU_MAX || reduction == GPU_MIN;
    if (!keeps && !is_extreme) status = set_element(&c, tn_value_int(reduction == GPU_PROD));
    if (!keeps && is_extreme) set_source(&c);
    if (!status && !keeps) status = overwrite(&c);
    set_source(&c);
    return status ? status : combine(&c, (uint32_t)reduction, (uint64_t)keeps);
}

/* scatter_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) */
static int32_t scatter_reduce(void *self, const tn_call *call)
{
    return reduce_into(call, 0);
}
/* index_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) */
static int32_t index_reduce(void *self, const tn_call *call)
{
    return reduce_into(call, 1);
}

static const char *can_scatter_reduce(void *self, const tn_call *call)
{
    return reduction_of(call) < 0 ? "the reduction is unknown" : gpu_can_run(self, call);
}

/* nonzero(Tensor self): the host waits for the number of results. */
static int32_t nonzero(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]);
    gpu_device *d = gpu_device_of(call);
    void *counts, *queue = gpu_stream_of(call)->queue;
    uint64_t offset;
    int64_t sizes[2] = {0, in->rank}, first;
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, in);
    nest.opcode = gpu_bytes(in->dtype);
    if (!nest.numel) return call->host->resize_output(call, 0, 2, sizes);
    uint64_t wanted = gpu_items_wanted(d), length = (nest.numel + wanted - 1) / wanted;
    if (length < 64) length = 64;
    int64_t parts = (int64_t)((nest.numel + length - 1) / length);
    nest.scalars[0] = length;
    nest.scalars[1] = (uint64_t)parts;
    int32_t status = gpu_workspace(call, (uint64_t)(parts + 1) * 8, &counts, &offset);
    if (status) return status;
    first = (int64_t)offset / 8;

    gpu_job count = gpu_job_of(call, GPU_FILE_MEMORY, 0, "nonzero_count");
    gpu_give_memory(&count, in->allocation);
    gpu_give_memory(&count, counts);
    gpu_give(&count, &first, sizeof first);
    gpu_give(&count, &nest, sizeof nest);
    status = gpu_launch(&count, (uint64_t)parts, GPU_HEAVY);
    gpu_job sum = gpu_job_of(call, GPU_FILE_MEMORY, 0, "nonzero_sum");
    gpu_give_memory(&sum, counts);
    gpu_give(&sum, &first, sizeof first);
    gpu_give(&sum, &parts, sizeof parts);
    if (!status) status = gpu_launch(&sum, d->properties.is_processor ? 1 : GPU_GROUP_ITEMS, GPU_HEAVY);
    if (!status)
        status = gpu_the_driver.read(d->handle, queue, &sizes[0], counts, offset + (uint64_t)parts * 8, 8);
    if (!status) status = gpu_the_driver.queue_finish(d->handle, queue);
    if (!status) status = call->host->resize_output(call, 0, 2, sizes);
    if (status || !sizes[0] || !sizes[1]) return status;

    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    nest.offsets[1] = (int64_t)out->byte_offset;
    nest.scalars[2] = (uint64_t)out->strides[0] * 8;
    nest.scalars[3] = (uint64_t)out->strides[1] * 8;
    gpu_job write = gpu_job_of(call, GPU_FILE_MEMORY, 0, "nonzero_write");
    gpu_give_memory(&write, in->allocation);
    gpu_give_memory(&write, counts);
    gpu_give(&write, &first, sizeof first);
    gpu_give_memory(&write, out->allocation);
    gpu_give(&write, &nest, sizeof nest);
    return gpu_launch(&write, (uint64_t)parts, GPU_HEAVY);
}

#define ROW(text, function, can) GPU_ROW(ANY, text, gpu_all_dtypes, .run = function, .can_run = can)
static const tn_kernel_row rows[] = {
    ROW("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather,
        gpu_can_move),
    ROW("scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", scatter,
        gpu_can_move),
    ROW("scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)", scatter,
        gpu_can_move),
    ROW("scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", scatter_add,
        gpu_can_run),
    ROW("scatter_reduce_.two(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *, bool "
        "include_self=True) -> Tensor(a!)",
        scatter_reduce, can_scatter_reduce),
    ROW("scatter_.reduce(Tensor(a!) self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor(a!)",
        scatter_with, can_scatter_with),
    ROW("scatter_.value_reduce(Tensor(a!) self, int dim, Tensor index, Scalar value, *, str reduce) -> "
        "Tensor(a!)",
        scatter_with, can_scatter_with),
    ROW("index_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor source, str reduce, *, bool "
        "include_self=True) -> Tensor(a!)",
        index_reduce, can_scatter_reduce),
    ROW("index_select(Tensor self, int dim, Tensor index) -> Tensor", index_select, gpu_can_move),
    ROW("flip(Tensor self, int[] dims) -> Tensor", flip, gpu_can_move),
    ROW("nonzero(Tensor self) -> Tensor", nonzero, gpu_can_run),
};
const gpu_rows gpu_index_rows = GPU_ROW_LIST(rows);
