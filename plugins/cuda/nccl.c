/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives interface by NCCL, or by RCCL in the HIP plugin, which compiles this file, too. The library is opened when a
 * communicator or an id is first asked for. All ranks of this process are queued as one group: a thread that queued one rank after
 * the other would wait for itself.
 */
#include "nccl.h"
#include "cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
#define DECLARE(result, name, arguments) result(*name) arguments;
    NCCL_FUNCTIONS(DECLARE)
#undef DECLARE
    const char *(*ncclGetLastError)(void *communicator); /* NULL: the library is older than 2.13 */
    char reason[512];                                    /* why it is not used; "": it is */
} nccl;

/* What a rank of this process has beside its communicator of NCCL. */
typedef struct member {
    cuda_device *device;
    void *comm;
    void *
        scratch; /* a number for barriers, a byte to send at the first meeting, a byte from each rank of the process */
    void *queue; /* of that meeting */
} member;

enum { NUMBER_AT = 0, SENT_AT = 8, RECEIVED_AT = 16, SCRATCH = 128 };

typedef struct communicator {
    gpu_plugin *plugin;
    uint32_t count, first, world;
    int32_t has_met; /* ranks of this process have sent to each other */
    int32_t failed;  /* the result of a call that may have begun, else NCCL_SUCCESS */
    const char *failed_at;
    member members[]; /* `count` */
} communicator;

/* ---- The library and its results ---------------------------------------------------------------------------- */

static void load(void)
{
    int version = 0;
    char wrong[400];
    void *library = gpu_dlopen(VENDOR_COLLECTIVES, wrong, sizeof wrong);
    if (!library) {
        snprintf(nccl.reason, sizeof nccl.reason, "%s: there are no collectives",
                 wrong[0] ? wrong : VENDOR_COLLECTIVES " not found");
        return;
    }
#define LOAD(result, name, arguments)                                                              \
    *(void **)(void *)&nccl.name = dlsym(library, #name);                                          \
    if (!nccl.name) {                                                                              \
        snprintf(nccl.reason, sizeof nccl.reason,                                                  \
                 VENDOR_COLLECTIVES " has no %s, it is too old: there are no collectives", #name); \
        return;                                                                                    \
    }
    NCCL_FUNCTIONS(LOAD)
#undef LOAD
    *(void **)(void *)&nccl.ncclGetLastError = dlsym(library, "ncclGetLastError");
    int result = nccl.ncclGetVersion(&version);
    if (result)
        snprintf(nccl.reason, sizeof nccl.reason, "ncclGetVersion of " VENDOR_COLLECTIVES " failed: %s",
                 nccl.ncclGetErrorString(result));
    else if (version < NCCL_LEAST)
        snprintf(nccl.reason, sizeof nccl.reason,
                 VENDOR_COLLECTIVES " has version %d, the plugin needs %d: there are no collectives", version,
                 NCCL_LEAST);
}

static int32_t need_library(const gpu_plugin *plugin)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return nccl.reason[0] ? gpu_error(plugin, TN_E_UNSUPPORTED, "%s", nccl.reason) : TN_OK;
}

/* Records the error of a result; `comm` may be NULL. */
static int32_t refuse(const gpu_plugin *plugin, void *comm, int result, const char *what)
{
    static const char *const names[NCCL_RESULTS] = {
        "ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
        "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
        "ncclRemoteError",   "ncclInProgress",         "ncclTimeout"};
    const char *name = result > 0 && result < NCCL_RESULTS ? names[result] : "unknown result";
    const char *more = nccl.ncclGetLastError ? nccl.ncclGetLastError(comm) : NULL;
    return gpu_error_native(plugin, result == NCCL_REMOTE_ERROR ? TN_E_STATE : TN_E_INTERNAL, result, name,
                            "%s failed: %s (%s)%s%s", what, name, nccl.ncclGetErrorString(result),
                            more && *more ? ": " : "", more && *more ? more : "");
}

/* The same for calls that may have begun. The drivers of all ranks are asked first: a fault that stays with a context is
 * TN_E_DEVICE_LOST, whatever the library calls it. */
static int32_t refuse_work(const communicator *c, void *comm, int result, const char *what)
{
    for (uint32_t i = 0; i < c->count; i++) {
        int32_t done;
        const member *m = &c->members[i];
        if (gpu_the_driver.queue_query(m->device, m->queue, &done) == TN_E_DEVICE_LOST)
            return TN_E_DEVICE_LOST;
    }
    return refuse(c->plugin, comm, result, what);
}

/* ---- Groups ------------------------------------------------------------------------------------------------- */

/* Calls of NCCL that are queued together. */
typedef struct group {
    communicator *c;
    int32_t was_entered;
    int result;       /* the first that is not NCCL_SUCCESS */
    const char *what; /* the function that gave it */
} group;

#define TRY(g, function, ...)                         \
    do {                                              \
        if (!(g)->result) {                           \
            (g)->result = nccl.function(__VA_ARGS__); \
            (g)->what = #function;                    \
        }                                             \
    } while (0)

/* NCCL makes devices current as it needs them, and the first one when it has finished. */
static int32_t begin(communicator *c, group *g)
{
    int32_t status = TN_OK;
    *g = (group){.c = c};
    for (uint32_t i = 0; i < c->count && !status; i++) status = gpu_the_driver.status(c->members[i].device);
    if (status) return status;
    g->was_entered = cuda_enter(c->members[0].device);
    if (g->was_entered < 0)
        return cuda_check(c->members[0].device, CUDA_ERROR_INVALID_CONTEXT, "a call of " VENDOR_NCCL);
    TRY(g, ncclGroupStart);
    if (!g->result) return TN_OK;
    cuda_leave(c->members[0].device, g->was_entered);
    return refuse(c->plugin, NULL, g->result, g->what);
}

/* After a failure ranks may have begun, and others not. */
static int32_t end(group *g)
{
    communicator *c = g->c;
    int result = nccl.ncclGroupEnd();
    cuda_leave(c->members[0].device, g->was_entered);
    if (!g->result) {
        g->result = result;
        g->what = "ncclGroupEnd";
    }
    if (!g->result) return TN_OK;
    c->failed = g->result;
    c->failed_at = g->what;
    return refuse_work(c, c->members[0].comm, g->result, g->what);
}

static const char *from_of(const tn_collective_rank *r)
{
    return (const char *)r->from + r->from_offset;
}

static char *to_of(const tn_collective_rank *r)
{
    return (char *)r->to + r->to_offset;
}

static void *stream_of(const tn_collective_rank *r)
{
    return (void *)cuda_stream_of(((const gpu_stream *)r->stream)->queue);
}

/* How NCCL reduces a dtype: bools are bytes whose largest is "any", complex numbers are summed as pairs. */
typedef struct form {
    int type, reduction;
    uint32_t parts; /* elements of NCCL for one of ours; 0: NCCL does not reduce it */
} form;

/* What the ranks of a call do: `count` elements of `form`, and the root. */
typedef struct plan {
    form form;
    uint64_t count;
    uint32_t root;
} plan;
typedef void queue_rank(group *g, uint32_t i, const tn_collective_rank *r, const plan *p);

/* One call of each rank of this process, as a group. */
static int32_t queue_all(communicator *c, const tn_collective_rank *ranks, uint32_t rank_bytes,
                         queue_rank *queue, const plan *p)
{
    group g;
    int32_t status = begin(c, &g);
    if (status) return status;
    for (uint32_t i = 0; i < c->count; i++) {
        const char *rank = ranks ? (const char *)ranks + (size_t)i * rank_bytes : NULL;
        queue(&g, i, (const tn_collective_rank *)rank, p);
    }
    return end(&g);
}

/* ---- Life --------------------------------------------------------------------------------------------------- */

static int32_t unique_id(void *self, void *id, uint64_t room, uint64_t *out_bytes)
{
    nccl_id made;
    int32_t status = need_library(self);
    if (status) return status;
    if (room < sizeof made)
        return gpu_error(self, TN_E_ARGUMENT,
                         "an id of " VENDOR_NCCL " has %zu bytes; there is room for %llu", sizeof made,
                         (unsigned long long)room);
    int result = nccl.ncclGetUniqueId(&made);
    if (result) return refuse(self, NULL, result, "ncclGetUniqueId");
    memcpy(id, &made, sizeof made);
    *out_bytes = sizeof made;
    return TN_OK;
}

/* Gives back all that the members have. Ends the calls under way if `is_broken`; the first failure of it. */
static int let_go(communicator *c, int32_t is_broken)
{
    int first = NCCL_SUCCESS;
    for (uint32_t i = 0; i < c->count; i++) {
        member *m = &c->members[i];
        if (!m->comm) continue;
        int32_t was_entered = cuda_enter(m->device);
        int result = is_broken ? nccl.ncclCommAbort(m->comm) : nccl.ncclCommDestroy(m->comm);
        cuda_leave(m->device, was_entered);
        m->comm = NULL;
        if (!first) first = result;
    }
    return first;
}

static void destroy(void *self, void *handle)
{
    communicator *c = handle;
    int32_t is_broken = c->failed != NCCL_SUCCESS;
    for (uint32_t i = 0; i < c->count && !is_broken; i++) /* the host has waited for all other queues */
        if (c->members[i].comm)
            is_broken = gpu_the_driver.queue_finish(c->members[i].device, c->members[i].queue) != TN_OK;
    (void)let_go(c, is_broken);
    for (uint32_t i = 0; i < c->count; i++) {
        member *m = &c->members[i];
        if (m->queue) gpu_the_driver.queue_destroy(m->device, m->queue);
        if (m->scratch) gpu_the_driver.free(m->device, m->scratch);
    }
    free(c);
}

/* NCCL reads and writes memory of other ranks of the process where it lies. It gives contexts access to each other, which does not cover
 * memory that is mapped. */
static int32_t open_peers(const communicator *c)
{
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < c->count * c->count && !status; i++) {
        cuda_device *d = c->members[i / c->count].device, *other = c->members[i % c->count].device;
        int can = 0;
        if (d != other && d->cu->cuDeviceCanAccessPeer(&can, d->id, other->id) == CUDA_SUCCESS && can)
            status = cuda_open_peer(d, other);
    }
    return status;
}

static int32_t join(communicator *c, const nccl_id *id)
{
    group g;
    int32_t status = begin(c, &g);
    if (status) return status;
    for (uint32_t i = 0; i < c->count; i++) {
        member *m = &c->members[i];
        int32_t was_entered = cuda_enter(m->device);
        TRY(&g, ncclCommInitRank, &m->comm, (int)c->world, *id, (int)(c->first + i));
        cuda_leave(m->device, was_entered);
    }
    return end(&g);
}

static int32_t create(void *self, const tn_communicator_options *options, void **out)
{
    nccl_id id;
    int32_t status = need_library(self);
    if (status) return status;
    if (options->world > options->count) {
        if (options->id_bytes != sizeof id)
            return gpu_error(self, TN_E_ARGUMENT, "the id has %llu bytes; an id of " VENDOR_NCCL " has %zu",
                             (unsigned long long)options->id_bytes, sizeof id);
        memcpy(&id, options->id, sizeof id);
    } else {
        int result = nccl.ncclGetUniqueId(&id);
        if (result) return refuse(self, NULL, result, "ncclGetUniqueId");
    }
    communicator *c = calloc(1, sizeof *c + options->count * sizeof *c->members);
    if (!c) return gpu_error(self, TN_E_OUT_OF_MEMORY, "out of host memory");
    *c = (communicator){
        .plugin = self, .count = options->count, .first = options->first_rank, .world = options->world};
    for (uint32_t i = 0; i < c->count && !status; i++) {
        member *m = &c->members[i];
        m->device = ((gpu_device *)options->devices[i])->handle;
        status = gpu_the_driver.alloc(m->device, SCRATCH, &m->scratch);
        if (!status) status = gpu_the_driver.queue_create(m->device, 0, &m->queue);
    }
    if (!status) status = open_peers(c);
    if (!status) status = join(c, &id);
    if (status)
        destroy(self, c);
    else
        *out = c;
    return status;
}

static int32_t status_of(void *self, void *handle)
{
    communicator *c = handle;
    if (c->failed) return refuse(self, c->members[0].comm, c->failed, c->failed_at);
    for (uint32_t i = 0; i < c->count; i++) {
        const member *m = &c->members[i];
        int late = NCCL_SUCCESS;
        int32_t status = gpu_the_driver.status(m->device);
        if (status) return status;
        if (!m->comm) return gpu_error(self, TN_E_STATE, "the communicator was aborted");
        int result = nccl.ncclCommGetAsyncError(m->comm, &late);
        if (result) return refuse(self, m->comm, result, "ncclCommGetAsyncError");
        if (late && late != NCCL_IN_PROGRESS) {
            c->failed = late;
            c->failed_at = "a call that was queued before";
            return refuse_work(c, m->comm, late, c->failed_at);
        }
    }
    return TN_OK;
}

static int32_t end_calls(void *self, void *handle)
{
    int result = let_go(handle, 1);
    return result ? refuse(self, NULL, result, "ncclCommAbort") : TN_OK;
}

/* ---- Reductions --------------------------------------------------------------------------------------------- */

static form form_of(tn_dtype dtype, uint32_t reduction)
{
    static const int reductions[] = {NCCL_SUM, NCCL_PRODUCT, NCCL_MIN, NCCL_MAX, NCCL_AVERAGE};
    const int own = reductions[reduction];
    const uint32_t is_linear = reduction == TN_REDUCE_SUM || reduction == TN_REDUCE_AVERAGE;
    switch (dtype) {
    case TN_BOOL:
        if (reduction == TN_REDUCE_AVERAGE) return (form){0};
        return (form){NCCL_UINT8,
                      reduction == TN_REDUCE_SUM || reduction == TN_REDUCE_MAX ? NCCL_MAX : NCCL_MIN, 1};
    case TN_INT8:
        return (form){NCCL_INT8, own, 1};
    case TN_UINT8:
        return (form){NCCL_UINT8, own, 1};
    case TN_INT32:
        return (form){NCCL_INT32, own, 1};
    case TN_UINT32:
        return (form){NCCL_UINT32, own, 1};
    case TN_INT64:
        return (form){NCCL_INT64, own, 1};
    case TN_UINT64:
        return (form){NCCL_UINT64, own, 1};
    case TN_FLOAT16:
        return (form){NCCL_FLOAT16, own, 1};
    case TN_BFLOAT16:
        return (form){NCCL_BFLOAT16, own, 1};
    case TN_FLOAT32:
        return (form){NCCL_FLOAT32, own, 1};
    case TN_FLOAT64:
        return (form){NCCL_FLOAT64, own, 1};
    case TN_COMPLEX64:
        return (form){NCCL_FLOAT32, own, is_linear ? 2 : 0};
    case TN_COMPLEX128:
        return (form){NCCL_FLOAT64, own, is_linear ? 2 : 0};
    default:
        return (form){0};
    }
}

static int32_t supports(void *self, tn_dtype dtype, uint32_t reduction)
{
    return form_of(dtype, reduction).parts != 0;
}

static void all_reduce_rank(group *g, uint32_t i, const tn_collective_rank *r, const plan *p)
{
    TRY(g, ncclAllReduce, from_of(r), to_of(r), p->count * p->form.parts, p->form.type, p->form.reduction,
        g->c->members[i].comm, stream_of(r));
}

static int32_t all_reduce(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                          uint64_t count, tn_dtype dtype, uint32_t reduction)
{
    const plan p = {.form = form_of(dtype, reduction), .count = count};
    return queue_all(handle, ranks, rank_bytes, all_reduce_rank, &p);
}

static void reduce_scatter_rank(group *g, uint32_t i, const tn_collective_rank *r, const plan *p)
{
    TRY(g, ncclReduceScatter, from_of(r), to_of(r), p->count * p->form.parts, p->form.type, p->form.reduction,
        g->c->members[i].comm, stream_of(r));
}

static int32_t reduce_scatter(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                              uint64_t count, tn_dtype dtype, uint32_t reduction)
{
    const plan p = {.form = form_of(dtype, reduction), .count = count};
    return queue_all(handle, ranks, rank_bytes, reduce_scatter_rank, &p);
}

/* The streams wait for the sum of a number that nobody reads. */
static void barrier_rank(group *g, uint32_t i, const tn_collective_rank *r, const plan *p)
{
    char *number = (char *)g->c->members[i].scratch + NUMBER_AT;
    TRY(g, ncclAllReduce, number, number, 1, NCCL_INT32, NCCL_SUM, g->c->members[i].comm, stream_of(r));
}

static int32_t barrier(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes)
{
    return queue_all(handle, ranks, rank_bytes, barrier_rank, NULL);
}

/* ---- Copies ------------------------------------------------------------------------------------------------- */

/* Ranks other than the root read nothing of theirs. */
static void broadcast_rank(group *g, uint32_t i, const tn_collective_rank *r, const plan *p)
{
    TRY(g, ncclBroadcast, g->c->first + i == p->root ? from_of(r) : to_of(r), to_of(r), p->count, NCCL_UINT8,
        (int)p->root, g->c->members[i].comm, stream_of(r));
}

static int32_t broadcast(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                         uint64_t bytes, uint32_t root)
{
    return queue_all(handle, ranks, rank_bytes, broadcast_rank, &(plan){.count = bytes, .root = root});
}

static void all_gather_rank(group *g, uint32_t i, const tn_collective_rank *r, const plan *p)
{
    TRY(g, ncclAllGather, from_of(r), to_of(r), p->count, NCCL_UINT8, g->c->members[i].comm, stream_of(r));
}

static int32_t all_gather(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                          uint64_t bytes)
{
    return queue_all(handle, ranks, rank_bytes, all_gather_rank, &(plan){.count = bytes});
}

static void exchange_rank(group *g, uint32_t i, const tn_collective_rank *r, const plan *p)
{
    void *comm = g->c->members[i].comm;
    for (uint32_t other = 0; other < g->c->world; other++) {
        TRY(g, ncclSend, from_of(r) + other * p->count, p->count, NCCL_UINT8, (int)other, comm, stream_of(r));
        TRY(g, ncclRecv, to_of(r) + other * p->count, p->count, NCCL_UINT8, (int)other, comm, stream_of(r));
    }
}

static int32_t all_to_all(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                          uint64_t bytes)
{
    return queue_all(handle, ranks, rank_bytes, exchange_rank, &(plan){.count = bytes});
}

static void meet_rank(group *g, uint32_t i, const tn_collective_rank *r, const plan *p)
{
    const member *m = &g->c->members[i];
    void *stream = (void *)cuda_stream_of(m->queue);
    for (uint32_t k = 0; k < g->c->count; k++) {
        if (k == i) continue;
        TRY(g, ncclSend, (char *)m->scratch + SENT_AT, 1, NCCL_UINT8, (int)(g->c->first + k), m->comm,
            stream);
        TRY(g, ncclRecv, (char *)m->scratch + RECEIVED_AT + k, 1, NCCL_UINT8, (int)(g->c->first + k), m->comm,
            stream);
    }
}

/*
 * When two ranks first send to each other, NCCL connects them, and the host waits for both. If both are of this process, and
 * a thread sends and then receives, it would wait for ever: so all ranks of the process send a byte in one group before.
 */
static int32_t meet(communicator *c, uint32_t a, uint32_t b)
{
    if (c->has_met || a - c->first >= c->count || b - c->first >= c->count) return TN_OK;
    int32_t status = queue_all(c, NULL, 0, meet_rank, NULL);
    c->has_met = !status;
    return status;
}

static int32_t send(void *self, void *handle, const tn_collective_rank *rank, uint32_t from_rank,
                    uint32_t to_rank, uint64_t bytes)
{
    communicator *c = handle;
    group g;
    int32_t status = meet(c, from_rank, to_rank);
    if (!status) status = begin(c, &g);
    if (status) return status;
    TRY(&g, ncclSend, from_of(rank), bytes, NCCL_UINT8, (int)to_rank, c->members[from_rank - c->first].comm,
        stream_of(rank));
    return end(&g);
}

static int32_t receive(void *self, void *handle, const tn_collective_rank *rank, uint32_t to_rank,
                       uint32_t from_rank, uint64_t bytes)
{
    communicator *c = handle;
    group g;
    int32_t status = meet(c, to_rank, from_rank);
    if (!status) status = begin(c, &g);
    if (status) return status;
    TRY(&g, ncclRecv, to_of(rank), bytes, NCCL_UINT8, (int)from_rank, c->members[to_rank - c->first].comm,
        stream_of(rank));
    return end(&g);
}

const tn_collectives_interface cuda_collectives = TN_INTERFACE(
    tn_collectives_interface, .send = send, .receive = receive, .supports = supports, .unique_id = unique_id,
    .create = create, .destroy = destroy, .status = status_of, .abort = end_calls, .all_reduce = all_reduce,
    .broadcast = broadcast, .all_gather = all_gather, .reduce_scatter = reduce_scatter,
    .all_to_all = all_to_all, .barrier = barrier);
