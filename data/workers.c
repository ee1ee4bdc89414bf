/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker processes. Each is a copy of the program from a time when it had one thread, so that no lock is held in the copy and
 * no driver has lost its threads. It makes a context and a data set of its own, and answers requests on a socket: so many
 * indices and seeds, and then the tensors of the batch in a memory file that comes with the answer. The program maps that
 * file: a batch is copied once, in the worker.
 *
 * In the program a data set stands for all of them. Each call of get_batch takes a process that has no work, so the
 * loader's threads, of which there is one for each process, only wait; order, seeds and errors are the loader's.
 */
#include "collate.h"
#include "dataset.h"
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_WORKERS 1024
#define TEXT_BYTES   1024
#define ALIGNMENT    65536u /* of tensors in the memory file: a multiple of every page size of Linux */

enum { FREE, BUSY, GONE };

typedef struct worker {
    pid_t process;
    int socket;
    int32_t state;
} worker;

struct tn_workers {
    int32_t count;
    pid_t parent; /* of the worker processes */
    handle_mark mark;
    pthread_mutex_t lock; /* of the states */
    pthread_cond_t changed;
    worker workers[];
};

/* `count` 0: asks how many samples there are. Behind it: the indices, then the seeds. */
typedef struct request {
    int64_t count;
} request;

typedef struct answer {
    int32_t status;
    int32_t tensors;
    int64_t count; /* of samples */
    struct {
        tn_dtype dtype;
        uint32_t rank;
        int64_t sizes[TN_MAX_RANK];
        uint64_t offset, bytes; /* in the memory file */
    } of[TN_SAMPLE_MAX];
    char text[TEXT_BYTES]; /* of the error */
} answer;

/* ---- The socket ---------------------------------------------------------------------------------------- */

/* 0, or -1 when the other side is gone. */
static int send_all(int to, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        const ssize_t n = send(to, (const char *)bytes + done, count - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        done += (size_t)n;
    }
    return 0;
}

static int receive_all(int from, void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        const ssize_t n = recv(from, (char *)bytes + done, count - done, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        done += (size_t)n;
    }
    return 0;
}

/* Room for a file descriptor beside a message. */
typedef union beside {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
} beside;

/* The answer, with a file if it is not negative. */
static int send_answer(int to, const answer *a, int file)
{
    beside more = {.room = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)a, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (file >= 0) {
        message.msg_control = more.room;
        message.msg_controllen = sizeof more.room;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof file);
        memcpy(CMSG_DATA(head), &file, sizeof file);
    }
    ssize_t n;
    do n = sendmsg(to, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == 1 ? send_all(to, (const char *)a + 1, sizeof *a - 1) : -1;
}

static int receive_answer(int from, answer *a, int *out_file)
{
    beside more;
    struct iovec part = {.iov_base = a, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = more.room, .msg_controllen = sizeof more.room};
    ssize_t n;
    *out_file = -1;
    do n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n != 1) return -1;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_type == SCM_RIGHTS) memcpy(out_file, CMSG_DATA(head), sizeof *out_file);
    return receive_all(from, (char *)a + 1, sizeof *a - 1);
}

/* ---- In a worker --------------------------------------------------------------------------------------- */

static void set_error(answer *a, int32_t status, const tn_error *e)
{
    *a = (answer){.status = status};
    snprintf(a->text, sizeof a->text, "%s", e ? e->message : tn_status_text(status));
}

/* Copies the tensors into a new memory file, which nobody changes from then on. */
static int fill_file(tn_scope *s, tn_tensor *const *tensors, answer *a)
{
    uint64_t bytes = 0;
    for (; a->tensors < TN_SAMPLE_MAX && tensors[a->tensors]; a->tensors++) {
        const tn_tensor *t = tensors[a->tensors];
        a->of[a->tensors].dtype = tn_tensor_dtype(t);
        a->of[a->tensors].rank = (uint32_t)tn_tensor_rank(t);
        memcpy(a->of[a->tensors].sizes, tn_tensor_sizes(t), (size_t)tn_tensor_rank(t) * sizeof(int64_t));
        a->of[a->tensors].offset = bytes;
        a->of[a->tensors].bytes = (uint64_t)(tn_tensor_numel(t) * tn_dtype_bytes(tn_tensor_dtype(t)));
        bytes += (a->of[a->tensors].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    if (!bytes) return -1; /* all are empty */
    const int file = memfd_create("tenon batch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char *at = file >= 0 && !ftruncate(file, (off_t)bytes)
                   ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                   : MAP_FAILED;
    if (at == MAP_FAILED) {
        data_fail(s, TN_E_OUT_OF_MEMORY, "workers", NULL, "a memory file of %llu bytes: %s",
                  (unsigned long long)bytes, strerror(errno));
        return file;
    }
    for (int32_t k = 0; k < a->tensors; k++)
        if (a->of[k].bytes) tn_to_host(s, tensors[k], at + a->of[k].offset, a->of[k].bytes);
    munmap(at, bytes);
    (void)fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    return file;
}

/* One batch. Returns whether the answer could be sent. */
static int answer_batch(int to, tn_dataset *d, batch_job *job)
{
    answer a = {.count = 0};
    const tn_scope_options options = {.size = sizeof options,
                                      .grad_mode = TN_GRAD_OFF,
                                      .device = TN_CPU,
                                      .autocast = TN_SCOPE_AUTOCAST_OFF};
    const tn_loader_options o = {.options_size = sizeof o, .dataset = d};
    tn_scope *s = tn_scope_open_with(d->ctx, &options);
    int file = -1;
    if (!collate_batch(s, &o, 0, job)) file = fill_file(s, job->out, &a);
    if (tn_scope_failed(s)) set_error(&a, tn_scope_failed(s), tn_scope_error(s));
    tn_scope_close(s);
    const int sent = send_answer(to, &a, a.status ? -1 : file);
    if (file >= 0) close(file);
    return sent;
}

static int receive_job(int from, int64_t count, batch_job *job)
{
    *job = (batch_job){.epoch = -1, .count = count};
    job->indices = calloc((size_t)count, sizeof *job->indices);
    job->seeds = calloc((size_t)count, sizeof *job->seeds);
    if (!job->indices || !job->seeds) return -1;
    return receive_all(from, job->indices, (size_t)count * sizeof *job->indices)
               ? -1
               : receive_all(from, job->seeds, (size_t)count * sizeof *job->seeds);
}

/* Answers until the program closes its end. */
static void serve(int socket, tn_workers_open open, void *user)
{
    tn_context *ctx = NULL;
    answer broken;
    request r;
    setenv("OMP_NUM_THREADS", "1", 0); /* the processes share the processor already */
    const int32_t status = tn_context_create(NULL, &ctx);
    tn_dataset *d = status ? NULL : open(user, ctx);
    if (!d) set_error(&broken, status ? status : TN_E_STATE, tn_last_error());
    while (!receive_all(socket, &r, sizeof r)) {
        batch_job job = {.count = 0};
        const answer size = {.count = d ? d->count : 0};
        int lost = r.count ? receive_job(socket, r.count, &job) : 0;
        if (!lost)
            lost = !d        ? send_answer(socket, &broken, -1)
                   : r.count ? answer_batch(socket, d, &job)
                             : send_answer(socket, &size, -1);
        free(job.indices);
        free(job.seeds);
        if (lost) break;
    }
    tn_dataset_destroy(d);
    tn_context_destroy(ctx);
}

/* ---- Starting ------------------------------------------------------------------------------------------ */

static int64_t count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int64_t n = 0;
    for (const struct dirent *e = tasks ? readdir(tasks) : NULL; e; e = readdir(tasks))
        n += e->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return n;
}

/* The child never returns: the functions that the program registered for its end are not the child's. */
static int32_t start_worker(tn_workers *w, tn_workers_open open, void *user)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return data_fail(NULL, TN_E_OUT_OF_MEMORY, "workers", NULL, "a socket: %s", strerror(errno));
    fflush(NULL); /* else the child has the lines that wait, too */
    const pid_t child = fork();
    if (child < 0) {
        const int why = errno;
        close(ends[0]);
        close(ends[1]);
        return data_fail(NULL, TN_E_OUT_OF_MEMORY, "workers", NULL, "a process cannot be made: %s",
                         strerror(why));
    }
    if (!child) {
        close(ends[0]);
        for (int32_t i = 0; i < w->count; i++) close(w->workers[i].socket);
        serve(ends[1], open, user);
        fflush(NULL);
        _exit(0);
    }
    close(ends[1]);
    w->workers[w->count++] = (worker){.process = child, .socket = ends[0]};
    return TN_OK;
}

int32_t tn_workers_create(int32_t count, tn_workers_open open, void *user, tn_workers **out)
{
    if (count < 1 || count > MOST_WORKERS || !open || !out)
        return data_fail(NULL, TN_E_ARGUMENT, "workers", NULL,
                         "argument 'count' must be from 1 to 1024, and 'open' and 'out' not NULL");
    const int64_t threads = count_threads();
    if (threads != 1)
        return data_fail(NULL, TN_E_STATE, "workers", NULL,
                         "the process has %lld threads, expected one: worker processes are started at the "
                         "beginning of main",
                         (long long)threads);
    tn_workers *w = calloc(1, sizeof *w + (size_t)count * sizeof *w->workers);
    if (!w) return data_fail(NULL, TN_E_OUT_OF_MEMORY, "workers", NULL, "out of host memory");
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->parent = getpid();
    int32_t status = TN_OK;
    while (w->count < count && !status) status = start_worker(w, open, user);
    if (status)
        tn_workers_destroy(w);
    else
        *out = w;
    return status;
}

int64_t tn_workers_process(const tn_workers *w, int32_t i)
{
    return w && i >= 0 && i < w->count ? w->workers[i].process : 0;
}

void tn_workers_destroy(tn_workers *w)
{
    if (!w || !handle_end(&w->mark, "workers", __builtin_return_address(0))) return;
    const int32_t is_forked = w->parent != getpid(); /* then they are the parent's, which goes on with them */
    for (int32_t i = 0; i < w->count; i++) {
        if (w->workers[i].state == GONE) continue;
        if (!is_forked)
            shutdown(w->workers[i].socket, SHUT_RDWR); /* processes that were made later have copies of it */
        close(w->workers[i].socket);
    }
    for (int32_t i = 0; i < w->count && !is_forked; i++)
        while (w->workers[i].state != GONE && waitpid(w->workers[i].process, NULL, 0) < 0 && errno == EINTR)
            continue;
    if (!is_forked) { /* else a thread of the parent may wait */
        pthread_cond_destroy(&w->changed);
        pthread_mutex_destroy(&w->lock);
    }
    w->count = 0;
    handle_free(w);
}

/* ---- In the program ------------------------------------------------------------------------------------ */

/* A worker that has no work; waits for one. NULL if all have ended. */
static worker *take(tn_workers *w)
{
    worker *found = NULL;
    pthread_mutex_lock(&w->lock);
    for (int32_t left = 1; left && !found;) {
        left = 0;
        for (int32_t i = 0; i < w->count && !found; i++) {
            left += w->workers[i].state != GONE;
            if (w->workers[i].state == FREE) found = &w->workers[i];
        }
        if (found)
            found->state = BUSY;
        else if (left)
            pthread_cond_wait(&w->changed, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return found;
}

static void put_back(tn_workers *w, worker *of, int32_t state)
{
    pthread_mutex_lock(&w->lock);
    of->state = state;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* A worker that did not answer. */
static int32_t report_end(tn_scope *s, tn_workers *w, worker *of, tn_ints indices)
{
    char how[64] = "ended";
    int status = 0;
    pid_t ended;
    shutdown(of->socket, SHUT_RDWR);
    close(of->socket);
    do ended = waitpid(of->process, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended > 0 && WIFSIGNALED(status))
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status));
    else if (ended > 0 && WIFEXITED(status))
        snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
    const int64_t first = indices.count ? indices.data[0] : 0,
                  last = indices.count ? indices.data[indices.count - 1] : 0;
    data_fail(s, TN_E_STATE, "workers", NULL, "process %d (pid %d) %s while it read %s%lld%s%lld",
              (int)(of - w->workers), (int)of->process, how,
              !indices.count      ? "the data set "
              : indices.count > 1 ? "samples "
                                  : "sample ",
              (long long)first, indices.count > 1 ? " to " : " of ",
              (long long)(indices.count > 1 ? last : indices.count));
    put_back(w, of, GONE);
    return TN_E_STATE;
}

static int32_t map_answer(tn_scope *s, const answer *a, int file, tn_tensor **out)
{
    for (int32_t k = 0; k < a->tensors && k < TN_SAMPLE_MAX && !tn_scope_failed(s); k++) {
        const tn_ints sizes = {a->of[k].sizes, a->of[k].rank};
        out[k] = a->of[k].bytes ? data_map(s, "workers", NULL, file, (int64_t)a->of[k].offset, a->of[k].dtype,
                                           sizes, (int64_t)a->of[k].bytes)
                                : tn_empty(s, sizes, .dtype = a->of[k].dtype, .device = TN_CPU);
    }
    return tn_scope_failed(s);
}

/* Sends a request to a worker, and waits for its answer. */
static int32_t ask(tn_scope *s, tn_workers *w, tn_ints indices, const uint64_t *seeds, answer *a,
                   int *out_file)
{
    *out_file = -1;
    if (w->parent != getpid())
        return data_fail(s, TN_E_FORKED, "workers", NULL, "their processes answer the one that made them");
    worker *of = handle_check(&w->mark, "it") ? NULL : take(w);
    const request r = {indices.count};
    if (!of)
        return data_fail(s, TN_E_STATE, "workers", NULL,
                         w->count ? "all %d processes have ended" : "they were destroyed", (int)w->count);
    int lost = send_all(of->socket, &r, sizeof r);
    if (!lost) lost = send_all(of->socket, indices.data, (size_t)indices.count * sizeof *indices.data);
    if (!lost) lost = send_all(of->socket, seeds, (size_t)indices.count * sizeof *seeds);
    if (!lost) lost = receive_answer(of->socket, a, out_file);
    if (lost) return report_end(s, w, of, indices);
    put_back(w, of, FREE);
    return a->status ? tn_scope_fail(s, a->status, a->text) : TN_OK;
}

static int32_t workers_get_batch(void *user, tn_scope *s, tn_ints indices, const uint64_t *seeds,
                                 tn_tensor **out)
{
    answer a;
    int file;
    int32_t status = ask(s, user, indices, seeds, &a, &file);
    if (!status) status = map_answer(s, &a, file, out);
    if (file >= 0) close(file);
    return status;
}

static int32_t workers_get(void *user, tn_scope *s, int64_t index, uint64_t seed, tn_tensor **out)
{
    if (workers_get_batch(user, s, TN_INTS(index), &seed, out)) return tn_scope_failed(s);
    for (int32_t k = 0; k < TN_SAMPLE_MAX && out[k]; k++) out[k] = tn_select(s, out[k], 0, 0);
    return tn_scope_failed(s);
}

static int64_t workers_count(void *user)
{
    answer a = {.count = -1};
    int file;
    return ask(NULL, user, (tn_ints){NULL, 0}, NULL, &a, &file) ? -1 : a.count;
}

tn_dataset *tn_workers_dataset_create(tn_context *ctx, tn_workers *w)
{
    static const tn_dataset_class class = {.size = sizeof class,
                                           .name = "workers",
                                           .count = workers_count,
                                           .get = workers_get,
                                           .get_batch = workers_get_batch};
    if (!w) return data_fail(NULL, TN_E_ARGUMENT, "workers", NULL, "argument 'w': it is NULL"), NULL;
    const int64_t count = workers_count(w);
    return count < 0 ? NULL : dataset_of_count(ctx, &class, w, count);
}
