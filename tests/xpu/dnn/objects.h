/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the libdnnl.so.3 for tests share: objects and who may use them. libdnnl.c says what the library is. */
#ifndef TESTS_XPU_DNN_OBJECTS_H
#define TESTS_XPU_DNN_OBJECTS_H

#define TN_PLUGIN
#include "../../gpu/report.h"
#include "../../gpu/stand_in.h"
#include "../ze_library.h"
#include "dnnl.h"

#include <pthread.h>

#define DNN_API     __attribute__((visibility("default")))
#define report(...) report_of("libdnnl", __VA_ARGS__)

/* Primitives that were executed, descriptors of primitives that were asked for, objects that the plugin has not given back, the
 * attributes of the last primitive that was executed, primitives that are queued. */
enum { PRODUCTS, CONVOLUTIONS, CHOICES, LIVE, MATH, SUMS, DETERMINISTIC, QUEUED };

enum { MOST_RANK = 6, MOST_OPERATIONS = 3 };

/* A tensor; rank 0: there is none. */
typedef struct shape {
    int rank, type;
    int64_t sizes[MOST_RANK], strides[MOST_RANK];
    size_t bytes;
} shape;

enum { LINEAR, SUM, BINARY };
typedef struct operation { /* behind a product */
    int kind;
    float alpha;
    shape second;
} operation;

typedef struct settings {
    int math, sums, deterministic, scratchpad;
    int n_operations;
    operation operations[MOST_OPERATIONS];
} settings;

enum { MATMUL = -1 }; /* a pass that is no convolution */
typedef struct description {
    int pass;
    shape tensors[4]; /* src, weights, dst, bias; or in, weight, out */
    settings how;
    int64_t strides[3], dilations[3], paddings[3];
    shape scratchpad;
} description;

/* Of all kinds: 'e'ngine, 's'tream, 't'ensor, 'm'emory, 'a'ttributes, 'o'perations, 'd'escriptor, 'p'rimitive. Those that were
 * destroyed are not freed, so that their later use is seen. */
typedef struct object {
    char kind;
    int is_dead, in_use; /* in_use: by queued work */
    int children;        /* of an engine */
    struct object *engine, *next_dead;
    ze_context_handle_t context;
    ze_command_list_handle_t list;
    shape tensor;
    void *place;
    pthread_t setter; /* the thread that has set the place */
    settings how;
    description what;
} object;

static inline tn_dtype dtype_of(int type)
{
    return type == DNNL_F16    ? TN_FLOAT16
           : type == DNNL_BF16 ? TN_BFLOAT16
           : type == DNNL_F64  ? TN_FLOAT64
                               : TN_FLOAT32;
}

/* The functions of the driver for tests; NULL: it is not there. */
typedef struct driver_functions {
    __typeof__(&ze_test_queue) queue;
    __typeof__(&ze_test_is_idle) is_idle;
    __typeof__(&ze_test_place) place;
} driver_functions;
const driver_functions *the_driver(void);

/* The object behind a handle, or NULL, which is reported. */
object *use(const void *handle, char kind, const char *function);
int create(void **out, object o);
int destroy(void *handle, char kind, const char *function);

/* compute.c: computes on a thread of the list, in two pieces of work. */
int execute(object *primitive, const object *stream, int n, const dnnl_argument *arguments);

#endif
