/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the CPU with guards; see guard.h. */
#include "guard.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kernel.h>

#define GUARD_BYTES 4096u /* on each side; a multiple of the alignment that the library wants */
#define GUARD_BYTE  0xc5

typedef struct block {
    struct block *next, **link;
    unsigned char *data;
    size_t bytes;
    unsigned char fill;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static unsigned char next_fill = 0x40; /* 3.0 and 32.5 as float32 and float64 */
static char freed_fault[160];          /* of a block that was freed since */

/* Found by name in the program itself: the allocator of a device is two functions of a library. */
__attribute__((visibility("default"))) void *tenon_guard_alloc(int64_t bytes, int32_t index, void *stream);
__attribute__((visibility("default"))) void tenon_guard_free(void *data, int64_t bytes, int32_t index,
                                                             void *stream);

static void describe(const block *b, char *text, size_t bytes)
{
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (b->data[-1 - (ptrdiff_t)i] != GUARD_BYTE)
            snprintf(text, bytes, "%zu bytes before a block of %zu bytes were written", i + 1, b->bytes);
        else if (b->data[b->bytes + i] != GUARD_BYTE)
            snprintf(text, bytes, "byte %zu behind a block of %zu bytes was written", i + 1, b->bytes);
        else
            continue;
        return;
    }
}

void *tenon_guard_alloc(int64_t bytes, int32_t index, void *stream)
{
    const size_t whole = ((size_t)bytes + 2 * GUARD_BYTES + 63) & ~(size_t)63;
    unsigned char *memory = aligned_alloc(64, whole);
    block *b = malloc(sizeof *b);
    (void)index, (void)stream;
    if (!memory || !b) {
        free(memory);
        free(b);
        return NULL;
    }
    memset(memory, GUARD_BYTE, whole);
    pthread_mutex_lock(&lock);
    *b = (block){.next = blocks,
                 .link = &blocks,
                 .data = memory + GUARD_BYTES,
                 .bytes = (size_t)bytes,
                 .fill = next_fill};
    if (blocks) blocks->link = &b->next;
    blocks = b;
    memset(b->data, b->fill, b->bytes);
    pthread_mutex_unlock(&lock);
    return b->data;
}

void tenon_guard_free(void *data, int64_t bytes, int32_t index, void *stream)
{
    (void)bytes, (void)index, (void)stream;
    pthread_mutex_lock(&lock);
    block *b = blocks;
    while (b && b->data != data) b = b->next;
    if (b) {
        if (!*freed_fault) describe(b, freed_fault, sizeof freed_fault);
        *b->link = b->next;
        if (b->next) b->next->link = b->link;
        free(b->data - GUARD_BYTES);
        free(b);
    }
    pthread_mutex_unlock(&lock);
}

void guard_begin(tn_context *ctx)
{
    tn_memory_set_allocator(ctx, TN_CPU, "", "tenon_guard_alloc", "tenon_guard_free");
    tn_clear_error();
}

void guard_fill(uint8_t byte)
{
    pthread_mutex_lock(&lock);
    next_fill = byte;
    pthread_mutex_unlock(&lock);
}

static int is_row_major(const tn_tensor_desc *d)
{
    int64_t stride = 1;
    for (uint32_t k = d->rank; k-- > 0; stride *= d->sizes[k])
        if (d->sizes[k] != 1 && d->strides[k] != stride) return 0;
    return 1;
}

/* Between the last element of a row-major tensor and the end of its block. */
int guard_is_broken(const tn_tensor *t, char *text, size_t bytes)
{
    const tn_tensor_desc *d = tn_desc(t);
    const size_t used = (size_t)(tn_tensor_numel(t) * tn_dtype_bytes(d->dtype));
    *text = 0;
    pthread_mutex_lock(&lock);
    for (const block *b = blocks; b && !*text; b = b->next) {
        if (b->data != d->host || !is_row_major(d)) continue;
        for (size_t i = used; i < b->bytes && !*text; i++) {
            if (b->data[i] != b->fill)
                snprintf(text, bytes, "byte %zu behind its %zu bytes was written", i - used + 1, used);
        }
        if (!*text) describe(b, text, bytes);
    }
    pthread_mutex_unlock(&lock);
    return *text != 0;
}

int guard_any_is_broken(char *text, size_t bytes)
{
    pthread_mutex_lock(&lock);
    snprintf(text, bytes, "%s", freed_fault);
    *freed_fault = 0;
    for (const block *b = blocks; b && !*text; b = b->next) describe(b, text, bytes);
    pthread_mutex_unlock(&lock);
    return *text != 0;
}
