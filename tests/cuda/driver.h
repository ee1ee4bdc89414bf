/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the libcuda.so.1 for tests share: its state, and how every function begins and ends. libcuda.c says what the
 * library is; driver_work.c runs the work of streams, captures.c has the graphs.
 */
#ifndef TESTS_CUDA_DRIVER_H
#define TESTS_CUDA_DRIVER_H

#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "library.h"
#include "twins.h"

#include <CL/cl.h>
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../gpu/late.h"

#define DEVICES   2
#define MEMORY    ((size_t)4 << 30)
#define ADDRESSES (6 * MEMORY) /* ranges that are reserved take no memory */
#define BLOCKS    4096
#define EXPORT    TEST_API

/* Objects that the program has not given back; tests read it. */
EXPORT int cuda_test_live(void);

/* ---- State -------------------------------------------------------------------------------------------------- */

/* Memory that is mapped: a file stands for it. */
typedef struct physical {
    CUcontext context;
    int file, references, is_imported;
    size_t bytes;
} physical;

typedef struct block {
    size_t begin, bytes;
    int is_reserved;         /* addresses, of which pieces have memory */
    int is_managed, is_open; /* the host sees it, and may use it now */
} block;

/* A part of the addresses that has memory. */
typedef struct piece {
    size_t begin, bytes;
    unsigned users; /* bit i: device i may use it */
    physical *mapped;
} piece;

struct CUctx_st {
    int device, references, live;
    CUresult sticky; /* a fault, which every later call returns */
    char *range;     /* the addresses of the device */
    char *bytes;     /* where they lie */
    int file;        /* of them */
    block blocks[BLOCKS];
    piece pieces[BLOCKS]; /* in the order of their addresses */
    int n_blocks, n_pieces;
    size_t used;
    CUstream default_stream;
};

#define NODES 4096 /* of a graph */

/* A set of nodes. */
typedef struct node_set {
    uint64_t bits[NODES / 64];
} node_set;

struct CUevent_st {
    CUcontext context;
    unsigned flags;
    int references; /* of the program and of queued work */
    uint64_t issued, done;
    CUstream stream; /* of the last record, which may be gone, and its number there */
    uint64_t number;
    struct timespec time;
    CUgraph capture;    /* in which it was recorded, else NULL */
    node_set before;    /* the nodes of the capture before it */
    uint64_t before_of; /* the number of that capture; 0: there are no nodes */
    /* Of an event that processes share. */
    struct shared_event {
        atomic_ullong issued, done;
    } * shared;
    int file; /* with that memory, or -1; other processes open it by this one's number */
    int is_opened;
};

typedef struct work work;
struct work {
    work *next;
    enum { LAUNCH, COPY, FILL, LIBRARY, RECORD, WAIT, CALLBACK, GRAPH } kind;
    const twin *kernel;
    size_t items, group;
    char arguments[GPU_ARGUMENTS][640];
    CUdeviceptr to_device, from_device; /* 0: on the host */
    CUcontext to_context, from_context;
    char *to;
    const char *from;
    size_t bytes;
    uint32_t value, width;
    CUevent event;
    uint64_t record;
    CUgraphExec executable;
    CUgraph graph;
    CUhostFn callback;
    void *user;
    cuda_test_work *library;
    uint64_t number;  /* in its stream, 0: it is not held */
    uint32_t call;    /* that queued it */
    CUstream awaited; /* of the event, up to that number */
    uint64_t awaited_number;
};

struct CUstream_st {
    CUstream next; /* of all */
    CUgraph capture;
    node_set before; /* the nodes that its next work follows */
    CUcontext context;
    pthread_t thread;
    work *first, **last, *running;
    int busy, ends, in_callback;
    int uses_memory;        /* copies or computes, outside the lock */
    uint64_t queued, asked; /* numbers of work: the last one, and up to which the host has waited */
    cl_command_queue queue;
};

struct CUmod_st {
    CUcontext context;
};

typedef struct node {
    work work;
    int follows[8], n_follows;
} node;

struct CUgraph_st {
    CUcontext context;
    int references; /* of the program, executables and launches */
    int is_open, is_broken;
    CUstreamCaptureMode mode;
    pthread_t thread; /* that began the capture */
    CUstream origin;
    uint64_t number;
    node *nodes;
    int n_nodes;
};

struct CUgraphExec_st {
    CUgraph graph;
    uint64_t launched, finished;
    CUstream stream; /* of the last launch, and its number there */
    uint64_t number;
    int references; /* of the program and launches */
};

extern pthread_mutex_t lock; /* of everything here */
extern pthread_cond_t changed;
extern int
    is_hip; /* captures, events of captures and launches of executables are as captures.c says of HIP */
extern struct CUctx_st contexts[DEVICES];
extern CUstream streams;
extern int owner; /* the process that called cuInit */
extern __thread CUcontext current[8];
extern __thread int depth, is_callback;
extern const cuda_test_watch *watch;
extern __thread uint32_t call_number;

/* libcuda.c */
CUresult asked_fault(const char *function);
CUresult keep(CUcontext c, CUresult result);
CUresult enter(const char *function, int needs_context);
/* driver_memory.c: when work was queued, or has run; the host sees the managed memory that it uses if no queued work does. Work of
 * graphs and of libraries is not looked at. */
void watch_managed(const work *w);
/* driver_work.c */
int start_opencl(void);
char *place_for(int user, CUcontext c, CUdeviceptr address, size_t bytes);
char *place_of(CUcontext c, CUdeviceptr address, size_t bytes);
unsigned long long issued_of(const struct CUevent_st *e);
unsigned long long done_of(const struct CUevent_st *e);
void wait_for(const struct CUevent_st *e);
void ask(CUstream s, uint64_t number);
void release_event(CUevent e);
void run(CUstream s, work *w);
CUstream make_stream(CUcontext c);
void end_stream(CUstream s);
CUstream stream_of(CUcontext c, CUstream s);
CUresult queue(CUcontext c, CUstream s, work w);
/* captures.c */
void release_graph(CUgraph g);
CUgraph capture_of(CUstream s);
CUresult break_capture(CUgraph g, CUresult result);
CUresult capture_work(CUstream s, work w);
CUresult capture_wait(CUstream s, CUevent e);
CUresult captured(CUevent e);
CUgraph capture_that_refuses(const struct CUevent_st *e);
CUresult unsafe(const char *function);
void run_graph(CUstream s, work *w);

#define BEGIN(needs_context)                          \
    CUresult result = enter(__func__, needs_context); \
    CUcontext c = depth ? current[depth - 1] : NULL;  \
    (void)c;                                          \
    if (result) goto end;
#define END                      \
    goto end;                    \
    end:                         \
    pthread_mutex_unlock(&lock); \
    return result;
/* The whole of a call that only answers. */
#define ANSWER(statement) \
    BEGIN(0)              \
    statement;            \
    END
#define REFUSE(condition, with) \
    if (condition) {            \
        result = (with);        \
        goto end;               \
    }

#endif
