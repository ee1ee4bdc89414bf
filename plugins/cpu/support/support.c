/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of cpu.h: dtype lists, errors, memory, parallel loops. */
#include "cpu.h"
#include "team.h"

#include <omp.h>
#include <stdarg.h>
#include <stdio.h>

#define INTEGERS TN_UINT8, TN_INT8, TN_INT16, TN_INT32, TN_INT64
#define UNSIGNED TN_UINT16, TN_UINT32, TN_UINT64
#define FLOATS   TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64
#define COMPLEX  TN_COMPLEX64, TN_COMPLEX128

const tn_dtype cpu_float32_dtypes[] = {TN_FLOAT32, 0};
const tn_dtype cpu_full_float_dtypes[] = {TN_FLOAT32, TN_FLOAT64, 0};
const tn_dtype cpu_half_dtypes[] = {TN_FLOAT16, TN_BFLOAT16, 0};
const tn_dtype cpu_float_dtypes[] = {FLOATS, 0};
const tn_dtype cpu_complex_dtypes[] = {COMPLEX, 0};
const tn_dtype cpu_inexact_dtypes[] = {FLOATS, COMPLEX, 0};
const tn_dtype cpu_integer_dtypes[] = {INTEGERS, 0};
const tn_dtype cpu_integral_dtypes[] = {TN_BOOL, INTEGERS, 0};
const tn_dtype cpu_real_dtypes[] = {INTEGERS, FLOATS, 0};
const tn_dtype cpu_ordered_dtypes[] = {TN_BOOL, INTEGERS, FLOATS, 0};
const tn_dtype cpu_number_dtypes[] = {INTEGERS, FLOATS, COMPLEX, 0};
const tn_dtype cpu_all_dtypes[] = {TN_BOOL, INTEGERS, FLOATS, COMPLEX, 0};
const tn_dtype cpu_every_real_dtypes[] = {TN_BOOL, INTEGERS, UNSIGNED, FLOATS, 0};
const tn_dtype cpu_everything_dtypes[] = {TN_BOOL, INTEGERS, UNSIGNED, FLOATS, TN_COMPLEX32, COMPLEX, 0};

int32_t cpu_error(const tn_call *call, int32_t status, const char *format, ...)
{
    char message[512];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return call->host->error(call->host->context, status, message);
}

void *cpu_scratch(const tn_call *call, uint64_t bytes)
{
    const tn_memory_request request = {.size = sizeof request, .bytes = bytes ? bytes : 1};
    tn_memory memory = {.size = sizeof memory};
    return call->host->workspace(call, &request, &memory) == TN_OK ? memory.host : NULL;
}

void *cpu_alloc(const tn_call *call, int64_t bytes)
{
    void *memory = call->host->alloc(call->host->context, (uint64_t)max_i64(bytes, 64));
    if (!memory)
        cpu_error(call, TN_E_OUT_OF_MEMORY, "out of memory: %lld bytes of scratch memory", (long long)bytes);
    return memory;
}

void cpu_free(const tn_call *call, void *memory, int64_t bytes)
{
    if (memory) call->host->free(call->host->context, memory, (uint64_t)max_i64(bytes, 64));
}

int32_t cpu_thread_count(const tn_call *call)
{
    return call->threads > 1 ? call->threads : 1;
}

void cpu_parallel_for(const tn_call *call, int64_t n, int64_t grain, cpu_range_fn fn, void *user)
{
    int64_t grains = ceil_div(n, grain), threads = cpu_thread_count(call);
    threads = cpu_team_of(call, min_i64(threads, grains));
    if (threads <= 1) {
        if (n > 0) fn(user, 0, n, 0);
        return;
    }
#pragma omp parallel num_threads((int)threads)
    {
        /* The runtime may start fewer threads than were asked for. */
        int64_t thread = omp_get_thread_num(), count = omp_get_num_threads();
        int64_t begin = grains * thread / count * grain, end = grains * (thread + 1) / count * grain;
        if (end > n) end = n;
        if (begin < end) fn(user, begin, end, (int32_t)thread);
    }
}

void cpu_parallel_ranges(const tn_call *call, int64_t n, int64_t grain, cpu_range_fn fn, void *user)
{
    int64_t ranges = ceil_div(n, grain);
    int32_t threads = cpu_team_of(call, min_i64(cpu_thread_count(call), ranges));
    if (threads <= 1) {
        for (int64_t begin = 0; begin < n; begin += grain) fn(user, begin, min_i64(begin + grain, n), 0);
        return;
    }
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < ranges; i++)
        fn(user, i * grain, min_i64((i + 1) * grain, n), (int32_t)omp_get_thread_num());
}
