/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the reference plugin share. The plugin is a device that behaves like a distant one: work
 * is queued and done by a thread for each stream, and its memory cannot be read through the handles that the
 * host has. Its kernels are plain loops over one element at a time, written from the definitions; nothing is
 * shared with another plugin, so that two can be compared.
 *
 *   memory.c    allocations, each mapped twice
 *   stream.c    queues, their threads, late errors
 *   event.c     events and waiting for them
 *   graph.c     captures, graphs made of them, launching
 *   collectives.c  what several devices do together
 *   board.c     memory on which ranks of several processes meet
 *   interop.c   memory and events of other libraries and processes
 *   settings.c  what users may set
 *   chaos.c     delays, failures and poison that the environment asks for
 *   work.c      a kernel call, copied deeply and queued
 *   element.h   one element of any dtype as a number
 *   pointwise.c reduce.c ...  the kernels, which run on a stream's thread
 *   rows.c      the table of kernels
 *   plugin.c    the interfaces
 */
#ifndef TENON_REFERENCE_H
#define TENON_REFERENCE_H

#define TN_PLUGIN
#include <tenon/plugin.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#ifndef REFERENCE_NAME
#define REFERENCE_NAME "reference" /* of the plugin and its device type; tests build a second one */
#endif

#define REFERENCE_MAX_DEVICES 8u

/* 16 GiB: more than tests use, and less than a wrong size would ask for. */
#define REFERENCE_MEMORY    ((int64_t)16 << 30)
#define REFERENCE_MOST_LAZY 60000 /* milliseconds that work may be held */
#define REFERENCE_TIMEOUT   60000 /* milliseconds that ranks wait for others to come */

typedef struct reference_state reference_state;
typedef struct reference_stream reference_stream;
typedef struct reference_task reference_task;
typedef struct reference_capture reference_capture;

typedef struct reference_device {
    reference_state *state;
    uint32_t index;
    atomic_int lost;            /* for good */
    pthread_rwlock_t transfers; /* read while a copy or fill runs, written by the loss */
    uint64_t used;              /* bytes; under the lock of the state's memory */
    atomic_uint_fast64_t tasks; /* tasks begun, counted while failures are asked for */
} reference_device;

/* Settings of the environment, see README.md. Zero: off. */
typedef struct reference_chaos {
    uint64_t seed;
    atomic_uint hold_microseconds; /* every task is held this long unless somebody waits for it */
    atomic_int poison;
    uint64_t lose_at, fail_at; /* number of a task of a device */
    uint64_t refuse_at;        /* number of a task that a stream does not take */
    atomic_uint_fast64_t streams, refused;
} reference_chaos;

/*
 * An allocation. `handle` is what the host knows: the address of a mapping without access, so that reading it
 * faults. `data` is a second mapping of the same memory, known to kernels alone. Pages without access lie
 * before, between and behind.
 */
typedef struct reference_allocation {
    char *handle;
    char *data;
    uint64_t bytes;  /* as asked for */
    uint64_t mapped; /* in whole pages */
    reference_device *device;
    int32_t shareable; /* `file` stays open for other processes */
    int32_t grows;     /* `file` stays open, and has the `bytes` that memory.resize gave it */
    int32_t file;
    uint32_t borrowed; /* times that another state's memory was imported; it is unmapped there */
    uint32_t imported; /* 1: of another process, mapped here and not counted */
} reference_allocation;

/* Memory of the host that was pinned for a device. */
typedef struct reference_pinned {
    struct reference_pinned *next;
    const char *host;
    uint64_t bytes;
    const reference_device *device;
} reference_pinned;

/* The plugin's state, one for each context; `self` of every slot. */
struct reference_state {
    const tn_host *host;
    uint32_t n_devices;
    uint32_t are_peers; /* the devices copy to each other */
    pid_t process;      /* the process of the threads: a fork has none */
    atomic_uint_fast64_t memory_limit;
    atomic_uint_fast64_t timeout_milliseconds;
    reference_state *next; /* of all states of the process, see memory.c */
    reference_device devices[REFERENCE_MAX_DEVICES];
    pthread_mutex_t memory_lock;
    reference_allocation *allocations; /* by handle, ascending */
    size_t n_allocations;
    size_t allocations_capacity;
    reference_pinned *pinned;
    /* Freed allocations, poisoned, the newest last; later ones displace them. */
    reference_allocation *quarantine;
    size_t n_quarantine;
    pthread_mutex_t streams_lock;
    reference_stream *streams;
    pthread_mutex_t collectives_lock; /* held while all ranks of one call are queued */
    reference_chaos chaos;
};

/* Records an error with printf's words for the calling thread and returns `status`. */
int32_t reference_error(const reference_state *state, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- chaos.c ----------------------------------------------------------------------------------------- */

/* NaN in every floating dtype, -1 in every signed one. */
#define REFERENCE_POISON 0xff
#define REFERENCE_LOST   "reference: the device was lost"

/* The draws of one stream. */
typedef struct reference_pace {
    reference_chaos *chaos;
    uint64_t random;
    uint32_t left; /* tasks of this stretch */
    int32_t held;
    int32_t pauses;
    int32_t reserved;
} reference_pace;

/* A number from the environment, or `otherwise`. */
uint64_t reference_setting(const char *name, uint64_t otherwise);
void reference_chaos_init(reference_chaos *c);
void reference_pace_init(reference_pace *p, reference_chaos *c);
/* Draws the hold and pause of a task behind `waiting` others. */
void reference_pace_set(reference_pace *p, reference_task *task, uint64_t waiting);
void reference_pause(uint32_t microseconds);
/* 1 if the task about to be queued is to be refused. */
int32_t reference_chaos_refuse(reference_chaos *c);
/* Before a task runs: TN_OK, or the failure asked for. */
int32_t reference_chaos_begin(reference_device *device, const char **out_text);
/* From now on the device runs nothing and uses no memory. */
void reference_lose(reference_device *device);
/* TN_E_DEVICE_LOST with an error, or TN_OK. */
int32_t reference_check_lost(const reference_device *device);
void reference_poison(const reference_chaos *c, char *memory, uint64_t bytes);
/* 0 when something was written since. */
int32_t reference_is_poison(const char *memory, uint64_t bytes);

/* ---- memory.c ---------------------------------------------------------------------------------------- */

extern const tn_memory_interface reference_memory_interface;
extern const tn_copy_interface reference_copy_interface;
/*
 * The private address of `offset` in an allocation of the device, of which `bytes` are used. NULL and an
 * error when the handle is not one of its allocations or the range lies outside.
 */
char *reference_resolve(reference_device *device, const void *handle, uint64_t offset, uint64_t bytes);
/*
 * Memory of any state of this process that contains `bytes` from `data` on, for a device of this one: adds it if it is
 * not its own. The handle and the offset of `data`; 0: there is none.
 */
int reference_memory_borrow(reference_device *device, const char *data, uint64_t bytes, char **out_handle,
                            uint64_t *out_offset);
/* Maps the file of another process. TN_OK, or a status with an error. */
int32_t reference_memory_open(reference_device *device, int file, uint64_t bytes, char **out_handle);
/* Ends either. Memory of the state itself is left alone. */
void reference_memory_forget(reference_device *device, const void *handle);
/* The file of a shareable allocation, or -1. */
int reference_memory_file(reference_device *device, const void *handle);
/* The state is one of the process from init to finish, which unmaps what is left. */
void reference_memory_init(reference_state *state);
void reference_memory_finish(reference_state *state);

/* ---- stream.c ---------------------------------------------------------------------------------------- */

extern const tn_stream_interface reference_stream_interface;

/*
 * An entry of a queue, and the first member of what extends it. `run` is called on the stream's thread, then
 * the task is freed with its blocks. A late error poisons the stream: tasks behind it are dropped, except
 * those with `always`.
 */
struct reference_task {
    reference_task *next;
    void (*run)(reference_stream *stream, reference_task *task);
    void (*release)(reference_task *task); /* before it is freed; may be NULL */
    struct reference_block *blocks;
    uint64_t number; /* counted from 1 on each stream */
    int32_t always;
    uint32_t hold_microseconds; /* delay before it begins, unless somebody waits for it */
    uint32_t pause_microseconds;
    uint32_t reserved;
};

/* A task of `bytes` (at least sizeof(reference_task)), zeroed; NULL when out of memory. */
void *reference_task_create(uint64_t bytes, void (*run)(reference_stream *stream, reference_task *task));
/* Zeroed memory that lives as long as the task; NULL when there is none. */
void *reference_task_memory(reference_task *task, uint64_t bytes);
/* Frees a task that was not queued. NULL is ignored. */
void reference_task_destroy(reference_task *task);
/* Queues a task, which the stream then owns. After fork: frees it and returns TN_E_FORKED; a lost device and
 * one that is told to refuse likewise. */
int32_t reference_stream_push(reference_stream *stream, reference_task *task);
/* Somebody waits for the tasks up to this number: they are no longer held. */
void reference_stream_ask(reference_stream *stream, uint64_t number);
/* Waits for what is queued now; does not report. */
void reference_stream_wait(reference_stream *stream);
/* Records a late error, from the stream's thread. The first one stays. */
void reference_stream_fail(reference_stream *stream, int32_t status, const char *text);
/* Waits for all streams of the device and reports the first late error. */
int32_t reference_streams_synchronize(reference_device *device);
/* For tasks with `always`: 1 if the task is behind an error; and 1 if the stream has an error. */
int reference_stream_dropped(reference_stream *stream, const reference_task *task);
int reference_stream_failed(reference_stream *stream);
/* The capture of the stream and its branch in it, or NULL. Whoever sets it keeps it alive. */
reference_capture *reference_stream_capture(reference_stream *stream, uint32_t *out_branch);
void reference_stream_set_capture(reference_stream *stream, reference_capture *capture, uint32_t branch);
reference_device *reference_stream_device(reference_stream *stream);
/* TN_OK, or TN_E_STATE for a stream that captures. */
int32_t reference_stream_check_runs(reference_stream *stream, const char *what);
/* Finishes all queues and joins all threads. */
void reference_streams_stop(reference_state *state);

/* ---- event.c ----------------------------------------------------------------------------------------- */

extern const tn_event_interface reference_event_interface;
/* An event for other processes, and one of another process. */
int32_t reference_event_export(const reference_state *state, void *event, tn_process_handle *out);
int32_t reference_event_import(reference_state *state, const tn_process_handle *handle, void **out_event);
/* Queues waiting for what the event records now. */
int32_t reference_event_wait(void *event, reference_stream *stream);

/* ---- graph.c ----------------------------------------------------------------------------------------- */

extern const tn_graph_interface reference_graph_interface;

#define REFERENCE_BRANCHES 16u /* streams in one capture */

/* A place in a capture: for each branch the number of earlier tasks. */
typedef struct reference_place {
    uint32_t at[REFERENCE_BRANCHES];
} reference_place;

reference_capture *reference_capture_retain(reference_capture *capture);
void reference_capture_release(reference_capture *capture);
/* Takes a task instead of the stream; on failure it is destroyed. */
int32_t reference_capture_add(reference_capture *capture, uint32_t branch, reference_task *task);
/* Where a branch is now. */
reference_place reference_capture_place(reference_capture *capture, uint32_t branch);
/* The stream's next task comes after the place; a stream that does not capture joins. `recorded` is NULL
 * for an event from outside the capture, which is refused. */
int32_t reference_capture_wait(reference_stream *stream, reference_capture *recorded,
                               const reference_place *place);

/* ---- collectives.c ----------------------------------------------------------------------------------- */

extern const tn_collectives_interface reference_collectives_interface;

/* ---- board.c ----------------------------------------------------------------------------------------- */

#define REFERENCE_BOARD_RANKS  64u
#define REFERENCE_BOARD_ID     16u
#define REFERENCE_BOARD_TEXT   192u
#define REFERENCE_BOARD_WINDOW 65536u /* bytes of a rank */
#define REFERENCE_BOARD_SLOT   16384u /* bytes of a pair of ranks */

typedef struct reference_board reference_board;

/* An id that no other board has. */
int32_t reference_board_id(const reference_state *state, uint8_t id[REFERENCE_BOARD_ID]);
/* Waits for the ranks of the other processes, as long as the setting `timeout` says. */
int32_t reference_board_join(const reference_state *state, const tn_communicator_options *options,
                             reference_board **out);
/* A board of this process alone; NULL: there is no memory. */
reference_board *reference_board_create(uint32_t count);
void reference_board_close(reference_board *board);
/* Ends all waiting, here and in other processes. The first text stays. */
void reference_board_fail(reference_board *board, const char *text);
/* What waits returns TN_OK, or a status and a text of REFERENCE_BOARD_TEXT bytes. Barriers come one at a time. */
int32_t reference_board_barrier(reference_board *board, char *text);
char *reference_board_window(const reference_board *board, uint32_t rank);
int32_t reference_board_send(reference_board *board, uint32_t from, uint32_t to, const char *data,
                             uint64_t bytes, char *text);
int32_t reference_board_receive(reference_board *board, uint32_t to, uint32_t from, char *data,
                                uint64_t bytes, char *text);

/* Sleeping on a word that processes share: until it is woken, or so long. */
void reference_futex_wait(atomic_uint *word, uint32_t seen, uint32_t wait_milliseconds);
/* Changes the word and wakes all. */
void reference_futex_wake(atomic_uint *word);
/* A lock on a byte of a file, which ends with its process. 1: it is ours; 1: another open file has it. */
int reference_file_lock(int file, uint32_t byte);
int reference_file_is_locked(int file, uint32_t byte);

/* ---- interop.c, settings.c --------------------------------------------------------------------------- */

extern const tn_interop_interface reference_interop_interface;
extern const tn_settings_interface reference_settings_interface;

/* ---- work.c ------------------------------------------------------------------------------------------ */

/* Text of an error found on a stream's thread. */
typedef struct reference_failure {
    char text[192];
} reference_failure;
/* Writes the text with printf's words and returns `status`. */
int32_t reference_fail(reference_failure *failure, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * A kernel as it runs on the stream's thread: the call is a deep copy in which the `host` of descriptors and
 * operands is the private address. Returns a status; the text goes into `failure`.
 */
typedef int32_t (*reference_kernel_fn)(const tn_call *call, int32_t opcode, reference_failure *failure);

/* `data` of every row. */
typedef struct reference_kernel {
    const char *name; /* of the operator */
    reference_kernel_fn run;
    int32_t opcode;
    int32_t needs_nest;
} reference_kernel;

/* `run` of every row but nonzero's: copies the call and queues it. */
int32_t reference_enqueue(void *self, const tn_call *call);
/* nonzero answers at once: it waits for the stream, counts, sizes the output and queues the filling. */
int32_t reference_nonzero(void *self, const tn_call *call);
/* Copies a call for `kernel`; NULL and *out_status on failure. */
reference_task *reference_work_create(reference_device *device, const tn_call *call,
                                      const reference_kernel *kernel, int32_t *out_status);
/* The kernel of such a task; NULL for other tasks. */
const reference_kernel *reference_work_kernel(const reference_task *task);
/* The copied call of such a task. */
const tn_call *reference_work_call(const reference_task *task);

/* ---- rows.c ------------------------------------------------------------------------------------------ */

extern const tn_kernels_interface reference_kernels_interface;
extern const tn_dtype reference_dtypes[]; /* dtypes that the plugin computes in */

#endif
