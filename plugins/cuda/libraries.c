/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's libraries: found with dlopen when they are first needed, their plans and their errors. Of several files the first one
 * is used that has all functions and starts.
 */
#include "libraries.h"

#include <library_names.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Opening ------------------------------------------------------------------------------------------------ */

void cuda_tell(const cuda_device *d, const char *text)
{
    const tn_host *host = d->plugin->host;
    char line[544];
    snprintf(line, sizeof line, VENDOR_TYPE ":%u: %s", d->index, text);
    host->log(host->context, TN_LOG_INFO, line);
}

/* The first functions of every kind. */
enum { CREATE, DESTROY, VERSION, STATUS_NAME };

typedef union entry {
    void *place;
    int (*create)(void **out_handle);
    int (*destroy)(void *handle);
    size_t (*version)(void);
    const char *(*status_name)(int status);
} entry;

static entry *functions_of(const cuda_library *l)
{
    return (entry *)(uintptr_t)(l + 1);
}

static const char *otherwise(const cuda_library_kind *kind)
{
    return kind->otherwise ? kind->otherwise : "the plugin's own kernels compute";
}

static size_t version_of(const cuda_library *l)
{
    return l->kind->version ? l->kind->version(l) : functions_of(l)[VERSION].version();
}

static const char *status_name(const cuda_library *l, int status)
{
    return l->kind->status_name ? l->kind->status_name(l, status)
                                : functions_of(l)[STATUS_NAME].status_name(status);
}

/* Whether the library is linked with another runtime of the vendor, which knows nothing of the streams of this one. */
static int32_t is_foreign(const cuda_device *d, void *library)
{
    void *own, *of_library = dlsym(library, NAME(cuInit));
    memcpy(&own, &d->cu->cuInit, sizeof own);
    return of_library && of_library != own;
}

/* NULL, or what is wrong with the file that was opened. */
static const char *load(const cuda_device *d, cuda_library *l)
{
    const cuda_library_kind *kind = l->kind;
    for (uint32_t i = 0; i < kind->n_symbols; i++) {
        functions_of(l)[i].place = dlsym(l->library, kind->symbols[i]);
        if (!functions_of(l)[i].place) return "lacks a function";
    }
    return is_foreign(d, l->library) ? "is for another generation of " VENDOR_NAME : NULL;
}

/* Whether the device has as much memory free. */
static int32_t has_room(cuda_device *d, size_t bytes)
{
    CUdeviceptr memory = (CUdeviceptr)0;
    return !CHECKED(d, cuMemAlloc, &memory, bytes) && !CHECKED(d, cuMemFree, memory);
}

/* Libraries allocate beside the caching allocator, which may have all memory: where less than this is free, a failure may be for that. */
enum { ROOM_OF_LIBRARIES = 512 << 20 };

static int32_t may_lack_memory(const cuda_device *d)
{
    size_t available, total;
    return CALL(d, cuMemGetInfo, &available, &total) == CUDA_SUCCESS && available < ROOM_OF_LIBRARIES;
}

/* The library's own start, with the device current. Writes the line that the log gets. 0: it may have lacked memory. */
static int32_t begin(const cuda_device *d, cuda_library *l, char *text, size_t size)
{
    const cuda_library_kind *kind = l->kind;
    const int result = kind->has_no_handle ? 0 : functions_of(l)[CREATE].create(&l->handle);
    if (kind->has_no_handle) l->handle = l;
    if (result) {
        l->handle = NULL;
        snprintf(text, size, "%s failed (%s): %s %s", kind->symbols[CREATE], status_name(l, result),
                 otherwise(kind), kind->work);
        return !may_lack_memory(d);
    }
    const size_t version = version_of(l);
    if (version < kind->least) {
        functions_of(l)[DESTROY].destroy(l->handle);
        l->handle = NULL;
        snprintf(text, size, "%s %zu is older than %zu: %s %s", kind->name, version, kind->least,
                 otherwise(kind), kind->work);
    } else if (version) {
        snprintf(text, size, "%s %zu computes %s", kind->name, version, kind->work);
    } else {
        snprintf(text, size, "%s computes %s", kind->name, kind->work);
    }
    return 1;
}

/* Uses the file, or leaves the handle NULL. Writes the line that the log gets. 0: memory is lacking. */
static int32_t try_file(cuda_device *d, cuda_library *l, char *text, size_t size)
{
    const char *wrong = load(d, l);
    int32_t is_tried = 1;
    if (!wrong && l->kind->handle_bytes && !has_room(d, l->kind->handle_bytes)) return 0;
    int32_t was_entered = wrong ? -1 : cuda_enter(d);
    if (!wrong && was_entered < 0) wrong = "has no context";
    if (wrong)
        snprintf(text, size, "%s %s: %s %s", l->kind->name, wrong, otherwise(l->kind), l->kind->work);
    else
        is_tried = begin(d, l, text, size);
    cuda_leave(d, was_entered);
    return is_tried;
}

static void forget(cuda_device *d, cuda_library *l)
{
    if (l->event) CALL(d, cuEventDestroy, l->event);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/*
 * A file that was opened stays so: a library may have threads and exit handlers. If none can be used, the log has what is wrong with
 * the first one that there is. NULL: memory is lacking, and a later call tries again.
 */
static cuda_library *make_library(cuda_device *d, const cuda_library_kind *kind)
{
    char text[512], first[512] = "", wrong[400];
    cuda_library *l = calloc(1, kind->size);
    if (!l) return NULL;
    l->kind = kind;
    pthread_mutex_init(&l->lock, NULL);
    for (uint32_t i = 0; kind->files[i] && !l->handle; i++) {
        l->library = gpu_dlopen(kind->files[i], wrong, sizeof wrong);
        if (!l->library && !wrong[0]) continue;
        if (!l->library) {
            snprintf(text, sizeof text, "%s: %s %s", wrong, otherwise(kind), kind->work);
        } else if (!try_file(d, l, text, sizeof text)) {
            forget(d, l);
            return NULL;
        }
        if (!first[0]) memcpy(first, text, sizeof first);
    }
    if (!first[0])
        snprintf(first, sizeof first, "%s not found: %s %s", kind->files[0], otherwise(kind), kind->work);
    cuda_tell(d, l->handle ? text : first);
    return l;
}

/* The device's library, also if it cannot be used; NULL if it was not opened. */
static cuda_library *find_opened(cuda_device *d, const cuda_library_kind *kind)
{
    for (uint32_t i = 0; i < CUDA_LIBRARIES; i++) {
        cuda_library *l = __atomic_load_n(&d->libraries[i], __ATOMIC_ACQUIRE);
        if (!l || l->kind == kind) return l;
    }
    return NULL;
}

cuda_library *cuda_library_of(cuda_device *d, const cuda_library_kind *kind, int32_t may_open)
{
    cuda_library **place = d->libraries;
    cuda_library *l = find_opened(d, kind);
    if (!l && may_open) {
        pthread_mutex_lock(&d->lock);
        while (*place && (*place)->kind != kind) place++;
        l = *place;
        if (!l) {
            l = make_library(d, kind);
            __atomic_store_n(&d->starved, l || d->starved == kind ? NULL : kind, __ATOMIC_RELEASE);
            __atomic_store_n(place, l, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&d->lock);
    }
    return l && l->handle ? l : NULL;
}

/* Why the call has no library: it lacked memory just now, or it is not there. Where it lacks memory also when the call is made once
 * more, after caches were emptied, it is as if it were not there, this once. */
static int32_t refuse(cuda_device *d, const cuda_library_kind *kind, const tn_call *call)
{
    if (!cuda_may_prepare(d, call) || __atomic_load_n(&d->starved, __ATOMIC_ACQUIRE) != kind)
        return TN_E_UNSUPPORTED;
    return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "%s lacks device memory to start", kind->name);
}

/* Before work of a library with one stream: the queue waits for the last work, which does nothing if that was its own. A stream that
 * captures now had finished its work before. */
static int32_t begin_turn(cuda_device *d, cuda_library *l, const void *queue)
{
    if (!l->kind->has_one_stream || !queue) return TN_OK;
    if (!l->event) return CHECKED(d, cuEventCreate, &l->event, CU_EVENT_DISABLE_TIMING);
    if (VENDOR_CAPTURES(d, l->last)) return TN_OK;
    return CHECKED(d, cuStreamWaitEvent, cuda_stream_of(queue), l->event, CU_EVENT_WAIT_DEFAULT);
}

/* After it, whatever its status: a failure may have queued a part. Without the event the host waits for the work. */
static int32_t end_turn(cuda_device *d, cuda_library *l, const void *queue, int32_t status)
{
    if (!l->kind->has_one_stream || !queue) return status;
    l->last = cuda_stream_of(queue);
    if (CALL(d, cuEventRecord, l->event, cuda_stream_of(queue)) == CUDA_SUCCESS) return status;
    const CUresult result = CALL(d, cuStreamSynchronize, cuda_stream_of(queue));
    return status ? status : cuda_check(d, result, NAME(cuStreamSynchronize));
}

int32_t cuda_library_run(cuda_device *d, const cuda_library_kind *kind, cuda_library_work *run, void *queue,
                         const tn_call *call, const void *work)
{
    if (kind->has_one_stream && cuda_captures(call)) return TN_E_UNSUPPORTED;
    cuda_library *l = cuda_library_of(d, kind, cuda_may_prepare(d, call));
    if (!l) return refuse(d, kind, call);
    pthread_mutex_lock(&l->lock);
    int32_t was_entered = cuda_enter(d);
    int32_t status =
        was_entered < 0 ? cuda_check(d, CUDA_ERROR_INVALID_CONTEXT, kind->name) : begin_turn(d, l, queue);
    if (!status) status = end_turn(d, l, queue, run(d, l, queue, call, work));
    cuda_leave(d, was_entered);
    pthread_mutex_unlock(&l->lock);
    return status;
}

/* ---- Plans -------------------------------------------------------------------------------------------------- */

static void destroy_plan(const void *library, gpu_plan *p)
{
    const cuda_library *l = library;
    l->kind->destroy_plan(l, p);
}

enum { FAILURES = 3 }; /* so often a library may fail to make a plan before it is asked no more */

/* Puts what was made into the table, in place of `p` if there is one; NULL without host memory. */
static gpu_plan *keep_plan(cuda_library *l, const void *key, const gpu_plan *made, gpu_plan *p)
{
    const cuda_library_kind *kind = l->kind;
    if (p) {
        kind->destroy_plan(l, p);
    } else {
        if (gpu_plans_are_full(&l->plans)) gpu_plans_make_room(&l->plans, destroy_plan, l);
        p = gpu_plan_add(&l->plans, key, kind->key_bytes, kind->plan_bytes);
    }
    if (!p) return NULL;
    memcpy(p + 1, made + 1, kind->plan_bytes - sizeof *made);
    p->is_supported = made->is_supported;
    p->failures = made->failures;
    return p;
}

/* A plan is made outside of the table. It does not enter it after a failure that may be for lack of memory; `before` is what did after
 * another failure. */
static int32_t make_plan(const cuda_device *d, cuda_library *l, const cuda_plan_request *r, gpu_plan *before,
                         gpu_plan **out)
{
    const cuda_library_kind *kind = l->kind;
    gpu_plan *made = calloc(1, kind->plan_bytes), *kept = NULL;
    if (!made) return TN_E_UNSUPPORTED;
    memcpy(made + 1, r->key, kind->key_bytes);
    const int result = r->make(l, made, r->user);
    const int32_t meaning = result ? kind->meaning(result) : TN_OK;
    made->is_supported = !result;
    if (meaning == TN_E_INTERNAL) made->failures = before ? before->failures + 1 : 1;
    if (meaning != TN_E_OUT_OF_MEMORY && !(made->failures && may_lack_memory(d)))
        kept = keep_plan(l, r->key, made, before);
    if (!kept) kind->destroy_plan(l, made);
    free(made);
    if (meaning == TN_E_OUT_OF_MEMORY)
        return gpu_error_native(d->plugin, meaning, result, status_name(l, result),
                                "%s cannot prepare %s: %s", kind->name, kind->work, status_name(l, result));
    *out = kept;
    return kept && !result ? TN_OK : TN_E_UNSUPPORTED;
}

/* The code of a captured kernel may be the plan's own: cuDNN compiles some for one plan, and unloads them with it. */
int32_t cuda_plan_find(const cuda_device *d, cuda_library *l, const cuda_plan_request *r, gpu_plan **out)
{
    gpu_plan *p = gpu_plan_find(&l->plans, r->key, l->kind->key_bytes);
    if (p && p->is_supported && cuda_captures(r->call)) gpu_plan_pin(&l->plans, p);
    if (!p || (p->failures && p->failures < FAILURES))
        return cuda_may_prepare(d, r->call) ? make_plan(d, l, r, p, out) : TN_E_UNSUPPORTED;
    *out = p;
    return p->is_supported ? TN_OK : TN_E_UNSUPPORTED;
}

/* ---- Errors ------------------------------------------------------------------------------------------------- */

/* A stream that captures is not asked: the question would break the capture. */
int32_t cuda_library_check_device(cuda_device *d, const tn_call *call, const char *function)
{
    if (cuda_captures(call)) return TN_OK;
    const CUresult result = CALL(d, cuStreamQuery, cuda_stream_of(gpu_stream_of(call)->queue));
    return cuda_status_of(result) == TN_E_DEVICE_LOST ? cuda_check(d, result, function) : TN_OK;
}

int32_t cuda_library_error(cuda_device *d, const cuda_library *l, const tn_call *call, int result,
                           const char *function)
{
    const char *name = status_name(l, result);
    const int32_t lost = cuda_library_check_device(d, call, function), meaning = l->kind->meaning(result),
                  is_for_memory =
                      meaning == TN_E_OUT_OF_MEMORY || (meaning == TN_E_INTERNAL && may_lack_memory(d)),
                  status = is_for_memory ? TN_E_OUT_OF_MEMORY : TN_E_INTERNAL;
    return lost ? lost : gpu_error_native(d->plugin, status, result, name, "%s failed: %s", function, name);
}

/* ---- Closing ------------------------------------------------------------------------------------------------ */

/* Whether the library can free the memory of its handle: not if the device is lost. */
static int32_t may_destroy(cuda_device *d, const cuda_library *l)
{
    size_t available, total;
    return !l->kind->handle_bytes || CALL(d, cuMemGetInfo, &available, &total) == CUDA_SUCCESS;
}

/* The libraries stay loaded, as that of the driver does. */
void cuda_libraries_close(cuda_device *d)
{
    int32_t was_entered = cuda_enter(d);
    for (uint32_t i = 0; i < CUDA_LIBRARIES; i++) {
        cuda_library *l = d->libraries[i];
        if (!l) continue;
        if (!may_destroy(d, l)) l->handle = NULL;
        gpu_plans_clear(&l->plans, destroy_plan, l);
        if (l->handle && !l->kind->has_no_handle) functions_of(l)[DESTROY].destroy(l->handle);
        forget(d, l);
    }
    cuda_leave(d, was_entered);
}

const gpu_library_driver cuda_libraries = {.product = cuda_blas_product,
                                           .convolve = cuda_dnn_convolve,
                                           .can_attend = VENDOR_CAN_ATTEND,
                                           .attend = VENDOR_ATTEND,
                                           .can_factor = cuda_solver_can_factor,
                                           .factor = cuda_solver_factor,
                                           .transform = cuda_fft_transform};
