/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of an optimiser as a list of tensors, to files and back: "parameter.state" for each part of a
 * parameter's state, "parameter.#" its float64 numbers {step, numbers}, "#group0" the options of a group that
 * are doubles or flags, "#kind" the name of the optimiser's kind as bytes.
 */
#include "optimizer.h"
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/files.h>

#define KIND          "#kind"
#define GROUP_NUMBERS 31

/* The options that are saved, in a fixed order. */
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
                              &o->tolerance_change,
                              &o->ns_a,
                              &o->ns_b,
                              &o->ns_c};
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

static tn_tensor *numbers_of(tn_scope *s, const double *values, int64_t count)
{
    return tn_from_data(s, TN_FLOAT64, TN_INTS(count), values, TN_CPU);
}

tn_named_tensors tn_optimizer_tensors(tn_scope *s, const tn_optimizer *o)
{
    const tn_named_tensors none = {NULL, 0};
    if (!o) return optim_fail_null(s, "optimizer: tn_optimizer_tensors: it"), none;
    if (optim_refuse_dead(s, o)) return none;
    if (o->kind == TN_LBFGS) return optim_fail(s, TN_E_UNSUPPORTED, o, "its history cannot be saved"), none;
    const char *kind = optim_kinds[o->kind].name;
    uint64_t room = (uint64_t)o->count * (OPTIM_MAX_STATES + 1) + o->group_count + 2, n = 0;
    tn_named_tensor *list = tn_scope_memory(s, room * sizeof *list);
    if (!list) return none;
    list[n++] =
        (tn_named_tensor){KIND, tn_from_data(s, TN_UINT8, TN_INTS((int64_t)strlen(kind)), kind, TN_CPU)};
    for (uint32_t i = 0; i < o->count && !tn_scope_failed(s); i++) {
        const optim_parameter *at = &o->parameters[i];
        const double numbers[] = {(double)at->step, at->numbers[0], at->numbers[1]};
        list[n++] = (tn_named_tensor){joined(s, at->name, "#"), numbers_of(s, numbers, 3)};
        for (uint32_t k = 0; k < OPTIM_MAX_STATES; k++)
            if (at->state[k])
                list[n++] =
                    (tn_named_tensor){joined(s, at->name, optim_kinds[o->kind].states[k]), at->state[k]};
    }
    for (uint32_t i = 0; i < o->group_count && !tn_scope_failed(s); i++) {
        double values[GROUP_NUMBERS];
        group_numbers(&o->groups[i], values, 0);
        list[n++] = (tn_named_tensor){group_name(s, i), numbers_of(s, values, GROUP_NUMBERS)};
    }
    return tn_scope_failed(s) ? none : (tn_named_tensors){list, (int64_t)n};
}

int32_t tn_optimizer_save(const tn_optimizer *o, const char *path)
{
    if (!o) return optim_fail_null(NULL, "optimizer: tn_optimizer_save: it");
    tn_scope *s = tn_scope_open(o->ctx);
    if (!s) return tn_last_error()->code;
    tn_named_tensors state = tn_optimizer_tensors(s, o);
    if (!tn_scope_failed(s)) tn_safetensors_save(s, path, state.data, (uint64_t)state.count, NULL, 0);
    return tn_scope_close(s);
}

/* ---- Loading ------------------------------------------------------------------------------------------ */

static tn_tensor *find(tn_named_tensors state, const char *name)
{
    for (int64_t i = 0; name && i < state.count; i++)
        if (state.data[i].name && !strcmp(state.data[i].name, name)) return state.data[i].tensor;
    return NULL;
}

/* The kind of a state, "" if it cannot be read. Tensors of devices are not: their work may not have finished. */
static void read_kind(const tn_tensor *t, char kind[32])
{
    const int64_t bytes = tn_tensor_numel(t);
    *kind = 0;
    if (t && tn_tensor_device(t) == TN_CPU && tn_tensor_dtype(t) == TN_UINT8 && bytes < 32 &&
        tn_tensor_data(t) && tn_tensor_is_contiguous(t, TN_CONTIGUOUS_FORMAT))
        snprintf(kind, 32, "%.*s", (int)bytes, (const char *)tn_tensor_data(t));
}

/* Refuses the state of another kind of optimizer, or of none. */
static int32_t compare_kind(tn_scope *s, tn_named_tensors state, const tn_optimizer *o)
{
    char kind[32], text[128];
    const tn_tensor *t = find(state, KIND);
    read_kind(t, kind);
    if (!strcmp(kind, optim_kinds[o->kind].name)) return TN_OK;
    if (!t && find(state, "optimizer." KIND))
        return optim_fail(s, TN_E_ARGUMENT, o, "the file is a checkpoint, which tn_checkpoint_load reads");
    if (!t) return optim_fail(s, TN_E_ARGUMENT, o, "the file has no state of an optimizer ('" KIND "')");
    snprintf(text, sizeof text, "the file is of another optimizer%s%s", *kind ? ", " : "", kind);
    return optim_fail(s, TN_E_ARGUMENT, o, text);
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

/* The names of the state's parameters must be those of the optimizer's, and its groups as many. */
static void compare_parameters(tn_scope *s, tn_named_tensors state, const tn_optimizer *o)
{
    char text[448] = "";
    int32_t missing = 0, unexpected = 0;
    for (uint32_t i = 0; i < o->count && !tn_scope_failed(s); i++) {
        const char *name = o->parameters[i].name;
        if (!find(state, joined(s, name, "#")))
            append(text, sizeof text, missing++ ? ", " : "missing: ", name, (int)strlen(name));
    }
    for (int64_t i = 0; i < state.count; i++) {
        const char *name = state.data[i].name, *dot = name ? strrchr(name, '.') : NULL;
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
        optim_fail(s, TN_E_NOT_FOUND, o, all);
        return;
    }
    uint32_t groups = 0;
    while (find(state, group_name(s, groups))) groups++;
    if (groups == o->group_count || tn_scope_failed(s)) return;
    snprintf(text, sizeof text, "the file has %u group%s, expected %u", groups, groups == 1 ? "" : "s",
             o->group_count);
    optim_fail(s, TN_E_ARGUMENT, o, text);
}

/* Sizes of a state: those of the parameter, but for the means of Adafactor. */
static int32_t fits(const char *state, const tn_tensor *t, const tn_tensor *like)
{
    int64_t rank = tn_tensor_rank(like);
    int32_t is_row = !strcmp(state, "row_var"), is_column = !strcmp(state, "col_var");
    if (!is_row && !is_column) return same_sizes(t, like);
    if (tn_tensor_rank(t) != rank || rank < 2) return 0;
    for (int64_t d = 0; d < rank; d++)
        if (tn_tensor_size(t, d) != (d == (is_row ? rank - 1 : rank - 2) ? 1 : tn_tensor_size(like, d)))
            return 0;
    return 1;
}

/* A state of a parameter, cast to the dtype that steps work in, as PyTorch does. It shares nothing with the
 * list. */
static tn_tensor *read_state(tn_scope *s, tn_named_tensors state, const tn_optimizer *o,
                             const optim_parameter *at, const char *part)
{
    const char *name = joined(s, at->name, part);
    tn_tensor *like = optim_real(s, tn_detach(s, at->tensor)), *t = like ? find(state, name) : NULL;
    if (!t) return NULL;
    if (!fits(part, t, like)) {
        char text[256];
        snprintf(text, sizeof text, "state '%.180s' of the file does not have the parameter's sizes", name);
        optim_fail(s, TN_E_SHAPE, o, text);
        return NULL;
    }
    tn_tensor *own = optim_state_like(s, t, like);
    return own && tn_tensor_is_alias(own, t) ? tn_clone(s, own) : own;
}

static void read_numbers(tn_scope *s, tn_named_tensors state, const char *name, double *out, uint64_t count)
{
    tn_tensor *t = find(state, name);
    if (t && (tn_tensor_dtype(t) != TN_FLOAT64 || (uint64_t)tn_tensor_numel(t) != count))
        tn_scope_fail(s, TN_E_CORRUPT, "optimizer: the file's numbers are not those of an optimizer");
    if (t && !tn_scope_failed(s)) tn_to_host(s, t, out, count * sizeof *out);
}

/* Reads all of it into `into` and `groups`, so that a bad list changes nothing. */
static void read_all(tn_scope *s, tn_named_tensors state, const tn_optimizer *o, optim_parameter *into,
                     tn_optimizer_options *groups)
{
    if (!compare_kind(s, state, o)) compare_parameters(s, state, o);
    for (uint32_t i = 0; i < o->count && !tn_scope_failed(s); i++) {
        double numbers[3] = {0};
        into[i] = (optim_parameter){0};
        read_numbers(s, state, joined(s, o->parameters[i].name, "#"), numbers, 3);
        if (!(numbers[0] >= 0 && numbers[0] <= 0x1p53)) {
            char text[256];
            plain_snprintf(text, sizeof text, "the state of '%.180s' has %g steps", o->parameters[i].name,
                           numbers[0]);
            optim_fail(s, TN_E_CORRUPT, o, text);
            return;
        }
        into[i].step = (int64_t)numbers[0];
        memcpy(into[i].numbers, numbers + 1, sizeof into[i].numbers);
        for (uint32_t k = 0; k < OPTIM_MAX_STATES && optim_kinds[o->kind].states[k]; k++)
            into[i].state[k] = read_state(s, state, o, &o->parameters[i], optim_kinds[o->kind].states[k]);
    }
    for (uint32_t i = 0; i < o->group_count && !tn_scope_failed(s); i++) {
        double values[GROUP_NUMBERS] = {0};
        groups[i] = o->groups[i];
        read_numbers(s, state, group_name(s, i), values, GROUP_NUMBERS);
        group_numbers(&groups[i], values, 1);
    }
}

/* `path` is that of the file that the state comes from, or NULL. */
static int32_t load_state(tn_optimizer *o, tn_named_tensors state, const char *path)
{
    tn_scope_options options = {.size = sizeof options, .grad_mode = TN_GRAD_OFF};
    tn_scope *s = tn_scope_open_with(o->ctx, &options);
    if (!s) return tn_last_error()->code;
    optim_parameter *into = tn_scope_memory(s, (o->count + 1) * sizeof *into);
    tn_optimizer_options *groups = tn_scope_memory(s, (o->group_count + 1) * sizeof *groups);
    if (!tn_scope_failed(s)) optim_follow_module(s, o);
    if (into && groups && !tn_scope_failed(s)) read_all(s, state, o, into, groups);
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
    if (tn_scope_failed(s) && path) {
        char text[512];
        snprintf(text, sizeof text, " (file '%.480s')", path);
        tn_scope_add_to_error(s, text);
    }
    return tn_scope_close(s);
}

int32_t tn_optimizer_load_state(tn_optimizer *o, tn_named_tensors state)
{
    if (!o) return optim_fail_null(NULL, "optimizer: tn_optimizer_load_state: it");
    if (optim_refuse_dead(NULL, o)) return TN_E_DEAD_HANDLE;
    if (refuse_null_items(NULL, optim_kinds[o->kind].name, state)) return TN_E_ARGUMENT;
    return load_state(o, state, NULL);
}

int32_t tn_optimizer_load(tn_optimizer *o, const char *path)
{
    tn_file *file = NULL;
    if (!o) return optim_fail_null(NULL, "optimizer: tn_optimizer_load: it");
    if (optim_refuse_dead(NULL, o)) return TN_E_DEAD_HANDLE;
    int32_t status = tn_file_open(o->ctx, path, &file);
    if (status) return status;
    tn_scope *s = tn_scope_open(o->ctx);
    tn_named_tensors state = tn_file_tensors(s, file);
    status = tn_scope_failed(s);
    if (!status) status = load_state(o, state, path);
    int32_t read = tn_scope_close(s);
    tn_file_close(file);
    return read ? read : status;
}
