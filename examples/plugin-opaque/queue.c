/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream is a worker (tenon/worker.h), which stands for a queue of your driver: a thread that does work in
 * order and keeps late errors. An event is a place in a stream. A call is borrowed, so a copy is queued.
 */
#include "plugin.h"

/* ---- tenon.stream ------------------------------------------------------------------------------------- */

static int32_t stream_create(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    state *s = self;
    acme_stream *made = calloc(1, sizeof(*made));
    int32_t status = made ? tn_worker_start(&made->worker, s->host)
                          : s->host->error(s->host->context, TN_E_OUT_OF_MEMORY, "acme: out of memory");
    if (status) return free(made), status;
    pthread_mutex_lock(&s->lock);
    made->next = s->streams;
    s->streams = made;
    pthread_mutex_unlock(&s->lock);
    *out_stream = made;
    return TN_OK;
}

/* The memory stays until shutdown, since events may name the stream. */
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
    state *s = self;
    int32_t status = TN_OK;
    pthread_mutex_lock(&s->lock);
    acme_stream *first = s->streams; /* what the list has stays in it until shutdown */
    pthread_mutex_unlock(&s->lock);
    for (acme_stream *at = first; at; at = at->next)
        tn_worker_wait(&at->worker, tn_worker_queued(&at->worker));
    for (acme_stream *at = first; at && !status; at = at->next) status = tn_worker_report(&at->worker);
    return status;
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
    return TN_OK;
}

static int32_t event_query(void *self, void *device, void *event, int32_t *out_done)
{
    acme_event e = place_of(self, event, NULL);
    *out_done = !e.stream || tn_worker_is_done(e.stream, e.number);
    return TN_OK;
}

static int32_t event_synchronize(void *self, void *device, void *event)
{
    acme_event e = place_of(self, event, NULL);
    if (e.stream) tn_worker_wait(e.stream, e.number);
    return TN_OK;
}

static int32_t stream_wait_event(void *self, void *device, void *stream, void *event)
{
    acme_event e = place_of(self, event, NULL);
    return e.stream ? tn_worker_wait_for(stream, e.stream, e.number) : TN_OK;
}

const tn_stream_interface acme_streams =
    TN_INTERFACE(tn_stream_interface, .create = stream_create, .destroy = stream_destroy,
                 .query = stream_query, .synchronize = stream_synchronize, .wait_event = stream_wait_event,
                 .host_callback = stream_host_callback);
const tn_event_interface acme_events =
    TN_INTERFACE(tn_event_interface, .create = event_create, .destroy = event_destroy, .record = event_record,
                 .query = event_query, .synchronize = event_synchronize);
