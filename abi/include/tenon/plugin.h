/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a vendor. A plugin is one shared library that exports one symbol, `tenon_plugin`, and
 * imports none of libtenon's: the host hands it tables of functions. It defines TN_PLUGIN before it
 * includes a header of Tenon, which hides the functions of libtenon. The host finds a plugin by its
 * manifest, which lies beside the library, in the folder that `pkg-config --variable=plugindir tenon` names
 * or in one of TENON_PLUGIN_ADD:
 *
 *     {"tenon_manifest": 1, "name": "acme", "library": "libtenon_acme.so", "device_type": "acme",
 *      "description": "what it is, in a line"}
 *
 * (an operator library has no device_type).
 *
 * How a plugin starts:
 *
 * 1. The host reads `tenon_plugin` from the file, without loading it, and checks its fields.
 * 2. It loads the file (RTLD_NOW | RTLD_LOCAL) and calls `entry`, in which both sides agree on an ABI version
 *    and the plugin fills its table.
 * 3. It calls `init`, once for each context, to make the plugin's state, which every slot gets as `self`.
 * 4. It calls `get_interface` for each name and version. The plugin returns a table, or NULL to use the
 *    default.
 *
 * A plugin without the device interface is an operator library. A device needs the interfaces tenon.device,
 * tenon.memory, tenon.copy and tenon.stream; all others are optional. Kernels are optional too: operators
 * without a kernel run on the CPU, and the host counts those calls.
 *
 * Rules for every slot, unless its comment says otherwise:
 *
 * - It returns a status and records details by host->error. It never throws, prints, exits or aborts.
 * - It writes output arguments on success only. An output struct comes with its `size` set and all other
 *   bytes 0: the slot writes no more than `size` bytes, and does not change `size`.
 * - A struct that it receives may be shorter or longer than the one that it was compiled with: fields beyond
 *   `size` are 0. Flags that it does not know are refused with TN_E_UNKNOWN_FIELD.
 * - Any thread may call it, several threads at once.
 * - `device` is the handle that open gave, `stream` the handle that create gave. Handles are never NULL: a
 *   plugin must not give NULL, and the host never passes it unless the slot's comment says so.
 * - Sizes and offsets are in bytes. Sizes are never 0. Offsets are from the start of the allocation, and
 *   may be any number: the host divides allocations, and copies parts of tensors.
 * - Tables, and all that they point to, must not change until shutdown has returned. The host copies other
 *   texts that it is given, except those that are called static.
 *
 * Errors that are found late, after the slot or kernel that queued the work has returned: the first
 * stream.query, stream.synchronize or device.synchronize that sees the error returns it, once. Work that was
 * queued on the stream before that call may or may not have run, and its results are undefined; its events
 * complete and its callbacks are called. Afterwards the stream runs work again.
 *
 * A device is lost when it can run no more work: a fault that the driver keeps for its whole context, hardware
 * that is gone, or a device that has not answered for as long as the plugin waits. From then on every slot with
 * a status that is given the device, or anything made on it, returns TN_E_DEVICE_LOST at once. Slots without a
 * status release what they hold on the host and leave the device alone. Nothing waits. After the first such
 * answer the device uses no memory of the host: what its copies read and wrote is freed. Callbacks that were
 * queued are still called, at the latest before destroy of their stream returns. The host then asks
 * device.status, refuses further use of the device, and goes on with the others. All that was made on the device
 * is still destroyed, and the device closed.
 *
 * Streams, events and memory are destroyed in any order, before their device is closed: an event outlives the
 * stream that recorded it, and is done.
 *
 * After fork the host calls no slot in the child, which may keep copies of all open files. Files and sockets are
 * therefore opened with O_CLOEXEC, and neither close nor shutdown waits until another process sees them closed.
 *
 * An interface whose name begins with `tenon.x.` is experimental: any minor version may change it. A plugin that has
 * one says so in `tenon.experimental`.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <tenon/collectives.h>
#include <tenon/device.h>
#include <tenon/op.h>
#include <tenon/random.h>

TN_BEGIN_DECLS

/* ---- Memory ------------------------------------------------------------------------------------------ */

#define TN_REQUEST_SHAREABLE 1u /* interop.export_memory will be asked for it */

/* A request for memory. */
typedef struct tn_memory_request {
    uint32_t size;
    uint32_t kind;      /* one TN_MEMORY_... of the facts; 0 where the host is asked: as tensors have it */
    uint32_t flags;     /* TN_REQUEST_...; only plugins with interop.export_memory see SHAREABLE */
    uint32_t alignment; /* in bytes, a power of two; 0: that of the facts */
    uint64_t bytes;
    void *stream; /* whose work uses the memory first; NULL: any */
} tn_memory_request;

/* Memory that was given. Whoever gave it gets the same fields back when it is freed. */
typedef struct tn_memory {
    uint32_t size;
    uint32_t kind;    /* TN_MEMORY_...: what was asked for, but see memory.alloc */
    void *allocation; /* by which all other slots know it */
    uint64_t offset;  /* where the memory begins in the allocation; mostly 0 */
    void *host;       /* address of its first byte for the host, or NULL */
    uint64_t address; /* of its first byte for the device, if kernels may compute with it, or 0 */
    uint64_t bytes;   /* at least what was asked for */
    void *state;      /* private to whoever gave the memory */
} tn_memory;

/* ---- What the host gives ----------------------------------------------------------------------------- */

/*
 * The random numbers that a call may use: `count` counters from `offset` on, see random.h. In a capture they
 * are not known yet, because each launch of the graph takes other ones. Then `state` is not NULL, and shows a
 * contiguous tensor of two uint64 on the call's device, {seed, start}, which the kernel reads when it runs: the
 * counters begin at start + offset. Rows without TN_ROW_RANDOM_STATE are refused in captures and may ignore
 * `state`.
 */
typedef struct tn_random_numbers {
    uint32_t size;
    uint32_t reserved;
    uint64_t seed;
    uint64_t offset;
    const tn_tensor_desc *state; /* valid until the function returns; its memory as long as the graph */
} tn_random_numbers;

/* What a shape rule says of an output. */
typedef struct tn_output {
    uint32_t size;
    tn_dtype dtype;
    uint32_t rank;
    uint32_t reserved;
    const int64_t *sizes;
    const int64_t *strides; /* in elements; NULL: row-major */
    tn_device device;       /* 0: that of the first tensor argument */
} tn_output;

/* What a kernel may know of the storage of a tensor, to keep results of its own beside it (packed weights). */
typedef struct tn_storage_facts {
    uint32_t size;
    uint32_t reserved;
    uint64_t identity; /* of the storage; no other storage of the context has or had it */
    uint64_t version;  /* changes with each write to the storage */
    uint64_t bytes;
} tn_storage_facts;

/*
 * The functions of the host. Slots beyond `size` are absent. Functions that take a call may be called only
 * while the function that received it runs, and on its thread.
 */
struct tn_host {
    uint32_t size;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t reserved;
    void *context; /* the first argument of the functions that take `context` */

    /* Records an error for this thread (`message` is copied) and returns `status`, so that a kernel can write
     * `return host->error(...)`. */
    int32_t (*error)(void *context, int32_t status, const char *message) TN_ANY_THREAD TN_IN_KERNEL;
    /* The same with the vendor's own error code and text. */
    int32_t (*error_native)(void *context, int32_t status, const char *message, int32_t native_code,
                            const char *native_text) TN_ANY_THREAD TN_IN_KERNEL;
    /* Writes one line to the program's log. `level`: 0 error, 1 warning, 2 info, 3 debug (TN_LOG_... in
     * context.h). */
    void (*log)(void *context, int32_t level, const char *text) TN_ANY_THREAD TN_IN_KERNEL TN_IN_CALLBACK;
    /* tn_intern and tn_interned of context.h. */
    uint32_t (*intern)(void *context, const char *text) TN_ANY_THREAD;
    /* clang-format off */
    const char *(*interned)(void *context, uint32_t id) TN_ANY_THREAD;

    /* Host memory of the context's allocator, aligned to 64 bytes; NULL when out of memory. `free` gets the
     * size that alloc got, and accepts NULL. */
    void *(*alloc)(void *context, uint64_t bytes) TN_ANY_THREAD TN_IN_KERNEL;
    /* clang-format on */
    void (*free)(void *context, void *memory, uint64_t bytes) TN_ANY_THREAD TN_IN_KERNEL;

    /* Temporary memory of the call's device, of the kind that tensors have, valid for the work that the kernel
     * queues on the call's stream. It is aligned as new tensors are (tensor.h), or more if the request asks for
     * it. 0 bytes are legal and give memory without an allocation. */
    int32_t (*workspace)(const tn_call *call, const tn_memory_request *request,
                         TN_OUT tn_memory *out) TN_IN_KERNEL;
    /* Gives an output its size, if that depends on elements; the descriptor in call->outs is valid
     * afterwards. */
    int32_t (*resize_output)(const tn_call *call, uint32_t i, uint32_t rank,
                             const int64_t *sizes) TN_IN_KERNEL;
    /* For shape rules: describes output i. */
    int32_t (*define_output)(const tn_call *call, uint32_t i, const tn_output *output) TN_IN_KERNEL;
    /* For composites and gradients: output i is `t`, a tensor of the call's scope. */
    int32_t (*set_output)(const tn_call *call, uint32_t i, tn_tensor *t) TN_IN_KERNEL;
    /* The scope of a composite or gradient, or of a kernel whose row has TN_ROW_SCOPE; that of another function fails
     * the call if operators are called on it. With TN_PLUGIN defined the typed calls of ops.h work on it. */
    /* clang-format off */
    tn_scope *(*call_scope)(const tn_call *call) TN_IN_KERNEL;
    /* clang-format on */
    /* Takes `count` counters from a generator (NULL: the default generator of the call's device). */
    int32_t (*random_reserve)(const tn_call *call, tn_generator *generator, uint64_t count,
                              TN_OUT tn_random_numbers *out) TN_IN_KERNEL;
    /* Calls `release(pointer)` once, on a thread of the host, when the call's work on its stream has finished.
     * `release` may call the host and the vendor's API. */
    int32_t (*keep_alive)(const tn_call *call, void *pointer, void (*release)(void *pointer)) TN_IN_KERNEL;

    /* tn_operator_define of op.h. */
    int32_t (*register_operator)(void *context, const tn_operator_def *def) TN_ANY_THREAD;
    /* Adds rows for a device type of this or another plugin; row_bytes is sizeof(tn_kernel_row). Their functions
     * get `self`. Rows wait for an operator or a device type that is not there yet. The rules are those of
     * tenon.kernels. */
    int32_t (*register_kernels)(void *context, const char *device_type, void *self, const tn_kernel_row *rows,
                                uint32_t count, uint32_t row_bytes) TN_ANY_THREAD;
    /* tn_operator_find of op.h. */
    uint32_t (*find_operator)(void *context, const char *name) TN_ANY_THREAD;

    /* Scopes, for composites and gradients; see context.h and op.h. */
    int32_t (*scope_call)(tn_scope *s, uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs,
                          uint32_t n_outs);
    int32_t (*scope_failed)(const tn_scope *s);
    int32_t (*scope_fail)(tn_scope *s, int32_t status, const char *message);
    void *(*scope_memory)(tn_scope *s, uint64_t bytes);
    void (*drop)(tn_scope *s, tn_tensor *t);

    /* Reports a finding: the host keeps it for tn_inspect_finding and logs it. Texts are copied. */
    int32_t (*report)(void *context, const tn_finding *finding) TN_ANY_THREAD TN_IN_KERNEL TN_IN_CALLBACK;

    /* The vendor's own handle of the call's device, context or stream, or of an allocation of this device
     * (`allocation`, as descriptors have it; else NULL). With it a library runs work of its own beside the
     * device's plugin. 0 may be a handle (the default stream of some vendors): TN_E_UNSUPPORTED says that there is
     * none. */
    int32_t (*native)(const tn_call *call, uint32_t kind, TN_NULLABLE void *allocation,
                      TN_OUT uint64_t *out) TN_IN_KERNEL;
    /* The storage of a tensor argument. */
    int32_t (*storage)(const tn_call *call, const tn_tensor *tensor,
                       TN_OUT tn_storage_facts *out) TN_IN_KERNEL;
    /* Removes the rows that register_kernels added from `rows` on. Calls that have begun run to their end. */
    int32_t (*unregister_kernels)(void *context, const char *device_type,
                                  const tn_kernel_row *rows) TN_ANY_THREAD;
    /* Memory of an open device (call->device, or the handle that open gave), also outside a call, from the host's
     * allocator, whose caches are empty after TN_E_OUT_OF_MEMORY. `memory_free` gets what memory_alloc gave. The
     * memory is then used for later work of the request's stream; of other streams, when all queued work is
     * done. */
    int32_t (*memory_alloc)(void *context, void *device, const tn_memory_request *request,
                            TN_OUT tn_memory *out) TN_ANY_THREAD TN_IN_KERNEL;
    void (*memory_free)(void *context, void *device, const tn_memory *memory) TN_ANY_THREAD TN_IN_KERNEL;
    /* For a plugin whose vendor library has no device memory left: waits for the device and gives cached memory
     * back to it (memory.free and memory.trim are called meanwhile). *out_bytes: how much. Not from memory.alloc
     * and memory.resize, whose TN_E_OUT_OF_MEMORY does the same. */
    int32_t (*reclaim)(void *context, void *device, TN_OUT uint64_t *out_bytes) TN_ANY_THREAD TN_IN_KERNEL;
    /* A folder for compiled code that outlives the process: `tenon/plugins/NAME` in $XDG_CACHE_HOME or
     * $HOME/.cache. The host makes it, for this user alone. Writes the path with its terminating zero. TN_E_IO: there
     * is no such folder, and the plugin works without a cache. Name device, driver and version of the plugin in file
     * names; write a file under another name and rename it. */
    int32_t (*cache_folder)(void *context, const char *name, TN_OUT char *out,
                            uint32_t out_bytes) TN_ANY_THREAD;
    /* The dtype of a name ("acme_float6") with that many bits in an element, with a code from
     * TN_CODE_VENDOR up that this context gives it; 0 and an error if the name has other bits. */
    tn_dtype (*intern_dtype)(void *context, const char *name, uint32_t bits) TN_ANY_THREAD;
    /* Says that the kernel has queued work: if it returns TN_E_OUT_OF_MEMORY after that, the host does not call it
     * again. */
    void (*work_queued)(const tn_call *call) TN_IN_KERNEL;
};

/* 1 if the host has a slot that was added after version 0.2. */
#define TN_HOST_HAS(host, slot) \
    ((host)->size >= (uint32_t)((const char *)(&(host)->slot + 1) - (const char *)(host)) && (host)->slot)

/* A scope begins with a pointer to the host that it belongs to. */
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
static inline int32_t tn_scope_fail(tn_scope *s, int32_t status, const char *message)
{
    return TN_SCOPE_HOST(s)->scope_fail(s, status, message);
}
static inline void *tn_scope_memory(tn_scope *s, uint64_t bytes)
{
    return TN_SCOPE_HOST(s)->scope_memory(s, bytes);
}
#endif

/* ---- What the plugin gives --------------------------------------------------------------------------- */

/* A slot is optional if its comment says what NULL means. */

/* How a device is opened. */
typedef struct tn_device_options {
    uint32_t size;
    uint32_t flags; /* none are defined yet: 0 */
} tn_device_options;

/* "tenon.device", version 1. Required of a device plugin. */
typedef struct tn_device_interface {
    uint32_t size;
    uint32_t reserved;
    const char *type; /* "acme": what users write before the colon */
    /* Number of devices. Without hardware: TN_OK, 0 and a reason, a static text (NULL if there are devices).
     * Called when a program first asks for devices of the type, which may be never: start no driver before it.
     * Called once, except that after TN_E_OUT_OF_MEMORY the next program to ask may call it again. */
    int32_t (*enumerate)(void *self, TN_OUT uint32_t *out_count,
                         TN_OUT const char **out_reason) TN_HOST_THREAD;
    /* Fills *out (for example: fill a struct of your own and copy the smaller size). May be called before
     * open. */
    int32_t (*facts)(void *self, uint32_t index, TN_OUT tn_device_facts *out);
    /* Called when a program first uses the device. */
    int32_t (*open)(void *self, uint32_t index, const tn_device_options *options,
                    TN_OUT void **out_device) TN_HOST_THREAD;
    /* Called when nothing of the device is left: no memory, stream or event. It may be opened again. */
    void (*close)(void *self, TN_TAKES void *device) TN_HOST_THREAD;
    /* TN_OK or TN_E_DEVICE_LOST; must not wait. Asked when another slot or a kernel has returned
     * TN_E_DEVICE_LOST. NULL: the device is never lost. */
    int32_t (*status)(void *self, void *device);
    /* Waits for all streams, and returns a late error if there is one. The host has waited for each of its own before. */
    int32_t (*synchronize)(void *self, void *device);
    /* The vendor's own handle, for host->native and programs. `handle` is the stream or the allocation; NULL for the
     * other kinds (TN_NATIVE_...). TN_E_UNSUPPORTED: there is none. NULL: there are none. */
    int32_t (*native)(void *self, void *device, uint32_t kind, TN_NULLABLE void *handle,
                      TN_OUT uint64_t *out);
} tn_device_interface;

/* Why memory is mapped. */
#define TN_MAP_READ  1u
#define TN_MAP_WRITE 2u

/* "tenon.memory", version 1. Required. */
typedef struct tn_memory_interface {
    uint32_t size;
    uint32_t reserved;
    /*
     * Allocates memory. Its contents are undefined. The host asks for large allocations and divides them.
     * After TN_E_OUT_OF_MEMORY the host frees its caches, calls trim, synchronises and asks once more. Memory
     * of kind TN_MEMORY_HOST on a device whose tensors live elsewhere is pinned: it has a host address, and copies
     * from and to it do not block. Memory of kind TN_MEMORY_UNIFIED has a host address, too, and the host uses one
     * part of it while work uses another. Where it is asked for with TN_REQUEST_SHAREABLE, or from reserve, the plugin
     * may give memory of kind TN_MEMORY_DEVICE instead, without a host address.
     */
    int32_t (*alloc)(void *self, void *device, const tn_memory_request *request, TN_OUT tn_memory *out);
    /* Called when no unfinished work uses the memory. */
    void (*free)(void *self, void *device, TN_TAKES const tn_memory *memory);
    /* Queues work that sets each byte to `value` (0 to 255). */
    int32_t (*fill)(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                    uint32_t value, void *stream);
    /* Free and total memory in bytes; 0 and 0 if not known. */
    int32_t (*info)(void *self, void *device, TN_OUT uint64_t *out_free, TN_OUT uint64_t *out_total);
    /* Pins host memory that the plugin has not allocated, so that copies from and to it do not block. The result
     * has kind TN_MEMORY_HOST and an allocation if the vendor has a handle for it, else NULL. `host` and `bytes`
     * are multiples of the page size. NULL: only memory of kind TN_MEMORY_HOST is pinned. */
    int32_t (*pin)(void *self, void *device, void *host, uint64_t bytes, TN_OUT tn_memory *out);
    /* Called when no unfinished work uses the memory. */
    void (*unpin)(void *self, void *device, const tn_memory *memory);
    /* Gives a range of an allocation a host address, for allocations without one. No unfinished work uses the
     * range, and none is queued before unmap. `flags`: TN_MAP_...; what the host writes without TN_MAP_WRITE is
     * lost. NULL: the host copies instead. */
    int32_t (*map)(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                   uint32_t flags, TN_OUT void **out_host);
    int32_t (*unmap)(void *self, void *device, void *allocation, void *host);
    /* Frees memory that the plugin itself caches. NULL: it caches none. */
    int32_t (*trim)(void *self, void *device);
    /* Reserves `request->bytes` addresses, a multiple of 2 MiB, with no memory behind them, and gives them as an
     * allocation: kernels and copies use the part that resize has given memory. `free` gives back both. NULL, like
     * resize: the device's allocations do not grow. */
    int32_t (*reserve)(void *self, void *device, const tn_memory_request *request, TN_OUT tn_memory *out);
    /* Gives the first `bytes` bytes of what reserve gave memory, a multiple of 2 MiB, and takes it from the rest,
     * which no unfinished work uses. What has memory before and after keeps its contents. A failure changes
     * nothing. NULL: as for reserve. */
    int32_t (*resize)(void *self, void *device, void *allocation, uint64_t bytes);
} tn_memory_interface;

/*
 * "tenon.copy", version 1. Required. A slot queues a copy on `stream` and may return before it is done. The
 * host memory stays valid, and unchanged if it is the source, until the stream has run the copy. Offsets
 * need not be aligned. The two ranges do not overlap.
 *
 * `pinned` is NULL, or the pinned memory (of memory.alloc or memory.pin) that contains the range at `host`: the
 * range begins (char *)host - (char *)pinned->host bytes into it.
 */
typedef struct tn_copy_interface {
    uint32_t size;
    uint32_t reserved;
    int32_t (*host_to_device)(void *self, void *device, void *allocation, uint64_t offset, const void *host,
                              TN_NULLABLE const tn_memory *pinned, uint64_t bytes, void *stream);
    int32_t (*device_to_host)(void *self, void *device, void *host, TN_NULLABLE const tn_memory *pinned,
                              void *allocation, uint64_t offset, uint64_t bytes, void *stream);
    int32_t (*device_to_device)(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *stream);
    /* Copies between two devices of this plugin, on a stream of the destination. Called where the facts of the
     * destination list the source as a peer. NULL: the host copies through its own memory. */
    int32_t (*peer)(void *self, void *to_device, void *to, uint64_t to_offset, void *from_device, void *from,
                    uint64_t from_offset, uint64_t bytes, void *stream);
} tn_copy_interface;

/* How a stream is made. */
typedef struct tn_stream_options {
    uint32_t size;
    uint32_t flags;   /* none are defined yet: 0 */
    int32_t priority; /* between priority_high (most urgent) and priority_low of the facts */
    uint32_t reserved;
} tn_stream_options;

/* "tenon.stream", version 1. Required. A device without queues may run all work at once, before a slot
 * returns. */
typedef struct tn_stream_interface {
    uint32_t size;
    uint32_t reserved;
    int32_t (*create)(void *self, void *device, const tn_stream_options *options, TN_OUT void **out_stream);
    /* Called when its work has finished. */
    void (*destroy)(void *self, void *device, TN_TAKES void *stream);
    /* *out_done is 1 if all work has finished, else 0. Work makes progress while the host only asks. */
    int32_t (*query)(void *self, void *device, void *stream, TN_OUT int32_t *out_done);
    /* Waits until all work has finished. */
    int32_t (*synchronize)(void *self, void *device, void *stream);
    /* Makes the stream wait for what the event has recorded so far; the host does not wait. Does nothing if
     * it has recorded nothing. The event may belong to another device of this plugin. NULL: the host
     * waits. */
    int32_t (*wait_event)(void *self, void *device, void *stream, void *event);
    /* Queues a call of `callback(user)`, which runs on a thread of the plugin when the earlier work has
     * finished. The callback calls nothing of the host but log and report, and nothing of the vendor. NULL:
     * the host waits for the stream. */
    int32_t (*host_callback)(void *self, void *device, void *stream, void (*callback)(void *user),
                             void *user);
    /* Makes a stream of a queue that the program has, by the handle that device.native gives for streams; destroy
     * leaves that queue alone. TN_E_ARGUMENT, with both named if they are known, for a queue of another device. NULL:
     * the host refuses such queues. */
    int32_t (*wrap)(void *self, void *device, uint64_t native, TN_OUT void **out_stream);
} tn_stream_interface;

/* "tenon.event", version 1. Default: to record an event, the host waits for the stream. */
typedef struct tn_event_interface {
    uint32_t size;
    uint32_t reserved;
    /* `flags`: TN_EVENT_... */
    int32_t (*create)(void *self, void *device, uint32_t flags, TN_OUT void **out_event);
    /* Queued work may still wait for the event. */
    void (*destroy)(void *self, void *device, TN_TAKES void *event);
    /* Queues the event on the stream: it is done when the earlier work has finished. Replaces an earlier
     * record. */
    int32_t (*record)(void *self, void *device, void *event, void *stream);
    /* An event that was never recorded is done. */
    int32_t (*query)(void *self, void *device, void *event, TN_OUT int32_t *out_done);
    int32_t (*synchronize)(void *self, void *device, void *event);
    /* Milliseconds between two recorded events with TN_EVENT_TIMING. NULL: the device has no timing. */
    int32_t (*elapsed)(void *self, void *device, void *start, void *end, TN_OUT double *out_ms);
} tn_event_interface;

/*
 * "tenon.kernels", version 1. Default: no rows. Rows wait for operators that the host does not know. The host passes
 * over rows with flags, strides, places or set bytes that it does not know, and rows of which it knows no dtype.
 * `tenon doctor` names them. Malformed rows are refused: those with size 0, and those that honour flags which permit.
 */
typedef struct tn_kernels_interface {
    uint32_t size;
    uint32_t count;
    uint32_t row_bytes; /* sizeof(tn_kernel_row) */
    uint32_t reserved;
    const tn_kernel_row *rows;
} tn_kernels_interface;

/* "tenon.autocast", version 1. Default: the host's classes of operators, and bfloat16. */
typedef struct tn_autocast_interface {
    uint32_t size;
    /* TN_BFLOAT16 or TN_FLOAT16; TN_FLOAT32 if the device computes in neither; 0: bfloat16. */
    tn_dtype low_dtype;
    /* TN_AUTOCAST_... of an operator ("aten::mm"), or -1 to use the host's class. */
    int32_t (*classify)(void *self, const char *op);
} tn_autocast_interface;

/* "tenon.allocator", version 1. Replaces the host's caching allocator for this plugin's devices. The request
 * names a stream. `free` is called when later work on that stream may reuse the memory. */
typedef struct tn_allocator_interface {
    uint32_t size;
    uint32_t reserved;
    int32_t (*alloc)(void *self, void *device, const tn_memory_request *request, TN_OUT tn_memory *out);
    void (*free)(void *self, void *device, TN_TAKES const tn_memory *memory, void *stream);
} tn_allocator_interface;

/* How a graph is instantiated. */
typedef struct tn_graph_options {
    uint32_t size;
    uint32_t flags; /* none are defined yet: 0 */
} tn_graph_options;

/*
 * "tenon.graph", version 1. Work that is captured once and launched many times. Default: the host refuses
 * graphs. It always refuses them for devices of class TN_DEVICE_HOST, which run work at once. All slots
 * except update are required.
 *
 * A stream captures from begin to end. Kernels, memory.fill and copy.device_to_device that
 * are queued on it check their arguments as usual and return. Their work becomes part of the graph, in the
 * order of the stream, and runs only at launch. They copy all that they are given besides device memory
 * (scalars, IMMEDIATE operands, lists), because it is borrowed.
 *
 * event.record on a capturing stream records a point of the capture. Another stream of the device that waits
 * for that event (stream.wait_event) joins the capture: it captures too, and its work comes after that point.
 * Before end, the stream that began must have waited for all work that the others captured. A plugin may run
 * work that no event orders in any order.
 *
 * During a capture these are refused with TN_E_STATE and a text that says why:
 *
 * - on a capturing stream: begin, launch, stream.query, stream.synchronize, stream.host_callback, copies
 *   between host and device, copy.peer, collectives
 * - on a capturing stream: stream.wait_event for an event recorded outside this capture
 * - for an event recorded in the capture: query, synchronize, elapsed, and waiting on a stream of another
 *   device
 * - for the device: device.synchronize
 * - kernels that need the host, because they wait or read device memory
 *
 * The host refuses all but the last itself. A plugin that still sees one may consider the capture broken,
 * so that end fails. Everything else works as without a capture: memory.alloc and free, work on other
 * streams, and other captures, in any number and on any thread.
 *
 * The host frees memory that it allocated during a capture when no executable of the graph is left. If a
 * program frees other memory that a graph uses, a launch accesses freed memory.
 */
typedef struct tn_graph_interface {
    uint32_t size;
    uint32_t reserved;
    /* Begins a capture. The stream, and each stream that joins, has no unfinished work. */
    int32_t (*begin)(void *self, void *device, void *stream);
    /* Ends the capture that began on this stream. Its streams run work again, also after a failure.
     * TN_E_STATE if the stream has not waited for all work that others captured, or the capture is
     * broken. */
    int32_t (*end)(void *self, void *device, void *stream, TN_OUT void **out_graph);
    /* Executables made from the graph stay valid. */
    void (*destroy)(void *self, void *device, TN_TAKES void *graph);
    /* Makes an executable, which can be launched. A graph may have several. */
    int32_t (*instantiate)(void *self, void *device, void *graph, const tn_graph_options *options,
                           TN_OUT void **out_executable);
    /* Queues all of the work on a stream, as one unit. A launch begins when earlier launches of the
     * executable have finished, on any stream. A late error belongs to the stream. */
    int32_t (*launch)(void *self, void *device, void *executable, void *stream);
    /* Changes the executable to the work of `graph`, from the next launch on. `graph` has the same
     * operations in the same order, with other addresses, scalars or sizes. TN_E_UNSUPPORTED if it differs
     * too much: the executable is unchanged, and the host makes a new one. NULL: the host always makes a
     * new one. */
    int32_t (*update)(void *self, void *device, void *executable, void *graph);
    /* Called when no launch of it is unfinished. */
    void (*destroy_executable)(void *self, void *device, TN_TAKES void *executable);
} tn_graph_interface;

/* How a communicator is made. Ranks are numbered over all processes; this process has `count` of them. */
typedef struct tn_communicator_options {
    uint32_t size;
    uint32_t flags;      /* none are defined yet: 0 */
    uint32_t count;      /* ranks in this process */
    uint32_t first_rank; /* rank of devices[0]; the others follow */
    uint32_t world;      /* ranks in all processes */
    uint32_t reserved;
    void *const *devices; /* different open devices, one for each rank of this process */
    const void *id;       /* what unique_id gave in one of the processes; NULL if world == count */
    uint64_t id_bytes;
} tn_communicator_options;

/* The part of one rank in a collective. The slot says how long the ranges are. Ranges of one rank do not overlap
 * unless the slot allows it. */
typedef struct tn_collective_rank {
    uint32_t size;
    uint32_t reserved;
    void *stream;         /* of the rank's device */
    void *from;           /* allocation to read */
    uint64_t from_offset; /* in bytes */
    void *to;             /* allocation to write */
    uint64_t to_offset;   /* in bytes */
} tn_collective_rank;

/*
 * "tenon.collectives", version 1. Reductions, copies and barriers over several devices, one rank for each
 * device. Default: the host refuses them. Slots whose comment does not say what NULL means are required.
 *
 * `ranks` has an entry for each rank of this process, in order, rank_bytes apart. A call queues work on their
 * streams. The work of a rank starts when its stream reaches the call. The stream continues when the rank's
 * result is complete and no other rank reads its memory any more. The host does not wait. It makes one call at
 * a time to the whole interface, so all ranks of a process see the calls in one order; programs ensure the same
 * order in all processes. No stream is capturing.
 *
 * If a call fails, or one rank's work fails late, other ranks may have begun: `status` then says so, the results
 * are undefined, and the communicator can only be aborted and destroyed.
 *
 * Reductions (TN_REDUCE_..., see collectives.h) are over `count` elements of a dtype that `supports` takes. The
 * plugin chooses the order of additions; all ranks get the same bits.
 */
typedef struct tn_collectives_interface {
    uint32_t size;
    uint32_t reserved;
    /* 1 if it reduces this dtype in this way. The slots that only copy count in bytes. */
    int32_t (*supports)(void *self, tn_dtype dtype, uint32_t reduction);
    /* Writes at most `room` bytes, by which processes find each other, and how many. TN_E_ARGUMENT: there is less
     * room than it needs. NULL: communicators of one process only. */
    int32_t (*unique_id)(void *self, TN_OUT void *id, uint64_t room, TN_OUT uint64_t *out_bytes);
    /* Makes a communicator. With ranks in other processes it may wait until all have come. */
    int32_t (*create)(void *self, const tn_communicator_options *options,
                      TN_OUT void **out_communicator) TN_HOST_THREAD;
    /* Called when no call of it is unfinished. */
    void (*destroy)(void *self, TN_TAKES void *communicator) TN_HOST_THREAD;
    /* TN_OK, or the error of a call that has failed since it was queued. Does not wait. Called at any time. */
    int32_t (*status)(void *self, void *communicator);
    /* Ends the calls that are queued or under way, so that streams go on; their results are undefined. Called while
     * another call is under way only if that has kept the host waiting for a second. Only status and destroy are
     * called afterwards. NULL: the host waits for the streams. */
    int32_t (*abort)(void *self, void *communicator) TN_HOST_THREAD;
    /* Each rank's `to` becomes the reduction of all `from`. `to` and `from` of a rank may be the same
     * range. */
    int32_t (*all_reduce)(void *self, void *communicator, const tn_collective_rank *ranks,
                          uint32_t rank_bytes, uint64_t count, tn_dtype dtype,
                          uint32_t reduction) TN_HOST_THREAD;
    /* Each rank's `to` becomes the root's `from`, `bytes` long. They may be the same range at the root;
     * `from` of other ranks is not used. */
    int32_t (*broadcast)(void *self, void *communicator, const tn_collective_rank *ranks, uint32_t rank_bytes,
                         uint64_t bytes, uint32_t root) TN_HOST_THREAD;
    /* Each rank's `to` becomes all `from`, concatenated, `bytes` for each rank. A rank's `from` may be its
     * own part of its `to`. */
    int32_t (*all_gather)(void *self, void *communicator, const tn_collective_rank *ranks,
                          uint32_t rank_bytes, uint64_t bytes) TN_HOST_THREAD;
    /* Each `from` has one part of `count` elements for each rank; the `to` of rank i becomes the reduction
     * of all i-th parts. It may be the i-th part of its own `from`. */
    int32_t (*reduce_scatter)(void *self, void *communicator, const tn_collective_rank *ranks,
                              uint32_t rank_bytes, uint64_t count, tn_dtype dtype,
                              uint32_t reduction) TN_HOST_THREAD;
    /* Each `from` and `to` has one part of `bytes` for each rank: part j of the `to` of rank i becomes part i of the
     * `from` of rank j. */
    int32_t (*all_to_all)(void *self, void *communicator, const tn_collective_rank *ranks,
                          uint32_t rank_bytes, uint64_t bytes) TN_HOST_THREAD;
    /* All streams wait for each other. Only `stream` of the ranks is used. */
    int32_t (*barrier)(void *self, void *communicator, const tn_collective_rank *ranks,
                       uint32_t rank_bytes) TN_HOST_THREAD;
    /* Rank `from_rank`, which is of this process, sends `bytes` of its `from` to `to_rank`. The n-th send between two
     * ranks meets the n-th receive. NULL, as receive: the host refuses both. */
    int32_t (*send)(void *self, void *communicator, const tn_collective_rank *rank, uint32_t from_rank,
                    uint32_t to_rank, uint64_t bytes) TN_HOST_THREAD;
    /* Rank `to_rank`, which is of this process, receives into its `to`. */
    int32_t (*receive)(void *self, void *communicator, const tn_collective_rank *rank, uint32_t to_rank,
                       uint32_t from_rank, uint64_t bytes) TN_HOST_THREAD;
} tn_collectives_interface;

/*
 * "tenon.settings", version 1. What users may set on a device (tn_device_set_setting, TENON_SETTINGS). Default: it
 * has no settings. All slots are required. The host makes one call at a time to the whole interface.
 *
 * A bool named `lose` is for tests: when it is set the device is lost, as by a fault of its hardware.
 */
typedef struct tn_settings_interface {
    uint32_t size;
    uint32_t reserved;
    /* Describes setting i; always the same. TN_E_INDEX: there are no more. */
    int32_t (*describe)(void *self, void *device, uint32_t i, TN_OUT tn_setting *out) TN_HOST_THREAD;
    /* Its value. A text is valid until the next call to the interface. */
    int32_t (*get)(void *self, void *device, uint32_t i, TN_OUT tn_value *out) TN_HOST_THREAD;
    /* Changes it, for work that is queued from now on. The value has the right type and range. */
    int32_t (*set)(void *self, void *device, uint32_t i, const tn_value *value) TN_HOST_THREAD;
} tn_settings_interface;

/*
 * "tenon.interop", version 1. Memory and events that other libraries and processes use. Default: the host refuses,
 * except for devices of class TN_DEVICE_HOST, whose memory it shares itself.
 */
typedef struct tn_interop_interface {
    uint32_t size;
    uint32_t reserved;
    /* DLPack's type and number of the device (2: CUDA, 4: OpenCL, 12: an extension). The `data` of its tensors is the
     * address of the allocation, if it has addresses, else the native handle of the allocation. NULL: the host
     * refuses DLPack. */
    int32_t (*dlpack_device)(void *self, void *device, TN_OUT int32_t *out_type, TN_OUT int32_t *out_id);
    /* The vendor's stream `native` waits for what the event has recorded; the host does not. NULL: the host
     * waits. */
    int32_t (*wait_native)(void *self, void *device, uint64_t native, void *event);
    /* Memory of another library in this process: `data` as DLPack has it, of which `bytes` are used. TN_E_ARGUMENT
     * if it is not memory of this device. NULL: the host refuses it. */
    int32_t (*import_pointer)(void *self, void *device, void *data, uint64_t bytes, TN_OUT tn_memory *out);
    /* Ends what import_pointer and import_memory began. No unfinished work uses the memory. */
    void (*release_memory)(void *self, void *device, TN_TAKES const tn_memory *memory);
    /* What another process needs to open memory that was requested with TN_REQUEST_SHAREABLE. It stays usable there
     * after memory.free here. NULL: there is no such memory. */
    int32_t (*export_memory)(void *self, void *device, void *allocation, TN_OUT tn_process_handle *out);
    /* Opens memory of another process. TN_E_ARGUMENT if the file is closed, too small or something else. */
    int32_t (*import_memory)(void *self, void *device, const tn_process_handle *handle,
                             TN_OUT tn_memory *out);
    /* The same for events with TN_EVENT_INTERPROCESS. An imported one is waited for, queried and destroyed as others;
     * if the other process ends before it is done, waiting fails late. NULL: event.create refuses the flag. */
    int32_t (*export_event)(void *self, void *device, void *event, TN_OUT tn_process_handle *out);
    int32_t (*import_event)(void *self, void *device, const tn_process_handle *handle,
                            TN_OUT void **out_event);
} tn_interop_interface;

/*
 * "tenon.experimental", version 1. The names of the experimental interfaces that the plugin has ("tenon.x.trace"), which
 * `tenon doctor` and `tenon check` show. A plugin with another name in the list is refused. Default: it has none.
 */
typedef struct tn_experimental_interface {
    uint32_t size;
    uint32_t count;
    const char *const *names;
} tn_experimental_interface;

/* The plugin's own table, filled by entry. */
typedef struct tn_plugin_table {
    uint32_t size;
    uint32_t abi; /* the version that both sides agreed on; 0 is refused */
    /* Makes the plugin's state for one context; several contexts may exist at once. `host` is valid until
     * shutdown has returned. */
    int32_t (*init)(const tn_host *host, TN_OUT void **out_self) TN_HOST_THREAD;
    /* The table of an interface, whose first member is its size, or NULL. Valid until shutdown. */
    const void *(*get_interface)(void *self, const char *name, uint32_t version);
    /* Finishes queued work and stops the plugin's threads. Only free, destroy, close and shutdown are
     * called after it. NULL: there is nothing to stop. */
    int32_t (*quiesce)(void *self) TN_HOST_THREAD;
    void (*shutdown)(TN_TAKES void *self) TN_HOST_THREAD;
    /* The plugin checks itself: TN_OK, or an error that says what is wrong. NULL: there is nothing to
     * check. */
    int32_t (*self_test)(void *self) TN_HOST_THREAD;
} tn_plugin_table;

/* What the host offers to entry. */
typedef struct tn_host_offer {
    uint32_t size;
    uint32_t abi_min;
    uint32_t abi_max;
    uint32_t reserved;
    char *reason; /* a plugin that declines writes here why, zero-terminated */
    uint32_t reason_bytes;
    uint32_t reserved2;
} tn_host_offer;

#define TN_PLUGIN_MAGIC  "TENON\x1a\x0d\x0a"
#define TN_PLUGIN_SYMBOL "tenon_plugin"

#define TN_SANITIZER_ADDRESS 1u
#define TN_SANITIZER_THREAD  2u
#define TN_SANITIZER_MEMORY  4u

/* The host may unload the library after a quiesce that succeeded, if all threads that it started have
 * ended. */
#define TN_PLUGIN_CAN_UNLOAD 1u

/*
 * The constant that a plugin exports as `tenon_plugin`. Frozen. The host reads it from the file, so it must
 * lie in initialised data, never in .bss. Strings are inside the struct and zero-terminated.
 */
typedef struct tn_plugin_info {
    char magic[8];
    uint32_t size;
    uint32_t stamp;   /* not 0; TN_DEFINE_PLUGIN sets it */
    uint32_t abi_min; /* ABI generations that the plugin understands */
    uint32_t abi_max;
    uint32_t header_minor; /* TN_ABI_MINOR that it was compiled with; nothing is decided by it */
    uint32_t architecture; /* TN_ARCHITECTURE; numbers as ELF has them */
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
 * A shim stands between the host and every other plugin: it checks, records or disturbs the calls. It is a
 * plugin without a device, whose manifest has its name ("shim": "validate"), and is loaded only on request.
 * Shims form a chain: the target of a shim is the next shim or, at the end, the plugin.
 */
typedef struct tn_shim_target {
    uint32_t size;
    uint32_t reserved;
    const tn_plugin_info *info; /* of the plugin at the end of the chain; lives as long as the process */
    void *next;                 /* the first argument of open */
    /* Initialises the target with `host` as its host and fills its table. The caller sets out->size; `init`
     * is left NULL. To be called once, inside wrap. */
    int32_t (*open)(void *next, const tn_host *host, TN_OUT void **out_self, TN_OUT tn_plugin_table *out);
} tn_shim_target;

/* "tenon.shim", version 1. Makes a plugin a shim. */
typedef struct tn_shim_interface {
    uint32_t size;
    uint32_t reserved;
    /* Called before the first wrap with the setting of the request, such as the value of TENON_INJECT. An
     * error refuses the shim. NULL: the shim has no settings. */
    int32_t (*configure)(void *self, const char *setting) TN_HOST_THREAD;
    /*
     * Opens the target and gives the state and the table that the host uses instead. `host` is valid until
     * the shutdown of *out has returned. That shutdown also shuts the target down; the shim's own shutdown
     * comes after those of all its targets. If opening the target fails, wrap returns that status.
     */
    int32_t (*wrap)(void *self, const tn_host *host, const tn_shim_target *target, TN_OUT void **out_self,
                    TN_OUT tn_plugin_table *out) TN_HOST_THREAD;
} tn_shim_interface;

#if defined(__x86_64__) || defined(_M_X64)
#define TN_ARCHITECTURE 62u
#elif defined(__i386__) || defined(_M_IX86)
#define TN_ARCHITECTURE 3u
#elif defined(__aarch64__) || defined(_M_ARM64)
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

/* Defines `tenon_plugin`: TN_DEFINE_PLUGIN("acme", "1.0", "Acme Inc.", 0, entry); in one file of the
 * plugin, after the declaration of `entry`. The flags are TN_PLUGIN_CAN_UNLOAD or 0. */
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
 * Negotiation, compiled into the plugin; `entry` calls it first. Sets all of *out but its size to 0. If the
 * host offers the generation that the plugin was compiled for, writes it to out->abi; else writes the
 * reason and returns TN_E_VERSION. `entry` then sets its slots. Those of version 0.2 are always there;
 * check out->size before you set one that was added later.
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

/*
 * tn_negotiate, then sets the slots of *out that both sides know from `slots`, whose size and abi are not
 * read. The whole of `entry` in most plugins:
 *
 *     static const tn_plugin_table slots = {.init = init, .get_interface = get_interface, ...};
 *     return tn_negotiate_slots(offer, out, &slots);
 */
static inline int32_t tn_negotiate_slots(const tn_host_offer *offer, tn_plugin_table *out,
                                         const tn_plugin_table *slots)
{
    uint32_t i = (uint32_t)(sizeof(out->size) + sizeof(out->abi));
    int32_t status = tn_negotiate(offer, out);
    if (status) return status;
    for (; i < out->size && i < (uint32_t)sizeof(*slots); i++) ((char *)out)[i] = ((const char *)slots)[i];
    return TN_OK;
}

/* Begins and ends the value of an interface's table, whose size it sets; the slots follow, by name:
 *
 *     static const tn_copy_interface copies = TN_INTERFACE(tn_copy_interface, .host_to_device = to, .device_to_host = from);
 *
 * A slot that is not named is NULL, which is: absent. */
#define TN_INTERFACE(type, ...)           \
    {                                     \
        .size = sizeof(type), __VA_ARGS__ \
    }

/* An interface of a plugin and its name, for tn_interface_find. */
typedef struct tn_named_interface {
    const char *name;
    const void *table;
} tn_named_interface;

/* What get_interface returns for a plugin that has version 1 of the interfaces in `list`: the table of the
 * interface `name`, or NULL. */
static inline const void *tn_interface_find(const tn_named_interface *list, uint32_t count, const char *name,
                                            uint32_t version)
{
    uint32_t i, k;
    for (i = 0; version == 1 && i < count; i++) {
        for (k = 0; name[k] && name[k] == list[i].name[k]; k++) continue;
        if (name[k] == list[i].name[k]) return list[i].table;
    }
    return (const void *)0;
}

TN_END_DECLS
#endif
