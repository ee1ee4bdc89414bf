/* SPDX-License-Identifier: Apache-2.0 */
/* tenon profile: prints the table of a profile that was written to a file (tenon/profile.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <cjson/cJSON.h>
#include "cmd.h"

static const char help[] = "usage: tenon profile [--all] FILE\n\n"
                           "Prints the table of a profile that TENON_PROFILE=FILE or tn_profile_write made: "
                           "where the time went, the\n"
                           "longest first. A total includes the calls inside, \"self\" does not.\n\n"
                           "  --all   every row; else the first 30\n";

#define FIRST_ROWS 30

/* The whole file, zero-terminated, or NULL with a message printed. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t used = 0, room = 0, n = 1;
    while (file && n) {
        if (used + 1 >= room) {
            room = room ? 2 * room : 1 << 16;
            char *larger = realloc(text, room);
            if (!larger) break;
            text = larger;
        }
        n = fread(text + used, 1, room - used - 1, file);
        used += n;
    }
    int failed = !file || ferror(file) || n;
    if (failed) fprintf(stderr, "tenon profile: cannot read %s: %s\n", path, strerror(errno));
    if (file) fclose(file);
    if (!failed) {
        text[used] = 0;
        return text;
    }
    free(text);
    return NULL;
}

static const char *text_of(const cJSON *row, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static double number_of(const cJSON *row, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static void print_row(const cJSON *row, int width)
{
    static const char *const times[] = {"host_total", "host_self", "device_total", "device_self"};
    printf("%-*s %8.0f", width, text_of(row, "name"), number_of(row, "calls"));
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        printf(" %12.3f", number_of(row, times[i]) * 1e-6);
    printf(" %14.0f%s%s\n", number_of(row, "bytes_total"), text_of(row, "shapes")[0] ? "  " : "",
           text_of(row, "shapes"));
}

/* The profile in the file, or NULL: each row of it is an object. */
static const cJSON *profile_in(const cJSON *root)
{
    const cJSON *profile = cJSON_GetObjectItemCaseSensitive(root, "tenon_profile"), *row;
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(profile, "rows");
    if (!cJSON_IsArray(rows)) return NULL;
    cJSON_ArrayForEach(row, rows)
    {
        if (!cJSON_IsObject(row)) return NULL;
    }
    return profile;
}

static int print_table(const cJSON *profile, int all)
{
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(profile, "rows"), *row;
    int width = 20, has_shapes = 0, count = 0, total = cJSON_GetArraySize(rows);
    const int most = all ? total : FIRST_ROWS;
    cJSON_ArrayForEach(row, rows)
    {
        if (count++ >= most) break;
        int length = (int)strlen(text_of(row, "name"));
        if (length > width) width = length;
        has_shapes |= text_of(row, "shapes")[0] != 0;
    }
    printf("%.3f ms; times in milliseconds\n\n%-*s %8s %12s %12s %12s %12s %14s%s\n",
           number_of(profile, "nanoseconds") * 1e-6, width, "name", "calls", "host total", "host self",
           "device total", "device self", "bytes", has_shapes ? "  shapes" : "");
    count = 0;
    cJSON_ArrayForEach(row, rows)
    {
        if (count++ < most) print_row(row, width);
    }
    if (total > most) printf("and %d more (--all)\n", total - most);
    if (number_of(profile, "dropped") > 0)
        printf("%.0f events were too many for the file; the table counts them\n",
               number_of(profile, "dropped"));
    if (number_of(profile, "unmeasured") > 0)
        printf("%.0f pieces of device work have no time: the plugin has no events with timing\n",
               number_of(profile, "unmeasured"));
    if (number_of(profile, "lost") > 0)
        printf("%.0f kernels and copies are missing: the vendor's profiler has not recorded them\n",
               number_of(profile, "lost"));
    return CMD_OK;
}

int cmd_profile(int argc, char **argv)
{
    cmd_options options = {.help = help, .flags = {"--all"}, .max_operands = 1};
    int status;
    if (cmd_parse(&options, argc, argv, &status)) return status;
    if (!options.operand) {
        fputs(help, stderr);
        return CMD_USAGE;
    }
    char *text = read_file(options.operand);
    if (!text) return CMD_FAILED;
    cJSON *root = cJSON_Parse(text);
    const cJSON *profile = profile_in(root);
    free(text);
    if (profile) {
        status = print_table(profile, options.set[0]);
    } else {
        fprintf(stderr, "tenon profile: %s is not a profile of Tenon\n", options.operand);
        status = CMD_FAILED;
    }
    cJSON_Delete(root);
    return status;
}
