/* SPDX-License-Identifier: Apache-2.0 */
/* The objects behind handles; see validate.h. */
#include "validate.h"

/* Number of dead objects that are kept, to tell a use after the end from an unknown handle. */
#define MAX_DEAD 4096u

validate_place validate_here(const shim_call *c)
{
    return (validate_place){c->slot->name, c->op, c->number};
}

const char *validate_place_text(const validate_place *p, char *buffer, size_t bytes)
{
    snprintf(buffer, bytes, "%s%s%s, call %llu", p->slot, p->op ? " of " : "", p->op ? p->op : "",
             (unsigned long long)p->number);
    return buffer;
}

const char *validate_a(shim_kind kind)
{
    return kind == SHIM_DEVICE         ? "a device"
           : kind == SHIM_STREAM       ? "a stream"
           : kind == SHIM_EVENT        ? "an event"
           : kind == SHIM_GRAPH        ? "a graph"
           : kind == SHIM_EXECUTABLE   ? "an executable"
           : kind == SHIM_COMMUNICATOR ? "a communicator"
                                       : "an allocation";
}

/* The same without the article. */
const char *validate_kind_name(shim_kind kind)
{
    return strchr(validate_a(kind), ' ') + 1;
}

static validate_object **bucket(validate_state *v, const void *handle)
{
    uint64_t h = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15ull;
    return &v->buckets[h >> 32 & (VALIDATE_BUCKETS - 1)];
}

validate_object *validate_find(validate_state *v, const shim_plugin *w, shim_kind kind, const void *handle,
                               const validate_object *device)
{
    validate_object *dead = NULL;
    for (validate_object *o = *bucket(v, handle); o; o = o->next) {
        if (o->handle != handle || o->kind != kind || o->plugin != w) continue;
        if (device && o->device != device) continue;
        if (o->alive) return o;
        dead = o;
    }
    return dead;
}

validate_object *validate_find_anywhere(validate_state *v, shim_kind kind, const void *handle)
{
    for (validate_object *o = *bucket(v, handle); o; o = o->next) {
        if (o->handle == handle && o->kind == kind && o->alive) return o;
    }
    return NULL;
}

static void destroy(validate_object *o)
{
    validate_drop_accesses(o);
    validate_drop_work(o);
    free(o->known);
    free(o);
}

/* Removes what `fits` says. Devices are not among the dead that age: others point to them. */
static void remove_where(validate_state *v, int32_t (*fits)(const validate_object *o, const void *what),
                         const void *what)
{
    for (uint32_t i = 0; i < VALIDATE_BUCKETS; i++) {
        for (validate_object **at = &v->buckets[i]; *at;) {
            validate_object *o = *at;
            if (!fits(o, what)) {
                at = &o->next;
                continue;
            }
            *at = o->next;
            destroy(o);
        }
    }
}

static int32_t is_dead(const validate_object *o, const void *what)
{
    return !o->alive && o->kind != SHIM_DEVICE;
}

static int32_t is_of(const validate_object *o, const void *what)
{
    return o->plugin == what;
}

void validate_forget(validate_state *v, const shim_plugin *w)
{
    remove_where(v, is_of, w);
}

validate_object *validate_made(validate_state *v, const shim_call *c, shim_kind kind, void *handle,
                               validate_object *device)
{
    validate_object *o = validate_find(v, c->plugin, kind, handle, device), **place = bucket(v, handle);
    if (o && o->alive) { /* shared, which memory cannot be */
        o->alive++;
        return o;
    }
    if (o && !o->alive && o->kind != SHIM_DEVICE) v->n_dead--;
    if (!o) {
        o = calloc(1, sizeof(*o));
        if (!o) return NULL;
        o->next = *place;
        *place = o;
    }
    validate_drop_accesses(o);
    validate_drop_work(o);
    free(o->known);
    *o = (validate_object){.next = o->next,
                           .plugin = c->plugin,
                           .kind = kind,
                           .alive = 1,
                           .handle = handle,
                           .device = device,
                           .made = validate_here(c),
                           .clock = VALIDATE_NO_CLOCK};
    return o;
}

/* Keeps it among the dead objects. */
static void end(validate_state *v, const shim_call *c, validate_object *o)
{
    o->alive = 0;
    o->ended = validate_here(c);
    validate_drop_accesses(o);
    validate_drop_work(o);
    free(o->known);
    o->known = NULL;
    v->n_dead += o->kind != SHIM_DEVICE;
}

void validate_ended(validate_state *v, const shim_call *c, validate_object *o)
{
    if (o->alive > 1) {
        o->alive--;
        return;
    }
    end(v, c, o);
    if (v->n_dead > MAX_DEAD) {
        remove_where(v, is_dead, NULL);
        v->n_dead = 0;
    }
}

void validate_leaks(validate_state *v, const shim_call *c, const validate_object *device)
{
    for (uint32_t i = 0; i < VALIDATE_BUCKETS; i++) {
        for (validate_object *o = v->buckets[i]; o; o = o->next) {
            if (!o->alive || o->plugin != c->plugin || (device && o->device != device)) continue;
            if (o->kind == SHIM_ALLOCATION)
                validate_say(c, "leak", &o->made, "an allocation of %llu bytes was never freed",
                             (unsigned long long)o->bytes);
            else
                validate_say(c, "leak", &o->made, "%s was never %s", validate_a(o->kind),
                             o->kind == SHIM_DEVICE ? "closed" : "destroyed");
            if (o->kind == SHIM_STREAM && o->clock != VALIDATE_NO_CLOCK) v->clock_used[o->clock] = 0;
            end(v, c, o);
        }
    }
}
