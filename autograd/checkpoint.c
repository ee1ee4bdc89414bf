/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: what a function saves for backward is computed again instead of kept (Chen et al., "Training deep nets with
 * sublinear memory cost", 2016). While the function runs, a pair of hooks keeps a place for each saved tensor, and no
 * tensor. The first place that backward reads makes the function run once more, with hooks that fill all places.
 */
#include "autograd/saved_tensor.h"

#include "core/autocast.h"
#include "core/context.h"
#include "core/scope.h"

#include <string.h>

/* Of one tensor that the function saved. */
typedef struct place {
    tn_tensor *tensor; /* computed again: a reference, till the graph lets go of the place */
    uint64_t version;  /* of the tensor when it was */
    uint64_t shape;    /* of the tensor that was saved: a hash of dtype, device and sizes */
    int32_t is_gone;   /* the graph has let go of it */
} place;

typedef struct input {
    tn_tensor *tensor; /* a reference, without history; NULL: absent */
    uint64_t version;
    int32_t requires_grad;
} input;

/* The state of a device's generator when the function ran first. */
typedef struct randomness {
    tn_generator *generator; /* borrowed: the context's */
    tn_generator_state state;
} randomness;

typedef struct checkpoint {
    atomic_uint refs; /* the call's, and one for each place that the graph has */
    tn_context *ctx;
    uint64_t bytes;
    tn_tensors_fn f;
    void *user;
    tn_checkpoint_options options;
    pthread_mutex_t
        lock; /* of the places; recursive, since the function may let go of some when it runs again */
    tni_vector places;
    uint32_t filled;    /* places that the second run has come to */
    int32_t is_running; /* the function is: for the first time, or again */
    uint32_t excluded_layers;
    tn_dtype default_dtype;
    tn_device default_device;
    tn_scope_options *regions; /* of casts, outermost first */
    uint32_t n_regions;
    randomness *randomness;
    uint32_t n_randomness;
    uint32_t n_inputs;
    input inputs[];
} checkpoint;

/* ---- Life ---------------------------------------------------------------------------------------------- */

static void release(checkpoint *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
    tn_context *ctx = c->ctx;
    for (uint32_t i = 0; i < c->n_inputs; i++) tn_release(c->inputs[i].tensor);
    if (c->regions) tni_free(ctx, c->regions, c->n_regions * sizeof *c->regions);
    if (c->randomness) tni_free(ctx, c->randomness, (c->n_inputs + 2u) * sizeof *c->randomness);
    tni_vector_finish(ctx, &c->places, sizeof(place));
    pthread_mutex_destroy(&c->lock);
    if (c->options.destroy) c->options.destroy(c->user);
    tni_free(ctx, c, c->bytes);
}

static void note_generator(checkpoint *c, tn_device device)
{
    tn_generator *g = tn_default_generator(c->ctx, device);
    for (uint32_t i = 0; i < c->n_randomness && g; i++) {
        if (c->randomness[i].generator == g) return;
    }
    if (!g) return;
    randomness *r = &c->randomness[c->n_randomness++];
    *r = (randomness){g, {.size = sizeof r->state}};
    tn_generator_get_state(g, &r->state);
}

/* Generators of the CPU, of the inputs and of new tensors. */
static int32_t note_randomness(checkpoint *c)
{
    if (c->options.any_random_state) return TN_OK;
    c->randomness = tni_alloc_zeroed(c->ctx, (c->n_inputs + 2u) * sizeof *c->randomness);
    if (!c->randomness) return TN_E_OUT_OF_MEMORY;
    note_generator(c, TN_CPU);
    note_generator(c, c->default_device);
    for (uint32_t i = 0; i < c->n_inputs; i++) {
        if (c->inputs[i].tensor) note_generator(c, c->inputs[i].tensor->desc.device);
    }
    return TN_OK;
}

static int32_t note_regions(checkpoint *c)
{
    for (const tni_autocast *a = tni_tls.autocast; a; a = a->outer) c->n_regions += a->ctx == c->ctx;
    if (!c->n_regions) return TN_OK;
    c->regions = tni_alloc_zeroed(c->ctx, c->n_regions * sizeof *c->regions);
    if (!c->regions) return TN_E_OUT_OF_MEMORY;
    uint32_t i = c->n_regions;
    for (const tni_autocast *a = tni_tls.autocast; a; a = a->outer) {
        if (a->ctx != c->ctx) continue;
        c->regions[--i] =
            (tn_scope_options){.size = sizeof *c->regions,
                               .flags = a->keeps ? 0 : TN_SCOPE_AUTOCAST_NO_CACHE,
                               .autocast = a->enabled ? TN_SCOPE_AUTOCAST_ON : TN_SCOPE_AUTOCAST_OFF,
                               .autocast_dtype = a->low,
                               .autocast_device = a->device_type ? TN_DEVICE(a->device_type, 0) : 0};
    }
    return TN_OK;
}

static int32_t note_inputs(checkpoint *c, tn_tensors inputs)
{
    for (uint32_t i = 0; i < c->n_inputs; i++) {
        tn_tensor *t = inputs.data[i];
        if (!t) continue;
        int32_t status = tni_tensor_twin(t, &c->inputs[i].tensor);
        if (status) return status;
        c->inputs[i].version = tn_tensor_version(t);
        c->inputs[i].requires_grad = tni_wants_grad(t) != 0;
    }
    return TN_OK;
}

static int32_t make(tn_context *ctx, tn_tensors_fn f, void *user, tn_tensors inputs,
                    const tn_checkpoint_options *options, checkpoint **out)
{
    uint64_t bytes = sizeof(checkpoint) + (uint64_t)inputs.count * sizeof(input);
    checkpoint *c = tni_alloc_zeroed(ctx, bytes);
    if (!c) {
        if (options->destroy) options->destroy(user);
        return TN_E_OUT_OF_MEMORY;
    }
    pthread_mutexattr_t recursive;
    atomic_init(&c->refs, 1);
    c->ctx = ctx;
    c->bytes = bytes;
    c->f = f;
    c->user = user;
    c->options = *options;
    c->n_inputs = (uint32_t)inputs.count;
    c->excluded_layers = tni_tls.excluded_layers;
    c->default_dtype = tni_tls.default_dtype ? tni_tls.default_dtype : tn_get_default_dtype(ctx);
    c->default_device = tni_tls.default_device ? tni_tls.default_device : TN_CPU;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&c->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    int32_t status = note_inputs(c, inputs);
    if (!status) status = note_regions(c);
    if (!status) status = note_randomness(c);
    if (status) {
        release(c);
        return status;
    }
    *out = c;
    return TN_OK;
}

/* ---- The first run ------------------------------------------------------------------------------------- */

/* FNV-1a (Fowler, Noll and Vo) over what must be alike in both runs. */
static uint64_t shape_of(const tn_tensor *t)
{
    uint64_t hash = 14695981039346656037u ^ t->desc.dtype;
    hash = (hash * 1099511628211u ^ t->desc.device) * 1099511628211u;
    for (uint32_t i = 0; i < t->desc.rank; i++) hash = (hash ^ (uint64_t)t->desc.sizes[i]) * 1099511628211u;
    return hash;
}

static void *keep_place(void *user, tn_scope *s, tn_tensor *t)
{
    checkpoint *c = user;
    pthread_mutex_lock(&c->lock);
    place *p = tni_vector_push(c->ctx, &c->places, sizeof *p);
    if (p) *p = (place){.shape = shape_of(t)};
    uintptr_t number = c->places.count; /* from 1 on */
    pthread_mutex_unlock(&c->lock);
    if (!p) {
        tni_scope_record(s, TN_E_OUT_OF_MEMORY);
        return NULL;
    }
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return (void *)number; /* NOLINT(performance-no-int-to-ptr) */
}

static void forget_place(void *user, void *packed)
{
    checkpoint *c = user;
    pthread_mutex_lock(&c->lock);
    place *p = (place *)c->places.data + ((uintptr_t)packed - 1);
    tn_tensor *t = p->tensor;
    *p = (place){.is_gone = 1};
    pthread_mutex_unlock(&c->lock);
    tn_release(t);
    release(c);
}

/* Runs the function in `inner`, with hooks; what it gives is retained in outs[], which is zeroed if it fails. */
static int32_t call(checkpoint *c, tn_scope *inner, tn_tensors inputs, tn_tensor **outs, tn_saved_hooks hooks)
{
    memset(outs, 0, c->options.n_outs * sizeof *outs);
    hooks.size = sizeof hooks;
    hooks.user = c;
    int32_t status = tn_saved_hooks_push(c->ctx, &hooks);
    if (status) return tni_scope_record(inner, status);
    const struct tni_saved_hook_frame *own = tni_tls.saved_hooks;
    status = c->f(c->user, inner, inputs, outs);
    if (status && !tn_scope_failed(inner)) tni_scope_record(inner, tni_error_ensure(status, "checkpoint"));
    status = tni_saved_hooks_end(own, "checkpoint");
    if (status) tni_scope_record(inner, status);
    for (uint32_t i = 0; i < c->options.n_outs && !tn_scope_failed(inner); i++) {
        if (!outs[i])
            tni_scope_record(inner,
                             tni_error(TN_E_ARGUMENT, "checkpoint: the function did not set output %u", i));
    }
    status = tn_scope_failed(inner);
    for (uint32_t i = 0; i < c->options.n_outs; i++) outs[i] = status ? NULL : tn_retain(outs[i]);
    return status;
}

/* ---- The second run ------------------------------------------------------------------------------------ */

static void *fill_place(void *user, tn_scope *s, tn_tensor *t)
{
    checkpoint *c = user;
    uint32_t i = c->filled++;
    place *p = i < c->places.count ? (place *)c->places.data + i : NULL;
    if (p && !p->is_gone && p->shape != shape_of(t)) {
        tni_scope_record(s, tni_error(TN_E_AUTOGRAD,
                                      "checkpoint: the function saved other tensors when it ran again: "
                                      "tensor %u has another dtype, device or shape than in forward",
                                      i));
        return NULL;
    }
    if (p && !p->is_gone && !p->tensor) {
        p->tensor = tn_retain(t);
        p->version = tn_tensor_version(t);
    }
    return tn_retain(t); /* for a function that runs backward through a part of its own */
}

static tn_tensor *read_filled(void *user, tn_scope *s, void *packed)
{
    (void)user;
    return tni_scope_own(s, tn_retain(packed));
}

static void forget_filled(void *user, void *packed)
{
    (void)user;
    tn_release(packed);
}

/* Puts the generators into the noted states, and notes those they had: twice is as before. */
static int32_t exchange_randomness(checkpoint *c)
{
    for (uint32_t i = 0; i < c->n_randomness; i++) {
        randomness *r = &c->randomness[i];
        tn_generator_state now = {.size = sizeof now};
        tn_generator_get_state(r->generator, &now);
        int32_t status = tn_generator_set_state(r->generator, &r->state);
        if (status) return status;
        r->state = now;
    }
    return TN_OK;
}

/* The inputs as leaves of a graph of their own. */
static int32_t make_leaves(const checkpoint *c, tn_scope *s, tn_tensor **leaves)
{
    for (uint32_t i = 0; i < c->n_inputs; i++) {
        const input *in = &c->inputs[i];
        leaves[i] = NULL;
        if (!in->tensor) continue;
        if (tn_tensor_version(in->tensor) != in->version)
            return tni_error(
                TN_E_AUTOGRAD,
                "checkpoint: input %u has been modified by an inplace operation: it is at version "
                "%llu; expected version %llu instead",
                i, (unsigned long long)tn_tensor_version(in->tensor), (unsigned long long)in->version);
        int32_t status = tni_tensor_twin(in->tensor, &leaves[i]);
        if (status) return status;
        if (!tni_scope_own(s, leaves[i])) return TN_E_OUT_OF_MEMORY;
        if (in->requires_grad) status = tn_set_requires_grad(leaves[i], 1);
        if (status) return status;
    }
    return TN_OK;
}

static int32_t run_with_hooks(checkpoint *c, tn_scope *s)
{
    tn_tensor **leaves = tn_scope_memory(s, (c->n_inputs + 1u) * sizeof *leaves);
    tn_tensor **outs = tn_scope_memory(s, c->options.n_outs * sizeof *outs);
    if (!leaves || !outs) return tn_scope_failed(s);
    int32_t status = make_leaves(c, s, leaves);
    if (status) return tni_scope_record(s, status);
    c->filled = 0;
    status = call(c, s, (tn_tensors){leaves, c->n_inputs}, outs,
                  (tn_saved_hooks){.pack = fill_place, .unpack = read_filled, .destroy = forget_filled});
    for (uint32_t i = 0; i < c->options.n_outs; i++) tn_release(outs[i]);
    if (!status && c->filled != c->places.count)
        status = tni_scope_record(
            s, tni_error(TN_E_AUTOGRAD,
                         "checkpoint: the function saved %u tensors in forward, and %u when it ran again",
                         c->places.count, c->filled));
    return status;
}

/* Opens the regions of casts from number i on, each in a scope inside that of the last, and runs the function there. */
static int32_t run_in_regions(checkpoint *c, tn_scope *s, uint32_t i)
{
    if (i == c->n_regions) return run_with_hooks(c, s);
    tn_scope *inner = tn_scope_open_child(s, &c->regions[i]);
    if (!inner) return tni_scope_record(s, TN_E_OUT_OF_MEMORY);
    (void)run_in_regions(c, inner, i + 1);
    return tn_scope_close(inner);
}

static int32_t run_again(checkpoint *c, tn_scope *s)
{
    const tn_scope_options as_before = {.size = sizeof as_before,
                                        .grad_mode = TN_GRAD_ON,
                                        .default_dtype = c->default_dtype,
                                        .device = c->default_device,
                                        .autocast = TN_SCOPE_AUTOCAST_OFF};
    const uint32_t excluded = tni_tls.excluded_layers; /* backward runs without casts */
    tn_scope *inner = tn_scope_open_child(s, &as_before);
    if (!inner) return tni_scope_record(s, TN_E_OUT_OF_MEMORY);
    int32_t status = exchange_randomness(c);
    if (status) {
        tni_scope_record(inner, status);
    } else {
        c->is_running = 1;
        tni_tls.excluded_layers = c->excluded_layers;
        (void)run_in_regions(c, inner, 0);
        tni_tls.excluded_layers = excluded;
        c->is_running = 0;
        status = exchange_randomness(c);
        if (status) tni_scope_record(inner, status);
    }
    return tn_scope_close(inner);
}

/* A reference to the tensor of a place. */
static int32_t read_locked(checkpoint *c, tn_scope *s, uintptr_t number, tn_tensor **out)
{
    if (c->is_running)
        return tni_scope_record(s, tni_error(TN_E_AUTOGRAD, "checkpoint: the function runs backward through "
                                                            "itself, which it cannot in a checkpoint"));
    place *all = c->places.data;
    if (!all[number - 1].tensor && run_again(c, s)) return tn_scope_failed(s);
    const place *p = &all[number - 1];
    if (tn_tensor_version(p->tensor) != p->version)
        return tni_scope_record(s, tni_error(TN_E_AUTOGRAD,
                                             "checkpoint: a tensor that the function saved has been "
                                             "modified by an inplace operation"));
    *out = tn_retain(p->tensor);
    return TN_OK;
}

static tn_tensor *read_place(void *user, tn_scope *s, void *packed)
{
    checkpoint *c = user;
    tn_tensor *t = NULL;
    pthread_mutex_lock(&c->lock);
    (void)read_locked(c, s, (uintptr_t)packed, &t);
    pthread_mutex_unlock(&c->lock);
    return t ? tni_scope_own(s, t) : NULL;
}

/* ---- public -------------------------------------------------------------------------------------------- */

static void set_running(checkpoint *c, int32_t run)
{
    pthread_mutex_lock(&c->lock);
    c->is_running = run;
    pthread_mutex_unlock(&c->lock);
}

static int32_t run_first(checkpoint *c, tn_scope *s, tn_tensors inputs, tn_tensor **out)
{
    tn_scope *inner = tn_scope_open_child(s, NULL);
    if (!inner) return tni_scope_record(s, TN_E_OUT_OF_MEMORY);
    tn_tensor **outs = tn_scope_memory(inner, c->options.n_outs * sizeof *outs);
    set_running(c, 1);
    int32_t status = tn_scope_failed(inner);
    if (!status)
        status = call(c, inner, inputs, outs,
                      (tn_saved_hooks){.pack = keep_place, .unpack = read_place, .destroy = forget_place});
    set_running(c, 0);
    for (uint32_t i = 0; i < c->options.n_outs && !status; i++) out[i] = tn_scope_adopt(s, outs[i]);
    return tn_scope_close(inner);
}

int32_t tn_checkpoint(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs,
                      const tn_checkpoint_options *options, tn_tensor **out)
{
    tn_checkpoint_options o = {0};
    int32_t status = options ? tni_struct_read(&o, sizeof o, options, "tn_checkpoint_options") : TN_OK;
    if (!status && (!f || !out || inputs.count < 0 || (inputs.count && !inputs.data)))
        status = tni_error(TN_E_ARGUMENT,
                           "checkpoint: a function, its inputs and a place for the outputs are required");
    if (status || tn_scope_failed(s)) {
        if (o.destroy) o.destroy(user);
        return tn_scope_failed(s) ? tn_scope_failed(s) : tni_scope_record(s, status);
    }
    if (!o.n_outs) o.n_outs = 1;
    checkpoint *c = NULL;
    const uint8_t place_follows = tni_tls.place_follows; /* calls of the function have places of their own */
    status = make(tn_scope_context(s), f, user, inputs, &o, &c);
    if (status) return tni_scope_record(s, status);
    (void)run_first(c, s, inputs, out);
    tni_tls.place_follows |= place_follows;
    release(c);
    return tn_scope_failed(s);
}
