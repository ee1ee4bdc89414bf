/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs of slots. For the length of a call each leads to storage of the shim's own with a pattern in it;
 * what is there afterwards shows whether it was written. On success it is handed on; on failure it must be
 * the pattern still. Facts get room behind them, so that a write past their size does no harm and is seen.
 */
#include "validate.h"

#define PATTERN    0xa5
#define FACTS_ROOM 512u

typedef struct outputs {
    void *original[SHIM_MAX_ARGUMENTS];
    unsigned char scratch[SHIM_MAX_ARGUMENTS][16];
    unsigned char facts[FACTS_ROOM]; /* one argument of a call at most is of this kind */
} outputs;

static int32_t is_output(const shim_argument *a)
{
    return (a->notes & SHIM_OUT) != 0 && a->bytes > 0; /* 0: a text of the caller's length */
}

/* A text need not be written when there is nothing to say, nor a field that stays 0. */
static int32_t may_be_left(const shim_argument *a)
{
    return a->kind == SHIM_TEXT || a->notes & SHIM_OPTIONAL;
}

static int32_t has_outputs(const shim_call *c)
{
    for (uint32_t i = 0; i < c->slot->n_arguments; i++) {
        if (is_output(&c->slot->arguments[i]) && c->values[i].pointer) return 1;
    }
    return 0;
}

static uint32_t facts_size(const void *facts)
{
    uint32_t size;
    memcpy(&size, facts, sizeof(size));
    return size < FACTS_ROOM / 2 ? size : FACTS_ROOM / 2;
}

void validate_outputs_before(shim_call *c)
{
    outputs *o = has_outputs(c) ? malloc(sizeof(*o)) : NULL;
    if (!o) return;
    memset(o, PATTERN, sizeof(*o));
    for (uint32_t i = 0; i < c->slot->n_arguments; i++) {
        const shim_argument *a = &c->slot->arguments[i];
        o->original[i] = is_output(a) ? c->values[i].pointer : NULL;
        if (!o->original[i]) continue;
        if (a->kind == SHIM_FACTS) {
            memcpy(o->facts, o->original[i], facts_size(o->original[i]));
            c->values[i].pointer = o->facts;
            continue;
        }
        if (may_be_left(a)) memcpy(o->scratch[i], o->original[i], a->bytes);
        c->values[i].pointer = o->scratch[i];
    }
    c->note = o;
}

static int32_t is_pattern(const unsigned char *from, size_t bytes)
{
    while (bytes > 0 && from[bytes - 1] == PATTERN) bytes--;
    return bytes == 0;
}

static void finish_facts(const shim_call *c, outputs *o, void *original)
{
    uint32_t size = facts_size(original);
    uint32_t said;
    memcpy(&said, o->facts, sizeof(said));
    if (!is_pattern(o->facts + size, FACTS_ROOM - size))
        validate_say(c, "written-past-size", NULL, "%s writes past the %u bytes that the host asked for",
                     c->slot->name, size);
    if (said != size)
        validate_say(c, "size-changed", NULL, "%s sets size to %u; the host had asked for %u bytes",
                     c->slot->name, said, size);
    memcpy(o->facts, &size, sizeof(size));
    if (c->status != TN_OK && memcmp(o->facts, original, size) != 0)
        validate_say(c, "written-on-failure", NULL, "%s fails and has written its output", c->slot->name);
    if (c->status == TN_OK) memcpy(original, o->facts, size);
}

/* A plugin without state may say so by NULL, also before it fails. */
static int32_t is_no_state(const shim_argument *a, const unsigned char *scratch)
{
    void *state;
    memcpy(&state, scratch, sizeof(state));
    return a->kind == SHIM_SELF && !state;
}

static void finish_output(const shim_call *c, const shim_argument *a, const unsigned char *scratch,
                          void *original)
{
    int32_t untouched =
        may_be_left(a) ? memcmp(scratch, original, a->bytes) == 0 : is_pattern(scratch, a->bytes);
    if (c->status != TN_OK && !untouched && !is_no_state(a, scratch))
        validate_say(c, "written-on-failure", NULL, "%s fails and has written '%s'", c->slot->name, a->name);
    if (c->status != TN_OK) return;
    if (untouched && !may_be_left(a))
        validate_say(c, "output-not-written", NULL, "%s succeeds and has not written '%s'", c->slot->name,
                     a->name);
    else
        memcpy(original, scratch, a->bytes);
}

void validate_outputs_after(shim_call *c)
{
    outputs *o = c->note;
    for (uint32_t i = 0; i < c->slot->n_arguments; i++) {
        const shim_argument *a = &c->slot->arguments[i];
        if (!is_output(a) || !o->original[i]) continue;
        if (a->kind == SHIM_FACTS)
            finish_facts(c, o, o->original[i]);
        else
            finish_output(c, a, o->scratch[i], o->original[i]);
        c->values[i].pointer = o->original[i];
    }
    c->note = NULL;
    free(o);
}
