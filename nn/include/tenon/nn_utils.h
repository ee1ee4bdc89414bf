/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Utilities over modules, as in torch.nn.utils: packed sequences, functions, and batch norms that are folded into other
 * layers or look at the batches of all devices. Also a loss with a distance of the program's own. nn.h includes it.
 */
#ifndef TENON_NN_UTILS_H
#define TENON_NN_UTILS_H

#include <tenon/collectives.h>
#include <tenon/nn.h>

#ifndef TN_PLUGIN
TN_BEGIN_DECLS

/* ---- Packed sequences (torch.nn.utils.rnn); sequences that are padded only: tn_pad_sequence ------------- */

/* Sequences of different lengths, the longest first, without padding. The tensors belong to the scope. */
typedef struct tn_packed_sequence {
    TN_SCOPED tn_tensor
        *data; /* [elements, ...]: the first element of each sequence, then the second ones, ... */
    TN_SCOPED tn_tensor *batch_sizes; /* int64 on the CPU: how many sequences have an element 0, 1, ... */
    TN_SCOPED tn_tensor
        *sorted_indices; /* int64: the sequence that stands at each place; NULL: they were given in order */
    TN_SCOPED tn_tensor *unsorted_indices; /* int64: the place of each sequence; NULL with sorted_indices */
} tn_packed_sequence;

/* From a padded tensor, [steps, batch, ...] or with batch_first [batch, steps, ...]. lengths: int64 [batch], at least 1.
 * With enforce_sorted they must not rise, and nothing is sorted. All tensors are NULL on failure, here and below. */
TN_API tn_packed_sequence tn_pack_padded_sequence(tn_scope *s, tn_tensor *input, tn_tensor *lengths,
                                                  int32_t batch_first, int32_t enforce_sorted);
/* From a list of sequences, [steps, ...] each. */
TN_API tn_packed_sequence tn_pack_sequence(tn_scope *s, tn_tensors sequences, int32_t enforce_sorted);
/* Back: the padded tensor, at least total_length steps long, and the lengths, in the order in which they were given. */
typedef struct tn_padded_sequence {
    TN_SCOPED tn_tensor *data;
    TN_SCOPED tn_tensor *lengths; /* int64 on the CPU */
} tn_padded_sequence;
TN_API tn_padded_sequence tn_pad_packed_sequence(tn_scope *s, tn_packed_sequence packed, int32_t batch_first,
                                                 double padding_value, int64_t total_length);
/* The sequences alone, without padding. The lists belong to the scope. */
TN_API tn_tensors tn_unpad_sequence(tn_scope *s, tn_tensor *padded, tn_tensor *lengths, int32_t batch_first);
TN_API tn_tensors tn_unpack_sequence(tn_scope *s, tn_packed_sequence packed);

/* What a recurrent layer gives for packed sequences; `c` is NULL but for LSTM. */
typedef struct tn_packed_outputs {
    tn_packed_sequence sequence;
    TN_SCOPED tn_tensor *h, *c;
} tn_packed_outputs;
/* Runs an RNN, LSTM or GRU. `h` and `c` are its first states, [layers, batch, width], NULL for zeros; they and the last states
 * are in the order in which the sequences were given. */
TN_API tn_packed_outputs tn_module_call_packed(tn_scope *s, tn_module *m, tn_packed_sequence packed,
                                               TN_NULLABLE tn_tensor *h, TN_NULLABLE tn_tensor *c);

/* ---- Batch norms --------------------------------------------------------------------------------------- */

/* Folds a batch norm that follows a Conv, a ConvTranspose or a Linear into the weight and bias of that layer; the norm becomes an
 * Identity. Both are in evaluation mode. Returns a status; on failure nothing is changed. */
TN_API int32_t tn_fuse_conv_bn_eval(tn_module *conv, tn_module *norm);
TN_API int32_t tn_fuse_linear_bn_eval(tn_module *linear, tn_module *norm);

/*
 * Batch norms below m become SyncBatchNorm: in training mode mean and variance are those of the batches of all ranks. Each
 * rank is one device with a copy of the module, whose forward and backward run at the same time; so ranks are processes,
 * and the communicator has one rank in this one. It must live longer than the module. NULL: batch norms again.
 */
TN_API int32_t tn_convert_sync_batchnorm(tn_module *m, TN_NULLABLE tn_communicator *communicator);

/* The input of the next batch, made in s, or NULL when there are no more. */
typedef TN_NULLABLE tn_tensor *(*tn_next_input)(void *user, tn_scope *s);
/* The statistics of batch norms below m anew, as means over all batches: for averaged parameters (torch.optim.swa_utils). The whole
 * tree runs in training mode, without recording, and has m's mode then. An error of a batch or of `next` ends it; returns a status. */
TN_API int32_t tn_update_bn(tn_scope *s, tn_module *m, tn_next_input next, void *user);

/* ---- Functions ----------------------------------------------------------------------------------------- */

/* x divided by its p-norms along a dimension, which count as at least eps. p may be INFINITY. PyTorch's defaults: 2, 1, 1e-12. */
TN_API TN_SCOPED tn_tensor *tn_normalize(tn_scope *s, tn_tensor *x, double p, int64_t dim, double eps);
/* A random choice along a dimension that has a gradient (Jang et al. 2017): the softmax of (logits + Gumbel noise) / tau. With `hard`
 * it is one-hot, with the gradient of the soft one. tau is above 0. PyTorch's defaults: 1, 0, -1. */
TN_API TN_SCOPED tn_tensor *tn_gumbel_softmax(tn_scope *s, tn_tensor *logits, double tau, int32_t hard,
                                              int64_t dim);

/* ---- Gradients ----------------------------------------------------------------------------------------- */

/* The norm of all tensors together, a 0-dim tensor; NULL items are left out. norm_type may be INFINITY. */
TN_API TN_SCOPED tn_tensor *tn_get_total_norm(tn_scope *s, tn_tensors tensors, double norm_type);
/* Scales the gradients of parameters so that a norm of them that is known is at most max_norm. */
TN_API int32_t tn_clip_grads_with_norm(tn_scope *s, tn_tensors parameters, double max_norm,
                                       tn_tensor *total_norm);

/* ---- TripletMarginWithDistanceLoss --------------------------------------------------------------------- */

/* The distances of pairs: a and b are [batch, ...], the result is [batch]. NULL fails the scope. */
typedef tn_tensor *(*tn_distance_function)(void *user, tn_scope *s, tn_tensor *a, tn_tensor *b);
typedef struct tn_triplet_margin_with_distance_loss_options {
    uint32_t options_size;
    int32_t swap; /* the positive's distance from the negative, if that is less than the anchor's */
    const char *name;
    tn_distance_function distance_function; /* NULL: the pairwise distance, of norm 2 and eps 1e-6 */
    void *user;
    double margin;
    const char *reduction; /* "mean", "sum", "none" */
} tn_triplet_margin_with_distance_loss_options;
/* Three inputs: anchor, positive, negative. */
TN_API tn_module *tn_triplet_margin_with_distance_loss_create_with(
    tn_module *parent, const tn_triplet_margin_with_distance_loss_options *options);
#define tn_triplet_margin_with_distance_loss_create(parent, ...)                          \
    TN_BUILDS(tn_triplet_margin_with_distance_loss_create_with(                           \
        parent, &(tn_triplet_margin_with_distance_loss_options){                          \
                    .options_size = sizeof(tn_triplet_margin_with_distance_loss_options), \
                    .margin = 1,                                                          \
                    .reduction = "mean",                                                  \
                    .name = __VA_ARGS__}))

/* The error of a failed call says where the program made it, as place.h does it. */
#if !defined(TN_NO_PLACES) && !defined(__cplusplus)
#define tn_pack_padded_sequence(...)   TN_PLACED_IN(tn_pack_padded_sequence, __VA_ARGS__)
#define tn_pack_sequence(...)          TN_PLACED_IN(tn_pack_sequence, __VA_ARGS__)
#define tn_pad_packed_sequence(...)    TN_PLACED_IN(tn_pad_packed_sequence, __VA_ARGS__)
#define tn_unpad_sequence(...)         TN_PLACED_IN(tn_unpad_sequence, __VA_ARGS__)
#define tn_unpack_sequence(...)        TN_PLACED_IN(tn_unpack_sequence, __VA_ARGS__)
#define tn_module_call_packed(...)     TN_PLACED_IN(tn_module_call_packed, __VA_ARGS__)
#define tn_fuse_conv_bn_eval(...)      TN_CHANGES(tn_fuse_conv_bn_eval(__VA_ARGS__))
#define tn_fuse_linear_bn_eval(...)    TN_CHANGES(tn_fuse_linear_bn_eval(__VA_ARGS__))
#define tn_convert_sync_batchnorm(...) TN_CHANGES(tn_convert_sync_batchnorm(__VA_ARGS__))
#define tn_update_bn(...)              TN_PLACED_IN(tn_update_bn, __VA_ARGS__)
#define tn_normalize(...)              TN_PLACED_IN(tn_normalize, __VA_ARGS__)
#define tn_gumbel_softmax(...)         TN_PLACED_IN(tn_gumbel_softmax, __VA_ARGS__)
#define tn_get_total_norm(...)         TN_PLACED_IN(tn_get_total_norm, __VA_ARGS__)
#define tn_clip_grads_with_norm(...)   TN_PLACED_IN(tn_clip_grads_with_norm, __VA_ARGS__)
#endif

TN_END_DECLS
#endif
#endif
