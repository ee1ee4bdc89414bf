/* SPDX-License-Identifier: Apache-2.0 */
/* Parameterised tests over a table: each test gets the number of a row. */
#ifndef TESTS_CORE_ROWS_H
#define TESTS_CORE_ROWS_H

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

/* Fills `rows`, which must be static, with 0 to count-1: the parameters of a test. */
static inline struct criterion_test_params row_numbers(int *rows, int count)
{
    for (int i = 0; i < count; i++) rows[i] = i;
    return cr_make_param_array(int, rows, (size_t)count);
}

/* A test for each row of an array; its body finds the number of its row in *row. */
#define TEST_OF_ROWS(suite, name, table)                      \
    ParameterizedTestParameters(suite, name)                  \
    {                                                         \
        static int rows[sizeof(table) / sizeof *(table)];     \
        return row_numbers(rows, sizeof rows / sizeof *rows); \
    }                                                         \
    ParameterizedTest(const int *row, suite, name)

#endif
