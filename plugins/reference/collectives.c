/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives. Each rank's stream gets a task; the tasks of one call meet: the last one to come does the work
 * of all, one element at a time, while the others wait, so that nobody's memory is touched before its stream
 * is there and no stream goes on too early. Who comes asks for the others, as a waiting host would. A rank
 * whose task is dropped or fails comes all the same and says so; then all fail.
 *
 * With ranks in other processes, the last one of this process exchanges pieces with theirs on a board (board.c). What
 * one rank sends to another always goes over a board.
 */
#include "element.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct meeting meeting;

typedef struct communicator {
    atomic_uint references; /* the host's, and one of each meeting */
    uint32_t count;         /* ranks of this process */
    uint32_t first;         /* the first of them */
    uint32_t world;         /* ranks of all processes */
    int32_t status;         /* of the first call that failed */
    reference_board *board; /* NULL: of one process, and nothing was sent yet; under the lock */
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
    int32_t status;    /* of the first rank that failed */
    char text[192];
    reference_stream *streams[REFERENCE_MAX_DEVICES];  /* NULL: the rank has arrived */
    uint64_t numbers[REFERENCE_MAX_DEVICES];           /* of the tasks there */
    void (*work)(const meeting *m);                    /* NULL: a barrier */
    int32_t (*exchange)(const meeting *m, char *text); /* the same with ranks of other processes */
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

/* The sum of n elements as the reduction wants it. */
static number finished(const meeting *m, number sum, uint32_t n)
{
    if (m->reduction == TN_REDUCE_AVERAGE) {
        sum.re /= n;
        sum.im /= n;
    }
    return sum;
}

/* Element i reduced over all `from`, rounded once. */
static number reduced(const meeting *m, uint64_t i)
{
    uint64_t at = i * (uint64_t)tn_dtype_bytes(m->dtype);
    number sum = element_load(m->dtype, m->from[0] + at);
    for (uint32_t r = 1; r < m->count; r++)
        sum = combine(m->dtype, m->reduction, sum, element_load(m->dtype, m->from[r] + at));
    return finished(m, sum, m->count);
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

/* ---- With other processes ------------------------------------------------------------------------------ */

/* Element `at` of the windows of all ranks, reduced and rounded once. */
static number reduced_windows(const meeting *m, uint64_t at)
{
    const communicator *c = m->of;
    number sum = element_load(m->dtype, reference_board_window(c->board, 0) + at);
    for (uint32_t k = 1; k < c->world; k++)
        sum = combine(m->dtype, m->reduction, sum,
                      element_load(m->dtype, reference_board_window(c->board, k) + at));
    return finished(m, sum, c->world);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The windows are filled and read between two barriers, piece by piece. */
static int32_t exchange_all_reduce(const meeting *m, char *text)
{
    const communicator *c = m->of;
    uint64_t item = (uint64_t)tn_dtype_bytes(m->dtype), step = REFERENCE_BOARD_WINDOW / item;
    int32_t status = TN_OK;
    for (uint64_t at = 0; at < m->length && !status; at += step) {
        uint64_t n = least(step, m->length - at);
        for (uint32_t r = 0; r < c->count; r++)
            memcpy(reference_board_window(c->board, c->first + r), m->from[r] + at * item, n * item);
        status = reference_board_barrier(c->board, text);
        for (uint64_t i = 0; i < n && !status; i++) {
            number sum = reduced_windows(m, i * item);
            for (uint32_t r = 0; r < c->count; r++) element_store(m->dtype, m->to[r] + (at + i) * item, sum);
        }
        if (!status) status = reference_board_barrier(c->board, text);
    }
    return status;
}

/* A window has a part of `step` bytes for each rank. */
static void put_parts(const meeting *m, uint64_t part, uint64_t at, uint64_t bytes, uint64_t step)
{
    const communicator *c = m->of;
    for (uint32_t r = 0; r < c->count; r++)
        for (uint32_t k = 0; k < c->world; k++)
            memcpy(reference_board_window(c->board, c->first + r) + k * step, m->from[r] + k * part + at,
                   bytes);
}

static int32_t exchange_reduce_scatter(const meeting *m, char *text)
{
    const communicator *c = m->of;
    uint64_t item = (uint64_t)tn_dtype_bytes(m->dtype), step = REFERENCE_BOARD_WINDOW / (item * c->world);
    int32_t status = TN_OK;
    for (uint64_t at = 0; at < m->length && !status; at += step) {
        uint64_t n = least(step, m->length - at);
        put_parts(m, m->length * item, at * item, n * item, step * item);
        status = reference_board_barrier(c->board, text);
        for (uint32_t r = 0; r < c->count && !status; r++)
            for (uint64_t i = 0; i < n; i++)
                element_store(m->dtype, m->to[r] + (at + i) * item,
                              reduced_windows(m, ((c->first + r) * step + i) * item));
        if (!status) status = reference_board_barrier(c->board, text);
    }
    return status;
}

static int32_t exchange_all_to_all(const meeting *m, char *text)
{
    const communicator *c = m->of;
    uint64_t step = REFERENCE_BOARD_WINDOW / c->world;
    int32_t status = TN_OK;
    for (uint64_t at = 0; at < m->length && !status; at += step) {
        uint64_t n = least(step, m->length - at);
        put_parts(m, m->length, at, n, step);
        status = reference_board_barrier(c->board, text);
        for (uint32_t r = 0; r < c->count && !status; r++)
            for (uint32_t k = 0; k < c->world; k++)
                memcpy(m->to[r] + k * m->length + at,
                       reference_board_window(c->board, k) + (c->first + r) * step, n);
        if (!status) status = reference_board_barrier(c->board, text);
    }
    return status;
}

/* Broadcast is a gathering of the root alone. */
static int32_t exchange_gather(const meeting *m, char *text)
{
    const communicator *c = m->of;
    int all = m->work == work_all_gather;
    uint32_t from = all ? 0 : m->root, end = all ? c->world : m->root + 1;
    int32_t status = TN_OK;
    for (uint64_t at = 0; at < m->length && !status; at += REFERENCE_BOARD_WINDOW) {
        uint64_t n = least(REFERENCE_BOARD_WINDOW, m->length - at);
        for (uint32_t r = 0; r < c->count; r++)
            if (all || c->first + r == m->root)
                memcpy(reference_board_window(c->board, c->first + r), m->from[r] + at, n);
        status = reference_board_barrier(c->board, text);
        for (uint32_t r = 0; r < c->count && !status; r++)
            for (uint32_t k = from; k < end; k++)
                memcpy(m->to[r] + (all ? k * m->length : 0) + at, reference_board_window(c->board, k), n);
        if (!status) status = reference_board_barrier(c->board, text);
    }
    return status;
}

static int32_t exchange_nothing(const meeting *m, char *text)
{
    return reference_board_barrier(m->of->board, text);
}

/* ---- Meeting ----------------------------------------------------------------------------------------- */

static void release_communicator(communicator *c)
{
    if (atomic_fetch_sub(&c->references, 1) != 1) return;
    pthread_mutex_destroy(&c->lock);
    reference_board_close(c->board);
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
static void note_error(communicator *c, int32_t status, const char *text)
{
    pthread_mutex_lock(&c->lock);
    if (!c->status) {
        c->status = status;
        snprintf(c->text, sizeof(c->text), "%s", text);
    }
    pthread_mutex_unlock(&c->lock);
}

/* All ranks of this process are here; those of others wait for them, or learn that one failed. */
static void meet_others(meeting *m)
{
    reference_board *board = m->of->board;
    if (m->cancelled)
        reference_board_fail(board, "reference: a rank of another process could not queue a collective");
    if (m->status) reference_board_fail(board, m->text);
    if (!m->status && !m->cancelled) m->status = m->exchange(m, m->text);
}

static void finish_meeting(meeting *m)
{
    if (m->done) return; /* aborted */
    if (m->of->world > m->of->count)
        meet_others(m);
    else if (!m->status && !m->cancelled && m->work)
        m->work(m);
    m->done = 1;
    pthread_cond_broadcast(&m->changed);
}

static void run_rank(reference_stream *stream, reference_task *task)
{
    const rank_task *t = (const rank_task *)task;
    meeting *m = t->meeting;
    const char *text;
    int32_t dropped = reference_stream_dropped(stream, task), status = check_rank(stream, t, &text);
    pthread_mutex_lock(&m->lock);
    m->streams[t->rank] = NULL;
    if (status && !m->status) {
        m->status = status;
        snprintf(m->text, sizeof(m->text), "%s", text);
    }
    if (++m->arrived == m->count)
        finish_meeting(m);
    else
        ask_others(m);
    while (!m->done) pthread_cond_wait(&m->changed, &m->lock);
    status = m->status;
    pthread_mutex_unlock(&m->lock);
    if (status) note_error(m->of, status, m->text);
    if (status && !dropped) reference_stream_fail(stream, status, m->text);
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
        if (!status && from && (m->work != work_broadcast || c->first + r == m->root) &&
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
    reference_board *board = NULL;
    if (options->flags)
        return reference_error(self, TN_E_UNKNOWN_FIELD, "reference: a communicator with flags 0x%x",
                               options->flags);
    if (count == 0 || count > REFERENCE_MAX_DEVICES || options->world > REFERENCE_BOARD_RANKS)
        return reference_error(self, TN_E_ARGUMENT, "reference: a communicator of %u devices and %u ranks",
                               count, options->world);
    int32_t status = options->world > count ? reference_board_join(self, options, &board) : TN_OK;
    if (status) return status;
    communicator *c = calloc(1, sizeof(*c));
    if (!c) {
        reference_board_close(board);
        return reference_error(self, TN_E_OUT_OF_MEMORY, "reference: no host memory for a communicator");
    }
    c->board = board;
    c->count = count;
    c->first = options->first_rank;
    c->world = options->world;
    atomic_init(&c->references, 1);
    pthread_mutex_init(&c->lock, NULL);
    for (uint32_t i = 0; i < count; i++) c->devices[i] = options->devices[i];
    *out_communicator = c;
    return TN_OK;
}

static int32_t unique_id(void *self, void *id, uint64_t room, uint64_t *out_bytes)
{
    if (room < REFERENCE_BOARD_ID)
        return reference_error(self, TN_E_ARGUMENT, "reference: an id needs %u bytes (got room for %llu)",
                               REFERENCE_BOARD_ID, (unsigned long long)room);
    *out_bytes = REFERENCE_BOARD_ID;
    return reference_board_id(self, id);
}

static void collectives_destroy(void *self, void *handle)
{
    release_communicator(handle);
}

static int32_t collectives_status(void *self, void *handle)
{
    communicator *c = handle;
    pthread_mutex_lock(&c->lock);
    int32_t status = c->status;
    pthread_mutex_unlock(&c->lock);
    return status ? reference_error(self, status, "%s", c->text)
                  : TN_OK; /* the text does not change any more */
}

/* All meetings end with an error; ranks that come later do not wait. */
static int32_t collectives_abort(void *self, void *handle)
{
    static const char text[] = "reference: the collective was aborted";
    communicator *c = handle;
    note_error(c, TN_E_STATE, text);
    pthread_mutex_lock(&c->lock);
    if (c->board) reference_board_fail(c->board, text);
    for (meeting *m = c->meetings; m; m = m->next) {
        pthread_mutex_lock(&m->lock);
        if (!m->done && !m->status) {
            m->status = TN_E_STATE;
            snprintf(m->text, sizeof(m->text), "%s", text);
        }
        m->done = 1;
        pthread_cond_broadcast(&m->changed);
        pthread_mutex_unlock(&m->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return TN_OK;
}

/* A rank contributes `parts` times what it receives. */
static int32_t meet_to_reduce(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                              const meeting *what, uint32_t parts)
{
    uint64_t bytes = what->length * (uint64_t)tn_dtype_bytes(what->dtype);
    if (!supports(NULL, what->dtype, what->reduction))
        return reference_error(self, TN_E_DTYPE, "reference: no reduction %u of dtype 0x%x", what->reduction,
                               what->dtype);
    return meet(self, handle, ranks, rank_bytes, what, bytes * parts, bytes);
}

static meeting reducing(void (*work)(const meeting *m), int32_t (*exchange)(const meeting *m, char *text),
                        uint64_t count, tn_dtype dtype, uint32_t reduction)
{
    return (meeting){
        .work = work, .exchange = exchange, .length = count, .dtype = dtype, .reduction = reduction};
}

static int32_t all_reduce(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                          uint64_t count, tn_dtype dtype, uint32_t reduction)
{
    const meeting what = reducing(work_all_reduce, exchange_all_reduce, count, dtype, reduction);
    return meet_to_reduce(self, handle, ranks, rank_bytes, &what, 1);
}

static int32_t broadcast(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                         uint64_t bytes, uint32_t root)
{
    const meeting what = {.work = work_broadcast, .exchange = exchange_gather, .length = bytes, .root = root};
    if (root >= ((const communicator *)handle)->world)
        return reference_error(self, TN_E_ARGUMENT, "reference: there is no rank %u", root);
    return meet(self, handle, ranks, rank_bytes, &what, bytes, bytes);
}

static int32_t all_gather(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                          uint64_t bytes)
{
    const meeting what = {.work = work_all_gather, .exchange = exchange_gather, .length = bytes};
    return meet(self, handle, ranks, rank_bytes, &what, bytes, bytes * ((const communicator *)handle)->world);
}

static int32_t all_to_all(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                          uint64_t bytes)
{
    const meeting what = {.work = work_all_to_all, .exchange = exchange_all_to_all, .length = bytes};
    uint64_t all = bytes * ((const communicator *)handle)->world;
    return meet(self, handle, ranks, rank_bytes, &what, all, all);
}

static int32_t reduce_scatter(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes,
                              uint64_t count, tn_dtype dtype, uint32_t reduction)
{
    const meeting what = reducing(work_reduce_scatter, exchange_reduce_scatter, count, dtype, reduction);
    return meet_to_reduce(self, handle, ranks, rank_bytes, &what, ((const communicator *)handle)->world);
}

static int32_t barrier(void *self, void *handle, const tn_collective_rank *ranks, uint32_t rank_bytes)
{
    const meeting what = {.exchange = exchange_nothing};
    return meet(self, handle, ranks, rank_bytes, &what, 0, 0);
}

/* ---- From rank to rank --------------------------------------------------------------------------------- */

typedef struct point_task {
    reference_task task;
    communicator *of;
    reference_device *device;
    char *data;
    uint64_t bytes;
    uint32_t from, to; /* ranks */
    int32_t sends;
    int32_t reserved;
} point_task;

static void release_point(reference_task *task)
{
    release_communicator(((point_task *)task)->of);
}

static void run_point(reference_stream *stream, reference_task *task)
{
    const point_task *t = (const point_task *)task;
    char text[REFERENCE_BOARD_TEXT];
    const char *why = "reference: a rank that sends or receives was dropped behind an error";
    int32_t dropped = reference_stream_dropped(stream, task), status = dropped ? TN_E_STATE : TN_OK;
    if (!dropped) status = reference_chaos_begin(t->device, &why);
    if (status) {
        reference_board_fail(t->of->board, why);
    } else {
        why = text;
        status = t->sends ? reference_board_send(t->of->board, t->from, t->to, t->data, t->bytes, text)
                          : reference_board_receive(t->of->board, t->to, t->from, t->data, t->bytes, text);
    }
    if (status) note_error(t->of, status, why);
    if (status && !dropped) reference_stream_fail(stream, status, why);
}

/* A communicator of one process gets its board with the first message. */
static int32_t need_board(const reference_state *state, communicator *c)
{
    pthread_mutex_lock(&c->lock);
    if (!c->board) c->board = reference_board_create(c->count);
    int32_t good = c->board != NULL;
    pthread_mutex_unlock(&c->lock);
    return good ? TN_OK : reference_error(state, TN_E_OUT_OF_MEMORY, "reference: no host memory to send");
}

static int32_t push_point(void *self, communicator *c, const tn_collective_rank *rank, uint32_t mine,
                          point_task what)
{
    uint32_t i = mine - c->first;
    if (i >= c->count || what.from >= c->world || what.to >= c->world)
        return reference_error(self, TN_E_ARGUMENT, "reference: from rank %u to %u", what.from, what.to);
    if (!rank->stream || reference_stream_device(rank->stream) != c->devices[i])
        return reference_error(self, TN_E_CONTRACT,
                               "reference: the stream of rank %u is not one of its device", mine);
    int32_t status = reference_stream_check_runs(rank->stream, "sending and receiving");
    if (!status) status = need_board(self, c);
    if (status) return status;
    what.data = what.sends ? reference_resolve(c->devices[i], rank->from, rank->from_offset, what.bytes)
                           : reference_resolve(c->devices[i], rank->to, rank->to_offset, what.bytes);
    if (!what.data) return TN_E_CONTRACT;
    point_task *t = reference_task_create(sizeof(*t), run_point);
    if (!t) return reference_error(self, TN_E_OUT_OF_MEMORY, "reference: no host memory to send");
    what.task = t->task;
    *t = what;
    t->task.release = release_point;
    t->task.always = 1;
    t->device = c->devices[i];
    t->of = c;
    atomic_fetch_add(&c->references, 1);
    return reference_stream_push(rank->stream, &t->task);
}

static int32_t send_to(void *self, void *handle, const tn_collective_rank *rank, uint32_t from_rank,
                       uint32_t to_rank, uint64_t bytes)
{
    const point_task what = {.from = from_rank, .to = to_rank, .bytes = bytes, .sends = 1};
    return push_point(self, handle, rank, from_rank, what);
}

static int32_t receive_from(void *self, void *handle, const tn_collective_rank *rank, uint32_t to_rank,
                            uint32_t from_rank, uint64_t bytes)
{
    const point_task what = {.from = from_rank, .to = to_rank, .bytes = bytes};
    return push_point(self, handle, rank, to_rank, what);
}

const tn_collectives_interface reference_collectives_interface =
    TN_INTERFACE(tn_collectives_interface, .supports = supports, .unique_id = unique_id,
                 .create = collectives_create, .destroy = collectives_destroy, .status = collectives_status,
                 .abort = collectives_abort, .all_reduce = all_reduce, .broadcast = broadcast,
                 .all_gather = all_gather, .reduce_scatter = reduce_scatter, .all_to_all = all_to_all,
                 .barrier = barrier, .send = send_to, .receive = receive_from);
