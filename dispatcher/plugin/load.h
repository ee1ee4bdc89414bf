/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading: from a sound file to a plugin with state, its interface tables copied into structs of the host's
 * own size. Says nothing to the registry or the devices; plugins.c does.
 *
 * Tables are read by the rule of skew: the first min(size, known) bytes, the tail ignored, what is missing
 * absent. A required interface or slot that is absent refuses the plugin by its name.
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
    int32_t has_device; /* driver is filled; else an operator library */
    tni_driver driver;
    tn_kernels_interface kernels; /* size 0: absent; likewise below */
    tn_layout_interface layout;
    tn_shim_interface shim; /* size not 0: it is a shim */
    int32_t shim_behind;    /* it is one, and stands behind others, which hide its interface */
    /* Of those that say they can be unloaded: */
    tni_vector threads;          /* of the process, before the library came; int32_t */
    struct tni_plugin *next_one; /* in the process's list; see load.c */
} tni_plugin;

/* The shims that stand before a plugin, the host's end first. */
typedef struct tni_shim_chain {
    tni_plugin *shims[TNI_SHIM_COUNT];
    uint32_t count;
} tni_shim_chain;

/*
 * Loads the file whose block is `elf`. On failure the reason says at which step; what init had made is shut
 * down again, and the file stays mapped, since its code may have left pointers behind. `chain` (NULL: none)
 * must outlive the plugin's shims only; without it the plugin's own tables are used as they are.
 */
int32_t tni_plugin_load(tn_context *ctx, const char *path, const tni_elf_info *elf,
                        const tni_shim_chain *chain, TN_OUT tni_plugin **out, TN_OUT tni_reason *reason);
/*
 * Quiesces, shuts down, and unloads if the plugin says that it can, has confirmed it by its quiesce, and no
 * thread is left that appeared while it was loaded; one that has its code on the stack is a finding. No
 * handle of it may live. NULL is ignored.
 */
void tni_plugin_unload(TN_TAKES tni_plugin *plugin);
/* In a child of fork, where nothing of the plugin may be called: it is left as it is. */
void tni_plugin_abandon(tni_plugin *plugin);

#endif
