/* SPDX-License-Identifier: Apache-2.0 */
/* tenon ops: the operators of a context; with a name, all details of those that match; the C calls. */
#include <fnmatch.h>
#include <string.h>
#include <tenon/inspect.h>
#include "c_calls.h"
#include "cmd.h"
#include "similar.h"

static const char help[] = "usage: tenon ops [--json] [NAME]\n"
                           "       tenon ops --c NAME\n\n"
                           "Lists the operators. NAME selects some and shows schemas, tags and the dtypes of "
                           "each plugin's kernels.\n"
                           "NAME is a full name (aten::add.Tensor), a name (add), a name with overload "
                           "(add.Tensor), a C call (tn_add),\n"
                           "or a glob ('*softmax*').\n\n"
                           "  --json   the same as JSON\n"
                           "  --c      the C calls, with their options and defaults\n";

/* `name` is "aten::add.Tensor". */
static int fits(const char *name, const char *wish)
{
    const char *colon = strstr(name, "::");
    const char *plain = colon ? colon + 2 : name;
    size_t base = strcspn(plain, ".");
    if (!wish || strcmp(name, wish) == 0 || strcmp(plain, wish) == 0) return 1;
    if (strlen(wish) == base && strncmp(plain, wish, base) == 0) return 1;
    return strpbrk(wish, "*?[") && (fnmatch(wish, name, 0) == 0 || fnmatch(wish, plain, 0) == 0);
}

static int read_kernel(tn_context *ctx, uint32_t op, uint32_t i, tn_kernel_info *out)
{
    memset(out, 0, sizeof(*out));
    out->size = sizeof(*out);
    return tn_inspect_kernel(ctx, op, i, out) == TN_OK;
}

static void print_dtypes(const tn_dtype *dtypes)
{
    if (!dtypes) printf(" all dtypes");
    for (; dtypes && *dtypes; dtypes++) printf(" %s", tn_dtype_name(*dtypes) ? tn_dtype_name(*dtypes) : "?");
}

static void print_details(tn_context *ctx, const tn_operator_info *op)
{
    tn_kernel_info kernel;
    printf("%s\n", op->schema);
    if (op->doc && op->doc[0]) printf("    %s\n", op->doc);
    printf("    number %u, %s, %s, %s\n", op->number, op->kind, op->form,
           op->has_gradient ? "differentiable" : "no gradient");
    if (op->tags && op->tags[0]) printf("    tags %s\n", op->tags);
    uint32_t count = tn_inspect_kernel_count(ctx, op->base);
    for (uint32_t i = 0; i < count; i++) {
        if (!read_kernel(ctx, op->base, i, &kernel)) continue;
        printf("    kernel on %s (plugin %s):", kernel.device_type, kernel.plugin);
        print_dtypes(kernel.dtypes);
        putchar('\n');
    }
    if (count == 0 && strcmp(op->kind, "composite") == 0) puts("    runs as a composite on every device");
}

static void json_kernel(json *j, const tn_kernel_info *kernel)
{
    json_open(j, NULL, '{');
    json_text(j, "device_type", kernel->device_type);
    json_text(j, "plugin", kernel->plugin);
    if (!kernel->dtypes) {
        json_text(j, "dtypes", NULL);
    } else {
        json_open(j, "dtypes", '[');
        for (const tn_dtype *d = kernel->dtypes; *d; d++) json_text(j, NULL, tn_dtype_name(*d));
        json_close(j, ']');
    }
    json_close(j, '}');
}

static void json_operator(json *j, tn_context *ctx, const tn_operator_info *op)
{
    tn_kernel_info kernel;
    json_open(j, NULL, '{');
    json_text(j, "name", op->name);
    json_number(j, "number", op->number);
    JSON_TEXTS(j, {"schema", op->schema}, {"kind", op->kind}, {"form", op->form}, {"tags", op->tags},
               {"doc", op->doc});
    json_flag(j, "gradient", op->has_gradient != 0);
    json_open(j, "kernels", '[');
    for (uint32_t i = 0; i < tn_inspect_kernel_count(ctx, op->base); i++) {
        if (read_kernel(ctx, op->base, i, &kernel)) json_kernel(j, &kernel);
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void print_line(tn_context *ctx, const tn_operator_info *op)
{
    printf("%-48s %-14s %-10s %-4s %u\n", op->name, op->kind, op->form, op->has_gradient ? "yes" : "-",
           tn_inspect_kernel_count(ctx, op->base));
}

/* The C call of an operator, or NULL for one that is not built in. */
static const cmd_c_call *c_call(uint32_t number)
{
    for (const cmd_c_call *c = cmd_c_calls; c->number; c++) {
        if (c->number == number) return c;
    }
    return NULL;
}

/* `wish` is the C name, or its beginning up to '(' as in "tn_sum(s, x)". */
static int fits_c_name(const cmd_c_call *c, const char *wish)
{
    size_t length = wish ? strcspn(wish, "(") : 0;
    return c && length && strlen(c->name) == length && strncmp(c->name, wish, length) == 0;
}

/* The operator whose C call `wish` names stands for all operators of its name: tn_sum shows tn_sum_dim, too. */
static const char *base_of_c_name(tn_context *ctx, const char *wish, char *room, size_t bytes)
{
    tn_operator_info op = {.size = sizeof(op)};
    for (const cmd_c_call *c = cmd_c_calls; c->number; c++) {
        if (!fits_c_name(c, wish) || tn_inspect_operator_by_number(ctx, c->number, &op) != TN_OK) continue;
        const char *colon = strstr(op.name, "::"), *plain = colon ? colon + 2 : op.name;
        snprintf(room, bytes, "%.*s", (int)strcspn(plain, "."), plain);
        return room;
    }
    return wish;
}

static void print_c_call(const tn_operator_info *op)
{
    const cmd_c_call *c = c_call(op->number);
    if (c) printf("%s    %s\n", c->text, op->name);
}

/* "did you mean": C names and schema names that resemble `wish`. */
static void print_similar(tn_context *ctx, const char *wish)
{
    cmd_similar similar[CMD_MAX_SIMILAR];
    uint32_t n = cmd_find_similar(ctx, wish, similar);
    fprintf(stderr, "tenon ops: no operator '%s'", wish);
    for (uint32_t i = 0; i < n; i++)
        fprintf(stderr, "%s %s (%s)", i ? "," : "; did you mean", similar[i].c_name, similar[i].name);
    fprintf(stderr, "%s\n", n ? "?" : "");
}

int cmd_ops(int argc, char **argv)
{
    cmd_options o = {.help = help, .flags = {"--json", "--c"}, .max_operands = 1};
    char base[128];
    json j = {.file = stdout};
    uint32_t shown = 0;
    int status;
    if (cmd_parse(&o, argc, argv, &status)) return status;
    if (o.set[1] && !o.operand) {
        fputs(
            "tenon ops: --c needs the NAME of an operator (tenon ops --c layer_norm); a glob shows several\n",
            stderr);
        return CMD_USAGE;
    }
    tn_context *ctx = cmd_context(0);
    if (!ctx) return CMD_FAILED;
    const char *wish = base_of_c_name(ctx, o.operand, base, sizeof(base));
    if (o.set[0])
        json_open(&j, NULL, '[');
    else if (!o.operand && !o.set[1])
        printf("%-48s %-14s %-10s %-4s %s\n", "NAME", "KIND", "FORM", "GRAD", "KERNELS");
    for (uint32_t i = 0; i < tn_inspect_operator_count(ctx); i++) {
        tn_operator_info op = {.size = sizeof(op)};
        if (tn_inspect_operator(ctx, i, &op) != TN_OK || !fits(op.name, wish)) continue;
        shown++;
        if (o.set[0])
            json_operator(&j, ctx, &op);
        else if (o.set[1])
            print_c_call(&op);
        else if (o.operand)
            print_details(ctx, &op);
        else
            print_line(ctx, &op);
    }
    if (o.set[0]) json_close(&j, ']');
    if (shown == 0 && o.operand) print_similar(ctx, o.operand);
    tn_context_destroy(ctx);
    return shown > 0 ? CMD_OK : CMD_FAILED;
}
