/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of the libcuda.so.1 for tests. A stream that captures gives its work to a capture, as nodes that know which nodes they
 * follow; an event recorded on it is the set of nodes before it. A launch runs the nodes on the thread of its stream. Of those that
 * may run it takes the last, so that an edge that is missing shows.
 *
 * HIP differs, in the versions 5 to 7 or in some of them (is_hip). Launches of an executable on two streams run at once. A capture whose
 * end fails stays with its streams; once it is broken another may begin in its place, and the end of that one lets go of them. An event
 * keeps the nodes of an earlier capture if there are no others when it is recorded, and stays in a capture that is open when it is recorded
 * outside. An event whose stream captures now belongs to that capture.
 */
#include "driver.h"

static int has(const node_set *s, int i)
{
    return s->bits[i / 64] >> i % 64 & 1;
}

static void put(node_set *s, int i)
{
    s->bits[i / 64] |= (uint64_t)1 << i % 64;
}

static int is_empty(const node_set *s)
{
    static const node_set none;
    return memcmp(s, &none, sizeof none) == 0;
}

static CUgraph retain_graph(CUgraph g)
{
    if (g) g->references++;
    return g;
}

void release_graph(CUgraph g)
{
    if (!g || --g->references) return;
    free(g->nodes);
    free(g);
}

static void release_executable(CUgraphExec e)
{
    if (--e->references) return;
    release_graph(e->graph);
    free(e);
}

/* ---- Captures ----------------------------------------------------------------------------------------------- */

CUgraph capture_of(CUstream s)
{
    return s->capture && s->capture->is_open ? s->capture : NULL;
}

int is_hip;
static uint64_t captures; /* that have begun */

CUresult break_capture(CUgraph g, CUresult result)
{
    g->is_broken = 1;
    return result;
}

/* The stream may be gone. */
static CUstream find_stream(CUstream s)
{
    CUstream found = streams;
    while (found && found != s) found = found->next;
    return found;
}

/* The capture, if there is one, in which HIP takes an event to be that was recorded outside. */
CUgraph capture_that_refuses(const struct CUevent_st *e)
{
    const CUstream s = is_hip ? find_stream(e->stream) : NULL;
    const CUgraph g = s ? capture_of(s) : NULL;
    return g && !g->is_broken ? g : NULL;
}

/* A node behind those of `after`. */
static int add_node(CUgraph g, const work *w, const node_set *after)
{
    if (g->n_nodes % 64 == 0) g->nodes = realloc(g->nodes, (size_t)(g->n_nodes + 64) * sizeof *g->nodes);
    node *n = &g->nodes[g->n_nodes];
    *n = (node){.work = *w};
    for (int i = 0; i < g->n_nodes; i++) {
        if (!has(after, i)) continue;
        if (n->n_follows == 8 || g->n_nodes + 1 == NODES) {
            fprintf(stderr, "libcuda for tests: a graph is too large\n");
            abort();
        }
        n->follows[n->n_follows++] = i;
    }
    return g->n_nodes++;
}

CUresult capture_work(CUstream s, work w)
{
    CUgraph g = s->capture;
    if (g->is_broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (w.kind == RECORD) {
        release_graph(w.event->capture);
        w.event->capture = retain_graph(g);
        if (is_hip && is_empty(&s->before)) return CUDA_SUCCESS;
        w.event->before = s->before;
        w.event->before_of = g->number;
        return CUDA_SUCCESS;
    }
    int i = add_node(g, &w, &s->before);
    s->before = (node_set){{0}};
    put(&s->before, i);
    return CUDA_SUCCESS;
}

/* A stream waits for an event, and one of the two is of a capture. */
CUresult capture_wait(CUstream s, CUevent e)
{
    CUgraph own = capture_of(s), g = e->capture;
    if (!g) return break_capture(own, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (!g->is_open) return CUDA_ERROR_CAPTURED_EVENT;
    if (own && own != g) {
        own->is_broken = 1;
        return break_capture(g, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (g->is_broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (e->before_of && e->before_of != g->number) return break_capture(g, CUDA_ERROR_INVALID_VALUE);
    if (!own) {
        s->capture = retain_graph(g);
        s->before = (node_set){{0}};
    }
    for (size_t k = 0; k < NODES / 64; k++) s->before.bits[k] |= e->before.bits[k];
    return CUDA_SUCCESS;
}

CUresult captured(CUevent e)
{
    return e->capture->is_open ? break_capture(e->capture, CUDA_ERROR_CAPTURED_EVENT)
                               : CUDA_ERROR_CAPTURED_EVENT;
}

static __thread CUstreamCaptureMode mode_of_thread = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* As the documentation of cuThreadExchangeStreamCaptureMode says. */
static int forbids(const struct CUgraph_st *g)
{
    if (mode_of_thread == CU_STREAM_CAPTURE_MODE_RELAXED) return 0;
    if (pthread_equal(g->thread, pthread_self())) return g->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return g->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && mode_of_thread == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

/*
 * NVIDIA names few of the calls that captures forbid. Here it is all that the order of streams does not cover: what allocates, loads,
 * maps, waits, asks, makes or destroys. Under the lock.
 */
CUresult unsafe(const char *function)
{
    static const char *const beginnings[] = {"cuMemAlloc",
                                             "cuMemFree",
                                             "cuMemHostAlloc",
                                             "cuMemCreate",
                                             "cuMemRelease",
                                             "cuMemAddress",
                                             "cuMemMap",
                                             "cuMemUnmap",
                                             "cuMemSetAccess",
                                             "cuMemExport",
                                             "cuMemImport",
                                             "cuMemGetInfo",
                                             "cuModule",
                                             "cuEventQuery",
                                             "cuEventSynchronize",
                                             "cuEventElapsedTime",
                                             "cuStreamQuery",
                                             "cuStreamCreate",
                                             "cuStreamSynchronize",
                                             "cuStreamDestroy",
                                             "cuGraphExec",
                                             "cuIpc",
                                             "cuGraphInstantiate",
                                             "cuGraphDestroy",
                                             "cuDevicePrimaryCtx",
                                             "cuEventCreate",
                                             "cuEventDestroy",
                                             "cuCtxEnablePeerAccess"};
    int is_unsafe = 0;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        is_unsafe |= strncmp(function, beginnings[i], strlen(beginnings[i])) == 0;
    for (CUstream s = streams; s && is_unsafe; s = s->next)
        if (capture_of(s) && forbids(s->capture))
            return break_capture(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    BEGIN(0)
    const CUstreamCaptureMode before = mode_of_thread;
    mode_of_thread = *mode;
    *mode = before;
    END
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *out)
{
    BEGIN(1)
    REFUSE(!find_stream(stream), CUDA_ERROR_INVALID_HANDLE)
    const CUgraph g = capture_of(stream);
    *out = !g             ? CU_STREAM_CAPTURE_STATUS_NONE
           : g->is_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                          : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    END
}

/* In the place of the capture that is broken. */
static void begin_again(CUgraph g, CUstreamCaptureMode mode)
{
    g->number = ++captures;
    g->mode = mode;
    g->thread = pthread_self();
    g->is_broken = g->n_nodes = 0;
    for (CUstream s = streams; s; s = s->next)
        if (s->capture == g) s->before = (node_set){{0}};
}

EXPORT CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    BEGIN(1)
    REFUSE((uintptr_t)stream <= (uintptr_t)CU_STREAM_LEGACY, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    stream = stream_of(c, stream);
    REFUSE(!stream, CUDA_ERROR_INVALID_HANDLE)
    CUgraph g = capture_of(stream);
    REFUSE(g && !(is_hip && g->is_broken), CUDA_ERROR_ILLEGAL_STATE)
    if (g) {
        begin_again(g, mode);
        goto end;
    }
    g = calloc(1, sizeof *g);
    *g = (struct CUgraph_st){.context = c,
                             .number = ++captures,
                             .references = 1,
                             .is_open = 1,
                             .mode = mode,
                             .thread = pthread_self(),
                             .origin = stream};
    release_graph(stream->capture);
    stream->capture = g;
    stream->before = (node_set){{0}};
    END
}

/* Whether every node comes before the next work of the origin. */
static int is_joined(const struct CUgraph_st *g)
{
    node_set reached = g->origin->before;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        if (!has(&reached, i)) return 0;
        for (int k = 0; k < g->nodes[i].n_follows; k++) put(&reached, g->nodes[i].follows[k]);
    }
    return 1;
}

/* The streams of the capture run work again. */
static void close_capture(CUgraph g)
{
    g->is_open = 0;
    for (CUstream s = streams; s; s = s->next) {
        if (s->capture != g) continue;
        s->capture = NULL;
        release_graph(g);
    }
}

/* A failure ends the capture, too, but of HIP's. */
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *out)
{
    CUresult failure = enter(__func__, 1), result = failure;
    CUcontext c = depth ? current[depth - 1] : NULL;
    stream = c ? stream_of(c, stream) : NULL;
    REFUSE(!stream, CUDA_ERROR_INVALID_HANDLE)
    CUgraph g = retain_graph(capture_of(stream));
    REFUSE(!g, CUDA_ERROR_ILLEGAL_STATE)
    const int is_elsewhere =
        g->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(g->thread, pthread_self());
    result = g->origin != stream ? break_capture(g, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
             : is_elsewhere      ? break_capture(g, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
             : g->is_broken      ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
             : is_joined(g)      ? failure
                                 : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *out = NULL;
    if (g->origin == stream && !(is_hip && result)) close_capture(g);
    if (result) {
        release_graph(g);
    } else {
        *out = g;
        c->live++;
    }
    END
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    BEGIN(0)
    *count = (size_t)graph->n_nodes;
    END
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    BEGIN(0)
    graph->context->live--;
    release_graph(graph);
    END
}

/* ---- Executables -------------------------------------------------------------------------------------------- */

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    BEGIN(1)
    REFUSE(flags, CUDA_ERROR_INVALID_VALUE)
    CUgraphExec e = calloc(1, sizeof *e);
    *e = (struct CUgraphExec_st){.graph = retain_graph(graph), .references = 1};
    c->live++;
    *out = e;
    END
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    BEGIN(0)
    executable->graph->context->live--;
    release_executable(executable);
    END
}

EXPORT CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    BEGIN(1)
    stream = stream_of(c, stream);
    REFUSE(!stream || executable->graph->context != c, CUDA_ERROR_INVALID_HANDLE)
    REFUSE(capture_of(stream), break_capture(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED))
    executable->references++;
    result = queue(c, stream,
                   (work){.kind = GRAPH,
                          .executable = executable,
                          .graph = retain_graph(executable->graph),
                          .awaited = executable->stream,
                          .awaited_number = executable->number,
                          .record = executable->launched++});
    executable->stream = stream;
    executable->number = stream->queued;
    END
}

/* The same kinds of work with the same kernels behind the same nodes. */
static CUgraphExecUpdateResult compare(const struct CUgraph_st *a, const struct CUgraph_st *b)
{
    if (a->n_nodes != b->n_nodes) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (int i = 0; i < a->n_nodes; i++) {
        const node *x = &a->nodes[i], *y = &b->nodes[i];
        if (x->n_follows != y->n_follows ||
            memcmp(x->follows, y->follows, (size_t)x->n_follows * sizeof *x->follows) != 0)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (x->work.kind != y->work.kind) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (x->work.kernel != y->work.kernel) return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

EXPORT CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    BEGIN(1)
    info->result = compare(executable->graph, graph);
    REFUSE(info->result, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
    release_graph(executable->graph);
    executable->graph = retain_graph(graph);
    END
}

/* Runs all nodes, of those whose predecessors are done the last one first. Under the lock, which work lets go of. */
void run_graph(CUstream s, work *w)
{
    const struct CUgraph_st *g = w->graph;
    node_set done = {{0}};
    while (!is_hip && w->executable->finished < w->record && !s->context->sticky) {
        if (s->asked >= w->number) ask(w->awaited, w->awaited_number);
        pthread_cond_wait(&changed, &lock);
    }
    for (int left = g->n_nodes; left > 0; left--) {
        int i = g->n_nodes, may_run = 0;
        while (!may_run) {
            may_run = !has(&done, --i);
            for (int k = 0; k < g->nodes[i].n_follows; k++) may_run &= has(&done, g->nodes[i].follows[k]);
        }
        g->nodes[i].work.call = w->call;
        run(s, &g->nodes[i].work);
        put(&done, i);
    }
    w->executable->finished++;
    release_executable(w->executable);
    release_graph(w->graph);
}
