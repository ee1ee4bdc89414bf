/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors. Each thread has a slot that holds the last error and up to three causes. The slot is allocated at the
 * thread's first error, because a library that is loaded late gets little static thread storage. A copy is one
 * block from malloc with all texts and the whole chain of causes. If there is no memory for the slot or a copy,
 * a static error says so instead. This file must not know contexts or scopes; debug.c learns here which call without a
 * scope begins and ends.
 */
#include "core/error.h"
#include "core/debug.h"
#include "core/number_text.h"
#include "core/text.h"
#include "core/thread.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/op.h>

#define MESSAGE_BYTES 1500 /* longest message; longer ones are cut */
#define NAME_BYTES    128  /* operator or plugin */
#define NATIVE_BYTES  256  /* the vendor's text */
#define FILE_BYTES    256  /* path of a source file */
#define MAX_CHAIN     4    /* the error and its causes */

typedef struct error_record {
    tn_error error;
    char message[MESSAGE_BYTES];
    char op[NAME_BYTES];
    char plugin[NAME_BYTES];
    char native_text[NATIVE_BYTES];
    char file[FILE_BYTES];
} error_record;

/* records[0] is the root cause, records[depth - 1] the error itself. */
typedef struct error_slot {
    uint64_t count; /* errors of this thread so far */
    uint32_t depth;
    error_record records[MAX_CHAIN];
} error_slot;

static const tn_error no_memory_error = {
    .size = sizeof(tn_error),
    .code = TN_E_OUT_OF_MEMORY,
    .error_class = TN_CLASS_OUT_OF_MEMORY,
    .message = "out of memory, also for the error itself",
};

#define STATUS_TEXT(name, value, text) [value] = text,
static const char *const status_texts[TN_STATUS_COUNT] = {TN_STATUS_LIST(STATUS_TEXT)};

static const int8_t status_classes[TN_STATUS_COUNT] = {
    [TN_OK] = TN_CLASS_NONE,
    [TN_E_ARGUMENT] = TN_CLASS_ARGUMENT,
    [TN_E_SHAPE] = TN_CLASS_ARGUMENT,
    [TN_E_DTYPE] = TN_CLASS_ARGUMENT,
    [TN_E_DEVICE] = TN_CLASS_ARGUMENT,
    [TN_E_INDEX] = TN_CLASS_ARGUMENT,
    [TN_E_UNSUPPORTED] = TN_CLASS_UNSUPPORTED,
    [TN_E_NOT_FOUND] = TN_CLASS_ARGUMENT,
    [TN_E_EXISTS] = TN_CLASS_ARGUMENT,
    [TN_E_OUT_OF_MEMORY] = TN_CLASS_OUT_OF_MEMORY,
    [TN_E_DEVICE_LOST] = TN_CLASS_DEVICE_LOST,
    [TN_E_CONTRACT] = TN_CLASS_CONTRACT,
    [TN_E_UNKNOWN_FIELD] = TN_CLASS_CONTRACT,
    [TN_E_VERSION] = TN_CLASS_CONTRACT,
    [TN_E_SYNTAX] = TN_CLASS_ARGUMENT,
    [TN_E_IO] = TN_CLASS_ARGUMENT,
    [TN_E_CORRUPT] = TN_CLASS_ARGUMENT,
    [TN_E_STATE] = TN_CLASS_ARGUMENT,
    [TN_E_AUTOGRAD] = TN_CLASS_ARGUMENT,
    [TN_E_DEAD_HANDLE] = TN_CLASS_CONTRACT,
    [TN_E_FORKED] = TN_CLASS_CONTRACT,
    [TN_E_INTERNAL] = TN_CLASS_INTERNAL,
};

static int32_t is_status(int32_t status)
{
    return status >= 0 && status < TN_STATUS_COUNT;
}

static int32_t class_of(int32_t status)
{
    return is_status(status) ? status_classes[status] : TN_CLASS_INTERNAL;
}

const char *tn_status_text(int32_t status)
{
    return is_status(status) ? status_texts[status] : "unknown status";
}

static error_record *top(void)
{
    error_slot *slot = tni_tls.errors;
    return slot && slot->depth ? &slot->records[slot->depth - 1] : NULL;
}

/* This thread's slot, or NULL if there is no memory for it. */
static error_slot *make_slot(void)
{
    if (!tni_tls.errors) tni_thread_alloc(&tni_tls.errors, sizeof(error_slot));
    tni_tls.error_lost = !tni_tls.errors;
    return tni_tls.errors;
}

/* Causes point into the slot, so they are set again whenever records move. */
static void link_records(error_slot *slot)
{
    for (uint32_t i = 0; i < slot->depth; i++) {
        error_record *r = &slot->records[i];
        r->error.message = r->message;
        r->error.op = r->op[0] ? r->op : NULL;
        r->error.plugin = r->plugin[0] ? r->plugin : NULL;
        r->error.native_text = r->native_text[0] ? r->native_text : NULL;
        r->error.file = r->file[0] ? r->file : NULL;
        r->error.cause = i ? &slot->records[i - 1].error : NULL;
    }
}

/* Texts of the program, names among them, may have any bytes; those of an error are UTF-8. */
static void set_text(char *to, uint64_t bytes, const char *from)
{
    tni_utf8_copy(to, bytes, from ? from : "");
}

static void set_record(error_record *r, int32_t status, const char *message)
{
    r->error = (tn_error){.size = sizeof(tn_error), .code = status, .error_class = class_of(status)};
    set_text(r->message, sizeof(r->message), message);
    r->op[0] = r->plugin[0] = r->native_text[0] = r->file[0] = 0;
}

static int32_t put(int32_t status, const char *message)
{
    error_slot *slot = make_slot();
    if (!slot) return status;
    slot->count++;
    slot->depth = 1;
    set_record(&slot->records[0], status, message);
    link_records(slot);
    return status;
}

/* The text is complete before the slot changes: arguments may lie in the slot. */
int32_t tni_error(int32_t status, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    const int n = tni_vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (is_status(status)) return put(status, text);
    /* What a function of a program returned: -1, errno, the number of an exception. */
    if (n >= 0 && n < MESSAGE_BYTES)
        snprintf(text + n, sizeof text - (uint32_t)n, " (%d is not a valid status code)", status);
    return put(TN_E_CONTRACT, text);
}

int32_t tni_error_wrap(int32_t status, const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    tni_vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    error_slot *slot = make_slot();
    if (!slot) return status;
    /* A full chain keeps its root and loses the cause in the middle. */
    if (slot->depth == MAX_CHAIN) {
        slot->records[MAX_CHAIN - 2] = slot->records[MAX_CHAIN - 1];
        slot->depth--;
    }
    slot->count++;
    set_record(&slot->records[slot->depth++], status, text);
    link_records(slot);
    return status;
}

int32_t tni_error_no_memory(const char *what, uint64_t bytes)
{
    return tni_error(TN_E_OUT_OF_MEMORY, "out of memory: %s needs %llu bytes", what ? what : "the library",
                     (unsigned long long)bytes);
}

void tni_error_native(int32_t code, const char *text)
{
    error_record *r = top();
    if (!r) return;
    r->error.native_code = code;
    if (text) set_text(r->native_text, sizeof(r->native_text), text);
    link_records(tni_tls.errors);
}

/* Length of the place at the start of an error's message, "model.c:49: ". */
static uint64_t place_bytes(const char *file, uint32_t line)
{
    int n = file ? snprintf(NULL, 0, "%s:%u: ", file, line) : 0;
    return n > 0 ? (uint64_t)n : 0;
}

/* The message without its place. */
static const char *bare_message(const tn_error *e)
{
    return e->message + place_bytes(e->file, e->line);
}

/* "aten::gather.out" -> "gather" and its length */
static const char *short_name(const char *op, uint64_t *length)
{
    const char *space = strstr(op, "::"), *name = space ? space + 2 : op;
    *length = strcspn(name, ".(");
    return name;
}

/* What stands behind an operator's name at the start of a message, in either form: "add" or "add_". Else "". */
static const char *behind_name(const char *message, const char *op)
{
    uint64_t length;
    const char *name = short_name(op, &length);
    if (length > 1 && name[length - 1] == '_') length--; /* add_ is add */
    const char *behind = strncmp(message, name, length) ? "" : message + length;
    return *behind == '_' ? behind + 1 : behind;
}

/* The message begins with the operator's name already, or with that of a function of PyTorch. */
static int32_t names_operator(const char *message, const char *op)
{
    static const char *const prefixes[] = {"aten::", "prim::", "torch.", "linalg."};
    const char *behind = behind_name(message, op);
    if (*behind == ':' || *behind == '(') return 1;
    for (uint32_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (!strncmp(message, prefixes[i], strlen(prefixes[i]))) return 1;
    }
    return 0;
}

/* The message without the name of the operator that failed, "gather: " or "gather(): ". */
static const char *without_name(const char *message, const char *op)
{
    const char *behind = behind_name(message, op);
    return !strncmp(behind, ": ", 2) ? behind + 2 : !strncmp(behind, "(): ", 4) ? behind + 4 : message;
}

/*
 * "index 5 is out of bounds" of aten::gather.out becomes "gather: index 5 is out of bounds". With `instead` the name of an
 * operator that called it takes the place of the first: "take_along_dim: index 5 is out of bounds".
 */
static void name_operator(error_record *r, const char *op, int32_t instead)
{
    uint64_t length;
    const char *name = short_name(op, &length), *message = r->message;
    char text[MESSAGE_BYTES + NAME_BYTES];
    if (length >= NAME_BYTES - 2) return;
    if (instead && *behind_name(message, op) != '(') message = without_name(message, r->op);
    if (!strncmp(behind_name(message, op), ": ", 2)) message = without_name(message, op);
    if (names_operator(message, op)) return;
    snprintf(text, sizeof text, "%.*s: %s", (int)length, name, message);
    set_text(r->message, sizeof r->message, text);
}

static void drop_place(error_record *r)
{
    const char *bare = bare_message(&r->error);
    memmove(r->message, bare, strlen(bare) + 1);
    r->file[0] = 0;
    r->error.file = NULL;
    r->error.line = 0;
}

static void add_operator(const char *op, int32_t instead)
{
    error_record *r = top();
    if (!r || !op) return;
    const int32_t is_innermost = !r->op[0], is_outermost = !tni_tls.call_depth;
    if (r->file[0]) drop_place(r); /* of a call in a composite: that of the program's call comes */
    if (instead || is_innermost || is_outermost) name_operator(r, op, instead && !is_innermost);
    set_text(r->op, sizeof(r->op), op);
    link_records(tni_tls.errors);
}

void tni_error_operator(const char *op)
{
    add_operator(op, 1);
}

void tni_error_library_operator(const char *op)
{
    add_operator(op, 0);
}

void tni_error_plugin(const char *plugin)
{
    error_record *r = top();
    if (!r || !plugin) return;
    set_text(r->plugin, sizeof(r->plugin), plugin);
    link_records(tni_tls.errors);
}

int32_t tni_error_ensure(int32_t status, const char *who)
{
    const error_record *r = top();
    if (status == TN_OK || (r && r->error.code == status)) return status;
    return tni_error(status, "%s failed: %s", who ? who : "a call", tn_status_text(status));
}

const tn_error *tn_last_error(void)
{
    const error_record *r = top();
    return r ? &r->error : tni_tls.error_lost ? &no_memory_error : NULL;
}

void tn_clear_error(void)
{
    error_slot *slot = tni_tls.errors;
    if (slot) slot->depth = 0;
    tni_tls.error_lost = 0;
}

_Static_assert(TN_VERSION_MAJOR == 0 && TN_VERSION_MINOR == 1 && TN_VERSION_PATCH == 0, "tn_version");
const char *tn_version(void)
{
    return "0.1.0";
}

static uint64_t text_bytes(const char *text)
{
    return text ? tni_utf8_copy(NULL, 0, text) + 1 : 0;
}

static uint64_t texts_bytes(const tn_error *e)
{
    return text_bytes(e->message) + text_bytes(e->op) + text_bytes(e->plugin) + text_bytes(e->native_text);
}

static const char *copy_text(char **at, const char *text)
{
    uint64_t n = text_bytes(text);
    if (!n) return NULL;
    char *to = *at;
    tni_utf8_copy(to, n, text);
    *at += n;
    return to;
}

/* A copy of an error and its causes in one block; `file` and `line` become the place of the error, `more` the end of
 * its message. NULL if there is no memory. */
static tn_error *copy_chain(const tn_error *first, const char *file, uint32_t line, const char *more)
{
    const char *message = bare_message(first);
    const uint64_t name = text_bytes(file), place = file ? name - 1 + place_bytes("", line)
                                                         : 0; /* not of the bytes that are escaped */
    uint64_t bytes = place + name + text_bytes(more), count = 0, i = 0;
    for (const tn_error *e = first; e; e = e->cause, count++) bytes += sizeof *e + texts_bytes(e);
    tn_error *copy = malloc(bytes);
    if (!copy) return NULL;
    char *at = (char *)(copy + count);
    for (const tn_error *e = first; e; e = e->cause, i++) {
        copy[i] = *e;
        copy[i].file = NULL;
        copy[i].line = 0;
        copy[i].op = copy_text(&at, e->op);
        copy[i].plugin = copy_text(&at, e->plugin);
        copy[i].native_text = copy_text(&at, e->native_text);
        copy[i].cause = e->cause ? &copy[i + 1] : NULL;
        if (i) copy[i].message = copy_text(&at, bare_message(e));
    }
    copy->file = copy_text(&at, file);
    copy->line = file ? line : 0;
    copy->message = at;
    if (place) at += snprintf(at, place + 1, "%s:%u: ", copy->file, line);
    copy_text(&at, message);
    at--; /* over the end of the message */
    copy_text(&at, more);
    return copy;
}

tn_error *tni_error_copy(void)
{
    static const tn_error nothing = {.size = sizeof(tn_error),
                                     .code = TN_E_INTERNAL,
                                     .error_class = TN_CLASS_INTERNAL,
                                     .message = "unknown error"};
    const error_record *last = top();
    tn_error *copy = copy_chain(last                 ? &last->error
                                : tni_tls.error_lost ? &no_memory_error
                                                     : &nothing,
                                NULL, 0, "");
    return copy ? copy : (tn_error *)&no_memory_error;
}

tn_error *tni_error_duplicate(const tn_error *error)
{
    tn_error *copy = copy_chain(error, error->file, error->line, "");
    return copy ? copy : (tn_error *)&no_memory_error;
}

tn_error *tni_error_extended(tn_error *error, const char *file, uint32_t line, const char *more)
{
    tn_error *copy = error == &no_memory_error ? NULL : copy_chain(error, file, line, more);
    if (!copy) return error;
    tn_error_release(error);
    return copy;
}

static uint64_t error_count(void)
{
    const error_slot *slot = tni_tls.errors;
    return slot ? slot->count : 0;
}

uint64_t tn_error_count(void)
{
    if (TNI_UNLIKELY(tni_tls.has_new_objects)) tni_debug_place_objects(NULL, 0);
    return error_count();
}

static void place_record(error_record *r, const char *file, uint32_t line)
{
    char text[FILE_BYTES + 16 + MESSAGE_BYTES];
    set_text(r->file, sizeof r->file, file);
    r->error.line = line;
    snprintf(text, sizeof text, "%s:%u: %s", r->file, line, r->message);
    set_text(r->message, sizeof r->message, text);
}

void tn_error_place(uint64_t before, const char *file, uint32_t line)
{
    error_record *r = top();
    if (TNI_UNLIKELY(tni_tls.has_new_objects) && file && *file) tni_debug_place_objects(file, line);
    if (!r || !file || !*file || r->file[0] || error_count() == before) return;
    place_record(r, file, line);
    link_records(tni_tls.errors);
}

static void restore(const tn_error *error, int32_t is_placed)
{
    const tn_error *chain[MAX_CHAIN];
    uint32_t count = 0;
    error_slot *slot;
    if (!error || (top() && error == &top()->error) || !(slot = make_slot())) return;
    for (const tn_error *e = error; e && count < MAX_CHAIN; e = e->cause) chain[count++] = e;
    for (uint32_t i = 0; i < count; i++) {
        const tn_error *e = chain[count - 1 - i];
        error_record *r = &slot->records[i];
        set_record(r, e->code, bare_message(e));
        if (is_placed && e == error && e->file) place_record(r, e->file, e->line);
        r->error.native_code = e->native_code;
        set_text(r->op, sizeof(r->op), e->op);
        set_text(r->plugin, sizeof(r->plugin), e->plugin);
        set_text(r->native_text, sizeof(r->native_text), e->native_text);
    }
    slot->depth = count;
    slot->count++;
    link_records(slot);
}

void tni_error_restore(const tn_error *error)
{
    restore(error, 0);
}

void tni_error_restore_placed(const tn_error *error)
{
    restore(error, 1);
}

void tn_error_release(tn_error *error)
{
    if (error != &no_memory_error) free(error);
}
