/* SPDX-License-Identifier: Apache-2.0 */
/* The null plugin: either no device and a reason, or a device in host memory with all slots and no rows. */
#include "fixture.h"
#include "slots.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(null, no_device_and_a_reason)
{
    fixture f;
    uint32_t count = 7;
    const char *reason = NULL;
    unsetenv("TENON_NULL_DEVICES");
    fixture_load(&f);
    cr_assert_eq(f.device_interface->enumerate(f.self, &count, &reason), TN_OK);
    cr_assert_eq(count, 0);
    cr_assert(strstr(reason, "no hardware"));
    fixture_close(&f);
}

Test(null, info_block)
{
    fixture f;
    fixture_load(&f);
    cr_assert_eq(memcmp(f.info->magic, TN_PLUGIN_MAGIC, 8), 0);
    cr_assert_eq(f.info->size, sizeof(tn_plugin_info));
    cr_assert_str_eq(f.info->name, "null");
    cr_assert_eq(f.info->abi_min, 2);
    cr_assert_eq(f.info->abi_max, 2);
    fixture_close(&f);
}

Test(null, declines_another_generation)
{
    fixture f;
    char reason[64] = "";
    tn_plugin_table table = {.size = sizeof(table)};
    tn_host_offer offer = {sizeof(offer), 7, 9, 0, reason, sizeof(reason), 0};
    fixture_load(&f);
    cr_assert_eq(f.info->entry(&offer, &table), TN_E_VERSION);
    cr_assert_str_eq(reason, "no ABI generation in common");
    fixture_close(&f);
}

/* The interfaces that plugin.h describes, a name at each call; NULL at the end. */
static const char *next_interface(FILE *header)
{
    static char name[64];
    char line[256], *at;
    while (fgets(line, sizeof line, header)) {
        if (!(at = strstr(line, "\"tenon.")) || !strstr(line, "\", version 1.")) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "\""), at + 1);
        if (strcmp(name, "tenon.shim") != 0) return name; /* no device's */
    }
    return NULL;
}

Test(null, every_slot_of_every_interface)
{
    fixture f;
    const char *name;
    int count = 0;
    FILE *header = fopen(getenv("TENON_TEST_HEADER"), "r");
    cr_assert_not_null(header);
    fixture_load(&f);
    for (; (name = next_interface(header)); count++) {
        const char *table = f.table.get_interface(f.self, name, 1);
        uint32_t size;
        cr_assert_not_null(table, "%s", name);
        memcpy(&size, table, sizeof(size));
        for (size_t at = 8; at < size; at += sizeof(void *)) {
            void *slot;
            memcpy(&slot, table + at, sizeof(slot));
            /* Nothing crosses processes, and no rank waits for another. */
            int32_t may_lack =
                !strcmp(name, "tenon.kernels") ||
                (!strcmp(name, "tenon.collectives") && (at == offsetof(tn_collectives_interface, unique_id) ||
                                                        at >= offsetof(tn_collectives_interface, send))) ||
                (!strcmp(name, "tenon.interop") && at >= offsetof(tn_interop_interface, export_memory));
            cr_assert(slot || may_lack, "%s, byte %zu", name, at);
        }
        cr_assert_null(f.table.get_interface(f.self, name, 2));
    }
    fclose(header);
    cr_assert_geq(count, 10);
    cr_assert_null(f.table.get_interface(f.self, "tenon.nothing", 1));
    cr_assert_eq(f.kernels->count, 0);
    cr_assert_eq(f.kernels->row_bytes, sizeof(tn_kernel_row));
    fixture_close(&f);
}

Test(null, memory_is_the_hosts)
{
    const int64_t sizes[] = {3};
    const int32_t data[] = {1, -2, 3};
    int32_t back[3] = {0};
    fixture f;
    setenv("TENON_NULL_DEVICES", "1", 1);
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_INT32, 1, sizes, data);
    cr_assert_not_null(t.desc.host);
    cr_assert_eq((uintptr_t)t.desc.host % 64, 0);
    cr_assert_eq(fixture_read(&f, &t, back), TN_OK);
    cr_assert_arr_eq(back, data, sizeof(data));
    cr_assert_eq(f.memory->fill(f.self, f.device, t.desc.allocation, 4, 4, 0xff, f.stream), TN_OK);
    cr_assert_eq(fixture_read(&f, &t, back), TN_OK);
    cr_assert_eq(back[0], 1);
    cr_assert_eq(back[1], -1);
    cr_assert_eq(back[2], 3);
    fixture_close(&f);
}

Test(null, memory_grows)
{
    fixture f;
    tn_memory memory = {.size = sizeof memory};
    const tn_memory_request request = {.size = sizeof request, .kind = TN_MEMORY_HOST, .bytes = 64ull << 20};
    setenv("TENON_NULL_DEVICES", "1", 1);
    fixture_open(&f);
    cr_assert_eq(f.memory->reserve(f.self, f.device, &request, &memory), TN_OK);
    cr_assert_eq(memory.bytes, request.bytes);
    cr_assert_eq(f.memory->resize(f.self, f.device, memory.allocation, 4ull << 20), TN_OK);
    char *last = (char *)memory.host + (4ull << 20) - 1;
    *last = 7;
    cr_assert_eq(f.memory->resize(f.self, f.device, memory.allocation, 8ull << 20), TN_OK);
    cr_assert_eq(*last, 7);
    f.memory->free(f.self, f.device, &memory);
    fixture_close(&f);
}

Test(null, refuses_a_device_that_is_not_there)
{
    fixture f;
    void *device = NULL;
    setenv("TENON_NULL_DEVICES", "2", 1);
    fixture_load(&f);
    cr_assert_eq(slot_open(f.device_interface, f.self, 2, &device), TN_E_DEVICE);
    cr_assert_null(device);
    cr_assert_str_eq(f.error_message, "null: no device has this index");
    cr_assert_eq(slot_open(f.device_interface, f.self, 1, &device), TN_OK);
    f.device_interface->close(f.self, device);
    fixture_close(&f);
}

Test(null, facts_of_a_shorter_host)
{
    tn_device_facts facts;
    fixture f;
    fixture_load(&f);
    memset(&facts, 0x5a, sizeof(facts));
    facts.size = 8;
    cr_assert_eq(f.device_interface->facts(f.self, 0, &facts), TN_OK);
    cr_assert_eq(facts.size, 8);
    cr_assert_eq(facts.device_class, TN_DEVICE_VIRTUAL);
    cr_assert_eq(facts.memory_kinds, 0x5a5a5a5a);
    fixture_close(&f);
}

/* ---- Graphs and collectives ------------------------------------------------------------------------------ */

static void fill(fixture *f, const fixture_tensor *t, uint32_t value, void *stream)
{
    cr_assert_eq(f->memory->fill(f->self, f->device, t->desc.allocation, 0, t->bytes, value, stream), TN_OK);
}

static const uint8_t *bytes_of(const fixture_tensor *t)
{
    return t->desc.host;
}

Test(null, a_graph_runs_when_it_is_launched)
{
    const int64_t sizes[] = {4};
    void *graph, *executable;
    fixture f;
    setenv("TENON_NULL_DEVICES", "1", 1);
    fixture_open(&f);
    const tn_graph_interface *g = f.table.get_interface(f.self, "tenon.graph", 1);
    fixture_tensor a = fixture_tensor_make(&f, TN_UINT8, 1, sizes, (uint8_t[]){1, 2, 3, 4});
    fixture_tensor b = fixture_tensor_make(&f, TN_UINT8, 1, sizes, NULL);
    for (int value = 5; value < 7; value++) {
        cr_assert_eq(g->begin(f.self, f.device, f.stream), TN_OK);
        fill(&f, &a, (uint32_t)value, f.stream);
        cr_assert_eq(f.copy->device_to_device(f.self, f.device, b.desc.allocation, 0, a.desc.allocation, 0, 4,
                                              f.stream),
                     TN_OK);
        cr_assert_eq(g->end(f.self, f.device, f.stream, &graph), TN_OK);
        cr_assert_eq(bytes_of(&a)[0], value == 5 ? 1 : 9, "captured, not run");
        if (value == 5) cr_assert_eq(slot_instantiate(g, f.self, f.device, graph, &executable), TN_OK);
        if (value == 6) cr_assert_eq(g->update(f.self, f.device, executable, graph), TN_OK);
        g->destroy(f.self, f.device, graph);
        cr_assert_eq(g->launch(f.self, f.device, executable, f.stream), TN_OK);
        cr_assert_eq(bytes_of(&b)[3], value);
        fill(&f, &a, 9, f.stream); /* the stream runs again */
        cr_assert_eq(bytes_of(&a)[0], 9);
    }
    cr_assert_eq(g->begin(f.self, f.device, f.stream), TN_OK);
    fill(&f, &a, 1, f.stream);
    cr_assert_eq(g->end(f.self, f.device, f.stream, &graph), TN_OK);
    cr_assert_eq(g->update(f.self, f.device, executable, graph), TN_E_UNSUPPORTED);
    g->destroy(f.self, f.device, graph);
    g->destroy_executable(f.self, f.device, executable);
    fixture_close(&f);
}

/* With `waits` the stream that began waits for the one that joined; without, the capture cannot end. */
static int32_t capture_on_two_streams(fixture *f, const fixture_tensor *t, void *other, int waits,
                                      void **out_graph)
{
    const tn_graph_interface *g = f->table.get_interface(f->self, "tenon.graph", 1);
    void *event;
    cr_assert_eq(f->events->create(f->self, f->device, 0, &event), TN_OK);
    cr_assert_eq(g->begin(f->self, f->device, f->stream), TN_OK);
    cr_assert_eq(f->events->record(f->self, f->device, event, f->stream), TN_OK);
    cr_assert_eq(f->streams->wait_event(f->self, f->device, other, event), TN_OK);
    fill(f, t, 7, other);
    cr_assert_eq(f->events->record(f->self, f->device, event, other), TN_OK);
    if (waits) cr_assert_eq(f->streams->wait_event(f->self, f->device, f->stream, event), TN_OK);
    int32_t status = g->end(f->self, f->device, f->stream, out_graph);
    f->events->destroy(f->self, f->device, event);
    return status;
}

Test(null, streams_join_a_capture_and_are_waited_for)
{
    const int64_t sizes[] = {4};
    void *other, *graph = NULL, *executable;
    fixture f;
    setenv("TENON_NULL_DEVICES", "1", 1);
    fixture_open(&f);
    const tn_graph_interface *g = f.table.get_interface(f.self, "tenon.graph", 1);
    fixture_tensor t = fixture_tensor_make(&f, TN_UINT8, 1, sizes, NULL);
    cr_assert_eq(slot_stream(f.streams, f.self, f.device, 0, &other), TN_OK);
    cr_assert_eq(capture_on_two_streams(&f, &t, other, 0, &graph), TN_E_STATE);
    cr_assert_null(graph);
    cr_assert_str_eq(f.error_message, "null: the work of a stream that joined was not waited for");
    cr_assert_eq(capture_on_two_streams(&f, &t, other, 1, &graph), TN_OK);
    cr_assert_eq(bytes_of(&t)[0], 0);
    cr_assert_eq(slot_instantiate(g, f.self, f.device, graph, &executable), TN_OK);
    cr_assert_eq(g->launch(f.self, f.device, executable, other), TN_OK);
    cr_assert_eq(bytes_of(&t)[0], 7);
    fill(&f, &t, 8, other); /* runs again, too */
    cr_assert_eq(bytes_of(&t)[0], 8);
    g->destroy_executable(f.self, f.device, executable);
    g->destroy(f.self, f.device, graph);
    f.streams->destroy(f.self, f.device, other);
    fixture_close(&f);
}

Test(null, collectives_move_bytes)
{
    uint8_t data[2][4] = {{1, 2, 0, 0}, {3, 4, 0, 0}};
    void *devices[2] = {NULL, NULL}, *communicator;
    fixture f;
    setenv("TENON_NULL_DEVICES", "2", 1);
    fixture_load(&f);
    const tn_collectives_interface *c = f.table.get_interface(f.self, "tenon.collectives", 1);
    cr_assert_eq(c->supports(f.self, TN_FLOAT32, TN_REDUCE_SUM), 0);
    for (uint32_t i = 0; i < 2; i++)
        cr_assert_eq(slot_open(f.device_interface, f.self, i, &devices[i]), TN_OK);
    cr_assert_eq(slot_communicator(c, f.self, devices, 2, &communicator), TN_OK);
    /* The host may know more of a rank than this header. */
    struct {
        tn_collective_rank rank;
        char more[16];
    } ranks[2];
    memset(ranks, 0xff, sizeof ranks);
    for (uint32_t i = 0; i < 2; i++) /* the second part of `to` is rank 1's own place */
        ranks[i].rank = (tn_collective_rank){.size = sizeof ranks[i], .from = data[i], .to = data[i]};
    ranks[1].rank.from_offset = 2;
    memcpy(&data[1][2], &data[1][0], 2);
    cr_assert_eq(c->all_gather(f.self, communicator, &ranks[0].rank, sizeof ranks[0], 2), TN_OK);
    for (int i = 0; i < 2; i++) cr_assert_arr_eq(data[i], ((uint8_t[]){1, 2, 3, 4}), 4);
    data[1][2] = 9;
    ranks[0].rank.to_offset = ranks[1].rank.to_offset = 1;
    cr_assert_eq(c->broadcast(f.self, communicator, &ranks[0].rank, sizeof ranks[0], 2, 1), TN_OK);
    cr_assert_arr_eq(data[0], ((uint8_t[]){1, 9, 4, 4}), 4);
    uint8_t parts[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, exchanged[2][4];
    for (uint32_t i = 0; i < 2; i++)
        ranks[i].rank = (tn_collective_rank){.size = sizeof ranks[i], .from = parts[i], .to = exchanged[i]};
    cr_assert_eq(c->all_to_all(f.self, communicator, &ranks[0].rank, sizeof ranks[0], 2), TN_OK);
    cr_assert_arr_eq(exchanged[0], ((uint8_t[]){1, 2, 5, 6}), 4);
    cr_assert_arr_eq(exchanged[1], ((uint8_t[]){3, 4, 7, 8}), 4);
    cr_assert_eq(c->status(f.self, communicator), TN_OK);
    cr_assert_eq(c->barrier(f.self, communicator, &ranks[0].rank, sizeof ranks[0]), TN_OK);
    cr_assert_eq(c->all_reduce(f.self, communicator, &ranks[0].rank, sizeof ranks[0], 1, TN_FLOAT32, 0),
                 TN_E_UNSUPPORTED);
    c->destroy(f.self, communicator);
    for (uint32_t i = 0; i < 2; i++) f.device_interface->close(f.self, devices[i]);
    fixture_close(&f);
}

Test(null, has_a_setting)
{
    tn_setting s = {.size = sizeof s};
    tn_value v;
    fixture f;
    setenv("TENON_NULL_DEVICES", "1", 1);
    fixture_open(&f);
    const tn_settings_interface *i = f.table.get_interface(f.self, "tenon.settings", 1);
    cr_assert_eq(i->describe(f.self, f.device, 0, &s), TN_OK);
    cr_assert_str_eq(s.name, "fresh");
    cr_assert_eq(s.maximum.as.i, 255);
    cr_assert_eq(i->describe(f.self, f.device, 1, &s), TN_E_INDEX);
    v = tn_value_int(7);
    cr_assert_eq(i->set(f.self, f.device, 0, &v), TN_OK);
    v = tn_value_none();
    cr_assert_eq(i->get(f.self, f.device, 0, &v), TN_OK);
    cr_assert_eq(v.as.i, 7);
    const tn_memory_request request = {.size = sizeof request, .kind = TN_MEMORY_UNIFIED, .bytes = 4};
    tn_memory m = {.size = sizeof m};
    cr_assert_eq(f.memory->alloc(f.self, f.device, &request, &m), TN_OK);
    cr_assert_eq(((const uint8_t *)m.host)[3], 7);
    f.memory->free(f.self, f.device, &m);
    fixture_close(&f);
}

Test(null, takes_memory_of_other_libraries)
{
    int32_t type = 0, id = -1;
    char other[16];
    tn_memory m = {.size = sizeof m};
    void *event;
    fixture f;
    setenv("TENON_NULL_DEVICES", "1", 1);
    fixture_open(&f);
    const tn_interop_interface *i = f.table.get_interface(f.self, "tenon.interop", 1);
    cr_assert_eq(i->dlpack_device(f.self, f.device, &type, &id), TN_OK);
    cr_assert(type == 12 && id == 0);
    cr_assert_eq(i->import_pointer(f.self, f.device, other, sizeof other, &m), TN_OK);
    cr_assert_eq(m.allocation, other);
    cr_assert_eq(m.bytes, sizeof other);
    i->release_memory(f.self, f.device, &m);
    cr_assert_eq(f.events->create(f.self, f.device, 0, &event), TN_OK);
    cr_assert_eq(i->wait_native(f.self, f.device, 0, event), TN_OK);
    f.events->destroy(f.self, f.device, event);
    cr_assert_null(i->export_memory);
    fixture_close(&f);
}
