/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenon doctor: the search path, every candidate with its state and reason, what loaded plugins say of
 * themselves, the devices, and what is configured but does not work. That is a plugin that fails, a kernel row of an
 * operator or for a device type that does not exist, or a device or plugin that a variable names and that does not
 * exist. Absent hardware is not a fault, nor is a plugin that is switched off.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>
#include <tenon/inspect.h>
#include "cmd.h"
#include "rows.h"

static const char help[] =
    "usage: tenon doctor [--json] [--fallbacks] [--forget] [--tune]\n\n"
    "Lists the folders that are searched for plugins, each plugin with its state and what it says about "
    "itself\n"
    "(such as the libraries that it uses), and the devices. The exit status is 1 if something that is "
    "configured\n"
    "does not work: a plugin cannot be loaded or its self-test fails, a kernel row names an operator or a "
    "device\n"
    "type that does not exist, a variable names a plugin or a device that does not exist, or there is no "
    "device at all.\n\n"
    "  --fallbacks  for each device other than the CPU, the operators that would run on the CPU instead\n"
    "  --forget     first deletes the stored verdicts on unknown plugins, so that each is probed again\n"
    "  --tune       first lets the CPU plugin measure which of its libraries computes each class of "
    "products\n"
    "               fastest, and lists the choices\n"
    "  --json       the same as JSON\n";

static const char *const variables[] = {"TENON_PLUGIN_PATH",   "TENON_PLUGIN_ADD",
                                        "TENON_PLUGIN_SELECT", "TENON_PLUGIN_DISABLE",
                                        "TENON_PLUGIN_PROBE",  "TENON_PLUGIN_ALLOW",
                                        "TENON_DEVICE",        "TENON_FALLBACK",
                                        "TENON_CPU_LEVEL",     "TENON_CPU_TUNE",
                                        "TENON_RECORD",        "TENON_VALIDATE",
                                        "TENON_INJECT",        "TENON_TRACE",
                                        "TENON_LOG",           "TENON_DEBUG",
                                        "TENON_PROFILE",       "TENON_PROFILE_WITH",
                                        "TENON_ALLOC_CONF",    "TENON_SETTINGS",
                                        "TENON_BLOCKING",      NULL};

static const char *state_name(uint32_t state)
{
    return state == TN_CANDIDATE_LOADED ? "loaded" : state == TN_CANDIDATE_SKIPPED ? "skipped" : "failed";
}

#define MAX_UNWELL 16

/* The report in either form: lines for people, or JSON. */
typedef struct report {
    tn_context *ctx;
    json *j; /* NULL: text */
    uint32_t problems;
    uint32_t n_unwell; /* plugins whose self-test failed: name and error */
    char unwell[MAX_UNWELL][64];
    char why[MAX_UNWELL][512];
} report;

/* A line of the last part: what is configured, and why it does not work. */
static void problem(report *r, const char *what, const char *why)
{
    char line[1200];
    snprintf(line, sizeof(line), "%s: %s", what, why && *why ? why : "the reason is unknown");
    if (r->j)
        json_text(r->j, NULL, line);
    else
        printf("%s  %s\n", r->problems ? "" : "\nproblems\n", line);
    r->problems++;
}

static void report_environment(report *r)
{
    if (r->j)
        json_open(r->j, "environment", '{');
    else
        printf("tenon %s\n", tn_version());
    for (const char *const *name = variables; *name; name++) {
        const char *value = getenv(*name);
        if (value && r->j) json_text(r->j, *name, value);
        if (value && !r->j) printf("  %s=%s\n", *name, value);
    }
    if (r->j) json_close(r->j, '}');
}

static void report_search_path(report *r)
{
    const char *folder;
    if (r->j)
        json_open(r->j, "search_path", '[');
    else
        puts("\nsearch path");
    for (uint32_t i = 0; (folder = tn_inspect_search_path(r->ctx, i)); i++) {
        if (r->j)
            json_text(r->j, NULL, folder);
        else
            printf("  %s\n", folder);
    }
    if (r->j) json_close(r->j, ']');
}

/* ---- Plugins ------------------------------------------------------------------------------------------ */

static void note(void *user, const char *text)
{
    report *r = user;
    if (r->j)
        json_text(r->j, NULL, text);
    else
        printf("           %s\n", text);
}

/* What a loaded plugin logs while it checks itself, and its rows that wait; 0 if its self-test fails. */
static int self_test(report *r, uint32_t i, const char *plugin)
{
    if (r->j) json_open(r->j, "notes", '[');
    cmd_listen(note, r);
    int32_t status = tn_inspect_self_test(r->ctx, i);
    cmd_listen(NULL, NULL);
    rows_that_wait(r->ctx, plugin, note, r);
    if (r->j) json_close(r->j, ']');
    return status == TN_OK;
}

static void json_candidate(json *j, const tn_candidate_info *c)
{
    json_open(j, NULL, '{');
    JSON_TEXTS(j, {"name", c->name}, {"state", state_name(c->state)}, {"reason", c->reason},
               {"manifest", c->manifest}, {"library", c->library}, {"version", c->version},
               {"vendor", c->vendor}, {"device_type", c->device_type});
    json_number(j, "devices", c->device_count);
    json_text(j, "shim", c->shim && c->shim[0] ? c->shim : NULL);
    json_text(j, "experimental", c->experimental && c->experimental[0] ? c->experimental : NULL);
}

static void print_candidate(const tn_candidate_info *c)
{
    printf("  %-8s %s%s%s", state_name(c->state), c->name && c->name[0] ? c->name : "?",
           c->version && c->version[0] ? " " : "", c->version ? c->version : "");
    if (c->vendor && c->vendor[0]) printf(" (%s)", c->vendor);
    if (c->state == TN_CANDIDATE_LOADED && c->device_type && c->device_type[0])
        printf(": %u device%s '%s'", c->device_count, c->device_count == 1 ? "" : "s", c->device_type);
    if (c->state == TN_CANDIDATE_LOADED && c->shim && c->shim[0]) printf(": shim '%s'", c->shim);
    putchar('\n');
    if (c->reason && c->reason[0]) printf("           %s\n", c->reason);
    if (c->experimental && c->experimental[0])
        printf("           experimental interfaces: %s (any version may change them)\n", c->experimental);
    if (c->library) printf("           %s\n", c->library);
    if (c->manifest && !c->library) printf("           %s\n", c->manifest);
}

static void report_candidates(report *r)
{
    uint32_t count = tn_inspect_candidate_count(r->ctx);
    if (r->j)
        json_open(r->j, "plugins", '[');
    else
        puts(count ? "\nplugins" : "\nplugins: none found");
    for (uint32_t i = 0; i < count; i++) {
        tn_candidate_info c = {.size = sizeof(c)};
        if (tn_inspect_candidate(r->ctx, i, &c) != TN_OK) continue;
        if (r->j)
            json_candidate(r->j, &c);
        else
            print_candidate(&c);
        if (c.state == TN_CANDIDATE_LOADED && !self_test(r, i, c.name) && r->n_unwell < MAX_UNWELL) {
            const tn_error *error = tn_last_error();
            snprintf(r->unwell[r->n_unwell], sizeof(r->unwell[0]), "%s: self-test", c.name);
            snprintf(r->why[r->n_unwell++], sizeof(r->why[0]), "%s", error ? error->message : "");
        }
        if (r->j) json_close(r->j, '}');
    }
    if (r->j) json_close(r->j, ']');
}

static void report_devices(report *r)
{
    const char *reason = NULL;
    char text[64], same[64];
    int32_t count = cmd_device_count(r->ctx);
    tn_device chosen = count > 0 ? tn_device_choose(r->ctx, NULL, &reason) : 0;
    if (r->j)
        json_open(r->j, "devices", '[');
    else
        puts(count > 0 ? "\ndevices" : "\ndevices: none");
    for (int32_t i = 0; i < count; i++) {
        tn_device device = tn_device_at(r->ctx, i);
        tn_device_format(r->ctx, device, text, sizeof(text));
        if (r->j) {
            json_text(r->j, NULL, text);
            continue;
        }
        printf("  %s%s", text, device == chosen ? "  (chosen)" : "");
        if (cmd_same_hardware(r->ctx, i, same)) printf("  (the same hardware as %s)", same);
        putchar('\n');
    }
    if (r->j) json_close(r->j, ']');
    if (r->j) json_text(r->j, "choice", reason);
}

/* ---- What does not work ------------------------------------------------------------------------------- */

typedef struct row_problem {
    report *r;
    const char *plugin;
} row_problem;

static void say_row(void *user, const char *text)
{
    const row_problem *p = user;
    problem(p->r, p->plugin, text);
}

/* Kernel rows whose operator or device type does not exist. */
static void check_rows(report *r)
{
    for (uint32_t i = 0; i < tn_inspect_candidate_count(r->ctx); i++) {
        tn_candidate_info c = {.size = sizeof(c)};
        if (tn_inspect_candidate(r->ctx, i, &c) != TN_OK || c.state != TN_CANDIDATE_LOADED) continue;
        misspelt_rows(r->ctx, &(unused_rows){.plugin = c.name}, say_row, &(row_problem){r, c.name});
        rows_of_unknown_types(r->ctx, c.name, say_row, &(row_problem){r, c.name});
    }
}

static void check_candidates(report *r)
{
    for (uint32_t i = 0; i < r->n_unwell; i++) problem(r, r->unwell[i], r->why[i]);
    for (uint32_t i = 0; i < tn_inspect_candidate_count(r->ctx); i++) {
        tn_candidate_info c = {.size = sizeof(c)};
        if (tn_inspect_candidate(r->ctx, i, &c) != TN_OK || c.state != TN_CANDIDATE_FAILED) continue;
        problem(r, c.manifest ? c.manifest : c.library, c.reason);
    }
}

static int is_found(tn_context *ctx, const char *glob)
{
    for (uint32_t i = 0; i < tn_inspect_candidate_count(ctx); i++) {
        tn_candidate_info c = {.size = sizeof(c)};
        if (tn_inspect_candidate(ctx, i, &c) == TN_OK && c.name && fnmatch(glob, c.name, 0) == 0) return 1;
    }
    return 0;
}

/* Names of plugins in a variable: one that matches no plugin is most likely misspelt. */
static void check_names(report *r, const char *variable)
{
    const char *list = getenv(variable);
    char what[160];
    while (list && *list) {
        size_t length = strcspn(list, ",");
        char glob[96];
        snprintf(glob, sizeof(glob), "%.*s", (int)length, list);
        snprintf(what, sizeof(what), "%s=%s", variable, getenv(variable));
        if (length > 0 && !is_found(r->ctx, glob)) {
            char why[160];
            snprintf(why, sizeof(why), "no plugin in the search path has the name '%s'", glob);
            problem(r, what, why);
        }
        list += length + (list[length] == ',');
    }
}

/* Settings of the environment: their device type is there, and the device takes them when it is opened. */
static void check_settings(report *r)
{
    const char *item = getenv("TENON_SETTINGS");
    for (; item && *item; item += strcspn(item, ";") + (item[strcspn(item, ";")] != 0)) {
        char device[64], why[160];
        size_t length = strcspn(item, ".;=");
        snprintf(device, sizeof(device), "%.*s", (int)strcspn(item, ".:;="), item);
        if (!length) continue;
        snprintf(why, sizeof(why), "'%.*s': %s", (int)strcspn(item, ";"), item,
                 item[length] != '.' ? "expected device.name=value" : "no plugin has devices of this type");
        if (item[length] != '.' || tn_device_count(r->ctx, device) <= 0) problem(r, "TENON_SETTINGS", why);
    }
    for (int32_t i = 0; getenv("TENON_SETTINGS") && i < cmd_device_count(r->ctx); i++) {
        uint64_t unused;
        if (tn_device_memory(r->ctx, tn_device_at(r->ctx, i), &unused, &unused) != TN_OK)
            problem(r, "TENON_SETTINGS", tn_last_error() ? tn_last_error()->message : "");
    }
}

static void check_wishes(report *r)
{
    const char *device = getenv("TENON_DEVICE"), *probe = getenv("TENON_PLUGIN_PROBE"), *why = NULL;
    check_names(r, "TENON_PLUGIN_SELECT");
    check_names(r, "TENON_PLUGIN_DISABLE");
    check_settings(r);
    if (probe && *probe && strcmp(probe, "always") != 0 && strcmp(probe, "unknown") != 0 &&
        strcmp(probe, "never") != 0)
        problem(r, "TENON_PLUGIN_PROBE", "is not 'always', 'unknown' or 'never'; 'unknown' is assumed");
    if (tn_device_count(r->ctx, NULL) <= 0) {
        problem(r, "devices", "there are none");
    } else if (device && *device && tn_device_choose(r->ctx, NULL, &why) & TN_DEVICE_MISSING) {
        const tn_error *error = tn_last_error();
        problem(r, "TENON_DEVICE", error ? error->message : why);
    }
}

static void report_problems(report *r)
{
    if (r->j) json_open(r->j, "not_working", '[');
    check_candidates(r);
    check_rows(r);
    check_wishes(r);
    if (r->j) {
        json_close(r->j, ']');
        json_number(r->j, "problems", r->problems);
    } else if (!r->problems) {
        puts("\nno problems");
    }
}

/* ---- What would fall back ---------------------------------------------------------------------------- */

/* 1 for operators that need a kernel. Others are composites of such operators, or move no data. */
static int needs_kernel(const tn_operator_info *op)
{
    return op->base == op->number && strcmp(op->kind, "composite") != 0 && strcmp(op->kind, "view") != 0 &&
           strcmp(op->kind, "custom") != 0;
}

static int has_kernel(tn_context *ctx, uint32_t op, const char *device_type)
{
    for (uint32_t i = 0; i < tn_inspect_kernel_count(ctx, op); i++) {
        tn_kernel_info kernel = {.size = sizeof(kernel)};
        if (tn_inspect_kernel(ctx, op, i, &kernel) == TN_OK && strcmp(kernel.device_type, device_type) == 0)
            return 1;
    }
    return 0;
}

static void report_missing(report *r, const char *device_type)
{
    uint32_t missing = 0, needed = 0;
    if (r->j)
        json_open(r->j, device_type, '[');
    else
        printf("\nfallbacks of '%s'\n", device_type);
    for (uint32_t i = 0; i < tn_inspect_operator_count(r->ctx); i++) {
        tn_operator_info op = {.size = sizeof(op)};
        if (tn_inspect_operator(r->ctx, i, &op) != TN_OK || !needs_kernel(&op)) continue;
        needed++;
        if (has_kernel(r->ctx, op.number, device_type)) continue;
        missing++;
        if (r->j)
            json_text(r->j, NULL, op.name);
        else
            printf("  %s\n", op.name);
    }
    if (r->j)
        json_close(r->j, ']');
    else
        printf("  %u of %u operators that need a kernel run on the CPU instead\n", missing, needed);
}

static void report_fallbacks(report *r)
{
    if (r->j) json_open(r->j, "fallbacks", '{');
    for (uint32_t i = 0; i < tn_inspect_candidate_count(r->ctx); i++) {
        tn_candidate_info c = {.size = sizeof(c)};
        if (tn_inspect_candidate(r->ctx, i, &c) != TN_OK || c.state != TN_CANDIDATE_LOADED) continue;
        if (c.device_count > 0 && strcmp(c.device_type, "cpu") != 0) report_missing(r, c.device_type);
    }
    if (r->j) json_close(r->j, '}');
}

int cmd_doctor(int argc, char **argv)
{
    cmd_options o = {.help = help, .flags = {"--json", "--fallbacks", "--forget", "--tune"}};
    json j = {.file = stdout};
    int status;
    if (cmd_parse(&o, argc, argv, &status)) return status;
    if (o.set[2]) tn_inspect_forget_probes();
    if (o.set[3]) setenv("TENON_CPU_TUNE", "all", 1);
    report r = {.ctx = cmd_context(TN_CONTEXT_TOLERATE_SHIMS), .j = o.set[0] ? &j : NULL};
    if (!r.ctx) return CMD_FAILED;
    if (r.j) {
        json_open(r.j, NULL, '{');
        json_text(r.j, "version", tn_version());
    }
    report_environment(&r);
    report_search_path(&r);
    report_candidates(&r);
    report_devices(&r);
    if (o.set[1]) report_fallbacks(&r);
    report_problems(&r);
    if (r.j) json_close(r.j, '}');
    tn_context_destroy(r.ctx);
    return r.problems ? CMD_FAILED : CMD_OK;
}
