/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the shims share. A shim is a plugin that stands between the host and every other plugin:
 *
 *     host  ->  record  ->  validate  ->  inject  ->  plugin        (each asked for, each absent otherwise)
 *
 * shim.c makes one of a tool: it wraps each interface table, each kernel row, the functions of each operator
 * that the plugin defines, and the host's table that the plugin gets. Every call in either direction becomes
 * a `shim_call`, which the tool sees before and after. slots.c, printed by tools/gen_shim.py from plugin.h,
 * has the forwarding function of each slot and says what each argument is; a slot that is appended to
 * plugin.h is there after a rebuild.
 *
 * What the plugin lacks stays absent, what it has behind the end of a struct that is known here is left out.
 * Nothing is assumed of threads: calls run at once on as many as the host has. The only global state is the list of
 * wrapped plugins.
 */
#ifndef TENON_SHIM_H
#define TENON_SHIM_H

#ifndef TN_PLUGIN
#define TN_PLUGIN
#endif
#include <tenon/plugin.h>

#include <pthread.h>
#include <stdatomic.h>

/* ---- What is known of a slot ------------------------------------------------------------------------- */

/* What an argument is. */
typedef enum shim_kind {
    SHIM_NUMBER, /* a plain number */
    SHIM_BYTES,  /* length of the ranges in this call */
    SHIM_OFFSET, /* of a range in the allocation before it */
    SHIM_DEVICE, /* handles */
    SHIM_STREAM,
    SHIM_EVENT,
    SHIM_ALLOCATION, /* of the device before it */
    SHIM_GRAPH,
    SHIM_EXECUTABLE,
    SHIM_COMMUNICATOR,
    SHIM_DEVICES, /* void *const *, as many as the argument after it says */
    SHIM_RANKS,   /* const tn_collective_rank *, one for each device of the communicator before it */
    SHIM_HOST_MEMORY,
    SHIM_TEXT,
    SHIM_FACTS,    /* tn_device_facts * */
    SHIM_CALLBACK, /* void (*)(void *) */
    SHIM_USER,     /* what the callback beside it is called with */
    SHIM_CALL,     /* const tn_call * */
    SHIM_TABLE,    /* interface table, as get_interface returns it */
    SHIM_SELF,     /* the plugin's state, as init gives it */
    SHIM_POINTER   /* anything else */
} shim_kind;

/* Words of the header. */
#define SHIM_OUT         1u
#define SHIM_TAKES       2u
#define SHIM_NULLABLE    4u
#define SHIM_ANY_THREAD  8u
#define SHIM_HOST_THREAD 16u
#define SHIM_IN_KERNEL   32u
#define SHIM_IN_CALLBACK 64u
#define SHIM_OPTIONAL    128u /* an output that may be left as it is: a field of a struct */

typedef struct shim_argument {
    const char *name;
    shim_kind kind;
    uint32_t notes;
    uint32_t bytes; /* of the value, for outputs of what is pointed to */
} shim_argument;

typedef enum shim_result { SHIM_NOTHING, SHIM_STATUS, SHIM_VALUE } shim_result;

typedef struct shim_slot {
    const char
        *name; /* "memory.alloc", "kernel.run", "plugin.init"; "host.workspace" for calls of the host */
    uint32_t notes;
    uint32_t of_host; /* the plugin calls it */
    shim_result result;
    uint32_t n_arguments;
    const shim_argument *arguments;
} shim_slot;

#include "slots.h" /* printed: the numbers SHIM_MEMORY_ALLOC, ..., SHIM_SLOT_COUNT, and shim_tables */

extern const shim_slot shim_slots[SHIM_SLOT_COUNT];

/* ---- A call ------------------------------------------------------------------------------------------ */

typedef struct shim shim;
typedef struct shim_plugin shim_plugin;
typedef struct shim_row shim_row;
typedef struct shim_operator shim_operator;
typedef struct shim_call shim_call;

typedef union shim_value {
    void *pointer;
    const char *text;
    void (*function)(void *user);
    uint64_t number; /* unsigned and signed ones, these as two's complement */
    double real;
} shim_value;

/* The most arguments that a slot may have; the generator refuses more. */
#define SHIM_MAX_ARGUMENTS 16

/*
 * One call of a slot, on the stack of its thread. `before` may replace values, which are then passed on;
 * `after` sees the result and may replace it.
 */
struct shim_call {
    const shim_slot *slot;
    shim_plugin *plugin;
    uint32_t id;                           /* SHIM_MEMORY_ALLOC, ... */
    int32_t status;                        /* of slots with SHIM_STATUS */
    uint64_t number;                       /* number of the call in this shim, from 1 */
    shim_value values[SHIM_MAX_ARGUMENTS]; /* in the order of slot->arguments (without `self`) */
    shim_value value;                      /* of slots with SHIM_VALUE */
    const shim_row *row;                   /* kernel.run and kernel.can_run */
    const shim_operator *definition;       /* operator.infer and its like */
    const tn_call *call;                   /* of the kernel or operator, as the host gave it; also for the
                                              host's slots that take one */
    const char *op;                        /* "aten::add.Tensor", where `call` is there */
    shim_call *of;                         /* slots of the host that take a call: the owner of that call */
    shim_call *outer;                      /* the call of this shim around this one on this thread */
    void *note;      /* the tool's, from before to after (of a host_callback: to its callback.run) */
    uint64_t mark;   /* the same, for a number */
    uint32_t errors; /* errors that the plugin recorded during the call on this thread */
    uint32_t reserved;
};

/* The innermost running kernel call on this thread, or NULL. */
const shim_call *shim_kernel_call(const shim_call *c);
/* "memory.free, call 12" or "aten::add.Tensor, call 12". Returns buffer. */
const char *shim_place(const shim_call *c, char *buffer, size_t bytes);

/* ---- What is wrapped --------------------------------------------------------------------------------- */

/* A kernel row of the plugin; `data` of the row that the host sees. */
struct shim_row {
    shim_plugin *plugin;
    tn_kernel_row row; /* the plugin's, complete */
    void *self;        /* the self of its functions */
    const char *op;    /* "aten::add.Tensor" */
    char *device_type; /* of rows of host.register_kernels; NULL: of tenon.kernels */
};

/* An operator that the plugin defined; `self` of the functions that the host sees. */
struct shim_operator {
    shim_operator *next;
    shim_plugin *plugin;
    tn_operator_def def;   /* the plugin's, complete */
    tn_operator_def given; /* what the host gets; texts are the plugin's */
    char *op;              /* "mylib::myop" */
};

/* One plugin in one context; the host's `self` for it. */
struct shim_plugin {
    shim_plugin *next; /* in the list of all, of any context */
    shim *shim;
    const tn_host *outer; /* the host before this shim */
    tn_host host;         /* the one that the plugin sees */
    const tn_plugin_info *info;
    void *self; /* the plugin's own */
    tn_plugin_table table;
    shim_tables inner;      /* the plugin's tables, absent slots NULL, size 0: not there */
    shim_tables given;      /* what the host gets */
    uint32_t present;       /* bit i: interface i of shim_interfaces; the next bit: tenon.kernels */
    struct shim_rows *rows; /* wrapped kernel rows */
    shim_operator *operators;
    pthread_mutex_t rows_lock; /* of both lists */
    void *tool;                /* the tool's, from attach */
};

/* ---- A tool ------------------------------------------------------------------------------------------ */

/*
 * A tool makes a shim of one kind: its file defines `shim_tool_here`. NULL slots do nothing.
 */
typedef struct shim_tool {
    const char *name;
    /* Reads the setting and makes s->state; an error (through shim_error) refuses the shim. */
    int32_t (*configure)(shim *s, const char *setting);
    void (*finish)(shim *s);
    /* Before a plugin is initialised; makes w->tool. */
    int32_t (*attach)(shim_plugin *w);
    /* After its shutdown. */
    void (*detach)(shim_plugin *w);
    /* TN_OK: the slot is called. Otherwise it is not, and this status is its result (NULL for slots with a
     * value; slots without a result are called all the same). */
    int32_t (*before)(shim_call *c);
    void (*after)(shim_call *c);
} shim_tool;
extern const shim_tool shim_tool_here;
/* Defines it from the functions TOOL_configure, TOOL_finish, TOOL_before and TOOL_after; more slots may follow. */
#define SHIM_TOOL(tool, ...)                                         \
    const shim_tool shim_tool_here = {.name = #tool,                 \
                                      .configure = tool##_configure, \
                                      .finish = tool##_finish,       \
                                      .before = tool##_before,       \
                                      .after = tool##_after,         \
                                      __VA_ARGS__}

/* The shim in one context. */
struct shim {
    const tn_host *host;
    void *state; /* the tool's */
    atomic_uint_fast64_t calls;
};

/* Records an error with printf's words for this thread and returns `status`. */
int32_t shim_error(const tn_host *host, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- For slots.c ------------------------------------------------------------------------------------- */

/* A copy of a struct of any header version: at most `known` bytes, the rest 0, and `size` says how many. NULL gives
 * zeros. */
void shim_read_struct(void *to, const void *from, uint32_t known);
/* Hands the fields of an output struct on, as many as both sides know, but for its size. `to` may be NULL. */
void shim_write_struct(void *to, const void *from, uint32_t known);

/* Numbers the call and calls the tool's `before`: 1 if the slot is to be called. */
int32_t shim_enter(shim_call *c);
void shim_leave(shim_call *c);
/* The plugin whose host table the call came through. NULL if it did not come through this shim: *out_host is then the
 * table that it came through, or NULL if that is unknown, too. `call` may be NULL or have ended, and then hold
 * anything: its host is compared with the known ones before it is read, and without one it counts as a call of the
 * plugin that this thread is in. */
shim_plugin *shim_of_call(const tn_call *call, const tn_host **out_host);
/* For host slots that take a call: 1 and the host's own call in *out; 0 if the call does not run on this
 * thread (c->status then says so). */
int32_t shim_host_call(shim_call *c, const tn_call *given, tn_call *out);

/* An interface: the place of its copies in shim_tables, and the function for each slot. */
typedef struct shim_wrapped_slot {
    uint32_t offset;
    void (*wrapper)(void);
} shim_wrapped_slot;
typedef struct shim_interface {
    const char *name;
    uint32_t place;
    uint32_t bytes;
    uint32_t n_slots;
    const shim_wrapped_slot *slots;
} shim_interface;
extern const shim_interface shim_interfaces[];
extern const uint32_t shim_interface_count;
/* The host's table: slots that take a context or a call are replaced; the others are the host's own. */
extern const shim_wrapped_slot shim_host_slots[];
extern const uint32_t shim_host_slot_count;
/* The functions of a tn_operator_def. */
extern const shim_wrapped_slot shim_operator_slots[];
extern const uint32_t shim_operator_slot_count;
/* One call of such a function. */
int32_t shim_run_operator(const shim_operator *o, const tn_call *call, uint32_t id, tn_kernel_fn function);

#endif
