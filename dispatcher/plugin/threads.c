/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over tasks and their stacks; see threads.h. */
#include "dispatcher/plugin/threads.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long to wait for a thread that was told to end and is not joined. */
#define ROUNDS            10
#define ROUND_NANOSECONDS 1000000L
/* The top of a stack may hold stale return addresses of earlier calls into the library, so it is skipped; the start
 * routine of a thread is at the other end. */
#define STALE_BYTES ((uint64_t)1024)
#define STACK_BYTES ((uint64_t)1 << 20)
#define CHUNK_WORDS 512

/* Besides the results in the header, for one thread: it runs, so its stack is not known. */
#define RUNS (TNI_THREADS_INSIDE + 1)

/* ---- The list ---------------------------------------------------------------------------------------- */

int32_t tni_threads_read(tn_context *ctx, tni_vector *out)
{
    DIR *folder = opendir("/proc/self/task");
    const struct dirent *entry;
    int32_t status = TN_OK;
    while (folder && !status && (entry = readdir(folder))) {
        int32_t *slot, id = (int32_t)strtol(entry->d_name, NULL, 10);
        if (id <= 0) continue;
        slot = tni_vector_push(ctx, out, sizeof *slot);
        if (slot)
            *slot = id;
        else
            status = TN_E_OUT_OF_MEMORY;
    }
    if (folder) closedir(folder);
    return status;
}

static int32_t is_in(const tni_vector *list, int32_t id)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (((const int32_t *)list->data)[i] == id) return 1;
    return 0;
}

/* ---- The library's code ------------------------------------------------------------------------------ */

#define MAX_PARTS 8

typedef struct code_parts {
    uint64_t base;
    uint32_t count;
    uint32_t reserved;
    struct {
        uint64_t from, to;
    } part[MAX_PARTS];
} code_parts;

static int add_object(struct dl_phdr_info *info, size_t bytes, void *into)
{
    code_parts *code = into;
    if (info->dlpi_addr != code->base) return 0;
    for (uint32_t i = 0; i < info->dlpi_phnum && code->count < MAX_PARTS; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X)) continue;
        uint64_t from = code->base + info->dlpi_phdr[i].p_vaddr;
        code->part[code->count].from = from;
        code->part[code->count++].to = from + info->dlpi_phdr[i].p_memsz;
    }
    return 1;
}

static int32_t find_code(void *handle, code_parts *out)
{
    struct link_map *map = NULL;
    *out = (code_parts){0};
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map)) return 0;
    out->base = map->l_addr;
    dl_iterate_phdr(add_object, out);
    return out->count > 0;
}

static int32_t lies_in(const code_parts *code, uint64_t address)
{
    for (uint32_t i = 0; i < code->count; i++)
        if (address >= code->part[i].from && address < code->part[i].to) return 1;
    return 0;
}

/* ---- One thread -------------------------------------------------------------------------------------- */

/* Reads a file of the thread, cut to the buffer; 0: it cannot be read. */
static int32_t read_file(int32_t id, const char *name, char *out, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", id, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, out, room - 1);
    if (fd >= 0) close(fd);
    out[got > 0 ? got : 0] = 0;
    return got > 0;
}

/* Bit of the flags in `stat`: the thread is exiting. */
#define EXITING 4u

/* A joined thread stays in the list until the kernel removes it. */
static int32_t has_ended(int32_t id)
{
    char text[512];
    unsigned flags = 0;
    const char *rest = read_file(id, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    if (!rest) return 1;
    int n = sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %u", &flags);
    return n == 1 && (flags & EXITING) != 0;
}

/* 1 and the addresses of stack and code if the thread sleeps; 0 if it runs or they are not known; -1: it ended. */
static int32_t find_place(int32_t id, uint64_t *out_stack, uint64_t *out_code)
{
    char text[256];
    if (has_ended(id)) return -1;
    if (!read_file(id, "syscall", text, sizeof text)) return 0;
    const char *code = strrchr(text, ' '), *stack = code;
    while (stack && stack > text && stack[-1] != ' ') stack--;
    if (!code || stack == text || strncmp(code + 1, "0x", 2)) return 0; /* "running" */
    *out_stack = strtoull(stack, NULL, 16);
    *out_code = strtoull(code + 1, NULL, 16);
    return 1;
}

/* The end of the mapping of an address, or 0. */
static uint64_t end_of_mapping(uint64_t address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    uint64_t found = 0;
    while (maps && !found && getline(&line, &room, maps) > 0) {
        char *rest;
        uint64_t from = strtoull(line, &rest, 16), to = strtoull(rest + (*rest == '-'), NULL, 16);
        if (address >= from && address < to) found = to;
    }
    free(line);
    if (maps) fclose(maps);
    return found;
}

/* Whether a word of the stack, from its top to its end, is an address in the code. */
static int32_t refers(int memory, uint64_t stack, const code_parts *code)
{
    uint64_t words[CHUNK_WORDS], at = (stack + STALE_BYTES) & ~(uint64_t)7, end = end_of_mapping(stack);
    if (end > at + STACK_BYTES) end = at + STACK_BYTES;
    while (at < end) {
        uint64_t bytes = end - at < sizeof words ? end - at : sizeof words;
        ssize_t got = pread(memory, words, bytes, (off_t)at);
        if (got <= 0) break;
        for (ssize_t i = 0; i < got / (ssize_t)sizeof *words; i++)
            if (lies_in(code, words[i])) return 1;
        at += (uint64_t)got;
    }
    return 0;
}

/* One of TNI_THREADS_... or RUNS; TNI_THREADS_NONE: the thread has ended. */
static int32_t look_at(int32_t id, int memory, const code_parts *code)
{
    uint64_t stack = 0, address = 0;
    int32_t found = find_place(id, &stack, &address);
    if (found < 0) return TNI_THREADS_NONE;
    if (found == 0) return RUNS;
    if (memory < 0) return TNI_THREADS_OTHERS;
    return lies_in(code, address) || refers(memory, stack, code) ? TNI_THREADS_INSIDE : TNI_THREADS_OTHERS;
}

/* ---- All that appeared ------------------------------------------------------------------------------- */

/* *out_wait: whether one of them may end soon. */
static int32_t look_at_all(const tni_vector *before, int memory, const code_parts *code, int32_t *out_thread,
                           int32_t *out_wait)
{
    DIR *folder = opendir("/proc/self/task");
    const struct dirent *entry;
    int32_t most = folder ? TNI_THREADS_NONE : TNI_THREADS_OTHERS;
    int32_t self = (int32_t)gettid(); /* it is not the library's, though its stack may hold addresses of it */
    *out_wait = 0;
    while (folder && (entry = readdir(folder))) {
        int32_t id = (int32_t)strtol(entry->d_name, NULL, 10);
        int32_t known = id <= 0 || id == self || is_in(before, id);
        int32_t found = known ? TNI_THREADS_NONE : look_at(id, memory, code);
        if (found >= TNI_THREADS_INSIDE) *out_wait = 1;
        if (found == TNI_THREADS_INSIDE) *out_thread = id;
        if (found == RUNS) found = TNI_THREADS_OTHERS;
        if (found > most) most = found;
    }
    if (folder) closedir(folder);
    return most;
}

int32_t tni_threads_left(const tni_vector *before, void *handle, int32_t *out_thread)
{
    const struct timespec pause = {0, ROUND_NANOSECONDS};
    int32_t found = TNI_THREADS_OTHERS, wait = 1;
    code_parts code;
    if (!find_code(handle, &code)) return found;
    int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    for (int round = 0; round < ROUNDS && wait; round++) {
        if (round) nanosleep(&pause, NULL);
        found = look_at_all(before, memory, &code, out_thread, &wait);
    }
    if (memory >= 0) close(memory);
    /* A thread that was seen inside may run at this moment. */
    return found == TNI_THREADS_OTHERS && *out_thread && !has_ended(*out_thread) ? TNI_THREADS_INSIDE : found;
}
