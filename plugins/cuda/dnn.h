/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the uses of cuDNN's graph API share: its functions, descriptors, the choice of an engine for a graph, and its work. Each
 * use is a library of its own (libraries.h), with its own handle, lock and plans.
 */
#ifndef TENON_CUDA_DNN_H
#define TENON_CUDA_DNN_H

#include "cudnn.h"
#include "libraries.h"

#include <library_names.h>

typedef struct cuda_dnn {
    cuda_library base;
#define DECLARE(result, name, arguments) result(*name) arguments;
    CUDNN_FUNCTIONS(DECLARE)
#undef DECLARE
} cuda_dnn;

/* A descriptor that is being made: after a failure nothing more is done. */
typedef struct dnn_maker {
    const cuda_dnn *n;
    void *made;
    int result;
} dnn_maker;
dnn_maker dnn_begin(const cuda_dnn *n, int type);
void dnn_set(dnn_maker *m, int attribute, int type, int64_t count, const void *values);
/* *out is to be destroyed, whatever happens. */
int dnn_end(dnn_maker *m, void **out);
void dnn_destroy(const cuda_dnn *n, void *const *descriptors, uint32_t count);

/* The descriptor of a tensor; `id` is its number in the graph. */
typedef struct dnn_tensor {
    int type, is_virtual, is_by_value; /* virtual: in no memory; by value: one element in the host's memory */
    int64_t id, alignment, rank, sizes[5], strides[5];
} dnn_tensor;
int dnn_make_tensor(const cuda_dnn *n, const dnn_tensor *t, void **out);
/* The type of elements of a dtype (GPU_F16, ...). */
int dnn_type_of(uint32_t dtype);

/* A graph and the engine that computes it: a part of a plan. */
typedef struct dnn_engine {
    void *graph, *config, *execution;
    int64_t workspace, most_workspace; /* bytes that it needs, and that an engine may need */
} dnn_engine;
int dnn_make_graph(const cuda_dnn *n, void *const *operations, uint32_t count, dnn_engine *e);
/* Notes of engines that round float32, as bits. */
enum { DNN_ROUNDS_F32 = 1u << DNN_NOTE_TENSOR_CORE | 1u << DNN_NOTE_DOWN_CONVERT };
/* Notes of engines that a call on this dtype does not allow, as bits. */
uint32_t dnn_refused_notes(const tn_call *call, uint32_t dtype);
/* What a failure means (libraries.h). */
int32_t dnn_meaning(int result);
/*
 * Takes the first engine that has none of these notes and whose workspace is not too large for operands of so many bytes. Engines that
 * cannot be prepared are passed over, but for lack of memory: the next call could have them.
 */
int dnn_choose(const cuda_dnn *n, dnn_engine *e, uint32_t refused_notes, uint64_t operand_bytes);

/* Work for the engine of a plan: tensors by their ids. The workspace is the engine's; NULL: it needs none. */
typedef struct dnn_work {
    gpu_plan *plan;
    const dnn_engine *engine;
    const int64_t *ids;
    void *const *places;
    int64_t count;
    void *workspace;
} dnn_work;
/* TN_E_UNSUPPORTED, without an error: nothing was queued; what refuses the plan as such refuses it for good. */
int32_t dnn_run(cuda_device *d, cuda_library *l, const tn_call *call, const dnn_work *w);

/* The rest of a library's kind. */
#define DNN_KIND                                                                          \
    .name = VENDOR_DNN, .files = VENDOR_DNN_FILES, CUDA_LIBRARY_SYMBOLS(CUDNN_FUNCTIONS), \
    .size = sizeof(cuda_dnn), .meaning = dnn_meaning

#endif
