/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens OpenBLAS and fills the table of its functions. Debian has three builds of one soname: the OpenMP
 * build is preferred, and a build with its own threads is set to one thread. An OpenBLAS that is older than the
 * processor may take it for one without AVX-512; then it is told which kernels to use.
 */
#include "openblas.h"
#include "support/cpu.h"
#include "support/limits.h"
#include "support/users.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cpu_openblas table;
static const cpu_openblas *_Atomic opened;
static cpu_users users;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char description[512];

/* dlsym returns a data pointer; memcpy turns it into a function pointer. */
static int find(void *library, const char *name, void *out_function)
{
    void *address = dlsym(library, name);
    memcpy(out_function, &address, sizeof(address));
    return address != NULL;
}

/* `config` begins with name and version: "OpenBLAS 0.3.21 DYNAMIC_ARCH USE_OPENMP ...". */
static void describe(void *library)
{
    const char *(*get_config)(void) = NULL, *(*get_corename)(void) = NULL;
    const char *config = "OpenBLAS (version unknown)", *core = "unknown", *file = "";
    Dl_info place;
    if (find(library, "openblas_get_config", &get_config)) config = get_config();
    if (find(library, "openblas_get_corename", &get_corename)) core = get_corename();
    if (dladdr((void *)(uintptr_t)get_config, &place) && place.dli_fname) file = place.dli_fname;
    size_t name = strcspn(config, " ");
    size_t version = name + (config[name] ? 1 + strcspn(config + name + 1, " ") : 0);
    snprintf(description, sizeof description, "%.*s, core type %s, %s: %s", (int)version, config, core,
             table.omp_set_num_threads ? "threads of OpenMP" : "one thread", file);
}

/* ---- Core type --------------------------------------------------------------------------------------- */

#define SONAME    "libopenblas.so.0"
#define CORE_TYPE "OPENBLAS_CORETYPE"

void *cpu_openblas_open_as(const char *core)
{
    static char **changed,
        setting[64]; /* never freed: other threads may still read the environment from it */
    char **before = environ;
    size_t count = 0;
    void *library;
    while (before && before[count]) count++;
    changed = calloc(count + 2, sizeof *changed);
    if (!changed) return dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    snprintf(setting, sizeof setting, CORE_TYPE "=%s", core);
    if (count) memcpy(changed, before, count * sizeof *changed);
    changed[count] = setting;
    environ = changed;
    library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (environ == changed)
        environ = before;
    else
        unsetenv(CORE_TYPE); /* another thread has meanwhile set a variable, in a copy of `changed` */
    return library;
}

static bool has_bfloat16(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

/* Whether the library does without AVX-512, which the level and the user allow. */
static bool is_narrow(void *library)
{
    static const char *const wide[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    const char *(*get_corename)(void) = NULL, *user = getenv(CORE_TYPE);
    if ((user && *user) || cpu_level() != CPU_LEVEL_AVX512) return false;
    if (!find(library, "openblas_get_corename", &get_corename)) return false;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (strcmp(get_corename(), wide[i]) == 0) return false;
    return true;
}

/* The core type to ask for, or NULL if the library's own choice is good, or the user's. */
static const char *better_core(void *library)
{
    if (!is_narrow(library)) return NULL;
    /* OpenBLAS would write to stderr about a name that it does not have. */
    if (has_bfloat16() && dlsym(library, "gotoblas_COOPERLAKE")) return "COOPERLAKE";
    return dlsym(library, "gotoblas_SKYLAKEX") ? "SKYLAKEX" : NULL;
}

static void *open_with_best_core(void)
{
    void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    const char *core = library ? better_core(library) : NULL;
    if (!core) return library;
    /* The library reads the variable when it is loaded, so it is loaded once more. Where something else holds it,
     * it stays as it is. */
    dlclose(library);
    return cpu_openblas_open_as(core);
}

/* ---- Opening ----------------------------------------------------------------------------------------- */

/* OpenBLAS unmaps its memory in its own destructor, which runs after those of libraries that were loaded before it. */
static __attribute__((destructor)) void process_ends(void)
{
    atomic_store(&opened, NULL);
    cpu_users_close(&users);
}
static void process_has_forked(void)
{
    cpu_users_forget(&users);
}

static void open_library(void)
{
    void (*set_num_threads)(int) = NULL;
    int (*get_parallel)(void) = NULL;
    void *library;
    if (cpu_memory_is_tight()) { /* it would try for ever to get its buffers */
        snprintf(description, sizeof description, "OpenBLAS is not used: " CPU_MEMORY_IS_TIGHT);
        return;
    }
    library = open_with_best_core();
    if (!library) {
        snprintf(description, sizeof description, "OpenBLAS is absent: %s", dlerror());
        return;
    }
    if (!find(library, "cblas_sgemm", &table.sgemm) || !find(library, "cblas_dgemm", &table.dgemm) ||
        !find(library, "cblas_cgemm", &table.cgemm) || !find(library, "cblas_zgemm", &table.zgemm)) {
        snprintf(description, sizeof description, "OpenBLAS is not used: libopenblas.so.0 lacks cblas_?gemm");
        dlclose(library);
        return;
    }
    find(library, "openblas_get_parallel", &get_parallel);
    if (get_parallel && get_parallel() == 2) {
        find(library, "omp_set_num_threads", &table.omp_set_num_threads);
        find(library, "omp_get_max_threads", &table.omp_get_max_threads);
    } else if (find(library, "openblas_set_num_threads", &set_num_threads)) {
        set_num_threads(1);
    }
    if (!table.omp_get_max_threads) table.omp_set_num_threads = NULL;
    table.is_narrow = is_narrow(library);
    describe(library);
    if (pthread_atfork(NULL, NULL, process_has_forked) != 0) return;
    atomic_store(&opened, &table);
}

const cpu_openblas *cpu_openblas_get(void)
{
    pthread_once(&once, open_library);
    return atomic_load_explicit(&opened, memory_order_acquire);
}

const char *cpu_openblas_describe(void)
{
    cpu_openblas_get();
    return description;
}

int cpu_openblas_begin(const cpu_openblas *blas)
{
    int threads;
    if (!cpu_users_enter(&users)) return -1;
    if (!blas->omp_set_num_threads) return 0;
    threads = blas->omp_get_max_threads();
    if (threads != 1) blas->omp_set_num_threads(1);
    return threads;
}

void cpu_openblas_end(const cpu_openblas *blas, int token)
{
    if (blas->omp_set_num_threads && token != 1) blas->omp_set_num_threads(token);
    cpu_users_leave(&users);
}
