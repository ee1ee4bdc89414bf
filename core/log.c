/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines. They go to the context's sink. A context without one is silent, unless the environment requests lines
 * (TENON_LOG), or something that reports: TENON_VALIDATE, TENON_RECORD, TENON_INJECT, TENON_DEBUG, TENON_TRACE. Then they
 * go to standard error.
 */
#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/debug.h"
#include "core/error.h"
#include "core/number_text.h"

#define LINE_BYTES 2048

static const char *const names[] = {"error", "warn", "info", "debug"};
#define LEVELS (int32_t)(sizeof names / sizeof *names)

/* The only function of the library that prints. `level` is at most that of the last name. */
static void write_to_stderr(int32_t level, const char *text)
{
    fprintf(stderr, "tenon: %s: %s\n", names[level < 0 ? 0 : level], text);
}

/* The sink that the environment asks for; `user` is the context. */
static void write_asked(void *user, int32_t level, const char *text)
{
    const tn_context *ctx = user;
    if (level <= ctx->log_level) write_to_stderr(level, text);
}

/* 0 to 3, or -1 for a word that is not a level. */
static int32_t level_of(const char *wish)
{
    int32_t level = LEVELS - 1;
    if (strlen(wish) == 1 && wish[0] >= '0' && wish[0] < '0' + LEVELS) return wish[0] - '0';
    while (level >= 0 && strcmp(wish, names[level]) != 0) level--;
    return level;
}

static int32_t has_layer(void)
{
    static const char *const variables[] = {"TENON_VALIDATE", "TENON_RECORD", "TENON_INJECT", "TENON_DEBUG",
                                            "TENON_TRACE"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = secure_getenv(variables[i]);
        if (value && value[0]) return 1;
    }
    return 0;
}

void tni_log_init(tn_context *ctx)
{
    const char *wish = secure_getenv("TENON_LOG");
    int32_t asked = wish && wish[0];
    if (ctx->log || (!asked && !has_layer())) return;
    int32_t level = asked ? level_of(wish) : TN_LOG_WARN;
    ctx->log = write_asked;
    ctx->log_user = ctx;
    ctx->log_level = level < 0 ? TN_LOG_WARN : level;
    if (level < 0) tni_log_setting(ctx, "TENON_LOG", wish, "error, warn, info or debug", "warn");
}

void tni_log_setting(tn_context *ctx, const char *variable, const char *value, const char *expected,
                     const char *assumed)
{
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%s is '%s' (expected %s); %s is assumed", variable, value, expected,
             assumed);
    if (ctx->log)
        ctx->log(ctx->log_user, TN_LOG_WARN, line);
    else
        write_to_stderr(TN_LOG_WARN, line);
}

static void log_list(tn_context *ctx, int32_t level, const char *format, va_list args)
{
    char line[LINE_BYTES];
    tni_vsnprintf(line, sizeof line, format, args);
    ctx->log(ctx->log_user, level, line);
}

void tni_log(tn_context *ctx, int32_t level, const char *format, ...)
{
    if (!ctx->log) return;
    va_list args;
    va_start(args, format);
    log_list(ctx, level, format, args);
    va_end(args);
}

void tni_warn_once(tn_context *ctx, tni_warning warning, const char *format, ...)
{
    const uint32_t bit = 1u << warning;
    if (!ctx->log || atomic_fetch_or(&ctx->warned, bit) & bit) return;
    va_list args;
    va_start(args, format);
    log_list(ctx, TN_LOG_WARN, format, args);
    va_end(args);
}

int32_t tni_error_logged(tn_context *ctx, int32_t status, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list args;
    va_start(args, format);
    tni_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (ctx->debug)
        tni_debug_found(ctx, text);
    else
        tni_log(ctx, TN_LOG_ERROR, "%s", text);
    return tni_error(status, "%s", text);
}
