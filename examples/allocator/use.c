/* SPDX-License-Identifier: Apache-2.0 */
/* Lets counting.c allocate the tensors of the CPU: `use ./libcounting.so`. */
#include <stdio.h>
#include <tenon/tenon.h>

int main(int argc, char **argv)
{
    tn_context *ctx;
    const char *library = argc > 1 ? argv[1] : "./libcounting.so";
    if (tn_context_create(NULL, &ctx)) return puts(tn_last_error()->message), 1;
    int32_t status = tn_memory_set_allocator(ctx, TN_CPU, library, "counting_alloc", "counting_free");
    if (status) puts(tn_last_error()->message);
    tn_scope *s = tn_scope_open(ctx);
    if (!status) {
        tn_tensor *x = tn_ones(s, TN_INTS(1000));
        const char *text = tn_format(s, tn_sum(s, tn_mul(s, x, x)), NULL);
        tn_memory_stats stats = {.size = sizeof stats};
        tn_memory_get_stats(ctx, TN_CPU, &stats);
        status = tn_scope_failed(s);
        puts(status ? tn_scope_error(s)->message : text);
        printf("%llu allocations\n", (unsigned long long)stats.allocations);
    }
    tn_scope_close(s);
    tn_context_destroy(ctx);
    return status != 0;
}
