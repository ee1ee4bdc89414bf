/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS with the kernels of another core type: they compute, and the environment stays as it was. */
#include "vendor/openblas.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Test(openblas, opens_with_a_core_type_and_leaves_the_environment)
{
    const char *(*core)(void) = NULL;
    const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
    float c[4] = {0};
    setenv("TENON_TEST_VARIABLE", "kept", 1);
    unsetenv("OPENBLAS_CORETYPE");
    char **before = environ;
    void *library = cpu_openblas_open_as("NEHALEM");
    cr_assert(environ == before);
    cr_assert_null(getenv("OPENBLAS_CORETYPE"));
    cr_assert_str_eq(getenv("TENON_TEST_VARIABLE"), "kept");
    if (!library) cr_skip_test("there is no OpenBLAS");
    void *address = dlsym(library, "openblas_get_corename");
    memcpy(&core, &address, sizeof core);
    if (!core || !dlsym(library, "gotoblas_NEHALEM")) cr_skip_test("this OpenBLAS has one core type");
    cr_assert_str_eq(core(), "Nehalem");

    const cpu_openblas *blas = cpu_openblas_get();
    cr_assert_not_null(blas);
    blas->sgemm(CPU_BLAS_ROW_MAJOR, CPU_BLAS_NO_TRANS, CPU_BLAS_NO_TRANS, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
    cr_assert_float_eq(c[0], 19, 0);
    cr_assert_float_eq(c[3], 50, 0);
    cr_assert_not_null(strstr(cpu_openblas_describe(), "core type Nehalem"));
}

/* The user's choice is not changed. */
Test(openblas, keeps_the_core_type_of_the_environment)
{
    setenv("OPENBLAS_CORETYPE", "NEHALEM", 1);
    const cpu_openblas *blas = cpu_openblas_get();
    if (!blas) cr_skip_test("there is no OpenBLAS");
    if (strstr(cpu_openblas_describe(), "core type unknown")) cr_skip_test("this OpenBLAS has no core types");
    cr_assert_not_null(strstr(cpu_openblas_describe(), "core type Nehalem"));
    cr_assert_str_eq(getenv("OPENBLAS_CORETYPE"), "NEHALEM");
}
