/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeing how a run goes: a line of progress, curves as pictures, event files for TensorBoard.
 *
 *     tn_progress *p = tn_progress_create("training", steps, .unit = "images", .units_a_step = 128);
 *     ... each step:
 *         if (tn_progress_step(p)) tn_progress_show(p, "loss %.4f", tn_item_double(s, loss));
 *     tn_progress_destroy(p);
 *     tn_plot_svg("loss.svg", TN_SERIES({.name = "loss", .y = losses, .count = steps}), .x_label = "step");
 *
 * Errors: functions that return a status keep the text for tn_last_error(). Threads: an object is used by one thread at
 * a time.
 */
#ifndef TENON_PROGRESS_H
#define TENON_PROGRESS_H

#include <stdio.h>
#include <tenon/program.h>

#ifndef TN_PLUGIN
TN_BEGIN_DECLS

/* ---- A line of progress -------------------------------------------------------------------------------- */

/* All functions take NULL and do nothing, so a program need not look whether there was memory for the line. */
typedef struct tn_progress tn_progress;

typedef struct tn_progress_options {
    uint32_t options_size TN_OPTION(sizeof(struct tn_progress_options));
    uint32_t reserved TN_OPTION();
    const struct tn_options_have_names *options_have_names TN_OPTION(); /* unused: `.unit = "images"` */
    FILE *to TN_OPTION(); /* NULL: stderr. A terminal shows one line that changes, a file a line each time */
    const char *unit TN_OPTION();    /* what the speed counts; NULL: "steps" */
    double units_a_step TN_OPTION(); /* 0: 1 */
    double seconds TN_OPTION();      /* at least, between two lines; 0: 0.1 on a terminal, else 10 */
} tn_progress_options;

/* `label` is copied; `steps` 0: their number is not known. NULL when out of memory. */
TN_API tn_progress *tn_progress_create_with(const char *label, int64_t steps,
                                            const tn_progress_options *options);
#ifdef __cplusplus
/* tn_progress_create("training", steps, {.unit = "images"}) from C++20 on. */
static inline tn_progress *tn_progress_create(const char *label, int64_t steps,
                                              const tn_progress_options &o = {})
{
    return tn_progress_create_with(label, steps, &o);
}
#else
#define tn_progress_create(label, steps, ...)                                                         \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(tn_progress_create_with( \
        label, steps, &(tn_progress_options){.options_size = sizeof(tn_progress_options), __VA_ARGS__})))
#endif
/* One step is done. 1: it is time for a line; so a program reads the loss from a device only for lines that are shown.
 * The first and the last step have a line. */
TN_API int32_t tn_progress_step(TN_NULLABLE tn_progress *p);
/* For a run that goes on at a later step: these steps are done, and do not count for the speed. */
TN_API void tn_progress_start_at(TN_NULLABLE tn_progress *p, int64_t steps);
/* Writes the line, with the text at its end. `format` as in printf: fractions of the line have the decimal point of the locale. */
TN_API void tn_progress_show(TN_NULLABLE tn_progress *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Ends the line. */
TN_API void tn_progress_destroy(TN_TAKES TN_NULLABLE tn_progress *p);
#ifdef TN_AUTO_TYPE
TN_AUTO_TYPE(tn_progress, tn_progress_destroy)
#endif

/* ---- Curves -------------------------------------------------------------------------------------------- */

/* One curve. Values that are not finite leave a gap. */
typedef struct tn_series {
    const char *name TN_OPTION(); /* for the legend; NULL: none */
    const double *x TN_OPTION();  /* NULL: 0, 1, 2, ... */
    const double *y TN_OPTION();
    int64_t count TN_OPTION();
    double smooth
    TN_OPTION(); /* 0 to 1: the weight of the past in a moving average, drawn over the values; 0: none */
} tn_series;

typedef struct tn_series_list {
    const tn_series *data;
    int64_t count;
} tn_series_list;
#ifdef __cplusplus
#define TN_SERIES(...) \
    {                  \
        __VA_ARGS__    \
    } /* as an argument of tn_plot_svg */
#else
#define TN_SERIES(...)                            \
    ((tn_series_list){(tn_series[]){__VA_ARGS__}, \
                      (int64_t)(sizeof((tn_series[]){__VA_ARGS__}) / sizeof(tn_series))})
#endif

typedef struct tn_plot_options {
    uint32_t options_size TN_OPTION(sizeof(struct tn_plot_options));
    uint32_t log_y TN_OPTION(); /* 1: a logarithmic axis; values that are not positive leave a gap */
    const struct tn_options_have_names *options_have_names TN_OPTION(); /* unused: `.title = "loss"` */
    const char *title TN_OPTION(), *x_label TN_OPTION(), *y_label TN_OPTION();
    double y_least TN_OPTION(), y_most TN_OPTION(); /* both 0: from the values */
} tn_plot_options;

/* Writes a picture of the curves as SVG. A new file replaces the old one at the end, as tn_safetensors_save does it.
 * Returns the status. */
TN_API int32_t tn_plot_svg_with(const char *path, tn_series_list series,
                                TN_NULLABLE const tn_plot_options *options);
#ifndef __cplusplus /* in C++ it is a function, at the end of this file */
#define tn_plot_svg(path, series, ...)                                                         \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(tn_plot_svg_with( \
        path, series, &(tn_plot_options){.options_size = sizeof(tn_plot_options), __VA_ARGS__})))
#endif

/* ---- Event files --------------------------------------------------------------------------------------- */

/*
 * A file that `tensorboard --logdir FOLDER` reads while it grows. Records are kept in memory up to 64 KiB;
 * tn_events_flush writes them. After a failed write the object keeps the status and returns it at every call.
 */
typedef struct tn_events tn_events;

/* Makes the folder if it is not there, but none above it, and in it a new file. */
TN_API int32_t tn_events_create(const char *folder, TN_OUT TN_GIVES tn_events **out);
TN_API int32_t tn_events_scalar(tn_events *e, const char *tag, int64_t step, double value);
/* How the finite elements of a real tensor are spread, in 64 steps from the least to the greatest. Fails the scope, too. */
TN_API int32_t tn_events_histogram(tn_scope *s, tn_events *e, const char *tag, int64_t step, tn_tensor *t);
/* [height, width], [1, height, width] or [3, height, width]; uint8, or floating with 0 for black and 1 for full. Fails the
 * scope, too. */
TN_API int32_t tn_events_image(tn_scope *s, tn_events *e, const char *tag, int64_t step, tn_tensor *t);
TN_API int32_t tn_events_flush(tn_events *e);
/* Flushes and closes. Returns the first status that was not 0. */
TN_API int32_t tn_events_destroy(TN_TAKES TN_NULLABLE tn_events *e);

/* The error of a failed call says where the program made it, as place.h does it. */
#if !defined(TN_NO_PLACES) && !defined(__cplusplus)
#define tn_progress_create_with(...) TN_PLACED(tn_progress_create_with(__VA_ARGS__))
#define tn_plot_svg_with(...)        TN_PLACED(tn_plot_svg_with(__VA_ARGS__))
#define tn_events_create(...)        TN_PLACED(tn_events_create(__VA_ARGS__))
#define tn_events_scalar(...)        TN_PLACED(tn_events_scalar(__VA_ARGS__))
#define tn_events_histogram(...)     TN_PLACED_IN(tn_events_histogram, __VA_ARGS__)
#define tn_events_image(...)         TN_PLACED_IN(tn_events_image, __VA_ARGS__)
#define tn_events_flush(...)         TN_PLACED(tn_events_flush(__VA_ARGS__))
#define tn_events_destroy(...)       TN_PLACED(tn_events_destroy(__VA_ARGS__))
#endif

TN_END_DECLS

#ifdef __cplusplus
/* tn_plot_svg(path, TN_SERIES({.name = "loss", .y = y, .count = n}), {.title = "loss"}) from C++20 on. */
static inline int32_t tn_plot_svg(const char *path, tn_series_list series, const tn_plot_options &o = {})
{
    return tn_plot_svg_with(path, series, &o);
}
template <size_t N>
int32_t tn_plot_svg(const char *path, const tn_series (&series)[N], const tn_plot_options &o = {})
{
    return tn_plot_svg_with(path, {series, static_cast<int64_t>(N)}, &o);
}
#endif
#endif
#endif
