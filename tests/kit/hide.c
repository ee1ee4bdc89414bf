/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded, makes another machine. On it libraries are missing: dlopen fails, as the system does, for names that contain a
 * word of TENON_TEST_HIDE (separated by ':'). It has TENON_TEST_CORES processors, and says each fork.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((visibility("default"))) void *dlopen(const char *name, int flags);
__attribute__((visibility("default"))) long sysconf(int name);
__attribute__((visibility("default"))) pid_t fork(void);

long sysconf(int name)
{
    long (*real)(int);
    void *address = dlsym(RTLD_NEXT, "sysconf");
    const char *cores = getenv("TENON_TEST_CORES");
    memcpy(&real, &address, sizeof real);
    return cores && name == _SC_NPROCESSORS_ONLN ? atol(cores) : real(name);
}

pid_t fork(void)
{
    pid_t (*real)(void);
    void *address = dlsym(RTLD_NEXT, "fork");
    memcpy(&real, &address, sizeof real);
    if (getenv("TENON_TEST_CORES")) fputs("a fork\n", stderr);
    return real();
}

void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int);
    void *address = dlsym(RTLD_NEXT, "dlopen");
    const char *word = getenv("TENON_TEST_HIDE");
    char absent[512];
    memcpy(&real, &address, sizeof real);
    while (name && word && *word) {
        size_t length = strcspn(word, ":");
        if (memmem(name, strlen(name), word, length)) {
            snprintf(absent, sizeof absent, "%s.is-not-here", name); /* the system says so itself */
            return real(absent, flags);
        }
        word += length + (word[length] == ':');
    }
    return real(name, flags);
}
