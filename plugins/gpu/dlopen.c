/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libraries of vendors at run time, and tells a library that is absent from one that cannot be loaded. */
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Whether dlerror says of the name itself that no folder has it. A file that was found is named with its folder, and a library
 * that it needs has another name. */
static int32_t is_absent(const char *name, const char *said)
{
    const char *missing = strerror(ENOENT);
    const size_t n = strlen(name), length = strlen(said), end = strlen(missing);
    return length >= n + end && strncmp(said, name, n) == 0 && said[n] == ':' &&
           strcmp(said + length - end, missing) == 0;
}

void *gpu_dlopen(const char *name, char *reason, size_t size)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const char *said = library ? NULL : dlerror();
    reason[0] = 0;
    if (said && !is_absent(name, said)) snprintf(reason, size, "%s cannot be loaded: %s", name, said);
    return library;
}

void *gpu_load(gpu_found *found, const char *name, const char *absent)
{
    void *library = gpu_dlopen(name, found->reason, sizeof found->reason);
    if (!library && !found->reason[0]) snprintf(found->reason, sizeof found->reason, "%s", absent);
    return library;
}
