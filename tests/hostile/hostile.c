/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugins that lie (liars/), each in a process of its own, alone and with TENON_VALIDATE=1: a program that
 * meets one ends by itself, and what it learns names the lie. Prints a table of what became of each; the
 * texts are asserted, and with the layer the finding in all its parts. What no host can see while it runs (a
 * result that was not written, a write past its end) is what `tenon check` is for, and is asked of that.
 *
 *     hostile FOLDER-OF-LIARS TENON-TOOL      or      hostile --meet (in the process that meets one)
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#define TN_NO_PLACES /* messages are compared */
#include <tenon/tenon.h>
#include <unistd.h>

/* ---- the process that meets a liar ----------------------------------------------------------------------- */

static void say_error(const char *what, const tn_error *e)
{
    printf("%s: %s; ", what, e && e->message ? e->message : "an error without a text");
}

/* A place with the number of its call as '#'. */
static const char *place(const char *given, char *buffer, size_t bytes)
{
    size_t used = 0;
    for (const char *at = given ? given : "-"; *at && used + 1 < bytes; at++) {
        int digit = *at >= '0' && *at <= '9', again = used && buffer[used - 1] == '#';
        if (digit && again) continue;
        buffer[used++] = digit ? '#' : *at;
    }
    buffer[used] = 0;
    return buffer;
}

/* "finding: kind of finder in slot, operator, stream, place, other place: text". */
static void say_findings(tn_context *ctx)
{
    char first[128], second[128], stream[24] = "-";
    for (uint32_t i = 0; i < tn_inspect_finding_count(ctx); i++) {
        tn_finding f = {.size = sizeof f};
        if (tn_inspect_finding(ctx, i, &f)) continue;
        if (f.stream != UINT64_MAX) snprintf(stream, sizeof stream, "%llu", (unsigned long long)f.stream);
        printf("finding: %s of %s in %s, %s, %s, %s, %s: %s; ", f.kind, f.finder, f.slot ? f.slot : "-",
               f.op ? f.op : "-", stream, place(f.place, first, sizeof first),
               place(f.other, second, sizeof second), f.text);
    }
}

/* At the end of a context only the log tells. */
static int context_ends;
static void hear(void *user, int32_t level, const char *text)
{
    char line[1024];
    if (context_ends && level <= TN_LOG_WARN) printf("log: %s; ", place(text, line, sizeof line));
}

/* Whether the code of the library stays, after some time for a thread of its own to fall over it. */
static void say_loaded(const char *library)
{
    usleep(50000);
    void *handle = library[0] ? dlopen(library, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    printf(handle ? "still loaded; " : "unloaded; ");
}

/* x + x on the device, twice, with a stream and an event about it. */
static void use_device(tn_context *ctx, tn_device device)
{
    tn_stream *stream = NULL;
    tn_event *event = NULL;
    const float numbers[] = {1, 2, 3, 4};
    if (tn_stream_create(ctx, device, 0, &stream)) say_error("stream", tn_last_error());
    if (tn_event_create(ctx, device, 0, &event)) say_error("event", tn_last_error());
    for (int round = 0; round < 2; round++) {
        tn_scope *s = tn_scope_open(ctx);
        tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(4), numbers, device);
        tn_tensor *y = tn_add(s, x, x);
        if (stream && y) tn_record_stream(y, stream);
        if (event && stream && !tn_event_record(event, stream)) (void)tn_stream_wait_event(stream, event);
        double last = y ? tn_item_double(s, tn_select(s, y, 0, 3)) : 0;
        if (tn_scope_failed(s))
            say_error("add", tn_scope_error(s));
        else
            printf("add: %g; ", last);
        tn_scope_close(s);
    }
    tn_event_release(event);
    tn_stream_release(stream);
}

static int meet(void)
{
    tn_context *ctx = NULL;
    char library[PATH_MAX] = "";
    const tn_context_options options = {.size = sizeof options, .log = hear};
    if (tn_context_create(&options, &ctx)) {
        say_error("context", tn_last_error());
        return 1;
    }
    for (uint32_t i = 0; i < tn_inspect_candidate_count(ctx); i++) {
        tn_candidate_info c = {.size = sizeof c};
        if (tn_inspect_candidate(ctx, i, &c) || strcmp(c.name, "liar")) continue;
        snprintf(library, sizeof library, "%s", c.library);
        if (c.state != TN_CANDIDATE_LOADED || c.device_count == 0) printf("not used: %s; ", c.reason);
    }
    if (tn_device_count(ctx, "liar") > 0) {
        tn_device device = tn_device_choose(ctx, "liar:0", NULL);
        if (device & TN_DEVICE_MISSING)
            say_error("device", tn_last_error());
        else
            use_device(ctx, device);
    }
    say_findings(ctx);
    context_ends = 1;
    tn_context_destroy(ctx);
    say_loaded(library);
    printf("alive");
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------------------- */

typedef struct liar {
    const char *name;
    const char *outcome; /* what must stand in what is said */
    const char *also;
    int asks_check; /* of tenon check --isolate */
    /* With the layer: the outcome, where it is another, and the finding, as say_findings writes it. */
    const char *validated;
    const char *found;
} liar;

#define ADD "aten::add.Tensor"

static const liar liars[] = {
    {.name = "nothing", .outcome = "add: 8; add: 8; still loaded; alive"},
    {.name = "constructor_crashes", .outcome = "not used: probe: crashed with SIGSEGV"},
    {.name = "constructor_exits", .outcome = "not used: probe: "},
    {.name = "init_crashes", .outcome = "not used: probe: crashed with SIGSEGV"},
    {.name = "init_hangs", .outcome = "not used: probe: "},
    {.name = "init_calls_with_garbage",
     .outcome = "add: 8; add: 8; ",
     .found = "call-outside of validate in host.workspace, -, -, host.workspace, call #, -: the plugin calls "
              "host.workspace with no call"},
    {.name = "enumerates_millions", .outcome = "not used: ", .also = "2000000000 devices"},
    {.name = "enumerates_none_without_reason", .outcome = "not used: ", .also = "the plugin found no device"},
    {.name = "enumerate_fails", .outcome = "not used: ", .also = "enumerate: status 4711"},
    {.name = "short_interface",
     .outcome = "not used: ",
     .also = "interface 'tenon.memory' lacks the required slot"},
    {.name = "sizeless_interface", .outcome = "not used: ", .also = "interface 'tenon.copy': size is 0"},
    {.name = "short_rows", .outcome = "not used: ", .also = "rows of 16 bytes"},
    {.name = "rows_without_table", .outcome = "not used: ", .also = "'rows' is NULL"},
    {.name = "row_without_schema", .outcome = "not used: ", .also = "kernel row: schema is NULL"},
    {.name = "row_with_garbage", .outcome = "not used: ", .also = "aten::add.Tensor(((Tensor self"},
    {.name = "row_with_another_schema",
     .outcome = "not used: ",
     .also = "does not fit the operator's schema"},
    {.name = "row_of_unknown_dtypes", .outcome = "add: 8; add: 8; "},
    {.name = "facts_write_past_the_end",
     .outcome = "not used: ",
     .also = "facts wrote past",
     .validated = "add: 8; add: 8; ",
     .found = "written-past-size of validate in device.facts, -, -, device.facts, call #, -: device.facts "
              "writes past"},
    {.name = "facts_with_odd_alignment", .outcome = "not used: ", .also = "an alignment of 48 bytes"},
    {.name = "open_gives_nothing",
     .outcome = "device: ",
     .also = "open said it is done, but gave no handle",
     .found = "null-handle of validate in device.open, -, -, device.open, call #, -: device.open succeeds "
              "and gives no device"},
    {.name = "stream_gives_nothing",
     .outcome = "device: ",
     .also = "stream.create said it is done, but gave no handle",
     .found = "null-handle of validate in stream.create, -, -, stream.create, call #, -: stream.create "
              "succeeds and gives no stream"},
    {.name = "event_gives_nothing",
     .outcome = "event: ",
     .also = "event.create said it is done, but gave no handle",
     .found = "null-handle of validate in event.create, -, -, event.create, call #, -: event.create succeeds "
              "and gives no event"},
    {.name = "alloc_gives_nothing",
     .outcome = "add: ",
     .also = "memory.alloc said it is done, but gave no handle",
     .found = "null-handle of validate in memory.alloc, -, -, memory.alloc, call #, -: memory.alloc succeeds "
              "and gives no allocation"},
    {.name = "alloc_is_misaligned", .outcome = "add: ", .also = "is not aligned to 64 bytes"},
    {.name = "can_run_lies",
     .outcome = "add: 8; add: 8; finding: ",
     .also = "refused after it had agreed",
     .found = "refused-after-yes of host in -, " ADD ", -"},
    {.name = "kernel_fails_silently", .outcome = "add: ", .also = "aten::add.Tensor"},
    {.name = "kernel_returns_no_status",
     .outcome = "add: ",
     .also = "the kernel of aten::add.Tensor returned -12345, not a valid status code",
     .found = "no-status of validate in kernel.run, " ADD ", 0, kernel.run of " ADD ", call #, -: " ADD
              " returns -12345"},
    {.name = "error_after_success", .outcome = "add: ", .also = "liar: it was not done"},
    {.name = "device_is_lost", .outcome = "add: ", .also = "liar: the device is lost"},
    {.name = "success_without_writing", .outcome = "failed 1/pointwise/aten::add.Tensor", .asks_check = 1},
    {.name = "writes_past_the_output", .outcome = "crashed: Segmentation fault", .asks_check = 1},
    {.name = "uses_a_dead_call",
     .outcome = "add: ",
     .also = "workspace: the call is over, or runs on another thread",
     .found = "call-outside of validate in host.workspace, -, -, host.workspace, call #, -: "},
    {.name = "calls_from_another_thread",
     .outcome = "add: ",
     .also = "liar: the host refused",
     .found = "call-outside of validate in host.workspace, " ADD ", 0, host.workspace of " ADD
              ", call #, kernel.run of " ADD ", call #: "},
    {.name = "kernel_calls_operators",
     .outcome = "add: ",
     .also = "the kernel calls an operator, and its row does not have the flag TN_ROW_SCOPE",
     .found = "wrong-place of validate in host.call_scope, " ADD ", 0, host.call_scope of " ADD
              ", call #, kernel.run of " ADD ", call #: "},
    {.name = "resizes_what_is_not_its_own",
     .outcome = "add: 8; add: 8; ",
     .found = "bad-value of validate in host.resize_output, " ADD ", 0, host.resize_output of " ADD
              ", call #, kernel.run of " ADD ", call #: "},
    {.name = "thread_outlives_shutdown", .outcome = "add: 8; add: 8; "},
    {.name = "events_are_never_done", .outcome = "add: 8; add: 8; "},
    {.name = "takes_a_known_name", .outcome = "not used: "},
    {.name = "row_without_size",
     .outcome =
         "not used: kernel row 0 of liar: size is 0; set it to sizeof(tn_kernel_row); add: 8; add: 8; ",
     .found =
         "no-size of validate in plugin.get_interface, -, -, plugin.get_interface, call #, -: the row of " ADD
         " has size 0"},
    {.name = "alloc_fails_and_writes",
     .outcome = "add: 8; add: 8; ",
     .found =
         "written-on-failure of validate in memory.alloc, -, -, memory.alloc, call #, -: memory.alloc fails "
         "and has written 'out_allocation'"},
    {.name = "uses_the_call_before", /* its frame is that of the next: alone, the host takes it for that */
     .outcome = "add: 8; add: 8; ",
     .validated = "add: 8; add: add: host.workspace: the call is over, or runs on another thread; ",
     .found = "call-outside of validate in host.workspace, " ADD ", 0, host.workspace of " ADD
              ", call #, kernel.run of " ADD ", call #: "},
    {.name = "kernel_drops_its_output",
     .outcome = "add: ",
     .validated = "add: 8; add: 8; ",
     .found = "written-directly of validate in kernel.run, " ADD ", 0, kernel.run of " ADD
              ", call #, -: the kernel of " ADD " replaces output 0"},
    {.name = "unloads", .outcome = "add: 8; add: 8; unloaded; "},
    {.name = "unloads_with_a_thread",
     .outcome = "add: 8; add: 8; log: ",
     .also =
         "thread-outlives-shutdown: thread # has the library's code on its stack after quiesce and shutdown, "
         "although the library says that it can be unloaded; it stays loaded; still loaded; "},
    {.name = "unloads_with_a_busy_thread", .outcome = "add: 8; add: 8; still loaded; "},
    {.name = "unloads_before_quiet",
     .outcome = "add: 8; add: 8; log: ",
     .also = "quiesce-failed: quiesce returned # (wrong state); the library stays loaded; still loaded; "},
    {.name = "nameless", .outcome = "not used: ", .also = "lacks the required slot 'type'"},
};

/* ---- the process that watches -------------------------------------------------------------------------- */

static char folder[PATH_MAX];

/* Runs a command and keeps what it says on one line. Its status: 0 to 255, or 256 and more after a signal. */
static int run(const char *command, char *said, size_t bytes)
{
    FILE *pipe = popen(command, "r");
    size_t used = pipe ? fread(said, 1, bytes - 1, pipe) : 0;
    said[used] = 0;
    for (char *at = said; *at; at++)
        if (*at == '\n') *at = ' ';
    while (pipe && fgetc(pipe) != EOF) continue;
    int status = pipe ? pclose(pipe) : -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + status;
}

static int write_manifest(const liar *l, const char *liars_folder)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/liar.json", folder);
    FILE *f = fopen(path, "w");
    if (!f) return 0;
    fprintf(f, "{\"tenon_manifest\": 1, \"name\": \"liar\", \"library\": \"%s/lib%s.so\"}", liars_folder,
            l->name);
    return fclose(f) == 0 && chmod(path, 0644) == 0;
}

static int watch(const liar *l, int validated, const char *self, const char *liars_folder, const char *tenon)
{
    char command[3 * PATH_MAX], said[16384];
    if (!write_manifest(l, liars_folder)) return 0;
    if (validated)
        setenv("TENON_VALIDATE", "1", 1);
    else
        unsetenv("TENON_VALIDATE");
    if (l->asks_check)
        snprintf(command, sizeof command,
                 "'%s' check '%s/lib%s.so' --isolate --jobs 1 --filter '^1/.*aten::add.Tensor/float32' 2>&1",
                 tenon, liars_folder, l->name);
    else
        snprintf(command, sizeof command, "timeout 120 '%s' --meet 2>&1", self);
    int status = run(command, said, sizeof said), other = validated && l->validated;
    const char *outcome = other ? l->validated : l->outcome, *also = other ? NULL : l->also;
    const char *end = l->asks_check ? "" : "alive", *found = validated ? l->found : NULL;
    int good = status == (l->asks_check ? 1 : 0) && strstr(said, outcome) != NULL &&
               (!also || strstr(said, also)) && (!found || strstr(said, found)) && strstr(said, end);
    printf("%s %-9s %-31s %.*s\n", good ? "ok  " : "FAIL", validated ? "validated" : "alone", l->name,
           good ? 180 : 16000, said);
    if (!good)
        printf("     expected '%s' and '%s' and '%s', status %d\n", outcome, also ? also : "",
               found ? found : "", status);
    return good;
}

int main(int count, char **words)
{
    char path[2 * PATH_MAX + 2], cpu[PATH_MAX], home[PATH_MAX];
    int passed = 0, asked = 0, all = (int)(sizeof liars / sizeof *liars);
    if (count == 2 && !strcmp(words[1], "--meet")) return meet();
    if (count < 4) return 2;
    if (!realpath(words[1], home) || snprintf(folder, sizeof folder, "%.4000s/met-XXXXXX", home) < 0 ||
        !mkdtemp(folder) || chmod(folder, 0755) || !realpath(words[3], cpu))
        return 2;
    snprintf(path, sizeof path, "%s:%s", folder, cpu);
    setenv("TENON_PLUGIN_PATH", path, 1);
    setenv("XDG_CACHE_HOME", folder, 1);
    for (int i = 0; i < 2 * all; i++) {
        if (count >= 5 && !strstr(liars[i / 2].name, words[4])) continue;
        passed += watch(&liars[i / 2], i % 2, words[0], home, words[2]);
        asked++;
    }
    snprintf(path, sizeof path, "rm -rf '%s'", folder);
    if (system(path)) printf("the folder %s could not be removed\n", folder);
    printf("%d passed, %d failed, 0 skipped\n", passed, asked - passed);
    return passed != asked;
}
