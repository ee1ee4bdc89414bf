/* SPDX-License-Identifier: Apache-2.0 */
/* Leaks of host memory: the heap of the process before and behind equal calls; see leaks.c. */
#ifndef TENON_KIT_CHECK_LEAKS_H
#define TENON_KIT_CHECK_LEAKS_H

#include "check.h"

/* Does the thing once, and leaves nothing. 0: it failed, and the case has ended. */
typedef int (*leaks_once_fn)(void *data);
/* Bytes of a call that count as a leak: less than any block of the heap, more than drivers leave now and then. */
#define LEAKS_LEAST 24

/* Does the thing in rounds, the first one of `calls`. Fails the case if the heap grows by `limit` bytes or more for each
 * time in every round. */
void leaks_measure(check_result *out, leaks_once_fn once, void *data, int calls, int64_t limit,
                   const char *what);

#endif
