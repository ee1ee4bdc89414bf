/* SPDX-License-Identifier: Apache-2.0 */
/* The results of each tier: counts, missing kernels, whether it is whole. */
#include "tiers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *check_tier_name(uint32_t tier)
{
    static const char *const names[] = {"load, memory, copies, streams", "the twelve kernels",
                                        "a perceptron learns",
                                        "convolution, attention, normalisation, mixed precision",
                                        "several devices, streams, graphs, collectives, interop"};
    return tier < CHECK_TIERS ? names[tier] : "";
}

/* The kernel and operator in "1/pointwise/aten::add.Tensor/float32/sliced", or the parts in their place. */
static int part_of_name(const char *name, char *out, size_t bytes)
{
    const char *from = strchr(name, '/'), *to = from ? strchr(from + 1, '/') : NULL;
    if (!from) return 1;
    if (to && strchr(to + 1, '/')) to = strchr(to + 1, '/');
    snprintf(out, bytes, "%.*s", (int)(to ? to - from - 1 : (long)strlen(from + 1)), from + 1);
    return 0;
}

static void note_once(cJSON *list, const char *text)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (strcmp(item->valuestring, text) == 0) return;
    }
    cJSON_AddItemToArray(list, cJSON_CreateString(text));
}

/* The name of a tier 1 case has the kernel; a case of a higher tier runs many operators, which its reason
 * names. */
static void note_missing(check_tier *t, const check_entry *e)
{
    static const char words[] = "the CPU answers for ";
    cJSON *list = e->tags & CHECK_TAG_OPTIONAL ? t->optional
                  : e->tags & CHECK_TAG_PARTLY ? t->lacking
                                               : t->missing;
    char part[256];
    size_t length = strlen(e->name);
    if (length > 5 && strcmp(e->name + length - 5, "empty") == 0) return; /* no kernel would have run */
    if (e->tier < 2 || strncmp(e->result.reason, words, sizeof words - 1)) {
        if (!part_of_name(e->name, part, sizeof part)) note_once(list, part);
        return;
    }
    for (const char *at = e->result.reason + sizeof words - 1; *at;) {
        length = strcspn(at, ",");
        snprintf(part, sizeof part, "%.*s", (int)length, at);
        note_once(list, part);
        at += length;
        at += strspn(at, ", ");
    }
}

void check_tiers_init(check_tier *tiers, const check_run *run)
{
    for (uint32_t i = 0; i < CHECK_TIERS; i++)
        tiers[i] = (check_tier){
            .missing = cJSON_CreateArray(), .lacking = cJSON_CreateArray(), .optional = cJSON_CreateArray()};
    for (uint32_t i = 0; i < run->count; i++) {
        const check_entry *e = &run->entries[i];
        check_tier *t = &tiers[e->tier < CHECK_TIERS ? e->tier : CHECK_TIERS - 1];
        t->count++;
        t->outcomes[e->result.outcome]++;
        t->bad += (uint32_t)check_is_bad(run, e);
        t->left_out += e->result.left_out != 0;
        if (e->result.outcome == CHECK_ABSENT) note_missing(t, e);
    }
    for (uint32_t i = 0; i < CHECK_TIERS; i++)
        tiers[i].whole = tiers[i].outcomes[CHECK_PASSED] && !tiers[i].outcomes[CHECK_FAILED] &&
                         !tiers[i].outcomes[CHECK_CRASHED] && !tiers[i].left_out &&
                         !cJSON_GetArraySize(tiers[i].missing);
}

void check_tiers_finish(check_tier *tiers)
{
    for (uint32_t i = 0; i < CHECK_TIERS; i++) {
        cJSON_Delete(tiers[i].missing);
        cJSON_Delete(tiers[i].lacking);
        cJSON_Delete(tiers[i].optional);
    }
}
