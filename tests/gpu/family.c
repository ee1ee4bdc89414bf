/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The family over a driver that does nothing: a driver with a hole is refused by name, and what a driver does not say of
 * its device is 0, or asked for. Built once for each HOLE, as the driver is a constant.
 */
#include "host.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the driver lacks; meson.build names one as HOLE. */
#define HOLE_NONE  0
#define HOLE_SLOT  1
#define HOLE_PAIR  2
#define HOLE_STATE 3
#define HOLE_CLASS 4
#define HOLE_COUNT 5
#define IS_REFUSED (HOLE == HOLE_SLOT || HOLE == HOLE_PAIR || HOLE == HOLE_STATE)

/* ---- The driver ------------------------------------------------------------------------------------------ */

static int starting, met,
    is_slow; /* threads in the runtime that starts, and whether two have met there; atomic */

/* What a runtime does that is not safe when two threads start it. */
static void start(void)
{
    if (__atomic_fetch_add(&starting, 1, __ATOMIC_SEQ_CST)) __atomic_store_n(&met, 1, __ATOMIC_SEQ_CST);
    if (is_slow) usleep(20000);
    __atomic_fetch_sub(&starting, 1, __ATOMIC_SEQ_CST);
}

static void find(void *state)
{
    start();
    ((gpu_found *)state)->count = HOLE != HOLE_COUNT;
}

static void describe(gpu_plugin *plugin, uint32_t index, gpu_properties *out)
{
    start();
    snprintf(out->name, sizeof out->name, "nothing");
    if (HOLE != HOLE_CLASS) out->device_class = TN_DEVICE_VIRTUAL;
}

GPU_DEFINE_DRIVER("family", .find = find, .describe = describe,
                  .state_bytes = HOLE == HOLE_STATE ? 4 : sizeof(gpu_found), NEVER(open), NEVER(close),
                  NEVER(status), NEVER(native), NEVER(alloc), NEVER(free), NEVER(retain), NEVER(queue_create),
                  NEVER(queue_destroy), NEVER(queue_finish), NEVER(queue_wait), NEVER(native_wait),
                  NEVER(queue_callback), NEVER(event_record), NEVER(event_release), NEVER(event_query),
                  NEVER(event_wait), NEVER(event_elapsed), NEVER(write), NEVER(read), NEVER(copy),
                  NEVER(fill), NEVER(program_create), NEVER(program_destroy), NEVER(kernel_create),
                  NEVER(kernel_destroy), NEVER(launch),
#if HOLE != HOLE_SLOT
                  NEVER(queue_query),
#endif
#if HOLE == HOLE_PAIR
                  NEVER(host_alloc),
#endif
);

/* ---- The host -------------------------------------------------------------------------------------------- */

static const tn_host host = {
    .size = sizeof host, .error = record_error, .alloc = host_alloc, .free = host_free};

static int32_t begin(tn_plugin_table *table, void **out_self)
{
    const tn_host_offer offer = {
        .size = sizeof offer, .abi_min = TN_ABI_GENERATION, .abi_max = TN_ABI_GENERATION};
    table->size = sizeof *table;
    cr_assert_eq(gpu_entry(&offer, table), TN_OK);
    return table->init(&host, out_self);
}

#if !IS_REFUSED
static const tn_device_interface *begin_devices(tn_plugin_table *table, void **out_self, uint32_t *out_count,
                                                const char **out_reason)
{
    cr_assert_eq(begin(table, out_self), TN_OK, "%s", last_error);
    const tn_device_interface *devices = table->get_interface(*out_self, "tenon.device", 1);
    cr_assert_eq(devices->enumerate(*out_self, out_count, out_reason), TN_OK);
    return devices;
}

/* What earlier calls leave on the stack. */
static void __attribute__((noinline)) leave_rubbish(void)
{
    volatile char rubbish[8192];
    for (size_t i = 0; i < sizeof rubbish; i++) rubbish[i] = 0x5a;
}

static void expect_zeros(const tn_device_facts *facts)
{
    static const uint8_t zeros[16];
    cr_expect_str_eq(facts->name, "nothing");
    cr_expect_eq(facts->total_memory, 0);
    cr_expect_eq(facts->peers, 0);
    cr_expect_eq(facts->priority_high, 0);
    cr_expect_eq(facts->alignment, 0);
    cr_expect_eq(facts->features, TN_FEATURE_INT64);
    cr_expect_arr_eq(facts->uuid, zeros, sizeof zeros);
    cr_expect_arr_eq(facts->pci_address, zeros, sizeof zeros);
}

Test(family, what_a_driver_does_not_say)
{
    static const char no_class[] =
        "family: `describe` of the driver has not set the device_class of device 0 (TN_DEVICE_DISCRETE, ...)";
    tn_plugin_table table;
    void *self;
    uint32_t count;
    const char *reason;
    tn_device_facts facts = {.size = sizeof facts};
    const tn_device_interface *devices = begin_devices(&table, &self, &count, &reason);
    cr_expect_eq(count, HOLE != HOLE_COUNT);
    if (HOLE == HOLE_COUNT)
        cr_expect_str_eq(reason, "the driver's `find` counted no device and wrote no reason");
    leave_rubbish();
    int32_t status = count ? devices->facts(self, 0, &facts) : TN_OK;
    if (HOLE == HOLE_NONE) expect_zeros(&facts);
    cr_expect_eq(status, HOLE == HOLE_CLASS ? TN_E_CONTRACT : TN_OK);
    cr_expect_str_eq(last_error, HOLE == HOLE_CLASS ? no_class : "");
    table.shutdown(self);
}

#if HOLE == HOLE_NONE
static pthread_barrier_t both;

/* A context of its own, as far as a plugin sees it. */
static void *ask_for_devices(void *unused)
{
    tn_plugin_table table;
    void *self;
    uint32_t count;
    const char *reason;
    tn_device_facts facts = {.size = sizeof facts};
    pthread_barrier_wait(&both);
    const tn_device_interface *devices = begin_devices(&table, &self, &count, &reason);
    cr_expect_eq(devices->facts(self, 0, &facts), TN_OK);
    table.shutdown(self);
    return NULL;
}

Test(family, contexts_of_two_threads_start_the_driver_one_after_the_other)
{
    pthread_t threads[2];
    is_slow = 1;
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++) cr_assert_eq(pthread_create(&threads[i], NULL, ask_for_devices, NULL), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    cr_expect(!met, "two threads were in `find` or `describe` at once");
}
#endif

#else
Test(family, a_driver_with_a_hole_is_refused)
{
    static const char *const texts[] = {
        [HOLE_SLOT] = "family: the driver lacks the required slot queue_query (plugins/gpu/driver.h)",
        [HOLE_PAIR] = "family: the driver lacks the required slot host_free (plugins/gpu/driver.h)",
        [HOLE_STATE] =
            "family: state_bytes of the driver is 4, but its state begins with a gpu_found of 516 bytes"};
    tn_plugin_table table;
    void *self = NULL;
    cr_assert_eq(begin(&table, &self), TN_E_CONTRACT);
    cr_expect_str_eq(last_error, texts[HOLE]);
    cr_expect_null(self);
}
#endif
