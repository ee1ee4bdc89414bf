/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 0, what programs seldom reach: memory that the host maps, memory that grows, caches that are emptied, streams of
 * queues that the program has, and classes of autocast. The library calls these slots for strided reads, for the
 * allocator's option expandable_segments, where memory runs out, for tn_stream_wrap, and for calls in a region of autocast.
 */
#include "hand.h"
#include "sources.h"

#include <stdlib.h>
#include <string.h>

#define UNIT   (UINT64_C(2) << 20) /* of memory.resize */
#define UNITS  4
#define MAPPED 8192 /* bytes of an allocation of one size */

static void pattern(uint8_t *data, uint64_t bytes, uint32_t seed)
{
    for (uint64_t i = 0; i < bytes; i++) data[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
}

static int same(const uint8_t *got, const uint8_t *want, uint64_t bytes, const char *what, check_result *out)
{
    uint64_t i = 0;
    while (i < bytes && got[i] == want[i]) i++;
    return check_that(out, i == bytes, "%s: byte %llu of %llu is 0x%02x, expected 0x%02x", what,
                      (unsigned long long)i, (unsigned long long)bytes, i < bytes ? got[i] : 0,
                      i < bytes ? want[i] : 0);
}

static int wait(hand *h, check_result *out)
{
    return hand_ok(h, out, h->stream->synchronize(h->self, h->devices[0], h->streams[0]),
                   "stream.synchronize");
}

static int write(hand *h, void *x, uint64_t offset, const uint8_t *from, uint64_t bytes, check_result *out)
{
    return hand_ok(
               h, out,
               h->copy->host_to_device(h->self, h->devices[0], x, offset, from, NULL, bytes, h->streams[0]),
               "copy.host_to_device") &&
           wait(h, out);
}

/* The first bytes of an allocation; `room` is for them. */
static int holds(hand *h, void *x, const uint8_t *want, uint8_t *room, uint64_t bytes, const char *what,
                 check_result *out)
{
    memset(room, 0x11, bytes);
    return hand_ok(h, out,
                   h->copy->device_to_host(h->self, h->devices[0], room, NULL, x, 0, bytes, h->streams[0]),
                   "copy.device_to_host") &&
           wait(h, out) && same(room, want, bytes, what, out);
}

/* ---- memory.map ---------------------------------------------------------------------------------------- */

/* A range is mapped, read unless it is for writing only, written if it is for writing, and unmapped. */
static int use_range(hand *h, void *x, uint8_t *want, uint64_t offset, uint64_t bytes, uint32_t flags,
                     check_result *out)
{
    void *view = NULL;
    if (!hand_ok(h, out, h->memory->map(h->self, h->devices[0], x, offset, bytes, flags, &view),
                 "memory.map") ||
        !check_that(out, view != NULL, "memory.map gave no address"))
        return 0;
    if (flags & TN_MAP_READ) same(view, want + offset, bytes, "a range that is mapped", out);
    if (flags & TN_MAP_WRITE) {
        pattern(want + offset, bytes, (uint32_t)offset);
        memcpy(view, want + offset, bytes);
    }
    return hand_ok(h, out, h->memory->unmap(h->self, h->devices[0], x, view), "memory.unmap") &&
           out->outcome == CHECK_PASSED;
}

static void map_ranges(hand *h, void *x, uint8_t *want, check_result *out)
{
    uint8_t got[MAPPED];
    if (write(h, x, 0, want, MAPPED, out) && use_range(h, x, want, 100, 3000, TN_MAP_READ, out) &&
        use_range(h, x, want, 4001, 77, TN_MAP_WRITE, out) &&
        holds(h, x, want, got, MAPPED, "after a range was mapped for writing", out) &&
        use_range(h, x, want, 257, 1000, TN_MAP_READ | TN_MAP_WRITE, out) &&
        use_range(h, x, want, 0, MAPPED, TN_MAP_READ, out))
        holds(h, x, want, got, MAPPED, "after ranges were mapped for reading and writing", out);
}

static void run_map(check_target *t, const check_case *c, check_result *out)
{
    uint8_t want[MAPPED];
    void *x = NULL, *host = NULL;
    hand h;
    pattern(want, MAPPED, (uint32_t)check_seed(t, c));
    if (hand_open(&h, t, 1, out) && h.count) {
        if (HAND_HAS(h.memory, map) && HAND_HAS(h.memory, unmap))
            x = hand_alloc(&h, 0, MAPPED, &host, out);
        else
            check_skip(out, "the plugin has no memory.map: the host copies");
        if (host) check_skip(out, "memory of tensors has an address for the host");
        if (x && !host) map_ranges(&h, x, want, out);
        hand_free(&h, 0, x, MAPPED);
    }
    hand_close(&h);
}

/* ---- memory.reserve, memory.resize --------------------------------------------------------------------- */

/* What has memory before and after keeps its contents: `want` is that of all units. */
static void grow_and_shrink(hand *h, void *x, const uint8_t *want, uint8_t *room, check_result *out)
{
    static const struct {
        uint64_t units, kept; /* with memory; of these the first ones hold what they held */
    } steps[] = {{1, 0}, {3, 1}, {2, 2}, {2, 2}, {UNITS, 2}, {1, 1}, {UNITS, 1}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps && out->outcome == CHECK_PASSED; i++) {
        uint64_t bytes = steps[i].units * UNIT, kept = steps[i].kept * UNIT;
        if (!hand_ok(h, out, h->memory->resize(h->self, h->devices[0], x, bytes), "memory.resize") ||
            (kept && !holds(h, x, want, room, kept, "memory that memory.resize keeps", out)))
            return;
        if (bytes > kept && write(h, x, kept, want + kept, bytes - kept, out))
            holds(h, x, want, room, bytes, "memory that memory.resize has given", out);
    }
}

static void reserve(hand *h, const uint8_t *want, uint8_t *room, check_result *out)
{
    const tn_memory_request request = {
        .size = sizeof request, .kind = hand_memory_kind(h), .bytes = UNITS * UNIT};
    tn_memory m = {.size = sizeof m};
    if (!hand_ok(h, out, h->memory->reserve(h->self, h->devices[0], &request, &m), "memory.reserve") ||
        !check_that(out, m.allocation != NULL, "memory.reserve gave no allocation"))
        return;
    if (m.offset) check_skip(out, "memory begins inside an allocation, which this case does not expect");
    grow_and_shrink(h, m.allocation, want, room, out);
    h->memory->free(h->self, h->devices[0], &m);
}

static void run_resize(check_target *t, const check_case *c, check_result *out)
{
    uint8_t *want = malloc(UNITS * UNIT), *room = malloc(UNITS * UNIT);
    hand h;
    if (want) pattern(want, UNITS * UNIT, (uint32_t)check_seed(t, c));
    if (!want || !room) check_skip(out, "the host has no memory for it");
    if (hand_open(&h, t, 1, out) && h.count && want && room) {
        if (HAND_HAS(h.memory, reserve) && HAND_HAS(h.memory, resize))
            reserve(&h, want, room, out);
        else
            check_skip(out, "the plugin has no memory.reserve: allocations do not grow");
    }
    hand_close(&h);
    free(want);
    free(room);
}

/* ---- memory.trim --------------------------------------------------------------------------------------- */

enum { KEPT = 3 };

/* Allocations that are in use keep their contents, also what queued work writes; there is memory afterwards. */
static void trim(hand *h, void **x, uint8_t want[KEPT][MAPPED], check_result *out)
{
    uint8_t got[MAPPED];
    for (int i = 0; i < KEPT; i++) {
        void *freed =
            (x[i] = hand_alloc(h, 0, MAPPED, NULL, out)) ? hand_alloc(h, 0, MAPPED, NULL, out) : NULL;
        if (!freed || !write(h, x[i], 0, want[i], MAPPED, out)) return;
        hand_free(h, 0, freed, MAPPED);
    }
    memset(want[0], 7, MAPPED);
    if (!hand_ok(h, out, h->memory->fill(h->self, h->devices[0], x[0], 0, MAPPED, 7, h->streams[0]),
                 "memory.fill") ||
        !hand_ok(h, out, h->memory->trim(h->self, h->devices[0]), "memory.trim"))
        return;
    for (int i = 0; i < KEPT; i++)
        if (!holds(h, x[i], want[i], got, MAPPED, "memory that is in use, after memory.trim", out)) return;
    void *fresh = hand_alloc(h, 0, MAPPED, NULL, out);
    if (fresh && write(h, fresh, 0, want[1], MAPPED, out))
        holds(h, fresh, want[1], got, MAPPED, "an allocation made after memory.trim", out);
    hand_free(h, 0, fresh, MAPPED);
}

static void run_trim(check_target *t, const check_case *c, check_result *out)
{
    uint8_t want[KEPT][MAPPED];
    void *x[KEPT] = {NULL};
    hand h;
    for (uint32_t i = 0; i < KEPT; i++) pattern(want[i], MAPPED, (uint32_t)check_seed(t, c) + i);
    if (hand_open(&h, t, 1, out) && h.count) {
        if (HAND_HAS(h.memory, trim))
            trim(&h, x, want, out);
        else
            check_skip(out, "the plugin has no memory.trim: it caches no memory");
        for (int i = 0; i < KEPT; i++) hand_free(&h, 0, x[i], MAPPED);
    }
    hand_close(&h);
}

/* ---- autocast.classify --------------------------------------------------------------------------------- */

/* The host's class or one of the contract's, also for an operator that the plugin does not know, and always the same:
 * the host asks once. */
static void classify(const tn_autocast_interface *a, const hand *h, const char *op, check_result *out)
{
    int32_t class = a->classify(h->self, op);
    check_that(out, class >= -1 && class <= (int32_t)TN_AUTOCAST_WIDEST,
               "autocast.classify of %s gave %d, expected -1 or a class from 0 to %u", op, class,
               TN_AUTOCAST_WIDEST);
    int32_t again = a->classify(h->self, op);
    check_that(out, again == class, "autocast.classify of %s gave %d, then %d", op, class, again);
}

static void run_classify(check_target *t, const check_case *c, check_result *out)
{
    (void)c;
    hand h;
    if (hand_open(&h, t, 0, out)) {
        const tn_autocast_interface *a = h.table.get_interface(h.self, "tenon.autocast", 1);
        if (!HAND_HAS(a, classify)) check_skip(out, "the plugin has no classes of its own");
        for (uint32_t i = 0; i < tn_inspect_operator_count(t->ctx) && out->outcome == CHECK_PASSED; i++) {
            tn_operator_info op = {.size = sizeof op};
            if (!tn_inspect_operator(t->ctx, i, &op)) classify(a, &h, op.name, out);
        }
        if (out->outcome == CHECK_PASSED) classify(a, &h, "kit::of_another_vendor", out);
    }
    hand_close(&h);
}

/* ---- stream.wrap --------------------------------------------------------------------------------------- */

/* Writes x on one stream, waits for it, and reads it by the other. */
static int works(hand *h, void *x, void *stream, uint32_t value, const char *what, check_result *out)
{
    uint8_t want[64], got[64];
    memset(want, (int)value, sizeof want);
    return hand_ok(h, out, h->memory->fill(h->self, h->devices[0], x, 0, sizeof want, value, stream), what) &&
           hand_ok(h, out, h->stream->synchronize(h->self, h->devices[0], stream), what) &&
           holds(h, x, want, got, sizeof want, what, out);
}

/* The queue of the first stream gets a second one, which leaves it alone when it is destroyed. */
static void wrap_queue(hand *h, void *x, uint64_t native, check_result *out)
{
    void *stream = NULL;
    int32_t status = h->stream->wrap(h->self, h->devices[0], native, &stream);
    if (status == TN_E_UNSUPPORTED) {
        check_skip(out, "the plugin takes no queues of the program: %s", mini_host_error);
        return;
    }
    if (!hand_ok(h, out, status, "stream.wrap") ||
        !check_that(out, stream != NULL, "stream.wrap gave no stream"))
        return;
    works(h, x, stream, 3, "a stream of stream.wrap", out);
    h->stream->destroy(h->self, h->devices[0], stream);
    works(h, x, h->streams[0], 5, "a queue whose stream of stream.wrap was destroyed", out);
}

static void run_wrap(check_target *t, const check_case *c, check_result *out)
{
    uint64_t native = 0;
    hand h;
    if (hand_open(&h, t, 1, out) && h.count) {
        void *x = hand_alloc(&h, 0, MAPPED, NULL, out);
        int has_handle = HAND_HAS(h.device, native) &&
                         !h.device->native(h.self, h.devices[0], TN_NATIVE_STREAM, h.streams[0], &native);
        if (!HAND_HAS(h.stream, wrap) || !has_handle)
            check_skip(out, "the plugin has no stream.wrap, or its streams have no native handles");
        else if (x)
            wrap_queue(&h, x, native, out);
        hand_free(&h, 0, x, MAPPED);
    }
    hand_close(&h);
}

void check_tier0_rare(check_target *t, check_list *list)
{
    (void)t;
    check_add(list, &(check_case){.run = run_map}, "0/slot/memory.map");
    check_add(list, &(check_case){.run = run_resize}, "0/slot/memory.resize");
    check_add(list, &(check_case){.run = run_trim}, "0/slot/memory.trim");
    check_add(list, &(check_case){.run = run_classify}, "0/slot/autocast.classify");
    check_add(list, &(check_case){.run = run_wrap, .tags = CHECK_TAG_ALONE}, "0/slot/stream.wrap");
}
