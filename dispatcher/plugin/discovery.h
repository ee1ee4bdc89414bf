/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery: walks the search path, reads every manifest, checks who may have written the files, reads the
 * block of each library and compares it with the host. Nothing is loaded here. Everything that was looked at
 * stays in the list of candidates with its state and reason, in a stable order: places as in the path,
 * manifests in one folder by name.
 */
#ifndef TNI_PLUGIN_DISCOVERY_H
#define TNI_PLUGIN_DISCOVERY_H

#include "core/memory.h"
#include "dispatcher/plugin/elf_info.h"
#include "dispatcher/plugin/manifest.h"
#include "dispatcher/plugin/search_path.h"

/* Besides the public TN_CANDIDATE_... : sound so far, to be loaded. */
#define TNI_CANDIDATE_READY 3u

/* Strings belong to the candidate and live as long as the discovery. */
typedef struct tni_candidate {
    uint32_t state;
    int32_t trusted;   /* from a standard folder: not probed */
    char *manifest;    /* path, or NULL when loaded by path */
    char *library;     /* absolute, links resolved; NULL when it is not known */
    char *name;        /* "" when it is not known */
    char *device_type; /* "" likewise; the loaded plugin's own word replaces the manifest's */
    char *requires;    /* names, comma separated */
    char *shim;        /* "validate" when it is a shim, else "" */
    char *reason;      /* "" when all is well */
    uint64_t device;   /* of the library file */
    uint64_t inode;
    uint32_t device_count;
    tni_elf_info elf; /* elf.info.size 0: not read */
} tni_candidate;

typedef struct tni_discovery {
    tn_context *ctx;
    tni_vector folders;    /* char * each: the places that were searched */
    tni_vector candidates; /* tni_candidate * each: addresses do not move */
} tni_discovery;

/* Fills *d. Fails only when out of memory; what is wrong with a candidate is said in the candidate. */
int32_t tni_discover(tn_context *ctx, const tni_plugin_settings *settings, TN_OUT tni_discovery *d);
/* Adds the shims of the standard folders, and nothing else of them, to a discovery whose search path did not
 * lead there. */
int32_t tni_discover_shims(tni_discovery *d, const tni_plugin_settings *settings);
void tni_discovery_finish(tni_discovery *d);

static inline tni_candidate *tni_candidate_at(const tni_discovery *d, uint32_t i)
{
    return ((tni_candidate **)d->candidates.data)[i];
}
/* Adds a candidate that a program names by its path, examined like the others but for the name lists. */
int32_t tni_discover_library(tni_discovery *d, const char *path, TN_OUT tni_candidate **out);
/* Adds a candidate for a shim that was asked for and has no file. */
int32_t tni_discover_nothing(tni_discovery *d, const char *shim, TN_OUT tni_candidate **out);
/* Sets state and reason. */
int32_t tni_candidate_set(tn_context *ctx, tni_candidate *c, uint32_t state, const char *reason);
/* Replaces one string of a candidate. */
int32_t tni_candidate_text(tn_context *ctx, char **slot, const char *text);

#endif
