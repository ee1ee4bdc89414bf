/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a child process that a test has started. */
#ifndef TESTS_CORE_CHILD_H
#define TESTS_CORE_CHILD_H

#include <criterion/criterion.h>
#include <sys/wait.h>

/* The child exits with 0. */
static inline void expect_success_of(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0, "it ended with %d", WEXITSTATUS(status));
}

#endif
