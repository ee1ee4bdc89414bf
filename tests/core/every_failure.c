/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios on fake devices, each once more with the n-th allocation of the host failing, with the n-th slot of the
 * driver failing, and with the n-th slot that makes something giving nothing, for n = 1 and on until nothing fails any
 * more. Whatever fails: nothing crashes, a wrong result has an error, the scenario runs afterwards, nothing leaks.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <tenon/collectives.h>
#include <tenon/interop.h>
#include "core/allocator.h"
#include "core/copies.h"
#include "core/current.h"
#include "core/graph.h"
#include "core/profile.h"
#include "core/transfer.h"
#include "fake_driver.h"
#include "rows.h"

/* A scenario's state, and what is to be released at its end. */
typedef struct run {
    tn_context *ctx;
    tn_device device, other;
    fake *f;
    tn_graph *graphs[2];
    tn_stream *streams[3];
    tn_event *events[2];
    tn_tensor *tensors[4];
    tn_communicator *communicator;
    tn_profile *profile;
    tn_scope *scope;
    _Atomic int32_t released; /* calls of note_release */
} run;

/* TN_OK, a status whose error the thread has, or WRONG. */
typedef int32_t scenario(run *r);
#define WRONG (-1) /* no call failed, but a result is not what it should be */

#define TRY(call)                                  \
    do {                                           \
        int32_t status_of_call = (call);           \
        if (status_of_call) return status_of_call; \
    } while (0)

static void note_release(void *pointer)
{
    ++*(_Atomic int32_t *)pointer;
}

static tni_kept *kept_of(run *r)
{
    tni_kept *kept = tni_alloc(r->ctx, sizeof *kept);
    if (kept) *kept = (tni_kept){.pointer = &r->released, .release = note_release};
    return kept;
}

static int32_t fill(run *r, int i, tn_device device, float first)
{
    const int64_t sizes[] = {2, 3};
    float data[6];
    for (int k = 0; k < 6; k++) data[k] = first + (float)k;
    TRY(tni_tensor_create(r->ctx, device, TN_FLOAT32, 2, sizes, NULL, &r->tensors[i]));
    return tni_tensor_write(r->tensors[i], data, sizeof data);
}

/* ---- Scenarios --------------------------------------------------------------------------------------------- */

/* Captures work with memory, random numbers, something kept and a second stream. */
static int32_t capture(run *r, tn_graph *graph)
{
    const int64_t size = 8;
    uint64_t offset;
    tn_tensor *state = NULL;
    tn_stream *s = r->streams[0];
    TRY(tn_graph_capture_begin(graph, s));
    int32_t status = tn_stream_set_current(r->ctx, s);
    if (!status) status = tni_tensor_create(r->ctx, r->device, TN_FLOAT32, 1, &size, NULL, &r->tensors[0]);
    tni_device *d = s->device;
    for (int i = 0; i < 2 && !status; i++) status = tni_capture_random(s, d->generator, 4, &offset, &state);
    if (!status && (!state || offset != 4)) status = WRONG;
    tni_kept *kept = status ? NULL : kept_of(r);
    if (kept && !tni_capture_keep(s, kept)) status = WRONG;
    if (!status && !kept) status = TN_E_OUT_OF_MEMORY;
    if (!status) status = tn_event_create(r->ctx, r->device, 0, &r->events[0]);
    if (!status) status = tn_event_record(r->events[0], s);
    if (!status) status = tn_stream_wait_event(r->streams[1], r->events[0]);
    if (!status && !tn_stream_is_capturing(r->streams[1])) status = WRONG;
    if (!status) status = tn_record_stream(r->tensors[0], r->streams[1]);
    tn_release(r->tensors[0]);
    r->tensors[0] = NULL;
    tn_event_release(r->events[0]);
    r->events[0] = NULL;
    tn_stream_set_current(r->ctx, d->default_stream);
    tn_error *error = status ? tni_error_copy() : NULL;
    int32_t ended = tn_graph_capture_end(graph);
    if (error) tni_error_restore(error);
    tn_error_release(error);
    return status ? status : ended;
}

static int32_t graphs(run *r)
{
    int32_t launches = r->f->launches, released = r->released;
    for (int i = 0; i < 2; i++) {
        TRY(tn_stream_create(r->ctx, r->device, 0, &r->streams[i]));
        TRY(tn_graph_create(r->ctx, r->device, &r->graphs[i]));
    }
    TRY(capture(r, r->graphs[0]));
    TRY(tn_graph_replay(r->graphs[0]));
    TRY(tn_graph_replay(r->graphs[0]));
    TRY(capture(r, r->graphs[1]));
    TRY(tn_graph_update(r->graphs[0], r->graphs[1]));
    if (r->released != released + 1) return WRONG;
    TRY(tn_graph_replay(r->graphs[0]));
    TRY(tn_graph_reset(r->graphs[0]));
    if (r->released != released + 2 || r->f->launches != launches + 3) return WRONG;
    return tn_device_synchronize(r->ctx, r->device);
}

static int32_t collectives(run *r)
{
    const tn_device devices[] = {r->device, r->other};
    int32_t calls = r->f->collectives;
    char id[8];
    uint64_t bytes;
    TRY(tn_communicator_unique_id(r->ctx, r->device, id, sizeof id, &bytes));
    TRY(tn_communicator_create(r->ctx, devices, 2, &r->communicator));
    tn_communicator *c = r->communicator;
    for (int i = 0; i < 4; i++) TRY(fill(r, i, devices[i % 2], 1));
    TRY(tn_communicator_all_reduce(c, r->tensors, 2, TN_REDUCE_SUM));
    TRY(tn_communicator_broadcast(c, r->tensors, 2, 1));
    TRY(tn_communicator_all_to_all(c, r->tensors, r->tensors + 2, 2));
    TRY(tn_communicator_barrier(c));
    for (int i = 0; i < 2; i++) {
        const int64_t half = 3;
        tn_release(r->tensors[i]);
        r->tensors[i] = NULL;
        TRY(tni_tensor_create(r->ctx, devices[i], TN_FLOAT32, 1, &half, NULL, &r->tensors[i]));
    }
    TRY(tn_communicator_all_gather(c, r->tensors + 2, r->tensors, 2));
    TRY(tn_communicator_reduce_scatter(c, r->tensors, r->tensors + 2, 2, TN_REDUCE_MAX));
    if (r->f->collectives != calls + 6) return WRONG;
    return tn_communicator_abort(c);
}

/* One device copies to the other, and what it copied is read whole and in part. */
static int32_t transfers(run *r)
{
    float got[6] = {0}, part[2] = {0};
    const int64_t sizes[] = {2}, strides[] = {3};
    TRY(fill(r, 0, r->device, 10));
    TRY(fill(r, 1, r->other, 0));
    const tn_tensor *from = r->tensors[0], *to = r->tensors[1];
    const tni_place a = {from->storage->device, from->desc.allocation, from->desc.byte_offset},
                    b = {to->storage->device, to->desc.allocation, to->desc.byte_offset};
    if (!tni_are_peers(b.device, a.device)) return WRONG;
    TRY(tni_copy_peer(&b, &a, sizeof got));
    TRY(tni_tensor_read(to, got, sizeof got));
    if (got[0] != 10 || got[5] != 15) return WRONG;
    TRY(tni_tensor_view(r->tensors[1], 1, sizes, strides, 1, &r->tensors[2]));
    TRY(tni_tensor_read(r->tensors[2], part, sizeof part));
    if (part[0] != 11 || part[1] != 14) return WRONG;
    TRY(tni_fill_zeros(b.device, b.allocation, b.offset, sizeof got));
    TRY(tni_tensor_read(to, got, sizeof got));
    return got[5] == 0 ? TN_OK : WRONG;
}

/* Pinned memory, and copies for which the host does not wait: from memory that is pinned, that is not, and back. */
static int32_t pinned(run *r)
{
    float got[6];
    int32_t pins = r->f->gives_pinned || r->f->pins_pages, copies = r->f->pinned_copies;
    if (!(r->scope = tn_scope_open(r->ctx))) return tn_last_error()->code;
    TRY(fill(r, 0, TN_CPU, 20));
    TRY(fill(r, 1, r->device, 0));
    tn_tensor *dst = r->tensors[1], *from = r->tensors[0];
    tn_tensor *p = pins ? tn_pin_memory(r->scope, from, r->device) : from;
    if (!p) return tn_scope_error(r->scope)->code;
    if (tn_is_pinned(p) != pins) return WRONG;
    TRY(tni_upload(dst, p, sizeof got, 1));
    TRY(tn_stream_synchronize(tn_stream_current(r->ctx, r->device)));
    TRY(tni_tensor_read(dst, got, sizeof got));
    if (got[0] != 20 || got[5] != 25) return WRONG;
    *(float *)from->desc.host = 30;
    TRY(tni_upload(dst, from, sizeof got, 1));
    *(float *)from->desc.host = 40; /* what was to be copied has been read */
    TRY(tni_download(p, dst, sizeof got, 1));
    TRY(tn_device_synchronize(r->ctx, r->device));
    if (*(float *)p->desc.host != 30) return WRONG;
    /* Without memory to stage in, the second copy is from where the data is. */
    return pins && r->f->pinned_copies < copies + 2 ? WRONG : TN_OK;
}

/* A copy in three pieces between devices that are not peers. */
static int32_t through_host(run *r)
{
    const int64_t size = 9 << 20;
    TRY(tni_tensor_create(r->ctx, r->device, TN_UINT8, 1, &size, NULL, &r->tensors[0]));
    TRY(tni_tensor_create(r->ctx, r->other, TN_UINT8, 1, &size, NULL, &r->tensors[1]));
    const tn_tensor *from = r->tensors[0], *to = r->tensors[1];
    char *a = fake_address(from), *b = fake_address(to);
    const tni_place source = {from->storage->device, from->desc.allocation, from->desc.byte_offset},
                    target = {to->storage->device, to->desc.allocation, to->desc.byte_offset};
    for (int64_t i = 0; i < size; i += 1 << 20) a[i] = (char)(i >> 20);
    TRY(tni_copy_through_host(&target, &source, (uint64_t)size));
    TRY(tn_device_synchronize(r->ctx, r->other));
    for (int64_t i = 0; i < size; i += 1 << 20) {
        if (b[i] != (char)(i >> 20)) return WRONG;
    }
    return TN_OK;
}

/* Memory and an event are given away, and opened again as another process does. */
static int32_t shared_with_others(run *r)
{
    const int64_t none = 0;
    tn_shared_tensor shared = {.size = sizeof shared};
    tn_process_handle handle = {.size = sizeof handle};
    if (!(r->scope = tn_scope_open(r->ctx))) return tn_last_error()->code;
    TRY(tni_tensor_create(r->ctx, r->device, TN_FLOAT32, 1, &none, NULL, &r->tensors[0]));
    tn_tensor *ours = tn_share(r->scope, r->tensors[0]);
    if (!ours) return tn_scope_error(r->scope)->code;
    TRY(tn_share_export(ours, &shared));
    tn_tensor *theirs = tn_share_import(r->scope, &shared);
    if (!theirs) return tn_scope_error(r->scope)->code;
    if (fake_address(theirs) != fake_address(ours)) return WRONG;
    tn_stream *s = tn_stream_current(r->ctx, r->device);
    if (!s) return tn_last_error()->code;
    TRY(tn_stream_wrap(r->ctx, r->device, 7, &r->streams[0]));
    TRY(tn_event_create(r->ctx, r->device, TN_EVENT_INTERPROCESS, &r->events[0]));
    fake_work(s);
    TRY(tn_event_record(r->events[0], s));
    TRY(tn_event_export(r->events[0], &handle));
    TRY(tn_event_import(r->ctx, r->device, &handle, &r->events[1]));
    int32_t done = tn_event_query(r->events[1]), waits = r->f->waits;
    if (done) return done < 0 ? -done : WRONG;
    TRY(tn_stream_wait_event(r->streams[0], r->events[1]));
    TRY(tni_native_wait(s, (uint64_t)(uintptr_t)r->streams[0]->handle));
    if (r->f->waits != waits + 2) return WRONG;
    fake_finish(s);
    done = tn_event_query(r->events[1]);
    return done == 1 ? TN_OK : done < 0 ? -done : WRONG;
}

static int32_t profiles(run *r)
{
    const tn_profile_options options = {.size = sizeof options, .flags = TN_PROFILE_MEMORY};
    tn_profile_summary all = {.size = sizeof all};
    char text[4096];
    TRY(tni_profile_start(r->ctx, &options));
    int32_t status = tn_profile_range_begin(r->ctx, "outer");
    if (!status) status = transfers(r);
    tn_error *error = status ? tni_error_copy() : NULL;
    tn_profile_range_end(r->ctx); /* without memory it never began */
    int32_t ended = tni_profile_stop(r->ctx, &r->profile);
    if (error) tni_error_restore(error);
    tn_error_release(error);
    TRY(status);
    TRY(ended);
    TRY(tn_profile_get_summary(r->profile, &all));
    tn_profile_text(r->profile, 0, text, sizeof text);
    /* A range and six pieces of work: all are there, or some are counted as missing. */
    if (all.dropped + all.unmeasured == 0 && (all.events < 7 || !strstr(text, "outer"))) return WRONG;
    return TN_OK;
}

/* What is kept until a stream has passed is released once, also where no queue can be made. */
static int32_t releases(run *r)
{
    int32_t released = r->released;
    TRY(tn_stream_create(r->ctx, r->device, 0, &r->streams[0]));
    for (int i = 0; i < 3; i++) {
        tn_stream *s = i == 2 ? r->streams[0] : tn_stream_current(r->ctx, r->device);
        tni_kept *kept = s ? kept_of(r) : NULL;
        if (!kept) return tn_last_error()->code;
        fake_work(s);
        tni_release_later(s, kept);
        fake_finish(s);
    }
    TRY(tn_device_synchronize(r->ctx, r->device));
    return r->released == released + 3 ? TN_OK : WRONG;
}

/* Three streams of two devices wait for each other, and memory is used on all of one device's. */
static int32_t streams(run *r)
{
    double ms = -1;
    TRY(tn_stream_create(r->ctx, r->device, 0, &r->streams[0]));
    TRY(tn_stream_create(r->ctx, r->device, -1, &r->streams[1]));
    TRY(tn_stream_create(r->ctx, r->other, 0, &r->streams[2]));
    for (int i = 0; i < 2; i++)
        TRY(tn_event_create(r->ctx, r->device, r->f->no_events ? 0 : TN_EVENT_TIMING, &r->events[i]));
    TRY(fill(r, 0, r->device, 0));
    for (int i = 0; i < 3; i++) fake_work(r->streams[i]);
    TRY(tn_record_stream(r->tensors[0], r->streams[0]));
    TRY(tn_record_stream(r->tensors[0], r->streams[1]));
    TRY(tn_event_record(r->events[0], r->streams[0]));
    TRY(tn_stream_wait_event(r->streams[1], r->events[0]));
    TRY(tn_stream_wait_stream(r->streams[2], r->streams[1]));
    TRY(tn_stream_wait_stream(r->streams[1], r->streams[2]));
    TRY(tn_stream_wait_stream(r->streams[0], r->streams[1]));
    tn_release(r->tensors[0]);
    r->tensors[0] = NULL;
    TRY(fill(r, 0, r->device, 0));
    fake_work(r->streams[0]);
    TRY(tn_event_record(r->events[1], r->streams[0]));
    for (int i = 0; i < 3; i++) TRY(tn_stream_synchronize(r->streams[i]));
    TRY(tn_event_synchronize(r->events[1]));
    int32_t done = tn_event_query(r->events[1]);
    if (done != 1) return done < 0 ? -done : WRONG;
    if (!r->f->no_events) TRY(tn_event_elapsed(r->events[0], r->events[1], &ms));
    if (!r->f->no_events && ms != 1) return WRONG;
    done = tn_stream_query(r->streams[2]);
    return done < 0 ? -done : done == 1 ? TN_OK : WRONG;
}

static void finish(run *r)
{
    if (r->scope) (void)tn_stream_synchronize(tn_stream_current(r->ctx, r->device));
    tn_scope_close(r->scope);
    for (int i = 0; i < 4; i++) tn_release(r->tensors[i]);
    for (int i = 0; i < 2; i++) tn_event_release(r->events[i]);
    for (int i = 0; i < 3; i++) tn_stream_release(r->streams[i]);
    for (int i = 0; i < 2; i++) tn_graph_release(r->graphs[i]);
    tn_communicator_release(r->communicator);
    if (tni_is_profiled(r->ctx)) (void)tni_profile_stop(r->ctx, &r->profile); /* it had no memory */
    tn_profile_release(r->profile);
}

static int32_t try(scenario *what, tn_context *ctx, fake *f)
{
    run r = {
        .ctx = ctx, .device = tn_device_parse(ctx, "gpu:0"), .other = tn_device_parse(ctx, "gpu:1"), .f = f};
    tn_clear_error();
    if (!r.device || !r.other) return tn_last_error()->code;
    int32_t status = what(&r);
    finish(&r);
    if (status > 0) cr_expect_not_null(tn_last_error(), "status %d without an error", status);
    return status;
}

/* ---- Sweeps ------------------------------------------------------------------------------------------------ */

enum { ALLOCATION, SLOT, NOTHING, KINDS };

static const char *const kinds[] = {"allocation", "slot", "slot that makes something"};

/* A scenario on a device, and how many allocations and slots it has at the least. */
#define GPU                                                                                               \
    .type = "gpu", .count = 2, .device_class = TN_DEVICE_DISCRETE, .has_graphs = 1, .has_collectives = 1, \
    .are_peers = 1
static const struct {
    const char *name;
    scenario *what;
    fake device;
    int32_t least;
} sweeps[] = {
    {"graphs", graphs, {GPU}, 20},
    {"graphs that are made anew", graphs, {GPU, .graph_update_status = TN_E_UNSUPPORTED}, 20},
    {"collectives", collectives, {GPU}, 20},
    {"transfers", transfers, {GPU}, 10},
    {"transfers through maps", transfers, {GPU, .has_maps = 1}, 10},
    {"pinned memory of the device", pinned, {GPU, .gives_pinned = 1}, 10},
    {"pages that are pinned", pinned, {GPU, .pins_pages = 1}, 10},
    {"pinned memory that is not there", pinned, {GPU}, 5},
    {"copies through the host", through_host, {GPU}, 10},
    {"copies through pinned memory", through_host, {GPU, .gives_pinned = 1}, 10},
    {"what processes share", shared_with_others, {GPU, .has_interop = 1}, 10},
    {"profiles", profiles, {GPU}, 20},
    {"profiles without events", profiles, {GPU, .no_events = 1}, 20},
    {"releases", releases, {GPU}, 5},
    {"releases by callbacks", releases, {GPU, .no_events = 1, .has_callbacks = 1}, 5},
    {"releases without events", releases, {GPU, .no_events = 1}, 5},
    {"streams", streams, {GPU}, 20},
    {"streams without events", streams, {GPU, .no_events = 1}, 10},
    {"streams of a driver with an allocator", streams, {GPU, .own_allocator = 1}, 20},
};

/* 1: the n-th one failed. */
static int32_t attempt(int k, int kind, int32_t n)
{
    fake f = sweeps[k].device, cpu = {.type = "cpu", .count = 1};
    scenario *what = sweeps[k].what;
    char at[96];
    counting c = {0};
    tn_context *ctx = counted_context(&c, &f);
    const tni_driver host = fake_driver(&cpu);
    snprintf(at, sizeof at, "%s, %s %d", sweeps[k].name, kinds[kind], n);
    cr_assert_not_null(ctx);
    cr_assert_eq(tni_device_type_add(ctx, &host), TN_OK);
    if (kind == ALLOCATION)
        c.fail_at = c.calls + n;
    else
        *(kind == SLOT ? &f.fail_slot : &f.empty_slot) = n;
    int32_t first = try(what, ctx, &f);
    int32_t reached = kind == ALLOCATION ? c.calls >= c.fail_at : !f.fail_slot && !f.empty_slot;
    cr_expect_neq(first, WRONG, "%s: a wrong result without an error", at);
    if (!reached) cr_expect_eq(first, TN_OK, "%s: nothing failed: %s", at, tn_last_error()->message);
    c.fail_at = 0;
    f.fail_slot = f.empty_slot = 0;
    /* An error that a call without a status met, a release, is told by the next wait. */
    int32_t second = try(what, ctx, &f);
    if (second) second = try(what, ctx, &f);
    cr_expect_eq(second, TN_OK, "%s: afterwards %d, %s", at, second,
                 tn_last_error() ? tn_last_error()->message : "a wrong result");
    tni_profile_finish(ctx); /* the dispatcher's in a whole library */
    tn_context_destroy(ctx);
    cr_expect_eq(c.live, 0, "%s: %d blocks left", at, (int)c.live);
    cr_expect_eq(f.breaches, 0, "%s", at);
    cr_expect_eq(f.closed, f.opened, "%s", at);
    cr_expect_eq(f.live_communicators, 0, "%s", at);
    return reached;
}

TEST_OF_ROWS(every_failure, of_a_scenario, sweeps)
{
    for (int kind = 0; kind < KINDS; kind++) {
        int32_t n = 1;
        while (attempt(*row, kind, n)) {
            n++;
            cr_assert_lt(n, 2000);
        }
        cr_assert_gt(n, kind == NOTHING ? 2 : sweeps[*row].least, "%s: only %d of kind %s", sweeps[*row].name,
                     n, kinds[kind]);
    }
}
