/* SPDX-License-Identifier: Apache-2.0 */
/* The tool: the checks before and after each call; see validate.h. */
#include "validate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

/* The state of one plugin. */
typedef struct watched {
    int32_t is_quiesced;
    uint32_t type;             /* interned name of its devices */
    tn_device_facts facts[16]; /* by index; size 0: not asked for */
} watched;

/* ---- Findings ---------------------------------------------------------------------------------------- */

/* A single write, so that processes that share the file keep their lines whole. */
static void append(const char *file, const tn_finding *f)
{
    char line[1400];
    int n = snprintf(line, sizeof(line), "plugin %s: %s: %s; at %s%s%s\n", f->plugin, f->kind, f->text,
                     f->place, f->other ? "; see " : "", f->other ? f->other : "");
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return;
    if (write(fd, line, (size_t)n) < 0) errno = 0; /* the finding is reported all the same */
    close(fd);
}

static void say(const shim_call *c, const char *kind, uint64_t stream, const validate_place *other,
                const char *format, va_list list)
{
    char text[512], place[192], second[192];
    const tn_host *host = c->plugin->outer;
    vsnprintf(text, sizeof(text), format, list);
    tn_finding f = {.size = sizeof(f),
                    .kind = kind,
                    .finder = "validate",
                    .plugin = c->plugin->info->name,
                    .text = text,
                    .slot = c->slot->name,
                    .op = c->op,
                    .place = shim_place(c, place, sizeof(place)),
                    .other = other ? validate_place_text(other, second, sizeof(second)) : NULL,
                    .stream = stream,
                    .count = 1};
    if (host->size >= offsetof(tn_host, report) + sizeof(host->report) && host->report)
        host->report(host->context, &f);
    if (validate_of(c)->file) append(validate_of(c)->file, &f);
}

void validate_say(const shim_call *c, const char *kind, const validate_place *other, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(c, kind, c->call ? c->call->stream_id : UINT64_MAX, other, format, list);
    va_end(list);
}

void validate_say_on(const shim_call *c, const char *kind, uint64_t stream, const validate_place *other,
                     const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(c, kind, stream, other, format, list);
    va_end(list);
}

/* ---- Threads ----------------------------------------------------------------------------------------- */

/* The object that a slot for one thread at a time works on: a device, one being opened, or the plugin. */
static const void *object_of(const shim_call *c)
{
    if (c->id == SHIM_DEVICE_OPEN) return (const char *)c->plugin + 1 + c->values[0].number % 64;
    return c->slot->n_arguments && c->slot->arguments[0].kind == SHIM_DEVICE ? c->values[0].pointer
                                                                             : c->plugin;
}

static void enter_alone(validate_state *v, const shim_call *c)
{
    const void *object = object_of(c);
    for (uint32_t i = 0; i < v->n_busy; i++) {
        const validate_place other = validate_here(v->busy[i].call);
        if (v->busy[i].object == object && !pthread_equal(v->busy[i].thread, pthread_self()))
            validate_say(c, "concurrent-call", &other, "the host calls %s while another thread is in %s",
                         c->slot->name, other.slot);
    }
    if (v->n_busy < VALIDATE_THREADS) v->busy[v->n_busy++] = (validate_busy){object, c, pthread_self()};
}

static void leave_alone(validate_state *v, const shim_call *c)
{
    for (uint32_t i = 0; i < v->n_busy; i++) {
        if (v->busy[i].call != c) continue;
        v->busy[i] = v->busy[--v->n_busy];
        return;
    }
}

static void keep_past(validate_state *v, const shim_call *c)
{
    v->past[c->number % VALIDATE_PAST] = (validate_past){c->plugin, validate_here(c)};
}

/* A call to the host about a call that does not run on this thread. */
static void say_outside(validate_state *v, shim_call *c)
{
    const tn_call *given = c->values[0].pointer;
    uint64_t number = given ? (uint64_t)(uintptr_t)given->state : 0;
    const validate_past *past = &v->past[number % VALIDATE_PAST];
    int32_t is_known = past->plugin == c->plugin && number && past->place.number == number;
    if (is_known) c->op = past->place.op;
    validate_say_on(c, "call-outside", is_known ? given->stream_id : UINT64_MAX,
                    is_known ? &past->place : NULL, "the plugin calls %s with %s", c->slot->name,
                    given ? "a call that does not run on this thread, or has ended" : "no call");
}

/* Where a call may come from. */
static void check_caller(validate_state *v, shim_call *c)
{
    const shim_call *outer = c->outer;
    int32_t of_host = (int32_t)c->slot->of_host;
    if (of_host && c->slot->n_arguments && c->slot->arguments[0].kind == SHIM_CALL && !c->call)
        say_outside(v, c);
    if (!outer || c->id == SHIM_CALLBACK_RUN) return;
    if (of_host && outer->id == SHIM_KERNEL_RUN && !(c->slot->notes & SHIM_IN_KERNEL))
        validate_say(c, "not-in-kernel", NULL, "the kernel of %s calls %s, which kernels may not call",
                     outer->op, c->slot->name);
    if (outer->id == SHIM_CALLBACK_RUN && !(of_host && c->slot->notes & SHIM_IN_CALLBACK))
        validate_say(c, "reentry", NULL, "%s is called from a stream's host callback", c->slot->name);
}

/* After quiesce only calls that release something are allowed. */
static void check_quiesced(const shim_call *c)
{
    watched *p = c->plugin->tool;
    if (p->is_quiesced && !c->slot->of_host && c->id != SHIM_MEMORY_FREE && c->id != SHIM_ALLOCATOR_FREE &&
        c->id != SHIM_INTEROP_RELEASE_MEMORY && c->id != SHIM_STREAM_DESTROY && c->id != SHIM_EVENT_DESTROY &&
        c->id != SHIM_GRAPH_DESTROY && c->id != SHIM_GRAPH_DESTROY_EXECUTABLE &&
        c->id != SHIM_COLLECTIVES_DESTROY && c->id != SHIM_DEVICE_CLOSE && c->id != SHIM_PLUGIN_SHUTDOWN &&
        c->id != SHIM_MEMORY_UNPIN && c->id != SHIM_CALLBACK_RUN)
        validate_say(c, "after-quiesce", NULL, "the host calls %s after quiesce", c->slot->name);
    if (c->id == SHIM_PLUGIN_QUIESCE) p->is_quiesced = 1;
}

/* ---- Before ------------------------------------------------------------------------------------------ */

static void check_structs(const shim_call *c)
{
    uint32_t size = 1;
    if (c->id == SHIM_HOST_REGISTER_OPERATOR && c->values[0].pointer)
        memcpy(&size, c->values[0].pointer, sizeof(size));
    if (size == 0) validate_say(c, "no-size", NULL, "the plugin gives %s a struct of size 0", c->slot->name);
    if (c->id == SHIM_HOST_REGISTER_KERNELS)
        validate_rows(c, c->values[2].pointer, (uint32_t)c->values[3].number, (uint32_t)c->values[4].number);
    if (c->id == SHIM_DEVICE_FACTS) {
        memcpy(&size, c->values[1].pointer, sizeof(size));
        if (size == 0) validate_say(c, "no-size", NULL, "the host asks for facts in a struct of size 0");
    }
}

/* A callback runs: its stream has finished the work queued before it. */
static void note_callback(validate_state *v, const shim_call *c)
{
    uint32_t clock = (uint32_t)(uintptr_t)c->note - 1u;
    if (!c->note) return;
    for (uint32_t i = 0; i < VALIDATE_BUCKETS; i++) {
        for (const validate_object *o = v->buckets[i]; o; o = o->next) {
            if (o->kind == SHIM_STREAM && o->alive && o->clock == clock) validate_seen_stream(v, o, c->mark);
        }
    }
}

static int32_t validate_before(shim_call *c)
{
    validate_state *v = validate_of(c);
    pthread_mutex_lock(&v->lock);
    check_caller(v, c);
    if (c->id == SHIM_KERNEL_RUN || c->definition) keep_past(v, c);
    check_quiesced(c);
    check_structs(c);
    if (c->slot->notes & SHIM_HOST_THREAD) enter_alone(v, c);
    if (c->id == SHIM_CALLBACK_RUN) note_callback(v, c);
    if (c->id == SHIM_PLUGIN_SHUTDOWN) validate_leaks(v, c, NULL);
    if (c->id == SHIM_KERNEL_RUN)
        validate_kernel_before(v, c);
    else if (!c->slot->of_host)
        validate_arguments(v, c);
    pthread_mutex_unlock(&v->lock);
    if (c->of) validate_host_call_before(c);
    if (c->id == SHIM_KERNEL_RUN || c->definition)
        validate_values_before(c);
    else if (c->slot->result == SHIM_STATUS)
        validate_outputs_before(c);
    return TN_OK;
}

/* ---- After ------------------------------------------------------------------------------------------- */

static void check_status(const shim_call *c)
{
    if (c->slot->result != SHIM_STATUS || c->slot->of_host) return;
    if (c->status < 0 || c->status >= TN_STATUS_COUNT)
        validate_say(c, "no-status", NULL, "%s returns %d, which is not a valid status code",
                     c->op ? c->op : c->slot->name, c->status);
    if (c->status == TN_OK && c->errors)
        validate_say(c, "error-then-ok", NULL, "%s records an error and returns success",
                     c->op ? c->op : c->slot->name);
}

static void note_facts(const shim_call *c)
{
    watched *p = c->plugin->tool;
    uint32_t size, index = (uint32_t)c->values[0].number;
    memcpy(&size, c->values[1].pointer, sizeof(size));
    if (index >= sizeof(p->facts) / sizeof(p->facts[0])) return;
    memcpy(&p->facts[index], c->values[1].pointer, size < sizeof(p->facts[0]) ? size : sizeof(p->facts[0]));
}

static void note_device(validate_state *v, const shim_call *c, uint32_t type)
{
    const watched *p = c->plugin->tool;
    uint32_t index = (uint32_t)c->values[0].number;
    const tn_device_facts *facts = index < sizeof(p->facts) / sizeof(p->facts[0]) ? &p->facts[index] : NULL;
    void *handle;
    memcpy(&handle, c->values[2].pointer, sizeof(handle)); /* index, flags, out_device */
    validate_object *o = handle ? validate_find(v, c->plugin, SHIM_DEVICE, handle, NULL) : NULL;
    if (!o) return;
    o->id = TN_DEVICE(type, index);
    o->kinds = facts && facts->size ? facts->memory_kinds : UINT32_MAX;
    o->in_order = facts && facts->size && facts->device_class == TN_DEVICE_HOST;
}

static void validate_after(shim_call *c)
{
    validate_state *v = validate_of(c);
    const tn_host *host = c->plugin->outer;
    uint32_t type = 0;
    if (c->of && c->status == TN_OK) validate_host_call_after(c);
    if (c->id == SHIM_KERNEL_RUN || c->definition)
        validate_values_after(c);
    else if (c->note && c->id != SHIM_CALLBACK_RUN && c->id != SHIM_STREAM_HOST_CALLBACK)
        validate_outputs_after(c);
    check_status(c);
    if (c->id == SHIM_DEVICE_OPEN && c->plugin->inner.device.type)
        type = host->intern(host->context, c->plugin->inner.device.type);
    pthread_mutex_lock(&v->lock);
    if (c->slot->notes & SHIM_HOST_THREAD) leave_alone(v, c);
    /* The wait has ended even if it reports a late error. */
    int32_t counts =
        c->status == TN_OK || c->id == SHIM_STREAM_SYNCHRONIZE || c->id == SHIM_DEVICE_SYNCHRONIZE;
    if (counts && c->id == SHIM_KERNEL_RUN)
        validate_kernel_after(v, c);
    else if (counts && c->id == SHIM_HOST_RESIZE_OUTPUT)
        validate_resized(v, c);
    else if (counts && !c->slot->of_host)
        validate_results(v, c);
    else if (!c->slot->of_host)
        validate_graphs(v, c, 1);
    if (counts && c->id == SHIM_DEVICE_FACTS) note_facts(c);
    if (counts && c->id == SHIM_DEVICE_OPEN) note_device(v, c, type);
    if (counts && c->id == SHIM_PLUGIN_GET_INTERFACE && c->value.pointer == &c->plugin->given.kernels)
        validate_rows(c, c->plugin->inner.kernels.rows, c->plugin->inner.kernels.count,
                      c->plugin->inner.kernels.row_bytes);
    pthread_mutex_unlock(&v->lock);
}

/* ---- Life -------------------------------------------------------------------------------------------- */

static int32_t validate_configure(shim *s, const char *setting)
{
    int32_t to_file = strcmp(setting, "1") != 0;
    int fd = to_file ? open(setting, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (to_file && fd < 0)
        return shim_error(s->host, TN_E_IO, "validate: cannot write '%s': %s", setting, strerror(errno));
    if (fd >= 0) close(fd);
    validate_state *v = calloc(1, sizeof(*v));
    if (v && to_file) v->file = strdup(setting);
    if (!v || (to_file && !v->file)) {
        free(v);
        return shim_error(s->host, TN_E_OUT_OF_MEMORY, "validate: out of memory");
    }
    v->host = s->host;
    pthread_mutex_init(&v->lock, NULL);
    s->state = v;
    return TN_OK;
}

static void validate_finish(shim *s)
{
    validate_state *v = s->state;
    if (!v) return;
    pthread_mutex_destroy(&v->lock);
    free((char *)(uintptr_t)v->file);
    free(v);
}

static int32_t validate_attach(shim_plugin *w)
{
    w->tool = calloc(1, sizeof(watched));
    return w->tool ? TN_OK : shim_error(w->outer, TN_E_OUT_OF_MEMORY, "validate: out of memory");
}

static void validate_detach(shim_plugin *w)
{
    validate_state *v = w->shim->state;
    pthread_mutex_lock(&v->lock);
    validate_forget(v, w);
    for (uint32_t i = 0; i < VALIDATE_PAST; i++)
        if (v->past[i].plugin == w) v->past[i].plugin = NULL;
    pthread_mutex_unlock(&v->lock);
    free(w->tool);
}

SHIM_TOOL(validate, .attach = validate_attach, .detach = validate_detach);
