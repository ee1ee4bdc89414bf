/* SPDX-License-Identifier: Apache-2.0 */
/* PNG by libpng. Its errors jump: everything that must be freed is in the struct behind its error pointer. */
#include "image.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct decoder {
    image *out;
    const uint8_t *bytes;
    uint64_t left;
    png_structp png;
    png_infop info;
    png_bytep *rows;
    int32_t status;
} decoder;

static void on_error(png_structp png, png_const_charp text)
{
    decoder *d = png_get_error_ptr(png);
    if (!d->out->error[0]) snprintf(d->out->error, sizeof d->out->error, "damaged PNG: %s", text);
    if (!d->status) d->status = TN_E_CORRUPT;
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text; /* about chunks that do not change the pixels */
}

static void read_bytes(png_structp png, png_bytep to, size_t count)
{
    decoder *d = png_get_io_ptr(png);
    if (count > d->left) png_error(png, "it ends early");
    memcpy(to, d->bytes, count);
    d->bytes += count;
    d->left -= count;
}

/* Asks libpng for 8 bits a channel and the channels that are wanted. */
static void set_channels(decoder *d, uint32_t channels)
{
    png_structp png = d->png;
    const int is_colour = png_get_color_type(png, d->info) & PNG_COLOR_MASK_COLOR;
    png_set_expand(png); /* palettes, fewer than 8 bits, transparency */
    png_set_scale_16(png);
    if (channels == TN_IMAGE_AS_IT_IS) return;
    if (channels == TN_IMAGE_GREY && is_colour) png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, -1, -1);
    if (channels != TN_IMAGE_GREY && !is_colour) png_set_gray_to_rgb(png);
    if (channels == TN_IMAGE_RGBA)
        png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);
    else
        png_set_strip_alpha(png);
}

/* Runs where on_error jumps back to. */
static void decode(decoder *d)
{
    image *out = d->out;
    png_set_read_fn(d->png, d, read_bytes);
    png_read_info(d->png, d->info);
    set_channels(d, out->channels);
    png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    out->width = png_get_image_width(d->png, d->info);
    out->height = png_get_image_height(d->png, d->info);
    out->channels = png_get_channels(d->png, d->info);
    const size_t row = (size_t)out->width * out->channels;
    if (png_get_rowbytes(d->png, d->info) != row) png_error(d->png, "its rows have another length");
    d->status = image_make(out);
    d->rows = d->status ? NULL : malloc(out->height * sizeof *d->rows);
    if (!d->status && !d->rows) d->status = TN_E_OUT_OF_MEMORY;
    if (d->status) png_error(d->png, "out of host memory");
    for (uint32_t y = 0; y < out->height; y++) d->rows[y] = out->pixels + y * row;
    png_read_image(d->png, d->rows);
    png_read_end(d->png, NULL);
}

int32_t image_decode_png(image *out, const uint8_t *bytes, uint64_t count)
{
    decoder d = {.out = out, .bytes = bytes, .left = count};
    d.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &d, on_error, on_warning);
    d.info = d.png ? png_create_info_struct(d.png) : NULL;
    if (!d.info) {
        snprintf(out->error, sizeof out->error, "out of host memory");
        d.status = TN_E_OUT_OF_MEMORY;
    } else if (!setjmp(png_jmpbuf(d.png))) {
        decode(&d);
    }
    png_destroy_read_struct(&d.png, &d.info, NULL);
    free(d.rows);
    if (d.status) {
        free(out->pixels);
        out->pixels = NULL;
    }
    return d.status;
}
