/* SPDX-License-Identifier: Apache-2.0 */
/* dlopen, negotiation, init, interface tables; see load.h. */
#include "dispatcher/plugin/load.h"
#include "dispatcher/registry.h"

#include <dlfcn.h>
#include <string.h>

#include "core/finding.h"
#include "core/text.h"
#include "dispatcher/plugin/threads.h"

/* A slot that an interface must have, by its place in the struct. */
typedef struct required_slot {
    uint32_t offset;
    const char *name;
} required_slot;

typedef struct known_interface {
    const char *name;
    uint32_t place;   /* of the copy in tni_plugin */
    uint32_t bytes;   /* as this host knows it */
    int32_t required; /* of a device plugin */
    const required_slot *slots;
} known_interface;

#define SLOT(type, slot)            \
    {                               \
        offsetof(type, slot), #slot \
    }
#define NO_SLOT \
    {           \
        0, NULL \
    }

static const required_slot device_slots[] = {SLOT(tn_device_interface, type),
                                             SLOT(tn_device_interface, enumerate),
                                             SLOT(tn_device_interface, facts),
                                             SLOT(tn_device_interface, open),
                                             SLOT(tn_device_interface, close),
                                             SLOT(tn_device_interface, synchronize),
                                             NO_SLOT};
static const required_slot memory_slots[] = {SLOT(tn_memory_interface, alloc),
                                             SLOT(tn_memory_interface, free), SLOT(tn_memory_interface, fill),
                                             SLOT(tn_memory_interface, info), NO_SLOT};
static const required_slot copy_slots[] = {SLOT(tn_copy_interface, host_to_device),
                                           SLOT(tn_copy_interface, device_to_host),
                                           SLOT(tn_copy_interface, device_to_device), NO_SLOT};
static const required_slot stream_slots[] = {
    SLOT(tn_stream_interface, create), SLOT(tn_stream_interface, destroy), SLOT(tn_stream_interface, query),
    SLOT(tn_stream_interface, synchronize), NO_SLOT};
static const required_slot event_slots[] = {
    SLOT(tn_event_interface, create), SLOT(tn_event_interface, destroy),     SLOT(tn_event_interface, record),
    SLOT(tn_event_interface, query),  SLOT(tn_event_interface, synchronize), NO_SLOT};
static const required_slot allocator_slots[] = {SLOT(tn_allocator_interface, alloc),
                                                SLOT(tn_allocator_interface, free), NO_SLOT};
static const required_slot graph_slots[] = {SLOT(tn_graph_interface, begin),
                                            SLOT(tn_graph_interface, end),
                                            SLOT(tn_graph_interface, destroy),
                                            SLOT(tn_graph_interface, instantiate),
                                            SLOT(tn_graph_interface, launch),
                                            SLOT(tn_graph_interface, destroy_executable),
                                            NO_SLOT};
static const required_slot collectives_slots[] = {SLOT(tn_collectives_interface, supports),
                                                  SLOT(tn_collectives_interface, create),
                                                  SLOT(tn_collectives_interface, destroy),
                                                  SLOT(tn_collectives_interface, status),
                                                  SLOT(tn_collectives_interface, all_to_all),
                                                  SLOT(tn_collectives_interface, all_reduce),
                                                  SLOT(tn_collectives_interface, broadcast),
                                                  SLOT(tn_collectives_interface, all_gather),
                                                  SLOT(tn_collectives_interface, reduce_scatter),
                                                  SLOT(tn_collectives_interface, barrier),
                                                  NO_SLOT};
static const required_slot settings_slots[] = {SLOT(tn_settings_interface, describe),
                                               SLOT(tn_settings_interface, get),
                                               SLOT(tn_settings_interface, set), NO_SLOT};
static const required_slot activity_slots[] = {
    SLOT(tn_x_activity_interface, begin), SLOT(tn_x_activity_interface, push),
    SLOT(tn_x_activity_interface, pop), SLOT(tn_x_activity_interface, end), NO_SLOT};
static const required_slot shim_slots[] = {SLOT(tn_shim_interface, wrap), NO_SLOT};
static const required_slot no_slots[] = {NO_SLOT};

#define PLACE(member) offsetof(tni_plugin, member), sizeof(((tni_plugin *)0)->member)

static const known_interface device_interface = {"tenon.device", PLACE(driver.device), 1, device_slots};
static const known_interface interfaces[] = {
    {"tenon.memory", PLACE(driver.memory), 1, memory_slots},
    {"tenon.copy", PLACE(driver.copy), 1, copy_slots},
    {"tenon.stream", PLACE(driver.stream), 1, stream_slots},
    {"tenon.event", PLACE(driver.event), 0, event_slots},
    {"tenon.allocator", PLACE(driver.allocator), 0, allocator_slots},
    {"tenon.graph", PLACE(driver.graph), 0, graph_slots},
    {"tenon.collectives", PLACE(driver.collectives), 0, collectives_slots},
    {"tenon.settings", PLACE(driver.settings), 0, settings_slots},
    {"tenon.interop", PLACE(driver.interop), 0, no_slots},
    {"tenon.x.activity", PLACE(driver.activity), 0, activity_slots},
    {"tenon.kernels", PLACE(kernels), 0, no_slots},
    {"tenon.autocast", PLACE(driver.autocast), 0, no_slots},
    {"tenon.shim", PLACE(shim), 0, shim_slots},
    {"tenon.experimental", PLACE(experimental), 0, no_slots},
};

/* ---- Interfaces -------------------------------------------------------------------------------------- */

static int32_t check_slots(const known_interface *known, const char *copy, uint32_t given, tni_reason *reason)
{
    for (const required_slot *slot = known->slots; slot->name; slot++) {
        void *value;
        memcpy(&value, copy + slot->offset, sizeof(value));
        if (!value)
            return tni_reason_set(reason, TN_E_CONTRACT,
                                  "interface '%s' lacks the required slot '%s' (it has %u bytes)",
                                  known->name, slot->name, given);
    }
    return TN_OK;
}

/* Copies one interface into the plugin; absent leaves zeros, with size 0. */
static int32_t take_interface(tni_plugin *p, const known_interface *known, tni_reason *reason)
{
    char *copy = (char *)p + known->place;
    const void *given = p->table.get_interface(p->self, known->name, 1);
    uint32_t size = 0;
    memset(copy, 0, known->bytes);
    if (!given && !known->required) return TN_OK;
    if (!given)
        return tni_reason_set(reason, TN_E_CONTRACT, "the required interface '%s' version 1 is missing",
                              known->name);
    memcpy(&size, given, sizeof(size));
    if (size < 2 * sizeof(uint32_t))
        return tni_reason_set(reason, TN_E_CONTRACT,
                              "interface '%s': size is %u; set it to the size of the struct", known->name,
                              size);
    memcpy(copy, given, size < known->bytes ? size : known->bytes);
    int32_t status = check_slots(known, copy, size, reason);
    memcpy(copy, &known->bytes, sizeof(uint32_t)); /* complete: what was missing is NULL */
    return status;
}

/* Checks the count and size of the rows; the registry reads the rows. */
static int32_t check_kernels(const tn_kernels_interface *k, tni_reason *reason)
{
    if (k->count > 0 && !k->rows)
        return tni_reason_set(reason, TN_E_CONTRACT, "interface 'tenon.kernels': %u rows, but 'rows' is NULL",
                              k->count);
    if (k->count > 0 && k->row_bytes < offsetof(tn_kernel_row, can_run))
        return tni_reason_set(reason, TN_E_CONTRACT,
                              "interface 'tenon.kernels': rows of %u bytes, expected at least %zu",
                              k->row_bytes, offsetof(tn_kernel_row, can_run));
    return TN_OK;
}

static int32_t check_autocast(const tn_autocast_interface *a, tni_reason *reason)
{
    tn_dtype low = a->low_dtype;
    if (!low || low == TN_FLOAT16 || low == TN_BFLOAT16 || low == TN_FLOAT32) return TN_OK;
    const char *name = tn_dtype_name(low);
    return tni_reason_set(reason, TN_E_CONTRACT,
                          "interface 'tenon.autocast': low_dtype is 0x%x (%s), expected bfloat16, float16, "
                          "float32 or 0",
                          low, name ? name : "no dtype");
}

/* Experimental interfaces that the plugin says it has. Of them the host asks for tenon.x.activity only. */
static int32_t take_experimental(tni_plugin *p, tni_reason *reason)
{
    static const char prefix[] = "tenon.x.";
    const tn_experimental_interface *e = &p->experimental;
    char all[1024];
    tni_text text = tni_text_begin(all, sizeof all);
    for (uint32_t i = 0; i < e->count; i++) {
        const char *name = e->names ? e->names[i] : NULL;
        if (!name || strncmp(name, prefix, sizeof prefix - 1) != 0 || !name[sizeof prefix - 1])
            return tni_reason_set(
                reason, TN_E_CONTRACT,
                "interface 'tenon.experimental': name %u is %s%.63s%s (expected one that begins "
                "with '%s')",
                i, name ? "'" : "", name ? name : "NULL", name ? "'" : "", prefix);
        tni_text_add(&text, "%s%.63s", i ? ", " : "", name);
    }
    if (!text.length || (p->experimental_text = tn_intern(p->ctx, all))) return TN_OK;
    return tni_reason_set(reason, TN_E_OUT_OF_MEMORY, "out of memory");
}

static int32_t take_interfaces(tni_plugin *p, tni_reason *reason)
{
    const void *device = p->table.get_interface(p->self, device_interface.name, 1);
    int32_t status = TN_OK;
    p->driver.plugin = p->info->name;
    p->driver.self = p->self;
    p->has_device = device != NULL;
    if (device) status = take_interface(p, &device_interface, reason);
    for (uint32_t i = 0; status == TN_OK && i < sizeof(interfaces) / sizeof(interfaces[0]); i++) {
        if (device || !interfaces[i].required) status = take_interface(p, &interfaces[i], reason);
    }
    if (status == TN_OK) status = check_kernels(&p->kernels, reason);
    if (status == TN_OK) status = check_autocast(&p->driver.autocast, reason);
    return status == TN_OK ? take_experimental(p, reason) : status;
}

/* ---- Unloading --------------------------------------------------------------------------------------- */

/*
 * The plugins of this process that can be unloaded, of all contexts. A library that several contexts use is loaded
 * once: it is unloaded with the last of them, and the threads to ignore are those from before the first.
 */
static pthread_mutex_t unloadable_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t unloadable_once = PTHREAD_ONCE_INIT;
static tni_plugin *unloadable;

static void lock_unloadable(void)
{
    pthread_mutex_lock(&unloadable_lock);
}

static void unlock_unloadable(void)
{
    pthread_mutex_unlock(&unloadable_lock);
}

/* A fork waits for the lock, so that it is free in the child. */
static void watch_forks(void)
{
    pthread_atfork(lock_unloadable, unlock_unloadable, unlock_unloadable);
}

static int32_t copy_threads(tn_context *ctx, const tni_vector *from, tni_vector *to)
{
    for (uint32_t i = 0; i < from->count; i++) {
        int32_t *slot = tni_vector_push(ctx, to, sizeof *slot);
        if (!slot) return TN_E_OUT_OF_MEMORY;
        *slot = ((const int32_t *)from->data)[i];
    }
    return TN_OK;
}

/* Adds a plugin. If another context uses its library, it takes over that list of threads. */
static int32_t join_unloadable(tni_plugin *p)
{
    int32_t status = TN_OK;
    pthread_once(&unloadable_once, watch_forks);
    pthread_mutex_lock(&unloadable_lock);
    const tni_plugin *first = unloadable;
    while (first && first->handle != p->handle) first = first->next_one;
    if (first) {
        p->threads.count = 0;
        status = copy_threads(p->ctx, &first->threads, &p->threads);
    }
    p->next_one = unloadable;
    unloadable = p;
    pthread_mutex_unlock(&unloadable_lock);
    return status;
}

/* Removes a plugin. 1: it was the last of its library. */
static int32_t leave_unloadable(const tni_plugin *p)
{
    int32_t others = 0;
    pthread_mutex_lock(&unloadable_lock);
    tni_plugin **link = &unloadable;
    while (*link && *link != p) link = &(*link)->next_one;
    if (*link) *link = p->next_one;
    for (const tni_plugin *q = unloadable; q; q = q->next_one) others += q->handle == p->handle;
    pthread_mutex_unlock(&unloadable_lock);
    return others == 0;
}

/* Whether the library may be unloaded; if not, reports why as a finding. */
static int32_t may_unload(const tni_plugin *p, int32_t quiesced)
{
    int32_t is_last = leave_unloadable(p), thread = 0;
    if (quiesced != TN_OK) {
        tni_breach(p->ctx, p->info->name, "quiesce-failed", NULL,
                   "quiesce returned %d (%s); the library stays loaded", quiesced, tn_status_text(quiesced));
        return 0;
    }
    int32_t left = is_last ? tni_threads_left(&p->threads, p->handle, &thread) : TNI_THREADS_NONE;
    if (left == TNI_THREADS_INSIDE)
        tni_breach(p->ctx, p->info->name, "thread-outlives-shutdown", NULL,
                   "thread %d has the library's code on its stack after quiesce and shutdown, although the "
                   "library says that it can be unloaded; it stays loaded",
                   thread);
    return left == TNI_THREADS_NONE;
}

/* ---- Steps ------------------------------------------------------------------------------------------- */

static int32_t open_library(tni_plugin *p, const char *path, const tni_elf_info *elf, tni_reason *reason)
{
    p->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!p->handle) {
        const char *text = dlerror();
        return tni_reason_set(reason, TN_E_IO, "cannot load: %s", text ? text : "unknown cause");
    }
    p->info = dlsym(p->handle, TN_PLUGIN_SYMBOL);
    if (!p->info)
        return tni_reason_set(reason, TN_E_CONTRACT, "the loaded library has no '%s'", TN_PLUGIN_SYMBOL);
    if (!tni_elf_info_equal(&elf->info, p->info, reason)) {
        tni_reason text = *reason;
        return tni_reason_set(reason, TN_E_CONTRACT, "the loaded block is not the one in the file: %.900s",
                              text.text);
    }
    if (!p->info->entry) return tni_reason_set(reason, TN_E_CONTRACT, "'%s' has no entry", TN_PLUGIN_SYMBOL);
    return TN_OK;
}

static int32_t negotiate(tni_plugin *p, tni_reason *reason)
{
    char why[256] = "";
    tn_plugin_table table = {.size = sizeof(table)};
    tn_host_offer offer = {.size = sizeof(offer),
                           .abi_min = TN_ABI_GENERATION,
                           .abi_max = TN_ABI_GENERATION,
                           .reason = why,
                           .reason_bytes = sizeof(why) - 1};
    int32_t status = p->info->entry(&offer, &table);
    why[sizeof(why) - 1] = 0;
    if (status != TN_OK)
        return tni_reason_set(reason, TN_E_VERSION, "the plugin declines ABI generation %u: %s",
                              TN_ABI_GENERATION, why[0] ? why : tn_status_text(status));
    if (table.abi == 0)
        return tni_reason_set(reason, TN_E_VERSION,
                              "entry settled on no ABI generation (0): it must call tn_negotiate first");
    if (table.abi != TN_ABI_GENERATION)
        return tni_reason_set(reason, TN_E_VERSION, "entry settled on ABI generation %u, offered was %u",
                              table.abi, TN_ABI_GENERATION);
    const char *missing = !table.init            ? "init"
                          : !table.get_interface ? "get_interface"
                          : !table.shutdown      ? "shutdown"
                                                 : NULL;
    if (missing) return tni_reason_set(reason, TN_E_CONTRACT, "the plugin's table lacks '%s'", missing);
    p->table = table;
    return TN_OK;
}

/* One step of a chain of shims: the shim at `at`, or the plugin behind the last. */
typedef struct chain_step {
    tni_plugin *plugin;
    const tni_shim_chain *chain;
    uint32_t at;
} chain_step;

static int32_t open_next(void *next, const tn_host *host, void **out_self, tn_plugin_table *out)
{
    const chain_step *step = next;
    tni_plugin *p = step->plugin;
    if (step->at < step->chain->count) {
        const tni_plugin *shim = step->chain->shims[step->at];
        chain_step behind = {p, step->chain, step->at + 1};
        const tn_shim_target target = {
            .size = sizeof(target), .info = p->info, .next = &behind, .open = open_next};
        return shim->shim.wrap(shim->self, host, &target, out_self, out);
    }
    int32_t status = p->table.init(host, out_self);
    if (status == TN_OK) {
        p->shim_behind = p->table.get_interface(*out_self, "tenon.shim", 1) != NULL;
        uint32_t size = out->size;
        tn_plugin_table table = p->table;
        table.init = NULL;
        memcpy(out, &table, size < sizeof(table) ? size : sizeof(table));
        out->size = size;
    }
    return status;
}

/* init of the plugin, through the shims if there are any: their table then stands for the plugin's. */
static int32_t init_plugin(tni_plugin *p, const tni_shim_chain *chain, void **out_self)
{
    if (!chain || !chain->count) return p->table.init(&p->ctx->host, out_self);
    chain_step first = {p, chain, 0};
    tn_plugin_table table = {.size = sizeof(table)};
    int32_t status = open_next(&first, &p->ctx->host, out_self, &table);
    if (status == TN_OK && (!table.get_interface || !table.shutdown))
        status = tni_error(TN_E_CONTRACT, "a shim left the plugin's table incomplete");
    if (status == TN_OK) p->table = table;
    return status;
}

static int32_t make_state(tni_plugin *p, const tni_shim_chain *chain, tni_reason *reason)
{
    void *self = NULL;
    tni_registry *r = p->ctx->registry;
    tn_clear_error();
    if (r) { /* else a plugin registers nothing by itself */
        atomic_store(&r->starting, p->info->name);
        atomic_store(&r->starting_on, &tni_tls);
    }
    int32_t status = init_plugin(p, chain, &self);
    if (r) atomic_store(&r->starting_on, NULL);
    if (status != TN_OK) {
        const tn_error *error = tn_last_error();
        p->table = (tn_plugin_table){0}; /* nothing to shut down */
        return tni_reason_set(reason, status, "init failed: %s",
                              error && error->code == status ? error->message : tn_status_text(status));
    }
    p->self = self;
    return TN_OK;
}

/* `file_stays`: the library is not unloaded. */
static void destroy(tni_plugin *p, int32_t file_stays)
{
    int32_t quiesced = p->table.quiesce ? p->table.quiesce(p->self) : TN_OK;
    if (p->table.shutdown) p->table.shutdown(p->self);
    if (file_stays)
        leave_unloadable(p);
    else if (p->info->flags & TN_PLUGIN_CAN_UNLOAD && may_unload(p, quiesced))
        dlclose(p->handle);
    tni_vector_finish(p->ctx, &p->threads, sizeof(int32_t));
    tni_free(p->ctx, p, sizeof(*p));
}

int32_t tni_plugin_load(tn_context *ctx, const char *path, const tni_elf_info *elf,
                        const tni_shim_chain *chain, tni_plugin **out, tni_reason *reason)
{
    tni_plugin *p = tni_alloc_zeroed(ctx, sizeof(*p));
    if (!p) return tni_reason_set(reason, TN_E_OUT_OF_MEMORY, "out of memory");
    p->ctx = ctx;
    int32_t unloads = (elf->info.flags & TN_PLUGIN_CAN_UNLOAD) != 0;
    int32_t status = unloads ? tni_threads_read(ctx, &p->threads) : TN_OK;
    if (status != TN_OK) tni_reason_set(reason, status, "out of memory");
    if (status == TN_OK) status = open_library(p, path, elf, reason);
    if (status == TN_OK && unloads && (status = join_unloadable(p)) != TN_OK)
        tni_reason_set(reason, status, "out of memory");
    if (status == TN_OK) status = negotiate(p, reason);
    if (status == TN_OK) status = make_state(p, chain, reason);
    if (status == TN_OK) status = take_interfaces(p, reason);
    if (status == TN_OK)
        *out = p;
    else
        destroy(p, 1);
    return status;
}

void tni_plugin_unload(tni_plugin *plugin)
{
    if (plugin) destroy(plugin, 0);
}

void tni_plugin_abandon(tni_plugin *plugin)
{
    leave_unloadable(plugin);
}
