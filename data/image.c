/* SPDX-License-Identifier: Apache-2.0 */
/* Images: which decoder reads the bytes, and planes of channels from pixels. */
#include "image.h"
#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t image_make(image *out)
{
    const uint64_t pixels = (uint64_t)out->width * out->height;
    if (pixels > IMAGE_MOST_PIXELS) {
        snprintf(out->error, sizeof out->error, "it has %u x %u pixels, more than 2^28", out->width,
                 out->height);
        return TN_E_UNSUPPORTED;
    }
    out->pixels = malloc(pixels * out->channels + 1);
    if (!out->pixels) snprintf(out->error, sizeof out->error, "out of host memory");
    return out->pixels ? TN_OK : TN_E_OUT_OF_MEMORY;
}

static tn_tensor *planes(tn_scope *s, const image *from)
{
    const uint64_t pixels = (uint64_t)from->width * from->height, n = from->channels;
    uint8_t *bytes = malloc(pixels * n + 1);
    if (!bytes) return data_fail(s, TN_E_OUT_OF_MEMORY, "image", NULL, "out of host memory"), NULL;
    for (uint64_t c = 0; c < n; c++)
        for (uint64_t i = 0; i < pixels; i++) bytes[c * pixels + i] = from->pixels[i * n + c];
    return data_tensor_of(s, TN_UINT8, TN_INTS((int64_t)n, from->height, from->width), bytes);
}

static tn_tensor *decode(tn_scope *s, const char *path, const uint8_t *bytes, uint64_t count,
                         uint32_t channels)
{
    image made = {.channels = channels};
    int32_t status;
    if (channels == 2 || channels > TN_IMAGE_RGBA)
        return data_fail(s, TN_E_ARGUMENT, "image", path,
                         "argument 'channels': it must be TN_IMAGE_... (got %u)", channels),
               NULL;
    if (count >= 8 && !memcmp(bytes, "\x89PNG\r\n\x1a\n", 8))
        status = image_decode_png(&made, bytes, count);
    else if (count >= 3 && !memcmp(bytes, "\xff\xd8\xff", 3))
        status = image_decode_jpeg(&made, bytes, count);
    else
        return data_fail(s, TN_E_CORRUPT, "image", path, "it is neither a PNG nor a JPEG"), NULL;
    tn_tensor *t = NULL;
    if (status)
        data_fail(s, status, "image", path, "%s", made.error);
    else
        t = planes(s, &made);
    free(made.pixels);
    return t;
}

tn_tensor *tn_image_decode(tn_scope *s, const void *bytes, uint64_t count, uint32_t channels)
{
    if (tn_scope_failed(s)) return NULL;
    if (!bytes) return data_fail(s, TN_E_ARGUMENT, "image", NULL, "argument 'bytes': it is NULL"), NULL;
    return decode(s, NULL, bytes, count, channels);
}

tn_tensor *tn_image_read(tn_scope *s, const char *path, uint32_t channels)
{
    uint8_t *bytes = NULL;
    uint64_t count = 0;
    if (data_read_file(s, "image", path, &bytes, &count)) return NULL;
    tn_tensor *t = decode(s, path, bytes, count, channels);
    free(bytes);
    return t;
}
