/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that hangs from a thread: one struct. */
#ifndef TNI_CORE_THREAD_H
#define TNI_CORE_THREAD_H

#include <pthread.h>
#include <tenon/context.h>

struct tni_device;
struct tni_magazine;

/* The head of what is in force for tensors that are saved on a thread; autograd has more behind it. */
typedef struct tni_saving {
    struct tni_saving *outer;
    struct tni_random_log *random; /* of the random numbers that are drawn meanwhile, or NULL */
} tni_saving;

typedef struct tni_thread {
    uint32_t grad_mode;       /* TN_GRAD_ON, _OFF or _INFERENCE; 0 means ON */
    uint32_t call_depth;      /* operators that are running on this thread */
    uint32_t excluded_layers; /* layers that calls on this thread skip */
    tn_dtype default_dtype;   /* of the innermost scope that sets one, else 0 */
    tn_device default_device;
    struct tni_magazine *magazine; /* cache of small blocks, see memory.h */
    void *current;                 /* current.c's: current devices and streams */
    tni_saving *saved_hooks;       /* autograd's, innermost first */
    void *engine;                  /* autograd's: the backward call that runs here */
    void *dying;                   /* autograd's: nodes whose last reference is gone */
    struct tn_call_trace *trace;   /* that the calls of this thread are written to */
    struct tni_autocast *autocast; /* innermost region of casts, see autocast.h */
    void *running; /* dispatcher's: the innermost frame whose call is in a plugin's or program's hands */
    struct tni_device *replaced_device; /* the CPU runs a call in its place; its generator serves */
    uint64_t sequence;                  /* autograd's: number of the last node made here */
    void *errors;                       /* error.c's */
    uint8_t error_lost;                 /* there was no memory for `errors` */
    uint8_t is_releasing;               /* release_queue.c's: the thread is one of a device */
    uint8_t place_follows;              /* the place of the call that is running will be told, see debug.h */
    uint8_t has_new_objects;            /* debug.c's: objects were made whose place may follow */
    uint32_t observer_count;
    void *profile; /* profile.c's: where this thread's calls are written */
} tni_thread;

/* Initial-exec, so that reading it costs one instruction; so it must stay small. A program that loads this
 * library late, a Python interpreter for one, has some hundred bytes of static thread storage left for all
 * its libraries. What is larger hangs from a pointer. */
extern _Thread_local tni_thread tni_tls __attribute__((tls_model("initial-exec")));

_Static_assert(sizeof(tni_thread) <= 128, "tni_tls is static thread storage");

/* Zeroed memory in a member of this thread's tni_tls, until the thread ends. NULL when there is none. */
void *tni_thread_alloc(void **member, uint64_t bytes);

/* Begins a thread of the library, on which no signal is handled: they are for the program's threads. An errno. */
int tni_thread_start(pthread_t *out, void *(*run)(void *argument), void *argument);
/* Makes a lock that a thread may take again: a function of the program is called under it. */
void tni_recursive_lock_init(pthread_mutex_t *lock);

/* 1 if operators on this thread record gradients. */
static inline int32_t tni_grad_enabled(void)
{
    return tni_tls.grad_mode <= TN_GRAD_ON;
}

#endif
