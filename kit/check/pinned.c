/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory of the host; see pinned.h. */
#include "pinned.h"

#include <sys/mman.h>

/* As the library decides: memory of kind TN_MEMORY_HOST where tensors have another kind, else pages. */
int pinned_given(const hand *h)
{
    return h->target->facts.memory_kinds & TN_MEMORY_HOST && hand_memory_kind(h) != TN_MEMORY_HOST;
}

int pinned_there(hand *h, check_result *out)
{
    if (h->target->facts.device_class == TN_DEVICE_HOST) {
        check_skip(out, "a device of the host has no memory to pin");
        return 0;
    }
    if (pinned_given(h) || (HAND_HAS(h->memory, pin) && HAND_HAS(h->memory, unpin))) return 1;
    check_skip(out, "the plugin pins no memory of the host");
    return 0;
}

int pinned_take(hand *h, pinned *p, check_result *out)
{
    const tn_memory_request request = {.size = sizeof request, .kind = TN_MEMORY_HOST, .bytes = PINNED_BYTES};
    *p = (pinned){.memory = {.size = sizeof p->memory}};
    if (pinned_given(h)) {
        if (!hand_ok(h, out, h->memory->alloc(h->self, h->devices[0], &request, &p->memory),
                     "memory.alloc of kind TN_MEMORY_HOST"))
            return 0;
    } else {
        p->pages = mmap(NULL, PINNED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (!check_that(out, p->pages != MAP_FAILED, "no pages to pin")) return 0;
        if (!hand_ok(h, out, h->memory->pin(h->self, h->devices[0], p->pages, PINNED_BYTES, &p->memory),
                     "memory.pin")) {
            munmap(p->pages, PINNED_BYTES);
            return 0;
        }
        check_that(out, p->memory.host == p->pages, "memory.pin: its result shows other memory");
    }
    check_that(out, p->memory.kind == TN_MEMORY_HOST, "pinned memory has the kind %u, expected %u",
               p->memory.kind, TN_MEMORY_HOST);
    check_that(out, p->memory.host != NULL, "pinned memory has no address for the host");
    check_that(out, !p->memory.bytes || p->memory.bytes >= PINNED_BYTES,
               "%llu bytes of pinned memory, expected %d", (unsigned long long)p->memory.bytes, PINNED_BYTES);
    return out->outcome == CHECK_PASSED;
}

void pinned_give_back(hand *h, const pinned *p)
{
    if (!p->memory.host && !p->pages) return;
    if (!p->pages) {
        h->memory->free(h->self, h->devices[0], &p->memory);
        return;
    }
    h->memory->unpin(h->self, h->devices[0], &p->memory);
    munmap(p->pages, PINNED_BYTES);
}
