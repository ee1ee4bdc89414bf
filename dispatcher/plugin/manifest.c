/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads manifests; see manifest.h. Size and depth are checked before the JSON library parses the text.
 */
#include "dispatcher/plugin/manifest.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Real manifests have a few hundred bytes and two levels. */
#define MAX_BYTES 65536u
#define MAX_DEPTH 16u

typedef struct position {
    uint32_t line;
    uint32_t column;
} position;

static position position_of(const char *text, size_t offset)
{
    position p = {1, 1};
    for (size_t i = 0; i < offset; i++) {
        p.column++;
        if (text[i] == '\n') p = (position){p.line + 1, 1};
    }
    return p;
}

static int32_t corrupt_at(tni_reason *reason, const char *text, size_t offset, const char *what)
{
    position p = position_of(text, offset);
    return tni_reason_set(reason, TN_E_CORRUPT, "manifest: %s at line %u, column %u (byte %zu)", what, p.line,
                          p.column, offset);
}

/* Refuses deep nesting, and zero bytes, which C strings cannot hold. */
static int32_t check_text(const char *text, size_t bytes, tni_reason *reason)
{
    uint32_t depth = 0;
    int32_t in_string = 0;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (c == 0) return corrupt_at(reason, text, i, "a zero byte");
        if (in_string && c == '\\') {
            if (bytes - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
                return corrupt_at(reason, text, i, "an escaped zero");
            i++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && (c == '{' || c == '[')) {
            if (++depth > MAX_DEPTH) return corrupt_at(reason, text, i, "nested too deeply");
        } else if (!in_string && (c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return TN_OK;
}

/* The member of that name, or NULL. A duplicate is an error: JSON readers disagree about its value. */
static int32_t find_member(const cJSON *root, const char *key, const cJSON **out, tni_reason *reason)
{
    *out = NULL;
    for (const cJSON *item = root->child; item; item = item->next) {
        if (strcmp(item->string, key) != 0) continue;
        if (*out) return tni_reason_set(reason, TN_E_CORRUPT, "manifest: \"%s\" occurs twice", key);
        *out = item;
    }
    return TN_OK;
}

static const char *kind_of(const cJSON *item)
{
    return cJSON_IsString(item)   ? "a string"
           : cJSON_IsNumber(item) ? "a number"
           : cJSON_IsBool(item)   ? "a boolean"
           : cJSON_IsArray(item)  ? "an array"
           : cJSON_IsObject(item) ? "an object"
                                  : "null";
}

static int32_t wrong_kind(tni_reason *reason, const char *key, const char *expected, const cJSON *item)
{
    return tni_reason_set(reason, TN_E_CORRUPT, "manifest: \"%s\" must be %s, found %s", key, expected,
                          kind_of(item));
}

static int32_t copy_text(const cJSON *item, const char *key, char *to, size_t bytes, tni_reason *reason)
{
    if (!cJSON_IsString(item)) return wrong_kind(reason, key, "a string", item);
    size_t length = strlen(item->valuestring);
    if (length >= bytes)
        return tni_reason_set(reason, TN_E_CORRUPT, "manifest: \"%s\" is too long: %zu bytes, at most %zu",
                              key, length, bytes - 1);
    for (const char *c = item->valuestring; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return tni_reason_set(reason, TN_E_CORRUPT, "manifest: \"%s\" has a control character", key);
    }
    memcpy(to, item->valuestring, length + 1);
    return TN_OK;
}

/* Names of plugins and device types. Users type them in lists: no blanks, commas or wildcards. */
static int32_t copy_name(const cJSON *item, const char *key, char *to, tni_reason *reason)
{
    int32_t status = copy_text(item, key, to, TNI_MANIFEST_NAME_BYTES, reason);
    if (status != TN_OK) return status;
    if (!*to) return tni_reason_set(reason, TN_E_CORRUPT, "manifest: \"%s\" is empty", key);
    for (const char *c = to; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("_-.", *c))
            return tni_reason_set(
                reason, TN_E_CORRUPT,
                "manifest: \"%s\" may have letters, digits, '_', '-' and '.' only, found '%s'", key, to);
    }
    return TN_OK;
}

static int32_t take_version(const cJSON *root, tni_reason *reason)
{
    const cJSON *item;
    int32_t status = find_member(root, "tenon_manifest", &item, reason);
    if (status != TN_OK) return status;
    if (!item && cJSON_GetObjectItemCaseSensitive(root, "library")) /* most likely meant as one */
        return tni_reason_set(reason, TN_E_CORRUPT, "manifest: \"tenon_manifest\" is missing");
    if (!item) return tni_reason_set(reason, TN_E_NOT_FOUND, "not a manifest: \"tenon_manifest\" is missing");
    if (!cJSON_IsNumber(item)) return wrong_kind(reason, "tenon_manifest", "a number", item);
    if (item->valuedouble != TNI_MANIFEST_VERSION)
        return tni_reason_set(reason, TN_E_VERSION, "manifest: version %g, this library reads version %d",
                              item->valuedouble, TNI_MANIFEST_VERSION);
    return TN_OK;
}

static int32_t take_required(const cJSON *root, tni_manifest *m, tni_reason *reason)
{
    const cJSON *name, *library;
    int32_t status = find_member(root, "name", &name, reason);
    if (status == TN_OK) status = find_member(root, "library", &library, reason);
    if (status != TN_OK) return status;
    if (!name || !library)
        return tni_reason_set(reason, TN_E_CORRUPT, "manifest: \"%s\" is missing", name ? "library" : "name");
    status = copy_name(name, "name", m->name, reason);
    if (status == TN_OK) status = copy_text(library, "library", m->library, sizeof(m->library), reason);
    if (status == TN_OK && !m->library[0])
        status = tni_reason_set(reason, TN_E_CORRUPT, "manifest: \"library\" is empty");
    return status;
}

static int32_t take_requires(const cJSON *item, tni_manifest *m, tni_reason *reason)
{
    if (!cJSON_IsArray(item)) return wrong_kind(reason, "requires", "an array of names", item);
    for (const cJSON *name = item->child; name; name = name->next) {
        if (m->n_requires == TNI_MANIFEST_MAX_REQUIRES)
            return tni_reason_set(reason, TN_E_CORRUPT, "manifest: \"requires\" has more than %d names",
                                  TNI_MANIFEST_MAX_REQUIRES);
        int32_t status = copy_name(name, "requires", m->requires[m->n_requires], reason);
        if (status != TN_OK) return status;
        m->n_requires++;
    }
    return TN_OK;
}

static int32_t take_optional(const cJSON *root, tni_manifest *m, tni_reason *reason)
{
    const cJSON *device_type, *description, *enabled, *required, *shim;
    int32_t status;
    m->enabled = 1;
    if ((status = find_member(root, "device_type", &device_type, reason)) ||
        (status = find_member(root, "description", &description, reason)) ||
        (status = find_member(root, "enabled", &enabled, reason)) ||
        (status = find_member(root, "requires", &required, reason)) ||
        (status = find_member(root, "shim", &shim, reason)))
        return status;
    if (shim && (status = copy_name(shim, "shim", m->shim, reason))) return status;
    if (device_type && (status = copy_name(device_type, "device_type", m->device_type, reason)))
        return status;
    if (description &&
        (status = copy_text(description, "description", m->description, sizeof(m->description), reason)))
        return status;
    if (enabled && !cJSON_IsBool(enabled)) return wrong_kind(reason, "enabled", "a boolean", enabled);
    if (enabled) m->enabled = cJSON_IsTrue(enabled);
    return required ? take_requires(required, m, reason) : TN_OK;
}

int32_t tni_manifest_parse(const char *text, size_t bytes, tni_manifest *out, tni_reason *reason)
{
    const char *end = text;
    tni_manifest m = {0};
    if (bytes == 0) return tni_reason_set(reason, TN_E_CORRUPT, "manifest: the file is empty");
    if (bytes > MAX_BYTES)
        return tni_reason_set(reason, TN_E_CORRUPT, "manifest: %zu bytes, at most %u", bytes, MAX_BYTES);
    int32_t status = check_text(text, bytes, reason);
    if (status != TN_OK) return status;
    cJSON *root = cJSON_ParseWithLengthOpts(text, bytes, &end, 0);
    size_t stopped = (size_t)(end - text);
    if (!root)
        return corrupt_at(reason, text, stopped,
                          stopped + 1 >= bytes ? "unexpected end of JSON" : "bad JSON");
    while (stopped < bytes && isspace((unsigned char)text[stopped])) stopped++;
    if (stopped < bytes)
        status = corrupt_at(reason, text, stopped, "text after the end");
    else if (!cJSON_IsObject(root))
        status = tni_reason_set(reason, TN_E_NOT_FOUND, "not a manifest: must be an object, found %s",
                                kind_of(root));
    if (status == TN_OK) status = take_version(root, reason);
    if (status == TN_OK) status = take_required(root, &m, reason);
    if (status == TN_OK) status = take_optional(root, &m, reason);
    cJSON_Delete(root);
    if (status == TN_OK) *out = m;
    return status;
}

static int32_t read_all(int fd, char *text, size_t bytes, tni_reason *reason)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, text + done, bytes - done, (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return tni_reason_set(reason, TN_E_IO, "manifest: cannot be read: %s",
                                  n < 0 ? strerror(errno) : "the file became shorter");
        done += (size_t)n;
    }
    return TN_OK;
}

int32_t tni_manifest_read(int fd, tni_manifest *out, tni_reason *reason)
{
    struct stat file;
    if (fstat(fd, &file) != 0)
        return tni_reason_set(reason, TN_E_IO, "manifest: cannot be read: %s", strerror(errno));
    if (!S_ISREG(file.st_mode)) return tni_reason_set(reason, TN_E_CORRUPT, "manifest: not a regular file");
    if (file.st_size > (off_t)MAX_BYTES)
        return tni_reason_set(reason, TN_E_NOT_FOUND, "not a manifest: %lld bytes, at most %u",
                              (long long)file.st_size, MAX_BYTES);
    size_t bytes = (size_t)file.st_size;
    char *text = malloc(bytes + 1);
    if (!text) return tni_reason_set(reason, TN_E_OUT_OF_MEMORY, "manifest: out of memory");
    int32_t status = read_all(fd, text, bytes, reason);
    text[bytes] = 0;
    if (status == TN_OK) status = tni_manifest_parse(text, bytes, out, reason);
    free(text);
    return status;
}
