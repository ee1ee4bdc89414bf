/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions and scans of one tensor, argument 0. The shape rule defines every output and gives the dimensions that
 * are reduced or scanned; this file casts the input, makes the outputs and builds the loop nest. The result over
 * no elements is filled with the identity.
 */
#include "dispatcher/backend.h"

static int32_t cast_input(tni_frame *f, tni_prepared *p, const tni_kernel *k, tn_tensor **input)
{
    tn_tensor *t = *input, *copy;
    /* For a result in bool the input is made bool first: kernels convert among numbers, where 0.5 becomes 0. A complex
     * input of a real reduction is cast first, which drops the imaginary parts. */
    int32_t is_first = f->call_dtype == TN_BOOL ||
                       (tn_dtype_is_complex(t->desc.dtype) && !tn_dtype_is_complex(f->call_dtype));
    tn_dtype dtype = k->row.flags & TN_ROW_CASTS && !is_first ? t->desc.dtype : f->call_dtype;
    uint32_t lazy = t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG);
    int32_t status;
    if (t->desc.dtype == dtype && (!lazy || k->row.flags & TN_ROW_LAZY_BITS)) return TN_OK;
    status = tni_contiguous_copy(t, dtype, TN_PRESERVE_FORMAT, &copy);
    if (!status) status = tni_prepared_own(p, copy);
    if (status) return status;
    p->args[0] = tn_value_tensor(copy);
    *input = copy;
    return TN_OK;
}

static void build_nest(const tni_frame *f, tni_nest *nest, tn_tensor *input, tn_tensor **targets,
                       uint32_t n_outs, int32_t scan)
{
    tni_nest_init(nest, input->desc.rank, input->desc.sizes);
    for (uint32_t i = 0; i < n_outs; i++) {
        if (scan)
            tni_nest_add(nest, targets[i], TN_OPERAND_OUTPUT);
        else
            tni_nest_add_reduced(nest, targets[i], f->reduced, f->keepdim);
    }
    tni_nest_add(nest, input, 0);
    if (scan)
        tni_nest_finish_scan(nest, f->reduced);
    else if (f->positions)
        tni_nest_finish_positions(nest, f->reduced);
    else
        tni_nest_finish(nest, f->reduced);
}

static int32_t fill_identity(tni_frame *f, tn_tensor **targets)
{
    for (uint32_t i = 0; i < f->op->base->n_returns; i++) {
        const double both[2] = {f->identity, f->identity};
        tn_tensor *t = targets[i];
        /* A complex NaN has NaN in both parts. */
        int32_t pair = f->identity != f->identity && tn_dtype_is_complex(t->desc.dtype);
        int32_t status = tni_fill_tensor(t, pair ? tn_value_complex(both) : tn_value_float(f->identity));
        if (status) return status;
    }
    return TN_OK;
}

static int32_t run_kernels(tni_frame *f, const tni_kernel *k, tni_prepared *outputs, tn_tensor **targets,
                           int32_t scan, const char **reason)
{
    int32_t status = TN_E_UNSUPPORTED;
    for (; k && status == TN_E_UNSUPPORTED; k = tni_kernel_next(k, f->call_dtype)) {
        tn_tensor *input = tni_arg_tensor(f, 0);
        tni_prepared p;
        tni_nest nest;
        tni_prepared_init(&p, f);
        for (uint32_t i = 0; i < p.n_outs; i++) p.outs[i] = outputs->outs[i];
        status = cast_input(f, &p, k, &input);
        if (!status) {
            build_nest(f, &nest, input, targets, p.n_outs, scan);
            status = tni_kernel_run(f, k, p.args, p.outs, &nest.nest, reason);
        }
        tni_prepared_finish(&p);
    }
    return status;
}

static int32_t run(tni_frame *f, int32_t scan)
{
    tn_tensor *targets[TNI_MAX_OUTPUTS];
    tni_prepared outputs = {.n_temporaries = 0};
    const tni_kernel *k = NULL;
    const char *reason = "no kernel";
    int32_t status = tni_check_devices(f);
    if (!status) status = f->op->base->entry->infer(f);
    if (status) return status;
    if (!f->call_dtype) f->call_dtype = tni_arg_tensor(f, 0)->desc.dtype;
    status = tni_find_device(f);
    if (status) return status;
    if (f->open_device) {
        k = tni_kernel_first(f, f->op->base, f->call_dtype);
        if (!k) return tni_fall_back(f, reason);
    }
    status = tni_make_outputs(f, &outputs, targets, 0);
    if (!status && k && targets[0]->numel > 0) {
        status = tni_arg_tensor(f, 0)->numel ? run_kernels(f, k, &outputs, targets, scan, &reason)
                                             : fill_identity(f, targets);
    }
    if (!status) status = tni_finish_outputs(f, targets);
    tni_prepared_finish(&outputs);
    if (status != TN_E_UNSUPPORTED) return status;
    for (uint32_t i = 0; i < f->n_outs; i++) tni_value_release(f->ctx, &f->outs[i]);
    return tni_fall_back(f, reason);
}

int32_t tni_run_reduction(tni_frame *f)
{
    return run(f, 0);
}

int32_t tni_run_scan(tni_frame *f)
{
    return run(f, 1);
}
