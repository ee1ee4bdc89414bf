/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that a test changes while threads of a driver read others: ../environment.c. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS  2000
#define READERS 3

static atomic_int is_over, missed;

static void *read_variables(void *data)
{
    while (!atomic_load(&is_over)) {
        const char *text = getenv("TEST_STAYS");
        if (!text || strcmp(text, "here") != 0) atomic_fetch_add(&missed, 1);
        (void)getenv("TEST_ABSENT");
    }
    return NULL;
}

Test(environment, a_variable_is_found_while_others_change, .timeout = 60)
{
    pthread_t readers[READERS];
    char name[32];
    cr_assert_eq(setenv("TEST_FIRST", "1", 1), 0);
    cr_assert_eq(setenv("TEST_STAYS", "here", 1), 0);
    for (int i = 0; i < READERS; i++)
        cr_assert_eq(pthread_create(&readers[i], NULL, read_variables, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof name, "TEST_%d", i);
        setenv(name, "a", 1); /* one more, for which the array grows */
        unsetenv("TEST_FIRST");
        setenv("TEST_FIRST", name, 1);
        setenv(name, "b", 1);
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < READERS; i++) pthread_join(readers[i], NULL);
    cr_expect_eq(atomic_load(&missed), 0);
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(name, sizeof name, "TEST_%d", i);
        cr_assert_str_eq(getenv(name), "b");
    }
    cr_expect_str_eq(getenv("TEST_FIRST"), "TEST_1999");
}

Test(environment, means_what_the_standard_says)
{
    cr_assert_eq(setenv("TEST_A", "1", 0), 0);
    cr_assert_eq(setenv("TEST_A", "2", 0), 0);
    cr_expect_str_eq(getenv("TEST_A"), "1");
    cr_assert_eq(setenv("TEST_A", "", 1), 0);
    cr_expect_str_eq(getenv("TEST_A"), "");
    cr_assert_eq(unsetenv("TEST_A"), 0);
    cr_expect_null(getenv("TEST_A"));
    cr_assert_eq(unsetenv("TEST_A"), 0);
    cr_assert_eq(setenv("TEST_AB", "3", 1), 0);
    cr_expect_null(getenv("TEST_A"));
    errno = 0;
    cr_expect_eq(setenv("TEST=A", "4", 1), -1);
    cr_expect_eq(errno, EINVAL);
    cr_expect_eq(setenv("", "4", 1), -1);
    cr_expect_eq(unsetenv("TEST=A"), -1);
}
