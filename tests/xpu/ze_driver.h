/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the Level Zero driver for tests share: objects, and how every function begins and ends. ze_driver.c says what
 * the driver is. */
#ifndef TESTS_XPU_ZE_DRIVER_H
#define TESTS_XPU_ZE_DRIVER_H

#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_ddi.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../gpu/late.h"
#include "../gpu/report.h"
#include "ze_library.h"

#define DEVICES    2
#define MEMORY     ((uint64_t)4 << 30)  /* of a device, without ZE_TEST_MEMORY */
#define ARENA      ((uint64_t)64 << 30) /* addresses for device memory; none is given out twice */
#define LARGEST    ((uint64_t)2 << 30)  /* without ZE_TEST_LARGEST */
#define ENGINES    3                    /* in the group of queues that computes */
#define VALID_BITS 32                   /* of timestamps, without ZE_TEST_BITS */
#define HERTZ      19200000             /* of their clock, without ZE_TEST_HERTZ: 52.08 nanoseconds */
/* What knows the flag of lists in order: version 1.7 of the specification, and Intel's driver since this build. */
#define ORDER_VERSION     ZE_MAKE_VERSION(1, 7)
#define INTEL_ORDER_BUILD (0x01030000 + 29534)
#define MOST_ARGS         16
#define MOST_WAITS        4
#define MOST_MEMORY       65536

#define report(...) report_of("ze_driver", __VA_ARGS__)

/* ---- Objects ------------------------------------------------------------------------------------------------- */

/* What a handle points to begins with this. Dead objects are freed late, so that their use is seen. */
typedef struct object {
    struct object *next; /* all there ever were: nothing is lost for those who look for leaks */
    char kind;
    int is_dead, in_use; /* in_use: by a call (lists, kernels), and by queued commands (events, kernels) */
    int is_called;
} object;

struct _ze_driver_handle_t {
    object o;
};
struct _ze_device_handle_t {
    object o;
    uint32_t index;
    uint64_t taken;
};
struct _ze_context_handle_t {
    object o;
    int children;
};
struct _ze_event_pool_handle_t {
    object o;
    ze_context_handle_t context;
    ze_device_handle_t only; /* the device that may use its events; NULL: all */
    uint32_t count, live;
    int has_times;
    char used[1024];
};
struct _ze_event_handle_t {
    object o;
    ze_event_pool_handle_t pool;
    uint32_t index;
    int is_signalled, waiters; /* waiters: calls of the host that wait for it */
    int counts;                /* the list in order that signals it counts its commands: see has_come */
    ze_device_handle_t of;     /* the device of that list */
    uint64_t time;
};
/* Native code is bitcode behind this. */
typedef struct native_head {
    char magic[8];
    uint32_t has_double;
    char flags[116]; /* that it was built with */
} native_head;
struct _ze_module_handle_t {
    object o;
    ze_context_handle_t context;
    cl_program program;
    int kernels;
    native_head head;
    size_t size;
    uint8_t *bytes; /* of the bitcode */
};
struct _ze_kernel_handle_t {
    object o;
    ze_module_handle_t module;
    cl_kernel kernel;
    uint32_t n_args;
    struct {
        size_t size;
        int is_memory, is_set;
        uint8_t bytes[1024];
    } args[MOST_ARGS];
    uint32_t group;
};

enum command_kind { BARRIER, COPY, FILL, LAUNCH, WORK };
typedef struct command {
    struct command *next;
    enum command_kind kind;
    ze_event_handle_t signal, waits[MOST_WAITS];
    uint32_t n_waits;
    void *to;
    const void *from;
    size_t bytes, pattern_bytes;
    uint8_t pattern[16];
    struct _ze_kernel_handle_t *kernel; /* and a copy of its arguments: */
    struct _ze_kernel_handle_t *arguments;
    uint32_t groups;
    int is_held;        /* until the host waits for it */
    ze_test_work *work; /* of another library, and a copy of its data */
    void *data;
} command;

struct _ze_command_list_handle_t {
    object o;
    ze_context_handle_t context;
    ze_device_handle_t device;
    command *first;
    int is_ordered; /* in order, as if a barrier stood behind each command */
    int is_busy, stops;
    int is_running; /* a command, outside the lock */
    pthread_t thread;
    struct _ze_command_list_handle_t *next;
};

typedef struct allocation {
    char *base;
    size_t bytes;
    ze_context_handle_t context;
    ze_device_handle_t device; /* NULL: memory of the host */
    int is_shared, is_open;    /* of the device and the host; open: the host may use it now */
} allocation;

extern pthread_mutex_t lock; /* of everything here */
extern pthread_cond_t changed;
extern int is_lost; /* under the lock */
/* The device is lost; returns when it uses no memory any more, so that the host may free it. Under the lock. */
void lose(void);
extern ze_command_list_handle_t lists; /* until their threads have ended */

/* ze_driver.c */
ze_result_t fault_of(const char *function);
long setting(const char *name);
long setting_or(const char *name, long otherwise);
uint64_t memory_bytes(void);
int keeps_order(void);
ze_memory_access_cap_flags_t shared_capabilities(void);
uint64_t now(void);
int is_alive(const void *handle, char kind, const char *function);
void *make(size_t bytes, char kind);
void end_object(void *handle);
ze_result_t leave(ze_result_t result);
void call_begin(object *o, const char *function);
void call_end(object *o);
/* ze_memory.c */
int is_device_memory(const void *p);
void *real_address(const void *p);
allocation *allocation_of(const void *p);
void expect_memory(const void *p, size_t bytes, const char *function);
void watch_shared(const command *c);
/* ze_modules.c */
int start_opencl(void);
void run_kernel(const command *c);

/* Begins a function: the lock is taken, and the handle is looked at. */
#define ENTER_WITHOUT_FAULT(handle, kind)                      \
    if (!(handle)) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE; \
    pthread_mutex_lock(&lock);                                 \
    if (!is_alive(handle, kind, __func__)) return leave(ZE_RESULT_ERROR_INVALID_ARGUMENT)
/* The same of one that destroys the handle, also where it leaves with the fault. */
#define ENTER_TO_END(handle, kind)     \
    ENTER_WITHOUT_FAULT(handle, kind); \
    const ze_result_t fault = fault_of(__func__)
/* The same of one that a fault ends. */
#define ENTER(handle, kind)                       \
    ENTER_WITHOUT_FAULT(handle, kind);            \
    const ze_result_t fault = fault_of(__func__); \
    if (fault) return leave(fault)
#define EXPECT_TYPE(desc, type) \
    if ((desc)->stype != (type)) report("%s: stype is %d, not %s", __func__, (int)(desc)->stype, #type)

#endif
