/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few services behind nn.h: ranges over threads, scratch memory, formatted errors. Ranges are handed out
 * by a counter, so that a slow core takes fewer of them; what a range covers never depends on who takes it.
 */
#include "nn.h"
#include <stdarg.h>
#include <stdio.h>

void tni_for_ranges(const tn_call *call, int64_t count, int64_t grain, tni_range_fn body, void *context)
{
    int64_t ranges = ceil_div(count, grain);
    int threads = (int)min_i64(call->threads > 0 ? call->threads : 1, ranges);
    if (threads <= 1) {
        for (int64_t begin = 0; begin < count; begin += grain)
            body(context, begin, min_i64(begin + grain, count));
        return;
    }
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t i = 0; i < ranges; i++) body(context, i * grain, min_i64((i + 1) * grain, count));
}

void *tni_scratch(const tn_call *call, int64_t bytes)
{
    void *memory = call->host->alloc(call->host->context, (uint64_t)max_i64(bytes, 64));
    if (!memory) tni_fail(call, TN_E_OUT_OF_MEMORY, "out of memory: %lld bytes of scratch", (long long)bytes);
    return memory;
}

void tni_scratch_free(const tn_call *call, void *memory, int64_t bytes)
{
    if (memory) call->host->free(call->host->context, memory, (uint64_t)max_i64(bytes, 64));
}

int32_t tni_fail(const tn_call *call, int32_t code, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return call->host->error(call->host->context, code, text);
}
