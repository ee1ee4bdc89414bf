/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a tree of modules is still there, for what may outlive it; see module_life.h. */
#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 128

struct module_life {
    atomic_uint refs;
    atomic_int is_over;
    char name[NAME_BYTES]; /* of the root */
};

module_life *nn_life_begin(const char *name)
{
    module_life *life = calloc(1, sizeof *life);
    if (!life) return NULL;
    atomic_init(&life->refs, 1);
    snprintf(life->name, sizeof life->name, "%s", name ? name : "");
    return life;
}

void nn_life_end(module_life *life)
{
    atomic_store(&life->is_over, 1);
    module_life_release(life);
}

module_life *module_life_of(const tn_module *m)
{
    atomic_fetch_add(&m->tree->life->refs, 1);
    return m->tree->life;
}

void module_life_release(module_life *life)
{
    if (life && atomic_fetch_sub(&life->refs, 1) == 1) free(life);
}

int32_t module_life_is_over(const module_life *life)
{
    return life && atomic_load(&life->is_over);
}

int32_t module_life_check(tn_scope *s, const module_life *life, const char *who)
{
    char text[NAME_BYTES + 128];
    if (!module_life_is_over(life)) return TN_OK;
    snprintf(text, sizeof text, "%s: module '%s' was destroyed, which must live as long as this", who,
             life->name);
    return tn_scope_fail(s, TN_E_DEAD_HANDLE, text);
}
