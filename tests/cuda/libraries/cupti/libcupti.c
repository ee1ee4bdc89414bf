/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcupti.so.13 for tests: records what the test driver runs. Records are as long as those of CUPTI 13, with what the plugin
 * does not know poisoned, and are put into the buffers that the plugin gives; a full one is handed back by whatever thread filled
 * it. Times are of CLOCK_REALTIME. Wrong uses are counted. The environment:
 *
 *   LIBRARY_FAIL=FUNCTION:N:STATUS   ../../../gpu/library_fault.h
 *   CUPTI_TEST_BUFFER=BYTES          so much of a buffer is used
 *   CUPTI_TEST_DROP=N                the first N kernels find no room
 */
#define TN_PLUGIN
#include "cupti.h"
#include "stand_in.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

CUPTI_FUNCTIONS(DECLARE)
CUPTI_OPTIONAL_FUNCTIONS(DECLARE)

/* Kernels, copies, fills that were recorded; buffers that the plugin has not got back; kinds that are switched on; wrong uses;
 * numbers on the stacks of threads; calls of the driver that were recorded. */
enum { KERNELS, COPIES, FILLS, LIVE, KINDS, WRONG, PUSHED, CALLS };

/* Nanoseconds of what was recorded under a name (NULL: all), and how often; tests read it. */
TEST_API uint64_t cupti_test_time(const char *name, uint64_t *out_times);

enum { MOST_KINDS = 64, DEPTH = 64, NAMES = 512, KERNEL_BYTES = 208 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    cupti_buffer_wanted *wanted;
    cupti_buffer_full *full;
    int is_on[MOST_KINDS];
    int is_unwanted[1024]; /* functions of the driver */
    uint8_t *buffer;
    size_t bytes, used, dropped;
    uint32_t calls;
    struct {
        const char *name;
        uint64_t time;
        uint64_t times;
    } names[NAMES];
} state;
static __thread struct {
    int depth;
    uint64_t numbers[DEPTH];
} own;

static int wrong(int status)
{
    count(WRONG, 1);
    return status;
}

/* ---- Buffers ------------------------------------------------------------------------------------------------- */

/* Under the lock, which the plugin's function is called without. */
static void hand_back(void)
{
    uint8_t *buffer = state.buffer;
    const size_t bytes = state.bytes, used = state.used;
    if (!buffer) return;
    state.buffer = NULL;
    pthread_mutex_unlock(&lock);
    count(LIVE, -1);
    state.full(NULL, 0, buffer, bytes, used);
    pthread_mutex_lock(&lock);
}

static void want(void)
{
    const char *most = getenv("CUPTI_TEST_BUFFER");
    size_t records = 77;
    state.wanted(&state.buffer, &state.bytes, &records);
    if (records || (uintptr_t)state.buffer % CUPTI_BUFFER_ALIGNMENT) wrong(0);
    if (state.buffer) count(LIVE, 1);
    if (state.buffer && most && (size_t)atol(most) < state.bytes) state.bytes = (size_t)atol(most);
    if (state.buffer) memset(state.buffer, 0xee, state.bytes);
    state.used = 0;
}

/* A record of `bytes` bytes, of which `known` are given. Under the lock; NULL: there is no room. */
static void *put(const void *record, size_t known, size_t bytes)
{
    if (state.buffer && state.used + bytes > state.bytes) hand_back();
    if (!state.buffer) want();
    if (!state.buffer || state.used + bytes > state.bytes) {
        state.dropped++;
        return NULL;
    }
    memset(state.buffer + state.used, 0xee, bytes);
    memcpy(state.buffer + state.used, record, known);
    state.used += bytes;
    return state.buffer + state.used - bytes;
}

/* ---- What the driver tells ----------------------------------------------------------------------------------- */

/* Numbers of a few functions, as CUPTI counts them. */
static uint32_t function_number(const char *function)
{
    static const struct {
        const char *name;
        uint32_t number;
    } known[] = {{"cuCtxGetCurrent", 304},
                 {"cuCtxPushCurrent_v2", 323},
                 {"cuCtxPopCurrent_v2", 324},
                 {"cuThreadExchangeStreamCaptureMode", 541}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(function, known[i].name)) return known[i].number;
    return 1;
}

static uint32_t called(const char *function)
{
    const uint32_t number = function_number(function);
    pthread_mutex_lock(&lock);
    const uint32_t call = ++state.calls * 2654435761u; /* numbers of calls are in no order */
    if (state.is_on[CUPTI_DRIVER] && !state.is_unwanted[number]) {
        const cupti_external e = {CUPTI_EXTERNAL, CUPTI_EXTERNAL_OWN,
                                  own.depth ? own.numbers[own.depth - 1] : 0, call, 0};
        const uint32_t api[] = {CUPTI_DRIVER, number};
        if (state.is_on[CUPTI_EXTERNAL] && own.depth) put(&e, sizeof e, sizeof e);
        put(api, sizeof api, 40);
        count(CALLS, 1);
    }
    pthread_mutex_unlock(&lock);
    return call;
}

static void note(const char *name, const cuda_test_ran *ran)
{
    int i = 0;
    while (i < NAMES - 1 && state.names[i].name && strcmp(state.names[i].name, name) != 0) i++;
    state.names[i].name = name;
    state.names[i].time += ran->end - ran->start;
    state.names[i].times++;
}

static void put_kernel(uint32_t call, const cuda_test_ran *ran)
{
    const char *drop = getenv("CUPTI_TEST_DROP");
    const cupti_kernel k = {.kind = CUPTI_KERNEL,
                            .start = ran->start,
                            .end = ran->end,
                            .device = (uint32_t)ran->device,
                            .stream = (uint32_t)(uintptr_t)ran->stream >> 4,
                            .correlation = call};
    static int dropped;
    cupti_kernel *made;
    if (drop && dropped < atoi(drop)) {
        dropped++;
        state.dropped++;
    } else if ((made = put(&k, sizeof k, KERNEL_BYTES)) != NULL) {
        made->name = (char *)(made + 1); /* goes with the buffer */
        snprintf((char *)(made + 1), KERNEL_BYTES - sizeof *made, "%s", ran->name);
        count(KERNELS, 1);
        note(ran->name, ran);
    }
}

static void put_copy(uint32_t call, const cuda_test_ran *ran)
{
    static const char *const names[] = {[1] = "copy host to device",
                                        [2] = "copy device to host",
                                        [8] = "copy device to device",
                                        [10] = "copy between devices"};
    const uint8_t direction = ran->from_device < 0                 ? 1
                              : ran->to_device < 0                 ? 2
                              : ran->from_device == ran->to_device ? 8
                                                                   : 10;
    const cupti_memcpy m = {.kind = CUPTI_MEMCPY,
                            .direction = direction,
                            .bytes = ran->bytes,
                            .start = ran->start,
                            .end = ran->end,
                            .device = (uint32_t)ran->device,
                            .correlation = call};
    const cupti_memcpy_peer p = {.kind = CUPTI_MEMCPY_PEER,
                                 .direction = direction,
                                 .bytes = ran->bytes,
                                 .start = ran->start,
                                 .end = ran->end,
                                 .device = (uint32_t)ran->device,
                                 .from_device = (uint32_t)ran->from_device,
                                 .to_device = (uint32_t)ran->to_device,
                                 .correlation = call};
    const int is_peer = direction == 10;
    if (!state.is_on[is_peer ? CUPTI_MEMCPY_PEER : CUPTI_MEMCPY]) return;
    if (!put(is_peer ? (const void *)&p : &m, is_peer ? sizeof p : sizeof m, is_peer ? 96 : 88)) return;
    count(COPIES, 1);
    note(names[direction], ran);
}

static void ran(uint32_t call, const cuda_test_ran *ran)
{
    const cupti_memset m = {.kind = CUPTI_MEMSET,
                            .bytes = ran->bytes,
                            .start = ran->start,
                            .end = ran->end,
                            .device = (uint32_t)ran->device,
                            .correlation = call};
    pthread_mutex_lock(&lock);
    if (ran->kind == RAN_KERNEL && state.is_on[CUPTI_KERNEL]) put_kernel(call, ran);
    if (ran->kind == RAN_COPY) put_copy(call, ran);
    if (ran->kind == RAN_FILL && state.is_on[CUPTI_MEMSET] && put(&m, sizeof m, 80)) {
        count(FILLS, 1);
        note("fill", ran);
    }
    pthread_mutex_unlock(&lock);
}

uint64_t cupti_test_time(const char *name, uint64_t *out_times)
{
    uint64_t sum = 0;
    *out_times = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < NAMES && state.names[i].name; i++) {
        if (name && strcmp(state.names[i].name, name) != 0) continue;
        sum += state.names[i].time;
        *out_times += state.names[i].times;
    }
    pthread_mutex_unlock(&lock);
    return sum;
}

/* ---- The library --------------------------------------------------------------------------------------------- */

int cuptiGetResultString(int result, const char **out_text)
{
    *out_text = result == CUPTI_NOT_INITIALIZED ? "CUPTI_ERROR_NOT_INITIALIZED" : "CUPTI_ERROR_UNKNOWN";
    return CUPTI_SUCCESS;
}

int cuptiGetTimestamp(uint64_t *out_nanoseconds)
{
    struct timespec t;
    FAULT(__func__);
    clock_gettime(CLOCK_REALTIME, &t);
    *out_nanoseconds = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return CUPTI_SUCCESS;
}

int cuptiActivityRegisterCallbacks(cupti_buffer_wanted *wanted, cupti_buffer_full *full)
{
    FAULT(__func__);
    if (!wanted || !full) return wrong(CUPTI_INVALID_PARAMETER);
    state.wanted = wanted;
    state.full = full;
    return CUPTI_SUCCESS;
}

/* Told of work while any kind is on. The driver's lock comes before this one. */
static void watch_while_on(void)
{
    static const cuda_test_watch watch = {.called = called, .ran = ran};
    cuda_test_watch_work(stand_in_count(KINDS) ? &watch : NULL);
}

static int set_kind(uint32_t kind, int is_on)
{
    if (kind >= MOST_KINDS || !state.wanted || state.is_on[kind] == is_on)
        return wrong(CUPTI_INVALID_PARAMETER);
    pthread_mutex_lock(&lock);
    state.is_on[kind] = is_on;
    if (kind == CUPTI_DRIVER) memset(state.is_unwanted, 0, sizeof state.is_unwanted);
    pthread_mutex_unlock(&lock);
    count(KINDS, is_on ? 1 : -1);
    watch_while_on();
    return CUPTI_SUCCESS;
}

int cuptiActivityEnable(uint32_t kind)
{
    FAULT(__func__);
    return set_kind(kind, 1);
}

int cuptiActivityDisable(uint32_t kind)
{
    return set_kind(kind, 0);
}

int cuptiActivityEnableDriverApi(uint32_t function, uint8_t is_on)
{
    FAULT(__func__);
    if (function >= 1024) return wrong(CUPTI_INVALID_PARAMETER);
    pthread_mutex_lock(&lock);
    state.is_unwanted[function] = !is_on;
    pthread_mutex_unlock(&lock);
    return CUPTI_SUCCESS;
}

int cuptiActivityFlushAll(uint32_t flags)
{
    FAULT(__func__);
    if (!state.wanted || flags != CUPTI_FLUSH_FORCED) return wrong(CUPTI_INVALID_PARAMETER);
    pthread_mutex_lock(&lock);
    hand_back();
    pthread_mutex_unlock(&lock);
    return CUPTI_SUCCESS;
}

static size_t bytes_of(const cupti_record *record)
{
    return record->kind == CUPTI_KERNEL        ? KERNEL_BYTES
           : record->kind == CUPTI_MEMCPY      ? 88
           : record->kind == CUPTI_MEMCPY_PEER ? 96
           : record->kind == CUPTI_MEMSET      ? 80
           : record->kind == CUPTI_EXTERNAL    ? sizeof(cupti_external)
                                               : 40;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, cupti_record **io_record)
{
    FAULT(__func__);
    uint8_t *next = *io_record ? (uint8_t *)*io_record + bytes_of(*io_record) : buffer;
    if (next >= buffer + valid) return CUPTI_NO_MORE_RECORDS;
    *io_record = (void *)next;
    return CUPTI_SUCCESS;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *out_dropped)
{
    FAULT(__func__);
    pthread_mutex_lock(&lock);
    *out_dropped = state.dropped;
    state.dropped = 0;
    pthread_mutex_unlock(&lock);
    return CUPTI_SUCCESS;
}

int cuptiActivityPushExternalCorrelationId(uint32_t external_kind, uint64_t external)
{
    FAULT(__func__);
    if (external_kind != CUPTI_EXTERNAL_OWN || own.depth == DEPTH) return wrong(CUPTI_INVALID_PARAMETER);
    own.numbers[own.depth++] = external;
    count(PUSHED, 1);
    return CUPTI_SUCCESS;
}

int cuptiActivityPopExternalCorrelationId(uint32_t external_kind, uint64_t *out_last)
{
    FAULT(__func__);
    if (external_kind != CUPTI_EXTERNAL_OWN) return wrong(CUPTI_INVALID_PARAMETER);
    if (!own.depth) return wrong(CUPTI_QUEUE_EMPTY);
    *out_last = own.numbers[--own.depth];
    count(PUSHED, -1);
    return CUPTI_SUCCESS;
}
