/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases from a folder of recorded calls (--golden), one for each line, run by the code of `tenon golden`.
 * Every worker reads the folder, so the operator and dtype of a line are found without parsing it.
 */
#include "../golden/golden.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sources.h"

typedef struct golden_line {
    const char *name; /* of the file of cases */
    long offset;
} golden_line;

/* ---- One case ------------------------------------------------------------------------------------------ */

typedef struct watcher {
    check_target *t;
    check_watch watch;
    int32_t way;
    char fallbacks[560];
} watcher;

/* Forward and backward are watched separately; the worse way counts. */
static void watch(void *user, int on)
{
    watcher *w = user;
    if (on) {
        check_watch_begin(w->t, &w->watch);
        return;
    }
    int32_t way = check_watch_end(w->t, &w->watch);
    if (way > w->way) w->way = way;
    if (w->watch.count && !w->fallbacks[0]) memcpy(w->fallbacks, w->watch.fallbacks, sizeof w->fallbacks);
}

static cJSON *read_line(const char *path, long offset)
{
    FILE *in = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    cJSON *line = NULL;
    if (in && !fseek(in, offset, SEEK_SET) && getline(&text, &room, in) > 0) line = cJSON_Parse(text);
    free(text);
    if (in) fclose(in);
    return line;
}

static void settle(const golden_result *r, const watcher *w, check_result *out)
{
    out->way = w->way;
    out->difference = r->difference;
    if (r->outcome == GOLDEN_ABSENT)
        check_skip(out, "Tenon has no such operator");
    else if (r->outcome != GOLDEN_PASSED)
        check_fail(out, "%s", r->reason);
    else if (w->way == CHECK_WAY_CPU)
        check_absent(out, "the CPU answers for %s", w->fallbacks);
}

static void run_line(check_target *t, const check_case *c, check_result *out)
{
    const golden_line *l = c->data;
    watcher w = {.t = t};
    golden_file file = {.ctx = t->ctx, .device = t->device, .watch = watch, .user = &w};
    golden_result r;
    char path[4200];
    snprintf(path, sizeof path, "%s/cases/%s.jsonl", t->options->golden, l->name);
    cJSON *line = read_line(path, l->offset);
    snprintf(path, sizeof path, "%s/cases/%s.safetensors", t->options->golden, l->name);
    if (!check_that(out, line != NULL, "the recorded call cannot be read")) return;
    if (tn_safetensors_open(t->ctx, path, &file.tensors)) {
        check_fail_with_error(out, NULL, path);
    } else {
        golden_case(&file, line, &r);
        settle(&r, &w, out);
        tn_safetensors_close(file.tensors);
    }
    cJSON_Delete(line);
    t->error_line[0] = 0; /* some cases are refusals, which are logged */
}

/* ---- The folder ---------------------------------------------------------------------------------------- */

/* Copies the text behind `key`: "op":"aten::add.Tensor". 0 when it is not there. */
static int text_behind(const char *line, const char *key, char *out, size_t bytes)
{
    const char *at = strstr(line, key);
    if (!at) return 0;
    at += strlen(key);
    snprintf(out, bytes, "%.*s", (int)strcspn(at, "\""), at);
    return 1;
}

static void add_lines(check_list *list, const char *folder, const char *name)
{
    char path[4200], op[96], dtype[16], *line = NULL;
    size_t room = 0;
    long offset = 0, id = 0;
    snprintf(path, sizeof path, "%s/cases/%s.jsonl", folder, name);
    FILE *in = fopen(path, "r");
    const char *kept = check_text(list, "%s", name);
    for (ssize_t n = 0; in && (n = getline(&line, &room, in)) > 0; offset += n, id++) {
        if (!text_behind(line, "\"op\":\"", op, sizeof op)) continue;
        if (!text_behind(line, "\"dtype\":\"", dtype, sizeof dtype)) strcpy(dtype, "none");
        golden_line *data = check_memory(list, sizeof *data);
        *data = (golden_line){kept, offset};
        check_add(list, &(check_case){.tier = 1, .tags = CHECK_TAG_OPTIONAL, .run = run_line, .data = data},
                  "1/golden/%s/%s/%s:%ld", op, dtype, name, id);
    }
    free(line);
    if (in) fclose(in);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_case_file(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 6 && strcmp(entry->d_name + n - 6, ".jsonl") == 0;
}

static void run_no_folder(check_target *t, const check_case *c, check_result *out)
{
    check_fail(out, "there is no folder %s/cases", t->options->golden);
}

void check_golden_cases(check_target *t, check_list *list)
{
    char path[4200];
    struct dirent **files;
    if (!t->options->golden) return;
    snprintf(path, sizeof path, "%s/cases", t->options->golden);
    int count = scandir(path, &files, is_case_file, by_name);
    if (count < 0) {
        check_add(list, &(check_case){.tier = 1, .run = run_no_folder}, "1/golden/folder");
        return;
    }
    for (int i = 0; i < count; i++) {
        files[i]->d_name[strlen(files[i]->d_name) - 6] = 0;
        add_lines(list, t->options->golden, files[i]->d_name);
        free(files[i]);
    }
    free(files);
}
