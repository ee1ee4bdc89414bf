/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as batches of commands. A batch is open, then closed, then submitted, then free again. Closed batches wait for
 * what they need: batches of other streams that are not submitted yet, or a callback before them. So the one queue
 * of the device never waits for what comes behind it.
 */
#include "vulkan.h"

#include <stdlib.h>
#include <string.h>

/* A batch with so many commands, or with so much work, is committed. Drivers end a submission that takes longer than some seconds:
 * a small GPU does 1e9 turns of a loop in a second, so that so many take tens of milliseconds. */
#define BATCH_COMMANDS 64
#define BATCH_WORK     67108864.0
#define BATCHES        256 /* of a stream that are submitted and have not ended; then the host waits */
#define RETIRE         16  /* with so many, a new batch looks which of them have ended */
#define CHUNK_BYTES    (256u << 10)

/* ---- Batches ---------------------------------------------------------------------------------------------- */

static void slab_destroy(vulkan_device *d, vulkan_slab *s)
{
    if (s->pool) d->vk.DestroyDescriptorPool(d->device, s->pool, NULL);
    vulkan_memory_destroy(d, s->memory);
    free(s);
}

/* The set that shows the arguments of a launch: the offset is given with the launch. */
static int32_t slab_set(vulkan_device *d, vulkan_slab *s)
{
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC, 1};
    const VkDescriptorPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                             .maxSets = 1,
                                             .poolSizeCount = 1,
                                             .pPoolSizes = &size};
    VkDescriptorSetAllocateInfo set = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                       .descriptorSetCount = 1,
                                       .pSetLayouts = &d->set_layout};
    int32_t status = vulkan_check(d, d->vk.CreateDescriptorPool(d->device, &pool, NULL, &s->pool),
                                  "vkCreateDescriptorPool");
    set.descriptorPool = s->pool;
    if (!status)
        status = vulkan_check(d, d->vk.AllocateDescriptorSets(d->device, &set, &s->set),
                              "vkAllocateDescriptorSets");
    if (status) return status;
    const VkDescriptorBufferInfo buffer = {.buffer = s->memory->buffer, .range = VULKAN_ARGUMENT_BYTES};
    const VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                        .dstSet = s->set,
                                        .descriptorCount = 1,
                                        .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER_DYNAMIC,
                                        .pBufferInfo = &buffer};
    d->vk.UpdateDescriptorSets(d->device, 1, &write, 0, NULL);
    return TN_OK;
}

/* More free chunks. */
static int32_t slab_create(vulkan_device *d)
{
    vulkan_slab *s = calloc(1, sizeof *s);
    if (!s) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    int32_t status = vulkan_memory_create(d, VULKAN_SLAB_CHUNKS * CHUNK_BYTES, d->host_memory, &s->memory);
    if (!status) status = slab_set(d, s);
    if (status) {
        slab_destroy(d, s);
        return status;
    }
    for (uint32_t i = 0; i < VULKAN_SLAB_CHUNKS; i++) {
        s->chunks[i] = (vulkan_chunk){.next = d->free_chunks, .slab = s, .begin = i * CHUNK_BYTES};
        d->free_chunks = &s->chunks[i];
    }
    s->next = d->slabs;
    d->slabs = s;
    return TN_OK;
}

/* Memory of the open batch, at an offset in the slab of a chunk, which has at least `room` bytes behind it. */
static int32_t chunk_take(vulkan_queue *q, uint32_t bytes, uint32_t room, vulkan_chunk **out,
                          uint32_t *out_offset)
{
    vulkan_device *d = q->device;
    vulkan_batch *b = q->open;
    vulkan_chunk *c = b->chunks;
    if (!c || c->used + room > CHUNK_BYTES) {
        int32_t status = d->free_chunks ? TN_OK : slab_create(d);
        if (status) return status;
        c = d->free_chunks;
        d->free_chunks = c->next;
        c->used = 0;
        c->next = b->chunks;
        b->chunks = c;
    }
    *out = c;
    *out_offset = c->begin + c->used;
    c->used += (bytes + d->uniform_alignment - 1) / d->uniform_alignment * d->uniform_alignment;
    return TN_OK;
}

int32_t vulkan_arguments(vulkan_queue *q, uint32_t bytes, VkDescriptorSet *out_set, uint32_t *out_offset,
                         uint8_t **out_host)
{
    vulkan_chunk *c;
    /* The set shows VULKAN_ARGUMENT_BYTES from the offset on, whatever is used. */
    int32_t status = chunk_take(q, bytes, VULKAN_ARGUMENT_BYTES, &c, out_offset);
    if (status) return status;
    *out_set = c->slab->set;
    *out_host = (uint8_t *)c->slab->memory->host + *out_offset;
    return TN_OK;
}

int32_t vulkan_batch_bytes(vulkan_queue *q, const void *host, uint32_t bytes,
                           const vulkan_memory **out_memory, uint32_t *out_offset)
{
    vulkan_chunk *c;
    int32_t status = chunk_take(q, bytes, bytes, &c, out_offset);
    if (status) return status;
    memcpy((uint8_t *)c->slab->memory->host + *out_offset, host, bytes);
    *out_memory = c->slab->memory;
    return TN_OK;
}

static void batch_destroy(vulkan_device *d, vulkan_batch *b)
{
    if (b->pool) d->vk.DestroyCommandPool(d->device, b->pool, NULL);
    free(b);
}

static int32_t batch_create(vulkan_device *d, vulkan_batch **out)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = d->family};
    VkCommandBufferAllocateInfo buffer = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                          .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                          .commandBufferCount = 1};
    vulkan_batch *b = calloc(1, sizeof *b);
    if (!b) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    int32_t status =
        vulkan_check(d, d->vk.CreateCommandPool(d->device, &pool, NULL, &b->pool), "vkCreateCommandPool");
    buffer.commandPool = b->pool;
    if (!status)
        status = vulkan_check(d, d->vk.AllocateCommandBuffers(d->device, &buffer, &b->commands),
                              "vkAllocateCommandBuffers");
    if (status)
        batch_destroy(d, b);
    else
        *out = b;
    return status;
}

/* One owner less of the slot of a time stamp. */
static void stamp_release(vulkan_stamps *s, uint32_t stamp)
{
    if (s && --s->owners[stamp] == 0) s->free[s->n_free++] = (uint16_t)stamp;
}

/* What a batch has used can be used again. */
static void batch_recycle(vulkan_device *d, vulkan_batch *b)
{
    for (vulkan_chunk *c = b->chunks, *next; c; c = next) {
        next = c->next;
        c->next = d->free_chunks;
        d->free_chunks = c;
    }
    for (uint32_t i = 0; i < b->n_waits; i++) vulkan_timeline_release(d, b->waits[i].timeline);
    stamp_release(b->stamps, b->stamp);
    VkCommandPool pool = b->pool;
    VkCommandBuffer commands = b->commands;
    *b = (vulkan_batch){.pool = pool, .commands = commands};
    if (!pool || d->vk.ResetCommandPool(d->device, pool, 0) != VK_SUCCESS) {
        batch_destroy(d, b);
        return;
    }
    b->next = d->free_batches;
    d->free_batches = b;
}

/* Recycles the batches that have ended. */
static int32_t retire(vulkan_queue *q)
{
    vulkan_device *d = q->device;
    uint64_t now = 0;
    int32_t status = vulkan_timeline_value(d, q->timeline, &now);
    while (!status && q->submitted && q->submitted->value <= now) {
        vulkan_batch *b = q->submitted;
        q->submitted = b->next;
        q->n_submitted--;
        if (!q->submitted) q->last_submitted = NULL;
        batch_recycle(d, b);
    }
    return status;
}

/* Waits for the oldest batch, without the lock. A submitted batch waits for nothing that the host still has to do. */
static int32_t wait_for_oldest(vulkan_queue *q)
{
    vulkan_device *d = q->device;
    vulkan_timeline *t = q->timeline;
    uint64_t value = q->submitted->value;
    t->references++;
    pthread_mutex_unlock(&d->lock);
    int32_t status = vulkan_timeline_wait(d, t, value);
    pthread_mutex_lock(&d->lock);
    vulkan_timeline_release(d, t);
    return status ? status : retire(q);
}

/* The batch that is being encoded. It may have been opened by another thread, while this one waited for an old one. */
static int32_t open_batch(vulkan_queue *q)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    vulkan_device *d = q->device;
    int32_t status = !q->open && q->n_submitted >= RETIRE ? retire(q) : TN_OK;
    while (!status && !q->open && q->n_submitted >= BATCHES) status = wait_for_oldest(q);
    if (status || q->open) return status;
    vulkan_batch *b = d->free_batches;
    if (b)
        d->free_batches = b->next;
    else
        status = batch_create(d, &b);
    if (status) return status;
    status = vulkan_check(d, d->vk.BeginCommandBuffer(b->commands, &info), "vkBeginCommandBuffer");
    if (status) {
        batch_destroy(d, b);
        return status;
    }
    b->next = NULL;
    b->number = ++d->batches;
    q->open = b;
    return TN_OK;
}

void vulkan_collect(vulkan_device *d)
{
    uint64_t oldest = UINT64_MAX; /* of the batches that have not ended */
    for (vulkan_queue *q = d->queues; q; q = q->next) {
        const vulkan_batch *of[] = {q->submitted, q->closed, q->open};
        for (int i = 0; i < 3; i++)
            for (const vulkan_batch *b = of[i]; b; b = b->next)
                if (b->number < oldest) oldest = b->number;
    }
    for (vulkan_memory **at = &d->garbage, *m; (m = *at);) {
        if (m->last_batch < oldest) {
            *at = m->next;
            vulkan_memory_destroy(d, m);
        } else {
            at = &m->next;
        }
    }
}

/* ---- Submission ------------------------------------------------------------------------------------------- */

static void *run_callback(void *data);

static int32_t start_callback(vulkan_queue *q)
{
    pthread_t thread;
    vulkan_device *d = q->device;
    if (pthread_create(&thread, NULL, run_callback, q) != 0)
        return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "no thread for a callback");
    pthread_detach(thread);
    q->closed->is_started = 1;
    d->callbacks++;
    return TN_OK;
}

static int32_t submit(vulkan_queue *q, vulkan_batch *b)
{
    vulkan_device *d = q->device;
    VkSemaphore semaphores[VULKAN_WAITS];
    uint64_t values[VULKAN_WAITS];
    VkPipelineStageFlags stages[VULKAN_WAITS];
    for (uint32_t i = 0; i < b->n_waits; i++) {
        semaphores[i] = b->waits[i].timeline->semaphore;
        values[i] = b->waits[i].value;
        stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    }
    const VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                                    .waitSemaphoreValueCount = b->n_waits,
                                                    .pWaitSemaphoreValues = values,
                                                    .signalSemaphoreValueCount = 1,
                                                    .pSignalSemaphoreValues = &b->value};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = &timeline,
                               .waitSemaphoreCount = b->n_waits,
                               .pWaitSemaphores = semaphores,
                               .pWaitDstStageMask = stages,
                               .commandBufferCount = b->is_dropped ? 0 : 1,
                               .pCommandBuffers = &b->commands,
                               .signalSemaphoreCount = 1,
                               .pSignalSemaphores = &q->timeline->semaphore};
    return vulkan_check(d, d->vk.QueueSubmit(d->queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
}

static vulkan_batch *take_closed(vulkan_queue *q)
{
    vulkan_batch *b = q->closed;
    q->closed = b->next;
    if (!q->closed) q->last_closed = NULL;
    b->next = NULL;
    return b;
}

/* Submits the first closed batch, if nothing holds it; *out_moved: it was. */
static int32_t submit_first(vulkan_queue *q, int32_t *out_moved)
{
    vulkan_batch *b = q->closed;
    if (!b) return TN_OK;
    if (b->callback) return b->is_started ? TN_OK : start_callback(q);
    for (uint32_t i = 0; i < b->n_waits; i++)
        if (b->waits[i].timeline->submitted < b->waits[i].value) return TN_OK;
    int32_t status = submit(q, b);
    if (status) return status;
    take_closed(q);
    q->timeline->submitted = b->value;
    if (q->last_submitted)
        q->last_submitted->next = b;
    else
        q->submitted = b;
    q->last_submitted = b;
    q->n_submitted++;
    *out_moved = 1;
    return TN_OK;
}

int32_t vulkan_submit_all(vulkan_device *d)
{
    int32_t status = TN_OK, moved = 1;
    while (moved && !status) {
        moved = 0;
        for (vulkan_queue *q = d->queues; q && !status; q = q->next) status = submit_first(q, &moved);
    }
    return status;
}

static void append(vulkan_queue *q, vulkan_batch *b)
{
    b->value = ++q->timeline->last;
    if (q->last_closed)
        q->last_closed->next = b;
    else
        q->closed = b;
    q->last_closed = b;
}

/* The error of `n` commands of which the calls have returned: TN_E_OUT_OF_MEMORY would call the last one again. */
static int32_t dropped(const vulkan_device *d, uint32_t n)
{
    return gpu_error(d->plugin, TN_E_INTERNAL,
                     "%u command%s of the stream did not run: vkEndCommandBuffer failed", n,
                     n == 1 ? "" : "s");
}

/* Reports the commands that were dropped since the last report. With the lock held. */
static int32_t report_dropped(vulkan_queue *q)
{
    uint32_t n = q->n_dropped;
    q->n_dropped = 0;
    return n ? dropped(q->device, n) : TN_OK;
}

/* Closes the open batch. If Vulkan refuses its commands it keeps its place in the order, without them. */
static int32_t close_batch(vulkan_queue *q)
{
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                     .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT};
    vulkan_device *d = q->device;
    vulkan_batch *b = q->open;
    if (!b || !(b->n_commands || b->n_waits)) return TN_OK;
    d->vk.CmdPipelineBarrier(b->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0,
                             1, &barrier, 0, NULL, 0, NULL);
    int32_t status = vulkan_check(d, d->vk.EndCommandBuffer(b->commands), "vkEndCommandBuffer");
    q->open = NULL;
    append(q, b);
    if (!status) return TN_OK;
    b->is_dropped = 1;
    q->n_dropped += b->n_commands;
    return status == TN_E_OUT_OF_MEMORY ? dropped(d, b->n_commands) : status;
}

int32_t vulkan_commit(vulkan_queue *q)
{
    int32_t closed = close_batch(q), status = vulkan_submit_all(q->device);
    return closed ? closed : status;
}

/* The status of a call of which the command is in a batch: with TN_E_OUT_OF_MEMORY it would be called again. The next commit
 * submits the batch. */
static int32_t when_encoded(int32_t status)
{
    return status == TN_E_OUT_OF_MEMORY ? TN_OK : status;
}

int32_t vulkan_begin(vulkan_queue *q, VkCommandBuffer *out_commands)
{
    const VkAccessFlags access = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                                 VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    const VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                     .srcAccessMask =
                                         VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
                                     .dstAccessMask = access};
    const VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    int32_t status = open_batch(q);
    if (status) return status;
    q->device->vk.CmdPipelineBarrier(q->open->commands, stages, stages, 0, 1, &barrier, 0, NULL, 0, NULL);
    *out_commands = q->open->commands;
    return TN_OK;
}

int32_t vulkan_end(vulkan_queue *q, double work)
{
    vulkan_batch *b = q->open;
    b->work += work;
    int32_t is_full = ++b->n_commands >= BATCH_COMMANDS || b->work >= BATCH_WORK;
    /* A device without work gets its first command at once. */
    if (is_full || !q->submitted) {
        int32_t status = vulkan_commit(q);
        return when_encoded(status ? status : retire(q));
    }
    return TN_OK;
}

/* An empty batch behind what others have submitted: its end is theirs, too. */
static int32_t mark(vulkan_queue *q)
{
    int32_t status = q->is_shared ? open_batch(q) : TN_OK;
    if (!status && q->is_shared) q->open->n_commands++;
    return status;
}

/* ---- Queues ----------------------------------------------------------------------------------------------- */

int32_t vulkan_queue_create(void *device, int32_t priority, void **out_queue)
{
    vulkan_device *d = device;
    vulkan_queue *q = calloc(1, sizeof *q);
    if (!q) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    q->device = d;
    pthread_mutex_lock(&d->lock);
    int32_t status = vulkan_timeline_create(d, &q->timeline);
    pthread_mutex_unlock(&d->lock);
    if (status) {
        free(q);
        return status;
    }
    GPU_LINK(&d->lock, &d->queues, q);
    *out_queue = q;
    return TN_OK;
}

void vulkan_queue_destroy(void *device, void *queue)
{
    vulkan_device *d = device;
    vulkan_queue *q = queue, **at = &d->queues;
    int32_t status = vulkan_queue_finish(d, q);
    pthread_mutex_lock(&d->lock);
    /* A callback has ended before its thread has left the stream. */
    while (q->closed && q->closed->is_started) pthread_cond_wait(&d->idle, &d->lock);
    while (*at != q) at = &(*at)->next;
    *at = q->next;
    if (status) { /* what has been submitted ends before it is used again, but for a lost device */
        uint64_t submitted = q->timeline->submitted;
        pthread_mutex_unlock(&d->lock);
        (void)vulkan_timeline_wait(d, q->timeline, submitted);
        pthread_mutex_lock(&d->lock);
    }
    if (q->open) batch_recycle(d, q->open);
    while (q->closed) batch_recycle(d, take_closed(q)); /* could not be submitted */
    for (vulkan_batch *b = q->submitted, *next; b; b = next) {
        next = b->next;
        batch_recycle(d, b);
    }
    vulkan_timeline_release(d, q->timeline);
    pthread_mutex_unlock(&d->lock);
    free(q);
}

int32_t vulkan_queue_query(void *device, void *queue, int32_t *out_done)
{
    vulkan_device *d = device;
    vulkan_queue *q = queue;
    int32_t done = 0;
    pthread_mutex_lock(&d->lock);
    int32_t status = q->is_marked ? TN_OK : mark(q);
    if (!status) q->is_marked = q->is_shared;
    (void)close_batch(q); /* what it drops is reported below */
    if (!status) status = vulkan_submit_all(d);
    if (!status) status = vulkan_timeline_reached(d, q->timeline, q->timeline->last, &done);
    if (done) q->is_marked = 0;
    if (!status) status = retire(q);
    if (!status) status = report_dropped(q);
    if (!status) *out_done = done;
    pthread_mutex_unlock(&d->lock);
    return status;
}

int32_t vulkan_queue_finish(void *device, void *queue)
{
    vulkan_device *d = device;
    vulkan_queue *q = queue;
    pthread_mutex_lock(&d->lock);
    int32_t status = mark(q);
    (void)close_batch(q); /* what it drops is reported below */
    if (!status) status = vulkan_submit_all(d);
    uint64_t last = q->timeline->last;
    pthread_mutex_unlock(&d->lock);
    if (!status) status = vulkan_timeline_wait(d, q->timeline, last);
    pthread_mutex_lock(&d->lock);
    q->is_marked = 0;
    if (!status) status = retire(q);
    if (!status) vulkan_collect(d);
    if (!status) status = report_dropped(q);
    pthread_mutex_unlock(&d->lock);
    return status;
}

static int32_t takes_no_wait(const vulkan_queue *q)
{
    return q->open && (q->open->n_commands || q->open->n_waits == VULKAN_WAITS);
}

int32_t vulkan_queue_wait(void *device, void *queue, void *event)
{
    vulkan_device *d = device;
    vulkan_queue *q = queue;
    const vulkan_event *e = event;
    int32_t status;
    if (e->timeline == q->timeline) return TN_OK; /* streams work in order */
    pthread_mutex_lock(&d->lock);
    do {
        status = takes_no_wait(q) ? vulkan_commit(q) : TN_OK;
        if (!status) status = open_batch(q);
    } while (!status && takes_no_wait(q));
    if (!status) {
        e->timeline->references++;
        q->open->waits[q->open->n_waits++] = (vulkan_wait){e->timeline, e->value};
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* Takes the place of a batch: it waits for those before it, and those behind wait until it has returned. */
static void *run_callback(void *data)
{
    vulkan_queue *q = data;
    vulkan_device *d = q->device;
    pthread_mutex_lock(&d->lock);
    vulkan_batch *b = q->closed;
    pthread_mutex_unlock(&d->lock);
    const VkSemaphoreSignalInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
                                        .semaphore = q->timeline->semaphore,
                                        .value = b->value};
    int32_t status = vulkan_timeline_wait(d, q->timeline, b->value - 1);
    b->callback(b->user);
    pthread_mutex_lock(&d->lock);
    take_closed(q);
    if (!status) {
        vulkan_check(d, d->vk.SignalSemaphore(d->device, &info), "vkSignalSemaphore");
        q->timeline->submitted = b->value;
    }
    free(b);
    vulkan_submit_all(d);
    d->callbacks--;
    pthread_cond_broadcast(&d->idle);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

int32_t vulkan_queue_callback(void *device, void *queue, void (*callback)(void *user), void *user)
{
    vulkan_device *d = device;
    vulkan_queue *q = queue;
    vulkan_batch *b = calloc(1, sizeof *b);
    if (!b) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    b->callback = callback;
    b->user = user;
    pthread_mutex_lock(&d->lock);
    int32_t status = mark(q);
    if (!status) status = vulkan_commit(q);
    if (status) {
        free(b);
    } else {
        b->number = ++d->batches;
        append(q, b);
        status = when_encoded(vulkan_submit_all(d));
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* ---- Events ----------------------------------------------------------------------------------------------- */

/* A slot for a time stamp; without one the event has no time. */
static void take_stamp(vulkan_device *d, vulkan_event *e)
{
    const VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                        .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                        .queryCount = VULKAN_STAMPS};
    vulkan_stamps *s = d->stamps;
    while (s && !s->n_free) s = s->next;
    if (!s) {
        s = d->stamp_bits ? calloc(1, sizeof *s) : NULL;
        if (!s) return;
        if (d->vk.CreateQueryPool(d->device, &info, NULL, &s->pool) != VK_SUCCESS) {
            free(s);
            return;
        }
        for (uint16_t i = 0; i < VULKAN_STAMPS; i++) s->free[s->n_free++] = i;
        s->next = d->stamps;
        d->stamps = s;
    }
    e->stamps = s;
    e->stamp = s->free[--s->n_free];
    s->owners[e->stamp] = 1;
}

static void event_destroy(vulkan_device *d, vulkan_event *e)
{
    stamp_release(e->stamps, e->stamp);
    vulkan_timeline_release(d, e->timeline);
    free(e);
}

int32_t vulkan_event_record(void *device, void *queue, void **out_event)
{
    vulkan_device *d = device;
    vulkan_queue *q = queue;
    VkCommandBuffer commands;
    vulkan_event *e = calloc(1, sizeof *e);
    if (!e) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    pthread_mutex_lock(&d->lock);
    int32_t status = vulkan_begin(q, &commands);
    if (!status) {
        take_stamp(d, e);
        if (e->stamps) {
            d->vk.CmdResetQueryPool(commands, e->stamps->pool, e->stamp, 1);
            d->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, e->stamps->pool,
                                    e->stamp);
            /* The slot may be given to another event when this one is released and its batch has ended. */
            e->stamps->owners[e->stamp]++;
            q->open->stamps = e->stamps;
            q->open->stamp = e->stamp;
        }
        q->open->n_commands++;
        status = vulkan_commit(q);
        e->timeline = q->timeline;
        e->timeline->references++;
        e->value = q->timeline->last;
    }
    if (status)
        event_destroy(d, e);
    else
        *out_event = e;
    pthread_mutex_unlock(&d->lock);
    return status;
}

void vulkan_event_release(void *device, void *event)
{
    vulkan_device *d = device;
    pthread_mutex_lock(&d->lock);
    event_destroy(d, event);
    pthread_mutex_unlock(&d->lock);
}

int32_t vulkan_event_query(void *device, void *event, int32_t *out_done)
{
    const vulkan_event *e = event;
    return vulkan_timeline_reached(device, e->timeline, e->value, out_done);
}

int32_t vulkan_event_wait(void *device, void *event)
{
    const vulkan_event *e = event;
    return vulkan_timeline_wait(device, e->timeline, e->value);
}

static int32_t stamp_of(vulkan_device *d, const vulkan_event *e, uint64_t *out)
{
    if (!e->stamps) return gpu_error(d->plugin, TN_E_UNSUPPORTED, "the device has no time stamps");
    return vulkan_check(d,
                        d->vk.GetQueryPoolResults(d->device, e->stamps->pool, e->stamp, 1, sizeof *out, out,
                                                  sizeof *out,
                                                  VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                        "the time of an event");
}

/* From one time stamp to another one, also across the largest: the difference that is nearest to 0. */
static int64_t ticks_between(const vulkan_device *d, uint64_t from, uint64_t to)
{
    uint32_t unused = 64 - d->stamp_bits;
    return (int64_t)((to - from) << unused) >> unused;
}

int32_t vulkan_event_elapsed(void *device, void *start, void *end, double *out_ms)
{
    vulkan_device *d = device;
    uint64_t from = 0, to = 0;
    int32_t status = vulkan_event_wait(d, start);
    if (!status) status = vulkan_event_wait(d, end);
    if (!status) status = stamp_of(d, start, &from);
    if (!status) status = stamp_of(d, end, &to);
    if (!status) *out_ms = (double)ticks_between(d, from, to) * d->nanoseconds / 1e6;
    return status;
}

void vulkan_queues_finish(vulkan_device *d)
{
    vulkan_native_waits_finish(d);
    for (vulkan_batch *b = d->free_batches, *next; b; b = next) {
        next = b->next;
        batch_destroy(d, b);
    }
    for (vulkan_slab *s = d->slabs, *next; s; s = next) {
        next = s->next;
        slab_destroy(d, s);
    }
    for (vulkan_stamps *s = d->stamps, *next; s; s = next) {
        next = s->next;
        d->vk.DestroyQueryPool(d->device, s->pool, NULL);
        free(s);
    }
    vulkan_timelines_finish(d);
}
