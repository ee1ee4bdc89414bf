/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, graphs and launches of the family over a driver that computes nothing. Its queues count how often they were waited
 * for, fail on request, and note a wait that breaks a capture, as runtimes of vendors do.
 */
#include "gpu.h"
#include "host.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- The driver ------------------------------------------------------------------------------------------ */

typedef struct queue {
    int32_t waits, fails_with, captures, is_broken, misses_event, is_busy;
} queue;

static struct {
    char kernel[64]; /* the last one that was made */
    uint64_t items;  /* of the last launch; 0: none */
    int32_t launches, copies;
    void (*meanwhile)(
        void); /* what another thread does while a queue begins to capture, or joins a capture */
    void (*before_launch)(void); /* the same, before the queue has the kernel */
    int32_t begin_fails, updates;
    int32_t first_words; /* so many reads see the first word alone */
    int32_t is_lost, has_no_pages;
} seen;

static void find(void *state)
{
    ((gpu_found *)state)->count = 1;
}
static void describe(gpu_plugin *plugin, uint32_t index, gpu_properties *out)
{
    out->device_class = TN_DEVICE_VIRTUAL;
}
static int32_t driver_open(gpu_plugin *plugin, uint32_t index, void **out_device)
{
    *out_device = &seen;
    return TN_OK;
}
static void driver_close(void *device) {}
static int32_t device_status(void *device)
{
    return seen.is_lost ? TN_E_DEVICE_LOST : TN_OK;
}
static int32_t driver_alloc(void *device, uint64_t bytes, void **out_memory)
{
    if (seen.has_no_pages) return TN_E_OUT_OF_MEMORY;
    *out_memory = calloc(1, bytes);
    return TN_OK;
}
static void driver_free(void *device, void *memory)
{
    free(memory);
}
static int32_t pages_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host)
{
    if (seen.has_no_pages) return TN_E_OUT_OF_MEMORY;
    *out_memory = *out_host = malloc(bytes);
    return TN_OK;
}
static void pages_free(void *device, void *memory, void *host)
{
    free(memory);
}
static int32_t queue_create(void *device, int32_t priority, void **out_queue)
{
    *out_queue = calloc(1, sizeof(queue));
    return TN_OK;
}
static void queue_destroy(void *device, void *handle)
{
    free(handle);
}
static int32_t queue_finish(void *device, void *handle)
{
    queue *q = handle;
    int32_t status = q->fails_with;
    if (q->captures) q->is_broken = 1;
    q->waits++;
    q->fails_with = TN_OK;
    return status;
}
static int32_t queue_query(void *device, void *handle, int32_t *out_done)
{
    *out_done = !((queue *)handle)->is_busy;
    return TN_OK;
}
static int32_t queue_wait(void *device, void *handle, void *event)
{
    queue *q = handle;
    if (q->misses_event) return TN_E_INTERNAL;
    q->captures |= *(int32_t *)event;
    if (q->captures && seen.meanwhile) seen.meanwhile();
    return TN_OK;
}
static int32_t event_record(void *device, void *handle, void **out_event)
{
    *out_event = calloc(1, sizeof(int32_t));
    *(int32_t *)*out_event = ((queue *)handle)->captures;
    return TN_OK;
}
static int32_t event_wait(void *device, void *event)
{
    return TN_OK;
}
static int32_t driver_write(void *device, void *handle, void *memory, uint64_t offset, const void *host,
                            uint64_t bytes)
{
    memcpy((char *)memory + offset, host, bytes);
    return TN_OK;
}
static int32_t driver_read(void *device, void *handle, void *host, void *memory, uint64_t offset,
                           uint64_t bytes)
{
    memcpy(host, (char *)memory + offset, bytes);
    if (seen.first_words && seen.first_words--) memset((int32_t *)host + 1, 0, bytes - sizeof(int32_t));
    return TN_OK;
}
static int32_t driver_copy(void *device, void *handle, void *to, uint64_t to_offset, void *from,
                           uint64_t from_offset, uint64_t bytes)
{
    memcpy((char *)to + to_offset, (char *)from + from_offset, bytes);
    seen.copies++;
    return TN_OK;
}
static int32_t program_create(void *device, const char *source, const char *options, const gpu_binary *binary,
                              void **out_program, gpu_binary *out_binary)
{
    *out_program = &seen;
    return TN_OK;
}
static int32_t kernel_create(void *device, void *program, const char *name, void **out_kernel)
{
    *out_kernel = (void *)(uintptr_t)name;
    return TN_OK;
}
static void forget(void *device, void *handle) {}
static int32_t driver_launch(void *device, void *handle, void *kernel, const gpu_argument *arguments,
                             uint32_t n_arguments, uint64_t items, uint32_t group)
{
    if (seen.before_launch) seen.before_launch();
    snprintf(seen.kernel, sizeof seen.kernel, "%s", (const char *)kernel);
    seen.items = items;
    seen.launches++;
    return TN_OK;
}

static int32_t begin(void *device, void *handle)
{
    queue *q = handle;
    if (seen.begin_fails) return TN_E_INTERNAL;
    q->captures = 1;
    if (seen.meanwhile) seen.meanwhile();
    return TN_OK;
}
static int32_t end(void *device, void *handle, void **out_graph)
{
    queue *q = handle;
    q->captures = 0;
    *out_graph = &seen;
    return q->is_broken ? TN_E_STATE : TN_OK;
}
static int32_t instantiate(void *device, void *graph, void **out_executable)
{
    *out_executable = &seen;
    return TN_OK;
}
static int32_t graph_launch(void *device, void *executable, void *handle)
{
    return TN_OK;
}
static int32_t update(void *device, void *executable, void *graph)
{
    seen.updates++;
    return TN_OK;
}
#define GRAPHS \
    .begin = begin, .end = end, .destroy = forget, .instantiate = instantiate, .launch = graph_launch
static const gpu_graph_driver graphs = {GRAPHS, .update = update, .executable_destroy = forget};

GPU_DEFINE_DRIVER("queues", .state_bytes = sizeof(gpu_found), .find = find, .describe = describe,
                  .open = driver_open, .close = driver_close, .status = device_status, NEVER(native),
                  .alloc = driver_alloc, .free = driver_free, NEVER(retain), .host_alloc = pages_alloc,
                  .host_free = pages_free, .queue_create = queue_create, .queue_destroy = queue_destroy,
                  .queue_query = queue_query, .queue_finish = queue_finish, .queue_wait = queue_wait,
                  NEVER(native_wait), NEVER(queue_callback), .event_record = event_record,
                  .event_release = driver_free, NEVER(event_query), .event_wait = event_wait,
                  NEVER(event_elapsed), .write = driver_write, .read = driver_read, .copy = driver_copy,
                  NEVER(fill), .program_create = program_create, .program_destroy = forget,
                  .kernel_create = kernel_create, .kernel_destroy = forget, .launch = driver_launch,
                  .graphs = &graphs);

/* ---- The host -------------------------------------------------------------------------------------------- */

static int32_t no_cache(void *context, const char *name, char *out, uint32_t bytes)
{
    return TN_E_IO;
}
static const tn_host host = {.size = sizeof host,
                             .error = record_error,
                             .alloc = host_alloc,
                             .free = host_free,
                             .cache_folder = no_cache};

enum { STREAMS = 3 };
static tn_plugin_table table;
static void *self, *device, *streams[STREAMS];
static const tn_device_interface *devices;
static const tn_stream_interface *of_streams;
static const tn_event_interface *of_events;
static const tn_graph_interface *of_graphs;
static const tn_memory_interface *memories;

static void open_streams(void)
{
    const tn_host_offer offer = {
        .size = sizeof offer, .abi_min = TN_ABI_GENERATION, .abi_max = TN_ABI_GENERATION};
    const tn_device_options options = {.size = sizeof options};
    const tn_stream_options of_stream = {.size = sizeof of_stream};
    uint32_t count;
    const char *reason;
    table.size = sizeof table;
    cr_assert_eq(gpu_entry(&offer, &table), TN_OK);
    cr_assert_eq(table.init(&host, &self), TN_OK, "%s", last_error);
    devices = table.get_interface(self, "tenon.device", 1);
    of_streams = table.get_interface(self, "tenon.stream", 1);
    of_events = table.get_interface(self, "tenon.event", 1);
    memories = table.get_interface(self, "tenon.memory", 1);
    of_graphs = table.get_interface(self, "tenon.graph", 1);
    cr_assert_eq(devices->enumerate(self, &count, &reason), TN_OK);
    cr_assert_eq(devices->open(self, 0, &options, &device), TN_OK);
    for (int i = 0; i < STREAMS; i++)
        cr_assert_eq(of_streams->create(self, device, &of_stream, &streams[i]), TN_OK);
}

static void close_streams(void)
{
    for (int i = 0; i < STREAMS; i++) of_streams->destroy(self, device, streams[i]);
    devices->close(self, device);
    table.shutdown(self);
}

TestSuite(queues, .init = open_streams, .fini = close_streams);

static queue *queue_of(int i)
{
    return ((gpu_stream *)streams[i])->queue;
}

/* ---- Waits for a device ---------------------------------------------------------------------------------- */

/* Each queue is waited for once more by the wait, unless it captures. */
static void expect_waits(int32_t status, int32_t which_captures)
{
    int32_t before[STREAMS];
    for (int i = 0; i < STREAMS; i++) before[i] = queue_of(i)->waits;
    cr_expect_eq(devices->synchronize(self, device), status);
    for (int i = 0; i < STREAMS; i++)
        cr_expect_eq(queue_of(i)->waits, before[i] + (i != which_captures), "queue %d", i);
}

/* The host frees memory after the wait, so no stream may still run. */
Test(queues, an_error_of_one_stream_leaves_no_other_running)
{
    for (int i = 0; i < STREAMS; i++) {
        queue_of(i)->fails_with = TN_E_IO;
        expect_waits(TN_E_IO, -1);
        expect_waits(TN_OK, -1);
    }
}

/* A late fault of a kernel: reading it takes waits of its own. */
static void fail_kernel(int i)
{
    gpu_stream *s = streams[i];
    ((int32_t *)s->faults)[0] = GPU_FAULT_DIVISION;
    s->may_have_fault = 1;
}

Test(queues, each_fault_is_told_once)
{
    fail_kernel(0);
    fail_kernel(2);
    for (int i = 0; i < 2; i++) {
        last_error[0] = 0;
        cr_expect_eq(devices->synchronize(self, device), TN_E_ARGUMENT);
        cr_expect_str_eq(last_error, "queues: ZeroDivisionError");
    }
    cr_expect_eq(devices->synchronize(self, device), TN_OK);
}

/* Of a stream that still works: a kernel writes the code of its fault before the rest. */
Test(queues, a_fault_that_is_being_written)
{
    static const int32_t fault[GPU_FAULT_WORDS] = {GPU_FAULT_INDEX, GPU_BY_SCATTER, 7, 0, 5, 0};
    gpu_stream *s = streams[1];
    void *event = NULL;
    int32_t done = 0;
    s->may_have_fault = 1;
    queue_of(1)->is_busy = 1;
    cr_assert_eq(of_events->create(self, device, 0, &event), TN_OK);
    cr_assert_eq(of_events->record(self, device, event, s), TN_OK);
    memcpy(s->faults, fault, sizeof fault);
    seen.first_words = 1;
    cr_expect_eq(of_streams->query(self, device, s, &done), TN_E_INDEX);
    cr_expect_str_eq(last_error, "queues: scatter: index 7 is out of bounds for dimension with size 5");
    cr_expect_eq(of_streams->query(self, device, s, &done), TN_OK);
    of_events->destroy(self, device, event);
}

/* A wait would break the capture. */
Test(queues, a_stream_that_captures_is_not_waited_for)
{
    void *graph = NULL;
    for (int i = 0; i < STREAMS; i++) {
        cr_assert_eq(of_graphs->begin(self, device, streams[i]), TN_OK);
        expect_waits(TN_E_STATE, i);
        cr_expect_str_eq(last_error, "queues: waiting for a device cannot be captured in a graph");
        queue_of((i + 1) % STREAMS)->fails_with = TN_E_IO;
        expect_waits(TN_E_IO, i);
        cr_assert_eq(of_graphs->end(self, device, streams[i], &graph), TN_OK);
        expect_waits(TN_OK, -1);
        of_graphs->destroy(self, device, graph);
    }
}

/* ---- Lost devices, and memory ---------------------------------------------------------------------------- */

/* The driver has no slot that these ask, so the family asks its status. */
Test(queues, slots_of_a_lost_device_for_which_the_driver_has_none)
{
    uint64_t free_bytes = 1, total = 2;
    void *event = &seen;
    cr_expect_eq(memories->info(self, device, &free_bytes, &total), TN_OK);
    free_bytes = total = 7;
    seen.is_lost = 1;
    cr_expect_eq(memories->info(self, device, &free_bytes, &total), TN_E_DEVICE_LOST);
    cr_expect_eq(of_events->create(self, device, 0, &event), TN_E_DEVICE_LOST);
    cr_expect_eq(free_bytes, 7);
    cr_expect_eq(total, 7);
    cr_expect_eq(event, &seen);
}

Test(queues, memory_that_the_driver_has_not_leaves_the_output_alone)
{
    static const uint32_t kinds[] = {TN_MEMORY_DEVICE, TN_MEMORY_HOST};
    for (int i = 0; i < 2; i++) {
        const uint32_t kind = kinds[i];
        const tn_memory_request request = {.size = sizeof request, .kind = kind, .bytes = 64};
        const tn_memory untouched = {.size = sizeof untouched, .kind = 99, .bytes = 77};
        tn_memory memory = untouched;
        seen.has_no_pages = 1;
        cr_expect_eq(memories->alloc(self, device, &request, &memory), TN_E_OUT_OF_MEMORY);
        cr_expect_arr_eq(&memory, &untouched, sizeof memory, "kind %u", kind);
        seen.has_no_pages = 0;
        cr_assert_eq(memories->alloc(self, device, &request, &memory), TN_OK);
        cr_expect_eq(memory.kind, kind);
        cr_expect_eq(memory.bytes, 64);
        cr_expect_eq(memory.host != NULL, kind == TN_MEMORY_HOST);
        memories->free(self, device, &memory);
    }
}

/* ---- Captures -------------------------------------------------------------------------------------------- */

static void wait_for_the_device(void)
{
    cr_expect_eq(devices->synchronize(self, device), TN_E_STATE);
}

/* The queue captures before the driver's slot has returned. */
Test(queues, a_wait_while_a_capture_begins)
{
    void *graph = NULL, *event = NULL;
    seen.meanwhile = wait_for_the_device;
    cr_assert_eq(of_graphs->begin(self, device, streams[0]), TN_OK);
    cr_assert_eq(of_events->create(self, device, 0, &event), TN_OK);
    cr_assert_eq(of_events->record(self, device, event, streams[0]), TN_OK);
    cr_assert_eq(of_streams->wait_event(self, device, streams[1], event), TN_OK);
    cr_expect_not(queue_of(0)->is_broken);
    cr_expect_not(queue_of(1)->is_broken, "it joined");
    cr_expect_eq(((gpu_stream *)streams[1])->capture, ((gpu_stream *)streams[0])->capture);
    cr_assert_eq(of_graphs->end(self, device, streams[0], &graph), TN_OK);
    queue_of(1)->captures = 0;
    expect_waits(TN_OK, -1);
    of_events->destroy(self, device, event);
    of_graphs->destroy(self, device, graph);
}

Test(queues, a_capture_that_does_not_begin)
{
    void *graph = NULL, *event = NULL;
    seen.begin_fails = 1;
    cr_assert_eq(of_graphs->begin(self, device, streams[0]), TN_E_INTERNAL);
    expect_waits(TN_OK, -1);
    seen.begin_fails = 0;
    cr_assert_eq(of_graphs->begin(self, device, streams[0]), TN_OK);
    cr_assert_eq(of_events->create(self, device, 0, &event), TN_OK);
    cr_assert_eq(of_events->record(self, device, event, streams[0]), TN_OK);
    queue_of(1)->misses_event = 1;
    cr_assert_eq(of_streams->wait_event(self, device, streams[1], event), TN_E_INTERNAL);
    expect_waits(TN_E_STATE, 0);
    cr_assert_eq(of_graphs->end(self, device, streams[0], &graph), TN_OK);
    of_events->destroy(self, device, event);
    of_graphs->destroy(self, device, graph);
}

static void *capture(int32_t uses_library)
{
    void *graph = NULL;
    cr_assert_eq(of_graphs->begin(self, device, streams[0]), TN_OK);
    if (uses_library) gpu_stream_uses_library(streams[0]);
    cr_assert_eq(of_graphs->end(self, device, streams[0], &graph), TN_OK);
    return graph;
}

/* An update keeps the sizes of clusters that kernels of a library have, whichever of the two graphs has such kernels. */
Test(queues, updates_of_graphs_with_kernels_of_a_library)
{
    const tn_graph_options options = {.size = sizeof options};
    void *graph[2] = {capture(0), capture(1)};
    for (int from = 0; from < 2; from++) {
        void *executable = NULL;
        cr_assert_eq(of_graphs->instantiate(self, device, graph[from], &options, &executable), TN_OK);
        for (int to = 0; to < 2; to++) {
            const int32_t updates = seen.updates, is_refused = from || to;
            cr_expect_eq(of_graphs->update(self, device, executable, graph[to]),
                         is_refused ? TN_E_UNSUPPORTED : TN_OK, "%d to %d", from, to);
            cr_expect_eq(seen.updates, updates + !is_refused);
        }
        of_graphs->destroy_executable(self, device, executable);
    }
    for (int i = 0; i < 2; i++) of_graphs->destroy(self, device, graph[i]);
}

/* ---- Launches -------------------------------------------------------------------------------------------- */

static tn_call call_of(const char *name)
{
    return (tn_call){
        .size = sizeof(tn_call), .host = &host, .name = name, .device = device, .stream = streams[0]};
}

/* Kernels number their items with 32 bits. */
Test(queues, a_launch_of_more_items_than_kernels_can_count)
{
    const tn_call call = call_of("cat");
    const gpu_job job = gpu_job_of(&call, GPU_FILE_MEMORY, 0, "move");
    cr_expect_eq(gpu_launch(&job, (uint64_t)1 << 32, GPU_LIGHT), TN_OK);
    cr_expect_eq(seen.items, (uint64_t)1 << 32);
    cr_expect_eq(gpu_launch(&job, ((uint64_t)1 << 32) + 1, GPU_LIGHT), TN_E_UNSUPPORTED);
    cr_expect_str_eq(
        last_error,
        "queues: cat: kernel move would have 4294967297 work items; at most 4294967296 are counted");
    cr_expect_eq(seen.launches, 1);
}

static void wait_for_the_stream(void)
{
    cr_expect_eq(of_streams->synchronize(self, device, streams[0]), TN_OK);
}

/* The wait looks for faults before there is one: the next one looks again. */
Test(queues, a_wait_while_a_kernel_is_launched)
{
    const tn_call call = call_of("gather");
    gpu_job job = gpu_job_of(&call, GPU_FILE_MEMORY, 0, "gather");
    gpu_give_faults(&job);
    seen.before_launch = wait_for_the_stream;
    cr_assert_eq(gpu_launch(&job, GPU_GROUP_ITEMS, GPU_LIGHT), TN_OK);
    ((int32_t *)((gpu_stream *)streams[0])->faults)[0] = GPU_FAULT_DIVISION;
    cr_expect_eq(of_streams->synchronize(self, device, streams[0]), TN_E_ARGUMENT);
    cr_expect_str_eq(last_error, "queues: ZeroDivisionError");
}

/* Launches {2, 3, 4} op b, with b immediate or in memory, by the row of a schema. */
static void run_pointwise(const char *schema, tn_dtype dtype, int32_t is_immediate, int64_t b)
{
    static tn_kernel_row rows[1024];
    const uint32_t n = gpu_pointwise_rows(rows);
    const int64_t numel = 3, stride = TN_DTYPE_BITS(dtype) / 8, none = 0;
    const tn_operand of_memory = {.size = sizeof(tn_operand), .dtype = dtype, .strides = &stride};
    tn_operand operands[] = {of_memory, of_memory, of_memory};
    const tn_nest nest = {.size = sizeof nest,
                          .numel = numel,
                          .sizes = &numel,
                          .rank = 1,
                          .kept = 1,
                          .operands = operands,
                          .operand_bytes = sizeof *operands,
                          .n_operands = 3,
                          .n_outputs = 1};
    tn_call call = call_of(schema);
    uint32_t i = 0;
    while (i < n && strncmp(rows[i].schema, schema, strlen(schema)) != 0) i++;
    cr_assert_lt(i, n, "%s", schema);
    if (is_immediate) {
        operands[2].flags = TN_OPERAND_IMMEDIATE;
        operands[2].strides = &none;
        operands[2].host = (char *)&b;
    }
    call.data = rows[i].data;
    call.nest = &nest;
    cr_expect_eq(rows[i].run(self, &call), TN_OK, "%s", last_error);
}

/* Only a division of integers can fail: the next wait for any other kernel need not read a fault. */
Test(queues, pointwise_kernels_that_cannot_fail)
{
    const char *remainder = "aten::remainder.Tensor(", *add = "aten::add.Tensor(";
    gpu_stream *s = streams[0];
    void *graph = NULL;
    run_pointwise(add, TN_FLOAT32, 0, 0);
    run_pointwise(add, TN_INT64, 0, 0);
    run_pointwise(remainder, TN_FLOAT32, 0, 0);
    run_pointwise(remainder, TN_INT64, 1, 7);
    cr_expect_not(s->may_have_fault);
    run_pointwise(remainder, TN_INT64, 1, 0);
    cr_expect(s->may_have_fault);
    s->may_have_fault = 0;
    run_pointwise(remainder, TN_INT64, 0, 0);
    cr_expect(s->may_have_fault);

    /* The launch of a graph copies faults only if a kernel in it can fail. */
    for (int fails = 0; fails < 2; fails++) {
        const tn_graph_options options = {.size = sizeof options};
        void *executable = NULL;
        cr_assert_eq(of_graphs->begin(self, device, s), TN_OK);
        run_pointwise(add, TN_INT64, 0, 0);
        if (fails) run_pointwise(remainder, TN_INT64, 0, 0);
        cr_assert_eq(of_graphs->end(self, device, s, &graph), TN_OK);
        cr_assert_eq(of_graphs->instantiate(self, device, graph, &options, &executable), TN_OK);
        seen.copies = 0;
        cr_expect_eq(of_graphs->launch(self, device, executable, s), TN_OK);
        cr_expect_eq(seen.copies, fails ? 2 : 0);
        of_graphs->destroy_executable(self, device, executable);
        of_graphs->destroy(self, device, graph);
    }
}

/* The kernel of a product of float32 matrices. `is_apart`: the elements of the right matrix are not neighbours. */
static void expect_product(uint32_t batches, uint32_t rows, uint32_t columns, uint64_t depth,
                           int32_t is_apart, const char *kernel, uint64_t items)
{
    const tn_call call = call_of("bmm");
    gpu_product p = {.call = &call};
    p.nest = (gpu_nest){.numel = batches * rows * columns,
                        .rank = 3,
                        .dtypes = {GPU_F32, GPU_F32, GPU_F32, GPU_F32},
                        .sizes = {columns, rows, batches},
                        .scalars = {depth, 4, is_apart ? 4 * (uint64_t)columns : 4}};
    gpu_product_scale(&p, 1, 0);
    cr_expect_eq(gpu_product_run(&p), TN_OK, "%s", last_error);
    cr_expect_str_eq(seen.kernel, kernel);
    cr_expect_eq(seen.items, items, "%s: %llu", kernel, (unsigned long long)seen.items);
}

Test(queues, products_by_their_sizes)
{
    const uint64_t million = 1 << 20;
    expect_product(1, 64, 64, 64, 1, "product_tiles", 2 * 128);
    expect_product(16, 33, 65, 64, 1, "product_tiles", 16 * 4 * 128);
    expect_product(1 << 20, 4, 4, 16, 1, "product", million * 16); /* 1 of 128 parts of a tile */
    expect_product(1 << 20, 8, 16, 16, 1, "product_tiles", million * 128);
    expect_product(1 << 10, 4, 4, 512, 1, "product_tiles", 1024 * 128); /* long sums are added up in runs */
    expect_product(1 << 26, 2, 2, 512, 1, "product", million * 64 * 4); /* tiles would have 2^33 items */
    expect_product(1 << 10, 2, 2, 512, 0, "product_dots", 1024 * 4 * 128);
    expect_product(1 << 26, 2, 2, 512, 0, "product", million * 64 * 4);
}
