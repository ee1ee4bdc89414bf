/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures as bytes, pixel by pixel. */
#ifndef DATA_IMAGE_H
#define DATA_IMAGE_H

#include <tenon/data.h>

#define IMAGE_MOST_PIXELS (1u << 28)

typedef struct image {
    uint32_t channels; /* asked for: TN_IMAGE_...; then those that there are */
    uint32_t width, height;
    uint8_t *pixels; /* of malloc: height * width * channels */
    char error[256];
} image;

/* Return a status. After one other than TN_OK `error` says why, and there are no pixels. */
int32_t image_decode_png(image *out, const uint8_t *bytes, uint64_t count);
int32_t image_decode_jpeg(image *out, const uint8_t *bytes, uint64_t count);
/* Memory for the pixels. TN_E_UNSUPPORTED where there are too many. */
int32_t image_make(image *out);

#endif
