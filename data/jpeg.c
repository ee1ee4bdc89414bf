/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG by libjpeg-turbo. Its errors jump; a file that ends early is an error here, other warnings are
 * ignored. */
#include "image.h"

#include <stdio.h>
#include <stdlib.h>
#include <jpeglib.h>
#include <jerror.h>
#include <setjmp.h>

typedef struct decoder {
    struct jpeg_error_mgr errors; /* first: libjpeg gives its address */
    jmp_buf back;
    image *out;
    int32_t status;
} decoder;

static void stop(j_common_ptr jpeg, int32_t status)
{
    decoder *d = (decoder *)(void *)jpeg->err;
    char text[JMSG_LENGTH_MAX];
    d->errors.format_message(jpeg, text);
    snprintf(d->out->error, sizeof d->out->error, "damaged JPEG: %.200s", text);
    d->status = status;
    longjmp(d->back, 1);
}

static void on_error(j_common_ptr jpeg)
{
    stop(jpeg, jpeg->err->msg_code == JERR_OUT_OF_MEMORY ? TN_E_OUT_OF_MEMORY : TN_E_CORRUPT);
}

static void on_message(j_common_ptr jpeg, int level)
{
    const int code = jpeg->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) stop(jpeg, TN_E_CORRUPT);
}

static int32_t set_channels(struct jpeg_decompress_struct *jpeg, image *out)
{
    const int is_grey = jpeg->jpeg_color_space == JCS_GRAYSCALE;
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK) {
        snprintf(out->error, sizeof out->error, "its colours are CMYK (expected grey or RGB)");
        return TN_E_UNSUPPORTED;
    }
    if (out->channels == TN_IMAGE_AS_IT_IS) out->channels = is_grey ? TN_IMAGE_GREY : TN_IMAGE_RGB;
    jpeg->out_color_space = out->channels == TN_IMAGE_GREY  ? JCS_GRAYSCALE
                            : out->channels == TN_IMAGE_RGB ? JCS_RGB
                                                            : JCS_EXT_RGBA;
    return TN_OK;
}

/* Runs where `stop` jumps back to. */
static int32_t decode(struct jpeg_decompress_struct *jpeg, image *out, const uint8_t *bytes, uint64_t count)
{
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, bytes, count);
    jpeg_read_header(jpeg, TRUE);
    int32_t status = set_channels(jpeg, out);
    if (status) return status;
    jpeg_start_decompress(jpeg);
    out->width = jpeg->output_width;
    out->height = jpeg->output_height;
    status = image_make(out);
    while (!status && jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = out->pixels + (size_t)jpeg->output_scanline * out->width * out->channels;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    if (!status) jpeg_finish_decompress(jpeg);
    return status;
}

int32_t image_decode_jpeg(image *out, const uint8_t *bytes, uint64_t count)
{
    struct jpeg_decompress_struct jpeg = {0};
    decoder d = {.out = out};
    jpeg.err = jpeg_std_error(&d.errors);
    d.errors.error_exit = on_error;
    d.errors.emit_message = on_message;
    if (!setjmp(d.back)) d.status = decode(&jpeg, out, bytes, count);
    jpeg_destroy_decompress(&jpeg);
    if (d.status) {
        free(out->pixels);
        out->pixels = NULL;
    }
    return d.status;
}
