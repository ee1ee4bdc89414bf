/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs and launches. A program is compiled when a call first needs it, under the device's lock, and kept
 * until the device closes; its binary goes to the user's cache. A compilation makes other threads wait. Where drivers keep
 * arguments in the kernel, the lock is held while they are set and the kernel is queued.
 */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Programs ------------------------------------------------------------------------------------------ */

/* Few sizes of groups: some drivers compile a kernel again for each. */
static uint32_t group_of(const gpu_device *d, int32_t is_heavy)
{
    if (d->properties.is_processor) return is_heavy ? 1 : 64;
    return GPU_GROUP_ITEMS;
}

uint32_t gpu_width_for(uint64_t n)
{
    uint32_t width = GPU_GROUP_ITEMS;
    while (width > n && width > 1) width /= 2;
    return width;
}

uint32_t gpu_dense_run(const gpu_device *d)
{
    return d->properties.is_processor ? 4096 : 4;
}

uint64_t gpu_rows_each(uint32_t width, uint64_t run)
{
    return width < run ? run / width : 1;
}

uint32_t gpu_dense_group(const gpu_device *d)
{
    return gpu_dense_run(d) * group_of(d, GPU_HEAVY);
}

/* What the compiler is told; device/dialect.h and device/pointwise.cl say what the words mean. */
static void write_options(const gpu_device *d, gpu_program_key key, char *out, size_t bytes)
{
    int n = snprintf(out, bytes, "-DGPU_TYPE=%d -DGPU_GROUP=%d -DGPU_PROCESSOR=%u%s", key.type, key.group,
                     d->properties.is_processor, key.type == 32 ? " -cl-single-precision-constant" : "");
    int32_t has_dtype = key.file == GPU_FILE_LINES || key.file == GPU_FILE_WINDOWS ||
                        key.file == GPU_FILE_NORMS || key.file == GPU_FILE_STEPS ||
                        key.file == GPU_FILE_PRODUCT || key.file == GPU_FILE_ATTENTION ||
                        key.file == GPU_FILE_ATTENTION_GROUPS || key.file == GPU_FILE_RESAMPLE;
    if (has_dtype) snprintf(out + n, bytes - (size_t)n, " -DGPU_DTYPE=%u", key.dtypes[0]);
    if (key.is_dense && d->properties.is_precompiled)
        snprintf(out + n, bytes - (size_t)n, " -DGPU_DTYPE=%u -DGPU_DENSE=1 -DGPU_RUN=%u", key.dtypes[0],
                 gpu_dense_run(d));
    else if (key.is_dense)
        snprintf(out + n, bytes - (size_t)n,
                 " -DGPU_OPCODE=%u -DGPU_IMMEDIATE=%u -DGPU_SPLAT=%u -DGPU_DTYPE_0=%u -DGPU_DTYPE_1=%u "
                 "-DGPU_DTYPE_2=%u -DGPU_DTYPE_3=%u -DGPU_RUN=%u",
                 key.opcode, key.immediate, key.splat, key.dtypes[0], key.dtypes[1], key.dtypes[2],
                 key.dtypes[3], gpu_dense_run(d));
}

static int32_t compile(gpu_device *d, gpu_program_key key, void **out_program)
{
    const gpu_source *source = &gpu_sources[key.file];
    gpu_binary cached = {0}, made = {0};
    char options[256], name[640];
    write_options(d, key, options, sizeof options);
    snprintf(name, sizeof name, "%s\n%s\n%s", d->properties.identity, source->name, options);
    const char *folder =
        __atomic_load_n(&d->plugin->no_cache, __ATOMIC_RELAXED) ? "" : d->plugin->cache_folder;
    gpu_cache_read(folder, name, source->text, &cached);
    /* Without a cache the binary is not asked for: some drivers compile all kernels again to give it. */
    gpu_binary *wanted = cached.bytes || !folder[0] ? NULL : &made;
    int32_t status = gpu_the_driver.program_create(d->handle, source->text, options,
                                                   cached.bytes ? &cached : NULL, out_program, wanted);
    if (status && cached.bytes) /* a binary that the driver no longer takes */
        status = gpu_the_driver.program_create(d->handle, source->text, options, NULL, out_program, &made);
    if (!status && made.bytes) gpu_cache_write(folder, name, source->text, &made);
    free(cached.bytes);
    free(made.bytes);
    return status;
}

static int32_t find_program(gpu_device *d, gpu_program_key key, gpu_program **out)
{
    gpu_program *p = d->programs;
    while (p && memcmp(&p->key, &key, sizeof key) != 0) p = p->next;
    if (p && p->has_failed)
        return gpu_error(d->plugin, TN_E_INTERNAL,
                         "%s does not compile for this device: the error of the first call has the log",
                         gpu_sources[key.file].name);
    if (p) {
        *out = p;
        return TN_OK;
    }
    p = calloc(1, sizeof *p);
    if (!p) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    p->key = key;
    int32_t status = compile(d, key, &p->program);
    p->has_failed = status == TN_E_INTERNAL;
    if (status && !p->has_failed) {
        free(p);
        return status;
    }
    p->next = d->programs;
    d->programs = p;
    *out = p;
    return status;
}

static int32_t find_kernel(gpu_device *d, const gpu_job *job, void **out)
{
    gpu_program *p = NULL;
    int32_t status = find_program(d, job->program, &p);
    if (status) return status;
    uint32_t i = 0;
    while (i < p->n_kernels && strcmp(p->kernels[i].name, job->kernel) != 0) i++;
    if (i == p->n_kernels) {
        if (i == GPU_PROGRAM_KERNELS)
            return gpu_error(d->plugin, TN_E_INTERNAL, "too many kernels in a program");
        status = gpu_the_driver.kernel_create(d->handle, p->program, job->kernel, &p->kernels[i].kernel);
        if (status) return status;
        p->kernels[i].name = job->kernel;
        p->n_kernels++;
    }
    *out = p->kernels[i].kernel;
    return TN_OK;
}

void gpu_programs_destroy(gpu_device *d)
{
    for (gpu_program *p = d->programs, *next; p; p = next) {
        next = p->next;
        for (uint32_t i = 0; i < p->n_kernels; i++)
            gpu_the_driver.kernel_destroy(d->handle, p->kernels[i].kernel);
        if (p->program) gpu_the_driver.program_destroy(d->handle, p->program);
        free(p);
    }
    d->programs = NULL;
}

/* ---- Launches ------------------------------------------------------------------------------------------ */

gpu_job gpu_job_of(const tn_call *call, uint32_t file, uint8_t type, const char *kernel)
{
    return (gpu_job){.call = call, .program = {.file = (uint16_t)file, .type = type}, .kernel = kernel};
}

void gpu_give_memory(gpu_job *job, void *allocation)
{
    job->arguments[job->n_arguments++] = (gpu_argument){.is_memory = 1, .value = allocation};
}

void gpu_give(gpu_job *job, const void *value, uint32_t bytes)
{
    job->arguments[job->n_arguments++] = (gpu_argument){.bytes = bytes, .value = value};
}

void gpu_give_faults(gpu_job *job)
{
    job->looks_for_faults = 1;
    gpu_give_memory(job, gpu_stream_fault_memory(gpu_stream_of(job->call)));
}

static int32_t launch(const gpu_job *job, uint64_t items, int32_t is_heavy)
{
    gpu_device *d = gpu_device_of(job->call);
    gpu_stream *stream = gpu_stream_of(job->call);
    uint32_t group = group_of(d, is_heavy);
    void *kernel = NULL;
    int32_t status = gpu_the_driver.status(d->handle);
    if (status) return status;
    if (items > GPU_MOST_ITEMS)
        return gpu_error(
            d->plugin, TN_E_UNSUPPORTED, "%s: kernel %s would have %llu work items; at most %llu are counted",
            job->call->name, job->kernel, (unsigned long long)items, (unsigned long long)GPU_MOST_ITEMS);
    pthread_mutex_lock(&d->lock);
    status = find_kernel(d, job, &kernel);
    if (gpu_the_driver.launches_at_once) pthread_mutex_unlock(&d->lock);
    if (!status)
        status = gpu_the_driver.launch(d->handle, stream->queue, kernel, job->arguments, job->n_arguments,
                                       (items + group - 1) / group * group, group);
    if (!gpu_the_driver.launches_at_once) pthread_mutex_unlock(&d->lock);
    /* Not before: another thread that waits for the stream meanwhile would look for faults in vain. */
    if (!status && job->looks_for_faults && !gpu_stream_capture(stream))
        __atomic_store_n(&stream->may_have_fault, 1, __ATOMIC_RELEASE);
    return status;
}

int32_t gpu_launch(const gpu_job *job, uint64_t items, int32_t is_heavy)
{
    int32_t has_range = gpu_the_driver.range_begin && gpu_the_driver.range_begin(job->call->name);
    int32_t status = launch(job, items, is_heavy);
    if (has_range) gpu_the_driver.range_end();
    return status ? status : gpu_queued(job->call);
}

int32_t gpu_queued(const tn_call *call)
{
    const gpu_stream *stream = gpu_stream_of(call);
    const gpu_device *d = gpu_device_of(call);
    if (TN_HOST_HAS(call->host, work_queued)) call->host->work_queued(call);
    if (gpu_stream_capture(stream) || !__atomic_load_n(&d->plugin->blocking, __ATOMIC_RELAXED)) return TN_OK;
    return gpu_the_driver.queue_finish(d->handle, stream->queue);
}

uint64_t gpu_items_wanted(const gpu_device *d)
{
    uint64_t units = d->properties.compute_units ? d->properties.compute_units : 1;
    return units * (d->properties.is_processor ? 4 : 1024);
}

int32_t gpu_workspace(const tn_call *call, uint64_t bytes, void **out_allocation, uint64_t *out_offset)
{
    const tn_memory_request request = {.size = sizeof request, .bytes = bytes};
    tn_memory memory = {.size = sizeof memory};
    int32_t status = call->host->workspace(call, &request, &memory);
    *out_allocation = memory.allocation;
    *out_offset = memory.offset;
    return status;
}

/* ---- Faults -------------------------------------------------------------------------------------------- */

void gpu_faults_init(gpu_device *d)
{
    pthread_mutex_init(&d->beside.lock, NULL);
}

void gpu_faults_finish(gpu_device *d)
{
    if (d->beside.queue) gpu_the_driver.queue_destroy(d->handle, d->beside.queue);
    pthread_mutex_destroy(&d->beside.lock);
}

static int32_t report(const gpu_device *d, const int32_t fault[GPU_FAULT_WORDS])
{
    /* In the order of GPU_BY_... */
    static const char *const operations[] = {"gather",         "scatter",     "scatter_add",
                                             "scatter_reduce", "embedding",   "embedding_dense_backward",
                                             "index_select",   "index_reduce"};
    _Static_assert(sizeof operations / sizeof *operations == GPU_BY_SORTER, "names of operations");
    int64_t index, size;
    if (fault[0] == GPU_FAULT_DIVISION) return gpu_error(d->plugin, TN_E_ARGUMENT, "ZeroDivisionError");
    if (fault[1] == GPU_BY_SORTER)
        return gpu_error(d->plugin, TN_E_INDEX, "torch.searchsorted(): sorter index out of range");
    memcpy(&index, fault + 2, sizeof index);
    memcpy(&size, fault + 4, sizeof size);
    if (fault[1] >= GPU_BY_EMBEDDING)
        return gpu_error(d->plugin, TN_E_INDEX,
                         "%s: index out of range in self: got %lld, expected 0 to %lld", operations[fault[1]],
                         (long long)index, (long long)size - 1);
    return gpu_error(d->plugin, TN_E_INDEX, "%s: index %lld is out of bounds for dimension with size %lld",
                     operations[fault[1]], (long long)index, (long long)size);
}

static int32_t read_fault(const gpu_stream *stream, void *queue, int32_t out[GPU_FAULT_WORDS])
{
    const gpu_device *d = stream->device;
    int32_t status =
        gpu_the_driver.read(d->handle, queue, out, stream->faults, 0, GPU_FAULT_WORDS * sizeof *out);
    return status ? status : gpu_the_driver.queue_finish(d->handle, queue);
}

/* Reads the fault of a stream on a queue that has nothing else to do, clears it and reports it. A kernel that still runs writes the
 * code first: then all words are read once more. */
static int32_t take_fault(const gpu_stream *stream, void *queue)
{
    static const int32_t none[GPU_FAULT_WORDS];
    const gpu_device *d = stream->device;
    int32_t fault[GPU_FAULT_WORDS];
    int32_t status = read_fault(stream, queue, fault);
    if (status || fault[0] == GPU_FAULT_NONE) return status;
    if (queue != stream->queue) status = read_fault(stream, queue, fault);
    if (!status) status = gpu_the_driver.write(d->handle, queue, stream->faults, 0, none, sizeof none);
    if (!status) status = gpu_the_driver.queue_finish(d->handle, queue);
    return status ? status : report(d, fault);
}

int32_t gpu_stream_faults(gpu_stream *stream)
{
    if (!__atomic_exchange_n(&stream->may_have_fault, 0, __ATOMIC_ACQ_REL)) return TN_OK;
    __atomic_store_n(&stream->may_be_awaited, 0, __ATOMIC_RELEASE);
    return take_fault(stream, stream->queue);
}

void gpu_stream_is_recorded(gpu_stream *stream)
{
    if (__atomic_load_n(&stream->may_have_fault, __ATOMIC_ACQUIRE))
        __atomic_store_n(&stream->may_be_awaited, 1, __ATOMIC_RELEASE);
}

int32_t gpu_stream_faults_so_far(gpu_stream *stream)
{
    gpu_device *d = stream->device;
    if (!__atomic_load_n(&stream->may_be_awaited, __ATOMIC_ACQUIRE)) return TN_OK;
    pthread_mutex_lock(&d->beside.lock);
    int32_t status = d->beside.queue ? TN_OK : gpu_the_driver.queue_create(d->handle, 0, &d->beside.queue);
    if (!status) status = take_fault(stream, d->beside.queue);
    pthread_mutex_unlock(&d->beside.lock);
    return status;
}
