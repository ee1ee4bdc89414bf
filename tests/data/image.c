/* SPDX-License-Identifier: Apache-2.0 */
/* Images of Pillow's encoders: what is decoded, and damaged files. */
#include <criterion/criterion.h>
#include "bytes.h"
#include "suite.h"

TestSuite(image, .init = begin, .fini = end);

#define IMAGE(name, channels) tn_image_read(s, path_of(name), channels)

static void expect_sizes(tn_tensor *t, int64_t channels, int64_t height, int64_t width)
{
    expect_sound(s);
    cr_assert_eq(tn_tensor_dtype(t), TN_UINT8);
    cr_assert_eq(tn_tensor_rank(t), 3);
    cr_assert_eq(tn_tensor_size(t, 0), channels);
    cr_assert_eq(tn_tensor_size(t, 1), height);
    cr_assert_eq(tn_tensor_size(t, 2), width);
}

Test(image, png)
{
    tn_tensor *t = IMAGE("grey.png", TN_IMAGE_AS_IT_IS);
    expect_sizes(t, 1, 2, 3);
    EXPECT(s, t, 0, 85, 170, 255, 1, 2);
    t = IMAGE("rgb.png", TN_IMAGE_AS_IT_IS);
    expect_sizes(t, 3, 2, 2);
    EXPECT(s, t, 255, 0, 0, 10, 0, 255, 0, 20, 0, 0, 255, 30);
    t = IMAGE("rgba.png", TN_IMAGE_AS_IT_IS);
    expect_sizes(t, 4, 2, 2);
    EXPECT(s, t, 255, 0, 0, 10, 0, 255, 0, 20, 0, 0, 255, 30, 0, 64, 128, 255);
    EXPECT(s, IMAGE("one_bit.png", TN_IMAGE_AS_IT_IS), 0, 0, 255, 255, 0, 0);
    EXPECT(s, IMAGE("deep.png", TN_IMAGE_AS_IT_IS), 0, 1, 255);
    t = IMAGE("palette.png", TN_IMAGE_AS_IT_IS);
    expect_sizes(t, 4, 1, 3);
    EXPECT(s, t, 1, 40, 255, 2, 50, 254, 3, 60, 253, 255, 7, 0);
}

Test(image, channels_that_are_asked_for)
{
    EXPECT(s, IMAGE("rgba.png", TN_IMAGE_RGB), 255, 0, 0, 10, 0, 255, 0, 20, 0, 0, 255, 30);
    EXPECT(s, IMAGE("palette.png", TN_IMAGE_RGB), 1, 40, 255, 2, 50, 254, 3, 60, 253);
    tn_tensor *t = IMAGE("grey.png", TN_IMAGE_RGBA);
    expect_sizes(t, 4, 2, 3);
    EXPECT(s, tn_select(s, t, 0, 2), 0, 85, 170, 255, 1, 2);
    EXPECT(s, tn_select(s, t, 0, 3), 255, 255, 255, 255, 255, 255);
    t = IMAGE("rgb.png", TN_IMAGE_GREY); /* 0.2126 r + 0.7152 g + 0.0722 b, of ITU-R BT.709 */
    expect_sizes(t, 1, 2, 2);
    const double grey[] = {54, 182, 18, 19};
    const uint8_t *have = tn_tensor_data(t);
    for (int i = 0; i < 4; i++)
        cr_assert(have[i] - grey[i] <= 1 && grey[i] - have[i] <= 1, "%d: %u", i, have[i]);
    expect_sizes(IMAGE("grey.jpg", TN_IMAGE_RGB), 3, 16, 16);
    expect_sizes(IMAGE("rgb.jpg", TN_IMAGE_GREY), 1, 16, 16);
    expect_sizes(IMAGE("rgb.jpg", TN_IMAGE_RGBA), 4, 16, 16);
}

static void expect_pixel(tn_tensor *t, int64_t channel, int64_t y, int64_t x, int want)
{
    const uint8_t *have = tn_tensor_data(t);
    int value = have[(channel * tn_tensor_size(t, 1) + y) * tn_tensor_size(t, 2) + x];
    cr_assert(abs(value - want) <= 2, "%d, not %d", value, want); /* decoders round differently */
}

/* The pixels are those that Pillow decodes; record_files.py prints them. */
Test(image, jpeg)
{
    tn_tensor *t = IMAGE("grey.jpg", TN_IMAGE_AS_IT_IS);
    expect_sizes(t, 1, 16, 16);
    expect_pixel(t, 0, 3, 5, 44);
    expect_pixel(t, 0, 15, 15, 180);
    t = IMAGE("rgb.jpg", TN_IMAGE_AS_IT_IS);
    expect_sizes(t, 3, 16, 16);
    static const int pixels[3][5] = {{3, 5, 44, 211, 61}, {15, 15, 172, 80, 59}, {0, 0, 8, 251, 61}};
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < 3; c++) expect_pixel(t, c, pixels[i][0], pixels[i][1], pixels[i][2 + c]);
}

Test(image, refusals)
{
    IMAGE("cmyk.jpg", TN_IMAGE_AS_IT_IS);
    expect_error(s, "its colours are CMYK");
    IMAGE("big.npy", TN_IMAGE_AS_IT_IS);
    expect_error(s, "it is neither a PNG nor a JPEG");
    IMAGE("grey.png", 2);
    expect_error(s, "argument 'channels'");
    tn_image_read(s, "/nowhere/a.png", 0);
    cr_assert_eq(tn_scope_failed(s), TN_E_NOT_FOUND);
    expect_error(s, "image: '/nowhere/a.png': No such file");
    tn_image_decode(s, NULL, 0, 0);
    expect_error(s, "argument 'bytes'");
    size_t count;
    uint8_t *bytes = contents(path_of("grey.jpg"), &count);
    tn_image_decode(s, bytes, count / 2, 0);
    expect_error(s, "damaged JPEG: Premature end of JPEG file");
    free(bytes);
    bytes = contents(path_of("rgb.png"), &count);
    tn_image_decode(s, bytes, count / 2, 0);
    expect_error(s, "damaged PNG: ");
    free(bytes);
}

static int32_t decode(const uint8_t *bytes, size_t count)
{
    uint8_t *own = malloc(count + 1); /* so that a sanitizer sees a read past the end */
    memcpy(own, bytes, count);
    int32_t status = TN_OK;
    for (uint32_t channels = 0; channels <= TN_IMAGE_RGBA && !status; channels += channels == 1 ? 2 : 1) {
        tn_image_decode(s, own, count, channels);
        status = tn_scope_failed(s);
        cr_assert(!status || tn_scope_error(s)->message[0]);
        tn_scope_clear(s);
    }
    free(own);
    return status;
}

Test(image, damaged_files)
{
    static const char *const names[] = {"grey.png", "rgba.png", "palette.png",
                                        "deep.png", "grey.jpg", "rgb.jpg"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t count;
        uint8_t *bytes = contents(path_of(names[i]), &count);
        /* The end of a PNG (12 bytes) and that of a JPEG (2) hold no pixels, but both must be there. */
        fuzz(bytes, count, 600, 50, decode);
        free(bytes);
    }
}
