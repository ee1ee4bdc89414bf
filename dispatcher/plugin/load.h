/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading: from a sound file to a plugin with state, its interface tables copied into structs of the host's
 * own size. plugins.c then registers its devices and kernels.
 *
 * Of each table the first min(size, known size) bytes are read: a tail is ignored, missing slots are NULL. A
 * plugin without a required interface or slot is refused, with the name of what it lacks.
 */
#ifndef TNI_PLUGIN_LOAD_H
#define TNI_PLUGIN_LOAD_H

#include "core/device.h"
#include "dispatcher/plugin/elf_info.h"
#include "dispatcher/plugin/shims.h"

typedef struct tni_plugin {
    tn_context *ctx;
    void *handle; /* of dlopen */
    const tn_plugin_info *info;
    tn_plugin_table table;
    void *self;
    int32_t has_device; /* it has a driver; else it is an operator library */
    tni_driver driver;
    tn_kernels_interface kernels; /* size 0: absent; likewise below */
    tn_shim_interface shim;       /* size not 0: the plugin is a shim */
    tn_experimental_interface experimental;
    uint32_t experimental_text; /* interned: its names, "tenon.x.a, tenon.x.b"; 0: it has none */
    int32_t shim_behind;        /* it is a shim, loaded behind other shims, which hide its interface */
    /* Only of plugins with TN_PLUGIN_CAN_UNLOAD: */
    tni_vector threads;          /* of the process, before the library came; int32_t */
    struct tni_plugin *next_one; /* in the process's list; see load.c */
} tni_plugin;

/* The shims that stand before a plugin, the host's end first. */
typedef struct tni_shim_chain {
    tni_plugin *shims[TNI_SHIM_COUNT];
    uint32_t count;
} tni_shim_chain;

/*
 * Loads the file whose block is `elf`. On failure the reason names the step; if init had run, shutdown runs; and
 * the file stays mapped, since its code may have left pointers behind. `chain` (NULL: no shims) is borrowed
 * until this returns.
 */
int32_t tni_plugin_load(tn_context *ctx, const char *path, const tni_elf_info *elf,
                        const tni_shim_chain *chain, TN_OUT tni_plugin **out, TN_OUT tni_reason *reason);
/*
 * Calls quiesce and shutdown, then unloads the library if it has TN_PLUGIN_CAN_UNLOAD, quiesce succeeded, and no
 * thread that appeared while it was loaded is left. Such a thread with the library's code on its stack is a
 * finding. No handle of the plugin may be in use. NULL is ignored.
 */
void tni_plugin_unload(TN_TAKES tni_plugin *plugin);
/* In a child of fork, where no function of the plugin may be called: forgets the plugin. */
void tni_plugin_abandon(tni_plugin *plugin);

#endif
