/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded, makes a machine on which libraries are missing: dlopen fails, as the system does, for names that
 * contain a word of TENON_TEST_HIDE (separated by ':').
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) void *dlopen(const char *name, int flags);

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
