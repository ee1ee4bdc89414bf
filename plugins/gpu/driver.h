/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the family of GPU plugins needs of a vendor's runtime: memory by handles, queues, events, programs from
 * source and launches. One driver is linked into each plugin, as `gpu_the_driver`; it knows nothing of operators
 * and little of Tenon. docs/gpu-driver.md is the way to write one. This is the only header of the family that a driver
 * needs.
 *
 * Slots with a status record details by gpu_error, which any thread may call. A slot sets its outputs on success only.
 * Statuses that the family or the host looks at:
 *
 *   TN_E_OUT_OF_MEMORY   caches are emptied, and the slot or the kernel is called once more
 *   TN_E_DEVICE_LOST     the device can do nothing any more; `status` says so from then on
 *   TN_E_INTERNAL        anything else that the runtime refuses. From program_create: the source does not compile, and the
 *                        family does not try again
 *
 * Before most slots the family asks `status`, and calls nothing of a lost device but what releases something (`free`,
 * `host_free`, `..._destroy`, `event_release`, `close`), what asks its allocations (`host_alloc`, `memory_info`, `retain`,
 * `native`) and native_wait.
 *
 * Queued work that has failed: queue_query and queue_finish return its error, once. If nobody knows what memory holds after it, the
 * device is lost: then these and the slots of events return TN_E_DEVICE_LOST.
 *
 * A device may be lost while another thread waits in queue_finish, event_wait or event_elapsed. The slot then returns
 * TN_E_DEVICE_LOST within seconds: where the runtime would go on waiting, it asks again and again, or waits with a limit. What
 * a callback holds back never runs after a loss, since the memory of the host that it reads and writes is freed by then.
 */
#ifndef TENON_GPU_DRIVER_H
#define TENON_GPU_DRIVER_H

#define TN_PLUGIN
#include <tenon/plugin.h>
#include <tenon/activity.h>

#include <pthread.h>

typedef struct gpu_plugin gpu_plugin;

/* What the family wants to know of a device. `describe` gets it with all bytes 0, which is what is not known. */
typedef struct gpu_properties {
    uint32_t device_class; /* TN_DEVICE_..., but not TN_DEVICE_HOST */
    uint32_t compute_units;
    uint64_t memory_bytes;
    uint64_t largest_allocation;
    uint32_t alignment; /* of what `alloc` gives, in bytes: a power of two; 0 is 1. The host checks it */
    /* Its kernels run on cores of a CPU: items have long runs with wide vectors, groups have 1 or 64 of them. Else groups have
     * 128. */
    uint32_t is_processor;
    uint32_t has_double;
    /* Device code is compiled with the plugin (modules.h). The family then asks for no program that is made for one operator and
     * its dtypes. */
    uint32_t is_precompiled;
    /* A device with is_precompiled has the programs for contiguous operands of one dtype, too (GPU_DENSE of device/pointwise.cl). */
    uint32_t has_dense;
    uint32_t lacks_attention;            /* it has no programs of device/attention_groups.cl */
    uint32_t has_addresses;              /* the handle of an allocation is its address for the device */
    uint32_t has_unified;                /* `unified_alloc` can be asked for memory */
    int32_t priority_low, priority_high; /* of queues; lower numbers are more urgent */
    uint64_t peers;                      /* bit i: peer_copy reaches device i */
    uint8_t uuid[16];
    char pci_address[16];
    char name[64];
    char architecture[32];
    char identity[256]; /* of device, driver and compiler: cached programs of others are not used */
} gpu_properties;

/*
 * An argument of a kernel. Offsets into memory are values of their own, which the kernel adds: the argument is always the
 * whole allocation. No argument is local memory.
 */
typedef struct gpu_argument {
    uint32_t is_memory;
    uint32_t bytes; /* of a value; all arguments together have at most 1024 */
    /* The bytes of a value. Of memory the handle itself, as `alloc` gave it, or NULL: the kernel does not use it. */
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
    /* 1: launches on two queues may run at once, and the family puts them in order. */
    uint32_t has_no_order;
    /* TN_E_UNSUPPORTED: the graph has other operations, and the executable is unchanged. NULL: always so. */
    int32_t (*update)(void *device, void *executable, void *graph);
    void (*executable_destroy)(void *device, void *executable);
} gpu_graph_driver;

/* Memory and events that other processes open, as tn_interop_interface says (tenon/plugin.h). */
typedef struct gpu_share_driver {
    /* Memory for other processes, of *out_bytes, which may be more than asked for; `free` gives it back. */
    int32_t (*alloc)(void *device, uint64_t bytes, void **out_memory, uint64_t *out_bytes);
    int32_t (*export_memory)(void *device, void *memory, tn_process_handle *out);
    /* `free` lets go of it. */
    int32_t (*import_memory)(void *device, const tn_process_handle *handle, void **out_memory);
    /* An event that is recorded again and again, and then is as those of event_record. NULL, as the others: there are none. */
    int32_t (*event_create)(void *device, void **out_event);
    int32_t (*event_record)(void *device, void *queue, void *event);
    int32_t (*export_event)(void *device, void *event, tn_process_handle *out);
    int32_t (*import_event)(void *device, const tn_process_handle *handle, void **out_event);
} gpu_share_driver;

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

/* A place in memory; the offset is in bytes. */
typedef struct gpu_place {
    void *memory;
    uint64_t offset;
} gpu_place;

/* Which tensor of a convolution is computed from the two others. */
enum { GPU_CONVOLVE_OUT, GPU_CONVOLVE_IN, GPU_CONVOLVE_WEIGHT };

/*
 * A pass of a convolution, without a bias. The window has the sizes (device/arguments.h); the tensors are in row-major order
 * and of one dtype (GPU_F16, GPU_BF16, GPU_F32 or GPU_F64).
 */
typedef struct gpu_convolution {
    uint32_t pass;
    const struct gpu_window *window;
    gpu_place in, weight, out;
} gpu_convolution;

/*
 * Attention of half types, or its gradients. `at` has the sizes, strides and offsets in bytes (device/arguments.h), without a mask;
 * features are contiguous, and the logarithms of sums are float32.
 */
typedef struct gpu_attend {
    const struct gpu_attention *at;
    uint32_t dtype; /* GPU_F16 or GPU_BF16 */
    uint32_t is_backward;
    float scale;
    void *const *memory; /* by GPU_ATTENTION_... */
} gpu_attend;

/* What is done with column-major matrices, in place. */
enum {
    GPU_FACTOR_CHOLESKY,
    GPU_FACTOR_LU,          /* extra: pivots (int32) */
    GPU_FACTOR_SOLVE,       /* extra: pivots, a: the factors of LU, b: the right sides become the solutions */
    GPU_FACTOR_QR,          /* extra: the lengths of the reflectors */
    GPU_FACTOR_REFLECTORS,  /* extra: their lengths; the reflectors become their product */
    GPU_FACTOR_EIGENVALUES, /* extra: eigenvalues */
    GPU_FACTOR_SINGULAR /* extra: singular values, b and c: vectors of the left, as columns, and of the right, as rows */
};

/* The matrices of a batch, one after the other, as are all other parts; of GPU_F32 or GPU_F64. */
typedef struct gpu_factors {
    uint32_t kind, dtype, is_upper, is_transposed, wants_vectors;
    uint64_t rows, columns, batches;
    uint64_t count;       /* of the elements of extra, for each matrix */
    uint64_t right_sides; /* columns of b */
    gpu_place a, b, c, extra;
    gpu_place infos; /* int32: what LAPACK says of each matrix */
} gpu_factors;

/*
 * Fourier transforms of lines, not scaled: of complex elements, or, of real lines, to the first half of their spectra. Steps are
 * along a line, `apart` is what lies between lines; both in elements.
 */
typedef struct gpu_transform {
    uint32_t dtype; /* of the parts: GPU_F32 or GPU_F64 */
    uint32_t is_real, is_backward;
    uint64_t size, lines;
    int64_t in_step, in_apart, out_step, out_apart;
    gpu_place in, out; /* may be the same */
} gpu_transform;

/*
 * Libraries of the vendor. Each may be absent. TN_E_UNSUPPORTED, without an error, means that nothing was queued and that
 * the family's own kernels do the work.
 */
typedef struct gpu_library_driver {
    int32_t (*product)(void *device, void *queue, const tn_call *call, const gpu_matrices *m);
    int32_t (*convolve)(void *device, void *queue, const tn_call *call,
                        const gpu_convolution *c); /* NULL: never */
    /* Whether `attend` takes the call, but for where the logarithms are. Both NULL: never. */
    int32_t (*can_attend)(void *device, const tn_call *call, const gpu_attend *a);
    /* The logarithms of sums that a backward pass gets are in row-major order; `at` has their offset only. */
    int32_t (*attend)(void *device, void *queue, const tn_call *call, const gpu_attend *a);
    /* Why `factor` does not take such work, of which f has no memory yet; NULL: it does. Both slots NULL: never. */
    const char *(*can_factor)(void *device, const tn_call *call, const gpu_factors *f);
    int32_t (*factor)(void *device, void *queue, const tn_call *call, const gpu_factors *f);
    int32_t (*transform)(void *device, void *queue, const tn_call *call,
                         const gpu_transform *t); /* NULL: never */
} gpu_library_driver;

/* What `find` found: the head of a driver's state. */
typedef struct gpu_found {
    uint32_t count;
    char reason[512]; /* why there is no device */
} gpu_found;

/*
 * `device` is what open gave; queues, events, memory and programs belong to it. Handles are never NULL. Slots may be called
 * by several threads at once, except program_create, kernel_create and launch, which are called by one at a time for each
 * device. A slot is required unless its comment says what NULL means, or it stands among those that a driver may leave
 * out: a plugin whose driver lacks a required one is not loaded, and the error names the slot.
 */
typedef struct gpu_driver {
    const char *type; /* the device type: "opencl" */
    const char *version;
    int32_t dlpack_type; /* the type of its devices in DLPack */
    /* Its own, behind those of the family. The slots get the plugin as `self`, and a device that gpu_driver_device translates. A bool
     * `lose` makes the device lost, for the kit's cases `0/lost`. NULL: it has none. */
    const tn_settings_interface *settings;
    size_t state_bytes; /* of what it knows of the process; begins with a gpu_found */
    /* Loads the runtime, finds devices and counts them; where there is none, writes the reason. `state` is zeroed. One thread
     * of the process at a time calls this or `describe`. */
    void (*find)(void *state);
    /* Before the family frees the state. NULL: there is nothing to do. */
    void (*forget)(void *state);
    /* Called before open, and again by it. */
    void (*describe)(gpu_plugin *plugin, uint32_t index, gpu_properties *out);
    int32_t (*open)(gpu_plugin *plugin, uint32_t index, void **out_device);
    void (*close)(void *device);
    /* TN_OK; or TN_E_DEVICE_LOST with its error, for ever, once a slot has returned it. Does not wait. */
    int32_t (*status)(void *device);
    /* The vendor's handle of a kind (TN_NATIVE_...); `handle` is a queue or memory of this driver, or unused. TN_E_UNSUPPORTED,
     * without an error: there is none. */
    int32_t (*native)(void *device, uint32_t kind, void *handle, uint64_t *out);
    /* The number that DLPack has for the device, where the runtime counts devices that the plugin does not take. NULL: its
     * index. */
    int32_t (*dlpack_id)(void *device);

    int32_t (*alloc)(void *device, uint64_t bytes, void **out_memory);
    /* No unfinished work uses the memory. */
    void (*free)(void *device, void *memory);
    /* Memory of another library, by the vendor's handle: from then on `free` lets go of it, too. TN_E_ARGUMENT if it is
     * not of this device. It may also be memory that `alloc` gave, which then has one more owner: `free` is called once for
     * each. An address may lie inside of an allocation; *out_bytes is how many follow, and `free`, copies and launches get that
     * same address. *out_bytes holds how many are needed: a driver that has to look at one piece after another stops there. */
    int32_t (*retain)(void *device, void *memory, uint64_t *out_bytes);
    /* The memory whose handle `native` gives, or NULL, which retain refuses. NULL: it is the handle itself. */
    void *(*memory_of)(void *device, void *native);
    /* Pinned memory of the host: `write` and `read` get its address, and queue copies from and to it without waiting.
     * *out_memory is the runtime's handle of it, or the address where it has none. NULL, both slots: there is no such memory,
     * and programs wait for each copy. */
    int32_t (*host_alloc)(void *device, uint64_t bytes, void **out_memory, void **out_host);
    void (*host_free)(void *device, void *memory, void *host);

    /* Work of a queue runs in the order in which it was queued, whatever slots queued it. It may wait to be submitted until
     * queue_query, queue_finish, event_record, queue_callback or `native` of the queue. `priority` is of the properties' range, and 0
     * where there are none. */
    int32_t (*queue_create)(void *device, int32_t priority, void **out_queue);
    /* A queue of the program, by the handle that `native` gives. NULL: the plugin refuses them. */
    int32_t (*queue_wrap)(void *device, uint64_t native, void **out_queue);
    /* Its work has finished, or the device is lost. Callbacks are called even then: the slot waits for those of the queue first, for
     * which a gpu_callbacks in each queue is enough. */
    void (*queue_destroy)(void *device, void *queue);
    /* Whether all work has finished, without waiting. A runtime that cannot be asked records an event behind the work that
     * was queued since the last query, and asks that. Others may queue work on a queue that was wrapped, or of which `native` gave
     * the handle: there each query that finds no event pending records a new one. */
    int32_t (*queue_query)(void *device, void *queue, int32_t *out_done);
    /* Waits; returns an error that running work has met, once. */
    int32_t (*queue_finish)(void *device, void *queue);
    /* Later work of the queue waits for the event, which may be of another queue of this device. The caller does not wait. */
    int32_t (*queue_wait)(void *device, void *queue, void *event);
    /* The same for a queue of another library, by the vendor's handle; or the slot waits itself. */
    int32_t (*native_wait)(void *device, uint64_t native, void *event);
    /* Queues a call of callback(user), on a thread of the runtime or of gpu_callbacks_start. Later work of the queue waits until
     * it has returned, which may take long; work of other queues does not. It calls nothing of the vendor. */
    int32_t (*queue_callback)(void *device, void *queue, void (*callback)(void *user), void *user);

    /* An event is made when it is recorded. It may be released before it is done: queued waits keep what they need of it. */
    int32_t (*event_record)(void *device, void *queue, void **out_event);
    void (*event_release)(void *device, void *event);
    int32_t (*event_query)(void *device, void *event, int32_t *out_done);
    int32_t (*event_wait)(void *device, void *event);
    /* Both may still be pending: then the slot waits for them. */
    int32_t (*event_elapsed)(void *device, void *start, void *end, double *out_ms);

    /* Copies that are queued, with offsets and sizes of any number. Memory of the host, pinned or not, stays as it is until the
     * queue has run the copy; the ranges of `copy` do not overlap. `fill` writes a pattern of 1, 2, 4, 8 or 16 bytes, which
     * may change when the slot has returned; offset and bytes are multiples of it. */
    int32_t (*write)(void *device, void *queue, void *memory, uint64_t offset, const void *host,
                     uint64_t bytes);
    int32_t (*read)(void *device, void *queue, void *host, void *memory, uint64_t offset, uint64_t bytes);
    int32_t (*copy)(void *device, void *queue, void *to, uint64_t to_offset, void *from, uint64_t from_offset,
                    uint64_t bytes);
    int32_t (*fill)(void *device, void *queue, void *memory, uint64_t offset, uint64_t bytes,
                    const void *pattern, uint32_t pattern_bytes);

    /*
     * Compiles `source`, which is OpenCL C as text (or, of a plugin whose device code is compiled with it, what modules.h
     * looks for), with `options` as clBuildProgram takes them, such as "-DGPU_TYPE=32 -cl-single-precision-constant". Or takes
     * `binary`, which was given for the same source, options, device and gpu_properties.identity: after a failure the family
     * compiles the source. *out_binary (`out_binary` may be NULL) receives the binary; without bytes nothing is cached. The
     * error of a source that does not compile is TN_E_INTERNAL, and has the compiler's log.
     */
    int32_t (*program_create)(void *device, const char *source, const char *options, const gpu_binary *binary,
                              void **out_program, gpu_binary *out_binary);
    /* After its kernels; nothing that was queued uses it any more. */
    void (*program_destroy)(void *device, void *program);
    int32_t (*kernel_create)(void *device, void *program, const char *name, void **out_kernel);
    void (*kernel_destroy)(void *device, void *kernel);
    /* In one dimension: `items` is a multiple of `group`. Values of arguments are read before the slot returns. */
    int32_t (*launch)(void *device, void *queue, void *kernel, const gpu_argument *arguments,
                      uint32_t n_arguments, uint64_t items, uint32_t group);
    /* 1: launch keeps nothing in the kernel, so that several threads may launch one at once. A runtime may make a launch wait
     * until its queue has room, for work that another thread has yet to launch. */
    uint32_t launches_at_once;

    /* Slots that a driver may leave out. */
    /* event_record for an event with flags TN_EVENT_...: without TN_EVENT_TIMING it may be cheaper. */
    int32_t (*event_record_as)(void *device, void *queue, uint32_t flags, void **out_event);
    /* Free and total memory. NULL or TN_E_UNSUPPORTED: the family counts what it has allocated. */
    int32_t (*memory_info)(void *device, uint64_t *out_free, uint64_t *out_total);
    /* Unified memory: *out_host is its address for the host, which uses one part of it while work of the device uses another.
     * `free` gives it back. Tensors of a device of class TN_DEVICE_INTEGRATED lie in it. NULL: no device has it, whatever
     * has_unified says. */
    int32_t (*unified_alloc)(void *device, uint64_t bytes, void **out_memory, void **out_host);
    /* Memory that grows, as memory.reserve and memory.resize (tenon/plugin.h); `free` gives it back. NULL, both: none does. */
    int32_t (*reserve)(void *device, uint64_t bytes, void **out_memory);
    int32_t (*resize)(void *device, void *memory, uint64_t bytes);
    /* 1: queues of `device` wait for events of `other`, as queue_wait. NULL: never. Where they do not, the host waits, which is
     * against the contract (stream.wait_event of tenon/plugin.h): a driver with several devices needs the slot. */
    int32_t (*waits_for)(void *device, void *other);
    /* Copies between two devices on a queue of the destination. */
    int32_t (*peer_copy)(void *to_device, void *queue, void *to, uint64_t to_offset, void *from_device,
                         void *from, uint64_t from_offset, uint64_t bytes);
    /* A range with a name, of this thread, for a profiler of the vendor: 0 if nobody asks for it. NULL: there are none. */
    int32_t (*range_begin)(const char *name);
    void (*range_end)(void);
    /* NULL: the host refuses graphs. */
    const gpu_graph_driver *graphs;
    /* NULL: there are none. */
    const gpu_library_driver *libraries;
    /* NULL: nothing is shared with other processes. */
    const gpu_share_driver *shares;
    /* Its `self` is the plugin; devices (gpu_driver_device) and streams are those of gpu.h. NULL: the host refuses collectives. */
    const tn_collectives_interface *collectives;
    /* What the vendor's profiler records. Its `self` is the plugin; gpu_driver_device translates its devices. NULL: profiles have no
     * kernels. */
    const tn_x_activity_interface *activities;
} gpu_driver;

extern const gpu_driver gpu_the_driver;

/* Defines the driver, slot by slot, and the plugin with it, of which the device type is `name`. A `;` follows. A driver of
 * another vendor defines GPU_VENDOR, and GPU_VERSION if it likes, before it includes this header. */
#define GPU_DEFINE_DRIVER(name, ...)                                                       \
    const gpu_driver gpu_the_driver = {.type = name, .version = GPU_VERSION, __VA_ARGS__}; \
    TN_DEFINE_PLUGIN(name, GPU_VERSION, GPU_VENDOR, 0, gpu_entry)
#ifndef GPU_VERSION
#define GPU_VERSION "0.1"
#endif
#ifndef GPU_VENDOR
#define GPU_VENDOR "Tenon"
#endif

/* The entry of the plugin, which GPU_DEFINE_DRIVER names. */
int32_t gpu_entry(const tn_host_offer *offer, tn_plugin_table *out);

/* Records an error of the plugin for this thread: "opencl: " and the text. A vendor's number and its name may be given. Returns
 * the status, which is never TN_OK: by gpu_failed, compilers see that outputs are used after success only. */
int32_t gpu_error(const gpu_plugin *plugin, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int32_t gpu_error_native(const gpu_plugin *plugin, int32_t status, int32_t native, const char *native_name,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));
static inline int32_t gpu_failed(int32_t status)
{
    return status ? status : TN_E_INTERNAL;
}
#define gpu_error(...)        gpu_failed(gpu_error(__VA_ARGS__))
#define gpu_error_native(...) gpu_failed(gpu_error_native(__VA_ARGS__))

/* Opens a library of the vendor as dlopen does. NULL: `reason` says why it cannot be loaded; "": there is no such file. */
void *gpu_dlopen(const char *name, char *reason, size_t size);
/* The same for the runtime, in `find`. NULL: the reason is written, which is `absent` where there is no such file. */
void *gpu_load(gpu_found *found, const char *name, const char *absent);

/* The body of a function that gives the name of a vendor's status, for a list of them. */
#define GPU_NAME_CASE(status) \
    case status:              \
        return #status;
#define GPU_NAME_OF(status, LIST) \
    switch (status) {             \
        LIST(GPU_NAME_CASE)       \
    default:                      \
        return "unknown status";  \
    }

/* Gives the handle of a kind (TN_NATIVE_...); `handle` is that of a stream or an allocation. TN_E_UNSUPPORTED where it is
 * NULL. */
int32_t gpu_native_of(uint32_t kind, const void *device, const void *context, const void *handle,
                      uint64_t *out);

/* Puts x into a list that `next` links and `lock` guards, and takes it out again if it is there. */
#define GPU_LINK(lock, list, x)     \
    do {                            \
        pthread_mutex_lock(lock);   \
        (x)->next = *(list);        \
        *(list) = (x);              \
        pthread_mutex_unlock(lock); \
    } while (0)
#define GPU_UNLINK(lock, list, x)                                        \
    do {                                                                 \
        __typeof__(list) link_at = (list);                               \
        pthread_mutex_lock(lock);                                        \
        while (*link_at && *link_at != (x)) link_at = &(*link_at)->next; \
        if (*link_at) *link_at = (x)->next;                              \
        pthread_mutex_unlock(lock);                                      \
    } while (0)

/* Writes "0000:65:00.0". */
void gpu_write_pci(gpu_properties *out, uint32_t domain, uint32_t bus, uint32_t device, uint32_t function);

/* The driver's device, as `open` gave it, of one that the slots of `settings`, `collectives` and `activities` get. */
void *gpu_driver_device(const void *device);

/* The driver's state, NULL before `find`. Runtimes stay loaded when it is freed: they have threads and exit handlers. */
void *gpu_driver_state(const gpu_plugin *plugin);

/* Threads that run callbacks of the program, for runtimes that have no such thread. In each queue, queue_destroy finishes it; a driver
 * that waits for callbacks itself keeps one in the device, for `close`. */
typedef struct gpu_callbacks {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    uint32_t running;
} gpu_callbacks;
void gpu_callbacks_init(gpu_callbacks *c);
/* Waits for all threads. */
void gpu_callbacks_finish(gpu_callbacks *c);
/* Calls run(data) on a thread of its own. */
int32_t gpu_callbacks_start(const gpu_plugin *plugin, gpu_callbacks *c, void (*run)(void *data), void *data);

#endif
