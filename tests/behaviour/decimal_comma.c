/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose locale writes a comma before the decimals: the library reads and writes numbers as in the locale "C". Each
 * test does the same in both locales and compares the texts. localedef, a part of libc, makes the locale.
 */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/autograd.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include <tenon/profile.h>
#include <tenon/progress.h>
#include <tenon/tenon.h>
#include <tenon/checkpoint.h>
#include <unistd.h>

static char folder[] = "/tmp/tenon-comma-XXXXXX";

/* Sets the locale; 0 where the system cannot make it. */
static int enter_locale(void)
{
    char path[256], command[1024];
    if (!mkdtemp(folder) || chdir(folder)) return 0;
    snprintf(path, sizeof path, "%s/comma.src", folder);
    FILE *source = fopen(path, "w");
    fputs("LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n", source);
    fclose(source);
    snprintf(command, sizeof command, "localedef -c -i %s %s/comma >localedef.log 2>&1", path, folder);
    (void)!system(command);
    setenv("LOCPATH", folder, 1);
    char text[16];
    const int is_set = setlocale(LC_ALL, "comma") != NULL;
    snprintf(text, sizeof text, "%g", 1.5);
    if (is_set && !strcmp(text, "1,5")) return 1;
    printf("skipped: localedef has not made a locale with a decimal comma\n");
    return 0;
}

static void clean(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    (void)!system(command);
}

typedef struct paper {
    char text[32768];
    size_t used;
} paper;

static void note(paper *to, const char *text)
{
    to->used +=
        (size_t)snprintf(to->text + to->used, sizeof to->text - to->used, "%s\n", text ? text : "(none)");
    cr_assert_lt(to->used, sizeof to->text);
}

static void note_error(paper *to, tn_scope *s)
{
    note(to, tn_scope_failed(s) ? tn_scope_error(s)->message : "no error");
    tn_scope_clear(s);
}

static void compare(void (*run)(paper *to))
{
    static paper with_comma, plain;
    if (!enter_locale()) return;
    run(&with_comma);
    char text[16];
    snprintf(text, sizeof text, "%g", 1.5);
    cr_assert_str_eq(text, "1,5", "the locale of the program is another one now");
    cr_assert_not_null(setlocale(LC_ALL, "C"));
    run(&plain);
    cr_assert_str_eq(with_comma.text, plain.text);
    clean();
}

#define SUCCEEDS(call) cr_assert_eq(call, TN_OK, "%s", tn_last_error() ? tn_last_error()->message : "no text")

/* Schemas with defaults that are fractions are read at an operator's first call. */
static void call_operators(paper *to)
{
    tn_context *ctx;
    SUCCEEDS(tn_context_create(NULL, &ctx));
    TN_STEP (s, ctx) {
        tn_tensor *x =
            tn_from_data(s, TN_FLOAT32, TN_INTS(2, 2), (float[]){1.5f, -1e-7f, 12345.678f, 0.25f}, 0);
        tn_manual_seed(ctx, 7);
        note(to, tn_format(s, x, NULL));
        note(to, tn_format(s, tn_leaky_relu(s, x), NULL));
        note(to, tn_format(s, tn_elu(s, x), NULL));
        note(to, tn_format(s, tn_layer_norm(s, x, TN_INTS(2)), NULL));
        note(to, tn_format(s, tn_uniform_(s, tn_empty(s, TN_INTS(3))), NULL));
        note(to, tn_format(s, tn_normal_(s, tn_empty(s, TN_INTS(3))), NULL));
        note(to, tn_allclose(s, x, x) ? "close" : "not close");
        note(to, tn_format(s, tn_cross_entropy_loss(s, x, tn_zeros(s, TN_INTS(2), .dtype = TN_INT64)), NULL));
        note(to, tn_format(s, tn_complex(s, x, x), NULL));
        note_error(to, s);
        tn_dropout(s, x, 1.5, 1);
        note_error(to, s);
        tn_uniform_(s, x, .from = 2.5, .to = 1.25);
        note_error(to, s);
    }
    SUCCEEDS(tn_step_status());
    tn_context_destroy(ctx);
}

Test(decimal_comma, operators)
{
    compare(call_operators);
}

static void configure_memory(paper *to)
{
    tn_context *ctx;
    setenv("TENON_ALLOC_CONF", "garbage_collection_threshold:0.75", 1);
    SUCCEEDS(tn_context_create(NULL, &ctx));
    SUCCEEDS(tn_memory_configure(ctx, TN_CPU, "garbage_collection_threshold:0.8"));
    cr_assert_eq(tn_memory_configure(ctx, TN_CPU, "garbage_collection_threshold:1.8"), TN_E_ARGUMENT);
    note(to, tn_last_error()->message);
    cr_assert_eq(tn_memory_set_fraction(ctx, TN_CPU, 1.5), TN_E_ARGUMENT);
    note(to, tn_last_error()->message);
    tn_context_destroy(ctx);
}

Test(decimal_comma, options)
{
    compare(configure_memory);
}

static void train(paper *to)
{
    tn_context *ctx;
    int64_t step = 1;
    SUCCEEDS(tn_context_create(NULL, &ctx));
    tn_manual_seed(ctx, 7);
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_linear_create(net, "a", 4, 4);
    tn_dropout_create(net, "d", .p = 0.25);
    tn_optimizer *o = tn_adamw_create(net, .lr = 0.125);
    cr_assert_not_null(o, "%s", tn_last_error() ? tn_last_error()->message : "");
    TN_STEP (s, ctx) {
        note(to, tn_module_format(s, net));
        note(to, tn_module_summary(s, net, TN_TENSORS(tn_ones(s, TN_INTS(2, 4)))));
        tn_backward(s, tn_sum(s, tn_module_forward(s, net, tn_ones(s, TN_INTS(2, 4)))));
        tn_optimizer_step(s, o);
        note_error(to, s);
        tn_optimizer_step(s, o, .lr = -0.5);
        note_error(to, s);
    }
    SUCCEEDS(tn_checkpoint_save("net.ck", .module = net, .optimizer = o, .step = &step));
    SUCCEEDS(tn_checkpoint_load("net.ck", .module = net, .optimizer = o, .step = &step));
    tn_optimizer_destroy(o);
    tn_module_destroy(net);
    tn_context_destroy(ctx);
}

Test(decimal_comma, training)
{
    compare(train);
}

static void draw(paper *to)
{
    static const double y[] = {1.5, 2.25, 3.125};
    SUCCEEDS(tn_plot_svg("curve.svg", TN_SERIES({.name = "loss", .y = y, .count = 3})));
    FILE *file = fopen("curve.svg", "r");
    to->used += fread(to->text + to->used, 1, sizeof to->text - to->used - 1, file);
    fclose(file);
}

Test(decimal_comma, curves)
{
    compare(draw);
}

/* The times of two profiles differ; that each is JSON is enough. */
static void profile(paper *to)
{
    static char text[1 << 20];
    tn_context *ctx;
    tn_profile *p;
    SUCCEEDS(tn_context_create(NULL, &ctx));
    SUCCEEDS(tn_profile_begin(ctx, NULL));
    TN_STEP (s, ctx) tn_add(s, tn_ones(s, TN_INTS(64)), tn_ones(s, TN_INTS(64)));
    SUCCEEDS(tn_profile_end(ctx, &p));
    SUCCEEDS(tn_profile_write(p, "profile.json"));
    tn_profile_release(p);
    tn_context_destroy(ctx);
    FILE *file = fopen("profile.json", "r");
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    cJSON *json = cJSON_Parse(text);
    cr_assert_not_null(json, "%.600s", text);
    cJSON_Delete(json);
    note(to, "read");
}

Test(decimal_comma, profiles)
{
    compare(profile);
}
