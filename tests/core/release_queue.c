/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that releases what kernels keep: it asks events at longer and longer intervals, and waits when it is waited for. */
#include <criterion/criterion.h>
#include <time.h>
#include <unistd.h>
#include "core/graph.h"
#include "fixture.h"

static tn_device id;
static tni_driver *driver, right;
static tn_stream *stream;
static _Atomic int32_t queries, waits, released;

#define TIMES 20
static double asked_at[TIMES], answered_at[TIMES]; /* milliseconds; of the first queries */

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int32_t count_query(void *self, void *device, void *event, int32_t *out_done)
{
    const int32_t n = queries;
    if (n < TIMES) asked_at[n] = milliseconds();
    int32_t status = right.event.query(self, device, event, out_done);
    if (n < TIMES) answered_at[n] = milliseconds();
    queries++;
    return status;
}

static int32_t count_wait(void *self, void *device, void *event)
{
    waits++;
    return right.event.synchronize(self, device, event);
}

static void open_stream(void)
{
    open_fakes();
    id = tn_device_parse(ctx, "gpu:0");
    stream = tn_stream_default(ctx, id);
    driver = &stream->device->type->driver;
    right = *driver;
    driver->event.query = count_query;
    driver->event.synchronize = count_wait;
}

TestSuite(release_queue, .init = open_stream, .fini = close_fakes, .timeout = 60);

static void release(void *unused)
{
    released++;
}

static void keep_behind_work(void)
{
    tni_kept *kept = tni_alloc(ctx, sizeof *kept);
    *kept = (tni_kept){.release = release};
    fake_work(stream);
    tni_release_later(stream, kept);
}

Test(release_queue, unfinished_work_is_asked_about_now_and_then)
{
    keep_behind_work();
    while (queries < TIMES) usleep(1000);
    double least = 0.05; /* twice as long each time, up to 2 ms; a busy machine makes it longer */
    for (int i = 1; i < TIMES; i++, least = least * 2 < 2 ? least * 2 : 2) {
        const double pause = asked_at[i] - answered_at[i - 1];
        cr_expect_geq(pause, least, "%f ms before query %d", pause, i);
    }
    cr_expect_eq(waits, 0, "a vendor's wait may take a core");
    cr_expect_eq(released, 0);
    fake_finish(stream);
    while (!released) usleep(1000); /* nobody waits for it */
    cr_expect_eq(waits, 0);
}

/* A wait for the device is not over until the releases are, and does not sleep. */
Test(release_queue, the_thread_waits_when_it_is_waited_for)
{
    keep_behind_work();
    while (queries < 10) usleep(1000);
    cr_assert_eq(tn_device_synchronize(ctx, id), TN_OK);
    cr_expect_eq(released, 1);
    keep_behind_work();
    tni_release_wait(stream->device);
    cr_expect_eq(released, 2);
    cr_expect_geq(waits, 1);
    keep_behind_work(); /* the end of the context waits, too */
}
