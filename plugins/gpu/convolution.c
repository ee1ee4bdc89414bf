/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions. In the words of gpu_window a convolution goes from `in` to `out`; a transposed one the other way. Its
 * passes are products with the windows of the image as a matrix, where there is enough to multiply, else kernels without a
 * product (device/windows.cl): of a processor an item computes a row, of a GPU an element. Processors pack the windows into
 * panels, GPUs unfold them. A library of the vendor is asked first.
 */
#include "gpu.h"

#define MOST_WORKSPACE ((uint64_t)32 << 20) /* bytes for some images at once: they stay in the cache */

typedef struct convolution {
    const tn_call *call;
    gpu_window w;
    tn_dtype dtype;
    uint64_t in_size, out_size; /* elements of an image of one channel, windows */
    uint64_t elements;          /* of the kernel */
    uint64_t bytes;             /* of an element */
    uint64_t depth, result;     /* of a group: elements of a window and of an image of `out`, all channels */
} convolution;

/* A tensor of the call, or the memory of a result. */
typedef struct operand {
    void *memory;
    int64_t offset; /* in bytes */
} operand;

static operand operand_of(const tn_tensor_desc *t)
{
    return t ? (operand){t->allocation, (int64_t)t->byte_offset} : (operand){0};
}

static int32_t list_item(tn_value list, int32_t i)
{
    return (int32_t)(list.count == 1 ? list.as.ints[0] : list.as.ints[i]);
}

/* `first` is the argument `stride`, with padding, dilation, transposed, output_padding and groups behind it. */
static convolution describe(const tn_call *call, uint32_t first, const tn_tensor_desc *in,
                            const tn_tensor_desc *weight, const tn_tensor_desc *out)
{
    convolution c = {.call = call, .dtype = weight->dtype, .in_size = 1, .out_size = 1, .elements = 1};
    gpu_window *w = &c.w;
    w->images = (uint32_t)in->sizes[0];
    w->groups = (uint32_t)call->args[first + 5].as.i;
    w->in_channels = (uint32_t)in->sizes[1] / w->groups;
    w->out_channels = (uint32_t)out->sizes[1] / w->groups;
    w->dtype = (uint32_t)gpu_dtype(weight->dtype);
    for (int32_t axis = 0; axis < 3; axis++) {
        int32_t k = axis - (3 - ((int32_t)weight->rank - 2));
        w->in[axis] = k < 0 ? 1 : (uint32_t)in->sizes[k + 2];
        w->out[axis] = k < 0 ? 1 : (uint32_t)out->sizes[k + 2];
        w->kernel_size[axis] = k < 0 ? 1 : (uint32_t)weight->sizes[k + 2];
        w->stride[axis] = k < 0 ? 1 : list_item(call->args[first], k);
        w->padding[axis] = k < 0 ? 0 : list_item(call->args[first + 1], k);
        w->dilation[axis] = k < 0 ? 1 : list_item(call->args[first + 2], k);
        c.in_size *= w->in[axis];
        c.out_size *= w->out[axis];
        c.elements *= w->kernel_size[axis];
    }
    c.bytes = gpu_bytes(c.dtype);
    c.depth = w->in_channels * c.elements;
    c.result = w->out_channels * c.out_size;
    return c;
}

/* ---- An element an item ----------------------------------------------------------------------------------- */

/* The operands are the kernel's, in its order. */
static gpu_job job_of(convolution *c, const char *kernel, const operand operands[3])
{
    gpu_job job = gpu_job_of(c->call, GPU_FILE_WINDOWS, gpu_type(c->dtype), kernel);
    job.program.dtypes[0] = (uint8_t)c->w.dtype;
    for (uint32_t k = 0; k < 3; k++) {
        c->w.offsets[k] = operands[k].offset;
        if (operands[k].memory) gpu_give_memory(&job, operands[k].memory);
    }
    return job;
}

/* An element an item. `bias` without memory is absent. */
static int32_t run_directly(convolution *c, const char *kernel, const operand operands[3],
                            const operand *bias, uint64_t items)
{
    gpu_job job = job_of(c, kernel, operands);
    uint32_t has_bias = bias->memory != NULL;
    c->w.offsets[3] = bias->offset;
    gpu_give_memory(&job, bias->memory);
    gpu_give(&job, &has_bias, sizeof has_bias);
    gpu_give(&job, &c->w, sizeof c->w);
    return gpu_launch(&job, items, GPU_LIGHT);
}

/* A GPU has as many items for an element of the weight as keep it busy, each of them with rows of windows. */
static int32_t weigh_directly(convolution *c, const operand operands[3], uint64_t elements)
{
    const gpu_device *d = gpu_device_of(c->call);
    uint64_t rows = (uint64_t)c->w.images * c->w.out[0] * c->w.out[1],
             wanted = gpu_items_wanted(d) / elements;
    uint32_t width = d->properties.is_processor ? 1 : gpu_width_for(rows < wanted ? rows : wanted);
    gpu_job job = job_of(c, "convolve_weight", operands);
    gpu_give(&job, &width, sizeof width);
    gpu_give(&job, &c->w, sizeof c->w);
    return gpu_launch(&job, elements * width, GPU_LIGHT);
}

/* ---- Products ---------------------------------------------------------------------------------------------- */

/* Whether the passes are products: then `at once` is the number of images that the workspace is for. */
static int32_t uses_products(const convolution *c, uint64_t *out_at_once)
{
    const gpu_window *w = &c->w;
    uint64_t bytes =
        gpu_panel_bytes(gpu_device_of(c->call), gpu_type(c->dtype), c->out_size, c->depth) * w->groups;
    *out_at_once = bytes ? MOST_WORKSPACE / bytes : 0;
    if (*out_at_once < 1) *out_at_once = 1;
    if (*out_at_once > w->images) *out_at_once = w->images;
    /* Places in the panels and in the images are 32-bit numbers. */
    return bytes && w->out_channels >= 4 && c->depth >= 8 && c->out_size >= 16 &&
           *out_at_once * bytes < (uint64_t)1 << 31;
}

/* A product with the groups as its batches; `sizes` and strides of the first two dimensions follow. */
static gpu_product product_of(const convolution *c, uint64_t columns, uint64_t rows, uint64_t images)
{
    gpu_product p = {.call = c->call};
    gpu_nest *n = &p.nest;
    n->rank = 4;
    n->sizes[0] = (uint32_t)columns;
    n->sizes[1] = (uint32_t)rows;
    n->sizes[2] = c->w.groups;
    n->sizes[3] = (uint32_t)images;
    n->numel = (uint32_t)(columns * rows * c->w.groups * images);
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) n->dtypes[k] = c->w.dtype;
    return p;
}

/* Strides are those of column, row, group and image, in elements of `bytes`. */
static void set_operand(gpu_product *p, uint32_t k, operand o, uint64_t bytes, const uint64_t strides[4])
{
    p->memory[k] = o.memory;
    p->nest.offsets[k] = o.offset;
    for (uint32_t d = 0; d < 4; d++) p->nest.strides[k][d] = (int64_t)(strides[d] * bytes);
}

static operand moved(operand o, uint64_t bytes)
{
    o.offset += (int64_t)bytes;
    return o;
}

/* The product reads windows of these images of `in`, as `part` describes them. */
static void read_windows(const convolution *c, gpu_product *p, gpu_window *part, operand in, uint64_t image,
                         uint64_t images)
{
    const gpu_window *w = &c->w;
    const uint64_t bytes = image * w->groups * w->in_channels * c->in_size * c->bytes;
    *part = *w;
    part->images = (uint32_t)images;
    part->offsets[1] = in.offset + (int64_t)bytes;
    p->window = part;
    p->memory[2] = in.memory;
}

/* out = bias + weight * windows of in, some images at once. */
static int32_t forward_products(const convolution *c, operand out, operand in, operand weight, operand bias,
                                uint64_t at_once)
{
    const gpu_window *w = &c->w;
    int32_t status = TN_OK;
    for (uint64_t image = 0; image < w->images && !status; image += at_once) {
        uint64_t images = w->images - image < at_once ? w->images - image : at_once;
        gpu_window part;
        gpu_product p = product_of(c, c->out_size, w->out_channels, images);
        read_windows(c, &p, &part, in, image, images);
        set_operand(&p, 0, moved(out, image * w->groups * c->result * c->bytes), c->bytes,
                    (const uint64_t[]){1, c->out_size, c->result, w->groups * c->result});
        set_operand(&p, 1, weight, c->bytes, (const uint64_t[]){0, c->depth, w->out_channels * c->depth, 0});
        set_operand(&p, 3, bias, c->bytes, (const uint64_t[]){0, 1, w->out_channels, 0});
        p.nest.scalars[0] = c->depth;
        p.nest.scalars[1] = c->bytes;
        gpu_product_scale(&p, 1, 1);
        status = gpu_product_run(&p);
    }
    return status;
}

/* in = bias + the windows (transposed weight * out), added where they overlap. */
static int32_t transposed_products(const convolution *c, operand in, operand out, operand weight,
                                   operand bias, uint64_t at_once)
{
    const gpu_window *w = &c->w;
    uint64_t offset;
    operand columns;
    int32_t status =
        gpu_workspace(c->call, at_once * w->groups * c->depth * c->out_size * 4, &columns.memory, &offset);
    columns.offset = (int64_t)offset;
    for (uint64_t image = 0; image < w->images && !status; image += at_once) {
        uint64_t images = w->images - image < at_once ? w->images - image : at_once;
        gpu_product p = product_of(c, c->out_size, c->depth, images);
        set_operand(
            &p, 0, columns, 4,
            (const uint64_t[]){1, c->out_size, c->depth * c->out_size, w->groups * c->depth * c->out_size});
        set_operand(&p, 1, weight, c->bytes, (const uint64_t[]){0, 1, w->out_channels * c->depth, 0});
        set_operand(&p, 2, moved(out, image * w->groups * c->result * c->bytes), c->bytes,
                    (const uint64_t[]){1, 0, c->result, w->groups * c->result});
        p.nest.dtypes[0] = GPU_F32;
        p.nest.scalars[0] = w->out_channels;
        p.nest.scalars[1] = c->depth * c->bytes;
        p.nest.scalars[2] = c->out_size * c->bytes;
        gpu_product_scale(&p, 1, 0);
        status = gpu_product_run(&p);
        convolution part = *c;
        part.w.images = (uint32_t)images;
        uint64_t size = w->groups * w->in_channels * c->in_size;
        const operand operands[] = {moved(in, image * size * c->bytes), columns, {0}};
        if (!status) status = run_directly(&part, "add_windows", operands, &bias, images * size);
    }
    return status;
}

/* weight = the sum over images of out * transposed windows of in. */
static int32_t weight_products(const convolution *c, operand weight, operand in, operand out,
                               uint64_t at_once)
{
    const gpu_window *w = &c->w;
    int32_t status = TN_OK;
    for (uint64_t image = 0; image < w->images && !status; image += at_once) {
        uint64_t images = w->images - image < at_once ? w->images - image : at_once;
        const uint64_t strides[] = {1, c->depth, w->out_channels * c->depth, 0};
        gpu_window part;
        gpu_product p = product_of(c, c->depth, w->out_channels, 1);
        read_windows(c, &p, &part, in, image, images);
        part.flags |= GPU_WINDOW_TRANSPOSED;
        set_operand(&p, 0, weight, c->bytes, strides);
        set_operand(&p, 1, moved(out, image * w->groups * c->result * c->bytes), c->bytes,
                    (const uint64_t[]){0, c->out_size, c->result, 0});
        if (image) set_operand(&p, 3, weight, c->bytes, strides); /* what the images before have given */
        gpu_product_scale(&p, 1, 1);
        p.nest.scalars[0] = c->out_size;
        p.nest.scalars[1] = c->bytes;
        p.nest.values[0] = images;
        p.nest.values[1] = w->groups * c->result * c->bytes;
        status = gpu_product_run(&p);
    }
    return status;
}

/* ---- The vendor's library --------------------------------------------------------------------------------- */

/* out += bias, which has an element for each channel of `out` with so many elements. */
static int32_t add_bias(const convolution *c, operand out, operand bias, uint32_t channels, uint64_t size)
{
    const int64_t bytes = gpu_code_bytes(c->w.dtype), row = (int64_t)size * bytes;
    const uint64_t numel = size * channels * c->w.images;
    gpu_nest n = {.rank = 3, .sizes = {(uint32_t)size, channels, c->w.images}, .numel = (uint32_t)numel};
    for (uint32_t k = 0; k < 3; k++) n.dtypes[k] = c->w.dtype;
    for (uint32_t k = 0; k < 2; k++) {
        n.offsets[k] = out.offset;
        n.strides[k][0] = bytes;
        n.strides[k][1] = row;
        n.strides[k][2] = row * channels;
    }
    n.offsets[2] = bias.offset;
    n.strides[2][1] = bytes;
    return gpu_add(c->call, &n, out.memory, out.memory, bias.memory);
}

/* A pass, then the bias of what it computes; TN_E_UNSUPPORTED without an error: nothing was queued. */
static int32_t run_library(const convolution *c, uint32_t pass, operand in, operand weight, operand out,
                           operand bias)
{
    const gpu_window *w = &c->w;
    const gpu_convolution g = {.pass = pass,
                               .window = w,
                               .in = {in.memory, (uint64_t)in.offset},
                               .weight = {weight.memory, (uint64_t)weight.offset},
                               .out = {out.memory, (uint64_t)out.offset}};
    int32_t status = gpu_library_convolve(c->call, &g);
    if (status || !bias.memory) return status;
    return pass == GPU_CONVOLVE_OUT ? add_bias(c, out, bias, w->groups * w->out_channels, c->out_size)
                                    : add_bias(c, in, bias, w->groups * w->in_channels, c->in_size);
}

/* ---- Passes ------------------------------------------------------------------------------------------------ */

/* Items that compute one channel of an image with these sizes: GPU_RUN elements of a row each. */
static uint64_t runs_of(const convolution *c, const uint32_t sizes[3])
{
    uint32_t run = gpu_device_of(c->call)->properties.is_processor ? 64 : 1;
    return (uint64_t)sizes[0] * sizes[1] * ((sizes[2] + run - 1) / run);
}

/* Gives `to` from `from`: the out of a convolution from its in, or with `is_transposed` the in from the out. */
static int32_t run_pass(convolution *c, int32_t is_transposed, operand to, operand from, operand weight,
                        operand bias)
{
    const gpu_window *w = &c->w;
    const operand operands[] = {to, from, weight};
    uint64_t at_once, images = (uint64_t)w->images * w->groups,
                      items = is_transposed ? images * w->in_channels * runs_of(c, w->in)
                                            : images * w->out_channels * runs_of(c, w->out);
    if (!items) return TN_OK;
    int32_t status = is_transposed ? run_library(c, GPU_CONVOLVE_IN, to, weight, from, bias)
                                   : run_library(c, GPU_CONVOLVE_OUT, from, weight, to, bias);
    if (status != TN_E_UNSUPPORTED) return status;
    if (!uses_products(c, &at_once))
        return run_directly(c, is_transposed ? "convolve_transposed" : "convolve", operands, &bias, items);
    return is_transposed ? transposed_products(c, to, from, weight, bias, at_once)
                         : forward_products(c, to, from, weight, bias, at_once);
}

static int32_t run_weight(convolution *c, operand weight, operand in, operand out)
{
    uint64_t at_once, elements = (uint64_t)c->w.groups * c->w.out_channels * c->w.in_channels * c->elements;
    const operand operands[] = {weight, in, out};
    if (!elements) return TN_OK;
    int32_t status = run_library(c, GPU_CONVOLVE_WEIGHT, in, weight, out, (operand){0});
    if (status != TN_E_UNSUPPORTED) return status;
    int32_t is_wide =
        gpu_bytes(c->dtype) == 4 || c->w.images == 1; /* sums of several rounds are kept in the result */
    return uses_products(c, &at_once) && (is_wide || at_once == c->w.images)
               ? weight_products(c, weight, in, out, at_once)
               : weigh_directly(c, operands, elements);
}

/* convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
static int32_t convolve(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *weight = gpu_tensor(call->args[1]);
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    int32_t is_transposed = tn_value_as_bool(call->args[6]);
    convolution c = describe(call, 3, is_transposed ? out : in, weight, is_transposed ? in : out);
    operand bias = operand_of(gpu_argument_tensor(call, 2));
    gpu_contiguous result;
    int32_t status = gpu_contiguous_begin(call, out, &result);
    operand to = {result.memory, result.offset};
    if (!status) status = run_pass(&c, is_transposed, to, operand_of(in), operand_of(weight), bias);
    return status ? status : gpu_contiguous_end(call, &result);
}

/*
 * convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
 * groups, output_mask)
 */
static int32_t convolve_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = gpu_tensor(call->args[0]), *in = gpu_tensor(call->args[1]);
    const tn_tensor_desc *weight = gpu_tensor(call->args[2]);
    operand g = operand_of(grad), x = operand_of(in), k = operand_of(weight), none = {0};
    int32_t is_transposed = tn_value_as_bool(call->args[7]), status = TN_OK;
    convolution c = describe(call, 4, is_transposed ? grad : in, weight, is_transposed ? in : grad);
    for (uint32_t i = 0; i < 3 && !status; i++) {
        const tn_tensor_desc *out = call->args[10].as.bools[i] ? gpu_result(call, i) : NULL;
        gpu_contiguous result;
        if (!out) continue;
        status = gpu_contiguous_begin(call, out, &result);
        operand to = {result.memory, result.offset};
        if (status) break;
        if (i == 0) status = run_pass(&c, !is_transposed, to, g, k, none);
        if (i == 1) status = is_transposed ? run_weight(&c, to, g, x) : run_weight(&c, to, x, g);
        if (i == 2) status = gpu_channel_sums(call, grad, out);
        if (!status) status = gpu_contiguous_end(call, &result);
    }
    return status;
}

static const char *can_convolve(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *weight = gpu_tensor(call->args[1]);
    const tn_tensor_desc *bias = gpu_argument_tensor(call, 2);
    if (in->rank != weight->rank || weight->rank < 3 || weight->rank > 5) return "the image has no batch";
    if (in->dtype != weight->dtype || (bias && bias->dtype != in->dtype)) return "the dtypes differ";
    return gpu_can_run(self, call);
}

static const char *can_convolve_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = gpu_tensor(call->args[0]), *in = gpu_tensor(call->args[1]);
    const tn_tensor_desc *weight = gpu_tensor(call->args[2]);
    if (in->rank != weight->rank || weight->rank < 3 || weight->rank > 5) return "the image has no batch";
    if (in->dtype != weight->dtype || grad->dtype != in->dtype) return "the dtypes differ";
    if (!gpu_numel(grad) || !gpu_numel(in)) return "a tensor is empty";
    return gpu_can_run(self, call);
}

#define ROW(text, function, can) GPU_ROW(CONTIGUOUS, text, gpu_float_dtypes, .run = function, .can_run = can)
static const tn_kernel_row rows[] = {
    ROW("convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
        "dilation, "
        "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
        convolve, can_convolve),
    ROW("convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
        "SymInt[] stride, "
        "SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, "
        "bool[3] "
        "output_mask) -> (Tensor, Tensor, Tensor)",
        convolve_backward, can_convolve_backward),
};
const gpu_rows gpu_convolution_rows = GPU_ROW_LIST(rows);
