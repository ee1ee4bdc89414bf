/* SPDX-License-Identifier: Apache-2.0 */
/* One process that runs cases; see worker.h. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../cmd.h"
#include "list.h"

/* ---- What goes over the pipe --------------------------------------------------------------------------- */

cJSON *check_subject(const check_target *t)
{
    const char *const texts[][2] = {{"plugin", t->plugin},
                                    {"version", t->version},
                                    {"vendor", t->vendor},
                                    {"library", t->library},
                                    {"experimental", t->experimental},
                                    {"device", t->name},
                                    {"compared_with", t->other_name},
                                    {"class", device_class_name(t->facts.device_class)},
                                    {"name", t->facts.name}};
    cJSON *j = cJSON_CreateObject(), *dtypes;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cJSON_AddStringToObject(j, texts[i][0], texts[i][1]);
    cJSON_AddNumberToObject(j, "devices", t->device_count);
    dtypes = cJSON_AddArrayToObject(j, "dtypes");
    for (const tn_dtype *d = t->facts.dtypes; d && *d; d++)
        cJSON_AddItemToArray(dtypes, cJSON_CreateString(tn_dtype_name(*d) ? tn_dtype_name(*d) : "?"));
    return j;
}

cJSON *check_result_json(const check_result *r)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddNumberToObject(j, "outcome", r->outcome);
    cJSON_AddNumberToObject(j, "way", r->way);
    cJSON_AddNumberToObject(j, "difference", r->difference);
    cJSON_AddNumberToObject(j, "seconds", r->seconds);
    cJSON_AddNumberToObject(j, "ends", r->ends);
    cJSON_AddStringToObject(j, "reason", r->reason);
    if (r->data) cJSON_AddItemReferenceToObject(j, "data", r->data);
    return j;
}

static double number(const cJSON *j, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(j, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

void check_result_read(cJSON *line, check_result *out)
{
    const cJSON *reason = cJSON_GetObjectItemCaseSensitive(line, "reason");
    out->outcome = (int32_t)number(line, "outcome");
    if (out->outcome < 0 || out->outcome >= CHECK_OUTCOMES) out->outcome = CHECK_FAILED;
    out->way = (int32_t)number(line, "way");
    out->difference = number(line, "difference");
    out->seconds = number(line, "seconds");
    out->ends = (int32_t)number(line, "ends");
    out->data = cJSON_DetachItemFromObjectCaseSensitive(line, "data");
    if (cJSON_IsString(reason)) snprintf(out->reason, sizeof out->reason, "%s", reason->valuestring);
}

static void write_line(cJSON *j, FILE *out)
{
    char *text = cJSON_PrintUnformatted(j);
    fprintf(out, "%s\n", text ? text : "{}");
    fflush(out);
    free(text);
    cJSON_Delete(j);
}

/* ---- Running ------------------------------------------------------------------------------------------- */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void check_run_case(check_target *t, const check_case *c, check_result *out)
{
    double start = seconds_now();
    memset(out, 0, sizeof *out);
    t->error_line[0] = t->log[0] = 0;
    tn_clear_error();
    c->run(t, c, out);
    out->seconds = seconds_now() - start;
    out->ends = tn_device_status(t->ctx, t->device) == TN_E_DEVICE_LOST;
    memcpy(out->log, t->log, sizeof out->log);
    if (!t->error_line[0]) return;
    if (out->outcome == CHECK_ABSENT)
        out->outcome = CHECK_PASSED; /* an error is worse than an absent kernel */
    check_fail(out, "the result is right, but the library logged an error: %s", t->error_line);
}

static void describe(const check_target *t, const check_list *list, FILE *out)
{
    cJSON *j = cJSON_CreateObject(), *cases = cJSON_AddArrayToObject(j, "cases");
    cJSON_AddItemToObject(j, "subject", check_subject(t));
    for (uint32_t i = 0; i < list->count; i++) {
        cJSON *c = cJSON_CreateArray();
        cJSON_AddItemToArray(c, cJSON_CreateString(list->cases[i].name));
        cJSON_AddItemToArray(c, cJSON_CreateNumber(list->cases[i].tier));
        cJSON_AddItemToArray(c, cJSON_CreateNumber(list->cases[i].tags));
        cJSON_AddItemToArray(cases, c);
    }
    write_line(j, out);
}

static int refuse(const char *reason, FILE *out)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "fatal", reason);
    write_line(j, out);
    return 3;
}

int check_serve(const check_options *options, const check_source *sources, uint32_t count, FILE *in,
                FILE *out)
{
    char reason[512], line[64];
    check_list list;
    check_result r;
    check_target *t = check_target_open(options, reason, sizeof reason);
    if (!t) return refuse(reason, out);
    t->log_stream = out;
    if (check_list_init(&list, options)) return 3;
    for (uint32_t i = 0; i < count; i++) sources[i](t, &list);
    while (fgets(line, sizeof line, in)) {
        long number_of_case = strtol(line, NULL, 10);
        if (number_of_case < 0 || number_of_case >= (long)list.count) {
            describe(t, &list, out);
            continue;
        }
        check_run_case(t, &list.cases[number_of_case], &r);
        write_line(check_result_json(&r), out);
        cJSON_Delete(r.data);
    }
    check_list_finish(&list);
    check_target_close(t);
    return 0;
}
