/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One GPU under several plugins, on test drivers: cuda:0 and xpu:0 have one uuid, cuda:1, xpu:1 and opencl:0 another.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <tenon/tenon.h>

static tn_context *ctx;

static void open_all(void)
{
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_device_count(ctx, "cuda"), 2);
    cr_assert_eq(tn_device_count(ctx, "xpu"), 2);
    cr_assert_eq(tn_device_count(ctx, "opencl"), 1);
}
static void close_all(void)
{
    tn_context_destroy(ctx);
}
TestSuite(twins, .init = open_all, .fini = close_all, .timeout = 60);

static tn_device parse(const char *name)
{
    return tn_device_parse(ctx, name);
}

static int32_t place_of(const char *name)
{
    int32_t i = 0;
    while (tn_device_at(ctx, i) != parse(name)) cr_assert_lt(i++, 64, "%s is not listed", name);
    return i;
}

Test(twins, are_told_by_their_uuid)
{
    static const char *const same[][2] = {
        {"cuda:0", "xpu:0"}, {"cuda:1", "xpu:1"}, {"cuda:1", "opencl:0"}, {"opencl:0", "xpu:1"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        cr_expect(tn_device_is_same(ctx, parse(same[i][0]), parse(same[i][1])), "%s, %s", same[i][0],
                  same[i][1]);
    cr_expect_not(tn_device_is_same(ctx, parse("cuda:0"), parse("xpu:1")));
    cr_expect_not(tn_device_is_same(ctx, parse("cuda:0"), parse("opencl:0")));
    cr_expect_not(tn_device_is_same(ctx, parse("cpu"), parse("opencl:0")));
}

/* Two GPUs, the CPU, the reference device and, where there is one, a Vulkan device. */
Test(twins, are_listed_once)
{
    int32_t count = tn_device_count(ctx, NULL), others = tn_device_count(ctx, "vulkan");
    cr_expect_eq(count, 4 + others);
    cr_expect_geq(place_of("opencl:0"), count, "it has no addresses, which the other two have");
    cr_expect_eq(place_of("cuda:0") < count, place_of("cuda:1") < count);
    cr_expect_neq(place_of("cuda:0") < count, place_of("xpu:0") < count);
    cr_expect_neq(place_of("cuda:1") < count, place_of("xpu:1") < count);
    cr_expect(tn_device_at(ctx, count + 3) & TN_DEVICE_MISSING);
}

Test(twins, are_chosen_by_hardware_and_by_name)
{
    const char *why = NULL;
    tn_device best = tn_device_choose(ctx, NULL, &why);
    cr_expect(best == parse("cuda:0") || best == parse("xpu:0"), "%s", why);
    cr_expect(strstr(why, best == parse("cuda:0") ? "; it is xpu:0, too" : "; it is cuda:0, too"), "%s", why);
    cr_expect_eq(tn_device_choose(ctx, "uuid:61616161-6161-6161-6161-616161616161", NULL), best);
    cr_expect_eq(tn_device_choose(ctx, "pci:0000:65:00.0", NULL), best);
    cr_expect_eq(tn_device_choose(ctx, "uuid:62626262626262626262626262626262", &why), tn_device_at(ctx, 1));
    cr_expect(strstr(why, "; it is opencl:0, too"), "%s", why);
    cr_expect_eq(tn_device_choose(ctx, "pci:0001:65:1f.7", NULL), tn_device_at(ctx, 1),
                 "what only opencl:0 says");
    static const char *const names[] = {"cuda:0", "xpu:1", "opencl:0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_expect_eq(tn_device_choose(ctx, names[i], NULL), parse(names[i]));
}

/* Tensors of twins are tensors of two devices: nothing but the name says that their memory is the same. */
Test(twins, copy_as_other_devices_do)
{
    float got[3];
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *a = tn_from_data(s, TN_FLOAT32, TN_INTS(3), (float[]){1, 2, 3}, parse("cuda:0"));
    tn_tensor *b = tn_to_dtype_layout(s, tn_mul_scalar(s, a, 2), .device = parse("xpu:0"));
    cr_assert_eq(tn_to_host(s, tn_add_scalar(s, b, 1), got, sizeof got), TN_OK, "%s",
                 tn_scope_error(s)->message);
    cr_expect(got[0] == 3 && got[1] == 5 && got[2] == 7, "%g %g %g", (double)got[0], (double)got[1],
              (double)got[2]);
    tn_scope_close(s);
}

/* Mesa's lavapipe has its name and version for a uuid. */
Test(twins, a_vulkan_device_says_what_it_is)
{
    tn_device_facts f = {.size = sizeof f};
    if (!tn_device_count(ctx, "vulkan")) cr_skip_test("no Vulkan device (Debian: mesa-vulkan-drivers)");
    cr_assert_eq(tn_device_get_facts(ctx, parse("vulkan:0"), &f), TN_OK);
    cr_expect_gt(f.compute_units, 0);
    if (strstr(f.name, "llvmpipe")) cr_expect_eq(memcmp(f.uuid, "mesa", 4), 0);
    if (strstr(f.name, "llvmpipe")) cr_expect_str_eq(f.pci_address, "");
}
