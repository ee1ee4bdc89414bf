/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of slots other than kernels. Calls that make, end, copy and wait are played; bytes that come back
 * are compared. Queries (facts, info, native handles) are skipped. A slot that is unknown, or that a recording
 * cannot hold, is refused with the reason. */
#include "replay.h"

#include "record_format.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

void *replay_here(replay_player *p, const replay_call *s, int32_t kind, uint32_t i)
{
    const replay_handle *h = replay_handle_find(p, kind, s->values[i]);
    return h ? h->here : NULL;
}

int32_t replay_made(replay_player *p, const replay_call *s, int32_t status, int32_t kind, uint32_t i,
                    void *made)
{
    if (status) return status;
    replay_handle *h = replay_handle_add(p, kind, s->values[i], made);
    if (!h) return TN_E_OUT_OF_MEMORY;
    h->device = kind == 'd' ? NULL : replay_here(p, s, 'd', 0);
    return TN_OK;
}

/* ---- Devices, streams, events ------------------------------------------------------------------------ */

/* If there are fewer devices than recorded, one device replaces several. */
static int32_t device_open(replay_player *p, const replay_call *s)
{
    uint32_t index = (uint32_t)s->values[0], again = index >= p->n_devices;
    void *made = NULL;
    for (size_t i = 0; i < p->n_handles && again && !made; i++)
        if (p->handles[i].kind == 'd') made = p->handles[i].here;
    const tn_device_options options = {.size = sizeof(options)};
    int32_t status = made ? TN_OK : p->device->open(p->self, again ? 0 : index, &options, &made);
    status = replay_made(p, s, status, 'd', 2, made);
    if (!status) p->handles[p->n_handles - 1].again = again && p->n_handles > 1;
    return status;
}

static int32_t device_synchronize(replay_player *p, const replay_call *s)
{
    return p->device->synchronize(p->self, replay_here(p, s, 'd', 0));
}

static int32_t stream_create(replay_player *p, const replay_call *s)
{
    void *made = NULL;
    const tn_stream_options options = {.size = sizeof(options), .priority = (int32_t)s->values[2]};
    int32_t status = p->stream->create(p->self, replay_here(p, s, 'd', 0), &options, &made);
    return replay_made(p, s, status, 's', 3, made);
}

/* Destroys the object of `kind` that the call names, if it is there. */
static int32_t destroy(replay_player *p, const replay_call *s, int32_t kind,
                       void (*slot)(void *self, void *device, void *object))
{
    replay_handle *h = replay_handle_find(p, kind, s->values[1]);
    if (!h) return TN_OK;
    slot(p->self, replay_here(p, s, 'd', 0), h->here);
    replay_handle_remove(p, h);
    return TN_OK;
}

static int32_t stream_destroy(replay_player *p, const replay_call *s)
{
    return destroy(p, s, 's', p->stream->destroy);
}

/* Host callbacks are replaced by this one; their effects in the program show in the calls that follow. */
static void called(void *user)
{
    atomic_store((atomic_int *)user, 1);
}

static int32_t host_callback(replay_player *p, const replay_call *s)
{
    if (!REPLAY_HAS(p->stream, host_callback)) return TN_OK; /* a host would wait */
    atomic_int *flag = calloc(1, sizeof(*flag));
    if (replay_made(p, s, flag ? TN_OK : TN_E_OUT_OF_MEMORY, 'c', 1, flag)) {
        free(flag);
        return TN_E_OUT_OF_MEMORY;
    }
    return p->stream->host_callback(p->self, replay_here(p, s, 'd', 0), replay_here(p, s, 's', 1), called,
                                    flag);
}

static int32_t stream_synchronize(replay_player *p, const replay_call *s)
{
    int32_t status = p->stream->synchronize(p->self, replay_here(p, s, 'd', 0), replay_here(p, s, 's', 1));
    for (size_t i = p->n_handles; i-- > 0 && !status;) {
        replay_handle *h = &p->handles[i];
        if (h->kind != 'c' || h->recorded != s->values[1]) continue;
        if (atomic_load((atomic_int *)h->here)) {
            free(h->here);
            replay_handle_remove(p, h);
        } else if (!h->temporary++) {
            replay_differs(p, s->number, s->name, "the stream is done, and a host callback has not run");
        }
    }
    return status;
}

/* Without events in this plugin theirs are skipped: every kernel is waited for anyway. */
static int has_events(const replay_player *p)
{
    return p->event && p->event->create && p->stream->wait_event;
}

/* Of a call whose argument i is an event: TN_OK and no event in `out` to skip it. */
static int32_t event_here(replay_player *p, const replay_call *s, uint32_t i, void **out)
{
    *out = has_events(p) ? replay_here(p, s, 'e', i) : NULL;
    return has_events(p) && !*out ? TN_E_CORRUPT : TN_OK;
}

static int32_t wait_event(replay_player *p, const replay_call *s)
{
    void *event;
    int32_t status = event_here(p, s, 2, &event);
    if (!event) return status;
    return p->stream->wait_event(p->self, replay_here(p, s, 'd', 0), replay_here(p, s, 's', 1), event);
}

static int32_t trim(replay_player *p, const replay_call *s)
{
    return REPLAY_HAS(p->memory, trim) ? p->memory->trim(p->self, replay_here(p, s, 'd', 0)) : TN_OK;
}

static int32_t event_create(replay_player *p, const replay_call *s)
{
    void *made = NULL;
    if (!has_events(p)) return TN_OK;
    int32_t status = p->event->create(p->self, replay_here(p, s, 'd', 0), (uint32_t)s->values[1], &made);
    return replay_made(p, s, status, 'e', 2, made);
}

static int32_t event_destroy(replay_player *p, const replay_call *s)
{
    return destroy(p, s, 'e', p->event->destroy);
}

static int32_t event_record(replay_player *p, const replay_call *s)
{
    void *event;
    int32_t status = event_here(p, s, 1, &event);
    return event ? p->event->record(p->self, replay_here(p, s, 'd', 0), event, replay_here(p, s, 's', 2))
                 : status;
}

static int32_t event_synchronize(replay_player *p, const replay_call *s)
{
    void *event;
    int32_t status = event_here(p, s, 1, &event);
    return event ? p->event->synchronize(p->self, replay_here(p, s, 'd', 0), event) : status;
}

/* ---- All of them ------------------------------------------------------------------------------------- */

/* `needs`: kinds of the handles among the arguments, '.' for others; all must exist. NULL run: skipped. */
static const struct {
    const char *name;
    int32_t (*run)(replay_player *p, const replay_call *s);
    const char *needs;
    uint32_t arguments;
} known[] = {
    {"device.open", device_open, "", 3},
    {"device.synchronize", device_synchronize, "d", 1},
    {"memory.alloc", replay_memory_alloc, "d", 13},
    {"memory.free", replay_memory_free, "d", 8},
    {"memory.fill", replay_memory_fill, "da...s", 6},
    {"copy.host_to_device", replay_to_device, "da....s", 7},
    {"copy.device_to_host", replay_to_host, "d..a..s", 7},
    {"copy.device_to_device", replay_on_device, "da.a..s", 7},
    {"copy.peer", replay_peer, "da.da..s", 8},
    {"allocator.alloc", replay_allocator_alloc, "d....s", 13},
    {"allocator.free", replay_allocator_free, "d.......s", 9},
    {"memory.pin", replay_pin, "d", 10},
    {"memory.unpin", replay_unpin, "d", 8},
    {"memory.map", replay_map, "da", 6},
    {"memory.unmap", replay_unmap, "da", 3},
    {"memory.trim", trim, "d", 1},
    {"memory.reserve", replay_memory_reserve, "d", 13},
    {"memory.resize", replay_memory_resize, "da", 3},
    {"stream.host_callback", host_callback, "ds", 4},
    {"stream.create", stream_create, "d", 4},
    {"stream.destroy", stream_destroy, "d", 2},
    {"stream.synchronize", stream_synchronize, "ds", 2},
    {"stream.wait_event", wait_event, "ds", 3},
    {"event.create", event_create, "d", 3},
    {"event.destroy", event_destroy, "d", 2},
    {"event.record", event_record, "d.s", 3},
    {"event.synchronize", event_synchronize, "d", 2},
    {"device.enumerate", NULL, "", 0},
    {"device.facts", NULL, "", 0},
    {"device.close", NULL, "", 0}, /* closed at the end of the replay */
    {"device.status", NULL, "", 0},
    {"memory.info", NULL, "", 0},
    {"stream.query", NULL, "", 0},
    {"device.native", NULL, "", 0},
    {"event.query", NULL, "", 0},
    {"event.elapsed", NULL, "", 0},
    {"autocast.classify", NULL, "", 0},
    {"settings.describe", NULL, "", 0}, /* a replay has the settings of its own process */
    {"settings.get", NULL, "", 0},
    {"settings.set", NULL, "", 0},
    {"interop.dlpack_device", NULL, "", 0}, /* nothing of other libraries is in a recording */
    {"interop.wait_native", NULL, "", 0},
    {"interop.export_memory", NULL, "", 0},
    {"interop.export_event", NULL, "", 0},
    {"plugin.quiesce", NULL, "", 0},
    {"plugin.shutdown", NULL, "", 0},
    {"plugin.self_test", NULL, "", 0},
};

/* Slots that a recording cannot hold, and why. */
static const struct {
    const char *prefix;
    const char *why;
} refused[] = {
    {"graph.", "a graph does its work after the recorded call"},
    {"collectives.", "a collective works on several devices, but a recording has one at a time"},
    {"", "this tenon cannot play that slot"},
};

static const char *why_refused(const char *name)
{
    size_t i = 0;
    while (strncmp(name, refused[i].prefix, strlen(refused[i].prefix))) i++;
    return refused[i].why;
}

static void read_slot(replay_cursor *c, replay_call *s)
{
    char text[8];
    s->status = (int32_t)replay_u32(c);
    replay_text(c, s->name, sizeof(s->name));
    s->count = replay_u32(c);
    if (s->count > REPLAY_ARGUMENTS) c->bad = 1;
    for (uint32_t i = 0; i < s->count && !c->bad; i++) {
        uint32_t type = replay_u32(c);
        replay_u32(c);
        if (type == RECORD_TEXT)
            replay_text(c, text, sizeof(text));
        else
            s->values[i] = replay_u64(c);
    }
}

int replay_slot(replay_player *p, replay_cursor *c)
{
    replay_call s = {.number = replay_u64(c)};
    if (replay_u32(c) != p->index) return 0;
    read_slot(c, &s);
    snprintf(p->now, sizeof(p->now), "call %llu, %s", (unsigned long long)s.number, s.name);
    size_t i = 0, n = sizeof(known) / sizeof(known[0]);
    while (i < n && strcmp(known[i].name, s.name)) i++;
    int damaged = c->bad || (i < n && known[i].run && s.count < known[i].arguments);
    for (const char *kind = i < n ? known[i].needs : ""; *kind && !damaged && !s.status; kind++)
        damaged = *kind != '.' && !replay_handle_find(p, *kind, s.values[kind - known[i].needs]);
    int grows = i < n && (known[i].run == replay_memory_reserve || known[i].run == replay_memory_resize);
    int cannot_grow = grows && !REPLAY_HAS(p->memory, resize);
    if (damaged || i == n || cannot_grow) {
        snprintf(mini_host_error, sizeof(mini_host_error), "call %llu, %s: %s", (unsigned long long)s.number,
                 s.name,
                 damaged       ? "the record is damaged, or names an unknown handle"
                 : cannot_grow ? "the plugin gives no memory that grows: record without expandable_segments"
                               : why_refused(s.name));
        return -1;
    }
    if (s.status || !known[i].run) {
        p->passed_over++;
        return 0;
    }
    p->slots++;
    mini_host_error[0] = 0;
    int32_t status = known[i].run(p, &s);
    if (status)
        replay_differs(p, s.number, s.name, "status %d (%s), recorded was success", status, mini_host_error);
    return 0;
}
