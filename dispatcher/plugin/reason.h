/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a plugin was refused: a text in the caller's storage. The functions of this folder pass it up to the list
 * of candidates, where users can read it.
 */
#ifndef TNI_PLUGIN_REASON_H
#define TNI_PLUGIN_REASON_H

#include "core/error.h"

#define TNI_REASON_BYTES 1024

typedef struct tni_reason {
    char text[TNI_REASON_BYTES];
} tni_reason;

/* Sets the text, cut if it is too long; returns `status`. */
int32_t tni_reason_set(tni_reason *reason, int32_t status, const char *format, ...) TNI_PRINTF(3, 4);
/* Appends to the text, separated by "; ". */
void tni_reason_add(tni_reason *reason, const char *format, ...) TNI_PRINTF(2, 3);

#endif
