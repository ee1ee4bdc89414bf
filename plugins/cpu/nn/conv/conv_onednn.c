/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convolution and convolution_backward by oneDNN. can_run leaves to conv.c: other dtypes, deterministic mode,
 * tensors that are neither row-major nor channels-last, and shapes that the plugin's own kernels compute faster.
 */
#include "nn/contiguous.h"
#include "support/team.h"
#include "onednn_plan.h"
#include <string.h>

/* ---- What is taken ----------------------------------------------------------------------------------- */

/* Empty tensors, and those whose elements share memory. */
static bool is_degenerate(const tn_tensor_desc *t)
{
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->sizes[i] == 0 || (t->sizes[i] > 1 && t->strides[i] <= 0)) return true;
    return false;
}

/* The strides of an image for the key. Strides of dimensions of size 1 are arbitrary, so they are replaced
 * by their row-major values. */
static void image_strides(const tn_tensor_desc *t, int64_t strides[5])
{
    bool last = !cpu_is_contiguous(t);
    int64_t step = last ? t->sizes[1] : 1;
    if (last) strides[1] = 1;
    for (uint32_t i = t->rank; i-- > 0;) {
        if (last && i == 1) continue;
        strides[i] = step;
        step *= t->sizes[i];
    }
}

static const char *refuse_image(const tn_tensor_desc *t)
{
    if (is_degenerate(t)) return "a tensor is empty or expanded";
    return cpu_is_contiguous(t) || cpu_is_channels_last(t)
               ? NULL
               : "a tensor is neither row-major nor channels-last";
}

static cpu_onednn_plan_key key_of(const tn_call *call, const cpu_conv *c, int32_t kind, bool has_bias,
                                  const tn_tensor_desc *x, const tn_tensor_desc *w, const tn_tensor_desc *y)
{
    cpu_onednn_plan_key key;
    memset(&key, 0, sizeof(key));
    key.geometry = *c;
    key.kind = kind;
    key.has_bias = has_bias;
    key.threads = cpu_team_of(call, call->threads);
    image_strides(x, key.strides[CPU_ONEDNN_PLAN_X]);
    image_strides(y, key.strides[CPU_ONEDNN_PLAN_Y]);
    for (uint32_t i = 0; i < w->rank; i++)
        key.strides[CPU_ONEDNN_PLAN_W][i] = w->sizes[i] == 1 && w->strides[i] <= 0 ? 1 : w->strides[i];
    return key;
}

/*
 * Shapes that the plugin's own kernels compute at least as fast, as measured: small ones, and 1x1 kernels in
 * float32 over row-major images, which are plain products.
 */
static bool own_is_faster(const cpu_conv *c, bool row_major)
{
    int64_t work = c->batch * cpu_volume(c->y_size) * c->y_channels * (c->x_channels / c->groups);
    bool pointwise = cpu_volume(c->kernel) == 1 && cpu_volume(c->stride) == 1 && c->groups == 1;
    if (row_major && pointwise && c->dtype == TN_FLOAT32) return true;
    return work * cpu_volume(c->kernel) < 1 << 17;
}

static const char *refuse(const tn_call *call, const cpu_conv *c, const tn_tensor_desc *x,
                          const tn_tensor_desc *w, const tn_tensor_desc *y)
{
    const char *reason;
    if (c->dtype == TN_BFLOAT16 && (!cpu_onednn_get() || !cpu_onednn_get()->has_bfloat16))
        return "the processor has no products of bfloat16";
    if (call->flags & TN_CALL_DETERMINISTIC) return "oneDNN's sums depend on the number of threads";
    if ((reason = refuse_image(x)) != NULL || (reason = refuse_image(y)) != NULL) return reason;
    if (is_degenerate(w)) return "the weight is empty or expanded";
    if (own_is_faster(c, cpu_is_contiguous(x))) return "own kernels are faster for this shape";
    return cpu_onednn_get() ? NULL : "oneDNN was not found";
}

static const char *refuse_pass(const cpu_onednn_plan_key *key)
{
    const cpu_onednn *dnn = cpu_onednn_get();
    int token = dnn ? cpu_onednn_begin(dnn, (int32_t)key->threads) : -1;
    cpu_onednn_plan *plan;
    if (token < 0) return "oneDNN is not used any more";
    plan = cpu_onednn_plan_take(dnn, key);
    cpu_onednn_end(dnn, token);
    if (!plan) return "oneDNN has no fast kernel for this convolution";
    cpu_onednn_plan_give_back(plan);
    return NULL;
}

/* ---- A pass ------------------------------------------------------------------------------------------ */

typedef struct pass {
    const tn_call *call;
    const cpu_onednn *dnn;
    cpu_onednn_plan *plan;
    void *given[CPU_ONEDNN_PLAN_OPERANDS], *bias;
    /* The operands in oneDNN's layout; NULL if the given one is used. */
    void *memory[CPU_ONEDNN_PLAN_OPERANDS];
    void *scratch; /* of the step that runs */
} pass;

static int32_t run_reorder(pass *p, int i)
{
    const cpu_onednn_plan *plan = p->plan;
    bool back = i == cpu_onednn_plan_written(plan->key.kind);
    cpu_onednn_operand operands[CPU_ONEDNN_OPERANDS] = {
        {DNNL_ARG_FROM, back ? &plan->wanted[i] : &plan->given[i], back ? p->memory[i] : p->given[i]},
        {DNNL_ARG_TO, back ? &plan->given[i] : &plan->wanted[i], back ? p->given[i] : p->memory[i]}};
    if (!plan->reorder[i].primitive) return TN_OK;
    return cpu_onednn_step_run(p->call, p->dnn, &plan->reorder[i], operands, 2, p->scratch);
}

static int32_t run_primitive(pass *p)
{
    static const int names[][CPU_ONEDNN_PLAN_OPERANDS] = {
        [CPU_CONV_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        [CPU_CONV_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
        [CPU_CONV_WEIGHTS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
    const cpu_onednn_plan *plan = p->plan;
    cpu_onednn_operand operands[CPU_ONEDNN_OPERANDS];
    int count = 0;
    for (; count < CPU_ONEDNN_PLAN_OPERANDS; count++)
        operands[count] = (cpu_onednn_operand){names[plan->key.kind][count], &plan->wanted[count],
                                               p->memory[count] ? p->memory[count] : p->given[count]};
    if (plan->key.has_bias)
        operands[count++] = (cpu_onednn_operand){
            plan->key.kind == CPU_CONV_FORWARD ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS, &plan->bias, p->bias};
    return cpu_onednn_step_run(p->call, p->dnn, &plan->pass, operands, count, p->scratch);
}

static int64_t aligned(int64_t bytes)
{
    return round_up(bytes, 64);
}

/* One block for all that the plan needs besides its operands. It comes from the host's cache: to use new memory
 * in each call costs more than the reorders. */
static int32_t take_memory(pass *p)
{
    const cpu_onednn_plan *plan = p->plan;
    int64_t scratch = plan->pass.scratch_bytes, bytes = 0;
    char *memory;
    for (int i = 0; i < CPU_ONEDNN_PLAN_OPERANDS; i++) {
        bytes += aligned(plan->bytes[i]);
        scratch = max_i64(scratch, plan->reorder[i].scratch_bytes);
    }
    if (bytes + scratch == 0) return TN_OK;
    memory = cpu_scratch(p->call, (uint64_t)(bytes + scratch));
    if (!memory) return TN_E_OUT_OF_MEMORY;
    p->scratch = memory + bytes;
    for (int i = 0; i < CPU_ONEDNN_PLAN_OPERANDS; i++) {
        if (plan->reorder[i].primitive) p->memory[i] = memory;
        memory += aligned(plan->bytes[i]);
    }
    return TN_OK;
}

static int32_t run_plan(pass *p)
{
    int written = cpu_onednn_plan_written(p->plan->key.kind);
    int32_t status = take_memory(p);
    for (int i = 0; i < CPU_ONEDNN_PLAN_OPERANDS && status == TN_OK; i++)
        if (i != written) status = run_reorder(p, i);
    if (status == TN_OK) status = run_primitive(p);
    if (status == TN_OK) status = run_reorder(p, written);
    return status;
}

/* TN_E_UNSUPPORTED: oneDNN cannot compute it, and conv.c does. */
static int32_t run_key(const tn_call *call, const cpu_onednn_plan_key *key, const tn_tensor_desc *x,
                       const tn_tensor_desc *w, const tn_tensor_desc *y, const tn_tensor_desc *bias)
{
    const cpu_onednn *dnn = cpu_onednn_get();
    pass p = {
        .call = call, .dnn = dnn, .given = {x->host, w->host, y->host}, .bias = bias ? bias->host : NULL};
    int32_t status = TN_E_UNSUPPORTED;
    int token = dnn ? cpu_onednn_begin(dnn, (int32_t)key->threads) : -1;
    if (token < 0) return TN_E_UNSUPPORTED;
    p.plan = cpu_onednn_plan_take(dnn, key);
    if (p.plan) status = run_plan(&p);
    cpu_onednn_plan_give_back(p.plan);
    cpu_onednn_end(dnn, token);
    return status;
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

static bool is_plain_bias(const tn_tensor_desc *t)
{
    return !t || t->sizes[0] == 1 || t->strides[0] == 1;
}

/* A call as a pass of the ordinary convolution: a transposed one is its backward-data pass, which has no bias. */
typedef struct forward {
    const tn_tensor_desc *x, *w, *y, *bias;
    bool transposed;
    cpu_onednn_plan_key key;
} forward;

static const char *read_forward(const tn_call *call, forward *f)
{
    const tn_tensor_desc *in = tensor_arg(call, 0), *out = tensor_out(call, 0);
    const char *reason;
    cpu_conv c;
    f->transposed = int_arg(call, 6);
    f->x = f->transposed ? out : in;
    f->y = f->transposed ? in : out;
    f->w = tensor_arg(call, 1);
    f->bias = tensor_arg(call, 2);
    if (!is_plain_bias(f->bias)) return "the bias has gaps";
    if (f->transposed && f->bias && f->w->dtype != TN_FLOAT32) return "the result would be rounded twice";
    c = cpu_conv_geometry(call, 3, f->x, f->w, f->y);
    if ((reason = refuse(call, &c, f->x, f->w, f->y)) != NULL) return reason;
    f->key = key_of(call, &c, f->transposed ? CPU_CONV_DATA : CPU_CONV_FORWARD, f->bias && !f->transposed,
                    f->x, f->w, f->y);
    return NULL;
}

static const char *can_run_convolution(void *self, const tn_call *call)
{
    forward f;
    const char *reason = read_forward(call, &f);
    return reason ? reason : refuse_pass(&f.key);
}

/* Items [begin, end) are planes of a row-major image, or pixels of a channels-last one. */
typedef struct bias_job {
    const float *bias;
    float *out;
    int64_t channels, volume;
    bool by_plane;
} bias_job;

static void add_bias_to(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const bias_job *job = user;
    for (int64_t i = begin; i < end; i++) {
        if (job->by_plane) {
            float *to = job->out + i * job->volume, bias = job->bias[i % job->channels];
            for (int64_t k = 0; k < job->volume; k++) to[k] += bias;
        } else {
            float *to = job->out + i * job->channels;
            for (int64_t k = 0; k < job->channels; k++) to[k] += job->bias[k];
        }
    }
}

static void add_bias(const tn_call *call, const tn_tensor_desc *bias, const tn_tensor_desc *out)
{
    bias_job job = {.bias = bias->host,
                    .out = out->host,
                    .channels = out->sizes[1],
                    .volume = cpu_span(out, 2, out->rank),
                    .by_plane = cpu_is_contiguous(out)};
    int64_t length = job.by_plane ? job.volume : job.channels;
    cpu_parallel_ranges(call, cpu_numel(out) / length, grain_for(32768, length), add_bias_to, &job);
}

static int32_t run_convolution(void *self, const tn_call *call)
{
    forward f;
    const char *reason = read_forward(call, &f);
    int32_t status;
    if (reason) return cpu_conv_run(self, call);
    status = run_key(call, &f.key, f.x, f.w, f.y, f.transposed ? NULL : f.bias);
    if (status == TN_E_UNSUPPORTED) return cpu_conv_run(self, call);
    if (status == TN_OK && f.transposed && f.bias) add_bias(call, f.bias, f.x);
    return status;
}

typedef struct backward {
    const tn_tensor_desc *grad, *x, *w, *y,
        *out[3]; /* x, y: of the ordinary convolution; out: NULL if not asked for */
    bool transposed;
    cpu_conv geometry;
    cpu_onednn_plan_key input, weights;
} backward;

/* Fills the keys of tensors that oneDNN can use. */
static const char *read_backward(const tn_call *call, backward *b)
{
    const tn_tensor_desc *in = tensor_arg(call, 1), *const *out = b->out;
    const char *reason;
    b->grad = tensor_arg(call, 0);
    b->w = tensor_arg(call, 2);
    b->transposed = int_arg(call, 7);
    b->x = b->transposed ? b->grad : in;
    b->y = b->transposed ? in : b->grad;
    for (uint32_t i = 0; i < 3; i++) b->out[i] = mask_arg(call, 10, i) ? tensor_out(call, i) : NULL;
    if (out[2] && !b->transposed && (!out[1] || !is_plain_bias(out[2])))
        return "the gradient of the bias is asked for alone, or has gaps";
    b->geometry = cpu_conv_geometry(call, 4, b->x, b->w, b->y);
    if ((reason = refuse(call, &b->geometry, b->x, b->w, b->y)) != NULL) return reason;
    if (out[0] && (reason = refuse_image(out[0])) != NULL) return reason;
    if (out[1] && is_degenerate(out[1])) return "the gradient of the weight is empty or expanded";
    if (out[0] && b->transposed)
        b->input = key_of(call, &b->geometry, CPU_CONV_FORWARD, false, b->x, b->w, out[0]);
    else if (out[0])
        b->input = key_of(call, &b->geometry, CPU_CONV_DATA, false, out[0], b->w, b->y);
    if (out[1])
        b->weights =
            key_of(call, &b->geometry, CPU_CONV_WEIGHTS, out[2] && !b->transposed, b->x, out[1], b->y);
    return NULL;
}

static const char *can_run_backward(void *self, const tn_call *call)
{
    backward b;
    const char *reason = read_backward(call, &b);
    if (!reason && b.out[0]) reason = refuse_pass(&b.input);
    if (!reason && b.out[1]) reason = refuse_pass(&b.weights);
    return reason;
}

static int32_t run_backward(void *self, const tn_call *call)
{
    backward b;
    const char *reason = read_backward(call, &b);
    int32_t status = TN_OK;
    if (reason) return cpu_conv_run_backward(self, call);
    if (b.out[0])
        status = b.transposed ? run_key(call, &b.input, b.x, b.w, b.out[0], NULL)
                              : run_key(call, &b.input, b.out[0], b.w, b.y, NULL);
    if (status == TN_OK && b.out[1])
        status = run_key(call, &b.weights, b.x, b.out[1], b.y, b.transposed ? NULL : b.out[2]);
    if (status == TN_E_UNSUPPORTED) return cpu_conv_run_backward(self, call);
    if (status == TN_OK && b.out[2] && b.transposed) status = cpu_conv_bias_gradient(call, b.grad, b.out[2]);
    return status;
}

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_BFLOAT16, 0};

const tn_kernel_row cpu_conv_onednn_rows[] = {
    {.size = sizeof(tn_kernel_row),
     .strides = TN_STRIDES_ANY,
     .priority = 1,
     .schema =
         "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
         "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
     .dtypes = dtypes,
     .run = run_convolution,
     .can_run = can_run_convolution},
    {.size = sizeof(tn_kernel_row),
     .strides = TN_STRIDES_ANY,
     .priority = 1,
     .schema = "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? "
               "bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] "
               "output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
     .dtypes = dtypes,
     .run = run_backward,
     .can_run = can_run_backward},
};
const uint32_t cpu_conv_onednn_row_count = CPU_ROW_COUNT(cpu_conv_onednn_rows);
