/* SPDX-License-Identifier: Apache-2.0 */
/* Averages of parameters, and scaling of gradients. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "number_text.h"
#include "optimizer.h"
#include "tensors.h"

struct tn_average {
    tn_context *ctx;
    const tn_module *module;
    module_life *life;
    uint64_t generation; /* of the module when its tensors were taken */
    uint32_t count;
    double decay;
    int64_t updates;
    int32_t is_swapped;          /* the module has the averages, and `means` its own values */
    char **names;                /* of the parameters, in the module's order when it was made */
    tn_tensor **values, **means; /* one reference each */
    handle_mark mark;
};

void tn_average_destroy(tn_average *a)
{
    if (!a || !handle_end(&a->mark, "average", __builtin_return_address(0))) return;
    for (uint32_t i = 0; i < a->count; i++) {
        tn_release(a->values[i]);
        tn_release(a->means[i]);
        free(a->names[i]);
    }
    free(a->names);
    free(a->values);
    free(a->means);
    module_life_release(a->life);
    a->life = NULL;
    a->count = 0;
    handle_free(a);
}

tn_average *tn_average_create(tn_module *module, double decay)
{
    tn_average *a = module ? calloc(1, sizeof *a) : NULL;
    tn_scope_options options = {.size = sizeof options, .grad_mode = TN_GRAD_OFF};
    if (!module) return optim_fail_null(NULL, "tn_average_create: the module"), NULL;
    if (!a) return tn_scope_fail(NULL, TN_E_OUT_OF_MEMORY, NULL), NULL;
    a->ctx = tn_module_context(module);
    a->module = module;
    a->life = module_life_of(module);
    a->generation = tn_module_generation(module);
    tn_scope *s = tn_scope_open_with(tn_module_context(module), &options);
    if (!s) return tn_average_destroy(a), NULL;
    tn_named_tensors all = tn_module_tensors(s, module, TN_PARAMETERS);
    a->names = calloc((size_t)all.count + 1, sizeof *a->names);
    a->values = calloc((size_t)all.count + 1, sizeof *a->values);
    a->means = calloc((size_t)all.count + 1, sizeof *a->means);
    a->decay = decay;
    if (!a->names || !a->values || !a->means) tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
    if (!(decay >= 0 && decay <= 1)) {
        char text[96];
        plain_snprintf(text, sizeof text, "tn_average_create: decay must be from 0 to 1, got %g", decay);
        tn_scope_fail(s, TN_E_ARGUMENT, text);
    }
    for (int64_t i = 0; i < all.count && !tn_scope_failed(s); i++) {
        a->names[i] = strdup(all.data[i].name);
        a->values[i] = tn_retain(all.data[i].tensor);
        a->means[i] = tn_retain(tn_clone(s, tn_detach(s, all.data[i].tensor)));
        a->count++;
        if (!a->names[i]) tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
    }
    handle_begin(tn_module_context(module), a, "average of module '%s'", tn_module_name(module));
    if (!tn_scope_close(s)) return a;
    tn_average_destroy(a);
    return NULL;
}

/* Takes the tensors that the module now has, and moves the means to them. */
static void follow_module(tn_scope *s, tn_average *a)
{
    if (module_life_check(s, a->life, "average")) return;
    uint64_t now = tn_module_generation(a->module);
    if (now == a->generation) return;
    tn_tensors all = tn_module_parameters(s, a->module);
    if (!tn_scope_failed(s) && all.count != a->count)
        tn_scope_fail(s, TN_E_STATE,
                      "average: the module has another number of parameters than when it began");
    for (uint32_t i = 0; i < a->count && !tn_scope_failed(s); i++) {
        tn_tensor *value = optim_find(a->module, &a->names[i]);
        if (!value || !same_sizes(value, a->means[i])) {
            char text[256];
            snprintf(text, sizeof text, "average: %s '%.180s'%s",
                     value ? "parameter" : "the module has no parameter", a->names[i],
                     value ? " has other sizes than its mean" : " any more");
            tn_scope_fail(s, value ? TN_E_SHAPE : TN_E_STATE, text);
            return;
        }
        tn_tensor *mean = optim_state_like(s, a->means[i], value);
        if (!mean) return;
        tn_retain(mean);
        tn_release(a->means[i]);
        a->means[i] = mean;
        tn_retain(value);
        tn_release(a->values[i]);
        a->values[i] = value;
    }
    if (!tn_scope_failed(s)) a->generation = now;
}

/* Refuses what needs the averages in their place: it would take the values of training for them. */
static int32_t refuse_swapped(tn_scope *s, const tn_average *a, const char *call)
{
    char text[160];
    if (!a->is_swapped) return TN_OK;
    snprintf(text, sizeof text,
             "%s: the averages are in the module; call tn_average_swap before, to exchange them back", call);
    return tn_scope_fail(s, TN_E_STATE, text);
}

int32_t tn_average_update(tn_scope *scope, tn_average *a)
{
    if (!a) return optim_fail_null(scope, "tn_average_update: the average");
    if (handle_refuse(scope, &a->mark, "average")) return TN_E_DEAD_HANDLE;
    if (refuse_swapped(scope, a, "tn_average_update")) return tn_scope_failed(scope);
    tn_scope *s = optim_without_recording(scope);
    if (!s) return tn_scope_failed(scope);
    follow_module(s, a);
    double weight = a->updates == 0 ? 1 : a->decay != 0 ? 1 - a->decay : 1 / (double)(a->updates + 1);
    for (uint32_t i = 0; i < a->count; i++) {
        tn_tensor *value = tn_detach(s, a->values[i]);
        if (tn_dtype_is_floating(tn_tensor_dtype(value)) || tn_dtype_is_complex(tn_tensor_dtype(value)))
            tn_lerp_scalar_(s, a->means[i], value, weight);
        else
            tn_copy_(s, a->means[i], value);
    }
    if (!tn_scope_failed(s)) a->updates++;
    return tn_scope_close(s);
}

int32_t tn_average_swap(tn_scope *scope, tn_average *a)
{
    if (!a) return optim_fail_null(scope, "tn_average_swap: the average");
    if (handle_refuse(scope, &a->mark, "average")) return TN_E_DEAD_HANDLE;
    tn_scope *s = optim_without_recording(scope);
    if (!s) return tn_scope_failed(scope);
    follow_module(s, a);
    tn_tensor **values = tn_scope_memory(s, (a->count + 1u) * sizeof *values),
              **kept = tn_scope_memory(s, (a->count + 1u) * sizeof *kept);
    for (uint32_t i = 0; values && kept && i < a->count; i++) {
        values[i] = tn_detach(s, a->values[i]);
        kept[i] = tn_clone(s, values[i]);
    }
    for (uint32_t i = 0; i < a->count && !tn_scope_failed(s); i++) { /* there is memory: all are exchanged */
        tn_copy_(s, values[i], a->means[i]);
        tn_copy_(s, a->means[i], kept[i]);
    }
    if (!tn_scope_failed(s)) a->is_swapped = !a->is_swapped;
    return tn_scope_close(s);
}

tn_named_tensors tn_average_tensors(tn_scope *s, const tn_average *a)
{
    const tn_named_tensors none = {NULL, 0};
    if (!a) return optim_fail_null(s, "tn_average_tensors: the average"), none;
    if (handle_refuse(s, &a->mark, "average")) return none;
    if (module_life_check(s, a->life, "average")) return none;
    if (refuse_swapped(s, a, "tn_average_tensors")) return none;
    tn_tensors all = tn_module_parameters(s, a->module);
    tn_named_tensor *list = tn_scope_memory(s, (a->count + 1u) * sizeof *list);
    if (list && all.count != a->count)
        tn_scope_fail(s, TN_E_STATE,
                      "average: the module has another number of parameters than when it began");
    for (uint32_t i = 0; list && i < a->count && !tn_scope_failed(s); i++)
        list[i] = (tn_named_tensor){tn_text(s, "%s", a->names[i]), a->means[i]};
    if (list)
        list[a->count] =
            (tn_named_tensor){"#updates", tn_scalar_tensor_of(s, tn_value_int(a->updates), TN_INT64, TN_CPU)};
    return tn_scope_failed(s) ? none : (tn_named_tensors){list, a->count + 1};
}

static tn_tensor *find(tn_scope *s, tn_named_tensors state, const char *name)
{
    char text[256];
    for (int64_t i = 0; i < state.count; i++)
        if (state.data[i].name && !strcmp(state.data[i].name, name)) return state.data[i].tensor;
    snprintf(text, sizeof text, "average: the state has no '%.180s'", name);
    tn_scope_fail(s, TN_E_NOT_FOUND, text);
    return NULL;
}

/* Looks at all of the state first, so that a bad one changes nothing. */
int32_t tn_average_load_state(tn_average *a, tn_named_tensors state)
{
    if (!a) return optim_fail_null(NULL, "tn_average_load_state: the average");
    if (handle_refuse(NULL, &a->mark, "average")) return TN_E_DEAD_HANDLE;
    if (refuse_null_items(NULL, "average", state)) return TN_E_ARGUMENT;
    if (refuse_swapped(NULL, a, "tn_average_load_state")) return TN_E_STATE;
    tn_scope_options options = {.size = sizeof options, .grad_mode = TN_GRAD_OFF};
    tn_scope *s = tn_scope_open_with(a->ctx, &options);
    if (!s) return tn_last_error()->code;
    follow_module(s, a);
    tn_named_tensors mine = tn_average_tensors(s, a);
    for (int64_t i = 0; i < mine.count && !tn_scope_failed(s); i++) {
        tn_tensor *t = find(s, state, mine.data[i].name), *own = mine.data[i].tensor;
        if (t && !same_sizes(t, own)) {
            char text[256];
            snprintf(text, sizeof text, "average: '%.180s' of the state has other sizes than the parameter",
                     mine.data[i].name);
            tn_scope_fail(s, TN_E_SHAPE, text);
        }
    }
    const int64_t updates = tn_scope_failed(s) ? 0 : tn_item_int(s, find(s, state, "#updates"));
    if (updates < 0) {
        char text[96];
        snprintf(text, sizeof text, "average: the state has %lld updates", (long long)updates);
        tn_scope_fail(s, TN_E_CORRUPT, text);
    }
    for (uint32_t i = 0; i < a->count && !tn_scope_failed(s); i++)
        tn_copy_(s, a->means[i], find(s, state, mine.data[i].name));
    if (!tn_scope_failed(s)) a->updates = updates;
    return tn_scope_close(s);
}

/* ---- Scaling --------------------------------------------------------------------------------------------- */

/* An optimiser whose gradients were divided by the present scale. */
typedef struct divided {
    const tn_optimizer *optimizer; /* compared only */
    int32_t found;                 /* a gradient is not finite */
    int32_t has_stepped;
} divided;

struct tn_grad_scaler {
    tn_context *ctx;
    double scale, growth, backoff;
    int64_t interval, good; /* good: steps since the last overflow */
    divided *list;          /* since the scale was adapted */
    uint32_t count, room;
    handle_mark mark;
};

static divided *find_divided(const tn_grad_scaler *g, const tn_optimizer *o)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->list[i].optimizer == o) return &g->list[i];
    return NULL;
}

/* Scale and good steps once all steps of this scale are over, which count as one. */
static tn_grad_scaler_state adapted(const tn_grad_scaler *g)
{
    tn_grad_scaler_state to = {.scale = g->scale, .good = g->good};
    int32_t has_stepped = 0, found = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        has_stepped |= g->list[i].has_stepped;
        found |= g->list[i].found;
    }
    if (!has_stepped) return to;
    to.good = found ? 0 : to.good + 1;
    if (found) to.scale *= g->backoff;
    if (to.good < g->interval) return to;
    to.good = 0;
    if (isfinite((float)(to.scale * g->growth)))
        to.scale *= g->growth; /* gradients are multiplied in float32 */
    return to;
}

static void begin_scale(tn_grad_scaler *g, tn_grad_scaler_state state)
{
    g->scale = state.scale;
    g->good = state.good;
    g->count = 0;
}

tn_grad_scaler *tn_grad_scaler_create(tn_context *ctx, const tn_grad_scaler_options *options)
{
    tn_grad_scaler *g = ctx ? calloc(1, sizeof *g) : NULL;
    if (!ctx) return optim_fail_null(NULL, "tn_grad_scaler_create: the context"), NULL;
    if (!g) return tn_scope_fail(NULL, TN_E_OUT_OF_MEMORY, NULL), NULL;
    if (handle_context_check(ctx)) return free(g), NULL;
    *g = (tn_grad_scaler){.ctx = ctx, .scale = 65536, .growth = 2, .backoff = 0.5, .interval = 2000};
    handle_begin(ctx, g, "grad scaler");
    if (!options) return g;
    if (options->scale > 0) g->scale = options->scale;
    if (options->growth > 0) g->growth = options->growth;
    if (options->backoff > 0) g->backoff = options->backoff;
    if (options->interval > 0) g->interval = options->interval;
    return g;
}

void tn_grad_scaler_destroy(tn_grad_scaler *g)
{
    if (!g || !handle_end(&g->mark, "grad scaler", __builtin_return_address(0))) return;
    free(g->list);
    g->list = NULL;
    g->count = g->room = 0;
    handle_free(g);
}

double tn_grad_scaler_get_scale(const tn_grad_scaler *g)
{
    return g ? adapted(g).scale : 0;
}

void tn_grad_scaler_get_state(const tn_grad_scaler *g, tn_grad_scaler_state *out)
{
    if (!g || !out || out->size < sizeof *out) return;
    const tn_grad_scaler_state now = adapted(g);
    out->scale = now.scale;
    out->good = now.good;
}

int32_t tn_grad_scaler_set_state(tn_grad_scaler *g, const tn_grad_scaler_state *state)
{
    if (!g || !state || state->size < sizeof *state || !(state->scale > 0 && isfinite(state->scale)) ||
        state->good < 0)
        return tn_scope_fail(NULL, TN_E_ARGUMENT,
                             "grad_scaler: argument 'g' or 'state': it is NULL, or not a state");
    if (handle_refuse(NULL, &g->mark, "grad scaler")) return TN_E_DEAD_HANDLE;
    begin_scale(g, *state);
    return TN_OK;
}

tn_tensor *tn_grad_scaler_scale(tn_scope *s, tn_grad_scaler *g, tn_tensor *loss)
{
    if (!g) return optim_fail_null(s, "tn_grad_scaler_scale: the scaler"), NULL;
    if (handle_refuse(s, &g->mark, "grad scaler")) return NULL;
    for (uint32_t i = 0; i < g->count; i++)
        if (g->list[i].has_stepped) begin_scale(g, adapted(g));
    return tn_mul_scalar(s, loss, g->scale);
}

/* Divides gradients in place, those of one device and dtype by one call. Returns whether one of them is not finite. */
static int32_t divide(tn_scope *s, const tn_optimizer *o, double scale)
{
    tn_tensor **grads = tn_scope_memory(s, (o->count + 1) * sizeof *grads);
    uint8_t *done = tn_scope_memory(s, o->count + 1u);
    int32_t is_infinite = 0;
    for (uint32_t i = 0; grads && done && i < o->count; i++) {
        grads[i] = tn_grad_of(s, o->parameters[i].tensor);
        done[i] = !grads[i];
    }
    for (uint32_t i = 0; i < o->count && !tn_scope_failed(s); i++) {
        tn_tensor **list = tn_scope_memory(s, (o->count + 1) * sizeof *list);
        uint32_t n = 0;
        if (done[i] || !list) continue;
        tn_device device = tn_tensor_device(grads[i]);
        tn_dtype dtype = tn_tensor_dtype(grads[i]);
        for (uint32_t k = i; k < o->count; k++) {
            if (done[k] || tn_tensor_device(grads[k]) != device || tn_tensor_dtype(grads[k]) != dtype)
                continue;
            done[k] = 1;
            list[n++] = optim_real(s, grads[k]);
        }
        tn_tensor *found = tn_zeros(s, TN_INTS(1), .dtype = TN_FLOAT32, .device = device);
        tn_tensor *inverse = tn_full(s, TN_INTS(1), 1 / scale, .dtype = TN_FLOAT32, .device = device);
        tn__amp_foreach_non_finite_check_and_unscale_(s, (tn_tensors){list, n}, found, inverse);
        is_infinite |= tn_item_double(s, found) != 0;
    }
    return is_infinite;
}

int32_t tn_grad_scaler_unscale(tn_scope *scope, tn_grad_scaler *g, tn_optimizer *o)
{
    if (!g) return optim_fail_null(scope, "tn_grad_scaler_unscale: the scaler");
    if (!o) return optim_fail_null(scope, "tn_grad_scaler_unscale: the optimizer");
    if (handle_refuse(scope, &g->mark, "grad scaler") || optim_refuse_dead(scope, o)) return TN_E_DEAD_HANDLE;
    tn_scope *s = optim_without_recording(scope);
    if (!s) return tn_scope_failed(scope);
    const divided *before = find_divided(g, o);
    if (before && before->has_stepped)
        begin_scale(g, adapted(g)); /* gradients of a further step, without a call of tn_grad_scaler_scale */
    else if (before)
        tn_scope_fail(s, TN_E_STATE, "grad_scaler: the gradients were unscaled since the last step");
    if (!tn_scope_failed(s) && g->count == g->room) {
        divided *larger = realloc(g->list, (2 * (size_t)g->room + 4) * sizeof *larger);
        if (!larger) tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
        if (larger) g->list = larger;
        if (larger) g->room = 2 * g->room + 4;
    }
    if (!tn_scope_failed(s)) optim_follow_module(s, o);
    const int32_t found = tn_scope_failed(s) ? 0 : divide(s, o, g->scale);
    if (!tn_scope_failed(s)) g->list[g->count++] = (divided){.optimizer = o, .found = found};
    return tn_scope_close(s);
}

int32_t tn_grad_scaler_step(tn_scope *s, tn_grad_scaler *g, tn_optimizer *o, const tn_step_options *options)
{
    divided *at = g ? find_divided(g, o) : NULL;
    if ((!at || at->has_stepped) && tn_grad_scaler_unscale(s, g, o)) return tn_scope_failed(s);
    at = find_divided(g, o);
    tn_step_options step = {
        .options_size = sizeof step, .lr = TN_NOT_GIVEN, .lr_scale = TN_NOT_GIVEN, .has_defaults = 1};
    if (options) { /* of any size, which the step looks at */
        memcpy(&step, options, options->options_size < sizeof step ? options->options_size : sizeof step);
        step.options_size = options->options_size;
    }
    step.optimizer = o;
    if (!at->found) tn_optimizer_step_with(s, &step);
    at->has_stepped = 1;
    if (tn_scope_failed(s)) *at = g->list[--g->count]; /* there was no step */
    return tn_scope_failed(s);
}
