/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's part of the host table: what plugins and out-of-tree operators call for errors, logging,
 * interning, memory and scopes. The dispatcher adds the slots that take a call or an operator.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "core/context.h"
#include "core/error.h"
#include "core/finding.h"

/* A status that a plugin may name. */
static int32_t status_of(int32_t status)
{
    return status > TN_OK && status < TN_STATUS_COUNT ? status : TN_E_CONTRACT;
}

static int32_t host_error(void *context, int32_t status, const char *message)
{
    status = status_of(status);
    return tni_error(status, "%s", message && *message ? message : tn_status_text(status));
}

static int32_t host_error_native(void *context, int32_t status, const char *message, int32_t native_code,
                                 const char *native_text)
{
    status = host_error(context, status, message);
    tni_error_native(native_code, native_text);
    return status;
}

static void host_log(void *context, int32_t level, const char *text)
{
    tni_log(context, level, "%s", text ? text : "");
}

static uint32_t host_intern(void *context, const char *text)
{
    return tn_intern(context, text);
}

static const char *host_interned(void *context, uint32_t id)
{
    return tn_interned(context, id);
}

static void *host_alloc(void *context, uint64_t bytes)
{
    return tni_alloc(context, bytes);
}

static void host_free(void *context, void *memory, uint64_t bytes)
{
    tni_free(context, memory, bytes);
}

static int32_t host_report(void *context, const tn_finding *finding)
{
    return tni_report(context, finding);
}

/* Scope functions for plugins: a kernel has no scope, and then NULL comes. */
int32_t tni_no_scope(const char *what)
{
    return tni_error(TN_E_CONTRACT, "%s: no scope (only composites and gradients have one)", what);
}

static int32_t host_scope_failed(const tn_scope *s)
{
    return s ? tn_scope_failed(s) : tni_no_scope("scope_failed");
}

static int32_t host_scope_fail(tn_scope *s, int32_t status, const char *message)
{
    return s ? tn_scope_fail(s, status_of(status), message ? message : "") : tni_no_scope("scope_fail");
}

static void *host_scope_memory(tn_scope *s, uint64_t bytes)
{
    if (s) return tn_scope_memory(s, bytes);
    tni_no_scope("scope_memory");
    return NULL;
}

static void host_drop(tn_scope *s, tn_tensor *t)
{
    if (s) tn_drop(s, t);
}

/* Makes `path` and the folders above it, from position `at` on. 0: errno says why not. */
static int32_t make_folders(char *path, size_t at)
{
    for (char *c = path + at;; c++) {
        if (*c != '/' && *c) continue;
        char end = *c;
        *c = 0;
        if (mkdir(path, 0700) && errno != EEXIST) return 0;
        *c = end;
        if (!end) return 1;
    }
}

/* The cache folder of an environment with set-id bits is somebody else's. */
static int32_t host_cache_folder(void *context, const char *name, char *out, uint32_t out_bytes)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    char path[4096];
    struct stat found;
    if (!name || !name[0] || strchr(name, '/') || name[0] == '.')
        return tni_error(TN_E_ARGUMENT, "cache_folder: '%s' is not a name of a folder", name ? name : "");
    if (!(cache && cache[0] == '/') && !(home && home[0] == '/'))
        return tni_error(TN_E_IO, "cache_folder: neither XDG_CACHE_HOME nor HOME is set");
    int n = cache && cache[0] == '/' ? snprintf(path, sizeof path, "%s/tenon/plugins/%s", cache, name)
                                     : snprintf(path, sizeof path, "%s/.cache/tenon/plugins/%s", home, name);
    if (n < 0 || (size_t)n >= sizeof path || (uint32_t)n >= out_bytes)
        return tni_error(TN_E_IO, "cache_folder: the path has %d bytes (room for %u)", n, out_bytes);
    if (!make_folders(path, 1))
        return tni_error(TN_E_IO, "cache_folder: cannot make %s: %s", path, strerror(errno));
    if (stat(path, &found) || !S_ISDIR(found.st_mode))
        return tni_error(TN_E_IO, "cache_folder: %s is not a folder", path);
    memcpy(out, path, (size_t)n + 1);
    return TN_OK;
}

static tn_dtype host_intern_dtype(void *context, const char *name, uint32_t bits)
{
    return tn_dtype_intern(context, name, bits);
}

void tni_host_init(tn_context *ctx)
{
    ctx->host = (tn_host)TN_INTERFACE(
        tn_host, .abi_major = TN_ABI_MAJOR, .abi_minor = TN_ABI_MINOR, .context = ctx, .error = host_error,
        .error_native = host_error_native, .log = host_log, .intern = host_intern, .interned = host_interned,
        .alloc = host_alloc, .free = host_free, .scope_failed = host_scope_failed,
        .scope_fail = host_scope_fail, .scope_memory = host_scope_memory, .drop = host_drop,
        .report = host_report, .cache_folder = host_cache_folder, .intern_dtype = host_intern_dtype);
}
