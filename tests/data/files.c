/* SPDX-License-Identifier: Apache-2.0 */
/* Files of numbers: what is read, and what each damage is called. */
#include <math.h>
#include <sys/stat.h>
#include <criterion/criterion.h>
#include "bytes.h"
#include "suite.h"

TestSuite(idx, .init = begin, .fini = end);
TestSuite(npy, .init = begin, .fini = end);
TestSuite(csv, .init = begin, .fini = end);
TestSuite(raw, .init = begin, .fini = end);

static void expect_shape(tn_tensor *t, tn_dtype dtype, tn_ints sizes)
{
    expect_sound(s);
    cr_assert_not_null(t);
    cr_assert_eq(tn_tensor_dtype(t), dtype, "%s", tn_dtype_name(tn_tensor_dtype(t)));
    cr_assert_eq(tn_tensor_rank(t), sizes.count);
    for (int64_t d = 0; d < sizes.count; d++) cr_assert_eq(tn_tensor_size(t, d), sizes.data[d]);
}

/* ---- IDX --------------------------------------------------------------------------------------------------- */

Test(idx, matrices)
{
    tn_tensor *t = tn_idx_read(s, FILE_OF(0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255));
    expect_shape(t, TN_UINT8, TN_INTS(2, 3));
    EXPECT(s, t, 1, 2, 3, 4, 5, 255);
    t = tn_idx_read(s, FILE_OF(0, 0, 0x0b, 1, 0, 0, 0, 2, 1, 2, 0xff, 0xfe)); /* big-endian */
    expect_shape(t, TN_INT16, TN_INTS(2));
    EXPECT(s, t, 258, -2);
    t = tn_idx_read(s, FILE_OF(0, 0, 0x0d, 1, 0, 0, 0, 1, 0xc0, 0x20, 0, 0));
    expect_shape(t, TN_FLOAT32, TN_INTS(1));
    EXPECT(s, t, -2.5);
}

Test(idx, damaged_files_are_named)
{
    tn_idx_read(s, "/nowhere/file");
    cr_assert_eq(tn_scope_failed(s), TN_E_NOT_FOUND);
    expect_error(s, "idx: '/nowhere/file': No such file");
    tn_idx_read(s, FILE_OF(1, 0, 8, 1));
    expect_error(s, "it is not an IDX file");
    tn_idx_read(s, FILE_OF(0, 0));
    expect_error(s, "it ends within its first four bytes");
    tn_idx_read(s, FILE_OF(0, 0, 0x0a, 1));
    expect_error(s, "0x0a is not a type of elements");
    tn_idx_read(s, FILE_OF(0, 0, 8, 0));
    expect_error(s, "it has 0 dimensions");
    tn_idx_read(s, FILE_OF(0, 0, 8, 200));
    expect_error(s, "it has 200 dimensions");
    tn_idx_read(s, FILE_OF(0, 0, 8, 1, 0, 0));
    expect_error(s, "it ends within the sizes");
    tn_idx_read(s, FILE_OF(0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255));
    expect_error(s, "its sizes are too large");
    tn_idx_read(s, FILE_OF(0, 0, 8, 2, 0, 255, 255, 255, 255, 255, 255, 255)); /* takes no memory for it */
    expect_error(s, "it ends within the elements");
    tn_idx_read(s, FILE_OF(0, 0, 8, 1, 0, 0, 0, 3, 1, 2));
    expect_error(s, "it ends within the elements");
    tn_idx_read(s, NULL);
    expect_error(s, "argument 'path'");
}

/* ---- NumPy ------------------------------------------------------------------------------------------------- */

Test(npy, every_kind_of_array)
{
    tn_tensor *t = tn_npy_read(s, path_of("float32.npy"));
    expect_shape(t, TN_FLOAT32, TN_INTS(2, 3));
    EXPECT(s, t, 1, -2, 3.5, 4, 5, 6);
    t = tn_npy_read(s, path_of("fortran.npy"));
    expect_shape(t, TN_INT16, TN_INTS(2, 3));
    EXPECT(s, t, 1, 2, 3, 4, 5, -6);
    t = tn_npy_read(s, path_of("big.npy"));
    expect_shape(t, TN_FLOAT64, TN_INTS(2));
    EXPECT(s, t, 1.5, -2.25);
    t = tn_npy_read(s, path_of("bools.npy"));
    expect_shape(t, TN_BOOL, TN_INTS(3));
    EXPECT(s, t, 1, 0, 1);
    t = tn_npy_read(s, path_of("half.npy"));
    expect_shape(t, TN_FLOAT16, TN_INTS(2));
    EXPECT(s, t, 0.5, 65504);
    t = tn_npy_read(s, path_of("complex.npy"));
    expect_shape(t, TN_COMPLEX128, TN_INTS(2));
    EXPECT(s, tn_view_as_real(s, t), 1, 2, 0, -3);
    t = tn_npy_read(s, path_of("scalar.npy"));
    expect_shape(t, TN_INT64, (tn_ints){NULL, 0});
    EXPECT(s, t, -7);
    expect_shape(tn_npy_read(s, path_of("empty.npy")), TN_UINT32, TN_INTS(0, 3));
}

Test(npy, archives)
{
    tn_named_tensors all = tn_npz_read(s, path_of("arrays.npz"));
    expect_sound(s);
    cr_assert_eq(all.count, 2);
    cr_assert_str_eq(all.data[0].name, "weight");
    cr_assert_str_eq(all.data[1].name, "bias");
    EXPECT(s, all.data[0].tensor, 1, -2, 3.5, 4, 5, 6);
    EXPECT(s, all.data[1].tensor, 1.5, -2.25);
}

Test(npy, what_is_not_numbers_is_refused)
{
    tn_npy_read(s, path_of("objects.npy"));
    expect_error(s, "its elements are '|O'");
    tn_npy_read(s, path_of("texts.npy"));
    expect_error(s, "its elements are '<U2'");
    tn_npy_read(s, path_of("grey.png"));
    expect_error(s, "it is not a file of NumPy");
    tn_npz_read(s, path_of("grey.png"));
    expect_error(s, "it is not a zip archive");
    tn_npy_read(s, "/nowhere/a.npy");
    cr_assert_eq(tn_scope_failed(s), TN_E_NOT_FOUND);
    expect_error(s, "npy: '/nowhere/a.npy': No such file");
    cr_assert_null(tn_npz_read(s, "/nowhere/a.npz").data);
    cr_assert_eq(tn_scope_failed(s), TN_E_NOT_FOUND);
    expect_error(s, "npz: '/nowhere/a.npz': No such file");
}

/* The writer's file is, byte for byte, the one of NumPy. */
Test(npy, what_is_written_is_what_numpy_writes)
{
    static const char *const names[] = {"float32.npy", "bools.npy",  "half.npy",
                                        "complex.npy", "scalar.npy", "empty.npy"};
    char path[64];
    snprintf(path, sizeof path, "/tmp/tenon_npy_%d", (int)getpid());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t want_size, size;
        uint8_t *want = contents(path_of(names[i]), &want_size);
        cr_assert_eq(tn_npy_save(s, path, tn_npy_read(s, path_of(names[i]))), TN_OK);
        uint8_t *have = contents(path, &size);
        cr_assert_eq(size, want_size, "%s: %zu bytes", names[i], size);
        cr_assert_arr_eq(have, want, size, "%s", names[i]);
        free(want);
        free(have);
    }
    unlink(path);
    cr_assert_eq(tn_npy_save(s, "/nowhere/a.npy", tn_ones(s, TN_INTS(1))), TN_E_IO);
    expect_error(s, "it cannot be written: No such file");
    struct stat there;
    cr_assert_eq(tn_npy_save(s, "/dev/full", tn_ones(s, TN_INTS(1))), TN_E_IO);
    cr_assert(stat("/dev/full", &there) == 0 && S_ISCHR(there.st_mode), "a device stays one");
    expect_error(s, "No space left");
    cr_assert_eq(tn_npy_save(s, path, tn_ones(s, TN_INTS(1), .dtype = TN_BFLOAT16)), TN_E_UNSUPPORTED);
    expect_error(s, "NumPy has no dtype bfloat16");
}

/* The status of what has just been read: a failure has a message. */
static int32_t read_status(void)
{
    int32_t status = tn_scope_failed(s);
    cr_assert(!status || tn_scope_error(s)->message[0]);
    tn_scope_clear(s);
    return status;
}

static int32_t read_npy(const uint8_t *bytes, size_t count)
{
    tn_npy_read(s, file_of(bytes, count));
    return read_status();
}

static int32_t read_npz(const uint8_t *bytes, size_t count)
{
    tn_npz_read(s, file_of(bytes, count));
    return read_status();
}

Test(npy, damaged_files)
{
    static const char *const names[] = {"float32.npy", "fortran.npy", "bools.npy", "complex.npy"};
    size_t count;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint8_t *bytes = contents(path_of(names[i]), &count);
        fuzz(bytes, count, 1500, 200, read_npy);
        free(bytes);
    }
    uint8_t *bytes = contents(path_of("arrays.npz"), &count);
    fuzz(bytes, count, 1500, 500, read_npz);
    free(bytes);
}

/* Headers as an attacker writes them. */
Test(npy, hostile_headers)
{
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9223372036854775807), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4444444444444444444444', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } __import__('os')",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
        "",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        uint8_t bytes[256] = "\x93NUMPY\1\0";
        bytes[8] = (uint8_t)strlen(headers[i]);
        memcpy(bytes + 10, headers[i], strlen(headers[i]));
        cr_assert_neq(read_npy(bytes, 10 + strlen(headers[i])), TN_OK, "%s", headers[i]);
    }
}

/* ---- CSV --------------------------------------------------------------------------------------------------- */

#define CSV(text, ...) tn_csv_read(s, file_of(text, sizeof(text) - 1), __VA_ARGS__)

Test(csv, lines_of_numbers)
{
    tn_tensor *t = CSV("a,b,c\n1, 2.5 ,\"-3e2\"\r\n\n4,,inf", .skip_lines = 1);
    expect_shape(t, TN_FLOAT64, TN_INTS(2, 3));
    EXPECT(s, t, 1, 2.5, -300, 4, NAN, INFINITY);
    t = CSV("1;2;3\n4;5;6\n", .delimiter = ';', .columns = TN_INTS(2, 0), .dtype = TN_FLOAT32);
    expect_shape(t, TN_FLOAT32, TN_INTS(2, 2));
    EXPECT(s, t, 3, 1, 6, 4);
    t = CSV("9007199254740993\t-1\n", .delimiter = '\t', .dtype = TN_INT64); /* 2^53 + 1 */
    expect_shape(t, TN_INT64, TN_INTS(1, 2));
    cr_assert_eq(*(int64_t *)tn_tensor_data(t), 9007199254740993);
    expect_shape(CSV("heading\n", .skip_lines = 1), TN_FLOAT64, TN_INTS(0, 0));
    t = CSV("18446744073709551615\n0\n", .dtype = TN_UINT64);
    expect_shape(t, TN_UINT64, TN_INTS(2, 1));
    cr_assert_eq(*(uint64_t *)tn_tensor_data(t), UINT64_MAX);
    EXPECT(s, CSV("-128,127\n", .dtype = TN_INT8), -128, 127);
    EXPECT(s, CSV("255,0\n", .dtype = TN_UINT8), 255, 0);
    EXPECT(s, CSV("300,0\n", .dtype = TN_BOOL), 1, 0);
    expect_shape(CSV("1\n", .dtype = TN_COMPLEX128), TN_COMPLEX128, TN_INTS(1, 1));
    EXPECT(s,
           CSV("\xef\xbb\xbf"
               "7,8\n",
               .dtype = TN_INT64),
           7, 8); /* as spreadsheets write UTF-8 */
}

Test(csv, integers_that_the_dtype_does_not_have)
{
    static const struct {
        const char *text, *error;
        tn_dtype dtype;
    } refused[] = {{"99999999999999999999\n", "outside the range of int64: '99999999999999999999'", TN_INT64},
                   {"1,2\n255,256\n", "line 2, column 1: outside the range of uint8: '256'", TN_UINT8},
                   {"-1\n", "outside the range of uint32: '-1'", TN_UINT32},
                   {"-129\n", "outside the range of int8: '-129'", TN_INT8}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        tn_csv_read(s, file_of(refused[i].text, strlen(refused[i].text)), .dtype = refused[i].dtype);
        expect_error(s, refused[i].error);
    }
}

Test(csv, errors_name_line_and_column)
{
    CSV("1,2\n3,x4\n", .dtype = TN_FLOAT32);
    expect_error(s, "line 2, column 1: not a number: 'x4'");
    CSV("1,2\n3\n", .dtype = TN_FLOAT32);
    expect_error(s, "line 2 has 1 columns (expected 2)");
    CSV("1,2.5\n", .dtype = TN_INT64);
    expect_error(s, "line 1, column 1: not an integer: '2.5'");
    CSV("1,\n", .dtype = TN_INT64);
    expect_error(s, "an integer is missing");
    CSV("1,2\n", .columns = TN_INTS(2));
    expect_error(s, "there is no column 2 (the file has 2)");
    CSV("1,2\n\0", .dtype = 0);
    expect_error(s, "it is not a text");
    tn_csv_read(s, "/nowhere/a.csv");
    cr_assert_eq(tn_scope_failed(s), TN_E_NOT_FOUND);
    expect_error(s, "csv: '/nowhere/a.csv': No such file");
    tn_csv_read(s, "/");
    expect_error(s, "it is not a regular file");
}

/* ---- Raw --------------------------------------------------------------------------------------------------- */

Test(raw, elements_of_a_file)
{
    const char *path = FILE_OF(9, 9, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 255, 255);
    tn_tensor *t = tn_raw_map(s, path, TN_INT16, TN_INTS(-1, 3), 2);
    expect_shape(t, TN_INT16, TN_INTS(2, 3));
    EXPECT(s, t, 1, 2, 3, 4, 5, -1);
    ((int16_t *)tn_tensor_data(t))[0] = 7; /* in this process alone */
    EXPECT(s, tn_raw_map(s, path, TN_INT16, TN_INTS(1), 2), 1);
    tn_raw_map(s, path, TN_INT16, TN_INTS(-1, 4), 2);
    expect_error(s, "its 12 bytes are not a multiple of 8");
    tn_raw_map(s, path, TN_INT16, TN_INTS(7), 2);
    expect_error(s, "it has 12 bytes from the offset on (expected 14)");
    tn_raw_map(s, path, TN_INT16, TN_INTS(1), 1);
    expect_error(s, "argument 'offset'");
    tn_raw_map(s, path, TN_INT16, TN_INTS(1), 16);
    expect_error(s, "fewer than the offset 16");
    tn_raw_map(s, path, TN_INT16, TN_INTS(-2), 0);
    expect_error(s, "argument 'sizes'");
    tn_raw_map(s, path, 12345, TN_INTS(1), 0);
    expect_error(s, "argument 'dtype'");
    tn_raw_map(s, "/nowhere/a", TN_INT16, TN_INTS(1), 0);
    cr_assert_eq(tn_scope_failed(s), TN_E_NOT_FOUND);
    expect_error(s, "raw: '/nowhere/a': No such file");
}
