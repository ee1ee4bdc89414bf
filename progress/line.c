/* SPDX-License-Identifier: Apache-2.0 */
/* The line of progress: how many steps are done, how fast, how long it still takes. */
#include "handle.h"
#include <tenon/progress.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAR 24 /* characters */

struct tn_progress {
    FILE *to;
    char *label, *unit;
    double units_a_step, seconds;
    int64_t steps, done, first;   /* `first`: done before this run */
    double started, last;         /* times; `last`: of the last line */
    int32_t is_terminal, is_open; /* a line without its end was written */
    handle_mark mark;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

tn_progress *tn_progress_create_with(const char *label, int64_t steps, const tn_progress_options *options)
{
    static const tn_progress_options defaults = {.options_size = sizeof defaults};
    tn_progress *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    if (!options) options = &defaults;
    p->to = options->to ? options->to : stderr;
    p->label = strdup(label ? label : "");
    p->unit = strdup(options->unit ? options->unit : "steps");
    p->units_a_step = options->units_a_step > 0 ? options->units_a_step : 1;
    p->is_terminal = isatty(fileno(p->to));
    p->seconds = options->seconds > 0 ? options->seconds : p->is_terminal ? 0.1 : 10;
    p->steps = steps > 0 ? steps : 0;
    p->started = now();
    if (p->label && p->unit) return p;
    tn_progress_destroy(p);
    return NULL;
}

int32_t tn_progress_step(tn_progress *p)
{
    if (!p || handle_check(&p->mark, "progress")) return 0;
    p->done++;
    return p->done == p->first + 1 || p->done == p->steps || now() - p->last >= p->seconds;
}

void tn_progress_start_at(tn_progress *p, int64_t steps)
{
    if (!p || handle_check(&p->mark, "progress")) return;
    p->done = p->first = steps;
    p->started = now();
}

/* "12:03", "1:00:07" */
static void put_time(FILE *to, double seconds)
{
    int64_t whole = seconds < 1e9 ? (int64_t)(seconds + 0.5) : 1000000000;
    if (whole >= 3600) fprintf(to, "%lld:", (long long)(whole / 3600));
    fprintf(to, whole >= 3600 ? "%02lld:%02lld" : "%lld:%02lld", (long long)(whole / 60 % 60),
            (long long)(whole % 60));
}

static void put_bar(const tn_progress *p)
{
    int64_t full = p->done < p->steps ? BAR * p->done / p->steps : BAR;
    fprintf(p->to, "[%.*s%.*s] %lld/%lld", (int)full, "########################", (int)(BAR - full),
            "........................", (long long)p->done, (long long)p->steps);
}

void tn_progress_show(tn_progress *p, const char *format, ...)
{
    if (!p || handle_check(&p->mark, "progress")) return;
    double time = now(), spent = time - p->started;
    double speed = spent > 0 ? (double)(p->done - p->first) / spent : 0;
    va_list values;
    if (p->is_terminal) fputs("\r\033[K", p->to); /* to the start, and the old line away */
    if (*p->label) fprintf(p->to, "%s ", p->label);
    if (p->steps)
        put_bar(p);
    else
        fprintf(p->to, "%lld", (long long)p->done);
    fprintf(p->to, "  %.4g %s/s", speed * p->units_a_step, p->unit);
    if (p->steps && speed > 0) {
        fputs(p->done < p->steps ? "  left " : "  took ", p->to);
        put_time(p->to, p->done < p->steps ? (double)(p->steps - p->done) / speed : spent);
    }
    if (format && *format) {
        fputs("  ", p->to);
        va_start(values, format);
        vfprintf(p->to, format, values);
        va_end(values);
    }
    if (!p->is_terminal) putc('\n', p->to);
    fflush(p->to);
    p->is_open = p->is_terminal;
    p->last = time;
}

void tn_progress_destroy(tn_progress *p)
{
    if (!p || !handle_end(&p->mark, "progress", __builtin_return_address(0))) return;
    if (p->is_open) {
        putc('\n', p->to);
        fflush(p->to);
    }
    free(p->label);
    free(p->unit);
    handle_free(p);
}
