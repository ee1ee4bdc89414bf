/* SPDX-License-Identifier: Apache-2.0 */
/* tenon bench devices: measures every device and keeps the result for tn_device_choose ("measured"). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <tenon/tenon.h>
#include "cmd.h"

static const char help[] = "usage: tenon bench devices [--virtual] [--dry]\n\n"
                           "Measures each device: memory bandwidth, float32 products, the time from a small "
                           "call to its result. The\n"
                           "result is kept in $XDG_CACHE_HOME/tenon/devices.json (or ~/.cache/tenon): "
                           "programs that choose the device\n"
                           "\"measured\", or run with TENON_DEVICE=measured, get the fastest. Takes some "
                           "seconds for each device.\n\n"
                           "  --virtual   also those that are used only when named: devices for tests, and "
                           "processors under\n"
                           "              OpenCL or Vulkan\n"
                           "  --dry       keeps nothing\n";

#define ELEMENTS (4 << 20) /* of the addition: 48 MiB are moved */
#define SIDE     512       /* of the products */
#define ROUNDS   7         /* of each measurement, whose median counts */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct bench {
    tn_context *ctx;
    tn_device device;
    tn_scope *s;
    tn_tensor *a, *b;
} bench;

static tn_tensor *add(const bench *w)
{
    return tn_add(w->s, w->a, w->b);
}

static tn_tensor *multiply(const bench *w)
{
    return tn_mm(w->s, w->a, w->b);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Median seconds of one call with its result; 0 after an error. */
static double measure(bench *w, tn_ints sizes, tn_tensor *(*call)(const bench *w))
{
    double times[ROUNDS];
    w->a = tn_ones(w->s, sizes, .dtype = TN_FLOAT32, .device = w->device);
    w->b = tn_ones(w->s, sizes, .dtype = TN_FLOAT32, .device = w->device);
    tn_drop(w->s, call(w)); /* the first call compiles and allocates */
    int32_t status = tn_device_synchronize(w->ctx, w->device);
    for (int i = 0; i < ROUNDS && !status; i++) {
        double start = now();
        tn_tensor *out = call(w);
        status = tn_device_synchronize(w->ctx, w->device);
        times[i] = now() - start;
        tn_drop(w->s, out);
    }
    tn_drop(w->s, w->a);
    tn_drop(w->s, w->b);
    if (status || tn_scope_failed(w->s)) return 0;
    qsort(times, ROUNDS, sizeof *times, by_size);
    return times[ROUNDS / 2] > 1e-9 ? times[ROUNDS / 2] : 1e-9;
}

typedef struct result {
    char id[64];
    tn_device_facts facts;
    double bandwidth, flops, call;
} result;

/* 0 with a message printed if the device cannot be measured. */
static int measure_device(tn_context *ctx, tn_device device, result *out)
{
    bench w = {.ctx = ctx, .device = device, .s = tn_scope_open(ctx)};
    double large = measure(&w, TN_INTS(ELEMENTS), add), product = measure(&w, TN_INTS(SIDE, SIDE), multiply);
    out->call = measure(&w, TN_INTS(1), add);
    int good = large > 0 && product > 0 && out->call > 0;
    if (good) {
        out->bandwidth = 3.0 * sizeof(float) * ELEMENTS / large;
        out->flops = 2.0 * SIDE * SIDE * SIDE / product;
        printf("%-14s %9.2f GB/s %9.2f Gflop/s %9.2f us a call\n", out->id, out->bandwidth * 1e-9,
               out->flops * 1e-9, out->call * 1e6);
    } else {
        const tn_error *error = tn_scope_error(w.s) ? tn_scope_error(w.s) : tn_last_error();
        fprintf(stderr, "tenon bench: %s cannot be measured: %s\n", out->id,
                error ? error->message : "no reason");
    }
    tn_scope_close(w.s);
    return good;
}

static void write_results(FILE *file, const result *results, uint32_t count)
{
    json j = {.file = file};
    json_open(&j, NULL, '{');
    json_number(&j, "tenon_devices", 1);
    json_open(&j, "devices", '[');
    for (uint32_t i = 0; i < count; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "device", results[i].id);
        json_text(&j, "name", results[i].facts.name);
        json_real(&j, "bandwidth", results[i].bandwidth);
        json_real(&j, "flops_f32", results[i].flops);
        json_real(&j, "call", results[i].call);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
}

/* The folder of the file, made if it is missing; 0 if there is none. */
static int make_folder(char *path, size_t bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int below = !(cache && cache[0] == '/');
    const char *root = below ? home : cache;
    if (!root || root[0] != '/') return 0;
    if ((size_t)snprintf(path, bytes, "%s%s", root, below ? "/.cache" : "") + sizeof "/tenon" > bytes)
        return 0;
    (void)mkdir(path, 0700);
    strcat(path, "/tenon");
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* Written under another name, so that no program reads half of it. */
static int keep(const result *results, uint32_t count)
{
    char folder[4000], path[4096], other[4096 + 16];
    if (!make_folder(folder, sizeof folder)) {
        fprintf(stderr,
                "tenon bench: there is no folder to keep the result in: set XDG_CACHE_HOME or HOME\n");
        return CMD_FAILED;
    }
    snprintf(path, sizeof path, "%s/devices.json", folder);
    snprintf(other, sizeof other, "%s.%ld", path, (long)getpid());
    FILE *file = fopen(other, "we");
    int failed = !file || fchmod(fileno(file), 0600);
    if (file && !failed) write_results(file, results, count);
    if (file) failed |= ferror(file);
    if (file) failed |= fclose(file);
    if (!failed && rename(other, path) == 0) {
        printf("kept in %s\n", path);
        return CMD_OK;
    }
    fprintf(stderr, "tenon bench: cannot write %s: %s\n", path, strerror(errno));
    if (file) unlink(other);
    return CMD_FAILED;
}

int cmd_bench(int argc, char **argv)
{
    cmd_options options = {.help = help, .flags = {"--virtual", "--dry"}, .max_operands = 1};
    int status;
    if (cmd_parse(&options, argc, argv, &status)) return status;
    if (!options.operand || strcmp(options.operand, "devices") != 0) {
        fputs(help, stderr);
        return CMD_USAGE;
    }
    tn_context *ctx = cmd_context(0);
    if (!ctx) return CMD_FAILED;
    int32_t count = cmd_device_count(ctx);
    result *results = calloc(count ? (size_t)count : 1, sizeof *results);
    uint32_t measured = 0;
    status = results ? CMD_OK : CMD_FAILED;
    for (int32_t i = 0; results && i < count; i++) {
        result *r = &results[measured];
        tn_device device = tn_device_at(ctx, i);
        r->facts.size = sizeof r->facts;
        tn_device_format(ctx, device, r->id, sizeof r->id);
        if (tn_device_get_facts(ctx, device, &r->facts)) continue;
        if (r->facts.device_class == TN_DEVICE_VIRTUAL && !options.set[0]) continue;
        if (measure_device(ctx, device, r))
            measured++;
        else
            status = CMD_FAILED;
    }
    if (results && measured && !options.set[1] && keep(results, measured)) status = CMD_FAILED;
    free(results);
    tn_context_destroy(ctx);
    return status;
}
