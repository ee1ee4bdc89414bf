/* SPDX-License-Identifier: Apache-2.0 */
/* The file that keeps which library computes a product: a damaged one is ignored and replaced. */
#include "cpu_nn.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { M = 96, N = 130, K = 90, MOST = 8192 };

static char folder[] = "/tmp/tenon_products_XXXXXX", path[96];

static int32_t give_folder(void *context, const char *name, char *out, uint32_t bytes)
{
    (void)context;
    snprintf(out, bytes, "%s", folder);
    return strcmp(name, "cpu") ? TN_E_ARGUMENT : TN_OK;
}

/* The largest error of a + A B, where bits 0 and 1 of `way` transpose A and B; NAN if the call fails. */
static double error_of_way(int way)
{
    fixture f;
    double worst = 0;
    fixture_cache_folder = give_folder;
    fixture_open(&f);
    f.host.cache_folder = NULL; /* kernels may not ask for it */
    bool left = way & 1, right = way & 2;
    fixture_tensor a = nn_tensor(&f, 2, left ? SIZES(K, M) : SIZES(M, K), 1),
                   b = nn_tensor(&f, 2, right ? SIZES(N, K) : SIZES(K, N), 2),
                   add = nn_tensor(&f, 1, SIZES(N), 3), out = nn_tensor(&f, 2, SIZES(M, N), 0);
    const float *x = a.desc.host, *y = b.desc.host, *z = out.desc.host, *bias = add.desc.host;
    if (left) a = nn_transposed(&a, 0, 1);
    if (right) b = nn_transposed(&b, 0, 1);
    tn_value args[] = {fixture_value(&add), fixture_value(&a), fixture_value(&b), tn_value_int(1),
                       tn_value_int(1)},
             outs[] = {fixture_value(&out)};
    if (nn_run(&f, "aten::addmm", args, COUNT(args), outs, 1, 1, 0)) return NAN;
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            double sum = (double)bias[j];
            for (int p = 0; p < K; p++)
                sum += (double)x[left ? p * M + i : i * K + p] * (double)y[right ? j * K + p : p * N + j];
            worst = fmax(worst, fabs(sum - (double)z[i * N + j]));
        }
    }
    fixture_close(&f);
    return worst;
}

/* The largest error of products of classes that are measured, NAN if a call fails. */
static double error_of_product(void)
{
    double worst = 0;
    for (int way = 0; way < 4; way++) {
        double error = error_of_way(way);
        worst = error <= worst ? worst : error; /* NaN stays */
    }
    return worst;
}

/* In a process of its own, because a process reads the file once. */
static void expect_product(const char *what)
{
    int status = 0;
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (!child) _exit(error_of_product() <= 1e-4 ? 0 : 1);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %d", what, status);
}

/* How many files there are; `path` is then that of the first. */
static size_t find_files(void)
{
    glob_t found;
    char pattern[64];
    snprintf(pattern, sizeof pattern, "%s/products-*", folder);
    size_t count = glob(pattern, 0, NULL, &found) ? 0 : found.gl_pathc;
    if (count) snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
    if (count) globfree(&found);
    return count;
}

static size_t read_file(char *out)
{
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(out, 1, MOST, file) : 0;
    if (file) fclose(file);
    return length;
}

static void write_file(const char *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

Test(cpu_nn_product_cache, damaged_files_are_ignored_and_replaced)
{
    static char good[MOST], bad[MOST], found[MOST];
    cr_assert_not_null(mkdtemp(folder));
    setenv("TENON_CPU_TUNE", "1", 1);
    expect_product("no file");
    cr_assert_eq(find_files(), 1);
    size_t length = read_file(good);
    cr_assert_gt(length, 100);
    cr_assert_lt(length, MOST / 2);
    size_t choices = length; /* after the last line */
    while (choices && good[choices - 1] != '\n') choices--;
    struct {
        const char *what;
        size_t length, from; /* bytes that are kept, and from where on the file is damaged */
        char byte;
    } const damages[] = {
        {"empty", 0, 0, 0},
        {"one byte", 1, 1, 0},
        {"half of the file", length / 2, length, 0},
        {"one byte less", length - 1, length, 0},
        {"one byte more", length + 1, length, '1'},
        {"much more", MOST, length, '1'},
        {"another processor", length, 0, 'x'},
        {"zero bytes", length, 0, 0},
        {"choices that do not exist", length, choices, '7'},
        {"choices that are not digits", length, choices, (char)0xff},
    };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        memcpy(bad, good, MOST);
        for (size_t j = damages[i].from; j < damages[i].length; j++) bad[j] = damages[i].byte;
        write_file(bad, damages[i].length);
        expect_product(damages[i].what);
        cr_expect_eq(read_file(found), length, "%s", damages[i].what);
        for (size_t j = choices; j < length; j++)
            cr_expect(found[j] >= '0' && found[j] <= '3', "%s: byte %zu is %d", damages[i].what, j, found[j]);
    }
    for (char library = '1'; library <= '3'; library++) {
        memcpy(bad, good, length);
        memset(bad + choices, library, length - choices);
        write_file(bad, length);
        expect_product("one library for all");
        cr_expect_eq(read_file(found), length);
        cr_expect_arr_eq(found, bad, length, "choices that are kept are measured again");
    }
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkdir(path, 0700), 0);
    expect_product("a folder");
    cr_assert_eq(rmdir(path), 0);
    cr_expect_eq(rmdir(folder), 0, "a temporary file is left");
}

Test(cpu_nn_product_cache, kernels_of_another_core_have_a_file_of_their_own)
{
    static char first[MOST], again[MOST];
    cr_assert_not_null(mkdtemp(folder));
    setenv("TENON_CPU_TUNE", "1", 1);
    expect_product("this core");
    cr_assert_eq(find_files(), 1);
    size_t length = read_file(first);
    setenv("OPENBLAS_CORETYPE", "Prescott", 1);
    setenv("TENON_CPU_LEVEL", "base", 1);
    bool is_base = strstr(first, "level 0\n") != NULL;
    char kept[sizeof path];
    memcpy(kept, path, sizeof path);
    expect_product("another core");
    if (!is_base) cr_expect_eq(find_files(), 2);
    memcpy(path, kept, sizeof path);
    cr_expect_eq(read_file(again), length);
    if (!is_base) cr_expect_arr_eq(again, first, length, "the file of this core has changed");
    while (find_files()) cr_assert_eq(unlink(path), 0);
    cr_expect_eq(rmdir(folder), 0);
}
