/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon replay`: plays what TENON_RECORD wrote on a plugin and says the first difference; see
 * replay/replay.h. */
#include "cmd.h"
#include "replay/replay.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record_format.h"

static const char help[] =
    "usage: tenon replay FILE --plugin PLUGIN.so [--of NAME] [--timeout S]\n"
    "       tenon replay FILE --list\n"
    "\n"
    "Plays a recording (TENON_RECORD=FILE PROGRAM) on a plugin, without the program, the model or the "
    "device\n"
    "it ran on, and compares what comes back: bit for bit on the plugin that was recorded, within what the\n"
    "dtype allows on another one.\n"
    "\n"
    "  --plugin PLUGIN.so  the plugin to play on\n"
    "  --of NAME           whose calls are played, when several plugins were recorded (default: that of the\n"
    "                      same name, else the one with the most kernels)\n"
    "  --timeout S         seconds that one call may take (default 120)\n"
    "  --list              print the calls\n"
    "\n"
    "Status 0: all as recorded, 1: not, or the file is damaged, 2: wrong arguments.\n";

typedef struct request {
    const char *file, *plugin, *of, *seconds;
    unsigned timeout;
    int list;
} request;

/* 1 unless the text is a number of seconds up to a day. */
static int read_timeout(request *r)
{
    char *end;
    errno = 0;
    unsigned long seconds = r->seconds ? strtoul(r->seconds, &end, 10) : 120;
    if (r->seconds && (*end || end == r->seconds || *r->seconds == '-')) return 1;
    r->timeout = (unsigned)seconds;
    return errno || seconds < 1 || seconds > 86400;
}

static int parse(int argc, char **argv, request *r)
{
    for (int i = 1; i < argc; i++) {
        const char **value = !strcmp(argv[i], "--plugin")    ? &r->plugin
                             : !strcmp(argv[i], "--of")      ? &r->of
                             : !strcmp(argv[i], "--timeout") ? &r->seconds
                                                             : NULL;
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            fputs(help, stdout);
            return CMD_OK;
        }
        if (value && i + 1 < argc)
            *value = argv[++i];
        else if (!strcmp(argv[i], "--list"))
            r->list = 1;
        else if (argv[i][0] != '-' && !r->file)
            r->file = argv[i];
        else {
            fprintf(stderr, "tenon replay: unexpected argument '%s'\n\n%s", argv[i], help);
            return CMD_USAGE;
        }
    }
    if (read_timeout(r)) {
        fprintf(stderr, "tenon replay: --timeout '%s' is not a number of seconds from 1 to 86400\n\n%s",
                r->seconds, help);
        return CMD_USAGE;
    }
    if (r->file && (r->plugin || r->list)) return -1;
    fprintf(stderr, "tenon replay: a file and --plugin or --list are needed\n\n%s", help);
    return CMD_USAGE;
}

/* ---- Listing ----------------------------------------------------------------------------------------- */

static void list_record(const replay_record *record)
{
    replay_cursor c = record->payload;
    char name[96], version[64];
    if (record->tag == RECORD_PLUGIN) {
        uint32_t index = replay_u32(&c);
        replay_text(&c, name, sizeof(name));
        replay_text(&c, version, sizeof(version));
        printf("plugin %u: %s %s\n", index, name, version);
    } else if (record->tag == RECORD_CALL || record->tag == RECORD_KERNEL) {
        uint64_t number = replay_u64(&c);
        uint32_t index = replay_u32(&c), status = replay_u32(&c);
        replay_text(&c, name, sizeof(name));
        printf("%8llu  %u  %s%s", (unsigned long long)number, index,
               record->tag == RECORD_KERNEL ? "kernel " : "", name);
        uint32_t count = record->tag == RECORD_CALL ? replay_u32(&c) : 0;
        for (uint32_t i = 0; i < count && !c.bad; i++) {
            uint32_t type = replay_u32(&c);
            const char *arrow = replay_u32(&c) ? "-> " : "";
            if (type == RECORD_TEXT) {
                replay_text(&c, version, sizeof(version));
                printf(" \"%s\"", version);
            } else {
                printf(" %s%s%llx", arrow, type == RECORD_BYTES ? "bytes:" : "0x",
                       (unsigned long long)replay_u64(&c));
            }
        }
        printf(status ? "  status %d\n" : "\n", (int)status);
    }
}

/* ---- Playing ----------------------------------------------------------------------------------------- */

/* Index of the plugin whose calls are played, -1 if no plugin has that name. */
static int64_t choose(const replay_file *f, const char *wish, const char *own, char *out_name, size_t room)
{
    uint64_t calls[64] = {0}; /* kernels count most */
    int64_t best = -1, named = -1;
    char names[64][96] = {""};
    for (uint64_t i = 0; i < f->n_records; i++) {
        replay_cursor c = f->records[i].payload;
        if (f->records[i].tag == RECORD_PLUGIN) {
            uint32_t index = replay_u32(&c);
            if (index >= 64) continue;
            replay_text(&c, names[index], sizeof(names[index]));
            if (!strcmp(names[index], wish ? wish : own)) named = index;
        } else if (f->records[i].tag == RECORD_KERNEL || f->records[i].tag == RECORD_CALL) {
            replay_u64(&c);
            uint32_t index = replay_u32(&c);
            if (index < 64) calls[index] += f->records[i].tag == RECORD_KERNEL ? 1000000 : 1;
        }
    }
    for (int64_t i = 0; i < 64; i++)
        if (calls[i] && (best < 0 || calls[i] > calls[best])) best = i;
    if (wish || (named >= 0 && calls[named] >= 1000000)) best = named;
    if (best >= 0) snprintf(out_name, room, "%s", names[best]);
    return best;
}

/* ---- Crashes ----------------------------------------------------------------------------------------- */

/* The player whose call runs now; the handler of signals reads it. */
static const replay_player *playing;

static void say(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* The plugin crashed, or did not return in time: says in which call, and ends. */
static void on_signal(int number)
{
    static const struct {
        int number;
        const char *text;
    } texts[] = {{SIGSEGV, "crashed with SIGSEGV"},
                 {SIGBUS, "crashed with SIGBUS"},
                 {SIGFPE, "crashed with SIGFPE"},
                 {SIGILL, "crashed with SIGILL"},
                 {SIGABRT, "aborted"},
                 {SIGALRM, "did not return in time"}};
    say("tenon replay: ");
    say(playing && playing->now[0] ? playing->now : "loading the plugin");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].number != number) continue;
        say(": the plugin ");
        say(texts[i].text);
    }
    say("\n");
    _exit(CMD_FAILED);
}

static void catch_crashes(const replay_player *p)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
    static char stack[16384]; /* a crash may have used up the usual one */
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    playing = p;
    sigaltstack(&other, NULL);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) sigaction(numbers[i], &action, NULL);
}

static int play_record(replay_player *p, const replay_record *record)
{
    replay_cursor c = record->payload;
    switch (record->tag) {
    case RECORD_CALL:
        return replay_slot(p, &c);
    case RECORD_KERNEL:
        return replay_kernel(p, &c);
    case RECORD_PLUGIN:
    case RECORD_BLOB:
        return 0;
    default:
        snprintf(mini_host_error, sizeof(mini_host_error), "a record is of the unknown kind %u", record->tag);
        return -1;
    }
}

static int play_all(replay_player *p, const replay_file *f, unsigned timeout)
{
    int status = 0;
    for (uint64_t i = 0; i < f->n_records && !status; i++) {
        alarm(timeout);
        status = play_record(p, &f->records[i]);
    }
    alarm(0);
    return status;
}

static int report(const replay_player *p, const replay_file *f, const char *from, int damaged)
{
    printf("%llu kernel%s and %llu other call%s of %s played on %s %s, %llu passed over\n",
           (unsigned long long)p->kernels_played, p->kernels_played == 1 ? "" : "s",
           (unsigned long long)p->slots, p->slots == 1 ? "" : "s", from, p->info->name, p->info->version,
           (unsigned long long)p->passed_over);
    if (p->kernels_absent)
        printf("%llu call%s without a kernel in this plugin, the first of %s\n",
               (unsigned long long)p->kernels_absent, p->kernels_absent == 1 ? "" : "s", p->first_absent);
    if (p->differences)
        printf("%llu difference%s; the first: %s\n", (unsigned long long)p->differences,
               p->differences == 1 ? "" : "s", p->difference);
    else if (!damaged && f->whole)
        printf("all as recorded%s\n", p->same ? ", bit for bit" : ", within tolerance");
    if (damaged) printf("stopped: %s\n", mini_host_error);
    if (!f->whole) printf("the file %s\n", f->problem);
    return p->differences || damaged || !f->whole ? CMD_FAILED : CMD_OK;
}

static int play(const replay_file *f, const request *r)
{
    replay_player p = {.file = f};
    char name[96] = "";
    int status = CMD_FAILED;
    catch_crashes(&p);
    if (replay_load(&p, r->plugin)) {
        fprintf(stderr, "tenon replay: %s: %s\n", r->plugin, mini_host_error);
    } else {
        int64_t index = choose(f, r->of, p.info->name, name, sizeof(name));
        if (index < 0) {
            fprintf(stderr, "tenon replay: %s has no calls%s%s\n", r->file, r->of ? " of plugin " : "",
                    r->of ? r->of : "");
            if (!f->whole) fprintf(stderr, "the file %s\n", f->problem);
        } else {
            p.index = (uint32_t)index;
            p.same = strcmp(name, p.info->name) == 0;
            int damaged = play_all(&p, f, r->timeout);
            status = report(&p, f, name, damaged);
        }
    }
    snprintf(p.now, sizeof(p.now), "closing the plugin");
    replay_unload(&p);
    playing = NULL;
    return status;
}

int cmd_replay(int argc, char **argv)
{
    request r = {0};
    replay_file f;
    int status = parse(argc, argv, &r);
    if (status >= 0) return status;
    if (replay_open(&f, r.file)) {
        fprintf(stderr, "tenon replay: %s %s\n", r.file, f.problem);
        replay_close(&f);
        return CMD_FAILED;
    }
    status = CMD_OK;
    if (r.list) {
        for (uint64_t i = 0; i < f.n_records; i++) list_record(&f.records[i]);
        if (!f.whole) {
            printf("the file %s\n", f.problem);
            status = CMD_FAILED;
        }
    }
    if (r.plugin) status = play(&f, &r);
    replay_close(&f);
    return status;
}
