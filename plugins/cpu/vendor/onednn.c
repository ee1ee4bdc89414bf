/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens oneDNN and fills the table of its functions. Only builds with OpenMP are taken: their number of
 * threads is a property of the calling thread and can be set for one call.
 */
#include "onednn.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

static cpu_onednn table;
static const cpu_onednn *opened;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* dlsym gives a data pointer where a function pointer is meant; memcpy is the way between the two. */
static int find(void *library, const char *name, void *out_function)
{
    void *address = dlsym(library, name);
    memcpy(out_function, &address, sizeof(address));
    return address != NULL;
}

static int find_all(void *library)
{
    int found = find(library, "omp_set_num_threads", &table.omp_set_num_threads) &&
                find(library, "omp_get_max_threads", &table.omp_get_max_threads);
#define FIND(name) found = found && find(library, "dnnl_" #name, &table.name);
    CPU_ONEDNN_FUNCTIONS(FIND)
#undef FIND
    return found;
}

/* The library is kept once its code has run: it has threads and objects that live as long as the process. */
static void open_library(void)
{
    void *library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    if (!find_all(library)) {
        dlclose(library);
        return;
    }
    if (table.engine_create(&table.engine, dnnl_cpu, 0) != dnnl_success) return;
    if (table.primitive_attr_create(&table.attr) != dnnl_success) return;
    if (table.primitive_attr_set_scratchpad_mode(table.attr, dnnl_scratchpad_mode_user) != dnnl_success)
        return;
    opened = &table;
}

const cpu_onednn *cpu_onednn_get(void)
{
    pthread_once(&once, open_library);
    return opened;
}

int cpu_onednn_begin(const cpu_onednn *dnn, int32_t threads)
{
    int before = dnn->omp_get_max_threads();
    int wanted = threads > 0 ? threads : 1;
    if (wanted != before) dnn->omp_set_num_threads(wanted);
    return before;
}

void cpu_onednn_end(const cpu_onednn *dnn, int token)
{
    if (dnn->omp_get_max_threads() != token) dnn->omp_set_num_threads(token);
}
