/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens OpenBLAS and fills the table of its functions. Debian has three builds of one soname: the OpenMP
 * build is preferred, and a build with its own threads is set to one thread.
 */
#include "openblas.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static cpu_openblas table;
static const cpu_openblas *opened;
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

static void open_library(void)
{
    void (*set_num_threads)(int) = NULL;
    int (*get_parallel)(void) = NULL;
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
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
    describe(library);
    opened = &table;
}

const cpu_openblas *cpu_openblas_get(void)
{
    pthread_once(&once, open_library);
    return opened;
}

const char *cpu_openblas_describe(void)
{
    cpu_openblas_get();
    return description;
}

int cpu_openblas_begin(const cpu_openblas *blas)
{
    int threads;
    if (!blas->omp_set_num_threads) return 0;
    threads = blas->omp_get_max_threads();
    if (threads != 1) blas->omp_set_num_threads(1);
    return threads;
}

void cpu_openblas_end(const cpu_openblas *blas, int token)
{
    if (blas->omp_set_num_threads && token != 1) blas->omp_set_num_threads(token);
}
