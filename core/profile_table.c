/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a profile: the rows of threads while it runs, one table of all in the end, and its text. */
#include "core/profile.h"
#include "core/tensor.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Shapes -------------------------------------------------------------------------------------------- */

/* A tensor is its dtype and rank, 4 bytes each, and its sizes; NULL is two zeros. What does not fit is left out. */
static uint32_t put_tensor(const tn_tensor *t, char *out, uint32_t used)
{
    uint32_t head[2] = {t ? t->desc.dtype : 0, t ? t->desc.rank : 0};
    uint64_t bytes = sizeof head + head[1] * sizeof(int64_t);
    if (used + bytes > TNI_PROFILE_SHAPES) return used;
    memcpy(out + used, head, sizeof head);
    if (t) memcpy(out + used + sizeof head, t->desc.sizes, head[1] * sizeof(int64_t));
    return used + (uint32_t)bytes;
}

uint32_t tni_profile_shapes(const tn_value *args, uint32_t count, char out[TNI_PROFILE_SHAPES])
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        const tn_value *v = &args[i];
        if (v->tag == TN_TAG_TENSOR) used = put_tensor(v->as.tensor, out, used);
        for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count; k++)
            used = put_tensor(v->as.tensors[k], out, used);
    }
    return used;
}

/* "float32 [2, 3], int64 []"; truncated. */
static void shapes_text(const char *from, uint32_t bytes, char *text, size_t room)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t at = 0; at < bytes && used < room;) {
        uint32_t head[2];
        memcpy(head, from + at, sizeof head);
        const char *name = tn_dtype_name(head[0]);
        used += (size_t)snprintf(text + used, room - used, "%s%s [", at ? ", " : "", name ? name : "none");
        at += sizeof head;
        for (uint32_t d = 0; d < head[1]; d++, at += sizeof(int64_t)) {
            int64_t size;
            memcpy(&size, from + at, sizeof size);
            if (used < room)
                used += (size_t)snprintf(text + used, room - used, "%s%lld", d ? ", " : "", (long long)size);
        }
        if (used < room) used += (size_t)snprintf(text + used, room - used, "]");
    }
}

/* ---- Entries ------------------------------------------------------------------------------------------- */

static uint64_t hash_bytes(uint64_t hash, const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3ull;
    return hash;
}

static uint64_t hash_of(const tni_profile_site *site)
{
    uint64_t hash = 0xcbf29ce484222325ull ^ site->kind;
    if (site->number)
        hash = (hash ^ site->number) * 0x100000001b3ull;
    else
        hash = hash_bytes(hash, site->name, strlen(site->name));
    return hash_bytes(hash, site->shapes, site->shapes_bytes);
}

static int32_t is_of(const tni_profile_entry *e, const tni_profile_site *site, uint64_t hash)
{
    return e->hash == hash && e->row.kind == site->kind && e->number == site->number &&
           e->shapes_bytes == site->shapes_bytes && (e->number || !strcmp(e->data, site->name)) &&
           (!e->shapes_bytes || !memcmp(e->data + e->name_bytes, site->shapes, e->shapes_bytes));
}

static tni_profile_entry *new_entry(tn_context *ctx, const tni_profile_site *site, uint64_t hash)
{
    uint32_t name_bytes = (uint32_t)strlen(site->name) + 1;
    char text[TNI_PROFILE_SHAPES];
    shapes_text(site->shapes, site->shapes_bytes, text, sizeof text);
    size_t text_bytes = strlen(text) + 1;
    uint64_t bytes = sizeof(tni_profile_entry) + name_bytes + site->shapes_bytes + text_bytes;
    tni_profile_entry *e = tni_alloc_zeroed(ctx, bytes);
    if (!e) return NULL;
    e->hash = hash;
    e->number = site->number;
    e->name_bytes = name_bytes;
    e->shapes_bytes = site->shapes_bytes;
    e->bytes = bytes;
    memcpy(e->data, site->name, name_bytes);
    if (site->shapes_bytes) memcpy(e->data + name_bytes, site->shapes, site->shapes_bytes);
    memcpy(e->data + name_bytes + site->shapes_bytes, text, text_bytes);
    e->row = (tn_profile_row){.size = sizeof e->row,
                              .kind = site->kind,
                              .name = e->data,
                              .shapes = e->data + name_bytes + site->shapes_bytes};
    return e;
}

tni_profile_entry *tni_profile_entry_find(tn_context *ctx, tni_profile_table *table,
                                          const tni_profile_site *site)
{
    uint64_t hash = hash_of(site);
    tni_profile_entry **link = &table->buckets[(hash ^ hash >> 32) % TNI_PROFILE_BUCKETS];
    while (*link && !is_of(*link, site, hash)) link = &(*link)->next;
    if (!*link && (*link = new_entry(ctx, site, hash))) table->count++;
    return *link;
}

void tni_profile_table_finish(tn_context *ctx, tni_profile_table *table)
{
    for (uint32_t i = 0; i < TNI_PROFILE_BUCKETS; i++) {
        for (tni_profile_entry *e = table->buckets[i], *next; e; e = next) {
            next = e->next;
            tni_free(ctx, e, e->bytes);
        }
    }
    *table = (tni_profile_table){0};
}

/* ---- The whole table ----------------------------------------------------------------------------------- */

static void add(tn_profile_row *to, const tn_profile_row *row)
{
    to->calls += row->calls;
    to->host_total += row->host_total;
    to->host_self += row->host_self;
    to->device_total += row->device_total;
    to->device_self += row->device_self;
    to->bytes_total += row->bytes_total;
    to->bytes_self += row->bytes_self;
}

static int32_t add_table(tn_profile *profile, const tni_profile_table *from)
{
    for (uint32_t i = 0; i < TNI_PROFILE_BUCKETS; i++) {
        for (const tni_profile_entry *e = from->buckets[i]; e; e = e->next) {
            const tni_profile_site site = {.kind = e->row.kind,
                                           .number = e->number,
                                           .name = e->data,
                                           .shapes = e->data + e->name_bytes,
                                           .shapes_bytes = e->shapes_bytes};
            tni_profile_entry *whole = tni_profile_entry_find(profile->ctx, &profile->table, &site);
            if (!whole) return TN_E_OUT_OF_MEMORY;
            add(&whole->row, &e->row);
        }
    }
    return TN_OK;
}

static int compare(const void *x, const void *y)
{
    const tn_profile_row *a = x, *b = y;
    uint64_t ta = a->host_self + a->device_self, tb = b->host_self + b->device_self;
    if (ta != tb) return ta < tb ? 1 : -1;
    int order = strcmp(a->name, b->name);
    return order ? order : strcmp(a->shapes, b->shapes);
}

int32_t tni_profile_tabulate(tn_profile *profile)
{
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < profile->logs.count && !status; i++)
        status = add_table(profile, &((tni_profile_log **)profile->logs.data)[i]->table);
    if (status || !profile->table.count) return status;
    profile->rows = tni_alloc(profile->ctx, profile->table.count * sizeof *profile->rows);
    if (!profile->rows) return TN_E_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < TNI_PROFILE_BUCKETS; i++) {
        for (const tni_profile_entry *e = profile->table.buckets[i]; e; e = e->next)
            profile->rows[profile->row_count++] = e->row;
    }
    qsort(profile->rows, profile->row_count, sizeof *profile->rows, compare);
    return TN_OK;
}

uint32_t tn_profile_count(const tn_profile *profile)
{
    return profile ? profile->row_count : 0;
}

int32_t tn_profile_get(const tn_profile *profile, uint32_t i, tn_profile_row *out)
{
    if (!profile) return tni_error(TN_E_ARGUMENT, "profile_get: the profile is NULL");
    if (i >= profile->row_count)
        return tni_error(TN_E_INDEX, "profile_get: there is no row %u (the profile has %u)", i,
                         profile->row_count);
    return tni_struct_write(out, &profile->rows[i], sizeof *out, "tn_profile_row");
}

int32_t tn_profile_get_summary(const tn_profile *profile, tn_profile_summary *out)
{
    if (!profile) return tni_error(TN_E_ARGUMENT, "profile_get_summary: the profile is NULL");
    tn_profile_summary summary = {.threads = profile->logs.count,
                                  .nanoseconds = (uint64_t)(profile->end - profile->begin),
                                  .events = profile->spans.count + profile->activities.count,
                                  .dropped = profile->dropped,
                                  .unmeasured = profile->unmeasured,
                                  .lost = profile->lost};
    for (uint32_t i = 0; i < profile->logs.count; i++) {
        const tni_profile_log *log = ((tni_profile_log **)profile->logs.data)[i];
        summary.events += log->calls.count + log->changes.count;
        summary.dropped += log->dropped;
    }
    return tni_struct_write(out, &summary, sizeof summary, "tn_profile_summary");
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

static void put_time(tni_text *t, uint64_t ns)
{
    if (ns >= 10000000000ull)
        tni_text_add(t, " %9.3f s ", (double)ns * 1e-9);
    else if (ns >= 10000000ull)
        tni_text_add(t, " %9.3f ms", (double)ns * 1e-6);
    else
        tni_text_add(t, " %9.3f us", (double)ns * 1e-3);
}

static void put_row(tni_text *t, const tn_profile_row *row, int width, uint32_t flags)
{
    tni_text_add(t, "%-*s %8llu", width, row->name, (unsigned long long)row->calls);
    put_time(t, row->host_total);
    put_time(t, row->host_self);
    put_time(t, row->device_total);
    put_time(t, row->device_self);
    if (flags & TN_PROFILE_MEMORY) tni_text_add(t, " %12llu", (unsigned long long)row->bytes_total);
    tni_text_add(t, "%s%s\n", row->shapes[0] ? "  " : "", row->shapes);
}

uint64_t tn_profile_text(const tn_profile *profile, uint32_t rows, char *to, uint64_t bytes)
{
    tni_text t = tni_text_begin(to, bytes);
    int width = 20;
    if (!profile) return 0;
    if (!rows || rows > profile->row_count) rows = profile->row_count;
    for (uint32_t i = 0; i < rows; i++) {
        int length = (int)strlen(profile->rows[i].name);
        if (length > width) width = length;
    }
    tni_text_add(&t, "%-*s %8s %12s %12s %12s %12s", width, "name", "calls", "host total", "host self",
                 "device total", "device self");
    tni_text_add(&t, "%s%s\n", profile->flags & TN_PROFILE_MEMORY ? "        bytes" : "",
                 profile->flags & TN_PROFILE_SHAPES ? "  shapes" : "");
    for (uint32_t i = 0; i < rows; i++) put_row(&t, &profile->rows[i], width, profile->flags);
    if (rows < profile->row_count) tni_text_add(&t, "and %u more\n", profile->row_count - rows);
    return t.length;
}
