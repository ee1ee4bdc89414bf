/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of commands and events of the Level Zero driver for tests: a thread for each list. */
#include "ze_driver.h"

enum { IN_ORDER = 2 }; /* a flag of later versions */

/* ---- Lists of commands ----------------------------------------------------------------------------------------- */

/* Whether a command of any list will signal the event. */
static int will_signal(ze_event_handle_t e)
{
    for (ze_command_list_handle_t list = lists; list; list = list->next)
        for (const command *c = list->first; c; c = c->next)
            if (c->signal == e) return 1;
    return 0;
}

/* As Intel's driver, whose lists in order count their commands: an event that such a list signals waits for a count, and without
 * one, after a reset, it has come. */
static int has_come(ze_event_handle_t e)
{
    return e->is_signalled || (e->counts && !will_signal(e));
}

static int is_ready(const command *c)
{
    if (c->is_held && c->kind != BARRIER) return 0;
    for (uint32_t i = 0; i < c->n_waits; i++)
        if (!has_come(c->waits[i])) return 0;
    return 1;
}

/* The command to run now, which leaves the list: a barrier if it is the first one, else the last one before a barrier; of a list
 * in order the first one. */
static command *choose(ze_command_list_handle_t list)
{
    command **at = &list->first, **chosen = NULL;
    if (list->is_ordered) return *at && is_ready(*at) ? *at : NULL;
    if (*at && (*at)->kind == BARRIER && is_ready(*at)) chosen = at;
    for (; *at && (*at)->kind != BARRIER; at = &(*at)->next)
        if (is_ready(*at)) chosen = at;
    return chosen ? *chosen : NULL;
}

static void run_command(const command *c)
{
    if (c->kind == COPY) memcpy(real_address(c->to), real_address(c->from), c->bytes);
    if (c->kind == FILL)
        for (size_t i = 0; i < c->bytes; i += c->pattern_bytes)
            memcpy((char *)real_address(c->to) + i, c->pattern, c->pattern_bytes);
    if (c->kind == LAUNCH) run_kernel(c);
    if (c->kind == WORK) c->work(c->data);
}

static int writes_device(const command *c)
{
    return c->kind == LAUNCH || c->kind == WORK || (c->kind != BARRIER && is_device_memory(c->to));
}

static void drop(ze_command_list_handle_t list, command *c)
{
    command **at = &list->first;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    watch_shared(c);
    for (uint32_t i = 0; i < c->n_waits; i++) c->waits[i]->o.in_use--;
    if (c->signal) c->signal->o.in_use--;
    if (c->kernel) c->kernel->o.in_use--;
    free(c->arguments);
    free(c->data);
    free(c);
}

static void *run_list(void *data)
{
    ze_command_list_handle_t list = data;
    pthread_mutex_lock(&lock);
    for (;;) {
        command *c = is_lost ? NULL : choose(list);
        if (c && writes_device(c) && (late_delay() || late_is_closed())) {
            list->is_busy = 1;
            pthread_mutex_unlock(&lock);
            late_begin(); /* more commands may come, and change the choice */
            pthread_mutex_lock(&lock);
            c = is_lost ? NULL : choose(list);
        }
        list->is_busy = c != NULL;
        if (!c && list->stops) break;
        if (!c) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        if (c->kind != BARRIER && fault_of("work")) {
            lose();
            continue;
        }
        list->is_running = c->kind != WORK; /* another library's may wait for another device */
        pthread_mutex_unlock(&lock);
        run_command(c);
        pthread_mutex_lock(&lock);
        list->is_running = 0;
        if (c->signal) c->signal->time = now();
        if (c->signal) c->signal->is_signalled = 1;
        drop(list, c);
        list->is_busy = 0;
        pthread_cond_broadcast(&changed);
    }
    while (list->first) drop(list, list->first);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* The host waits for the event: the commands up to the one that signals it begin, and those that they wait for. */
static void ask(ze_event_handle_t e)
{
    for (ze_command_list_handle_t list = lists; list; list = list->next) {
        const command *last = list->first;
        while (last && last->signal != e) last = last->next;
        for (command *c = list->first; last; c = c->next) {
            const int was_held = c->is_held;
            c->is_held = 0;
            for (uint32_t i = 0; was_held && i < c->n_waits; i++) ask(c->waits[i]);
            if (c == last) break;
        }
    }
    pthread_cond_broadcast(&changed);
}

/* Whether some list has work that can go on without the host. */
static int goes_on(void)
{
    for (ze_command_list_handle_t list = lists; list; list = list->next)
        if (list->is_busy || choose(list)) return 1;
    return 0;
}

/* A list and its events, and what it copies, have one context; events are for the list's device. */
static void expect_event(ze_command_list_handle_t list, ze_event_handle_t e, const char *function)
{
    if (!is_alive(e, 'E', function)) return;
    e->o.in_use++;
    if (e->pool->context != list->context) report("%s: the event is of another context", function);
    if (e->pool->only && e->pool->only != list->device)
        report("%s: the event is for another device", function);
}

static void expect_place(ze_command_list_handle_t list, const void *p, size_t bytes, const char *function)
{
    if (!p) return;
    expect_memory(p, bytes, function);
    const allocation *a = allocation_of(p);
    if (a && a->context != list->context) report("%s: %p is memory of another context", function, p);
}

/* Drivers may stay in the call until the host has signalled what only the host can signal, and meanwhile no list of the same
 * engine goes on. */
static void expect_signal(ze_event_handle_t e, const char *function)
{
    if (!e->is_signalled && !will_signal(e) && !is_lost)
        report("%s: the list waits for what only the host can signal", function);
}

/* Appends a copy of the command; takes the lock for itself. */
static ze_result_t append(ze_command_list_handle_t list, const char *function, command c,
                          ze_event_handle_t signal, uint32_t n_waits, ze_event_handle_t *waits)
{
    if (!list) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    call_begin(&list->o, function);
    pthread_mutex_lock(&lock);
    ze_result_t result =
        is_alive(list, 'L', function) ? fault_of(function) : ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (n_waits > MOST_WAITS) result = ZE_RESULT_ERROR_INVALID_SIZE;
    command *copy = result ? NULL : malloc(sizeof *copy);
    if (copy) {
        *copy = c;
        copy->signal = signal;
        copy->n_waits = n_waits;
        copy->is_held = late_until_asked();
        late_queued();
        if (signal) expect_event(list, signal, function);
        if (signal && signal->is_signalled) report("%s: the event to signal was not reset", function);
        if (signal) signal->counts = list->is_ordered;
        if (signal) signal->of = list->device;
        for (uint32_t i = 0; i < n_waits; i++) {
            copy->waits[i] = waits[i];
            expect_event(list, waits[i], function);
            expect_signal(waits[i], function);
            if (waits[i]->counts && waits[i]->of != list->device && !setting("ZE_TEST_TILES"))
                report("%s: the event counts in memory of another card", function);
        }
        if (copy->kernel) copy->kernel->o.in_use++;
        expect_place(list, copy->to, copy->bytes, function);
        expect_place(list, copy->from, copy->bytes, function);
        command **at = &list->first;
        while (*at) at = &(*at)->next;
        *at = copy;
        watch_shared(copy);
        if (signal && signal->waiters) ask(signal);
        pthread_cond_broadcast(&changed);
    } else {
        free(c.arguments);
        free(c.data);
    }
    pthread_mutex_unlock(&lock);
    call_end(&list->o);
    return result;
}

ze_result_t ZE_APICALL zeCommandListCreateImmediate(ze_context_handle_t context, ze_device_handle_t device,
                                                    const ze_command_queue_desc_t *desc,
                                                    ze_command_list_handle_t *out)
{
    ENTER(context, 'C');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC);
    if (desc->ordinal != 1) report("%s: group %u does not compute", __func__, desc->ordinal);
    if (desc->flags & ~(uint32_t)IN_ORDER) report("%s: flags %x", __func__, desc->flags);
    if (desc->index >= ENGINES) report("%s: index %u of %d", __func__, desc->index, ENGINES);
    if (setting("ZE_TEST_PRIORITIES")) report("%s: priority %d", __func__, (int)desc->priority);
    if (setting("ZE_TEST_INDICES")) report("%s: index %u", __func__, desc->index);
    ze_command_list_handle_t list = make(sizeof *list, 'L');
    list->context = context;
    list->is_ordered = (desc->flags & IN_ORDER) != 0 && keeps_order();
    list->device = device;
    list->next = lists;
    lists = list;
    context->children++;
    pthread_create(&list->thread, NULL, run_list, list);
    *out = list;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeCommandListDestroy(ze_command_list_handle_t list)
{
    ENTER_TO_END(list, 'L');
    if (list->first && !is_lost) report("%s: there is queued work", __func__);
    list->stops = list->o.is_dead = 1;
    ze_command_list_handle_t *at = &lists;
    list->context->children--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(list->thread, NULL);
    pthread_mutex_lock(&lock);
    while (*at != list) at = &(*at)->next;
    *at = list->next;
    end_object(list);
    return leave(fault);
}

ze_result_t ZE_APICALL zeCommandListAppendBarrier(ze_command_list_handle_t list, ze_event_handle_t signal,
                                                  uint32_t n_waits, ze_event_handle_t *waits)
{
    return append(list, __func__, (command){.kind = BARRIER}, signal, n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendMemoryCopy(ze_command_list_handle_t list, void *to,
                                                     const void *from, size_t bytes, ze_event_handle_t signal,
                                                     uint32_t n_waits, ze_event_handle_t *waits)
{
    if (!to || !from) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    return append(list, __func__, (command){.kind = COPY, .to = to, .from = from, .bytes = bytes}, signal,
                  n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendMemoryFill(ze_command_list_handle_t list, void *to,
                                                     const void *pattern, size_t pattern_bytes, size_t bytes,
                                                     ze_event_handle_t signal, uint32_t n_waits,
                                                     ze_event_handle_t *waits)
{
    command c = {.kind = FILL, .to = to, .bytes = bytes, .pattern_bytes = pattern_bytes};
    if (!to || !pattern) return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (!pattern_bytes || pattern_bytes > 16 || pattern_bytes & (pattern_bytes - 1))
        return ZE_RESULT_ERROR_INVALID_SIZE;
    if (pattern_bytes == 2 && ((uintptr_t)to % 4 || bytes % 4)) /* as Intel's driver before 2023 */
        report("%s: a pattern of two bytes would be written in whole words", __func__);
    memcpy(c.pattern, pattern, pattern_bytes);
    return append(list, __func__, c, signal, n_waits, waits);
}

ze_result_t ZE_APICALL zeCommandListAppendLaunchKernel(ze_command_list_handle_t list,
                                                       ze_kernel_handle_t kernel,
                                                       const ze_group_count_t *groups,
                                                       ze_event_handle_t signal, uint32_t n_waits,
                                                       ze_event_handle_t *waits)
{
    if (!kernel) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    call_begin(&kernel->o, __func__);
    if (!is_alive(kernel, 'K', __func__) || !kernel->group)
        report("%s: the kernel has no group size", __func__);
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < kernel->n_args; i++) {
        const void *p;
        memcpy(&p, kernel->args[i].bytes, sizeof p);
        if (!kernel->args[i].is_set) report("%s: argument %u was never set", __func__, i);
        if (kernel->args[i].is_memory && p) expect_memory(p, 1, __func__);
        if (kernel->args[i].is_memory && p && !allocation_of(p))
            report("%s: argument %u is no memory of the device or the host", __func__, i);
    }
    command c = {
        .kind = LAUNCH, .kernel = kernel, .groups = groups->groupCountX, .arguments = malloc(sizeof *kernel)};
    memcpy(c.arguments, kernel, sizeof *kernel);
    pthread_mutex_unlock(&lock);
    ze_result_t result = append(list, __func__, c, signal, n_waits, waits);
    call_end(&kernel->o);
    return result;
}

/* ---- For other libraries ---------------------------------------------------------------------------------------- */

ze_result_t ze_test_queue(ze_command_list_handle_t list, ze_test_work *work, const void *data, size_t bytes)
{
    command c = {.kind = WORK, .work = work, .data = malloc(bytes)};
    if (!c.data) return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(c.data, data, bytes);
    return append(list, __func__, c, NULL, 0, NULL);
}

int ze_test_is_idle(ze_command_list_handle_t list)
{
    pthread_mutex_lock(&lock);
    const int is_idle = is_alive(list, 'L', __func__) && (!list->first || is_lost);
    pthread_mutex_unlock(&lock);
    return is_idle;
}

/* ---- Events ---------------------------------------------------------------------------------------------------- */

ze_result_t ZE_APICALL zeEventPoolCreate(ze_context_handle_t context, const ze_event_pool_desc_t *desc,
                                         uint32_t n_devices, ze_device_handle_t *of,
                                         ze_event_pool_handle_t *out)
{
    ENTER(context, 'C');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_EVENT_POOL_DESC);
    if (!desc->count || desc->count > 1024) return leave(ZE_RESULT_ERROR_INVALID_SIZE);
    if (!(desc->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE))
        report("%s: the host cannot see its events", __func__);
    ze_event_pool_handle_t pool = make(sizeof *pool, 'P');
    pool->context = context;
    pool->only = n_devices == 1 ? of[0] : NULL;
    pool->count = desc->count;
    pool->has_times = (desc->flags & ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP) != 0;
    if (setting("ZE_TEST_POOLS")) report("%s: %s times", __func__, pool->has_times ? "with" : "without");
    context->children++;
    *out = pool;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeEventPoolDestroy(ze_event_pool_handle_t pool)
{
    ENTER_TO_END(pool, 'P');
    if (pool->live) report("%s: %u events are alive", __func__, pool->live);
    pool->context->children--;
    end_object(pool);
    return leave(fault);
}

ze_result_t ZE_APICALL zeEventCreate(ze_event_pool_handle_t pool, const ze_event_desc_t *desc,
                                     ze_event_handle_t *out)
{
    ENTER(pool, 'P');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_EVENT_DESC);
    if (desc->index >= pool->count || pool->used[desc->index]) {
        report("%s: index %u is taken, or not below %u", __func__, desc->index, pool->count);
        return leave(ZE_RESULT_ERROR_INVALID_ARGUMENT);
    }
    ze_event_handle_t e = make(sizeof *e, 'E');
    e->pool = pool;
    e->index = desc->index;
    pool->used[desc->index] = 1;
    pool->live++;
    *out = e;
    return leave(ZE_RESULT_SUCCESS);
}

static void expect_unused(ze_event_handle_t e, const char *function)
{
    if (e->o.in_use && !is_lost) report("%s: queued commands use the event", function);
}

ze_result_t ZE_APICALL zeEventDestroy(ze_event_handle_t e)
{
    ENTER_TO_END(e, 'E');
    expect_unused(e, __func__);
    e->pool->used[e->index] = 0;
    e->pool->live--;
    end_object(e);
    return leave(fault);
}

ze_result_t ZE_APICALL zeEventHostSignal(ze_event_handle_t e)
{
    ENTER(e, 'E');
    if (e->counts) return leave(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
    e->time = now();
    e->is_signalled = 1;
    pthread_cond_broadcast(&changed);
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeEventHostReset(ze_event_handle_t e)
{
    ENTER(e, 'E');
    expect_unused(e, __func__);
    e->is_signalled = 0;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeEventHostSynchronize(ze_event_handle_t e, uint64_t timeout)
{
    ENTER(e, 'E');
    if (timeout) ask(e);
    if (timeout && !has_come(e) && late_is_closed()) late_note("reached");
    e->waiters++;
    while (!has_come(e) && !is_lost && timeout) {
        if (!goes_on()) late_note("blocked");
        pthread_cond_wait(&changed, &lock);
    }
    e->waiters--;
    if (is_lost) return leave(ZE_RESULT_ERROR_DEVICE_LOST);
    return leave(has_come(e) ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY);
}

/* As Intel's driver: it does not look whether the device is lost. */
ze_result_t ZE_APICALL zeEventQueryStatus(ze_event_handle_t e)
{
    ENTER_WITHOUT_FAULT(e, 'E');
    if (is_lost) return leave(e->is_signalled ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY);
    ze_result_t fault = fault_of(__func__);
    if (fault) return leave(fault);
    if (!has_come(e) && late_until_asked() && late_insists()) {
        ask(e);
        while (!has_come(e) && !is_lost && goes_on()) pthread_cond_wait(&changed, &lock);
    }
    return leave(has_come(e) ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY);
}

/* Of the clock of timestamps. */
static uint64_t ticks_of(uint64_t nanoseconds)
{
    const uint64_t hertz = (uint64_t)setting_or("ZE_TEST_HERTZ", HERTZ), second = 1000000000;
    return nanoseconds / second * hertz + nanoseconds % second * hertz / second;
}

ze_result_t ZE_APICALL zeEventQueryKernelTimestamp(ze_event_handle_t e, ze_kernel_timestamp_result_t *out)
{
    ENTER(e, 'E');
    static uint64_t
        origin; /* the first one that is asked for stands a millisecond before the end of the clock */
    if (!e->pool->has_times) report("%s: the event has no times", __func__);
    if (!e->is_signalled) return leave(ZE_RESULT_NOT_READY);
    if (!origin) origin = ticks_of(e->time + 1000000);
    uint64_t ticks =
        (ticks_of(e->time) - origin) & (((uint64_t)1 << setting_or("ZE_TEST_BITS", VALID_BITS)) - 1);
    *out = (ze_kernel_timestamp_result_t){{ticks, ticks}, {ticks, ticks}};
    return leave(ZE_RESULT_SUCCESS);
}
