/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery: walks the search path, reads every manifest, checks who may have written the files, reads the
 * block of each library and compares it with the host. Nothing is loaded here. All that was examined stays in
 * the list of candidates with its state and reason: in the order of the path, in one folder by name.
 */
#ifndef TNI_PLUGIN_DISCOVERY_H
#define TNI_PLUGIN_DISCOVERY_H

#include "core/memory.h"
#include "dispatcher/plugin/elf_info.h"
#include "dispatcher/plugin/manifest.h"
#include "dispatcher/plugin/search_path.h"

/* A state besides the public TN_CANDIDATE_... : passed all checks, to be loaded. */
#define TNI_CANDIDATE_READY 3u

/* Strings belong to the candidate and live as long as the discovery. */
typedef struct tni_candidate {
    uint32_t state;
    int32_t trusted;   /* from a standard folder: not probed */
    char *manifest;    /* its path; NULL if the program gave the library's path */
    char *library;     /* absolute, links resolved; NULL if not known */
    char *name;        /* "" if not known */
    char *device_type; /* "" likewise; from the manifest, then from the loaded plugin */
    char *requires;    /* names, comma separated */
    char *shim;        /* such as "validate"; "" for other plugins */
    char *reason;      /* "" if there is none */
    uint64_t device;   /* of the library file */
    uint64_t inode;
    tni_elf_info elf; /* elf.info.size 0: not read */
} tni_candidate;

typedef struct tni_discovery {
    tn_context *ctx;
    tni_vector folders;    /* char * each: the places that were searched */
    tni_vector candidates; /* tni_candidate * each: addresses do not move */
} tni_discovery;

/* Fills *d. Fails only when out of memory; what is wrong with a candidate becomes its reason. */
int32_t tni_discover(tn_context *ctx, const tni_plugin_settings *settings, TN_OUT tni_discovery *d);
/* Adds the shims of the standard folders, and no other plugins, where the search path replaces those folders. */
int32_t tni_discover_shims(tni_discovery *d, const tni_plugin_settings *settings);
void tni_discovery_finish(tni_discovery *d);

static inline tni_candidate *tni_candidate_at(const tni_discovery *d, uint32_t i)
{
    return ((tni_candidate **)d->candidates.data)[i];
}
/* Adds a library by its path. It is examined like the others, but needs not be selected. */
int32_t tni_discover_library(tni_discovery *d, const char *path, TN_OUT tni_candidate **out);
/* Adds a candidate for a shim that was requested and has no file. */
int32_t tni_discover_nothing(tni_discovery *d, const char *shim, TN_OUT tni_candidate **out);
/*
 * Why no plugin offers a device type (NULL: any at all), as far as the candidates tell, and where all of them are shown;
 * "" if none was looked for. `has_others`: plugins with other types are loaded.
 */
void tni_discovery_explain(const tni_discovery *d, const char *type, int32_t has_others,
                           TN_OUT tni_reason *out);
/* Sets state and reason. */
int32_t tni_candidate_set(tn_context *ctx, tni_candidate *c, uint32_t state, const char *reason);
/* Replaces one string of a candidate. */
int32_t tni_candidate_text(tn_context *ctx, char **slot, const char *text);

#endif
