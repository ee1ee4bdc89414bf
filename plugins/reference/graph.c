/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs. A stream that captures gives its tasks to a capture, which keeps them in one branch for each
 * stream; an event between branches becomes a wait for a place. Together they are a program, which a launch
 * runs on the thread of its stream. Only waits order the branches: of those whose next task may run the
 * launch takes any, under chaos as the seed draws it. Programs never change and are reference counted, so an
 * update can give an executable another program while earlier launches are still queued.
 */
#include "reference.h"

#include <stdlib.h>
#include <string.h>

/* A task, or, without one, a wait for a place. */
typedef struct node {
    reference_task *task;
    reference_place after;
} node;

typedef struct branch {
    node *nodes;
    uint32_t count;
    uint32_t capacity;
    uint32_t tasks;
    uint32_t reserved;
} branch;

typedef struct program {
    atomic_uint references;
    uint32_t n_branches;
    branch branches[REFERENCE_BRANCHES];
} program;

struct reference_capture {
    reference_state *state;
    reference_device *device;
    atomic_uint references; /* held by the capturing stream, and by events recorded in it */
    int32_t over;
    pthread_mutex_t lock;
    program *program;
    reference_stream *streams[REFERENCE_BRANCHES];
    reference_place known[REFERENCE_BRANCHES]; /* what lies before each branch's next task */
};

typedef struct graph {
    program *program;
} graph;

typedef struct executable {
    pthread_mutex_t lock;
    program *program;
    void *last; /* an event: the end of the last launch */
    uint64_t launches;
} executable;

static void release_program(program *p)
{
    if (!p || atomic_fetch_sub(&p->references, 1) != 1) return;
    for (uint32_t b = 0; b < p->n_branches; b++) {
        for (uint32_t i = 0; i < p->branches[b].count; i++)
            reference_task_destroy(p->branches[b].nodes[i].task);
        free(p->branches[b].nodes);
    }
    free(p);
}

static program *retain_program(program *p)
{
    atomic_fetch_add(&p->references, 1);
    return p;
}

/* ---- Capturing --------------------------------------------------------------------------------------- */

reference_capture *reference_capture_retain(reference_capture *c)
{
    atomic_fetch_add(&c->references, 1);
    return c;
}

void reference_capture_release(reference_capture *c)
{
    if (!c || atomic_fetch_sub(&c->references, 1) != 1) return;
    release_program(c->program);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* With the lock held. 0: no memory. */
static int add_node(branch *b, reference_task *task, const reference_place *after)
{
    if (b->count == b->capacity) {
        uint32_t capacity = b->capacity ? 2 * b->capacity : 16;
        node *grown = realloc(b->nodes, capacity * sizeof(*grown));
        if (!grown) return 0;
        b->nodes = grown;
        b->capacity = capacity;
    }
    b->nodes[b->count++] = (node){task, after ? *after : (reference_place){{0}}};
    b->tasks += task != NULL;
    return 1;
}

static int32_t no_memory(const reference_capture *c)
{
    return reference_error(c->state, TN_E_OUT_OF_MEMORY, "reference: no host memory for a capture");
}

int32_t reference_capture_add(reference_capture *c, uint32_t b, reference_task *task)
{
    pthread_mutex_lock(&c->lock);
    int good = add_node(&c->program->branches[b], task, NULL);
    if (good) c->known[b].at[b]++;
    pthread_mutex_unlock(&c->lock);
    if (good) return TN_OK;
    reference_task_destroy(task);
    return no_memory(c);
}

reference_place reference_capture_place(reference_capture *c, uint32_t b)
{
    pthread_mutex_lock(&c->lock);
    reference_place place = c->known[b];
    pthread_mutex_unlock(&c->lock);
    return place;
}

/* With the lock held; the branch of a stream that joins. */
static int32_t join(reference_capture *c, reference_stream *stream, uint32_t *out_branch)
{
    if (c->program->n_branches == REFERENCE_BRANCHES)
        return reference_error(c->state, TN_E_UNSUPPORTED, "reference: more than %u streams in a capture",
                               REFERENCE_BRANCHES);
    *out_branch = c->program->n_branches++;
    c->streams[*out_branch] = stream;
    reference_stream_set_capture(stream, c, *out_branch);
    return TN_OK;
}

int32_t reference_capture_wait(reference_stream *stream, reference_capture *recorded,
                               const reference_place *place)
{
    uint32_t b;
    reference_capture *own = reference_stream_capture(stream, &b), *c = recorded;
    int32_t status = TN_OK;
    if (own && own != c)
        return reference_error(
            own->state, TN_E_STATE,
            "reference: a stream that captures waits for an event from outside its capture");
    pthread_mutex_lock(&c->lock);
    if (c->over)
        status = reference_error(c->state, TN_E_STATE,
                                 "reference: the event was recorded in a capture that is over");
    if (!status && !own) status = join(c, stream, &b);
    if (!status && !add_node(&c->program->branches[b], NULL, place)) status = no_memory(c);
    for (uint32_t i = 0; !status && i < REFERENCE_BRANCHES; i++)
        if (c->known[b].at[i] < place->at[i]) c->known[b].at[i] = place->at[i];
    pthread_mutex_unlock(&c->lock);
    return status;
}

static int32_t graph_begin(void *self, void *device, void *stream)
{
    int32_t status = reference_stream_check_runs(stream, "graph.begin");
    if (!status) status = reference_check_lost(device);
    if (status) return status;
    reference_capture *c = calloc(1, sizeof(*c));
    program *p = calloc(1, sizeof(*p));
    if (!c || !p) {
        free(c);
        free(p);
        return reference_error(self, TN_E_OUT_OF_MEMORY, "reference: no host memory for a capture");
    }
    atomic_init(&p->references, 1);
    atomic_init(&c->references, 1);
    pthread_mutex_init(&c->lock, NULL);
    c->state = self;
    c->device = device;
    c->program = p;
    uint32_t b;
    return join(c, stream, &b);
}

/* 1 when the first branch knows of all tasks of the others. */
static int is_joined(const reference_capture *c)
{
    for (uint32_t b = 1; b < c->program->n_branches; b++)
        if (c->known[0].at[b] < c->program->branches[b].tasks) return 0;
    return 1;
}

static int32_t graph_end(void *self, void *device, void *stream, void **out_graph)
{
    uint32_t b;
    reference_capture *c = reference_stream_capture(stream, &b);
    if (!c || b) return reference_error(self, TN_E_STATE, "reference: no capture began on this stream");
    graph *g = calloc(1, sizeof(*g));
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->program->n_branches; i++)
        reference_stream_set_capture(c->streams[i], NULL, 0);
    c->over = 1;
    int joined = is_joined(c);
    if (g && joined) {
        g->program = c->program;
        c->program = NULL;
    }
    pthread_mutex_unlock(&c->lock);
    reference_capture_release(c);
    if (g && joined) {
        *out_graph = g;
        return TN_OK;
    }
    free(g);
    if (joined) return reference_error(self, TN_E_OUT_OF_MEMORY, "reference: no host memory for a graph");
    return reference_error(self, TN_E_STATE,
                           "reference: work of a stream that joined the capture was never waited for");
}

static void graph_destroy(void *self, void *device, void *handle)
{
    graph *g = handle;
    release_program(g->program);
    free(g);
}

/* ---- Launching --------------------------------------------------------------------------------------- */

typedef struct launch {
    reference_task task;
    program *program;
    uint64_t random; /* which branch comes first; 0: the first one */
} launch;

static void release_launch(reference_task *task)
{
    release_program(((launch *)task)->program);
}

static int is_reached(const reference_place *after, const uint32_t *done)
{
    for (uint32_t b = 0; b < REFERENCE_BRANCHES; b++)
        if (done[b] < after->at[b]) return 0;
    return 1;
}

/* Runs a task as the stream would. 0: it failed, and the rest of the launch is dropped. */
static int run_task(reference_stream *stream, reference_device *device, reference_task *task)
{
    const char *text = NULL;
    int32_t status = reference_chaos_begin(device, &text);
    if (status) reference_stream_fail(stream, status, text);
    if (status || atomic_load(&device->lost)) return 0;
    task->run(stream, task);
    return !reference_stream_failed(stream);
}

/* Skips the waits of a branch that are reached; returns the task that may run next, or NULL. */
static reference_task *next_task(const branch *b, uint32_t *at, const uint32_t *done)
{
    while (*at < b->count && !b->nodes[*at].task) {
        if (!is_reached(&b->nodes[*at].after, done)) return NULL;
        ++*at;
    }
    return *at < b->count ? b->nodes[*at].task : NULL;
}

static void run_launch(reference_stream *stream, reference_task *task)
{
    const launch *l = (const launch *)task;
    const program *p = l->program;
    uint32_t at[REFERENCE_BRANCHES] = {0}, done[REFERENCE_BRANCHES] = {0}, idle = 0;
    uint64_t random = l->random;
    for (uint32_t b = 0; idle < p->n_branches; b = (b + 1) % p->n_branches) {
        reference_task *next = next_task(&p->branches[b], &at[b], done);
        if (!next) {
            idle++;
            continue;
        }
        idle = 0;
        if (!run_task(stream, reference_stream_device(stream), next)) return;
        at[b]++;
        done[b]++;
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (!l->random || random >> 63) b += p->n_branches - 1; /* the same once more */
    }
}

static int32_t graph_instantiate(void *self, void *device, void *handle, const tn_graph_options *options,
                                 void **out_executable)
{
    executable *e = calloc(1, sizeof(*e));
    if (!e) return reference_error(self, TN_E_OUT_OF_MEMORY, "reference: no host memory for an executable");
    int32_t status = reference_event_interface.create(self, device, 0, &e->last);
    if (status) {
        free(e);
        return status;
    }
    pthread_mutex_init(&e->lock, NULL);
    e->program = retain_program(((graph *)handle)->program);
    *out_executable = e;
    return TN_OK;
}

static void destroy_executable(void *self, void *device, void *handle)
{
    executable *e = handle;
    reference_event_interface.destroy(self, device, e->last);
    release_program(e->program);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* Queues a wait for the previous launch, the program, and an event that marks the end. */
static int32_t push_launch(reference_state *state, void *device, executable *e, reference_stream *stream)
{
    launch *l = reference_task_create(sizeof(*l), run_launch);
    if (!l) return reference_error(state, TN_E_OUT_OF_MEMORY, "reference: no host memory to queue a launch");
    l->program = retain_program(e->program);
    l->task.release = release_launch;
    if (state->chaos.seed) l->random = state->chaos.seed + ++e->launches;
    int32_t status = reference_event_wait(e->last, stream);
    if (status) {
        reference_task_destroy(&l->task);
        return status;
    }
    status = reference_stream_push(stream, &l->task);
    return status ? status : reference_event_interface.record(state, device, e->last, stream);
}

static int32_t graph_launch(void *self, void *device, void *handle, void *stream)
{
    executable *e = handle;
    int32_t status = reference_stream_check_runs(stream, "graph.launch");
    if (status) return status;
    pthread_mutex_lock(&e->lock);
    status = push_launch(self, device, e, stream);
    pthread_mutex_unlock(&e->lock);
    return status;
}

/* ---- Updating ---------------------------------------------------------------------------------------- */

static int is_alike(const node *a, const node *b)
{
    if (!a->task || !b->task) return !a->task && !b->task && !memcmp(&a->after, &b->after, sizeof(a->after));
    return a->task->run == b->task->run && reference_work_kernel(a->task) == reference_work_kernel(b->task);
}

static int are_alike(const program *a, const program *b)
{
    if (a->n_branches != b->n_branches) return 0;
    for (uint32_t i = 0; i < a->n_branches; i++) {
        const branch *x = &a->branches[i], *y = &b->branches[i];
        if (x->count != y->count) return 0;
        for (uint32_t k = 0; k < x->count; k++)
            if (!is_alike(&x->nodes[k], &y->nodes[k])) return 0;
    }
    return 1;
}

static int32_t graph_update(void *self, void *device, void *handle, void *from)
{
    executable *e = handle;
    program *p = ((graph *)from)->program;
    pthread_mutex_lock(&e->lock);
    int alike = are_alike(e->program, p);
    if (alike) {
        retain_program(p);
        release_program(e->program);
        e->program = p;
    }
    pthread_mutex_unlock(&e->lock);
    if (alike) return TN_OK;
    return reference_error(self, TN_E_UNSUPPORTED,
                           "reference: the graph has other operations than the executable");
}

const tn_graph_interface reference_graph_interface =
    TN_INTERFACE(tn_graph_interface, .begin = graph_begin, .end = graph_end, .destroy = graph_destroy,
                 .instantiate = graph_instantiate, .launch = graph_launch, .update = graph_update,
                 .destroy_executable = destroy_executable);
