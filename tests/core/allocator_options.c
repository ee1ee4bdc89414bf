/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of the caching allocator and what each does, statistics by name, history, snapshots, and observers of out
 * of memory. Sizes are those of PyTorch's rules: small allocations of 2 MiB, large ones of 20 MiB, from 10 MiB on
 * multiples of 2 MiB.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cjson/cJSON.h>
#include "allocator_suite.h"
#include "at_end.h"
#include "refused.h"

static void open_large_gpu(void)
{
    gpu.memory = 1024 * MIB;
    open_gpu();
}

static void end_gpu(void)
{
    tn_context_destroy(ctx);
    MUST_HOLD(gpu.live_allocations == 0);
    MUST_HOLD(gpu.breaches == 0);
}

TestSuite(allocator_options, .init = open_large_gpu, .fini = end_gpu);

static int64_t stat(const char *key)
{
    int64_t value = -99;
    cr_assert_eq(tn_memory_get_stat(ctx, d->id, key, &value), TN_OK, "%s", key);
    return value;
}

static void configure(const char *options)
{
    cr_assert_eq(tn_memory_configure(ctx, d->id, options), TN_OK, "%s: %s", options,
                 tn_last_error() ? tn_last_error()->message : "");
}

static void refuse(const char *options, int32_t status, const char *part)
{
    cr_expect_eq(tn_memory_configure(ctx, d->id, options), status, "%s", options);
    cr_expect_not_null(strstr(tn_last_error()->message, part), "%s: %s", options, tn_last_error()->message);
}

Test(allocator_options, wrong_options_are_named)
{
    static const refused_text wrong[] = {
        {"colour:3", "memory_configure: unknown option 'colour' (expected max_split_size_mb, "},
        {"max_split_size_mb", "'max_split_size_mb' has no value (expected key:value,...)"},
        {"max_split_size_mb:20",
         "memory_configure: max_split_size_mb is '20' (expected a whole number of MiB above 20)"},
        {"max_split_size_mb:30x", "max_split_size_mb is '30x'"},
        {"max_split_size_mb:,no_cache:True", "max_split_size_mb is ''"},
        {"garbage_collection_threshold:1",
         "garbage_collection_threshold is '1' (expected a number between 0 and 1)"},
        {"garbage_collection_threshold:nan", "garbage_collection_threshold is 'nan'"},
        {"roundup_power2_divisions:3", "roundup_power2_divisions is '3' (expected a power of two"},
        {"roundup_power2_divisions:[256:1,128:2,>:4]", "is '[256:1,128:2,>:4]'"},
        {"roundup_power2_divisions:[256:1]", "is '[256:1]'"},
        {"roundup_power2_divisions:[]", "is '[]'"},
        {"roundup_power2_divisions:[>:4,256:1]", "is '[>:4,256:1]'"},
        {"per_process_memory_fraction:1.5",
         "per_process_memory_fraction is '1.5' (expected a number above 0, at most 1)"},
        {"no_cache:yes", "no_cache is 'yes' (expected True or False)"},
        {"max_split_size_mc:64", "unknown option 'max_split_size_mc'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuse(wrong[i].given, TN_E_ARGUMENT, wrong[i].text);
    refuse("expandable_segments:True", TN_E_UNSUPPORTED,
           "expandable_segments is 'True', but plugin fake gives no memory that grows");
}

Test(allocator_options, wrong_values_are_named)
{
    static const char *const options[] = {
        "max_split_size_mb:25.5",
        "max_split_size_mb:2000000000",
        "max_split_size_mb:00000000000000000000000000000000000032",
        "garbage_collection_threshold:0",
        "garbage_collection_threshold:x",
        "garbage_collection_threshold:inf",
        "per_process_memory_fraction:0",
        "per_process_memory_fraction:-1",
        "per_process_memory_fraction:",
        "no_cache:Trus",
        "no_cache:Falsy",
        "expandable_segments:maybe",
        "roundup_power2_divisions:0",
        "roundup_power2_divisions:1.5",
        "roundup_power2_divisions:2097152",
        "roundup_power2_divisions:x",
        "roundup_power2_divisions:[",
        "roundup_power2_divisions:[4",
        "roundup_power2_divisions:[256,>:4]",
        "roundup_power2_divisions:[256:3,>:4]",
        "roundup_power2_divisions:[3:1,>:4]",
        "roundup_power2_divisions:[x:1,>:4]",
        "roundup_power2_divisions:[256:x,>:4]",
        "roundup_power2_divisions:[256:1,256:2,>:4]",
        "roundup_power2_divisions:[1073741824:1,>:4]",
        "roundup_power2_divisions:[>:]",
        "roundup_power2_divisions:[256:1,512:2]",
        "roundup_power2_divisions:[,>:4]",
        ("roundup_power2_divisions:[1:1,2:1,4:1,8:1,16:1,32:1,64:1,128:1,256:1,512:1,1024:1,2048:1,4096:1,"
         "8192:1,16384:1,32768:1,>:1]"),
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *value = strchr(options[i], ':') + 1;
        char part[256];
        snprintf(part, sizeof part, "%.*s is '%s'", (int)(value - 1 - options[i]), options[i], value);
        refuse(options[i], TN_E_ARGUMENT, part);
    }
}

Test(allocator_options, an_empty_list_or_a_mistake_changes_nothing)
{
    cr_expect_eq(tn_memory_configure(ctx, d->id, NULL), TN_E_ARGUMENT);
    configure("expandable_segments:False");
    configure("");
    /* Nothing of a list with a mistake is taken. */
    refuse("max_split_size_mb:64,oops:1", TN_E_ARGUMENT, "unknown option 'oops'");
    cr_expect_eq(stat("max_split_size"), -1);
    configure("max_split_size_mb:64");
    cr_expect_eq(stat("max_split_size"), 64 * (int64_t)MIB);
}

Test(allocator_options, requests_are_rounded_up)
{
    const struct {
        const char *options;
        uint64_t asked, given;
    } cases[] = {
        {"roundup_power2_divisions:4", 1200, 1536}, /* not above 512 * 4 bytes: multiples of 512 */
        {"roundup_power2_divisions:4", 2600, 3072}, /* quarters of 2048: 2560, 3072 */
        {"roundup_power2_divisions:4", 4096, 4096},
        {"roundup_power2_divisions:4", 5 * MIB + 1, 6 * MIB},
        {"roundup_power2_divisions:1", 5 * MIB + 1, 5 * MIB + 512},
        {"roundup_power2_divisions:[4:1,8:2,>:8]", 3 * MIB + 1, 3 * MIB + 512},
        {"roundup_power2_divisions:[4:1,8:2,>:8]", 4 * MIB + 1, 6 * MIB},
        {"roundup_power2_divisions:[4:1,8:2,>:8]", 9 * MIB + 1, 10 * MIB},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        configure(cases[i].options);
        tni_block *b = get(cases[i].asked);
        cr_expect_eq(b->bytes, cases[i].given, "case %zu: %llu", i, (unsigned long long)b->bytes);
        cr_expect_eq(stat("requested_bytes.all.current"), (int64_t)cases[i].asked);
        tni_block_free(b);
    }
}

Test(allocator_options, large_blocks_are_not_split)
{
    tni_block *b = get(40 * MIB);
    tni_block_free(b);
    b = get(30 * MIB); /* without the option: the front of the 40 */
    cr_expect_eq(stat("segment.all.current"), 1);
    tni_block_free(b);
    configure("max_split_size_mb:32");
    b = get(30 * MIB); /* the 40 are for requests from 32 MiB on */
    cr_expect_eq(stat("segment.all.current"), 2);
    tni_block *c = get(36 * MIB); /* less than 20 MiB of the 40 stay unused, and they stay whole */
    cr_expect_eq(stat("segment.all.current"), 2);
    cr_expect_eq(c->bytes, 40 * MIB);
    cr_expect_eq(stat("inactive_split.all.current"), 0);
    tni_block_free(b);
    tni_block_free(c);
    b = get(80 * MIB);
    tni_block_free(b);
    b = get(45 * MIB); /* 35 MiB of the 80 would be wasted */
    cr_expect_eq(stat("segment.all.current"), 4);
    tni_block_free(b);
}

/* A block that was rounded up to an allocation of the limit's size serves the request that made it. */
Test(allocator_options, rounding_reaches_the_split_limit)
{
    configure("max_split_size_mb:22");
    tni_block *b = get(21 * MIB + 5);
    cr_expect_eq(stat("reserved_bytes.all.current"), 22 * (int64_t)MIB);
    tni_block_free(b);
}

Test(allocator_options, old_memory_goes_back_first)
{
    configure("garbage_collection_threshold:0.6");
    cr_assert_eq(tn_memory_set_limit(ctx, d->id, 100 * MIB), TN_OK);
    tni_block *old = get(30 * MIB), *young = get(32 * MIB);
    fake_work(tni_current_stream(d)); /* it may use both */
    tni_block_free(old);
    tni_block_free(young);
    int32_t waits = gpu.synchronizes;
    tni_block *b = get(34 * MIB); /* 62 of 100 are reserved, more than 60: the older one goes */
    cr_expect_gt(gpu.synchronizes, waits, "memory went back to the device under work that may use it");
    cr_expect_eq(stat("reserved_bytes.all.current"), 66 * (int64_t)MIB);
    tni_block_free(b);
    b = get(32 * MIB);
    cr_expect_eq(stat("segment.all.current"), 2, "the younger one was there still");
    tni_block_free(b);
    cr_expect_eq(stat("num_alloc_retries"), 0);
}

Test(allocator_options, fraction)
{
    cr_expect_eq(tn_memory_set_fraction(ctx, d->id, 0), TN_E_ARGUMENT);
    cr_expect_eq(tn_memory_set_fraction(ctx, d->id, 1.01), TN_E_ARGUMENT);
    cr_assert_eq(tn_memory_set_fraction(ctx, d->id, 0.125), TN_OK); /* 128 MiB */
    tni_block *b = NULL, *c = get(100 * MIB);
    cr_expect_eq(tni_block_alloc(d, 30 * MIB, tni_current_stream(d), &b), TN_E_OUT_OF_MEMORY);
    cr_expect_not_null(strstr(tn_last_error()->message, "the limit set for this program is 128.00 MiB"), "%s",
                       tn_last_error()->message);
    configure("per_process_memory_fraction:0.25");
    b = get(30 * MIB);
    tni_block_free(b);
    tni_block_free(c);
}

Test(allocator_options, without_a_cache)
{
    tni_block *kept = get(3 * MIB), *waits = get(1000);
    tn_stream *other;
    configure("no_cache:True");
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &other), TN_OK);
    int32_t before = gpu.allocations;
    tni_block *b = get(1000), *c = get(1000);
    cr_expect_eq(gpu.allocations, before + 2);
    cr_expect_eq(b->bytes, 1000);
    fake_work(other);
    cr_assert_eq(tni_block_record(b, other), TN_OK);
    int32_t live = gpu.live_allocations, waited = gpu.synchronizes + gpu.waits;
    tni_block_free(b);
    cr_expect_gt(gpu.synchronizes + gpu.waits, waited, "the work that uses the memory has to finish");
    cr_expect_eq(gpu.live_allocations, live - 1);
    configure("no_cache:False");
    tni_block_free(c); /* goes back to the device, as it came */
    cr_expect_eq(gpu.live_allocations, live - 2);
    tni_block_free(kept);
    tni_block_free(waits);
    cr_expect_eq(stat("allocated_bytes.all.current"), 0);
    cr_expect_eq(stat("active.all.current"), 0);
    tn_stream_release(other);
}

Test(allocator_options, statistics_by_name)
{
    int64_t value;
    tni_block *small = get(1000), *large = get(3 * MIB);
    cr_expect_eq(stat("allocation.all.current"), 2);
    cr_expect_eq(stat("allocation.small_pool.current"), 1);
    cr_expect_eq(stat("allocated_bytes.small_pool.current"), 1024);
    cr_expect_eq(stat("allocated_bytes.large_pool.current"), 3 * (int64_t)MIB);
    cr_expect_eq(stat("allocated_bytes.all.current"), 3 * (int64_t)MIB + 1024);
    cr_expect_eq(stat("requested_bytes.small_pool.current"), 1000);
    cr_expect_eq(stat("reserved_bytes.small_pool.current"), 2 * (int64_t)MIB);
    cr_expect_eq(stat("reserved_bytes.large_pool.current"), 20 * (int64_t)MIB);
    cr_expect_eq(stat("segment.all.current"), 2);
    cr_expect_eq(stat("inactive_split.all.current"), 2);
    cr_expect_eq(stat("inactive_split_bytes.all.current"), (int64_t)(22 * MIB - 3 * MIB - 1024));
    tn_stream *other;
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &other), TN_OK);
    fake_work(other);
    tni_block_record(large, other);
    tni_block_free(large);
    cr_expect_eq(stat("allocated_bytes.all.current"), 1024);
    cr_expect_eq(stat("active_bytes.all.current"), 3 * (int64_t)MIB + 1024, "another stream uses it still");
    fake_finish(other);
    tni_block_free(get(1));
    cr_expect_eq(stat("active_bytes.all.current"), 1024);
    cr_expect_eq(stat("allocated_bytes.all.peak"), 3 * (int64_t)MIB + 1024);
    cr_expect_eq(stat("allocated_bytes.large_pool.allocated"), 3 * (int64_t)MIB);
    cr_expect_eq(stat("allocated_bytes.large_pool.freed"), 3 * (int64_t)MIB);
    cr_expect_eq(stat("num_device_alloc"), 2);
    cr_assert_eq(tn_memory_reset_peak(ctx, d->id), TN_OK);
    cr_expect_eq(stat("allocated_bytes.all.peak"), 1024);
    cr_assert_eq(tn_memory_reset_accumulated(ctx, d->id), TN_OK);
    cr_expect_eq(stat("allocated_bytes.large_pool.allocated"), 0);
    cr_expect_eq(tn_memory_get_stat(ctx, d->id, "allocated_bytes.all", &value), TN_E_NOT_FOUND);
    cr_expect_not_null(strstr(tn_last_error()->message, "there is no statistic 'allocated_bytes.all'"));
    cr_expect_eq(tn_memory_get_stat(ctx, d->id, NULL, &value), TN_E_ARGUMENT);
    static char text[16384];
    uint64_t length = tn_memory_stats_text(ctx, d->id, text, sizeof text);
    cr_expect_eq(length, strlen(text));
    int lines = 0;
    for (const char *at = text; *at; at++) lines += *at == '\n';
    cr_expect_eq(lines, 9 * 4 * 4 + 5);
    cr_expect_not_null(strstr(text, "\nallocated_bytes.all.current 1024\n"));
    tni_block_free(small);
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_expect_eq(stat("reserved_bytes.all.current"), 0);
    cr_expect_eq(stat("inactive_split.all.current"), 0);
    cr_expect_eq(stat("num_device_free"), 2);
    tn_stream_release(other);
}

static cJSON *snapshot(void)
{
    char path[] = "/tmp/tenon_snapshot_XXXXXX";
    static char text[1 << 20];
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(tn_memory_write_snapshot(ctx, path), TN_OK);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    unlink(path);
    text[n > 0 ? n : 0] = 0;
    cJSON *json = cJSON_Parse(text);
    cr_assert_not_null(json, "%.300s", text);
    return json;
}

static const cJSON *item(const cJSON *list, int i)
{
    return cJSON_GetArrayItem(list, i);
}

static double number(const cJSON *object, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(object, key));
}

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, key));
    return text ? text : "";
}

static tn_memory_stats stats_of(tn_memory_pool *pool)
{
    tn_memory_stats stats = {.size = sizeof stats};
    cr_assert_eq(tn_memory_pool_get_stats(pool, &stats), TN_OK);
    return stats;
}

Test(allocator_options, statistics_of_private_pools)
{
    tn_memory_pool *pool;
    tni_block *outside = get(1000);
    cr_assert_eq(tn_memory_pool_create(ctx, d->id, &pool), TN_OK);
    cr_expect_eq(stats_of(pool).reserved_bytes, 0);
    cr_assert_eq(tn_memory_pool_begin(pool), TN_OK);
    tni_block *small = get(1000), *large = get(3 * MIB), *kept = get(5 * MIB);
    cr_assert_eq(tn_memory_pool_end(pool), TN_OK);
    cr_expect_eq(stat("allocated_bytes.private_pools.current"), 8 * (int64_t)MIB + 1024);
    cr_expect_eq(stat("allocated_bytes.all.current"), 8 * (int64_t)MIB + 2048);
    cr_expect_eq(stat("reserved_bytes.private_pools.current"), 22 * (int64_t)MIB);
    cr_expect_eq(stat("reserved_bytes.small_pool.current"), 4 * (int64_t)MIB);
    cr_expect_eq(stat("segment.private_pools.current"), 2);
    tn_memory_stats stats = stats_of(pool);
    cr_expect_eq(stats.allocated_bytes, 8 * MIB + 1024);
    cr_expect_eq(stats.reserved_bytes, 22 * MIB);
    cr_expect_eq(stats.active_blocks, 3);
    cr_expect_eq(stats.allocations, 3);
    cr_expect_eq(stats.segments, 2);
    cr_expect_eq(stats.device_allocations, 2);
    tni_block_free(large);
    tni_block_free(small);
    stats = stats_of(pool);
    cr_expect_eq(stats.allocated_bytes, 5 * MIB);
    cr_expect_eq(stats.allocated_peak, 8 * MIB + 1024);
    cr_expect_eq(stats.active_blocks, 1);
    cr_expect_eq(stats.reserved_bytes, 22 * MIB, "the pool keeps its memory");
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_expect_eq(stats_of(pool).reserved_bytes, 20 * MIB);
    cr_expect_eq(stats_of(pool).reserved_peak, 22 * MIB);
    /* The snapshot says whose memory it is; the pool's end makes it everybody's. */
    cJSON *json = snapshot();
    const cJSON *s = item(cJSON_GetObjectItem(json, "segments"), 0);
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json, "segments")), 2);
    cr_expect_neq(cJSON_GetNumberValue(item(cJSON_GetObjectItem(s, "segment_pool_id"), 1)), 0);
    cJSON_Delete(json);
    tn_memory_pool_release(pool);
    cr_expect_eq(stat("allocated_bytes.private_pools.current"), 0);
    cr_expect_eq(stat("reserved_bytes.private_pools.current"), 0);
    cr_expect_eq(stat("segment.private_pools.current"), 0);
    cr_expect_eq(stat("inactive_split.private_pools.current"), 0);
    cr_expect_eq(stat("active.private_pools.current"), 0);
    cr_expect_eq(stat("allocated_bytes.all.current"), 5 * (int64_t)MIB + 1024);
    cr_expect_eq(tn_memory_pool_get_stats(NULL, &stats), TN_E_ARGUMENT);
    tni_block_free(kept);
    tni_block_free(outside);
    cr_expect_eq(stat("allocated_bytes.all.current"), 0);
    cr_expect_eq(stat("requested_bytes.private_pools.current"), 0);
}

/* ---- History and snapshots ----------------------------------------------------------------------------- */

Test(allocator_options, snapshot_and_history)
{
    cr_assert_eq(tn_memory_record_history(ctx, d->id, 100, 8), TN_OK);
    tni_block *a = get(3 * MIB), *b = get(4 * MIB);
    tni_block_free(a);
    cJSON *json = snapshot();
    const cJSON *segments = cJSON_GetObjectItem(json, "segments"), *s = item(segments, 0);
    cr_assert_eq(cJSON_GetArraySize(segments), 1);
    cr_expect_eq(number(s, "total_size"), 20.0 * MIB);
    cr_expect_eq(number(s, "allocated_size"), 4.0 * MIB);
    cr_expect_str_eq(text_of(s, "segment_type"), "large");
    const cJSON *blocks = cJSON_GetObjectItem(s, "blocks");
    static const char *const states[] = {"inactive", "active_allocated", "inactive"};
    static const double sizes[] = {3, 4, 13};
    double address = number(s, "address");
    cr_assert_eq(cJSON_GetArraySize(blocks), 3);
    for (int i = 0; i < 3; i++) {
        cr_expect_str_eq(text_of(item(blocks, i), "state"), states[i]);
        cr_expect_eq(number(item(blocks, i), "size"), sizes[i] * MIB);
        cr_expect_eq(number(item(blocks, i), "address"), address);
        address += sizes[i] * MIB;
    }
    cr_expect_geq(cJSON_GetArraySize(cJSON_GetObjectItem(item(blocks, 1), "frames")), 3);
    /* The cpu of the test is not open: one device, with these events. */
    const cJSON *trace = item(cJSON_GetObjectItem(json, "device_traces"), 0);
    static const char *const actions[] = {"segment_alloc", "alloc", "alloc", "free_requested",
                                          "free_completed"};
    cr_assert_eq(cJSON_GetArraySize(trace), 5);
    for (int i = 0; i < 5; i++) cr_expect_str_eq(text_of(item(trace, i), "action"), actions[i]);
    cr_expect_eq(number(item(trace, 3), "addr"), number(item(trace, 1), "addr"));
    cr_expect_eq(number(item(trace, 3), "size"), 3.0 * MIB);
    cr_expect_str_eq(text_of(item(cJSON_GetObjectItem(json, "devices"), 0), "device"), "gpu:0");
    cJSON_Delete(json);
    /* Only the last events are kept. */
    cr_assert_eq(tn_memory_record_history(ctx, d->id, 2, 0), TN_OK);
    tni_block_free(b);
    b = get(100);
    json = snapshot();
    trace = item(cJSON_GetObjectItem(json, "device_traces"), 0);
    cr_assert_eq(cJSON_GetArraySize(trace), 2);
    cr_expect_str_eq(text_of(item(trace, 1), "action"), "alloc");
    cr_expect_eq(number(item(trace, 1), "size"), 512);
    cJSON_Delete(json);
    tni_block_free(b);
    cr_assert_eq(tn_memory_record_history(ctx, d->id, 0, 0), TN_OK);
    cr_expect_eq(tn_memory_record_history(ctx, d->id, 10, 33), TN_E_ARGUMENT);
    cr_expect_eq(tn_memory_write_snapshot(ctx, "/no/such/folder/s.json"), TN_E_IO);
    cr_expect_not_null(
        strstr(tn_last_error()->message, "/no/such/folder/s.json cannot be written: No such file"));
    cr_expect_eq(tn_memory_write_snapshot(ctx, "/dev/full"), TN_E_IO);
    cr_expect_eq(tn_memory_write_snapshot(ctx, NULL), TN_E_ARGUMENT);
}

/* Python reads the pickle and finds the same as in the JSON. */
Test(allocator_options, pickle)
{
    char folder[] = "/tmp/tenon_snapshot_XXXXXX", path[64], command[512];
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(tn_memory_record_history(ctx, d->id, 100, 4), TN_OK);
    tni_block *a = get(3 * MIB), *b = get(100);
    tni_block_free(a);
    snprintf(path, sizeof path, "%s/s.json", folder);
    cr_assert_eq(tn_memory_write_snapshot(ctx, path), TN_OK);
    snprintf(path, sizeof path, "%s/s.pickle", folder);
    cr_assert_eq(tn_memory_write_snapshot(ctx, path), TN_OK);
    snprintf(command, sizeof command,
             "python3 -c \"import json, pickle; a = json.load(open('%s/s.json')); b = pickle.load(open('%s', "
             "'rb')); "
             "assert a == b and len(a['segments']) == 2 and len(a['device_traces'][0]) >= 5\"",
             folder, path);
    cr_expect_eq(system(command), 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
    tni_block_free(b);
}

/* ---- Out of memory ------------------------------------------------------------------------------------- */

typedef struct seen {
    int32_t count;
    tn_memory_shortage last;
} seen;

static void see(void *user, const tn_memory_shortage *shortage)
{
    seen *s = user;
    s->count++;
    s->last = *shortage;
    cr_expect_eq(tn_memory_write_snapshot(ctx, "/no/such/folder/s.json"),
                 TN_E_IO); /* does not hide the error */
}

Test(allocator_options, observers_of_out_of_memory)
{
    seen s = {0};
    uint64_t handles[9];
    tni_block *b, *c = get(1000 * MIB);
    cr_assert_eq(tn_memory_observer_add(ctx, see, &s, &handles[0]), TN_OK);
    cr_expect_eq(tni_block_alloc(d, 50 * MIB, tni_current_stream(d), &b), TN_E_OUT_OF_MEMORY);
    cr_expect_eq(tn_last_error()->code, TN_E_OUT_OF_MEMORY);
    cr_expect_eq(s.count, 1);
    cr_expect_eq(s.last.device, d->id);
    cr_expect_eq(s.last.asked_bytes, 50 * MIB);
    cr_expect_eq(s.last.allocated_bytes, 1000 * MIB);
    cr_expect_eq(s.last.largest_bytes, 1000 * MIB);
    cr_expect_eq(s.last.largest_free, 0);
    tn_memory_observer_remove(ctx, handles[0]);
    cr_expect_eq(tni_block_alloc(d, 50 * MIB, tni_current_stream(d), &b), TN_E_OUT_OF_MEMORY);
    cr_expect_eq(s.count, 1);
    cr_expect_eq(stat("num_ooms"), 2);
    for (int i = 0; i < 8; i++) cr_assert_eq(tn_memory_observer_add(ctx, see, &s, &handles[i]), TN_OK);
    cr_expect_eq(tn_memory_observer_add(ctx, see, &s, &handles[8]), TN_E_STATE);
    cr_expect_eq(tn_memory_observer_add(ctx, NULL, &s, &handles[8]), TN_E_ARGUMENT);
    tni_block_free(c);
}

/* PyTorch's sentences, with what helps a person to go on. */
Test(allocator_options, the_error_says_where_the_memory_is)
{
    tn_memory_pool *pool;
    tni_block *none, *a = get(600 * MIB), *b = get(100 * MIB), *wall;
    cr_assert_eq(tn_memory_pool_create(ctx, d->id, &pool), TN_OK);
    cr_assert_eq(tn_memory_pool_begin(pool), TN_OK);
    wall = get(8 * MIB); /* of an allocation of 20 MiB */
    cr_assert_eq(tn_memory_pool_end(pool), TN_OK);
    cr_expect_eq(tni_block_alloc(d, 1000 * MIB, tni_current_stream(d), &none), TN_E_OUT_OF_MEMORY);
    cr_expect_str_eq(
        tn_last_error()->message,
        "gpu:0 is out of memory. Tried to allocate 1000.00 MiB. The device has a total capacity of 1.00 GiB "
        "of which 304.00 MiB is free. 708.00 MiB is allocated by tensors, with 8.00 MiB in private pools "
        "and graphs, and 12.00 MiB is reserved but unallocated (the largest free block: 12.00 MiB). The "
        "largest allocation is 600.00 MiB.");
    tni_block_free(b);
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(tn_memory_set_limit(ctx, d->id, 620 * MIB), TN_OK);
    cr_expect_eq(tni_block_alloc(d, 5 * MIB, tni_current_stream(d), &none), TN_E_OUT_OF_MEMORY);
    cr_expect_not_null(strstr(tn_last_error()->message,
                              "; the limit set for this program is 620.00 MiB. The largest allocation is "
                              "600.00 MiB. If reserved but unallocated "
                              "memory is large, try TENON_ALLOC_CONF=max_split_size_mb:128 or "),
                       "%s", tn_last_error()->message);
    tni_block_free(a);
    tni_block_free(wall);
    tn_memory_pool_release(pool);
}

/* ---- The variable -------------------------------------------------------------------------------------- */

Test(alloc_conf, is_for_all_devices)
{
    setenv("TENON_ALLOC_CONF", "roundup_power2_divisions:[4:1,>:2],per_process_memory_fraction:0.5", 1);
    open_large_gpu();
    tni_block *b = get(5 * MIB), *c;
    cr_expect_eq(b->bytes, 6 * MIB);
    cr_expect_eq(tni_block_alloc(d, 600 * MIB, tni_current_stream(d), &c), TN_E_OUT_OF_MEMORY);
    tni_block_free(b);
    end_gpu();
}

Test(alloc_conf, bad_value)
{
    tn_context *none = NULL;
    setenv("TENON_ALLOC_CONF", "max_split_size_mb:7", 1);
    cr_expect_eq(tn_context_create(NULL, &none), TN_E_ARGUMENT);
    cr_expect_not_null(
        strstr(tn_last_error()->message,
               "TENON_ALLOC_CONF: max_split_size_mb is '7' (expected a whole number of MiB above 20)"));
}
