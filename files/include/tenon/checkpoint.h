/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole training run in one file, from which it goes on bit for bit.
 *
 *     int64_t i = 0;
 *     if (resume) tn_checkpoint_load("run.safetensors", .module = net, .optimizer = o, .loader = l, .step = &i);
 *     for (; i < steps; i++) {
 *         ...
 *         if (i % 100 == 99) {
 *             int64_t next = i + 1;
 *             tn_checkpoint_save("run.safetensors", .module = net, .optimizer = o, .loader = l, .step = &next);
 *         }
 *     }
 *
 * Learning rates that are functions of the step (tn_lr_...) need nothing else.
 */
#ifndef TENON_CHECKPOINT_H
#define TENON_CHECKPOINT_H

#include <tenon/data.h>
#include <tenon/files.h>
#include <tenon/optim.h>

#ifndef TN_PLUGIN
TN_BEGIN_DECLS

/* The parts of a run; NULL: it has none of that kind. The same parts must be given to both calls. */
typedef struct tn_checkpoint_parts {
    uint32_t options_size TN_OPTION(sizeof(struct tn_checkpoint_parts));
    uint32_t reserved TN_OPTION();
    const char *path TN_OPTION();
    const struct tn_options_have_names *options_have_names TN_OPTION(); /* unused */
    tn_module *module TN_OPTION();       /* parameters and persistent buffers; must be given */
    tn_optimizer *optimizer TN_OPTION(); /* states and options */
    tn_average *average TN_OPTION();
    tn_grad_scaler *scaler TN_OPTION();
    tn_loader *loader TN_OPTION(); /* where it stands */
    tn_plateau *plateau TN_OPTION();
    int64_t *step TN_OPTION();         /* any number of the program's */
    tn_named_tensors more TN_OPTION(); /* tensors of the program's; loading copies into them */
} tn_checkpoint_parts;

/*
 * Writes a safetensors file, which is replaced as a whole: a failure leaves the old one. Besides the parts it
 * has the default random generators of the CPU and of the devices of the module. Returns a status.
 */
TN_API int32_t tn_checkpoint_save_with(const tn_checkpoint_parts *parts);
/*
 * Puts all of it back. TN_E_NOT_FOUND if there is no such file, TN_E_ARGUMENT if it has other parts than
 * those given: then nothing has changed. After other errors some parts may have changed. A run on other
 * devices goes on, but not bit for bit.
 */
TN_API int32_t tn_checkpoint_load_with(const tn_checkpoint_parts *parts);
#ifdef __cplusplus
/* tn_checkpoint_save(path, {.module = net, .optimizer = o}) from C++20 on. */
static inline int32_t tn_checkpoint_save(const char *path, tn_checkpoint_parts parts)
{
    parts.path = path;
    return tn_checkpoint_save_with(&parts);
}
static inline int32_t tn_checkpoint_load(const char *path, tn_checkpoint_parts parts)
{
    parts.path = path;
    return tn_checkpoint_load_with(&parts);
}
#else
#define tn_checkpoint_save(...)                                                                       \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(tn_checkpoint_save_with( \
        &(tn_checkpoint_parts){.options_size = sizeof(tn_checkpoint_parts), .path = __VA_ARGS__})))
#define tn_checkpoint_load(...)                                                                       \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(tn_checkpoint_load_with( \
        &(tn_checkpoint_parts){.options_size = sizeof(tn_checkpoint_parts), .path = __VA_ARGS__})))
#endif

/* The error of a failed call says where the program made it, as place.h does it. */
#if !defined(TN_NO_PLACES) && !defined(__cplusplus)
#define tn_checkpoint_save_with(...) TN_PLACED(tn_checkpoint_save_with(__VA_ARGS__))
#define tn_checkpoint_load_with(...) TN_PLACED(tn_checkpoint_load_with(__VA_ARGS__))
#endif

TN_END_DECLS
#endif
#endif
