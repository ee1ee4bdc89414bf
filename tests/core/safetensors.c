/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tensors: the bytes that are written, what comes back, and everything that must be refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/io.h>
#include <unistd.h>
#include "core/scope.h"
#include "fixture.h"
#include "at_end.h"

static char folder[512], path[640];

static void setup(void)
{
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/tenon-safetensors-XXXXXX", temporary ? temporary : P_tmpdir);
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    open_fakes();
}

static void finish(void)
{
    close_fakes();
    unlink(path);
    MUST_HOLD(rmdir(folder) == 0); /* no file is left */
}

TestSuite(safetensors, .init = setup, .fini = finish);

static void put(const void *header, uint64_t header_bytes, const void *data, uint64_t bytes)
{
    FILE *f = fopen(path, "wb");
    for (int i = 0; i < 8; i++) fputc((int)(header_bytes >> 8 * i & 0xff), f);
    fwrite(header, 1, header_bytes, f);
    fwrite(data, 1, bytes, f);
    fclose(f);
}

static uint64_t get_bytes(char *to, uint64_t room)
{
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f);
    uint64_t n = fread(to, 1, room, f);
    fclose(f);
    return n;
}

static int32_t try_open(void)
{
    tn_safetensors *f = NULL;
    int32_t code = tn_safetensors_open(ctx, path, &f);
    cr_assert_eq(f != NULL, code == TN_OK);
    tn_safetensors_close(f);
    return code;
}

Test(safetensors, reads_what_the_format_says)
{
    const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":"
        "[0,8]},\"b \\u00e9\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":[8,10]},\"none\":"
        "{\"dtype\":\"BOOL\",\"shape\":[3,0],\"data_offsets\":[10,10]}}   ";
    const unsigned char data[] = {0, 0, 128, 63, 0, 0, 0, 192, 0x34, 0x12};
    put(header, sizeof header - 1, data, sizeof data);
    tn_safetensors *f = NULL;
    cr_assert_eq(tn_safetensors_open(ctx, path, &f), TN_OK);
    cr_assert_eq(tn_safetensors_count(f), 3);
    cr_assert_str_eq(tn_safetensors_name(f, 0), "a");
    cr_assert_str_eq(tn_safetensors_name(f, 1), "b \xc3\xa9");
    cr_assert_null(tn_safetensors_name(f, 3));
    cr_assert_str_eq(tn_safetensors_metadata(f, "format"), "pt");
    cr_assert_null(tn_safetensors_metadata(f, "other"));
    const tn_device devices[] = {TN_CPU, tn_device_parse(ctx, "gpu:0"), 0};
    for (int i = 0; i < 3; i++) {
        float out[2];
        tn_tensor *a = tn_safetensors_get(s, f, "a", devices[i]);
        cr_assert_eq(tn_tensor_dtype(a), TN_FLOAT32);
        cr_assert_eq(tn_to_host(s, a, out, sizeof out), TN_OK);
        cr_assert(out[0] == 1 && out[1] == -2);
        cr_assert_eq(tn_item_int(s, tn_safetensors_get(s, f, "b \xc3\xa9", devices[i])), 0x1234);
        tn_tensor *none = tn_safetensors_get(s, f, "none", devices[i]);
        cr_assert(tn_tensor_rank(none) == 2 && tn_tensor_size(none, 0) == 3 && tn_tensor_size(none, 1) == 0);
    }
    cr_assert_null(tn_safetensors_get(s, f, "nome", 0));
    cr_assert_not_null(strstr(tn_scope_error(s)->message, ": no tensor 'nome'; did you mean 'none'?"));
    tn_scope_clear(s);
    cr_assert_null(tn_safetensors_get(s, f, "c", 0));
    cr_assert_null(strstr(tn_scope_error(s)->message, "did you mean"));
    cr_assert_eq(tn_scope_close(s), TN_E_NOT_FOUND);
    s = tn_scope_open(ctx);
    tn_safetensors_close(f);
}

/* Kernels rely on bool elements being 0 or 1. */
Test(safetensors, bools_are_0_or_1)
{
    const char header[] = "{\"good\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]},"
                          "\"bad\":{\"dtype\":\"BOOL\",\"shape\":[2,2],\"data_offsets\":[3,7]},"
                          "\"bytes\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[7,11]}}";
    const unsigned char data[] = {0, 1, 1, 1, 0, 2, 1, 3, 2, 1, 0};
    put(header, sizeof header - 1, data, sizeof data);
    tn_safetensors *f = NULL;
    cr_assert_eq(tn_safetensors_open(ctx, path, &f), TN_OK);
    const tn_device devices[] = {TN_CPU, tn_device_parse(ctx, "gpu:0")};
    for (int i = 0; i < 2; i++) {
        unsigned char out[4];
        cr_assert_eq(tn_to_host(s, tn_safetensors_get(s, f, "good", devices[i]), out, 3), TN_OK);
        cr_assert_arr_eq(out, data, 3);
        cr_assert_eq(tn_to_host(s, tn_safetensors_get(s, f, "bytes", devices[i]), out, 4), TN_OK);
        cr_assert_arr_eq(out, data + 7, 4);
        cr_assert_null(tn_safetensors_get(s, f, "bad", devices[i]));
        cr_assert_eq(tn_scope_failed(s), TN_E_CORRUPT);
        const char *message = tn_scope_error(s)->message;
        cr_assert_not_null(
            strstr(message, "tensor 'bad': element 2 is the byte 2 (expected 0 or 1, as bool)"), "%s",
            message);
        tn_scope_clear(s);
    }
    tn_safetensors_close(f);
}

Test(safetensors, never_replaces_a_file_that_is_not_regular)
{
    struct stat there;
    const tn_named_tensor one = {"a", tn_from_data(s, TN_FLOAT32, TN_INTS(1), (const float[]){1}, 0)};
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(tn_safetensors_save(s, path, &one, 1, NULL, 0), TN_E_IO);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "not a regular file"));
    cr_assert(stat(path, &there) == 0 && S_ISFIFO(there.st_mode), "what was there is still there");
    tn_scope_clear(s);
    cr_assert_eq(tn_safetensors_save(s, folder, &one, 1, NULL, 0), TN_E_IO);
    tn_scope_clear(s);
}

Test(safetensors, writes_larger_elements_first_and_pads)
{
    const tn_named_tensor list[] = {
        {"z", tn_from_data(s, TN_UINT8, TN_INTS(3), (const uint8_t[]){7, 8, 9}, 0)},
        {"b", tn_from_data(s, TN_FLOAT32, TN_INTS(1), (const float[]){1}, 0)},
        {"a", tn_from_data(s, TN_FLOAT32, TN_INTS(1), (const float[]){2}, tn_device_parse(ctx, "gpu:0"))},
    };
    const char *const metadata[] = {"k\"", "v\n"};
    cr_assert_eq(tn_safetensors_save(s, path, list, 3, metadata, 1), TN_OK);
    const char expected[] =
        "{\"__metadata__\":{\"k\\\"\":\"v\\n\"},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
        "\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
        "\"z\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
    const unsigned char data[] = {0, 0, 0, 64, 0, 0, 128, 63, 7, 8, 9};
    char bytes[1024];
    uint64_t n = get_bytes(bytes, sizeof bytes), header = (sizeof expected - 1 + 7) / 8 * 8;
    cr_assert_eq(n, 8 + header + sizeof data);
    cr_assert_eq((unsigned char)bytes[0], header);
    cr_assert_arr_eq(bytes + 8, expected, sizeof expected - 1);
    for (uint64_t i = sizeof expected - 1; i < header; i++) cr_assert_eq(bytes[8 + i], ' ');
    cr_assert_arr_eq(bytes + 8 + header, data, sizeof data);
}

Test(safetensors, every_dtype_comes_back)
{
    const tn_dtype dtypes[] = {TN_BOOL,        TN_UINT8,         TN_INT8,    TN_INT16,     TN_UINT16,
                               TN_INT32,       TN_UINT32,        TN_INT64,   TN_UINT64,    TN_FLOAT16,
                               TN_BFLOAT16,    TN_FLOAT32,       TN_FLOAT64, TN_COMPLEX64, TN_FLOAT8_E4M3FN,
                               TN_FLOAT8_E5M2, TN_FLOAT8_E8M0FNU};
    const uint32_t count = sizeof dtypes / sizeof *dtypes;
    unsigned char data[48];
    tn_named_tensor list[32];
    for (uint32_t i = 0; i < 48; i++) data[i] = (unsigned char)(i * 5 + 1);
    const unsigned char bools[] = {1, 0, 0, 1, 1, 0};
    for (uint32_t i = 0; i < count; i++) {
        const void *elements = dtypes[i] == TN_BOOL ? bools : data;
        list[i].name = tn_dtype_name(dtypes[i]);
        list[i].tensor = tn_from_data(s, dtypes[i], TN_INTS(2, 3), elements, 0);
    }
    cr_assert_eq(tn_safetensors_save(s, path, list, count, NULL, 0), TN_OK);
    tn_safetensors *f = NULL;
    cr_assert_eq(tn_safetensors_open(ctx, path, &f), TN_OK);
    for (uint32_t i = 0; i < count; i++) {
        tn_tensor *t = tn_safetensors_get(s, f, tn_dtype_name(dtypes[i]), 0);
        cr_assert_eq(tn_tensor_dtype(t), dtypes[i]);
        cr_assert_arr_eq(tn_tensor_data(t), dtypes[i] == TN_BOOL ? bools : data,
                         (uint64_t)(6 * tn_dtype_bytes(dtypes[i])));
    }
    tn_safetensors_close(f);
}

Test(safetensors, strided_and_lazy_tensors_are_stored_plain)
{
    const int64_t sizes[] = {3, 2}, strides[] = {1, 3};
    tn_tensor *t = tn_from_data(s, TN_INT16, TN_INTS(2, 3), (const int16_t[]){1, 2, 3, 4, 5, 6}, 0),
              *v = NULL;
    cr_assert_eq(tni_tensor_view(t, 2, sizes, strides, 0, &v), TN_OK);
    v->desc.flags |= TN_DESC_NEG;
    const tn_named_tensor list[] = {{"t", v}};
    cr_assert_eq(tn_safetensors_save(s, path, list, 1, NULL, 0), TN_OK);
    tn_release(v);
    tn_safetensors *f = NULL;
    cr_assert_eq(tn_safetensors_open(ctx, path, &f), TN_OK);
    const int16_t expected[] = {-1, -4, -2, -5, -3, -6};
    cr_assert_arr_eq(tn_tensor_data(tn_safetensors_get(s, f, "t", 0)), expected, sizeof expected);
    tn_safetensors_close(f);
}

Test(safetensors, a_failed_save_leaves_the_old_file)
{
    tn_tensor *t = tn_from_data(s, TN_INT16, TN_INTS(1), (const int16_t[]){1}, 0), *meta = NULL;
    tn_tensor *c = tn_from_data(s, TN_COMPLEX128, TN_INTS(1), (const double[]){1, 2}, 0);
    tn_tensor *g = tn_from_data(s, TN_INT8, TN_INTS(1), (const int8_t[]){1}, tn_device_parse(ctx, "gpu:0"));
    cr_assert_eq(tni_tensor_create(ctx, TN_DEVICE(TN_INTERNED_META, 0), TN_INT8, 0, NULL, NULL, &meta),
                 TN_OK);
    const struct {
        tn_named_tensor list[2];
        int32_t code;
    } cases[] = {{{{"a", t}, {"a", t}}, TN_E_ARGUMENT},    {{{"a", t}, {NULL, t}}, TN_E_ARGUMENT},
                 {{{"a", t}, {"b", NULL}}, TN_E_ARGUMENT}, {{{"a", t}, {"__metadata__", t}}, TN_E_ARGUMENT},
                 {{{"a", t}, {"\xff", t}}, TN_E_ARGUMENT}, {{{"a", t}, {"b", c}}, TN_E_DTYPE},
                 {{{"a", t}, {"b", meta}}, TN_E_DEVICE},   {{{"a", t}, {"b", g}}, TN_E_INTERNAL}};
    put("{}", 2, "", 0);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].code == TN_E_INTERNAL) gpu.fail_slot = 1;
        cr_assert_eq(tn_safetensors_save(s, path, cases[i].list, 2, NULL, 0), cases[i].code, "case %u", i);
        tn_scope_clear(s);
        char bytes[64];
        cr_assert_eq(get_bytes(bytes, sizeof bytes), 10);
    }
    const char *const twice[] = {"k", "v", "k", "w"}, *const bad[] = {"k", NULL};
    cr_assert_eq(tn_safetensors_save(s, path, NULL, 0, twice, 2), TN_E_ARGUMENT);
    tn_scope_clear(s);
    cr_assert_eq(tn_safetensors_save(s, path, NULL, 0, bad, 1), TN_E_ARGUMENT);
    tn_scope_clear(s);
    cr_assert_eq(tn_safetensors_save(s, "/nonexistent/file", NULL, 0, NULL, 0), TN_E_IO);
    tn_scope_clear(s);
    cr_assert_eq(tn_safetensors_save(s, path, NULL, 0, NULL, 0), TN_OK);
    cr_assert_eq(try_open(), TN_OK);
    tn_release(meta);
}

Test(safetensors, missing_file)
{
    cr_assert_eq(try_open(), TN_E_NOT_FOUND);
    tn_safetensors *f = NULL;
    cr_assert_eq(tn_safetensors_open(ctx, folder, &f), TN_E_IO);
    cr_assert_eq(tn_safetensors_open(ctx, NULL, &f), TN_E_ARGUMENT);
}

#define A_(shape, range)   "{\"a\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" range "}}"
#define ENTRY(name, range) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" range "}"

Test(safetensors, refuses_bad_headers)
{
    const struct {
        const char *header;
        uint64_t bytes;
        const char *word; /* that the message has */
    } cases[] = {
        {"", 0, "begin"},
        {" {}", 0, "begin"},
        {"[]", 0, "begin"},
        {"{", 0, "JSON"},
        {"{}x", 0, "something else"},
        {"{}{}", 0, "after"},
        {"{\"\xff\":1}", 0, "UTF-8"},
        {"{\"a\":1}", 0, "needs"},
        {"{\"a\":{}}", 0, "needs"},
        {A_("[2]", "[0,8]"), 9, "belong to no tensor"},
        {A_("[2]", "[0,8]"), 7, "outside"},
        {A_("[2]", "[0,12]"), 12, "do not fit"},
        {A_("[2]", "[8,0]"), 8, "outside"},
        {A_("[2]", "[0]"), 8, "two numbers"},
        {A_("[2]", "[0,8,8]"), 8, "two numbers"},
        {A_("[2]", "[1,9]"), 9, "hole"},
        {A_("[-2]", "[0,8]"), 8, "something else"},
        {A_("[2.0]", "[0,8]"), 8, "something else"},
        {A_("[2e0]", "[0,8]"), 8, "something else"},
        {A_("[null]", "[0,8]"), 8, "something else"},
        {A_("2", "[0,8]"), 8, "no shape"},
        {A_("[[2]]", "[0,8]"), 8, "non-negative integer"},
        {A_("[4611686018427387904,4]", "[0,0]"), 0, "non-negative integer"},
        {A_("[4503599627370496,4503599627370496]", "[0,0]"), 0, "overflow"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "F33"},
        {"{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "no dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8, "nothing else"},
        {"{" ENTRY("a", "[0,4]") "," ENTRY("b", "[2,6]") "}", 6, "overlap"},
        {"{" ENTRY("a", "[0,4]") "," ENTRY("b", "[0,4]") "}", 4, "overlap"},
        {"{" ENTRY("a", "[0,4]") "," ENTRY("b", "[5,9]") "}", 9, "hole"},
        {"{" ENTRY("a", "[0,4]") "," ENTRY("a", "[4,8]") "}", 8, "twice"},
        {A_("[9007199254740994]", "[0,8]"), 8, "non-negative integer"},
        {A_("[9007199254740992,1024]", "[0,0]"), 0, "overflow"},
        {A_("[2]", "[\"a\",8]"), 8, "two numbers"},
        {A_("[2]", "[0,\"a\"]"), 8, "two numbers"},
        {"{" ENTRY("b", "[0,4]") "," ENTRY("a", "[0,4]") "," ENTRY("c", "[0,3]") "}", 4, "do not fit"},
        {"{\"__metadata__\":1}", 0, "not a map"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "not text"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice"},
        {"{\"__metadata__\":{\"a\\u0000b\":\"c\"}}", 0, "NUL"},
    };
    char data[16] = {0};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(cases[i].header, strlen(cases[i].header), data, cases[i].bytes);
        cr_assert_eq(try_open(), TN_E_CORRUPT, "case %u: %s", i, cases[i].header);
        cr_assert(strstr(tn_last_error()->message, cases[i].word), "case %u: %s", i,
                  tn_last_error()->message);
    }
    put(A_("[2]", "[0,8]"), strlen(A_("[2]", "[0,8]")), data, 8);
    cr_assert_eq(try_open(), TN_OK);
}

/* A tensor with more than TN_MAX_RANK dimensions can be listed but not read; thousands of dimensions are refused. */
/* Empty tensors lie between others, in any order of the header. */
Test(safetensors, ranges_that_begin_at_one_place)
{
    static const char header[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                                 "\"c\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
                                 "\"a\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[0,0]},"
                                 "\"d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[2,2]}}";
    static const char *const names[] = {"a", "b", "c", "d"};
    tn_safetensors *f = NULL;
    put(header, sizeof header - 1, "\x05\x06", 2);
    cr_assert_eq(tn_safetensors_open(ctx, path, &f), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_safetensors_count(f), 4);
    for (uint64_t i = 0; i < 4; i++) {
        const tn_tensor *t = tn_safetensors_get(s, f, names[i], TN_CPU);
        cr_assert_not_null(t, "%s", names[i]);
        cr_expect_eq(tn_tensor_numel(t), i == 1 ? 2 : 0);
    }
    cr_assert_null(tn_safetensors_get(s, f, NULL, TN_CPU));
    cr_assert(strstr(tn_scope_error(s)->message, "no tensor '(null)'"));
    tn_scope_clear(s);
    tn_safetensors_close(f);
    cr_assert_eq(tn_safetensors_open(ctx, NULL, &f), TN_E_ARGUMENT);
    cr_assert_eq(tn_safetensors_open(ctx, path, NULL), TN_E_ARGUMENT);
    cr_assert_null(tn_safetensors_metadata(NULL, "format"));
}

static void refuse_to_save(const char *to, const tn_named_tensor *tensors, uint64_t count,
                           const char *const *pairs, uint64_t n_pairs, int32_t status, const char *part)
{
    cr_assert_eq(tn_safetensors_save(s, to, tensors, count, pairs, n_pairs), status, "%s", part);
    cr_expect_not_null(strstr(tn_scope_error(s)->message, part), "%s: %s", part, tn_scope_error(s)->message);
    tn_scope_clear(s);
    tn_clear_error();
}

Test(safetensors, what_cannot_be_saved)
{
    static const char *const bad[][2] = {{NULL, "x"}, {"x", NULL}, {"\xff", "x"}, {"x", "\xff"}};
    static const char *const twice[] = {"a", "b", "a", "c"};
    static char far[5000];
    const tn_named_tensor one = {"x", tn_from_data(s, TN_UINT8, TN_INTS(1), "\x07", TN_CPU)};
    refuse_to_save(NULL, &one, 1, NULL, 0, TN_E_ARGUMENT, "path, tensors or metadata is NULL");
    refuse_to_save("", &one, 1, NULL, 0, TN_E_ARGUMENT, "argument 'path': it is empty");
    refuse_to_save(path, NULL, 1, NULL, 0, TN_E_ARGUMENT, "path, tensors or metadata is NULL");
    refuse_to_save(path, &one, 1, NULL, 1, TN_E_ARGUMENT, "path, tensors or metadata is NULL");
    for (int i = 0; i < 4; i++)
        refuse_to_save(path, &one, 1, bad[i], 1, TN_E_ARGUMENT, "metadata must be pairs of UTF-8 text");
    refuse_to_save(path, &one, 1, twice, 2, TN_E_ARGUMENT, "metadata has the key 'a' twice");
    memset(far, 'x', sizeof far - 1);
    refuse_to_save(far, &one, 1, NULL, 0, TN_E_IO, "xxxx");
    refuse_to_save("/nonexistent/file", &one, 1, NULL, 0, TN_E_IO, "making a file beside it");
}

/* A path may have no folder in it. */
Test(safetensors, a_path_without_a_folder)
{
    char before[512];
    const tn_named_tensor one = {"x", tn_from_data(s, TN_UINT8, TN_INTS(1), "\x07", TN_CPU)};
    cr_assert_not_null(getcwd(before, sizeof before));
    cr_assert_eq(chdir(folder), 0);
    cr_assert_eq(tn_safetensors_save(s, "file", &one, 1, NULL, 0), TN_OK, "%s", tn_scope_error(s)->message);
    cr_assert_eq(tn_safetensors_save(s, "file", NULL, 0, NULL, 0), TN_OK);
    cr_assert_eq(chdir(before), 0);
    cr_assert_eq(try_open(), TN_OK);
}

Test(safetensors, absurd_ranks)
{
    char header[5000];
    const int ranks[] = {64, 65, 2000};
    for (int k = 0; k < 3; k++) {
        int rank = ranks[k], n = sprintf(header, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1");
        for (int i = 1; i < rank; i++) n += sprintf(header + n, ",1");
        n += sprintf(header + n, "],\"data_offsets\":[0,4]}}");
        put(header, (uint64_t)n, "abcd", 4);
        if (rank == 2000) {
            cr_assert_eq(try_open(), TN_E_CORRUPT);
            continue;
        }
        tn_safetensors *f = NULL;
        cr_assert_eq(tn_safetensors_open(ctx, path, &f), TN_OK);
        cr_assert_eq(tn_safetensors_get(s, f, "a", 0) != NULL, rank == 64);
        cr_assert_eq(tn_scope_failed(s), rank == 64 ? TN_OK : TN_E_SHAPE);
        tn_safetensors_close(f);
    }
    tn_scope_clear(s);
}

Test(safetensors, refuses_bad_lengths)
{
    const unsigned char lengths[][8] = {{3, 0, 0, 0, 0, 0, 0, 0},
                                        {1, 0, 64, 6, 0, 0, 0, 0}, /* 100 MiB and 1 */
                                        {255, 255, 255, 255, 255, 255, 255, 255},
                                        {0, 0, 0, 0, 0, 0, 0, 0}};
    for (int i = 0; i < 4; i++) {
        FILE *f = fopen(path, "wb");
        fwrite(lengths[i], 1, 8, f);
        fwrite("{}", 1, 2, f);
        fclose(f);
        cr_assert_eq(try_open(), TN_E_CORRUPT, "case %d", i);
    }
    for (uint64_t bytes = 0; bytes < 10; bytes++) {
        put("{}", 2, "", 0);
        cr_assert_eq(truncate(path, (off_t)bytes), 0);
        cr_assert_eq(try_open(), TN_E_CORRUPT, "%d bytes", (int)bytes);
    }
}

Test(safetensors, a_file_that_shrinks_is_an_error)
{
    const tn_named_tensor list[] = {{"t", tn_from_data(s, TN_INT16, TN_INTS(2), (const int16_t[]){1, 2}, 0)}};
    const tn_device devices[] = {TN_CPU, tn_device_parse(ctx, "gpu:0")};
    for (int i = 0; i < 2; i++) {
        tn_safetensors *f = NULL;
        cr_assert_eq(tn_safetensors_save(s, path, list, 1, NULL, 0), TN_OK);
        cr_assert_eq(tn_safetensors_open(ctx, path, &f), TN_OK);
        struct stat status;
        stat(path, &status);
        cr_assert_eq(truncate(path, status.st_size - 1), 0);
        cr_assert_null(tn_safetensors_get(s, f, "t", devices[i]));
        cr_assert_eq(tn_scope_error(s)->code, TN_E_CORRUPT);
        tn_scope_clear(s);
        tn_safetensors_close(f);
    }
}

/* Opening a damaged file is an error or succeeds; what opens can be read. */
Test(safetensors, damaged_files)
{
    const char header[] =
        "{\"__metadata__\":{\"f\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":"
        "[0,8]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]}}";
    char copy[sizeof header];
    uint32_t seed = 1;
    for (int i = 0; i < 1500; i++) {
        memcpy(copy, header, sizeof header);
        for (int k = 0; k < 1 + i % 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            copy[(seed >> 8) % (sizeof header - 1)] ^= (char)(1 << (seed >> 5 & 7));
        }
        put(copy, sizeof header - 1 - (uint64_t)(i % 7 ? 0 : i % 100), "123456789", 9);
        tn_safetensors *f = NULL;
        if (tn_safetensors_open(ctx, path, &f)) continue;
        for (uint64_t k = 0; k < tn_safetensors_count(f); k++)
            (void)tn_safetensors_get(s, f, tn_safetensors_name(f, k), 0);
        tn_safetensors_close(f);
    }
}

Test(safetensors, every_failing_allocation_is_an_error_without_leak)
{
    for (int64_t n = 1; n < 300; n++) {
        counting c = {0};
        fake f = {.type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE};
        tn_context *other = counted_context(&c, &f);
        tn_scope *t = tn_scope_open(other);
        c.fail_at = c.calls + n;
        const tn_device device = tn_device_parse(other, "gpu:0");
        const tn_named_tensor list[] = {
            {"t", tn_from_data(t, TN_INT16, TN_INTS(2), (const int16_t[]){1, 2}, device)}};
        tn_safetensors *file = NULL;
        int32_t code = tn_scope_failed(t) ? TN_OK : tn_safetensors_save(t, path, list, 1, NULL, 0);
        if (!code && !tn_scope_failed(t)) code = tn_safetensors_open(other, path, &file);
        if (file) (void)tn_safetensors_get(t, file, "t", device);
        tn_safetensors_close(file);
        int32_t closed = tn_scope_close(t), reached = c.calls >= c.fail_at;
        tn_context_destroy(other);
        cr_assert_eq(c.live, 0, "n %d: %d live", (int)n, (int)c.live);
        if (!reached) {
            cr_assert_eq(code + closed, TN_OK);
            break;
        }
    }
}

/* ---- Mapped tensors ------------------------------------------------------------------------------------ */

Test(safetensors, a_mapped_tensor_is_private_and_outlives_the_file)
{
    static const char header[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"odd\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[1,3]},"
                                 "\"x\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[3,11]}}";
    static const char data[11] = {7, 5, 0, 1, 0, 0, 0, 2, 0, 0, 0};
    tn_safetensors *f = NULL;
    char before[512], after[512];
    put(header, sizeof header - 1, data, sizeof data);
    uint64_t bytes = get_bytes(before, sizeof before);
    cr_assert_eq(tn_safetensors_open(ctx, path, &f), TN_OK);
    tn_tensor *b = tn_safetensors_map(s, f, "b"), *odd = tn_safetensors_map(s, f, "odd"),
              *x = tn_safetensors_map(s, f, "x");
    cr_assert(b && odd && x, "%s", tn_scope_error(s)->message);
    tn_safetensors_close(f);
    cr_assert_eq(*(uint8_t *)tn_tensor_data(b), 7);
    cr_assert_eq(*(int16_t *)tn_tensor_data(odd), 5);
    cr_assert_eq(((int32_t *)tn_tensor_data(x))[0], 1);
    cr_assert_eq(((int32_t *)tn_tensor_data(x))[1], 2);
    *(uint8_t *)tn_tensor_data(b) = 9;
    cr_assert_eq(get_bytes(after, sizeof after), bytes);
    cr_assert_arr_eq(before, after, bytes);
}

Test(safetensors, a_file_of_10_gb_maps_without_being_read)
{
    const uint64_t numbers = 2500000000u, bytes = 4 * numbers;
    tn_safetensors *f = NULL;
    char header[128];
    int n = snprintf(header, sizeof header,
                     "{\"x\":{\"dtype\":\"F32\",\"shape\":[%llu],\"data_offsets\":[0,%llu]}}",
                     (unsigned long long)numbers, (unsigned long long)bytes);
    while (n % 8) header[n++] = ' ';
    put(header, (uint64_t)n, "", 0);
    if (truncate(path, (off_t)(8 + (uint64_t)n + bytes))) cr_skip_test("no sparse files here");
    cr_assert_eq(tn_safetensors_open(ctx, path, &f), TN_OK);
    tn_tensor *x = tn_safetensors_map(s, f, "x");
    cr_assert_not_null(x, "%s", tn_scope_error(s)->message);
    const float *values = tn_tensor_data(x);
    cr_assert_eq(values[0] + values[numbers / 2] + values[numbers - 1], 0);
    tn_safetensors_close(f);
}

Test(safetensors, what_cannot_be_mapped)
{
    static const char header[] = "{\"x\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    tn_safetensors *f = NULL;
    put(header, sizeof header - 1, "\2", 1);
    cr_assert_eq(tn_safetensors_open(ctx, path, &f), TN_OK);
    cr_assert_null(tn_safetensors_map(s, f, "x"));
    cr_assert_eq(tn_scope_failed(s), TN_E_CORRUPT);
    tn_scope_clear(s);
    cr_assert_null(tn_safetensors_map(s, f, "y"));
    cr_assert_eq(tn_scope_failed(s), TN_E_NOT_FOUND);
    tn_scope_clear(s);
    cr_assert_null(tn_safetensors_map(s, NULL, "x"));
    cr_assert_eq(tn_scope_failed(s), TN_E_ARGUMENT);
    tn_safetensors_close(f);
}
