/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The regions in which calls are cast (tn_scope_options.autocast): a list that hangs from the thread,
 * innermost first, and the casts of parameters that a region keeps. What is cast to what is the dispatcher's
 * business.
 */
#ifndef TNI_CORE_AUTOCAST_H
#define TNI_CORE_AUTOCAST_H

#include "core/pointer_map.h"
#include "core/tensor.h"

typedef struct tni_cast {
    tn_tensor *from;
    tn_tensor *to;
    tni_storage *storage; /* of `from` when it was cast; a reference, so that no other gets its address */
    uint64_t version;     /* of `from` when it was cast */
    int32_t recorded;     /* made while gradients were recorded */
} tni_cast;

typedef struct tni_autocast {
    struct tni_autocast *outer;
    tn_context *ctx;      /* calls of other contexts are none of its business */
    uint32_t device_type; /* interned; 0: all */
    uint32_t enabled;
    tn_dtype low; /* 0: what the device prefers */
    uint32_t keeps;
    tni_vector casts;       /* that are kept, in the outermost region for all inside it */
    tni_pointer_map places; /* of tensors in `casts` */
} tni_autocast;

/* Opens a region on this thread; NULL and an error when there is no memory. */
tni_autocast *tni_autocast_open(tn_context *ctx, const tn_scope_options *options);
/* Ends it, and with the outermost one the casts that were kept. */
void tni_autocast_close(tn_context *ctx, tni_autocast *a);
/* The region that decides for devices of a type; NULL: none, or one that is switched off. */
const tni_autocast *tni_autocast_for(const tn_context *ctx, uint32_t device_type);
/* The cast that was kept of a tensor as it is now, or NULL. Borrowed. */
tn_tensor *tni_autocast_find(const tn_tensor *from, tn_dtype dtype);
/* Keeps a cast till the outermost region ends; takes references to both. Without memory nothing is kept. */
void tni_autocast_keep(tn_tensor *from, tn_tensor *to);

#endif
