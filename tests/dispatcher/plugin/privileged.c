/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the places that are searched; privileged.py runs it with and without privileges. */
#include <stdio.h>
#include <tenon/inspect.h>

#ifdef __SANITIZE_ADDRESS__
/* The search for leaks traces the process, which nobody may do to one with privileges. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

int main(void)
{
    tn_context *ctx;
    const char *place;
    if (tn_context_create(NULL, &ctx) != TN_OK) return 1;
    for (uint32_t i = 0; (place = tn_inspect_search_path(ctx, i)); i++) puts(place);
    tn_context_destroy(ctx);
    return 0;
}
