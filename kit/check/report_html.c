/* SPDX-License-Identifier: Apache-2.0 */
/* The report as one self-contained page: tiers, a map of operators by dtype, tables, cases. */
#include "tiers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DTYPES 24

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<style>\n"
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1200px;padding:0 1em;color:#222}\n"
    "table{border-collapse:collapse;margin:.5em 0}td,th{padding:2px 8px;border:1px solid "
    "#ddd;text-align:left}\n"
    "th{background:#f4f4f4}td.n{text-align:right;font-variant-numeric:tabular-nums}code{font-size:13px}\n"
    ".passed{background:#d9f2d9}.failed,.crashed{background:#f7c6c5}.absent{background:#f6e7b5}\n"
    ".skipped{background:#e8e8e8}.bad{outline:2px solid #c00}details{margin:.5em 0}summary{cursor:pointer}\n"
    "</style>\n";

/* ---- Pieces -------------------------------------------------------------------------------------------- */

static void put(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", f);
        else if (*text == '&')
            fputs("&amp;", f);
        else if (*text == '"')
            fputs("&quot;", f);
        else
            fputc(*text, f);
    }
}

static void put_row(FILE *f, const char *what, const char *text)
{
    fputs("<tr><th>", f);
    put(f, what);
    fputs("</th><td>", f);
    put(f, text);
    fputs("</td></tr>\n", f);
}

static void put_subject(FILE *f, const check_run *run)
{
    const cJSON *item;
    char buffer[64];
    fputs("<table>\n", f);
    cJSON_ArrayForEach(item, run->subject)
    {
        if (!cJSON_IsArray(item)) put_row(f, item->string, check_cell_text(item, buffer, sizeof buffer));
    }
    put_row(f, "mode", run->options->mode);
    snprintf(buffer, sizeof buffer, "%llu", (unsigned long long)run->options->seed);
    put_row(f, "seed", buffer);
    put_row(f, "result", run->fatal[0] ? run->fatal : check_verdict(run) ? "failed" : "passed");
    fputs("</table>\n", f);
}

static void put_list(FILE *f, const cJSON *list)
{
    const cJSON *item;
    fputs("<td>", f);
    cJSON_ArrayForEach(item, list)
    {
        fputs("<code>", f);
        put(f, item->valuestring);
        fputs("</code> ", f);
    }
    fputs("</td>", f);
}

static void put_tiers(FILE *f, const check_run *run)
{
    check_tier tiers[CHECK_TIERS];
    check_tiers_init(tiers, run);
    fputs("<table><tr><th>tier</th><th></th><th>whole</th>", f);
    for (int32_t k = 0; k < CHECK_OUTCOMES; k++) fprintf(f, "<th>%s</th>", check_outcome_name(k));
    fputs("<th>no kernel, the CPU answers</th><th>lacking in a kernel, the CPU answers</th><th>none, and "
          "none is required</th></tr>\n",
          f);
    for (uint32_t i = 0; i < CHECK_TIERS; i++) {
        const check_tier *t = &tiers[i];
        if (!t->count) continue;
        fprintf(f, "<tr><td>%u</td><td>%s</td><td class=\"%s\">%s</td>", i, check_tier_name(i),
                t->bad     ? "failed"
                : t->whole ? "passed"
                           : "absent",
                t->whole ? "yes" : "no");
        for (int32_t k = 0; k < CHECK_OUTCOMES; k++) fprintf(f, "<td class=\"n\">%u</td>", t->outcomes[k]);
        put_list(f, t->missing);
        put_list(f, t->lacking);
        put_list(f, t->optional);
        fputs("</tr>\n", f);
    }
    fputs("</table>\n", f);
    check_tiers_finish(tiers);
}

/* ---- The map of operators ------------------------------------------------------------------------------ */

typedef struct part {
    const char *start;
    int length;
} part;

/* Splits "1/pointwise/aten::add.Tensor/float32/sliced"; the number of parts found. */
static int split(const char *name, part parts[5])
{
    int n = 0;
    memset(parts, 0, 5 * sizeof *parts);
    while (n < 5 && *name) {
        parts[n].start = name;
        parts[n].length = (int)strcspn(name, "/");
        name += parts[n].length;
        name += *name == '/';
        n++;
    }
    return n;
}

static int same_part(part a, part b)
{
    return a.length == b.length && strncmp(a.start, b.start, (size_t)a.length) == 0;
}

/* The dtypes of cases whose names have five parts, in their order. */
static int find_dtypes(const check_run *run, part *dtypes)
{
    part p[5];
    int n = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        int k = 0;
        if (split(run->entries[i].name, p) < 5) continue;
        while (k < n && !same_part(dtypes[k], p[3])) k++;
        if (k == n && n < MAX_DTYPES) dtypes[n++] = p[3];
    }
    return n;
}

typedef struct cell {
    uint32_t all, outcomes[CHECK_OUTCOMES], bad, composite;
} cell;

static void put_cells(FILE *f, part op, const cell *cells, int n)
{
    fprintf(f, "<tr><td><code>%.*s</code></td>", op.length, op.start);
    for (int k = 0; k < n; k++) {
        const cell *c = &cells[k];
        uint32_t wrong = c->outcomes[CHECK_FAILED] + c->outcomes[CHECK_CRASHED];
        if (!c->all) {
            fputs("<td></td>", f);
            continue;
        }
        fprintf(f, "<td class=\"n %s%s\">",
                wrong                       ? "failed"
                : c->outcomes[CHECK_ABSENT] ? "absent"
                : c->outcomes[CHECK_PASSED] ? "passed"
                                            : "skipped",
                c->bad ? " bad" : "");
        if (wrong)
            fprintf(f, "%u of %u", wrong, c->all);
        else if (c->outcomes[CHECK_ABSENT])
            fputs("cpu", f);
        else
            fprintf(f, "%u%s", c->outcomes[CHECK_PASSED], c->composite ? " *" : "");
        fputs("</td>", f);
    }
    fputs("</tr>\n", f);
}

static void put_map(FILE *f, const check_run *run)
{
    part dtypes[MAX_DTYPES], p[5], op = {"", 0};
    cell cells[MAX_DTYPES] = {0};
    int n = find_dtypes(run, dtypes), k;
    if (!n) return;
    fputs("<h2>Operators</h2><p>Numbers of cases that passed; red: failed of all; cpu: no kernel, the CPU "
          "answered; "
          "*: through other kernels.</p>\n<table><tr><th></th>",
          f);
    for (k = 0; k < n; k++) fprintf(f, "<th>%.*s</th>", dtypes[k].length, dtypes[k].start);
    fputs("</tr>\n", f);
    for (uint32_t i = 0; i <= run->count; i++) {
        const check_entry *e = &run->entries[i];
        if (i < run->count && split(e->name, p) < 5) continue;
        if (i == run->count || !same_part(op, p[2])) {
            if (op.length) put_cells(f, op, cells, n);
            memset(cells, 0, sizeof cells);
            op = p[2];
        }
        if (i == run->count) break;
        for (k = 0; k < n - 1 && !same_part(dtypes[k], p[3]); k++) {
        }
        cells[k].all++;
        cells[k].outcomes[e->result.outcome]++;
        cells[k].bad += (uint32_t)check_is_bad(run, e);
        cells[k].composite += e->result.way == CHECK_WAY_COMPOSITE;
    }
    fputs("</table>\n", f);
}

/* ---- Tables and cases ---------------------------------------------------------------------------------- */

static void put_table(FILE *f, const cJSON *table)
{
    const cJSON *row, *item;
    char buffer[64];
    fputs("<h2>", f);
    put(f, cJSON_GetObjectItem(table, "title")->valuestring);
    fputs("</h2>\n<table><tr>", f);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(table, "columns"))
    {
        fputs("<th>", f);
        put(f, item->valuestring);
        fputs("</th>", f);
    }
    fputs("</tr>\n", f);
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(table, "rows"))
    {
        fputs("<tr>", f);
        cJSON_ArrayForEach(item, row)
        {
            fputs(cJSON_IsNumber(item) ? "<td class=\"n\">" : "<td>", f);
            put(f, check_cell_text(item, buffer, sizeof buffer));
            fputs("</td>", f);
        }
        fputs("</tr>\n", f);
    }
    fputs("</table>\n", f);
}

static void put_entry(FILE *f, const check_run *run, const check_entry *e)
{
    const check_result *r = &e->result;
    fprintf(f, "<tr><td class=\"%s%s\">%s</td><td><code>", check_outcome_name(r->outcome),
            check_is_bad(run, e) ? " bad" : "", check_outcome_name(r->outcome));
    put(f, e->name);
    fprintf(f, "</code></td><td>%s</td><td>", check_way_name(r->way));
    put(f, r->reason);
    if (r->excuse[0]) {
        fputs(" — listed: ", f);
        put(f, r->excuse);
    }
    if (r->log[0] && (r->outcome == CHECK_FAILED || r->outcome == CHECK_CRASHED)) {
        fputs("<pre>", f);
        put(f, r->log);
        fputs("</pre>", f);
    }
    fputs("</td></tr>\n", f);
}

/* Cases that are not as expected are shown open, the others folded. */
static void put_entries(FILE *f, const check_run *run, int bad)
{
    fprintf(f, "<details%s><summary>%s</summary>\n<table>\n", bad ? " open" : "",
            bad ? "Cases that are not as expected" : "All other cases");
    for (uint32_t i = 0; i < run->count; i++) {
        if (check_is_bad(run, &run->entries[i]) == bad) put_entry(f, run, &run->entries[i]);
    }
    fputs("</table></details>\n", f);
}

int32_t check_report_html(const check_run *run, const char *path)
{
    const cJSON *table, *plugin = cJSON_GetObjectItem(run->subject, "plugin");
    FILE *f = fopen(path, "w");
    if (!f) return 1;
    fputs(head, f);
    fputs("<title>tenon check ", f);
    put(f, cJSON_IsString(plugin) ? plugin->valuestring : "");
    fputs("</title></head><body>\n<h1>tenon check ", f);
    put(f, cJSON_IsString(plugin) ? plugin->valuestring : "");
    fputs("</h1>\n", f);
    put_subject(f, run);
    if (!strcmp(run->options->mode, "test")) put_tiers(f, run);
    cJSON_ArrayForEach(table, run->tables) put_table(f, table);
    put_map(f, run);
    put_entries(f, run, 1);
    put_entries(f, run, 0);
    fputs("</body></html>\n", f);
    return fclose(f) != 0;
}
