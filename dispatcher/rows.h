/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rows of plugins, operator libraries and programs: checks, registration, rows that wait. */
#ifndef TNI_DISPATCHER_ROWS_H
#define TNI_DISPATCHER_ROWS_H

#include "dispatcher/registry.h"

/* An array of rows for one device type. */
typedef struct tni_rows {
    const char *device_type;
    const char *owner; /* the plugin, or "the program" */
    void *self;
    const tn_kernel_row *rows;
    uint32_t count;
    uint32_t row_bytes;  /* distance between rows: the size of a row in the owner's header */
    int32_t is_complete; /* rows that this version does not understand are refused, not passed over */
} tni_rows;

/*
 * Checks all rows, then adds them. Rows of operators that are not defined yet, and rows for a device type that no
 * loaded plugin has, are kept until both are there. A plugin may have rows for several versions: those that this
 * version does not understand are kept, too, for tn_inspect_unused_row alone.
 */
int32_t tni_kernels_register(tn_context *ctx, const tni_rows *rows);
/* Disables the rows that were registered with this self pointer, which is not NULL. */
void tni_kernels_remove(tn_context *ctx, const void *self);
/* Disables the rows that were registered from this array on. */
int32_t tni_kernels_unregister(tn_context *ctx, const char *device_type, const tn_kernel_row *rows);

/* Inserts the rows that waited for this operator. Lock held. */
void tni_rows_adopt(tni_registry *r, tni_op *op);
/* Inserts the rows that waited for the type of this device. Takes the lock. */
void tni_rows_adopt_device(tn_context *ctx, const tni_device_type *type);
/* Forgets the waiting rows for which `is_meant` gives 1. Lock held. */
void tni_rows_forget(tni_registry *r, int32_t (*is_meant)(const tn_kernel_row *row, const char *library),
                     const char *library);
void tni_rows_finish(tni_registry *r);

#endif
