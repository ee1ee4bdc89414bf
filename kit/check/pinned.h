/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory of the host, given or pinned by the plugin as the library would ask for it. */
#ifndef TENON_KIT_CHECK_PINNED_H
#define TENON_KIT_CHECK_PINNED_H

#include "hand.h"

#define PINNED_BYTES \
    8192 /* a multiple of the page size on every machine with pages of 4 or 8 KiB; pages are rounded up */

typedef struct pinned {
    tn_memory memory; /* PINNED_BYTES of it */
    void *pages;      /* of the case, or NULL */
} pinned;

/* Whether the plugin allocates such memory itself; else it pins pages. */
int pinned_given(const hand *h);
/* 1; or 0 and the case is skipped: the plugin has no such memory. */
int pinned_there(hand *h, check_result *out);
/* 1; or 0 and the case fails. */
int pinned_take(hand *h, pinned *p, check_result *out);
void pinned_give_back(hand *h, const pinned *p);

#endif
