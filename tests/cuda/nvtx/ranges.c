/* SPDX-License-Identifier: Apache-2.0 */
/* A profiler that NVTX finds (injection.c) sees a range with the operator's name around each launch. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <tenon/tenon.h>

static tn_context *ctx;
static tn_scope *s;
static tn_device device;

static void open_device(void)
{
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    device = tn_device_parse(ctx, "cuda:0");
    if (!device) cr_skip_test("no OpenCL device for the twins (Debian: pocl-opencl-icd)");
    s = tn_scope_open_with(ctx, &(tn_scope_options){.size = sizeof(tn_scope_options), .device = device});
}
TestSuite(ranges, .init = open_device, .timeout = 120);

/* Of the library that the environment names; -1: nobody has loaded it. */
static int count(const char *name)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    int (*function)(const char *);
    if (!library) return -1;
    *(void **)(void *)&function = dlsym(library, "injection_count");
    return function(name);
}

Test(ranges, each_launch_is_in_a_range_with_the_name_of_its_operator)
{
    tn_tensor *x = tn_ones(s, TN_INTS(4), .dtype = TN_FLOAT32);
    cr_assert_leq(count("aten::add.Tensor"), 0);
    tn_tensor *y = tn_add(s, tn_add(s, x, x), x);
    cr_assert_eq(tn_item_double(s, tn_sum(s, tn_exp(s, tn_sub(s, y, y)))), 4);
    cr_assert_eq(count("aten::add.Tensor"), 2);
    cr_assert_eq(count("aten::exp"), 1);
    cr_assert_eq(count(NULL), 0, "%d ranges are open", count(NULL));
    tn_scope_close(s);
    tn_context_destroy(ctx);
}
