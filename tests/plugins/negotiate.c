/* SPDX-License-Identifier: Apache-2.0 */
/* The inline functions with which a plugin answers its host: tn_negotiate_slots and tn_interface_find. */
#include <criterion/criterion.h>
#include <stddef.h>
#include <tenon/plugin.h>

static int32_t init(const tn_host *host, void **out_self)
{
    return TN_E_INTERNAL;
}

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    return NULL;
}

static void shutdown(void *self) {}

static const tn_plugin_table slots = {
    .size = 7, .abi = 99, .init = init, .get_interface = get_interface, .shutdown = shutdown};

static const tn_host_offer offer = {
    .size = sizeof offer, .abi_min = TN_ABI_GENERATION, .abi_max = TN_ABI_GENERATION};

Test(negotiate, slots_are_set_and_the_rest_is_absent)
{
    tn_plugin_table out = {.size = sizeof out, .abi = 5, .quiesce = (int32_t(*)(void *))(void *)&out};
    cr_assert_eq(tn_negotiate_slots(&offer, &out, &slots), TN_OK);
    cr_assert_eq(out.size, sizeof out);
    cr_assert_eq(out.abi, TN_ABI_GENERATION);
    cr_assert(out.init == init && out.get_interface == get_interface && out.shutdown == shutdown);
    cr_assert(!out.quiesce && !out.self_test);
}

/* A host that is older than the plugin has a shorter table: nothing is written behind it. */
Test(negotiate, a_shorter_table_keeps_its_end)
{
    tn_plugin_table out;
    for (size_t i = 0; i < sizeof out; i++) ((char *)&out)[i] = 0x5a;
    out.size = offsetof(tn_plugin_table, shutdown);
    cr_assert_eq(tn_negotiate_slots(&offer, &out, &slots), TN_OK);
    cr_assert(out.get_interface == get_interface);
    for (size_t i = out.size; i < sizeof out; i++) cr_assert_eq(((char *)&out)[i], 0x5a);
}

/* A host that is newer has a longer one: the slots that the plugin does not know are absent. */
Test(negotiate, a_longer_table_ends_in_zeros)
{
    struct {
        tn_plugin_table known;
        void *later[2];
    } out = {.known = {.size = sizeof out}, .later = {&out, &out}};
    cr_assert_eq(tn_negotiate_slots(&offer, &out.known, &slots), TN_OK);
    cr_assert(out.known.shutdown == shutdown);
    cr_assert(!out.later[0] && !out.later[1]);
}

Test(negotiate, another_generation_sets_no_slot)
{
    char reason[64] = "";
    tn_host_offer later = {.size = sizeof later,
                           .abi_min = TN_ABI_GENERATION + 1,
                           .abi_max = TN_ABI_GENERATION + 3,
                           .reason = reason,
                           .reason_bytes = sizeof reason};
    tn_plugin_table out = {.size = sizeof out};
    cr_assert_eq(tn_negotiate_slots(&later, &out, &slots), TN_E_VERSION);
    cr_assert_str_eq(reason, "no ABI generation in common");
    cr_assert(!out.init && !out.shutdown);
}

Test(negotiate, interfaces_are_found_by_their_whole_name)
{
    static const int one, two;
    static const tn_named_interface list[] = {{"tenon.copy", &one}, {"tenon.copying", &two}};
    cr_assert_eq(tn_interface_find(list, 2, "tenon.copy", 1), &one);
    cr_assert_eq(tn_interface_find(list, 2, "tenon.copying", 1), &two);
    cr_assert_null(tn_interface_find(list, 1, "tenon.copying", 1));
    cr_assert_null(tn_interface_find(list, 2, "tenon.cop", 1));
    cr_assert_null(tn_interface_find(list, 2, "", 1));
    cr_assert_null(tn_interface_find(list, 2, "tenon.copy", 2));
}
