/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a profile, in the Trace Event Format: complete events for calls and device work, a flow from each
 * call to the work that it queued, counters for memory, and names of tracks. Process 1 is the host, the devices
 * follow. Times are in microseconds from the beginning of the profile.
 */
#include "core/profile.h"
#include "core/number_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct writer {
    FILE *file;
    const tn_profile *profile;
    int32_t has_events;
    tni_vector devices; /* tn_device: process 2 and on */
    tni_vector streams; /* named: pairs of a process and a stream */
} writer;

static void put_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 32)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

/* Begins an event: {"ph":"X","name":"..." */
static void begin_event(writer *w, const char *phase, const char *name)
{
    fprintf(w->file, "%s\n{\"ph\":\"%s\",\"name\":", w->has_events ? "," : "", phase);
    put_text(w->file, name);
    w->has_events = 1;
}

static void put_place(const writer *w, uint32_t process, uint64_t track, int64_t at)
{
    fprintf(w->file, ",\"pid\":%u,\"tid\":%llu,\"ts\":%.3f", process, (unsigned long long)track,
            (double)(at - w->profile->begin) * 1e-3);
}

static void name_track(writer *w, const char *what, uint32_t process, uint64_t track, const char *name)
{
    begin_event(w, "M", what);
    fprintf(w->file, ",\"pid\":%u,\"tid\":%llu,\"args\":{\"name\":", process, (unsigned long long)track);
    put_text(w->file, name);
    fputs("}}", w->file);
}

/* The number of a device's process, which gets its name at first. Without memory all are process 2. */
static uint32_t process_of(writer *w, tn_device device)
{
    const tn_device *devices = w->devices.data;
    for (uint32_t i = 0; i < w->devices.count; i++) {
        if (devices[i] == device) return i + 2;
    }
    char name[80];
    tn_device *place = tni_vector_push(w->profile->ctx, &w->devices, sizeof *place);
    if (!place) return 2;
    *place = device;
    name_track(w, "process_name", w->devices.count + 1, 0,
               tn_device_format(w->profile->ctx, device, name, sizeof name));
    return w->devices.count + 1;
}

static void name_stream(writer *w, uint32_t process, uint64_t stream)
{
    const uint64_t *known = w->streams.data;
    for (uint32_t i = 0; i < w->streams.count; i++) {
        if (known[2 * i] == process && known[2 * i + 1] == stream) return;
    }
    uint64_t *place = tni_vector_push(w->profile->ctx, &w->streams, 2 * sizeof *place);
    if (!place) return;
    place[0] = process;
    place[1] = stream;
    char name[48];
    snprintf(name, sizeof name,
             stream & TNI_PROFILE_OTHERS ? "stream %llu of others"
             : stream                    ? "stream %llu"
                                         : "default stream",
             (unsigned long long)(stream & ~TNI_PROFILE_OTHERS));
    name_track(w, "thread_name", process, stream, name);
}

static const char *category(uint32_t kind)
{
    static const char *const names[] = {[TN_PROFILE_OPERATOR] = "operator",
                                        [TN_PROFILE_BACKWARD] = "backward",
                                        [TN_PROFILE_RANGE] = "range",
                                        [TN_PROFILE_WORK] = "work",
                                        [TN_PROFILE_KERNEL] = "kernel"};
    return names[kind];
}

static void put_call(writer *w, const tni_profile_call *call, uint32_t thread)
{
    begin_event(w, "X", call->entry->row.name);
    put_place(w, 1, thread, call->start);
    fprintf(w->file, ",\"dur\":%.3f,\"cat\":\"%s\"", (double)(call->end - call->start) * 1e-3,
            category(call->entry->row.kind));
    if (call->entry->row.shapes[0]) {
        fputs(",\"args\":{\"shapes\":", w->file);
        put_text(w->file, call->entry->row.shapes);
        fputc('}', w->file);
    }
    fputc('}', w->file);
}

static void put_change(writer *w, const tni_profile_change *change)
{
    char name[96] = "memory of ";
    size_t length = strlen(name);
    tn_device_format(w->profile->ctx, change->device, name + length, sizeof name - length);
    begin_event(w, "C", name);
    put_place(w, 1, 0, change->at);
    fprintf(w->file, ",\"args\":{\"allocated\":%llu,\"reserved\":%llu}}",
            (unsigned long long)change->allocated, (unsigned long long)change->reserved);
}

static void put_log(writer *w, const tni_profile_log *log)
{
    char name[48];
    snprintf(name, sizeof name, "thread %u (%d)", log->number, log->tid);
    name_track(w, "thread_name", 1, log->number, name);
    for (uint32_t i = 0; i < log->calls.count; i++)
        put_call(w, (const tni_profile_call *)log->calls.data + i, log->number);
    for (uint32_t i = 0; i < log->changes.count; i++)
        put_change(w, (const tni_profile_change *)log->changes.data + i);
}

/* Flow `number` goes from the call to the beginning of the work. */
static void put_span(writer *w, const tni_profile_span *span, uint32_t number)
{
    uint32_t process = process_of(w, span->device);
    name_stream(w, process, span->stream);
    begin_event(w, "X", span->name);
    put_place(w, process, span->stream, span->start);
    fprintf(w->file, ",\"dur\":%.3f,\"cat\":\"work\",\"args\":{\"flow\":%u}}",
            (double)(span->end - span->start) * 1e-3, number);
    begin_event(w, "s", "queued");
    put_place(w, 1, span->thread, span->queued);
    fprintf(w->file, ",\"cat\":\"flow\",\"id\":%u}", number);
    begin_event(w, "f", "queued");
    put_place(w, process, span->stream, span->start);
    fprintf(w->file, ",\"cat\":\"flow\",\"id\":%u,\"bp\":\"e\"}", number);
}

/* On the track of its work, below it. */
static void put_activity(writer *w, const tni_profile_activity *a)
{
    uint32_t process = process_of(w, a->device);
    name_stream(w, process, a->stream);
    begin_event(w, "X", a->entry->row.name);
    put_place(w, process, a->stream, a->start);
    fprintf(w->file,
            ",\"dur\":%.3f,\"cat\":\"kernel\",\"args\":{\"work\":", (double)(a->end - a->start) * 1e-3);
    put_text(w->file, a->work ? a->work : "");
    fputs("}}", w->file);
}

static void put_row(FILE *file, const tn_profile_row *row)
{
    fputs("{\"name\":", file);
    put_text(file, row->name);
    fprintf(file, ",\"kind\":\"%s\",\"shapes\":", category(row->kind));
    put_text(file, row->shapes);
    fprintf(
        file,
        ",\"calls\":%llu,\"host_total\":%llu,\"host_self\":%llu,\"device_total\":%llu,\"device_self\":%llu,"
        "\"bytes_total\":%llu,\"bytes_self\":%llu}",
        (unsigned long long)row->calls, (unsigned long long)row->host_total,
        (unsigned long long)row->host_self, (unsigned long long)row->device_total,
        (unsigned long long)row->device_self, (unsigned long long)row->bytes_total,
        (unsigned long long)row->bytes_self);
}

static void put_profile(writer *w)
{
    const tn_profile *p = w->profile;
    tn_profile_summary summary = {.size = sizeof summary};
    (void)tn_profile_get_summary(p, &summary);
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", w->file);
    name_track(w, "process_name", 1, 0, "host");
    for (uint32_t i = 0; i < p->logs.count; i++) put_log(w, ((tni_profile_log **)p->logs.data)[i]);
    for (uint32_t i = 0; i < p->spans.count; i++)
        put_span(w, (const tni_profile_span *)p->spans.data + i, i + 1);
    for (uint32_t i = 0; i < p->activities.count; i++)
        put_activity(w, (const tni_profile_activity *)p->activities.data + i);
    fprintf(w->file,
            "],\n\"tenon_profile\":{\"version\":1,\"nanoseconds\":%llu,\"dropped\":%llu,\"unmeasured\":%llu,"
            "\"lost\":%llu,\"rows\":[",
            (unsigned long long)summary.nanoseconds, (unsigned long long)summary.dropped,
            (unsigned long long)summary.unmeasured, (unsigned long long)summary.lost);
    for (uint32_t i = 0; i < p->row_count; i++) {
        fputs(i ? ",\n" : "\n", w->file);
        put_row(w->file, &p->rows[i]);
    }
    fputs("]}}\n", w->file);
}

int32_t tn_profile_write(const tn_profile *profile, const char *path)
{
    if (!profile || !path)
        return tni_error(TN_E_ARGUMENT, "profile_write: %s is NULL", profile ? "path" : "the profile");
    writer w = {.profile = profile, .file = fopen(path, "we")};
    if (!w.file) return tni_error(TN_E_IO, "profile_write: %s cannot be written: %s", path, strerror(errno));
    locale_t before = tni_plain_locale_begin();
    put_profile(&w);
    tni_plain_locale_end(before);
    int32_t failed = ferror(w.file);
    failed |= fclose(w.file);
    tni_vector_finish(profile->ctx, &w.devices, sizeof(tn_device));
    tni_vector_finish(profile->ctx, &w.streams, 2 * sizeof(uint64_t));
    return failed ? tni_error(TN_E_IO, "profile_write: %s cannot be written: %s", path, strerror(errno))
                  : TN_OK;
}
