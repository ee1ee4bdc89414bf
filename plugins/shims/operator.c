/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that a plugin defines: the host gets a definition whose functions pass through the tool, with
 * the plugin's own texts, by which the host identifies the operator's owner.
 */
#include "wrap.h"

#include <stdlib.h>
#include <string.h>

int32_t shim_run_operator(const shim_operator *o, const tn_call *call, uint32_t id, tn_kernel_fn function)
{
    tn_call inner;
    shim_call c = shim_call_inside(o->plugin, id, o->op, call, call->data, &inner);
    c.definition = o;
    if (shim_enter(&c)) c.status = function(o->def.self, c.values[0].pointer);
    shim_leave(&c);
    return c.status;
}

/* Copies a definition of any header version. 0: it is malformed or has unknown parts; the host says which. */
static int32_t read_definition(const tn_operator_def *def, tn_operator_def *out)
{
    const char *bytes = (const char *)def;
    *out = (tn_operator_def){0};
    if (!def || !def->size) return 0;
    for (uint32_t i = sizeof(*out); i < def->size; i++) {
        if (bytes[i]) return 0;
    }
    memcpy(out, def, def->size < sizeof(*out) ? def->size : sizeof(*out));
    out->size = sizeof(*out);
    return out->schema != NULL;
}

int32_t shim_adapt_operator(shim_call *c)
{
    shim_plugin *w = c->plugin;
    shim_operator *o = calloc(1, sizeof(*o));
    int32_t is_sound = o && read_definition(c->values[0].pointer, &o->def);
    if (is_sound) o->op = strndup(o->def.schema, strcspn(o->def.schema, "("));
    if (!o || (is_sound && !o->op)) {
        free(o);
        return shim_error(w->outer, TN_E_OUT_OF_MEMORY, "%s: out of memory", shim_tool_here.name);
    }
    if (!is_sound) {
        free(o);
        return TN_OK;
    }
    o->plugin = w;
    o->given = o->def;
    o->given.self = o;
    shim_replace_slots(&o->given, sizeof(o->given), shim_operator_slots, shim_operator_slot_count);
    pthread_mutex_lock(&w->rows_lock);
    o->next = w->operators;
    w->operators = o;
    pthread_mutex_unlock(&w->rows_lock);
    c->values[0].pointer = &o->given;
    return TN_OK;
}

void shim_free_operators(shim_plugin *w)
{
    while (w->operators) {
        shim_operator *o = w->operators;
        w->operators = o->next;
        free(o->op);
        free(o);
    }
}
