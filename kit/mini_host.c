/* SPDX-License-Identifier: Apache-2.0 */
/* A host in miniature; see mini_host.h. */
#define TN_PLUGIN
#include "mini_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local char mini_host_error[MINI_HOST_TEXT];

static int32_t host_error(void *context, int32_t status, const char *message)
{
    snprintf(mini_host_error, sizeof(mini_host_error), "%s", message ? message : "");
    return status;
}

static int32_t host_error_native(void *context, int32_t status, const char *message, int32_t native_code,
                                 const char *native_text)
{
    snprintf(mini_host_error, sizeof(mini_host_error), "%s (%d: %s)", message ? message : "", native_code,
             native_text ? native_text : "");
    return status;
}

static void host_log(void *context, int32_t level, const char *text) {}

static uint32_t host_intern(void *context, const char *text)
{
    mini_host *h = context;
    for (uint32_t i = 1; text && i < MINI_HOST_NAMES; i++) {
        if (!h->names[i][0]) snprintf(h->names[i], sizeof(h->names[i]), "%s", text);
        if (!strncmp(h->names[i], text, sizeof(h->names[i]) - 1)) return i;
    }
    return 0;
}

static const char *host_interned(void *context, uint32_t id)
{
    const mini_host *h = context;
    return id && id < MINI_HOST_NAMES && h->names[id][0] ? h->names[id] : NULL;
}

static void *host_alloc(void *context, uint64_t bytes)
{
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void host_free(void *context, void *memory, uint64_t bytes)
{
    free(memory);
}

/* Operators and kernels that init registers are never called. */
static int32_t host_register_operator(void *context, const tn_operator_def *def)
{
    return def && def->schema ? TN_OK : TN_E_ARGUMENT;
}

static int32_t host_register_kernels(void *context, const char *device_type, void *self,
                                     const tn_kernel_row *rows, uint32_t count, uint32_t row_bytes)
{
    return device_type && (rows || !count) ? TN_OK : TN_E_ARGUMENT;
}

static uint32_t host_find_operator(void *context, const char *name)
{
    return name && name[0] ? 1 : 0;
}

static int32_t host_unregister_kernels(void *context, const char *device_type, const tn_kernel_row *rows)
{
    return TN_OK;
}

static int32_t host_cache_folder(void *context, const char *name, char *out, uint32_t out_bytes)
{
    return TN_E_IO;
}

static tn_dtype host_intern_dtype(void *context, const char *name, uint32_t bits)
{
    return TN_DTYPE(TN_CODE_VENDOR, bits);
}

static int32_t host_report(void *context, const tn_finding *finding)
{
    return TN_OK;
}

void mini_host_init(mini_host *h)
{
    mini_host_error[0] = 0;
    /* The names whose numbers the header fixes come first. */
    *h = (mini_host){.names = {"", "cpu", "meta", "strided"},
                     .host = {.size = sizeof(tn_host),
                              .abi_major = TN_ABI_MAJOR,
                              .abi_minor = TN_ABI_MINOR,
                              .context = h,
                              .error = host_error,
                              .error_native = host_error_native,
                              .log = host_log,
                              .intern = host_intern,
                              .interned = host_interned,
                              .alloc = host_alloc,
                              .free = host_free,
                              .register_operator = host_register_operator,
                              .register_kernels = host_register_kernels,
                              .find_operator = host_find_operator,
                              .report = host_report,
                              .unregister_kernels = host_unregister_kernels,
                              .cache_folder = host_cache_folder,
                              .intern_dtype = host_intern_dtype}};
}

int32_t mini_host_negotiate(const tn_plugin_info *info, tn_plugin_table *out, char *why, uint32_t bytes)
{
    tn_host_offer offer = {.size = sizeof(offer),
                           .abi_min = TN_ABI_GENERATION,
                           .abi_max = TN_ABI_GENERATION,
                           .reason = why,
                           .reason_bytes = bytes - 1};
    *out = (tn_plugin_table){.size = sizeof(*out)};
    memset(why, 0, bytes);
    int32_t status = info->entry(&offer, out);
    if (!status && out->abi == TN_ABI_GENERATION && out->init && out->get_interface && out->shutdown)
        return TN_OK;
    why[bytes - 1] = 0;
    if (!why[0]) snprintf(why, bytes, "declined or left its table incomplete");
    return status ? status : TN_E_CONTRACT;
}
