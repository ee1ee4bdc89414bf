/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject: lets the n-th call of a slot fail, without the slot being called (a wait waits first, and the end
 * of a capture ends it).
 *
 *     TENON_INJECT=memory.alloc:3                    the third allocation: TN_E_INTERNAL
 *     TENON_INJECT=memory.alloc:3:TN_E_OUT_OF_MEMORY
 *     TENON_INJECT=kernel:aten::add.Tensor:2         the second time that kernel runs
 *     TENON_INJECT=operator.backward:1               the first gradient that a plugin's own operator computes
 *     TENON_INJECT=any:100                           the hundredth call that can fail
 *
 * Counted are calls of the host to plugins, over all plugins of the context, that return a status. With N
 * written as "3+" every call from the third on fails; several items are ',' separated. Each failure is logged
 * (TN_LOG_INFO).
 */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ITEMS 16u

typedef struct item {
    char name[128]; /* slot, or operator for kernels */
    int32_t any;
    int32_t kernel; /* kernel.run of the operator `name` */
    int32_t on;     /* from `at` on, not only once */
    int32_t status;
    uint64_t at;
    atomic_uint_fast64_t count;
} item;

typedef struct injection {
    uint32_t count;
    item items[MAX_ITEMS];
} injection;

/* ---- The setting ------------------------------------------------------------------------------------- */

static int32_t read_status(const char *text, size_t length, int32_t *out)
{
#define NAME(name, value, words) {#name, value},
    static const struct {
        const char *name;
        int32_t value;
    } names[] = {TN_STATUS_LIST(NAME)};
#undef NAME
    for (size_t i = 1; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *tail = names[i].name + strlen("TN_E_");
        if ((strlen(names[i].name) == length && strncmp(names[i].name, text, length) == 0) ||
            (strlen(tail) == length && strncasecmp(tail, text, length) == 0)) {
            *out = names[i].value;
            return 1;
        }
    }
    return 0;
}

static int32_t is_slot(const char *name)
{
    for (uint32_t i = 0; i < SHIM_SLOT_COUNT; i++) {
        if (strcmp(shim_slots[i].name, name) == 0) return shim_slots[i].result == SHIM_STATUS;
    }
    return 0;
}

/* Takes the last ':' part that looks like a number; names of operators have colons of their own. */
static const char *find_number(const char *text, const char *end)
{
    for (const char *c = end; c-- > text;) {
        if (*c == ':' && c[1] >= '0' && c[1] <= '9') return c + 1;
    }
    return NULL;
}

static int32_t read_item(const shim *s, const char *text, size_t length, item *out)
{
    const char *end = text + length, *number = find_number(text, end), *name = text;
    char *rest = NULL;
    size_t bytes;
    *out = (item){.status = TN_E_INTERNAL};
    if (number) out->at = strtoull(number, &rest, 10);
    if (rest && *rest == '+') {
        out->on = 1;
        rest++;
    }
    if (!number || (rest < end && *rest != ':'))
        return shim_error(s->host, TN_E_ARGUMENT,
                          "inject: '%.*s' is not SLOT:N[:STATUS], such as memory.alloc:3:TN_E_OUT_OF_MEMORY",
                          (int)length, text);
    if (!out->at)
        return shim_error(s->host, TN_E_ARGUMENT, "inject: '%.*s': N counts calls from 1, not 0", (int)length,
                          text);
    if (rest < end && !read_status(rest + 1, (size_t)(end - rest - 1), &out->status))
        return shim_error(s->host, TN_E_ARGUMENT,
                          "inject: '%.*s': '%.*s' is not a status, such as TN_E_OUT_OF_MEMORY", (int)length,
                          text, (int)(end - rest - 1), rest + 1);
    bytes = (size_t)(number - 1 - text);
    if (bytes > 7 && strncmp(text, "kernel:", 7) == 0) {
        out->kernel = 1;
        name += 7;
        bytes -= 7;
    }
    snprintf(out->name, sizeof(out->name), "%.*s", (int)bytes, name);
    out->any = strcmp(out->name, "any") == 0;
    if (!out->any && !out->kernel && !is_slot(out->name))
        return shim_error(s->host, TN_E_ARGUMENT,
                          "inject: there is no slot '%s' that can fail (names are like memory.alloc, "
                          "kernel.run, kernel:aten::add.Tensor, any)",
                          out->name);
    return TN_OK;
}

static int32_t inject_configure(shim *s, const char *setting)
{
    injection *all = calloc(1, sizeof(*all));
    int32_t status = TN_OK;
    if (!all) return shim_error(s->host, TN_E_OUT_OF_MEMORY, "inject: out of memory");
    s->state = all;
    while (status == TN_OK && *setting) {
        size_t length = strcspn(setting, ",");
        if (all->count == MAX_ITEMS)
            return shim_error(s->host, TN_E_ARGUMENT, "inject: more than %u items", MAX_ITEMS);
        status = read_item(s, setting, length, &all->items[all->count]);
        all->count += status == TN_OK;
        setting += length + (setting[length] == ',');
    }
    return status;
}

static void inject_finish(shim *s)
{
    free(s->state);
}

/* ---- Calls ------------------------------------------------------------------------------------------- */

static int32_t fits(const item *i, const shim_call *c)
{
    if (i->kernel) return c->id == SHIM_KERNEL_RUN && strcmp(c->row->op, i->name) == 0;
    return i->any ? !c->slot->of_host : strcmp(c->slot->name, i->name) == 0;
}

/* The status to inject into this call; TN_OK: none. */
static int32_t chosen_status(const shim_call *c)
{
    injection *all = c->plugin->shim->state;
    for (uint32_t k = 0; all && k < all->count; k++) {
        item *i = &all->items[k];
        if (!fits(i, c)) continue;
        uint64_t n = atomic_fetch_add(&i->count, 1) + 1;
        if (n == i->at || (i->on && n > i->at)) return i->status;
    }
    return TN_OK;
}

static int32_t fail(const shim_call *c, int32_t status)
{
    const tn_host *host = c->plugin->outer;
    char place[256], line[320];
    snprintf(line, sizeof(line), "inject: %s fails", shim_place(c, place, sizeof(place)));
    if (host->log) host->log(host->context, TN_LOG_INFO, line);
    return shim_error(host, status, "injected failure of %s of plugin %s", place, c->plugin->info->name);
}

/* Waits that fail still wait, as with late errors: the host may free memory afterwards. */
static int32_t is_wait(const shim_call *c)
{
    return c->id == SHIM_STREAM_SYNCHRONIZE || c->id == SHIM_EVENT_SYNCHRONIZE ||
           c->id == SHIM_DEVICE_SYNCHRONIZE;
}

/* The new graph is destroyed and the output restored. */
static void undo_end(const shim_call *c)
{
    const shim_plugin *w = c->plugin;
    void **out_graph = c->values[2].pointer; /* device, stream, out_graph */
    w->inner.graph.destroy(w->self, c->values[0].pointer, *out_graph);
    *out_graph = c->value.pointer;
}

static int32_t inject_before(shim_call *c)
{
    int32_t status = c->slot->result == SHIM_STATUS ? chosen_status(c) : TN_OK;
    if (c->id == SHIM_GRAPH_END) c->value.pointer = *(void **)c->values[2].pointer;
    c->mark = is_wait(c) || c->id == SHIM_GRAPH_END ? (uint64_t)status : 0;
    return status == TN_OK || c->mark ? TN_OK : fail(c, status);
}

static void inject_after(shim_call *c)
{
    if (!c->mark || c->status != TN_OK) return;
    if (c->id == SHIM_GRAPH_END) undo_end(c);
    c->status = fail(c, (int32_t)c->mark);
}

SHIM_TOOL(inject);
