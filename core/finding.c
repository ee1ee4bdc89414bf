/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of findings. It has a lock of its own and calls nothing that could report a finding, so one may be
 * reported from anywhere, also from a stream's callback.
 */
#include "core/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tenon/inspect.h>
#include "core/number_text.h"

#define MAX_FINDINGS 1000u
#define TEXTS        8u
#define TEXT_BYTES   1024

/* The texts of a finding, in the order of the struct. */
static void texts_of(tn_finding *f, const char **out[TEXTS])
{
    const char **texts[TEXTS] = {&f->kind, &f->finder, &f->plugin, &f->text,
                                 &f->slot, &f->op,     &f->place,  &f->other};
    memcpy(out, texts, sizeof texts);
}

static void free_texts(tn_context *ctx, tn_finding *f)
{
    const char **texts[TEXTS];
    texts_of(f, texts);
    for (uint32_t i = 0; i < TEXTS; i++) {
        if (*texts[i]) tni_free(ctx, (char *)(uintptr_t)*texts[i], strlen(*texts[i]) + 1);
        *texts[i] = NULL;
    }
}

/* Replaces the borrowed texts by copies. */
static int32_t copy_texts(tn_context *ctx, tn_finding *f)
{
    const char **texts[TEXTS];
    int32_t status = TN_OK;
    texts_of(f, texts);
    for (uint32_t i = 0; i < TEXTS; i++) {
        const char *text = *texts[i];
        *texts[i] = NULL;
        if (text && !status && !(*texts[i] = tni_strdup(ctx, text))) status = TN_E_OUT_OF_MEMORY;
    }
    if (status) free_texts(ctx, f);
    return status;
}

static int32_t same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static int32_t same(const tn_finding *a, const tn_finding *b)
{
    return same_text(a->kind, b->kind) && same_text(a->text, b->text) && same_text(a->plugin, b->plugin) &&
           same_text(a->finder, b->finder) && same_text(a->op, b->op) && same_text(a->slot, b->slot);
}

/* With the lock held. *out_new: it was not there yet. */
static int32_t keep(tn_context *ctx, tn_finding *f, int32_t *out_new)
{
    for (uint32_t i = 0; i < ctx->findings.count; i++) {
        tn_finding *known = ((tn_finding **)ctx->findings.data)[i];
        if (!same(known, f)) continue;
        known->count += f->count;
        return TN_OK;
    }
    *out_new = 1;
    if (ctx->findings.count == MAX_FINDINGS) {
        ctx->findings_dropped++;
        return TN_OK;
    }
    tn_finding *copy = tni_alloc_zeroed(ctx, sizeof *copy);
    if (!copy) return TN_E_OUT_OF_MEMORY;
    *copy = *f;
    int32_t status = copy_texts(ctx, copy);
    tn_finding **slot = status ? NULL : tni_vector_push(ctx, &ctx->findings, sizeof *slot);
    if (slot) {
        *slot = copy;
        return TN_OK;
    }
    free_texts(ctx, copy);
    tni_free(ctx, copy, sizeof *copy);
    return TN_E_OUT_OF_MEMORY;
}

static void log_finding(tn_context *ctx, const tn_finding *f)
{
    int32_t has_place = f->place && f->place[0], has_other = f->other && f->other[0];
    tni_log(ctx, TN_LOG_ERROR, "%s: plugin %s: %s: %s%s%s%s%s", f->finder, f->plugin, f->kind, f->text,
            has_place ? "; at " : "", has_place ? f->place : "", has_other ? "; see " : "",
            has_other ? f->other : "");
}

int32_t tni_report(tn_context *ctx, const tn_finding *finding)
{
    tn_finding f;
    int32_t is_new = 0, status = tni_struct_read(&f, sizeof f, finding, "tn_finding");
    if (status) return status;
    if (!f.kind || !f.text) return tni_error(TN_E_ARGUMENT, "tn_finding: kind and text are required");
    if (!f.finder) f.finder = "host";
    if (!f.plugin) f.plugin = "?";
    if (!f.count) f.count = 1;
    pthread_mutex_lock(&ctx->findings_lock);
    status = keep(ctx, &f, &is_new);
    pthread_mutex_unlock(&ctx->findings_lock);
    if (is_new) log_finding(ctx, &f);
    return status;
}

void tni_breach(tn_context *ctx, const char *plugin, const char *kind, const char *op, const char *format,
                ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    tni_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tn_finding f = {.size = sizeof f,
                    .kind = kind,
                    .finder = "host",
                    .plugin = plugin,
                    .text = text,
                    .op = op,
                    .stream = UINT64_MAX,
                    .count = 1};
    (void)tni_report(ctx, &f);
}

void tni_findings_finish(tn_context *ctx)
{
    for (uint32_t i = 0; i < ctx->findings.count; i++) {
        tn_finding *f = ((tn_finding **)ctx->findings.data)[i];
        free_texts(ctx, f);
        tni_free(ctx, f, sizeof *f);
    }
    tni_vector_finish(ctx, &ctx->findings, sizeof(tn_finding *));
}

uint32_t tn_inspect_finding_count(tn_context *ctx)
{
    if (tni_context_check(ctx)) return 0;
    pthread_mutex_lock(&ctx->findings_lock);
    uint32_t count = ctx->findings.count;
    pthread_mutex_unlock(&ctx->findings_lock);
    return count;
}

uint64_t tn_inspect_finding_dropped(tn_context *ctx)
{
    if (tni_context_check(ctx)) return 0;
    pthread_mutex_lock(&ctx->findings_lock);
    uint64_t dropped = ctx->findings_dropped;
    pthread_mutex_unlock(&ctx->findings_lock);
    return dropped;
}

int32_t tn_inspect_finding(tn_context *ctx, uint32_t i, tn_finding *out)
{
    tn_finding f = {0};
    int32_t unusable = tni_context_check(ctx);
    if (unusable) return unusable;
    pthread_mutex_lock(&ctx->findings_lock);
    if (i < ctx->findings.count) f = *((tn_finding **)ctx->findings.data)[i];
    pthread_mutex_unlock(&ctx->findings_lock);
    if (!f.size) return tni_error(TN_E_INDEX, "inspect_finding: no finding %u", i);
    return tni_struct_write(out, &f, sizeof f, "tn_finding");
}
