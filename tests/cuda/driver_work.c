/* SPDX-License-Identifier: Apache-2.0 */
/* The work of the streams of the libcuda.so.1 for tests: a thread for each stream, and kernels that run as their twins on PoCL. */
#include "driver.h"

/* ---- OpenCL ------------------------------------------------------------------------------------------------- */

#define OPENCL(X)                \
    X(clGetPlatformIDs)          \
    X(clGetDeviceIDs)            \
    X(clGetDeviceInfo)           \
    X(clCreateContext)           \
    X(clCreateCommandQueue)      \
    X(clCreateProgramWithSource) \
    X(clBuildProgram)            \
    X(clGetProgramBuildInfo)     \
    X(clCreateKernel)            \
    X(clSetKernelArg)            \
    X(clSetKernelArgSVMPointer)  \
    X(clEnqueueNDRangeKernel)    \
    X(clFinish)                  \
    X(clReleaseCommandQueue)
static struct {
#define DECLARE(name) __typeof__(&name) name;
    OPENCL(DECLARE)
    cl_device_id device;
    cl_context context;
    char options[64];
} cl;

int start_opencl(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    cl_platform_id platform;
    cl_device_fp_config config = 0;
    cl_int status;
    if (!library) return 0;
#define LOAD(name) *(void **)(void *)&cl.name = dlsym(library, #name);
    OPENCL(LOAD)
    if (cl.clGetPlatformIDs(1, &platform, NULL) ||
        cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &cl.device, NULL))
        return 0;
    cl.context = cl.clCreateContext(NULL, 1, &cl.device, NULL, NULL, &status);
    cl.clGetDeviceInfo(cl.device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL);
    snprintf(cl.options, sizeof cl.options, "-cl-std=CL1.2%s",
             config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    return status == CL_SUCCESS;
}

/* The kernel of a twin, compiled when it is first used; its program has all kernels of the variant. */
static cl_kernel twin_kernel(const twin *t)
{
    static cl_kernel kernels[1024];
    static cl_program programs[1024]; /* by the first twin of the variant */
    const size_t i = (size_t)(t - twins);
    size_t first = i;
    cl_int status = CL_SUCCESS;
    if (kernels[i]) return kernels[i];
    while (first && !strcmp(twins[first - 1].options, t->options) && !strcmp(twins[first - 1].file, t->file))
        first--;
    if (!programs[first]) {
        char options[512], log[4096] = "";
        const gpu_source *source = gpu_sources;
        while (strcmp(source->name, t->file) != 0) source++;
        snprintf(options, sizeof options, "%s %s", cl.options, t->options);
        cl_program p = cl.clCreateProgramWithSource(cl.context, 1, (const char **)(uintptr_t)&source->text,
                                                    NULL, &status);
        if (!status) status = cl.clBuildProgram(p, 1, &cl.device, options, NULL, NULL);
        if (status) {
            cl.clGetProgramBuildInfo(p, cl.device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
            fprintf(stderr, "libcuda for tests: %s with %s: %d\n%s\n", t->file, options, status, log);
            abort();
        }
        programs[first] = p;
    }
    kernels[i] = cl.clCreateKernel(programs[first], t->kernel, &status);
    if (status) {
        fprintf(stderr, "libcuda for tests: %s has no kernel %s: %d\n", t->file, t->kernel, status);
        abort();
    }
    return kernels[i];
}

/* ---- Work of streams ---------------------------------------------------------------------------------------- */

/* Where `bytes` bytes of device memory lie, or NULL: the device that uses them may not. Under the lock. */
char *place_for(int user, CUcontext c, CUdeviceptr address, size_t bytes)
{
    size_t at = (size_t)address - (size_t)c->range, found = at;
    for (int i = 0; i < c->n_blocks; i++)
        if (!c->blocks[i].is_reserved && at >= c->blocks[i].begin &&
            at + bytes <= c->blocks[i].begin + c->blocks[i].bytes)
            return c->bytes + at;
    for (int i = 0; i < c->n_pieces && found < at + bytes; i++) {
        const piece *p = &c->pieces[i];
        if ((p->users >> user & 1) && found >= p->begin && found < p->begin + p->bytes)
            found = p->begin + p->bytes;
    }
    return found > at && found >= at + bytes ? c->bytes + at : NULL;
}

char *place_of(CUcontext c, CUdeviceptr address, size_t bytes)
{
    return place_for(c->device, c, address, bytes);
}

static CUresult run_kernel(CUstream s, work *w)
{
    cl_kernel kernel = twin_kernel(w->kernel);
    cl_int status = CL_SUCCESS;
    for (uint32_t i = 0; i < w->kernel->n_arguments && !status; i++) {
        CUdeviceptr address;
        if (w->kernel->sizes[i]) {
            status = cl.clSetKernelArg(kernel, i, w->kernel->sizes[i], w->arguments[i]);
            continue;
        }
        memcpy(&address, w->arguments[i], sizeof address);
        char *at = address ? place_of(s->context, address, 1) : NULL;
        if (address && !at) return CUDA_ERROR_ILLEGAL_ADDRESS;
        status = cl.clSetKernelArgSVMPointer(kernel, i, at);
    }
    if (!status)
        status = cl.clEnqueueNDRangeKernel(s->queue, kernel, 1, NULL, &w->items, &w->group, 0, NULL, NULL);
    pthread_mutex_unlock(&lock);
    if (!status) status = cl.clFinish(s->queue);
    pthread_mutex_lock(&lock);
    if (status) fprintf(stderr, "libcuda for tests: %s: OpenCL returns %d\n", w->kernel->name, status);
    return status ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

static CUresult run_copy(CUstream s, work *w)
{
    const int user = s->context->device;
    char *to = w->to_device ? place_for(user, w->to_context, w->to_device, w->bytes) : w->to;
    const char *from = w->from_device ? place_for(user, w->from_context, w->from_device, w->bytes) : w->from;
    if (!to || !from) return CUDA_ERROR_ILLEGAL_ADDRESS;
    pthread_mutex_unlock(&lock);
    memmove(to, from, w->bytes);
    pthread_mutex_lock(&lock);
    return CUDA_SUCCESS;
}

static CUresult run_fill(work *w)
{
    char *to = place_of(w->to_context, w->to_device, w->bytes);
    if (!to) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < w->bytes; i += w->width) memcpy(to + i, &w->value, w->width);
    return CUDA_SUCCESS;
}

/* Work of a vendor's library for tests. */
static CUresult run_library(CUstream s, work *w)
{
    pthread_mutex_unlock(&lock);
    CUresult result = w->library(s->context, w->arguments);
    pthread_mutex_lock(&lock);
    return result;
}

unsigned long long issued_of(const struct CUevent_st *e)
{
    return e->shared ? atomic_load(&e->shared->issued) : e->issued;
}

unsigned long long done_of(const struct CUevent_st *e)
{
    return e->shared ? atomic_load(&e->shared->done) : e->done;
}

/* Under the lock, until something changes. Another process does not say so. */
void wait_for(const struct CUevent_st *e)
{
    if (!e->shared) {
        pthread_cond_wait(&changed, &lock);
        return;
    }
    pthread_mutex_unlock(&lock);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
    pthread_mutex_lock(&lock);
}

/* The host waits for that work, which may begin now; the stream may be gone. */
void ask(CUstream s, uint64_t number)
{
    CUstream found = streams;
    while (found && found != s) found = found->next;
    if (!found || found->asked >= number) return;
    found->asked = number;
    pthread_cond_broadcast(&changed);
}

/* Until the host has asked for the work. */
static void hold(CUstream s, const work *w)
{
    while (s->asked < w->number) {
        if (late_is_closed()) late_note("reached");
        pthread_cond_wait(&changed, &lock);
    }
}

/* Work behind the wait that the host has asked for asks for what is waited for. */
static void wait_in_stream(CUstream s, const work *w)
{
    if (w->event->shared && done_of(w->event) < w->record) late_note("reached");
    while (done_of(w->event) < w->record && !s->context->sticky) {
        if (s->asked >= w->number) ask(w->awaited, w->awaited_number);
        wait_for(w->event);
    }
}

/* One after another, of whatever stream; none behind a fault. */
static void call_back(CUstream s, work *w)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    s->in_callback = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&one);
    is_callback = 1;
    w->callback(w->user);
    is_callback = 0;
    pthread_mutex_unlock(&one);
    pthread_mutex_lock(&lock);
    s->in_callback = 0;
}

void release_event(CUevent e)
{
    if (--e->references) return;
    if (e->shared) munmap(e->shared, sizeof *e->shared);
    if (e->file >= 0) close(e->file);
    release_graph(e->capture);
    free(e);
}

static uint64_t now_real(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void tell_watch(CUstream s, const work *w, uint64_t start)
{
    const cuda_test_ran ran = {.kind = w->kind == COPY   ? RAN_COPY
                                       : w->kind == FILL ? RAN_FILL
                                                         : RAN_KERNEL,
                               .name = w->kind == LAUNCH ? w->kernel->name : "kernel of a library",
                               .device = s->context->device,
                               .from_device = w->from_device ? w->from_context->device : -1,
                               .to_device = w->to_device ? w->to_context->device : -1,
                               .stream = s,
                               .bytes = w->bytes,
                               .start = start,
                               .end = now_real()};
    watch->ran(w->call, &ran);
}

/* Under the lock, which waiting and long work let go of. */
void run(CUstream s, work *w)
{
    if (w->kind <= LIBRARY || w->kind == GRAPH) hold(s, w);
    CUresult result = s->context->sticky;
    if (!result && w->kind <= LIBRARY) {
        pthread_mutex_unlock(&lock);
        if (w->kind == LAUNCH || w->kind == LIBRARY || w->to_device) late_begin();
        pthread_mutex_lock(&lock);
        const uint64_t start = now_real();
        result = s->context->sticky ? s->context->sticky : asked_fault("work");
        s->uses_memory = !result && w->kind != LIBRARY; /* whose work may wait for another device */
        if (!result)
            result = w->kind == LAUNCH    ? run_kernel(s, w)
                     : w->kind == COPY    ? run_copy(s, w)
                     : w->kind == LIBRARY ? run_library(s, w)
                                          : run_fill(w);
        s->uses_memory = 0;
        keep(s->context, result);
        if (watch && w->call && !result) tell_watch(s, w, start);
    }
    if (w->kind == RECORD) {
        w->event->done = w->record;
        if (w->event->shared) atomic_store(&w->event->shared->done, w->record);
        clock_gettime(CLOCK_MONOTONIC, &w->event->time);
    }
    if (w->kind == WAIT) wait_in_stream(s, w);
    if (w->event) release_event(w->event);
    if (w->kind == GRAPH) run_graph(s, w);
    if (w->kind == CALLBACK && !s->context->sticky) call_back(s, w);
}

static void *serve(void *data)
{
    CUstream s = data;
    pthread_mutex_lock(&lock);
    while (s->first || !s->ends) {
        work *w = s->first;
        if (!w) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        s->first = w->next;
        if (!s->first) s->last = &s->first;
        s->busy = 1;
        s->running = w;
        run(s, w);
        s->running = NULL;
        watch_managed(w);
        s->busy = 0;
        free(w);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

CUstream make_stream(CUcontext c)
{
    cl_int status;
    CUstream s = calloc(1, sizeof *s);
    *s = (struct CUstream_st){.context = c};
    s->last = &s->first;
    s->queue = cl.clCreateCommandQueue(cl.context, cl.device, 0, &status);
    s->next = streams;
    streams = s;
    pthread_create(&s->thread, NULL, serve, s);
    return s;
}

void end_stream(CUstream s)
{
    s->ends = 1;
    s->asked = UINT64_MAX;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_lock(&lock);
    cl.clReleaseCommandQueue(s->queue);
    CUstream *at = &streams;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    release_graph(s->capture);
    free(s);
}

/* The stream itself, or the default one; NULL if it is of another context than the current one. */
CUstream stream_of(CUcontext c, CUstream s)
{
    if (s && (uintptr_t)s > (uintptr_t)CU_STREAM_PER_THREAD) return s->context == c ? s : NULL;
    if (!c->default_stream) c->default_stream = make_stream(c);
    return c->default_stream;
}

CUresult queue(CUcontext c, CUstream s, work w)
{
    s = stream_of(c, s);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (capture_of(s)) return capture_work(s, w);
    work *copy = malloc(sizeof *copy);
    *copy = w;
    copy->next = NULL;
    copy->call = call_number;
    copy->number = late_until_asked() ? ++s->queued : 0;
    if (w.kind == RECORD) {
        w.event->stream = s;
        w.event->number = copy->number;
    }
    late_queued();
    if (late_until_asked() && w.kind == COPY && !w.to_device) memset(w.to, 0, w.bytes);
    *s->last = copy;
    s->last = &copy->next;
    watch_managed(copy);
    pthread_cond_broadcast(&changed);
    return CUDA_SUCCESS;
}
