/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Experimental: any minor version may change it. What a vendor's own profiler says of the kernels and copies that ran on a
 * device. A profile (profile.h) asks plugins that have the interface, and then knows the kernels inside each operator.
 */
#ifndef TENON_ACTIVITY_H
#define TENON_ACTIVITY_H

#include <tenon/base.h>

TN_BEGIN_DECLS

/* Kinds of activities. */
#define TN_X_ACTIVITY_KERNEL 0u
#define TN_X_ACTIVITY_COPY   1u
#define TN_X_ACTIVITY_FILL   2u

/* Something that ran on a device. */
typedef struct tn_x_activity {
    uint32_t size;
    uint32_t kind;   /* TN_X_ACTIVITY_... */
    uint64_t work;   /* what `push` was given when it was queued; 0: none */
    uint64_t stream; /* the vendor's number of the stream that it ran on */
    int64_t start;   /* nanoseconds of CLOCK_MONOTONIC */
    int64_t end;     /* not before `start` */
    const char
        *name; /* of the kernel, as the vendor has it, or of the kind of copy; valid while `take` runs */
} tn_x_activity;

/*
 * "tenon.x.activity", version 1. Default: a profile times pieces of work by events, and knows nothing of what is in them.
 * All slots are required. Recordings of several devices and contexts may overlap.
 */
typedef struct tn_x_activity_interface {
    uint32_t size;
    uint32_t reserved;
    /* Begins to record what runs on the device. TN_E_UNSUPPORTED: the vendor's library is not there. */
    int32_t (*begin)(void *self, void *device, TN_OUT void **out_recording);
    /* Work that this thread queues until pop belongs to `work`, which is not 0; also work of a graph that it launches. They
     * nest, and the innermost counts. Without an error there is one pop. */
    int32_t (*push)(void *self, void *recording, uint64_t work);
    void (*pop)(void *self, void *recording);
    /* Ends the recording. The device has finished its work. Calls `take` for each activity, in any order; what is known of
     * them after a failure, too. *out_lost: how many were not recorded. */
    int32_t (*end)(void *self, TN_TAKES void *recording,
                   void (*take)(void *user, const tn_x_activity *activity), void *user,
                   TN_OUT uint64_t *out_lost);
} tn_x_activity_interface;

TN_END_DECLS
#endif
