/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the tables of LAPACK from the library that openblas.c has opened. */
#include "lapack.h"
#include "openblas.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static cpu_lapack tables[4];
static bool filled;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Symbols are the prefix of the dtype, the routine, and an underscore. */
static bool find(void *library, char prefix, const char *name, void *out_function)
{
    char symbol[16];
    size_t length = strlen(name);
    symbol[0] = prefix;
    memcpy(symbol + 1, name, length);
    memcpy(symbol + 1 + length, "_", 2);
    void *address = dlsym(library, symbol);
    memcpy(out_function, &address, sizeof(address));
    return address != NULL;
}

static bool fill_real(void *library, char prefix, cpu_lapack *t)
{
    bool found = true;
#define FIND(real_name, complex_name, arguments) \
    found = found && (strncmp(#real_name, "he", 2) == 0 || find(library, prefix, #real_name, &t->real_name));
    CPU_LAPACK_ROUTINES(FIND)
#undef FIND
#define FIND(name, arguments) found = found && find(library, prefix, #name, &t->for_real.name);
    CPU_LAPACK_REAL_ROUTINES(FIND)
#undef FIND
    /* Real dtypes have symmetric routines in place of the hermitian ones. */
    t->hetrf = t->sytrf;
    t->hetrs = t->sytrs;
    return found;
}

static bool fill_complex(void *library, char prefix, cpu_lapack *t)
{
    bool found = true;
#define FIND(real_name, complex_name, arguments) \
    found = found && find(library, prefix, #complex_name, &t->real_name);
    CPU_LAPACK_ROUTINES(FIND)
#undef FIND
#define FIND(name, arguments) found = found && find(library, prefix, #name, &t->for_complex.name);
    CPU_LAPACK_COMPLEX_ROUTINES(FIND)
#undef FIND
    return found;
}

static void fill(void)
{
    void *library = cpu_openblas_get() ? dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL) : NULL;
    filled = library && fill_real(library, 's', &tables[0]) && fill_real(library, 'd', &tables[1]) &&
             fill_complex(library, 'c', &tables[2]) && fill_complex(library, 'z', &tables[3]);
}

const cpu_lapack *cpu_lapack_get(int which)
{
    pthread_once(&once, fill);
    return filled ? &tables[which] : NULL;
}
