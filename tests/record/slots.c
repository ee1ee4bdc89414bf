/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host in miniature that calls what the library does not call of a plugin, behind the shim `record`:
 *
 *     record_slots SHIM.so PLUGIN.so FILE
 *
 * Two parts of the plugin's own allocator are added up by a kernel, the sum goes to the other device, is
 * changed there through a mapping, and comes back. Prints the numbers that came back.
 */
#define TN_PLUGIN
#include <tenon/plugin.h>
#include "../plugins/slots.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N     16
#define BYTES ((uint64_t)N * sizeof(float))

static void check(int32_t status, const char *what)
{
    if (status == TN_OK) return;
    fprintf(stderr, "%s: status %d\n", what, status);
    exit(1);
}

#define CHECK(call) check(call, #call)

/* ---- The host ---------------------------------------------------------------------------------------- */

static int32_t host_error(void *context, int32_t code, const char *message)
{
    fprintf(stderr, "%s\n", message);
    return code;
}

static uint32_t host_intern(void *context, const char *text)
{
    return 4;
}

static const tn_host host = {.size = sizeof(tn_host), .error = host_error, .intern = host_intern};

static const tn_plugin_info *load(const char *path, tn_plugin_table *table)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const tn_plugin_info *info = library ? dlsym(library, TN_PLUGIN_SYMBOL) : NULL;
    const tn_host_offer offer = {
        .size = sizeof(offer), .abi_min = TN_ABI_GENERATION, .abi_max = TN_ABI_GENERATION};
    *table = (tn_plugin_table){.size = sizeof(*table)};
    if (!info) fprintf(stderr, "%s\n", dlerror());
    check(info ? info->entry(&offer, table) : TN_E_IO, path);
    return info;
}

static int32_t open_plugin(void *next, const tn_host *given, void **out_self, tn_plugin_table *out)
{
    *out = *(const tn_plugin_table *)next;
    return out->init(given, out_self);
}

/* ---- What is called ---------------------------------------------------------------------------------- */

static tn_plugin_table table;
static void *self, *device[2], *stream[2];
static const tn_memory_interface *memory;
static const tn_copy_interface *copy;
static const tn_stream_interface *streams;

static const void *interface(const char *name)
{
    const void *found = table.get_interface(self, name, 1);
    check(found ? TN_OK : TN_E_NOT_FOUND, name);
    return found;
}

typedef tn_memory part;

static part allocate(const tn_allocator_interface *a, float first)
{
    float numbers[N];
    const tn_memory_request request = {
        .size = sizeof(request), .kind = TN_MEMORY_DEVICE, .bytes = BYTES, .stream = stream[0]};
    part p = {.size = sizeof(p)};
    for (int i = 0; i < N; i++) numbers[i] = first + (float)i;
    CHECK(a->alloc(self, device[0], &request, &p));
    CHECK(copy->host_to_device(self, device[0], p.allocation, p.offset, numbers, NULL, BYTES, stream[0]));
    return p;
}

static tn_tensor_desc describe(const part *p)
{
    static const int64_t sizes[] = {N}, strides[] = {1};
    return (tn_tensor_desc){.size = sizeof(tn_tensor_desc),
                            .dtype = TN_FLOAT32,
                            .layout = TN_INTERNED_STRIDED,
                            .rank = 1,
                            .device = TN_DEVICE(4, 0),
                            .allocation = p->allocation,
                            .byte_offset = p->offset,
                            .sizes = sizes,
                            .strides = strides};
}

/* parts[0] = parts[1] + parts[2] by the plugin's first row. */
static void add(const part *parts)
{
    static const int64_t sizes[] = {N}, steps[] = {sizeof(float)};
    const tn_kernels_interface *kernels = interface("tenon.kernels");
    tn_tensor_desc d[3];
    tn_operand operands[3];
    for (int i = 0; i < 3; i++) {
        d[i] = describe(&parts[i]);
        operands[i] = (tn_operand){.size = sizeof(tn_operand),
                                   .flags = i == 0 ? TN_OPERAND_OUTPUT : 0,
                                   .dtype = TN_FLOAT32,
                                   .byte_offset = parts[i].offset,
                                   .allocation = parts[i].allocation,
                                   .strides = steps};
    }
    const tn_nest nest = {.size = sizeof(nest),
                          .rank = 1,
                          .kept = 1,
                          .n_outputs = 1,
                          .n_operands = 3,
                          .operand_bytes = sizeof(tn_operand),
                          .numel = N,
                          .sizes = sizes,
                          .operands = operands};
    const tn_value args[] = {tn_value_tensor((tn_tensor *)(void *)&d[1]),
                             tn_value_tensor((tn_tensor *)(void *)&d[2]), tn_value_float(1)};
    tn_value out = tn_value_tensor((tn_tensor *)(void *)&d[0]);
    const tn_call call = {.size = sizeof(call),
                          .n_args = 3,
                          .n_outs = 1,
                          .args = args,
                          .outs = &out,
                          .nest = &nest,
                          .data = kernels->rows[0].data,
                          .device = device[0],
                          .stream = stream[0],
                          .host = &host};
    CHECK(kernels->rows[0].run(self, &call));
}

static void count_call(void *user)
{
    ++*(int *)user;
}

static void use(void)
{
    const tn_allocator_interface *a = interface("tenon.allocator");
    static _Alignas(4096) char pages[4096];
    float numbers[N] = {0}, *view = NULL;
    tn_memory pin = {.size = sizeof(pin)};
    void *other = NULL, *address = NULL;
    int called = 0;
    part parts[3];
    for (int i = 0; i < 3; i++) parts[i] = allocate(a, (float)(10 * i));
    add(parts);
    CHECK(slot_alloc(memory, self, device[1], 4096, TN_MEMORY_DEVICE, &other, &address));
    CHECK(memory->fill(self, device[1], other, 0, 4096, 0, stream[1]));
    CHECK(copy->peer(self, device[1], other, 256, device[0], parts[0].allocation, parts[0].offset, BYTES,
                     stream[1]));
    CHECK(streams->synchronize(self, device[1], stream[1]));
    CHECK(
        memory->map(self, device[1], other, 256, BYTES, TN_MAP_READ | TN_MAP_WRITE, (void **)(void *)&view));
    for (int i = 0; i < N; i++) view[i] *= 2;
    CHECK(memory->unmap(self, device[1], other, view));
    CHECK(memory->pin(self, device[1], pages, sizeof(pages), &pin));
    CHECK(copy->device_to_host(self, device[1], numbers, NULL, other, 256, BYTES, stream[1]));
    CHECK(streams->host_callback(self, device[1], stream[1], count_call, &called));
    CHECK(streams->synchronize(self, device[1], stream[1]));
    memory->unpin(self, device[1], &pin);
    CHECK(memory->pin(self, device[1], pages, sizeof(pages), &pin));
    memory->unpin(self, device[1], &pin);
    CHECK(memory->trim(self, device[1]));
    for (int i = 0; i < N; i++) printf("%g ", (double)numbers[i]);
    printf("%d\n", called);
    for (int i = 0; i < 3; i++) a->free(self, device[0], &parts[i], stream[0]);
    slot_free(memory, self, device[1], other, 4096);
}

int main(int count, char **words)
{
    tn_plugin_table shim_table, plugin_table;
    void *shim_self = NULL;
    if (count != 4) return 2;
    load(words[1], &shim_table);
    CHECK(shim_table.init(&host, &shim_self));
    const tn_shim_interface *shim = shim_table.get_interface(shim_self, "tenon.shim", 1);
    CHECK(shim->configure(shim_self, words[3]));
    const tn_shim_target target = {.size = sizeof(target),
                                   .info = load(words[2], &plugin_table),
                                   .next = &plugin_table,
                                   .open = open_plugin};
    table = (tn_plugin_table){.size = sizeof(table)};
    CHECK(shim->wrap(shim_self, &host, &target, &self, &table));
    const tn_device_interface *devices = interface("tenon.device");
    memory = interface("tenon.memory");
    copy = interface("tenon.copy");
    streams = interface("tenon.stream");
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(slot_open(devices, self, i, &device[i]));
        CHECK(slot_stream(streams, self, device[i], 0, &stream[i]));
    }
    use();
    for (uint32_t i = 0; i < 2; i++) {
        streams->destroy(self, device[i], stream[i]);
        devices->close(self, device[i]);
    }
    table.shutdown(self);
    shim_table.shutdown(shim_self);
    return 0;
}
