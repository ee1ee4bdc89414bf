/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as PyTorch prints them. Floats are shown with `precision` digits; as "1." when all are whole; in
 * scientific notation when the largest is over 1e8 or over 1000 times the smallest, or the smallest below
 * 1e-4 (finite and not zero, by magnitude).
 */
#include "core/print_number.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tensor.h>
#include "core/dtype.h"
#include "core/number_text.h"

/* Quantised elements are shown as the integers that are stored. */
static tn_dtype stored_dtype(tn_dtype dtype)
{
    switch (dtype) {
    case TN_QINT8:
        return TN_INT8;
    case TN_QINT32:
        return TN_INT32;
    case TN_QUINT8:
    case TN_QUINT4X2:
        return TN_UINT8;
    default:
        return dtype;
    }
}

static int32_t is_float(tn_dtype dtype)
{
    return tn_dtype_is_floating(dtype) || tn_dtype_is_complex(dtype);
}

static tni_element load(const tni_number_format *f, const char *element)
{
    tni_element e;
    tni_element_load(element, stored_dtype(f->dtype), &e);
    return e;
}

static int32_t write_float(const tni_number_format *f, double v, char *text)
{
    const char *name = isnan(v) ? "nan" : v < 0 ? "-inf" : "inf";
    if (!isfinite(v)) return snprintf(text, TNI_NUMBER_BYTES, "%s", name);
    if (f->scientific == TNI_SCIENTIFIC_ON)
        return tni_snprintf(text, TNI_NUMBER_BYTES, "%.*e", f->precision, v);
    if (f->is_whole) return tni_snprintf(text, TNI_NUMBER_BYTES, "%.0f.", v);
    return tni_snprintf(text, TNI_NUMBER_BYTES, "%.*f", f->precision, v);
}

static int32_t write_plain(const tni_number_format *f, const tni_element *e, char *text)
{
    if (is_float(f->dtype)) return write_float(f, f->part ? e->im : e->re, text);
    if (f->dtype == TN_BOOL) return snprintf(text, TNI_NUMBER_BYTES, "%s", e->i ? "True" : "False");
    if (e->is_unsigned) return snprintf(text, TNI_NUMBER_BYTES, "%" PRIu64, (uint64_t)e->i);
    return snprintf(text, TNI_NUMBER_BYTES, "%" PRId64, e->i);
}

/* An element whose meaning only its vendor knows: its bytes as one hexadecimal number, as this machine reads it. */
static int32_t write_bits(tn_dtype dtype, const char *element, char *text)
{
    int32_t length = snprintf(text, TNI_NUMBER_BYTES, "0x");
    for (int64_t i = tn_dtype_bytes(dtype); i-- > 0;)
        length +=
            snprintf(text + length, TNI_NUMBER_BYTES - (size_t)length, "%02x", (unsigned char)element[i]);
    return length;
}

/* 1 for the values that decide how floats look. */
static int32_t counts(double v)
{
    return isfinite(v) && v != 0;
}

static void choose_notation(tni_number_format *f, const char *data, int64_t count)
{
    double least = INFINITY, most = 0;
    f->is_whole = 1;
    for (int64_t i = 0; i < count; i++) {
        tni_element e = load(f, data + i * tn_dtype_bytes(f->dtype));
        double v = f->part ? e.im : e.re;
        if (!counts(v)) continue;
        least = fmin(least, fabs(v));
        most = fmax(most, fabs(v));
        if (v != ceil(v)) f->is_whole = 0;
    }
    if (most == 0) f->scientific = TNI_SCIENTIFIC_OFF; /* nothing to decide by, whatever was asked for */
    if (f->scientific == TNI_SCIENTIFIC_AUTO)
        f->scientific =
            most / least > 1000.0 || most > 1e8 || least < 1e-4 ? TNI_SCIENTIFIC_ON : TNI_SCIENTIFIC_OFF;
}

void tni_number_format_fit(tni_number_format *f, const char *data, int64_t count)
{
    char text[TNI_NUMBER_BYTES];
    int32_t floats = is_float(f->dtype);
    f->width = 1;
    if (tni_dtype_is_vendor(f->dtype)) return; /* all have one width */
    if (floats) choose_notation(f, data, count);
    for (int64_t i = 0; i < count; i++) {
        tni_element e = load(f, data + i * tn_dtype_bytes(f->dtype));
        if (floats && !counts(f->part ? e.im : e.re)) continue;
        int32_t length = write_plain(f, &e, text);
        if (length > f->width) f->width = length;
    }
}

int32_t tni_number_format_write(const tni_number_format *f, const char *element, char text[TNI_NUMBER_BYTES])
{
    if (tni_dtype_is_vendor(f->dtype)) return write_bits(f->dtype, element, text);
    tni_element e = load(f, element);
    int32_t length = write_plain(f, &e, text), pad = f->width - length;
    if (pad <= 0) return length;
    memmove(text + pad, text, (size_t)length + 1);
    memset(text, ' ', (size_t)pad);
    return f->width;
}
