/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon replay`: plays what TENON_RECORD wrote on a plugin and says the first difference; see
 * replay/replay.h. */
#include "cmd.h"
#include "replay/replay.h"

#include <stdlib.h>
#include <string.h>

#include "record_format.h"

static const char help[] =
    "usage: tenon replay FILE --plugin PLUGIN.so [--of NAME]\n"
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
    "  --list              print the calls\n"
    "\n"
    "Status 0: all as recorded, 1: not, or the file is damaged, 2: called wrongly.\n";

typedef struct request {
    const char *file, *plugin, *of;
    int list;
} request;

static int parse(int argc, char **argv, request *r)
{
    for (int i = 1; i < argc; i++) {
        const char **value = !strcmp(argv[i], "--plugin") ? &r->plugin
                             : !strcmp(argv[i], "--of")   ? &r->of
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

/* Index of the plugin whose calls are played, -1 when there is none of that name. */
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

static int play_all(replay_player *p, const replay_file *f)
{
    for (uint64_t i = 0; i < f->n_records; i++) {
        replay_cursor c = f->records[i].payload;
        uint32_t tag = f->records[i].tag;
        int status = tag == RECORD_CALL     ? replay_slot(p, &c)
                     : tag == RECORD_KERNEL ? replay_kernel(p, &c)
                                            : 0;
        if (tag < RECORD_PLUGIN || tag > RECORD_END) {
            snprintf(p->error, sizeof(p->error), "record %llu is of an unknown kind %u",
                     (unsigned long long)i, tag);
            status = -1;
        }
        if (status) return status;
    }
    return 0;
}

static int report(const replay_player *p, const replay_file *f, const char *from, int damaged)
{
    printf("%llu kernels and %llu other calls of %s played on %s %s, %llu passed over\n",
           (unsigned long long)p->kernels_played, (unsigned long long)p->slots, from, p->info->name,
           p->info->version, (unsigned long long)p->passed_over);
    if (p->kernels_absent)
        printf("%llu calls have no kernel here that takes them, the first of %s\n",
               (unsigned long long)p->kernels_absent, p->first_absent);
    if (p->differences)
        printf("%llu differences; the first: %s\n", (unsigned long long)p->differences, p->difference);
    else if (!damaged && f->whole)
        printf("all as recorded%s\n", p->same ? ", bit for bit" : ", within tolerance");
    if (damaged) printf("stopped: %s\n", p->error);
    if (!f->whole) printf("the file %s\n", f->problem);
    return p->differences || damaged || !f->whole ? CMD_FAILED : CMD_OK;
}

static int play(const replay_file *f, const request *r)
{
    replay_player p = {.file = f};
    char name[96] = "";
    int status = CMD_FAILED;
    if (replay_load(&p, r->plugin)) {
        fprintf(stderr, "tenon replay: %s: %s\n", r->plugin, p.error);
    } else {
        int64_t index = choose(f, r->of, p.info->name, name, sizeof(name));
        if (index < 0) {
            fprintf(stderr, "tenon replay: %s has no calls%s%s\n", r->file, r->of ? " of plugin " : "",
                    r->of ? r->of : "");
        } else {
            p.index = (uint32_t)index;
            p.same = strcmp(name, p.info->name) == 0;
            int damaged = play_all(&p, f);
            status = report(&p, f, name, damaged);
        }
    }
    replay_unload(&p);
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
