/* SPDX-License-Identifier: Apache-2.0 */
/* The list of reserved names; see reserved.h. */
#include "dispatcher/plugin/reserved.h"

#include <string.h>

typedef struct reserved {
    const char *name;
    const char *why;
    int32_t own; /* Tenon's plugins may use it */
} reserved;

static const reserved names[] = {
    {"cpu", "it is Tenon's own device for the processor", 1},
    {"cuda", "it is Tenon's own device for NVIDIA's processors", 1},
    {"hip", "it is Tenon's own device for AMD's processors", 1},
    {"xpu", "it is Tenon's own device for Intel's processors", 1},
    {"vulkan", "it is Tenon's own device for Vulkan", 1},
    {"reference", "it is Tenon's own device for tests", 1},
    {"null", "it is Tenon's own device without arithmetic", 1},
    {"meta", "it is the host's own device for shapes without data", 0},
    {"best", "it means the device that Tenon chooses", 0},
    {"measured", "it means the device that is fastest by measurement", 0},
};

static const reserved *find(const char *name)
{
    for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i].name, name) == 0) return &names[i];
    return NULL;
}

const char *tn_inspect_reserved_name(const char *device_type)
{
    const reserved *r = find(device_type);
    return r ? r->why : NULL;
}

int32_t tni_reserved_check(const char *device_type, const char *vendor, tni_reason *reason)
{
    const reserved *r = find(device_type);
    if (!r || (r->own && strcmp(vendor, "Tenon") == 0)) return TN_OK;
    return tni_reason_set(
        reason, TN_E_EXISTS,
        "the device type '%s' is reserved: %s; a plugin of vendor '%s' must choose another name", device_type,
        r->why, vendor);
}
