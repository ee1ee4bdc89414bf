/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host in miniature for tests of plugins: it loads a module as the loader would, negotiates, opens a device
 * and calls slots and kernels directly, so that a plugin is tested without the library. The module's path
 * comes from the environment (TENON_TEST_MODULE). A failing step fails the test.
 */
#ifndef TENON_TESTS_PLUGINS_FIXTURE_H
#define TENON_TESTS_PLUGINS_FIXTURE_H

#include "slots.h"

#define FIXTURE_MAX_RANK     8
#define FIXTURE_MAX_OPERANDS 6

/* One loaded plugin with device 0 open and a stream on it. */
typedef struct fixture {
    void *library;
    const tn_plugin_info *info;
    tn_host host;
    tn_plugin_table table;
    void *self;
    SLOT_INTERFACES;
    void *device;
    void *stream;
    int32_t error_code; /* of the last host->error */
    char error_message[256];
    void *scratch[16]; /* workspace of the running call */
    uint32_t scratch_count;
    int32_t threads; /* of the next calls, 0: one */
    struct {
        void *allocation;
        uint64_t bytes;
    } kept[256]; /* of tensors that no test has freed: fixture_close does */
    uint32_t n_kept;
} fixture;

/* A tensor in the device's memory. Its address is what stands in values. */
typedef struct fixture_tensor {
    tn_tensor_desc desc;
    int64_t sizes[FIXTURE_MAX_RANK];
    int64_t strides[FIXTURE_MAX_RANK];
    uint64_t bytes;
} fixture_tensor;

/* A nest that owns its arrays. */
typedef struct fixture_nest {
    tn_nest nest;
    int64_t sizes[FIXTURE_MAX_RANK];
    int64_t strides[FIXTURE_MAX_OPERANDS][FIXTURE_MAX_RANK];
    tn_operand operands[FIXTURE_MAX_OPERANDS];
} fixture_nest;

/* The cache_folder of the next host; NULL: it has none. */
extern int32_t (*fixture_cache_folder)(void *context, const char *name, char *out, uint32_t bytes);

/* Loads and negotiates; init has run, no device is open. */
void fixture_load(fixture *f);
/* The same, then opens device 0 and makes a stream. */
void fixture_open(fixture *f);
/* Ends everything in the order that the contract prescribes. */
void fixture_close(fixture *f);

/* A contiguous tensor filled from `data` (NULL: with zero bytes). */
fixture_tensor fixture_tensor_make(fixture *f, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                                   const void *data);
void fixture_tensor_free(fixture *f, fixture_tensor *t);
/* Waits for the stream and copies the whole allocation to the host. Returns the status of the wait. */
int32_t fixture_read(fixture *f, const fixture_tensor *t, void *out);
tn_value fixture_value(fixture_tensor *t);

/* The nest of a pointwise call: `operands`, outputs first, broadcast to the first one. */
void fixture_pointwise(fixture_nest *n, fixture_tensor *const *operands, uint32_t count, uint32_t n_outputs);
/* The nest of a reduction of `in` over the dimensions in the bit mask `reduced` to `out` (keepdim or not). */
void fixture_reduction(fixture_nest *n, const fixture_tensor *out, const fixture_tensor *in,
                       uint32_t reduced);

/* The row whose schema has this name (up to the bracket), or NULL. */
const tn_kernel_row *fixture_row(const fixture *f, const char *name);
/* A call of the row on device and stream of the fixture; what else it needs is set on the result. */
tn_call fixture_call(fixture *f, const tn_kernel_row *row, const tn_value *args, uint32_t n_args,
                     tn_value *outs, uint32_t n_outs);
/* Runs the row with a call of fixture_call and frees the workspace that it asked for. */
int32_t fixture_run_call(fixture *f, const tn_kernel_row *row, const tn_call *call);
/* Calls it on the fixture's stream. */
int32_t fixture_run(fixture *f, const char *name, const tn_value *args, uint32_t n_args, tn_value *outs,
                    uint32_t n_outs, const tn_nest *nest);

#endif
