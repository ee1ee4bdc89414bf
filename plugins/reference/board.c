/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boards: memory on which ranks of several processes meet. Processes find a board by its id, which names a file in
 * /dev/shm; when all have come the name goes, and the memory lives as long as they do. Each rank has a window, whose
 * contents others read between two barriers, and each pair of ranks a slot for what one sends to the other.
 *
 * A process holds a lock on a byte of the file for each of its ranks, which the kernel releases when the process
 * ends, however it ends. Who waits looks at these locks, so that it learns of it in time.
 */
#include "reference.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MILLISECONDS 20 /* how often a waiting rank looks whether the others are alive */

/* One rank. */
typedef struct board_rank {
    atomic_uint claimed;
    atomic_uint reserved;
    atomic_uint_fast64_t arrived; /* barriers that it has come to */
} board_rank;

/* From one rank to another; a piece is in the slot if `written` is ahead of `read`. */
typedef struct board_pair {
    atomic_uint_fast64_t written;
    atomic_uint_fast64_t read;
} board_pair;

/* How the shared memory begins; zeros are a board on which nobody is. */
typedef struct board_head {
    atomic_uint world;
    atomic_uint joined;
    atomic_uint changes; /* what sleepers wait for */
    atomic_int failed;   /* 1: somebody writes the text, 2: it is there */
    char text[REFERENCE_BOARD_TEXT];
    board_rank ranks[REFERENCE_BOARD_RANKS];
} board_head;

struct reference_board {
    board_head *head;
    board_pair *pairs; /* [world][world] */
    char *windows;
    char *slots; /* of the pairs */
    uint64_t bytes;
    uint32_t world;
    uint32_t first, count; /* ranks of this process */
    int file;              /* -1: of this process alone */
    uint64_t barriers;
};

/* ---- Waiting ----------------------------------------------------------------------------------------- */

static uint64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void reference_futex_wait(atomic_uint *word, uint32_t seen, uint32_t wait_milliseconds)
{
    const struct timespec time = {wait_milliseconds / 1000, (long)(wait_milliseconds % 1000) * 1000000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, NULL, 0);
}

void reference_futex_wake(atomic_uint *word)
{
    atomic_fetch_add(word, 1);
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

int reference_file_lock(int file, uint32_t byte)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(file, F_OFD_SETLK, &lock) == 0;
}

int reference_file_is_locked(int file, uint32_t byte)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void reference_board_fail(reference_board *b, const char *text)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&b->head->failed, &none, 1)) return;
    snprintf(b->head->text, sizeof(b->head->text), "%s", text);
    atomic_store(&b->head->failed, 2);
    reference_futex_wake(&b->head->changes);
}

static int is_here(const reference_board *b, uint32_t rank)
{
    return rank >= b->first && rank < b->first + b->count;
}

/* Whether a rank had come and its process has ended. */
static int find_dead(const reference_board *b, uint32_t *out_rank)
{
    for (uint32_t r = 0; r < b->world && b->file >= 0; r++) {
        if (is_here(b, r) || !atomic_load(&b->head->ranks[r].claimed) || reference_file_is_locked(b->file, r))
            continue;
        *out_rank = r;
        return 1;
    }
    return 0;
}

static void fail_for(reference_board *b, uint32_t rank)
{
    char text[REFERENCE_BOARD_TEXT];
    snprintf(text, sizeof(text), "reference: the process of rank %u of %u has ended", rank, b->world);
    reference_board_fail(b, text);
}

typedef int is_done(const reference_board *b, uint64_t a, uint64_t target);

/* Waits until `done` says so. Not TN_OK: the board failed, or the time is over (0: there is no end). */
static int32_t wait_until(reference_board *b, is_done *done, uint64_t a, uint64_t target, uint64_t limit,
                          char *text)
{
    uint64_t end = milliseconds() + limit;
    uint32_t dead;
    for (;;) {
        uint32_t seen = atomic_load(&b->head->changes);
        if (done(b, a, target)) return TN_OK;
        if (atomic_load(&b->head->failed) == 2) {
            memcpy(text, b->head->text, REFERENCE_BOARD_TEXT);
            return TN_E_STATE;
        }
        if (limit && milliseconds() >= end) return TN_E_INTERNAL;
        reference_futex_wait(&b->head->changes, seen, LOOK_MILLISECONDS);
        /* Asked again behind the search: a process may end when it has done what is waited for. */
        if (!done(b, a, target) && find_dead(b, &dead) && !done(b, a, target)) fail_for(b, dead);
    }
}

static int all_joined(const reference_board *b, uint64_t a, uint64_t world)
{
    return atomic_load(&b->head->joined) == world;
}

static int all_arrived(const reference_board *b, uint64_t a, uint64_t number)
{
    for (uint32_t r = 0; r < b->world; r++)
        if (atomic_load(&b->head->ranks[r].arrived) < number) return 0;
    return 1;
}

static int is_empty(const reference_board *b, uint64_t pair, uint64_t target)
{
    return atomic_load(&b->pairs[pair].read) == atomic_load(&b->pairs[pair].written);
}

static int is_full(const reference_board *b, uint64_t pair, uint64_t target)
{
    return !is_empty(b, pair, target);
}

/* ---- What ranks do ------------------------------------------------------------------------------------ */

int32_t reference_board_barrier(reference_board *b, char *text)
{
    b->barriers++;
    for (uint32_t r = 0; r < b->count; r++) atomic_store(&b->head->ranks[b->first + r].arrived, b->barriers);
    reference_futex_wake(&b->head->changes);
    return wait_until(b, all_arrived, 0, b->barriers, 0, text);
}

char *reference_board_window(const reference_board *b, uint32_t rank)
{
    return b->windows + (uint64_t)rank * REFERENCE_BOARD_WINDOW;
}

/* Writes `data` into the slots of a pair of ranks, or reads it from them, as they become empty or full. */
static int32_t move(reference_board *b, uint64_t pair, int is_read, char *data, uint64_t bytes, char *text)
{
    char *slot = b->slots + pair * REFERENCE_BOARD_SLOT;
    int32_t status = TN_OK;
    for (uint64_t at = 0; at < bytes && !status; at += REFERENCE_BOARD_SLOT) {
        uint64_t n = bytes - at < REFERENCE_BOARD_SLOT ? bytes - at : REFERENCE_BOARD_SLOT;
        status = wait_until(b, is_read ? is_full : is_empty, pair, 0, 0, text);
        if (status) break;
        if (is_read)
            memcpy(data + at, slot, n);
        else
            memcpy(slot, data + at, n);
        atomic_fetch_add(is_read ? &b->pairs[pair].read : &b->pairs[pair].written, 1);
        reference_futex_wake(&b->head->changes);
    }
    return status;
}

int32_t reference_board_send(reference_board *b, uint32_t from, uint32_t to, const char *data, uint64_t bytes,
                             char *text)
{
    return move(b, (uint64_t)from * b->world + to, 0, (char *)data, bytes, text); /* which is only read */
}

int32_t reference_board_receive(reference_board *b, uint32_t to, uint32_t from, char *data, uint64_t bytes,
                                char *text)
{
    return move(b, (uint64_t)from * b->world + to, 1, data, bytes, text);
}

/* ---- Life -------------------------------------------------------------------------------------------- */

static int map(reference_board *b)
{
    uint64_t pairs = (uint64_t)b->world * b->world;
    uint64_t windows = sizeof(board_head) + pairs * sizeof(board_pair);
    uint64_t slots = windows + (uint64_t)b->world * REFERENCE_BOARD_WINDOW;
    b->bytes = slots + pairs * REFERENCE_BOARD_SLOT;
    if (b->file >= 0 && (errno = posix_fallocate(b->file, 0, (off_t)b->bytes))) return 0;
    char *at = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE,
                    b->file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, b->file, 0);
    if (at == MAP_FAILED) return 0;
    b->head = (board_head *)(void *)at;
    b->pairs = (board_pair *)(void *)(at + sizeof(board_head));
    b->windows = at + windows;
    b->slots = at + slots;
    return 1;
}

void reference_board_close(reference_board *b)
{
    if (!b) return;
    if (b->head) munmap(b->head, b->bytes);
    if (b->file >= 0) close(b->file);
    free(b);
}

static reference_board *create(uint32_t world, uint32_t first, uint32_t count)
{
    reference_board *b = calloc(1, sizeof(*b));
    if (!b) return NULL;
    b->world = world;
    b->first = first;
    b->count = count;
    b->file = -1;
    return b;
}

reference_board *reference_board_create(uint32_t count)
{
    reference_board *b = create(count, 0, count);
    if (b && map(b)) return b;
    reference_board_close(b);
    return NULL;
}

int32_t reference_board_id(const reference_state *state, uint8_t id[REFERENCE_BOARD_ID])
{
    if (getrandom(id, REFERENCE_BOARD_ID, 0) == (ssize_t)REFERENCE_BOARD_ID) return TN_OK;
    return reference_error(state, TN_E_INTERNAL, "reference: no random numbers for an id: %s",
                           strerror(errno));
}

static void path_of(const uint8_t *id, char path[64])
{
    int n = snprintf(path, 64, "/dev/shm/tenon-");
    for (uint32_t i = 0; i < REFERENCE_BOARD_ID; i++) n += snprintf(path + n, 64 - (size_t)n, "%02x", id[i]);
}

/* The ranks of this process take their places. A rank is locked before others see that it has come: without its lock they would
 * take its process for ended. */
static int32_t claim(const reference_state *state, reference_board *b)
{
    unsigned none = 0;
    if (!atomic_compare_exchange_strong(&b->head->world, &none, b->world) && none != b->world)
        return reference_error(state, TN_E_ARGUMENT, "reference: another process speaks of %u ranks (got %u)",
                               none, b->world);
    for (uint32_t r = b->first; r < b->first + b->count; r++) {
        int is_locked = reference_file_lock(b->file, r);
        if (!is_locked && errno != EAGAIN && errno != EACCES)
            return reference_error(state, TN_E_IO, "reference: no lock for rank %u: %s", r, strerror(errno));
        if (!is_locked || atomic_exchange(&b->head->ranks[r].claimed, 1))
            return reference_error(state, TN_E_ARGUMENT, "reference: another process has rank %u, too", r);
    }
    atomic_fetch_add(&b->head->joined, b->count);
    reference_futex_wake(&b->head->changes);
    return TN_OK;
}

static int32_t meet_all(const reference_state *state, reference_board *b)
{
    char text[REFERENCE_BOARD_TEXT] = "";
    uint64_t limit = atomic_load(&state->timeout_milliseconds);
    int32_t status = wait_until(b, all_joined, 0, b->world, limit, text);
    if (!status) return TN_OK;
    if (text[0]) return reference_error(state, TN_E_STATE, "%s", text);
    snprintf(text, sizeof(text), "reference: %u of %u ranks came within %llu ms",
             atomic_load(&b->head->joined), b->world, (unsigned long long)limit);
    reference_board_fail(b, text);
    return reference_error(state, TN_E_STATE, "%s", text);
}

int32_t reference_board_join(const reference_state *state, const tn_communicator_options *o,
                             reference_board **out)
{
    char path[64];
    struct stat facts;
    if (o->id_bytes != REFERENCE_BOARD_ID)
        return reference_error(state, TN_E_ARGUMENT, "reference: an id has %u bytes (got %llu)",
                               REFERENCE_BOARD_ID, (unsigned long long)o->id_bytes);
    path_of(o->id, path);
    reference_board *b = create(o->world, o->first_rank, o->count);
    if (!b) return reference_error(state, TN_E_OUT_OF_MEMORY, "reference: no host memory for a communicator");
    b->file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    int32_t status = TN_OK;
    if (b->file < 0 || fstat(b->file, &facts) || facts.st_uid != geteuid() || !map(b))
        status = reference_error(state, TN_E_IO, "reference: %s: %s", path, strerror(errno));
    if (!status) status = claim(state, b);
    if (!status) status = meet_all(state, b);
    unlink(path); /* all have it open by now, or will not meet */
    if (status)
        reference_board_close(b);
    else
        *out = b;
    return status;
}
