/* SPDX-License-Identifier: Apache-2.0 */
/* The line of progress in a file, and curves as text of an SVG. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/progress.h>
#include <unistd.h>

TestSuite(progress, .timeout = 60);

/* What was written to the stream so far. */
static const char *text_of(FILE *f)
{
    static char text[4096];
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    return text;
}

static int lines_of(const char *text)
{
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

Test(progress, a_file_has_a_line_each_time)
{
    FILE *f = tmpfile();
    tn_progress *p = tn_progress_create("copying", 40, .to = f, .unit = "files", .seconds = 3600);
    int due = 0;
    for (int i = 0; i < 40; i++) {
        if (!tn_progress_step(p)) continue;
        due++;
        tn_progress_show(p, "size %d", i);
    }
    tn_progress_destroy(p);
    const char *text = text_of(f);
    cr_assert_eq(due, 2, "the first and the last step are due, %d were", due);
    cr_assert_eq(lines_of(text), 2, "%s", text);
    cr_assert(strstr(text, "copying [........................] 1/40  "), "%s", text);
    cr_assert(strstr(text, "copying [########################] 40/40  "), "%s", text);
    const char *took = strstr(text, "  took ");
    int seconds = -1; /* any number: the machine may be busy */
    cr_assert(strstr(text, " files/s  left ") && took, "%s", text);
    cr_assert_eq(sscanf(took, "  took %*d:%2d  ", &seconds), 1, "%s", text);
    cr_assert(seconds >= 0 && seconds < 60 && strstr(took, "  size 39\n"), "%s", text);
    cr_assert(!strchr(text, '\r') && !strchr(text, '\033'), "no control characters in a file: %s", text);
    fclose(f);
}

Test(progress, steps_of_an_earlier_run_count_for_the_bar_alone)
{
    FILE *f = tmpfile();
    tn_progress *p = tn_progress_create("", 100, .to = f);
    tn_progress_start_at(p, 50);
    cr_assert_eq(tn_progress_step(p), 1);
    tn_progress_show(p, NULL);
    tn_progress_destroy(p);
    cr_assert_eq(strncmp(text_of(f), "[############............] 51/100  ", 35), 0, "%s", text_of(f));
    fclose(f);
}

Test(progress, a_number_of_steps_may_be_unknown)
{
    FILE *f = tmpfile();
    tn_progress *p = tn_progress_create("reading", 0, .to = f);
    tn_progress_step(p);
    tn_progress_show(p, NULL);
    tn_progress_destroy(p);
    cr_assert_eq(strncmp(text_of(f), "reading 1  ", 11), 0, "%s", text_of(f));
    fclose(f);
}

Test(progress, null_does_nothing)
{
    cr_assert_eq(tn_progress_step(NULL), 0);
    tn_progress_show(NULL, "%d", 1);
    tn_progress_start_at(NULL, 1);
    tn_progress_destroy(NULL);
}

Test(progress, what_was_destroyed_does_nothing_with_debug_handles)
{
    setenv("TENON_DEBUG", "handles", 1);
    FILE *f = tmpfile();
    tn_progress *p = tn_progress_create("label", 3, .to = f);
    tn_events *e = NULL;
    char folder[] = "/tmp/progress.XXXXXX", text[64];
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(tn_events_create(folder, &e), TN_OK);
    tn_progress_destroy(p);
    cr_assert_eq(tn_events_destroy(e), TN_OK);
    cr_assert_eq(tn_progress_step(p), 0);
    tn_progress_start_at(p, 1);
    tn_progress_show(p, "%d", 1);
    cr_assert_eq(ftell(f), 0);
    cr_assert_eq(tn_events_scalar(e, "loss", 1, 1), TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_events_flush(e), TN_E_DEAD_HANDLE);
    cr_assert_not_null(strstr(tn_last_error()->message, "events was destroyed and is used again"));
    snprintf(text, sizeof text, "rm -r %s", folder);
    cr_assert_eq(system(text), 0);
    fclose(f);
    unsetenv("TENON_DEBUG");
}

/* ---- Curves ------------------------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "r");
    cr_assert(f, "%s is not there", path);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static int count_of(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) n++;
    return n;
}

/* The area is 720 by 360 units with its corner at (70, 34): what the picture must have follows from that. */
Test(progress, a_curve_stands_where_its_values_say)
{
    const double y[] = {0, 10, 5};
    cr_assert_eq(tn_plot_svg("plain.svg", TN_SERIES({.name = "a<b", .y = y, .count = 3}), .title = "T & U",
                             .x_label = "step"),
                 TN_OK);
    const char *text = read_file("plain.svg");
    cr_assert(strstr(text, "d='M70.0 394.0 430.0 34.0 790.0 214.0'"), "%s", text);
    cr_assert(strstr(text, ">T &amp; U</text>") && strstr(text, ">a&lt;b</text>") &&
                  strstr(text, ">step</text>"),
              "%s", text);
    for (int tick = 0; tick <= 10; tick += 2) {
        char label[32];
        snprintf(label, sizeof label, ">%d</text>", tick);
        cr_assert(strstr(text, label), "the tick %d is there: %s", tick, text);
    }
    cr_assert(strstr(text, "</svg>\n"));
    cr_assert(access("plain.svg", R_OK) == 0);
    unlink("plain.svg");
}

/* Doubles near 0.1 are 1.4e-17 apart, and those near 1e17 are 16 apart. */
Test(progress, values_that_differ_by_a_rounding_error_have_an_end)
{
    const double y[] = {0.1, 0.1, 0.10000000000000002}, x[] = {1e17, 1e17 + 16, 1e17 + 32};
    cr_assert_eq(tn_plot_svg("close.svg", TN_SERIES({.x = x, .y = y, .count = 3})), TN_OK);
    const char *text = read_file("close.svg");
    cr_assert(strstr(text, "d='M70.0 394.0 430.0 394.0 790.0 34.0'"), "%s", text);
    cr_assert(count_of(text, "<text") <= 32, "%s", text);
    cr_assert(strstr(text, "</svg>\n"));
    unlink("close.svg");
}

Test(progress, gaps_and_logarithms)
{
    const double y[] = {1, NAN, 100, INFINITY, 10, 0, 1};
    cr_assert_eq(tn_plot_svg("log.svg", TN_SERIES({.y = y, .count = 7}), .log_y = 1), TN_OK);
    const char *text = read_file("log.svg");
    /* x from 0 to 6, y from 10^0 to 10^2; a point behind a gap begins anew */
    cr_assert(strstr(text, "d='M70.0 394.0M310.0 34.0M550.0 214.0M790.0 394.0'"), "%s", text);
    cr_assert(strstr(text, ">1</text>") && strstr(text, ">10</text>") && strstr(text, ">100</text>"), "%s",
              text);
    unlink("log.svg");
}

Test(progress, a_moving_average_is_drawn_over_the_values)
{
    const double y[] = {0, 8, 8};
    cr_assert_eq(tn_plot_svg("smooth.svg", TN_SERIES({.y = y, .count = 3, .smooth = 0.5})), TN_OK);
    const char *text = read_file("smooth.svg");
    cr_assert(strstr(text, "d='M70.0 394.0 430.0 34.0 790.0 34.0'"), "the values: %s", text);
    cr_assert(strstr(text, "d='M70.0 394.0 430.0 214.0 790.0 124.0'"), "0, 4, 6: %s", text);
    unlink("smooth.svg");
}

Test(progress, long_curves_keep_their_peaks)
{
    enum { N = 200000 };
    double *y = calloc(N, sizeof *y);
    y[123456] = 1;
    cr_assert_eq(tn_plot_svg("long.svg", TN_SERIES({.y = y, .count = N})), TN_OK);
    const char *text = read_file("long.svg");
    char peak[32];
    snprintf(peak, sizeof peak, "%.1f 34.0", 70 + 720.0 * 123456 / (N - 1));
    cr_assert_eq(count_of(text, peak), 1, "the peak is at %s", peak);
    cr_assert_lt(strlen(text), 100000, "%zu bytes", strlen(text));
    free(y);
    unlink("long.svg");
}

Test(progress, odd_series)
{
    const double x[] = {3}, y[] = {7};
    cr_assert_eq(tn_plot_svg("odd.svg", ((tn_series_list){NULL, 0})), TN_OK);
    cr_assert_eq(tn_plot_svg("odd.svg", TN_SERIES({.count = 0})), TN_OK);
    cr_assert_eq(tn_plot_svg("odd.svg", TN_SERIES({.x = x, .y = y, .count = 1}), .y_least = 7, .y_most = 9),
                 TN_OK);
    cr_assert(strstr(read_file("odd.svg"), "d='M430.0 394.0'"), "a single value is in the middle");
    cr_assert_eq(tn_plot_svg_with("odd.svg", TN_SERIES({.x = x, .y = y, .count = 1}), NULL),
                 TN_OK); /* the defaults */
    unlink("odd.svg");
}

Test(progress, what_cannot_be_drawn_is_refused)
{
    const double y[] = {1};
    cr_assert_eq(tn_plot_svg(NULL, TN_SERIES({.y = y, .count = 1})), TN_E_ARGUMENT);
    cr_assert_eq(tn_plot_svg("x.svg", TN_SERIES({.count = 1})), TN_E_ARGUMENT);
    cr_assert_eq(tn_plot_svg("x.svg", TN_SERIES({.y = y, .count = 1}), .y_least = 2, .y_most = 1),
                 TN_E_ARGUMENT);
    cr_assert_neq(access("x.svg", F_OK), 0, "nothing was written");
    struct stat there;
    cr_assert_eq(tn_plot_svg("/dev/full", TN_SERIES({.y = y, .count = 1})), TN_E_IO);
    cr_assert(stat("/dev/full", &there) == 0 && S_ISCHR(there.st_mode), "a device stays one");
    cr_assert_eq(tn_plot_svg("/nowhere/x.svg", TN_SERIES({.y = y, .count = 1})), TN_E_IO);
    cr_assert_not_null(
        strstr(tn_last_error()->message, ": plot_svg: '/nowhere/x.svg': No such file or directory"));
}
