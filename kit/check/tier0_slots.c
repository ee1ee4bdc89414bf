/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 0, slots called by hand: those that the library does not call in this version, and copies and memory in
 * forms that its caching allocator never asks for.
 */
#include "hand.h"
#include "sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Bytes --------------------------------------------------------------------------------------------- */

#define BYTES 8192

/* An allocation on a device that holds `data`, or NULL. */
static void *upload(hand *h, uint32_t device, const uint8_t *data, check_result *out)
{
    void *allocation = hand_alloc(h, device, BYTES, NULL, out);
    if (!allocation) return NULL;
    hand_ok(h, out,
            h->copy->host_to_device(h->self, h->devices[device], allocation, 0, data, NULL, BYTES,
                                    h->streams[device]),
            "host_to_device");
    return allocation;
}

/* Fails unless the allocation holds `want` when the stream is done. */
static void holds(hand *h, uint32_t device, void *allocation, const uint8_t *want, const char *what,
                  check_result *out)
{
    static uint8_t got[BYTES];
    void *d = h->devices[device], *stream = h->streams[device];
    memset(got, 0x11, sizeof got);
    if (!hand_ok(h, out, h->copy->device_to_host(h->self, d, got, NULL, allocation, 0, BYTES, stream),
                 "device_to_host") ||
        !hand_ok(h, out, h->stream->synchronize(h->self, d, stream), "stream.synchronize"))
        return;
    for (int i = 0; i < BYTES; i++)
        if (!check_that(out, got[i] == want[i], "%s: byte %d is 0x%02x, expected 0x%02x", what, i, got[i],
                        want[i]))
            return;
}

static void pattern(uint8_t *data, uint32_t seed)
{
    for (uint32_t i = 0; i < BYTES; i++) data[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
}

/* ---- The cases ----------------------------------------------------------------------------------------- */

static const struct {
    uint64_t offset, bytes;
} ranges[] = {{0, BYTES}, {0, 1}, {1, 3}, {63, 66}, {64, 4096}, {4095, 2}, {BYTES - 1, 1}};
#define RANGES (sizeof ranges / sizeof *ranges)

/* The bytes before and behind the range stay. Patterns other than one repeated byte are not asked for. */
static void run_fill(check_target *t, const check_case *c, check_result *out)
{
    static const uint32_t values[] = {0, 0xa5, 0xff};
    static uint8_t data[BYTES];
    hand h;
    void *x = NULL;
    pattern(data, (uint32_t)check_seed(t, c));
    if (hand_open(&h, t, 1, out)) x = upload(&h, 0, data, out);
    for (size_t i = 0; x && i < RANGES && out->outcome == CHECK_PASSED; i++) {
        char what[96];
        uint64_t offset = ranges[i].offset, bytes = ranges[i].bytes;
        snprintf(what, sizeof what, "memory.fill of %u bytes from %u on with 0x%02x", (unsigned)bytes,
                 (unsigned)offset, values[i % 3]);
        memset(data + offset, (int)values[i % 3], bytes);
        if (hand_ok(&h, out,
                    h.memory->fill(h.self, h.devices[0], x, offset, bytes, values[i % 3], h.streams[0]),
                    what))
            holds(&h, 0, x, data, what, out);
    }
    hand_free(&h, 0, x, BYTES);
    hand_close(&h);
}

/* Copies from each of two devices to the other, on a stream of the target. */
static void peer_both_ways(hand *h, void **x, uint8_t data[2][BYTES], check_result *out)
{
    for (size_t i = 0; i < 2 * RANGES && out->outcome == CHECK_PASSED; i++) {
        uint32_t to = i % 2, from = 1 - to;
        uint64_t bytes = ranges[RANGES - 1 - i / 2].bytes, at = ranges[RANGES - 1 - i / 2].offset,
                 source = BYTES - at - bytes;
        char what[96];
        snprintf(what, sizeof what, "copy.peer of %u bytes to device %u", (unsigned)bytes, to);
        memcpy(data[to] + at, data[from] + source, bytes);
        /* The source was waited for: no event orders streams of two devices here. */
        if (!hand_ok(h, out,
                     h->copy->peer(h->self, h->devices[to], x[to], at, h->devices[from], x[from], source,
                                   bytes, h->streams[to]),
                     what))
            return;
        holds(h, to, x[to], data[to], what, out);
        holds(h, from, x[from], data[from], "the source of copy.peer", out);
    }
}

static void run_peer(check_target *t, const check_case *c, check_result *out)
{
    static uint8_t data[2][BYTES];
    void *x[2] = {NULL, NULL};
    hand h;
    for (uint32_t i = 0; i < 2; i++) pattern(data[i], (uint32_t)check_seed(t, c) + i);
    if (!hand_open(&h, t, 2, out)) {
        hand_close(&h);
        return;
    }
    if (!HAND_HAS(h.copy, peer))
        check_skip(out, "the plugin has no copy.peer: copies go through the host");
    else if (h.count < 2)
        check_skip(out, "one device only");
    for (uint32_t i = 0; i < h.count && out->outcome == CHECK_PASSED; i++) {
        x[i] = upload(&h, i, data[i], out);
        if (x[i]) holds(&h, i, x[i], data[i], "what was uploaded", out);
    }
    if (out->outcome == CHECK_PASSED) peer_both_ways(&h, x, data, out);
    for (uint32_t i = 0; i < h.count; i++) hand_free(&h, i, x[i], BYTES);
    hand_close(&h);
}

/* ---- Copies on one device ------------------------------------------------------------------------------ */

/* Two allocations and what they must hold. The third buffer is the host's side of a copy. */
typedef struct copies {
    hand h;
    void *x[2];
    uint8_t want[2][BYTES], host[BYTES];
    check_result *out;
} copies;

/* One copy of `bytes`, from offset `from` to offset `to`; updates what the target must hold. */
typedef int32_t copy_fn(copies *c, uint64_t to, uint64_t from, uint64_t bytes);

static int32_t on_device(copies *c, uint64_t to, uint64_t from, uint64_t bytes)
{
    memcpy(c->want[0] + to, c->want[1] + from, bytes);
    return c->h.copy->device_to_device(c->h.self, c->h.devices[0], c->x[0], to, c->x[1], from, bytes,
                                       c->h.streams[0]);
}

static int32_t from_host(copies *c, uint64_t to, uint64_t from, uint64_t bytes)
{
    memcpy(c->want[0] + to, c->host + from, bytes);
    return c->h.copy->host_to_device(c->h.self, c->h.devices[0], c->x[0], to, c->host + from, NULL, bytes,
                                     c->h.streams[0]);
}

/* The bytes of the host around the target must stay. */
static int32_t to_host(copies *c, uint64_t to, uint64_t from, uint64_t bytes)
{
    static uint8_t want[BYTES];
    memcpy(want, c->host, BYTES);
    memcpy(want + to, c->want[1] + from, bytes);
    int32_t status = c->h.copy->device_to_host(c->h.self, c->h.devices[0], c->host + to, NULL, c->x[1], from,
                                               bytes, c->h.streams[0]);
    if (!status) status = c->h.stream->synchronize(c->h.self, c->h.devices[0], c->h.streams[0]);
    for (int i = 0; i < BYTES && !status; i++)
        if (!check_that(c->out, c->host[i] == want[i],
                        "copy.device_to_host of %u bytes from offset %u: byte %lld of the target is 0x%02x, "
                        "expected 0x%02x",
                        (unsigned)bytes, (unsigned)from, (long long)i - (long long)to, c->host[i], want[i]))
            break;
    return status;
}

static const struct {
    const char *name;
    copy_fn *run;
} copy_slots[] = {{"copy.device_to_device", on_device},
                  {"copy.host_to_device", from_host},
                  {"copy.device_to_host", to_host}};

/* Every remainder of 4, 8 and 16, at even and odd offsets: wide copies end with a tail. */
static void copy_all_forms(copies *c, const char *slot, copy_fn *run)
{
    static const uint64_t offsets[] = {0, 1, 2, 4, 7, 16, 63, 2048, 4095};
    enum { OFFSETS = sizeof offsets / sizeof *offsets };
    for (uint64_t i = 0; i < 4 * OFFSETS && c->out->outcome == CHECK_PASSED; i++) {
        uint64_t bytes = 1 + i * 5 % 67 + (i % 3 == 0) * 1000, to = offsets[i % OFFSETS],
                 from = offsets[(i / 4 + i) % OFFSETS];
        char what[96];
        snprintf(what, sizeof what, "%s of %u bytes from offset %u to offset %u", slot, (unsigned)bytes,
                 (unsigned)from, (unsigned)to);
        if (!hand_ok(&c->h, c->out, run(c, to, from, bytes), what)) return;
        holds(&c->h, 0, c->x[0], c->want[0], what, c->out);
    }
    holds(&c->h, 0, c->x[1], c->want[1], "the source of the copies", c->out);
}

static void run_copies(check_target *t, const check_case *c, check_result *out)
{
    static copies k; /* too large for a stack */
    k = (copies){.out = out};
    for (int i = 0; i < 2; i++) pattern(k.want[i], (uint32_t)check_seed(t, c) + (uint32_t)i);
    pattern(k.host, (uint32_t)check_seed(t, c) + 2);
    if (hand_open(&k.h, t, 1, out) && k.h.count) {
        for (int i = 0; i < 2 && out->outcome == CHECK_PASSED; i++) k.x[i] = upload(&k.h, 0, k.want[i], out);
        if (out->outcome == CHECK_PASSED)
            copy_all_forms(&k, copy_slots[c->number].name, copy_slots[c->number].run);
        for (int i = 0; i < 2; i++) hand_free(&k.h, 0, k.x[i], BYTES);
    }
    hand_close(&k.h);
}

/* ---- Large memory -------------------------------------------------------------------------------------- */

#define LARGE ((UINT64_C(67) << 20) + 3)

/* What the whole allocation holds, compared with `want`. */
static int holds_large(hand *h, void *allocation, uint8_t *got, const uint8_t *want, const char *what,
                       check_result *out)
{
    memset(got, 0x11, LARGE);
    if (!hand_ok(
            h, out,
            h->copy->device_to_host(h->self, h->devices[0], got, NULL, allocation, 0, LARGE, h->streams[0]),
            "device_to_host") ||
        !hand_ok(h, out, h->stream->synchronize(h->self, h->devices[0], h->streams[0]), "stream.synchronize"))
        return 0;
    uint64_t i = 0;
    while (i < LARGE && got[i] == want[i]) i++;
    return check_that(out, i == LARGE, "%s: byte %llu of %llu is 0x%02x, expected 0x%02x", what,
                      (unsigned long long)i, (unsigned long long)LARGE, i < LARGE ? got[i] : 0,
                      i < LARGE ? want[i] : 0);
}

/* buffers: what x[0] holds, what x[1] holds, what is read. */
static void large_steps(hand *h, void **x, uint8_t *buffers[3], check_result *out)
{
    void *d = h->devices[0], *stream = h->streams[0];
    if (!hand_ok(h, out, h->copy->host_to_device(h->self, d, x[0], 0, buffers[0], NULL, LARGE, stream),
                 "host_to_device") ||
        !holds_large(h, x[0], buffers[2], buffers[0], "copies from the host and back", out))
        return;
    memset(buffers[1], 0xa5, LARGE);
    if (!hand_ok(h, out, h->memory->fill(h->self, d, x[1], 0, LARGE, 0xa5, stream), "memory.fill") ||
        !holds_large(h, x[1], buffers[2], buffers[1], "memory.fill", out))
        return;
    memcpy(buffers[1], buffers[0] + 1, LARGE - 1);
    if (hand_ok(h, out, h->copy->device_to_device(h->self, d, x[1], 0, x[0], 1, LARGE - 1, stream),
                "copy.device_to_device"))
        holds_large(h, x[1], buffers[2], buffers[1], "copy.device_to_device", out);
}

/* buffers: what x[1] holds, of the second device, what x[0] holds then, what is read. */
static void large_peer(hand *h, void **x, uint8_t *buffers[3], check_result *out)
{
    void *first = h->devices[0], *second = h->devices[1], *stream = h->streams[1];
    memcpy(buffers[1], buffers[0] + 1, LARGE - 1);
    buffers[1][LARGE - 1] = 0xa5;
    if (hand_ok(h, out, h->copy->host_to_device(h->self, second, x[1], 0, buffers[0], NULL, LARGE, stream),
                "host_to_device") &&
        hand_ok(h, out, h->stream->synchronize(h->self, second, stream), "stream.synchronize") &&
        hand_ok(h, out, h->memory->fill(h->self, first, x[0], 0, LARGE, 0xa5, h->streams[0]),
                "memory.fill") &&
        hand_ok(h, out, h->copy->peer(h->self, first, x[0], 0, second, x[1], 1, LARGE - 1, h->streams[0]),
                "copy.peer"))
        holds_large(h, x[0], buffers[2], buffers[1], "copy.peer", out);
}

/* Skips the case if there is no memory for the buffers. The first one gets a pattern. */
static void fill_buffers(uint8_t *buffers[3], uint32_t seed, check_result *out)
{
    for (int i = 0; i < 3 && out->outcome == CHECK_PASSED; i++)
        if (!(buffers[i] = malloc(LARGE))) check_skip(out, "the host has no memory for it");
    for (uint64_t i = 0; i < LARGE && out->outcome == CHECK_PASSED; i++)
        buffers[0][i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
}

/* c->number: 1 if x[1] is memory of the second device. */
static void run_large(check_target *t, const check_case *c, check_result *out)
{
    uint8_t *buffers[3] = {NULL};
    void *x[2] = {NULL, NULL};
    hand h;
    if (hand_open(&h, t, 1 + (uint32_t)c->number, out) && h.count) {
        if (c->number && h.count < 2)
            check_skip(out, "one device only");
        else if (c->number && !HAND_HAS(h.copy, peer))
            check_skip(out, "the plugin has no copy.peer: copies go through the host");
        fill_buffers(buffers, (uint32_t)check_seed(t, c), out);
        for (uint32_t i = 0; i < 2 && out->outcome == CHECK_PASSED; i++)
            x[i] = hand_alloc(&h, c->number ? i : 0, LARGE, NULL, out);
        if (out->outcome == CHECK_PASSED) (c->number ? large_peer : large_steps)(&h, x, buffers, out);
        for (uint32_t i = 0; i < 2; i++) hand_free(&h, c->number ? i : 0, x[i], LARGE);
    }
    hand_close(&h);
    for (int i = 0; i < 3; i++) free(buffers[i]);
}

/* ---- memory.alloc -------------------------------------------------------------------------------------- */

static int is_aligned(uint64_t address, uint32_t alignment)
{
    return address % (alignment ? alignment : 1) == 0;
}

static void look_at_memory(hand *h, const tn_memory_request *r, const tn_memory *m, check_result *out)
{
    unsigned long long bytes = r->bytes;
    uint32_t alignment = h->target->facts.alignment;
    check_that(out, m->size == sizeof *m, "memory.alloc of %llu bytes changed `size` to %u", bytes, m->size);
    check_that(out, m->kind == r->kind, "memory.alloc of %llu bytes of kind %u gave kind %u", bytes, r->kind,
               m->kind);
    check_that(out, m->allocation != NULL, "memory.alloc of %llu bytes gave no allocation", bytes);
    check_that(out, m->bytes >= r->bytes, "memory.alloc of %llu bytes gave %llu", bytes,
               (unsigned long long)m->bytes);
    check_that(out, m->host || !(r->kind & (TN_MEMORY_HOST | TN_MEMORY_UNIFIED)),
               "memory.alloc of kind %u gave no address for the host", r->kind);
    check_that(out,
               is_aligned((uintptr_t)m->host, alignment) && is_aligned(m->address, alignment) &&
                   is_aligned(m->offset, alignment),
               "memory.alloc of %llu bytes: host address %p, device address 0x%llx and offset %llu, expected "
               "multiples of %u, the alignment of the facts",
               bytes, m->host, (unsigned long long)m->address, (unsigned long long)m->offset, alignment);
}

/* The host uses all that it was given, which may be more than it asked for. Pinned memory it reads and writes itself. */
static void use_all(hand *h, const tn_memory *m, check_result *out)
{
    uint8_t last = 0;
    void *device = h->devices[0], *stream = h->streams[0];
    if (out->outcome != CHECK_PASSED) return;
    if (m->kind == TN_MEMORY_HOST)
        memset(m->host, 7, m->bytes);
    else if (hand_ok(h, out, h->memory->fill(h->self, device, m->allocation, m->offset, m->bytes, 7, stream),
                     "memory.fill of all that memory.alloc gave") &&
             hand_ok(h, out,
                     h->copy->device_to_host(h->self, device, &last, NULL, m->allocation,
                                             m->offset + m->bytes - 1, 1, stream),
                     "copy.device_to_host of the last byte that memory.alloc gave") &&
             hand_ok(h, out, h->stream->synchronize(h->self, device, stream), "stream.synchronize"))
        check_that(out, last == 7,
                   "memory.fill of all that memory.alloc gave: the last byte is %d, expected 7", last);
}

/* Each kind of memory, in sizes that are not rounded; all at once. */
static void run_alloc(check_target *t, const check_case *c, check_result *out)
{
    static const uint64_t sizes[] = {1, 4097, 1 << 20};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    tn_memory given[32 * SIZES];
    uint32_t n = 0;
    hand h;
    if (hand_open(&h, t, 1, out) && h.count) {
        for (uint32_t i = 0; i < 32 * SIZES && out->outcome == CHECK_PASSED; i++) {
            const tn_memory_request request = {
                .size = sizeof request, .kind = 1u << i / SIZES, .bytes = sizes[i % SIZES]};
            tn_memory *m = &given[n];
            *m = (tn_memory){.size = sizeof *m};
            if (!(t->facts.memory_kinds & request.kind)) continue;
            if (!hand_ok(&h, out, h.memory->alloc(h.self, h.devices[0], &request, m), "memory.alloc")) break;
            look_at_memory(&h, &request, m, out);
            use_all(&h, m, out);
            for (uint32_t k = 0; k < n; k++)
                check_that(out, given[k].allocation != m->allocation || given[k].offset != m->offset,
                           "memory.alloc gave the same memory twice");
            n++;
        }
        while (n--) h.memory->free(h.self, h.devices[0], &given[n]);
    }
    hand_close(&h);
}

/* ---- memory.free --------------------------------------------------------------------------------------- */

enum { BLOCKS = 7 };

/* Fills a block with a pattern of its own, so that another one in the same place would show. */
static void *new_block(hand *h, uint8_t *want, uint32_t seed, check_result *out)
{
    pattern(want, seed);
    void *x = upload(h, 0, want, out);
    if (x) holds(h, 0, x, want, "a new allocation", out); /* waits: no work may use a block that is freed */
    return x;
}

/* Frees the first block, one in the middle and the last one, in turn; after each a new one is allocated, and all
 * must hold what they held. */
static void free_in_turn(hand *h, void **x, uint8_t want[BLOCKS][BYTES], uint32_t seed, check_result *out)
{
    static const int order[] = {3, 0, BLOCKS - 1, 2};
    for (uint32_t i = 0; i < sizeof order / sizeof *order && out->outcome == CHECK_PASSED; i++) {
        char what[80];
        hand_free(h, 0, x[order[i]], BYTES);
        x[order[i]] = new_block(h, want[order[i]], seed + 100 + i, out);
        for (int k = 0; k < BLOCKS && out->outcome == CHECK_PASSED; k++) {
            snprintf(what, sizeof what, "allocation %d, after memory.free of %d and a new allocation", k,
                     order[i]);
            holds(h, 0, x[k], want[k], what, out);
        }
    }
}

static void run_free(check_target *t, const check_case *c, check_result *out)
{
    static uint8_t want[BLOCKS][BYTES];
    void *x[BLOCKS] = {NULL};
    uint32_t seed = (uint32_t)check_seed(t, c);
    hand h;
    if (hand_open(&h, t, 1, out) && h.count) {
        for (uint32_t i = 0; i < BLOCKS && out->outcome == CHECK_PASSED; i++)
            x[i] = new_block(&h, want[i], seed + i, out);
        if (out->outcome == CHECK_PASSED) free_in_turn(&h, x, want, seed, out);
        /* After a failure nobody knows which allocations are left. */
        for (int i = 0; i < BLOCKS && out->outcome == CHECK_PASSED; i++) hand_free(&h, 0, x[i], BYTES);
    }
    hand_close(&h);
}

static void run_self_test(check_target *t, const check_case *c, check_result *out)
{
    hand h;
    if (hand_open(&h, t, 0, out)) {
        if (h.table.self_test)
            hand_ok(&h, out, h.table.self_test(h.self), "self_test");
        else
            check_skip(out, "the plugin has no self_test");
    }
    hand_close(&h);
}

/* ---- Experimental interfaces --------------------------------------------------------------------------- */

static void run_experimental(check_target *t, const check_case *c, check_result *out)
{
    const char *name = c->data;
    hand h;
    if (hand_open(&h, t, 0, out)) {
        const uint32_t *size = h.table.get_interface(h.self, name, 1);
        check_that(out, size && *size >= 2 * sizeof *size,
                   "tenon.experimental lists '%s', which get_interface does not give", name);
    }
    hand_close(&h);
}

/* Each has a case of its own, so that a report counts them apart. */
static void add_experimental(const check_target *t, check_list *list)
{
    for (const char *at = t->experimental; *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ",");
        const char *name = check_text(list, "%.*s", (int)length, at);
        check_add(list, &(check_case){.run = run_experimental, .data = name}, "0/experimental/%s", name);
        at += length;
    }
}

void check_tier0_slots(check_target *t, check_list *list)
{
    add_experimental(t, list);
    check_add(list, &(check_case){.run = run_alloc}, "0/slot/memory.alloc");
    check_add(list, &(check_case){.run = run_fill}, "0/slot/memory.fill");
    check_add(list, &(check_case){.run = run_large}, "0/slot/large");
    check_add(list, &(check_case){.run = run_large, .number = 1}, "0/slot/large-peer");
    check_add(list, &(check_case){.run = run_free, .tags = CHECK_TAG_ALONE}, "0/slot/memory.free");
    for (size_t i = 0; i < sizeof copy_slots / sizeof *copy_slots; i++)
        check_add(list, &(check_case){.run = run_copies, .number = (int64_t)i}, "0/slot/%s",
                  copy_slots[i].name);
    check_add(list, &(check_case){.run = run_peer}, "0/slot/copy.peer");
    check_add(list, &(check_case){.run = run_self_test}, "0/slot/self_test");
}
