/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenon replay`: plays the file of TENON_RECORD on one plugin, with a host in miniature and plugin.h alone.
 *
 *   read.c     the file: records, blobs
 *   target.c   loads the plugin, its host
 *   slots.c    calls of slots other than kernels
 *   memory.c   of those, the ones about memory: allocations of either kind, mappings, pinned pages, peers
 *   kernel.c   a kernel call: arguments, memory, the row that takes it
 *   values.c   reads arguments; the order of their fields is in plugins/shims/record/wire.c
 *   compare.c  results
 */
#ifndef TENON_KIT_REPLAY_H
#define TENON_KIT_REPLAY_H

#define TN_PLUGIN
#include "../mini_host.h"

#include <stdio.h>

/* ---- read.c ------------------------------------------------------------------------------------------ */

/* A place in the file; reading past the end gives zeros and sets `bad`. */
typedef struct replay_cursor {
    const char *at, *end;
    int32_t bad;
} replay_cursor;
uint32_t replay_u32(replay_cursor *c);
uint64_t replay_u64(replay_cursor *c);
/* `bytes` in the file, or NULL. */
const void *replay_bytes(replay_cursor *c, uint64_t bytes);
/* Copies at most room - 1 characters. */
void replay_text(replay_cursor *c, char *out, size_t room);

typedef struct replay_record {
    uint32_t tag;
    replay_cursor payload;
} replay_record;

typedef struct replay_blob {
    uint64_t id;
    const char *data;
    uint64_t bytes;
} replay_blob;

typedef struct replay_file {
    char *data;
    uint64_t bytes;
    replay_record *records;
    uint64_t n_records;
    replay_blob *blobs; /* by id, ascending */
    uint64_t n_blobs;
    int32_t whole;     /* every record is there and sound */
    char problem[160]; /* if not `whole`: why */
} replay_file;
/* 0, or -1 with a message in `problem`. A file that is cut off or damaged is read as far as it is sound. */
int replay_open(replay_file *f, const char *path);
void replay_close(replay_file *f);
/* NULL for id 0 and for an unknown id. */
const replay_blob *replay_find(const replay_file *f, uint64_t id);

/* ---- target.c ---------------------------------------------------------------------------------------- */

/*
 * What a recorded handle is in this run. An allocation of tenon.allocator is a part of what the plugin knows
 * by its handle: recorded bytes from `from` on are here bytes from `offset` on.
 */
typedef struct replay_handle {
    uint64_t recorded;
    void *here;
    void *device;     /* here; NULL for devices */
    void *host;       /* allocations: the host's address of offset 0, or NULL */
    tn_memory memory; /* allocations and pinned pages: as the plugin gave it */
    uint64_t from;
    uint64_t offset;
    uint64_t bytes;
    int32_t kind;      /* 'd'evice, 's'tream, 'e'vent, 'a'llocation, 'm'apping, 'p'inned pages, 'c'allback */
    int32_t temporary; /* of one kernel call */
    int32_t part;      /* of tenon.allocator */
    int32_t again;     /* a device that also stands for another recorded one */
} replay_handle;

/* Whether a table of any age has a slot. */
#define REPLAY_HAS(table, slot) \
    ((table) && (table)->size >= (const char *)(&(table)->slot + 1) - (const char *)(table) && (table)->slot)

typedef struct replay_block {
    struct replay_block *next;
    max_align_t memory[];
} replay_block;

typedef struct replay_player {
    mini_host mini; /* first */
    const replay_file *file;
    uint32_t index; /* of the plugin in the file */
    int32_t same;   /* the same plugin: results are compared bit for bit */
    void *library;
    const tn_plugin_info *info;
    tn_plugin_table table;
    void *self;
    const tn_device_interface *device;
    const tn_memory_interface *memory;
    const tn_copy_interface *copy;
    const tn_stream_interface *stream;
    const tn_event_interface *event;
    const tn_kernels_interface *kernels;
    const tn_allocator_interface *allocator;
    uint32_t n_devices;
    uint32_t memory_kind;
    char now[160]; /* "call 51, aten::tanh": what a crash is reported with */
    replay_handle *handles;
    size_t n_handles, handle_room;
    /* of the kernel call under way */
    replay_block *blocks;
    void *call_device, *call_stream;
    const replay_cursor *host_calls; /* as they were recorded */
    uint32_t n_host_calls;
    uint32_t next_random; /* of the recorded random_reserve */
    struct {
        void *pointer;
        void (*release)(void *pointer);
    } kept[16];
    uint32_t n_kept;
    /* results */
    uint64_t slots, kernels_played, kernels_absent, passed_over;
    char first_absent[96];
    char difference[512]; /* the first one, or "" */
    uint64_t differences;
} replay_player;

/* 0, or -1 with the cause in p->error. */
int replay_load(replay_player *p, const char *path);
void replay_unload(replay_player *p);
replay_handle *replay_handle_find(replay_player *p, int32_t kind, uint64_t recorded);
replay_handle *replay_handle_add(replay_player *p, int32_t kind, uint64_t recorded, void *here);
void replay_handle_remove(replay_player *p, replay_handle *h);
/* The allocation that has byte `offset` of the recorded one, or NULL. */
replay_handle *replay_handle_at(replay_player *p, uint64_t recorded, uint64_t offset);
/* Where that byte lies here. */
uint64_t replay_offset(const replay_handle *h, uint64_t offset);
/* A request for memory of the kind that tensors have here. */
static inline tn_memory_request replay_request(const replay_player *p, uint64_t bytes)
{
    return (tn_memory_request){.size = sizeof(tn_memory_request), .kind = p->memory_kind, .bytes = bytes};
}
/* Notes what the plugin gave for a handle. */
static inline void replay_keep_memory(replay_handle *h, const tn_memory *memory)
{
    h->memory = *memory;
    h->offset = memory->offset;
    h->host = memory->host ? (char *)memory->host - memory->offset : NULL;
}
/* Memory that lives for one kernel call, zeroed. */
void *replay_memory(replay_player *p, uint64_t bytes);
/* A temporary allocation on the call's device under this recorded handle. */
replay_handle *replay_temporary(replay_player *p, uint64_t recorded, uint64_t bytes);
void replay_end_call(replay_player *p);

/* ---- values.c ---------------------------------------------------------------------------------------- */

/* A tensor of a call; values point to it. */
typedef struct replay_tensor {
    tn_tensor_desc desc; /* first */
    struct replay_tensor *next;
    uint64_t recorded; /* handle */
    uint64_t recorded_offset;
    uint64_t blob;
    uint64_t extent; /* bytes from the first element to the end of the last */
    uint32_t place;
    uint32_t reserved;
} replay_tensor;
/* Reads `count` values; their tensors are added to *list, without memory. */
tn_value *replay_values(replay_player *p, replay_cursor *c, uint32_t count, replay_tensor **list);

/* A nest, with the recorded allocation handle of each operand. */
typedef struct replay_nest_in_file {
    tn_nest nest;
    tn_operand *operands;
    uint64_t *handles;
} replay_nest_in_file;
void replay_nest(replay_player *p, replay_cursor *c, replay_nest_in_file *out);

/* ---- slots.c, memory.c ------------------------------------------------------------------------------- */

#define REPLAY_ARGUMENTS 16

/* A call of a slot, its arguments in their order, handles and blobs by their numbers. */
typedef struct replay_call {
    uint64_t number;
    int32_t status;
    uint32_t count;
    uint64_t values[REPLAY_ARGUMENTS];
    char name[64];
} replay_call;
/* This run's handle for the recorded one in argument i, or NULL. */
void *replay_here(replay_player *p, const replay_call *s, int32_t kind, uint32_t i);
/* Adds the handle `made` on the device of argument 0 for the recorded handle in argument i, unless
 * `status` is an error. */
int32_t replay_made(replay_player *p, const replay_call *s, int32_t status, int32_t kind, uint32_t i,
                    void *made);
#define CALL(name) int32_t replay_##name(replay_player *p, const replay_call *s)
CALL(memory_alloc);
CALL(memory_reserve);
CALL(memory_resize);
CALL(memory_free);
CALL(memory_fill);
CALL(to_device);
CALL(to_host);
CALL(on_device);
CALL(peer);
CALL(allocator_alloc);
CALL(allocator_free);
CALL(map);
CALL(unmap);
CALL(pin);
CALL(unpin);
#undef CALL

/* ---- the rest ---------------------------------------------------------------------------------------- */

/* 0, or -1 when the call cannot be played at all (p->error). */
int replay_slot(replay_player *p, replay_cursor *c);
int replay_kernel(replay_player *p, replay_cursor *c);
/* Notes a difference. */
void replay_differs(replay_player *p, uint64_t number, const char *op, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Compares the elements of `found`, with the layout of `d`, with those of `want`; notes differences. */
void replay_compare(replay_player *p, uint64_t number, const char *op, uint32_t output,
                    const tn_tensor_desc *d, const char *found, const tn_tensor_desc *want_desc,
                    const char *want);

#endif
