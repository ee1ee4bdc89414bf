/* SPDX-License-Identifier: Apache-2.0 */
/* Which options each kind of optimiser has, and what is wrong with options that were given. */
#include "optimizer.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define KIND(k)  (1u << (k))
#define DECAYING (~(KIND(TN_RPROP) | KIND(TN_LBFGS) | KIND(TN_SPARSEADAM)))
#define ADAM_FAMILY \
    (KIND(TN_ADAM) | KIND(TN_ADAMW) | KIND(TN_ADAMAX) | KIND(TN_NADAM) | KIND(TN_RADAM) | KIND(TN_SPARSEADAM))

/*
 * One option, and the kinds that have it. What is not here every kind has: module, lr, maximize, and `fused`, which
 * changes how a step is computed and not its result.
 */
typedef struct option {
    const char *name;
    uint32_t offset, bytes, kinds;
} option;

#define OPTION(field, kinds)                                                                             \
    {                                                                                                    \
#field, offsetof(tn_optimizer_options, field), sizeof(((tn_optimizer_options *)0)->field), kinds \
    }

static const option options_of_kinds[] = {
    OPTION(weight_decay, DECAYING),
    OPTION(decay_if, DECAYING),
    OPTION(momentum, KIND(TN_SGD) | KIND(TN_RMSPROP) | KIND(TN_MUON)),
    OPTION(dampening, KIND(TN_SGD)),
    OPTION(nesterov, KIND(TN_SGD) | KIND(TN_MUON)),
    OPTION(beta1, ADAM_FAMILY),
    OPTION(beta2, ADAM_FAMILY),
    OPTION(eps, ADAM_FAMILY | KIND(TN_ADAGRAD) | KIND(TN_ADADELTA) | KIND(TN_RMSPROP) | KIND(TN_ADAFACTOR) |
                    KIND(TN_MUON)),
    OPTION(amsgrad, KIND(TN_ADAM) | KIND(TN_ADAMW)),
    OPTION(decoupled_weight_decay, KIND(TN_ADAM) | KIND(TN_NADAM) | KIND(TN_RADAM)),
    OPTION(centered, KIND(TN_RMSPROP)),
    OPTION(alpha, KIND(TN_RMSPROP) | KIND(TN_ASGD)),
    OPTION(rho, KIND(TN_ADADELTA)),
    OPTION(lr_decay, KIND(TN_ADAGRAD)),
    OPTION(initial_accumulator_value, KIND(TN_ADAGRAD)),
    OPTION(lambd, KIND(TN_ASGD)),
    OPTION(t0, KIND(TN_ASGD)),
    OPTION(momentum_decay, KIND(TN_NADAM)),
    OPTION(eta_minus, KIND(TN_RPROP)),
    OPTION(eta_plus, KIND(TN_RPROP)),
    OPTION(step_min, KIND(TN_RPROP)),
    OPTION(step_max, KIND(TN_RPROP)),
    OPTION(beta2_decay, KIND(TN_ADAFACTOR)),
    OPTION(eps2, KIND(TN_ADAFACTOR)),
    OPTION(d, KIND(TN_ADAFACTOR)),
    OPTION(max_iter, KIND(TN_LBFGS)),
    OPTION(max_eval, KIND(TN_LBFGS)),
    OPTION(history_size, KIND(TN_LBFGS)),
    OPTION(tolerance_grad, KIND(TN_LBFGS)),
    OPTION(tolerance_change, KIND(TN_LBFGS)),
    OPTION(line_search, KIND(TN_LBFGS)),
    OPTION(ns_a, KIND(TN_MUON)),
    OPTION(ns_b, KIND(TN_MUON)),
    OPTION(ns_c, KIND(TN_MUON)),
    OPTION(ns_steps, KIND(TN_MUON)),
    OPTION(adjust_lr, KIND(TN_MUON)),
};
#define OPTIONS (sizeof options_of_kinds / sizeof *options_of_kinds)

/* An option that the kind does not have and that is not as the defaults leave it; NULL if there is none. */
static const option *foreign_of(uint32_t kind, const tn_optimizer_options *o)
{
    const tn_optimizer_options defaults = tn_optimizer_defaults(kind);
    for (uint32_t i = 0; i < OPTIONS; i++) {
        const option *at = &options_of_kinds[i];
        if (at->kinds & KIND(kind)) continue;
        if (memcmp((const char *)o + at->offset, (const char *)&defaults + at->offset, at->bytes)) return at;
    }
    return NULL;
}

static const char *foreign_text(uint32_t kind, const option *foreign, char text[FAULT_BYTES])
{
    size_t used =
        (size_t)snprintf(text, FAULT_BYTES, "option '%s': not an option of %s (it has lr, maximize, fused",
                         foreign->name, optim_kinds[kind].name);
    for (uint32_t i = 0; i < OPTIONS; i++) {
        if (!(options_of_kinds[i].kinds & KIND(kind))) continue;
        used += (size_t)snprintf(text + used, FAULT_BYTES - used, ", %s", options_of_kinds[i].name);
    }
    snprintf(text + used, FAULT_BYTES - used, ")");
    return text;
}

/* A number below 0 that must not be, or NULL. Those that a kind does not have are 0. */
static const char *sign_fault(uint32_t kind, const tn_optimizer_options *o, char text[FAULT_BYTES])
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"weight_decay", o->weight_decay},
                   {"momentum", o->momentum},
                   {"eps", o->eps},
                   {"eps2", o->eps2},
                   {"alpha", kind == TN_RMSPROP ? o->alpha : 0},
                   {"lr_decay", o->lr_decay},
                   {"initial_accumulator_value", o->initial_accumulator_value},
                   {"momentum_decay", o->momentum_decay}};
    for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= 0))
            return fault(text, "%s: must be 0 or more, got %g", numbers[i].name, numbers[i].value);
    return NULL;
}

/* A number out of its range, or NULL. */
static const char *range_fault(uint32_t kind, const tn_optimizer_options *o, char text[FAULT_BYTES])
{
    if (!(o->lr >= 0 && isfinite(o->lr)))
        return fault(text, "lr: must be 0 or more, and finite, got %g", o->lr);
    if (sign_fault(kind, o, text)) return text;
    if (!(o->beta1 >= 0 && o->beta1 < 1))
        return fault(text, "beta1: must be from 0 to 1, 1 not included, got %g", o->beta1);
    if (!(o->beta2 >= 0 && o->beta2 < 1))
        return fault(text, "beta2: must be from 0 to 1, 1 not included, got %g", o->beta2);
    if (!(o->rho >= 0 && o->rho <= 1)) return fault(text, "rho: must be from 0 to 1, got %g", o->rho);
    if (kind != TN_MUON && o->nesterov && (o->momentum == 0 || o->dampening != 0))
        return fault(text, "nesterov: needs a momentum and no dampening, got momentum %g and dampening %g",
                     o->momentum, o->dampening);
    if (kind == TN_RPROP && !(o->eta_minus > 0 && o->eta_minus < 1 && o->eta_plus > 1))
        return fault(text, "eta_minus must be between 0 and 1, eta_plus above 1, got %g and %g", o->eta_minus,
                     o->eta_plus);
    if (!(o->beta2_decay <= 0)) return fault(text, "beta2_decay: must be 0 or less, got %g", o->beta2_decay);
    if (kind == TN_ADAFACTOR && !(o->d >= 1)) return fault(text, "d: must be 1 or more, got %g", o->d);
    if (kind == TN_MUON && (o->ns_steps < 0 || o->ns_steps >= 100))
        return fault(text, "ns_steps: must be from 0 to 99, got %lld", (long long)o->ns_steps);
    if (kind == TN_MUON && o->adjust_lr && strcmp(o->adjust_lr, "original") &&
        strcmp(o->adjust_lr, "match_rms_adamw"))
        return fault(text, "adjust_lr: must be NULL, \"original\" or \"match_rms_adamw\", got \"%.80s\"",
                     o->adjust_lr);
    if (kind == TN_LBFGS && o->max_iter < 1)
        return fault(text, "max_iter: must be 1 or more, got %lld", (long long)o->max_iter);
    if (kind == TN_LBFGS && o->line_search && strcmp(o->line_search, "strong_wolfe"))
        return fault(text, "line_search: must be NULL or \"strong_wolfe\", got \"%.80s\"", o->line_search);
    return NULL;
}

const char *optim_options_read(uint32_t kind, const tn_optimizer_options *given, tn_optimizer_options *out,
                               char text[FAULT_BYTES])
{
    /* Programs that were compiled before has_defaults have a shorter struct, in which the macros set everything. */
    const uint32_t oldest = offsetof(tn_optimizer_options, has_defaults);
    if (kind < TN_SGD || kind > TN_SPARSEADAM)
        return fault(text, "kind: not one of TN_SGD to TN_SPARSEADAM, got %u", kind);
    if (!given) return "the options are NULL";
    if (given->options_size < oldest)
        return fault(text, "tn_optimizer_options: options_size is %u; set it to sizeof(tn_optimizer_options)",
                     given->options_size);
    *out = (tn_optimizer_options){.has_defaults = 1};
    memcpy(out, given, given->options_size < sizeof *out ? given->options_size : sizeof *out);
    out->options_size = sizeof *out;
    out->parameters = (tn_tensors){NULL, 0}; /* the program's */
    if (out->has_defaults) return NULL;
    return "tn_optimizer_options: has_defaults is 0, so what the program did not set would be 0; use the "
           "macros (tn_adamw_create_of, tn_optimizer_add_group), or begin with tn_optimizer_defaults(kind), "
           "in "
           "other languages with tn_optimizer_options_init";
}

const char *optim_options_fault(uint32_t kind, const tn_optimizer_options *o, char text[FAULT_BYTES])
{
    if (kind == TN_SPARSEADAM) return "there are no sparse gradients; use tn_adam_create";
    const option *foreign = foreign_of(kind, o);
    return foreign ? foreign_text(kind, foreign, text) : range_fault(kind, o, text);
}
