/* SPDX-License-Identifier: Apache-2.0 */
/* The null plugin: no device and a reason, or a device whose memory is the host's; all slots, no rows. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(null, no_device_and_a_reason)
{
    fixture f;
    uint32_t count = 7;
    const char *reason = NULL;
    unsetenv("TENON_NULL_DEVICES");
    fixture_load(&f);
    cr_assert_eq(f.device_interface->enumerate(f.self, &count, &reason), TN_OK);
    cr_assert_eq(count, 0);
    cr_assert(strstr(reason, "no hardware"));
    fixture_close(&f);
}

Test(null, info_block)
{
    fixture f;
    fixture_load(&f);
    cr_assert_eq(memcmp(f.info->magic, TN_PLUGIN_MAGIC, 8), 0);
    cr_assert_eq(f.info->size, sizeof(tn_plugin_info));
    cr_assert_str_eq(f.info->name, "null");
    cr_assert_eq(f.info->abi_min, 1);
    cr_assert_eq(f.info->abi_max, 1);
    fixture_close(&f);
}

Test(null, declines_another_generation)
{
    fixture f;
    char reason[64] = "";
    tn_plugin_table table = {.size = sizeof(table)};
    tn_host_offer offer = {sizeof(offer), 7, 9, 0, reason, sizeof(reason), 0};
    fixture_load(&f);
    cr_assert_eq(f.info->entry(&offer, &table), TN_E_VERSION);
    cr_assert_str_eq(reason, "no ABI generation in common");
    fixture_close(&f);
}

Test(null, every_slot_of_every_interface)
{
    static const char *const names[] = {"tenon.device", "tenon.memory", "tenon.copy",   "tenon.stream",
                                        "tenon.event",  "tenon.layout", "tenon.random", "tenon.allocator"};
    fixture f;
    fixture_load(&f);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *table = f.table.get_interface(f.self, names[i], 1);
        uint32_t size;
        cr_assert_not_null(table, "%s", names[i]);
        memcpy(&size, table, sizeof(size));
        for (size_t at = !strcmp(names[i], "tenon.layout") ? 16 : 8; at < size; at += sizeof(void *)) {
            void *slot;
            memcpy(&slot, table + at, sizeof(slot));
            cr_assert_not_null(slot, "%s, byte %zu", names[i], at);
        }
        cr_assert_null(f.table.get_interface(f.self, names[i], 2));
    }
    cr_assert_null(f.table.get_interface(f.self, "tenon.nothing", 1));
    cr_assert_eq(f.kernels->count, 0);
    cr_assert_eq(f.kernels->row_bytes, sizeof(tn_kernel_row));
    fixture_close(&f);
}

Test(null, memory_is_the_hosts)
{
    const int64_t sizes[] = {3};
    const int32_t data[] = {1, -2, 3};
    int32_t back[3] = {0};
    fixture f;
    setenv("TENON_NULL_DEVICES", "1", 1);
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_INT32, 1, sizes, data);
    cr_assert_not_null(t.desc.host);
    cr_assert_eq((uintptr_t)t.desc.host % 64, 0);
    cr_assert_eq(fixture_read(&f, &t, back), TN_OK);
    cr_assert_arr_eq(back, data, sizeof(data));
    cr_assert_eq(f.memory->fill(f.self, f.device, t.desc.allocation, 4, 4, 0xff, f.stream), TN_OK);
    cr_assert_eq(fixture_read(&f, &t, back), TN_OK);
    cr_assert_eq(back[0], 1);
    cr_assert_eq(back[1], -1);
    cr_assert_eq(back[2], 3);
    fixture_tensor_free(&f, &t);
    fixture_close(&f);
}

Test(null, refuses_a_device_that_is_not_there)
{
    fixture f;
    void *device = NULL;
    setenv("TENON_NULL_DEVICES", "2", 1);
    fixture_load(&f);
    cr_assert_eq(f.device_interface->open(f.self, 2, &device), TN_E_DEVICE);
    cr_assert_null(device);
    cr_assert_str_eq(f.error_message, "null: there is no device of this index");
    cr_assert_eq(f.device_interface->open(f.self, 1, &device), TN_OK);
    f.device_interface->close(f.self, device);
    fixture_close(&f);
}

Test(null, facts_of_a_shorter_host)
{
    tn_device_facts facts;
    fixture f;
    fixture_load(&f);
    memset(&facts, 0x5a, sizeof(facts));
    facts.size = 8;
    cr_assert_eq(f.device_interface->facts(f.self, 0, &facts), TN_OK);
    cr_assert_eq(facts.size, 8);
    cr_assert_eq(facts.device_class, TN_DEVICE_VIRTUAL);
    cr_assert_eq(facts.memory_kinds, 0x5a5a5a5a);
    fixture_close(&f);
}
