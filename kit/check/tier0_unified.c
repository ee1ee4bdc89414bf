/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 0, unified memory (TN_MEMORY_UNIFIED): what the host writes there a copy of the device reads, and what the device writes the
 * host reads after it has waited. Tensors of integrated devices lie in such memory; a plugin that lists the kind for
 * another device gives it on request, which only this case makes.
 */
#include "gate.h"
#include "sources.h"

#include <stdio.h>
#include <string.h>

#define BYTES 8192
#define HALF  (BYTES / 2)

static int take(hand *h, tn_memory *out_memory, check_result *out)
{
    const tn_memory_request request = {.size = sizeof request, .kind = TN_MEMORY_UNIFIED, .bytes = BYTES};
    const uint32_t alignment = h->target->facts.alignment ? h->target->facts.alignment : 1;
    *out_memory = (tn_memory){.size = sizeof *out_memory};
    if (!hand_ok(h, out, h->memory->alloc(h->self, h->devices[0], &request, out_memory),
                 "memory.alloc of kind TN_MEMORY_UNIFIED"))
        return 0;
    /* A plugin that has one kind of memory may leave the field at 0. */
    check_that(out, !out_memory->kind || out_memory->kind == TN_MEMORY_UNIFIED,
               "unified memory has the kind %u, expected %u", out_memory->kind, TN_MEMORY_UNIFIED);
    check_that(out, out_memory->host != NULL, "unified memory has no address for the host");
    check_that(out, (uintptr_t)out_memory->host % alignment == 0,
               "unified memory lies at %p; the facts promise alignment %u", out_memory->host, alignment);
    return out->outcome == CHECK_PASSED;
}

static void wait_for(hand *h, check_result *out)
{
    hand_ok(h, out, h->stream->synchronize(h->self, h->devices[0], h->streams[0]), "stream.synchronize");
}

static void expect(check_result *out, const uint8_t *got, uint8_t want, const char *what)
{
    for (int i = 0; i < HALF; i++)
        if (!check_that(out, got[i] == want, "%s: byte %d is 0x%02x, expected 0x%02x", what, i, got[i], want))
            return;
}

/* The host writes both halves; the device reads the first one, and writes it over the second. */
static void use(hand *h, const tn_memory *m, check_result *out)
{
    uint8_t *host = m->host, got[HALF] = {0};
    memset(host, 0x5a, HALF);
    memset(host + HALF, 0, HALF);
    if (hand_ok(h, out,
                h->copy->device_to_host(h->self, h->devices[0], got, NULL, m->allocation, m->offset, HALF,
                                        h->streams[0]),
                "copy.device_to_host"))
        wait_for(h, out);
    expect(out, got, 0x5a, "a copy of what the host wrote");
    if (hand_ok(h, out,
                h->copy->device_to_device(h->self, h->devices[0], m->allocation, m->offset + HALF,
                                          m->allocation, m->offset, HALF, h->streams[0]),
                "copy.device_to_device"))
        wait_for(h, out);
    expect(out, host + HALF, 0x5a, "what the device wrote");
    expect(out, host, 0x5a, "what the device read");
}

static void run_memory(check_target *t, const check_case *c, check_result *out)
{
    tn_memory m = {.size = sizeof m};
    hand h;
    (void)c;
    if (hand_open(&h, t, 1, out) && h.count) {
        if (!(t->facts.memory_kinds & TN_MEMORY_UNIFIED)) {
            check_skip(out, "the facts list no unified memory");
        } else {
            if (take(&h, &m, out)) use(&h, &m, out);
            if (m.allocation) h.memory->free(h.self, h.devices[0], &m);
        }
    }
    hand_close(&h);
}

void check_tier0_unified(check_target *t, check_list *list)
{
    (void)t;
    check_add(list, &(check_case){.run = run_memory}, "0/unified/memory");
}
