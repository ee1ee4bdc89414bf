/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the Vulkan driver share. A stream encodes commands into a batch, which is committed when it is
 * full or when somebody waits for it, asks for it, or records an event. All batches go to one queue of the device, in an
 * order in which no batch waits for a later one. device.c has devices and the table of the driver, queue.c batches,
 * events and callbacks, timeline.c how far streams are, memory.c memory and copies, program.c pipelines and launches,
 * shader.c the code of pipelines.
 *
 * `lock` of a device guards all of its state; it is never held while something waits for the device.
 */
#ifndef TENON_VULKAN_VULKAN_H
#define TENON_VULKAN_VULKAN_H

#include "gpu.h"
#include "symbols.h"

/* A kernel of a file, compiled for a GPU_TYPE and a GPU_GROUP: made by tools/gen_shaders.py. */
typedef struct vulkan_module {
    const char *file, *kernel;
    uint8_t type, group;
    uint8_t is_dense;
    uint8_t constants;     /* what it is specialised by: bit 0 the opcode of a nest, bits 1 to 4 its dtypes */
    uint32_t shared_bytes; /* memory that a group shares */
    uint32_t bytes;
    const uint32_t *words;
} vulkan_module;
extern const vulkan_module vulkan_modules[];
extern const uint32_t vulkan_n_modules;

#define VULKAN_ARGUMENT_BYTES 2048u /* of a launch */

/* What all buffers may be used for. Which memory they may lie in depends on it. */
#define VULKAN_BUFFER_USAGE                                                    \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT | \
     VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |     \
     VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT)

/* How a device computes with float32 if a shader asks for it: bits of vulkan_device.float_modes. */
enum {
    VULKAN_KEEPS_SPECIALS =
        1, /* signs of zero, infinities and NaN; else a driver may assume that there are none */
    VULKAN_KEEPS_DENORMALS = 2, /* else they may be flushed to 0 */
    VULKAN_ROUNDS_TO_EVEN = 4   /* else any rounding is allowed */
};

typedef struct vulkan_device vulkan_device;

/* ---- Memory ----------------------------------------------------------------------------------------------- */

typedef struct vulkan_memory {
    struct vulkan_memory *next; /* of the device's memory, its pinned memory, or what is to be destroyed */
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    void *host; /* where the host sees it, or NULL */
    uint64_t bytes;
    uint32_t users;      /* the host, and DLPack tensors */
    uint64_t last_batch; /* when it was freed: no later batch uses it */
} vulkan_memory;

/* ---- Queues ----------------------------------------------------------------------------------------------- */

/* The progress of a stream. Events and waits keep it longer than the stream lives. */
typedef struct vulkan_timeline {
    struct vulkan_timeline *next; /* of the free ones */
    VkSemaphore semaphore;
    uint64_t last;      /* the value of the last batch that was closed */
    uint64_t submitted; /* of the last one that the device has got, or the callback that has returned */
    uint32_t references;
} vulkan_timeline;

typedef struct vulkan_wait {
    vulkan_timeline *timeline;
    uint64_t value;
} vulkan_wait;

/* Arguments of launches: a part of a slab for each batch that needs one. */
typedef struct vulkan_chunk {
    struct vulkan_chunk *next;
    const struct vulkan_slab *slab;
    uint32_t begin, used; /* where it begins in the slab, and how much of it is used */
} vulkan_chunk;

/* Memory of many chunks, since a device may allow only 4,096 allocations. It lives as long as the device. */
#define VULKAN_SLAB_CHUNKS 16u
typedef struct vulkan_slab {
    struct vulkan_slab *next;
    vulkan_memory *memory;
    VkDescriptorPool pool;
    VkDescriptorSet set;
    vulkan_chunk chunks[VULKAN_SLAB_CHUNKS];
} vulkan_slab;

/* Time stamps of events. A slot has two owners: the event, and the batch that writes it. */
#define VULKAN_STAMPS 256
typedef struct vulkan_stamps {
    struct vulkan_stamps *next;
    VkQueryPool pool;
    uint32_t n_free;
    uint16_t free[VULKAN_STAMPS];
    uint8_t owners[VULKAN_STAMPS];
} vulkan_stamps;

#define VULKAN_WAITS 8
/* Commands; or, with a callback, a function of the host in their place. */
typedef struct vulkan_batch {
    struct vulkan_batch *next;
    VkCommandPool pool;
    VkCommandBuffer commands;
    uint64_t value;  /* of the stream's timeline, when it has ended */
    uint64_t number; /* in the order in which the device's batches were begun */
    uint32_t n_commands, n_waits;
    double work; /* of its commands, as vulkan_end gets it */
    vulkan_wait waits[VULKAN_WAITS];
    vulkan_chunk *chunks;
    vulkan_stamps *stamps; /* of the event that ends it, or NULL */
    uint32_t stamp;
    void (*callback)(void *user);
    void *user;
    int32_t is_started; /* the callback has its thread */
    int32_t is_dropped; /* its commands are not submitted */
} vulkan_batch;

typedef struct vulkan_queue {
    struct vulkan_queue *next;
    vulkan_device *device;
    vulkan_timeline *timeline;
    vulkan_batch *open;                 /* is being encoded, or NULL */
    vulkan_batch *closed, *last_closed; /* are not submitted yet, in order */
    vulkan_batch *submitted, *last_submitted;
    uint32_t n_submitted;
    uint32_t n_dropped; /* commands that did not run, which is not reported yet */
    int32_t is_shared;  /* others have the handle of the device's queue, and may submit, too */
    int32_t is_marked;  /* a query found their work unfinished, and a batch stands behind it */
} vulkan_queue;

typedef struct vulkan_event {
    vulkan_timeline *timeline;
    uint64_t value;
    vulkan_stamps *stamps; /* NULL: it has no time */
    uint32_t stamp;
} vulkan_event;

/* A wait in a queue of another library, which signals `end` behind it. Until then the semaphores live. */
typedef struct vulkan_foreign_wait {
    struct vulkan_foreign_wait *next;
    vulkan_timeline *awaited, *end;
} vulkan_foreign_wait;

/* ---- Devices ---------------------------------------------------------------------------------------------- */

struct vulkan_device {
    gpu_plugin *plugin;
    vulkan_symbols vk;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t index, family;
    uint32_t device_memory, host_memory; /* types of memory */
    uint32_t sees_memory;                /* the host sees the device's memory */
    uint64_t memory_bytes, host_bytes;   /* of the heaps of these types */
    uint64_t largest_bytes;              /* of an allocation */
    uint32_t has_budget;                 /* the driver says how much of a heap may be used */
    uint32_t uniform_alignment;
    uint32_t shared_bytes; /* the most that a group can share */
    uint32_t float_modes;  /* VULKAN_KEEPS_..., VULKAN_ROUNDS_... */
    uint32_t stamp_bits;   /* of time stamps, which begin at 0 again after the largest; 0: there are none */
    double nanoseconds;    /* of a tick of time stamps */
    VkResult lost;         /* the result with which the device was lost, else VK_SUCCESS; atomic */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    pthread_mutex_t staging_lock; /* taken before `lock` */
    uint32_t callbacks;           /* threads that wait for work or run a callback */
    vulkan_queue *queues;
    uint64_t batches; /* begun so far */
    vulkan_batch *free_batches;
    vulkan_slab *slabs;
    vulkan_chunk *free_chunks;
    vulkan_stamps *stamps;
    vulkan_foreign_wait *foreign_waits;
    vulkan_timeline *free_timelines;
    vulkan_memory *memories, *pinned, *garbage, *staging;
    uint64_t allocated;
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipelineCache cache;
    uint64_t cached_bytes; /* that the cache began with */
    int32_t has_cache;     /* it was looked for */
    void *fill_program, *fill_kernel;
};

/* What the settings of the driver say; changed atomically. Ratios are in thousandths, -1: the device's default. */
typedef struct vulkan_settings {
    int32_t fast_math, staging;
    int32_t low_watermark, high_watermark;
} vulkan_settings;
const vulkan_settings *vulkan_settings_of(gpu_plugin *plugin);
/* Bytes; 0: no limit. */
uint64_t vulkan_watermark(const vulkan_device *d, int32_t is_high);

/* device.c: records the error of a call that Vulkan refused; TN_OK for VK_SUCCESS. */
int32_t vulkan_check(vulkan_device *d, VkResult result, const char *what);
int32_t vulkan_status(void *device);
/* The family of queues for a device, or -1: one that only computes does not delay the screen. */
int32_t vulkan_choose_family(const VkQueueFamilyProperties *families, uint32_t n);
/* Finds the types of memory that buffers may lie in. */
int32_t vulkan_choose_memory(vulkan_device *d);
void vulkan_read_limits(vulkan_device *d);
/* What this process uses of the heap of a type of memory, and may use. TN_E_UNSUPPORTED, without an error: the driver does not say
 * it. */
int32_t vulkan_budget(const vulkan_device *d, uint32_t type, uint64_t *out_used, uint64_t *out_budget);
/* What extensions tell of a device of which the rest is described: where it is, and how many compute units it has. */
void vulkan_describe_more(const vulkan_symbols *vk, VkPhysicalDevice id, gpu_properties *out);
/* Puts processors behind GPUs; else the order stays. */
#define VULKAN_DEVICES 16
void vulkan_processors_last(const vulkan_symbols *vk, VkPhysicalDevice *devices, uint32_t n);

/*
 * queue.c. Between begin and end, with the lock held, commands are encoded; `begin` puts a barrier behind earlier
 * commands. What is encoded must be in memory that lives until the batch has ended. `begin` frees the lock while it waits
 * for an old batch, if too many are unfinished. `work` are the turns of the command's inner loops, roughly.
 */
int32_t vulkan_begin(vulkan_queue *q, VkCommandBuffer *out_commands);
/* Never TN_E_OUT_OF_MEMORY: the command is encoded, and a batch that is refused is submitted later. */
int32_t vulkan_end(vulkan_queue *q, double work);
/* Closes the open batch, and submits all that can be. With the lock held. A batch that is refused for want of memory is tried again
 * by the next commit; commands that are dropped are a late error of the stream. */
int32_t vulkan_commit(vulkan_queue *q);
/* Submits all batches that can be, of all streams: one of them may have waited for another. With the lock held. */
int32_t vulkan_submit_all(vulkan_device *d);
/* Room for the arguments of a launch in the open batch: a descriptor set and an offset. */
int32_t vulkan_arguments(vulkan_queue *q, uint32_t bytes, VkDescriptorSet *out_set, uint32_t *out_offset,
                         uint8_t **out_host);
/* A copy of at most VULKAN_BATCH_BYTES of the host in memory that lives as long as the open batch. */
#define VULKAN_BATCH_BYTES 65536u
int32_t vulkan_batch_bytes(vulkan_queue *q, const void *host, uint32_t bytes,
                           const vulkan_memory **out_memory, uint32_t *out_offset);
int32_t vulkan_queue_create(void *device, int32_t priority, void **out_queue);
void vulkan_queue_destroy(void *device, void *queue);
int32_t vulkan_queue_query(void *device, void *queue, int32_t *out_done);
int32_t vulkan_queue_finish(void *device, void *queue);
int32_t vulkan_queue_wait(void *device, void *queue, void *event);
int32_t vulkan_queue_callback(void *device, void *queue, void (*callback)(void *user), void *user);
int32_t vulkan_event_record(void *device, void *queue, void **out_event);
void vulkan_event_release(void *device, void *event);
int32_t vulkan_event_query(void *device, void *event, int32_t *out_done);
int32_t vulkan_event_wait(void *device, void *event);
int32_t vulkan_event_elapsed(void *device, void *start, void *end, double *out_ms);
/* Destroys what batches and events of a device without queues have left. */
void vulkan_queues_finish(vulkan_device *d);

/* timeline.c. With one reference; under the lock, as releases and new references. */
int32_t vulkan_timeline_create(vulkan_device *d, vulkan_timeline **out);
void vulkan_timeline_release(vulkan_device *d, vulkan_timeline *t);
/* Destroys all that were released; the device is idle. */
void vulkan_timelines_finish(vulkan_device *d);
/* Where the timeline is. Of a lost device some drivers (NVIDIA's) report success, with the timeline at its end. */
int32_t vulkan_timeline_value(vulkan_device *d, const vulkan_timeline *t, uint64_t *out);
int32_t vulkan_timeline_reached(vulkan_device *d, const vulkan_timeline *t, uint64_t value,
                                int32_t *out_reached);
/* Waits without the lock; the caller has a reference. */
int32_t vulkan_timeline_wait(vulkan_device *d, const vulkan_timeline *t, uint64_t value);
/* A queue of another library waits for the event. */
int32_t vulkan_native_wait(void *device, uint64_t native, void *event);
void vulkan_native_waits_finish(vulkan_device *d);

/* memory.c */
int32_t vulkan_memory_create(vulkan_device *d, uint64_t bytes, uint32_t type, vulkan_memory **out);
void vulkan_memory_destroy(vulkan_device *d, vulkan_memory *m);
/* Destroys freed memory that no batch uses any more. With the lock held. */
void vulkan_collect(vulkan_device *d);
int32_t vulkan_alloc(void *device, uint64_t bytes, void **out_memory);
void vulkan_free(void *device, void *memory);
void *vulkan_memory_of(void *device, void *native);
int32_t vulkan_retain(void *device, void *memory, uint64_t *out_bytes);
int32_t vulkan_host_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host);
void vulkan_host_free(void *device, void *memory, void *host);
int32_t vulkan_memory_info(void *device, uint64_t *out_free, uint64_t *out_total);
int32_t vulkan_write(void *device, void *queue, void *memory, uint64_t offset, const void *host,
                     uint64_t bytes);
int32_t vulkan_read(void *device, void *queue, void *host, void *memory, uint64_t offset, uint64_t bytes);
int32_t vulkan_copy(void *device, void *queue, void *to, uint64_t to_offset, void *from, uint64_t from_offset,
                    uint64_t bytes);

/* shader.c: the code of a module for a device, of malloc. is_fast: drivers may fuse and reorder operations. NULL: there is no
 * memory. */
uint32_t *vulkan_shader_words(const vulkan_device *d, const vulkan_module *m, int32_t is_fast,
                              uint32_t *out_count);

/* program.c */
int32_t vulkan_program_create(void *device, const char *source, const char *options, const gpu_binary *binary,
                              void **out_program, gpu_binary *out_binary);
void vulkan_program_destroy(void *device, void *program);
int32_t vulkan_kernel_create(void *device, void *program, const char *name, void **out_kernel);
void vulkan_kernel_destroy(void *device, void *kernel);
int32_t vulkan_launch(void *device, void *queue, void *kernel, const gpu_argument *arguments,
                      uint32_t n_arguments, uint64_t items, uint32_t group);
int32_t vulkan_fill(void *device, void *queue, void *memory, uint64_t offset, uint64_t bytes,
                    const void *pattern, uint32_t pattern_bytes);
int32_t vulkan_programs_init(vulkan_device *d);
void vulkan_programs_finish(vulkan_device *d);

#endif
