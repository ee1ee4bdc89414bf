/* SPDX-License-Identifier: Apache-2.0 */
/* tenon devices: every device with its facts, in order of preference, and the one that a program gets by
 * default. */
#include <string.h>
#include <tenon/device.h>
#include "cmd.h"

static const char help[] =
    "usage: tenon devices [--settings] [--json]\n\n"
    "Lists the devices in order of preference, and behind them other plugins' devices of the same hardware. "
    "'*'\n"
    "marks the one that a program gets if it names none; TENON_DEVICE selects another.\n\n"
    "  --settings  also the settings of each device; tn_device_set_setting and TENON_SETTINGS change them\n"
    "  --json      the same as JSON\n";

const char *device_class_name(uint32_t device_class)
{
    static const char *const names[] = {"host", "integrated", "discrete", "accelerator", "virtual"};
    return device_class < sizeof(names) / sizeof(names[0]) ? names[device_class] : "unknown";
}

int32_t cmd_device_count(tn_context *ctx)
{
    int32_t count = tn_device_count(ctx, NULL);
    while (!(tn_device_at(ctx, count) & TN_DEVICE_MISSING)) count++;
    tn_clear_error();
    return count;
}

const char *cmd_same_hardware(tn_context *ctx, int32_t i, char text[64])
{
    text[0] = 0;
    for (int32_t k = 0; k < i && !text[0]; k++) {
        if (tn_device_is_same(ctx, tn_device_at(ctx, i), tn_device_at(ctx, k)))
            tn_device_format(ctx, tn_device_at(ctx, k), text, 64);
    }
    return text[0] ? text : NULL;
}

typedef struct row {
    tn_device device;
    char id[48];
    char same[64]; /* an earlier device that is the same hardware, or "" */
    tn_device_facts facts;
    uint64_t free_bytes;
    uint64_t total_bytes;
} row;

static int read_row(tn_context *ctx, int32_t i, row *out)
{
    memset(out, 0, sizeof(*out));
    out->device = tn_device_at(ctx, i);
    out->facts.size = sizeof(out->facts);
    tn_device_format(ctx, out->device, out->id, sizeof(out->id));
    cmd_same_hardware(ctx, i, out->same);
    if (tn_device_get_facts(ctx, out->device, &out->facts) != TN_OK) return 0;
    if (tn_device_memory(ctx, out->device, &out->free_bytes, &out->total_bytes) != TN_OK) {
        out->free_bytes = 0;
        out->total_bytes = out->facts.total_memory;
    }
    return 1;
}

static void print_dtypes(const tn_dtype *dtypes)
{
    printf("    dtypes");
    for (; dtypes && *dtypes; dtypes++) printf(" %s", tn_dtype_name(*dtypes) ? tn_dtype_name(*dtypes) : "?");
    putchar('\n');
}

static void print_row(const row *r, int chosen)
{
    const double gib = 1024.0 * 1024.0 * 1024.0;
    printf("%c %-10s %-12s %s%s%s%s%s\n", chosen ? '*' : ' ', r->id, device_class_name(r->facts.device_class),
           r->facts.name, r->facts.architecture[0] ? ", " : "", r->facts.architecture,
           r->same[0] ? ", the same hardware as " : "", r->same);
    printf("    memory %.1f GiB, %.1f free; %u compute unit%s\n", (double)r->total_bytes / gib,
           (double)r->free_bytes / gib, r->facts.compute_units, r->facts.compute_units == 1 ? "" : "s");
    print_dtypes(r->facts.dtypes);
}

/* ---- Settings ------------------------------------------------------------------------------------------ */

/* As TENON_SETTINGS has it. */
static const char *value_text(tn_value v, char buffer[64])
{
    if (v.tag == TN_TAG_STRING) return v.as.string;
    if (v.tag == TN_TAG_FLOAT)
        snprintf(buffer, 64, "%g", v.as.f);
    else
        snprintf(buffer, 64, "%lld", (long long)v.as.i);
    return buffer;
}

static const char *range_text(const tn_setting *s, char buffer[160])
{
    static const char *const types[] = {"int", "float", "0 or 1", "", "text"}; /* from TN_TAG_INT on */
    char low[64], high[64];
    if (s->choices) return s->choices;
    int n = snprintf(buffer, 160, "%s", types[s->default_value.tag - TN_TAG_INT]);
    if (s->minimum.tag) n += snprintf(buffer + n, 160 - (size_t)n, " from %s", value_text(s->minimum, low));
    if (s->maximum.tag) snprintf(buffer + n, 160 - (size_t)n, " to %s", value_text(s->maximum, high));
    return buffer;
}

static void report_setting(tn_context *ctx, json *j, tn_device device, const tn_setting *s)
{
    char now[64], usual[64], range[160];
    tn_value v = tn_value_none();
    const char *value = tn_device_get_setting(ctx, device, s->name, &v) ? "?" : value_text(v, now);
    const char *otherwise = value_text(s->default_value, usual);
    int fixed = (s->flags & TN_SETTING_READ_ONLY) != 0;
    if (!j) {
        printf("    %-14s %-8s %s (%s%s%s%s)\n", s->name, value, s->meaning, range_text(s, range),
               fixed ? "; read-only" : "", fixed ? "" : "; default ", fixed ? "" : otherwise);
        return;
    }
    json_open(j, NULL, '{');
    json_text(j, "name", s->name);
    json_text(j, "value", value);
    json_text(j, "default", otherwise);
    json_text(j, "range", range_text(s, range));
    json_text(j, "meaning", s->meaning);
    json_flag(j, "read_only", fixed);
    json_close(j, '}');
}

static void report_settings(tn_context *ctx, json *j, tn_device device)
{
    tn_setting s = {.size = sizeof(s)};
    if (j) json_open(j, "settings", '[');
    for (uint32_t i = 0; tn_device_setting(ctx, device, i, &s) == TN_OK; i++)
        report_setting(ctx, j, device, &s);
    if (j) json_close(j, ']');
}

static void json_row(tn_context *ctx, json *j, const row *r, int chosen, int settings)
{
    json_open(j, NULL, '{');
    json_text(j, "device", r->id);
    json_flag(j, "chosen", chosen);
    json_text(j, "same_as", r->same[0] ? r->same : NULL);
    json_text(j, "class", device_class_name(r->facts.device_class));
    json_text(j, "name", r->facts.name);
    json_text(j, "architecture", r->facts.architecture);
    json_number(j, "compute_units", r->facts.compute_units);
    json_number(j, "total_memory", r->total_bytes);
    json_number(j, "free_memory", r->free_bytes);
    json_number(j, "bandwidth", r->facts.bandwidth);
    json_number(j, "flops_f32", r->facts.flops_f32);
    json_open(j, "dtypes", '[');
    for (const tn_dtype *d = r->facts.dtypes; d && *d; d++) json_text(j, NULL, tn_dtype_name(*d));
    json_close(j, ']');
    if (settings) report_settings(ctx, j, r->device);
    json_close(j, '}');
}

int cmd_devices(int argc, char **argv)
{
    cmd_options o = {.help = help, .flags = {"--json", "--settings"}};
    json j = {.file = stdout};
    const char *reason = NULL;
    int status;
    if (cmd_parse(&o, argc, argv, &status)) return status;
    tn_context *ctx = cmd_context(0);
    if (!ctx) return CMD_FAILED;
    int32_t count = cmd_device_count(ctx);
    tn_device chosen = tn_device_choose(ctx, NULL, &reason);
    if (o.set[0]) json_open(&j, NULL, '[');
    for (int32_t i = 0; i < count; i++) {
        row r;
        if (!read_row(ctx, i, &r)) {
            fprintf(stderr, "tenon devices: %s: %s\n", r.id,
                    tn_last_error() ? tn_last_error()->message : "no facts");
            status = CMD_FAILED;
        } else if (o.set[0]) {
            json_row(ctx, &j, &r, r.device == chosen, o.set[1]);
        } else {
            print_row(&r, r.device == chosen);
            if (o.set[1]) report_settings(ctx, NULL, r.device);
        }
    }
    status = count > 0 && status != CMD_FAILED ? CMD_OK : CMD_FAILED;
    if (o.set[0])
        json_close(&j, ']');
    else if (count <= 0)
        puts("no device; 'tenon doctor' shows why");
    else if (reason)
        printf("* %s\n", reason);
    tn_context_destroy(ctx);
    return status;
}
