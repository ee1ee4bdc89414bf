/* SPDX-License-Identifier: Apache-2.0 */
/* What users may set on the CPU. */
#include "device.h"

#include <string.h>

enum { LEVEL, HUGE_PAGES, COUNT };

static const char *const levels[] = {"base", "avx2", "avx512"};

static int32_t describe(void *self, void *device, uint32_t i, tn_setting *out)
{
    if (i >= COUNT) return TN_E_INDEX;
    if (i == LEVEL) {
        out->name = "level";
        out->meaning = "instruction set of the kernels (TENON_CPU_LEVEL)";
        out->choices = "base,avx2,avx512";
        out->default_value = tn_value_string(levels[((const cpu_state *)self)->level]);
        out->flags = TN_SETTING_READ_ONLY;
    } else {
        out->name = "huge_pages";
        out->meaning = "whether large allocations ask the kernel for huge pages";
        out->choices = "advise,never";
        out->default_value = tn_value_string("advise");
    }
    return TN_OK;
}

static int32_t get(void *self, void *device, uint32_t i, tn_value *out)
{
    const cpu_state *state = self;
    *out = tn_value_string(i == LEVEL                           ? levels[state->level]
                           : atomic_load(&state->no_huge_pages) ? "never"
                                                                : "advise");
    return TN_OK;
}

static int32_t set(void *self, void *device, uint32_t i, const tn_value *value)
{
    cpu_state *state = self;
    atomic_store(&state->no_huge_pages, strcmp(value->as.string, "never") == 0);
    return TN_OK;
}

const tn_settings_interface cpu_settings_interface =
    TN_INTERFACE(tn_settings_interface, .describe = describe, .get = get, .set = set);
