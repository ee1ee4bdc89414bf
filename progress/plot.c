/* SPDX-License-Identifier: Apache-2.0 */
/* Curves as SVG. Ticks stand at 1, 2 or 5 times a power of ten. */
#include <tenon/progress.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "number_text.h"

/* Of the area of the curves, in the units of the picture. */
#define WIDTH  720.0
#define HEIGHT 360.0
#define LEFT   70.0
#define TOP    34.0
#define TICKS  5 /* about so many on an axis */
/* A curve with more values than this many in a unit of width is drawn by the least and the greatest of each unit. */
#define DENSE 2

typedef struct axis {
    double least, most;
    int32_t is_log;
} axis;

typedef struct plot {
    FILE *to;
    axis x, y;
} plot;

/* The first eight differ for colour-blind readers, too (Okabe and Ito, "Color Universal Design", 2008). */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000", "#f0e442"};
#define COLOURS ((int64_t)(sizeof colours / sizeof *colours))

static double x_of(const tn_series *s, int64_t i)
{
    return s->x ? s->x[i] : (double)i;
}

/* A value as the axis has it; NaN where it has none. */
static double on_axis(const axis *a, double v)
{
    if (a->is_log) v = v > 0 ? log10(v) : NAN;
    return isfinite(v) ? v : NAN;
}

static void extend(axis *a, double v)
{
    if (isnan(v)) return;
    a->least = fmin(a->least, v);
    a->most = fmax(a->most, v);
}

/* An axis without values is from 0 to 1; one with a single value has it in the middle. */
static void settle(axis *a)
{
    if (a->least > a->most) *a = (axis){0, 1, a->is_log};
    if (a->least == a->most) {
        double around = a->least == 0 ? 1 : fabs(a->least) / 2;
        a->least -= around;
        a->most += around;
    }
}

static void measure(plot *p, tn_series_list series, const tn_plot_options *o)
{
    p->x = (axis){INFINITY, -INFINITY, 0};
    p->y = (axis){INFINITY, -INFINITY, o->log_y != 0};
    for (int64_t k = 0; k < series.count; k++) {
        for (int64_t i = 0; i < series.data[k].count; i++) {
            double y = on_axis(&p->y, series.data[k].y[i]);
            if (isnan(y)) continue;
            extend(&p->x, on_axis(&p->x, x_of(&series.data[k], i)));
            extend(&p->y, y);
        }
    }
    if (o->y_least != 0 || o->y_most != 0) {
        p->y.least = on_axis(&p->y, o->y_least);
        p->y.most = on_axis(&p->y, o->y_most);
    }
    settle(&p->x);
    settle(&p->y);
}

static double place_x(const plot *p, double x)
{
    return LEFT + WIDTH * (x - p->x.least) / (p->x.most - p->x.least);
}

/* Values outside of the area are drawn on its edge. */
static double place_y(const plot *p, double y)
{
    double share = (y - p->y.least) / (p->y.most - p->y.least);
    return TOP + HEIGHT * (1 - fmin(fmax(share, 0), 1));
}

static void put_text(FILE *to, const char *text)
{
    for (; *text; text++) {
        const char *as = *text == '<' ? "&lt;" : *text == '&' ? "&amp;" : *text == '>' ? "&gt;" : NULL;
        if (as)
            fputs(as, to);
        else if ((unsigned char)*text >= ' ')
            putc(*text, to);
    }
}

static void put_label(FILE *to, double x, double y, const char *anchor, const char *text)
{
    if (!text) return;
    fprintf(to, "<text x='%.1f' y='%.1f' text-anchor='%s'>", x, y, anchor);
    put_text(to, text);
    fputs("</text>\n", to);
}

/* The step between ticks: 1, 2 or 5 times a power of ten, so that about TICKS fit. */
static double tick_step(const axis *a)
{
    double raw = (a->most - a->least) / TICKS, power = pow(10, floor(log10(raw)));
    double digit = raw / power;
    double step = power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
    return a->is_log && step < 1 ? 1 : step;
}

static void put_ticks(const plot *p, const axis *a)
{
    int32_t is_x = a == &p->x;
    double step = tick_step(a), first = ceil(a->least / step - 1e-9);
    /* Counted from 0: where values differ by a rounding error, `first` is so large that adding 1 may not change it. */
    for (double k = 0; k <= (a->most - a->least) / step + 1; k++) {
        double v = (first + k) * step == 0 ? 0 : (first + k) * step;
        if (v > a->most + step * 1e-9) break;
        char text[32];
        snprintf(text, sizeof text, "%.4g", a->is_log ? pow(10, v) : v);
        if (is_x) {
            put_label(p->to, place_x(p, v), TOP + HEIGHT + 18, "middle", text);
        } else {
            fprintf(p->to, "<path d='M%g %.1fh%g' stroke='#ddd'/>\n", LEFT, place_y(p, v), WIDTH);
            put_label(p->to, LEFT - 6, place_y(p, v) + 4, "end", text);
        }
    }
}

/* ---- Curves ------------------------------------------------------------------------------------------- */

/* Where a curve goes on; a gap lifts the pen. */
typedef struct pen {
    const plot *p;
    int32_t is_down;
} pen;

static void draw_to(pen *at, double x, double y)
{
    if (isnan(x) || isnan(y)) {
        at->is_down = 0;
        return;
    }
    fprintf(at->p->to, "%s%.1f %.1f", at->is_down ? " " : "M", place_x(at->p, x), place_y(at->p, y));
    at->is_down = 1;
}

/* The least and the greatest of the values [from, to), in their order. */
static void draw_range(pen *at, const tn_series *s, int64_t from, int64_t to)
{
    int64_t low = -1, high = -1;
    for (int64_t i = from; i < to; i++) {
        double y = on_axis(&at->p->y, s->y[i]);
        if (isnan(y)) continue;
        if (low < 0 || y < on_axis(&at->p->y, s->y[low])) low = i;
        if (high < 0 || y > on_axis(&at->p->y, s->y[high])) high = i;
    }
    if (low < 0) {
        at->is_down = 0;
        return;
    }
    int64_t first = low < high ? low : high, second = low < high ? high : low;
    draw_to(at, x_of(s, first), on_axis(&at->p->y, s->y[first]));
    if (second != first) draw_to(at, x_of(s, second), on_axis(&at->p->y, s->y[second]));
}

static void draw_values(const plot *p, const tn_series *s)
{
    pen at = {p, 0};
    int64_t units = (int64_t)WIDTH;
    if (s->count <= DENSE * units) {
        for (int64_t i = 0; i < s->count; i++) draw_to(&at, x_of(s, i), on_axis(&p->y, s->y[i]));
        return;
    }
    for (int64_t k = 0; k < units; k++)
        draw_range(&at, s, s->count / units * k, k + 1 < units ? s->count / units * (k + 1) : s->count);
}

/* A moving average of the finite values: a = w a + (1 - w) v, from the first value on. */
static void draw_average(const plot *p, const tn_series *s)
{
    pen at = {p, 0};
    double average = NAN;
    int64_t every = s->count / (DENSE * (int64_t)WIDTH) + 1;
    for (int64_t i = 0; i < s->count; i++) {
        double v = s->y[i];
        if (!isfinite(v)) continue;
        average = isnan(average) ? v : s->smooth * average + (1 - s->smooth) * v;
        if (i % every == 0 || i == s->count - 1) draw_to(&at, x_of(s, i), on_axis(&p->y, average));
    }
}

static void put_curve(const plot *p, const tn_series *s, int64_t number)
{
    int32_t has_average = s->smooth > 0 && s->smooth < 1;
    const char *colour = colours[number % COLOURS];
    fprintf(p->to, "<path fill='none' stroke='%s' stroke-width='%s' stroke-opacity='%s' d='", colour,
            has_average ? "1" : "1.6", has_average ? "0.35" : "1");
    draw_values(p, s);
    fputs("'/>\n", p->to);
    if (!has_average) return;
    fprintf(p->to, "<path fill='none' stroke='%s' stroke-width='2' d='", colour);
    draw_average(p, s);
    fputs("'/>\n", p->to);
}

static void put_legend(const plot *p, tn_series_list series)
{
    double y = TOP + 16;
    for (int64_t k = 0; k < series.count; k++) {
        if (!series.data[k].name) continue;
        fprintf(p->to, "<path d='M%g %gh18' stroke='%s' stroke-width='2'/>\n", LEFT + WIDTH - 150, y - 4,
                colours[k % COLOURS]);
        put_label(p->to, LEFT + WIDTH - 126, y, "start", series.data[k].name);
        y += 16;
    }
}

static void put_picture(plot *p, tn_series_list series, const tn_plot_options *o)
{
    fprintf(p->to,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %g %g' font-family='sans-serif' "
            "font-size='12'>\n",
            LEFT + WIDTH + 20, TOP + HEIGHT + 46);
    fputs("<rect width='100%' height='100%' fill='white'/>\n", p->to);
    put_label(p->to, LEFT + WIDTH / 2, 20, "middle", o->title);
    put_label(p->to, LEFT + WIDTH / 2, TOP + HEIGHT + 38, "middle", o->x_label);
    if (o->y_label) {
        fprintf(p->to, "<g transform='rotate(-90 14 %g)'>", TOP + HEIGHT / 2);
        put_label(p->to, 14, TOP + HEIGHT / 2, "middle", o->y_label);
        fputs("</g>\n", p->to);
    }
    put_ticks(p, &p->y);
    put_ticks(p, &p->x);
    fprintf(p->to, "<path d='M%g %gv%gh%g' fill='none' stroke='#333'/>\n", LEFT, TOP, HEIGHT, WIDTH);
    for (int64_t k = 0; k < series.count; k++) put_curve(p, &series.data[k], k);
    put_legend(p, series);
    fputs("</svg>\n", p->to);
}

/* ---- The call ----------------------------------------------------------------------------------------- */

static int32_t refuse(int32_t status, const char *path, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "plot_svg: '%.300s': %s", path, why);
    return tn_scope_fail(NULL, status, text);
}

static const char *find_fault(const char *path, tn_series_list series, const tn_plot_options *o)
{
    if (!path) return "argument 'path' is NULL";
    if (!*path) return "argument 'path' is empty";
    if (series.count < 0 || (series.count && !series.data)) return "argument 'series' is not a list";
    for (int64_t k = 0; k < series.count; k++) {
        const tn_series *s = &series.data[k];
        if (s->count < 0 || (s->count && !s->y)) return "a series has no values";
    }
    if ((o->y_least != 0 || o->y_most != 0) && !(o->y_least < o->y_most))
        return "y_least must be less than y_most";
    if (o->log_y && (o->y_least != 0 || o->y_most != 0) && !(o->y_least > 0))
        return "y_least of a logarithmic axis must be positive";
    return NULL;
}

int32_t tn_plot_svg_with(const char *path, tn_series_list series, const tn_plot_options *options)
{
    static const tn_plot_options defaults = {.options_size = sizeof defaults};
    if (!options) options = &defaults;
    const char *fault = find_fault(path, series, options);
    if (fault) return refuse(TN_E_ARGUMENT, path ? path : "", fault);
    tn_replacement file;
    int32_t reason = tn_replace_begin(&file, path);
    if (!reason) {
        plot p = {.to = file.to};
        measure(&p, series, options);
        locale_t before = plain_locale_begin();
        put_picture(&p, series, options);
        plain_locale_end(before);
        reason = tn_replace_end(&file, 1);
    }
    return reason ? refuse(TN_E_IO, path, strerror(reason)) : TN_OK;
}
