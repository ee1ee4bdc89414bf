/* SPDX-License-Identifier: Apache-2.0 */
/* Groups, steps and files of optimisers. The formulas are in rules.c. */
#include "optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds up to this one are in rules.c; TN_LBFGS has a file of its own. */
#define KINDS TN_LBFGS

static int32_t fail(tn_scope *s, int32_t code, const tn_optimizer *o, const char *text)
{
    char message[640];
    snprintf(message, sizeof message, "%s: %s", o ? optim_kinds[o->kind].name : "optimizer", text);
    return tn_scope_fail(s, code, message);
}

/* ---- Making ---------------------------------------------------------------------------------------------- */

int32_t tn_rank_over_1(const tn_tensor *parameter)
{
    return tn_tensor_rank(parameter) > 1;
}

/* What is wrong with the options, or NULL. */
static const char *fault_of(uint32_t kind, const tn_optimizer_options *o)
{
    if (kind < 1 || kind > KINDS) return "kind: not one of TN_SGD to TN_LBFGS";
    if (!o || o->options_size < sizeof *o) return "options: absent, or of another size";
    if (!(o->lr >= 0 && isfinite(o->lr))) return "lr: must be 0 or more, and finite";
    if (!(o->weight_decay >= 0)) return "weight_decay: must be 0 or more";
    if (!(o->momentum >= 0)) return "momentum: must be 0 or more";
    if (!(o->beta1 >= 0 && o->beta1 < 1)) return "beta1: must be from 0 to 1, 1 not included";
    if (!(o->beta2 >= 0 && o->beta2 < 1)) return "beta2: must be from 0 to 1, 1 not included";
    if (!(o->eps >= 0)) return "eps: must be 0 or more";
    if (!(o->rho >= 0 && o->rho <= 1)) return "rho: must be from 0 to 1";
    if (o->nesterov && (o->momentum == 0 || o->dampening != 0))
        return "nesterov: needs a momentum and no dampening";
    if (kind == TN_RPROP && !(o->eta_minus > 0 && o->eta_minus < 1 && o->eta_plus > 1))
        return "eta_minus must be between 0 and 1, eta_plus above 1";
    if (kind == TN_LBFGS && o->max_iter < 1) return "max_iter: must be 1 or more";
    if (kind == TN_LBFGS && o->line_search && strcmp(o->line_search, "strong_wolfe"))
        return "line_search: must be NULL or \"strong_wolfe\"";
    return NULL;
}

static int32_t add_parameter(tn_scope *s, tn_optimizer *o, const char *name, tn_tensor *t)
{
    for (uint32_t i = 0; i < o->count; i++)
        if (o->parameters[i].tensor == t) return fail(s, TN_E_EXISTS, o, "a parameter is in a group already");
    if (!t || !tn_is_leaf(t)) return fail(s, TN_E_ARGUMENT, o, "a parameter is NULL, or not a leaf");
    optim_parameter *grown = o->parameters;
    if (!(o->count & (o->count - 1))) /* room for the next power of two */
        grown = realloc(grown, (o->count ? 2 * (size_t)o->count : 1) * sizeof *grown);
    if (grown) o->parameters = grown;
    char *own = grown ? strdup(name) : NULL;
    if (!own) return tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
    const tn_optimizer_options *group = &o->groups[o->group_count - 1];
    o->parameters[o->count++] = (optim_parameter){.name = own,
                                                  .tensor = tn_retain(t),
                                                  .group = o->group_count - 1,
                                                  .decays = !group->decay_if || group->decay_if(t)};
    return TN_OK;
}

static int32_t add_group(tn_scope *s, tn_optimizer *o, tn_named_tensors parameters,
                         const tn_optimizer_options *options)
{
    const char *fault = fault_of(o->kind, options);
    if (fault) return fail(s, TN_E_ARGUMENT, o, fault);
    if (o->kind == TN_LBFGS && o->group_count) return fail(s, TN_E_UNSUPPORTED, o, "it has one group only");
    tn_optimizer_options *grown = realloc(o->groups, (o->group_count + 1) * sizeof *grown);
    if (!grown) return tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
    o->groups = grown;
    o->groups[o->group_count++] = *options;
    uint32_t first = o->count;
    for (int64_t i = 0; i < parameters.count && !tn_scope_failed(s); i++)
        add_parameter(s, o, parameters.data[i].name, parameters.data[i].tensor);
    if (!tn_scope_failed(s)) return TN_OK;
    while (o->count > first) { /* a group is added as a whole or not at all */
        o->count--;
        free(o->parameters[o->count].name);
        tn_release(o->parameters[o->count].tensor);
    }
    o->group_count--;
    return tn_scope_failed(s);
}

static tn_optimizer *create(tn_scope *s, tn_context *ctx, tn_named_tensors parameters, uint32_t kind,
                            const tn_optimizer_options *options)
{
    tn_optimizer *o = calloc(1, sizeof *o);
    if (o) *o = (tn_optimizer){.ctx = ctx, .kind = kind >= 1 && kind <= KINDS ? kind : TN_SGD};
    const char *fault = fault_of(kind, options);
    if (!o)
        tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
    else if (fault)
        fail(s, TN_E_ARGUMENT, kind == o->kind ? o : NULL, fault);
    else if (!parameters.count && !tn_scope_failed(s))
        fail(s, TN_E_ARGUMENT, o, "optimizer got an empty parameter list");
    else
        add_group(s, o, parameters, options);
    if (!tn_scope_close(s)) return o;
    tn_optimizer_destroy(o);
    return NULL;
}

tn_optimizer *tn_optimizer_create(uint32_t kind, const tn_optimizer_options *options)
{
    tn_module *module = options ? options->module : NULL;
    if (!module) return fail(NULL, TN_E_ARGUMENT, NULL, "the module is NULL"), NULL;
    tn_scope *s = tn_scope_open(tn_module_context(module));
    if (tn_module_failed(module)) tn_scope_fail(s, tn_module_failed(module), tn_module_error(module));
    tn_named_tensors parameters = tn_module_tensors(s, module, TN_PARAMETERS);
    tn_optimizer *o = create(s, tn_module_context(module), parameters, kind, options);
    if (!o) return NULL;
    o->module = module;
    o->generation = tn_module_generation(module);
    o->of_module = o->count;
    return o;
}

/* The list under the names "first", "first + 1", ... */
static tn_named_tensors numbered(tn_scope *s, tn_tensors list, uint32_t first)
{
    tn_named_tensor *items = tn_scope_memory(s, (uint64_t)(list.count + 1) * sizeof *items);
    for (int64_t i = 0; items && i < list.count; i++) {
        char *name = tn_scope_memory(s, 24);
        if (!name) return (tn_named_tensors){NULL, 0};
        snprintf(name, 24, "%lld", (long long)(first + i));
        items[i] = (tn_named_tensor){name, list.data[i]};
    }
    return (tn_named_tensors){items, items ? list.count : 0};
}

tn_optimizer *tn_optimizer_create_of(tn_context *ctx, tn_tensors parameters, uint32_t kind,
                                     const tn_optimizer_options *options)
{
    tn_scope *s = tn_scope_open(ctx);
    return s ? create(s, ctx, numbered(s, parameters, 0), kind, options) : NULL;
}

/* The options with those of `from` for what is not given. */
static tn_optimizer_options inherited(const tn_optimizer_options *options, const tn_optimizer_options *from)
{
    tn_optimizer_options all = *options;
    double *const first = &all.lr, *const last = &all.d;
    int32_t *const flags[] = {
        &all.maximize, &all.nesterov, &all.amsgrad, &all.centered, &all.decoupled_weight_decay, &all.fused};
    const int32_t of_first[] = {
        from->maximize, from->nesterov, from->amsgrad, from->centered, from->decoupled_weight_decay,
        from->fused};
    for (double *field = first; field <= last; field++)
        if (*field == TN_NOT_GIVEN) *field = (&from->lr)[field - first];
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (*flags[i] < 0) *flags[i] = of_first[i];
    return all;
}

int32_t tn_optimizer_add_group_with(tn_optimizer *o, tn_tensors parameters,
                                    const tn_optimizer_options *options)
{
    if (!o) return fail(NULL, TN_E_STATE, NULL, "tn_optimizer_add_group: it is NULL");
    tn_scope *s = tn_scope_open(o->ctx);
    int32_t is_sound = options && options->options_size >= sizeof *options && o->group_count;
    tn_optimizer_options all = is_sound ? inherited(options, &o->groups[0]) : (tn_optimizer_options){0};
    add_group(s, o, numbered(s, parameters, o->count), is_sound ? &all : options);
    return tn_scope_close(s);
}

void tn_optimizer_destroy(tn_optimizer *o)
{
    if (!o) return;
    for (uint32_t i = 0; i < o->count; i++) {
        for (uint32_t k = 0; k < OPTIM_MAX_STATES; k++) tn_release(o->parameters[i].state[k]);
        tn_release(o->parameters[i].tensor);
        free(o->parameters[i].name);
    }
    optim_lbfgs_destroy(o->lbfgs);
    free(o->parameters);
    free(o->groups);
    free(o);
}

/* ---- Exchanged parameters -------------------------------------------------------------------------------- */

int32_t optim_follow_module(tn_scope *scope, tn_optimizer *o)
{
    uint64_t now = tn_module_generation(o->module);
    if (!o->module || now == o->generation) return TN_OK;
    tn_scope *s = optim_without_recording(scope);
    for (uint32_t i = 0; i < o->of_module && !tn_scope_failed(s); i++) {
        optim_parameter *at = &o->parameters[i];
        tn_tensor *t = tn_module_tensor(o->module, at->name), *state[OPTIM_MAX_STATES];
        if (!t || t == at->tensor) continue;
        if (o->kind == TN_LBFGS && o->lbfgs) {
            fail(s, TN_E_STATE, o,
                 "a parameter was exchanged after the first step, whose history is of the old one");
            break;
        }
        tn_tensor *like = optim_real(s, tn_detach(s, t));
        for (uint32_t k = 0; k < OPTIM_MAX_STATES; k++) state[k] = optim_state_like(s, at->state[k], like);
        if (tn_scope_failed(s)) break;
        for (uint32_t k = 0; k < OPTIM_MAX_STATES; k++) {
            tn_retain(state[k]);
            tn_release(at->state[k]);
            at->state[k] = state[k];
        }
        tn_retain(t);
        tn_release(at->tensor);
        at->tensor = t;
    }
    int32_t status = tn_scope_close(s);
    if (!status) o->generation = now;
    return status;
}

/* ---- Steps ----------------------------------------------------------------------------------------------- */

typedef struct work {
    optim_parameter *at;
    tn_tensor *p, *g;
    int32_t is_done;
} work;

static tn_tensor *gradient(tn_scope *s, const optim_parameter *at, const tn_optimizer_options *group)
{
    tn_tensor *g = optim_real(s, tn_grad_of(s, at->tensor));
    return g && group->maximize ? tn_neg(s, g) : g;
}

static double decay_of(const tn_optimizer *o, const optim_parameter *at)
{
    return at->decays ? o->groups[at->group].weight_decay : 0;
}

/* Can go into one fused call with the first of them. */
static int32_t is_like(const tn_optimizer *o, const work *a, const work *b)
{
    return a->at->group == b->at->group && a->at->step == b->at->step &&
           decay_of(o, a->at) == decay_of(o, b->at) && tn_tensor_dtype(a->p) == tn_tensor_dtype(b->p) &&
           tn_tensor_device(a->p) == tn_tensor_device(b->p);
}

static int32_t wants_fused(const tn_optimizer *o, const work *w)
{
    int32_t fused = o->groups[w->at->group].fused;
    if (!optim_kinds[o->kind].fused || !tn_dtype_is_floating(tn_tensor_dtype(w->p))) return 0;
    return fused >= 0 ? fused : TN_DEVICE_TYPE(tn_tensor_device(w->p)) == TN_INTERNED_CPU;
}

static void step_fused(tn_scope *s, const tn_optimizer *o, work *works, uint32_t count, uint32_t first)
{
    optim_parameter **at = tn_scope_memory(s, count * sizeof *at);
    tn_tensor **p = tn_scope_memory(s, count * sizeof *p), **g = tn_scope_memory(s, count * sizeof *g);
    uint32_t n = 0;
    for (uint32_t i = first; i < count && at && p && g; i++) {
        if (works[i].is_done || !is_like(o, &works[first], &works[i])) continue;
        works[i].is_done = 1;
        at[n] = works[i].at;
        p[n] = works[i].p;
        g[n++] = works[i].g;
    }
    if (n)
        optim_kinds[o->kind].fused(s, at, n, (tn_tensors){p, n}, (tn_tensors){g, n}, &o->groups[at[0]->group],
                                   decay_of(o, at[0]));
}

static void step_all(tn_scope *s, tn_optimizer *o)
{
    work *works = tn_scope_memory(s, (o->count + 1) * sizeof *works);
    uint32_t n = 0;
    for (uint32_t i = 0; works && i < o->count; i++) {
        optim_parameter *at = &o->parameters[i];
        tn_tensor *g = gradient(s, at, &o->groups[at->group]);
        if (g) works[n++] = (work){at, optim_real(s, tn_detach(s, at->tensor)), g, 0};
    }
    if (tn_scope_failed(s)) return;
    for (uint32_t i = 0; i < n; i++) works[i].at->step++;
    for (uint32_t i = 0; i < n && !tn_scope_failed(s); i++) {
        work *w = &works[i];
        if (w->is_done) continue;
        if (wants_fused(o, w))
            step_fused(s, o, works, n, i);
        else
            optim_kinds[o->kind].step(s, w->at, w->p, w->g, &o->groups[w->at->group], decay_of(o, w->at));
    }
}

/* The parameters as a list. */
static tn_tensors all_of(tn_scope *s, const tn_optimizer *o)
{
    tn_tensor **items = tn_scope_memory(s, (o->count + 1) * sizeof *items);
    for (uint32_t i = 0; items && i < o->count; i++) items[i] = o->parameters[i].tensor;
    return (tn_tensors){items, items ? o->count : 0};
}

int32_t tn_optimizer_step_with(tn_scope *scope, const tn_step_options *options)
{
    tn_optimizer *o = options ? options->optimizer : NULL;
    if (tn_scope_failed(scope)) return tn_scope_failed(scope);
    if (!o) return fail(scope, TN_E_STATE, NULL, "it is NULL");
    if (o->kind == TN_LBFGS) return fail(scope, TN_E_STATE, o, "its step is tn_optimizer_step_closure");
    int32_t has_lr = options->lr != TN_NOT_GIVEN;
    if (has_lr && !(options->lr >= 0 && isfinite(options->lr)))
        return fail(scope, TN_E_ARGUMENT, o, "step: lr must be 0 or more, and finite");
    if (!(options->clip_norm >= 0)) return fail(scope, TN_E_ARGUMENT, o, "step: clip_norm must be 0 or more");
    for (uint32_t i = 0; i < o->group_count; i++) {
        if (has_lr) o->groups[i].lr = options->lr;
        const char *fault = fault_of(o->kind, &o->groups[i]); /* the program may have changed them */
        if (fault) return fail(scope, TN_E_ARGUMENT, o, fault);
    }
    if (optim_follow_module(scope, o)) return tn_scope_failed(scope);
    tn_scope *s = optim_without_recording(scope);
    if (options->clip_norm > 0) tn_clip_grad_norm(s, all_of(s, o), options->clip_norm, 2);
    if (!tn_scope_failed(s)) step_all(s, o);
    return tn_scope_close(s);
}

tn_tensor *tn_optimizer_step_closure(tn_scope *s, tn_optimizer *o, tn_closure closure, void *user)
{
    if (tn_scope_failed(s)) return NULL;
    if (!o || !closure) {
        fail(s, TN_E_ARGUMENT, o, "the optimizer or the closure is NULL");
        return NULL;
    }
    if (optim_follow_module(s, o)) return NULL;
    if (o->kind == TN_LBFGS) return optim_lbfgs_step(s, o, closure, user);
    tn_tensor *loss = closure(user, s);
    if (!loss && !tn_scope_failed(s)) fail(s, TN_E_ARGUMENT, o, "the closure returned NULL");
    return tn_optimizer_step(s, o) ? NULL : loss;
}

void tn_optimizer_zero_grad(tn_optimizer *o)
{
    for (uint32_t i = 0; o && i < o->count; i++) tn_set_grad(o->parameters[i].tensor, NULL);
}

/* ---- Asking ---------------------------------------------------------------------------------------------- */

uint32_t tn_optimizer_group_count(const tn_optimizer *o)
{
    return o ? o->group_count : 0;
}

tn_optimizer_options *tn_optimizer_group(tn_optimizer *o, uint32_t group)
{
    return o && group < o->group_count ? &o->groups[group] : NULL;
}

tn_tensor *tn_optimizer_state(const tn_optimizer *o, const tn_tensor *parameter, const char *name)
{
    for (uint32_t i = 0; o && name && i < o->count; i++)
        for (uint32_t k = 0; k < OPTIM_MAX_STATES && o->parameters[i].tensor == parameter; k++)
            if (optim_kinds[o->kind].states[k] && !strcmp(optim_kinds[o->kind].states[k], name))
                return o->parameters[i].state[k];
    return NULL;
}

/* ---- Files ------------------------------------------------------------------------------------------------
 * Tensors are "parameter.state", float64 numbers of a parameter "parameter.#": {step, numbers}, options of a group
 * "#group": the doubles of the struct. Metadata have the kind.
 */

#define GROUP_NUMBERS 28

/* The options that are numbers, in a fixed order. */
static void group_numbers(tn_optimizer_options *o, double *values, int32_t write)
{
    double *const fields[] = {&o->lr,
                              &o->weight_decay,
                              &o->momentum,
                              &o->dampening,
                              &o->beta1,
                              &o->beta2,
                              &o->eps,
                              &o->alpha,
                              &o->rho,
                              &o->lr_decay,
                              &o->initial_accumulator_value,
                              &o->lambd,
                              &o->t0,
                              &o->momentum_decay,
                              &o->eta_minus,
                              &o->eta_plus,
                              &o->step_min,
                              &o->step_max,
                              &o->beta2_decay,
                              &o->eps2,
                              &o->d,
                              &o->tolerance_grad,
                              &o->tolerance_change};
    int32_t *const flags[] = {&o->maximize, &o->nesterov, &o->amsgrad, &o->centered,
                              &o->decoupled_weight_decay};
    uint32_t n = 0;
    for (uint32_t i = 0; i < sizeof fields / sizeof *fields; i++, n++) {
        if (write)
            *fields[i] = values[n];
        else
            values[n] = *fields[i];
    }
    for (uint32_t i = 0; i < sizeof flags / sizeof *flags; i++, n++) {
        if (write)
            *flags[i] = values[n] != 0;
        else
            values[n] = *flags[i];
    }
}

static char *joined(tn_scope *s, const char *a, const char *b)
{
    uint64_t bytes = strlen(a) + strlen(b) + 2;
    char *text = tn_scope_memory(s, bytes);
    if (text) snprintf(text, bytes, "%s.%s", a, b);
    return text;
}

static char *group_name(tn_scope *s, uint32_t i)
{
    char *text = tn_scope_memory(s, 24);
    if (text) snprintf(text, 24, "#group%u", i);
    return text;
}

int32_t tn_optimizer_save(const tn_optimizer *o, const char *path)
{
    if (!o) return fail(NULL, TN_E_STATE, NULL, "tn_optimizer_save: it is NULL");
    tn_scope *s = tn_scope_open(o->ctx);
    if (o->kind == TN_LBFGS) fail(s, TN_E_UNSUPPORTED, o, "its history cannot be saved");
    uint64_t room = (uint64_t)o->count * (OPTIM_MAX_STATES + 1) + o->group_count + 1, n = 0;
    tn_named_tensor *list = tn_scope_memory(s, room * sizeof *list);
    for (uint32_t i = 0; i < o->count && !tn_scope_failed(s); i++) {
        const optim_parameter *at = &o->parameters[i];
        const double numbers[] = {(double)at->step, at->numbers[0], at->numbers[1]};
        list[n++] = (tn_named_tensor){joined(s, at->name, "#"),
                                      tn_from_data(s, TN_FLOAT64, TN_INTS(3), numbers, TN_CPU)};
        for (uint32_t k = 0; k < OPTIM_MAX_STATES; k++)
            if (at->state[k])
                list[n++] =
                    (tn_named_tensor){joined(s, at->name, optim_kinds[o->kind].states[k]), at->state[k]};
    }
    for (uint32_t i = 0; i < o->group_count && !tn_scope_failed(s); i++) {
        double values[GROUP_NUMBERS];
        group_numbers(&o->groups[i], values, 0);
        list[n++] = (tn_named_tensor){group_name(s, i),
                                      tn_from_data(s, TN_FLOAT64, TN_INTS(GROUP_NUMBERS), values, TN_CPU)};
    }
    const char *const metadata[] = {"optimizer", optim_kinds[o->kind].name};
    if (!tn_scope_failed(s)) tn_safetensors_save(s, path, list, n, metadata, 1);
    return tn_scope_close(s);
}

static int32_t has(const tn_safetensors *file, const char *name)
{
    for (uint64_t i = 0; name && i < tn_safetensors_count(file); i++)
        if (!strcmp(tn_safetensors_name(file, i), name)) return 1;
    return 0;
}

static int32_t has_parameter(const tn_optimizer *o, const char *name, uint64_t bytes)
{
    for (uint32_t i = 0; i < o->count; i++)
        if (strlen(o->parameters[i].name) == bytes && !memcmp(o->parameters[i].name, name, bytes)) return 1;
    return 0;
}

/* Appends a name to a list that is cut, with "...", where the text ends. */
static void append(char *text, uint64_t bytes, const char *before, const char *name, int name_bytes)
{
    uint64_t used = strlen(text), need = strlen(before) + (uint64_t)name_bytes + 3;
    if (used + need + 4 < bytes)
        snprintf(text + used, bytes - used, "%s'%.*s'", before, name_bytes, name);
    else if (used < 3 || strcmp(text + used - 3, "..."))
        snprintf(text + used, bytes - used, "...");
}

/* The names of the file's parameters must be those of the optimizer's, and its groups as many. */
static void compare_parameters(tn_scope *s, const tn_safetensors *file, const tn_optimizer *o)
{
    char text[448] = "";
    int32_t missing = 0, unexpected = 0;
    for (uint32_t i = 0; i < o->count && !tn_scope_failed(s); i++) {
        const char *name = o->parameters[i].name;
        if (!has(file, joined(s, name, "#")))
            append(text, sizeof text, missing++ ? ", " : "missing: ", name, (int)strlen(name));
    }
    for (uint64_t i = 0; i < tn_safetensors_count(file); i++) {
        const char *name = tn_safetensors_name(file, i), *dot = strrchr(name, '.');
        if (!dot || strcmp(dot, ".#") || has_parameter(o, name, (uint64_t)(dot - name))) continue;
        append(text, sizeof text,
               unexpected++ ? ", "
               : missing    ? "; unexpected: "
                            : "unexpected: ",
               name, (int)(dot - name));
    }
    if (*text) {
        char all[512];
        snprintf(all, sizeof all, "the file's parameters are not these: %s", text);
        fail(s, TN_E_NOT_FOUND, o, all);
    } else if (!has(file, group_name(s, o->group_count - 1)) || has(file, group_name(s, o->group_count))) {
        fail(s, TN_E_ARGUMENT, o, "the file has another number of groups");
    }
}

static int32_t has_sizes(const tn_tensor *t, const tn_tensor *like)
{
    int64_t rank = tn_tensor_rank(like);
    return tn_tensor_rank(t) == rank &&
           (!rank || !memcmp(tn_tensor_sizes(t), tn_tensor_sizes(like), (size_t)rank * sizeof(int64_t)));
}

/* Sizes of a state: those of the parameter, but for the means of Adafactor. */
static int32_t fits(const char *state, const tn_tensor *t, const tn_tensor *like)
{
    int64_t rank = tn_tensor_rank(like);
    int32_t is_row = !strcmp(state, "row_var"), is_column = !strcmp(state, "col_var");
    if (!is_row && !is_column) return has_sizes(t, like);
    if (tn_tensor_rank(t) != rank || rank < 2) return 0;
    for (int64_t d = 0; d < rank; d++)
        if (tn_tensor_size(t, d) != (d == (is_row ? rank - 1 : rank - 2) ? 1 : tn_tensor_size(like, d)))
            return 0;
    return 1;
}

/* A state of a parameter, cast to the dtype that steps work in, as PyTorch does. */
static tn_tensor *read_state(tn_scope *s, tn_safetensors *file, const tn_optimizer *o,
                             const optim_parameter *at, const char *state)
{
    const char *name = joined(s, at->name, state);
    tn_tensor *like = optim_real(s, tn_detach(s, at->tensor));
    tn_tensor *t = has(file, name) && like ? tn_safetensors_get(s, file, name, tn_tensor_device(like)) : NULL;
    if (!t) return NULL;
    if (!fits(state, t, like)) {
        char text[256];
        snprintf(text, sizeof text, "state '%.180s' of the file does not have the parameter's sizes", name);
        fail(s, TN_E_SHAPE, o, text);
        return NULL;
    }
    return optim_state_like(s, t, like);
}

static void read_numbers(tn_scope *s, tn_safetensors *file, const char *name, double *out, uint64_t count)
{
    tn_tensor *t = tn_safetensors_get(s, file, name, TN_CPU);
    if (t && (tn_tensor_dtype(t) != TN_FLOAT64 || (uint64_t)tn_tensor_numel(t) != count))
        tn_scope_fail(s, TN_E_CORRUPT, "optimizer: the file's numbers are not those of an optimizer");
    if (t && !tn_scope_failed(s)) tn_to_host(s, t, out, count * sizeof *out);
}

/* Reads all of it into `into` and `groups`, so that a bad file changes nothing. */
static void read_all(tn_scope *s, tn_safetensors *file, const tn_optimizer *o, optim_parameter *into,
                     tn_optimizer_options *groups)
{
    const char *kind = tn_safetensors_metadata(file, "optimizer");
    if (!kind || strcmp(kind, optim_kinds[o->kind].name))
        fail(s, TN_E_ARGUMENT, o, "the file is of another optimizer");
    if (!tn_scope_failed(s)) compare_parameters(s, file, o);
    for (uint32_t i = 0; i < o->count && !tn_scope_failed(s); i++) {
        double numbers[3] = {0};
        into[i] = (optim_parameter){0};
        read_numbers(s, file, joined(s, o->parameters[i].name, "#"), numbers, 3);
        into[i].step = (int64_t)numbers[0];
        memcpy(into[i].numbers, numbers + 1, sizeof into[i].numbers);
        for (uint32_t k = 0; k < OPTIM_MAX_STATES && optim_kinds[o->kind].states[k]; k++) {
            into[i].state[k] = read_state(s, file, o, &o->parameters[i], optim_kinds[o->kind].states[k]);
        }
    }
    for (uint32_t i = 0; i < o->group_count && !tn_scope_failed(s); i++) {
        double values[GROUP_NUMBERS] = {0};
        groups[i] = o->groups[i];
        read_numbers(s, file, group_name(s, i), values, GROUP_NUMBERS);
        group_numbers(&groups[i], values, 1);
    }
}

int32_t tn_optimizer_load(tn_optimizer *o, const char *path)
{
    tn_safetensors *file = NULL;
    if (!o) return fail(NULL, TN_E_STATE, NULL, "tn_optimizer_load: it is NULL");
    int32_t status = tn_safetensors_open(o->ctx, path, &file);
    if (status) return status;
    tn_scope *s = tn_scope_open(o->ctx);
    optim_parameter *into = tn_scope_memory(s, (o->count + 1) * sizeof *into);
    tn_optimizer_options *groups = tn_scope_memory(s, (o->group_count + 1) * sizeof *groups);
    if (!tn_scope_failed(s)) optim_follow_module(s, o);
    if (into && groups && !tn_scope_failed(s)) read_all(s, file, o, into, groups);
    for (uint32_t i = 0; i < o->count && !tn_scope_failed(s); i++) {
        optim_parameter *at = &o->parameters[i];
        at->step = into[i].step;
        memcpy(at->numbers, into[i].numbers, sizeof at->numbers);
        for (uint32_t k = 0; k < OPTIM_MAX_STATES; k++) {
            tn_release(at->state[k]);
            at->state[k] = tn_retain(into[i].state[k]);
        }
    }
    if (!tn_scope_failed(s)) memcpy(o->groups, groups, o->group_count * sizeof *groups);
    tn_safetensors_close(file);
    return tn_scope_close(s);
}
