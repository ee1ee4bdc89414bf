/* SPDX-License-Identifier: Apache-2.0 */
/* Starting another program, partner.c or what TENON_PARTNER names: one process or a world of ranks. */
#ifndef TESTS_BEHAVIOUR_PARTNER_H
#define TESTS_BEHAVIOUR_PARTNER_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

#define ID_TEXT 257 /* an id of at most 128 bytes as text */

/* Starts the program with these arguments, NULL at the end; file descriptors without FD_CLOEXEC go along. */
static inline pid_t start_partner(char *const *argv)
{
    const char *program = getenv("TENON_PARTNER");
    cr_assert_not_null(program);
    pid_t child = fork();
    if (child == 0) {
        execv(program, argv);
        _exit(127);
    }
    cr_assert_gt(child, 0);
    return child;
}

/* The other process runs `what` with one end of a socket; `more` is another argument or NULL. The other end is ours. */
static inline pid_t start_with_socket(const char *what, const char *more, int *out_end)
{
    int ends[2];
    char end[16];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    cr_assert_eq(fcntl(ends[0], F_SETFD, FD_CLOEXEC), 0);
    snprintf(end, sizeof end, "%d", ends[1]);
    char *const argv[] = {"partner", (char *)(uintptr_t)what, end, (char *)(uintptr_t)more, NULL};
    pid_t child = start_partner(argv);
    *out_end = ends[0];
    close(ends[1]);
    return child;
}

static inline void expect_good(pid_t child)
{
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the other process ended with 0x%x",
              (unsigned)status);
}

/* The id of a communicator, for the arguments of a process. */
static inline void make_id(tn_context *context, tn_device of, char text[ID_TEXT])
{
    unsigned char id[128];
    uint64_t bytes = 0;
    cr_assert_eq(tn_communicator_unique_id(context, of, id, 3, &bytes), TN_E_ARGUMENT);
    cr_assert_eq(tn_communicator_unique_id(context, of, id, sizeof id, &bytes), TN_OK, "%s",
                 tn_last_error()->message);
    for (uint64_t i = 0; i < bytes; i++) snprintf(text + 2 * i, 3, "%02x", id[i]);
}

static inline pid_t start_rank(const char *what, char *id, uint32_t world, uint32_t first, uint32_t count)
{
    char numbers[3][12];
    snprintf(numbers[0], 12, "%u", world);
    snprintf(numbers[1], 12, "%u", first);
    snprintf(numbers[2], 12, "%u", count);
    char *const argv[] = {"partner", (char *)(uintptr_t)what, id, numbers[0], numbers[1], numbers[2], NULL};
    return start_partner(argv);
}

/* So many processes with `count` ranks each make every call. */
static inline void run_world(char *id, uint32_t processes, uint32_t count)
{
    pid_t children[8];
    for (uint32_t i = 0; i < processes; i++)
        children[i] = start_rank("rank", id, processes * count, i * count, count);
    for (uint32_t i = 0; i < processes; i++) expect_good(children[i]);
}

#endif
