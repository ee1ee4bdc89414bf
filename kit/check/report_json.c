/* SPDX-License-Identifier: Apache-2.0 */
/* The report for programs. docs/kit.md describes it; fields are added, never changed. */
#include "tiers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cJSON *tag_names(uint32_t tags)
{
    static const char *const names[] = {
        "optional", "nondeterministic", "data_dependent", "random", "gradient", "alone", "partly"};
    cJSON *list = cJSON_CreateArray();
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (tags >> i & 1u) cJSON_AddItemToArray(list, cJSON_CreateString(names[i]));
    }
    return list;
}

static cJSON *case_json(const check_run *run, const check_entry *e)
{
    const check_result *r = &e->result;
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "name", e->name);
    cJSON_AddNumberToObject(j, "tier", e->tier);
    if (e->tags) cJSON_AddItemToObject(j, "tags", tag_names(e->tags));
    cJSON_AddStringToObject(j, "outcome", check_outcome_name(r->outcome));
    cJSON_AddBoolToObject(j, "as_expected", !check_is_bad(run, e));
    if (r->way) cJSON_AddStringToObject(j, "way", check_way_name(r->way));
    if (r->listed) {
        cJSON_AddStringToObject(j, "listed",
                                r->listed == CHECK_UNSUPPORTED ? "unsupported" : "expected_failure");
        cJSON_AddStringToObject(j, "excuse", r->excuse);
    }
    if (r->difference != 0) cJSON_AddNumberToObject(j, "difference", r->difference);
    cJSON_AddNumberToObject(j, "seconds", (double)(int64_t)(r->seconds * 1e6) * 1e-6);
    if (r->reason[0]) cJSON_AddStringToObject(j, "reason", r->reason);
    if (r->log[0] && (r->outcome == CHECK_FAILED || r->outcome == CHECK_CRASHED))
        cJSON_AddStringToObject(j, "log", r->log);
    if (r->data) cJSON_AddItemReferenceToObject(j, "data", r->data);
    return j;
}

static cJSON *tier_json(uint32_t i, const check_tier *t)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddNumberToObject(j, "tier", i);
    cJSON_AddStringToObject(j, "title", check_tier_name(i));
    cJSON_AddBoolToObject(j, "whole", t->whole);
    for (int32_t k = 0; k < CHECK_OUTCOMES; k++)
        cJSON_AddNumberToObject(j, check_outcome_name(k), t->outcomes[k]);
    cJSON_AddItemToObject(j, "missing", cJSON_Duplicate(t->missing, 1));
    cJSON_AddItemToObject(j, "lacking", cJSON_Duplicate(t->lacking, 1));
    cJSON_AddItemToObject(j, "optional", cJSON_Duplicate(t->optional, 1));
    return j;
}

cJSON *check_report_json(const check_run *run)
{
    cJSON *j = cJSON_CreateObject(), *list;
    check_tier tiers[CHECK_TIERS];
    cJSON_AddNumberToObject(j, "tenon_check", 1);
    cJSON_AddStringToObject(j, "version", tn_version());
    cJSON_AddStringToObject(j, "mode", run->options->mode);
    cJSON_AddNumberToObject(j, "seed", (double)run->options->seed);
    cJSON_AddStringToObject(j, "status", check_verdict(run) ? "failed" : "passed");
    if (run->fatal[0])
        cJSON_AddStringToObject(j, "fatal", run->fatal);
    else
        cJSON_AddNullToObject(j, "fatal");
    if (run->subject) cJSON_AddItemReferenceToObject(j, "subject", run->subject);
    cJSON_AddNumberToObject(j, "not_as_expected", run->bad);
    list = cJSON_AddArrayToObject(j, "tiers");
    check_tiers_init(tiers, run);
    for (uint32_t i = 0; i < CHECK_TIERS; i++) {
        if (tiers[i].count) cJSON_AddItemToArray(list, tier_json(i, &tiers[i]));
    }
    check_tiers_finish(tiers);
    if (run->tables) cJSON_AddItemReferenceToObject(j, "tables", run->tables);
    list = cJSON_AddArrayToObject(j, "cases");
    for (uint32_t i = 0; i < run->count; i++) cJSON_AddItemToArray(list, case_json(run, &run->entries[i]));
    return j;
}

cJSON *check_read_json(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    cJSON *j = NULL;
    long length = -1;
    if (file && fseek(file, 0, SEEK_END) == 0) length = ftell(file);
    if (length >= 0 && fseek(file, 0, SEEK_SET) == 0) bytes = malloc((size_t)length + 1);
    if (bytes) j = cJSON_ParseWithLength(bytes, fread(bytes, 1, (size_t)length, file));
    free(bytes);
    if (file) fclose(file);
    return j;
}
