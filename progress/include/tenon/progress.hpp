/* SPDX-License-Identifier: Apache-2.0 */
/* The line of progress in C++17. Curves (tn_plot_svg) and event files are those of progress.h. */
#ifndef TENON_PROGRESS_HPP
#define TENON_PROGRESS_HPP

#include <cstdarg>
#include <cstdio>
#include <tenon/progress.h>
#include <utility>

namespace tenon {

class progress {
public:
    progress(const char *label, int64_t steps, const char *unit = "steps", double units_a_step = 1)
    {
        tn_progress_options o;
        o.unit = unit;
        o.units_a_step = units_a_step;
        p_ = tn_progress_create(label, steps, o);
    }
    progress(const char *label, int64_t steps, const tn_progress_options &o) : p_(tn_progress_create(label, steps, o)) {}
    ~progress() { tn_progress_destroy(p_); }
    progress(progress &&other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
    progress(const progress &) = delete;
    progress &operator=(const progress &) = delete;

    /* For a run that goes on at a later step. */
    void start_at(int64_t steps) { tn_progress_start_at(p_, steps); }
    /* One step is done. True if it is time for a line. */
    bool step() { return tn_progress_step(p_) != 0; }
    /* Format and values as in printf; compilers check them. Text behind 1023 bytes is cut. */
    __attribute__((format(printf, 2, 3))) void show(const char *format, ...)
    {
        char text[1024] = "";
        va_list values;
        va_start(values, format);
        if (format) std::vsnprintf(text, sizeof text, format, values);
        va_end(values);
        tn_progress_show(p_, "%s", text);
    }

private:
    tn_progress *p_;
};

} // namespace tenon

#endif
