/* SPDX-License-Identifier: Apache-2.0 */
/* How the numbers of one printed tensor look: they share width, notation and precision. */
#ifndef TNI_CORE_PRINT_NUMBER_H
#define TNI_CORE_PRINT_NUMBER_H

#include <tenon/base.h>

#define TNI_NUMBER_BYTES    512 /* of the longest text, with TNI_PRECISION_LIMIT and the largest double */
#define TNI_PRECISION_LIMIT 64
#define TNI_SCIENTIFIC_AUTO 0
#define TNI_SCIENTIFIC_ON   1
#define TNI_SCIENTIFIC_OFF  (-1)

typedef struct tni_number_format {
    tn_dtype dtype; /* of the elements */
    int32_t part;   /* 0: real, 1: imaginary */
    int32_t precision;
    int32_t scientific; /* TNI_SCIENTIFIC_...; once fitted it is ON or OFF */
    int32_t is_whole;   /* all finite numbers are integers, shown as "1." */
    int32_t width;
} tni_number_format;

/* Finds notation and width for `count` elements that follow each other in memory. */
void tni_number_format_fit(tni_number_format *f, const char *data, int64_t count);
/* Writes one element, padded to the width, and returns its length. */
int32_t tni_number_format_write(const tni_number_format *f, const char *element, char text[TNI_NUMBER_BYTES]);

#endif
