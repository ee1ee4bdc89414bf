/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs at each call: the tool before and after, kernels, and what must be changed on the way: rows that
 * a plugin registers itself, and callbacks of streams. Calls in progress on a thread are linked, so that a
 * call to the host can be attributed to the kernel that makes it.
 */
#include "wrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The innermost call of this shim on this thread. */
static _Thread_local shim_call *innermost;

/* ---- Rows -------------------------------------------------------------------------------------------- */

struct shim_rows {
    struct shim_rows *next;
    tn_kernel_row *given; /* wrapped rows that the host gets */
    uint32_t count;
    uint32_t reserved;
    shim_row row[];
};

shim_call shim_call_inside(shim_plugin *plugin, uint32_t id, const char *op, const tn_call *call,
                           const void *data, tn_call *out_inner)
{
    uint32_t size = call->size < sizeof(*out_inner) ? call->size : (uint32_t)sizeof(*out_inner);
    *out_inner = (tn_call){0};
    memcpy(out_inner, call, size);
    out_inner->size = size;
    out_inner->data = data;
    out_inner->host = &plugin->host;
    return (shim_call){.slot = &shim_slots[id],
                       .plugin = plugin,
                       .id = id,
                       .values = {{.pointer = out_inner}},
                       .call = call,
                       .op = op};
}

static int32_t run_kernel(void *self, const tn_call *call)
{
    const shim_row *row = call->data;
    tn_call inner;
    shim_call c = shim_call_inside(row->plugin, SHIM_KERNEL_RUN, row->op, call, row->row.data, &inner);
    c.row = row;
    if (shim_enter(&c)) c.status = row->row.run(row->self, c.values[0].pointer);
    shim_leave(&c);
    return c.status;
}

static const char *can_run_kernel(void *self, const tn_call *call)
{
    const shim_row *row = call->data;
    tn_call inner;
    shim_call c = shim_call_inside(row->plugin, SHIM_KERNEL_CAN_RUN, row->op, call, row->row.data, &inner);
    c.row = row;
    if (shim_enter(&c)) c.value.text = row->row.can_run(row->self, c.values[0].pointer);
    shim_leave(&c);
    return c.value.text;
}

/* Copies a row of any header version. 0: it is malformed; the host reports that better. */
static int32_t read_row(const tn_kernel_row *rows, uint32_t i, uint32_t row_bytes, tn_kernel_row *out)
{
    const char *from = (const char *)rows + (uint64_t)i * row_bytes;
    uint32_t size;
    memcpy(&size, from, sizeof(size));
    *out = (tn_kernel_row){0};
    memcpy(out, from, size < sizeof(*out) ? size : sizeof(*out));
    out->size = sizeof(*out);
    return size && size <= row_bytes;
}

static struct shim_rows *make_rows(uint32_t count)
{
    struct shim_rows *list = calloc(1, sizeof(*list) + count * sizeof(shim_row));
    if (list) list->given = calloc(count + 1u, sizeof(*list->given));
    if (list && list->given) {
        list->count = count;
        return list;
    }
    free(list);
    return NULL;
}

static void free_list(struct shim_rows *list)
{
    if (!list) return;
    for (uint32_t i = 0; i < list->count; i++) {
        free((char *)(uintptr_t)list->row[i].op);
        free(list->row[i].device_type);
    }
    free(list->given);
    free(list);
}

/* `device_type` may be NULL. NULL and TN_OK: some row is malformed. */
static int32_t wrap_rows(shim_plugin *w, const char *device_type, void *self, const tn_kernel_row *rows,
                         uint32_t count, uint32_t row_bytes, struct shim_rows **out)
{
    struct shim_rows *list = make_rows(count);
    int32_t sound = 1;
    *out = NULL;
    if (!list) return shim_error(w->outer, TN_E_OUT_OF_MEMORY, "%s: out of memory", shim_tool_here.name);
    for (uint32_t i = 0; i < count && sound; i++) {
        shim_row *row = &list->row[i];
        const char *schema;
        sound = read_row(rows, i, row_bytes, &row->row);
        schema = sound && row->row.schema ? row->row.schema : "";
        row->plugin = w;
        row->self = self;
        row->op = strndup(schema, strcspn(schema, "("));
        row->device_type = device_type ? strdup(device_type) : NULL;
        if (!row->op || (device_type && !row->device_type)) {
            free_list(list);
            return shim_error(w->outer, TN_E_OUT_OF_MEMORY, "%s: out of memory", shim_tool_here.name);
        }
        list->given[i] = row->row;
        list->given[i].data = row;
        if (row->row.run) list->given[i].run = run_kernel;
        if (row->row.can_run) list->given[i].can_run = can_run_kernel;
    }
    if (!sound) {
        free_list(list);
        return TN_OK;
    }
    pthread_mutex_lock(&w->rows_lock);
    list->next = w->rows;
    w->rows = list;
    pthread_mutex_unlock(&w->rows_lock);
    *out = list;
    return TN_OK;
}

int32_t shim_wrap_kernels(shim_plugin *w, tn_kernels_interface *kernels)
{
    struct shim_rows *list;
    if (kernels->size < sizeof(*kernels) || !kernels->rows ||
        kernels->row_bytes < offsetof(tn_kernel_row, can_run))
        return TN_OK;
    int32_t status = wrap_rows(w, NULL, w->self, kernels->rows, kernels->count, kernels->row_bytes, &list);
    if (status == TN_OK && list) {
        kernels->rows = list->given;
        kernels->row_bytes = sizeof(tn_kernel_row);
    }
    return status;
}

void shim_free_rows(shim_plugin *w)
{
    while (w->rows) {
        struct shim_rows *list = w->rows;
        w->rows = list->next;
        free_list(list);
    }
}

/* host.register_kernels: wraps the rows and replaces their self. */
static int32_t adapt_rows(shim_call *c)
{
    shim_value *v = c->values; /* device_type, self, rows, count, row_bytes */
    struct shim_rows *list;
    if (!v[2].pointer || v[4].number < offsetof(tn_kernel_row, can_run)) return TN_OK;
    int32_t status = wrap_rows(c->plugin, v[0].text, v[1].pointer, v[2].pointer, (uint32_t)v[3].number,
                               (uint32_t)v[4].number, &list);
    if (status == TN_OK && list) {
        v[1].pointer = c->plugin;
        v[2].pointer = list->given;
        v[4].number = sizeof(tn_kernel_row);
    }
    return status;
}

/* ---- Callbacks --------------------------------------------------------------------------------------- */

/* A host callback that waits in a stream. */
typedef struct callback {
    shim_plugin *plugin;
    void (*function)(void *user);
    void *user;
    void *note;
    uint64_t mark;
} callback;

static void run_callback(void *user)
{
    callback b = *(callback *)user;
    shim_call c = {.slot = &shim_slots[SHIM_CALLBACK_RUN],
                   .plugin = b.plugin,
                   .id = SHIM_CALLBACK_RUN,
                   .note = b.note,
                   .mark = b.mark};
    free(user);
    (void)shim_enter(&c);
    b.function(b.user);
    shim_leave(&c);
}

static int32_t adapt_callback(shim_call *c)
{
    callback *b = malloc(sizeof(*b));
    if (!b) return shim_error(c->plugin->outer, TN_E_OUT_OF_MEMORY, "%s: out of memory", shim_tool_here.name);
    *b = (callback){c->plugin, c->values[2].function, c->values[3].pointer, c->note, c->mark};
    c->values[2].function = run_callback;
    c->values[3].pointer = b;
    return TN_OK;
}

/* ---- Every call -------------------------------------------------------------------------------------- */

shim_plugin *shim_here(void)
{
    return innermost ? innermost->plugin : NULL;
}

const shim_call *shim_kernel_call(const shim_call *c)
{
    for (; c; c = c->outer) {
        if (c->id == SHIM_KERNEL_RUN || c->id == SHIM_KERNEL_CAN_RUN) return c;
    }
    return NULL;
}

const char *shim_place(const shim_call *c, char *buffer, size_t bytes)
{
    snprintf(buffer, bytes, "%s%s%s, call %llu", c->slot->name, c->op ? " of " : "", c->op ? c->op : "",
             (unsigned long long)c->number);
    return buffer;
}

/* The kernel or operator on this thread to which a call given to the host belongs; NULL: it runs elsewhere
 * or has ended. */
static shim_call *find_owner(const shim_call *c, const tn_call *given)
{
    for (shim_call *at = given ? c->outer : NULL; at; at = at->outer) {
        if (at->call && (void *)(uintptr_t)at->number == given->state) return at;
    }
    return NULL;
}

int32_t shim_host_call(shim_call *c, const tn_call *given, tn_call *out)
{
    if (!c->call) {
        c->status =
            shim_error(c->plugin->outer, TN_E_CONTRACT,
                       given ? "%s: the call is over, or runs on another thread" : "%s: no call was given",
                       c->slot->name);
        return 0;
    }
    uint32_t size = given->size < sizeof(*out) ? given->size : (uint32_t)sizeof(*out);
    *out = (tn_call){0};
    memcpy(out, given, size);
    out->size = size;
    out->host = c->call->host;
    out->state = c->call->state;
    out->data = c->call->data;
    return 1;
}

/* The call of the plugin in which an error is recorded. */
static void count_error(const shim_call *c)
{
    shim_call *outer = c->outer;
    while (outer && outer->slot->of_host) outer = outer->outer;
    if (outer) outer->errors++;
}

int32_t shim_enter(shim_call *c)
{
    c->number = atomic_fetch_add_explicit(&c->plugin->shim->calls, 1, memory_order_relaxed) + 1;
    c->outer = innermost;
    innermost = c;
    /* The number tells a call from a later one at the same stack address. */
    if (c->call) ((tn_call *)c->values[0].pointer)->state = (void *)(uintptr_t)c->number;
    if (c->slot->of_host && c->slot->n_arguments && c->slot->arguments[0].kind == SHIM_CALL) {
        c->of = find_owner(c, c->values[0].pointer);
        c->call = c->of ? c->of->call : NULL;
        c->op = c->of ? c->of->op : NULL;
    }
    if (c->id == SHIM_HOST_ERROR || c->id == SHIM_HOST_ERROR_NATIVE) count_error(c);
    int32_t status = shim_tool_here.before ? shim_tool_here.before(c) : TN_OK;
    if (status == TN_OK && c->id == SHIM_HOST_REGISTER_KERNELS) status = adapt_rows(c);
    if (status == TN_OK && c->id == SHIM_HOST_REGISTER_OPERATOR) status = shim_adapt_operator(c);
    if (status == TN_OK && c->id == SHIM_STREAM_HOST_CALLBACK) status = adapt_callback(c);
    c->status = status;
    return status == TN_OK;
}

void shim_leave(shim_call *c)
{
    if (shim_tool_here.after) shim_tool_here.after(c);
    innermost = c->outer;
}
