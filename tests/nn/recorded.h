/* SPDX-License-Identifier: Apache-2.0 */
/* A file of what PyTorch computed, and comparisons with it, for the suites of one source file, which includes this once. */
#ifndef TESTS_NN_RECORDED_H
#define TESTS_NN_RECORDED_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <tenon/files.h>
#include <tenon/nn.h>
#include "../autograd/suite.h"

static tn_file *file;
static tn_module *net;

static void open_recorded(const char *path)
{
    begin();
    cr_assert_eq(tn_file_open(ctx, path, &file), TN_OK);
    net = tn_module_create(ctx, "net", NULL);
}

static void close_file(void)
{
    tn_module_destroy(net);
    tn_file_close(file);
    end();
}

static tn_tensor *recorded(const char *name, const char *part)
{
    char key[160];
    snprintf(key, sizeof key, "%s.%s", name, part);
    tn_tensor *t = tn_file_get(s, file, key, TN_CPU);
    cr_assert_not_null(t, "%s", tn_scope_error(s)->message);
    return t;
}

static void expect_same(const char *name, const char *part, tn_tensor *have)
{
    tn_tensor *want = recorded(name, part);
    expect_sound(s);
    cr_assert_not_null(have, "%s.%s", name, part);
    cr_assert_eq(tn_tensor_numel(have), tn_tensor_numel(want), "%s.%s", name, part);
    double off = tn_item_double(s, tn_max(s, tn_abs(s, tn_sub(s, tn_detach(s, have), want))));
    cr_assert_lt(off, 1e-12, "%s.%s: %g", name, part, off);
}

/* The recorded tensors of a part, under their own names. */
static tn_named_tensors part_of(const char *name, const char *part)
{
    char prefix[96];
    tn_named_tensor *list = tn_scope_memory(s, (tn_file_count(file) + 1) * sizeof *list);
    int64_t n = 0;
    snprintf(prefix, sizeof prefix, "%s.%s.", name, part);
    for (uint64_t i = 0; i < tn_file_count(file); i++) {
        const char *key = tn_file_name(file, i);
        if (!strncmp(key, prefix, strlen(prefix)))
            list[n++] = (tn_named_tensor){key + strlen(prefix), tn_file_get(s, file, key, TN_CPU)};
    }
    cr_assert_gt(n, part[0] == 'a' ? -1 : 0, "%s", prefix);
    return (tn_named_tensors){list, n};
}

static const char *error_of(tn_module *m)
{
    return tn_module_failed(m) ? tn_module_error(m) : tn_last_error() ? tn_last_error()->message : "";
}

/* Names, output, gradients and changed buffers are PyTorch's. */
static void expect_pytorch(const char *name, tn_module *m, int32_t status)
{
    cr_assert_eq(status, TN_OK, "%s: %s", name, error_of(net));
    cr_assert_eq(tn_module_load_state(m, part_of(name, "state"), TN_STRICT), TN_OK, "%s: %s", name,
                 error_of(net));
    tn_tensor *x = recorded(name, "x"), *y = tn_module_forward(s, m, x);
    expect_same(name, "y", y);
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_mul(s, y, y))), TN_OK, "%s", tn_scope_error(s)->message);
    tn_named_tensors grads = part_of(name, "grad"), after = part_of(name, "after");
    for (int64_t i = 0; i < grads.count; i++) {
        char part[128];
        snprintf(part, sizeof part, "grad.%s", grads.data[i].name);
        expect_same(name, part, tn_grad_of(s, tn_module_tensor(m, grads.data[i].name)));
    }
    for (int64_t i = 0; i < after.count; i++) {
        char part[128];
        snprintf(part, sizeof part, "after.%s", after.data[i].name);
        expect_same(name, part, tn_module_tensor(m, after.data[i].name));
    }
    tn_module_train(m, 0);
    expect_same(name, "eval", tn_module_forward(s, m, x));
}

#endif
