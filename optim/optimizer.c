/* SPDX-License-Identifier: Apache-2.0 */
/* Groups and steps of optimisers. The formulas are in rules.c, the state dict in state.c. */
#include "optimizer.h"
#include "number_text.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rules of all kinds are in rules.c, but for TN_LBFGS, which has a file of its own. */
#define KINDS TN_SPARSEADAM

int32_t optim_fail(tn_scope *s, int32_t status, const tn_optimizer *o, const char *text)
{
    char message[FAULT_BYTES + 64];
    snprintf(message, sizeof message, "%s: %s", o ? optim_kinds[o->kind].name : "optimizer", text);
    return tn_scope_fail(s, status, message);
}

int32_t optim_refuse_dead(tn_scope *s, const tn_optimizer *o)
{
    if (!handle_check(&o->mark, "it")) return TN_OK;
    return optim_fail(s, TN_E_DEAD_HANDLE, o, tn_last_error()->message);
}

int32_t optim_fail_null(tn_scope *s, const char *what)
{
    char text[FAULT_BYTES];
    const tn_error *e = tn_last_error();
    snprintf(text, sizeof text, "%s is NULL%s%.500s%s", what, e ? " (the last error: " : "",
             e ? e->message : "", e ? ")" : "");
    return tn_scope_fail(s, TN_E_STATE, text);
}

/* ---- Making ---------------------------------------------------------------------------------------------- */

int32_t tn_rank_over_1(const tn_tensor *parameter)
{
    return tn_tensor_rank(parameter) > 1;
}

/* Parameters of a list are named by numbers. */
static int32_t has_name(const char *name)
{
    return name && name[strspn(name, "0123456789")];
}

/* `index` is the place in the list of its group. */
static int32_t refuse_parameter(tn_scope *s, const tn_optimizer *o, int64_t index, const char *name,
                                const tn_tensor *t)
{
    char who[192], text[FAULT_BYTES];
    const int32_t named = has_name(name);
    snprintf(who, sizeof who, "parameter %lld%s%.120s%s", (long long)index, named ? " ('" : "",
             named ? name : "", named ? "')" : "");
    for (uint32_t i = 0; t && i < o->count; i++) {
        const optim_parameter *other = &o->parameters[i];
        if (other->tensor != t) continue;
        const int32_t known = has_name(other->name);
        snprintf(text, sizeof text, "%s is in group %u already%s%.120s%s", who, other->group,
                 known ? ", as '" : "", known ? other->name : "", known ? "'" : "");
        return optim_fail(s, TN_E_EXISTS, o, text);
    }
    if (t && tn_is_leaf(t)) return TN_OK;
    snprintf(text, sizeof text, "%s is %s", who, t ? "not a leaf: an operator computed it" : "NULL");
    return optim_fail(s, TN_E_ARGUMENT, o, text);
}

static int32_t add_parameter(tn_scope *s, tn_optimizer *o, int64_t index, const tn_named_tensor *parameter)
{
    const char *name = parameter->name;
    tn_tensor *t = parameter->tensor;
    int32_t status = refuse_parameter(s, o, index, name, t);
    if (status) return status;
    if (o->kind == TN_MUON && tn_tensor_rank(t) != 2) {
        char text[256];
        snprintf(text, sizeof text,
                 "only supports 2D parameters; '%.120s' has %lld dimensions (see tn_optimizer_create_of)",
                 name, (long long)tn_tensor_rank(t));
        return optim_fail(s, TN_E_ARGUMENT, o, text);
    }
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
    char text[FAULT_BYTES];
    const char *fault = optim_options_fault(o->kind, options, text);
    if (fault) return optim_fail(s, TN_E_ARGUMENT, o, fault);
    if (o->kind == TN_LBFGS && o->group_count)
        return optim_fail(s, TN_E_UNSUPPORTED, o, "it has one group only");
    tn_optimizer_options *grown = realloc(o->groups, (o->group_count + 1) * sizeof *grown);
    if (!grown) return tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
    o->groups = grown;
    o->groups[o->group_count++] = *options;
    uint32_t first = o->count;
    for (int64_t i = 0; i < parameters.count && !tn_scope_failed(s); i++)
        add_parameter(s, o, i, &parameters.data[i]);
    if (!tn_scope_failed(s)) return TN_OK;
    while (o->count > first) { /* a group is added as a whole or not at all */
        o->count--;
        free(o->parameters[o->count].name);
        tn_release(o->parameters[o->count].tensor);
    }
    o->group_count--;
    return tn_scope_failed(s);
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
    for (int i = 0; i < 3; i++)
        if ((&all.ns_a)[i] == TN_NOT_GIVEN) (&all.ns_a)[i] = (&from->ns_a)[i];
    if (!all.ns_steps) all.ns_steps = from->ns_steps;
    if (!all.adjust_lr) all.adjust_lr = from->adjust_lr;
    if (all.max_iter == TN_NONE) all.max_iter = from->max_iter;
    if (all.history_size == TN_NONE) all.history_size = from->history_size;
    if (all.tolerance_grad == TN_NOT_GIVEN) all.tolerance_grad = from->tolerance_grad;
    if (all.tolerance_change == TN_NOT_GIVEN) all.tolerance_change = from->tolerance_change;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (*flags[i] < 0) *flags[i] = of_first[i];
    return all;
}

static tn_optimizer *create(tn_scope *s, tn_context *ctx, tn_named_tensors parameters, uint32_t kind,
                            const tn_optimizer_options *options)
{
    tn_optimizer *o = calloc(1, sizeof *o);
    tn_optimizer_options all;
    char text[FAULT_BYTES];
    const char *fault = optim_options_read(kind, options, &all, text);
    if (!fault) {
        const tn_optimizer_options defaults = tn_optimizer_defaults(kind);
        all = inherited(&all, &defaults);
        fault = optim_options_fault(kind, &all, text);
    }
    if (o) *o = (tn_optimizer){.ctx = ctx, .kind = kind >= 1 && kind <= KINDS ? kind : TN_SGD};
    if (!o)
        tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
    else if (fault)
        optim_fail(s, kind == TN_SPARSEADAM ? TN_E_UNSUPPORTED : TN_E_ARGUMENT, kind == o->kind ? o : NULL,
                   fault);
    else if (!parameters.count && !tn_scope_failed(s))
        optim_fail(s, TN_E_ARGUMENT, o, "optimizer got an empty parameter list");
    else
        add_group(s, o, parameters, &all);
    if (!tn_scope_close(s)) return o;
    tn_optimizer_destroy(o);
    return NULL;
}

int32_t tn_optimizer_options_init(uint32_t kind, tn_optimizer_options *out)
{
    static const tn_optimizer_options defaults[] = {
        [TN_SGD] = {TN_SGD_DEFAULTS},           [TN_ADAM] = {TN_ADAM_DEFAULTS},
        [TN_ADAMW] = {TN_ADAMW_DEFAULTS},       [TN_ADAGRAD] = {TN_ADAGRAD_DEFAULTS},
        [TN_ADADELTA] = {TN_ADADELTA_DEFAULTS}, [TN_ADAMAX] = {TN_ADAMAX_DEFAULTS},
        [TN_ASGD] = {TN_ASGD_DEFAULTS},         [TN_NADAM] = {TN_NADAM_DEFAULTS},
        [TN_RADAM] = {TN_ADAM_DEFAULTS},        [TN_RMSPROP] = {TN_RMSPROP_DEFAULTS},
        [TN_RPROP] = {TN_RPROP_DEFAULTS},       [TN_ADAFACTOR] = {TN_ADAFACTOR_DEFAULTS},
        [TN_LBFGS] = {TN_LBFGS_DEFAULTS},       [TN_MUON] = {TN_MUON_DEFAULTS},
        [TN_SPARSEADAM] = {TN_ADAM_DEFAULTS},
    };
    if (!out || out->options_size < offsetof(tn_optimizer_options, has_defaults))
        return tn_scope_fail(NULL, TN_E_ARGUMENT,
                             "tn_optimizer_options_init: `out` is NULL or its options_size is not set");
    if (!kind || kind >= sizeof defaults / sizeof *defaults)
        return tn_scope_fail(NULL, TN_E_ARGUMENT, "tn_optimizer_options_init: an unknown kind");
    const uint32_t size = out->options_size;
    tn_optimizer_options o = defaults[kind];
    o.options_size = size;
    o.fused = -1;
    o.has_defaults = 1;
    memcpy(out, &o, size < sizeof o ? size : sizeof o);
    return TN_OK;
}

tn_optimizer *tn_optimizer_create(uint32_t kind, const tn_optimizer_options *options)
{
    tn_module *module = options ? options->module : NULL;
    if (!module) return optim_fail(NULL, TN_E_ARGUMENT, NULL, "the module is NULL"), NULL;
    tn_scope *s = tn_scope_open(tn_module_context(module));
    if (!s) return NULL;
    if (tn_module_failed(module)) tn_scope_fail(s, tn_module_failed(module), tn_module_error(module));
    tn_named_tensors parameters = tn_module_tensors(s, module, TN_PARAMETERS);
    tn_optimizer *o = create(s, tn_module_context(module), parameters, kind, options);
    if (!o) return NULL;
    o->module = module;
    o->life = module_life_of(module);
    o->generation = tn_module_generation(module);
    o->of_module = o->count;
    handle_begin(o->ctx, o, "optimizer of module '%s'", tn_module_name(module));
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
    if (!ctx)
        return optim_fail(NULL, TN_E_ARGUMENT, NULL, "tn_optimizer_create_of: the context is NULL"), NULL;
    tn_scope *s = tn_scope_open(ctx);
    tn_optimizer *o = s ? create(s, ctx, numbered(s, parameters, 0), kind, options) : NULL;
    if (o) handle_begin(ctx, o, "optimizer of %lld tensors", (long long)parameters.count);
    return o;
}

int32_t tn_optimizer_add_group_with(tn_optimizer *o, tn_tensors parameters,
                                    const tn_optimizer_options *options)
{
    if (!o) return optim_fail_null(NULL, "optimizer: tn_optimizer_add_group: it");
    if (optim_refuse_dead(NULL, o)) return TN_E_DEAD_HANDLE;
    char text[FAULT_BYTES];
    tn_optimizer_options all;
    const char *fault = optim_options_read(o->kind, options, &all, text);
    if (fault) return optim_fail(NULL, TN_E_ARGUMENT, o, fault);
    tn_scope *s = tn_scope_open(o->ctx);
    if (!s) return tn_last_error()->code;
    all = inherited(&all, &o->groups[0]);
    add_group(s, o, numbered(s, parameters, o->count), &all);
    return tn_scope_close(s);
}

void tn_optimizer_destroy(tn_optimizer *o)
{
    if (!o || !handle_end(&o->mark, "optimizer", __builtin_return_address(0))) return;
    for (uint32_t i = 0; i < o->count; i++) {
        for (uint32_t k = 0; k < OPTIM_MAX_STATES; k++) tn_release(o->parameters[i].state[k]);
        tn_release(o->parameters[i].tensor);
        free(o->parameters[i].name);
    }
    optim_lbfgs_destroy(o->lbfgs);
    free(o->parameters);
    free(o->groups);
    module_life_release(o->life);
    *o = (tn_optimizer){.ctx = o->ctx, .kind = o->kind, .mark = o->mark};
    handle_free(o);
}

/* ---- Exchanged parameters -------------------------------------------------------------------------------- */

/* By the other names of a parameter: that of its original while it is pruned or parametrized, and back. */
static tn_tensor *renamed(const tn_module *m, char **held)
{
    static const char holder[] = "parametrizations.", original[] = ".original", pruned[] = "_orig";
    const char *name = *held, *last = strrchr(name, '.'), *in = strstr(name, holder);
    const size_t n = strlen(name), before = last ? (size_t)(last - name) + 1 : 0;
    char other[4][640] = {{0}};
    tn_tensor *t = NULL;
    if (n > 512) return NULL;
    snprintf(other[0], sizeof other[0], "%s%s", name, pruned);
    snprintf(other[1], sizeof other[1], "%.*s%s%s%s", (int)before, name, holder, name + before, original);
    if (n > 5 && !strcmp(name + n - 5, pruned)) snprintf(other[2], sizeof other[2], "%.*s", (int)n - 5, name);
    if (in && n > 9 && !strcmp(name + n - 9, original))
        snprintf(other[3], sizeof other[3], "%.*s%.*s", (int)(in - name), name,
                 (int)(name + n - 9 - in - (sizeof holder - 1)), in + sizeof holder - 1);
    for (int32_t i = 0; i < 4 && !t; i++) {
        t = tn_module_tensor(m, other[i]);
        char *own = t ? strdup(other[i]) : NULL;
        if (!own) continue; /* without memory the tensor is found again at the next step */
        free(*held);
        *held = own;
    }
    return t;
}

tn_tensor *optim_find(const tn_module *m, char **name)
{
    tn_tensor *t = tn_module_tensor(m, *name);
    return t ? t : renamed(m, name);
}

int32_t optim_follow_module(tn_scope *scope, tn_optimizer *o)
{
    if (module_life_check(scope, o->life, optim_kinds[o->kind].name)) return tn_scope_failed(scope);
    uint64_t now = tn_module_generation(o->module);
    if (!o->module || now == o->generation) return TN_OK;
    tn_scope *s = optim_without_recording(scope);
    if (!s) return tn_scope_failed(scope);
    for (uint32_t i = 0; i < o->of_module && !tn_scope_failed(s); i++) {
        optim_parameter *at = &o->parameters[i];
        tn_tensor *t = optim_find(o->module, &at->name), *state[OPTIM_MAX_STATES];
        if (!t || t == at->tensor) continue;
        if (o->kind == TN_LBFGS && o->lbfgs) {
            optim_fail(s, TN_E_STATE, o,
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
    int32_t has_kernel; /* the device has one of the fused call for the dtype */
    int32_t is_fused, is_done;
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
    return b->is_fused && a->at->group == b->at->group && a->at->step == b->at->step &&
           !a->at->state[0] == !b->at->state[0] && decay_of(o, a->at) == decay_of(o, b->at) &&
           tn_tensor_dtype(a->p) == tn_tensor_dtype(b->p) && tn_tensor_device(a->p) == tn_tensor_device(b->p);
}

static int32_t is_laid_out_as(const tn_tensor *t, const tn_tensor *p)
{
    for (uint32_t d = 0; d < tn_tensor_rank(p); d++)
        if (tn_tensor_sizes(p)[d] != 1 && tn_tensor_strides(t)[d] != tn_tensor_strides(p)[d]) return 0;
    return 1;
}

static int32_t has_fused_kernel(const tn_optimizer *o, const tn_tensor *p)
{
    const char *type = tn_interned(o->ctx, TN_DEVICE_TYPE(tn_tensor_device(p)));
    uint32_t op = optim_kinds[o->kind].fused_op, count = tn_inspect_kernel_count(o->ctx, op);
    for (uint32_t i = 0; type && i < count; i++) {
        tn_kernel_info k = {.size = sizeof k};
        if (tn_inspect_kernel(o->ctx, op, i, &k) || strcmp(k.device_type, type) != 0) continue;
        const tn_dtype *dtype = k.dtypes;
        while (dtype && *dtype && *dtype != tn_tensor_dtype(p)) dtype++;
        if (!dtype || *dtype) return 1;
    }
    return 0;
}

/* Decides it for a parameter; `before` is the one decided before, or NULL. Where nothing was said the CPU takes fused calls,
 * and a device that has a kernel for them if its tensors are laid out alike: otherwise the call would go to the CPU. */
static void choose_fused(const tn_optimizer *o, const work *before, work *w)
{
    int32_t fused = o->groups[w->at->group].fused;
    if (!optim_kinds[o->kind].fused || !tn_dtype_is_floating(tn_tensor_dtype(w->p))) return;
    w->is_fused = fused >= 0 ? fused : TN_DEVICE_TYPE(tn_tensor_device(w->p)) == TN_INTERNED_CPU;
    if (fused >= 0 || w->is_fused) return;
    w->has_kernel = before && tn_tensor_device(before->p) == tn_tensor_device(w->p) &&
                            tn_tensor_dtype(before->p) == tn_tensor_dtype(w->p)
                        ? before->has_kernel
                        : has_fused_kernel(o, w->p);
    w->is_fused = w->has_kernel && is_laid_out_as(w->g, w->p);
    for (uint32_t i = 0; i < OPTIM_MAX_STATES; i++)
        if (w->at->state[i] && !is_laid_out_as(w->at->state[i], w->p)) w->is_fused = 0;
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
        if (g) works[n++] = (work){.at = at, .p = optim_real(s, tn_detach(s, at->tensor)), .g = g};
    }
    if (tn_scope_failed(s)) return;
    for (uint32_t i = 0; i < n; i++) {
        works[i].at->step++;
        choose_fused(o, i ? &works[i - 1] : NULL, &works[i]);
    }
    for (uint32_t i = 0; i < n && !tn_scope_failed(s); i++) {
        work *w = &works[i];
        if (w->is_done) continue;
        if (w->is_fused)
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

/* Reads options of the program, of any size: those of programs that were compiled before lr_scale are shorter. */
static int32_t read_step(tn_scope *s, const tn_optimizer *o, const tn_step_options *given,
                         tn_step_options *out)
{
    char text[FAULT_BYTES] = "";
    *out = (tn_step_options){.lr_scale = TN_NOT_GIVEN, .has_defaults = 1};
    if (given->options_size < offsetof(tn_step_options, lr_scale)) {
        snprintf(text, sizeof text, "tn_step_options: options_size is %u; set it to sizeof(tn_step_options)",
                 given->options_size);
        return optim_fail(s, TN_E_ARGUMENT, o, text);
    }
    memcpy(out, given, given->options_size < sizeof *out ? given->options_size : sizeof *out);
    if (!out->has_defaults && out->lr == 0)
        return optim_fail(
            s, TN_E_ARGUMENT, o,
            "tn_step_options: lr is 0 and has_defaults, too; set .lr = TN_NOT_GIVEN for the rates "
            "that the groups have, or has_defaults for a rate of 0");
    if (!out->has_defaults && out->lr_scale == 0) out->lr_scale = TN_NOT_GIVEN;
    const int32_t has_lr = out->lr != TN_NOT_GIVEN, has_scale = out->lr_scale != TN_NOT_GIVEN;
    if (has_lr && has_scale)
        plain_snprintf(text, sizeof text, "step: got lr %g and lr_scale %g, expected one of them", out->lr,
                       out->lr_scale);
    else if (has_lr && !(out->lr >= 0 && isfinite(out->lr)))
        plain_snprintf(text, sizeof text, "step: lr must be 0 or more, and finite, got %g", out->lr);
    else if (has_scale && !(out->lr_scale >= 0 && isfinite(out->lr_scale)))
        plain_snprintf(text, sizeof text, "step: lr_scale must be 0 or more, and finite, got %g",
                       out->lr_scale);
    else if (!(out->clip_norm >= 0))
        plain_snprintf(text, sizeof text, "step: clip_norm must be 0 or more, got %g", out->clip_norm);
    return *text ? optim_fail(s, TN_E_ARGUMENT, o, text) : TN_OK;
}

/* A step with each group's rate times a factor; afterwards the groups have their own again. */
static void step_scaled(tn_scope *s, tn_optimizer *o, double scale)
{
    double *own = tn_scope_memory(s, (o->group_count + 1) * sizeof *own);
    for (uint32_t i = 0; own && i < o->group_count; i++) {
        own[i] = o->groups[i].lr;
        o->groups[i].lr *= scale;
    }
    if (own) step_all(s, o);
    for (uint32_t i = 0; own && i < o->group_count; i++) o->groups[i].lr = own[i];
}

int32_t tn_optimizer_step_with(tn_scope *scope, const tn_step_options *given)
{
    tn_optimizer *o = given ? given->optimizer : NULL;
    tn_step_options options;
    if (tn_scope_failed(scope)) return tn_scope_failed(scope);
    if (!o) return optim_fail_null(scope, "optimizer: it");
    if (optim_refuse_dead(scope, o)) return TN_E_DEAD_HANDLE;
    if (o->kind == TN_LBFGS) return optim_fail(scope, TN_E_STATE, o, "its step is tn_optimizer_step_closure");
    if (read_step(scope, o, given, &options)) return tn_scope_failed(scope);
    for (uint32_t i = 0; i < o->group_count; i++) {
        if (options.lr != TN_NOT_GIVEN) o->groups[i].lr = options.lr;
        char text[FAULT_BYTES];
        /* The program may have changed them. */
        const char *fault = optim_options_fault(o->kind, &o->groups[i], text);
        if (fault) return optim_fail(scope, TN_E_ARGUMENT, o, fault);
    }
    if (optim_follow_module(scope, o)) return tn_scope_failed(scope);
    tn_scope *s = optim_without_recording(scope);
    if (!s) return tn_scope_failed(scope);
    if (options.clip_norm > 0) tn_clip_grad_norm(s, all_of(s, o), options.clip_norm, 2);
    if (!tn_scope_failed(s) && options.lr_scale != TN_NOT_GIVEN)
        step_scaled(s, o, options.lr_scale);
    else if (!tn_scope_failed(s))
        step_all(s, o);
    return tn_scope_close(s);
}

tn_tensor *tn_optimizer_step_closure(tn_scope *s, tn_optimizer *o, tn_closure closure, void *user)
{
    if (tn_scope_failed(s)) return NULL;
    if (!o) return optim_fail_null(s, "tn_optimizer_step_closure: the optimizer"), NULL;
    if (optim_refuse_dead(s, o)) return NULL;
    if (!closure)
        return optim_fail(s, TN_E_ARGUMENT, o, "tn_optimizer_step_closure: the closure is NULL"), NULL;
    if (optim_follow_module(s, o)) return NULL;
    if (o->kind == TN_LBFGS) return optim_lbfgs_step(s, o, closure, user);
    tn_tensor *loss = closure(user, s);
    if (!loss && !tn_scope_failed(s)) optim_fail(s, TN_E_ARGUMENT, o, "the closure returned NULL");
    return tn_optimizer_step(s, o) ? NULL : loss;
}

void tn_optimizer_zero_grad(tn_optimizer *o)
{
    if (!o || optim_refuse_dead(NULL, o)) return;
    if (o->module && !module_life_check(NULL, o->life, optim_kinds[o->kind].name) &&
        tn_module_generation(o->module) != o->generation) {
        tn_scope *s = tn_scope_open(o->ctx); /* it has other tensors now, whose gradients these are */
        if (s) optim_follow_module(s, o);
        tn_scope_close(s);
    }
    for (uint32_t i = 0; i < o->count; i++) tn_set_grad(o->parameters[i].tensor, NULL);
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
