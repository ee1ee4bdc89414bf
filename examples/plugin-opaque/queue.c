/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream is a worker (tenon/worker.h), which stands for a queue of your driver: a thread that does work in
 * order and keeps late errors. An event is a place in a stream. A call is borrowed, so a copy is queued.
 */
#include "plugin.h"

/* ---- tenon.stream ------------------------------------------------------------------------------------- */

static int32_t stream_create(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    tn_worker *made;
    int32_t status = tn_worker_team_create(&((state *)self)->team, &made);
    if (!status) *out_stream = made;
    return status;
}

/* The worker stays in its team, since events may name it; a later stream uses it again. */
static void stream_destroy(void *self, void *device, void *stream)
{
    tn_worker_stop(stream);
}

static int32_t stream_query(void *self, void *device, void *stream, int32_t *out_done)
{
    int32_t status = tn_worker_report(stream);
    if (!status) *out_done = tn_worker_is_done(stream, tn_worker_queued(stream));
    return status;
}

static int32_t stream_synchronize(void *self, void *device, void *stream)
{
    tn_worker_wait(stream, tn_worker_queued(stream));
    return tn_worker_report(stream);
}

static int32_t stream_host_callback(void *self, void *device, void *stream, void (*callback)(void *user),
                                    void *user)
{
    return tn_worker_callback(stream, callback, user);
}

int32_t acme_synchronize(void *self, void *device)
{
    return tn_worker_team_synchronize(&((state *)self)->team);
}

/* On the stream's thread; `work` is the copy of a call. */
static int32_t run_call(tn_worker *stream, void *work)
{
    tn_call *call = work;
    call->host = &stream->host; /* its error is a late one */
    return ((const tn_plain_row *)call->data)->run(NULL, call);
}

int32_t acme_enqueue(void *self, const tn_call *call)
{
    if (((const tn_plain_row *)call->data)->opcode != TN_PLAIN_COUNTS)
        return tn_worker_call(call->stream, run_call, call, acme_address);
    /* The size of its result depends on the data: the host must wait for the input. */
    int32_t status = stream_synchronize(self, NULL, call->stream);
    return status ? status : tn_plain_nonzero_at(call, acme_address);
}

/* ---- tenon.event -------------------------------------------------------------------------------------- */

static int32_t event_create(void *self, void *device, uint32_t flags, void **out_event)
{
    const tn_host *host = ((state *)self)->host;
    int32_t status = tn_worker_team_check(&((state *)self)->team);
    if (status) return status;
    *out_event = calloc(1, sizeof(acme_event));
    return *out_event ? TN_OK : host->error(host->context, TN_E_OUT_OF_MEMORY, "acme: out of memory");
}

static void event_destroy(void *self, void *device, void *event)
{
    free(event); /* work that waits for it has the stream and the number */
}

/* Reads an event; with a stream, records it there first. */
static acme_event place_of(void *self, void *event, tn_worker *stream)
{
    state *s = self;
    pthread_mutex_lock(&s->lock);
    if (stream) *(acme_event *)event = (acme_event){stream, tn_worker_queued(stream)};
    acme_event e = *(acme_event *)event;
    pthread_mutex_unlock(&s->lock);
    return e;
}

static int32_t event_record(void *self, void *device, void *event, void *stream)
{
    place_of(self, event, stream);
    return tn_worker_check(stream);
}

static int32_t event_query(void *self, void *device, void *event, int32_t *out_done)
{
    acme_event e = place_of(self, event, NULL);
    int32_t status = tn_worker_team_check(&((state *)self)->team);
    if (!status) *out_done = !e.stream || tn_worker_is_done(e.stream, e.number);
    return status;
}

static int32_t event_synchronize(void *self, void *device, void *event)
{
    acme_event e = place_of(self, event, NULL);
    if (e.stream) tn_worker_wait(e.stream, e.number);
    return tn_worker_team_check(&((state *)self)->team);
}

static int32_t stream_wait_event(void *self, void *device, void *stream, void *event)
{
    acme_event e = place_of(self, event, NULL);
    return e.stream ? tn_worker_wait_for(stream, e.stream, e.number) : tn_worker_check(stream);
}

const tn_stream_interface acme_streams =
    TN_INTERFACE(tn_stream_interface, .create = stream_create, .destroy = stream_destroy,
                 .query = stream_query, .synchronize = stream_synchronize, .wait_event = stream_wait_event,
                 .host_callback = stream_host_callback);
const tn_event_interface acme_events =
    TN_INTERFACE(tn_event_interface, .create = event_create, .destroy = event_destroy, .record = event_record,
                 .query = event_query, .synchronize = event_synchronize);
