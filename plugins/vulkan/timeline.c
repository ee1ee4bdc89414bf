/* SPDX-License-Identifier: Apache-2.0 */
/* Timelines, which tell how far a stream is, and the waits for them: of the host, and of queues of other libraries. */
#include "vulkan.h"

#include <stdlib.h>

#define WAIT_NS 500000000u /* of one wait; then it is asked whether the device is lost */

/* ---- Timelines -------------------------------------------------------------------------------------------- */

/*
 * The semaphore is kept for another timeline. It could be destroyed when its batches and those that waited for it have ended,
 * but Mesa's thread that submits batches lets go of what a batch has waited for only afterwards, and would use freed memory.
 */
void vulkan_timeline_release(vulkan_device *d, vulkan_timeline *t)
{
    if (!t || --t->references) return;
    t->next = d->free_timelines;
    d->free_timelines = t;
}

/* A timeline that was released and is at its end, or NULL. */
static vulkan_timeline *take_free(vulkan_device *d)
{
    for (vulkan_timeline **at = &d->free_timelines, *t; (t = *at); at = &t->next) {
        uint64_t now = 0;
        if (d->vk.GetSemaphoreCounterValue(d->device, t->semaphore, &now) != VK_SUCCESS || now != t->last)
            continue;
        *at = t->next;
        return t;
    }
    return NULL;
}

static VkResult create_semaphore(const vulkan_device *d, VkSemaphore *out)
{
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    return d->vk.CreateSemaphore(d->device, &info, NULL, out);
}

int32_t vulkan_timeline_create(vulkan_device *d, vulkan_timeline **out)
{
    VkResult result = VK_SUCCESS;
    vulkan_timeline *t = take_free(d);
    const int32_t is_new = !t;
    if (is_new) t = calloc(1, sizeof *t);
    if (!t) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    if (is_new) result = create_semaphore(d, &t->semaphore);
    if (result != VK_SUCCESS) {
        free(t);
        return vulkan_check(d, result, "vkCreateSemaphore");
    }
    t->next = NULL;
    t->submitted = t->last;
    t->references = 1;
    *out = t;
    return TN_OK;
}

void vulkan_timelines_finish(vulkan_device *d)
{
    for (vulkan_timeline *t = d->free_timelines, *next; t; t = next) {
        next = t->next;
        d->vk.DestroySemaphore(d->device, t->semaphore, NULL);
        free(t);
    }
}

int32_t vulkan_timeline_value(vulkan_device *d, const vulkan_timeline *t, uint64_t *out)
{
    VkResult result = d->vk.GetSemaphoreCounterValue(d->device, t->semaphore, out);
    if (result == VK_SUCCESS && *out == UINT64_MAX) result = VK_ERROR_DEVICE_LOST;
    return vulkan_check(d, result, "vkGetSemaphoreCounterValue");
}

int32_t vulkan_timeline_reached(vulkan_device *d, const vulkan_timeline *t, uint64_t value,
                                int32_t *out_reached)
{
    uint64_t now = 0;
    int32_t status = vulkan_timeline_value(d, t, &now);
    if (!status) *out_reached = now >= value;
    return status;
}

/* In slices: drivers may look only when a wait begins or ends whether the device is lost, and what was refused for want of memory must
 * be submitted again. */
int32_t vulkan_timeline_wait(vulkan_device *d, const vulkan_timeline *t, uint64_t value)
{
    const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1,
                                      .pSemaphores = &t->semaphore,
                                      .pValues = &value};
    uint64_t now;
    VkResult result = VK_SUCCESS;
    int32_t status = TN_OK;
    while (!status && (result = d->vk.WaitSemaphores(d->device, &info, WAIT_NS)) == VK_TIMEOUT) {
        status = vulkan_status(d);
        pthread_mutex_lock(&d->lock);
        if (!status && t->submitted < value) status = vulkan_submit_all(d);
        pthread_mutex_unlock(&d->lock);
    }
    if (!status) status = vulkan_check(d, result, "queued work");
    /* A wait may succeed because the device is lost. */
    return status ? status : vulkan_timeline_value(d, t, &now);
}

/* ---- Queues of other libraries ----------------------------------------------------------------------------- */

static void foreign_wait_destroy(vulkan_device *d, vulkan_foreign_wait *w)
{
    vulkan_timeline_release(d, w->awaited);
    vulkan_timeline_release(d, w->end);
    free(w);
}

/* Forgets the waits of other libraries' queues that have ended. With the lock held. */
static void foreign_waits_retire(vulkan_device *d)
{
    for (vulkan_foreign_wait **at = &d->foreign_waits, *w; (w = *at);) {
        int32_t has_ended = 0;
        if (!vulkan_timeline_reached(d, w->end, w->end->last, &has_ended) && has_ended) {
            *at = w->next;
            foreign_wait_destroy(d, w);
        } else {
            at = &w->next;
        }
    }
}

/* Submits a wait to a queue of another library, which may have much to do before it. With the lock held. */
static int32_t wait_in_queue(vulkan_device *d, VkQueue native, const vulkan_event *e)
{
    const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    foreign_waits_retire(d);
    vulkan_foreign_wait *w = calloc(1, sizeof *w);
    if (!w) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    int32_t status = vulkan_timeline_create(d, &w->end);
    if (status) {
        free(w);
        return status;
    }
    w->awaited = e->timeline;
    w->awaited->references++;
    w->end->last++;
    const VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                    .waitSemaphoreValueCount = 1,
                                                    .pWaitSemaphoreValues = &e->value,
                                                    .signalSemaphoreValueCount = 1,
                                                    .pSignalSemaphoreValues = &w->end->last};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = &timeline,
                               .waitSemaphoreCount = 1,
                               .pWaitSemaphores = &e->timeline->semaphore,
                               .pWaitDstStageMask = &stage,
                               .signalSemaphoreCount = 1,
                               .pSignalSemaphores = &w->end->semaphore};
    status = vulkan_check(d, d->vk.QueueSubmit(native, 1, &info, VK_NULL_HANDLE),
                          "vkQueueSubmit to the queue of another library");
    if (status) {
        w->end->last--;
        foreign_wait_destroy(d, w);
        return status;
    }
    w->next = d->foreign_waits;
    d->foreign_waits = w;
    return TN_OK;
}

int32_t vulkan_native_wait(void *device, uint64_t native, void *event)
{
    vulkan_device *d = device;
    const vulkan_event *e = event;
    pthread_mutex_lock(&d->lock);
    /* The queue may be ours, which must not wait for what is submitted to it later: the host waits. */
    const int32_t is_held = e->timeline->submitted < e->value;
    int32_t status = is_held ? TN_OK : wait_in_queue(d, (VkQueue)(uintptr_t)native, e);
    pthread_mutex_unlock(&d->lock);
    return is_held ? vulkan_timeline_wait(d, e->timeline, e->value) : status;
}

void vulkan_native_waits_finish(vulkan_device *d)
{
    for (vulkan_foreign_wait *w = d->foreign_waits, *next; w; w = next) {
        next = w->next;
        foreign_wait_destroy(d, w);
    }
}
