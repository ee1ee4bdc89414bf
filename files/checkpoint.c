/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints: a safetensors file whose names begin with the part: "module.", "optimizer.", "average.",
 * "more.". The numbers of the other parts are int64 tensors, float64 as its bits: "loader", "scaler",
 * "plateau", "step", and "generator.0" (of the CPU), "generator.1", ... (of the module's devices, in the
 * order of its parameters).
 */
#include <tenon/checkpoint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tensors.h"

#define MOST_DEVICES 64

typedef struct list {
    tn_scope *scope;
    tn_named_tensor *items;
    int64_t count, room;
} list;

static int32_t fail(tn_scope *s, int32_t status, const char *path, const char *what, const char *name)
{
    char text[1024];
    snprintf(text, sizeof text, "checkpoint: '%.400s': %s%.300s", path ? path : "", what, name);
    return tn_scope_fail(s, status, text);
}

/* ---- Lists -------------------------------------------------------------------------------------------- */

static void add(list *l, const char *part, const char *name, tn_tensor *t)
{
    if (tn_scope_failed(l->scope)) return;
    if (l->count == l->room) {
        int64_t room = l->room ? 2 * l->room : 256;
        tn_named_tensor *larger = tn_scope_memory(l->scope, (uint64_t)room * sizeof *larger);
        if (!larger) return;
        if (l->count) memcpy(larger, l->items, (uint64_t)l->count * sizeof *larger);
        l->items = larger;
        l->room = room;
    }
    char *text = tn_scope_memory(l->scope, strlen(part) + strlen(name) + 1);
    if (text) l->items[l->count++] = (tn_named_tensor){strcat(strcpy(text, part), name), t};
}

static void add_all(list *l, const char *part, tn_named_tensors from)
{
    for (int64_t i = 0; i < from.count; i++) add(l, part, from.data[i].name, from.data[i].tensor);
}

static void add_numbers(list *l, const char *name, const int64_t *numbers, int64_t count)
{
    add(l, name, "", tn_from_data(l->scope, TN_INT64, TN_INTS(count), numbers, TN_CPU));
}

/* The tensors of a part, without its name. */
static tn_named_tensors part_of(tn_scope *s, tn_named_tensors all, const char *part)
{
    tn_named_tensor *items = tn_scope_memory(s, (uint64_t)(all.count + 1) * sizeof *items);
    int64_t n = 0;
    for (int64_t i = 0; items && i < all.count; i++)
        if (!strncmp(all.data[i].name, part, strlen(part)))
            items[n++] = (tn_named_tensor){all.data[i].name + strlen(part), all.data[i].tensor};
    return (tn_named_tensors){items, n};
}

static tn_tensor *find(tn_named_tensors all, const char *name)
{
    for (int64_t i = 0; i < all.count; i++)
        if (!strcmp(all.data[i].name, name)) return all.data[i].tensor;
    return NULL;
}

/* Reals lie in the file as the integers with the same bits. */
typedef union number {
    double real;
    int64_t bits;
} number;
#define BITS_OF(x) ((number){.real = (x)}.bits)
#define REAL_OF(n) ((number){.bits = (n)}.real)

/* ---- Generators --------------------------------------------------------------------------------------- */

/* The CPU, and the other devices of the module's tensors. Returns how many. */
static int32_t devices_of(tn_scope *s, const tn_module *m, tn_device out[MOST_DEVICES])
{
    int32_t n = 1;
    tn_named_tensors all = tn_module_tensors(s, m, TN_PARAMETERS | TN_BUFFERS);
    out[0] = TN_CPU;
    for (int64_t i = 0; i < all.count; i++) {
        const tn_device device = tn_tensor_device(all.data[i].tensor);
        int32_t k = 0;
        while (k < n && out[k] != device) k++;
        if (k == n && n < MOST_DEVICES) out[n++] = device;
    }
    return n;
}

static void generator_name(int32_t i, char text[32])
{
    snprintf(text, 32, "generator.%d", i);
}

static void save_generators(list *l, const tn_module *m)
{
    tn_device devices[MOST_DEVICES];
    const int32_t n = devices_of(l->scope, m, devices);
    for (int32_t i = 0; i < n && !tn_scope_failed(l->scope); i++) {
        tn_generator_state state = {.size = sizeof state};
        tn_generator *g = tn_default_generator(tn_module_context(m), devices[i]);
        char name[32];
        if (!g) continue; /* a device without random numbers */
        tn_generator_get_state(g, &state);
        generator_name(i, name);
        add_numbers(l, name, (const int64_t[]){(int64_t)state.seed, (int64_t)state.offset}, 2);
    }
}

/* ---- Parts that are numbers --------------------------------------------------------------------------- */

#define MOST_NUMBERS 8

/* A part: its name, how many numbers it has, and whether it is given. */
typedef struct numbers {
    const char *name;
    int64_t count;
    int32_t is_given;
} numbers;

enum { LOADER, SCALER, PLATEAU, STEP, NUMBER_PARTS };

static void number_parts(const tn_checkpoint_parts *p, numbers out[NUMBER_PARTS])
{
    out[LOADER] = (numbers){"loader", 4, p->loader != NULL};
    out[SCALER] = (numbers){"scaler", 2, p->scaler != NULL};
    out[PLATEAU] = (numbers){"plateau", 5, p->plateau != NULL};
    out[STEP] = (numbers){"step", 1, p->step != NULL};
}

static void save_numbers(list *l, const tn_checkpoint_parts *p)
{
    if (p->loader) {
        tn_loader_state state = {.size = sizeof state};
        tn_loader_get_state(p->loader, &state);
        const int64_t n[] = {(int64_t)state.seed, state.epoch, state.batch, tn_loader_batches(p->loader)};
        add_numbers(l, "loader", n, 4);
    }
    if (p->scaler) {
        tn_grad_scaler_state state = {.size = sizeof state};
        tn_grad_scaler_get_state(p->scaler, &state);
        add_numbers(l, "scaler", (const int64_t[]){BITS_OF(state.scale), state.good}, 2);
    }
    if (p->plateau) {
        const tn_plateau *t = p->plateau;
        add_numbers(l, "plateau",
                    (const int64_t[]){BITS_OF(t->lr), BITS_OF(t->best), t->bad, t->cooling, t->count}, 5);
    }
    if (p->step) add_numbers(l, "step", p->step, 1);
}

static int32_t load_numbers(tn_scope *s, const tn_checkpoint_parts *p, int64_t n[NUMBER_PARTS][MOST_NUMBERS])
{
    const tn_loader_state at = {
        .size = sizeof at, .seed = (uint64_t)n[LOADER][0], .epoch = n[LOADER][1], .batch = n[LOADER][2]};
    const tn_grad_scaler_state scale = {
        .size = sizeof scale, .scale = REAL_OF(n[SCALER][0]), .good = n[SCALER][1]};
    int32_t status = p->loader ? tn_loader_set_state(p->loader, &at) : TN_OK;
    if (!status && p->scaler) status = tn_grad_scaler_set_state(p->scaler, &scale);
    if (status) return tn_scope_fail(s, status, tn_last_error()->message);
    if (p->plateau) {
        p->plateau->lr = REAL_OF(n[PLATEAU][0]);
        p->plateau->best = REAL_OF(n[PLATEAU][1]);
        p->plateau->bad = n[PLATEAU][2];
        p->plateau->cooling = n[PLATEAU][3];
        p->plateau->count = n[PLATEAU][4];
    }
    if (p->step) *p->step = n[STEP][0];
    return TN_OK;
}

/* ---- Saving ------------------------------------------------------------------------------------------- */

static int32_t check(tn_scope *s, const tn_checkpoint_parts *p)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (tn_module_failed(p->module))
        return tn_scope_fail(s, tn_module_failed(p->module), tn_module_error(p->module));
    for (int64_t i = 0; i < p->more.count; i++)
        if (!p->more.data[i].name || !p->more.data[i].tensor)
            return tn_scope_fail(s, TN_E_ARGUMENT, "checkpoint: argument 'more': a name or a tensor is NULL");
    return TN_OK;
}

/* A scope for a call; NULL and an error if the path or the module is missing. */
static tn_scope *open_scope(const tn_checkpoint_parts *p)
{
    const tn_scope_options options = {.size = sizeof options, .grad_mode = TN_GRAD_OFF};
    const char *fault = !p ? "checkpoint: the parts are NULL"
                        : p->options_size < sizeof *p
                            ? "checkpoint: options_size is too small; set it to sizeof(tn_checkpoint_parts)"
                        : !p->path   ? "checkpoint: argument 'path': it is NULL"
                        : !p->module ? "checkpoint: argument 'module': it is NULL"
                                     : NULL;
    if (!fault) return tn_scope_open_with(tn_module_context(p->module), &options);
    tn_scope_fail(NULL, TN_E_ARGUMENT, fault);
    return NULL;
}

int32_t tn_checkpoint_save_with(const tn_checkpoint_parts *p)
{
    tn_scope *s = open_scope(p);
    if (!s) return tn_last_error()->code;
    list l = {.scope = s};
    check(s, p);
    if (!tn_scope_failed(s)) {
        add_all(&l, "module.", tn_module_state_dict(s, p->module));
        if (p->optimizer) add_all(&l, "optimizer.", tn_optimizer_tensors(s, p->optimizer));
        if (p->average) add_all(&l, "average.", tn_average_tensors(s, p->average));
        add_all(&l, "more.", p->more);
        save_numbers(&l, p);
        save_generators(&l, p->module);
    }
    if (!tn_scope_failed(s)) tn_safetensors_save(s, p->path, l.items, (uint64_t)l.count, NULL, 0);
    return tn_scope_close(s);
}

/* ---- Loading ------------------------------------------------------------------------------------------ */

/* A part that only one of file and call has. A list has the name of its tensors' folder, with its dot. */
static int32_t part_differs(tn_scope *s, const char *path, const char *name, int32_t is_given)
{
    const int length = (int)strcspn(name, ".");
    return tn_scope_fail(s, TN_E_ARGUMENT,
                         tn_text(s,
                                 is_given
                                     ? "checkpoint: '%s': it has no part '%.*s', which the call was given"
                                     : "checkpoint: '%s': it has a part '%.*s', which the call was not given",
                                 path, length, name));
}

/* The parts of the file must be those that are given; reads the parts that are numbers. */
static int32_t compare(tn_scope *s, const tn_checkpoint_parts *p, tn_named_tensors all,
                       int64_t out[NUMBER_PARTS][MOST_NUMBERS])
{
    const struct {
        const char *name;
        int32_t is_given;
    } lists[] = {
        {"module.", part_of(s, all, "module.").count > 0 ||
                        tn_module_tensors(s, p->module, TN_STATE).count > 0}, /* some have no tensors */
        {"optimizer.", p->optimizer != NULL},
        {"average.", p->average != NULL},
        {"more.", p->more.count > 0}};
    numbers parts[NUMBER_PARTS];
    number_parts(p, parts);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if ((part_of(s, all, lists[i].name).count > 0) != lists[i].is_given)
            return part_differs(s, p->path, lists[i].name, lists[i].is_given);
    for (int32_t i = 0; i < NUMBER_PARTS; i++) {
        tn_tensor *t = find(all, parts[i].name);
        if ((t != NULL) != parts[i].is_given)
            return part_differs(s, p->path, parts[i].name, parts[i].is_given);
        if (!t) continue;
        if (tn_tensor_dtype(t) != TN_INT64 || tn_tensor_numel(t) != parts[i].count)
            return fail(s, TN_E_CORRUPT, p->path, "damaged part: ", parts[i].name);
        tn_to_host(s, t, out[i], (uint64_t)parts[i].count * 8);
    }
    if (p->loader && !tn_scope_failed(s) && out[LOADER][3] != tn_loader_batches(p->loader)) {
        char text[160];
        snprintf(text, sizeof text,
                 "the loader of the file has %lld batches in an epoch, the one that is given %lld "
                 "(another batch size or other data)",
                 (long long)out[LOADER][3], (long long)tn_loader_batches(p->loader));
        return fail(s, TN_E_ARGUMENT, p->path, text, "");
    }
    return tn_scope_failed(s);
}

static void load_generators(tn_scope *s, const tn_checkpoint_parts *p, tn_named_tensors all)
{
    tn_device devices[MOST_DEVICES];
    const int32_t n = devices_of(s, p->module, devices);
    for (int32_t i = 0; i < n && !tn_scope_failed(s); i++) {
        char name[32];
        int64_t values[2];
        tn_generator *g = tn_default_generator(tn_module_context(p->module), devices[i]);
        generator_name(i, name);
        tn_tensor *t = g ? find(all, name) : NULL;
        if (!t) continue;
        if (tn_tensor_dtype(t) != TN_INT64 || tn_tensor_numel(t) != 2) {
            fail(s, TN_E_CORRUPT, p->path, "damaged part: ", name);
            return;
        }
        if (tn_to_host(s, t, values, sizeof values)) return;
        const tn_generator_state state = {
            .size = sizeof state, .seed = (uint64_t)values[0], .offset = (uint64_t)values[1]};
        int32_t status = tn_generator_set_state(g, &state);
        if (status) tn_scope_fail(s, status, NULL);
    }
}

static void load_more(tn_scope *s, const tn_checkpoint_parts *p, tn_named_tensors state)
{
    for (int64_t i = 0; i < p->more.count && !tn_scope_failed(s); i++) {
        tn_tensor *t = find(state, p->more.data[i].name), *to = p->more.data[i].tensor;
        if (!t)
            fail(s, TN_E_NOT_FOUND, p->path, "it has no more.", p->more.data[i].name);
        else if (!same_sizes(t, to))
            fail(s, TN_E_SHAPE, p->path, "other sizes than the tensor of the call has more.",
                 p->more.data[i].name);
        else
            tn_copy_(s, tn_detach(s, to), t);
    }
}

/* Fails the scope with the error of a call that returned one. `path` NULL: it has the path. */
static void settle(tn_scope *s, int32_t status, const char *path)
{
    const char *text = status && tn_last_error() ? tn_last_error()->message : NULL;
    if (status)
        tn_scope_fail(s, status, path && text ? tn_text(s, "checkpoint: '%s': %s", path, text) : text);
}

static void load(tn_scope *s, const tn_checkpoint_parts *p, tn_named_tensors all)
{
    int64_t values[NUMBER_PARTS][MOST_NUMBERS] = {{0}};
    if (tn_scope_failed(s) || compare(s, p, all, values)) return;
    settle(s, tn_module_load_state(p->module, part_of(s, all, "module."), TN_STRICT), p->path);
    if (p->optimizer && !tn_scope_failed(s))
        settle(s, tn_optimizer_load_state(p->optimizer, part_of(s, all, "optimizer.")), p->path);
    if (p->average && !tn_scope_failed(s))
        settle(s, tn_average_load_state(p->average, part_of(s, all, "average.")), p->path);
    load_more(s, p, part_of(s, all, "more."));
    if (!tn_scope_failed(s)) load_numbers(s, p, values);
    load_generators(s, p, all);
}

int32_t tn_checkpoint_load_with(const tn_checkpoint_parts *p)
{
    tn_file *file = NULL;
    tn_scope *s = open_scope(p);
    if (!s) return tn_last_error()->code;
    check(s, p);
    int32_t status = tn_scope_failed(s) ? TN_OK : tn_file_open(tn_module_context(p->module), p->path, &file);
    settle(s, status, NULL);
    if (file) load(s, p, tn_file_tensors(s, file));
    status = tn_scope_close(s);
    tn_file_close(file);
    return status;
}
