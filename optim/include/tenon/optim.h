/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimisers, learning rates, averages of parameters, scaling of gradients. Formulas, defaults and the names of states
 * are those of torch.optim.
 *
 *     tn_optimizer *o = tn_adamw_create(net, .lr = 3e-4, .weight_decay = 0.1, .decay_if = tn_rank_over_1);
 *     ...
 *     tn_backward(s, loss);
 *     tn_optimizer_step(s, o, .clip_norm = 1, .lr = tn_lr_cosine(i, 3e-4, steps, 0));
 *     tn_optimizer_zero_grad(o);
 *
 * Threads: an optimiser is used by one thread at a time. Parameters without a gradient are left alone by a step.
 */
#ifndef TENON_OPTIM_H
#define TENON_OPTIM_H

#include <tenon/nn.h>

#ifndef TN_PLUGIN
TN_BEGIN_DECLS

typedef struct tn_optimizer tn_optimizer;

#define TN_SGD        1u
#define TN_ADAM       2u
#define TN_ADAMW      3u
#define TN_ADAGRAD    4u
#define TN_ADADELTA   5u
#define TN_ADAMAX     6u
#define TN_ASGD       7u
#define TN_NADAM      8u
#define TN_RADAM      9u
#define TN_RMSPROP    10u
#define TN_RPROP      11u
#define TN_ADAFACTOR  12u
#define TN_LBFGS      13u
#define TN_MUON       14u
#define TN_SPARSEADAM 15u /* refused: gradients are not sparse */

#define TN_NOT_GIVEN (-1e300) /* a number that stands for none */

/*
 * Options of a group of parameters, under PyTorch's names (betas are beta1 and beta2, etas are eta_minus and eta_plus).
 * The macros below set the defaults. So does tn_optimizer_create, of what is TN_NOT_GIVEN, of flags that are -1, and of
 * max_iter and history_size that are TN_NONE: as all of them are in C++ until the program sets them.
 *
 * An option that the optimiser's kind does not have is refused by name, unless it has the value of one that is not given
 * (0 or NULL in C). `.momentum = 0.9` of tn_adam_create is an error, `.momentum = 0` is not. Each kind takes `fused`.
 */
typedef struct tn_optimizer_options {
    uint32_t options_size TN_OPTION(sizeof(struct tn_optimizer_options));
    int32_t maximize TN_OPTION(-1); /* steps go up the gradient */
    tn_module *module TN_OPTION();  /* whose parameters; unused in groups */
    const struct tn_options_have_names *options_have_names
    TN_OPTION(); /* unused: `.lr = 0.1`; one without its name does not compile */
    int32_t nesterov TN_OPTION(-1), amsgrad TN_OPTION(-1), centered TN_OPTION(-1),
        decoupled_weight_decay TN_OPTION(-1);
    /* 1: one call for many tensors (sgd, adam, adamw, adagrad); 0: an operator at a time; -1: 1 on the CPU and on devices that
     * have a kernel for it */
    int32_t fused TN_OPTION(-1);
    int32_t reserved TN_OPTION();
    double lr TN_OPTION(TN_NOT_GIVEN), weight_decay TN_OPTION(TN_NOT_GIVEN);
    double momentum TN_OPTION(TN_NOT_GIVEN), dampening TN_OPTION(TN_NOT_GIVEN); /* sgd, rmsprop, muon; sgd */
    double beta1 TN_OPTION(TN_NOT_GIVEN), beta2 TN_OPTION(TN_NOT_GIVEN),
        eps TN_OPTION(TN_NOT_GIVEN); /* adam and its family; eps: most */
    double alpha TN_OPTION(TN_NOT_GIVEN), rho TN_OPTION(TN_NOT_GIVEN), lr_decay TN_OPTION(TN_NOT_GIVEN),
        initial_accumulator_value TN_OPTION(TN_NOT_GIVEN); /* rmsprop and asgd; adadelta; adagrad */
    double lambd TN_OPTION(TN_NOT_GIVEN), t0 TN_OPTION(TN_NOT_GIVEN); /* asgd */
    double momentum_decay TN_OPTION(TN_NOT_GIVEN);                    /* nadam */
    double eta_minus TN_OPTION(TN_NOT_GIVEN), eta_plus TN_OPTION(TN_NOT_GIVEN),
        step_min TN_OPTION(TN_NOT_GIVEN), step_max TN_OPTION(TN_NOT_GIVEN); /* rprop */
    double beta2_decay TN_OPTION(TN_NOT_GIVEN), eps2 TN_OPTION(TN_NOT_GIVEN),
        d TN_OPTION(TN_NOT_GIVEN); /* adafactor; eps 0: that of the dtype */
    int64_t max_iter TN_OPTION(TN_NONE), max_eval TN_OPTION(),
        history_size TN_OPTION(TN_NONE); /* lbfgs; max_eval 0: 1.25 max_iter */
    double tolerance_grad TN_OPTION(TN_NOT_GIVEN), tolerance_change TN_OPTION(TN_NOT_GIVEN);
    const char *line_search TN_OPTION(); /* lbfgs: NULL, or "strong_wolfe" */
    /* weight_decay is for the parameters for which this returns 1; NULL: all */
    int32_t (*decay_if)(const tn_tensor *parameter) TN_OPTION();
    /* muon: the polynomial and the number of its Newton-Schulz steps (0: 5), and how the rate follows the sizes of a matrix:
     * NULL or "original", or "match_rms_adamw". Texts of options are not copied: they must live as long as the optimiser. */
    double ns_a TN_OPTION(TN_NOT_GIVEN), ns_b TN_OPTION(TN_NOT_GIVEN), ns_c TN_OPTION(TN_NOT_GIVEN);
    int64_t ns_steps TN_OPTION();
    const char *adjust_lr TN_OPTION();
    /* 1: what the program does not set has its default, or is TN_NOT_GIVEN. The macros, C++, TN_OPTIONS_NOT_GIVEN and
     * tn_optimizer_defaults set it. A struct without it is refused: what is not set there would be 0. */
    int32_t has_defaults TN_OPTION(1);
    int32_t reserved_too TN_OPTION();
    tn_tensors parameters TN_OPTION(); /* of tn_adamw_create_of and its like */
    const struct tn_options_have_names *options_of_lists_have_names TN_OPTION(); /* unused */
} tn_optimizer_options;

/* 1 for matrices and tensors of more dimensions: weights, but not biases and norms. */
TN_API int32_t tn_rank_over_1(const tn_tensor *parameter);

/* For all parameters of options->module, under their names. NULL and tn_last_error() for bad options. The first step
 * makes the states. The optimiser keeps the parameters alive, but not the module, which must live as long: a step after
 * tn_module_destroy is TN_E_DEAD_HANDLE. After tn_module_to and tn_module_set_tensor the next step or tn_optimizer_zero_grad
 * takes the new tensors, and its states go to their devices and dtypes. */
TN_API tn_optimizer *tn_optimizer_create(uint32_t kind, const tn_optimizer_options *options);
/* For a list of leaves, named "0", "1", ...; the optimiser takes references. With defaults: tn_adamw_create_of and its like;
 * else begin with tn_optimizer_defaults(kind). */
TN_API tn_optimizer *tn_optimizer_create_of(tn_context *ctx, tn_tensors parameters, uint32_t kind,
                                            const tn_optimizer_options *options);
/*
 * One more group, with options of its own: tn_optimizer_add_group(o, TN_TENSORS(w), .lr = 0.01). What is not given
 * (TN_NOT_GIVEN; -1 in flags; NULL) is that of the first group, but for decay_if. TN_E_EXISTS for a parameter that is in a group already.
 */
TN_API int32_t tn_optimizer_add_group_with(tn_optimizer *o, tn_tensors parameters,
                                           const tn_optimizer_options *options);
#ifdef __cplusplus
static inline int32_t tn_optimizer_add_group(tn_optimizer *o, tn_tensors parameters,
                                             const tn_optimizer_options &options)
{
    return tn_optimizer_add_group_with(o, parameters, &options);
}
#else
#define tn_optimizer_add_group(o, parameters, ...)                                                        \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(tn_optimizer_add_group_with( \
        o, parameters,                                                                                    \
        &(tn_optimizer_options){                                                                          \
            .options_size = sizeof(tn_optimizer_options), TN_OPTIONS_NOT_GIVEN, __VA_ARGS__})))
#endif
#define TN_OPTIONS_NOT_GIVEN                                                                               \
    .has_defaults = 1, .maximize = -1, .nesterov = -1, .amsgrad = -1, .centered = -1,                      \
    .decoupled_weight_decay = -1, .fused = -1, .lr = TN_NOT_GIVEN, .weight_decay = TN_NOT_GIVEN,           \
    .momentum = TN_NOT_GIVEN, .dampening = TN_NOT_GIVEN, .beta1 = TN_NOT_GIVEN, .beta2 = TN_NOT_GIVEN,     \
    .eps = TN_NOT_GIVEN, .alpha = TN_NOT_GIVEN, .rho = TN_NOT_GIVEN, .lr_decay = TN_NOT_GIVEN,             \
    .initial_accumulator_value = TN_NOT_GIVEN, .lambd = TN_NOT_GIVEN, .t0 = TN_NOT_GIVEN,                  \
    .momentum_decay = TN_NOT_GIVEN, .eta_minus = TN_NOT_GIVEN, .eta_plus = TN_NOT_GIVEN,                   \
    .step_min = TN_NOT_GIVEN, .step_max = TN_NOT_GIVEN, .beta2_decay = TN_NOT_GIVEN, .eps2 = TN_NOT_GIVEN, \
    .d = TN_NOT_GIVEN, .ns_a = TN_NOT_GIVEN, .ns_b = TN_NOT_GIVEN, .ns_c = TN_NOT_GIVEN
TN_API void tn_optimizer_destroy(TN_TAKES TN_NULLABLE tn_optimizer *o);
#ifdef TN_AUTO_TYPE
TN_AUTO_TYPE(tn_optimizer, tn_optimizer_destroy)
#endif

#ifdef __cplusplus
/* tn_adamw_create(net, {.lr = 3e-4}) from C++20 on; before it `tn_optimizer_options o; o.lr = 3e-4;`. */
#define TN_OPTIMIZER_CREATE(name, kind)                                                            \
    static inline tn_optimizer *tn_##name##_create(tn_module *module, tn_optimizer_options o = {}) \
    {                                                                                              \
        o.module = module;                                                                         \
        return tn_optimizer_create(kind, &o);                                                      \
    }                                                                                              \
    static inline tn_optimizer *tn_##name##_create_of(tn_context *ctx, tn_tensors parameters,      \
                                                      tn_optimizer_options o = {})                 \
    {                                                                                              \
        return tn_optimizer_create_of(ctx, parameters, kind, &o);                                  \
    }
TN_OPTIMIZER_CREATE(sgd, TN_SGD)
TN_OPTIMIZER_CREATE(adam, TN_ADAM)
TN_OPTIMIZER_CREATE(adamw, TN_ADAMW)
TN_OPTIMIZER_CREATE(adagrad, TN_ADAGRAD)
TN_OPTIMIZER_CREATE(adadelta, TN_ADADELTA)
TN_OPTIMIZER_CREATE(adamax, TN_ADAMAX)
TN_OPTIMIZER_CREATE(asgd, TN_ASGD)
TN_OPTIMIZER_CREATE(nadam, TN_NADAM)
TN_OPTIMIZER_CREATE(radam, TN_RADAM)
TN_OPTIMIZER_CREATE(rmsprop, TN_RMSPROP)
TN_OPTIMIZER_CREATE(rprop, TN_RPROP)
TN_OPTIMIZER_CREATE(adafactor, TN_ADAFACTOR)
TN_OPTIMIZER_CREATE(lbfgs, TN_LBFGS)
TN_OPTIMIZER_CREATE(muon, TN_MUON)
TN_OPTIMIZER_CREATE(sparseadam, TN_SPARSEADAM)
#undef TN_OPTIMIZER_CREATE
#else
#define TN_OPTIMIZER(kind, ...)                                                                   \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(tn_optimizer_create( \
        kind,                                                                                     \
        &(tn_optimizer_options){                                                                  \
            .options_size = sizeof(tn_optimizer_options), .fused = -1, .has_defaults = 1, __VA_ARGS__})))
#define TN_OPTIMIZER_OF(ctx, kind, ...)                                                                  \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(tn_optimizer_create_listed( \
        ctx, kind,                                                                                       \
        &(tn_optimizer_options){                                                                         \
            .options_size = sizeof(tn_optimizer_options), .fused = -1, .has_defaults = 1, __VA_ARGS__})))
#endif
#define TN_SGD_DEFAULTS       .lr = 1e-3
#define TN_ADAM_DEFAULTS      .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
#define TN_ADAMW_DEFAULTS     TN_ADAM_DEFAULTS, .weight_decay = 1e-2
#define TN_ADAGRAD_DEFAULTS   .lr = 1e-2, .eps = 1e-10
#define TN_ADADELTA_DEFAULTS  .lr = 1, .rho = 0.9, .eps = 1e-6
#define TN_ADAMAX_DEFAULTS    .lr = 2e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
#define TN_ASGD_DEFAULTS      .lr = 1e-2, .lambd = 1e-4, .alpha = 0.75, .t0 = 1e6
#define TN_NADAM_DEFAULTS     .lr = 2e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .momentum_decay = 4e-3
#define TN_RMSPROP_DEFAULTS   .lr = 1e-2, .alpha = 0.99, .eps = 1e-8
#define TN_RPROP_DEFAULTS     .lr = 1e-2, .eta_minus = 0.5, .eta_plus = 1.2, .step_min = 1e-6, .step_max = 50
#define TN_ADAFACTOR_DEFAULTS .lr = 1e-2, .beta2_decay = -0.8, .eps2 = 1e-3, .d = 1
#define TN_LBFGS_DEFAULTS \
    .lr = 1, .max_iter = 20, .tolerance_grad = 1e-7, .tolerance_change = 1e-9, .history_size = 100

#define TN_MUON_DEFAULTS                                                                           \
    .lr = 1e-3, .weight_decay = 0.1, .momentum = 0.95, .nesterov = 1, .eps = 1e-7, .ns_a = 3.4445, \
    .ns_b = -4.775, .ns_c = 2.0315, .ns_steps = 5

/*
 * Writes the defaults of a kind, as the macros below have them, for other languages: set out->options_size before.
 * TN_E_ARGUMENT for an unknown kind, or a size below that of the first version.
 */
TN_API int32_t tn_optimizer_options_init(uint32_t kind, TN_OUT tn_optimizer_options *out);
/* The same in C and C++; options_size is 0 for an unknown kind. */
static inline tn_optimizer_options tn_optimizer_defaults(uint32_t kind)
{
#ifdef __cplusplus
    tn_optimizer_options o;
#else
    tn_optimizer_options o = {0};
#endif
    o.options_size = sizeof o;
    if (tn_optimizer_options_init(kind, &o)) o.options_size = 0;
    return o;
}

#ifndef __cplusplus
/* What the macros of lists below call. */
static inline tn_optimizer *tn_optimizer_create_listed(tn_context *ctx, uint32_t kind,
                                                       const tn_optimizer_options *o)
{
    return tn_optimizer_create_of(ctx, o->parameters, kind, o);
}

/* Robbins and Monro 1951; with momentum Sutskever et al. 2013. */
#define tn_sgd_create(...) TN_OPTIMIZER(TN_SGD, TN_SGD_DEFAULTS, .module = __VA_ARGS__)
/* Kingma and Ba 2015; amsgrad Reddi et al. 2018. */
#define tn_adam_create(...) TN_OPTIMIZER(TN_ADAM, TN_ADAM_DEFAULTS, .module = __VA_ARGS__)
/* Loshchilov and Hutter 2019. */
#define tn_adamw_create(...) TN_OPTIMIZER(TN_ADAMW, TN_ADAMW_DEFAULTS, .module = __VA_ARGS__)
/* Duchi et al. 2011. */
#define tn_adagrad_create(...) TN_OPTIMIZER(TN_ADAGRAD, TN_ADAGRAD_DEFAULTS, .module = __VA_ARGS__)
/* Zeiler 2012. */
#define tn_adadelta_create(...) TN_OPTIMIZER(TN_ADADELTA, TN_ADADELTA_DEFAULTS, .module = __VA_ARGS__)
/* Kingma and Ba 2015, with the infinity norm. */
#define tn_adamax_create(...) TN_OPTIMIZER(TN_ADAMAX, TN_ADAMAX_DEFAULTS, .module = __VA_ARGS__)
/* Polyak and Juditsky 1992. */
#define tn_asgd_create(...) TN_OPTIMIZER(TN_ASGD, TN_ASGD_DEFAULTS, .module = __VA_ARGS__)
/* Dozat 2016. */
#define tn_nadam_create(...) TN_OPTIMIZER(TN_NADAM, TN_NADAM_DEFAULTS, .module = __VA_ARGS__)
/* Liu et al. 2020. */
#define tn_radam_create(...) TN_OPTIMIZER(TN_RADAM, TN_ADAM_DEFAULTS, .module = __VA_ARGS__)
/* Hinton 2012; centered Graves 2013. */
#define tn_rmsprop_create(...) TN_OPTIMIZER(TN_RMSPROP, TN_RMSPROP_DEFAULTS, .module = __VA_ARGS__)
/* Riedmiller and Braun 1993. */
#define tn_rprop_create(...) TN_OPTIMIZER(TN_RPROP, TN_RPROP_DEFAULTS, .module = __VA_ARGS__)
/* Shazeer and Stern 2018. */
#define tn_adafactor_create(...) TN_OPTIMIZER(TN_ADAFACTOR, TN_ADAFACTOR_DEFAULTS, .module = __VA_ARGS__)
/* Liu and Nocedal 1989. Its step is tn_optimizer_step_closure. */
#define tn_lbfgs_create(...) TN_OPTIMIZER(TN_LBFGS, TN_LBFGS_DEFAULTS, .module = __VA_ARGS__)

/* Jordan et al. 2024, for matrices alone: give the other parameters to another optimiser (tn_optimizer_create_of). The
 * products of its Newton-Schulz steps are in bfloat16, as in PyTorch. */
#define tn_muon_create(...) TN_OPTIMIZER(TN_MUON, TN_MUON_DEFAULTS, .module = __VA_ARGS__)
/* Refused, because gradients are not sparse: NULL, and TN_E_UNSUPPORTED with what to use instead. */
#define tn_sparseadam_create(...) TN_OPTIMIZER(TN_SPARSEADAM, TN_ADAM_DEFAULTS, .module = __VA_ARGS__)

/* The same for a list of leaves: tn_adamw_create_of(ctx, TN_TENSORS(w, b), .lr = 3e-4). */
#define tn_sgd_create_of(ctx, ...)  TN_OPTIMIZER_OF(ctx, TN_SGD, TN_SGD_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_adam_create_of(ctx, ...) TN_OPTIMIZER_OF(ctx, TN_ADAM, TN_ADAM_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_adamw_create_of(ctx, ...) \
    TN_OPTIMIZER_OF(ctx, TN_ADAMW, TN_ADAMW_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_adagrad_create_of(ctx, ...) \
    TN_OPTIMIZER_OF(ctx, TN_ADAGRAD, TN_ADAGRAD_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_adadelta_create_of(ctx, ...) \
    TN_OPTIMIZER_OF(ctx, TN_ADADELTA, TN_ADADELTA_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_adamax_create_of(ctx, ...) \
    TN_OPTIMIZER_OF(ctx, TN_ADAMAX, TN_ADAMAX_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_asgd_create_of(ctx, ...) TN_OPTIMIZER_OF(ctx, TN_ASGD, TN_ASGD_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_nadam_create_of(ctx, ...) \
    TN_OPTIMIZER_OF(ctx, TN_NADAM, TN_NADAM_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_radam_create_of(ctx, ...) \
    TN_OPTIMIZER_OF(ctx, TN_RADAM, TN_ADAM_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_rmsprop_create_of(ctx, ...) \
    TN_OPTIMIZER_OF(ctx, TN_RMSPROP, TN_RMSPROP_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_rprop_create_of(ctx, ...) \
    TN_OPTIMIZER_OF(ctx, TN_RPROP, TN_RPROP_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_adafactor_create_of(ctx, ...) \
    TN_OPTIMIZER_OF(ctx, TN_ADAFACTOR, TN_ADAFACTOR_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_lbfgs_create_of(ctx, ...) \
    TN_OPTIMIZER_OF(ctx, TN_LBFGS, TN_LBFGS_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_muon_create_of(ctx, ...) TN_OPTIMIZER_OF(ctx, TN_MUON, TN_MUON_DEFAULTS, .parameters = __VA_ARGS__)
#define tn_sparseadam_create_of(ctx, ...) \
    TN_OPTIMIZER_OF(ctx, TN_SPARSEADAM, TN_ADAM_DEFAULTS, .parameters = __VA_ARGS__)
#endif

/* ---- Steps ----------------------------------------------------------------------------------------------- */

typedef struct tn_step_options {
    uint32_t options_size TN_OPTION(sizeof(struct tn_step_options));
    uint32_t reserved TN_OPTION();
    tn_optimizer *optimizer TN_OPTION();
    const struct tn_options_have_names *options_have_names
    TN_OPTION();                       /* unused: `.lr = 0.1`; one without its name does not compile */
    double clip_norm TN_OPTION();      /* above 0: gradients are scaled so that their norm is at most this */
    double lr TN_OPTION(TN_NOT_GIVEN); /* of all groups, from this step on; TN_NOT_GIVEN: they keep theirs */
    /* This step's rate as a factor of each group's own, which it keeps; TN_NOT_GIVEN: 1. Not with lr. For schedules of groups
     * with rates of their own: .lr_scale = tn_lr_cosine(i, 1, steps, 0) */
    double lr_scale TN_OPTION(TN_NOT_GIVEN);
    /* 1: what the program does not set is TN_NOT_GIVEN; the macro and C++ set it. Without it an lr of 0 is refused, and an
     * lr_scale of 0 is not given. */
    int32_t has_defaults TN_OPTION(1);
    int32_t reserved_too TN_OPTION();
} tn_step_options;
/* Changes the parameters from their gradients. Returns the status of the scope. */
TN_API int32_t tn_optimizer_step_with(tn_scope *s, const tn_step_options *options);
#ifndef __cplusplus /* in C++ it is a function, at the end of this file */
#define tn_optimizer_step(s, ...)                                                             \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(                 \
        tn_optimizer_step_with(s, &(tn_step_options){.options_size = sizeof(tn_step_options), \
                                                     .lr = TN_NOT_GIVEN,                      \
                                                     .lr_scale = TN_NOT_GIVEN,                \
                                                     .has_defaults = 1,                       \
                                                     .optimizer = __VA_ARGS__})))
#endif
/* A step that runs the model itself, as often as it needs: `closure` sets the gradients to zero, computes the loss,
 * runs backward, and returns the loss. lbfgs calls it several times, the others once. Returns the first loss, or NULL
 * if the step failed. */
typedef TN_NULLABLE tn_tensor *(*tn_closure)(void *user, tn_scope *s);
TN_API TN_SCOPED tn_tensor *tn_optimizer_step_closure(tn_scope *s, tn_optimizer *o, tn_closure closure,
                                                      void *user);
TN_API void tn_optimizer_zero_grad(tn_optimizer *o);

TN_API uint32_t tn_optimizer_group_count(const tn_optimizer *o);
/* Options of a group, to be read and changed between steps; valid until a group is added. NULL if there is none. */
TN_API tn_optimizer_options *tn_optimizer_group(tn_optimizer *o, uint32_t group);
/* A part of a parameter's state ("exp_avg", "momentum_buffer", "step", ...); NULL if there is none. Borrowed. */
TN_API tn_tensor *tn_optimizer_state(const tn_optimizer *o, const tn_tensor *parameter, const char *name);

/* States, and options that are a double or a flag, to a safetensors file and back; a run goes on from them bit for bit. The
 * program sets its other options again (decay_if, fused, ns_steps, adjust_lr). Loading requires the same kind, parameters of
 * the same names and sizes, and as many groups; states are cast to the parameter's dtype. An error names what differs, and
 * nothing is changed. TN_E_UNSUPPORTED for lbfgs. */
TN_API int32_t tn_optimizer_save(const tn_optimizer *o, const char *path);
TN_API int32_t tn_optimizer_load(tn_optimizer *o, const char *path);
/* The same as tensors in memory, and from them: they are copied. The list belongs to the scope. */
TN_API tn_named_tensors tn_optimizer_tensors(tn_scope *s, const tn_optimizer *o);
TN_API int32_t tn_optimizer_load_state(tn_optimizer *o, tn_named_tensors state);

/* ---- Learning rates -----------------------------------------------------------------------------------------
 * The rate at step i (0, 1, ...), in closed form: nothing is kept between steps. Two are chained by a product, and put
 * one after another by `i < n ? a(i) : b(i - n)`. */
/* base * gamma ^ (i / size) */
TN_API double tn_lr_step(int64_t i, double base, int64_t size, double gamma);
/* base * gamma ^ (number of milestones that i has reached) */
TN_API double tn_lr_multi_step(int64_t i, double base, tn_ints milestones, double gamma);
/* base * factor before step `total`, then base */
TN_API double tn_lr_constant(int64_t i, double base, double factor, int64_t total);
/* base * a line from `from` to `to` over `total` steps */
TN_API double tn_lr_linear(int64_t i, double base, double from, double to, int64_t total);
TN_API double tn_lr_exponential(int64_t i, double base, double gamma);
/* base * (1 - i / total) ^ power */
TN_API double tn_lr_polynomial(int64_t i, double base, int64_t total, double power);
/* Half a cosine from base to `low` over `total` steps, and up again behind them. */
TN_API double tn_lr_cosine(int64_t i, double base, int64_t total, double low);
/* Loshchilov and Hutter 2017: starts again after first, first * factor, ... steps. */
TN_API double tn_lr_cosine_restarts(int64_t i, double base, int64_t first, int64_t factor, double low);
/* Linear warm-up over `warm_up` steps, then half a cosine to 0 at `total`. */
TN_API double tn_lr_warm_up_cosine(int64_t i, double base, int64_t warm_up, int64_t total);
/* Smith 2017: between low and high, `up` steps up and `down` steps down. Modes: "triangular", "triangular2" (half the
 * height each cycle), "exp_range" (height gamma ^ i). Others give NAN, which steps refuse. */
TN_API double tn_lr_cyclic(int64_t i, double low, double high, int64_t up, int64_t down, const char *mode,
                           double gamma);
/* Smith and Topin 2019: up to `high` over the share `rise` of all steps, then down to high / start / end. PyTorch's
 * defaults: rise 0.3, start 25, end 1e4. */
TN_API double tn_lr_one_cycle(int64_t i, double high, int64_t total, double rise, double start, double end);

/* Less when a measure no longer improves (ReduceLROnPlateau). The struct is the program's; zeros are the defaults. */
typedef struct tn_plateau {
    double lr;                             /* the present rate; the program sets the first one */
    double factor, threshold, low;         /* 0: 0.1, 1e-4, 0 */
    int64_t patience, cooldown;            /* patience 0: 10; -1: none */
    int32_t higher_is_better, is_absolute; /* threshold: a share of the best value, or a difference */
    double best;
    int64_t bad, cooling, count; /* private; 0 at the start */
} tn_plateau;
/* After each epoch, with the measure; returns the rate. */
TN_API double tn_plateau_step(tn_plateau *p, double measure);

/* ---- Averages of parameters --------------------------------------------------------------------------------- */

/* The mean of a module's parameters over updates, of which the first copies the values: equal weights (SWA, Izmailov et al. 2018) with
 * `decay` 0, else mean * decay + value * (1 - decay) (EMA). The module must live as long; else calls are TN_E_DEAD_HANDLE. */
typedef struct tn_average tn_average;
TN_API tn_average *tn_average_create(tn_module *module, double decay);
TN_API int32_t tn_average_update(tn_scope *s, tn_average *a);
/* Exchanges the module's values with the averages; a second call exchanges them back. Between the two an update, the
 * averages' tensors, loading them and a checkpoint of them are TN_E_STATE: the averages are in the module. */
TN_API int32_t tn_average_swap(tn_scope *s, tn_average *a);
/* The averages under the names of the parameters, and "#updates"; and from them. */
TN_API tn_named_tensors tn_average_tensors(tn_scope *s, const tn_average *a);
TN_API int32_t tn_average_load_state(tn_average *a, tn_named_tensors state);
TN_API void tn_average_destroy(TN_TAKES TN_NULLABLE tn_average *a);
#ifdef TN_AUTO_TYPE
TN_AUTO_TYPE(tn_average, tn_average_destroy)
#endif

/* ---- Scaling of gradients -----------------------------------------------------------------------------------
 * For float16: loss = tn_grad_scaler_scale(s, g, loss), backward, then tn_grad_scaler_step. This divides the
 * gradients again, and leaves the step out if one is not finite.
 *
 * The scale follows at the first call of tn_grad_scaler_scale behind a step: it is less if a gradient was not finite. So several
 * losses and optimisers share one scale: scale all losses first, then step with each optimiser. */
typedef struct tn_grad_scaler tn_grad_scaler;
typedef struct tn_grad_scaler_options {
    uint32_t options_size TN_OPTION(sizeof(struct tn_grad_scaler_options));
    uint32_t reserved TN_OPTION();
    double scale TN_OPTION(), growth TN_OPTION(), backoff TN_OPTION(); /* 0: 65536, 2, 0.5 */
    int64_t interval TN_OPTION(); /* steps without an overflow before the scale grows; 0: 2000 */
} tn_grad_scaler_options;
TN_API tn_grad_scaler *tn_grad_scaler_create(tn_context *ctx,
                                             TN_NULLABLE const tn_grad_scaler_options *options);
TN_API TN_SCOPED tn_tensor *tn_grad_scaler_scale(tn_scope *s, tn_grad_scaler *g, tn_tensor *loss);
/* Divides the gradients now, so that the program can clip them; the step does it otherwise. */
TN_API int32_t tn_grad_scaler_unscale(tn_scope *s, tn_grad_scaler *g, tn_optimizer *o);
TN_API int32_t tn_grad_scaler_step(tn_scope *s, tn_grad_scaler *g, tn_optimizer *o,
                                   TN_NULLABLE const tn_step_options *options);
/* The scale of the next loss. */
TN_API double tn_grad_scaler_get_scale(const tn_grad_scaler *g);
/* What changes with steps. */
typedef struct tn_grad_scaler_state {
    uint32_t size; /* the caller sets it */
    uint32_t reserved;
    double scale;
    int64_t good; /* steps since the last overflow */
} tn_grad_scaler_state;
TN_API void tn_grad_scaler_get_state(const tn_grad_scaler *g, TN_OUT tn_grad_scaler_state *out);
TN_API int32_t tn_grad_scaler_set_state(tn_grad_scaler *g, const tn_grad_scaler_state *state);
TN_API void tn_grad_scaler_destroy(TN_TAKES TN_NULLABLE tn_grad_scaler *g);
#ifdef TN_AUTO_TYPE
TN_AUTO_TYPE(tn_grad_scaler, tn_grad_scaler_destroy)
#endif

/* The error of a failed call says where the program made it. */
#ifndef TN_NO_PLACES
static inline int32_t tn_optimizer_step_at(const char *file, int32_t line, tn_scope *s,
                                           const tn_step_options *options)
{
    int32_t before = tn_scope_place_begin(s), status = tn_optimizer_step_with(s, options);
    if (status || before) tn_place_after(s, before, file, line);
    return status;
}
#define tn_optimizer_step_with(...) tn_optimizer_step_at(__FILE__, __LINE__, __VA_ARGS__)
#endif
#if !defined(TN_NO_PLACES) && !defined(__cplusplus)
#define tn_optimizer_create(...)         TN_PLACED(tn_optimizer_create(__VA_ARGS__))
#define tn_optimizer_create_of(...)      TN_PLACED(tn_optimizer_create_of(__VA_ARGS__))
#define tn_optimizer_create_listed(...)  TN_PLACED(tn_optimizer_create_listed(__VA_ARGS__))
#define tn_optimizer_add_group_with(...) TN_PLACED(tn_optimizer_add_group_with(__VA_ARGS__))
#define tn_optimizer_step_closure(...)   TN_PLACED_IN(tn_optimizer_step_closure, __VA_ARGS__)
#define tn_optimizer_save(...)           TN_PLACED(tn_optimizer_save(__VA_ARGS__))
#define tn_optimizer_load(...)           TN_PLACED(tn_optimizer_load(__VA_ARGS__))
#define tn_optimizer_tensors(...)        TN_PLACED_IN(tn_optimizer_tensors, __VA_ARGS__)
#define tn_optimizer_load_state(...)     TN_PLACED(tn_optimizer_load_state(__VA_ARGS__))
#define tn_average_create(...)           TN_PLACED(tn_average_create(__VA_ARGS__))
#define tn_average_update(...)           TN_PLACED_IN(tn_average_update, __VA_ARGS__)
#define tn_average_swap(...)             TN_PLACED_IN(tn_average_swap, __VA_ARGS__)
#define tn_average_tensors(...)          TN_PLACED_IN(tn_average_tensors, __VA_ARGS__)
#define tn_average_load_state(...)       TN_PLACED(tn_average_load_state(__VA_ARGS__))
#define tn_grad_scaler_create(...)       TN_PLACED(tn_grad_scaler_create(__VA_ARGS__))
#define tn_grad_scaler_scale(...)        TN_PLACED_IN(tn_grad_scaler_scale, __VA_ARGS__)
#define tn_grad_scaler_unscale(...)      TN_PLACED_IN(tn_grad_scaler_unscale, __VA_ARGS__)
#define tn_grad_scaler_step(...)         TN_PLACED_IN(tn_grad_scaler_step, __VA_ARGS__)
#define tn_grad_scaler_set_state(...)    TN_PLACED(tn_grad_scaler_set_state(__VA_ARGS__))
#endif

#ifdef __cplusplus
static inline int32_t tn_optimizer_step(tn_scope *s, tn_optimizer *optimizer, tn_step_options o = {},
                                        tn_place at = tn_place::here())
{
    o.optimizer = optimizer;
    tn_placed placed(s, at);
    return (tn_optimizer_step_with)(s, &o);
}
#endif

TN_END_DECLS
#endif
#endif
