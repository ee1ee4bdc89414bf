/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Vulkan layer for tests: kernels begin late, and who uses what they still need is reported. A thread of each device hands
 * submissions to the driver in their order. The loader takes the layer from VK_LAYER_PATH and VK_INSTANCE_LAYERS. The
 * environment, which may change while the program runs:
 *
 *   FAULTY_DELAY, FAULTY_GATE   how late submissions with kernels are: ../gpu/late.h
 *   FAULTY_UNASKED              a submission, and what was submitted before it, is handed over when the host waits for the value
 *                               that it signals
 *   ZE_TEST_REPORT=FILE         reports are appended to it (default: standard error)
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>
#include "../gpu/late.h"
#include "../gpu/report.h"

#define MOST 8 /* semaphores and command buffers of a submission */

#define DEVICE_FUNCTIONS(X)     \
    X(DestroyDevice)            \
    X(DeviceWaitIdle)           \
    X(QueueSubmit)              \
    X(GetDeviceQueue)           \
    X(CmdDispatch)              \
    X(ResetCommandPool)         \
    X(DestroyCommandPool)       \
    X(AllocateCommandBuffers)   \
    X(DestroySemaphore)         \
    X(WaitSemaphores)           \
    X(GetSemaphoreCounterValue) \
    X(GetDeviceProcAddr)

/* A command buffer of the program. */
typedef struct commands {
    struct commands *next;
    VkCommandBuffer handle;
    VkCommandPool pool;
    int has_kernels;
} commands;

typedef struct submission {
    struct submission *next;
    VkQueue queue;
    uint32_t n_waits, n_signals, n_commands;
    VkSemaphore waits[MOST], signals[MOST];
    uint64_t wait_values[MOST], signal_values[MOST];
    VkPipelineStageFlags stages[MOST];
    VkCommandBuffer commands[MOST];
    int is_late, is_held;
} submission;

/* What is known of the values of a semaphore. */
typedef struct last_signal {
    struct last_signal *next;
    VkSemaphore semaphore;
    uint64_t submitted, asked; /* asked: up to which value the host waits */
} last_signal;

typedef struct device {
    struct device *next;
    VkDevice handle;
#define DECLARE(name) PFN_vk##name name;
    DEVICE_FUNCTIONS(DECLARE)
#undef DECLARE
    VkQueue queue; /* programs of these tests have one */
    commands *commands;
    last_signal *signals;
    submission *first, **last; /* the first one is being handed over */
    pthread_cond_t changed;
    pthread_t thread;
    int stops;
} device;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of everything here */
static device *devices;
static PFN_vkGetInstanceProcAddr next_instance_address;

#define report(...) report_of("late_layer", __VA_ARGS__)

/* Programs of these tests have one device at a time for each handle. Under the lock. */
static device *device_of(VkDevice handle)
{
    device *d = devices;
    while (d && d->handle != handle) d = d->next;
    if (!d) abort();
    return d;
}

static commands *commands_of(VkCommandBuffer handle, device **out_device)
{
    for (device *d = devices; d; d = d->next)
        for (commands *c = d->commands; c; c = c->next)
            if (c->handle == handle) {
                *out_device = d;
                return c;
            }
    abort();
}

/* ---- Submissions ------------------------------------------------------------------------------------------- */

static void hand_over(const device *d, const submission *s)
{
    const VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                    .waitSemaphoreValueCount = s->n_waits,
                                                    .pWaitSemaphoreValues = s->wait_values,
                                                    .signalSemaphoreValueCount = s->n_signals,
                                                    .pSignalSemaphoreValues = s->signal_values};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = &timeline,
                               .waitSemaphoreCount = s->n_waits,
                               .pWaitSemaphores = s->waits,
                               .pWaitDstStageMask = s->stages,
                               .commandBufferCount = s->n_commands,
                               .pCommandBuffers = s->commands,
                               .signalSemaphoreCount = s->n_signals,
                               .pSignalSemaphores = s->signals};
    if (d->QueueSubmit(s->queue, 1, &info, VK_NULL_HANDLE) != VK_SUCCESS) report("a submission was refused");
}

static void *serve(void *data)
{
    device *d = data;
    pthread_mutex_lock(&lock);
    for (;;) {
        submission *s = d->first;
        if (!s && d->stops) break;
        if (!s || s->is_held) {
            pthread_cond_wait(&d->changed, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        if (s->is_late) late_begin();
        pthread_mutex_lock(&lock);
        hand_over(d, s);
        d->first = s->next;
        if (!d->first) d->last = &d->first;
        free(s);
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static last_signal *signal_of(device *d, VkSemaphore semaphore)
{
    last_signal *l = d->signals;
    while (l && l->semaphore != semaphore) l = l->next;
    if (l) return l;
    l = malloc(sizeof *l);
    if (!l) abort();
    *l = (last_signal){.next = d->signals, .semaphore = semaphore};
    return d->signals = l;
}

static void forget_signal(device *d, VkSemaphore semaphore)
{
    last_signal **at = &d->signals, *l;
    while ((l = *at) && l->semaphore != semaphore) at = &l->next;
    if (l) *at = l->next;
    free(l);
}

/* Lets go what the host waits for, and what was submitted before it; under the lock. */
static void let_asked_go(device *d)
{
    const submission *last = NULL;
    for (const submission *s = d->first; s; s = s->next)
        for (uint32_t i = 0; i < s->n_signals; i++)
            if (s->signal_values[i] <= signal_of(d, s->signals[i])->asked) last = s;
    for (submission *s = d->first; last; s = s->next) {
        s->is_held = 0;
        if (s == last) break;
    }
    pthread_cond_broadcast(&d->changed);
}

/* The host waits for that value of the semaphore, which may be submitted later; under the lock. */
static void ask(device *d, VkSemaphore semaphore, uint64_t value)
{
    last_signal *l = signal_of(d, semaphore);
    if (l->asked < value) l->asked = value;
    let_asked_go(d);
}

static void let_go(device *d)
{
    for (submission *s = d->first; s; s = s->next) s->is_held = 0;
    pthread_cond_broadcast(&d->changed);
}

/* Until the driver has all submissions; under the lock. */
static void drain(device *d)
{
    let_go(d);
    while (d->first) pthread_cond_wait(&d->changed, &lock);
}

static VKAPI_ATTR VkResult VKAPI_CALL queue_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *infos,
                                                   VkFence fence)
{
    pthread_mutex_lock(&lock);
    late_queued();
    device *d = devices;
    while (d && d->queue != queue) d = d->next;
    if (!d || fence) abort();
    for (uint32_t i = 0; i < count; i++) {
        const VkSubmitInfo *info = &infos[i];
        const VkTimelineSemaphoreSubmitInfo *info_of = info->pNext;
        submission *s = calloc(1, sizeof *s);
        if (!s || info->waitSemaphoreCount > MOST || info->commandBufferCount > MOST ||
            info->signalSemaphoreCount > MOST)
            abort();
        s->queue = queue;
        s->is_held = late_until_asked();
        s->n_waits = info->waitSemaphoreCount;
        s->n_signals = info->signalSemaphoreCount;
        s->n_commands = info->commandBufferCount;
        for (uint32_t k = 0; k < s->n_waits; k++) {
            s->waits[k] = info->pWaitSemaphores[k];
            s->wait_values[k] = info_of->pWaitSemaphoreValues[k];
            s->stages[k] = info->pWaitDstStageMask[k];
        }
        for (uint32_t k = 0; k < s->n_signals; k++) {
            s->signals[k] = info->pSignalSemaphores[k];
            s->signal_values[k] = info_of->pSignalSemaphoreValues[k];
            signal_of(d, s->signals[k])->submitted = s->signal_values[k];
        }
        for (uint32_t k = 0; k < s->n_commands; k++) {
            device *of;
            s->commands[k] = info->pCommandBuffers[k];
            s->is_late |= commands_of(s->commands[k], &of)->has_kernels;
        }
        *d->last = s;
        d->last = &s->next;
    }
    let_asked_go(d);
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL get_device_queue(VkDevice handle, uint32_t family, uint32_t index,
                                                   VkQueue *out)
{
    pthread_mutex_lock(&lock);
    device *d = device_of(handle);
    pthread_mutex_unlock(&lock);
    d->GetDeviceQueue(handle, family, index, out);
    d->queue = *out;
}

static VKAPI_ATTR VkResult VKAPI_CALL device_wait_idle(VkDevice handle)
{
    pthread_mutex_lock(&lock);
    device *d = device_of(handle);
    drain(d);
    pthread_mutex_unlock(&lock);
    return d->DeviceWaitIdle(handle);
}

/* ---- Command buffers ---------------------------------------------------------------------------------------- */

static VKAPI_ATTR VkResult VKAPI_CALL allocate_command_buffers(VkDevice handle,
                                                               const VkCommandBufferAllocateInfo *info,
                                                               VkCommandBuffer *out)
{
    pthread_mutex_lock(&lock);
    device *d = device_of(handle);
    VkResult result = d->AllocateCommandBuffers(handle, info, out);
    for (uint32_t i = 0; i < info->commandBufferCount && result == VK_SUCCESS; i++) {
        commands *c = malloc(sizeof *c);
        if (!c) abort();
        *c = (commands){.next = d->commands, .handle = out[i], .pool = info->commandPool};
        d->commands = c;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static VKAPI_ATTR void VKAPI_CALL cmd_dispatch(VkCommandBuffer handle, uint32_t x, uint32_t y, uint32_t z)
{
    device *d;
    pthread_mutex_lock(&lock);
    late_queued();
    commands_of(handle, &d)->has_kernels = 1;
    pthread_mutex_unlock(&lock);
    d->CmdDispatch(handle, x, y, z);
}

/* Reports a pool whose command buffers are still to be handed over; under the lock. */
static void expect_unused(const device *d, VkCommandPool pool, const char *what)
{
    for (const submission *s = d->first; s; s = s->next)
        for (uint32_t i = 0; i < s->n_commands; i++)
            for (const commands *c = d->commands; c; c = c->next)
                if (c->handle == s->commands[i] && c->pool == pool)
                    report("%s: its commands have not run", what);
}

static VKAPI_ATTR VkResult VKAPI_CALL reset_command_pool(VkDevice handle, VkCommandPool pool,
                                                         VkCommandPoolResetFlags flags)
{
    pthread_mutex_lock(&lock);
    device *d = device_of(handle);
    expect_unused(d, pool, "vkResetCommandPool");
    for (commands *c = d->commands; c; c = c->next)
        if (c->pool == pool) c->has_kernels = 0;
    pthread_mutex_unlock(&lock);
    return d->ResetCommandPool(handle, pool, flags);
}

static VKAPI_ATTR void VKAPI_CALL destroy_command_pool(VkDevice handle, VkCommandPool pool,
                                                       const VkAllocationCallbacks *allocator)
{
    pthread_mutex_lock(&lock);
    device *d = device_of(handle);
    expect_unused(d, pool, "vkDestroyCommandPool");
    for (commands **at = &d->commands, *c; (c = *at);) {
        if (c->pool == pool) {
            *at = c->next;
            free(c);
        } else {
            at = &c->next;
        }
    }
    pthread_mutex_unlock(&lock);
    d->DestroyCommandPool(handle, pool, allocator);
}

/* ---- Semaphores ----------------------------------------------------------------------------------------------- */

static VKAPI_ATTR void VKAPI_CALL destroy_semaphore(VkDevice handle, VkSemaphore semaphore,
                                                    const VkAllocationCallbacks *allocator)
{
    pthread_mutex_lock(&lock);
    device *d = device_of(handle);
    for (const submission *s = d->first; s; s = s->next) {
        for (uint32_t i = 0; i < s->n_waits; i++)
            if (s->waits[i] == semaphore) report("vkDestroySemaphore: a submission waits for it");
        for (uint32_t i = 0; i < s->n_signals; i++)
            if (s->signals[i] == semaphore) report("vkDestroySemaphore: a submission signals it");
    }
    forget_signal(d, semaphore);
    pthread_mutex_unlock(&lock);
    d->DestroySemaphore(handle, semaphore, allocator);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait_semaphores(VkDevice handle, const VkSemaphoreWaitInfo *info,
                                                      uint64_t timeout)
{
    pthread_mutex_lock(&lock);
    device *d = device_of(handle);
    for (uint32_t i = 0; i < info->semaphoreCount; i++) {
        ask(d, info->pSemaphores[i], info->pValues[i]);
        if (signal_of(d, info->pSemaphores[i])->submitted < info->pValues[i]) late_note("blocked");
    }
    if (late_is_closed()) late_note("reached");
    pthread_mutex_unlock(&lock);
    return d->WaitSemaphores(handle, info, timeout);
}

/* Questions in a row are a wait for all that can be done. */
static VKAPI_ATTR VkResult VKAPI_CALL get_semaphore_value(VkDevice handle, VkSemaphore semaphore,
                                                          uint64_t *out)
{
    uint64_t last = 0;
    const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1,
                                      .pSemaphores = &semaphore,
                                      .pValues = &last};
    pthread_mutex_lock(&lock);
    device *d = device_of(handle);
    VkResult result = d->GetSemaphoreCounterValue(handle, semaphore, out);
    int is_question = late_until_asked() && result == VK_SUCCESS && *out < signal_of(d, semaphore)->submitted;
    if (is_question && late_insists()) {
        last = signal_of(d, semaphore)->submitted;
        ask(d, semaphore, last);
    }
    pthread_mutex_unlock(&lock);
    if (last) result = d->WaitSemaphores(handle, &info, UINT64_MAX);
    return last && result == VK_SUCCESS ? d->GetSemaphoreCounterValue(handle, semaphore, out) : result;
}

/* ---- Devices ------------------------------------------------------------------------------------------------ */

static VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice handle, const VkAllocationCallbacks *allocator)
{
    pthread_mutex_lock(&lock);
    device *d = device_of(handle), **at = &devices;
    if (d->first) report("vkDestroyDevice: work has not run");
    d->stops = 1;
    let_go(d);
    pthread_mutex_unlock(&lock);
    pthread_join(d->thread, NULL);
    pthread_mutex_lock(&lock);
    while (*at != d) at = &(*at)->next;
    *at = d->next;
    pthread_mutex_unlock(&lock);
    d->DestroyDevice(handle, allocator);
    for (commands *c = d->commands, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    while (d->signals) forget_signal(d, d->signals->semaphore);
    pthread_cond_destroy(&d->changed);
    free(d);
}

/* The loader's link to the next layer in a chain of structures, or NULL. Those of instances and devices begin with the same three
 * members. */
typedef struct link_head {
    VkStructureType type;
    const void *next;
    VkLayerFunction function;
} link_head;

static void *link_of(const void *chain, VkStructureType type)
{
    const link_head *link = chain;
    while (link && !(link->type == type && link->function == VK_LAYER_LINK_INFO)) link = link->next;
    return (void *)(uintptr_t)link;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkDevice *out)
{
    VkLayerDeviceCreateInfo *link = link_of(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr instance_address = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    PFN_vkGetDeviceProcAddr device_address = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)instance_address(NULL, "vkCreateDevice");
    VkResult result = create(physical, info, allocator, out);
    if (result != VK_SUCCESS) return result;
    device *d = calloc(1, sizeof *d);
    if (!d) abort();
    d->handle = *out;
    d->last = &d->first;
#define LOAD(name) d->name = (PFN_vk##name)device_address(*out, "vk" #name);
    DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    pthread_cond_init(&d->changed, NULL);
    pthread_mutex_lock(&lock);
    d->next = devices;
    devices = d;
    pthread_mutex_unlock(&lock);
    pthread_create(&d->thread, NULL, serve, d);
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *allocator, VkInstance *out)
{
    VkLayerInstanceCreateInfo *link = link_of(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    next_instance_address = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    return ((PFN_vkCreateInstance)next_instance_address(NULL, "vkCreateInstance"))(info, allocator, out);
}

/* ---- What the loader asks for --------------------------------------------------------------------------------- */

static PFN_vkVoidFunction own(const char *name)
{
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } functions[] = {
#define OWN(vk, function) {vk, (PFN_vkVoidFunction)function}
        OWN("vkCreateInstance", create_instance),
        OWN("vkCreateDevice", create_device),
        OWN("vkDestroyDevice", destroy_device),
        OWN("vkDeviceWaitIdle", device_wait_idle),
        OWN("vkGetDeviceQueue", get_device_queue),
        OWN("vkQueueSubmit", queue_submit),
        OWN("vkAllocateCommandBuffers", allocate_command_buffers),
        OWN("vkCmdDispatch", cmd_dispatch),
        OWN("vkResetCommandPool", reset_command_pool),
        OWN("vkDestroyCommandPool", destroy_command_pool),
        OWN("vkDestroySemaphore", destroy_semaphore),
        OWN("vkWaitSemaphores", wait_semaphores),
        OWN("vkGetSemaphoreCounterValue", get_semaphore_value),
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) return functions[i].function;
    return NULL;
}

VK_LAYER_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL late_GetDeviceProcAddr(VkDevice handle,
                                                                                const char *name);
VK_LAYER_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL late_GetDeviceProcAddr(VkDevice handle,
                                                                                const char *name)
{
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)late_GetDeviceProcAddr;
    PFN_vkVoidFunction function = own(name);
    if (function) return function;
    pthread_mutex_lock(&lock);
    const device *d = device_of(handle);
    pthread_mutex_unlock(&lock);
    return d->GetDeviceProcAddr(handle, name);
}

VK_LAYER_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL late_GetInstanceProcAddr(VkInstance instance,
                                                                                  const char *name);
VK_LAYER_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL late_GetInstanceProcAddr(VkInstance instance,
                                                                                  const char *name)
{
    if (strcmp(name, "vkGetInstanceProcAddr") == 0) return (PFN_vkVoidFunction)late_GetInstanceProcAddr;
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) return (PFN_vkVoidFunction)late_GetDeviceProcAddr;
    PFN_vkVoidFunction function = own(name);
    return function || !next_instance_address ? function : next_instance_address(instance, name);
}
