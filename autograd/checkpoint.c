/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: what a function saves for backward is computed again instead of kept (Chen et al., "Training deep nets with
 * sublinear memory cost", 2016). When the function has run, its graph has a place for each saved tensor, and no tensor. The
 * first place that backward reads makes the function run once more, with hooks that fill all places, and with the random
 * numbers that it drew before.
 */
#include "autograd/saved_tensor.h"

#include "core/autocast.h"
#include "core/context.h"
#include "core/device.h"
#include "core/scope.h"

#include <string.h>

enum { PLACE_SIZES = 8 };

/* Of one tensor that the function saved. */
typedef struct place {
    /* A reference, while the function runs first, and from the second run until backward has read it. */
    tn_tensor *tensor;
    uint64_t version; /* of the tensor when it was saved in forward */
    tn_dtype dtype;   /* of the tensor that was saved */
    uint32_t rank;    /* and as many sizes, of PLACE_SIZES at most */
    int64_t sizes[PLACE_SIZES];
    int32_t is_gone; /* the graph has let go of it */
} place;

typedef struct input {
    tn_tensor *tensor; /* a reference, without history; NULL: absent */
    uint64_t version;
    int32_t requires_grad;
} input;

typedef struct checkpoint {
    atomic_uint refs; /* the call's, and one for each place that the graph has */
    tn_context *ctx;
    uint64_t bytes;
    tn_tensors_fn f;
    void *user;
    tn_checkpoint_options options;
    pthread_mutex_t lock; /* of the places; recursive: the function may let go of some when it runs again */
    tni_vector places;
    uint32_t filled; /* places that the second run has come to */
    int32_t is_running_again;
    tni_random_log random; /* what the first run drew */
    uint32_t excluded_layers;
    tn_dtype default_dtype;
    tn_device default_device;
    tn_scope_options *regions; /* of casts, outermost first */
    uint32_t n_regions;
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
    tni_vector_finish(ctx, &c->random.draws, sizeof(tni_random_draw));
    tni_vector_finish(ctx, &c->places, sizeof(place));
    pthread_mutex_destroy(&c->lock);
    if (c->options.destroy) c->options.destroy(c->user);
    tni_free(ctx, c, c->bytes);
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
    atomic_init(&c->refs, 1);
    c->ctx = c->random.ctx = ctx;
    c->bytes = bytes;
    c->f = f;
    c->user = user;
    c->options = *options;
    c->n_inputs = (uint32_t)inputs.count;
    c->excluded_layers = tni_tls.excluded_layers;
    c->default_dtype = tni_tls.default_dtype ? tni_tls.default_dtype : tn_get_default_dtype(ctx);
    c->default_device = tni_tls.default_device ? tni_tls.default_device : TN_CPU;
    tni_recursive_lock_init(&c->lock);
    int32_t status = note_inputs(c, inputs);
    if (!status) status = note_regions(c);
    if (status) {
        release(c);
        return status;
    }
    *out = c;
    return TN_OK;
}

/* ---- The first run ------------------------------------------------------------------------------------- */

static int32_t is_like(const place *p, const tn_tensor *t)
{
    const uint32_t rank = p->rank < PLACE_SIZES ? p->rank : PLACE_SIZES;
    return p->dtype == t->desc.dtype && p->rank == t->desc.rank &&
           !memcmp(p->sizes, t->desc.sizes, rank * sizeof *p->sizes);
}

static const char *place_text(const place *p, char *text, uint64_t bytes)
{
    return tni_kind_text(p->dtype, p->rank < PLACE_SIZES ? p->rank : PLACE_SIZES, p->sizes, text, bytes);
}

static place place_of(const tn_tensor *t)
{
    place p = {.version = tn_tensor_version(t), .dtype = t->desc.dtype, .rank = t->desc.rank};
    if (p.rank)
        memcpy(p.sizes, t->desc.sizes, (p.rank < PLACE_SIZES ? p.rank : PLACE_SIZES) * sizeof *p.sizes);
    return p;
}

static void *keep_place(void *user, tn_scope *s, tn_tensor *t)
{
    checkpoint *c = user;
    pthread_mutex_lock(&c->lock);
    place *p = tni_vector_push(c->ctx, &c->places, sizeof *p);
    if (p) {
        *p = place_of(t);
        p->tensor = tn_retain(t); /* for backward inside the function; the scope of the run has it anyway */
    }
    uintptr_t number = c->places.count; /* from 1 on */
    pthread_mutex_unlock(&c->lock);
    if (!p) {
        tni_scope_record(s, TN_E_OUT_OF_MEMORY);
        return NULL;
    }
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return (void *)number; /* NOLINT(performance-no-int-to-ptr) */
}

/* Lets go of the tensor of a place, which may be gone now. */
static void empty_place(checkpoint *c, uintptr_t number, int32_t is_gone)
{
    pthread_mutex_lock(&c->lock);
    place *p = (place *)c->places.data + (number - 1);
    tn_tensor *t = p->tensor;
    p->tensor = NULL;
    p->is_gone |= is_gone;
    pthread_mutex_unlock(&c->lock);
    tn_release(t);
}

/* A backward run that keeps the graph has read it: the next one makes the function run again. */
static void leave_place(void *user, void *packed)
{
    empty_place(user, (uintptr_t)packed, 0);
}

static void forget_place(void *user, void *packed)
{
    empty_place(user, (uintptr_t)packed, 1);
    release(user);
}

/* Runs the function in `inner`, with hooks; what it gives is retained in outs[], which is zeroed if it fails. */
static int32_t call(checkpoint *c, tn_scope *inner, tn_tensors inputs, tn_tensor **outs, tn_saved_hooks hooks)
{
    memset(outs, 0, c->options.n_outs * sizeof *outs);
    hooks.size = sizeof hooks;
    hooks.user = c;
    int32_t status = tn_saved_hooks_push(c->ctx, &hooks);
    if (status) return tni_scope_record(inner, status);
    tni_saved_hook_frame *own = tni_saved_hooks();
    const uint32_t mode = tn_grad_mode(), lent = tni_scope_lend(inner);
    if (!c->options.any_random_state) own->head.random = &c->random;
    if (hooks.pack == keep_place) own->read = leave_place;
    status = c->f(c->user, inner, inputs, outs);
    tni_scope_take_back(inner, lent);
    if (status && !tn_scope_failed(inner))
        tni_scope_record(
            inner, tni_error(status, "checkpoint: the function returned the status %d (%s), and no error",
                             status, tn_status_text(status)));
    tn_set_grad_mode(mode);
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
    char before[160], now[160];
    if (p && !p->is_gone && !is_like(p, t)) {
        const place other = place_of(t);
        tni_scope_record(
            s, tni_error(TN_E_AUTOGRAD,
                         "checkpoint: the function saved another tensor when it ran again: tensor %u is "
                         "%s, and was %s in forward",
                         i, place_text(&other, now, sizeof now), place_text(p, before, sizeof before)));
        return NULL;
    }
    if (p && !p->is_gone && !p->tensor) p->tensor = tn_retain(t);
    return tn_retain(t); /* for a function that runs backward through a part of its own */
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
    c->filled = c->random.next = 0;
    c->random.is_short = 0;
    c->random.replays = 1;
    status = call(
        c, s, (tn_tensors){leaves, c->n_inputs}, outs,
        (tn_saved_hooks){.pack = fill_place, .unpack = tni_unpack_reference, .destroy = tni_drop_reference});
    for (uint32_t i = 0; i < c->options.n_outs; i++) tn_release(outs[i]);
    if (!status && c->filled != c->places.count)
        status = tni_scope_record(
            s, tni_error(TN_E_AUTOGRAD,
                         "checkpoint: the function saved %u tensors in forward, and %u when it ran again",
                         c->places.count, c->filled));
    if (!status && c->random.is_short)
        status = tni_scope_record(
            s,
            tni_error(TN_E_AUTOGRAD, "checkpoint: the function drew other random numbers when it ran again"));
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
    c->is_running_again = 1;
    tni_tls.excluded_layers = c->excluded_layers;
    (void)run_in_regions(c, inner, 0);
    tni_tls.excluded_layers = excluded;
    c->is_running_again = 0;
    tn_scope_add_to_error(inner, " (in a checkpoint, whose function ran again for backward)");
    return tn_scope_close(inner);
}

/* A reference to the tensor of a place. */
static int32_t read_locked(checkpoint *c, tn_scope *s, uintptr_t number, tn_tensor **out)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (c->is_running_again)
        return tni_scope_record(s, tni_error(TN_E_AUTOGRAD,
                                             "checkpoint: the function, which ran again for backward, ran "
                                             "backward through what it is computed again for"));
    const place *p = (place *)c->places.data + (number - 1);
    if (!p->tensor && run_again(c, s)) return tn_scope_failed(s);
    /* What the function read besides its inputs may have been written; so may what backward does not read, as statistics. */
    const uint64_t now = tn_tensor_version(p->tensor);
    if (now != p->version) {
        char text[160];
        return tni_scope_record(s, tni_error(TN_E_AUTOGRAD,
                                             "checkpoint: a tensor that the function saved, %s, has been "
                                             "modified by an inplace operation: it "
                                             "is at version %llu; expected version %llu instead",
                                             place_text(p, text, sizeof text), (unsigned long long)now,
                                             (unsigned long long)p->version));
    }
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

static int32_t run_first(checkpoint *c, tn_scope *s, tn_tensors inputs, tn_tensor **out)
{
    tn_scope *inner = tn_scope_open_child(s, NULL);
    if (!inner) return tni_scope_record(s, TN_E_OUT_OF_MEMORY);
    tn_tensor **outs = tn_scope_memory(inner, c->options.n_outs * sizeof *outs);
    int32_t status = tn_scope_failed(inner);
    if (!status)
        status = call(c, inner, inputs, outs,
                      (tn_saved_hooks){.pack = keep_place, .unpack = read_place, .destroy = forget_place});
    for (uint32_t i = 1; i <= c->places.count; i++) empty_place(c, i, 0);
    if (!status && c->random.is_short) status = tni_scope_record(inner, TN_E_OUT_OF_MEMORY);
    for (uint32_t i = 0; outs && i < c->options.n_outs; i++) {
        if (status)
            tn_release(outs[i]);
        else
            out[i] = tn_scope_adopt(s, outs[i]);
    }
    return tn_scope_close(inner);
}

int32_t tn_checkpoint(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs,
                      const tn_checkpoint_options *options, tn_tensor **out)
{
    tn_checkpoint_options o = {0};
    int32_t status = options ? tni_struct_read(&o, sizeof o, options, "tn_checkpoint_options") : TN_OK;
    if (!status && !f) status = tni_error(TN_E_ARGUMENT, "checkpoint: argument 'f' is NULL");
    if (!status && !out) status = tni_error(TN_E_ARGUMENT, "checkpoint: argument 'out' is NULL");
    if (!status && (inputs.count < 0 || (inputs.count && !inputs.data)))
        status = tni_bad_list("checkpoint", "inputs", inputs);
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
