/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks with which a program stores something else in place of the tensors that forward saves: a compressed copy, a file, what
 * is needed to compute them again. The library offers two pairs: copies on the host, and copies on the device.
 */
#include "autograd/saved_tensor.h"

#include "core/context.h"
#include "core/scope.h"

#include <string.h>

#include <tenon/ops.h>

static int32_t push(tn_context *ctx, const tn_saved_hooks *hooks, char *refusal)
{
    tni_saved_hook_frame *frame = tni_alloc_zeroed(ctx, sizeof *frame);
    if (!frame) return TN_E_OUT_OF_MEMORY;
    *frame = (tni_saved_hook_frame){.head.outer = tni_tls.saved_hooks, .ctx = ctx, .refusal = refusal};
    if (hooks) frame->hooks = *hooks;
    tni_tls.saved_hooks = &frame->head;
    return TN_OK;
}

int32_t tn_saved_hooks_push(tn_context *ctx, const tn_saved_hooks *hooks)
{
    const char *missing = !ctx ? "ctx" : !hooks ? "hooks" : NULL;
    if (missing) return tni_error(TN_E_ARGUMENT, "saved_hooks_push: argument '%s' is NULL", missing);
    tn_saved_hooks known;
    int32_t status = tni_context_check(ctx);
    if (!status) status = tni_struct_read(&known, sizeof known, hooks, "tn_saved_hooks");
    if (status) return status;
    if (!known.pack || !known.unpack)
        return tni_error(TN_E_ARGUMENT, "saved_hooks_push: the function '%s' is NULL",
                         known.pack ? "unpack" : "pack");
    const tni_saved_hook_frame *innermost = tni_saved_hooks();
    if (innermost && innermost->refusal) return tni_error(TN_E_AUTOGRAD, "%s", innermost->refusal);
    return push(ctx, &known, NULL);
}

int32_t tn_disable_saved_tensors_hooks(tn_context *ctx, const char *message)
{
    if (!ctx || !message)
        return tni_error(TN_E_ARGUMENT, "disable_saved_tensors_hooks: argument '%s' is NULL",
                         ctx ? "message" : "ctx");
    int32_t status = tni_context_check(ctx);
    if (status) return status;
    const tni_saved_hook_frame *innermost = tni_saved_hooks();
    if (innermost && !innermost->refusal) return tni_error(TN_E_AUTOGRAD, "%s", message);
    uint64_t bytes = strlen(message) + 1;
    char *text = tni_alloc(ctx, bytes);
    if (!text) return TN_E_OUT_OF_MEMORY;
    status = push(ctx, NULL, memcpy(text, message, bytes));
    if (status) tni_free(ctx, text, bytes);
    return status;
}

static void free_frame(tni_saved_hook_frame *frame)
{
    tn_context *ctx = frame->ctx;
    if (frame->refusal) tni_free(ctx, frame->refusal, strlen(frame->refusal) + 1);
    tni_free(ctx, frame, sizeof *frame);
}

static void pop(void)
{
    tni_saved_hook_frame *frame = tni_saved_hooks();
    tni_tls.saved_hooks = frame->head.outer;
    free_frame(frame);
}

void tn_saved_hooks_pop(tn_context *ctx)
{
    if (tni_tls.saved_hooks && tni_saved_hooks()->ctx == ctx) pop();
}

int32_t tni_saved_hooks_end(const tni_saved_hook_frame *frame, const char *who)
{
    const tni_saving *f = tni_tls.saved_hooks;
    while (f && f != &frame->head) f = f->outer;
    if (!f)
        return tni_error(TN_E_STATE, "%s: the function popped hooks of saved tensors that it did not push",
                         who);
    const int32_t is_innermost = tni_tls.saved_hooks == &frame->head;
    while (tni_tls.saved_hooks != &frame->head) pop();
    pop();
    return is_innermost
               ? TN_OK
               : tni_error(TN_E_STATE, "%s: the function pushed hooks of saved tensors and did not pop them",
                           who);
}

void tni_saved_hooks_finish(const tn_context *ctx)
{
    for (tni_saving **link = &tni_tls.saved_hooks; *link;) {
        tni_saved_hook_frame *frame = (tni_saved_hook_frame *)*link;
        if (frame->ctx == ctx) {
            *link = frame->head.outer;
            free_frame(frame);
        } else {
            link = &frame->head.outer;
        }
    }
}

/* ---- On the host --------------------------------------------------------------------------------------- */

typedef struct on_cpu {
    tn_tensor *tensor; /* a reference */
    tn_device device;  /* from which it came */
    uint64_t version;  /* of the tensor, which the program can write where no copy was made */
} on_cpu;

static const int pinned; /* its address is the user pointer of hooks that pin */

static void *pack_on_cpu(void *user, tn_scope *s, tn_tensor *t)
{
    tn_tensor *kept = t;
    if (TN_DEVICE_TYPE(t->desc.device) != TN_INTERNED_CPU)
        kept = tn__to_copy(s, t, .device = TN_CPU, .pin_memory = user == &pinned);
    on_cpu *packed = kept ? tni_alloc(t->ctx, sizeof *packed) : NULL;
    if (packed)
        *packed = (on_cpu){tn_retain(kept), t->desc.device, tn_tensor_version(kept)};
    else if (kept)
        tni_scope_record(s, TN_E_OUT_OF_MEMORY);
    return packed;
}

static tn_tensor *unpack_on_cpu(void *user, tn_scope *s, void *what)
{
    const on_cpu *packed = what;
    tn_tensor *t = tni_scope_own(s, tn_retain(packed->tensor));
    if (!t) return NULL;
    if (tn_tensor_version(t) != packed->version) {
        tni_scope_record(s,
                         tni_error(TN_E_AUTOGRAD, "save_on_cpu: a saved tensor, which lay on the CPU and was "
                                                  "not copied, has been modified by an inplace operation"));
        return NULL;
    }
    if (packed->device == t->desc.device) return t;
    return tn__to_copy(s, t, .device = packed->device, .non_blocking = user == &pinned);
}

static void destroy_on_cpu(void *user, void *what)
{
    (void)user;
    on_cpu *packed = what;
    tn_context *ctx = packed->tensor->ctx;
    tn_release(packed->tensor);
    tni_free(ctx, packed, sizeof *packed);
}

static int32_t push_pair(tn_context *ctx, const char *who, tn_saved_hooks hooks)
{
    if (!ctx) return tni_error(TN_E_ARGUMENT, "%s: argument 'ctx' is NULL", who);
    hooks.size = sizeof hooks;
    return tn_saved_hooks_push(ctx, &hooks);
}

int32_t tn_save_on_cpu(tn_context *ctx, int32_t pin_memory)
{
    return push_pair(ctx, "save_on_cpu",
                     (tn_saved_hooks){.user = pin_memory ? (void *)(uintptr_t)&pinned : NULL,
                                      .pack = pack_on_cpu,
                                      .unpack = unpack_on_cpu,
                                      .destroy = destroy_on_cpu});
}

/* ---- Copies -------------------------------------------------------------------------------------------- */

static void *pack_copy(void *user, tn_scope *s, tn_tensor *t)
{
    (void)user;
    return tn_retain(tn_clone(s, t));
}

tn_tensor *tni_unpack_reference(void *user, tn_scope *s, void *packed)
{
    (void)user;
    return tni_scope_own(s, tn_retain(packed));
}

void tni_drop_reference(void *user, void *packed)
{
    (void)user;
    tn_release(packed);
}

int32_t tn_allow_mutation_on_saved_tensors(tn_context *ctx)
{
    return push_pair(
        ctx, "allow_mutation_on_saved_tensors",
        (tn_saved_hooks){.pack = pack_copy, .unpack = tni_unpack_reference, .destroy = tni_drop_reference});
}
