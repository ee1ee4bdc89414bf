/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a shim of a tool: the plugin with the interface tenon.shim, and the wrapping of plugins. What runs at
 * each call is in call.c; the forwarding functions are printed. See shim.h.
 */
#include "shim.h"
#include "wrap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t shim_error(const tn_host *host, int32_t status, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    return host->error(host->context, status, text);
}

/* ---- Structs ----------------------------------------------------------------------------------------- */

void shim_read_struct(void *to, const void *from, uint32_t known)
{
    uint32_t size = 0;
    memset(to, 0, known);
    if (!from) return;
    memcpy(&size, from, sizeof(size));
    if (size > known) size = known;
    if (size > sizeof(size)) memcpy(to, from, size);
    memcpy(to, &size, sizeof(size));
}

void shim_write_struct(void *to, const void *from, uint32_t known)
{
    uint32_t size;
    if (!to) return;
    memcpy(&size, to, sizeof(size));
    if (size > known) size = known;
    if (size > sizeof(size))
        memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), size - sizeof(size));
}

/* ---- Plugins ----------------------------------------------------------------------------------------- */

/* All wrapped plugins. */
static struct {
    pthread_mutex_t lock;
    shim_plugin *first;
} plugins = {PTHREAD_MUTEX_INITIALIZER, NULL};

static void list_plugin(shim_plugin *w)
{
    pthread_mutex_lock(&plugins.lock);
    w->next = plugins.first;
    plugins.first = w;
    pthread_mutex_unlock(&plugins.lock);
}

static void unlist_plugin(const shim_plugin *w)
{
    pthread_mutex_lock(&plugins.lock);
    shim_plugin **at = &plugins.first;
    while (*at != w) at = &(*at)->next;
    *at = w->next;
    pthread_mutex_unlock(&plugins.lock);
}

shim_plugin *shim_of_call(const tn_call *call, const tn_host **out_host)
{
    const tn_host *host = call ? call->host : NULL;
    *out_host = NULL;
    if (!host) return shim_here();
    pthread_mutex_lock(&plugins.lock);
    shim_plugin *w = plugins.first;
    for (; w && host != &w->host; w = w->next)
        if (host == w->outer) *out_host = host;
    pthread_mutex_unlock(&plugins.lock);
    return w || *out_host ? w : shim_here();
}

/* ---- Tables ------------------------------------------------------------------------------------------ */

void shim_replace_slots(void *table, uint32_t size, const shim_wrapped_slot *slots, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char *place = (char *)table + slots[i].offset;
        void (*function)(void);
        if (slots[i].offset + sizeof(function) > size) continue;
        memcpy(&function, place, sizeof(function));
        if (function) memcpy(place, &slots[i].wrapper, sizeof(slots[i].wrapper));
    }
}

/* The host's table as the plugin sees it, without slots unknown to this shim. */
static void make_host(shim_plugin *w)
{
    uint32_t size = w->outer->size < sizeof(tn_host) ? w->outer->size : (uint32_t)sizeof(tn_host);
    memcpy(&w->host, w->outer, size);
    w->host.size = size;
    w->host.context = w;
    shim_replace_slots(&w->host, size, shim_host_slots, shim_host_slot_count);
}

/* Copies a table of any header version: at most `bytes`, with its size reduced to that. */
static void take_table(void *copy, const void *table, uint32_t bytes)
{
    uint32_t size;
    memcpy(&size, table, sizeof(size));
    if (size > bytes) size = bytes;
    memcpy(copy, table, size < sizeof(size) ? sizeof(size) : size);
    memcpy(copy, &size, sizeof(size));
}

static int32_t take_interfaces(shim_plugin *w)
{
    for (uint32_t i = 0; i < shim_interface_count; i++) {
        const shim_interface *known = &shim_interfaces[i];
        const void *table = w->table.get_interface(w->self, known->name, 1);
        char *inner = (char *)&w->inner + known->place, *given = (char *)&w->given + known->place;
        uint32_t size;
        if (!table) continue;
        w->present |= 1u << i;
        take_table(inner, table, known->bytes);
        memcpy(given, inner, known->bytes);
        memcpy(&size, given, sizeof(size));
        shim_replace_slots(given, size, known->slots, known->n_slots);
    }
    const void *kernels = w->table.get_interface(w->self, "tenon.kernels", 1);
    if (!kernels) return TN_OK;
    w->present |= 1u << shim_interface_count;
    take_table(&w->inner.kernels, kernels, sizeof(w->inner.kernels));
    w->given.kernels = w->inner.kernels;
    return shim_wrap_kernels(w, &w->given.kernels);
}

/* ---- The wrapped plugin's own table ------------------------------------------------------------------ */

/* Unknown interfaces and later versions of known ones are hidden. */
static const void *find_interface(const shim_plugin *w, const char *name)
{
    for (uint32_t i = 0; i < shim_interface_count; i++) {
        if (strcmp(name, shim_interfaces[i].name) == 0)
            return w->present >> i & 1u ? (const char *)&w->given + shim_interfaces[i].place : NULL;
    }
    if (strcmp(name, "tenon.kernels") == 0 && w->present >> shim_interface_count & 1u)
        return &w->given.kernels;
    return NULL;
}

static const void *wrapped_get_interface(void *self, const char *name, uint32_t version)
{
    shim_plugin *w = self;
    shim_call c = {.slot = &shim_slots[SHIM_PLUGIN_GET_INTERFACE],
                   .plugin = w,
                   .id = SHIM_PLUGIN_GET_INTERFACE,
                   .values = {{.text = name}, {.number = version}}};
    if (shim_enter(&c) && version == 1) c.value.pointer = (void *)(uintptr_t)find_interface(w, name);
    shim_leave(&c);
    return c.value.pointer;
}

/* A slot of the plugin's own table that takes its state alone. */
static int32_t call_plugin(shim_plugin *w, uint32_t id, int32_t (*slot)(void *self))
{
    shim_call c = {.slot = &shim_slots[id], .plugin = w, .id = id};
    if (shim_enter(&c)) c.status = slot(w->self);
    shim_leave(&c);
    return c.status;
}

static int32_t wrapped_quiesce(void *self)
{
    shim_plugin *w = self;
    return call_plugin(w, SHIM_PLUGIN_QUIESCE, w->table.quiesce);
}

static int32_t wrapped_self_test(void *self)
{
    shim_plugin *w = self;
    return call_plugin(w, SHIM_PLUGIN_SELF_TEST, w->table.self_test);
}

static void destroy(shim_plugin *w)
{
    unlist_plugin(w);
    if (shim_tool_here.detach) shim_tool_here.detach(w);
    shim_free_rows(w);
    shim_free_operators(w);
    pthread_mutex_destroy(&w->rows_lock);
    free(w);
}

static void wrapped_shutdown(void *self)
{
    shim_plugin *w = self;
    shim_call c = {.slot = &shim_slots[SHIM_PLUGIN_SHUTDOWN], .plugin = w, .id = SHIM_PLUGIN_SHUTDOWN};
    (void)shim_enter(&c);
    w->table.shutdown(w->self);
    shim_leave(&c);
    destroy(w);
}

static void fill_table(const shim_plugin *w, tn_plugin_table *out)
{
    uint32_t size = out->size;
    const tn_plugin_table table = {.size = size,
                                   .abi = w->table.abi,
                                   .get_interface = wrapped_get_interface,
                                   .quiesce = w->table.quiesce ? wrapped_quiesce : NULL,
                                   .shutdown = wrapped_shutdown,
                                   .self_test = w->table.self_test ? wrapped_self_test : NULL};
    memcpy(out, &table, size < sizeof(table) ? size : sizeof(table));
}

/* ---- tenon.shim -------------------------------------------------------------------------------------- */

/* The plugin's init, through the shims behind this one. */
static int32_t open_target(shim_plugin *w, const tn_shim_target *target)
{
    shim_call c = {.slot = &shim_slots[SHIM_PLUGIN_INIT],
                   .plugin = w,
                   .id = SHIM_PLUGIN_INIT,
                   .values = {{.pointer = &w->host}, {.pointer = &w->self}}};
    w->table.size = sizeof(w->table);
    if (shim_enter(&c)) c.status = target->open(target->next, &w->host, c.values[1].pointer, &w->table);
    shim_leave(&c);
    if (c.status == TN_OK && (!w->table.get_interface || !w->table.shutdown))
        return shim_error(w->outer, TN_E_CONTRACT, "the plugin's table is incomplete");
    return c.status;
}

static int32_t shim_wrap(void *self, const tn_host *host, const tn_shim_target *target, void **out_self,
                         tn_plugin_table *out)
{
    shim *s = self;
    shim_plugin *w = calloc(1, sizeof(*w));
    if (!w) return shim_error(host, TN_E_OUT_OF_MEMORY, "%s: out of memory", shim_tool_here.name);
    w->shim = s;
    w->outer = host;
    w->info = target->info;
    pthread_mutex_init(&w->rows_lock, NULL);
    make_host(w);
    list_plugin(w);
    int32_t status = shim_tool_here.attach ? shim_tool_here.attach(w) : TN_OK;
    if (status == TN_OK && (status = open_target(w, target)) == TN_OK &&
        (status = take_interfaces(w)) != TN_OK)
        w->table.shutdown(w->self);
    if (status == TN_OK) {
        *out_self = w;
        fill_table(w, out);
    } else {
        destroy(w);
    }
    return status;
}

static int32_t shim_configure(void *self, const char *setting)
{
    return shim_tool_here.configure ? shim_tool_here.configure(self, setting) : TN_OK;
}

static const tn_shim_interface shim_table =
    TN_INTERFACE(tn_shim_interface, .configure = shim_configure, .wrap = shim_wrap);

/* ---- The shim as a plugin ---------------------------------------------------------------------------- */

static int32_t plugin_init(const tn_host *host, void **out_self)
{
    shim *s = calloc(1, sizeof(*s));
    if (!s) return shim_error(host, TN_E_OUT_OF_MEMORY, "%s: out of memory", shim_tool_here.name);
    s->host = host;
    *out_self = s;
    return TN_OK;
}

static const void *plugin_get_interface(void *self, const char *name, uint32_t version)
{
    return version == 1 && strcmp(name, "tenon.shim") == 0 ? &shim_table : NULL;
}

static void plugin_shutdown(void *self)
{
    if (shim_tool_here.finish) shim_tool_here.finish(self);
    free(self);
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    static const tn_plugin_table slots = {
        .init = plugin_init, .get_interface = plugin_get_interface, .shutdown = plugin_shutdown};
    return tn_negotiate_slots(offer, out, &slots);
}

TN_DEFINE_PLUGIN(SHIM_NAME, "0.1.0", "Tenon", 0, entry);
