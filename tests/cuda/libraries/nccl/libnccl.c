/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libnccl.so.2 for tests, and with the other driver a librccl.so.1: work on the streams of the test driver. Ranks meet in a file
 * of /dev/shm, also those of one process; what they exchange lies there, in a window for each rank and a box for each pair. As
 * NCCL does, it makes the host wait for other ranks when a communicator is made, at the first collective, and at the first message
 * between two ranks: so calls that should be one group stop each other, and fail after a time. Messages wait for their
 * receiver. Collectives use memory of ranks of one process in place. It counts wrong uses: groups that do not end, dead communicators, streams of another device. The environment:
 *
 *   LIBRARY_FAIL=FUNCTION:N:RESULT   call N of the function (from 1 on) returns the result
 *   NCCL_TEST_LATE=N:RESULT          work N fails late: its communicator has the result, and the stream waits for its abort. From
 *                                    100 on it is a fault of the device, and a result of CUDA
 *   NCCL_TEST_WAIT=MS                how long the host waits for other ranks
 *   NCCL_TEST_VERSION=N              the version that it says it has
 */
#define TN_PLUGIN
#include "library.h"
#include "nccl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <tenon/kernel.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define DECLARE(result, name, arguments) TEST_API result name arguments;
NCCL_FUNCTIONS(DECLARE)
TEST_API const char *ncclGetLastError(void *communicator);
/* Communicators and work that the plugin has not given back, work that was queued, wrong uses, aborts. */
enum { LIVE, QUEUED, WRONG, ABORTS, COUNTS };
TEST_API int nccl_test_count(int what);

#define RANKS  4
#define WINDOW ((size_t)16 << 20)
#define BOX    ((size_t)1 << 20)
#define OPS    64 /* of a group */
#define FAULT(function)                      \
    do {                                     \
        int fault = library_fault(function); \
        if (fault) return fail(fault);       \
    } while (0)

/* From one rank to another; a piece is in the box if `written` is ahead of `read`. */
typedef struct pair {
    atomic_int sender, receiver; /* their hosts have come */
    atomic_ullong written, read;
    atomic_ullong bytes; /* of the message */
} pair;

typedef struct board {
    atomic_int joined[RANKS], came[RANKS], gone[RANKS];
    atomic_ullong arrived[RANKS], finished[RANKS];
    atomic_ullong calls[RANKS]; /* a digest of the call, which is the same on all ranks */
    pair pairs[RANKS][RANKS];
} board;
#define BOARD (sizeof(board) + RANKS * WINDOW + RANKS * RANKS * BOX)

typedef struct comm {
    struct comm *next; /* of all: they are never freed, so that late uses are seen */
    CUcontext context;
    board *board;
    int file, rank, world;
    int has_come;   /* at its first collective */
    char name[128]; /* of the file */
    atomic_int aborted, late, is_dead;
    atomic_ullong issued, done, collectives;
} comm;

typedef struct op {
    enum { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SEND, RECEIVE } kind;
    comm *c;
    void *stream;
    const void *from;
    void *to;
    size_t count, moved;
    int type, reduction, other; /* other: the root, or the rank of a message */
    int is_posted;
} op;

/* What a stream runs: one collective, or the messages of a group. */
typedef struct job {
    comm *c;
    unsigned long long turn, call;
    op *ops;
    int n;
} job;

static atomic_int counts[COUNTS];
static comm *comms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread struct {
    int depth, n_ops, n_made, result; /* result: the first of a call that failed */
    op ops[OPS];
    comm *made[RANKS];
    comm **places[RANKS];
} group;

/* A call in a group that fails makes the group fail. */
static int fail(int result)
{
    if (group.depth && !group.result) group.result = result;
    return result;
}

int nccl_test_count(int what)
{
    return atomic_load(&counts[what]);
}

static int wrong(const char *what)
{
    fprintf(stderr, "libnccl for tests: %s\n", what);
    atomic_fetch_add(&counts[WRONG], 1);
    return fail(NCCL_INVALID_USAGE);
}

static void doze(void)
{
    nanosleep(&(struct timespec){0, 200000}, NULL);
}

/* Waits until the condition holds: 0, or it took too long. */
#define HOST_WAITS(condition)                                                  \
    ({                                                                         \
        const char *wait_text = getenv("NCCL_TEST_WAIT");                      \
        long wait_ms = wait_text ? atol(wait_text) : 60000;                    \
        struct timespec wait_from, wait_now;                                   \
        clock_gettime(CLOCK_MONOTONIC, &wait_from);                            \
        int wait_late = 0;                                                     \
        while (!(condition) && !wait_late) {                                   \
            doze();                                                            \
            clock_gettime(CLOCK_MONOTONIC, &wait_now);                         \
            wait_late = (wait_now.tv_sec - wait_from.tv_sec) * 1000 +          \
                            (wait_now.tv_nsec - wait_from.tv_nsec) / 1000000 > \
                        wait_ms;                                               \
        }                                                                      \
        wait_late;                                                             \
    })

/* ---- Elements ----------------------------------------------------------------------------------------------- */

static size_t size_of(int type)
{
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return sizes[type];
}

static double load(int type, const void *at)
{
    float f;
    double d;
    uint16_t half;
    switch (type) {
    case NCCL_FLOAT16:
    case NCCL_BFLOAT16:
        memcpy(&half, at, sizeof half);
        return type == NCCL_FLOAT16 ? tn_half_load(half, 10, 15) : tn_half_load(half, 7, 127);
    case NCCL_FLOAT32:
        memcpy(&f, at, sizeof f);
        return f;
    default:
        memcpy(&d, at, sizeof d);
        return d;
    }
}

static void store(int type, void *at, double d)
{
    float f = (float)d;
    uint16_t half;
    switch (type) {
    case NCCL_FLOAT16:
    case NCCL_BFLOAT16:
        half = type == NCCL_FLOAT16 ? tn_half_store(d, 10, 15) : tn_half_store(d, 7, 127);
        memcpy(at, &half, sizeof half);
        break;
    case NCCL_FLOAT32:
        memcpy(at, &f, sizeof f);
        break;
    default:
        memcpy(at, &d, sizeof d);
    }
}

static double reduce_numbers(int reduction, double a, double b)
{
    return reduction == NCCL_PRODUCT ? a * b
           : reduction == NCCL_MAX   ? (a > b ? a : b)
           : reduction == NCCL_MIN   ? (a < b ? a : b)
                                     : a + b;
}

/* Integers of any width, sign-extended or not, in 64 bits. */
static uint64_t load_integer(int type, const void *at)
{
    uint64_t bits = 0;
    memcpy(&bits, at, size_of(type));
    return type == NCCL_INT8 ? (uint64_t)(int8_t)bits : type == NCCL_INT32 ? (uint64_t)(int32_t)bits : bits;
}

static uint64_t reduce_integers(int type, int reduction, uint64_t a, uint64_t b)
{
    const int is_signed = type == NCCL_INT8 || type == NCCL_INT32 || type == NCCL_INT64;
    const int is_less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    return reduction == NCCL_PRODUCT ? a * b
           : reduction == NCCL_MAX   ? (is_less ? b : a)
           : reduction == NCCL_MIN   ? (is_less ? a : b)
                                     : a + b;
}

/* Element i of the parts, reduced. */
static void reduce(int type, int reduction, char *const *parts, int n, size_t i, char *to)
{
    const size_t at = i * size_of(type);
    if (type < NCCL_FLOAT16) {
        uint64_t all = load_integer(type, parts[0] + at);
        for (int k = 1; k < n; k++)
            all = reduce_integers(type, reduction, all, load_integer(type, parts[k] + at));
        memcpy(to + at, &all, size_of(type));
        return;
    }
    double all = load(type, parts[0] + at);
    for (int k = 1; k < n; k++) all = reduce_numbers(reduction, all, load(type, parts[k] + at));
    store(type, to + at, reduction == NCCL_AVERAGE ? all / n : all);
}

/* ---- Work of streams ---------------------------------------------------------------------------------------- */

static char *window(const comm *c, int rank)
{
    return (char *)(c->board + 1) + (size_t)rank * WINDOW;
}

static char *box(const comm *c, int from, int to)
{
    return window(c, RANKS) + (size_t)(from * RANKS + to) * BOX;
}

/* A rank holds a lock on its byte of the file as long as its process lives. */
static int holds_lock(const comm *c, int rank)
{
    struct flock held = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    return fcntl(c->file, F_OFD_GETLK, &held) == 0 && held.l_type != F_UNLCK;
}

static int is_lost(const comm *c, int rank)
{
    return rank != c->rank && (atomic_load(&c->board->gone[rank]) || !holds_lock(c, rank));
}

/* The communicator fails late: its streams go on when it is aborted. */
static void fail_late(comm *c, int result)
{
    int none = NCCL_SUCCESS;
    atomic_compare_exchange_strong(&c->late, &none, result);
    while (!atomic_load(&c->aborted)) doze();
}

/* 1 when all ranks have come to barrier n, 0 if the communicator has ended. */
static int meet(comm *c, atomic_ullong *ranks, unsigned long long n)
{
    atomic_store(&ranks[c->rank], n);
    for (int r = 0; r < c->world; r++) {
        while (atomic_load(&ranks[r]) < n) {
            if (atomic_load(&c->aborted)) return 0;
            if (is_lost(c, r) && atomic_load(&ranks[r]) < n) {
                fail_late(c, NCCL_REMOTE_ERROR);
                return 0;
            }
            doze();
        }
    }
    return 1;
}

static size_t bytes_of(const op *o)
{
    return o->count * size_of(o->type);
}

/* Whether other ranks of the process may use the memory in place, as they do where their devices are peers. */
static int is_open_to_peers(const comm *c, CUcontext context, const void *memory, size_t bytes)
{
    int is_open = 1;
    pthread_mutex_lock(&lock);
    for (const comm *other = comms; other; other = other->next)
        if (!other->is_dead && !strcmp(other->name, c->name))
            is_open &= cuda_test_may_use(other->context, context, (CUdeviceptr)(uintptr_t)memory, bytes);
    pthread_mutex_unlock(&lock);
    return is_open;
}

static CUresult run_collective(const job *j, CUcontext context)
{
    const op *o = j->ops;
    comm *c = j->c;
    const size_t bytes = bytes_of(o), world = (size_t)c->world;
    const size_t in = o->kind == REDUCE_SCATTER ? bytes * world : bytes;
    const size_t out = o->kind == ALL_GATHER ? bytes * world : bytes;
    const char *from = cuda_test_place(context, (CUdeviceptr)(uintptr_t)o->from, in);
    char *to = cuda_test_place(context, (CUdeviceptr)(uintptr_t)o->to, out);
    char *parts[RANKS];
    if (!from || !to || in > WINDOW || !is_open_to_peers(c, context, o->from, in) ||
        !is_open_to_peers(c, context, o->to, out)) {
        atomic_store(&c->board->gone[c->rank], 1);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    memcpy(window(c, c->rank), from, in);
    atomic_store(&c->board->calls[c->rank],
                 o->kind + 8 * (o->count + (size_t)o->type * 64 + (size_t)o->other));
    if (!meet(c, c->board->arrived, j->call)) return CUDA_SUCCESS;
    for (int r = 0; r < c->world; r++) {
        if (atomic_load(&c->board->calls[r]) != atomic_load(&c->board->calls[c->rank]))
            wrong("ranks make different calls");
        parts[r] = window(c, r) + (o->kind == REDUCE_SCATTER ? (size_t)c->rank * bytes : 0);
    }
    for (size_t i = 0; (o->kind == ALL_REDUCE || o->kind == REDUCE_SCATTER) && i < o->count; i++)
        reduce(o->type, o->reduction, parts, c->world, i, to);
    if (o->kind == BROADCAST) memcpy(to, parts[o->other], bytes);
    for (int r = 0; r < c->world && o->kind == ALL_GATHER; r++)
        memcpy(to + (size_t)r * bytes, parts[r], bytes);
    (void)meet(c, c->board->finished, j->call);
    return CUDA_SUCCESS;
}

/* A step of a message: 1 when it is done, 0 if it waits, -1 if its memory is not there. */
static int move(op *o, CUcontext context)
{
    comm *c = o->c;
    const int sends = o->kind == SEND;
    const int from = sends ? c->rank : o->other, to = sends ? o->other : c->rank;
    pair *p = &c->board->pairs[from][to];
    const size_t bytes = bytes_of(o);
    const size_t piece = bytes - o->moved < BOX ? bytes - o->moved : BOX;
    const unsigned long long written = atomic_load(&p->written), read = atomic_load(&p->read);
    char *memory =
        cuda_test_place(context, (CUdeviceptr)(uintptr_t)(sends ? o->from : (const void *)o->to), bytes);
    if (!memory) return -1;
    if (sends) {
        if (written != read) return 0;
        if (o->moved == bytes) return 1;
        memcpy(box(c, from, to), memory + o->moved, piece);
        atomic_store(&p->bytes, bytes);
        atomic_store(&p->written, written + 1);
    } else {
        if (written == read) return 0;
        if (atomic_load(&p->bytes) != bytes) wrong("a message of another size is received");
        memcpy(memory + o->moved, box(c, from, to), piece);
        atomic_store(&p->read, read + 1);
    }
    o->moved += piece;
    return !sends && o->moved == bytes;
}

static CUresult run_messages(const job *j, CUcontext context)
{
    comm *c = j->c;
    for (int left = j->n; left && !atomic_load(&c->aborted);) {
        const int before = left;
        for (int i = 0; i < j->n; i++) {
            op *o = &j->ops[i];
            const int step = o->c ? move(o, context) : 0;
            if (step < 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
            if (step) {
                o->c = NULL;
                left--;
            } else if (o->c && is_lost(c, o->other) && !move(o, context)) {
                fail_late(c, NCCL_REMOTE_ERROR);
            }
        }
        if (left == before) doze();
    }
    return CUDA_SUCCESS;
}

static int asked_late(void)
{
    static atomic_int works;
    int n, result;
    const char *text = getenv("NCCL_TEST_LATE");
    if (!text || sscanf(text, "%d:%d", &n, &result) != 2) return NCCL_SUCCESS;
    return atomic_fetch_add(&works, 1) + 1 == n ? result : NCCL_SUCCESS;
}

static CUresult run(CUcontext context, void *data)
{
    const job *j = data;
    comm *c = j->c;
    CUresult result = CUDA_SUCCESS;
    while (atomic_load(&c->done) != j->turn && !atomic_load(&c->aborted)) doze(); /* also on other streams */
    const int late = asked_late();
    if (late >= 100) {
        atomic_store(&c->board->gone[c->rank], 1);
        return (CUresult)late;
    }
    if (late) fail_late(c, late);
    if (!atomic_load(&c->aborted))
        result = j->ops->kind < SEND ? run_collective(j, context) : run_messages(j, context);
    free(j->ops);
    atomic_fetch_add(&c->done, 1);
    return result;
}

/* ---- Groups ------------------------------------------------------------------------------------------------- */

static int queue(comm *c, const op *ops, int n)
{
    CUcontext before;
    job j = {.c = c, .turn = atomic_fetch_add(&c->issued, 1), .n = n, .ops = malloc((size_t)n * sizeof *ops)};
    if (ops->kind < SEND) j.call = atomic_fetch_add(&c->collectives, 1) + 1;
    memcpy(j.ops, ops, (size_t)n * sizeof *ops);
    CUresult result = cuCtxPushCurrent(c->context);
    if (!result) {
        result = cuda_test_queue((CUstream)ops->stream, run, &j, sizeof j);
        cuCtxPopCurrent(&before);
    }
    if (!result) {
        atomic_fetch_add(&counts[QUEUED], 1);
        return NCCL_SUCCESS;
    }
    free(j.ops);
    atomic_fetch_sub(&c->issued, 1);
    return NCCL_UNHANDLED_CUDA_ERROR;
}

/* The host comes to what its ranks begin, then waits for the other sides. */
static int connect_all(void)
{
    for (int i = 0; i < group.n_ops; i++) {
        op *o = &group.ops[i];
        board *b = o->c->board;
        if (o->kind < SEND)
            atomic_store(&b->came[o->c->rank], 1);
        else if (o->kind == SEND)
            atomic_store(&b->pairs[o->c->rank][o->other].sender, 1);
        else
            atomic_store(&b->pairs[o->other][o->c->rank].receiver, 1);
    }
    for (int i = 0; i < group.n_ops; i++) {
        op *o = &group.ops[i];
        board *b = o->c->board;
        const int rank = o->c->rank;
        int is_late = 0;
        for (int r = 0; r < o->c->world && o->kind < SEND && !o->c->has_come; r++)
            is_late |= HOST_WAITS(atomic_load(&b->came[r]) || is_lost(o->c, r));
        if (o->kind < SEND) o->c->has_come = 1;
        if (o->kind == SEND)
            is_late = HOST_WAITS(atomic_load(&b->pairs[rank][o->other].receiver) || is_lost(o->c, o->other));
        if (o->kind == RECEIVE)
            is_late = HOST_WAITS(atomic_load(&b->pairs[o->other][rank].sender) || is_lost(o->c, o->other));
        if (is_late) return NCCL_INTERNAL_ERROR;
    }
    return NCCL_SUCCESS;
}

static int launch_all(void)
{
    int result = connect_all();
    for (int i = 0; i < group.n_ops && !result; i++) {
        op *o = &group.ops[i], messages[OPS];
        int n = 0;
        if (o->kind < SEND) {
            result = queue(o->c, o, 1);
            continue;
        }
        comm *c = o->c;
        for (int k = i; k < group.n_ops && c; k++) {
            if (group.ops[k].c != c || group.ops[k].kind < SEND) continue;
            if (group.ops[k].stream != o->stream) wrong("messages of a group are on two streams");
            messages[n++] = group.ops[k];
            if (k > i) group.ops[k].c = NULL;
        }
        if (c) result = queue(c, messages, n);
    }
    return result;
}

static void end_comm(comm *c)
{
    c->is_dead = 1;
    atomic_fetch_sub(&counts[LIVE], 1);
    if (atomic_load(&c->issued) != atomic_load(&c->done)) return; /* it may still look at its board */
    if (c->board) munmap(c->board, BOARD);
    if (c->file >= 0) close(c->file);
}

/* Waits for all ranks of the communicators that the group makes. */
static int join_all(void)
{
    int result = NCCL_SUCCESS;
    for (int i = 0; i < group.n_made; i++)
        atomic_store(&group.made[i]->board->joined[group.made[i]->rank], 1);
    for (int i = 0; i < group.n_made; i++) {
        comm *c = group.made[i];
        for (int r = 0; r < c->world && !result; r++)
            if (HOST_WAITS(atomic_load(&c->board->joined[r]))) result = NCCL_SYSTEM_ERROR;
    }
    for (int i = 0; i < group.n_made; i++) unlink(group.made[i]->name);
    return result;
}

int ncclGroupStart(void)
{
    FAULT(__func__);
    group.depth++;
    return NCCL_SUCCESS;
}

int ncclGroupEnd(void)
{
    if (!group.depth) return wrong("a group ends that did not begin");
    int result = NCCL_SUCCESS;
    if (--group.depth == 0) {
        result = group.result ? group.result : library_fault(__func__);
        if (!result) result = join_all();
        for (int i = 0; i < group.n_made; i++) {
            if (!result) *group.places[i] = group.made[i];
            if (result) end_comm(group.made[i]);
        }
        if (!result) result = launch_all();
        group.n_ops = group.n_made = group.result = 0;
    }
    return result;
}

/* ---- Communicators ------------------------------------------------------------------------------------------ */

int ncclGetVersion(int *out)
{
    FAULT(__func__);
    const char *text = getenv("NCCL_TEST_VERSION");
    *out = text ? atoi(text) : 22800;
    return NCCL_SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    return result == NCCL_UNHANDLED_CUDA_ERROR ? "unhandled cuda error"
           : result == NCCL_REMOTE_ERROR       ? "remote process exited or there was a network error"
                                               : "an error for tests";
}

const char *ncclGetLastError(void *communicator)
{
    return "the last warning";
}

int ncclGetUniqueId(nccl_id *out)
{
    unsigned long long
        number; /* by chance: a process that was killed may have left a file of any other name */
    FAULT(__func__);
    memset(out, 0, sizeof *out);
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return NCCL_SYSTEM_ERROR;
    snprintf(out->bytes, sizeof out->bytes, "/dev/shm/nccl-test-%016llx", number);
    return NCCL_SUCCESS;
}
static int open_board(comm *c)
{
    struct flock mine = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = c->rank, .l_len = 1};
    c->file = open(c->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->file < 0 || fcntl(c->file, F_OFD_SETLK, &mine) || ftruncate(c->file, (off_t)BOARD))
        return NCCL_SYSTEM_ERROR;
    void *at = mmap(NULL, BOARD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, c->file, 0);
    if (at == MAP_FAILED) return NCCL_SYSTEM_ERROR;
    c->board = at;
    return NCCL_SUCCESS;
}

int ncclCommInitRank(void **out, int world, nccl_id id, int rank)
{
    int result;
    FAULT(__func__);
    if (rank < 0 || rank >= world || world > RANKS) return wrong("a rank that is not there");
    comm *c = calloc(1, sizeof *c);
    *c = (comm){.rank = rank, .world = world, .file = -1};
    memcpy(c->name, id.bytes, sizeof c->name);
    pthread_mutex_lock(&lock);
    c->next = comms;
    comms = c;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&counts[LIVE], 1);
    if (library_context(&c->context) || !c->context)
        result = NCCL_UNHANDLED_CUDA_ERROR;
    else
        result = open_board(c);
    if (result) {
        end_comm(c);
        return fail(result);
    }
    if (!group.depth)
        return wrong("a communicator is made outside a group, and others may be of this thread");
    group.places[group.n_made] = (comm **)out;
    group.made[group.n_made++] = c;
    return NCCL_SUCCESS;
}

static int check(comm *c)
{
    int is_known = 0;
    pthread_mutex_lock(&lock);
    for (comm *at = comms; at; at = at->next) is_known |= at == c;
    pthread_mutex_unlock(&lock);
    if (!is_known || c->is_dead) return wrong("a communicator that has ended, or never was, is used");
    return NCCL_SUCCESS;
}

int ncclCommDestroy(void *communicator)
{
    comm *c = communicator;
    int result = check(c);
    if (result) return result;
    if (group.depth) wrong("a communicator is destroyed in a group");
    if (atomic_load(&c->issued) != atomic_load(&c->done))
        wrong("a communicator with unfinished work is destroyed");
    end_comm(c);
    return library_fault(__func__);
}

int ncclCommAbort(void *communicator)
{
    comm *c = communicator;
    int result = check(c);
    if (result) return result;
    atomic_fetch_add(&counts[ABORTS], 1);
    atomic_store(&c->board->gone[c->rank], 1);
    atomic_store(&c->aborted, 1);
    end_comm(c);
    return library_fault(__func__);
}

int ncclCommGetAsyncError(void *communicator, int *out)
{
    comm *c = communicator;
    int result = check(c);
    if (result) return result;
    FAULT(__func__);
    *out = atomic_load(&c->late);
    return NCCL_SUCCESS;
}

/* ---- Calls -------------------------------------------------------------------------------------------------- */

static int add(op o)
{
    CUcontext of = NULL, before;
    int result = check(o.c);
    if (result) return result;
    if ((uintptr_t)o.stream > (uintptr_t)CU_STREAM_PER_THREAD) {
        CUresult got = cuCtxPushCurrent(o.c->context);
        if (!got) {
            got = cuStreamGetCtx((CUstream)o.stream, &of);
            cuCtxPopCurrent(&before);
        }
        if (got) return fail(NCCL_UNHANDLED_CUDA_ERROR);
        if (of != o.c->context) return wrong("a stream of another device");
    }
    if (atomic_load(&o.c->late)) return wrong("a communicator that has failed is used");
    if (!group.depth) return wrong("a call outside a group");
    if (group.n_ops == OPS) return wrong("too many calls in a group");
    group.ops[group.n_ops++] = o;
    return NCCL_SUCCESS;
}

#define CALL(...)    \
    FAULT(__func__); \
    return add((op){__VA_ARGS__})

int ncclAllReduce(const void *from, void *to, size_t count, int type, int reduction, void *communicator,
                  void *stream)
{
    CALL(.kind = ALL_REDUCE, .c = communicator, .stream = stream, .from = from, .to = to, .count = count,
         .type = type, .reduction = reduction);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *communicator,
                  void *stream)
{
    CALL(.kind = BROADCAST, .c = communicator, .stream = stream, .from = from, .to = to, .count = count,
         .type = type, .other = root);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, void *communicator, void *stream)
{
    CALL(.kind = ALL_GATHER, .c = communicator, .stream = stream, .from = from, .to = to, .count = count,
         .type = type);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int reduction, void *communicator,
                      void *stream)
{
    CALL(.kind = REDUCE_SCATTER, .c = communicator, .stream = stream, .from = from, .to = to, .count = count,
         .type = type, .reduction = reduction);
}

int ncclSend(const void *from, size_t count, int type, int to, void *communicator, void *stream)
{
    CALL(.kind = SEND, .c = communicator, .stream = stream, .from = from, .count = count, .type = type,
         .other = to);
}

int ncclRecv(void *to, size_t count, int type, int from, void *communicator, void *stream)
{
    CALL(.kind = RECEIVE, .c = communicator, .stream = stream, .to = to, .count = count, .type = type,
         .other = from);
}
