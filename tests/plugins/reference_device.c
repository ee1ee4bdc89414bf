/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference plugin as a device: memory that faults, work that is really queued, events, late errors,
 * several devices.
 */
#include "fixture.h"
#include "slots.h"
#include "../core/gate.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const int64_t four[] = {4};

Test(reference_device, facts)
{
    fixture f;
    tn_device_facts facts = {.size = sizeof(facts)};
    uint32_t count = 0;
    const char *reason = "";
    fixture_load(&f);
    cr_assert_eq(f.device_interface->enumerate(f.self, &count, &reason), TN_OK);
    cr_assert_eq(count, 1);
    cr_assert_eq(f.device_interface->facts(f.self, 0, &facts), TN_OK);
    cr_assert_str_eq(f.device_interface->type, "reference");
    cr_assert_eq(facts.device_class, TN_DEVICE_VIRTUAL);
    cr_assert_eq(facts.memory_kinds, TN_MEMORY_DEVICE);
    fixture_close(&f);
}

Test(reference_device, bytes_come_back)
{
    const float data[] = {1, 2, 3, 4};
    float back[4] = {0};
    fixture f;
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, four, data);
    cr_assert_null(t.desc.host);
    cr_assert_not_null(t.desc.allocation);
    cr_assert_eq(fixture_read(&f, &t, back), TN_OK);
    cr_assert_arr_eq(back, data, sizeof(data));
    cr_assert_eq(f.memory->fill(f.self, f.device, t.desc.allocation, 4, 8, 0, f.stream), TN_OK);
    cr_assert_eq(fixture_read(&f, &t, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){1, 0, 0, 4}), 16);
    fixture_close(&f);
}

/* A sanitizer's handler would end the process in its own way. */
Test(reference_device, reading_the_handle_faults, .signal = SIGSEGV)
{
    fixture f;
    signal(SIGSEGV, SIG_DFL);
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, four, NULL);
    cr_assert_eq(*(volatile char *)t.desc.allocation, 0);
}

Test(reference_device, ranges_are_checked)
{
    char bytes[64] = {0};
    fixture f;
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, four, NULL);
    cr_assert_eq(f.copy->host_to_device(f.self, f.device, t.desc.allocation, 12, bytes, NULL, 5, f.stream),
                 TN_E_CONTRACT);
    cr_assert(strstr(f.error_message, "outside an allocation of 16 bytes"), "%s", f.error_message);
    cr_assert_eq(f.copy->host_to_device(f.self, f.device, bytes, 0, bytes, NULL, 4, f.stream), TN_E_CONTRACT);
    cr_assert(strstr(f.error_message, "is not an allocation of device 0"), "%s", f.error_message);
    fixture_close(&f);
}

Test(reference_device, memory_has_a_limit)
{
    fixture f;
    void *allocation = NULL, *host = NULL, *second = NULL;
    uint64_t free_bytes = 0, total = 0;
    setenv("TENON_REFERENCE_MEMORY", "10000", 1);
    fixture_open(&f);
    cr_assert_eq(slot_alloc(f.memory, f.self, f.device, 6000, TN_MEMORY_DEVICE, &allocation, &host), TN_OK);
    cr_assert_eq(f.memory->info(f.self, f.device, &free_bytes, &total), TN_OK);
    cr_assert_eq(free_bytes, 4000);
    cr_assert_eq(total, 10000);
    cr_assert_eq(slot_alloc(f.memory, f.self, f.device, 6000, TN_MEMORY_DEVICE, &second, &host),
                 TN_E_OUT_OF_MEMORY);
    cr_assert_null(second);
    slot_free(f.memory, f.self, f.device, allocation, 6000);
    cr_assert_eq(slot_alloc(f.memory, f.self, f.device, 10000, TN_MEMORY_DEVICE, &second, &host), TN_OK);
    slot_free(f.memory, f.self, f.device, second, 10000);
    fixture_close(&f);
}

/* ---- Order ------------------------------------------------------------------------------------------- */

static int32_t fill_with(fixture *f, fixture_tensor *t, double value)
{
    tn_value out = fixture_value(t), args[] = {out, tn_value_float(value)};
    return fixture_run(f, "prim::fill", args, 2, &out, 1, NULL);
}

/* While the stream is held in a callback, calls return and nothing is done; arguments may go away meanwhile. */
Test(reference_device, work_is_queued)
{
    const float zeros[4] = {0};
    float back[4] = {9, 9, 9, 9};
    int32_t done = 1;
    gate g;
    fixture f;
    fixture_open(&f);
    gate_init(&g);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, four, zeros);
    cr_assert_eq(f.streams->host_callback(f.self, f.device, f.stream, gate_wait, &g), TN_OK);
    {
        fixture_tensor borrowed = t;
        cr_assert_eq(fill_with(&f, &borrowed, 2.5), TN_OK);
        memset(&borrowed, 0xee, sizeof(borrowed));
    }
    cr_assert_eq(f.copy->device_to_host(f.self, f.device, back, NULL, t.desc.allocation, 0, 16, f.stream),
                 TN_OK);
    sem_wait(&g.reached);
    cr_assert_eq(f.streams->query(f.self, f.device, f.stream, &done), TN_OK);
    cr_assert_eq(done, 0);
    cr_assert_eq(back[0], 9);
    gate_open(&g);
    cr_assert_eq(f.streams->synchronize(f.self, f.device, f.stream), TN_OK);
    cr_assert_eq(f.streams->query(f.self, f.device, f.stream, &done), TN_OK);
    cr_assert_eq(done, 1);
    cr_assert_eq(g.calls, 1);
    for (int i = 0; i < 4; i++) cr_assert_eq(back[i], 2.5f);
    fixture_close(&f);
}

/* A second stream waits for an event that the first one, held in a callback, has not reached. */
Test(reference_device, a_stream_waits_for_an_event)
{
    float back[4] = {0};
    int32_t done = 1;
    void *second, *event, *late;
    double ms = -1;
    gate g;
    fixture f;
    fixture_open(&f);
    gate_init(&g);
    cr_assert_eq(slot_stream(f.streams, f.self, f.device, 0, &second), TN_OK);
    cr_assert_eq(f.events->create(f.self, f.device, TN_EVENT_TIMING, &event), TN_OK);
    cr_assert_eq(f.events->create(f.self, f.device, TN_EVENT_TIMING, &late), TN_OK);
    cr_assert_eq(f.events->query(f.self, f.device, event, &done), TN_OK);
    cr_assert_eq(done, 1, "an event that was never recorded is done");
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, four, NULL);
    f.streams->host_callback(f.self, f.device, f.stream, gate_wait, &g);
    cr_assert_eq(fill_with(&f, &t, 7), TN_OK);
    cr_assert_eq(f.events->record(f.self, f.device, event, f.stream), TN_OK);
    cr_assert_eq(f.streams->wait_event(f.self, f.device, second, event), TN_OK);
    cr_assert_eq(f.copy->device_to_host(f.self, f.device, back, NULL, t.desc.allocation, 0, 16, second),
                 TN_OK);
    cr_assert_eq(f.events->record(f.self, f.device, late, second), TN_OK);
    sem_wait(&g.reached);
    f.events->query(f.self, f.device, event, &done);
    cr_assert_eq(done, 0);
    f.streams->query(f.self, f.device, second, &done);
    cr_assert_eq(done, 0);
    cr_assert_eq(f.events->elapsed(f.self, f.device, event, late, &ms), TN_E_STATE);
    gate_open(&g);
    cr_assert_eq(f.events->synchronize(f.self, f.device, late), TN_OK);
    cr_assert_eq(back[3], 7);
    cr_assert_eq(f.events->elapsed(f.self, f.device, event, late, &ms), TN_OK);
    cr_assert_geq(ms, 0);
    f.events->destroy(f.self, f.device, event);
    f.events->destroy(f.self, f.device, late);
    f.streams->destroy(f.self, f.device, second);
    fixture_close(&f);
}

/* ---- Late errors ------------------------------------------------------------------------------------- */

Test(reference_device, a_late_error_is_reported_once)
{
    const float data[] = {1, 2, 3, 4};
    const int64_t positions[] = {0, 9, 1, 2};
    float back[4] = {0};
    fixture f;
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, four, data);
    fixture_tensor index = fixture_tensor_make(&f, TN_INT64, 1, four, positions);
    fixture_tensor out = fixture_tensor_make(&f, TN_FLOAT32, 1, four, NULL);
    tn_value args[] = {fixture_value(&t), tn_value_int(0), fixture_value(&index), tn_value_bool(0)};
    tn_value outs[] = {fixture_value(&out)};
    cr_assert_eq(fixture_run(&f, "aten::gather", args, 4, outs, 1, NULL), TN_OK, "it is found later");
    cr_assert_eq(fill_with(&f, &t, 100), TN_OK);
    cr_assert_eq(f.streams->synchronize(f.self, f.device, f.stream), TN_E_INDEX);
    cr_assert_str_eq(f.error_message, "aten::gather: index 9 is out of bounds for dimension 0 with size 4");
    cr_assert_eq(f.streams->synchronize(f.self, f.device, f.stream), TN_OK, "it is reported once");
    cr_assert_eq(fixture_read(&f, &t, back), TN_OK);
    cr_assert_eq(back[0], 1, "work behind the error was dropped");
    cr_assert_eq(fill_with(&f, &t, 100), TN_OK);
    cr_assert_eq(fixture_read(&f, &t, back), TN_OK);
    cr_assert_eq(back[0], 100, "the stream takes work again");
    fixture_run(&f, "aten::gather", args, 4, outs, 1, NULL);
    cr_assert_eq(f.device_interface->synchronize(f.self, f.device), TN_E_INDEX);
    cr_assert_eq(f.device_interface->synchronize(f.self, f.device), TN_OK);
    fixture_close(&f);
}

/* ---- Several devices --------------------------------------------------------------------------------- */

Test(reference_device, peers_copy)
{
    const float data[] = {1, 2, 3, 4};
    float back[4] = {0};
    void *other, *stream, *allocation = NULL, *host = NULL;
    fixture f;
    setenv("TENON_REFERENCE_DEVICES", "2", 1);
    fixture_open(&f);
    cr_assert_eq(slot_open(f.device_interface, f.self, 1, &other), TN_OK);
    cr_assert_eq(slot_stream(f.streams, f.self, other, 0, &stream), TN_OK);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, four, data);
    cr_assert_eq(slot_alloc(f.memory, f.self, other, 16, TN_MEMORY_DEVICE, &allocation, &host), TN_OK);
    cr_assert_eq(f.copy->peer(f.self, other, allocation, 0, f.device, t.desc.allocation, 4, 12, stream),
                 TN_OK);
    cr_assert_eq(f.copy->device_to_host(f.self, other, back, NULL, allocation, 0, 12, stream), TN_OK);
    cr_assert_eq(f.streams->synchronize(f.self, other, stream), TN_OK);
    cr_assert_arr_eq(back, ((float[]){2, 3, 4}), 12);
    cr_assert_eq(f.copy->device_to_host(f.self, f.device, back, NULL, allocation, 0, 12, f.stream),
                 TN_E_CONTRACT, "the other device's memory is not this one's");
    f.streams->destroy(f.self, other, stream);
    slot_free(f.memory, f.self, other, allocation, 16);
    f.device_interface->close(f.self, other);
    fixture_close(&f);
}

/* ---- Other processes ----------------------------------------------------------------------------------- */

static const tn_interop_interface *interop_of(fixture *f)
{
    return f->table.get_interface(f->self, "tenon.interop", 1);
}

/* The kernel of the system knows the file, so the second mapping shows what was written through the first. */
Test(reference_device, exported_memory_is_opened_again)
{
    uint32_t got = 0;
    const uint32_t value = 0x01020304;
    fixture f;
    fixture_open(&f);
    const tn_interop_interface *i = interop_of(&f);
    const tn_memory_request request = {
        .size = sizeof request, .kind = TN_MEMORY_DEVICE, .flags = TN_REQUEST_SHAREABLE, .bytes = 64};
    tn_memory made = {.size = sizeof made}, opened = {.size = sizeof opened};
    tn_process_handle handle = {.size = sizeof handle, .file = -1};
    cr_assert_eq(f.memory->alloc(f.self, f.device, &request, &made), TN_OK);
    cr_assert_eq(i->export_memory(f.self, f.device, made.allocation, &handle), TN_OK);
    cr_assert_eq(i->import_memory(f.self, f.device, &handle, &opened), TN_OK);
    cr_assert_neq(opened.allocation, made.allocation);
    close(handle.file);
    cr_assert_eq(f.copy->host_to_device(f.self, f.device, made.allocation, 60, &value, NULL, 4, f.stream),
                 TN_OK);
    cr_assert_eq(f.streams->synchronize(f.self, f.device, f.stream), TN_OK);
    f.memory->free(f.self, f.device, &made);
    cr_assert_eq(f.copy->device_to_host(f.self, f.device, &got, NULL, opened.allocation, 60, 4, f.stream),
                 TN_OK);
    cr_assert_eq(f.streams->synchronize(f.self, f.device, f.stream), TN_OK);
    cr_assert_eq(got, value);
    i->release_memory(f.self, f.device, &opened);
    cr_assert_eq(f.copy->device_to_host(f.self, f.device, &got, NULL, opened.allocation, 60, 4, f.stream),
                 TN_E_CONTRACT);
    fixture_close(&f);
}

Test(reference_device, memory_that_was_not_asked_to_be_shareable_is_not_exported)
{
    fixture f;
    fixture_open(&f);
    const tn_memory_request request = {.size = sizeof request, .kind = TN_MEMORY_DEVICE, .bytes = 64};
    tn_memory made = {.size = sizeof made};
    tn_process_handle handle = {.size = sizeof handle, .file = -1};
    cr_assert_eq(f.memory->alloc(f.self, f.device, &request, &made), TN_OK);
    cr_assert_eq(interop_of(&f)->export_memory(f.self, f.device, made.allocation, &handle), TN_E_STATE);
    cr_assert_eq(handle.file, -1);
    f.memory->free(f.self, f.device, &made);
    fixture_close(&f);
}

Test(reference_device, an_event_is_followed_from_elsewhere)
{
    void *event, *seen = NULL;
    int32_t done = 0;
    fixture f;
    fixture_open(&f);
    const tn_interop_interface *i = interop_of(&f);
    tn_process_handle handle = {.size = sizeof handle, .file = -1};
    cr_assert_eq(f.events->create(f.self, f.device, TN_EVENT_INTERPROCESS, &event), TN_OK);
    cr_assert_eq(i->export_event(f.self, f.device, event, &handle), TN_OK);
    cr_assert_eq(i->import_event(f.self, f.device, &handle, &seen), TN_OK);
    close(handle.file);
    cr_assert_eq(f.events->record(f.self, f.device, event, f.stream), TN_OK);
    cr_assert_eq(f.events->synchronize(f.self, f.device, seen), TN_OK);
    cr_assert_eq(f.events->query(f.self, f.device, seen, &done), TN_OK);
    cr_assert_eq(done, 1);
    f.events->destroy(f.self, f.device, seen);
    f.events->destroy(f.self, f.device, event);
    fixture_close(&f);
}
