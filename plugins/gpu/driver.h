/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the family of GPU plugins needs of a vendor's runtime: memory by handles, queues, events, programs from
 * source and launches. One driver is linked into each plugin, as `gpu_the_driver`; it knows nothing of operators
 * and little of Tenon. Slots return a status and record details by gpu_error (gpu.h).
 */
#ifndef TENON_GPU_DRIVER_H
#define TENON_GPU_DRIVER_H

#define TN_PLUGIN
#include <tenon/plugin.h>

typedef struct gpu_plugin gpu_plugin;

/* What the family wants to know of a device. Numbers that are not known are 0. */
typedef struct gpu_properties {
    uint32_t device_class; /* TN_DEVICE_... */
    uint32_t compute_units;
    uint64_t memory_bytes;
    uint64_t largest_allocation;
    uint32_t alignment;
    uint32_t is_processor; /* its kernels run on the host's kind of processor: long runs, wide vectors */
    uint32_t has_double;
    /* device code is compiled with the plugin (modules.h): no kernels for one operator and its dtypes */
    uint32_t is_precompiled;
    uint32_t
        has_dense; /* of these, programs for dense operands of one dtype (GPU_DENSE of device/pointwise.cl) */
    uint32_t has_addresses;              /* the handle of an allocation is its address for the device */
    int32_t priority_low, priority_high; /* of queues; lower numbers are more urgent */
    uint64_t peers;                      /* bit i: peer_copy reaches device i */
    uint8_t uuid[16];
    char pci_address[16];
    char name[64];
    char architecture[32];
    char identity[256]; /* of device, driver and compiler: cached programs of others are not used */
} gpu_properties;

/* An argument of a kernel: a value, or the handle of an allocation (NULL: no memory). */
typedef struct gpu_argument {
    uint32_t is_memory;
    uint32_t bytes;
    const void *value;
} gpu_argument;

/* Compiled code as bytes, of malloc; whoever receives it frees it. */
typedef struct gpu_binary {
    void *bytes;
    size_t size;
} gpu_binary;

/*
 * Work that is captured and launched as one unit, as tn_graph_interface says (tenon/plugin.h). A queue that waits for an
 * event of a capture joins it.
 */
typedef struct gpu_graph_driver {
    int32_t (*begin)(void *device, void *queue);
    /* The queues of the capture run work again, also after a failure. TN_E_STATE: a call has broken the capture, or
     * `queue` has not waited for all queues that joined. */
    int32_t (*end)(void *device, void *queue, void **out_graph);
    void (*destroy)(void *device, void *graph);
    int32_t (*instantiate)(void *device, void *graph, void **out_executable);
    /* Begins when earlier launches of the executable have finished, on any queue. */
    int32_t (*launch)(void *device, void *executable, void *queue);
    /* TN_E_UNSUPPORTED: the graph has other operations, and the executable is unchanged. NULL: always so. */
    int32_t (*update)(void *device, void *executable, void *graph);
    void (*executable_destroy)(void *device, void *executable);
} gpu_graph_driver;

/* A matrix of which the rows are contiguous, or, if it is transposed, the columns. */
typedef struct gpu_matrix {
    void *memory;
    uint64_t offset; /* in bytes */
    uint32_t is_transposed;
    int64_t stride;       /* elements from a row to the next; of a transposed one from a column to the next */
    int64_t batch_stride; /* elements; 0: all batches have the same matrix */
} gpu_matrix;

/* out = alpha * a * b + beta * added + bias. All are of one dtype (GPU_F16, GPU_BF16, GPU_F32 or GPU_F64). */
typedef struct gpu_matrices {
    uint32_t dtype;
    uint64_t rows, columns, depth, batches; /* of `out`; depth: columns of a */
    double alpha, beta;
    gpu_matrix out, a, b; /* `out` is not transposed */
    gpu_matrix added;     /* nor is this; without memory: there is none, and beta is 0 */
    gpu_matrix bias;      /* one row for all rows and batches; without memory: there is none */
} gpu_matrices;

/*
 * Libraries of the vendor. Each may be absent. TN_E_UNSUPPORTED, without an error, means that nothing was queued and that
 * the family's own kernels do the work.
 */
typedef struct gpu_library_driver {
    int32_t (*product)(void *device, void *queue, const tn_call *call, const gpu_matrices *m);
} gpu_library_driver;

/*
 * `device` is what open gave; queues, events, memory and programs belong to it. Slots may be called by several
 * threads at once, except launch, which is called by one at a time for each device.
 */
typedef struct gpu_driver {
    const char *type; /* the device type: "opencl" */
    const char *version;
    int32_t dlpack_type;                   /* the type of its devices in DLPack */
    const tn_settings_interface *settings; /* of its own, behind those of the family; NULL: it has none */
    /* Loads the runtime and finds devices. Without one: TN_OK, 0, and a text that lives as long as the plugin. */
    int32_t (*find)(gpu_plugin *plugin, uint32_t *out_count, const char **out_reason);
    void (*forget)(gpu_plugin *plugin);
    void (*describe)(gpu_plugin *plugin, uint32_t index, gpu_properties *out);
    int32_t (*open)(gpu_plugin *plugin, uint32_t index, void **out_device);
    void (*close)(void *device);
    /* TN_OK; or TN_E_DEVICE_LOST with its error, for ever, once a slot has returned it. Does not wait. */
    int32_t (*status)(void *device);
    /* The vendor's handle of a kind (TN_NATIVE_...); `handle` is a queue or memory, or unused. */
    int32_t (*native)(void *device, uint32_t kind, void *handle, uint64_t *out);

    int32_t (*alloc)(void *device, uint64_t bytes, void **out_memory);
    void (*free)(void *device, void *memory);
    /* Memory of another library, by the vendor's handle: from then on `free` lets go of it, too. TN_E_ARGUMENT if it is
     * not of this device. */
    int32_t (*retain)(void *device, void *memory, uint64_t *out_bytes);
    /* The memory whose handle `native` gives, or NULL, which retain refuses. NULL: it is the handle itself. */
    void *(*memory_of)(void *device, void *native);
    /* Memory of the host that the device reads and writes by itself. NULL: there is none. */
    int32_t (*host_alloc)(void *device, uint64_t bytes, void **out_memory, void **out_host);
    void (*host_free)(void *device, void *memory, void *host);

    int32_t (*queue_create)(void *device, void **out_queue);
    /* A queue of the program, by the handle that `native` gives. NULL: the plugin refuses them. */
    int32_t (*queue_wrap)(void *device, uint64_t native, void **out_queue);
    void (*queue_destroy)(void *device, void *queue);
    int32_t (*queue_query)(void *device, void *queue, int32_t *out_done);
    int32_t (*queue_finish)(void *device, void *queue);
    /* Later work of the queue waits for the event, which may be of another queue. */
    int32_t (*queue_wait)(void *device, void *queue, void *event);
    /* The same for a queue of another library, by the vendor's handle. */
    int32_t (*native_wait)(void *device, uint64_t native, void *event);
    int32_t (*queue_callback)(void *device, void *queue, void (*callback)(void *user), void *user);

    /* An event is made when it is recorded. Queued waits keep what they need of it. */
    int32_t (*event_record)(void *device, void *queue, void **out_event);
    void (*event_release)(void *device, void *event);
    int32_t (*event_query)(void *device, void *event, int32_t *out_done);
    int32_t (*event_wait)(void *device, void *event);
    int32_t (*event_elapsed)(void *device, void *start, void *end, double *out_ms);

    /* Queued copies. `fill` writes a pattern of 1, 2, 4, 8 or 16 bytes; offset and bytes are multiples of it. */
    int32_t (*write)(void *device, void *queue, void *memory, uint64_t offset, const void *host,
                     uint64_t bytes);
    int32_t (*read)(void *device, void *queue, void *host, void *memory, uint64_t offset, uint64_t bytes);
    int32_t (*copy)(void *device, void *queue, void *to, uint64_t to_offset, void *from, uint64_t from_offset,
                    uint64_t bytes);
    int32_t (*fill)(void *device, void *queue, void *memory, uint64_t offset, uint64_t bytes,
                    const void *pattern, uint32_t pattern_bytes);

    /*
     * Compiles `source` with `options`, or takes `binary`, which was given for the same source, options and device;
     * *out_binary (may be NULL) receives it. The error of a source that does not compile has the compiler's log.
     */
    int32_t (*program_create)(void *device, const char *source, const char *options, const gpu_binary *binary,
                              void **out_program, gpu_binary *out_binary);
    void (*program_destroy)(void *device, void *program);
    int32_t (*kernel_create)(void *device, void *program, const char *name, void **out_kernel);
    void (*kernel_destroy)(void *device, void *kernel);
    /* `items` is a multiple of `group`. */
    int32_t (*launch)(void *device, void *queue, void *kernel, const gpu_argument *arguments,
                      uint32_t n_arguments, uint64_t items, uint32_t group);

    /* Slots that a driver may leave out. */
    /* A queue with a priority of the properties' range. NULL: queue_create makes all. */
    int32_t (*queue_create_urgent)(void *device, int32_t priority, void **out_queue);
    /* event_record for an event with flags TN_EVENT_...: without TN_EVENT_TIMING it may be cheaper. */
    int32_t (*event_record_as)(void *device, void *queue, uint32_t flags, void **out_event);
    /* Free and total memory. NULL or TN_E_UNSUPPORTED: the family counts what it has allocated. */
    int32_t (*memory_info)(void *device, uint64_t *out_free, uint64_t *out_total);
    /* Copies between two devices on a queue of the destination. */
    int32_t (*peer_copy)(void *to_device, void *queue, void *to, uint64_t to_offset, void *from_device,
                         void *from, uint64_t from_offset, uint64_t bytes);
    /* NULL: the host refuses graphs. */
    const gpu_graph_driver *graphs;
    /* NULL: there are none. */
    const gpu_library_driver *libraries;
} gpu_driver;

extern const gpu_driver gpu_the_driver;

/* Records an error of the plugin: "opencl: " and the text. A vendor's number and its name may be given. */
int32_t gpu_error(const gpu_plugin *plugin, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int32_t gpu_error_native(const gpu_plugin *plugin, int32_t status, int32_t native, const char *native_name,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Writes "0000:65:00.0". */
void gpu_write_pci(gpu_properties *out, uint32_t domain, uint32_t bus, uint32_t device, uint32_t function);

/* The driver's own state, which find makes and forget frees. */
void **gpu_driver_state(gpu_plugin *plugin);

#endif
