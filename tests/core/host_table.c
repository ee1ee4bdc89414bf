/* SPDX-License-Identifier: Apache-2.0 */
/* The core's slots of the host table, as a plugin calls them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/plugin.h>
#include <unistd.h>
#include "fixture.h"
#include "at_end.h"

static char folder[] = "/tmp/tenon-host-XXXXXX";
static const tn_host *host;

static void open_host(void)
{
    open_fakes();
    cr_assert_not_null(mkdtemp(folder));
    host = &ctx->host;
}

static void close_host(void)
{
    char command[64];
    close_fakes();
    snprintf(command, sizeof command, "rm -r %s", folder);
    MUST_HOLD(system(command) == 0);
}

TestSuite(host_table, .init = open_host, .fini = close_host);

/* A plugin may name any status but success; what is not one becomes TN_E_CONTRACT. */
Test(host_table, errors)
{
    cr_assert_eq(host->error(ctx, TN_E_SHAPE, "sizes"), TN_E_SHAPE);
    expect_last(TN_E_SHAPE, "sizes");
    cr_assert_eq(host->error(ctx, TN_E_SHAPE, NULL), TN_E_SHAPE);
    expect_last(TN_E_SHAPE, tn_status_text(TN_E_SHAPE));
    const int32_t wrong[] = {TN_OK, -1, TN_STATUS_COUNT, INT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_assert_eq(host->error(ctx, wrong[i], "x"), TN_E_CONTRACT, "%d", wrong[i]);
        expect_last(TN_E_CONTRACT, "x");
        cr_assert_eq(host->scope_fail(s, wrong[i], "y"), TN_E_CONTRACT, "%d", wrong[i]);
        expect_scope(TN_E_CONTRACT, "y");
    }
    cr_assert_eq(host->scope_fail(s, TN_E_DTYPE, NULL), TN_E_DTYPE);
    expect_scope(TN_E_DTYPE, "");
    cr_assert_eq(host->error_native(ctx, TN_E_IO, "text", 5, NULL), TN_E_IO);
    cr_assert_eq(tn_last_error()->native_code, 5);
    expect_last(TN_E_IO, "text");
}

static char logged[128];

static void keep_line(void *user, int32_t level, const char *text)
{
    snprintf(logged, sizeof logged, "%d %s", level, text);
}

Test(host_table, log_and_findings)
{
    ctx->log = keep_line;
    host->log(ctx, TN_LOG_INFO, "a line");
    cr_assert_str_eq(logged, "2 a line");
    host->log(ctx, TN_LOG_WARN, NULL);
    cr_assert_str_eq(logged, "1 ");
    const tn_finding finding = {.size = sizeof finding,
                                .finder = "validate",
                                .plugin = "fake",
                                .kind = "slot",
                                .text = "a stream is missing",
                                .place = ""};
    cr_assert_eq(host->report(ctx, &finding), TN_OK);
    cr_assert_str_eq(logged, "0 validate: plugin fake: slot: a stream is missing");
    cr_assert_eq(host->report(ctx, &finding), TN_OK, "it is counted, not logged again");
    ctx->log = NULL;
}

Test(host_table, dtypes)
{
    tn_dtype d = host->intern_dtype(ctx, "int3", 3);
    cr_assert_neq(d, 0);
    cr_assert_eq(TN_DTYPE_BITS(d), 3);
    cr_assert_eq(host->intern_dtype(ctx, "int3", 3), d);
    cr_assert_str_eq(tn_dtype_interned(ctx, d), "int3");
    cr_assert_null(tn_dtype_interned(ctx, TN_DTYPE(TN_DTYPE_CODE(d), 4)), "of another size");
    cr_assert_null(tn_dtype_interned(ctx, TN_DTYPE(TN_DTYPE_CODE(d) + 1, 3)));
    cr_assert_str_eq(tn_dtype_interned(ctx, TN_FLOAT32), "float32");
    cr_assert_null(tn_dtype_interned(NULL, d));
    cr_assert_eq(tn_dtype_intern(NULL, "int3", 3), 0);
    tn_clear_error();
    const struct {
        const char *name;
        uint32_t bits;
        const char *text;
    } refused[] = {
        {"int3", 4, "tn_dtype_intern: argument 'bits': int3 has 3 bits (got 4)"},
        {"float32", 32,
         "tn_dtype_intern: argument 'name': the library has a dtype of this name (got 'float32', 32 bits)"},
        {NULL, 4, "tn_dtype_intern: argument 'name': expected a name and 1 to 255 bits (got '', 4 bits)"},
        {"", 4, "tn_dtype_intern: argument 'name': expected a name and 1 to 255 bits (got '', 4 bits)"},
        {"int5", 0,
         "tn_dtype_intern: argument 'bits': expected a name and 1 to 255 bits (got 'int5', 0 bits)"},
        {"int5", 256,
         "tn_dtype_intern: argument 'bits': expected a name and 1 to 255 bits (got 'int5', 256 bits)"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cr_assert_eq(host->intern_dtype(ctx, refused[i].name, refused[i].bits), 0);
        expect_last(TN_E_ARGUMENT, refused[i].text);
    }
    char name[32], text[96];
    for (uint32_t i = 1; i < TNI_MAX_VENDOR_DTYPES; i++) {
        snprintf(name, sizeof name, "vendor%u", i);
        cr_assert_neq(host->intern_dtype(ctx, name, 8), 0, "%s", name);
    }
    cr_assert_eq(host->intern_dtype(ctx, "one too many", 8), 0);
    snprintf(text, sizeof text, "tn_dtype_intern: all %u codes of vendor dtypes are used",
             TNI_MAX_VENDOR_DTYPES);
    expect_last(TN_E_STATE, text);
    cr_assert_eq(host->intern_dtype(ctx, "int3", 3), d, "known ones still are");
}

Test(host_table, dtypes_without_memory)
{
    for (int64_t n = 1;; n++) {
        fake device = {.type = "gpu", .count = 1};
        counting c = {0};
        tn_context *own = failing_context(&c, &device, n);
        tn_dtype d = tn_dtype_intern(
            own, "a dtype whose name is longer than one block of memory of the smallest size", 3);
        int32_t reached = c.calls >= c.fail_at;
        c.fail_at = 0;
        cr_assert_eq(d == 0, reached);
        if (reached) cr_assert_eq(tn_last_error()->code, TN_E_OUT_OF_MEMORY);
        cr_assert_neq(tn_dtype_intern(own, "another", 3), 0);
        tn_context_destroy(own);
        cr_assert_eq(c.live, 0);
        if (!reached) break;
        cr_assert_lt(n, 10);
    }
}

/* ---- The cache folder ------------------------------------------------------------------------------------- */

static void refuse_folder(const char *name, int32_t status, const char *text)
{
    char out[256] = "as before";
    cr_expect_eq(host->cache_folder(ctx, name, out, sizeof out), status);
    cr_expect_str_eq(out, "as before");
    expect_last(status, text);
}

Test(host_table, names_of_cache_folders)
{
    setenv("XDG_CACHE_HOME", folder, 1);
    refuse_folder(NULL, TN_E_ARGUMENT, "cache_folder: '' is not a name of a folder");
    refuse_folder("", TN_E_ARGUMENT, "cache_folder: '' is not a name of a folder");
    refuse_folder("a/b", TN_E_ARGUMENT, "cache_folder: 'a/b' is not a name of a folder");
    refuse_folder("..", TN_E_ARGUMENT, "cache_folder: '..' is not a name of a folder");
}

Test(host_table, cache_folders)
{
    char out[256], expected[256], text[512];
    struct stat found;
    setenv("XDG_CACHE_HOME", folder, 1);
    for (int i = 0; i < 2; i++) { /* it may be there */
        cr_assert_eq(host->cache_folder(ctx, "acme", out, sizeof out), TN_OK);
        snprintf(expected, sizeof expected, "%s/tenon/plugins/acme", folder);
        cr_assert_str_eq(out, expected);
        cr_assert(!stat(out, &found) && S_ISDIR(found.st_mode));
    }
    int n = (int)strlen(expected);
    cr_assert_eq(host->cache_folder(ctx, "acme", out, (uint32_t)n), TN_E_IO);
    snprintf(text, sizeof text, "cache_folder: the path has %d bytes (room for %d)", n, n);
    expect_last(TN_E_IO, text);
    snprintf(expected, sizeof expected, "%s/tenon/plugins/file", folder);
    FILE *file = fopen(expected, "w");
    cr_assert_not_null(file);
    fclose(file);
    snprintf(text, sizeof text, "cache_folder: %s is not a folder", expected);
    refuse_folder("file", TN_E_IO, text);
    setenv("XDG_CACHE_HOME", expected, 1);
    snprintf(text, sizeof text, "cache_folder: cannot make %s/tenon: Not a directory", expected);
    refuse_folder("acme", TN_E_IO, text);
    static char longer[8192] = "/";
    memset(longer + 1, 'x', sizeof longer - 2);
    setenv("XDG_CACHE_HOME", longer, 1);
    cr_assert_eq(host->cache_folder(ctx, "acme", out, sizeof out), TN_E_IO);
    cr_assert_not_null(strstr(tn_last_error()->message, "bytes (room for 256)"));
}

/* A relative path is as good as none. */
Test(host_table, cache_folders_by_the_environment)
{
    const char *const none = "cache_folder: neither XDG_CACHE_HOME nor HOME is set";
    char out[256], expected[256];
    snprintf(expected, sizeof expected, "%s/.cache/tenon/plugins/acme", folder);
    setenv("HOME", folder, 1);
    setenv("XDG_CACHE_HOME", "relative", 1);
    cr_assert_eq(host->cache_folder(ctx, "acme", out, sizeof out), TN_OK);
    cr_assert_str_eq(out, expected);
    unsetenv("XDG_CACHE_HOME");
    cr_assert_eq(host->cache_folder(ctx, "acme", out, sizeof out), TN_OK);
    cr_assert_str_eq(out, expected);
    setenv("HOME", "relative", 1);
    refuse_folder("acme", TN_E_IO, none);
    unsetenv("HOME");
    refuse_folder("acme", TN_E_IO, none);
    setenv("XDG_CACHE_HOME", "", 1);
    refuse_folder("acme", TN_E_IO, none);
}
