/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives. Each rank's stream gets a task; the tasks of one call meet: the last one to come does the work
 * of all, one element at a time, while the others wait, so that nobody's memory is touched before its stream
 * is there and no stream goes on too early. Who comes asks for the others, as a waiting host would. A rank
 * whose task is dropped or fails comes all the same and says so; then all fail.
 */
#include "element.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct meeting meeting;

typedef struct communicator {
    atomic_uint references; /* the host's, and one of each meeting */
    uint32_t count;
    int32_t code; /* of the first call that failed */
    int32_t reserved;
    pthread_mutex_t lock;
    meeting *meetings; /* queued or under way */
    reference_device *devices[REFERENCE_MAX_DEVICES];
    char text[192];
} communicator;

struct meeting {
    communicator *of;
    meeting *next; /* in the communicator, under its lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_uint references;
    uint32_t count; /* ranks that take part */
    uint32_t arrived;
    int32_t done;
    int32_t cancelled; /* set if not all ranks were queued: nothing is done */
    int32_t code;      /* of the first rank that failed */
    char text[192];
    reference_stream *streams[REFERENCE_MAX_DEVICES]; /* NULL: the rank has arrived */
    uint64_t numbers[REFERENCE_MAX_DEVICES];          /* of the tasks there */
    void (*work)(const meeting *m);                   /* NULL: a barrier */
    char *to[REFERENCE_MAX_DEVICES];
    const char *from[REFERENCE_MAX_DEVICES];
    uint64_t length; /* elements or bytes */
    tn_dtype dtype;
    uint32_t reduction;
    uint32_t root;
    uint32_t reserved;
};

typedef struct rank_task {
    reference_task task;
    meeting *meeting;
    reference_device *device;
    uint32_t rank;
    uint32_t reserved;
} rank_task;

/* ---- Arithmetic -------------------------------------------------------------------------------------- */

static number add(number a, number b)
{
    if (a.domain <= DOMAIN_SIGNED) {
        a.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i);
        return a;
    }
    a.re += b.re;
    a.im += b.im;
    return a;
}

static number multiply(number a, number b)
{
    if (a.domain <= DOMAIN_SIGNED) {
        a.i = (int64_t)((uint64_t)a.i * (uint64_t)b.i);
        return a;
    }
    if (a.domain == DOMAIN_REAL) return number_real(a.re * b.re);
    return number_complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}

static number lesser(number a, number b, int sign)
{
    if (number_is_nan(a)) return a;
    if (number_is_nan(b)) return b;
    return number_compare(a, b) * sign <= 0 ? a : b;
}

static number combine(tn_dtype dtype, uint32_t reduction, number a, number b)
{
    if (dtype == TN_BOOL) {
        int any = reduction == TN_REDUCE_SUM || reduction == TN_REDUCE_MAX;
        return number_bool(any ? a.i || b.i : a.i && b.i);
    }
    switch (reduction) {
    case TN_REDUCE_PRODUCT:
        return multiply(a, b);
    case TN_REDUCE_MIN:
        return lesser(a, b, 1);
    case TN_REDUCE_MAX:
        return lesser(a, b, -1);
    default:
        return add(a, b);
    }
}

/* Element i reduced over all `from`, rounded once. */
static number reduced(const meeting *m, uint64_t i)
{
    uint64_t at = i * (uint64_t)tn_dtype_bytes(m->dtype);
    number sum = element_load(m->dtype, m->from[0] + at);
    for (uint32_t r = 1; r < m->count; r++)
        sum = combine(m->dtype, m->reduction, sum, element_load(m->dtype, m->from[r] + at));
    if (m->reduction == TN_REDUCE_AVERAGE) {
        sum.re /= m->count;
        sum.im /= m->count;
    }
    return sum;
}

static void work_all_reduce(const meeting *m)
{
    uint64_t item = (uint64_t)tn_dtype_bytes(m->dtype);
    for (uint64_t i = 0; i < m->length; i++) {
        number sum = reduced(m, i);
        for (uint32_t r = 0; r < m->count; r++) element_store(m->dtype, m->to[r] + i * item, sum);
    }
}

static void work_reduce_scatter(const meeting *m)
{
    uint64_t item = (uint64_t)tn_dtype_bytes(m->dtype);
    for (uint32_t r = 0; r < m->count; r++) {
        for (uint64_t i = 0; i < m->length; i++)
            element_store(m->dtype, m->to[r] + i * item, reduced(m, r * m->length + i));
    }
}

static void work_broadcast(const meeting *m)
{
    for (uint32_t r = 0; r < m->count; r++)
        if (m->to[r] != m->from[m->root]) memmove(m->to[r], m->from[m->root], m->length);
}

static void work_all_to_all(const meeting *m)
{
    for (uint32_t r = 0; r < m->count; r++) {
        for (uint32_t k = 0; k < m->count; k++)
            memcpy(m->to[r] + k * m->length, m->from[k] + r * m->length, m->length);
    }
}

static void work_all_gather(const meeting *m)
{
    for (uint32_t r = 0; r < m->count; r++) {
        for (uint32_t k = 0; k < m->count; k++) {
            char *to = m->to[r] + k * m->length;
            if (to != m->from[k]) memmove(to, m->from[k], m->length);
        }
    }
}

/* ---- Meeting ----------------------------------------------------------------------------------------- */

static void release_communicator(communicator *c)
{
    if (atomic_fetch_sub(&c->references, 1) != 1) return;
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void release_meeting(meeting *m)
{
    if (atomic_fetch_sub(&m->references, 1) != 1) return;
    communicator *c = m->of;
    pthread_mutex_lock(&c->lock);
    for (meeting **link = &c->meetings; *link; link = &(*link)->next) {
        if (*link != m) continue;
        *link = m->next;
        break;
    }
    pthread_mutex_unlock(&c->lock);
    release_communicator(c);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static void release_rank(reference_task *task)
{
    release_meeting(((rank_task *)task)->meeting);
}

/* The error of this rank: TN_OK, or a status and its text. */
static int32_t check_rank(reference_stream *stream, const rank_task *t, const char **out_text)
{
    *out_text = "reference: a rank of a collective was dropped behind an error";
    if (reference_stream_dropped(stream, &t->task)) return TN_E_STATE;
    *out_text = REFERENCE_LOST;
    if (atomic_load(&t->device->lost)) return TN_E_DEVICE_LOST;
    return reference_chaos_begin(t->device, out_text);
}

/* With the lock held: the tasks of the other ranks begin, although nobody else may wait for them. */
static void ask_others(const meeting *m)
{
    for (uint32_t r = 0; r < m->count; r++)
        if (m->streams[r]) reference_stream_ask(m->streams[r], m->numbers[r]);
}

/* The first error of the communicator, for its status. */
static void note_error(communicator *c, int32_t code, const char *text)
{
    pthread_mutex_lock(&c->lock);
    if (!c->code) {
        c->code = code;
        snprintf(c->text, sizeof(c->text), "%s", text);
    }
    pthread_mutex_unlock(&c->lock);
}

static void finish_meeting(meeting *m)
{
    if (m->done) return; /* aborted */
    if (!m->code && !m->cancelled && m->work) m->work(m);
    m->done = 1;
    pthread_cond_broadcast(&m->changed);
}

static void run_rank(reference_stream *stream, reference_task *task)
{
    const rank_task *t = (const rank_task *)task;
    meeting *m = t->meeting;
    const char *text;
    int32_t dropped = reference_stream_dropped(stream, task), code = check_rank(stream, t, &text);
    pthread_mutex_lock(&m->lock);
    m->streams[t->rank] = NULL;
    if (code && !m->code) {
        m->code = code;
        snprintf(m->text, sizeof(m->text), "%s", text);
    }
    if (++m->arrived == m->count)
        finish_meeting(m);
    else
        ask_others(m);
    while (!m->done) pthread_cond_wait(&m->changed, &m->lock);
    code = m->code;
    pthread_mutex_unlock(&m->lock);
    if (code) note_error(m->of, code, m->text);
    if (code && !dropped) reference_stream_fail(stream, code, m->text);
}

/* With the meeting's lock held, so that nobody asks for a task number that is not known yet. */
static int32_t push_rank(const communicator *c, meeting *m, uint32_t rank, reference_stream *stream)
{
    rank_task *t = reference_task_create(sizeof(*t), run_rank);
    if (!t)
        return reference_error(c->devices[rank]->state, TN_E_OUT_OF_MEMORY,
                               "reference: no host memory to queue a collective");
    atomic_fetch_add(&m->references, 1);
    t->task.release = release_rank;
    t->task.always = 1;
    t->meeting = m;
    t->device = c->devices[rank];
    t->rank = rank;
    m->streams[rank] = stream;
    int32_t status = reference_stream_push(stream, &t->task);
    if (!status) m->numbers[rank] = t->task.number;
    return status;
}

static int32_t push_all(const communicator *c, meeting *m, const tn_collective_rank *ranks)
{
    reference_state *state = c->devices[0]->state;
    int32_t status = reference_chaos_refuse(&state->chaos)
                         ? reference_error(state, TN_E_INTERNAL,
                                           "reference: TENON_REFERENCE_REFUSE says that this call fails")
                         : TN_OK;
    pthread_mutex_lock(&state->collectives_lock);
    pthread_mutex_lock(&m->lock);
    for (uint32_t r = 0; r < c->count && !status; r++) {
        status = push_rank(c, m, r, ranks[r].stream);
        if (!status) continue;
        m->cancelled = 1;
        m->count = r; /* the ranks before it meet without it */
    }
    pthread_mutex_unlock(&m->lock);
    pthread_mutex_unlock(&state->collectives_lock);
    release_meeting(m);
    return status;
}

/* ---- Slots ------------------------------------------------------------------------------------------- */

/* The lengths of `from` and `to` in bytes; 0: not checked. */
static int32_t fill(const communicator *c, meeting *m, const tn_collective_rank *ranks, uint64_t from,
                    uint64_t to)
{
    int32_t status = TN_OK;
    for (uint32_t r = 0; r < c->count && !status; r++) {
        if (!ranks[r].stream || reference_stream_device(ranks[r].stream) != c->devices[r])
            return reference_error(c->devices[r]->state, TN_E_CONTRACT,
                                   "reference: the stream of rank %u is not one of its device", r);
        status = reference_stream_check_runs(ranks[r].stream, "a collective");
        if (!status && from && (m->work != work_broadcast || r == m->root) &&
            !(m->from[r] = reference_resolve(c->devices[r], ranks[r].from, ranks[r].from_offset, from)))
            status = TN_E_CONTRACT;
        if (!status && to &&
            !(m->to[r] = reference_resolve(c->devices[r], ranks[r].to, ranks[r].to_offset, to)))
            status = TN_E_CONTRACT;
    }
    return status;
}

/* Completes `what`, which has the operation, and queues it. */
static int32_t meet(void *self, communicator *c, const tn_collective_rank *given, uint32_t rank_bytes,
                    const meeting *what, uint64_t from, uint64_t to)
{
    tn_collective_rank ranks[REFERENCE_MAX_DEVICES];
    meeting *m = malloc(sizeof(*m));
    if (!m) return reference_error(self, TN_E_OUT_OF_MEMORY, "reference: no host memory for a collective");
    *m = *what;
    m->of = c;
    atomic_fetch_add(&c->references, 1);
    m->count = c->count;
    atomic_init(&m->references, 1);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    pthread_mutex_lock(&c->lock);
    m->next = c->meetings;
    c->meetings = m;
    pthread_mutex_unlock(&c->lock);
    memset(ranks, 0, sizeof(ranks));
    for (uint32_t r = 0; r < c->count; r++)
        memcpy(&ranks[r], (const char *)given + (size_t)r * rank_bytes,
               rank_bytes < sizeof(ranks[r]) ? rank_bytes : sizeof(ranks[r]));
    int32_t status = fill(c, m, ranks, from, to);
    if (!status) return push_all(c, m, ranks);
    release_meeting(m);
    return status;
}

static int32_t supports(void *self, tn_dtype dtype, uint32_t reduction)
{
    const tn_dtype *d = reference_dtypes;
    while (*d && *d != dtype) d++;
    return *d != 0 && reduction <= TN_REDUCE_AVERAGE;
}

static int32_t collectives_create(void *self, const tn_communicator_options *options, void **out_communicator)
{
    uint32_t count = options->count;
    if (options->world != count || options->flags)
        return reference_error(self, TN_E_UNSUPPORTED,
                               "reference: a communicator of %u ranks, %u of them here", options->world,
                               count);
    if (count == 0 || count > REFERENCE_MAX_DEVICES)
        return reference_error(self, TN_E_ARGUMENT, "reference: a communicator of %u devices", count);
    communicator *c = calloc(1, sizeof(*c));
    if (!c) return reference_error(self, TN_E_OUT_OF_MEMORY, "reference: no host memory for a communicator");
    c->count = count;
    atomic_init(&c->references, 1);
    pthread_mutex_init(&c->lock, NULL);
    for (uint32_t i = 0; i < count; i++) c->devices[i] = options->devices[i];
    *out_communicator = c;
    return TN_OK;
}

static void collectives_destroy(void *self, void *handle)
{
    release_communicator(handle);
}

static int32_t collectives_status(void *self, void *handle)
{
    communicator *c = handle;
    pthread_mutex_lock(&c->lock);
    int32_t code = c->code;
    pthread_mutex_unlock(&c->lock);
    return code ? reference_error(self, code, "%s", c->text) : TN_OK; /* the text does not change any more */
}

/* All meetings end with an error; ranks that come later do not wait. */
static int32_t collectives_abort(void *self, void *handle)
{
    static const char text[] = "reference: the collective was aborted";
    communicator *c = handle;
    note_error(c, TN_E_STATE, text);
    pthread_mutex_lock(&c->lock);
    for (meeting *m = c->meetings; m; m = m->next) {
        pthread_mutex_lock(&m->lock);
        if (!m->done && !m->code) {
            m->code = TN_E_STATE;
            snprintf(m->text, sizeof(m->text), "%s", text);
        }
        m->done = 1;
        pthread_cond_broadcast(&m->changed);
        pthread_mutex_unlock(&m->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return TN_OK;
}

static int32_t check_dtype(const reference_state *state, tn_dtype dtype, uint32_t reduction)
{
    if (supports(NULL, dtype, reduction)) return TN_OK;
    return reference_error(state, TN_E_DTYPE, "reference: no reduction %u of dtype 0x%x", reduction, dtype);
}

static int32_t all_reduce(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                          uint64_t count, tn_dtype dtype, uint32_t reduction)
{
    const meeting what = {.work = work_all_reduce, .length = count, .dtype = dtype, .reduction = reduction};
    int32_t status = check_dtype(self, dtype, reduction);
    uint64_t bytes = count * (uint64_t)tn_dtype_bytes(dtype);
    return status ? status : meet(self, handle, ranks, rank_bytes, &what, bytes, bytes);
}

static int32_t broadcast(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                         uint64_t bytes, uint32_t root)
{
    const meeting what = {.work = work_broadcast, .length = bytes, .root = root};
    if (root >= ((const communicator *)handle)->count)
        return reference_error(self, TN_E_ARGUMENT, "reference: there is no rank %u", root);
    return meet(self, handle, ranks, rank_bytes, &what, bytes, bytes);
}

static int32_t all_gather(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                          uint64_t bytes)
{
    const meeting what = {.work = work_all_gather, .length = bytes};
    return meet(self, handle, ranks, rank_bytes, &what, bytes, bytes * ((const communicator *)handle)->count);
}

static int32_t all_to_all(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                          uint64_t bytes)
{
    const meeting what = {.work = work_all_to_all, .length = bytes};
    uint64_t all = bytes * ((const communicator *)handle)->count;
    return meet(self, handle, ranks, rank_bytes, &what, all, all);
}

static int32_t reduce_scatter(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                              uint64_t count, tn_dtype dtype, uint32_t reduction)
{
    const meeting what = {
        .work = work_reduce_scatter, .length = count, .dtype = dtype, .reduction = reduction};
    int32_t status = check_dtype(self, dtype, reduction);
    uint64_t bytes = count * (uint64_t)tn_dtype_bytes(dtype);
    if (status) return status;
    return meet(self, handle, ranks, rank_bytes, &what, bytes * ((const communicator *)handle)->count, bytes);
}

static int32_t barrier(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes)
{
    const meeting what = {.work = NULL};
    return meet(self, handle, ranks, rank_bytes, &what, 0, 0);
}

const tn_collectives_interface reference_collectives_interface = {
    .size = sizeof(tn_collectives_interface),
    .supports = supports,
    .create = collectives_create,
    .destroy = collectives_destroy,
    .status = collectives_status,
    .abort = collectives_abort,
    .all_reduce = all_reduce,
    .broadcast = broadcast,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_to_all = all_to_all,
    .barrier = barrier,
};
