/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a plugin was not taken: one text in the caller's storage. The units of this folder hand such texts up
 * until they reach the list of candidates, so that nobody has to look into a log.
 */
#ifndef TNI_PLUGIN_REASON_H
#define TNI_PLUGIN_REASON_H

#include "core/error.h"

#define TNI_REASON_BYTES 1024

typedef struct tni_reason {
    char text[TNI_REASON_BYTES];
} tni_reason;

/* Replaces the text and returns `code`. Too long a text is cut. */
int32_t tni_reason_set(tni_reason *reason, int32_t code, const char *format, ...) TNI_PRINTF(3, 4);
/* Appends, after "; " when there is text already. */
void tni_reason_add(tni_reason *reason, const char *format, ...) TNI_PRINTF(2, 3);

#endif
