/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenon-probe PLUGIN: loads one plugin as the library would, with a host that offers memory and errors only,
 * and reports each step on descriptor 3. If the plugin crashes or hangs, this process does, and not the
 * program. dispatcher/plugin/probe.h has the protocol. Links nothing of Tenon.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <tenon/plugin.h>
#include <unistd.h>

#define REPORT_FD    3
#define MAX_INTERNED 256u

static char last_error[512];

/* One line of the report. Newlines in the text would end it early. */
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    for (char *c = line; *c; c++) {
        if (*c == '\n' || *c == '\r') *c = ' ';
    }
    size_t length = strlen(line);
    line[length] = '\n';
    if (write(REPORT_FD, line, length + 1) < 0) _exit(4);
}

static int fail(const char *what, int32_t status)
{
    if (last_error[0])
        say("fail %s: %s", what, last_error);
    else
        say("fail %s: status %d", what, (int)status);
    return 1;
}

/* ---- A small host ------------------------------------------------------------------------------------- */

static int32_t host_error(void *context, int32_t code, const char *message)
{
    (void)context;
    snprintf(last_error, sizeof(last_error), "%s", message ? message : "");
    return code;
}

static int32_t host_error_native(void *context, int32_t code, const char *message, int32_t native_code,
                                 const char *native_text)
{
    (void)context;
    snprintf(last_error, sizeof(last_error), "%s (%d: %s)", message ? message : "", (int)native_code,
             native_text ? native_text : "");
    return code;
}

static void host_log(void *context, int32_t level, const char *text)
{
    (void)context, (void)level, (void)text;
}

static char interned[MAX_INTERNED][64] = {"", "cpu", "meta", "strided"};

static uint32_t host_intern(void *context, const char *text)
{
    (void)context;
    for (uint32_t i = 1; text && i < MAX_INTERNED; i++) {
        if (!interned[i][0]) snprintf(interned[i], sizeof(interned[i]), "%s", text);
        if (strncmp(interned[i], text, sizeof(interned[i]) - 1) == 0) return i;
    }
    return 0;
}

static const char *host_interned(void *context, uint32_t id)
{
    (void)context;
    return id > 0 && id < MAX_INTERNED && interned[id][0] ? interned[id] : NULL;
}

static void *host_alloc(void *context, uint64_t bytes)
{
    (void)context;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void host_free(void *context, void *memory, uint64_t bytes)
{
    (void)context, (void)bytes;
    free(memory);
}

static int32_t host_register_operator(void *context, const tn_operator_def *def)
{
    (void)context;
    return def && def->schema ? TN_OK : TN_E_ARGUMENT;
}

static int32_t host_register_kernels(void *context, const char *device_type, void *self,
                                     const tn_kernel_row *rows, uint32_t count, uint32_t row_bytes)
{
    (void)context, (void)self, (void)row_bytes;
    return device_type && (rows || count == 0) ? TN_OK : TN_E_ARGUMENT;
}

static uint32_t host_find_operator(void *context, const char *name)
{
    (void)context;
    return name && name[0] ? 1 : 0;
}

/* Slots that take a call or a scope are absent: a plugin has neither while it is loaded. */
static const tn_host host = {
    .size = sizeof(tn_host),
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
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
};

/* ---- The steps --------------------------------------------------------------------------------------- */

static int count_devices(const tn_plugin_table *table, void *self)
{
    uint32_t count = 0;
    const char *reason = NULL;
    const tn_device_interface *device = table->get_interface(self, "tenon.device", 1);
    if (!device) return 0;
    if (device->size < offsetof(tn_device_interface, enumerate) + sizeof(device->enumerate) ||
        !device->enumerate) {
        say("fail interface 'tenon.device' lacks the slot 'enumerate'");
        return 1;
    }
    say("stage while counting its devices");
    int32_t status = device->enumerate(self, &count, &reason);
    return status == TN_OK ? 0 : fail("enumerate", status);
}

static int negotiate(const tn_plugin_info *info, tn_plugin_table *table)
{
    char why[256] = "";
    tn_host_offer offer = {.size = sizeof(offer),
                           .abi_min = TN_ABI_GENERATION,
                           .abi_max = TN_ABI_GENERATION,
                           .reason = why,
                           .reason_bytes = sizeof(why) - 1};
    int32_t status = info->entry(&offer, table);
    if (status == TN_OK && table->abi == TN_ABI_GENERATION && table->init && table->get_interface &&
        table->shutdown)
        return 0;
    why[sizeof(why) - 1] = 0;
    say("fail entry: %s (status %d, ABI generation %u)",
        why[0] ? why : "declined or left its table incomplete", (int)status, (unsigned)table->abi);
    return 1;
}

static int probe(const char *path)
{
    tn_plugin_table table = {.size = sizeof(table)};
    void *self = NULL;
    say("stage while loading");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        say("fail cannot load: %s", dlerror());
        return 1;
    }
    const tn_plugin_info *info = dlsym(library, TN_PLUGIN_SYMBOL);
    if (!info || !info->entry) {
        say("fail no symbol '" TN_PLUGIN_SYMBOL "', or no entry in it");
        return 1;
    }
    say("stage in entry");
    if (negotiate(info, &table) != 0) return 1;
    say("stage in init");
    int32_t status = table.init(&host, &self);
    if (status != TN_OK) return fail("init", status);
    say("stage in get_interface");
    int result = count_devices(&table, self);
    say("stage in shutdown");
    table.shutdown(self);
    if (result == 0) say("ok");
    return result;
}

int main(int argc, char **argv)
{
    const struct rlimit none = {0, 0};
    if (argc != 2 || argv[1][0] != '/') {
        fputs("usage: tenon-probe PLUGIN\nLoads a plugin to see whether it can be loaded; reports on "
              "descriptor 3. "
              "PLUGIN is an absolute path.\n",
              stderr);
        return 2;
    }
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the program may end first */
    /* Without destructors of the plugin: they would run in a program only at its end, so they are not
     * probed. */
    _exit(probe(argv[1]));
}
