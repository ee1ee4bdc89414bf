/* SPDX-License-Identifier: Apache-2.0 */
/* tenon file: lists, converts, compares and checks files of tensors (tenon/files.h). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/files.h>
#include "cmd.h"

static const char help[] =
    "usage: tenon file [list] FILE\n"
    "       tenon file convert [--shard MIB] FILE FILE\n"
    "       tenon file compare [--tolerance X] FILE FILE\n"
    "       tenon file check FILE\n\n"
    "Works on files of tensors: safetensors, those of PyTorch (.pt, .pth), and sharded checkpoints (the "
    "folder, or its\n"
    "index). `list` prints names, dtypes and sizes. `convert` writes PyTorch's format to a name that ends in "
    ".pt or .pth,\n"
    "a sharded checkpoint with --shard, else safetensors. `compare` says which tensors differ, and by how "
    "much. `check`\n"
    "reads all of the file, and counts elements that are not finite.\n\n"
    "  --shard MIB      writes a folder of files of at most so many MiB\n"
    "  --tolerance X    elements are the same up to X * (1 + their size); default 0\n\n"
    "Status 0: done, 1: files differ, are damaged, or cannot be read or written, 2: wrong arguments.\n";

typedef struct request {
    tn_context *ctx;
    const char *files[2];
    double tolerance;
    uint64_t shard_bytes;
    tn_file *open[2];
} request;

static int failed(const tn_scope *s)
{
    const tn_error *e = s ? tn_scope_error(s) : tn_last_error();
    fprintf(stderr, "tenon file: %s\n", e ? e->message : "unknown error");
    return CMD_FAILED;
}

static void print_sizes(const tn_tensor *t)
{
    putchar('[');
    for (int64_t d = 0; d < tn_tensor_rank(t); d++)
        printf("%s%lld", d ? ", " : "", (long long)tn_tensor_size(t, d));
    putchar(']');
}

/* ---- list --------------------------------------------------------------------------------------------- */

static uint64_t bytes_of(const tn_tensor *t)
{
    return (uint64_t)(tn_tensor_numel(t) * tn_dtype_bytes(tn_tensor_dtype(t)));
}

static int list(request *r)
{
    tn_file *f = r->open[0];
    uint64_t elements = 0, bytes = 0;
    size_t width = 4;
    for (uint64_t i = 0; i < tn_file_count(f); i++)
        if (strlen(tn_file_name(f, i)) > width) width = strlen(tn_file_name(f, i));
    for (uint64_t i = 0; i < tn_file_count(f); i++) {
        tn_scope *s = tn_scope_open(r->ctx);
        const tn_tensor *t = tn_file_map(s, f, tn_file_name(f, i));
        if (!t) {
            int status = failed(s);
            tn_scope_close(s);
            return status;
        }
        printf("%-*s  %-10s ", (int)width, tn_file_name(f, i), tn_dtype_interned(r->ctx, tn_tensor_dtype(t)));
        print_sizes(t);
        putchar('\n');
        elements += (uint64_t)tn_tensor_numel(t);
        bytes += bytes_of(t);
        tn_scope_close(s);
    }
    printf("%s: %llu tensor%s, %llu elements, %.1f MiB\n", tn_file_format(f),
           (unsigned long long)tn_file_count(f), tn_file_count(f) == 1 ? "" : "s",
           (unsigned long long)elements, (double)bytes / (1 << 20));
    return CMD_OK;
}

/* ---- convert ------------------------------------------------------------------------------------------ */

static int convert(request *r)
{
    const char *to = r->files[1], *dot = strrchr(to, '.');
    tn_scope *s = tn_scope_open(r->ctx);
    tn_named_tensors all = tn_file_tensors(s, r->open[0]);
    if (!tn_scope_failed(s)) {
        if (r->shard_bytes)
            tn_shards_save(s, to, all, r->shard_bytes);
        else if (dot && (!strcmp(dot, ".pt") || !strcmp(dot, ".pth")))
            tn_pt_save(s, to, all);
        else
            tn_safetensors_save(s, to, all.data, (uint64_t)all.count, (const char *const[]){"format", "pt"},
                                1);
    }
    int status = tn_scope_failed(s) ? failed(s) : CMD_OK;
    tn_scope_close(s);
    return status;
}

/* ---- compare ------------------------------------------------------------------------------------------ */

static int has(tn_file *f, const char *name)
{
    for (uint64_t i = 0; i < tn_file_count(f); i++)
        if (!strcmp(tn_file_name(f, i), name)) return 1;
    return 0;
}

static int is_same_shape(const tn_tensor *a, const tn_tensor *b)
{
    const int64_t rank = tn_tensor_rank(a);
    if (rank != tn_tensor_rank(b) || tn_tensor_dtype(a) != tn_tensor_dtype(b)) return 0;
    return !rank || !memcmp(tn_tensor_sizes(a), tn_tensor_sizes(b), (size_t)rank * 8);
}

/* The largest |a - b| / (1 + |b|); infinite where one of them is not finite and the other is something
 * else. */
static double difference(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    const tn_dtype wide = tn_dtype_is_complex(tn_tensor_dtype(a)) ? TN_COMPLEX128 : TN_FLOAT64;
    tn_tensor *x = tn_to(s, a, wide), *y = tn_to(s, b, wide);
    tn_tensor *off = tn_div(s, tn_abs(s, tn_sub(s, x, y)), tn_add_scalar(s, tn_abs(s, y), TN_SCALAR(1)));
    tn_tensor *same = tn_logical_or(s, tn_eq(s, x, y), tn_logical_and(s, tn_isnan(s, x), tn_isnan(s, y)));
    off = tn_masked_fill_scalar(s, tn_nan_to_num(s, off, .nan = INFINITY, .posinf = INFINITY), same,
                                TN_SCALAR(0.0));
    return tn_tensor_numel(a) ? tn_item_double(s, tn_max(s, off)) : 0;
}

/* Prints how a tensor differs. Returns 1 if it does, negative after an error. */
static int compare_tensor(request *r, const char *name)
{
    tn_scope *s = tn_scope_open(r->ctx);
    tn_tensor *a = tn_file_map(s, r->open[0], name), *b = tn_file_map(s, r->open[1], name);
    int differs = 0;
    if (a && b && !is_same_shape(a, b)) {
        differs = 1;
        printf("%s: %s ", name, tn_dtype_interned(r->ctx, tn_tensor_dtype(a)));
        print_sizes(a);
        printf(" and %s ", tn_dtype_interned(r->ctx, tn_tensor_dtype(b)));
        print_sizes(b);
        putchar('\n');
    } else if (a && b) {
        double most = difference(s, a, b);
        differs = !tn_scope_failed(s) && most > r->tolerance;
        if (differs) printf("%s: differs by up to %g of 1 + its size\n", name, most);
    }
    if (tn_scope_failed(s)) differs = -failed(s);
    tn_scope_close(s);
    return differs;
}

static int compare(request *r)
{
    uint64_t differences = 0, count = 0;
    for (int side = 0; side < 2; side++) {
        tn_file *f = r->open[side];
        for (uint64_t i = 0; i < tn_file_count(f); i++) {
            const char *name = tn_file_name(f, i);
            if (!has(r->open[!side], name)) {
                printf("%s: only in %s\n", name, r->files[side]);
                differences++;
            } else if (side == 0) {
                int differs = compare_tensor(r, name);
                if (differs < 0) return CMD_FAILED;
                differences += (uint64_t)differs;
                count++;
            }
        }
    }
    printf("%llu tensor%s compared, %llu difference%s\n", (unsigned long long)count, count == 1 ? "" : "s",
           (unsigned long long)differences, differences == 1 ? "" : "s");
    return differences ? CMD_FAILED : CMD_OK;
}

/* ---- check -------------------------------------------------------------------------------------------- */

/* 8-bit numbers have no kernels of their own. */
static tn_tensor *wide_enough(tn_scope *s, tn_tensor *t)
{
    return tn_dtype_bytes(tn_tensor_dtype(t)) == 1 ? tn_to(s, t, TN_FLOAT32) : t;
}

static int check(request *r)
{
    tn_file *f = r->open[0];
    for (uint64_t i = 0; i < tn_file_count(f); i++) {
        tn_scope *s = tn_scope_open(r->ctx);
        tn_tensor *t = tn_file_get(s, f, tn_file_name(f, i), TN_CPU);
        const tn_dtype dtype = t ? tn_tensor_dtype(t) : 0;
        int64_t odd = 0;
        if (t && (tn_dtype_is_floating(dtype) || tn_dtype_is_complex(dtype)))
            odd = tn_item_int(s, tn_sum(s, tn_logical_not(s, tn_isfinite(s, wide_enough(s, t)))));
        int status = tn_scope_failed(s) ? failed(s) : CMD_OK;
        if (odd)
            printf("%s: %lld of %lld elements are not finite\n", tn_file_name(f, i), (long long)odd,
                   (long long)tn_tensor_numel(t));
        tn_scope_close(s);
        if (status) return status;
    }
    printf("%s: %llu tensor%s, sound\n", tn_file_format(f), (unsigned long long)tn_file_count(f),
           tn_file_count(f) == 1 ? "" : "s");
    return CMD_OK;
}

/* ---- The command -------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int files, opened;
    int (*run)(request *r);
} actions[] = {
    {"list", 1, 1, list}, {"convert", 2, 1, convert}, {"compare", 2, 2, compare}, {"check", 1, 1, check}};

static int wrong(const char *what, const char *word)
{
    fprintf(stderr, "tenon file: %s'%s'\n%s", what, word, help);
    return CMD_USAGE;
}

/* A number after an option; 0 and *out, or the exit status. */
static int number(const char *option, const char *text, double *out)
{
    char *end;
    *out = text ? strtod(text, &end) : -1;
    return text && end != text && !*end && *out >= 0 ? CMD_OK : wrong("a number is expected after ", option);
}

int cmd_file(int argc, char **argv)
{
    request r = {0};
    int action = 0, files = 0, status = CMD_OK;
    for (int i = 1; i < argc && !status; i++) {
        double value = 0;
        int named = 0;
        while (named < 4 && (i > 1 || strcmp(argv[i], actions[named].name))) named++;
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return fputs(help, stdout), CMD_OK;
        if (named < 4) {
            action = named;
        } else if (!strcmp(argv[i], "--tolerance")) {
            status = number(argv[i], argv[i + 1], &r.tolerance);
            i++;
        } else if (!strcmp(argv[i], "--shard")) {
            status = number(argv[i], argv[i + 1], &value);
            r.shard_bytes = (uint64_t)(value * (1 << 20));
            if (!status && !r.shard_bytes) status = wrong("a number above 0 is expected after ", argv[i]);
            i++;
        } else if (argv[i][0] == '-' || files == 2) {
            return wrong("unexpected argument ", argv[i]);
        } else {
            r.files[files++] = argv[i];
        }
    }
    if (status) return status;
    if (files != actions[action].files)
        return wrong("another number of files is expected for ", actions[action].name);
    if (!(r.ctx = cmd_context(0))) return CMD_FAILED;
    for (int i = 0; i < actions[action].opened && !status; i++)
        if (tn_file_open(r.ctx, r.files[i], &r.open[i])) status = failed(NULL);
    if (!status) status = actions[action].run(&r);
    tn_file_close(r.open[0]);
    tn_file_close(r.open[1]);
    tn_context_destroy(r.ctx);
    return status;
}
