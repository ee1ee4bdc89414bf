/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setenv and unsetenv of Criterion's tests, in place of the C library's: threads of the drivers for tests call getenv while
 * a test changes variables. The C library's setenv may free the array that getenv reads (glibc before 2.41), and its
 * unsetenv moves entries, so that a reader misses one. Here nothing that getenv may read is freed, and no entry moves.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An entry "NAME=VALUE", kept for ever. */
typedef struct text {
    struct text *next;
    char chars[];
} text;

/* An array of entries, kept for ever; zeros follow the last one. */
typedef struct room {
    struct room *next;
    size_t size;
    char *entries[];
} room;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static text *texts;
static room *rooms;
static char hole[] = "_="; /* where a variable was: shells have one of this name */

static int is_name(const char *name)
{
    if (name && name[0] && !strchr(name, '=')) return 1;
    errno = EINVAL;
    return 0;
}

static char **find(const char *name)
{
    const size_t length = strlen(name);
    for (char **e = environ; e && *e; e++)
        if (*e != hole && !strncmp(*e, name, length) && (*e)[length] == '=') return e;
    return NULL;
}

/* A hole, or the place behind the last entry, for which the array may have to be copied into a larger one. */
static char **find_place(void)
{
    size_t n = 0;
    for (; environ && environ[n]; n++)
        if (environ[n] == hole) return &environ[n];
    if (rooms && environ == rooms->entries && n + 1 < rooms->size) return &environ[n];
    const size_t size = 2 * n + 256;
    room *larger = calloc(1, sizeof *larger + size * sizeof(char *));
    if (!larger) return NULL;
    *larger = (room){.next = rooms, .size = size};
    if (n) memcpy(larger->entries, environ, n * sizeof(char *));
    rooms = larger;
    __atomic_store_n(&environ, larger->entries, __ATOMIC_RELEASE);
    return &environ[n];
}

static int set(const char *name, const char *value)
{
    const size_t length = strlen(name) + strlen(value) + 2;
    char **place = find(name);
    if (!place) place = find_place();
    text *t = place ? malloc(sizeof *t + length) : NULL;
    if (!t) return -1;
    snprintf(t->chars, length, "%s=%s", name, value);
    t->next = texts;
    texts = t;
    __atomic_store_n(place, t->chars, __ATOMIC_RELEASE);
    return 0;
}

__attribute__((visibility("default"))) int setenv(const char *name, const char *value, int overwrite)
{
    if (!is_name(name)) return -1;
    pthread_mutex_lock(&lock);
    int status = find(name) && !overwrite ? 0 : set(name, value);
    pthread_mutex_unlock(&lock);
    return status;
}

__attribute__((visibility("default"))) int unsetenv(const char *name)
{
    if (!is_name(name)) return -1;
    pthread_mutex_lock(&lock);
    for (char **place; (place = find(name));) __atomic_store_n(place, hole, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return 0;
}
