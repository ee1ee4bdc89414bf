/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: where a program spends its time. Between begin and end the library measures every operator, every
 * node of a backward pass and every range that the program names. On asynchronous devices it also measures
 * each piece of work with a pair of events. The result is a table and a file that chrome://tracing and
 * ui.perfetto.dev show. TENON_PROFILE=FILE profiles any program. Where a device's plugin offers the records of its vendor's
 * profiler, those give the times, and the kernels inside each operator.
 *
 * Without a profile calls take no longer. A profiled call takes some 80 ns longer, with TN_PROFILE_MEMORY up to 300.
 */
#ifndef TENON_PROFILE_H
#define TENON_PROFILE_H

#include <tenon/op.h>

TN_BEGIN_DECLS

/* Flags of a profile. */
#define TN_PROFILE_SHAPES 1u /* calls with other sizes or dtypes have other rows in the table */
/* Count the bytes that calls allocate, and record the memory of each device over time. Small blocks of the CPU
 * then come from the slower path of the allocator. */
#define TN_PROFILE_MEMORY 2u

/* Kinds of rows. */
#define TN_PROFILE_OPERATOR 0u
#define TN_PROFILE_BACKWARD 1u /* a node of a backward pass, "MulBackward0" */
#define TN_PROFILE_RANGE    2u /* tn_profile_range_begin */
#define TN_PROFILE_WORK     3u /* work of a device that no operator queued: "graph replay", copies */
/* A kernel or a kind of copy, by the vendor's name, where the vendor's profiler records them. The rows above count its time,
 * too; that of other libraries is in no other row. */
#define TN_PROFILE_KERNEL 4u

#ifndef TN_PLUGIN
typedef struct tn_profile tn_profile;

typedef struct tn_profile_options {
    uint32_t size;
    uint32_t flags;      /* TN_PROFILE_... */
    uint64_t max_events; /* calls, pieces of work and changes of memory in the file; 0: 1,000,000 each */
} tn_profile_options;

/* Starts to measure all threads that use the context. `options` NULL: the defaults. TN_E_STATE if a profile has
 * begun already, by the program or by TENON_PROFILE. */
TN_API int32_t tn_profile_begin(tn_context *ctx, TN_NULLABLE const tn_profile_options *options) TN_ANY_THREAD;
/*
 * Waits for the devices that worked, and gives the profile. Calls that are in progress on other threads end in it
 * now. Late errors stay for the next wait of the program. TN_E_STATE if no profile has begun.
 */
TN_API int32_t tn_profile_end(tn_context *ctx, TN_OUT TN_GIVES tn_profile **out) TN_ANY_THREAD;
/* Must be called before the context ends. NULL is ignored. */
TN_API void tn_profile_release(TN_TAKES TN_NULLABLE tn_profile *profile);

/* Gives a part of the program a name in the profile. Ranges of a thread nest. Without a profile both do nothing
 * and return TN_OK. tn_profile_range_end: TN_E_STATE if the innermost thing that runs on the thread is not a
 * range. */
TN_API int32_t tn_profile_range_begin(tn_context *ctx, const char *name) TN_ANY_THREAD;
TN_API int32_t tn_profile_range_end(tn_context *ctx) TN_ANY_THREAD;

/*
 * One row of the table. Times are in nanoseconds, over all calls. A total includes the calls that these calls made,
 * "self" does not. The time of a device is that of the work which the calls queued on asynchronous devices; 0 for
 * calls on the CPU. Texts belong to the profile.
 */
typedef struct tn_profile_row {
    uint32_t size;
    uint32_t kind;      /* TN_PROFILE_... */
    const char *name;   /* "aten::mm" */
    const char *shapes; /* "float32 [2, 3], float32 [3]" with TN_PROFILE_SHAPES, else "" */
    uint64_t calls;
    uint64_t host_total;
    uint64_t host_self;
    uint64_t device_total;
    uint64_t device_self;
    uint64_t bytes_total; /* allocated, with TN_PROFILE_MEMORY */
    uint64_t bytes_self;
} tn_profile_row;
/* Rows are in order of the time that they took themselves, host and device together, the longest first. */
TN_API uint32_t tn_profile_count(const tn_profile *profile) TN_ANY_THREAD;
/* The caller sets out->size. TN_E_INDEX beyond the last. */
TN_API int32_t tn_profile_get(const tn_profile *profile, uint32_t i,
                              TN_OUT tn_profile_row *out) TN_ANY_THREAD;

/* The profile as a whole. */
typedef struct tn_profile_summary {
    uint32_t size;
    uint32_t threads;     /* that made calls */
    uint64_t nanoseconds; /* from begin to end */
    uint64_t events;      /* in the file */
    uint64_t dropped;     /* not in the file, because there were more than max_events or no memory */
    uint64_t unmeasured;  /* pieces of device work without a time: the plugin has no events with timing */
    uint64_t lost;        /* kernels and copies that the vendor's profiler says it has not recorded */
} tn_profile_summary;
TN_API int32_t tn_profile_get_summary(const tn_profile *profile,
                                      TN_OUT tn_profile_summary *out) TN_ANY_THREAD;

/* Writes the table, at most `rows` rows of it (0: all), truncated to `bytes` with the terminating zero. Returns
 * the length of the whole text. */
TN_API uint64_t tn_profile_text(const tn_profile *profile, uint32_t rows, TN_OUT char *text,
                                uint64_t bytes) TN_ANY_THREAD;
/*
 * Writes the trace: JSON in the Trace Event Format. Threads are tracks of the host, streams are tracks of their
 * device; an arrow leads from a call to each piece of work that it queued, and with TN_PROFILE_MEMORY each device
 * has a counter. The table is in it as well, for `tenon profile FILE`. TN_E_IO with the path and the reason if the
 * file cannot be written.
 */
TN_API int32_t tn_profile_write(const tn_profile *profile, const char *path) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
