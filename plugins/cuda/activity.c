/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CUPTI records of kernels and copies, for profiles (tenon/activity.h): those of NVIDIA's libraries and of graphs, too. A
 * process has one CUPTI, whose callbacks carry no pointer of ours: so this file has the state of the process, with the recordings
 * of all devices and contexts. Each has a session, which is part of the numbers under which its work is queued.
 *
 * A kernel's record has the number of the call that queued it (correlation), and another record says under which of our numbers
 * that call was made (external). They come in buffers, on threads of CUPTI, and meet when a recording ends.
 */
#include "cupti.h"
#include "libraries.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BUFFER_BYTES ((size_t)1 << 20)
#define MOST_RECORDS ((size_t)1 << 22) /* what comes later is counted as lost */
#define WORK_BITS    40                /* of a number; the session is above */

/* A list that grows. */
typedef struct records {
    void *items;
    size_t count, room;
} records;

typedef struct ran {
    uint64_t start, end; /* of CUPTI's clock */
    const char *name;
    uint32_t correlation, device, stream, kind;
} ran;

typedef struct recording {
    struct recording *next;
    const cuda_device *device;
    uint64_t session, begin;
} recording;

/* Of a kernel: the vendor's may go with its module. */
typedef struct kernel_name {
    struct kernel_name *next;
    char text[];
} kernel_name;

enum { NAMES = 256 };

static struct {
#define DECLARE(result, name, arguments) result(*name) arguments;
    CUPTI_FUNCTIONS(DECLARE)
    CUPTI_OPTIONAL_FUNCTIONS(DECLARE)
#undef DECLARE
    char reason[400];        /* why there are no records */
    pthread_mutex_t control; /* one call to switch records on or off at a time; taken before `lock` */
    int32_t is_registered;
    uint64_t sessions;    /* how many there were */
    pthread_mutex_t lock; /* of what follows, which threads of CUPTI fill */
    recording *recordings;
    records ran, externals; /* ran, cupti_external */
    kernel_name *names[NAMES];
    uint64_t lost;
} cupti = {.control = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

static const uint32_t kinds[] = {CUPTI_EXTERNAL, CUPTI_DRIVER, CUPTI_RUNTIME,    CUPTI_MEMCPY,
                                 CUPTI_MEMSET,   CUPTI_KERNEL, CUPTI_MEMCPY_PEER};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- The library -------------------------------------------------------------------------------------------- */

static void load(void)
{
    static const char *const files[] = {"libcupti.so.13", "libcupti.so.12"};
    char wrong[2][400];
    void *library = NULL;
    for (uint32_t i = 0; i < 2 && !library; i++) library = gpu_dlopen(files[i], wrong[i], sizeof wrong[i]);
    if (!library) {
        const char *first = wrong[0][0] ? wrong[0] : wrong[1];
        snprintf(cupti.reason, sizeof cupti.reason, first[0] ? "%s" : "%s not found",
                 first[0] ? first : files[0]);
        return;
    }
#define LOAD(result, name, arguments)                                                  \
    *(void **)(void *)&cupti.name = dlsym(library, #name);                             \
    if (!cupti.name) {                                                                 \
        snprintf(cupti.reason, sizeof cupti.reason, "CUPTI lacks a function, " #name); \
        return;                                                                        \
    }
    CUPTI_FUNCTIONS(LOAD)
#undef LOAD
#define LOAD(result, name, arguments) *(void **)(void *)&cupti.name = dlsym(library, #name);
    CUPTI_OPTIONAL_FUNCTIONS(LOAD)
#undef LOAD
}

static int32_t check(const gpu_plugin *plugin, int result, const char *function)
{
    const char *text = NULL;
    if (result == CUPTI_SUCCESS) return TN_OK;
    if (cupti.cuptiGetResultString(result, &text) || !text) text = "unknown result";
    return gpu_error_native(plugin, TN_E_INTERNAL, result, text, "%s failed: %s", function, text);
}
#define CUPTI(plugin, function, ...) check(plugin, cupti.function(__VA_ARGS__), #function)

/* ---- Records ------------------------------------------------------------------------------------------------ */

/* A place for one more, or NULL. */
static void *add(records *r, size_t bytes)
{
    if (r->count == r->room && r->count < MOST_RECORDS) {
        const size_t room = r->room ? 2 * r->room : 1024;
        void *larger = realloc(r->items, room * bytes);
        if (larger) r->items = larger;
        if (larger) r->room = room;
    }
    return r->count < r->room ? (char *)r->items + r->count++ * bytes : NULL;
}

static void forget(records *r)
{
    free(r->items);
    *r = (records){0};
}

/* A copy of the name, one for all kernels that have it; NULL without memory. */
static const char *keep_name(const char *text)
{
    uint32_t hash = 5381;
    const size_t bytes = strlen(text) + 1;
    for (size_t i = 0; i < bytes; i++) hash = hash * 33 ^ (unsigned char)text[i];
    kernel_name **at = &cupti.names[hash % NAMES];
    while (*at && strcmp((*at)->text, text) != 0) at = &(*at)->next;
    if (!*at && (*at = malloc(sizeof **at + bytes)) != NULL) {
        (*at)->next = NULL;
        memcpy((*at)->text, text, bytes);
    }
    return *at ? (*at)->text : NULL;
}

static const char *name_of_direction(uint32_t direction)
{
#define NAME_CASE(number, text) \
    case number:                \
        return "copy " text;
    switch (direction) {
        CUPTI_DIRECTIONS(NAME_CASE)
    default:
        return "copy";
    }
}

/* The parts that copies, fills and kernels have under one name. */
#define RAN(record, what, text)                                                                \
    (ran)                                                                                      \
    {                                                                                          \
        .start = (record)->start, .end = (record)->end, .correlation = (record)->correlation,  \
        .device = (record)->device, .stream = (record)->stream, .kind = (what), .name = (text) \
    }

static void read_record(const cupti_record *record)
{
    const void *is = record;
    ran found = {0};
    switch (record->kind) {
    case CUPTI_KERNEL: {
        const cupti_kernel *k = is;
        const char *name = k->name ? keep_name(k->name) : "kernel";
        found = RAN(k, TN_X_ACTIVITY_KERNEL, name);
        break;
    }
    case CUPTI_MEMCPY: {
        const cupti_memcpy *m = is;
        found = RAN(m, TN_X_ACTIVITY_COPY, name_of_direction(m->direction));
        break;
    }
    case CUPTI_MEMCPY_PEER: {
        const cupti_memcpy_peer *m = is;
        found = RAN(m, TN_X_ACTIVITY_COPY, name_of_direction(m->direction));
        break;
    }
    case CUPTI_MEMSET: {
        const cupti_memset *m = is;
        found = RAN(m, TN_X_ACTIVITY_FILL, "fill");
        break;
    }
    case CUPTI_EXTERNAL: {
        const cupti_external *e = is;
        cupti_external *place =
            e->external_kind == CUPTI_EXTERNAL_OWN ? add(&cupti.externals, sizeof *e) : NULL;
        if (place) *place = *e;
        return;
    }
    default:
        return; /* a call */
    }
    ran *place =
        found.name && found.end >= found.start && found.start ? add(&cupti.ran, sizeof *place) : NULL;
    if (place)
        *place = found;
    else
        cupti.lost++;
}

static void buffer_wanted(uint8_t **out_buffer, size_t *out_bytes, size_t *out_most)
{
    *out_buffer = aligned_alloc(CUPTI_BUFFER_ALIGNMENT, BUFFER_BYTES);
    *out_bytes = *out_buffer ? BUFFER_BYTES : 0;
    *out_most = 0; /* as many as there is room for */
}

static void buffer_full(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
    cupti_record *record = NULL;
    pthread_mutex_lock(&cupti.lock);
    while (cupti.recordings && valid &&
           cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        read_record(record);
    pthread_mutex_unlock(&cupti.lock);
    free(buffer);
}

/* ---- Recordings --------------------------------------------------------------------------------------------- */

static void disable(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) (void)cupti.cuptiActivityDisable(kinds[i]);
}

/* With the first recording. Calls that come with every other one would fill the buffers. */
static int32_t enable(const gpu_plugin *plugin)
{
    static const uint32_t unwanted[] = {CUPTI_CTX_PUSH, CUPTI_CTX_POP, CUPTI_CTX_GET, CUPTI_CAPTURE_MODE};
    int32_t status = TN_OK;
    uint32_t n = 0;
    if (!cupti.is_registered)
        status = CUPTI(plugin, cuptiActivityRegisterCallbacks, buffer_wanted, buffer_full);
    cupti.is_registered = !status;
    while (!status && n < KINDS) {
        status = CUPTI(plugin, cuptiActivityEnable, kinds[n]);
        n += !status;
    }
    if (status) disable(n);
    const uint32_t count = cupti.cuptiActivityEnableDriverApi ? sizeof unwanted / sizeof *unwanted : 0;
    for (uint32_t i = 0; !status && i < count; i++) (void)cupti.cuptiActivityEnableDriverApi(unwanted[i], 0);
    return status;
}

static int32_t begin(void *self, void *device, void **out_recording)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const cuda_device *d = ((const gpu_device *)device)->handle;
    char text[448];
    pthread_once(&once, load);
    if (cupti.reason[0]) {
        snprintf(text, sizeof text, "%s: profiles do not show kernels", cupti.reason);
        cuda_tell(d, text);
        return gpu_error(self, TN_E_UNSUPPORTED, "%s", cupti.reason);
    }
    recording *r = calloc(1, sizeof *r);
    if (!r) return gpu_error(self, TN_E_OUT_OF_MEMORY, "out of host memory");
    pthread_mutex_lock(&cupti.control);
    int32_t status = CUPTI(self, cuptiGetTimestamp, &r->begin);
    if (!status && !cupti.recordings) status = enable(self);
    if (!status) {
        r->device = d;
        r->session = ++cupti.sessions;
        GPU_LINK(&cupti.lock, &cupti.recordings, r);
        *out_recording = r;
    }
    pthread_mutex_unlock(&cupti.control);
    if (status) free(r);
    return status;
}

static int32_t push(void *self, void *handle, uint64_t work)
{
    const recording *r = handle;
    return CUPTI(self, cuptiActivityPushExternalCorrelationId, CUPTI_EXTERNAL_OWN,
                 r->session << WORK_BITS | work);
}

static void pop(void *self, void *device)
{
    uint64_t last;
    (void)cupti.cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_OWN, &last);
}

/* ---- The end ------------------------------------------------------------------------------------------------ */

static int by_correlation(const void *x, const void *y)
{
    const cupti_external *a = x, *b = y;
    return a->correlation < b->correlation ? -1 : a->correlation > b->correlation;
}

/* Under which number it was queued; 0: none. `externals` are in order. */
static uint64_t number_of(const ran *a)
{
    const cupti_external key = {.correlation = a->correlation}, *e = NULL;
    if (cupti.externals.count)
        e = bsearch(&key, cupti.externals.items, cupti.externals.count, sizeof key, by_correlation);
    return e ? e->external : 0;
}

/* What to add to times of CUPTI to have those of CLOCK_MONOTONIC: of three readings the one that took least. */
static int32_t offset_between_clocks(const gpu_plugin *plugin, int64_t *out)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        struct timespec before, after;
        uint64_t at = 0;
        clock_gettime(CLOCK_MONOTONIC, &before);
        int32_t status = CUPTI(plugin, cuptiGetTimestamp, &at);
        if (status) return status;
        clock_gettime(CLOCK_MONOTONIC, &after);
        const int64_t first = (int64_t)before.tv_sec * 1000000000 + before.tv_nsec,
                      took = (int64_t)after.tv_sec * 1000000000 + after.tv_nsec - first;
        if (took < least) *out = first + took / 2 - (int64_t)at;
        if (took < least) least = took;
    }
    return TN_OK;
}

/* Hands over the recording's part: what its own work queued, and on its device what no recording's work did. Keeps the rest. */
static void hand_over(const recording *r, int64_t offset,
                      void (*take)(void *user, const tn_x_activity *activity), void *user)
{
    ran *all = cupti.ran.items;
    size_t kept = 0;
    if (cupti.externals.count)
        qsort(cupti.externals.items, cupti.externals.count, sizeof(cupti_external), by_correlation);
    for (size_t i = 0; i < cupti.ran.count; i++) {
        const uint64_t number = number_of(&all[i]), session = number >> WORK_BITS;
        if (session ? session != r->session
                    : all[i].device != (uint32_t)r->device->id || all[i].start < r->begin) {
            all[kept++] = all[i];
        } else {
            const tn_x_activity a = {.size = sizeof a,
                                     .kind = all[i].kind,
                                     .work = number & (((uint64_t)1 << WORK_BITS) - 1),
                                     .stream = all[i].stream,
                                     .start = (int64_t)all[i].start + offset,
                                     .end = (int64_t)all[i].end + offset,
                                     .name = all[i].name};
            take(user, &a);
        }
    }
    cupti.ran.count = kept;
}

static void forget_all(void)
{
    forget(&cupti.ran);
    forget(&cupti.externals);
    for (uint32_t i = 0; i < NAMES; i++)
        for (kernel_name *n = cupti.names[i], *next; n || (cupti.names[i] = NULL); n = next) {
            next = n->next;
            free(n);
        }
}

static int32_t end(void *self, void *handle, void (*take)(void *user, const tn_x_activity *activity),
                   void *user, uint64_t *out_lost)
{
    recording *r = handle;
    size_t dropped = 0;
    int64_t offset = 0;
    pthread_mutex_lock(&cupti.control);
    if (!cupti.recordings->next) disable(KINDS);
    int32_t status = CUPTI(self, cuptiActivityFlushAll, CUPTI_FLUSH_FORCED);
    const int32_t of_clock = offset_between_clocks(self, &offset);
    (void)cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped);
    GPU_UNLINK(&cupti.lock, &cupti.recordings, r);
    pthread_mutex_lock(&cupti.lock);
    if (!of_clock) hand_over(r, offset, take, user);
    status = status ? status : of_clock;
    if (!status) *out_lost = cupti.lost + dropped;
    cupti.lost = 0;
    if (!cupti.recordings) forget_all();
    pthread_mutex_unlock(&cupti.lock);
    pthread_mutex_unlock(&cupti.control);
    free(r);
    return status;
}

const tn_x_activity_interface cuda_activities =
    TN_INTERFACE(tn_x_activity_interface, .begin = begin, .push = push, .pop = pop, .end = end);
