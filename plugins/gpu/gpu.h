/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the family share. plugin.c has the tables of the contract, launch.c programs and launches,
 * nest.c arguments; the others have operators. All of it is host code over a driver (driver.h) and device code
 * (device/), and the same for every vendor.
 */
#ifndef TENON_GPU_GPU_H
#define TENON_GPU_GPU_H

#include "driver.h"

#include <pthread.h>
#include <string.h>
#include <tenon/kernel.h>

#include "device/arguments.h"

typedef struct gpu_device gpu_device;
typedef struct gpu_stream gpu_stream;
typedef struct gpu_graph gpu_graph;
typedef struct gpu_fft_plan gpu_fft_plan; /* fft.h */

/* The plugin's state in one context. */
struct gpu_plugin {
    const tn_host *host;
    void *driver_state;
    uint32_t n_devices;
    uint32_t n_rows;
    tn_kernel_row *rows;
    tn_kernels_interface kernels;
    tn_device_interface device_interface; /* with the driver's type */
    tn_copy_interface copy_interface;     /* with what the driver can, as the next */
    tn_memory_interface memory_interface;
    tn_interop_interface interop_interface;
    pthread_mutex_t lock; /* of the list of devices */
    gpu_device *devices;
    char cache_folder[4096];                  /* of compiled programs; "" if there is none */
    int32_t blocking, no_cache, no_libraries; /* settings, changed atomically */
};

/* The source files of device code: a program each. */
enum {
    GPU_FILE_MEMORY,
    GPU_FILE_NUMBERS,
    GPU_FILE_POINTWISE,
    GPU_FILE_REDUCE,
    GPU_FILE_SORT,
    GPU_FILE_RANDOM,
    GPU_FILE_PRODUCT,
    GPU_FILE_LINES,
    GPU_FILE_WINDOWS,
    GPU_FILE_NORMS,
    GPU_FILE_STEPS,
    GPU_FILE_ATTENTION,
    GPU_FILE_COMPLEX,
    GPU_FILE_FFT,
    GPU_FILE_ATTENTION_GROUPS,
    GPU_FILE_SEARCH,
    GPU_FILE_RESAMPLE,
    GPU_FILES
};
typedef struct gpu_source {
    const char *name;
    const char *text;
} gpu_source;
extern const gpu_source gpu_sources[]; /* made by tools/gen_device.py, in the order above */

/*
 * What is compiled: a file with these parameters. The options of the compiler follow from it. No gaps:
 * compared as bytes.
 */
typedef struct gpu_program_key {
    uint16_t file;
    uint8_t type; /* GPU_TYPE */
    uint8_t group;
    /* Of a program for one pointwise operator with these dtypes; else 0. */
    uint16_t is_dense;
    uint16_t opcode;
    uint16_t immediate;           /* bits of operands that are values */
    uint16_t splat;               /* bits of operands that are the same along a row, values among them */
    uint8_t dtypes[GPU_OPERANDS]; /* the first one also of other programs for one dtype */
} gpu_program_key;

#define GPU_PROGRAM_KERNELS 12
typedef struct gpu_program {
    struct gpu_program *next;
    gpu_program_key key;
    void *program;
    int32_t has_failed; /* it does not compile, and is not tried again */
    uint32_t n_kernels;
    struct {
        const char *name; /* a literal */
        void *kernel;
    } kernels[GPU_PROGRAM_KERNELS];
} gpu_program;

/* Items of a group on a GPU, for device code, too (device/dialect.h); one size, as some drivers compile a kernel again for each. */
#define GPU_GROUP_ITEMS 128
#define GPU_MOST_ITEMS  ((uint64_t)1 << 32) /* of a launch: gpu_item() of device/dialect.h has 32 bits */

struct gpu_device {
    gpu_plugin *plugin;
    gpu_device *next;
    void *handle; /* the driver's */
    uint32_t index;
    gpu_properties properties;
    uint64_t allocated;   /* bytes; changed atomically */
    pthread_mutex_t lock; /* of the programs, launches and the list of streams */
    gpu_program *programs;
    gpu_stream *streams;
    struct {
        pthread_mutex_t lock;
        gpu_fft_plan *plans;
        uint64_t bytes; /* of their tables */
    } fft;
    struct {
        pthread_mutex_t lock;
        void *queue; /* on which faults of streams that still work are read, or NULL */
    } beside;
};

struct gpu_stream {
    gpu_device *device;
    gpu_stream *next;
    void *queue;
    void *faults;           /* device memory into which kernels write what they find wrong */
    int32_t may_have_fault; /* a kernel that looks for faults was queued; atomic */
    int32_t may_be_awaited; /* an event was recorded behind such a kernel; atomic */
    gpu_graph *capture;     /* the graph that it captures, else NULL; atomic */
};

/* interop.c */
extern const tn_settings_interface gpu_settings_interface;
/* With what the driver can. */
void gpu_interop_make(tn_interop_interface *out);
/* The vendor's queue waits for what the event has recorded. */
int32_t gpu_event_wait_native(void *event, uint64_t native);
/* An event of the program with this one of the driver, which processes share; NULL without host memory. */
void *gpu_event_shared(gpu_device *device, void *event);
/* The driver's event of one that was made so. */
void *gpu_event_of_share(const void *event);

/* graph.c */
extern const tn_graph_interface gpu_graph_interface;
gpu_graph *gpu_graph_retain(gpu_graph *graph);
void gpu_graph_release(gpu_graph *graph);
/* The graph that the stream captures, or NULL. */
gpu_graph *gpu_stream_capture(const gpu_stream *stream);
/* A library has queued work: a graph that captures it remembers that. */
void gpu_stream_uses_library(const gpu_stream *stream);
/* The stream captures the graph, too, unless it is NULL or the stream already captures. 1: it did not before. */
int32_t gpu_stream_join(gpu_stream *stream, gpu_graph *graph);
/* The stream captures no more. */
void gpu_stream_leave(gpu_stream *stream);
/* TN_OK; or TN_E_STATE and "WHAT cannot be captured in a graph" while the stream captures. */
int32_t gpu_stream_check_runs(const gpu_stream *stream, const char *what);
/* Where kernels write the faults that they find: memory of the stream, or of the graph that it captures. */
void *gpu_stream_fault_memory(gpu_stream *stream);

/* fft_plan.c: when a device is opened, and closed. */
void gpu_fft_init(gpu_device *d);
void gpu_fft_finish(gpu_device *d);

/* ---- Elements and calls -------------------------------------------------------------------------------- */

/* The code of a dtype (GPU_F32, ...), or -1. */
int32_t gpu_dtype(tn_dtype dtype);
/* The size of an element by its code. */
uint32_t gpu_code_bytes(uint32_t code);
/* The computation type of a dtype: 32, 64 or 1. */
uint8_t gpu_type(tn_dtype dtype);
/* The bits of a T with the value of a number. */
uint64_t gpu_number_bits(uint8_t type, tn_number n);
/* The bits of an element of any dtype with a scalar's value, complex ones in two words. */
void gpu_element_bits(tn_dtype dtype, tn_value value, uint64_t out[2]);

/* The dtypes that a device computes in, zero-terminated. */
const tn_dtype *gpu_device_dtypes(const gpu_device *device);
const char *gpu_can_run(void *self, const tn_call *call);
/* The same for rows that move elements of any dtype as bits. */
const char *gpu_can_move(void *self, const tn_call *call);

static inline gpu_stream *gpu_stream_of(const tn_call *call)
{
    return (gpu_stream *)call->stream;
}
static inline gpu_device *gpu_device_of(const tn_call *call)
{
    return (gpu_device *)call->device;
}
static inline const tn_tensor_desc *gpu_tensor(tn_value v)
{
    return tn_desc(v.as.tensor);
}
static inline uint32_t gpu_bytes(tn_dtype dtype)
{
    return (TN_DTYPE_BITS(dtype) + 7u) / 8u;
}
/* A tensor of a value, or NULL if it has none. */
static inline const tn_tensor_desc *gpu_optional(tn_value v)
{
    return v.tag == TN_TAG_TENSOR && v.as.tensor ? tn_desc(v.as.tensor) : NULL;
}
static inline const tn_tensor_desc *gpu_argument_tensor(const tn_call *call, uint32_t i)
{
    return gpu_optional(call->args[i]);
}
static inline const tn_tensor_desc *gpu_result(const tn_call *call, uint32_t i)
{
    return gpu_optional(call->outs[i]);
}
uint64_t gpu_numel(const tn_tensor_desc *t);
int32_t gpu_is_contiguous(const tn_tensor_desc *t);

/* ---- Complex numbers ------------------------------------------------------------------------------------ */

int32_t gpu_is_complex(tn_dtype dtype);
/* Whether an argument or a result of the call is complex. */
int32_t gpu_has_complex(const tn_call *call);
/* Why the device does not take the call with complex tensors, or NULL. */
const char *gpu_can_complex(const tn_call *call);
const char *gpu_can_complex_pointwise(const tn_call *call, uint32_t op);
int32_t gpu_complex_pointwise(const tn_call *call, uint32_t op);
/* Copies `from`, operand 1 of the nest, to `to`, operand 0, where the dtypes are complex or differ, or `lazy` has TN_DESC_CONJ or
 * TN_DESC_NEG: the elements are conjugated or negated. */
int32_t gpu_complex_convert(const tn_call *call, gpu_nest *nest, const tn_tensor_desc *to,
                            const tn_tensor_desc *from, uint32_t lazy);

/* ---- Nests --------------------------------------------------------------------------------------------- */

/* A nest of these tensors' sizes, with the first tensor as operand 0; others must be broadcast to it already. */
void gpu_nest_of_tensor(gpu_nest *nest, const tn_tensor_desc *t);
/* Operand k: a tensor that is broadcast to the nest's sizes. */
void gpu_nest_add(gpu_nest *nest, uint32_t k, const tn_tensor_desc *t);
/* A loop nest of the host as it is; operands beyond `count` are left out. */
void gpu_nest_of_call(gpu_nest *nest, const tn_nest *from, uint32_t count);
/* Merges adjacent dimensions where all of the first `count` operands allow it, from dimension `first` on. */
void gpu_nest_merge(gpu_nest *nest, uint32_t first, uint32_t count);

/* ---- Launches ------------------------------------------------------------------------------------------ */

#define GPU_ARGUMENTS 12

/* A launch in preparation. */
typedef struct gpu_job {
    const tn_call *call;
    gpu_program_key program;
    const char *kernel;
    uint32_t n_arguments;
    uint32_t looks_for_faults;
    gpu_argument arguments[GPU_ARGUMENTS];
} gpu_job;

gpu_job gpu_job_of(const tn_call *call, uint32_t file, uint8_t type, const char *kernel);
void gpu_give_memory(gpu_job *job, void *allocation);
/* `value` is borrowed until the launch. */
void gpu_give(gpu_job *job, const void *value, uint32_t bytes);
/* The memory for faults of the stream, or of its capture. */
void gpu_give_faults(gpu_job *job);
/*
 * Queues the kernel for that many items. Items are HEAVY if each has a loop over many elements: then a processor
 * gets one in a group, so that few items still use all cores.
 */
int32_t gpu_launch(const gpu_job *job, uint64_t items, int32_t is_heavy);
/* To be called when a driver or a library has queued work of a call: gpu_launch does it itself. */
int32_t gpu_queued(const tn_call *call);
#define GPU_LIGHT 0
#define GPU_HEAVY 1
/* Elements that an item of a dense kernel computes: a processor's share of a thread, a GPU's few. */
uint32_t gpu_dense_run(const gpu_device *device);
/* Rows of this width that an item takes which computes `run` elements. */
uint64_t gpu_rows_each(uint32_t width, uint64_t run);
/* The same for a group of heavy items: such kernels do not look whether there is an element. */
uint32_t gpu_dense_group(const gpu_device *device);

/* The largest power of two that is at most n and a group of heavy items of a GPU: how many items share n elements. */
uint32_t gpu_width_for(uint64_t n);
/* How many items a device needs to be busy. */
uint64_t gpu_items_wanted(const gpu_device *device);

/* Temporary memory for a call. */
int32_t gpu_workspace(const tn_call *call, uint64_t bytes, void **out_allocation, uint64_t *out_offset);

/* Where a kernel that writes row-major memory writes a result: the result's own, or a workspace that is copied. */
typedef struct gpu_contiguous {
    const tn_tensor_desc *tensor;
    void *memory;
    int64_t offset; /* in bytes */
} gpu_contiguous;
int32_t gpu_contiguous_begin(const tn_call *call, const tn_tensor_desc *t, gpu_contiguous *out);
int32_t gpu_contiguous_end(const tn_call *call, const gpu_contiguous *c);
/* The same for a kernel that adds to what it writes: memory of float64 for a float64 result, else of float32, so that sums of
 * half types are not rounded each time. */
int32_t gpu_sums_begin(const tn_call *call, const tn_tensor_desc *t, gpu_contiguous *out);
/* The sums begin with the elements of the tensor. */
int32_t gpu_sums_load(const tn_call *call, const gpu_contiguous *c);
int32_t gpu_sums_end(const tn_call *call, const gpu_contiguous *c);

/* Copies elements of so many bytes from operand 1 of the nest to operand 0. Merges the nest's dimensions. */
int32_t gpu_move_elements(const tn_call *call, gpu_nest *nest, void *to, void *from, uint32_t bytes);

/*
 * Rows of tables, the argument 0, by an index (device/memory.cl: gather_rows). The caller sets sizes[0], sizes[1], numel,
 * scalars[0], scalars[2] and what the nest says of the index.
 */
int32_t gpu_gather_rows(const tn_call *call, gpu_nest *nest, void *out, void *table, void *index);

/*
 * An index whose lines are in order (sort.c): of positions the low halves, from element `keys` of `memory` on, and which
 * elements of the line they are, from `places` on. Equal positions are in the order of the line. All are uint32.
 */
typedef struct gpu_order {
    void *memory; /* NULL: there is no order, and an item takes a line */
    int64_t keys, places;
} gpu_order;
/*
 * Sorts the index of a scatter, operand 1 of the nest, along dimension 0 if its lines are few and long, so that an item can take
 * an element. Sets scalars[3] for device/scatter.h. Not on processors, for which lines are items enough. `is_short_too`: short
 * lines as well, down to two elements.
 */
int32_t gpu_order_index(const tn_call *call, const tn_tensor_desc *index, gpu_nest *nest,
                        int32_t is_short_too, gpu_order *out);
/* Three arguments: the memory, keys and places. The order is borrowed until the launch. */
void gpu_give_order(gpu_job *job, const gpu_order *order);

/* Frees all programs of a device. */
void gpu_programs_destroy(gpu_device *device);
/* What kernels of the stream have found wrong: TN_OK or the late error, after which there is none. Waits. */
int32_t gpu_stream_faults(gpu_stream *stream);
/* The same for a stream that still works: what those must learn that waited for an event of it. Reads on a queue beside it, and so
 * waits for nothing, but where all queues of a driver are one (Vulkan). */
int32_t gpu_stream_faults_so_far(gpu_stream *stream);
/* An event of the stream was recorded. */
void gpu_stream_is_recorded(gpu_stream *stream);
/* When a device is opened, and closed. */
void gpu_faults_init(gpu_device *device);
void gpu_faults_finish(gpu_device *device);
/* Operations that a fault names. */
enum {
    GPU_BY_GATHER,
    GPU_BY_SCATTER,
    GPU_BY_SCATTER_ADD,
    GPU_BY_SCATTER_REDUCE,
    GPU_BY_EMBEDDING, /* from here on an index chooses whole slices */
    GPU_BY_EMBEDDING_BACKWARD,
    GPU_BY_INDEX_SELECT,
    GPU_BY_INDEX_REDUCE,
    GPU_BY_SORTER
};

/*
 * The identity of elements, as a pointwise operator: converts operand 1 of the nest to operand 0. 0 if the
 * call is not worth a kernel of its own, else 1 and a status.
 */
int32_t gpu_convert_dense(const tn_call *call, const gpu_nest *nest, uint8_t type, void *out, void *in,
                          int32_t *out_status);

/* Operand 0 of the nest = operand 1 + operand 2, which are floats of one dtype. */
int32_t gpu_add(const tn_call *call, const gpu_nest *nest, void *out, void *a, void *b);

/* ---- Products ------------------------------------------------------------------------------------------ */

/* A product in preparation: device/numbers.cl says what the nest has. */
typedef struct gpu_product {
    const tn_call *call;
    gpu_nest nest;
    void *memory[GPU_OPERANDS];
    const gpu_window *window; /* the right matrix is the windows of the image memory[2] */
} gpu_product;
/* Sets alpha and beta; the left matrix is in one part. */
void gpu_product_scale(gpu_product *p, double alpha, double beta);
int32_t gpu_product_run(gpu_product *p);
/* The same for complex matrices; alpha and beta are scalars of the call. */
int32_t gpu_complex_product(gpu_product *p, tn_value alpha, tn_value beta);
/* The product by the vendor's library, or TN_E_UNSUPPORTED without an error. */
int32_t gpu_library_product(const gpu_product *p);
/* A pass of a convolution by the vendor's library, or TN_E_UNSUPPORTED without an error. */
int32_t gpu_library_convolve(const tn_call *call, const gpu_convolution *c);
/* Attention without a mask by the vendor's library: whether it takes the call, and the work, or TN_E_UNSUPPORTED without an error. */
int32_t gpu_library_can_attend(const tn_call *call, const gpu_attend *a);
int32_t gpu_library_attend(const tn_call *call, const gpu_attend *a);
/* Transforms of lines by the vendor's library, or TN_E_UNSUPPORTED without an error. */
int32_t gpu_library_transform(const tn_call *call, const gpu_transform *t);
/* What the windows of a convolution with so many columns and such a depth take, in bytes; 0 if it does not run as a product. */
uint64_t gpu_panel_bytes(const gpu_device *device, uint8_t type, uint64_t columns, uint64_t depth);

/* out[c] = the sum over x[:, c, ...], for floats in row-major order. */
int32_t gpu_channel_sums(const tn_call *call, const tn_tensor_desc *x, const tn_tensor_desc *out);

/* ---- The cache of compiled programs --------------------------------------------------------------------- */

/* Asks the host for the folder, once. */
void gpu_cache_find(gpu_plugin *plugin);
/* Looks for a program; *out has no bytes if it is not there. `key` and the source name all that it was made from. */
void gpu_cache_read(const char *folder, const char *key, const char *source, gpu_binary *out);
/* Stores it where that is possible: a plugin works without. */
void gpu_cache_write(const char *folder, const char *key, const char *source, const gpu_binary *binary);

/* ---- Rows ---------------------------------------------------------------------------------------------- */

/* Makes plugin->rows from the tables of the operator files. */
int32_t gpu_rows_make(gpu_plugin *plugin);

typedef struct gpu_rows {
    const tn_kernel_row *rows;
    uint32_t count;
} gpu_rows;
extern const gpu_rows gpu_basic_rows, gpu_reduce_rows, gpu_index_rows, gpu_product_rows, gpu_sort_rows,
    gpu_line_rows, gpu_norm_rows, gpu_convolution_rows, gpu_pool_rows, gpu_step_rows, gpu_embedding_rows,
    gpu_attention_rows, gpu_fft_rows, gpu_search_rows, gpu_factor_rows, gpu_resample_rows;
/* The rows of pointwise operators are made from their list; gives how many, and writes them if `out` is set. */
uint32_t gpu_pointwise_rows(tn_kernel_row *out);

/* A row of aten::`text`; further slots follow `list`, its dtypes. */
#define GPU_ROW(layout, text, list, ...)                                                        \
    {                                                                                           \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_##layout, .schema = "aten::" text, \
        .dtypes = list, __VA_ARGS__                                                             \
    }
#define GPU_ROW_LIST(list)                                 \
    {                                                      \
        list, (uint32_t)(sizeof(list) / sizeof((list)[0])) \
    }

/* Sets of dtypes for rows. */
extern const tn_dtype gpu_everything_dtypes[], gpu_inexact_dtypes[], gpu_number_or_complex_dtypes[],
    gpu_all_dtypes[], gpu_number_dtypes[], gpu_float_dtypes[], gpu_integer_dtypes[], gpu_integral_dtypes[];

#endif
