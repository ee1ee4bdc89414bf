/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenon-probe PLUGIN: loads one plugin as the library would, with a host in miniature, and reports each step on
 * descriptor 3. If the plugin crashes or hangs, this process ends and the program goes on.
 * dispatcher/plugin/probe.h has the protocol. Links nothing of Tenon.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include "mini_host.h"

#define REPORT_FD 3

static mini_host host;

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
    if (mini_host_error[0])
        say("fail %s: %s", what, mini_host_error);
    else
        say("fail %s: status %d", what, (int)status);
    return 1;
}

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
    char why[256];
    int32_t status = mini_host_negotiate(info, table, why, sizeof(why));
    if (!status) return 0;
    say("fail entry: %s (status %d, ABI generation %u)", why, (int)status, (unsigned)table->abi);
    return 1;
}

static int probe(const char *path)
{
    tn_plugin_table table;
    void *self = NULL;
    mini_host_init(&host);
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
    int32_t status = table.init(&host.host, &self);
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
