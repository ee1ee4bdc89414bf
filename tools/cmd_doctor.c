/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenon doctor: search path, every candidate with its state and reason, devices. Exits with 1 when something
 * that is configured does not work; absent hardware is no fault.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>
#include <tenon/inspect.h>
#include "cmd.h"

static const char help[] =
    "usage: tenon doctor [--json] [--fallbacks]\n\n"
    "Says where plugins were looked for, what became of each, and which devices there are. The exit status "
    "is 1 when a\n"
    "plugin could not be loaded or there is no device.\n\n"
    "  --fallbacks  for each device other than the CPU, the operators that would run on the CPU instead\n"
    "  --json       the same as JSON\n";

static const char *const variables[] = {"TENON_PLUGIN_PATH",    "TENON_PLUGIN_ADD",   "TENON_PLUGIN_SELECT",
                                        "TENON_PLUGIN_DISABLE", "TENON_PLUGIN_PROBE", "TENON_DEVICE",
                                        "TENON_FALLBACK",       "TENON_CPU_LEVEL",    "TENON_RECORD",
                                        "TENON_VALIDATE",       "TENON_INJECT",       NULL};

static const char *state_name(uint32_t state)
{
    return state == TN_CANDIDATE_LOADED ? "loaded" : state == TN_CANDIDATE_SKIPPED ? "skipped" : "failed";
}

/* What both forms of the report are made through: lines for people, or JSON. */
typedef struct report {
    tn_context *ctx;
    json *j; /* NULL: text */
    uint32_t failed;
} report;

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

static void json_candidate(json *j, const tn_candidate_info *c)
{
    json_open(j, NULL, '{');
    json_text(j, "name", c->name);
    json_text(j, "state", state_name(c->state));
    json_text(j, "reason", c->reason);
    json_text(j, "manifest", c->manifest);
    json_text(j, "library", c->library);
    json_text(j, "version", c->version);
    json_text(j, "vendor", c->vendor);
    json_text(j, "device_type", c->device_type);
    json_number(j, "devices", c->device_count);
    json_text(j, "shim", c->shim && c->shim[0] ? c->shim : NULL);
    json_close(j, '}');
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
        r->failed += c.state == TN_CANDIDATE_FAILED;
        if (r->j)
            json_candidate(r->j, &c);
        else
            print_candidate(&c);
    }
    if (r->j) json_close(r->j, ']');
}

static void report_devices(report *r)
{
    const char *reason = NULL;
    char text[64];
    int32_t count = tn_device_count(r->ctx, NULL);
    tn_device chosen = count > 0 ? tn_device_choose(r->ctx, NULL, &reason) : 0;
    if (r->j)
        json_open(r->j, "devices", '[');
    else
        puts(count > 0 ? "\ndevices" : "\ndevices: none");
    for (int32_t i = 0; i < count; i++) {
        tn_device device = tn_device_at(r->ctx, i);
        tn_device_format(r->ctx, device, text, sizeof(text));
        if (r->j)
            json_text(r->j, NULL, text);
        else
            printf("  %s%s\n", text, device == chosen ? "  (chosen)" : "");
    }
    if (r->j) json_close(r->j, ']');
    if (r->j) json_text(r->j, "choice", reason);
    r->failed += count <= 0;
}

/* ---- What would fall back ---------------------------------------------------------------------------- */

/* Operators of these kinds need a kernel; the others run through operators that do, or move no data. */
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
    cmd_options o = {.help = help, .flags = {"--json", "--fallbacks"}};
    json j = {.file = stdout};
    int status;
    if (cmd_parse(&o, argc, argv, &status)) return status;
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
    if (r.j) {
        json_number(r.j, "problems", r.failed);
        json_close(r.j, '}');
    } else {
        printf("\n%s\n",
               r.failed ? "something configured does not work; see the reasons above" : "all is well");
    }
    tn_context_destroy(r.ctx);
    return r.failed ? CMD_FAILED : CMD_OK;
}
