/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adversarial settings, TENON_REFERENCE_CHAOS and others. Streams keep their own order, which is all
 * that the contract promises. Between streams only events and waiting hosts decide the order, and here that
 * becomes visible: a held task does not begin before somebody waits for it, or some time has passed, since a
 * device must make progress by itself. A program that forgets to wait sees old values.
 *
 * Everything is drawn from the seed when work is queued, for each stream: the same program with the same
 * seed meets the same holds and pauses.
 */
#include "reference.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOLD_MICROSECONDS  3000u /* longest delay of a held task under chaos: keeps tests fast */
#define PAUSE_MICROSECONDS 40u   /* longest pause before a task that is not held */
#define LONGEST_STRETCH    12u   /* tasks of one kind in a row */
#define LONGEST_QUEUE      1024u /* tasks that may wait before a stream works without being asked */

uint64_t reference_setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end = NULL;
    unsigned long long number = text ? strtoull(text, &end, 10) : 0;
    return text && end != text && *end == 0 ? number : otherwise;
}

void reference_chaos_init(reference_chaos *c)
{
    uint64_t lazy = reference_setting("TENON_REFERENCE_LAZY", 0);
    c->seed = reference_setting("TENON_REFERENCE_CHAOS", 0);
    c->hold_microseconds = 1000u * (uint32_t)(lazy > REFERENCE_MOST_LAZY ? REFERENCE_MOST_LAZY : lazy);
    c->poison = reference_setting("TENON_REFERENCE_POISON", c->seed || lazy) != 0;
    c->lose_at = reference_setting("TENON_REFERENCE_LOSE", 0);
    c->fail_at = reference_setting("TENON_REFERENCE_FAIL", 0);
    c->refuse_at = reference_setting("TENON_REFERENCE_REFUSE", 0);
    atomic_init(&c->streams, 0);
    atomic_init(&c->refused, 0);
}

/* ---- Pace -------------------------------------------------------------------------------------------- */

/* The next number of a splitmix64 sequence. */
static uint64_t draw(uint64_t *random)
{
    uint64_t z = *random += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

void reference_pace_init(reference_pace *p, reference_chaos *c)
{
    uint64_t number = atomic_fetch_add(&c->streams, 1);
    *p = (reference_pace){.chaos = c, .random = c->seed + number * 0x9e3779b97f4a7c15ull};
}

/* Half of all stretches are held, the others pause now and then or run at once. */
static void begin_stretch(reference_pace *p)
{
    uint64_t number = draw(&p->random);
    p->left = 1 + (uint32_t)(number >> 8) % LONGEST_STRETCH;
    p->held = (number & 1u) != 0;
    p->pauses = (number & 2u) != 0;
}

void reference_pace_set(reference_pace *p, reference_task *task, uint64_t waiting)
{
    const reference_chaos *c = p->chaos;
    if (waiting >= LONGEST_QUEUE) return;
    task->hold_microseconds = c->hold_microseconds;
    if (!c->seed || c->hold_microseconds) return;
    if (!p->left) begin_stretch(p);
    p->left--;
    if (p->held)
        task->hold_microseconds = HOLD_MICROSECONDS;
    else if (p->pauses)
        task->pause_microseconds = (uint32_t)draw(&p->random) % PAUSE_MICROSECONDS;
}

void reference_pause(uint32_t microseconds)
{
    struct timespec t = {.tv_nsec = (long)microseconds * 1000};
    if (microseconds) nanosleep(&t, NULL);
}

/* ---- Failures ---------------------------------------------------------------------------------------- */

int32_t reference_chaos_refuse(reference_chaos *c)
{
    return c->refuse_at && atomic_fetch_add(&c->refused, 1) + 1 == c->refuse_at;
}

int32_t reference_chaos_begin(reference_device *device, const char **out_text)
{
    const reference_chaos *c = &device->state->chaos;
    if (!c->lose_at && !c->fail_at) return TN_OK;
    uint64_t number = atomic_fetch_add(&device->tasks, 1) + 1;
    if (number == c->lose_at) {
        reference_lose(device);
        *out_text = REFERENCE_LOST;
        return TN_E_DEVICE_LOST;
    }
    if (number != c->fail_at) return TN_OK;
    *out_text = "reference: TENON_REFERENCE_FAIL says that this task fails";
    return TN_E_INTERNAL;
}

void reference_lose(reference_device *device)
{
    pthread_rwlock_wrlock(&device->transfers);
    atomic_store(&device->lost, 1);
    pthread_rwlock_unlock(&device->transfers);
}

int32_t reference_check_lost(const reference_device *device)
{
    if (!atomic_load(&device->lost)) return TN_OK;
    return reference_error(device->state, TN_E_DEVICE_LOST, REFERENCE_LOST);
}

/* ---- Poison ------------------------------------------------------------------------------------------ */

void reference_poison(const reference_chaos *c, char *memory, uint64_t bytes)
{
    if (c->poison) memset(memory, REFERENCE_POISON, bytes);
}

int32_t reference_is_poison(const char *memory, uint64_t bytes)
{
    const unsigned char *at = (const unsigned char *)memory;
    return bytes == 0 || (at[0] == REFERENCE_POISON && memcmp(at, at + 1, bytes - 1) == 0);
}
