/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets: calls of a class, and the classes over tensors and other data sets. */
#include "dataset.h"
#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tn_dataset *tn_dataset_create(tn_context *ctx, const tn_dataset_class *class_, void *user)
{
    return dataset_of_count(ctx, class_, user,
                            class_ && class_->size >= sizeof *class_ && class_->count ? class_->count(user)
                                                                                      : -1);
}

tn_dataset *dataset_of_count(tn_context *ctx, const tn_dataset_class *class_, void *user, int64_t count)
{
    const char *wrong = !ctx ? "argument 'ctx': it is NULL"
                        : !class_ || class_->size < sizeof *class_
                            ? "argument 'class': it is NULL or too small"
                        : !class_->count || !class_->get ? "argument 'class': count or get is NULL"
                        : count < 0                      ? "argument 'class': count is negative"
                                                         : NULL;
    if (wrong) return data_fail(NULL, TN_E_ARGUMENT, "dataset", NULL, "%s", wrong), NULL;
    if (handle_context_check(ctx)) return NULL;
    tn_dataset *d = malloc(sizeof *d);
    if (!d) return data_fail(NULL, TN_E_OUT_OF_MEMORY, "dataset", NULL, "out of host memory"), NULL;
    *d = (tn_dataset){.ctx = ctx, .class = class_, .user = user, .count = count};
    pthread_mutex_init(&d->lock, NULL);
    handle_begin(ctx, d, "%s", class_->name ? class_->name : "dataset");
    return d;
}

void tn_dataset_destroy(tn_dataset *d)
{
    if (!d || !handle_end(&d->mark, d->class->name ? d->class->name : "dataset", __builtin_return_address(0)))
        return;
    if (d->class->finish) d->class->finish(d->user);
    pthread_mutex_destroy(&d->lock);
    d->count = 0; /* no index is one of it */
    handle_free(d);
}

int64_t tn_dataset_count(const tn_dataset *d)
{
    return d ? d->count : 0;
}

static void lock(tn_dataset *d, int32_t on)
{
    if (!(d->class->flags & TN_DATASET_ONE_THREAD)) return;
    if (on)
        pthread_mutex_lock(&d->lock);
    else
        pthread_mutex_unlock(&d->lock);
}

/* A status that a class returned without an error in the scope becomes one. */
static int32_t settled(tn_scope *s, const tn_dataset *d, int32_t status, tn_tensor *const *out)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    const char *name = d->class->name ? d->class->name : "dataset";
    if (status) return data_fail(s, status, name, NULL, "it failed without an error in the scope");
    if (!out[0]) return data_fail(s, TN_E_STATE, name, NULL, "a sample has no tensor");
    return TN_OK;
}

int32_t tn_dataset_get(tn_scope *s, tn_dataset *d, int64_t index, uint64_t seed, tn_tensor **out)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (!d || !out) return data_fail(s, TN_E_ARGUMENT, "dataset", NULL, "argument 'd' or 'out': it is NULL");
    if (handle_check(&d->mark, "it"))
        return data_fail(s, TN_E_DEAD_HANDLE, "dataset", NULL, "%s", tn_last_error()->message);
    if (index < 0 || index >= d->count)
        return data_fail(s, TN_E_INDEX, "dataset", NULL, "argument 'index': %lld is not in [0, %lld)",
                         (long long)index, (long long)d->count);
    memset(out, 0, TN_SAMPLE_MAX * sizeof *out);
    lock(d, 1);
    int32_t status = d->class->get(d->user, s, index, seed, out);
    lock(d, 0);
    return settled(s, d, status, out);
}

int32_t dataset_get_batch(tn_scope *s, tn_dataset *d, tn_ints indices, const uint64_t *seeds, tn_tensor **out)
{
    if (handle_check(&d->mark, "it"))
        return data_fail(s, TN_E_DEAD_HANDLE, "dataset", NULL, "%s", tn_last_error()->message);
    memset(out, 0, TN_SAMPLE_MAX * sizeof *out);
    lock(d, 1);
    int32_t status = d->class->get_batch(d->user, s, indices, seeds, out);
    lock(d, 0);
    return settled(s, d, status, out);
}

/* Finishes `user`, too, if there is no data set. */
static tn_dataset *create_or_finish(tn_context *ctx, const tn_dataset_class *class, void *user)
{
    tn_dataset *d = tn_dataset_create(ctx, class, user);
    if (!d) class->finish(user);
    return d;
}

/* ---- Rows of tensors ---------------------------------------------------------------------------------- */

typedef struct rows {
    int64_t tensors, count;
    tn_tensor *tensor[TN_SAMPLE_MAX]; /* row-major on the CPU; one reference each */
} rows;

static int64_t rows_count(void *user)
{
    return ((const rows *)user)->count;
}

static int32_t rows_get(void *user, tn_scope *s, int64_t index, uint64_t seed, tn_tensor **out)
{
    const rows *r = user;
    (void)seed;
    for (int64_t k = 0; k < r->tensors; k++) out[k] = tn_select(s, r->tensor[k], 0, index);
    return tn_scope_failed(s);
}

/* Copies rows by hand: workers do not start the threads of an operator for it. */
static int32_t rows_get_batch(void *user, tn_scope *s, tn_ints indices, const uint64_t *seeds,
                              tn_tensor **out)
{
    const rows *r = user;
    (void)seeds;
    for (int64_t k = 0; k < r->tensors && !tn_scope_failed(s); k++) {
        tn_tensor *t = r->tensor[k];
        int64_t sizes[TN_MAX_RANK] = {indices.count};
        for (int64_t d = 1; d < tn_tensor_rank(t); d++) sizes[d] = tn_tensor_size(t, d);
        out[k] =
            tn_empty(s, (tn_ints){sizes, tn_tensor_rank(t)}, .dtype = tn_tensor_dtype(t), .device = TN_CPU);
        if (!out[k] || !tn_tensor_numel(out[k])) continue;
        const uint64_t row = (uint64_t)(tn_tensor_numel(t) / r->count * tn_dtype_bytes(tn_tensor_dtype(t)));
        const char *from = tn_tensor_data(t);
        char *to = tn_tensor_data(out[k]);
        for (int64_t i = 0; i < indices.count; i++)
            memcpy(to + (uint64_t)i * row, from + (uint64_t)indices.data[i] * row, row);
    }
    return tn_scope_failed(s);
}

static void rows_finish(void *user)
{
    rows *r = user;
    for (int64_t k = 0; k < r->tensors; k++) tn_release(r->tensor[k]);
    free(r);
}

static const tn_dataset_class rows_class = {.size = sizeof rows_class,
                                            .name = "tensor_dataset",
                                            .count = rows_count,
                                            .get = rows_get,
                                            .get_batch = rows_get_batch,
                                            .finish = rows_finish};

tn_dataset *tn_tensor_dataset_create(tn_scope *scope, tn_tensors tensors)
{
    if (tn_scope_failed(scope)) return NULL;
    if (tensors.count < 1 || tensors.count > TN_SAMPLE_MAX)
        return data_fail(scope, TN_E_ARGUMENT, "tensor_dataset", NULL,
                         "argument 'tensors': %lld tensors (expected 1 to %d)", (long long)tensors.count,
                         TN_SAMPLE_MAX),
               NULL;
    tn_scope_options options = {.size = sizeof options, .grad_mode = TN_GRAD_OFF};
    tn_scope *s = tn_scope_open_child(scope, &options);
    rows *r = calloc(1, sizeof *r);
    if (!r) tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
    for (int64_t k = 0; k < tensors.count && !tn_scope_failed(s); k++) {
        tn_tensor *t = tensors.data[k];
        if (!t || !tn_tensor_rank(t)) {
            data_fail(s, TN_E_ARGUMENT, "tensor_dataset", NULL,
                      "argument 'tensors': tensor %lld is NULL or has no dimension", (long long)k);
            break;
        }
        if (k && tn_tensor_size(t, 0) != r->count) {
            data_fail(s, TN_E_SHAPE, "tensor_dataset", NULL,
                      "argument 'tensors': tensor %lld has %lld rows (expected %lld)", (long long)k,
                      (long long)tn_tensor_size(t, 0), (long long)r->count);
            break;
        }
        r->count = tn_tensor_size(t, 0);
        t = tn_detach(s, tn_to_device(s, t, TN_CPU, tn_tensor_dtype(t)));
        t = tn_contiguous(s, tn_resolve_neg(s, tn_resolve_conj(s, t)));
        if (t) r->tensor[r->tensors++] = tn_retain(t);
    }
    int32_t status = tn_scope_close(s);
    if (!status) return create_or_finish(tn_scope_context(scope), &rows_class, r);
    if (r) rows_finish(r);
    return NULL;
}

/* ---- Over other data sets ----------------------------------------------------------------------------- */

typedef struct subset {
    tn_dataset *of;
    int64_t count, *indices;
} subset;

static int64_t subset_count(void *user)
{
    return ((const subset *)user)->count;
}

static int32_t subset_get(void *user, tn_scope *s, int64_t index, uint64_t seed, tn_tensor **out)
{
    const subset *u = user;
    return tn_dataset_get(s, u->of, u->indices[index], seed, out);
}

static void subset_finish(void *user)
{
    subset *u = user;
    free(u->indices);
    free(u);
}

tn_dataset *tn_subset_dataset_create(tn_dataset *of, tn_ints indices)
{
    static const tn_dataset_class class = {.size = sizeof class,
                                           .name = "subset_dataset",
                                           .count = subset_count,
                                           .get = subset_get,
                                           .finish = subset_finish};
    if (!of) return data_fail(NULL, TN_E_ARGUMENT, "subset_dataset", NULL, "argument 'of': it is NULL"), NULL;
    for (int64_t i = 0; i < indices.count; i++)
        if (indices.data[i] < 0 || indices.data[i] >= of->count)
            return data_fail(NULL, TN_E_INDEX, "subset_dataset", NULL,
                             "argument 'indices': %lld is not in [0, %lld)", (long long)indices.data[i],
                             (long long)of->count),
                   NULL;
    subset *u = calloc(1, sizeof *u);
    int64_t *own = malloc((uint64_t)(indices.count + 1) * sizeof *own);
    if (!u || !own) {
        free(u);
        free(own);
        return data_fail(NULL, TN_E_OUT_OF_MEMORY, "subset_dataset", NULL, "out of host memory"), NULL;
    }
    if (indices.count) memcpy(own, indices.data, (uint64_t)indices.count * sizeof *own);
    *u = (subset){of, indices.count, own};
    return create_or_finish(of->ctx, &class, u);
}

typedef struct concat {
    int64_t parts;
    tn_dataset *part[];
} concat;

static int64_t concat_count(void *user)
{
    const concat *c = user;
    int64_t count = 0;
    for (int64_t i = 0; i < c->parts; i++) count += c->part[i]->count;
    return count;
}

static int32_t concat_get(void *user, tn_scope *s, int64_t index, uint64_t seed, tn_tensor **out)
{
    const concat *c = user;
    int64_t i = 0;
    for (; index >= c->part[i]->count; i++) index -= c->part[i]->count;
    return tn_dataset_get(s, c->part[i], index, seed, out);
}

tn_dataset *tn_concat_dataset_create(tn_dataset *const *of, int64_t count)
{
    static const tn_dataset_class class = {.size = sizeof class,
                                           .name = "concat_dataset",
                                           .count = concat_count,
                                           .get = concat_get,
                                           .finish = free};
    if (!of || count < 1)
        return data_fail(NULL, TN_E_ARGUMENT, "concat_dataset", NULL, "argument 'of': it is empty"), NULL;
    concat *c = malloc(sizeof *c + (uint64_t)count * sizeof *c->part);
    if (!c) return data_fail(NULL, TN_E_OUT_OF_MEMORY, "concat_dataset", NULL, "out of host memory"), NULL;
    c->parts = count;
    for (int64_t i = 0; i < count; i++) {
        c->part[i] = of[i];
        if (of[i]) continue;
        free(c);
        return data_fail(NULL, TN_E_ARGUMENT, "concat_dataset", NULL, "argument 'of': item %lld is NULL",
                         (long long)i),
               NULL;
    }
    return create_or_finish(of[0]->ctx, &class, c);
}

typedef struct changed {
    tn_dataset *of;
    tn_sample_function change;
    void *user;
} changed;

static int64_t changed_count(void *user)
{
    return ((const changed *)user)->of->count;
}

static int32_t changed_get(void *user, tn_scope *s, int64_t index, uint64_t seed, tn_tensor **out)
{
    const changed *m = user;
    int32_t status = tn_dataset_get(s, m->of, index, seed, out);
    return status ? status : m->change(m->user, s, seed, out);
}

tn_dataset *tn_map_dataset_create(tn_dataset *of, tn_sample_function change, void *user)
{
    static const tn_dataset_class class = {.size = sizeof class,
                                           .name = "map_dataset",
                                           .count = changed_count,
                                           .get = changed_get,
                                           .finish = free};
    if (!of || !change)
        return data_fail(NULL, TN_E_ARGUMENT, "map_dataset", NULL, "argument 'of' or 'change': it is NULL"),
               NULL;
    changed *m = malloc(sizeof *m);
    if (!m) return data_fail(NULL, TN_E_OUT_OF_MEMORY, "map_dataset", NULL, "out of host memory"), NULL;
    *m = (changed){of, change, user};
    return create_or_finish(of->ctx, &class, m);
}
