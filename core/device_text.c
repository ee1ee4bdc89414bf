/* SPDX-License-Identifier: Apache-2.0 */
/* Devices as text: "cpu", "cuda:1". A device type need not be there to be named. */
#include <stdio.h>
#include <string.h>
#include "core/context.h"
#include "core/error.h"

#define MAX_TYPE_BYTES 64

static int32_t is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int32_t is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "0" or a number without leading zeros that fits; -1 otherwise. */
static int64_t parse_index(const char *text)
{
    int64_t index = 0;
    if (!is_digit(text[0]) || (text[0] == '0' && text[1])) return -1;
    for (; is_digit(*text); text++) {
        index = index * 10 + (*text - '0');
        if (index > INT32_MAX) return -1;
    }
    return *text ? -1 : index;
}

/* The host and "meta" have one device each, so the index may be left out. */
static int32_t is_single(uint32_t type)
{
    return type == TN_INTERNED_CPU || type == TN_INTERNED_META;
}

tn_device tn_device_parse(tn_context *ctx, const char *text)
{
    char type[MAX_TYPE_BYTES];
    uint64_t n = 0;
    if (tni_context_check(ctx)) return TN_DEVICE_MISSING;
    if (!text || !text[0]) {
        tni_error(TN_E_DEVICE, "Device string must not be empty");
        return TN_DEVICE_MISSING;
    }
    while (n < sizeof(type) - 1 && (is_letter(text[n]) || (n && is_digit(text[n])))) n++;
    int64_t index = text[n] == ':' ? parse_index(text + n + 1) : 0;
    if (n == 0 || (text[n] && text[n] != ':') || index < 0) {
        tni_error(TN_E_DEVICE, "Invalid device string: '%s'", text);
        return TN_DEVICE_MISSING | TN_DEVICE(tn_intern(ctx, text), -1);
    }
    memcpy(type, text, n);
    type[n] = 0;
    uint32_t id = tn_intern(ctx, type);
    if (!id) return TN_DEVICE_MISSING;
    return TN_DEVICE(id, text[n] || is_single(id) ? (int32_t)index : -1);
}

const char *tn_device_format(tn_context *ctx, tn_device device, char *buffer, uint64_t bytes)
{
    if (!buffer || !bytes) return buffer;
    uint32_t id = TN_DEVICE_TYPE(device & ~TN_DEVICE_MISSING);
    const char *type = !ctx ? NULL : id ? tn_interned(ctx, id) : "none";
    int32_t index = TN_DEVICE_INDEX(device);
    if (!type) type = "unknown";
    if (index < 0 || !id || (index == 0 && is_single(id))) {
        snprintf(buffer, bytes, "%s", type);
    } else {
        snprintf(buffer, bytes, "%s:%d", type, index);
    }
    return buffer;
}
