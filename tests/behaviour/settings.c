/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of devices, and devices found by what hardware they are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>
#include "../core/bare_message.h"
#include "fixture.h"
#include "reference.h"

static void expect_refusal(int32_t status, int32_t want, const char *text)
{
    cr_assert_eq(status, want, "%d: %s", status, tn_last_error() ? tn_last_error()->message : "");
    cr_assert_str_eq(bare_message(tn_last_error()), text);
}

/* ---- Settings ------------------------------------------------------------------------------------------ */

static int64_t int_setting(tn_context *ctx, tn_device device, const char *name)
{
    tn_value v = tn_value_none();
    cr_assert_eq(tn_device_get_setting(ctx, device, name, &v), TN_OK, "%s", tn_last_error()->message);
    return v.as.i;
}

Test(settings, are_listed_with_type_range_and_meaning)
{
    tn_device device;
    tn_context *ctx = open_reference(&device);
    static const char *const names[] = {"poison", "lazy", "memory", "timeout", "lose", "seed"};
    tn_setting s;
    for (uint32_t i = 0; i < 6; i++) {
        s = (tn_setting){.size = sizeof s};
        cr_assert_eq(tn_device_setting(ctx, device, i, &s), TN_OK);
        cr_assert_str_eq(s.name, names[i]);
        cr_assert(s.meaning[0]);
        cr_assert_eq(s.default_value.tag, i && i != 4 ? TN_TAG_INT : TN_TAG_BOOL);
        cr_assert_eq(s.flags, i == 5 ? TN_SETTING_READ_ONLY : 0);
    }
    cr_assert_eq(tn_device_setting(ctx, device, 1, &s), TN_OK);
    cr_assert_eq(s.minimum.as.i, 0);
    cr_assert_eq(s.maximum.as.i, 60000);
    expect_refusal(tn_device_setting(ctx, device, 6, &s), TN_E_INDEX,
                   "tn_device_setting: the device has no setting 6");
    tn_context_destroy(ctx);
}

Test(settings, decide_what_the_device_does)
{
    float value = 0;
    tn_device device;
    tn_context *ctx = open_reference(&device);
    tn_scope *s = tn_scope_open(ctx);
    cr_assert_eq(int_setting(ctx, device, "poison"), 0);
    cr_assert_eq(tn_device_set_setting(ctx, device, "poison", tn_value_bool(1)), TN_OK);
    cr_assert_eq(int_setting(ctx, device, "poison"), 1);
    tn_tensor *fresh = tn_empty(s, TN_INTS(1), .dtype = TN_FLOAT32, .device = device);
    cr_assert_eq(tn_to_host(s, fresh, &value, sizeof value), TN_OK);
    cr_assert(isnan(value));
    cr_assert_eq(tn_device_set_setting(ctx, device, "memory", tn_value_int(1 << 20)), TN_OK);
    cr_assert_null(tn_empty(s, TN_INTS(32 << 20), .dtype = TN_FLOAT32, .device = device));
    cr_assert_eq(tn_scope_error(s)->code, TN_E_OUT_OF_MEMORY);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

Test(settings, wrong_names_and_values_are_refused_by_name)
{
    tn_device device;
    tn_value v;
    tn_context *ctx = open_reference(&device);
    expect_refusal(tn_device_set_setting(ctx, device, "posion", tn_value_bool(1)), TN_E_NOT_FOUND,
                   "device reference:0: there is no setting 'posion'; did you mean 'poison'?");
    expect_refusal(tn_device_get_setting(ctx, device, "tensor_cores", &v), TN_E_NOT_FOUND,
                   "device reference:0: there is no setting 'tensor_cores'");
    expect_refusal(
        tn_device_set_setting(ctx, device, "lazy", tn_value_int(60001)), TN_E_ARGUMENT,
        "device reference:0: setting 'lazy': wrong value (got 60001, expected an int from 0 to 60000)");
    expect_refusal(
        tn_device_set_setting(ctx, device, "lazy", tn_value_string("1")), TN_E_ARGUMENT,
        "device reference:0: setting 'lazy': wrong value (got '1', expected an int from 0 to 60000)");
    expect_refusal(tn_device_set_setting(ctx, device, "seed", tn_value_int(7)), TN_E_ARGUMENT,
                   "device reference:0: setting 'seed' is read-only");
    cr_assert_eq(int_setting(ctx, device, "lazy"), 0);
    tn_context_destroy(ctx);
}

Test(settings, of_the_environment_are_set_when_a_device_is_opened)
{
    tn_device device;
    setenv("TENON_REFERENCE_DEVICES", "2", 1);
    setenv("TENON_SETTINGS", "reference.poison=1;reference:1.lazy=3;cuda.nothing=1", 1);
    tn_context *ctx = open_reference(&device);
    cr_assert_eq(int_setting(ctx, device, "poison"), 1);
    cr_assert_eq(int_setting(ctx, device, "lazy"), 0);
    cr_assert_eq(int_setting(ctx, TN_DEVICE(TN_DEVICE_TYPE(device), 1), "lazy"), 3);
    tn_context_destroy(ctx);
}

static void expect_unopened(const char *settings, const char *part)
{
    tn_context *ctx;
    setenv("TENON_SETTINGS", settings, 1);
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    cr_assert(tn_device_choose(ctx, "reference", NULL) & TN_DEVICE_MISSING);
    cr_assert(strstr(tn_last_error()->message, part), "%s", tn_last_error()->message);
    tn_context_destroy(ctx);
}

Test(settings, of_the_environment_that_are_wrong_keep_a_device_closed)
{
    expect_unopened(
        "reference.poisn=1",
        "TENON_SETTINGS: device reference:0: there is no setting 'poisn'; did you mean 'poison'?");
    expect_unopened("reference.lazy=x",
                    "TENON_SETTINGS: device reference:0: setting 'lazy': wrong value (got x, "
                    "expected an int from 0 to 60000)");
    expect_unopened("reference.poison=2", "wrong value (got 2, expected 0 or 1)");
}

/* The CPU plugin's are texts. */
Test(settings, of_the_cpu)
{
    tn_context *ctx;
    tn_value v = tn_value_none();
    setenv("TENON_CPU_LEVEL", "base", 1);
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    cr_assert_eq(tn_device_get_setting(ctx, TN_CPU, "level", &v), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(v.tag, TN_TAG_STRING);
    cr_assert_str_eq(v.as.string, "base");
    expect_refusal(tn_device_set_setting(ctx, TN_CPU, "huge_pages", tn_value_string("adv")), TN_E_ARGUMENT,
                   "device cpu: setting 'huge_pages': wrong value (got 'adv', expected one of advise,never)");
    cr_assert_eq(tn_device_get_setting(ctx, TN_CPU, "huge_pages", &v), TN_OK);
    cr_assert_str_eq(v.as.string, "advise");
    cr_assert_eq(tn_device_set_setting(ctx, TN_CPU, "huge_pages", tn_value_string("never")), TN_OK);
    cr_assert_eq(tn_device_get_setting(ctx, TN_CPU, "huge_pages", &v), TN_OK);
    cr_assert_str_eq(v.as.string, "never");
    tn_context_destroy(ctx);
}

/* ---- Hardware ------------------------------------------------------------------------------------------ */

/* `reference` and `twin` are two plugins that find the same device. */
static tn_context *open_twins(void)
{
    tn_context *ctx;
    setenv("TENON_REFERENCE_UUID", "00112233445566778899aabbccddee0f", 1);
    setenv("TENON_PLUGIN_ADD", getenv("TENON_TWIN_FOLDER"), 1);
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_device_count(ctx, "twin"), 1);
    return ctx;
}

Test(settings, a_device_is_chosen_by_its_uuid)
{
    const char *why = NULL;
    tn_context *ctx = open_twins();
    tn_device a = tn_device_parse(ctx, "reference:0"), b = tn_device_parse(ctx, "twin:0");
    cr_assert(tn_device_is_same(ctx, a, b));
    cr_assert(tn_device_is_same(ctx, a, a));
    cr_assert_not(tn_device_is_same(ctx, a, TN_CPU));
    int32_t count = tn_device_count(ctx, NULL);
    cr_assert_eq(count, 2, "the CPU, and the hardware once");
    cr_assert(tn_device_at(ctx, 1) == a && tn_device_at(ctx, 2) == b,
              "that of the plugin that was loaded first");
    cr_assert_eq(tn_device_choose(ctx, "twin:0", NULL), b, "the other one has its name");
    tn_device chosen = tn_device_choose(ctx, "uuid:00112233-4455-6677-8899-AABBCCDDEE0F", &why);
    cr_assert(chosen == a || chosen == b);
    cr_assert(strstr(why, "it is twin:0, too") || strstr(why, "it is reference:0, too"), "%s", why);
    cr_assert(tn_device_choose(ctx, "uuid:00112233445566778899aabbccddee0e", NULL) & TN_DEVICE_MISSING);
    cr_assert(strstr(tn_last_error()->message, "none of the 3 devices is it"), "%s",
              tn_last_error()->message);
    tn_context_destroy(ctx);
}

Test(settings, a_wish_for_hardware_that_is_misspelt_is_refused)
{
    static const char *const wishes[] = {"uuid:", "uuid:0011", "uuid:0011223344556677889900aabbccddeg",
                                         "uuid:00112233445566778899aabbccddee0f0", "pci:"};
    tn_context *ctx = open_twins();
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        cr_assert(tn_device_choose(ctx, wishes[i], NULL) & TN_DEVICE_MISSING, "%s", wishes[i]);
        cr_assert(strstr(tn_last_error()->message, "asked for by the program: expected"), "%s",
                  tn_last_error()->message);
    }
    cr_assert(tn_device_choose(ctx, "pci:0000:65:00.0", NULL) & TN_DEVICE_MISSING);
    cr_assert(strstr(tn_last_error()->message, "none of the"), "%s", tn_last_error()->message);
    tn_context_destroy(ctx);
}
