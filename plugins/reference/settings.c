/* SPDX-License-Identifier: Apache-2.0 */
/* What users may set on a device. The devices of a context share these, but each is lost alone. */
#include "reference.h"

enum { POISON, LAZY, MEMORY, TIMEOUT, LOSE, SEED, COUNT };

static void set_text(tn_setting *s, const char *name, const char *meaning)
{
    s->name = name;
    s->meaning = meaning;
}

/* A whole number, with what it is at first and at least. */
static void set_number(tn_setting *s, int64_t value, int64_t minimum)
{
    s->default_value = tn_value_int(value);
    s->minimum = tn_value_int(minimum);
}

static void describe_one(uint32_t i, tn_setting *s)
{
    switch (i) {
    case POISON:
        set_text(s, "poison", "fresh and freed memory is filled with 0xff");
        s->default_value = tn_value_bool(0);
        break;
    case LAZY:
        set_text(s, "lazy", "milliseconds that work is held unless somebody waits for it");
        set_number(s, 0, 0);
        s->maximum = tn_value_int(REFERENCE_MOST_LAZY);
        break;
    case MEMORY:
        set_text(s, "memory", "bytes of memory that each device has");
        set_number(s, REFERENCE_MEMORY, 0);
        break;
    case TIMEOUT:
        set_text(s, "timeout", "milliseconds that a communicator waits for ranks of other processes");
        set_number(s, REFERENCE_TIMEOUT, 1);
        break;
    case LOSE:
        set_text(s, "lose", "the device is lost for good, as by a fault of its hardware");
        s->default_value = tn_value_bool(0);
        break;
    default:
        set_text(s, "seed", "TENON_REFERENCE_CHAOS, 0 is off");
        s->default_value = tn_value_int(0);
        s->flags = TN_SETTING_READ_ONLY;
    }
}

static int32_t settings_describe(void *self, void *device, uint32_t i, tn_setting *out)
{
    if (i >= COUNT) return TN_E_INDEX;
    describe_one(i, out);
    return TN_OK;
}

static int32_t settings_get(void *self, void *device, uint32_t i, tn_value *out)
{
    const reference_state *state = self;
    switch (i) {
    case POISON:
        *out = tn_value_bool(atomic_load(&state->chaos.poison));
        break;
    case LAZY:
        *out = tn_value_int(atomic_load(&state->chaos.hold_microseconds) / 1000);
        break;
    case MEMORY:
        *out = tn_value_int((int64_t)atomic_load(&state->memory_limit));
        break;
    case TIMEOUT:
        *out = tn_value_int((int64_t)atomic_load(&state->timeout_milliseconds));
        break;
    case LOSE:
        *out = tn_value_bool(atomic_load(&((const reference_device *)device)->lost));
        break;
    default:
        *out = tn_value_int((int64_t)state->chaos.seed);
    }
    return TN_OK;
}

static int32_t settings_set(void *self, void *device, uint32_t i, const tn_value *value)
{
    reference_state *state = self;
    uint64_t number = (uint64_t)value->as.i;
    if (i == POISON) atomic_store(&state->chaos.poison, (int32_t)number);
    if (i == LAZY) atomic_store(&state->chaos.hold_microseconds, (uint32_t)number * 1000);
    if (i == MEMORY) atomic_store(&state->memory_limit, number);
    if (i == TIMEOUT) atomic_store(&state->timeout_milliseconds, number);
    if (i == LOSE && number) reference_lose(device);
    return TN_OK;
}

const tn_settings_interface reference_settings_interface = TN_INTERFACE(
    tn_settings_interface, .describe = settings_describe, .get = settings_get, .set = settings_set);
