/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: what it says of itself, memory, copies, streams that are always done, events with
 * times. */
#include "fixture.h"
#include "slots.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

Test(cpu_device, one_host_device_with_its_facts)
{
    fixture f;
    uint32_t count = 0;
    const char *reason = "x";
    tn_device_facts facts = {.size = sizeof facts};
    fixture_load(&f);
    cr_assert_str_eq(f.device_interface->type, "cpu");
    cr_assert_eq(f.device_interface->enumerate(f.self, &count, &reason), TN_OK);
    cr_assert_eq(count, 1);
    cr_assert_eq(f.device_interface->facts(f.self, 0, &facts), TN_OK);
    cr_assert_eq(facts.device_class, TN_DEVICE_HOST);
    cr_assert_eq(facts.memory_kinds, TN_MEMORY_HOST | TN_MEMORY_UNIFIED);
    cr_assert_geq(facts.compute_units, 1);
    cr_assert_gt(facts.total_memory, 0);
    cr_assert_eq(facts.alignment, 64);
    fixture_close(&f);
}

Test(cpu_device, facts_write_no_more_than_the_host_knows)
{
    fixture f;
    unsigned char room[sizeof(tn_device_facts)];
    uint32_t size = 16;
    fixture_load(&f);
    memset(room, 0xaa, sizeof room);
    memcpy(room, &size, sizeof size);
    cr_assert_eq(f.device_interface->facts(f.self, 0, (tn_device_facts *)(void *)room), TN_OK);
    for (size_t i = 16; i < sizeof room; i++) cr_assert_eq(room[i], 0xaa);
    fixture_close(&f);
}

Test(cpu_device, memory_is_aligned_and_the_hosts)
{
    static const uint64_t sizes[] = {1, 63, 4096, (uint64_t)16 << 20};
    fixture f;
    fixture_open(&f);
    for (size_t i = 0; i < 4; i++) {
        void *allocation = NULL, *host = NULL;
        cr_assert_eq(slot_alloc(f.memory, f.self, f.device, sizes[i], TN_MEMORY_HOST, &allocation, &host),
                     TN_OK);
        cr_assert_eq((uintptr_t)host % 64, 0);
        cr_assert_eq(f.memory->fill(f.self, f.device, allocation, 0, sizes[i], 0x5a, f.stream), TN_OK);
        cr_assert_eq(((unsigned char *)host)[sizes[i] - 1], 0x5a);
        slot_free(f.memory, f.self, f.device, allocation, sizes[i]);
    }
    fixture_close(&f);
}

Test(cpu_device, events_measure_time)
{
    fixture f;
    void *start, *end;
    int32_t done = 0;
    double ms = -1;
    struct timespec pause = {0, 20000000};
    fixture_open(&f);
    cr_assert_eq(f.events->create(f.self, f.device, TN_EVENT_TIMING, &start), TN_OK);
    cr_assert_eq(f.events->create(f.self, f.device, TN_EVENT_TIMING, &end), TN_OK);
    cr_assert_neq(f.events->elapsed(f.self, f.device, start, end, &ms), TN_OK);
    cr_assert_eq(f.events->record(f.self, f.device, start, f.stream), TN_OK);
    nanosleep(&pause, NULL);
    cr_assert_eq(f.events->record(f.self, f.device, end, f.stream), TN_OK);
    cr_assert_eq(f.events->query(f.self, f.device, end, &done), TN_OK);
    cr_assert_eq(done, 1);
    cr_assert_eq(f.events->elapsed(f.self, f.device, start, end, &ms), TN_OK);
    cr_assert_geq(ms, 20);
    f.events->destroy(f.self, f.device, start);
    f.events->destroy(f.self, f.device, end);
    fixture_close(&f);
}
