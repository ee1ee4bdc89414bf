/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of slots other than kernels: those that make, end, copy and wait are played; bytes that come back are
 * compared. Those that only ask (facts, info, natives) are passed over. A slot that is not known is refused.
 */
#include "replay.h"

#include "record_format.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ARGUMENTS 10

typedef struct slot_call {
    uint64_t number;
    int32_t status;
    uint32_t count;
    uint64_t values[MAX_ARGUMENTS];
    char name[64];
} slot_call;

/* Here for the recorded handle in argument i, or NULL. */
static void *here(replay_player *p, const slot_call *s, int32_t kind, uint32_t i)
{
    const replay_handle *h = replay_handle_find(p, kind, s->values[i]);
    return h ? h->here : NULL;
}

static int32_t add(replay_player *p, int32_t status, int32_t kind, uint64_t recorded, void *made)
{
    if (status) return status;
    return replay_handle_add(p, kind, recorded, made) ? TN_OK : TN_E_OUT_OF_MEMORY;
}

static int32_t device_open(replay_player *p, const slot_call *s)
{
    void *made = NULL;
    int32_t status = p->device->open(p->self, (uint32_t)s->values[0], &made);
    return add(p, status, 'd', s->values[1], made);
}

static int32_t device_synchronize(replay_player *p, const slot_call *s)
{
    return p->device->synchronize(p->self, here(p, s, 'd', 0));
}

static int32_t memory_alloc(replay_player *p, const slot_call *s)
{
    void *made = NULL, *host = NULL;
    int32_t status =
        p->memory->alloc(p->self, here(p, s, 'd', 0), s->values[1], p->memory_kind, &made, &host);
    status = add(p, status, 'a', s->values[3], made);
    if (status) return status;
    p->handles[p->n_handles - 1].host = host;
    p->handles[p->n_handles - 1].bytes = s->values[1];
    return TN_OK;
}

static int32_t memory_free(replay_player *p, const slot_call *s)
{
    replay_handle *h = replay_handle_find(p, 'a', s->values[1]);
    if (!h) return TN_OK;
    p->memory->free(p->self, here(p, s, 'd', 0), h->here, h->bytes);
    replay_handle_remove(p, h);
    return TN_OK;
}

static int32_t memory_fill(replay_player *p, const slot_call *s)
{
    return p->memory->fill(p->self, here(p, s, 'd', 0), here(p, s, 'a', 1), s->values[2], s->values[3],
                           (uint32_t)s->values[4], here(p, s, 's', 5));
}

static int32_t to_device(replay_player *p, const slot_call *s)
{
    const replay_blob *blob = replay_find(p->file, s->values[3]);
    if (!blob || blob->bytes != s->values[4]) return TN_E_CORRUPT;
    return p->copy->host_to_device(p->self, here(p, s, 'd', 0), here(p, s, 'a', 1), s->values[2], blob->data,
                                   blob->bytes, here(p, s, 's', 5));
}

/* On another plugin bytes may differ within tolerance, which only kernels know: they were compared there. */
static int32_t to_host(replay_player *p, const slot_call *s)
{
    const replay_blob *blob = replay_find(p->file, s->values[1]);
    char *copy = blob && blob->bytes == s->values[4] ? malloc(blob->bytes + 1) : NULL;
    if (!copy) return TN_E_CORRUPT;
    void *device = here(p, s, 'd', 0), *stream = here(p, s, 's', 5);
    int32_t status =
        p->copy->device_to_host(p->self, device, copy, here(p, s, 'a', 2), s->values[3], blob->bytes, stream);
    if (!status) status = p->stream->synchronize(p->self, device, stream);
    if (!status && p->same && !p->kernels_absent && memcmp(copy, blob->data, blob->bytes))
        replay_differs(p, s->number, s->name, "other bytes came back than were recorded");
    free(copy);
    return status;
}

static int32_t on_device(replay_player *p, const slot_call *s)
{
    return p->copy->device_to_device(p->self, here(p, s, 'd', 0), here(p, s, 'a', 1), s->values[2],
                                     here(p, s, 'a', 3), s->values[4], s->values[5], here(p, s, 's', 6));
}

static int32_t stream_create(replay_player *p, const slot_call *s)
{
    void *made = NULL;
    int32_t status = p->stream->create(p->self, here(p, s, 'd', 0), (int32_t)s->values[1], &made);
    return add(p, status, 's', s->values[2], made);
}

static int32_t stream_destroy(replay_player *p, const slot_call *s)
{
    replay_handle *h = replay_handle_find(p, 's', s->values[1]);
    if (!h) return TN_OK;
    p->stream->destroy(p->self, here(p, s, 'd', 0), h->here);
    replay_handle_remove(p, h);
    return TN_OK;
}

static int32_t stream_synchronize(replay_player *p, const slot_call *s)
{
    return p->stream->synchronize(p->self, here(p, s, 'd', 0), here(p, s, 's', 1));
}

/* Events of a plugin that has none here are passed over: every kernel is waited for anyway. */
static int has_events(const replay_player *p)
{
    return p->event && p->event->create && p->stream->wait_event;
}

static int32_t wait_event(replay_player *p, const slot_call *s)
{
    if (!has_events(p)) return TN_OK;
    if (!here(p, s, 'e', 2)) return TN_E_CORRUPT;
    return p->stream->wait_event(p->self, here(p, s, 'd', 0), here(p, s, 's', 1), here(p, s, 'e', 2));
}

static int32_t event_create(replay_player *p, const slot_call *s)
{
    void *made = NULL;
    if (!has_events(p)) return TN_OK;
    int32_t status = p->event->create(p->self, here(p, s, 'd', 0), (uint32_t)s->values[1], &made);
    return add(p, status, 'e', s->values[2], made);
}

static int32_t event_destroy(replay_player *p, const slot_call *s)
{
    replay_handle *h = replay_handle_find(p, 'e', s->values[1]);
    if (!h) return TN_OK;
    p->event->destroy(p->self, here(p, s, 'd', 0), h->here);
    replay_handle_remove(p, h);
    return TN_OK;
}

static int32_t event_record(replay_player *p, const slot_call *s)
{
    if (!has_events(p)) return TN_OK;
    if (!here(p, s, 'e', 1)) return TN_E_CORRUPT;
    return p->event->record(p->self, here(p, s, 'd', 0), here(p, s, 'e', 1), here(p, s, 's', 2));
}

static int32_t event_synchronize(replay_player *p, const slot_call *s)
{
    if (!has_events(p)) return TN_OK;
    if (!here(p, s, 'e', 1)) return TN_E_CORRUPT;
    return p->event->synchronize(p->self, here(p, s, 'd', 0), here(p, s, 'e', 1));
}

/* `needs`: kinds of the handles among the arguments, '.' for others; all must be there. NULL run: passed
 * over. */
static const struct {
    const char *name;
    int32_t (*run)(replay_player *p, const slot_call *s);
    const char *needs;
    uint32_t arguments;
} known[] = {
    {"device.open", device_open, "", 2},
    {"device.synchronize", device_synchronize, "d", 1},
    {"memory.alloc", memory_alloc, "d", 5},
    {"memory.free", memory_free, "d", 3},
    {"memory.fill", memory_fill, "da...s", 6},
    {"copy.host_to_device", to_device, "da...s", 6},
    {"copy.device_to_host", to_host, "d.a..s", 6},
    {"copy.device_to_device", on_device, "da.a..s", 7},
    {"stream.create", stream_create, "d", 3},
    {"stream.destroy", stream_destroy, "d", 2},
    {"stream.synchronize", stream_synchronize, "ds", 2},
    {"stream.wait_event", wait_event, "ds", 3},
    {"event.create", event_create, "d", 3},
    {"event.destroy", event_destroy, "d", 2},
    {"event.record", event_record, "d.s", 3},
    {"event.synchronize", event_synchronize, "d", 2},
    {"device.enumerate", NULL, "", 0},
    {"device.facts", NULL, "", 0},
    {"device.close", NULL, "", 0}, /* at the end, by us */
    {"device.status", NULL, "", 0},
    {"memory.info", NULL, "", 0},
    {"memory.pin", NULL, "", 0},
    {"memory.unpin", NULL, "", 0},
    {"memory.map", NULL, "", 0},
    {"memory.unmap", NULL, "", 0},
    {"memory.trim", NULL, "", 0},
    {"stream.query", NULL, "", 0},
    {"stream.native", NULL, "", 0},
    {"stream.host_callback", NULL, "", 0},
    {"event.query", NULL, "", 0},
    {"event.elapsed", NULL, "", 0},
    {"random.fresh_seed", NULL, "", 0},
    {"autocast.classify", NULL, "", 0},
    {"plugin.quiesce", NULL, "", 0},
    {"plugin.shutdown", NULL, "", 0},
    {"plugin.self_test", NULL, "", 0},
};

static void read_slot(replay_cursor *c, slot_call *s)
{
    char text[8];
    s->status = (int32_t)replay_u32(c);
    replay_text(c, s->name, sizeof(s->name));
    s->count = replay_u32(c);
    if (s->count > MAX_ARGUMENTS) c->bad = 1;
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
    slot_call s = {.number = replay_u64(c)};
    if (replay_u32(c) != p->index) return 0;
    read_slot(c, &s);
    size_t i = 0, n = sizeof(known) / sizeof(known[0]);
    while (i < n && strcmp(known[i].name, s.name)) i++;
    int damaged = c->bad || (i < n && known[i].run && s.count < known[i].arguments);
    for (const char *kind = i < n ? known[i].needs : ""; *kind && !damaged && !s.status; kind++)
        damaged = *kind != '.' && !replay_handle_find(p, *kind, s.values[kind - known[i].needs]);
    if (damaged || i == n) {
        snprintf(p->error, sizeof(p->error), "call %llu, %s: %s", (unsigned long long)s.number, s.name,
                 damaged ? "the record is damaged, or names a handle that was not made"
                         : "this tenon cannot play that slot");
        return -1;
    }
    if (s.status || !known[i].run) {
        p->passed_over++;
        return 0;
    }
    p->slots++;
    p->error[0] = 0;
    int32_t status = known[i].run(p, &s);
    if (status) replay_differs(p, s.number, s.name, "status %d (%s), recorded was success", status, p->error);
    return 0;
}
