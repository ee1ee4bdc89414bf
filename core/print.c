/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of tensors, as PyTorch prints them. Large tensors are summarised: of a dimension longer than twice the
 * edge items, only the ends are read from the device and shown. print_number.c formats numbers; autograd's
 * hooks describe the gradient.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "core/dtype.h"
#include "core/number_text.h"
#include "core/print_number.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/transfer.h"

#define PREFIX "tensor("

typedef struct printer {
    tn_context *ctx;
    const tn_tensor *tensor;
    tn_print_options options;
    int32_t summarize;
    tni_number_format formats[2];
    uint32_t format_count;
    tni_shape shown; /* sizes of what is shown */
    char *values;    /* row-major, of these sizes */
    uint64_t value_bytes;
    char *text;
    uint64_t length;
    uint64_t capacity;
    uint64_t column; /* where the next suffix begins, by PyTorch's count */
    int32_t status;  /* the first failure */
} printer;

/* ---- Text ---------------------------------------------------------------------------------------------- */

static void add_bytes(printer *p, const char *bytes, uint64_t count)
{
    if (p->status) return;
    if (p->length + count >= p->capacity) {
        uint64_t capacity = (p->length + count + 1) * 2;
        char *text = tni_alloc(p->ctx, capacity);
        if (!text) {
            p->status = TN_E_OUT_OF_MEMORY;
            return;
        }
        if (p->length) memcpy(text, p->text, p->length);
        tni_free(p->ctx, p->text, p->capacity);
        p->text = text;
        p->capacity = capacity;
    }
    memcpy(p->text + p->length, bytes, count);
    p->length += count;
    p->text[p->length] = 0;
}

static void add(printer *p, const char *text)
{
    add_bytes(p, text, strlen(text));
}

static void add_repeated(printer *p, char c, uint64_t count)
{
    while (count-- > 0) add_bytes(p, &c, 1);
}

/* ---- Reading ------------------------------------------------------------------------------------------- */

static int64_t shown_size(const printer *p, int64_t size)
{
    int64_t edges = 2 * (int64_t)p->options.edge_items;
    return p->summarize && size > edges ? edges : size;
}

/* `count` elements along the last dimension, from `offset` elements into the storage. */
static char *read_run(printer *p, int64_t offset, int64_t count, int64_t stride, char *to)
{
    uint64_t bytes = (uint64_t)(count * tn_dtype_bytes(p->tensor->desc.dtype));
    tn_tensor *run = NULL;
    if (p->status) return to;
    p->status =
        tni_tensor_alias((tn_tensor *)p->tensor, p->tensor->desc.dtype, 1, &count, &stride, offset, &run);
    if (p->status) return to;
    run->desc.flags = p->tensor->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG);
    p->status = tni_tensor_read(run, to, bytes);
    tn_release(run);
    return to + bytes;
}

/* The ends of dimension `dim` and of those inside it. */
static char *read_ends(printer *p, uint32_t dim, int64_t offset, char *to)
{
    const tn_tensor_desc *d = &p->tensor->desc;
    int64_t size = d->sizes[dim], stride = d->strides[dim], shown = shown_size(p, size);
    int64_t edge = shown < size ? shown / 2 : shown;
    if (dim + 1 == d->rank) {
        to = read_run(p, offset, edge, stride, to);
        return edge < shown ? read_run(p, offset + (size - edge) * stride, edge, stride, to) : to;
    }
    for (int64_t i = 0; i < shown; i++)
        to = read_ends(p, dim + 1, offset + (i < edge ? i : i - shown + size) * stride, to);
    return to;
}

static int32_t read_values(printer *p)
{
    const tn_tensor *t = p->tensor;
    int64_t count = 1;
    p->shown.rank = t->desc.rank;
    for (uint32_t i = 0; i < t->desc.rank; i++) count *= p->shown.sizes[i] = shown_size(p, t->desc.sizes[i]);
    p->value_bytes = (uint64_t)(count * tn_dtype_bytes(t->desc.dtype));
    p->values = tni_alloc(p->ctx, p->value_bytes);
    if (!p->values) return TN_E_OUT_OF_MEMORY;
    if (count == t->numel) return tni_tensor_read(t, p->values, p->value_bytes);
    read_ends(p, 0, t->offset, p->values);
    return p->status;
}

static void fit_formats(printer *p)
{
    tn_dtype dtype = p->tensor->desc.dtype;
    p->format_count = tn_dtype_is_complex(dtype) ? 2 : 1;
    for (uint32_t i = 0; i < p->format_count; i++) {
        p->formats[i] = (tni_number_format){.dtype = dtype,
                                            .part = (int32_t)i,
                                            .precision = p->options.precision,
                                            .scientific = p->options.scientific};
        tni_number_format_fit(&p->formats[i], p->values, (int64_t)p->value_bytes / tn_dtype_bytes(dtype));
    }
}

/* ---- Values -------------------------------------------------------------------------------------------- */

static void add_value(printer *p, const char *element)
{
    char text[TNI_NUMBER_BYTES];
    int32_t length = tni_number_format_write(&p->formats[0], element, text);
    add_bytes(p, text, (uint64_t)length);
    if (p->format_count == 1) return;
    length = tni_number_format_write(&p->formats[1], element, text);
    const char *imaginary = text;
    while (*imaginary == ' ') imaginary++;
    if (*imaginary != '-') add(p, "+");
    add_bytes(p, imaginary, (uint64_t)(length - (imaginary - text)));
    add(p, "j");
}

static void add_vector(printer *p, uint64_t indent, const char *data)
{
    uint32_t dim = p->shown.rank - 1;
    int64_t shown = p->shown.sizes[dim], item = tn_dtype_bytes(p->tensor->desc.dtype), column = 0;
    int64_t gap = shown < p->tensor->desc.sizes[dim] ? shown / 2 : -1;
    int64_t width = p->formats[0].width + 2 + (p->format_count == 2 ? p->formats[1].width + 1 : 0);
    int64_t per_line = (p->options.line_width - (int64_t)indent) / width;
    if (per_line < 1) per_line = 1;
    add(p, "[");
    for (int64_t i = 0; i < shown + (gap >= 0); i++) {
        if (i && column == per_line) {
            add(p, ",\n");
            add_repeated(p, ' ', indent + 1);
            column = 0;
        } else if (i) {
            add(p, ", ");
        }
        column++;
        if (i == gap)
            add(p, " ...");
        else
            add_value(p, data + (i > gap && gap >= 0 ? i - 1 : i) * item);
    }
    add(p, "]");
}

static void add_values(printer *p, uint32_t dim, uint64_t indent, const char *data)
{
    uint32_t rank = p->shown.rank;
    if (!rank) {
        add_value(p, data);
        return;
    }
    if (dim + 1 == rank) {
        add_vector(p, indent, data);
        return;
    }
    int64_t shown = p->shown.sizes[dim], step = tn_dtype_bytes(p->tensor->desc.dtype);
    int64_t gap = shown < p->tensor->desc.sizes[dim] ? shown / 2 : -1;
    for (uint32_t i = dim + 1; i < rank; i++) step *= p->shown.sizes[i];
    add(p, "[");
    for (int64_t i = 0; i < shown + (gap >= 0); i++) {
        if (i) {
            add(p, ",");
            add_repeated(p, '\n', rank - dim - 1);
            add_repeated(p, ' ', indent + 1);
        }
        if (i == gap)
            add(p, "...");
        else
            add_values(p, dim + 1, indent + 1, data + (i > gap && gap >= 0 ? i - 1 : i) * step);
    }
    add(p, "]");
}

/* ---- Suffixes ------------------------------------------------------------------------------------------ */

static void add_suffix(printer *p, const char *format, ...) TNI_PRINTF(2, 3);
static void add_suffix(printer *p, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    tni_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    uint64_t length = strlen(text);
    if (p->column + length + 2 > (uint64_t)p->options.line_width) {
        add(p, ",\n");
        add_repeated(p, ' ', sizeof PREFIX - 1);
        p->column = sizeof PREFIX - 1 + length;
    } else {
        add(p, ", ");
        p->column += length + 2;
    }
    add(p, text);
}

/* Like PyTorch, counts one or two columns too many for the line in which the values end. */
static void begin_suffixes(printer *p)
{
    if (p->status) return;
    const char *line = strrchr(p->text, '\n');
    p->column = line ? (uint64_t)(p->text + p->length - line) + 1 : p->length + 2;
}

static void add_size(printer *p)
{
    char text[64 * 22], *end = text;
    const tn_tensor_desc *d = &p->tensor->desc;
    *end++ = '(';
    for (uint32_t i = 0; i < d->rank; i++) end += sprintf(end, "%s%" PRId64, i ? ", " : "", d->sizes[i]);
    sprintf(end, d->rank == 1 ? ",)" : ")");
    add_suffix(p, "size=%s", text);
}

static void add_suffixes(printer *p)
{
    const tn_tensor *t = p->tensor;
    char text[256] = "";
    tn_dtype dtype = t->desc.dtype, common = tni_default_dtype(p->ctx);
    int32_t is_meta = !t->storage->device;
    int32_t is_usual = dtype == common;
    begin_suffixes(p);
    if (TN_DEVICE_TYPE(t->desc.device) != TN_INTERNED_CPU)
        add_suffix(p, "device='%s'", tn_device_format(p->ctx, t->desc.device, text, sizeof text));
    if (is_meta || (!t->numel && t->desc.rank != 1)) add_size(p);
    if (!is_meta && t->numel) /* these dtypes can be told from the elements */
        is_usual |= dtype == TN_INT64 || dtype == TN_BOOL ||
                    dtype == (common == TN_FLOAT64 ? TN_COMPLEX128 : TN_COMPLEX64);
    if (!is_usual)
        add_suffix(p, "dtype=%s%s", tni_dtype_is_vendor(dtype) ? "" : "torch.",
                   tni_dtype_text(p->ctx, dtype));
    text[0] = 0;
    if (p->ctx->autograd && p->ctx->autograd->describe) p->ctx->autograd->describe(t, text, sizeof text);
    if (text[0]) add_suffix(p, "%s", text);
}

/* ---- The text of a tensor ------------------------------------------------------------------------------ */

static int32_t read_options(printer *p, const tn_print_options *options)
{
    tn_print_options *o = &p->options;
    if (options) {
        int32_t status = tni_struct_read(o, sizeof *o, options, "tn_print_options");
        if (status) return status;
    }
    if (o->precision <= 0) o->precision = 4;
    if (o->precision > TNI_PRECISION_LIMIT) o->precision = TNI_PRECISION_LIMIT;
    if (o->threshold <= 0) o->threshold = 1000;
    if (o->edge_items <= 0) o->edge_items = 3;
    if (o->line_width <= 0) o->line_width = 80;
    return TN_OK;
}

static int32_t print(printer *p)
{
    const tn_tensor *t = p->tensor;
    add(p, PREFIX);
    if (!t->storage->device) {
        add(p, "...");
    } else if (!t->numel) {
        add(p, "[]");
    } else {
        p->summarize = t->numel > p->options.threshold;
        int32_t status = read_values(p);
        if (status) return status;
        fit_formats(p);
        add_values(p, 0, sizeof PREFIX - 1, p->values);
    }
    add_suffixes(p);
    add(p, ")");
    return p->status;
}

const char *tn_format(tn_scope *s, const tn_tensor *t, const tn_print_options *options)
{
    char *text = NULL;
    if (tn_scope_failed(s)) return "";
    int32_t status = t ? tni_tensor_check(t) : tni_error(TN_E_ARGUMENT, "tn_format: a tensor is missing");
    printer p = {.tensor = t};
    if (!status) {
        p.ctx = t->ctx;
        status = read_options(&p, options);
        if (!status) status = print(&p);
    }
    if (status)
        tni_scope_record(s, status);
    else if ((text = tn_scope_memory(s, p.length + 1)))
        memcpy(text, p.text, p.length + 1);
    if (p.values) tni_free(p.ctx, p.values, p.value_bytes);
    if (p.text) tni_free(p.ctx, p.text, p.capacity);
    return text ? text : "";
}
