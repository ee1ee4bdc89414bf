/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events of the libcuda.so.1 for tests. */
#include "driver.h"

/* ---- Streams and events ------------------------------------------------------------------------------------- */

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    BEGIN(1)
    *out = make_stream(c);
    c->live++;
    END
}

EXPORT CUresult cuStreamDestroy(CUstream stream)
{
    BEGIN(0)
    stream->context->live--;
    end_stream(stream);
    END
}

EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *out)
{
    BEGIN(1)
    *out = stream->context;
    END
}

/* A call that asks about a stream or waits for it, which a capture does not outlive. */
#define BEGIN_OF_STREAM                        \
    BEGIN(1)                                   \
    stream = stream_of(c, stream);             \
    REFUSE(!stream, CUDA_ERROR_INVALID_HANDLE) \
    REFUSE(capture_of(stream), break_capture(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED))

EXPORT CUresult cuStreamQuery(CUstream stream)
{
    BEGIN_OF_STREAM
    result = stream->first || stream->busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    if (result && late_insists()) ask(stream, stream->queued);
    END
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    BEGIN_OF_STREAM
    ask(stream, stream->queued);
    while (stream->first || stream->busy) {
        if (stream->in_callback) late_note("blocked");
        pthread_cond_wait(&changed, &lock);
    }
    result = c->sticky;
    END
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    BEGIN(1)
    CUstream to = stream_of(c, stream);
    REFUSE(!to, CUDA_ERROR_INVALID_HANDLE)
    REFUSE(!event->capture && capture_that_refuses(event), CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
    if (capture_of(to) || event->capture) {
        result = capture_wait(to, event);
        goto end;
    }
    event->references++;
    result = queue(c, stream,
                   (work){.kind = WAIT,
                          .event = event,
                          .record = issued_of(event),
                          .awaited = event->stream,
                          .awaited_number = event->number});
    if (result) event->references--;
    END
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn callback, void *user)
{
    BEGIN(1)
    result = queue(c, stream, (work){.kind = CALLBACK, .callback = callback, .user = user});
    END
}

/* `name`: of the event of another process, else NULL. */
static CUresult make_event(CUcontext c, unsigned flags, const char *name, CUevent *out)
{
    CUevent e = calloc(1, sizeof *e);
    *e = (struct CUevent_st){
        .context = c, .flags = flags, .references = 1, .is_opened = name != NULL, .file = -1};
    if (flags & CU_EVENT_INTERPROCESS) {
        e->file = name ? open(name, O_RDWR | O_CLOEXEC) : memfd_create("event", MFD_CLOEXEC);
        void *at = MAP_FAILED;
        if (e->file >= 0 && (name || ftruncate(e->file, sizeof *e->shared) == 0))
            at = mmap(NULL, sizeof *e->shared, PROT_READ | PROT_WRITE, MAP_SHARED, e->file, 0);
        if (at == MAP_FAILED) {
            if (e->file >= 0) close(e->file);
            free(e);
            return CUDA_ERROR_INVALID_HANDLE;
        }
        e->shared = at;
    }
    c->live++;
    *out = e;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    BEGIN(1)
    REFUSE(flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_VALUE)
    result = make_event(c, flags, NULL, out);
    END
}

EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event)
{
    BEGIN(1)
    REFUSE(event->context != c || !event->shared || event->is_opened, CUDA_ERROR_INVALID_HANDLE)
    snprintf(out->reserved, sizeof out->reserved, "/proc/%d/fd/%d", (int)getpid(), event->file);
    END
}

EXPORT CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    BEGIN(1)
    REFUSE(!memchr(handle.reserved, 0, sizeof handle.reserved), CUDA_ERROR_INVALID_VALUE)
    result = make_event(c, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, handle.reserved, out);
    END
}

EXPORT CUresult cuEventDestroy(CUevent event)
{
    BEGIN(0)
    event->context->live--;
    release_event(event);
    END
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    BEGIN(1)
    REFUSE(event->context != c, CUDA_ERROR_INVALID_HANDLE)
    CUstream of = stream_of(c, stream);
    REFUSE(!of, CUDA_ERROR_INVALID_HANDLE)
    if (capture_of(of)) {
        result = capture_work(of, (work){.kind = RECORD, .event = event});
        goto end;
    }
    if (!is_hip || !event->capture || !event->capture->is_open) {
        release_graph(event->capture);
        event->capture = NULL;
    }
    REFUSE(event->is_opened, CUDA_ERROR_INVALID_HANDLE)
    event->references++;
    event->issued++;
    if (event->shared) atomic_store(&event->shared->issued, event->issued);
    result = queue(c, stream, (work){.kind = RECORD, .event = event, .record = event->issued});
    END
}

/* Events of captures, and those that a runtime refuses because their stream captures. */
#define REFUSE_CAPTURED(event)               \
    REFUSE(event->capture, captured(event))  \
    CUgraph g = capture_that_refuses(event); \
    REFUSE(g, break_capture(g, CUDA_ERROR_CAPTURED_EVENT))

EXPORT CUresult cuEventQuery(CUevent event)
{
    BEGIN(1)
    REFUSE_CAPTURED(event)
    result = done_of(event) < issued_of(event) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    if (result && late_insists()) ask(event->stream, event->number);
    END
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    BEGIN(1)
    REFUSE_CAPTURED(event)
    ask(event->stream, event->number);
    while (done_of(event) < issued_of(event)) wait_for(event);
    result = c->sticky;
    END
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    BEGIN(1)
    REFUSE(start->capture || end->capture, CUDA_ERROR_CAPTURED_EVENT)
    REFUSE((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING, CUDA_ERROR_INVALID_HANDLE)
    REFUSE(!start->issued || !end->issued, CUDA_ERROR_INVALID_HANDLE)
    REFUSE(start->done < start->issued || end->done < end->issued, CUDA_ERROR_NOT_READY)
    *ms = (float)(end->time.tv_sec - start->time.tv_sec) * 1e3f +
          (float)(end->time.tv_nsec - start->time.tv_nsec) / 1e6f;
    END
}
