/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that is not done where it is called. What is queued on a stream that captures is kept with the
 * capture, and accesses memory at each launch; between the streams of one capture no order is looked for,
 * that is the plugin's. Collectives access memory of all ranks, each on its own stream, after all have come.
 */
#include "validate.h"

#define MOST_RANKS 64u /* larger communicators are not checked */

/* An access of captured work. Allocations are looked up at each launch, as they may have been freed. */
typedef struct validate_captured {
    struct validate_captured *next;
    const void *allocation;
    const validate_object *device;
    validate_access access;
} validate_captured;

static void release(validate_work *w)
{
    if (!w || --w->references) return;
    while (w->accesses) {
        validate_captured *a = w->accesses;
        w->accesses = a->next;
        free(a);
    }
    free(w);
}

void validate_drop_work(validate_object *o)
{
    release(o->work);
    o->work = NULL;
    free(o->devices);
    o->devices = NULL;
    o->count = 0;
}

static void share(validate_object *to, validate_work *work)
{
    if (!to) return;
    if (work) work->references++;
    validate_drop_work(to);
    to->work = work;
}

/* ---- Capturing --------------------------------------------------------------------------------------- */

void validate_capture(const shim_call *c, const validate_object *allocation, const validate_object *stream,
                      const validate_access *access)
{
    validate_work *w = stream->work;
    for (const validate_captured *a = w->accesses; a; a = a->next) {
        if (a->allocation == allocation->handle && a->access.from == access->from &&
            a->access.to == access->to && a->access.gap == access->gap && a->access.writes == access->writes)
            return;
    }
    validate_captured *a = malloc(sizeof(*a));
    if (!a) return;
    *a = (validate_captured){w->accesses, allocation->handle, allocation->device, *access};
    w->accesses = a;
}

/* Slots that may not be called on a capturing stream. */
static int32_t is_refused(uint32_t id)
{
    return id == SHIM_GRAPH_BEGIN || id == SHIM_GRAPH_LAUNCH || id == SHIM_STREAM_QUERY ||
           id == SHIM_STREAM_SYNCHRONIZE || id == SHIM_STREAM_HOST_CALLBACK || id == SHIM_STREAM_DESTROY ||
           id == SHIM_COPY_HOST_TO_DEVICE || id == SHIM_COPY_DEVICE_TO_HOST || id == SHIM_COPY_PEER;
}

static void say_capturing(const shim_call *c, const validate_object *stream)
{
    validate_say_on(c, "while-capturing", stream->id, NULL,
                    "the host calls %s for stream %llu, which captures", c->slot->name,
                    (unsigned long long)stream->id);
}

void validate_check_capture(validate_state *v, const shim_call *c)
{
    for (uint32_t i = 0; is_refused(c->id) && i < c->slot->n_arguments; i++) {
        const shim_argument *a = &c->slot->arguments[i];
        const validate_object *o =
            a->kind == SHIM_STREAM && !(a->notes & SHIM_OUT) ? validate_argument(v, c, i) : NULL;
        if (o && o->work) say_capturing(c, o);
    }
}

static void begin(validate_object *stream)
{
    validate_work *w = stream ? calloc(1, sizeof(*w)) : NULL;
    if (!w) return;
    w->references = 1;
    validate_drop_work(stream);
    stream->work = w;
}

/* The capture of a stream has ended: all streams in it run again. */
static void end(validate_state *v, validate_object *stream)
{
    validate_work *w = stream ? stream->work : NULL;
    if (!w) return;
    w->is_over = 1;
    w->references++;
    for (uint32_t i = 0; i < VALIDATE_BUCKETS; i++) {
        for (validate_object *o = v->buckets[i]; o; o = o->next) {
            if (o->kind == SHIM_STREAM && o->work == w) validate_drop_work(o);
        }
    }
    release(w);
}

/* ---- Launching --------------------------------------------------------------------------------------- */

static void launch(validate_state *v, const shim_call *c, validate_object *executable,
                   validate_object *stream)
{
    if (!executable || !stream || !stream->known) return;
    validate_waits_for(stream, executable->known);
    executable->last_task = validate_task(v, stream);
    for (const validate_captured *a = executable->work ? executable->work->accesses : NULL; a; a = a->next) {
        validate_object *o = validate_find(v, c->plugin, SHIM_ALLOCATION, a->allocation, a->device);
        if (o && o->alive)
            validate_access_range(v, c, o, stream, a->access.from, a->access.to, a->access.gap,
                                  a->access.writes);
        else
            validate_say_on(c, "use-after-free", stream->id, &a->access.place,
                            "what is launched accesses an allocation that was freed");
    }
    if (!executable->known) executable->known = malloc(sizeof(*executable->known));
    if (!executable->known) return;
    *executable->known = *stream->known;
    executable->clock = stream->clock;
}

/* The output of a slot at argument i. */
static validate_object *given(validate_state *v, const shim_call *c, uint32_t i)
{
    void *handle;
    memcpy(&handle, c->values[i].pointer, sizeof(handle));
    return validate_find(v, c->plugin, c->slot->arguments[i].kind, handle, validate_argument(v, c, 0));
}

void validate_graphs(validate_state *v, const shim_call *c, int32_t failed)
{
    validate_object *o = NULL;
    if (c->id < SHIM_GRAPH_BEGIN || c->id > SHIM_GRAPH_DESTROY_EXECUTABLE || c->slot->n_arguments < 2) return;
    if (c->id != SHIM_GRAPH_DESTROY && c->id != SHIM_GRAPH_DESTROY_EXECUTABLE) o = validate_argument(v, c, 1);
    if (c->id == SHIM_GRAPH_END) {
        if (o && !failed) share(given(v, c, 2), o->work);
        end(v, o);
    }
    if (failed || !o) return;
    if (c->id == SHIM_GRAPH_BEGIN) begin(o);
    if (c->id == SHIM_GRAPH_INSTANTIATE) share(given(v, c, 3), o->work); /* device, graph, flags, out */
    if (c->id == SHIM_GRAPH_LAUNCH) launch(v, c, o, validate_argument(v, c, 2));
    if (c->id == SHIM_GRAPH_UPDATE) {
        const validate_object *from = validate_argument(v, c, 2);
        if (from) share(o, from->work);
    }
}

/* ---- Collectives ------------------------------------------------------------------------------------- */

/* Bytes that each rank reads and writes; 0: none. */
typedef struct lengths {
    uint64_t from;
    uint64_t to;
} lengths;

/* communicator, ranks, rank_bytes, then what the slot says */
static lengths lengths_of(const shim_call *c, uint32_t count)
{
    const shim_value *a = c->values;
    uint64_t number = a[3].number, bytes = number;
    if (c->id == SHIM_COLLECTIVES_ALL_REDUCE || c->id == SHIM_COLLECTIVES_REDUCE_SCATTER)
        bytes = number * (uint64_t)tn_dtype_bytes((tn_dtype)a[4].number);
    switch (c->id) {
    case SHIM_COLLECTIVES_ALL_REDUCE:
    case SHIM_COLLECTIVES_BROADCAST:
        return (lengths){bytes, bytes};
    case SHIM_COLLECTIVES_ALL_GATHER:
        return (lengths){bytes, bytes * count};
    case SHIM_COLLECTIVES_REDUCE_SCATTER:
        return (lengths){bytes * count, bytes};
    case SHIM_COLLECTIVES_ALL_TO_ALL:
        return (lengths){bytes * count, bytes * count};
    default:
        return (lengths){0, 0};
    }
}

/* The allocation of a rank, or NULL; a wrong one is reported before the call. */
static validate_object *allocation_of(validate_state *v, const shim_call *c, const validate_object *device,
                                      const char *what, const void *handle, uint64_t offset, uint64_t bytes,
                                      int32_t done)
{
    validate_object *o = validate_find(v, c->plugin, SHIM_ALLOCATION, handle, device);
    if (o && o->alive) return done || validate_range(c, o, what, offset, bytes) ? o : NULL;
    if (!done)
        validate_say(c, o ? "use-after-free" : "unknown-handle", o ? &o->ended : NULL,
                     "%s: '%s' of a rank is not an allocation of its device", c->slot->name, what);
    return NULL;
}

static void rank(validate_state *v, const shim_call *c, uint32_t i, const tn_collective_rank *r,
                 const validate_object *communicator, validate_object *stream, int32_t done)
{
    const lengths n = lengths_of(c, communicator->count);
    const validate_object *device = stream->device;
    int32_t reads = n.from && (c->id != SHIM_COLLECTIVES_BROADCAST || i == c->values[4].number);
    validate_object *from =
        reads ? allocation_of(v, c, device, "from", r->from, r->from_offset, n.from, done) : NULL;
    validate_object *to = n.to ? allocation_of(v, c, device, "to", r->to, r->to_offset, n.to, done) : NULL;
    if (!done) return;
    if (from) validate_access_range(v, c, from, stream, r->from_offset, r->from_offset + n.from, 0, 0);
    if (to) validate_access_range(v, c, to, stream, r->to_offset, r->to_offset + n.to, 0, 1);
}

/* Each stream continues after all previous work of the others. */
static void meet(validate_object *const *streams, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) validate_waits_for(streams[0], streams[i]->known);
    for (uint32_t i = 1; i < count; i++) validate_waits_for(streams[i], streams[0]->known);
}

/* collectives.create: flags, count, first_rank, world, devices, id, id_bytes, out_communicator */
static void note_devices(validate_state *v, const shim_call *c)
{
    void *handle;
    memcpy(&handle, c->values[7].pointer, sizeof(handle));
    validate_object *o = validate_find(v, c->plugin, SHIM_COMMUNICATOR, handle, NULL);
    uint32_t count = (uint32_t)c->values[1].number;
    if (!o || count > MOST_RANKS) return;
    validate_drop_work(o);
    o->devices = malloc(count * sizeof(void *));
    if (!o->devices) return;
    o->count = count;
    memcpy(o->devices, c->values[4].pointer, count * sizeof(void *));
}

static void check_devices(validate_state *v, const shim_call *c)
{
    void *const *devices = c->values[4].pointer;
    for (uint32_t i = 0; i < c->values[1].number; i++) {
        const validate_object *o = validate_find(v, c->plugin, SHIM_DEVICE, devices[i], NULL);
        if (!o || !o->alive)
            validate_say(c, "unknown-handle", NULL, "%s: a rank's device is not an open device",
                         c->slot->name);
    }
}

/* The streams of all ranks; 0: one of them is wrong, which is reported before the call. */
static int32_t find_streams(validate_state *v, const shim_call *c, const validate_object *communicator,
                            tn_collective_rank *ranks, validate_object **streams, int32_t done)
{
    uint64_t bytes = c->values[2].number < sizeof(*ranks) ? c->values[2].number : sizeof(*ranks);
    for (uint32_t i = 0; i < communicator->count; i++) {
        memcpy(&ranks[i], (const char *)c->values[1].pointer + i * c->values[2].number, bytes);
        const validate_object *device =
            validate_find(v, c->plugin, SHIM_DEVICE, communicator->devices[i], NULL);
        streams[i] = device ? validate_find(v, c->plugin, SHIM_STREAM, ranks[i].stream, device) : NULL;
        if (streams[i] && streams[i]->alive) {
            if (streams[i]->work && !done) say_capturing(c, streams[i]);
            continue;
        }
        if (!done)
            validate_say(c, "unknown-handle", NULL, "%s: the stream of rank %u is not a stream of its device",
                         c->slot->name, i);
        return 0;
    }
    return communicator->count > 0;
}

/* communicator, rank, own rank, other rank, bytes: one rank on its stream, which may be of any device. */
static void message(validate_state *v, const shim_call *c, int32_t done)
{
    const tn_collective_rank *r = c->values[1].pointer;
    int32_t writes = c->id == SHIM_COLLECTIVES_RECEIVE;
    uint64_t bytes = c->values[4].number, offset = writes ? r->to_offset : r->from_offset;
    validate_object *stream = validate_find(v, c->plugin, SHIM_STREAM, r->stream, NULL);
    if (!stream || !stream->alive) {
        if (!done)
            validate_say(c, "unknown-handle", NULL, "%s: the stream is not a stream of a device",
                         c->slot->name);
        return;
    }
    if (stream->work && !done) say_capturing(c, stream);
    validate_object *o = allocation_of(v, c, stream->device, writes ? "to" : "from", writes ? r->to : r->from,
                                       offset, bytes, done);
    if (!done) return;
    validate_task(v, stream);
    if (o) validate_access_range(v, c, o, stream, offset, offset + bytes, 0, (uint32_t)writes);
}

void validate_ranks(validate_state *v, const shim_call *c, int32_t done)
{
    tn_collective_rank ranks[MOST_RANKS] = {{0}};
    validate_object *streams[MOST_RANKS];
    if (c->id == SHIM_COLLECTIVES_CREATE) {
        if (done)
            note_devices(v, c);
        else
            check_devices(v, c);
    }
    if (c->id == SHIM_COLLECTIVES_SEND || c->id == SHIM_COLLECTIVES_RECEIVE) message(v, c, done);
    if (c->id < SHIM_COLLECTIVES_ALL_REDUCE || c->id > SHIM_COLLECTIVES_BARRIER) return;
    const validate_object *communicator = validate_argument(v, c, 0);
    if (!communicator || !find_streams(v, c, communicator, ranks, streams, done)) return;
    if (done) meet(streams, communicator->count);
    for (uint32_t i = 0; i < communicator->count; i++) {
        if (done) validate_task(v, streams[i]);
        rank(v, c, i, &ranks[i], communicator, streams[i], done);
    }
    if (done) meet(streams, communicator->count);
}
