/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oldest host there is: what it hands to a plugin is exactly as long as in the first release, and ends
 * where readable memory ends, so that a plugin which reads or writes past the size that it was told dies
 * here. Slots that take a call are absent. Loads each plugin named as an argument and uses its device.
 *
 * Sizes of 0.2; what was appended since lies behind them. They are written down, not measured: a host of that
 * release has no other.
 */
#define TN_PLUGIN
#include <tenon/plugin.h>
#include "../plugins/slots.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HOST_BYTES  272u /* to the last slot of 0.2 */
#define TABLE_BYTES 48u
#define FACTS_BYTES 224u
#define OFFER_BYTES 32u

/* `bytes` zeroed bytes that end at a page that can be neither read nor written. */
static void *at_the_edge(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || bytes > page || mprotect(pages + page, page, PROT_NONE)) abort();
    return pages + page - bytes;
}

static int32_t host_error(void *context, int32_t code, const char *message)
{
    fprintf(stderr, "plugin: %s\n", message);
    return code;
}

static void *host_alloc(void *context, uint64_t bytes)
{
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void host_free(void *context, void *memory, uint64_t bytes)
{
    free(memory);
}

static const tn_host *make_host(void)
{
    const tn_host host = {.size = HOST_BYTES,
                          .abi_major = 0,
                          .abi_minor = 2,
                          .error = host_error,
                          .alloc = host_alloc,
                          .free = host_free};
    void *old = at_the_edge(HOST_BYTES);
    memcpy(old, &host, HOST_BYTES);
    return old;
}

static int wrong(const char *path, const char *what)
{
    printf("%s: %s\n", path, what);
    return 1;
}

/* Memory and copies there and back. */
static int use_device(const char *path, const tn_plugin_table *table, void *self,
                      const tn_device_interface *devices)
{
    const tn_memory_interface *memory = table->get_interface(self, "tenon.memory", 1);
    const tn_copy_interface *copy = table->get_interface(self, "tenon.copy", 1);
    const tn_stream_interface *streams = table->get_interface(self, "tenon.stream", 1);
    char there[256] = "from the oldest host", back[256] = "";
    void *device, *stream, *allocation, *host = NULL;
    tn_device_facts *facts = at_the_edge(FACTS_BYTES);
    facts->size = FACTS_BYTES;
    if (devices->facts(self, 0, facts) || facts->size != FACTS_BYTES || !facts->name[0])
        return wrong(path, "facts");
    if (slot_open(devices, self, 0, &device) || slot_stream(streams, self, device, 0, &stream))
        return wrong(path, "open");
    if (slot_alloc(memory, self, device, sizeof(there), facts->memory_kinds & -facts->memory_kinds,
                   &allocation, &host))
        return wrong(path, "alloc");
    if (copy->host_to_device(self, device, allocation, 0, there, NULL, sizeof(there), stream) ||
        copy->device_to_host(self, device, back, NULL, allocation, 0, sizeof(back), stream) ||
        streams->synchronize(self, device, stream) || memcmp(there, back, sizeof(there)))
        return wrong(path, "copies");
    slot_free(memory, self, device, allocation, sizeof(there));
    streams->destroy(self, device, stream);
    devices->close(self, device);
    return 0;
}

static int try_plugin(const char *path)
{
    char reason[64] = "";
    const tn_host_offer offer = {.size = OFFER_BYTES,
                                 .abi_min = 2,
                                 .abi_max = 2,
                                 .reason = reason,
                                 .reason_bytes = sizeof(reason) - 1};
    tn_host_offer *old_offer = at_the_edge(OFFER_BYTES);
    tn_plugin_table *table = at_the_edge(TABLE_BYTES);
    const char *why = NULL;
    uint32_t count = 0;
    void *self = NULL, *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const tn_plugin_info *info = library ? dlsym(library, TN_PLUGIN_SYMBOL) : NULL;
    if (!info) return wrong(path, dlerror());
    memcpy(old_offer, &offer, OFFER_BYTES);
    table->size = TABLE_BYTES;
    if (info->entry(old_offer, table) || table->abi != 2) return wrong(path, reason);
    if (table->init(make_host(), &self)) return wrong(path, "init");
    if (table->get_interface(self, "tenon.device", 2) || table->get_interface(self, "tenon.future", 1))
        return wrong(path, "gives interfaces that it cannot know");
    const tn_device_interface *devices = table->get_interface(self, "tenon.device", 1);
    int status = !devices                                 ? wrong(path, "no device interface")
                 : devices->enumerate(self, &count, &why) ? wrong(path, "enumerate")
                 : count == 0                             ? wrong(path, why ? why : "no device, no reason")
                                                          : use_device(path, table, self, devices);
    if (table->quiesce && table->quiesce(self)) status = wrong(path, "quiesce");
    table->shutdown(self);
    return status;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) failed += try_plugin(argv[i]);
    printf("%d passed, %d failed, 0 skipped\n", argc - 1 - failed, failed);
    return failed != 0;
}
