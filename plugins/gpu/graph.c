/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: the interface "tenon.graph" over a driver that can capture. A stream that captures points to its graph, which
 * events that are recorded on it take along to streams that join.
 *
 * Captured kernels that look for faults write into memory of the graph, because the stream of a launch is not known yet. A
 * launch copies what the stream has found there, and copies it back behind the graph: a late error belongs to the stream
 * of the launch.
 */
#include "gpu.h"

#include <stdlib.h>

#define FAULT_BYTES (GPU_FAULT_WORDS * sizeof(int32_t))

static const gpu_driver *const driver = &gpu_the_driver;

/* Shared by the host, streams that capture, events recorded on them, and executables. */
struct gpu_graph {
    gpu_device *device;
    void *handle; /* the driver's; NULL until the capture ends */
    void *faults; /* device memory, like that of a stream */
    uint32_t references;
    int32_t looks_for_faults; /* a kernel with faults was captured; atomic */
    int32_t uses_libraries;   /* kernels of a library were captured; atomic */
    int32_t is_over;          /* the capture has ended; under the device's lock */
};

typedef struct gpu_executable {
    pthread_mutex_t lock;
    void *handle;     /* the driver's */
    gpu_graph *graph; /* whose work it does */
    void *launched;   /* the driver's event behind the last launch that was put in order here, or NULL */
} gpu_executable;

gpu_graph *gpu_graph_retain(gpu_graph *g)
{
    if (g) __atomic_add_fetch(&g->references, 1, __ATOMIC_RELAXED);
    return g;
}

void gpu_graph_release(gpu_graph *g)
{
    if (!g || __atomic_sub_fetch(&g->references, 1, __ATOMIC_ACQ_REL)) return;
    if (g->handle) driver->graphs->destroy(g->device->handle, g->handle);
    if (g->faults) driver->free(g->device->handle, g->faults);
    free(g);
}

/* ---- Captures ---------------------------------------------------------------------------------------------- */

gpu_graph *gpu_stream_capture(const gpu_stream *s)
{
    return __atomic_load_n(&s->capture, __ATOMIC_ACQUIRE);
}

int32_t gpu_stream_check_runs(const gpu_stream *s, const char *what)
{
    if (!gpu_stream_capture(s)) return TN_OK;
    return gpu_error(s->device->plugin, TN_E_STATE, "%s cannot be captured in a graph", what);
}

void *gpu_stream_fault_memory(gpu_stream *s)
{
    gpu_graph *g = gpu_stream_capture(s);
    if (!g) return s->faults;
    __atomic_store_n(&g->looks_for_faults, 1, __ATOMIC_RELEASE);
    return g->faults;
}

void gpu_stream_uses_library(const gpu_stream *s)
{
    gpu_graph *g = gpu_stream_capture(s);
    if (g) __atomic_store_n(&g->uses_libraries, 1, __ATOMIC_RELEASE);
}

int32_t gpu_stream_join(gpu_stream *s, gpu_graph *g)
{
    if (!g) return 0;
    int32_t joins = 0;
    pthread_mutex_lock(&s->device->lock);
    if (!g->is_over && !gpu_stream_capture(s)) {
        __atomic_store_n(&s->capture, gpu_graph_retain(g), __ATOMIC_RELEASE);
        joins = 1;
    }
    pthread_mutex_unlock(&s->device->lock);
    return joins;
}

void gpu_stream_leave(gpu_stream *s)
{
    gpu_graph_release(__atomic_exchange_n(&s->capture, NULL, __ATOMIC_ACQ_REL));
}

/* Makes the memory for faults; the stream is idle. */
static int32_t make_faults(gpu_stream *s, void **out)
{
    static const int32_t none[GPU_FAULT_WORDS];
    void *handle = s->device->handle, *memory = NULL;
    int32_t status = driver->alloc(handle, FAULT_BYTES, &memory);
    if (status) return status;
    status = driver->write(handle, s->queue, memory, 0, none, FAULT_BYTES);
    if (!status) status = driver->queue_finish(handle, s->queue);
    if (status)
        driver->free(handle, memory);
    else
        *out = memory;
    return status;
}

/* The stream counts as capturing before it does: a wait for the device by another thread must not meet it between the two. */
static int32_t graph_begin(void *self, void *device, void *stream)
{
    gpu_device *d = device;
    gpu_stream *s = stream;
    int32_t status = driver->status(d->handle);
    if (!status) status = gpu_stream_check_runs(s, "beginning a capture");
    if (status) return status;
    gpu_graph *g = malloc(sizeof *g);
    if (!g) return gpu_error(self, TN_E_OUT_OF_MEMORY, "out of host memory");
    *g = (gpu_graph){.device = d, .references = 1};
    status = make_faults(s, &g->faults);
    if (status) {
        gpu_graph_release(g);
        return status;
    }
    __atomic_store_n(&s->capture, g, __ATOMIC_RELEASE);
    status = driver->graphs->begin(d->handle, s->queue);
    if (status) gpu_stream_leave(s);
    return status;
}

/* All streams of the capture run work again. */
static void leave(gpu_device *d, gpu_graph *g)
{
    pthread_mutex_lock(&d->lock);
    g->is_over = 1;
    for (gpu_stream *s = d->streams; s; s = s->next) {
        if (gpu_stream_capture(s) == g) gpu_stream_leave(s);
    }
    pthread_mutex_unlock(&d->lock);
}

static int32_t graph_end(void *self, void *device, void *stream, void **out_graph)
{
    gpu_device *d = device;
    gpu_stream *s = stream;
    gpu_graph *g = gpu_graph_retain(gpu_stream_capture(s));
    if (!g) return gpu_error(self, TN_E_STATE, "no capture began on this stream");
    int32_t status = driver->graphs->end(d->handle, s->queue, &g->handle);
    leave(d, g);
    if (status)
        gpu_graph_release(g);
    else
        *out_graph = g;
    return status;
}

static void graph_destroy(void *self, void *device, void *graph)
{
    gpu_graph_release(graph);
}

/* ---- Executables --------------------------------------------------------------------------------------------- */

static int32_t graph_instantiate(void *self, void *device, void *graph, const tn_graph_options *options,
                                 void **out_executable)
{
    gpu_device *d = device;
    gpu_graph *g = graph;
    if (options->flags)
        return gpu_error(self, TN_E_UNKNOWN_FIELD, "graph.instantiate: flags %u are not known",
                         options->flags);
    gpu_executable *e = malloc(sizeof *e);
    if (!e) return gpu_error(self, TN_E_OUT_OF_MEMORY, "out of host memory");
    *e = (gpu_executable){.graph = g};
    int32_t status = driver->status(d->handle);
    if (!status) status = driver->graphs->instantiate(d->handle, g->handle, &e->handle);
    if (status) {
        free(e);
        return status;
    }
    pthread_mutex_init(&e->lock, NULL);
    gpu_graph_retain(g);
    *out_executable = e;
    return TN_OK;
}

static int32_t launch_with_faults(gpu_device *d, gpu_executable *e, gpu_stream *s)
{
    void *faults = e->graph->faults;
    int32_t status = driver->copy(d->handle, s->queue, faults, 0, s->faults, 0, FAULT_BYTES);
    if (!status) status = driver->graphs->launch(d->handle, e->handle, s->queue);
    if (!status) status = driver->copy(d->handle, s->queue, s->faults, 0, faults, 0, FAULT_BYTES);
    if (!status) __atomic_store_n(&s->may_have_fault, 1, __ATOMIC_RELEASE);
    return status;
}

/* With the lock held. The event of the launch before is waited for here: where faults are looked for, the copy in front
 * belongs to the launch. */
static int32_t launch_in_order(gpu_device *d, gpu_executable *e, gpu_stream *s, int32_t looks_for_faults)
{
    void *launched = NULL;
    int32_t status = e->launched ? driver->queue_wait(d->handle, s->queue, e->launched) : TN_OK;
    if (!status)
        status = looks_for_faults ? launch_with_faults(d, e, s)
                                  : driver->graphs->launch(d->handle, e->handle, s->queue);
    if (!status) status = driver->event_record(d->handle, s->queue, &launched);
    if (status) return status;
    if (e->launched) driver->event_release(d->handle, e->launched);
    e->launched = launched;
    return TN_OK;
}

static int32_t graph_launch(void *self, void *device, void *executable, void *stream)
{
    gpu_device *d = device;
    gpu_executable *e = executable;
    gpu_stream *s = stream;
    int32_t status = driver->status(d->handle);
    if (!status) status = gpu_stream_check_runs(s, "launching a graph");
    if (status) return status;
    pthread_mutex_lock(&e->lock);
    const int32_t looks_for_faults = __atomic_load_n(&e->graph->looks_for_faults, __ATOMIC_ACQUIRE);
    status = looks_for_faults || driver->graphs->has_no_order
                 ? launch_in_order(d, e, s, looks_for_faults)
                 : driver->graphs->launch(d->handle, e->handle, s->queue);
    pthread_mutex_unlock(&e->lock);
    return status;
}

static int32_t uses_libraries(const gpu_graph *g)
{
    return __atomic_load_n(&g->uses_libraries, __ATOMIC_ACQUIRE);
}

/* Launches that are under way may still write the faults of the graph before, so the last of them is waited for. Kernels of
 * libraries, in either graph, may have clusters of thread blocks, whose size an update keeps as it was. */
static int32_t graph_update(void *self, void *device, void *executable, void *graph)
{
    gpu_device *d = device;
    gpu_executable *e = executable;
    gpu_graph *to = graph;
    int32_t status = driver->status(d->handle);
    if (status) return status;
    if (!driver->graphs->update)
        return gpu_error(self, TN_E_UNSUPPORTED, "executables of graphs cannot be changed");
    pthread_mutex_lock(&e->lock);
    if (uses_libraries(e->graph) || uses_libraries(to))
        status = gpu_error(self, TN_E_UNSUPPORTED, "kernels of a library in an executable cannot be changed");
    if (!status && e->launched) status = driver->event_wait(d->handle, e->launched);
    if (!status) status = driver->graphs->update(d->handle, e->handle, to->handle);
    if (!status) {
        gpu_graph_release(e->graph);
        e->graph = gpu_graph_retain(to);
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

static void destroy_executable(void *self, void *device, void *executable)
{
    gpu_device *d = device;
    gpu_executable *e = executable;
    if (e->launched) driver->event_release(d->handle, e->launched);
    driver->graphs->executable_destroy(d->handle, e->handle);
    gpu_graph_release(e->graph);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

const tn_graph_interface gpu_graph_interface =
    TN_INTERFACE(tn_graph_interface, .begin = graph_begin, .end = graph_end, .destroy = graph_destroy,
                 .instantiate = graph_instantiate, .launch = graph_launch, .update = graph_update,
                 .destroy_executable = destroy_executable);
