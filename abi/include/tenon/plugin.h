/* SPDX-License-Identifier: Apache-2.0 */
/*
 * THE header of a vendor. A plugin is one shared library that exports one symbol, `tenon_plugin`, and imports
 * none of ours: all that it needs of the host comes in tables. It defines TN_PLUGIN before it includes any
 * header of ours, which hides the functions of libtenon. Beside the library lies a manifest, by which it is
 * found, in the folder that `pkg-config --variable=plugindir tenon` names or in one of TENON_PLUGIN_ADD:
 *
 *     {"tenon_manifest": 1, "name": "acme", "library": "libtenon_acme.so", "device_type": "acme",
 *      "description": "what it is, in a line"}
 *
 * (an operator library has no device_type).
 *
 * 1. The host reads `tenon_plugin` from the ELF file, without loading it, and compares its fields.
 * 2. It loads the file (RTLD_NOW | RTLD_LOCAL) and calls `entry`, in which both sides settle the ABI version
 * and the plugin fills its table.
 * 3. `init` makes the plugin's state, once for each context; every slot receives it as `self`.
 * 4. `get_interface` answers with one table for each name and version, or NULL: then the host's default
 * serves.
 *
 * A plugin without the device interface is an operator library. The required interfaces of a device are
 * tenon.device, tenon.memory, tenon.copy, tenon.stream; all else is optional, and zero kernel rows are legal:
 * operators then run on the CPU, counted.
 *
 * Rules for every slot: return a status (details through host->error), never throw, print, exit or abort;
 * write output arguments on success only; take any thread unless the slot says otherwise. "device" is the
 * handle that open gave, "stream" the one that create gave; neither is ever NULL, nor may it be when given.
 * Byte counts are never 0. Tables, and all that they point to, stay as they are until shutdown has returned;
 * texts handed to the host are copied by it unless they are called static.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <tenon/collectives.h>
#include <tenon/device.h>
#include <tenon/op.h>
#include <tenon/random.h>

TN_BEGIN_DECLS

/* ---- What the host gives ----------------------------------------------------------------------------- */

/*
 * The functions of the host. All may be called from any thread; those that take a call only while it runs, by
 * the thread it runs on. Slots past `size` are absent.
 */
struct tn_host {
    uint32_t size;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t reserved;
    void *context; /* handed back as the first argument of those that take `context` */

    /* Records an error for this thread (`message` is copied) and returns `code`, so that a kernel can say
     * `return host->error(...)`. */
    int32_t (*error)(void *context, int32_t code, const char *message) TN_ANY_THREAD TN_IN_KERNEL;
    /* The same with the vendor's own number and text. */
    int32_t (*error_native)(void *context, int32_t code, const char *message, int32_t native_code,
                            const char *native_text) TN_ANY_THREAD TN_IN_KERNEL;
    void (*log)(void *context, int32_t level, const char *text) TN_ANY_THREAD TN_IN_KERNEL TN_IN_CALLBACK;
    uint32_t (*intern)(void *context, const char *text) TN_ANY_THREAD;
    const char *(*interned)(void *context, uint32_t id)TN_ANY_THREAD;

    /* Host memory of the context's allocator, aligned to 64 bytes; NULL when out of memory. */
    void *(*alloc)(void *context, uint64_t bytes)TN_ANY_THREAD TN_IN_KERNEL;
    void (*free)(void *context, void *memory, uint64_t bytes) TN_ANY_THREAD TN_IN_KERNEL;

    /* Device memory for the length of the call's work on its stream. */
    int32_t (*workspace)(const tn_call *call, uint64_t bytes, TN_OUT void **out_allocation,
                         TN_OUT uint64_t *out_offset, TN_OUT void **out_host) TN_IN_KERNEL;
    /* Gives a data-dependent output its size; the output's descriptor in call->outs is then valid. */
    int32_t (*resize_output)(const tn_call *call, uint32_t i, uint32_t rank,
                             const int64_t *sizes) TN_IN_KERNEL;
    /* Shape rules: says what an output is. device 0: that of the first tensor argument. */
    int32_t (*define_output)(const tn_call *call, uint32_t i, tn_dtype dtype, uint32_t rank,
                             const int64_t *sizes, tn_device device) TN_IN_KERNEL;
    /* Composites and gradients: gives output i, a tensor of the call's scope. */
    int32_t (*set_output)(const tn_call *call, uint32_t i, tn_tensor *t) TN_IN_KERNEL;
    /* The scope of a composite or gradient call. Typed calls of ops.h work on it when TN_PLUGIN is defined.
     */
    tn_scope *(*call_scope)(const tn_call *call)TN_IN_KERNEL;
    /* Takes `count` counters of the generator (NULL: the default one of the call's device). */
    int32_t (*random_reserve)(const tn_call *call, tn_generator *generator, uint64_t count,
                              TN_OUT uint64_t *out_seed, TN_OUT uint64_t *out_offset) TN_IN_KERNEL;
    /* Calls `release(pointer)` when the call's stream has passed. */
    int32_t (*keep_alive)(const tn_call *call, void *pointer, void (*release)(void *pointer)) TN_IN_KERNEL;

    int32_t (*register_operator)(void *context, const tn_operator_def *def) TN_ANY_THREAD;
    /* Rows for a device type, of this plugin or of another one. `self` is handed to their functions. */
    int32_t (*register_kernels)(void *context, const char *device_type, void *self, const tn_kernel_row *rows,
                                uint32_t count, uint32_t row_bytes) TN_ANY_THREAD;
    uint32_t (*find_operator)(void *context, const char *name) TN_ANY_THREAD;

    /* Scopes, for composites and gradients; see context.h and op.h. */
    int32_t (*scope_call)(tn_scope *s, uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs,
                          uint32_t n_outs);
    int32_t (*scope_failed)(const tn_scope *s);
    int32_t (*scope_fail)(tn_scope *s, int32_t code, const char *message);
    void *(*scope_memory)(tn_scope *s, uint64_t bytes);
    void (*drop)(tn_scope *s, tn_tensor *t);

    /* Makes a finding known: kept for tn_inspect_finding and logged. Texts are copied. */
    int32_t (*report)(void *context, const tn_finding *finding) TN_ANY_THREAD TN_IN_KERNEL TN_IN_CALLBACK;
};

/* A scope begins with the host it belongs to. */
#define TN_SCOPE_HOST(s) (*(const tn_host *const *)(const void *)(s))

#ifdef TN_PLUGIN
static inline int32_t tn_scope_call(tn_scope *s, uint32_t op, const tn_value *args, uint32_t n_args,
                                    tn_value *outs, uint32_t n_outs)
{
    return TN_SCOPE_HOST(s)->scope_call(s, op, args, n_args, outs, n_outs);
}
static inline void tn_drop(tn_scope *s, tn_tensor *t)
{
    TN_SCOPE_HOST(s)->drop(s, t);
}
static inline int32_t tn_scope_failed(const tn_scope *s)
{
    return TN_SCOPE_HOST(s)->scope_failed(s);
}
static inline int32_t tn_scope_fail(tn_scope *s, int32_t code, const char *message)
{
    return TN_SCOPE_HOST(s)->scope_fail(s, code, message);
}
static inline void *tn_scope_memory(tn_scope *s, uint64_t bytes)
{
    return TN_SCOPE_HOST(s)->scope_memory(s, bytes);
}
#endif

/* ---- What the plugin gives --------------------------------------------------------------------------- */

/* Optional slots of every interface may be NULL; the comment says what then happens. */

/* "tenon.device", version 1. Required of a device plugin. */
typedef struct tn_device_interface {
    uint32_t size;
    uint32_t reserved;
    const char *type; /* "acme": what users write before the colon */
    /* Number of devices. Without hardware: TN_OK, 0 and a reason (static text; NULL with devices). Called
     * once, at load. */
    int32_t (*enumerate)(void *self, TN_OUT uint32_t *out_count,
                         TN_OUT const char **out_reason) TN_HOST_THREAD;
    /* Fills *out: the host has set out->size to what it knows and zeroed the rest; write no more than that
     * (say, fill a struct of your own and copy the smaller size), and leave out->size as it is. Works before
     * open. */
    int32_t (*facts)(void *self, uint32_t index, TN_OUT tn_device_facts *out);
    /* At first use of the device. */
    int32_t (*open)(void *self, uint32_t index, TN_OUT void **out_device) TN_HOST_THREAD;
    void (*close)(void *self, TN_TAKES void *device) TN_HOST_THREAD;
    /* TN_OK or TN_E_DEVICE_LOST. Waits for nothing. NULL: always well. */
    int32_t (*status)(void *self, void *device);
    /* Waits for all streams and reports late errors. */
    int32_t (*synchronize)(void *self, void *device);
} tn_device_interface;

/* "tenon.memory", version 1. Required. */
typedef struct tn_memory_interface {
    uint32_t size;
    uint32_t reserved;
    /*
     * Memory of one kind (one of the TN_MEMORY_... that the facts list), aligned as the facts say, its bytes
     * undefined. Large: the host divides it. out_allocation is the handle by which all other slots know it,
     * out_host its address for the host or NULL. TN_E_OUT_OF_MEMORY when there is none: the host then frees
     * its caches, calls trim, synchronises and asks once more.
     */
    int32_t (*alloc)(void *self, void *device, uint64_t bytes, uint32_t kind, TN_OUT void **out_allocation,
                     TN_OUT void **out_host);
    /* No work that uses it is left on any stream. */
    void (*free)(void *self, void *device, TN_TAKES void *allocation, uint64_t bytes);
    /* Sets each byte to `value` (0 to 255), on the stream. */
    int32_t (*fill)(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                    uint32_t value, void *stream);
    /* Bytes; 0 and 0 when unknown. */
    int32_t (*info)(void *self, void *device, TN_OUT uint64_t *out_free, TN_OUT uint64_t *out_total);
    /* NULL: pages are not pinned, copies may block. */
    int32_t (*pin)(void *self, void *device, void *host, uint64_t bytes);
    int32_t (*unpin)(void *self, void *device, void *host, uint64_t bytes);
    /* Host view of an allocation that alloc gave no host address for. NULL: the host copies instead. */
    int32_t (*map)(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                   TN_OUT void **out_host);
    int32_t (*unmap)(void *self, void *device, void *allocation, void *host);
    /* Gives back what the plugin itself caches. NULL: nothing to give. */
    int32_t (*trim)(void *self, void *device);
} tn_memory_interface;

/*
 * "tenon.copy", version 1. Required. All are ordered by `stream` and may return before the copy is done; the
 * host memory stays valid and unchanged until the stream has passed. Ranges do not overlap.
 */
typedef struct tn_copy_interface {
    uint32_t size;
    uint32_t reserved;
    int32_t (*host_to_device)(void *self, void *device, void *allocation, uint64_t offset, const void *host,
                              uint64_t bytes, void *stream);
    int32_t (*device_to_host)(void *self, void *device, void *host, void *allocation, uint64_t offset,
                              uint64_t bytes, void *stream);
    int32_t (*device_to_device)(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *stream);
    /* Between two devices of this plugin, on a stream of the destination. NULL: through the host. */
    int32_t (*peer)(void *self, void *to_device, void *to, uint64_t to_offset, void *from_device, void *from,
                    uint64_t from_offset, uint64_t bytes, void *stream);
} tn_copy_interface;

/* "tenon.stream", version 1. Required. A device without queues gives one stream that does everything at once.
 */
typedef struct tn_stream_interface {
    uint32_t size;
    uint32_t reserved;
    int32_t (*create)(void *self, void *device, int32_t priority, TN_OUT void **out_stream);
    /* After its work has finished. */
    void (*destroy)(void *self, void *device, TN_TAKES void *stream);
    /* *out_done is 1 when all work has finished. A late error (found after the slot or kernel that queued the
     * work had returned) poisons the stream: work queued behind it is dropped, while events are still
     * recorded and callbacks still run. The first query, synchronize or device.synchronize after it reports
     * it, once; then the stream takes work again. */
    int32_t (*query)(void *self, void *device, void *stream, TN_OUT int32_t *out_done);
    int32_t (*synchronize)(void *self, void *device, void *stream);
    /* The stream waits for what the event records now, the host does not; at once where nothing is recorded.
     * The event may be one of another device of this plugin. NULL: the host waits for the event. */
    int32_t (*wait_event)(void *self, void *device, void *stream, void *event);
    /* The vendor's own handle. NULL: none. */
    void *(*native)(void *self, void *device, void *stream);
    /* Runs `callback(user)` on a thread of the plugin's when the stream gets there. It must not call the
     * host. NULL: the host waits. */
    int32_t (*host_callback)(void *self, void *device, void *stream, void (*callback)(void *user),
                             void *user);
} tn_stream_interface;

/* "tenon.event", version 1. Default: an event is a stream that the host waits for. */
typedef struct tn_event_interface {
    uint32_t size;
    uint32_t reserved;
    /* `flags`: TN_EVENT_... */
    int32_t (*create)(void *self, void *device, uint32_t flags, TN_OUT void **out_event);
    /* Work that waits for it may still be queued. */
    void (*destroy)(void *self, void *device, TN_TAKES void *event);
    int32_t (*record)(void *self, void *device, void *event, void *stream);
    /* An event that was never recorded is done. */
    int32_t (*query)(void *self, void *device, void *event, TN_OUT int32_t *out_done);
    int32_t (*synchronize)(void *self, void *device, void *event);
    /* Milliseconds between two recorded events with TN_EVENT_TIMING. NULL: no timing. */
    int32_t (*elapsed)(void *self, void *device, void *start, void *end, TN_OUT double *out_ms);
} tn_event_interface;

/* "tenon.kernels", version 1. Default: no rows. Rows that the host knows no operator for are passed over. */
typedef struct tn_kernels_interface {
    uint32_t size;
    uint32_t count;
    uint32_t row_bytes; /* sizeof(tn_kernel_row) */
    uint32_t reserved;
    const tn_kernel_row *rows;
} tn_kernels_interface;

/* "tenon.layout", version 1. For layouts of the plugin's own. Default: only strided tensors. */
typedef struct tn_layout_interface {
    uint32_t size;
    uint32_t count;
    const char *const *layouts; /* names, to be interned */
    /* Writes `from` into `to`, of which one is strided and the other in a layout of the plugin's. */
    int32_t (*convert)(void *self, void *device, const tn_tensor_desc *from, const tn_tensor_desc *to,
                       void *stream);
    void (*destroy_meta)(void *self, void *meta);
} tn_layout_interface;

/* "tenon.random", version 1. Default: the host's Philox state. */
typedef struct tn_random_interface {
    uint32_t size;
    uint32_t reserved;
    /* A seed nobody can foresee. NULL: the host's. */
    int32_t (*fresh_seed)(void *self, void *device, TN_OUT uint64_t *out_seed);
} tn_random_interface;

/* "tenon.autocast", version 1. Default: the host's classes and bfloat16. */
typedef struct tn_autocast_interface {
    uint32_t size;
    tn_dtype low_dtype;
    /* TN_AUTOCAST_... for an operator, or -1 for the host's choice. */
    int32_t (*classify)(void *self, const char *op);
} tn_autocast_interface;

/* "tenon.allocator", version 1. Replaces the caching allocator of this plugin's devices. */
typedef struct tn_allocator_interface {
    uint32_t size;
    uint32_t reserved;
    int32_t (*alloc)(void *self, void *device, uint64_t bytes, void *stream, TN_OUT void **out_allocation,
                     TN_OUT uint64_t *out_offset, TN_OUT void **out_host);
    void (*free)(void *self, void *device, TN_TAKES void *allocation, uint64_t offset, uint64_t bytes,
                 void *stream);
} tn_allocator_interface;

/*
 * "tenon.graph", version 1. Work that is written down once and run many times. Default: the host refuses
 * graphs; it has none for devices that work at once in the memory of the host (TN_DEVICE_HOST). All slots are
 * required but update.
 *
 * A stream captures from begin to end: kernels, memory.fill, copy.device_to_device and layout.convert that
 * are queued on it check their arguments as ever and return, but instead of running they become part of the
 * graph, in the order of the stream. What they are given besides device memory (numbers, IMMEDIATE operands,
 * lists) is copied then, since all of it is borrowed. Nothing runs before launch.
 *
 * event.record on a capturing stream marks a place in the capture, and another stream of the device that
 * waits for that event (stream.wait_event) joins the capture: it captures, too, and its work comes after the
 * place. Before end the stream that began must have waited for all that the others have captured. A plugin
 * may run work that no event orders one after the other.
 *
 * While a stream captures these are refused with TN_E_STATE, and the text says why: on it begin, launch,
 * stream.query, stream.synchronize, stream.host_callback, copies from and to the host, copy.peer,
 * collectives, and stream.wait_event for an event recorded outside this capture; for an event recorded in it
 * query, synchronize and elapsed, and waiting on a stream of another device; device.synchronize for the
 * device. A kernel that needs the host (it waits, or reads device memory) answers TN_E_STATE, too. The host
 * refuses all of these itself, so that a plugin sees them from a wrong host only; it may then consider the
 * capture broken, and end fails. Everything else (memory.alloc and free, work on streams that do not capture,
 * captures on other streams, in any number and on any thread) goes on as if there were no capture.
 *
 * What the host allocates while a stream captures, it frees when no executable of the graph is left. A
 * program that lets go of other memory too early makes the mistake of any access to freed memory.
 */
typedef struct tn_graph_interface {
    uint32_t size;
    uint32_t reserved;
    /* The stream begins to capture. It has no unfinished work, nor has one that joins. */
    int32_t (*begin)(void *self, void *device, void *stream);
    /* Ends the capture that began on this stream: it and all that joined take work again, on failure too.
     * TN_E_STATE where another stream's work was not waited for, or the capture is broken. */
    int32_t (*end)(void *self, void *device, void *stream, TN_OUT void **out_graph);
    /* Executables made of the graph stay. */
    void (*destroy)(void *self, void *device, TN_TAKES void *graph);
    /* Makes what can be launched; of one graph as often as wished. */
    int32_t (*instantiate)(void *self, void *device, void *graph, TN_OUT void **out_executable);
    /* Queues all of the work on a stream, as one piece: after what the stream has, before what it gets. A
     * launch of an executable begins when its earlier ones have ended, whatever their streams. Late errors
     * are the stream's; the rest of the launch is dropped. */
    int32_t (*launch)(void *self, void *device, void *executable, void *stream);
    /* The executable does from the next launch on what `graph` was captured to do, a graph with the same
     * operations in the same order whose addresses, numbers or sizes are others. TN_E_UNSUPPORTED where it
     * differs too much: the executable is as before, and the host makes a new one. NULL: the host does so
     * always. */
    int32_t (*update)(void *self, void *device, void *executable, void *graph);
    /* No launch of it is unfinished. */
    void (*destroy_executable)(void *self, void *device, TN_TAKES void *executable);
} tn_graph_interface;

/* One rank's part in a collective. Ranges are as long as the slot says; those of one rank do not overlap
 * unless the slot allows it. */
typedef struct tn_collective_rank {
    uint32_t size;
    uint32_t reserved;
    void *stream;         /* of the rank's device */
    void *from;           /* allocation that is read */
    uint64_t from_offset; /* in bytes */
    void *to;             /* allocation that is written */
    uint64_t to_offset;
} tn_collective_rank;

/*
 * "tenon.collectives", version 1. Sums, copies and waits over several devices of this plugin in one process,
 * one rank for each. Default: the host refuses them. All slots are required.
 *
 * `ranks` has an element for each device of the communicator, in its order, rank_bytes apart; a call queues
 * all of them or, on failure, none. A rank's memory is read and written only when its stream has come to the
 * call, and its stream goes on only when its result is complete and nobody reads its memory any more: so work
 * before and after needs no other order. The host does not wait. Calls come one at a time to the whole
 * interface, so ranks of two calls are never queued in different orders. A late error of one rank is late on
 * the streams of all. No stream captures.
 *
 * Reductions are over `count` elements of a dtype out of `dtypes`: TN_REDUCE_... of collectives.h says what
 * they are. The order of additions is the plugin's own; all ranks get the same bits.
 */
typedef struct tn_collectives_interface {
    uint32_t size;
    uint32_t reserved;
    const tn_dtype *dtypes; /* zero-terminated: those it reduces; the slots that only move take bytes */
    /* `devices` are open, and all different; one is enough. */
    int32_t (*create)(void *self, void *const *devices, uint32_t count,
                      TN_OUT void **out_communicator) TN_HOST_THREAD;
    /* No call of it is unfinished. */
    void (*destroy)(void *self, TN_TAKES void *communicator) TN_HOST_THREAD;
    /* Each rank's `to` becomes the reduction of all `from`. The two may be the same range. */
    int32_t (*all_reduce)(void *self, void *communicator, const tn_collective_rank *ranks,
                          uint32_t rank_bytes, uint64_t count, tn_dtype dtype,
                          uint32_t reduction) TN_HOST_THREAD;
    /* Each rank's `to` becomes the root's `from`, `bytes` long. The two may be the same range; `from` of
     * other ranks is not looked at. */
    int32_t (*broadcast)(void *self, void *communicator, const tn_collective_rank *ranks, uint32_t rank_bytes,
                         uint64_t bytes, uint32_t root) TN_HOST_THREAD;
    /* Each rank's `to`, as many times `bytes` long as there are ranks, becomes all `from`, one behind the
     * other; a rank's `from` may be its own place there. */
    int32_t (*all_gather)(void *self, void *communicator, const tn_collective_rank *ranks,
                          uint32_t rank_bytes, uint64_t bytes) TN_HOST_THREAD;
    /* Each `from` has `count` elements for each rank; the `to` of rank i becomes the reduction of all i-th
     * parts. It may be that part of its own `from`. */
    int32_t (*reduce_scatter)(void *self, void *communicator, const tn_collective_rank *ranks,
                              uint32_t rank_bytes, uint64_t count, tn_dtype dtype,
                              uint32_t reduction) TN_HOST_THREAD;
    /* No stream goes on before all have come. Only `stream` of the ranks is looked at. */
    int32_t (*barrier)(void *self, void *communicator, const tn_collective_rank *ranks,
                       uint32_t rank_bytes) TN_HOST_THREAD;
} tn_collectives_interface;

/* The plugin's own table, filled by entry. */
typedef struct tn_plugin_table {
    uint32_t size;
    uint32_t abi; /* the version both sides settled on; 0 is refused */
    /* Makes the plugin's state for one context (several contexts may live at once). `host` lives until
     * shutdown has returned. */
    int32_t (*init)(const tn_host *host, TN_OUT void **out_self) TN_HOST_THREAD;
    /* The table of an interface (its first member is its size), or NULL. Static, or lives until shutdown. */
    const void *(*get_interface)(void *self, const char *name, uint32_t version);
    /* Finishes queued work and stops the plugin's own threads; no call comes after it but free, destroy,
     * close and shutdown. NULL: nothing to stop. */
    int32_t (*quiesce)(void *self) TN_HOST_THREAD;
    void (*shutdown)(TN_TAKES void *self) TN_HOST_THREAD;
    /* Checks itself; TN_OK, or an error that says what is wrong. NULL: nothing to check. */
    int32_t (*self_test)(void *self) TN_HOST_THREAD;
} tn_plugin_table;

/* What the host offers to entry. */
typedef struct tn_host_offer {
    uint32_t size;
    uint32_t abi_min;
    uint32_t abi_max;
    uint32_t reserved;
    char *reason; /* where a plugin that declines writes why, zero-terminated */
    uint32_t reason_bytes;
    uint32_t reserved2;
} tn_host_offer;

#define TN_PLUGIN_MAGIC  "TENON\x1a\x0d\x0a"
#define TN_PLUGIN_SYMBOL "tenon_plugin"

#define TN_SANITIZER_ADDRESS 1u
#define TN_SANITIZER_THREAD  2u
#define TN_SANITIZER_MEMORY  4u

#define TN_PLUGIN_CAN_UNLOAD 1u /* is, after a quiesce that succeeded, if no thread that appeared is left */

/*
 * The constant block that a plugin exports. Frozen. The host reads it from the file, so it must be in
 * initialised, read-only or relocatable data, never in .bss; strings are inline and zero-terminated.
 */
typedef struct tn_plugin_info {
    char magic[8];
    uint32_t size;
    uint32_t stamp;   /* not zero: TN_DEFINE_PLUGIN sets it */
    uint32_t abi_min; /* ABI generations that the plugin understands */
    uint32_t abi_max;
    uint32_t header_minor; /* TN_ABI_MINOR it was compiled with; information */
    uint32_t architecture; /* ELF e_machine */
    uint32_t pointer_bits;
    uint32_t sanitizer; /* TN_SANITIZER_... it was compiled with */
    uint32_t flags;     /* TN_PLUGIN_... */
    uint32_t reserved;
    char name[32];
    char version[32];
    char vendor[64];
    char build_id[64];
    int32_t (*entry)(const tn_host_offer *offer, TN_OUT tn_plugin_table *out);
} tn_plugin_info;

/* ---- Shims ------------------------------------------------------------------------------------------- */

/*
 * A shim stands between the host and every other plugin: it watches, records or disturbs what passes. It is
 * a plugin without a device, with a manifest that says which one it is ("shim": "validate"), and is loaded
 * only when asked for. Several stand in a row: what is behind one is the next shim or the plugin.
 */
typedef struct tn_shim_target {
    uint32_t size;
    uint32_t reserved;
    const tn_plugin_info *info; /* of the plugin at the end; lives as long as the process */
    void *next;
    /* Makes the state of what is behind, to which `host` is the host, and fills its table (out->size is set
     * by the caller; `init` is left NULL). For use within wrap, once. */
    int32_t (*open)(void *next, const tn_host *host, TN_OUT void **out_self, TN_OUT tn_plugin_table *out);
} tn_shim_target;

/* "tenon.shim", version 1. Makes a plugin a shim. */
typedef struct tn_shim_interface {
    uint32_t size;
    uint32_t reserved;
    /* Before the first wrap: the setting that came with the wish, such as what TENON_INJECT says. An error
     * refuses the shim. NULL: there are no settings. */
    int32_t (*configure)(void *self, const char *setting) TN_HOST_THREAD;
    /*
     * Opens the target and gives what the host uses in its place. `host` lives until the shutdown of *out has
     * returned, which shuts down what is behind and ends the wrapping; the shim's own shutdown comes after
     * those of all that it wraps. A failure of the target's open is handed on.
     */
    int32_t (*wrap)(void *self, const tn_host *host, const tn_shim_target *target, TN_OUT void **out_self,
                    TN_OUT tn_plugin_table *out) TN_HOST_THREAD;
} tn_shim_interface;

#if defined(__x86_64__)
#define TN_ARCHITECTURE 62u
#elif defined(__i386__)
#define TN_ARCHITECTURE 3u
#elif defined(__aarch64__)
#define TN_ARCHITECTURE 183u
#elif defined(__riscv)
#define TN_ARCHITECTURE 243u
#elif defined(__powerpc64__)
#define TN_ARCHITECTURE 21u
#else
#define TN_ARCHITECTURE 0u
#endif

#if defined(__has_feature)
#define TN_HAS_FEATURE(x) __has_feature(x)
#else
#define TN_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || TN_HAS_FEATURE(address_sanitizer)
#define TN_SANITIZER TN_SANITIZER_ADDRESS
#elif defined(__SANITIZE_THREAD__) || TN_HAS_FEATURE(thread_sanitizer)
#define TN_SANITIZER TN_SANITIZER_THREAD
#elif TN_HAS_FEATURE(memory_sanitizer)
#define TN_SANITIZER TN_SANITIZER_MEMORY
#else
#define TN_SANITIZER 0u
#endif

#define TN_PLUGIN_STAMP (0x544e0000u | TN_ABI_MAJOR << 8 | TN_ABI_MINOR)
#ifndef TN_BUILD_ID
#define TN_BUILD_ID ""
#endif

/* Writes the info block: TN_DEFINE_PLUGIN("acme", "1.0", "Acme Inc.", 0, entry); once in one file of the
 * plugin, after `entry` is declared; TN_PLUGIN_CAN_UNLOAD or 0. */
#ifdef __cplusplus
#define TN_PLUGIN_EXTERN extern "C"
#else
#define TN_PLUGIN_EXTERN extern
#endif
#define TN_DEFINE_PLUGIN(plugin_name, plugin_version, plugin_vendor, plugin_flags, plugin_entry) \
    TN_PLUGIN_EXTERN TN_API const tn_plugin_info tenon_plugin;                                   \
    const tn_plugin_info tenon_plugin = {{'T', 'E', 'N', 'O', 'N', 0x1a, 0x0d, 0x0a},            \
                                         (uint32_t)sizeof(tn_plugin_info),                       \
                                         TN_PLUGIN_STAMP,                                        \
                                         TN_ABI_GENERATION,                                      \
                                         TN_ABI_GENERATION,                                      \
                                         TN_ABI_MINOR,                                           \
                                         TN_ARCHITECTURE,                                        \
                                         (uint32_t)sizeof(void *) * 8u,                          \
                                         TN_SANITIZER,                                           \
                                         (plugin_flags),                                         \
                                         0,                                                      \
                                         plugin_name,                                            \
                                         plugin_version,                                         \
                                         plugin_vendor,                                          \
                                         TN_BUILD_ID,                                            \
                                         plugin_entry}

/*
 * Negotiation, compiled into the plugin: the generation it was compiled for goes into out->abi if the host
 * offers it; else the reason is written and TN_E_VERSION returned. Zeroes the rest of *out up to its size;
 * entry then sets the slots it has (all of version 0.1 are there; look at out->size for any added later).
 */
static inline int32_t tn_negotiate(const tn_host_offer *offer, tn_plugin_table *out)
{
    static const char reason[] = "no ABI generation in common";
    uint32_t size = out->size, i;
    for (i = (uint32_t)sizeof(size); i < size; i++) ((char *)out)[i] = 0;
    if (TN_ABI_GENERATION < offer->abi_min || TN_ABI_GENERATION > offer->abi_max) {
        for (i = 0; offer->reason && i < offer->reason_bytes && i < sizeof(reason); i++)
            offer->reason[i] = reason[i];
        return TN_E_VERSION;
    }
    out->abi = TN_ABI_GENERATION;
    return TN_OK;
}

TN_END_DECLS
#endif
