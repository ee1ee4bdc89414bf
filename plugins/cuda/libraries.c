/* SPDX-License-Identifier: Apache-2.0 */
/* The vendor's libraries: found with dlopen when they are first needed, absent without one of their functions; their plans. */
#include "libraries.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLANS = 4096 }; /* as many are kept; then all are made anew */

/* ---- Opening ------------------------------------------------------------------------------------------------ */

/* A line for the program's log, once for each device. */
static void tell(const cuda_device *d, const char *text)
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
    tell(d, text);
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

static uint32_t axes_of(const gpu_window *w)
{
    return w->in[0] == 1 && w->out[0] == 1 && w->kernel_size[0] == 1 && w->padding[0] == 0 ? 2 : 3;
}

cuda_window_key cuda_window_key_of(const gpu_convolution *c)
{
    const gpu_window *w = c->window;
    cuda_window_key k = {.pass = c->pass,
                         .dtype = w->dtype,
                         .axes = axes_of(w),
                         .images = w->images,
                         .groups = w->groups,
                         .in_channels = w->in_channels,
                         .out_channels = w->out_channels};
    memcpy(k.in, w->in, sizeof k.in);
    memcpy(k.out, w->out, sizeof k.out);
    memcpy(k.kernel_size, w->kernel_size, sizeof k.kernel_size);
    memcpy(k.stride, w->stride, sizeof k.stride);
    memcpy(k.padding, w->padding, sizeof k.padding);
    memcpy(k.dilation, w->dilation, sizeof k.dilation);
    return k;
}

uint32_t cuda_window_sizes(const cuda_window_key *k, uint32_t which, int64_t sizes[5])
{
    const uint32_t *const axes[] = {k->in, k->kernel_size, k->out};
    const int64_t firsts[] = {k->images, (int64_t)k->groups * k->out_channels, k->images};
    const int64_t seconds[] = {(int64_t)k->groups * k->in_channels, k->in_channels,
                               (int64_t)k->groups * k->out_channels};
    sizes[0] = firsts[which];
    sizes[1] = seconds[which];
    for (uint32_t i = 0; i < k->axes; i++) sizes[2 + i] = axes[which][3 - k->axes + i];
    return k->axes + 2;
}

/* ---- Plans -------------------------------------------------------------------------------------------------- */

static void forget_plans(cuda_library *l)
{
    for (uint32_t i = 0; i < CUDA_PLAN_BUCKETS; i++) {
        for (cuda_plan *p = l->plans[i], *next; p; p = next) {
            next = p->next;
            l->kind->destroy_plan(l, p);
            free(p);
        }
        l->plans[i] = NULL;
    }
    l->n_plans = 0;
}

static uint32_t bucket_of(const uint8_t *bytes, size_t n)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * 16777619u;
    return (hash ^ hash >> 16) % CUDA_PLAN_BUCKETS;
}

cuda_plan *cuda_plan_find(cuda_library *l, const void *key,
                          int (*make)(cuda_library *l, cuda_plan *p, const void *user), const void *user)
{
    const size_t n = l->kind->key_bytes;
    cuda_plan **bucket = &l->plans[bucket_of(key, n)], *p = *bucket;
    while (p && memcmp(p + 1, key, n) != 0) p = p->next;
    if (p) return p;
    if (l->n_plans == PLANS) forget_plans(l);
    p = calloc(1, l->kind->plan_bytes);
    if (!p) return NULL;
    memcpy(p + 1, key, n);
    p->is_supported = !make(l, p, user);
    p->next = *bucket;
    *bucket = p;
    l->n_plans++;
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
        if (l->n_plans) forget_plans(l);
        if (l->handle && !l->kind->has_no_handle) functions_of(l)[DESTROY].destroy(l->handle);
        pthread_mutex_destroy(&l->lock);
        free(l);
    }
    cuda_leave(d, was_entered);
}

const gpu_library_driver cuda_libraries = {.product = cuda_blas_product,
                                           .convolve = cuda_dnn_convolve,
                                           .can_factor = cuda_solver_can_factor,
                                           .factor = cuda_solver_factor,
                                           .transform = cuda_fft_transform};
