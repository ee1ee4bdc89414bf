/* SPDX-License-Identifier: Apache-2.0 */
/* Tier 0, slots that the library does not call in this version but that a plugin may have. */
#include "hand.h"
#include "sources.h"

#include <stdio.h>
#include <string.h>

/* ---- Bytes --------------------------------------------------------------------------------------------- */

#define BYTES 8192

/* An allocation on a device that holds `data`, or NULL. */
static void *upload(hand *h, uint32_t device, const uint8_t *data, check_result *out)
{
    uint32_t kinds = h->target->facts.memory_kinds, kind = kinds & (~kinds + 1u);
    void *allocation = NULL, *host = NULL;
    if (!hand_ok(h, out, h->memory->alloc(h->self, h->devices[device], BYTES, kind, &allocation, &host),
                 "alloc"))
        return NULL;
    hand_ok(
        h, out,
        h->copy->host_to_device(h->self, h->devices[device], allocation, 0, data, BYTES, h->streams[device]),
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
    if (!hand_ok(h, out, h->copy->device_to_host(h->self, d, got, allocation, 0, BYTES, stream),
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
    if (x) h.memory->free(h.self, h.devices[0], x, BYTES);
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
    for (uint32_t i = 0; i < h.count; i++)
        if (x[i]) h.memory->free(h.self, h.devices[i], x[i], BYTES);
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

void check_tier0_slots(check_target *t, check_list *list)
{
    check_add(list, &(check_case){.run = run_fill}, "0/slot/memory.fill");
    check_add(list, &(check_case){.run = run_peer}, "0/slot/copy.peer");
    check_add(list, &(check_case){.run = run_self_test}, "0/slot/self_test");
}
