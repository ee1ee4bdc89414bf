/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 4, what a plugin may offer to users and to others: settings, tensors by DLPack, memory and events of several
 * processes (partner.h).
 */
#include "gate.h"
#include "partner.h"
#include "sources.h"

#include <stdio.h>
#include <string.h>
#include <tenon/interop.h>

#define COUNT PARTNER_COUNT

/* ---- Settings ------------------------------------------------------------------------------------------ */

static int is_same(tn_value a, tn_value b)
{
    if (a.tag != b.tag) return 0;
    return a.tag == TN_TAG_STRING ? !strcmp(a.as.string, b.as.string) : a.as.i == b.as.i;
}

/* Sets a value, reads it, and sets the one before. */
static void change(check_target *t, check_result *out, const tn_setting *s, tn_value before, tn_value wish)
{
    tn_value now = tn_value_none();
    if (wish.tag == TN_TAG_NONE || out->outcome != CHECK_PASSED) return;
    int32_t status = tn_device_set_setting(t->ctx, t->device, s->name, wish);
    if (status) {
        check_fail_with_error(out, NULL, "setting a value within the range");
        return;
    }
    tn_device_get_setting(t->ctx, t->device, s->name, &now);
    check_that(out, is_same(now, wish), "setting '%s': another value is read than was set", s->name);
    check_that(out, !tn_device_set_setting(t->ctx, t->device, s->name, before),
               "setting '%s': cannot be set back", s->name);
}

static void try_setting(check_target *t, check_result *out, const tn_setting *s)
{
    tn_value before = tn_value_none();
    check_that(out, s->meaning[0] && !strchr(s->meaning, '\n'), "setting '%s': its meaning is not a line",
               s->name);
    check_that(out, strspn(s->name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(s->name),
               "setting '%s': its name has other characters than a-z, 0-9 and _", s->name);
    if (tn_device_get_setting(t->ctx, t->device, s->name, &before)) {
        check_fail_with_error(out, NULL, "reading a setting");
        return;
    }
    if (s->flags & TN_SETTING_READ_ONLY) return;
    change(t, out, s, before, before);
    change(t, out, s, before, s->default_value);
    if (s->default_value.tag == TN_TAG_BOOL && strcmp(s->name, "lose") != 0)
        change(t, out, s, before, tn_value_bool(!before.as.i));
}

static void run_settings(check_target *t, const check_case *c, check_result *out)
{
    tn_setting s = {.size = sizeof s}, other = {.size = sizeof other};
    uint32_t n = 0;
    (void)c;
    for (; n < 256 && !tn_device_setting(t->ctx, t->device, n, &s) && out->outcome == CHECK_PASSED; n++) {
        try_setting(t, out, &s);
        for (uint32_t k = 0; k < n && !tn_device_setting(t->ctx, t->device, k, &other); k++)
            check_that(out, strcmp(s.name, other.name) != 0, "two settings have the name '%s'", s.name);
    }
    t->error_line[0] = 0;
    if (!n && out->outcome == CHECK_PASSED) check_absent(out, "the plugin has no settings");
}

/* ---- Tensors ------------------------------------------------------------------------------------------- */

/* 0, 1, 2, ... within a larger tensor: every other element, from the second one on. */
static tn_tensor *make(check_target *t, tn_scope *s)
{
    float values[2 * COUNT];
    for (int i = 0; i < 2 * COUNT; i++) values[i] = i % 2 ? (float)(i / 2) : -1;
    tn_tensor *all = tn_from_data(s, TN_FLOAT32, TN_INTS(COUNT, 2), values, t->device);
    return all ? tn_select(s, all, 1, 1) : NULL;
}

static void compare(tn_scope *s, check_result *out, const tn_tensor *t, float factor, const char *what)
{
    float got[COUNT];
    if (!t || tn_to_host(s, t, got, sizeof got)) {
        check_fail_with_error(out, s, what);
        return;
    }
    for (int i = 0; i < COUNT; i++) {
        if (!check_that(out, got[i] == factor * (float)i, "%s: element %d is %g, expected %g", what, i,
                        (double)got[i], (double)(factor * (float)i)))
            return;
    }
}

/* `there` is another tensor over the memory of `here`. */
static void write_and_read(check_target *t, tn_scope *s, check_result *out, const tn_tensor *here,
                           tn_tensor *there)
{
    compare(s, out, there, 1, "reading on the other side");
    if (out->outcome != CHECK_PASSED) return;
    tn_mul_scalar_(s, there, 3);
    if (tn_device_synchronize(t->ctx, t->device))
        check_fail_with_error(out, NULL, "writing on the other side");
    compare(s, out, here, 3, "reading what the other side wrote");
}

/* A refusal with TN_E_UNSUPPORTED is absence. */
static int is_absent(check_target *t, check_result *out, int32_t status, const char *what)
{
    if (status != TN_E_UNSUPPORTED) return 0;
    check_absent(out, "the plugin offers no %s: %s", what, tn_last_error()->message);
    t->error_line[0] = 0;
    return 1;
}

static void run_dlpack(check_target *t, const check_case *c, check_result *out)
{
    struct DLManagedTensorVersioned *capsule = NULL;
    tn_scope *s = tn_scope_open(t->ctx);
    tn_tensor *here = make(t, s);
    (void)c;
    int32_t status = here ? tn_to_dlpack(here, &capsule) : TN_E_INTERNAL;
    if (status && !is_absent(t, out, status, "DLPack")) check_fail_with_error(out, s, "exporting a tensor");
    if (!status) write_and_read(t, s, out, here, tn_from_dlpack(s, capsule));
    tn_scope_close(s);
}

/* The tensor and the event (or NULL) go to another process, which reads, writes and answers. */
static int send_to(partner *p, check_result *out, tn_tensor *here, tn_event *event)
{
    if (!tn_share_send(p->socket, here, event)) return partner_received(p, out);
    check_fail_with_error(out, NULL, "sending a tensor to another process");
    return 0;
}

static void compare_answer(tn_scope *s, check_result *out, partner *p, tn_tensor *here)
{
    if (partner_answer(p, out)) compare(s, out, here, 3, "reading what the other process wrote");
}

static void run_memory(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    tn_tensor *from = make(t, s), *here = from ? tn_share(s, from) : NULL;
    partner p;
    (void)c;
    if (!here) {
        if (!is_absent(t, out, tn_scope_error(s)->code, "memory that processes share"))
            check_fail_with_error(out, s, "sharing a tensor");
    } else {
        if (partner_start(&p, t, out) && send_to(&p, out, here, NULL)) compare_answer(s, out, &p, here);
        partner_finish(&p);
    }
    tn_scope_close(s);
}

/* The tensor is written by work that a gate holds back, and the event comes behind it: the other process must wait. */
static void run_held(check_target *t, tn_scope *s, check_result *out, tn_event *event)
{
    tn_stream *stream = tn_stream_current(t->ctx, t->device);
    tn_tensor *from = make(t, s), *here = from ? tn_share(s, tn_zeros_like(s, from)) : NULL;
    gate g;
    pthread_t opener;
    partner p;
    if (!here || tn_device_synchronize(t->ctx, t->device)) {
        check_fail_with_error(out, s, "sharing a tensor");
        return;
    }
    gate_init(&g);
    int started = partner_start(&p, t, out);
    if (started && tn_stream_add_callback(stream, gate_hold, &g))
        check_fail_with_error(out, NULL, "a host callback");
    tn_copy_(s, here, from);
    if (started && tn_event_record(event, stream)) check_fail_with_error(out, NULL, "recording an event");
    int sent = started && out->outcome == CHECK_PASSED && send_to(&p, out, here, event);
    int waits = !gate_open_later(&g, &opener);
    if (!waits) gate_open(&g);
    if (sent) compare_answer(s, out, &p, here);
    if (waits) pthread_join(opener, NULL);
    if (tn_device_synchronize(t->ctx, t->device)) check_fail_with_error(out, NULL, "waiting for the device");
    partner_finish(&p);
    gate_finish(&g);
}

static void run_event(check_target *t, const check_case *c, check_result *out)
{
    tn_event *event = NULL;
    tn_scope *s = tn_scope_open(t->ctx);
    (void)c;
    int32_t status = tn_event_create(t->ctx, t->device, TN_EVENT_INTERPROCESS, &event);
    if (!status)
        run_held(t, s, out, event);
    else if (!is_absent(t, out, status, "events of several processes"))
        check_fail_with_error(out, NULL, "an event of several processes");
    tn_scope_close(s);
    tn_event_release(event);
}

void check_tier4_interop(check_target *t, check_list *list)
{
    static const struct {
        const char *name;
        void (*run)(check_target *t, const check_case *c, check_result *out);
    } cases[] = {{"4/settings", run_settings},
                 {"4/interop/dlpack", run_dlpack},
                 {"4/interop/memory", run_memory},
                 {"4/interop/event", run_event}};
    (void)t;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_add(list, &(check_case){.tier = 4, .tags = CHECK_TAG_OPTIONAL, .run = cases[i].run}, "%s",
                  cases[i].name);
}
