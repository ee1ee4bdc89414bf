/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaders. Batches have numbers that grow over all epochs. Batch n is made in slot n % window; workers take
 * the numbers in order, and stay at most `window` ahead of the program. What a batch has depends on its
 * number alone, so it does not matter which worker makes it.
 *
 * `lock` guards everything in the struct that changes. A slot that is being made belongs to its worker until
 * it is done.
 */
#include "collate.h"
#include "dataset.h"
#include "fault.h"
#include "file.h"
#include "sampler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_WORKERS 1024
#define MOST_WINDOW  65536

enum { SLOT_EMPTY, SLOT_BUSY, SLOT_DONE };

typedef struct slot {
    int32_t state;
    int32_t status; /* of the batch */
    char *error;    /* or NULL, without its place, which comes next */
    char *file;
    uint32_t line;
    tn_tensor *out[TN_SAMPLE_MAX]; /* one reference each */
} slot;

struct tn_loader {
    tn_context *ctx;
    tn_loader_options o;
    tn_device pins;           /* the device that pins memory for batches; 0: none */
    int64_t samples, batches; /* of an epoch */
    int64_t *order;           /* of epoch `ordered`; -1: none yet */
    int64_t ordered;
    int64_t next_job, next_out;
    int64_t window;
    int64_t busy; /* slots that are being made */
    slot *slots;
    int32_t stops;
    pthread_mutex_t lock;
    pthread_cond_t room, done; /* for workers; for the program */
    pthread_t *workers;
    int32_t started;
    pid_t process; /* that has the workers, which the child of a fork has not */
    handle_mark mark;
};

static tn_scope *open_scope(tn_context *ctx)
{
    tn_scope_options options = {.size = sizeof options,
                                .grad_mode = TN_GRAD_OFF,
                                .device = TN_CPU,
                                .autocast = TN_SCOPE_AUTOCAST_OFF};
    return tn_scope_open_with(ctx, &options);
}

/* ---- Batches ------------------------------------------------------------------------------------------ */

/* Fills the job for batch `number`; under the lock. */
static int32_t take_job(tn_scope *s, tn_loader *l, int64_t number, batch_job *job)
{
    job->epoch = number / l->batches;
    job->batch = number % l->batches;
    if (l->ordered != job->epoch) {
        l->ordered = -1;
        int32_t status = sampler_order(s, &l->o, job->epoch, l->order);
        if (status) return status;
        l->ordered = job->epoch;
    }
    const int64_t first = job->batch * l->o.batch, left = l->samples - first;
    job->count = left < l->o.batch ? left : l->o.batch;
    for (int64_t i = 0; i < job->count; i++) {
        job->indices[i] = l->order[first + i];
        job->seeds[i] = sampler_seed(l->o.seed, job->epoch, l->o.rank + (first + i) * l->o.ranks);
    }
    return TN_OK;
}

static void free_job(batch_job *job)
{
    free(job->indices);
    free(job->seeds);
}

static int32_t make_job(const tn_loader *l, batch_job *job)
{
    *job = (batch_job){.indices = malloc((uint64_t)l->o.batch * sizeof *job->indices),
                       .seeds = malloc((uint64_t)l->o.batch * sizeof *job->seeds)};
    if (job->indices && job->seeds) return TN_OK;
    free_job(job);
    *job = (batch_job){0};
    return TN_E_OUT_OF_MEMORY;
}

/* ---- Workers ------------------------------------------------------------------------------------------ */

static void empty_slot(slot *t)
{
    for (int32_t k = 0; k < TN_SAMPLE_MAX; k++) tn_release(t->out[k]);
    free(t->error);
    free(t->file);
    *t = (slot){0};
}

/* The error of a worker's scope. Its place, that of a call in a function of the program's, stands before the text. */
static void keep_error(slot *t, const tn_error *e)
{
    const int prefix = e->file ? snprintf(NULL, 0, "%s:%u: ", e->file, e->line) : 0;
    t->error = strdup(e->message + prefix);
    t->file = e->file ? strdup(e->file) : NULL;
    t->line = e->line;
}

/* Moves the result of a scope into a slot that this thread owns, and closes the scope. */
static void fill_slot(slot *t, tn_scope *s, const batch_job *job)
{
    t->status = tn_scope_failed(s);
    if (t->status) keep_error(t, tn_scope_error(s));
    for (int32_t k = 0; k < TN_SAMPLE_MAX && !t->status; k++) t->out[k] = tn_retain(job->out[k]);
    tn_scope_close(s);
}

/* One batch; entered and left with the lock. */
static void work_once(tn_loader *l, batch_job *job)
{
    const int64_t number = l->next_job++;
    slot *t = &l->slots[number % l->window];
    tn_scope *s = open_scope(l->ctx);
    t->state = SLOT_BUSY;
    l->busy++;
    int32_t status = s ? take_job(s, l, number, job) : TN_E_OUT_OF_MEMORY;
    pthread_mutex_unlock(&l->lock);
    if (!status) collate_batch(s, &l->o, l->pins, job);
    if (s)
        fill_slot(t, s, job);
    else
        t->status = status;
    pthread_mutex_lock(&l->lock);
    t->state = SLOT_DONE;
    l->busy--;
    pthread_cond_broadcast(&l->done);
}

static void *work(void *user)
{
    tn_loader *l = user;
    batch_job job;
    const int32_t no_memory = make_job(l, &job);
    pthread_mutex_lock(&l->lock);
    while (!l->stops && !no_memory) {
        if (l->next_job < l->next_out + l->window)
            work_once(l, &job);
        else
            pthread_cond_wait(&l->room, &l->lock);
    }
    if (no_memory) { /* the others go on; the last one gone is an error for the program */
        l->started--;
        pthread_cond_broadcast(&l->done);
    }
    pthread_mutex_unlock(&l->lock);
    free_job(&job);
    return NULL;
}

/* ---- The program's side ------------------------------------------------------------------------------- */

/* The tensors of a batch in the program's scope, on the loader's device. */
static tn_tensors hand_over(tn_scope *s, const tn_loader *l, tn_tensor **out)
{
    const tn_tensors none = {NULL, 0};
    int64_t count = 0;
    tn_tensor **list = tn_scope_memory(s, TN_SAMPLE_MAX * sizeof *list);
    for (int32_t k = 0; k < TN_SAMPLE_MAX && out[k]; k++) {
        tn_tensor *t = list && !tn_scope_failed(s) ? tn_scope_adopt(s, out[k]) : (tn_release(out[k]), NULL);
        out[k] = NULL;
        if (t && l->o.device && tn_tensor_device(t) != l->o.device)
            t = tn__to_copy(s, t, .device = l->o.device, .non_blocking = l->pins != 0);
        if (t) list[count++] = t;
    }
    return tn_scope_failed(s) ? none : (tn_tensors){list, count};
}

static tn_tensors next_without_workers(tn_scope *s, tn_loader *l)
{
    tn_tensor *out[TN_SAMPLE_MAX] = {NULL};
    batch_job job;
    if (make_job(l, &job)) return tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL), (tn_tensors){NULL, 0};
    tn_scope_options options = {.size = sizeof options,
                                .grad_mode = TN_GRAD_OFF,
                                .device = TN_CPU,
                                .autocast = TN_SCOPE_AUTOCAST_OFF};
    tn_scope *own = tn_scope_open_child(s, &options);
    int32_t status = take_job(own, l, l->next_out, &job);
    l->next_out++;
    l->next_job = l->next_out;
    if (!status) status = collate_batch(own, &l->o, l->pins, &job);
    for (int32_t k = 0; k < TN_SAMPLE_MAX && !status; k++) out[k] = tn_retain(job.out[k]);
    free_job(&job);
    if (tn_scope_close(own)) return (tn_tensors){NULL, 0};
    return hand_over(s, l, out);
}

static tn_tensors next_of_workers(tn_scope *s, tn_loader *l)
{
    slot *t = &l->slots[l->next_out % l->window], taken = {.status = TN_E_OUT_OF_MEMORY};
    tn_profile_range_begin(l->ctx, "loader: waiting");
    pthread_mutex_lock(&l->lock);
    while (t->state != SLOT_DONE && l->started) pthread_cond_wait(&l->done, &l->lock);
    if (t->state == SLOT_DONE) {
        taken = *t;
        *t = (slot){0};
    }
    l->next_out++;
    pthread_cond_broadcast(&l->room);
    pthread_mutex_unlock(&l->lock);
    tn_profile_range_end(l->ctx);
    if (taken.status) {
        tn_scope_fail(s, taken.status, taken.error);
        tn_scope_place(s, taken.file, taken.line);
        free(taken.error);
        free(taken.file);
        return (tn_tensors){NULL, 0};
    }
    return hand_over(s, l, taken.out);
}

static void fail_null(tn_scope *s)
{
    const tn_error *e = tn_last_error(); /* why it was not made, perhaps */
    data_fail(s, TN_E_ARGUMENT, "loader", NULL, "argument 'l': it is NULL%s%.500s%s",
              e ? " (the last error: " : "", e ? e->message : "", e ? ")" : "");
}

tn_tensors tn_loader_next(tn_scope *s, tn_loader *l)
{
    if (tn_scope_failed(s)) return (tn_tensors){NULL, 0};
    if (!l) return fail_null(s), (tn_tensors){NULL, 0};
    if (handle_check(&l->mark, "it")) {
        data_fail(s, TN_E_DEAD_HANDLE, "loader", NULL, "%s", tn_last_error()->message);
        return (tn_tensors){NULL, 0};
    }
    return l->o.workers ? next_of_workers(s, l) : next_without_workers(s, l);
}

int64_t tn_loader_batches(const tn_loader *l)
{
    return l ? l->batches : 0;
}

void tn_loader_get_state(const tn_loader *l, tn_loader_state *out)
{
    if (!l || !out || out->size < sizeof *out) return;
    out->seed = l->o.seed;
    out->epoch = l->next_out / l->batches;
    out->batch = l->next_out % l->batches;
}

int32_t tn_loader_set_state(tn_loader *l, const tn_loader_state *state)
{
    int64_t number;
    if (!l || !state || state->size < sizeof *state)
        return data_fail(NULL, TN_E_ARGUMENT, "loader", NULL,
                         "argument 'l' or 'state': it is NULL or too small");
    if (handle_refuse(NULL, &l->mark, "loader")) return TN_E_DEAD_HANDLE;
    if (state->epoch < 0 || state->batch < 0 || state->batch >= l->batches ||
        __builtin_mul_overflow(state->epoch, l->batches, &number) ||
        __builtin_add_overflow(number, state->batch + 2 * l->window, &number))
        return data_fail(NULL, TN_E_ARGUMENT, "loader", NULL,
                         "argument 'state': there is no batch %lld in epoch %lld (an epoch has %lld)",
                         (long long)state->batch, (long long)state->epoch, (long long)l->batches);
    const int32_t wrong = handle_context_check(l->ctx);
    if (wrong) return wrong; /* the child of a fork has no workers to wait for */
    pthread_mutex_lock(&l->lock);
    const int64_t window = l->window;
    l->window = 0; /* workers take no number now */
    while (l->busy) pthread_cond_wait(&l->done, &l->lock);
    for (int64_t i = 0; i < window; i++) empty_slot(&l->slots[i]);
    l->o.seed = state->seed;
    l->ordered = -1;
    l->next_out = l->next_job = state->epoch * l->batches + state->batch;
    l->window = window;
    pthread_cond_broadcast(&l->room);
    pthread_mutex_unlock(&l->lock);
    return TN_OK;
}

/* ---- Life --------------------------------------------------------------------------------------------- */

static void stop_workers(tn_loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->stops = 1;
    pthread_cond_broadcast(&l->room);
    pthread_mutex_unlock(&l->lock);
    for (int32_t i = 0; l->workers && i < l->o.workers; i++) pthread_join(l->workers[i], NULL);
    for (int64_t i = 0; l->slots && i < l->window; i++) empty_slot(&l->slots[i]);
    pthread_cond_destroy(&l->room);
    pthread_cond_destroy(&l->done);
    pthread_mutex_destroy(&l->lock);
}

/* In the child of a fork the workers are not there, and may have left the lock and the slots as they were at the time: both stay. */
void tn_loader_destroy(tn_loader *l)
{
    if (!l || !handle_end(&l->mark, "loader", __builtin_return_address(0))) return;
    if (l->process == getpid()) stop_workers(l);
    tn_release(l->o.weights);
    free(l->workers);
    free(l->slots);
    free(l->order);
    handle_free(l);
}

static const char *fault_of(const tn_loader_options *o, char text[FAULT_BYTES])
{
    if (!o) return "argument 'options': it is NULL";
    if (o->options_size < sizeof *o)
        return fault(text, "tn_loader_options: options_size is %u; set it to sizeof(tn_loader_options)",
                     o->options_size);
    if (!o->dataset) {
        const tn_error *e = tn_last_error(); /* why it was not made, perhaps */
        return fault(text, "argument 'dataset': it is NULL%s%.500s%s", e ? " (the last error: " : "",
                     e ? e->message : "", e ? ")" : "");
    }
    if (o->batch < 1 || o->batch > INT32_MAX)
        return fault(text, "argument 'batch': it must be from 1 to 2147483647, got %lld",
                     (long long)o->batch);
    if (o->workers < 0 || o->workers > MOST_WORKERS)
        return fault(text, "argument 'workers': it must be from 0 to 1024, got %d", o->workers);
    if (o->prefetch < 1 || (int64_t)o->prefetch * (o->workers ? o->workers : 1) > MOST_WINDOW)
        return fault(
            text,
            "argument 'prefetch': it must be positive, and at most 65536 over all workers, got %d for %d",
            o->prefetch, o->workers);
    if (o->ranks < 1) return fault(text, "argument 'ranks': it must be positive, got %d", o->ranks);
    if (o->rank < 0 || o->rank >= o->ranks)
        return fault(text, "argument 'rank': it must be from 0 to ranks - 1, got %d of %d", o->rank,
                     o->ranks);
    if (o->samples < 0)
        return fault(text, "argument 'samples': it must not be negative, got %lld", (long long)o->samples);
    if (o->samples && !o->weights && !o->sampler.order)
        return "argument 'samples': it is for weights and samplers";
    if (o->weights &&
        (tn_tensor_rank(o->weights) != 1 || tn_tensor_size(o->weights, 0) != tn_dataset_count(o->dataset)))
        return fault(
            text,
            "argument 'weights': it must have one number for each of the %lld samples, got %lld in %lld "
            "dimensions",
            (long long)tn_dataset_count(o->dataset), (long long)tn_tensor_numel(o->weights),
            (long long)tn_tensor_rank(o->weights));
    if ((o->weights || o->sampler.order) && o->shuffle)
        return "argument 'shuffle': not with weights or a sampler";
    if (o->weights && o->sampler.order) return "argument 'sampler': not with weights";
    tn_device_facts facts = {.size = sizeof facts};
    if (o->device && tn_device_get_facts(o->dataset->ctx, o->device, &facts))
        return fault(text, "argument 'device': %.500s", tn_last_error()->message);
    return NULL;
}

/* Whether the device pins memory of the host; tried with one byte. */
static tn_device pinning(tn_scope *s, tn_device device)
{
    if (!device || device == TN_CPU) return 0;
    tn_scope *own = tn_scope_open(tn_scope_context(s));
    tn_tensor *t = tn_pin_memory(own, tn_zeros(own, TN_INTS(1), .dtype = TN_UINT8, .device = TN_CPU), device);
    const tn_device pins = t ? device : 0;
    tn_scope_close(own);
    return pins;
}

static int32_t start(tn_scope *s, tn_loader *l, tn_tensor *weights)
{
    l->order = malloc((uint64_t)(l->samples + 1) * sizeof *l->order);
    l->slots = calloc((size_t)l->window, sizeof *l->slots);
    if (!l->order || !l->slots) return data_fail(s, TN_E_OUT_OF_MEMORY, "loader", NULL, "out of host memory");
    if (weights) {
        tn_tensor *own =
            tn_clone(s, tn_detach(s, tn_to_device(s, weights, TN_CPU, tn_tensor_dtype(weights))));
        if (!own) return tn_scope_failed(s);
        l->o.weights = tn_retain(own);
    }
    const int32_t workers = l->o.workers;
    l->o.workers = 0; /* those that tn_loader_destroy joins */
    l->workers = calloc((size_t)workers + 1, sizeof *l->workers);
    if (!l->workers) return data_fail(s, TN_E_OUT_OF_MEMORY, "loader", NULL, "out of host memory");
    pthread_mutex_lock(&l->lock);
    int failed = 0;
    for (; l->o.workers < workers && !failed; l->o.workers += !failed, l->started += !failed)
        failed = pthread_create(&l->workers[l->o.workers], NULL, work, l);
    pthread_mutex_unlock(&l->lock);
    return failed ? data_fail(s, TN_E_OUT_OF_MEMORY, "loader", NULL, "a thread cannot be made: %s",
                              strerror(failed))
                  : TN_OK;
}

tn_loader *tn_loader_create_with(const tn_loader_options *options)
{
    char text[FAULT_BYTES];
    const char *wrong = fault_of(options, text);
    if (wrong) return data_fail(NULL, TN_E_ARGUMENT, "loader", NULL, "%s", wrong), NULL;
    tn_loader_options o = *options;
    const int64_t samples = sampler_count(&o),
                  batches = o.drop_last ? samples / o.batch : (samples + o.batch - 1) / o.batch;
    if (!samples)
        return data_fail(NULL, TN_E_ARGUMENT, "loader", NULL, "argument 'dataset': it has no samples"), NULL;
    if (!batches)
        return data_fail(NULL, TN_E_ARGUMENT, "loader", NULL,
                         "argument 'batch': %lld samples make no batch of %lld", (long long)samples,
                         (long long)o.batch),
               NULL;
    tn_loader *l = calloc(1, sizeof *l);
    if (!l) return data_fail(NULL, TN_E_OUT_OF_MEMORY, "loader", NULL, "out of host memory"), NULL;
    *l = (tn_loader){.ctx = o.dataset->ctx,
                     .o = o,
                     .samples = samples,
                     .batches = batches,
                     .ordered = -1,
                     .window = (int64_t)o.prefetch * (o.workers ? o.workers : 1)};
    l->o.weights = NULL;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->room, NULL);
    pthread_cond_init(&l->done, NULL);
    l->process = getpid();
    tn_scope *s = open_scope(l->ctx);
    if (!s) return tn_loader_destroy(l), NULL;
    l->pins = pinning(s, o.device);
    int32_t status = start(s, l, o.weights);
    if (tn_scope_close(s) || status) {
        tn_loader_destroy(l);
        return NULL;
    }
    handle_begin(l->ctx, l, "loader of %s", o.dataset->class->name ? o.dataset->class->name : "dataset");
    return l;
}
