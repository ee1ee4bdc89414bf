/* SPDX-License-Identifier: Apache-2.0 */
/* Tier 0: facts, memory, copies, errors and contexts. No kernel is needed. */
#include "../rows.h"
#include "sources.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Facts --------------------------------------------------------------------------------------------- */

static void run_facts(check_target *t, const check_case *c, check_result *out)
{
    tn_device device = TN_DEVICE(TN_DEVICE_TYPE(t->device), (uint32_t)c->number);
    tn_device_facts f = {.size = sizeof f};
    if (tn_device_get_facts(t->ctx, device, &f)) {
        check_fail_with_error(out, NULL, "facts");
        return;
    }
    check_that(out, f.size == sizeof f, "facts: out->size became %u, it was %u", f.size, (uint32_t)sizeof f);
    check_that(out, f.device_class <= TN_DEVICE_VIRTUAL, "facts: class %u is not known", f.device_class);
    check_that(out, f.memory_kinds && !(f.memory_kinds & ~7u), "facts: memory kinds 0x%x", f.memory_kinds);
    check_that(out, f.alignment && !(f.alignment & (f.alignment - 1)),
               "facts: alignment %u is not a power of two", f.alignment);
    check_that(out, memchr(f.name, 0, sizeof f.name) && f.name[0],
               "facts: the name is empty or not terminated");
    check_that(out, memchr(f.architecture, 0, sizeof f.architecture) != NULL,
               "facts: the architecture is not terminated");
    check_that(out, f.priority_high <= f.priority_low, "facts: priority_high %d is above priority_low %d",
               f.priority_high, f.priority_low);
    int32_t count = tn_device_count(t->ctx, tn_interned(t->ctx, TN_DEVICE_TYPE(t->device)));
    check_that(out, count >= 64 || !(f.peers >> count), "facts: peers 0x%llx, but there are %d devices",
               (unsigned long long)f.peers, count);
    for (const tn_dtype *d = f.dtypes; d && *d; d++)
        check_that(out, tn_dtype_name(*d) != NULL, "facts: dtype 0x%x has no name", *d);
}

static void run_information(check_target *t, const check_case *c, check_result *out)
{
    uint64_t free_bytes = 0, total = 0;
    if (tn_device_memory(t->ctx, t->device, &free_bytes, &total)) {
        check_fail_with_error(out, NULL, "memory.info");
        return;
    }
    check_that(out, free_bytes <= total, "memory.info: %llu bytes free of %llu",
               (unsigned long long)free_bytes, (unsigned long long)total);
}

/* ---- Copies -------------------------------------------------------------------------------------------- */

static uint8_t *pattern(tn_scope *s, uint64_t bytes, uint64_t seed)
{
    uint8_t *data = tn_scope_memory(s, bytes + 1);
    for (uint64_t i = 0; data && i < bytes; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        data[i] = (uint8_t)(seed >> 56);
    }
    return data;
}

static tn_tensor *upload(check_target *t, tn_scope *s, const void *data, int64_t bytes)
{
    return tn_from_data(s, TN_UINT8, TN_INTS(bytes), data, t->device);
}

/* Fails unless the tensor holds these bytes, row-major. */
static int holds(check_result *out, tn_scope *s, const char *what, const tn_tensor *x, const uint8_t *want)
{
    uint64_t bytes = x ? (uint64_t)tn_tensor_numel(x) * (uint64_t)tn_dtype_bytes(tn_tensor_dtype(x)) : 0;
    uint8_t *got = tn_scope_memory(s, bytes + 1);
    if (!x || !got || tn_to_host(s, x, got, bytes)) {
        check_fail_with_error(out, s, what);
        return 0;
    }
    for (uint64_t i = 0; i < bytes; i++) {
        if (got[i] != want[i])
            return check_that(out, 0, "%s: byte %llu of %llu is 0x%02x, expected 0x%02x", what,
                              (unsigned long long)i, (unsigned long long)bytes, got[i], want[i]);
    }
    return 1;
}

static void run_round_trip(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    uint8_t *data = pattern(s, (uint64_t)c->number, check_seed(t, c));
    tn_tensor *x = upload(t, s, data, c->number);
    /* Where the host sees the memory of tensors it reads them there; a copy to another device calls the slot. */
    if (holds(out, s, "to the device and back", x, data) && t->device != TN_CPU)
        holds(out, s, "to the device and to the CPU", tn_to_device(s, x, TN_CPU, TN_UINT8), data);
    tn_scope_close(s);
}

/* Parts that begin at odd bytes. */
static void run_parts(check_target *t, const check_case *c, check_result *out)
{
    static const int64_t starts[] = {0, 1, 3, 63, 64, 65, 2048, 4094};
    tn_scope *s = tn_scope_open(t->ctx);
    uint8_t *data = pattern(s, 4096, check_seed(t, c));
    tn_tensor *x = upload(t, s, data, 4096);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        char what[64];
        int64_t end = starts[i] + 301 < 4096 ? starts[i] + 301 : 4096;
        snprintf(what, sizeof what, "bytes %lld to %lld", (long long)starts[i], (long long)end);
        if (!holds(out, s, what, tn_slice(s, x, .start = starts[i], .end = end), data + starts[i])) break;
    }
    tn_scope_close(s);
}

/* All bits of a dtype survive, also patterns that are not numbers. */
static void run_dtype(check_target *t, const check_case *c, check_result *out)
{
    tn_dtype dtype = (tn_dtype)c->number;
    tn_scope *s = tn_scope_open(t->ctx);
    uint8_t *data = pattern(s, 91 * (uint64_t)tn_dtype_bytes(dtype), check_seed(t, c));
    for (int64_t i = 0; data && dtype == TN_BOOL && i < 91; i++) data[i] &= 1;
    tn_tensor *x = data ? tn_from_data(s, dtype, TN_INTS(7, 13), data, t->device) : NULL;
    holds(out, s, "to the device and back", x, data);
    if (x)
        holds(out, s, "with other strides", tn_transpose(s, tn_contiguous(s, tn_transpose(s, x, 0, 1)), 0, 1),
              data);
    tn_scope_close(s);
}

/* The slot copy.device_to_device: a storage that grows keeps its bytes. */
static void run_grow(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    uint8_t *data = pattern(s, 5000, check_seed(t, c));
    tn_tensor *x = upload(t, s, data, 5000);
    tn_resize_(s, x, TN_INTS(1 << 20));
    if (x) holds(out, s, "a storage that has grown", tn_slice(s, x, .start = 0, .end = 5000), data);
    tn_scope_close(s);
}

static void run_between(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    uint8_t *data = pattern(s, 10007, check_seed(t, c));
    tn_tensor *x = upload(t, s, data, 10007), *y = tn_clone(s, x);
    if (tn_scope_failed(s))
        check_fail_with_error(out, s, "clone");
    else
        check_that(out, !tn_tensor_is_alias(x, y), "clone: the copy shares the storage");
    holds(out, s, "a copy on the device", y, data);
    tn_scope_close(s);
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

/* Many blocks alive at once: none may overlap, and freed ones can be allocated again. */
static void run_blocks(check_target *t, const check_case *c, check_result *out)
{
    enum { BLOCKS = 64 };
    tn_scope *s = tn_scope_open(t->ctx);
    tn_tensor *blocks[BLOCKS];
    uint8_t *data[BLOCKS];
    for (int round = 0; round < 3 && out->outcome == CHECK_PASSED; round++) {
        for (int i = round ? round : 0; i < BLOCKS; i += round ? 3 : 1) {
            int64_t bytes = 1 + (int64_t)(i * 977 + round * 131) % 20011;
            if (round) tn_drop(s, blocks[i]);
            data[i] = pattern(s, (uint64_t)bytes, check_seed(t, c) + (uint64_t)i + 1000u * (uint64_t)round);
            blocks[i] = upload(t, s, data[i], bytes);
        }
        for (int i = 0; i < BLOCKS; i++) {
            char what[48];
            snprintf(what, sizeof what, "block %d in round %d", i, round);
            if (!holds(out, s, what, blocks[i], data[i])) break;
        }
    }
    tn_scope_close(s);
}

static void run_alignment(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    for (int64_t bytes = 1; bytes < 100000; bytes = bytes * 3 + 1) {
        tn_tensor *x = tn_empty(s, TN_INTS(bytes), .dtype = TN_UINT8, .device = t->device);
        if (!x) {
            check_fail_with_error(out, s, "empty");
            break;
        }
        uintptr_t at = (uintptr_t)tn_tensor_data(x);
        if (!check_that(out, at % t->facts.alignment == 0,
                        "%lld bytes lie at 0x%llx; the facts promise alignment %u", (long long)bytes,
                        (unsigned long long)at, t->facts.alignment))
            break;
    }
    tn_scope_close(s);
}

/* More than any device has: a clear error, after which the device works. */
static void run_out_of_memory(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    tn_tensor *x = tn_empty(s, TN_INTS(INT64_C(1) << 55), .dtype = TN_UINT8, .device = t->device);
    check_that(out, x == NULL, "an allocation of 2^55 bytes succeeded");
    const tn_error *e = tn_scope_error(s);
    check_that(out, e && e->code == TN_E_OUT_OF_MEMORY,
               "2^55 bytes: status %d (%s), expected %d (out of memory)", e ? (int)e->code : 0,
               e && e->message ? e->message : "", TN_E_OUT_OF_MEMORY);
    tn_scope_close(s);
    t->error_line[0] = 0; /* it may have been logged */
    if (out->outcome == CHECK_PASSED) {
        s = tn_scope_open(t->ctx);
        uint8_t *data = pattern(s, 1000, check_seed(t, c));
        holds(out, s, "after a failed allocation", upload(t, s, data, 1000), data);
        tn_scope_close(s);
    }
}

static void run_give_back(check_target *t, const check_case *c, check_result *out)
{
    tn_memory_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    if (tn_memory_get_stats(t->ctx, t->device, &before)) {
        check_skip(out, "the plugin's own allocator keeps no statistics");
        return;
    }
    tn_scope *s = tn_scope_open(t->ctx);
    for (int i = 0; i < 8; i++) tn_empty(s, TN_INTS(3 << 20), .dtype = TN_UINT8, .device = t->device);
    if (tn_scope_failed(s)) check_fail_with_error(out, s, "empty");
    tn_scope_close(s);
    if (tn_memory_empty_cache(t->ctx, t->device)) check_fail_with_error(out, NULL, "empty_cache");
    tn_memory_get_stats(t->ctx, t->device, &after);
    check_that(out, after.allocated_bytes == before.allocated_bytes,
               "%llu bytes are still in tensors, before it was %llu",
               (unsigned long long)after.allocated_bytes, (unsigned long long)before.allocated_bytes);
    check_that(out, after.reserved_bytes <= before.reserved_bytes,
               "%llu bytes are still taken from the device, before it was %llu",
               (unsigned long long)after.reserved_bytes, (unsigned long long)before.reserved_bytes);
}

/* ---- Errors and contexts ------------------------------------------------------------------------------- */

static void run_wrong_index(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    tn_device beyond = TN_DEVICE(TN_DEVICE_TYPE(t->device), t->device_count);
    check_that(out, tn_empty(s, TN_INTS(4), .device = beyond) == NULL,
               "a device past the last one gave memory");
    check_that(out, tn_scope_error(s) && tn_scope_error(s)->message[0],
               "no error for a device past the last one");
    tn_scope_close(s);
    t->error_line[0] = 0;
}

/* A second context beside the first: state must not be shared. */
static void run_two_contexts(check_target *t, const check_case *c, check_result *out)
{
    char reason[512];
    tn_scope *s = tn_scope_open(t->ctx), *other;
    uint8_t *data = pattern(s, 9001, check_seed(t, c));
    tn_tensor *x = upload(t, s, data, 9001);
    for (int round = 0; round < 2 && out->outcome == CHECK_PASSED; round++) {
        check_target *second = check_target_open(t->options, reason, sizeof reason);
        if (!check_that(out, second != NULL, "a second context: %s", second ? "" : reason)) break;
        other = tn_scope_open(second->ctx);
        holds(out, other, "in the second context", upload(second, other, data, 9001), data);
        tn_scope_close(other);
        holds(out, s, "in the first context beside the second", x, data);
        check_target_close(second);
        holds(out, s, "in the first context after the end of the second", x, data);
    }
    tn_scope_close(s);
}

/* Contexts end with work in flight and memory in use. */
static void run_shutdown(check_target *t, const check_case *c, check_result *out)
{
    char reason[512];
    for (int round = 0; round < 4; round++) {
        check_target *second = check_target_open(t->options, reason, sizeof reason);
        if (!check_that(out, second != NULL, "context %d: %s", round, second ? "" : reason)) return;
        tn_scope *s = tn_scope_open(second->ctx);
        uint8_t *data = pattern(s, 1 << 16, 1);
        tn_tensor *x = upload(second, s, data, 1 << 16);
        for (int i = 0; i < 8; i++) x = tn_clone(s, x);
        if (tn_scope_failed(s)) check_fail_with_error(out, s, "clone");
        tn_scope_close(s);
        check_target_close(second);
    }
}

/* ---- Rows ---------------------------------------------------------------------------------------------- */

static void fail_with(void *user, const char *text)
{
    check_fail(user, "%s", text);
}

static void run_rows(check_target *t, const check_case *c, check_result *out)
{
    misspelt_rows(t->ctx, &(unused_rows){.plugin = t->plugin}, fail_with, out);
}

/* ---- The list ------------------------------------------------------------------------------------------ */

void check_tier0(check_target *t, check_list *list)
{
    static const int64_t sizes[] = {1, 2, 3, 63, 64, 65, 511, 4096, 4097, 65536, 1000003, 1 << 22};
    static const tn_dtype dtypes[] = {TN_BOOL,    TN_UINT8,     TN_INT8,      TN_INT16,
                                      TN_INT32,   TN_INT64,     TN_UINT16,    TN_UINT32,
                                      TN_UINT64,  TN_FLOAT16,   TN_BFLOAT16,  TN_FLOAT32,
                                      TN_FLOAT64, TN_COMPLEX32, TN_COMPLEX64, TN_COMPLEX128};
    for (uint32_t i = 0; i < t->device_count; i++)
        check_add(list, &(check_case){.run = run_facts, .number = i}, "0/device/facts/%u", i);
    check_add(list, &(check_case){.run = run_rows}, "0/kernels/names");
    check_add(list, &(check_case){.run = run_information}, "0/memory/info");
    check_add(list, &(check_case){.run = run_alignment}, "0/memory/alignment");
    check_add(list, &(check_case){.run = run_blocks}, "0/memory/blocks");
    check_add(list, &(check_case){.run = run_give_back}, "0/memory/give-back");
    check_add(list, &(check_case){.run = run_out_of_memory}, "0/memory/too-much");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_add(list, &(check_case){.run = run_round_trip, .number = sizes[i]}, "0/copy/bytes/%lld",
                  (long long)sizes[i]);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        check_add(list, &(check_case){.run = run_dtype, .number = dtypes[i]}, "0/copy/dtype/%s",
                  tn_dtype_name(dtypes[i]));
    check_add(list, &(check_case){.run = run_parts}, "0/copy/parts");
    check_add(list, &(check_case){.run = run_between}, "0/copy/on-the-device");
    check_add(list, &(check_case){.run = run_grow}, "0/copy/growing-storage");
    check_add(list, &(check_case){.run = run_wrong_index}, "0/error/no-such-device");
    check_add(list, &(check_case){.run = run_two_contexts, .tags = CHECK_TAG_ALONE}, "0/context/two");
    check_add(list, &(check_case){.run = run_shutdown, .tags = CHECK_TAG_ALONE}, "0/context/shutdown");
}
