/* SPDX-License-Identifier: Apache-2.0 */
/* Files of PyTorch: what record_pt.py wrote is read, what is written is read again, and damaged files end in an error. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/files.h>
#include <unistd.h>
#include <zip.h>

#include "../../files/pickle.h"
#include "../core/client_suite.h"

TestSuite(pt, .init = begin, .fini = end, .timeout = 120);

static const char *path_of(const char *file)
{
    static char path[1024];
    const char *folder = getenv("TENON_TEST_FILES");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", file);
    return path;
}

static tn_pt *opened(const char *path)
{
    tn_pt *f = NULL;
    cr_assert_eq(tn_pt_open(ctx, path, &f), TN_OK, "%s", tn_last_error() ? tn_last_error()->message : "");
    return f;
}

static void expect_tensor(tn_pt *f, const char *name, const char *text)
{
    tn_tensor *t = tn_pt_get(s, f, name, TN_CPU);
    cr_assert_not_null(t, "%s", tn_scope_error(s)->message);
    cr_assert_str_eq(tn_format(s, t, NULL), text, "%s", name);
}

static void expect_error(int32_t status, int32_t expected, const char *words)
{
    const tn_error *error = tn_last_error();
    cr_assert_eq(status, expected, "%d: %s", status, error ? error->message : "");
    cr_assert(error && strstr(error->message, words), "%s", error ? error->message : "no text");
}

/* Of pickle's protocol 5; their bits say what is done to the storage, which several share. */
Test(pt, conjugate_and_negative_views)
{
    tn_pt *f = opened(path_of("views.pt"));
    expect_tensor(f, "conjugate", "tensor([ 1.-2.j, -3.+4.j])");
    expect_tensor(f, "plain", "tensor([ 1.+2.j, -3.-4.j])");
    expect_tensor(f, "negative", "tensor([-4.,  8.])");
    tn_pt_close(f);
}

/* ---- Tensors that share a storage ---------------------------------------------------------------------------- */

static void expect_text(tn_named_tensors list, const char *name, const char *text)
{
    tn_tensor *t = tn_named_get(s, list, name);
    cr_assert_not_null(t, "%s", tn_scope_error(s)->message);
    cr_assert_str_eq(tn_format(s, t, NULL), text, "%s", name);
}

/* Whether both share memory, which they do or do not before and after a write to the first. */
static void expect_alias(tn_named_tensors list, const char *a, const char *b, int32_t is_alias)
{
    tn_tensor *x = tn_named_get(s, list, a), *y = tn_named_get(s, list, b);
    cr_assert_eq(tn_tensor_is_alias(x, y), is_alias, "%s, %s", a, b);
}

Test(pt, views_of_a_torch_file_share_storages)
{
    tn_pt *f = opened(path_of("shared.pt"));
    tn_named_tensors list = tn_pt_tensors(s, f, NULL);
    tn_pt_close(f);
    cr_assert_eq(list.count, 10, "%s", tn_last_error() ? tn_last_error()->message : "");
    static const char *const views[] = {"y", "expanded", "none", "transposed", "last", "again"};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) expect_alias(list, "x", views[i], 1);
    expect_alias(list, "flags", "tail", 1);
    expect_alias(list, "x", "flags", 0);
    expect_alias(list, "x", "alone", 0);
    expect_text(list, "expanded", "tensor([[2., 2., 2.],\n        [2., 2., 2.]])");
    expect_text(list, "none", "tensor([])");
    expect_text(list, "last", "tensor(9.)");
    expect_text(list, "tail", "tensor([False,  True])");
    tn_fill_scalar_(s, tn_named_get(s, list, "y"), -1);
    expect_text(list, "x", "tensor([ 0.,  1.,  2.,  3.,  4., -1., -1., -1.,  8.,  9.])");
    cr_assert_eq(tn_tensor_storage_offset(tn_named_get(s, list, "y")), 5);
    /* No view relation: what one of them requires, the other does not. */
    tn_set_requires_grad(tn_named_get(s, list, "x"), 1);
    cr_assert_not(tn_requires_grad(tn_named_get(s, list, "y")));
    cr_assert_not_null(tn_fill_scalar_(s, tn_named_get(s, list, "y"), 3));
    cr_assert_eq(tn_scope_failed(s), TN_OK);
}

Test(pt, lazy_bits_share_storages)
{
    tn_named_tensors list = tn_file_load(s, path_of("views.pt"));
    cr_assert_eq(list.count, 3);
    expect_alias(list, "plain", "conjugate", 1);
    cr_assert_not_null(tn_mul_scalar_(s, tn_named_get(s, list, "plain"), 2));
    expect_text(list, "conjugate", "tensor([ 2.-4.j, -6.+8.j])");
    cr_assert_eq(tn_pt_save(s, "lazy.pt", list), TN_OK);
    list = tn_file_load(s, "lazy.pt");
    unlink("lazy.pt");
    expect_alias(list, "plain", "conjugate", 1);
    expect_text(list, "conjugate", "tensor([ 2.-4.j, -6.+8.j])");
    expect_text(list, "negative", "tensor([-4.,  8.])");
}

static void expect_records(const char *path, uint64_t count, const uint64_t *bytes)
{
    int code;
    zip_stat_t info;
    zip_t *zip = zip_open(path, ZIP_RDONLY, &code);
    cr_assert_not_null(zip);
    cr_assert_eq(zip_get_num_entries(zip, 0), 3 + (int64_t)count);
    for (uint64_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "archive/data/%llu", (unsigned long long)i);
        cr_assert_eq(zip_stat(zip, name, 0, &info), 0);
        cr_assert_eq(info.size, bytes[i], "%s", name);
    }
    zip_discard(zip);
}

Test(pt, a_storage_is_written_once_and_as_a_whole)
{
    const char *path = "storages.pt";
    tn_tensor *x = tn_arange(s, TN_SCALAR(10.0)), *empty = tn_zeros(s, TN_INTS(0, 2)),
              *w = tn_ones(s, TN_INTS(2)),
              *odd = tn_from_data(s, TN_UINT8, TN_INTS(6), (uint8_t[]){1, 0, 2, 0, 3, 0}, TN_CPU);
    tn_set_requires_grad(w, 1);
    const tn_named_tensor all[] = {{"y", tn_narrow(s, x, 0, 5, 3)},
                                   {"x", x},
                                   {"bits", tn_view_dtype(s, x, TN_INT32)},
                                   {"column", tn_select(s, tn_view(s, x, TN_INTS(5, 2)), 1, 1)},
                                   {"empty", empty},
                                   {"none", tn_narrow(s, x, 0, 10, 0)},
                                   {"encoder.weight", tn_detach(s, w)}, /* tied */
                                   {"decoder.weight", w},
                                   {"odd", tn_view_dtype(s, tn_narrow(s, odd, 0, 0, 4), TN_INT32)},
                                   {"also empty", tn_zeros(s, TN_INTS(0))}};
    cr_assert_eq(tn_pt_save(s, path, (tn_named_tensors){all, 10}), TN_OK, "%s", tn_scope_error(s)->message);
    expect_records(path, 5, (uint64_t[]){40, 0, 8, 6, 0});
    tn_named_tensors list = tn_file_load(s, path);
    cr_assert_eq(list.count, 10, "%s", tn_last_error() ? tn_last_error()->message : "");
    expect_alias(list, "x", "y", 1);
    expect_alias(list, "x", "bits", 1);
    expect_alias(list, "x", "column", 1);
    expect_alias(list, "x", "none", 1);
    expect_alias(list, "encoder.weight", "decoder.weight", 1);
    expect_alias(list, "x", "empty", 0);
    expect_alias(list, "empty", "also empty", 0);
    expect_text(list, "column", "tensor([1., 3., 5., 7., 9.])");
    expect_text(list, "odd", "tensor([131073], dtype=torch.int32)");
    cr_assert_eq(tn_tensor_storage_bytes(tn_named_get(s, list, "odd")), 6);
    tn_zero_(s, tn_named_get(s, list, "y"));
    expect_text(list, "bits",
                "tensor([         0, 1065353216, 1073741824, 1077936128, 1082130432,          0,\n"
                "                 0,          0, 1090519040, 1091567616], dtype=torch.int32)");
    tn_pt *f = opened(path); /* one tensor alone is a row-major copy of its own elements */
    tn_tensor *y = tn_pt_get(s, f, "y", TN_CPU);
    cr_assert_eq(tn_tensor_storage_bytes(y), 12);
    tn_named_tensors below = tn_pt_tensors(s, f, "encoder");
    cr_assert_eq(below.count, 1);
    expect_text(below, "weight", "tensor([1., 1.])");
    tn_pt_close(f);
    unlink(path);
}

static void expect_dead(const tn_tensor *got, const char *words)
{
    cr_assert_null(got);
    expect_error(tn_scope_failed(s), TN_E_DEAD_HANDLE, words);
    tn_scope_clear(s);
}

Test(pt, closed_twice_is_an_error_with_debug_handles)
{
    tn_file *file = NULL;
    setenv("TENON_DEBUG", "handles", 1);
    tn_pt *f = opened(path_of("views.pt"));
    cr_assert_eq(tn_file_open(ctx, path_of("views.pt"), &file), TN_OK);
    tn_pt_close(f);
    tn_pt_close(f);
    expect_error(TN_E_DEAD_HANDLE, TN_E_DEAD_HANDLE, "pt was destroyed and is destroyed again at ");
    expect_dead(tn_pt_get(s, f, "plain", TN_CPU), "pt was destroyed and is used again");
    cr_assert(tn_pt_count(f) == 0 && !tn_pt_name(f, 0) && tn_pt_value(f, "plain").tag == TN_TAG_NONE);
    tn_file_close(file);
    tn_file_close(file);
    expect_error(TN_E_DEAD_HANDLE, TN_E_DEAD_HANDLE, "file was destroyed and is destroyed again at ");
    expect_dead(tn_file_get(s, file, "plain", TN_CPU), "file was destroyed and is used again");
    cr_assert(tn_file_count(file) == 0 && !tn_file_name(file, 0));
    unsetenv("TENON_DEBUG");
}

Test(pt, values_and_tensors_have_dotted_names)
{
    tn_pt *f = opened(path_of("checkpoint.pt"));
    cr_assert_eq(tn_pt_count(f), 26);
    cr_assert_str_eq(tn_pt_name(f, 0), "model.fc.weight");
    cr_assert_null(tn_pt_name(f, 26));
    static const char *const tensors[][2] = {
        {"model.fc.weight", "tensor([[0., 1., 2.],\n        [3., 4., 5.]])"},
        {"model.fc.bias", "tensor([-1.5000,  2.5000], dtype=torch.float64)"},
        {"optimizer.state.0.step", "tensor(3.)"},
        {"transposed", "tensor([[0., 3.],\n        [1., 4.],\n        [2., 5.]])"},
        {"tail", "tensor([4., 5.])"},
        {"scalar", "tensor(7)"},
        {"empty", "tensor([], size=(0, 3))"},
        {"parameter", "tensor([1., 1.])"},
        {"flags", "tensor([ True, False])"},
        {"half", "tensor([ 1.5000, -2.0000], dtype=torch.float16)"},
        {"bfloat16", "tensor([ 3.0000, -0.5000], dtype=torch.bfloat16)"},
        {"complex", "tensor([1.+2.j])"},
        {"unsigned", "tensor([65535], dtype=torch.uint16)"},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        expect_tensor(f, tensors[i][0], tensors[i][1]);
    cr_assert_eq(tn_pt_value(f, "optimizer.param_groups.0.lr").as.f, 0.25);
    cr_assert_eq(tn_pt_value(f, "optimizer.param_groups.0.betas.1").as.f, 0.75);
    cr_assert_eq(tn_pt_value(f, "optimizer.param_groups.0.params.1").as.i, 1);
    cr_assert_eq(tn_pt_value(f, "epoch").as.i, 3);
    cr_assert_eq(tn_pt_value(f, "big").as.i, (int64_t)1 << 40);
    cr_assert_eq(tn_pt_value(f, "negative").as.i, -70000);
    cr_assert_str_eq(tn_pt_value(f, "name").as.string, "\xc3\xbc"
                                                       "bung");
    cr_assert_eq(tn_pt_value(f, "done").tag, TN_TAG_BOOL);
    cr_assert_eq(tn_pt_value(f, "nothing").tag, TN_TAG_NONE);
    cr_assert_eq(tn_pt_value(f, "shape.1").as.i, 5);
    cr_assert_eq(tn_pt_value(f, "absent").tag, TN_TAG_NONE);
    cr_assert_eq(tn_pt_value(f, "half").tag, TN_TAG_NONE);
    tn_pt_close(f);
}

Test(pt, tensors_under_a_prefix)
{
    tn_pt *f = opened(path_of("checkpoint.pt"));
    tn_named_tensors list = tn_pt_tensors(s, f, "model");
    cr_assert_eq(list.count, 2);
    cr_assert_str_eq(list.data[0].name, "fc.weight");
    cr_assert_str_eq(list.data[1].name, "fc.bias");
    cr_assert_eq(tn_pt_tensors(s, f, NULL).count, 13);
    cr_assert_eq(tn_pt_tensors(s, f, "mod").count, 0);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "no tensor has a name that begins with 'mod.'"));
    tn_scope_clear(s);
    cr_assert_null(tn_pt_get(s, f, "epoch", TN_CPU));
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "'epoch' is not a tensor"));
    tn_scope_clear(s);
    tn_pt_close(f);
}

Test(pt, what_needs_code_is_refused_by_name)
{
    tn_pt *f;
    int32_t status = tn_pt_open(ctx, path_of("module.pt"), &f);
    expect_error(status, TN_E_UNSUPPORTED, "'torch.nn.modules.linear Linear'");
    cr_assert_null(f);
}

Test(pt, files_that_are_none)
{
    tn_pt *f;
    expect_error(tn_pt_open(ctx, "/nonexistent/a.pt", &f), TN_E_NOT_FOUND, "No such file");
    FILE *old = fopen("old.pt", "wb"); /* as PyTorch before 1.6 wrote them: a pickle alone */
    fwrite("\x80\x02\x8a\nl\xfc\x9c"
           "F\xf9 j\xa8P\x19.",
           1, 16, old);
    fclose(old);
    tn_file *any = NULL;
    const int32_t status_of_old = tn_file_open(ctx, "old.pt", &any);
    unlink("old.pt");
    expect_error(status_of_old, TN_E_CORRUPT, "PyTorch before 1.6");
    expect_error(tn_pt_open(ctx, path_of("record_pt.py"), &f), TN_E_CORRUPT, "it is not a zip file");
    expect_error(tn_pt_open(ctx, NULL, &f), TN_E_ARGUMENT, "argument 'path'");
    expect_error(tn_pt_open(NULL, "a.pt", &f), TN_E_ARGUMENT, "argument 'ctx': it is NULL");
    expect_error(tn_pt_open(ctx, "a.pt", NULL), TN_E_ARGUMENT, "argument 'out': it is NULL");
}

Test(pt, what_is_written_is_read_again)
{
    const char *path = "written.pt";
    tn_tensor *x =
        tn_transpose(s, tn_from_data(s, TN_FLOAT32, TN_INTS(2, 2), (float[]){1, 2, 3, 4}, TN_CPU), 0, 1);
    tn_tensor *c = tn_conj(s, tn_from_data(s, TN_COMPLEX64, TN_INTS(1), (float[]){1, 2}, TN_CPU));
    tn_tensor *u = tn_from_data(s, TN_UINT32, TN_INTS(2), (uint32_t[]){1, 4000000000u}, TN_CPU);
    tn_tensor *e = tn_zeros(s, TN_INTS(2, 0));
    const tn_named_tensor list[] = {{"a.x", x}, {"c", c}, {"u", u}, {"e", e}};
    cr_assert_eq(tn_pt_save(s, path, (tn_named_tensors){list, 4}), TN_OK, "%s", tn_scope_error(s)->message);
    tn_pt *f = opened(path);
    cr_assert_eq(tn_pt_count(f), 4);
    expect_tensor(f, "a.x", "tensor([[1., 3.],\n        [2., 4.]])");
    expect_tensor(f, "c", "tensor([1.-2.j])");
    expect_tensor(f, "u", "tensor([         1, 4000000000], dtype=torch.uint32)");
    expect_tensor(f, "e", "tensor([], size=(2, 0))");
    tn_pt_close(f);
    cr_assert_eq(tn_pt_save(s, "/nonexistent/a.pt", (tn_named_tensors){list, 4}), TN_E_IO);
    tn_scope_clear(s);
    expect_error(tn_pt_save(s, "/dev/full", (tn_named_tensors){list, 4}), TN_E_IO, "not a regular file");
    tn_scope_clear(s);
    cr_assert_eq(tn_pt_save(s, path, (tn_named_tensors){&(tn_named_tensor){"x", NULL}, 1}), TN_E_ARGUMENT);
    cr_assert_eq(tn_pt_save(s, path, (tn_named_tensors){NULL, 0}), TN_E_ARGUMENT, "the scope has failed");
    cr_assert_eq(tn_pt_save(s, path, (tn_named_tensors){list, 4}), TN_E_ARGUMENT);
    tn_scope_clear(s);
    f = opened(path);
    cr_assert_eq(tn_pt_count(f), 4, "a failure leaves the file");
    tn_pt_close(f);
    unlink(path);
}

Test(pt, a_module_loads_a_state_of_pytorch)
{
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_linear_create(net, "fc", 3, 2);
    tn_pt *f = opened(path_of("checkpoint.pt"));
    cr_assert_eq(tn_pt_save(s, "state.pt", tn_pt_tensors(s, f, "model")), TN_OK);
    cr_assert_eq(tn_module_load(net, "state.pt", TN_STRICT), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    cr_assert_str_eq(tn_format(s, tn_detach(s, tn_module_tensor(net, "fc.bias")), NULL),
                     "tensor([-1.5000,  2.5000])");
    cr_assert_eq(tn_module_load(net, path_of("checkpoint.pt"), TN_STRICT), TN_E_SHAPE);
    cr_assert_not_null(strstr(tn_last_error()->message, "names stand below 'model'"), "%s",
                       tn_last_error()->message);
    tn_pt_close(f);
    tn_module_destroy(net);
    unlink("state.pt");
}

/* ---- Damaged files ------------------------------------------------------------------------------------------- */

static uint8_t *contents(const char *path, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    fseek(file, 0, SEEK_END);
    *out_size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*out_size);
    cr_assert_eq(fread(bytes, 1, *out_size, file), *out_size);
    fclose(file);
    return bytes;
}

static uint32_t state;
static uint32_t random_number(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

/* A file of this test's: tests run at the same time. */
static const char *damaged(void)
{
    static char path[32];
    snprintf(path, sizeof path, "damaged-%ld.pt", (long)getpid());
    return path;
}

/* Opens the bytes as a file and reads all tensors; whatever it says, there is a text where there is an error. */
static int32_t try_file(const uint8_t *bytes, size_t size)
{
    tn_pt *f;
    FILE *file = fopen(damaged(), "wb");
    cr_assert(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
    int32_t status = tn_pt_open(ctx, damaged(), &f);
    cr_assert(!status || tn_last_error()->message[0]);
    if (status) return status;
    tn_pt_tensors(s, f, NULL);
    status = tn_scope_failed(s);
    tn_scope_clear(s);
    tn_pt_close(f);
    return status;
}

Test(pt, changed_and_cut_files_end_in_an_error)
{
    size_t size;
    uint8_t *bytes = contents(path_of("checkpoint.pt"), &size), *copy = malloc(size);
    uint32_t failed = 0;
    for (uint32_t seed = 1; seed <= 400; seed++) {
        state = seed;
        memcpy(copy, bytes, size);
        for (uint32_t n = 1 + random_number(8); n > 0; n--)
            copy[random_number((uint32_t)size)] ^= (uint8_t)(1 + random_number(255));
        failed += try_file(copy, size) != TN_OK;
    }
    cr_assert_gt(failed, 100);
    for (size_t cut = 0; cut < size; cut += 1 + size / 97)
        cr_assert_neq(try_file(bytes, cut), TN_OK, "%zu bytes", cut);
    free(bytes);
    free(copy);
    unlink(damaged());
}

/* An archive whose storages have so many bytes, all of them the first ones of `storage`. */
static void write_archive(const void *values, size_t size, const uint8_t *storage, uint32_t count,
                          const uint64_t *bytes)
{
    int code;
    unlink(damaged());
    zip_t *zip = zip_open(damaged(), ZIP_CREATE | ZIP_TRUNCATE, &code);
    cr_assert_not_null(zip);
    cr_assert_geq(zip_file_add(zip, "a/data.pkl", zip_source_buffer(zip, values, size, 0), 0), 0);
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "a/data/%u", i);
        cr_assert_geq(zip_file_add(zip, name, zip_source_buffer(zip, storage, bytes[i], 0), 0), 0);
    }
    cr_assert_eq(zip_close(zip), 0);
}

static void expect_refused(const char *values, size_t size, int32_t expected, const char *words)
{
    static const uint8_t storage[16] = {0, 0, 0, 0, 2};
    tn_pt *f;
    write_archive(values, size, storage, 1, (uint64_t[]){sizeof storage});
    int32_t status = tn_pt_open(ctx, damaged(), &f);
    if (!status) {
        cr_assert_eq(tn_pt_tensors(s, f, NULL).count, 0);
        status = tn_scope_failed(s);
        tn_pt_close(f);
    }
    cr_assert_eq(status, expected, "%s: %d: %s", words, status, tn_last_error()->message);
    const char *text = tn_scope_failed(s) ? tn_scope_error(s)->message : tn_last_error()->message;
    cr_assert_not_null(strstr(text, words), "%s", text);
    tn_scope_clear(s);
    unlink(damaged());
}

#define BEGIN_FILE(call, class, elements)                     \
    "\x80\x02}X\1\0\0\0xctorch._utils\n_rebuild_tensor_" call \
    "\n((X\7\0\0\0storagec" class "\nX\1\0\0\0"               \
                                  "0X\3\0\0\0cpu" elements "tQ"
#define END_FILE \
    "\x89"       \
    "ccollections\nOrderedDict\n)RtRs."
#define EXPECT_REFUSED(pickle, ...) expect_refused(pickle, sizeof(pickle) - 1, __VA_ARGS__)
#define EIGHT(n)                    n n n n n n n n
#define LONG(low, high)             "\x8a\x08" low "\0\0\0\0\0\0" high

/* {"a.b": 1, "z": 3, "a": {"b": 2}, "z": 4}: of equal names the last one counts, as in Python. */
Test(pt, the_last_value_of_a_name_counts)
{
    static const char values[] =
        "\x80\x02}(X\3\0\0\0a.bK\1X\1\0\0\0zK\3X\1\0\0\0a}X\1\0\0\0bK\2sX\1\0\0\0zK\4u.";
    write_archive(values, sizeof values - 1, NULL, 0, NULL);
    tn_pt *f = opened(damaged());
    static const char *const names[] = {"a.b", "z", "a.b", "z"};
    cr_assert_eq(tn_pt_count(f), 4);
    for (uint64_t i = 0; i < 4; i++) cr_assert_str_eq(tn_pt_name(f, i), names[i]);
    cr_assert_eq(tn_pt_value(f, "a.b").as.i, 2);
    cr_assert_eq(tn_pt_value(f, "z").as.i, 4);
    cr_assert_eq(tn_pt_value(f, "a").tag, TN_TAG_NONE);
    cr_assert_eq(tn_pt_value(f, "zz").tag, TN_TAG_NONE);
    cr_assert_eq(tn_pt_value(f, "").tag, TN_TAG_NONE);
    tn_pt_close(f);
    unlink(damaged());
}

/* Sizes, strides and offsets that reach past the storage, also where their products overflow. */
Test(pt, tensors_that_do_not_fit_their_storage)
{
#define FLOATS BEGIN_FILE("v2", "torch\nFloatStorage", "K\4")
    EXPECT_REFUSED(FLOATS "K\2(K\3t(K\1t" END_FILE, TN_E_CORRUPT, "damaged");
    EXPECT_REFUSED(FLOATS "K\0(K\2t(" LONG("\1", "\x40") "t" END_FILE, TN_E_CORRUPT, "damaged");
    EXPECT_REFUSED(FLOATS LONG("\0", "\x40") "(K\1t(K\1t" END_FILE, TN_E_CORRUPT,
                   "damaged"); /* 2^62 * 4 wraps to 0 */
    EXPECT_REFUSED(FLOATS "K\0(" LONG("\1", "\x40") LONG("\1", "\x40") "t(K\4K\4t" END_FILE, TN_E_CORRUPT,
                   "damaged");
    EXPECT_REFUSED(FLOATS "K\0(K\1t(J\xff\xff\xff\xfft" END_FILE, TN_E_CORRUPT, "damaged");
    /* 2^60 + 1 elements of 16 bytes wrap to the 16 bytes that are there. */
    EXPECT_REFUSED(BEGIN_FILE("v2", "torch\nComplexDoubleStorage", LONG("\1", "\x10"))
                       LONG("\0", "\x08") "(K\1t(K\1t" END_FILE,
                   TN_E_CORRUPT, "damaged");
    EXPECT_REFUSED(BEGIN_FILE("v2", "torch\nFloatStorage", "K\5") "K\0(K\1t(K\1t" END_FILE, TN_E_CORRUPT,
                   "the record 'data/0' does not have the elements of its tensor");
    EXPECT_REFUSED(BEGIN_FILE("v2", "torch\nBoolStorage", "K\x10") "K\2(K\2t(K\3t" END_FILE, TN_E_CORRUPT,
                   "the record 'data/0' does not have the elements");
    /* Of the dtype that the call names, not of the storage's. */
    EXPECT_REFUSED(BEGIN_FILE("v3", "torch\nFloatStorage", "K\4") "K\2(K\1t(K\1t\x89"
                                                                  "ccollections\nOrderedDict\n)R"
                                                                  "ctorch\nfloat64\ntRs.",
                   TN_E_CORRUPT, "damaged");
    EXPECT_REFUSED(FLOATS "K\0(" EIGHT(EIGHT("K\1")) "K\1t(" EIGHT(EIGHT("K\0")) "K\0t" END_FILE,
                   TN_E_UNSUPPORTED, "it has a tensor of 65 dimensions, a tensor may have 64");
}

/* The bytes of a member of a test's archive; free with free. */
static uint8_t *read_member(const char *archive, const char *name, uint64_t *out_size)
{
    int code;
    zip_stat_t info;
    zip_t *zip = zip_open(path_of(archive), ZIP_RDONLY, &code);
    cr_assert_not_null(zip);
    cr_assert_eq(zip_stat(zip, name, 0, &info), 0);
    uint8_t *bytes = malloc(info.size);
    zip_file_t *file = zip_fopen(zip, name, 0);
    cr_assert_eq(zip_fread(file, bytes, info.size), (zip_int64_t)info.size);
    zip_fclose(file);
    zip_discard(zip);
    *out_size = info.size;
    return bytes;
}

/* A copy with one to four bytes changed at random. */
static void damage(uint8_t *copy, const uint8_t *bytes, uint64_t size, uint32_t seed)
{
    state = seed;
    memcpy(copy, bytes, size);
    for (uint32_t n = 1 + random_number(4); n > 0; n--)
        copy[random_number((uint32_t)size)] = (uint8_t)random_number(256);
}

/* Damage that leaves a pickle which can be read, with sizes, strides, offsets and keys of any kind. */
Test(pt, changed_pickles_of_shared_storages_load_or_end_in_an_error)
{
    uint64_t size;
    uint8_t *bytes = read_member("shared.pt", "shared/data.pkl", &size), *copy = malloc(size),
            storage[40] = {0};
    uint32_t failed = 0;
    for (uint32_t seed = 1; seed <= 1500; seed++) {
        tn_pt *f;
        damage(copy, bytes, size, seed);
        write_archive(copy, size, storage, 3, (uint64_t[]){40, 3, 8});
        int32_t status = tn_pt_open(ctx, damaged(), &f);
        if (!status) {
            tn_named_tensors list = tn_pt_tensors(s, f, NULL);
            status = tn_scope_failed(s);
            cr_assert(!status || tn_scope_error(s)->message[0], "seed %u", seed);
            if (list.count) tn_pt_save(s, "again.pt", list);
            tn_scope_clear(s);
            tn_pt_get(s, f, "y", TN_CPU);
            tn_scope_clear(s);
            tn_pt_close(f);
        } else {
            cr_assert(tn_last_error()->message[0], "seed %u", seed);
        }
        failed += status != TN_OK;
        tn_scope_close(s);
        s = tn_scope_open(ctx);
    }
    cr_assert(failed > 400 && failed < 1400, "%u", failed);
    free(bytes);
    free(copy);
    unlink(damaged());
    unlink("again.pt");
}

/* Behind the checksums of zip: the pickle itself. */
Test(pt, changed_pickles_end_in_an_error)
{
    uint64_t size;
    uint8_t *bytes = read_member("checkpoint.pt", "checkpoint/data.pkl", &size), *copy = malloc(size);
    pickle p;
    cr_assert_eq(pickle_read(&p, bytes, size), TN_OK);
    pickle_free(&p);
    uint32_t failed = 0;
    for (uint32_t seed = 1; seed <= 20000; seed++) {
        damage(copy, bytes, size, seed);
        int32_t status = pickle_read(&p, copy, size);
        cr_assert(!status || p.error[0], "seed %u", seed);
        failed += status != TN_OK;
        pickle_free(&p);
    }
    cr_assert_gt(failed, 5000);
    for (uint64_t cut = 0; cut < size; cut++) {
        cr_assert_neq(pickle_read(&p, bytes, cut), TN_OK);
        pickle_free(&p);
    }
    free(bytes);
    free(copy);
}

static int32_t read_text(const char *bytes, size_t size, const char *words)
{
    pickle p;
    int32_t status = pickle_read(&p, (const uint8_t *)bytes, size);
    if (words) cr_assert_not_null(strstr(p.error, words), "%s", p.error);
    pickle_free(&p);
    return status;
}
#define READ(bytes, words) read_text(bytes, sizeof(bytes) - 1, words)

Test(pt, hostile_pickles)
{
    cr_assert_eq(READ("\x80\x02"
                      "cposix\nsystem\nX\x02\0\0\0ls\x85R.",
                      "'posix system'"),
                 TN_E_UNSUPPORTED);
    cr_assert_eq(READ("\x80\x02"
                      "cbuiltins\neval\n.",
                      "'builtins eval'"),
                 TN_E_UNSUPPORTED);
    cr_assert_eq(READ("\x80\x02"
                      "i.",
                      "opcode '0x69'"),
                 TN_E_UNSUPPORTED);
    cr_assert_eq(READ("\x80\x02]q\0h\0a.", NULL), TN_OK); /* a list in itself: its names end at a depth */
    cr_assert_eq(READ("\x80\x02r\xff\xff\xff\xff.", NULL), TN_E_CORRUPT);  /* nothing to remember */
    cr_assert_eq(READ("\x80\x02Nr\xff\xff\xff\xff.", NULL), TN_E_CORRUPT); /* at a place of 4 billion */
    cr_assert_eq(READ("\x80\x02X\xff\xff\xff\xff"
                      "a.",
                      NULL),
                 TN_E_CORRUPT);
    cr_assert_eq(READ("\x80\x02\x8a\x09\1\1\1\1\1\1\1\1\1.", "more than 64 bits"), TN_E_UNSUPPORTED);
    cr_assert_eq(READ("t.", NULL), TN_E_CORRUPT);
    cr_assert_eq(READ("(.", NULL), TN_E_CORRUPT);
    cr_assert_eq(READ("", NULL), TN_E_CORRUPT);
}
