/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of every type, plugins that describe them wrongly, and devices by their hardware; tests/behaviour has the
 * settings of a real plugin. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fixture.h"

static fake f;
static tni_driver driver;
static tn_device id;

static const char *const allowed = "slow,fast";
static tn_setting described[] = {
    {.name = "level", .meaning = "how much", .default_value = {.tag = TN_TAG_INT}},
    {.name = "share", .meaning = "of the memory", .default_value = {.tag = TN_TAG_FLOAT}},
    {.name = "mode", .meaning = "how fast", .default_value = {.tag = TN_TAG_STRING}},
    {.name = "label", .meaning = "a name", .default_value = {.tag = TN_TAG_STRING}},
    {.name = "on", .meaning = "whether", .default_value = {.tag = TN_TAG_BOOL}},
    {.name = "open", .meaning = "without limits", .default_value = {.tag = TN_TAG_INT}},
    {.name = "part", .meaning = "without limits", .default_value = {.tag = TN_TAG_FLOAT}},
};
#define COUNT (uint32_t)(sizeof described / sizeof *described)
static tn_value values[COUNT];
static char label[64];
static int32_t describe_status, get_status, set_status, endless;

static int32_t describe(void *self, void *device, uint32_t i, tn_setting *out)
{
    if (describe_status) return describe_status;
    if (endless) i = 0;
    if (i >= COUNT) return TN_E_INDEX;
    *out = described[i];
    out->size = sizeof *out;
    return TN_OK;
}

static int32_t get(void *self, void *device, uint32_t i, tn_value *out)
{
    if (!get_status) *out = values[i];
    return get_status;
}

static int32_t set(void *self, void *device, uint32_t i, const tn_value *value)
{
    if (set_status) return set_status;
    values[i] = *value;
    if (value->tag == TN_TAG_STRING) {
        snprintf(label, sizeof label, "%s", value->as.string);
        values[i].as.string = label;
    }
    return TN_OK;
}

static void open_settings(void)
{
    open_fakes();
    described[0].minimum = tn_value_int(1), described[0].maximum = tn_value_int(9);
    described[1].minimum = tn_value_float(0.25), described[1].maximum = tn_value_float(0.75);
    described[2].choices = allowed;
    for (uint32_t i = 0; i < COUNT; i++) {
        if (described[i].default_value.tag == TN_TAG_STRING) described[i].default_value.as.string = "slow";
        values[i] = described[i].default_value;
    }
    f = (fake){.type = "tuned", .count = 2, .device_class = TN_DEVICE_DISCRETE};
    driver = fake_driver(&f);
    driver.settings = (tn_settings_interface){sizeof driver.settings, 0, describe, get, set};
    cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
    id = tn_device_parse(ctx, "tuned:1");
}

TestSuite(settings, .init = open_settings, .fini = close_fakes);

static void refuse(const char *name, tn_value v, const char *text)
{
    cr_expect_eq(tn_device_set_setting(ctx, id, name, v), TN_E_ARGUMENT, "%s", text);
    expect_last(TN_E_ARGUMENT, text);
}

static void accept(const char *name, tn_value v)
{
    tn_value got;
    cr_expect_eq(tn_device_set_setting(ctx, id, name, v), TN_OK, "%s", name);
    cr_expect_eq(tn_device_get_setting(ctx, id, name, &got), TN_OK, "%s", name);
    cr_expect_eq(got.tag, v.tag, "%s", name);
    if (v.tag == TN_TAG_STRING)
        cr_expect_str_eq(got.as.string, v.as.string);
    else if (v.tag == TN_TAG_FLOAT)
        cr_expect_eq(got.as.f, v.as.f);
    else
        cr_expect_eq(got.as.i, v.as.i);
}

#define WRONG(name) "device tuned:1: setting '" name "': wrong value "

Test(settings, values_of_every_type)
{
    tn_value got;
    accept("level", tn_value_int(1));
    accept("level", tn_value_int(9));
    refuse("level", tn_value_int(0), WRONG("level") "(got 0, expected an int from 1 to 9)");
    refuse("level", tn_value_int(10), WRONG("level") "(got 10, expected an int from 1 to 9)");
    refuse("level", tn_value_float(2.5), WRONG("level") "(got 2.5, expected an int from 1 to 9)");
    refuse("level", tn_value_string("two"), WRONG("level") "(got 'two', expected an int from 1 to 9)");
    refuse("level", tn_value_none(), WRONG("level") "(got a value of tag 0, expected an int from 1 to 9)");
    accept("share", tn_value_float(0.25));
    accept("share", tn_value_float(0.75));
    refuse("share", tn_value_float(0.1), WRONG("share") "(got 0.1, expected a float from 0.25 to 0.75)");
    refuse("share", tn_value_int(1), WRONG("share") "(got 1, expected a float from 0.25 to 0.75)");
    accept("mode", tn_value_string("fast"));
    accept("mode", tn_value_string("slow"));
    refuse("mode", tn_value_string("fas"), WRONG("mode") "(got 'fas', expected one of slow,fast)");
    refuse("mode", tn_value_string(""), WRONG("mode") "(got '', expected one of slow,fast)");
    refuse("mode", (tn_value){.tag = TN_TAG_STRING}, WRONG("mode") "(got '', expected one of slow,fast)");
    accept("label", tn_value_string("a b"));
    accept("label", tn_value_string(""));
    refuse("label", tn_value_string("a;b"), WRONG("label") "(got 'a;b', expected a text without ';')");
    accept("on", tn_value_bool(1));
    refuse("on", (tn_value){.tag = TN_TAG_BOOL, .as.i = 2}, WRONG("on") "(got 2, expected 0 or 1)");
    refuse("on", tn_value_int(1), WRONG("on") "(got 1, expected 0 or 1)");
    accept("open", tn_value_int(INT64_MIN));
    refuse("open", tn_value_bool(1), WRONG("open") "(got 1, expected an int)");
    accept("part", tn_value_float(-1e300));
    cr_assert_eq(tn_device_set_setting(ctx, id, "part", tn_value_int(3)), TN_OK, "an int serves as a float");
    cr_assert_eq(tn_device_get_setting(ctx, id, "part", &got), TN_OK);
    cr_assert_eq(got.tag, TN_TAG_FLOAT);
    cr_assert_eq(got.as.f, 3);
}

Test(settings, names)
{
    tn_value got = tn_value_int(77);
    tn_setting one = {.size = sizeof one};
    cr_assert_eq(tn_device_get_setting(ctx, id, "levle", &got), TN_E_NOT_FOUND);
    expect_last(TN_E_NOT_FOUND, "device tuned:1: there is no setting 'levle'; did you mean 'level'?");
    cr_assert_eq(tn_device_set_setting(ctx, id, NULL, got), TN_E_NOT_FOUND);
    cr_assert_eq(tn_device_get_setting(ctx, id, NULL, &got), TN_E_NOT_FOUND);
    cr_assert_eq(tn_device_get_setting(ctx, id, "something else", &got), TN_E_NOT_FOUND);
    expect_last(TN_E_NOT_FOUND, "device tuned:1: there is no setting 'something else'");
    cr_assert_eq(got.as.i, 77);
    cr_assert_eq(tn_device_get_setting(ctx, TN_CPU, "level", &got), TN_E_NOT_FOUND,
                 "a plugin without settings");
    cr_assert_eq(tn_device_setting(ctx, TN_CPU, 0, &one), TN_E_INDEX);
    cr_assert_eq(tn_device_setting(ctx, id, 2, &one), TN_OK);
    cr_assert_str_eq(one.choices, allowed);
    cr_assert_neq(one.choices, allowed, "the context keeps a text of its own");
    cr_assert_str_eq(one.default_value.as.string, "slow");
    cr_assert_eq(tn_device_setting(ctx, id, COUNT, &one), TN_E_INDEX);
    tn_device missing = tn_device_parse(ctx, "tuned:7");
    cr_assert_eq(tn_device_setting(ctx, missing, 0, &one), TN_E_DEVICE);
    cr_assert_eq(tn_device_get_setting(ctx, missing, "level", &got), TN_E_DEVICE);
    cr_assert_eq(tn_device_set_setting(ctx, missing, "level", got), TN_E_DEVICE);
    tn_clear_error();
}

Test(settings, plugins_that_describe_wrongly)
{
    static char longer[80];
    const tn_setting right = described[0];
    tn_setting one = {.size = sizeof one};
    tn_value got;
    memset(longer, 'x', sizeof longer - 1);
    const struct {
        const char *name, *meaning;
        uint32_t tag;
    } wrong[] = {{NULL, "how much", TN_TAG_INT},      {"", "how much", TN_TAG_INT},
                 {"a.b", "how much", TN_TAG_INT},     {longer, "how much", TN_TAG_INT},
                 {"level", NULL, TN_TAG_INT},         {"level", "how much", TN_TAG_NONE},
                 {"level", "how much", TN_TAG_TENSOR}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        described[0] = (tn_setting){
            .name = wrong[i].name, .meaning = wrong[i].meaning, .default_value = {.tag = wrong[i].tag}};
        cr_assert_eq(tn_device_setting(ctx, id, 0, &one), TN_E_CONTRACT, "%zu", i);
        expect_last(TN_E_CONTRACT, "plugin fake: settings.describe: setting 0 has no name, meaning or type");
        cr_assert_eq(tn_device_get_setting(ctx, id, "mode", &got), TN_E_CONTRACT);
    }
    described[0] = right;
    describe_status = TN_E_IO;
    cr_assert_eq(tn_device_setting(ctx, id, 0, &one), TN_E_IO);
    describe_status = 0;
    endless = 1;
    cr_assert_eq(tn_device_get_setting(ctx, id, "mode", &got), TN_E_NOT_FOUND, "it ends all the same");
    endless = 0;
    get_status = TN_E_IO;
    cr_assert_eq(tn_device_get_setting(ctx, id, "mode", &got), TN_E_IO);
    get_status = 0;
    set_status = TN_E_IO;
    cr_assert_eq(tn_device_set_setting(ctx, id, "on", tn_value_bool(1)), TN_E_IO);
    set_status = 0;
    values[0] = tn_value_float(1);
    cr_assert_eq(tn_device_get_setting(ctx, id, "level", &got), TN_E_CONTRACT);
    expect_last(TN_E_CONTRACT,
                "plugin fake: settings.get: 'level' has a value of another type than its default");
}

/* ---- The environment --------------------------------------------------------------------------------------- */

/* Opens a device of a new context under TENON_SETTINGS. */
static void expect_settings(const char *wish, const char *error)
{
    setenv("TENON_SETTINGS", wish, 1);
    fake own = {.type = "tuned", .count = 2, .device_class = TN_DEVICE_DISCRETE};
    tni_driver d = driver;
    d.self = &own;
    tn_context *other = fake_context(NULL, NULL);
    cr_assert_eq(tni_device_type_add(other, &d), TN_OK);
    tni_device *opened = tni_device_get(other, tn_device_parse(other, "tuned:1"));
    cr_expect_eq(opened == NULL, error != NULL, "%s", wish);
    if (error) expect_last(tn_last_error()->code, error);
    tn_context_destroy(other);
    cr_expect_eq(own.closed, 1);
    cr_expect_eq(own.live_streams, 0);
    unsetenv("TENON_SETTINGS");
}

Test(settings, of_the_environment)
{
    expect_settings("", NULL);
    expect_settings("tuned.level=3;tuned:1.share=0.5;tuned:0.level=100;other.level=x;;nothing;a=b", NULL);
    cr_expect_eq(values[0].as.i, 3);
    cr_expect_eq(values[1].as.f, 0.5);
    expect_settings("tuned.on=1;tuned.label=a=b;tuned.mode=fast", NULL);
    cr_expect_eq(values[4].as.i, 1);
    cr_expect_str_eq(label, "fast");
    expect_settings("tuned.label=", NULL);
    cr_expect_str_eq(label, "");
    expect_settings("tuned.level=x",
                    "TENON_SETTINGS: " WRONG("level") "(got x, expected an int from 1 to 9)");
    expect_settings("tuned.level=3x",
                    "TENON_SETTINGS: " WRONG("level") "(got 3x, expected an int from 1 to 9)");
    expect_settings("tuned.level=", "TENON_SETTINGS: " WRONG("level") "(got , expected an int from 1 to 9)");
    expect_settings("tuned.share=0.9;tuned.level=4",
                    "TENON_SETTINGS: " WRONG("share") "(got 0.9, expected a float from 0.25 to 0.75)");
    expect_settings("tuned:1.colour=3", "TENON_SETTINGS: device tuned:1: there is no setting 'colour'");
    cr_expect_eq(values[0].as.i, 3);
    described[0].flags = TN_SETTING_READ_ONLY;
    expect_settings("tuned.level=4", "TENON_SETTINGS: device tuned:1: setting 'level' is read-only");
    described[0].flags = 0;
}

/* ---- Devices by their hardware ------------------------------------------------------------------------------ */

static int32_t facts_of_cards(void *self, uint32_t index, tn_device_facts *out)
{
    static const uint8_t uuid[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 1, 2, 3, 4, 5, 6, 7, 8};
    out->device_class = TN_DEVICE_DISCRETE;
    out->memory_kinds = TN_MEMORY_DEVICE;
    out->flops_f32 = 100 - index;
    snprintf(out->name, sizeof out->name, "card %u", index);
    if (index < 2) memcpy(out->uuid, uuid, sizeof uuid);
    if (index == 2) out->uuid[0] = 9;
    if (index != 3)
        snprintf(out->pci_address, sizeof out->pci_address, "0000:0%c:00.0",
                 index < 2 ? 'a' : (char)('0' + index));
    return TN_OK;
}

/* Twin 0 is card 2, by its uuid; twin 1 is card 0, of which it knows the PCI address only. */
static int32_t facts_of_twins(void *self, uint32_t index, tn_device_facts *out)
{
    static const uint8_t uuid[16] = {9};
    out->device_class = TN_DEVICE_DISCRETE;
    out->memory_kinds = TN_MEMORY_DEVICE;
    out->flops_f32 = 10;
    out->features = TN_FEATURE_FLOAT64 | TN_FEATURE_ADDRESSES;
    snprintf(out->name, sizeof out->name, "twin %u", index);
    if (index == 0) memcpy(out->uuid, uuid, sizeof uuid);
    if (index == 1) snprintf(out->pci_address, sizeof out->pci_address, "0000:0A:00.0");
    return TN_OK;
}

static void expect_choice(const char *wish, const char *device, const char *text)
{
    const char *why = NULL;
    tn_device chosen = tn_device_choose(ctx, wish, &why);
    if (device) {
        cr_expect_eq(chosen, tn_device_parse(ctx, device), "%s", wish);
        cr_expect_str_eq(why, text);
        return;
    }
    cr_expect(chosen & TN_DEVICE_MISSING, "%s", wish);
    expect_last(TN_E_DEVICE, text);
}

Test(settings, devices_by_their_hardware)
{
    static fake cards = {.type = "card", .count = 4, .device_class = TN_DEVICE_DISCRETE};
    tni_driver d = fake_driver(&cards);
    d.device.facts = facts_of_cards;
    cr_assert_eq(tni_device_type_add(ctx, &d), TN_OK);
    cards.fail_slot = 1; /* opening */
    cr_assert(tn_device_choose(ctx, "pci:0000:02:00.0", NULL) & TN_DEVICE_MISSING);
    cr_assert_eq(
        strncmp(tn_last_error()->message,
                "device 'pci:0000:02:00.0', asked for by the program, cannot be used: opening a device", 84),
        0, "%s", tn_last_error()->message);
    tn_clear_error();
    const char *const uuid = "uuid:01234567-89AB-cdef-0102-030405060708";
    expect_choice(
        uuid, "card:0",
        "the program asks for uuid:01234567-89AB-cdef-0102-030405060708, which is card:0 (card 0); it is "
        "card:1, too");
    expect_choice("pci:0000:02:00.0", "card:2",
                  "the program asks for pci:0000:02:00.0, which is card:2 (card 2)");
    expect_choice("pci:0000:0A:00.0", "card:0",
                  "the program asks for pci:0000:0A:00.0, which is card:0 (card 0); it is card:1, too");
    expect_choice(
        "pci:1", NULL,
        "device 'pci:1', asked for by the program: none of the 9 devices is it (tenon devices lists them)");
    expect_choice("pci:", NULL,
                  "device 'pci:', asked for by the program: expected an address such as pci:0000:65:00.0");
    expect_choice(
        "uuid:00000000000000000000000000000000", NULL,
        "device 'uuid:00000000000000000000000000000000', asked for by the program: none of the 9 devices is "
        "it (tenon devices lists them)");
    static const char *const bad[] = {"",
                                      "0123",
                                      "g1234567-89ab-cdef-0102-030405060708",
                                      "@1234567-89ab-cdef-0102-030405060708",
                                      "`1234567-89ab-cdef-0102-030405060708",
                                      "/1234567-89ab-cdef-0102-030405060708",
                                      "01234567-89ab-cdef-0102-0304050607089"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char wish[64], text[160];
        snprintf(wish, sizeof wish, "uuid:%s", bad[i]);
        snprintf(text, sizeof text,
                 "device '%s', asked for by the program: expected uuid: and 32 hexadecimal digits", wish);
        expect_choice(wish, NULL, text);
    }
    tn_device id_of[5];
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "card:%d", i);
        id_of[i] = tn_device_parse(ctx, name);
    }
    cr_expect_eq(tn_device_count(ctx, "card"), 4);
    cr_expect_eq(tn_device_count(ctx, NULL), 8, "card:0 and card:1 are one piece of hardware");
    cr_expect_eq(tn_device_at(ctx, 8), id_of[1], "the other device of the hardware comes last");
    cr_expect(tn_device_at(ctx, 9) & TN_DEVICE_MISSING);
    expect_last(TN_E_INDEX, "device_at: argument 'i': there is no such device (got 9, expected 0 to 8)");
    cr_assert(tn_device_is_same(ctx, id_of[0], id_of[1]), "one uuid");
    cr_assert(tn_device_is_same(ctx, id_of[3], id_of[3]));
    cr_assert_not(tn_device_is_same(ctx, id_of[0], id_of[2]));
    cr_assert_not(tn_device_is_same(ctx, id_of[3], id_of[0]), "nothing is known of it");
    cr_assert_not(tn_device_is_same(ctx, id_of[0], id_of[3]));
    cr_assert_not(tn_device_is_same(ctx, id_of[4], id_of[0]), "it is not there");
    cr_assert_not(tn_device_is_same(ctx, id_of[0], id_of[4]));
    tn_clear_error();
}

/* Hardware keeps the place of its fastest device in the order, and is used through the device with most features. */
Test(settings, one_device_for_each_hardware)
{
    static fake cards = {.type = "card", .count = 3, .device_class = TN_DEVICE_DISCRETE};
    static fake twins = {.type = "twin", .count = 3, .device_class = TN_DEVICE_DISCRETE};
    static const char *const order[] = {"twin:1", "twin:0", "twin:2", "card:1", "card:2", "card:0"};
    char name[64];
    tn_device others[9];
    tni_driver c = fake_driver(&cards), t = fake_driver(&twins);
    int32_t before = tn_device_count(ctx, NULL), at = 0;
    c.device.facts = facts_of_cards;
    t.device.facts = facts_of_twins;
    cr_assert_eq(tni_device_type_add(ctx, &c), TN_OK);
    cr_assert_eq(tni_device_type_add(ctx, &t), TN_OK);
    cr_expect_eq(tn_device_count(ctx, NULL), before + 3);
    for (int32_t i = 0; i < before + 6; i++) {
        tn_device d = tn_device_at(ctx, i);
        tn_device_format(ctx, d, name, sizeof name);
        if (strncmp(name, "card", 4) != 0 && strncmp(name, "twin", 4) != 0) continue;
        cr_assert_lt(at, 6);
        cr_expect_str_eq(name, order[at], "place %d", i);
        others[at++] = d;
    }
    cr_assert_eq(at, 6);
    cr_expect(tn_device_is_same(ctx, others[0], others[5]),
              "a uuid here, but none there: the PCI address decides");
    expect_choice("pci:0000:0a:00.0", "twin:1",
                  "the program asks for pci:0000:0a:00.0, which is twin:1 (twin 1); it is card:1, too; it is "
                  "card:0, too");
    expect_choice(
        "uuid:09000000-0000-0000-0000-000000000000", "twin:0",
        "the program asks for uuid:09000000-0000-0000-0000-000000000000, which is twin:0 (twin 0); it "
        "is card:2, too");
    expect_choice("card:2", "card:2", "the program asks for card:2");
}

static int32_t facts_of_a_ghost(void *self, uint32_t index, tn_device_facts *out)
{
    int32_t status = facts_of_cards(self, 0, out);
    out->device_class = TN_DEVICE_VIRTUAL;
    out->features = TN_FEATURE_FLOAT64 | TN_FEATURE_ADDRESSES;
    return status;
}

/* Whatever features it has. */
Test(settings, a_virtual_device_does_not_stand_for_its_hardware)
{
    static fake cards = {.type = "card", .count = 1, .device_class = TN_DEVICE_DISCRETE};
    static fake ghosts = {.type = "ghost", .count = 1, .device_class = TN_DEVICE_VIRTUAL};
    tni_driver c = fake_driver(&cards), g = fake_driver(&ghosts);
    int32_t count = tn_device_count(ctx, NULL);
    c.device.facts = facts_of_cards;
    g.device.facts = facts_of_a_ghost;
    cr_assert_eq(tni_device_type_add(ctx, &g), TN_OK);
    cr_assert_eq(tni_device_type_add(ctx, &c), TN_OK);
    cr_expect_eq(tn_device_count(ctx, NULL), count + 1);
    cr_expect_eq(tn_device_at(ctx, count + 1), tn_device_parse(ctx, "ghost:0"));
    cr_expect_eq(tn_device_choose(ctx, "pci:0000:0a:00.0", NULL), tn_device_parse(ctx, "card:0"));
}
