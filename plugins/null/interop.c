/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenon.settings and tenon.interop: without them the devices have no settings, and other libraries and processes
 * cannot use their memory. Memory here is the process's own, so other processes cannot open it: the four slots for them
 * are left out.
 */
#include "null.h"

/* ---- tenon.settings ------------------------------------------------------------------------------------ */

static int32_t describe(void *self, void *device, uint32_t i, tn_setting *out)
{
    if (i > 0) return TN_E_INDEX;
    out->name = "fresh";
    out->meaning = "value of each byte of new memory";
    out->default_value = tn_value_int(0);
    out->minimum = tn_value_int(0);
    out->maximum = tn_value_int(255);
    return TN_OK;
}

static int32_t get(void *self, void *device, uint32_t i, tn_value *out)
{
    *out = tn_value_int(atomic_load(&((null_plugin *)self)->fresh));
    return TN_OK;
}

static int32_t set(void *self, void *device, uint32_t i, const tn_value *value)
{
    atomic_store(&((null_plugin *)self)->fresh, (int32_t)value->as.i);
    return TN_OK;
}

const tn_settings_interface null_settings_interface =
    TN_INTERFACE(tn_settings_interface, .describe = describe, .get = get, .set = set);

/* ---- tenon.interop ------------------------------------------------------------------------------------- */

#define DLPACK_EXTENSION 12

/* Without it: no DLPack. */
static int32_t dlpack_device(void *self, void *device, int32_t *out_type, int32_t *out_id)
{
    const null_plugin *p = self;
    *out_type = DLPACK_EXTENSION;
    *out_id = (int32_t)((const uint32_t *)device - p->devices);
    return TN_OK;
}

/* Without it: the host waits. All work is done here. */
static int32_t wait_native(void *self, void *device, uint64_t native, void *event)
{
    return TN_OK;
}

/* Without it: tensors of other libraries are refused. Every address is memory of the device. */
static int32_t import_pointer(void *self, void *device, void *data, uint64_t bytes, tn_memory *out)
{
    out->kind = TN_MEMORY_UNIFIED;
    out->allocation = data;
    out->host = data;
    out->address = (uint64_t)(uintptr_t)data;
    out->bytes = bytes;
    return TN_OK;
}

static void release_memory(void *self, void *device, const tn_memory *memory) {}

const tn_interop_interface null_interop_interface =
    TN_INTERFACE(tn_interop_interface, .dlpack_device = dlpack_device, .wait_native = wait_native,
                 .import_pointer = import_pointer, .release_memory = release_memory);
