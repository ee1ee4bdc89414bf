/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of cases and of exceptions, and the functions that end a case. */
#include "list.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_die(void *memory)
{
    if (memory) return memory;
    fputs("tenon check: out of memory\n", stderr);
    exit(2);
}

/* ---- Cases --------------------------------------------------------------------------------------------- */

int check_list_init(check_list *list, const check_options *options)
{
    *list = (check_list){.options = options};
    if (!options->filter) return 0;
    if (regcomp(&list->filter, options->filter, REG_EXTENDED | REG_NOSUB)) {
        fprintf(stderr, "tenon check: --filter '%s' is not a regular expression\n", options->filter);
        return 1;
    }
    list->has_filter = 1;
    return 0;
}

void check_list_finish(check_list *list)
{
    for (uint32_t i = 0; i < list->n_blocks; i++) free(list->blocks[i]);
    free(list->blocks);
    free(list->cases);
    if (list->has_filter) regfree(&list->filter);
    *list = (check_list){0};
}

void *check_memory(check_list *list, size_t bytes)
{
    if ((list->n_blocks & (list->n_blocks - 1)) == 0)
        list->blocks =
            or_die(realloc(list->blocks, (list->n_blocks ? list->n_blocks * 2 : 1) * sizeof *list->blocks));
    return list->blocks[list->n_blocks++] = or_die(calloc(1, bytes ? bytes : 1));
}

static const char *keep_text(check_list *list, const char *text)
{
    char *copy = check_memory(list, strlen(text) + 1);
    return strcpy(copy, text);
}

const char *check_text(check_list *list, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return keep_text(list, text);
}

void check_add(check_list *list, const check_case *c, const char *name, ...)
{
    char text[512];
    va_list args;
    if (c->tier > list->options->max_tier) return;
    va_start(args, name);
    vsnprintf(text, sizeof text, name, args);
    va_end(args);
    if (list->has_filter && regexec(&list->filter, text, 0, NULL, 0)) return;
    if (list->count == list->room) {
        list->room = list->room ? list->room * 2 : 256;
        list->cases = or_die(realloc(list->cases, list->room * sizeof *list->cases));
    }
    list->cases[list->count] = *c;
    list->cases[list->count++].name = keep_text(list, text);
}

/* FNV-1a over the name, mixed with the seed. */
uint64_t check_seed(const check_target *t, const check_case *c)
{
    uint64_t hash = 14695981039346656037u ^ (t->options->seed * 0x9e3779b97f4a7c15u);
    for (const char *p = c->name; *p; p++) hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    return hash ? hash : 1;
}

/* ---- How a case ends ----------------------------------------------------------------------------------- */

static void end(check_result *out, int32_t outcome, const char *format, va_list args)
{
    if (out->outcome != CHECK_PASSED) return;
    out->outcome = outcome;
    vsnprintf(out->reason, sizeof out->reason, format, args);
}

void check_fail(check_result *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    end(out, CHECK_FAILED, format, args);
    va_end(args);
}

void check_skip(check_result *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    end(out, CHECK_SKIPPED, format, args);
    va_end(args);
}

void check_absent(check_result *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    end(out, CHECK_ABSENT, format, args);
    va_end(args);
}

int check_that(check_result *out, int condition, const char *format, ...)
{
    va_list args;
    if (condition) return 1;
    va_start(args, format);
    end(out, CHECK_FAILED, format, args);
    va_end(args);
    return 0;
}

void check_error_text(const tn_error *error, char *text, size_t bytes)
{
    const tn_error *native = error;
    while (native && !native->native_code && !native->native_text) native = native->cause;
    int used =
        snprintf(text, bytes, "%s", error && error->message ? error->message : "failed without an error");
    if (!native || used < 0 || (size_t)used >= bytes) return;
    snprintf(text + used, bytes - (size_t)used, " [%s %d%s%s]",
             native->plugin ? native->plugin : "native code", native->native_code,
             native->native_text ? ": " : "", native->native_text ? native->native_text : "");
}

void check_log_line(char *log, const char *line)
{
    size_t used = strlen(log);
    if (used + 2 < CHECK_LOG_BYTES) snprintf(log + used, CHECK_LOG_BYTES - used, "%.400s\n", line);
}

void check_fail_with_error(check_result *out, const tn_scope *s, const char *what)
{
    char text[560];
    check_error_text(s ? tn_scope_error(s) : tn_last_error(), text, sizeof text);
    check_fail(out, "%s: %s", what, text);
}

const char *check_outcome_name(int32_t outcome)
{
    static const char *const names[] = {"passed", "failed", "absent", "skipped", "crashed"};
    return outcome >= 0 && outcome < CHECK_OUTCOMES ? names[outcome] : "?";
}

const char *check_way_name(int32_t way)
{
    static const char *const names[] = {"", "native", "composite", "cpu"};
    return way >= 0 && way < CHECK_WAYS ? names[way] : "?";
}

/* ---- Exceptions ---------------------------------------------------------------------------------------- */

static int wrong_line(const char *path, uint32_t number, const char *what)
{
    fprintf(stderr, "tenon check: %s:%u: %s\n", path, number, what);
    return 1;
}

static int take_line(check_exceptions *e, const char *path, uint32_t number, char *line, int32_t kind)
{
    size_t blank, length = strcspn(line, "\r\n");
    line[length] = 0;
    line += strspn(line, " \t");
    if (!*line || *line == '#') return 0;
    blank = strcspn(line, " \t");
    if (!line[blank] || !line[blank + strspn(line + blank, " \t")])
        return wrong_line(path, number, "a pattern needs a reason");
    e->items = or_die(realloc(e->items, (e->count + 1) * sizeof *e->items));
    e->items[e->count++] =
        (check_exception){.pattern = or_die(strndup(line, blank)),
                          .reason = or_die(strdup(line + blank + strspn(line + blank, " \t"))),
                          .kind = kind};
    return 0;
}

int check_exceptions_read(check_exceptions *e, const char *path, int32_t kind)
{
    FILE *in = path ? fopen(path, "r") : NULL;
    char *line = NULL;
    size_t room = 0;
    uint32_t number = 0;
    int status = 0;
    if (!path) return 0;
    if (!in) {
        fprintf(stderr, "tenon check: cannot read the list %s\n", path);
        return 1;
    }
    while (!status && getline(&line, &room, in) > 0) status = take_line(e, path, ++number, line, kind);
    free(line);
    fclose(in);
    return status;
}

void check_exceptions_finish(check_exceptions *e)
{
    for (uint32_t i = 0; i < e->count; i++) {
        free(e->items[i].pattern);
        free(e->items[i].reason);
    }
    free(e->items);
    *e = (check_exceptions){0};
}

void check_exceptions_apply(check_exceptions *e, const char *name, check_result *out)
{
    for (uint32_t i = 0; i < e->count; i++) {
        if (fnmatch(e->items[i].pattern, name, 0)) continue;
        e->items[i].used++;
        if (out->listed) continue;
        out->listed = e->items[i].kind;
        snprintf(out->excuse, sizeof out->excuse, "%s", e->items[i].reason);
    }
}
