/* SPDX-License-Identifier: Apache-2.0 */
/* IDX files: what is read, and what each damage is called. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "suite.h"
#include "idx.h"

TestSuite(idx, .init = begin);

/* Writes the bytes to a file, reads it. */
static tn_tensor *read_bytes(const unsigned char *bytes, size_t count)
{
    char path[] = "/tmp/tenon_idx_XXXXXX";
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    cr_assert_eq(write(file, bytes, count), (ssize_t)count);
    close(file);
    tn_tensor *t = data_read_idx(s, path);
    unlink(path);
    return t;
}
#define READ(...) \
    read_bytes((const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__}))

Test(idx, a_matrix)
{
    tn_tensor *t = READ(0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255);
    EXPECT(s, t, 1, 2, 3, 4, 5, 255);
    cr_assert_eq(tn_tensor_dtype(t), TN_UINT8);
    cr_assert_eq(tn_tensor_rank(t), 2);
    cr_assert_eq(tn_tensor_size(t, 1), 3);
    end();
}

Test(idx, damaged_files_are_named)
{
    data_read_idx(s, "/nowhere/file");
    expect_error(s, "idx: /nowhere/file: cannot be opened");
    READ(1, 0, 8, 1);
    expect_error(s, "not an IDX file");
    READ(0, 0);
    expect_error(s, "not an IDX file");
    READ(0, 0, 9, 1);
    expect_error(s, "elements are not unsigned bytes");
    READ(0, 0, 8, 0);
    expect_error(s, "the rank is not 1 to 4");
    READ(0, 0, 8, 5);
    expect_error(s, "the rank is not 1 to 4");
    READ(0, 0, 8, 1, 0, 0);
    expect_error(s, "truncated within the sizes");
    READ(0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255);
    expect_error(s, "larger than 1 GiB");
    READ(0, 0, 8, 1, 0, 0, 0, 3, 1, 2);
    expect_error(s, "truncated");
    end();
}
