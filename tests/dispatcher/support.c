/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"
#include <string.h>
#include <sys/mman.h>

tn_context *ctx;
tn_scope *s;

void open_context(void)
{
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    tn_set_fallback_policy(ctx, TN_FALLBACK_SILENT);
    s = tn_scope_open(ctx);
}

void close_context(void)
{
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

uint32_t define(const char *schema)
{
    return define_with(&(const tn_operator_def){.size = sizeof(tn_operator_def), .schema = schema});
}

uint32_t define_with(const tn_operator_def *def)
{
    uint32_t number = 0;
    cr_assert_eq(tn_operator_define(ctx, def, &number), TN_OK, "%s: %s", def->schema,
                 tn_last_error()->message);
    return number;
}

void add_row(const char *device, const char *schema, int32_t priority, tn_kernel_fn run,
             tn_can_run_fn can_run)
{
    const tn_kernel_row row = {.size = sizeof row,
                               .strides = TN_STRIDES_ANY,
                               .priority = priority,
                               .schema = schema,
                               .run = run,
                               .can_run = can_run};
    cr_assert_eq(tn_kernels_add(ctx, device, NULL, &row, 1), TN_OK, "%s", schema);
}

int32_t do_nothing(void *self, const tn_call *call)
{
    return TN_OK;
}

static void unmap(void *pages)
{
    munmap(pages, (UINT64_C(1) << 32) + 4096);
}

tn_tensor *far_elements(void)
{
    void *pages =
        mmap(NULL, (UINT64_C(1) << 32) + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert_neq(pages, MAP_FAILED);
    const tn_blob blob = {.size = sizeof blob,
                          .dtype = TN_UINT8,
                          .data = pages,
                          .sizes = TN_INTS(2),
                          .strides = TN_INTS(INT64_C(1) << 32),
                          .deleter = unmap,
                          .user = pages};
    return tn_from_blob(s, &blob);
}

tn_tensor *call_on_scope(uint32_t op, const tn_value *args, uint32_t n_args)
{
    tn_value out = tn_value_none();
    tn_scope_call(s, op, args, n_args, &out, 1);
    return tn_value_as_tensor(out);
}

static void check(const tn_error *error, int32_t status, const char *part)
{
    cr_assert_not_null(error, "no error; expected: %s", part);
    cr_expect_eq(error->code, status, "%d: %s", error->code, error->message);
    cr_expect_not_null(strstr(error->message, part), "\"%s\" in \"%s\"", part, error->message);
}

void expect_failure(int32_t status, const char *part)
{
    check(tn_scope_error(s), status, part);
    tn_scope_clear(s);
}

void expect_last_error(int32_t status, const char *part)
{
    check(tn_last_error(), status, part);
    tn_clear_error();
}

void refuse_definition(tn_operator_def def, int32_t status, const char *part)
{
    cr_expect_eq(tn_operator_define(ctx, &def, NULL), status, "%s", part);
    expect_last_error(status, part);
}
