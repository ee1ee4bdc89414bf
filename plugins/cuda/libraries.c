/* SPDX-License-Identifier: Apache-2.0 */
/* The vendor's libraries: found with dlopen when they are first needed, absent without one of their functions; their plans. */
#include "libraries.h"

#include <library_names.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Opening ------------------------------------------------------------------------------------------------ */

void cuda_tell(const cuda_device *d, const char *text)
{
    const tn_host *host = d->plugin->host;
    char line[192];
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

/* NULL, or what is wrong with the library. */
static const char *load(const cuda_device *d, cuda_library *l)
{
    const cuda_library_kind *kind = l->kind;
    for (uint32_t i = 0; kind->files[i] && !l->library; i++)
        l->library = dlopen(kind->files[i], RTLD_NOW | RTLD_LOCAL);
    if (!l->library) return "not found";
    for (uint32_t i = 0; i < kind->n_symbols; i++) {
        functions_of(l)[i].place = dlsym(l->library, kind->symbols[i]);
        if (!functions_of(l)[i].place) return "lacks a function";
    }
    return is_foreign(d, l->library) ? "is for another generation of " VENDOR_NAME : NULL;
}

/* The library's own start. Writes the line that the log gets. */
static void begin(cuda_library *l, char *text, size_t size)
{
    const cuda_library_kind *kind = l->kind;
    const int result = kind->has_no_handle ? 0 : functions_of(l)[CREATE].create(&l->handle);
    if (kind->has_no_handle) l->handle = l;
    if (result) {
        l->handle = NULL;
        snprintf(text, size, "%s failed (%s): %s %s", kind->symbols[CREATE], status_name(l, result),
                 otherwise(kind), kind->work);
        return;
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
}

static cuda_library *make_library(cuda_device *d, const cuda_library_kind *kind)
{
    char text[160];
    cuda_library *l = calloc(1, kind->size);
    if (!l) return NULL;
    l->kind = kind;
    pthread_mutex_init(&l->lock, NULL);
    const char *wrong = load(d, l);
    if (wrong) {
        snprintf(text, sizeof text, "%s %s: %s %s", l->library ? kind->name : kind->files[0], wrong,
                 otherwise(kind), kind->work);
    } else {
        int32_t was_entered = cuda_enter(d);
        begin(l, text, sizeof text);
        cuda_leave(d, was_entered);
    }
    cuda_tell(d, text);
    return l;
}

cuda_library *cuda_library_of(cuda_device *d, const cuda_library_kind *kind)
{
    cuda_library **place = d->libraries;
    cuda_library *l = NULL;
    for (uint32_t i = 0; i < CUDA_LIBRARIES && !l; i++) {
        l = __atomic_load_n(&place[i], __ATOMIC_ACQUIRE);
        if (!l) break;
        if (l->kind != kind) l = NULL;
    }
    if (!l) {
        pthread_mutex_lock(&d->lock);
        while (*place && (*place)->kind != kind) place++;
        l = *place;
        if (!l) {
            l = make_library(d, kind);
            __atomic_store_n(place, l, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&d->lock);
    }
    return l && l->handle ? l : NULL;
}

int32_t cuda_library_run(cuda_device *d, const cuda_library_kind *kind, cuda_library_work *run, void *queue,
                         const tn_call *call, const void *work)
{
    cuda_library *l = cuda_library_of(d, kind);
    if (!l) return TN_E_UNSUPPORTED;
    pthread_mutex_lock(&l->lock);
    int32_t was_entered = cuda_enter(d);
    int32_t status = run(d, l, queue, call, work);
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

gpu_plan *cuda_plan_find(cuda_library *l, const void *key,
                         int (*make)(cuda_library *l, gpu_plan *p, const void *user), const void *user)
{
    gpu_plan *p = gpu_plan_find(&l->plans, key, l->kind->key_bytes);
    if (p) return p;
    if (l->plans.count == GPU_PLANS) gpu_plans_clear(&l->plans, destroy_plan, l);
    p = gpu_plan_add(&l->plans, key, l->kind->key_bytes, l->kind->plan_bytes);
    if (p) p->is_supported = !make(l, p, user);
    return p;
}

int32_t cuda_library_error(const cuda_device *d, const cuda_library *l, int32_t status, int result,
                           const char *function)
{
    const char *name = status_name(l, result);
    return gpu_error_native(d->plugin, status, result, name, "%s failed: %s", function, name);
}

/* ---- Closing ------------------------------------------------------------------------------------------------ */

/* The libraries stay loaded, as that of the driver does. */
void cuda_libraries_close(cuda_device *d)
{
    int32_t was_entered = cuda_enter(d);
    for (uint32_t i = 0; i < CUDA_LIBRARIES; i++) {
        cuda_library *l = d->libraries[i];
        if (!l) continue;
        gpu_plans_clear(&l->plans, destroy_plan, l);
        if (l->handle && !l->kind->has_no_handle) functions_of(l)[DESTROY].destroy(l->handle);
        pthread_mutex_destroy(&l->lock);
        free(l);
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
