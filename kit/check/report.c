/* SPDX-License-Identifier: Apache-2.0 */
/* The report as text, progress, and tables; report_json.c and report_html.c write the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "tiers.h"

#define MAX_SHOWN 60

/* ---- Tables -------------------------------------------------------------------------------------------- */

cJSON *check_table(check_run *run, const char *key, const char *title, const char *const *columns)
{
    cJSON *table = cJSON_CreateObject(), *names;
    if (!run->tables) run->tables = cJSON_CreateObject();
    cJSON_AddItemToObject(run->tables, key, table);
    cJSON_AddStringToObject(table, "title", title);
    names = cJSON_AddArrayToObject(table, "columns");
    for (; *columns; columns++) cJSON_AddItemToArray(names, cJSON_CreateString(*columns));
    cJSON_AddArrayToObject(table, "rows");
    return table;
}

void check_table_row(cJSON *table, cJSON *row)
{
    cJSON_AddItemToArray(cJSON_GetObjectItem(table, "rows"), row);
}

const char *check_cell_text(const cJSON *cell, char *buffer, size_t bytes)
{
    if (cJSON_IsString(cell)) return cell->valuestring;
    if (!cJSON_IsNumber(cell)) return "";
    if (cell->valuedouble == (double)(int64_t)cell->valuedouble && cell->valuedouble < 1e15 &&
        cell->valuedouble > -1e15)
        snprintf(buffer, bytes, "%lld", (long long)cell->valuedouble);
    else
        snprintf(buffer, bytes, "%.4g", cell->valuedouble);
    return buffer;
}

/* ---- Colours and progress ------------------------------------------------------------------------------ */

static const char *color(const char *code)
{
    static int on = -1;
    if (on < 0) on = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    return on ? code : "";
}
#define RED    color("\033[31m")
#define GREEN  color("\033[32m")
#define YELLOW color("\033[33m")
#define BOLD   color("\033[1m")
#define PLAIN  color("\033[0m")

static int progress_on(void)
{
    static int on = -1;
    if (on < 0) on = isatty(STDERR_FILENO) && isatty(STDOUT_FILENO);
    return on;
}

#define LINE_SECONDS 10 /* between two lines of progress where there is no terminal */

void check_progress(const check_run *run, uint32_t done, const char *name)
{
    static double last;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    if (!last) last = progress_on() ? 0 : seconds;
    if (seconds - last < (progress_on() ? 0.05 : LINE_SECONDS) && (done != run->count || !progress_on()))
        return;
    last = seconds;
    fprintf(stderr,
            progress_on() ? "\r\033[K%u of %u, %u not as expected  %.60s"
                          : "%u of %u, %u not as expected; %.60s\n",
            done, run->count, run->bad, name);
    fflush(stderr);
}

void check_progress_end(void)
{
    if (progress_on()) fputs("\r\033[K", stderr);
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static void print_head(const check_run *run)
{
    const cJSON *s = run->subject;
    printf("%s%s %s%s, device %s", BOLD, text_of(s, "plugin"), text_of(s, "version"), PLAIN,
           text_of(s, "device"));
    if (*text_of(s, "name")) printf(" (%s, %s)", text_of(s, "name"), text_of(s, "class"));
    printf(", against %s\n%s\n", *text_of(s, "compared_with") ? text_of(s, "compared_with") : "nothing",
           text_of(s, "library"));
    if (*text_of(s, "experimental"))
        printf("experimental interfaces: %s (any version may change them)\n", text_of(s, "experimental"));
}

/* What was logged while the case ran. */
static void print_log(const char *log)
{
    for (size_t n; *log; log += n + (log[n] == '\n')) {
        n = strcspn(log, "\n");
        printf("    log: %.*s\n", (int)n, log);
    }
}

/* A case that is not as expected, or any with --all. */
static void print_entry(const check_run *run, const check_entry *e)
{
    const check_result *r = &e->result;
    int bad = check_is_bad(run, e);
    const char *word = check_outcome_name(r->outcome), *shade = bad                          ? RED
                                                                : r->outcome == CHECK_PASSED ? GREEN
                                                                                             : YELLOW;
    if (bad && r->outcome == CHECK_PASSED) word = "passed, though expected to fail";
    printf("%s%s%s %s", shade, word, PLAIN, e->name);
    if (r->way && r->outcome == CHECK_PASSED) printf(" (%s)", check_way_name(r->way));
    putchar('\n');
    if (r->reason[0]) printf("    %s\n", r->reason);
    if (r->excuse[0]) printf("    listed: %s\n", r->excuse);
    if (r->outcome == CHECK_FAILED || r->outcome == CHECK_CRASHED) print_log(r->log);
}

/* Cases that call one slot by hand, and have its name, lead to the fault. Those about waiting come first: without a wait the
 * other ones fail, too. */
static int rank_of(const check_entry *e)
{
    if (strncmp(e->name, "0/unfinished/", 13) == 0) return 0;
    return strncmp(e->name, "0/slot/", 7) == 0 ? 1 : 2;
}

static void print_bad(const check_run *run)
{
    uint32_t shown = 0, left = 0;
    for (int rank = 0; rank < 3; rank++) {
        for (uint32_t i = 0; i < run->count; i++) {
            const check_entry *e = &run->entries[i];
            if (!check_is_bad(run, e) || rank_of(e) != rank) continue;
            if (shown++ < MAX_SHOWN)
                print_entry(run, e);
            else
                left++;
        }
    }
    if (left) printf("... and %u more; --json has all of them\n", left);
}

static void print_entries(const check_run *run)
{
    if (!run->options->all) print_bad(run);
    for (uint32_t i = 0; i < run->count && run->options->all; i++) print_entry(run, &run->entries[i]);
}

/* How a debugger shows the first crash. Names are matched as expressions: what has a meaning there becomes a dot. */
static void print_debugger(const check_run *run)
{
    const check_options *o = run->options;
    uint32_t i = 0;
    while (i < run->count && run->entries[i].result.outcome != CHECK_CRASHED) i++;
    if (i == run->count || !check_is_bad(run, &run->entries[i])) return;
    printf("to see where: gdb -ex run --args tenon check %s%s --jobs 0 --filter '^",
           o->plugin ? "" : "--device ", o->plugin ? o->plugin : o->device);
    for (const char *c = run->entries[i].name; *c; c++) putchar(strchr("()[]{}+*?|^$\\'", *c) ? '.' : *c);
    puts("$'");
}

/* At most `most` of them. */
static void print_names(const char *what, const cJSON *list, int most)
{
    const cJSON *item;
    int column = 0, count = cJSON_GetArraySize(list), shown = 0;
    if (!count) return;
    printf("        %s:", what);
    cJSON_ArrayForEach(item, list)
    {
        if (shown++ == most) {
            printf(" and %d more", count - most);
            break;
        }
        column += (int)strlen(item->valuestring) + 1;
        if (column > 96) {
            fputs("\n           ", stdout);
            column = (int)strlen(item->valuestring) + 1;
        }
        printf(" %s", item->valuestring);
    }
    putchar('\n');
}

static void print_tier(uint32_t i, const check_tier *t, int all)
{
    uint32_t wrong = t->outcomes[CHECK_FAILED] + t->outcomes[CHECK_CRASHED];
    const char *word = t->bad                                   ? "not as expected"
                       : t->whole                               ? "whole"
                       : wrong                                  ? "as expected"
                       : t->outcomes[CHECK_SKIPPED] == t->count ? "not checked"
                                                                : "not whole";
    printf("tier %u  %s%s%s: %s; %u passed", i,
           t->bad     ? RED
           : t->whole ? GREEN
                      : YELLOW,
           word, PLAIN, check_tier_name(i), t->outcomes[CHECK_PASSED]);
    for (int32_t k = CHECK_FAILED; k < CHECK_OUTCOMES; k++) {
        if (t->outcomes[k]) printf(", %u %s", t->outcomes[k], check_outcome_name(k));
    }
    putchar('\n');
    print_names("no kernel, the CPU answers", t->missing, 100);
    print_names("the kernel exists but lacks this operator or a dtype of it, and the CPU answers", t->lacking,
                100);
    print_names("no kernel, and none is required", t->optional, all ? 1000 : 12);
}

/* The reasons of skipped cases, each once. */
static void print_skips(const check_run *run)
{
    for (uint32_t i = 0; i < run->count; i++) {
        const check_result *r = &run->entries[i].result;
        uint32_t count = 1;
        int seen = 0;
        if (r->outcome != CHECK_SKIPPED || run->options->all) continue;
        for (uint32_t k = 0; k < i && !seen; k++)
            seen = run->entries[k].result.outcome == CHECK_SKIPPED &&
                   strcmp(run->entries[k].result.reason, r->reason) == 0;
        if (seen) continue;
        for (uint32_t k = i + 1; k < run->count; k++)
            count += run->entries[k].result.outcome == CHECK_SKIPPED &&
                     strcmp(run->entries[k].result.reason, r->reason) == 0;
        printf("%sskipped%s %s%s: %s\n", YELLOW, PLAIN, run->entries[i].name, count > 1 ? " and others" : "",
               r->reason);
    }
}

static void print_table(const cJSON *table)
{
    const cJSON *columns = cJSON_GetObjectItem(table, "columns"), *rows = cJSON_GetObjectItem(table, "rows"),
                *row;
    int width[32] = {0}, n = cJSON_GetArraySize(columns);
    char buffer[64];
    if (n > 32) n = 32;
    for (int i = 0; i < n; i++) width[i] = (int)strlen(cJSON_GetArrayItem(columns, i)->valuestring);
    cJSON_ArrayForEach(row, rows)
    {
        const cJSON *cell = row->child;
        for (int i = 0; i < n && cell; i++, cell = cell->next) {
            int length = (int)strlen(check_cell_text(cell, buffer, sizeof buffer));
            if (length > width[i]) width[i] = length;
        }
    }
    printf("\n%s%s%s\n", BOLD, cJSON_GetObjectItem(table, "title")->valuestring, PLAIN);
    for (int i = 0; i < n; i++)
        printf("%s%-*s", i ? "  " : "", width[i], cJSON_GetArrayItem(columns, i)->valuestring);
    putchar('\n');
    cJSON_ArrayForEach(row, rows)
    {
        const cJSON *cell = row->child;
        for (int i = 0; i < n && cell; i++, cell = cell->next)
            printf(cJSON_IsNumber(cell) ? "%s%*s" : "%s%-*s", i ? "  " : "", width[i],
                   check_cell_text(cell, buffer, sizeof buffer));
        putchar('\n');
    }
}

static void print_text(const check_run *run)
{
    check_tier tiers[CHECK_TIERS];
    const cJSON *table;
    if (run->subject) print_head(run);
    if (run->fatal[0]) printf("%s%s%s: %s\n", RED, "failed", PLAIN, run->fatal);
    print_entries(run);
    print_debugger(run);
    print_skips(run);
    check_tiers_init(tiers, run);
    for (uint32_t i = 0; i < CHECK_TIERS && !strcmp(run->options->mode, "test"); i++) {
        if (tiers[i].count) print_tier(i, &tiers[i], run->options->all);
    }
    check_tiers_finish(tiers);
    cJSON_ArrayForEach(table, run->tables) print_table(table);
    if (run->note[0]) printf("\n%s\n", run->note);
    if (!run->fatal[0] || run->count)
        printf("%s%s%s: %u cases, %u not as expected%s%s\n", check_verdict(run) ? RED : GREEN,
               check_verdict(run) ? "failed"
               : run->note[0]     ? "measured"
                                  : "passed",
               PLAIN, run->count, run->bad, run->fatal[0] ? "; " : "", run->fatal);
}

static int32_t write_json(const check_run *run)
{
    cJSON *j = check_report_json(run);
    char *text = cJSON_Print(j);
    int to_stdout = strcmp(run->options->json, "-") == 0;
    FILE *out = to_stdout ? stdout : fopen(run->options->json, "w");
    int32_t failed = !text || !out || fputs(text, out) < 0 || fputc('\n', out) < 0;
    if (out && !to_stdout) failed |= fclose(out) != 0;
    free(text);
    cJSON_Delete(j);
    return failed;
}

int32_t check_report(const check_run *run)
{
    const check_options *o = run->options;
    int32_t failed = 0;
    if (!o->json || strcmp(o->json, "-") != 0) print_text(run);
    if (o->json && write_json(run)) failed = fprintf(stderr, "tenon check: cannot write %s\n", o->json) > 0;
    if (o->html && check_report_html(run, o->html))
        failed = fprintf(stderr, "tenon check: cannot write %s\n", o->html) > 0;
    return failed;
}
