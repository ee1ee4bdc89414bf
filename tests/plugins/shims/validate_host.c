/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that breaks the contract, seen by `validate`. The host is one in miniature: it loads the shim and
 * plugins by hand, so that it can do what the real one never would. Each test does one thing wrong and
 * expects one kind of finding. Nothing of the library is linked.
 */
#define TN_PLUGIN
#include <tenon/plugin.h>
#include "../slots.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The host ---------------------------------------------------------------------------------------- */

static char found[64][32], texts[64][512], others[64][192];
static uint64_t streams[64];
static uint32_t n_found;

static int32_t host_report(void *context, const tn_finding *f)
{
    if (n_found == 64) return TN_OK;
    snprintf(found[n_found], sizeof(found[0]), "%s", f->kind);
    snprintf(texts[n_found], sizeof(texts[0]), "%s", f->text);
    snprintf(others[n_found], sizeof(others[0]), "%s", f->other ? f->other : "");
    streams[n_found++] = f->stream;
    return TN_OK;
}

static int32_t host_error(void *context, int32_t code, const char *message)
{
    return code;
}

static uint32_t host_intern(void *context, const char *text)
{
    return 1u + (uint32_t)text[0];
}

static void *host_alloc(void *context, uint64_t bytes)
{
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void host_free(void *context, void *memory, uint64_t bytes)
{
    free(memory);
}

static const tn_host host = {.size = sizeof(tn_host),
                             .error = host_error,
                             .intern = host_intern,
                             .alloc = host_alloc,
                             .free = host_free,
                             .report = host_report};

static tn_plugin_table load(const char *variable, const tn_plugin_info **out_info)
{
    void *library = dlopen(getenv(variable), RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    const tn_plugin_info *info = dlsym(library, TN_PLUGIN_SYMBOL);
    tn_plugin_table table = {.size = sizeof(table)};
    const tn_host_offer offer = {
        .size = sizeof(offer), .abi_min = TN_ABI_GENERATION, .abi_max = TN_ABI_GENERATION};
    cr_assert_eq(info->entry(&offer, &table), TN_OK);
    *out_info = info;
    return table;
}

/* A plugin behind the shim. */
typedef struct wrapped {
    void *self;
    tn_plugin_table table;
    SLOT_INTERFACES;
    void *devices[2];
} wrapped;

static void *shim_self;
static const tn_shim_interface *shim;
static tn_plugin_table shim_plugin_table;

/* The plugin behind the shim, whose handles are the shim's. */
static void *bare_self;
static tn_plugin_table bare;

static int32_t open_plugin(void *next, const tn_host *given, void **out_self, tn_plugin_table *out)
{
    bare = *out = *(const tn_plugin_table *)next;
    int32_t status = out->init(given, out_self);
    bare_self = *out_self;
    return status;
}

/* Waits for a stream without the shim's knowledge, so that freeing too early does not harm the plugin. */
static void wait_unseen(const wrapped *w, void *stream)
{
    const tn_stream_interface *streams_of_plugin = bare.get_interface(bare_self, "tenon.stream", 1);
    cr_assert_eq(streams_of_plugin->synchronize(bare_self, w->devices[0], stream), TN_OK);
}

static void load_shim(void)
{
    const tn_plugin_info *info;
    setenv("TENON_NULL_DEVICES", "2", 1);
    n_found = 0;
    shim_plugin_table = load("TENON_TEST_SHIM", &info);
    cr_assert_eq(shim_plugin_table.init(&host, &shim_self), TN_OK);
    shim = shim_plugin_table.get_interface(shim_self, "tenon.shim", 1);
    cr_assert_eq(shim->configure(shim_self, "1"), TN_OK);
}

static void unload_shim(void)
{
    shim_plugin_table.shutdown(shim_self);
}

static void wrap(const char *variable, wrapped *w)
{
    tn_shim_target target = {.size = sizeof(target), .open = open_plugin};
    tn_plugin_table plugin = load(variable, &target.info);
    target.next = &plugin;
    *w = (wrapped){.table = {.size = sizeof(w->table)}};
    cr_assert_eq(shim->wrap(shim_self, &host, &target, &w->self, &w->table), TN_OK);
    SLOT_FIND_INTERFACES(w);
    cr_assert_null(w->table.get_interface(w->self, "tenon.none", 1));
    cr_assert_null(w->table.get_interface(w->self, "tenon.device", 2));
    uint32_t count = 0;
    const char *reason = NULL;
    cr_assert_eq(w->device_interface->enumerate(w->self, &count, &reason), TN_OK);
    for (uint32_t i = 0; i < count && i < 2; i++) {
        tn_device_facts facts = {.size = sizeof(facts)};
        cr_assert_eq(w->device_interface->facts(w->self, i, &facts), TN_OK);
        cr_assert_eq(slot_open(w->device_interface, w->self, i, &w->devices[i]), TN_OK);
    }
}

static void unwrap(wrapped *w)
{
    for (int i = 0; i < 2; i++)
        if (w->devices[i]) w->device_interface->close(w->self, w->devices[i]);
    w->table.shutdown(w->self);
}

static void *allocate(const wrapped *w, int device, uint64_t bytes)
{
    void *allocation = NULL, *address = NULL;
    cr_assert_eq(
        slot_alloc(w->memory, w->self, w->devices[device], bytes, TN_MEMORY_UNIFIED, &allocation, &address),
        TN_OK);
    return allocation;
}

static void release(const wrapped *w, int device, void *allocation, uint64_t bytes)
{
    slot_free(w->memory, w->self, w->devices[device], allocation, bytes);
}

static void *make_stream(const wrapped *w, int device)
{
    void *stream = NULL;
    cr_assert_eq(slot_stream(w->streams, w->self, w->devices[device], 0, &stream), TN_OK);
    return stream;
}

static void end_stream(const wrapped *w, int device, void *stream)
{
    w->streams->synchronize(w->self, w->devices[device], stream);
    w->streams->destroy(w->self, w->devices[device], stream);
}

static void expect_none(void)
{
    cr_assert_eq(n_found, 0, "%s: %s", found[0], texts[0]);
}

/* The end of a test of the reference device with one stream or two: nothing more is found. */
static void end_soundly(wrapped *w, void *s, void *t)
{
    end_stream(w, 0, s);
    if (t) end_stream(w, 0, t);
    unwrap(w);
    expect_none();
}

static void expect(const char *kind, const char *part)
{
    cr_assert_eq(n_found, 1, "%u findings, expected one '%s': %s %s", n_found, kind, n_found ? found[0] : "",
                 n_found ? texts[0] : "");
    cr_assert_str_eq(found[0], kind, "%s: %s", found[0], texts[0]);
    cr_assert_not_null(strstr(texts[0], part), "%s", texts[0]);
    n_found = 0;
}

TestSuite(host, .init = load_shim, .fini = unload_shim);

/* ---- Handles ----------------------------------------------------------------------------------------- */

Test(host, a_sound_life_has_no_findings)
{
    wrapped w;
    char bytes[64] = "";
    wrap("TENON_TEST_NULL", &w);
    void *a = allocate(&w, 0, 64), *b = allocate(&w, 0, 64), *s = make_stream(&w, 0), *e = NULL;
    cr_assert_eq(w.memory->fill(w.self, w.devices[0], a, 0, 64, 255, s), TN_OK);
    cr_assert_eq(w.copy->device_to_device(w.self, w.devices[0], b, 0, a, 32, 32, s), TN_OK);
    cr_assert_eq(w.events->create(w.self, w.devices[0], TN_EVENT_TIMING, &e), TN_OK);
    cr_assert_eq(w.events->record(w.self, w.devices[0], e, s), TN_OK);
    cr_assert_eq(w.copy->device_to_host(w.self, w.devices[0], bytes, NULL, b, 0, 64, s), TN_OK);
    cr_assert_eq((unsigned char)bytes[31], 255);
    w.events->destroy(w.self, w.devices[0], e);
    end_stream(&w, 0, s);
    release(&w, 0, a, 64);
    release(&w, 0, b, 64);
    if (w.table.quiesce) w.table.quiesce(w.self);
    unwrap(&w);
    expect_none();
}

Test(host, memory_that_was_freed)
{
    wrapped w;
    wrap("TENON_TEST_REFERENCE", &w); /* it refuses unknown handles, so the misuse does no harm */
    void *address = NULL, *a = NULL, *s = make_stream(&w, 0);
    cr_assert_eq(slot_alloc(w.memory, w.self, w.devices[0], 64, TN_MEMORY_DEVICE, &a, &address), TN_OK);
    release(&w, 0, a, 64);
    cr_assert_neq(w.memory->fill(w.self, w.devices[0], a, 0, 8, 0, s), TN_OK);
    cr_assert_not_null(strstr(others[0], "memory.free, call"), "%s", others[0]); /* where it ended */
    expect("use-after-free", "memory.fill: argument 'allocation' is an allocation that was freed before");
    slot_free(w.memory, w.self, w.devices[0], a, 64);
    expect("double-free", "freed before");
    cr_assert_neq(w.memory->fill(w.self, w.devices[0], &w, 0, 8, 0, s), TN_OK);
    expect("unknown-handle", "is not a known allocation of this plugin");
    end_soundly(&w, s, NULL);
}

Test(host, a_stream_and_an_event_that_were_destroyed)
{
    wrapped w;
    int32_t done;
    void *s, *e = NULL;
    setenv("TENON_LIAR", "events", 1);
    wrap("TENON_TEST_LIAR", &w); /* its handles are static, so the misuse does no harm */
    s = make_stream(&w, 0);
    end_stream(&w, 0, s);
    w.streams->query(w.self, w.devices[0], s, &done);
    expect("use-after-destroy", "a stream that was destroyed before");
    w.streams->destroy(w.self, w.devices[0], s);
    expect("double-destroy", "a stream that was destroyed before");
    w.events->create(w.self, w.devices[0], 0, &e);
    w.events->destroy(w.self, w.devices[0], e);
    w.events->query(w.self, w.devices[0], e, &done);
    expect("use-after-destroy", "an event that was destroyed before");
    unwrap(&w);
    w.device_interface = NULL;
}

Test(host, a_handle_of_another_device_or_plugin)
{
    wrapped w, other;
    wrap("TENON_TEST_NULL", &w);
    wrap("TENON_TEST_REFERENCE", &other);
    void *a = allocate(&w, 0, 64), *s = make_stream(&w, 0), *t = make_stream(&w, 1);
    w.memory->fill(w.self, w.devices[1], a, 0, 8, 0, t);
    expect("wrong-device", "the allocation of another device");
    void *far = NULL, *address = NULL, *u = make_stream(&other, 0);
    slot_alloc(other.memory, other.self, other.devices[0], 64, TN_MEMORY_DEVICE, &far, &address);
    cr_assert_neq(other.memory->fill(other.self, other.devices[0], a, 0, 8, 0, u), TN_OK);
    expect("wrong-plugin", "an allocation of plugin null");
    slot_free(other.memory, other.self, other.devices[0], far, 64);
    end_stream(&other, 0, u);
    end_stream(&w, 0, s);
    end_stream(&w, 1, t);
    release(&w, 0, a, 64);
    unwrap(&other);
    unwrap(&w);
    expect_none();
}

Test(host, a_handle_that_is_null)
{
    wrapped w;
    wrap("TENON_TEST_NULL", &w);
    void *s = make_stream(&w, 0);
    w.streams->synchronize(w.self, w.devices[0], NULL);
    expect("null-handle", "stream.synchronize: argument 'stream' is NULL");
    end_soundly(&w, s, NULL);
}

/* ---- Ranges and numbers ------------------------------------------------------------------------------ */

Test(host, ranges_outside_an_allocation)
{
    wrapped w;
    char bytes[256];
    wrap("TENON_TEST_REFERENCE", &w);
    void *address = NULL, *a = NULL, *s = make_stream(&w, 0);
    slot_alloc(w.memory, w.self, w.devices[0], 64, TN_MEMORY_DEVICE, &a, &address);
    w.copy->host_to_device(w.self, w.devices[0], a, 60, bytes, NULL, 5, s);
    expect("out-of-range", "spans bytes 60 to 65 of an allocation of 64");
    w.copy->device_to_host(w.self, w.devices[0], bytes, NULL, a, UINT64_MAX, 2, s);
    expect("out-of-range", "device_to_host");
    w.memory->fill(w.self, w.devices[0], a, 65, 1, 0, s);
    expect("out-of-range", "of an allocation of 64");
    w.memory->fill(w.self, w.devices[0], a, 0, 0, 0, s);
    expect("zero-bytes", "asks memory.fill for 0 bytes");
    w.memory->fill(w.self, w.devices[0], a, 0, 8, 256, s);
    expect("bad-value", "256");
    w.copy->device_to_device(w.self, w.devices[0], a, 0, a, 8, 16, s);
    expect("overlap", "16 bytes onto a part of themselves");
    end_stream(&w, 0, s);
    slot_free(w.memory, w.self, w.devices[0], a, 32);
    expect("wrong-size", "64 bytes as one of 32");
    unwrap(&w);
    expect_none();
}

Test(host, flags_and_kinds_that_are_unknown)
{
    wrapped w;
    void *e = NULL, *a = NULL, *address = NULL;
    wrap("TENON_TEST_REFERENCE", &w);
    w.events->create(w.self, w.devices[0], 6, &e);
    expect("unknown-flags", "flags 0x6");
    if (e) w.events->destroy(w.self, w.devices[0], e);
    slot_alloc(w.memory, w.self, w.devices[0], 64, TN_MEMORY_UNIFIED, &a, &address);
    expect("unknown-kind", "the facts list 0x1");
    if (a) slot_free(w.memory, w.self, w.devices[0], a, 64);
    unwrap(&w);
    expect_none();
}

/* ---- Life -------------------------------------------------------------------------------------------- */

Test(host, what_is_left_at_the_end)
{
    wrapped w;
    wrap("TENON_TEST_NULL", &w);
    void *a = allocate(&w, 0, 96);
    void *s = make_stream(&w, 1);
    w.device_interface->close(w.self, w.devices[0]);
    cr_assert_not_null(strstr(others[0], "memory.alloc, call"), "%s", others[0]); /* where it was made */
    expect("leak", "an allocation of 96 bytes was never freed");
    w.table.shutdown(w.self);
    cr_assert_eq(n_found, 2); /* the stream and the other device */
    cr_assert_str_eq(found[0], "leak");
    cr_assert_str_eq(found[1], "leak");
    cr_assert(strstr(texts[0], "a stream was never destroyed") ||
              strstr(texts[1], "a stream was never destroyed"));
    cr_assert(strstr(texts[0], "a device was never closed") || strstr(texts[1], "a device was never closed"));
    free(a); /* the null plugin takes both from malloc */
    free(s);
}

Test(host, a_call_after_quiesce)
{
    wrapped w;
    wrap("TENON_TEST_NULL", &w);
    w.table.quiesce(w.self);
    void *a = allocate(&w, 0, 64);
    expect("after-quiesce", "the host calls memory.alloc after quiesce");
    release(&w, 0, a, 64); /* allowed */
    unwrap(&w);
    expect_none();
}

static wrapped *shared;
static pthread_barrier_t inside;

static void wait_inside(void *user)
{
    pthread_barrier_wait(&inside);
    pthread_barrier_wait(&inside);
}

/* The self test of this plugin waits until the other thread has called. */
static int32_t slow_self_test(void *self)
{
    wait_inside(NULL);
    return TN_OK;
}

static int32_t open_slow(void *next, const tn_host *given, void **out_self, tn_plugin_table *out)
{
    int32_t status = open_plugin(next, given, out_self, out);
    out->self_test = slow_self_test;
    return status;
}

static void *test_itself(void *unused)
{
    shared->table.self_test(shared->self);
    return NULL;
}

Test(host, two_threads_in_a_slot_for_one)
{
    wrapped w = {.table = {.size = sizeof(w.table)}};
    pthread_t thread;
    tn_shim_target target = {.size = sizeof(target), .open = open_slow};
    tn_plugin_table plugin = load("TENON_TEST_NULL", &target.info);
    target.next = &plugin;
    cr_assert_eq(shim->wrap(shim_self, &host, &target, &w.self, &w.table), TN_OK);
    pthread_barrier_init(&inside, NULL, 2);
    shared = &w;
    pthread_create(&thread, NULL, test_itself, NULL);
    pthread_barrier_wait(&inside);
    w.table.quiesce(w.self);
    pthread_barrier_wait(&inside);
    pthread_join(thread, NULL);
    expect("concurrent-call", "the host calls plugin.quiesce while another thread is in plugin.self_test");
    w.table.shutdown(w.self);
}

/* ---- Order ------------------------------------------------------------------------------------------- */

Test(host, two_streams_without_an_event)
{
    wrapped w;
    void *address = NULL, *a = NULL, *e = NULL;
    wrap("TENON_TEST_REFERENCE", &w);
    void *s = make_stream(&w, 0), *t = make_stream(&w, 0);
    slot_alloc(w.memory, w.self, w.devices[0], 128, TN_MEMORY_DEVICE, &a, &address);
    w.memory->fill(w.self, w.devices[0], a, 0, 64, 1, s);
    w.memory->fill(w.self, w.devices[0], a, 64, 64, 1, t); /* other bytes */
    expect_none();
    w.memory->fill(w.self, w.devices[0], a, 63, 1, 2, t);
    cr_assert_eq(streams[0], 1);
    cr_assert_not_null(strstr(others[0], "memory.fill, call"), "%s", others[0]);
    expect("race",
           "memory.fill on stream 1 writes bytes 63 to 63 of an allocation that memory.fill on stream 0 "
           "writes");
    w.events->create(w.self, w.devices[0], 0, &e);
    w.events->record(w.self, w.devices[0], e, t);
    w.streams->wait_event(w.self, w.devices[0], s, e);
    w.memory->fill(w.self, w.devices[0], a, 0, 128, 3, s);
    expect_none(); /* the event puts all that t did before */
    w.memory->fill(w.self, w.devices[0], a, 0, 8, 4, t);
    expect("race", "memory.fill on stream 1"); /* and nothing of what s did afterwards */
    w.streams->synchronize(w.self, w.devices[0], s);
    w.streams->synchronize(w.self, w.devices[0], t);
    w.memory->fill(w.self, w.devices[0], a, 0, 128, 5, t);
    expect_none(); /* the host has seen both finish */
    w.events->destroy(w.self, w.devices[0], e);
    wait_unseen(&w, t);
    slot_free(w.memory, w.self, w.devices[0], a, 128);
    expect("freed-in-use", "memory.fill on stream 1 writes; the host has not seen that finish");
    w.streams->destroy(w.self, w.devices[0], t);
    expect("destroyed-in-use", "stream 1, which it has not seen finish");
    end_soundly(&w, s, NULL);
}

Test(host, two_reads_are_no_race)
{
    wrapped w;
    void *address = NULL, *a = NULL;
    char bytes[2][64];
    wrap("TENON_TEST_REFERENCE", &w);
    void *s = make_stream(&w, 0), *t = make_stream(&w, 0);
    slot_alloc(w.memory, w.self, w.devices[0], 64, TN_MEMORY_DEVICE, &a, &address);
    w.memory->fill(w.self, w.devices[0], a, 0, 64, 1, s);
    w.streams->synchronize(w.self, w.devices[0], s);
    w.copy->device_to_host(w.self, w.devices[0], bytes[0], NULL, a, 0, 64, s);
    w.copy->device_to_host(w.self, w.devices[0], bytes[1], NULL, a, 0, 64, t);
    expect_none();
    w.memory->fill(w.self, w.devices[0], a, 0, 64, 1, s);
    expect("race", "that copy.device_to_host on stream 1 reads");
    w.streams->synchronize(w.self, w.devices[0], s);
    w.streams->synchronize(w.self, w.devices[0], t);
    slot_free(w.memory, w.self, w.devices[0], a, 64);
    end_soundly(&w, s, t);
}

/* ---- Graphs and collectives -------------------------------------------------------------------------- */

/* What is captured is an access of each launch, not of the call. */
Test(host, work_that_is_captured)
{
    wrapped w;
    void *address = NULL, *a = NULL, *graph = NULL, *executable = NULL;
    setenv("TENON_REFERENCE_POISON", "1", 1); /* freed memory stays mapped */
    wrap("TENON_TEST_REFERENCE", &w);
    void *d = w.devices[0], *s = make_stream(&w, 0), *t = make_stream(&w, 0);
    slot_alloc(w.memory, w.self, d, 64, TN_MEMORY_DEVICE, &a, &address);
    cr_assert_eq(w.graphs->begin(w.self, d, s), TN_OK);
    w.memory->fill(w.self, d, a, 0, 64, 1, s);
    w.memory->fill(w.self, d, a, 0, 64, 2, t);
    expect_none();
    cr_assert_eq(w.streams->synchronize(w.self, d, s), TN_E_STATE);
    expect("while-capturing", "stream.synchronize for stream 0, which captures");
    cr_assert_eq(w.graphs->end(w.self, d, s, &graph), TN_OK);
    cr_assert_eq(slot_instantiate(w.graphs, w.self, d, graph, &executable), TN_OK);
    w.streams->synchronize(w.self, d, t);
    cr_assert_eq(w.graphs->launch(w.self, d, executable, s), TN_OK);
    w.memory->fill(w.self, d, a, 8, 8, 2, t);
    expect("race",
           "memory.fill on stream 1 writes bytes 8 to 15 of an allocation that graph.launch on stream 0");
    w.streams->synchronize(w.self, d, t);
    cr_assert_eq(w.graphs->launch(w.self, d, executable, t), TN_OK); /* after the one on s */
    expect_none();
    w.streams->synchronize(w.self, d, t);
    release(&w, 0, a, 64);
    cr_assert_eq(w.graphs->launch(w.self, d, executable, s), TN_OK);
    expect("use-after-free", "what is launched accesses an allocation that was freed");
    w.graphs->destroy(w.self, d, graph);
    w.graphs->destroy_executable(w.self, d, executable);
    expect("destroyed-in-use", "an executable whose last launch");
    end_soundly(&w, s, t);
}

Test(host, ranks_of_a_collective)
{
    wrapped w;
    void *address = NULL, *a[2], *s[2], *all = NULL;
    tn_collective_rank ranks[2];
    setenv("TENON_REFERENCE_DEVICES", "2", 1);
    wrap("TENON_TEST_REFERENCE", &w);
    cr_assert_eq(slot_communicator(w.collectives, w.self, w.devices, 2, &all), TN_OK);
    for (int i = 0; i < 2; i++) {
        s[i] = make_stream(&w, i);
        slot_alloc(w.memory, w.self, w.devices[i], 64, TN_MEMORY_DEVICE, &a[i], &address);
        w.memory->fill(w.self, w.devices[i], a[i], 0, 64, 1, s[i]);
        ranks[i] = (tn_collective_rank){sizeof(ranks[i]), 0, s[i], a[i], 0, a[i], 0};
    }
    void *t = make_stream(&w, 1);
    cr_assert_eq(w.collectives->all_reduce(w.self, all, ranks, sizeof *ranks, 16, TN_INT32, TN_REDUCE_SUM),
                 TN_OK);
    expect_none();
    w.memory->fill(w.self, w.devices[1], a[1], 0, 4, 1, t);
    expect("race", "that collectives.all_reduce on stream 0 writes");
    w.memory->fill(w.self, w.devices[1], a[1], 4, 4, 1, s[1]);
    expect_none();
    ranks[1].to_offset = 4;
    cr_assert_neq(w.collectives->broadcast(w.self, all, ranks, sizeof *ranks, 64, 0), TN_OK);
    expect("out-of-range", "to of collectives.broadcast spans bytes 4 to 68 of an allocation of 64");
    ranks[1].to_offset = 0;
    ranks[1].stream = s[0];
    (void)w.collectives->barrier(w.self, all, ranks, sizeof *ranks);
    expect("unknown-handle", "the stream of rank 1 is not a stream of its device");
    for (int i = 0; i < 2; i++) {
        w.device_interface->synchronize(w.self, w.devices[i]);
        release(&w, i, a[i], 64);
        end_stream(&w, i, s[i]);
    }
    end_stream(&w, 1, t);
    w.collectives->destroy(w.self, all);
    unwrap(&w);
    expect_none();
}

/* ---- Kernel calls ------------------------------------------------------------------------------------ */

static const tn_kernel_row *find_row(const wrapped *w, const char *name)
{
    for (uint32_t i = 0; i < w->kernels->count; i++) {
        const tn_kernel_row *row =
            (const tn_kernel_row *)((const char *)w->kernels->rows + (size_t)i * w->kernels->row_bytes);
        if (strncmp(row->schema, name, strlen(name)) == 0) return row;
    }
    cr_assert_fail("no row %s", name);
    return NULL;
}

/* A call of prim::copy between two float vectors in one allocation; the reference device checks operands,
 * too. */
typedef struct copy_call {
    tn_tensor_desc to, from;
    int64_t size, stride;
    tn_value args[2], outs[1];
    tn_call call;
} copy_call;

static void fill_copy(copy_call *k, const wrapped *w, void *allocation, void *stream)
{
    const tn_device id = TN_DEVICE(1u + (uint32_t)'r', 0);
    const tn_tensor_desc d = {.size = sizeof(d),
                              .dtype = TN_FLOAT32,
                              .layout = TN_INTERNED_STRIDED,
                              .rank = 1,
                              .device = id,
                              .allocation = allocation,
                              .sizes = &k->size,
                              .strides = &k->stride};
    k->size = 4;
    k->stride = 1;
    k->to = k->from = d;
    k->from.byte_offset = 16;
    k->args[0] = k->outs[0] = tn_value_tensor((tn_tensor *)&k->to);
    k->args[1] = tn_value_tensor((tn_tensor *)&k->from);
    k->call = (tn_call){.size = sizeof(k->call),
                        .n_args = 2,
                        .n_outs = 1,
                        .args = k->args,
                        .outs = k->outs,
                        .device = w->devices[0],
                        .stream = stream,
                        .host = &host,
                        .threads = 1};
}

Test(host, descriptors_of_a_kernel_call)
{
    wrapped w;
    copy_call k;
    void *address = NULL, *a = NULL;
    wrap("TENON_TEST_REFERENCE", &w);
    void *s = make_stream(&w, 0), *t = make_stream(&w, 0);
    const tn_kernel_row *row = find_row(&w, "prim::copy(");
    slot_alloc(w.memory, w.self, w.devices[0], 32, TN_MEMORY_DEVICE, &a, &address);
    fill_copy(&k, &w, a, s);
    k.call.data = row->data;
    cr_assert_eq(row->run(w.self, &k.call), TN_OK);
    expect_none();
    k.from.byte_offset = 20;
    row->run(w.self, &k.call);
    expect("out-of-range", "argument 1 of prim::copy spans bytes 20 to 36 of an allocation of 32");
    k.from.byte_offset = 8;
    k.stride = -1; /* both go backwards, the first one from byte 0 */
    row->run(w.self, &k.call);
    cr_assert_gt(n_found, 0);
    cr_assert_not_null(strstr(texts[0], "argument 0 of prim::copy begins 12 bytes before"), "%s", texts[0]);
    n_found = 0;
    fill_copy(&k, &w, a, s);
    k.call.data = row->data;
    k.from.size = 0;
    row->run(w.self, &k.call);
    expect("bad-struct", "the descriptor of argument 1 of prim::copy has size 0");
    fill_copy(&k, &w, a, s);
    k.call.data = row->data;
    k.call.flags = 64;
    row->run(w.self, &k.call);
    expect("bad-struct", "flags 0x40");
    fill_copy(&k, &w, a, t);
    k.call.data = row->data;
    k.call.stream_id = 1;
    row->run(w.self, &k.call);
    expect("race",
           "prim::copy on stream 1 writes bytes 0 to 15 of an allocation that prim::copy on stream 0 writes");
    end_stream(&w, 0, s);
    end_stream(&w, 0, t);
    slot_free(w.memory, w.self, w.devices[0], a, 32);
    unwrap(&w);
    expect_none();
}
