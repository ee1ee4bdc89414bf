/* SPDX-License-Identifier: Apache-2.0 */
#include "handle.h"
#include "number_text.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define DEAD 0x64656164u /* no other value of a mark is possible but 0 */

/* Memory of dead objects, so that it stays reachable. */
typedef struct kept {
    struct kept *next;
    void *memory;
} kept;

/* Of the process and not of a context: a second use may come after the context's end. */
static _Atomic(kept *) all_kept;

int32_t handle_is_kept(void)
{
    static const char word[] = "handles";
    const size_t bytes = sizeof word - 1;
    for (const char *list = secure_getenv("TENON_DEBUG"); list && *list;) {
        const size_t length = strcspn(list, ",");
        if (length == bytes && !memcmp(list, word, bytes)) return 1;
        list += length + (list[length] == ',');
    }
    return 0;
}

/* As the log of a context prints what TENON_DEBUG finds; that context may be gone. */
static void write_to_stderr(const char *text)
{
    fprintf(stderr, "tenon: error: TENON_DEBUG: %s\n", text);
}

void handle_begin(tn_context *ctx, const void *object, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    plain_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tn_debug_object_begin(ctx, object, text);
}

int32_t handle_end(handle_mark *mark, const char *what, void *caller)
{
    if (*mark != DEAD) {
        *mark = DEAD;
        return 1;
    }
    char text[640];
    Dl_info info = {0};
    const int found = dladdr(caller, &info);
    snprintf(text, sizeof text, "%s was destroyed and is destroyed again at %s+0x%llx", what,
             found && info.dli_fname ? info.dli_fname : "address 0",
             (unsigned long long)((uintptr_t)caller - (uintptr_t)info.dli_fbase));
    write_to_stderr(text);
    tn_scope_fail(NULL, TN_E_DEAD_HANDLE, text);
    return 0;
}

void handle_free(void *memory)
{
    tn_debug_object_end(memory);
    kept *k = memory && handle_is_kept() ? malloc(sizeof *k) : NULL;
    if (!k) {
        free(memory);
        return;
    }
    *k = (kept){atomic_load(&all_kept), memory};
    while (!atomic_compare_exchange_weak(&all_kept, &k->next, k)) continue;
}

int32_t handle_refuse(tn_scope *s, const handle_mark *mark, const char *what)
{
    char text[160];
    if (*mark != DEAD) return TN_OK;
    snprintf(text, sizeof text, "%s was destroyed and is used again", what);
    return tn_scope_fail(s, TN_E_DEAD_HANDLE, text);
}

int32_t handle_check(const handle_mark *mark, const char *what)
{
    return handle_refuse(NULL, mark, what);
}

int32_t handle_context_check(tn_context *ctx)
{
    tn_scope *s = tn_scope_open(ctx);
    if (!s) return tn_last_error()->code;
    return tn_scope_close(s);
}
