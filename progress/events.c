/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event files of TensorBoard. A record is its length, a checksum of the length, a message of type Event and a checksum of the
 * message (tensorflow/core/lib/io/record_writer.h describes it); the messages are protocol buffers
 * (tensorflow/core/util/event.proto, framework/summary.proto), written by hand: six of their fields are in use.
 */
#include "handle.h"
#include <tenon/progress.h>

#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bytes.h"

#define KEPT (1 << 16) /* bytes of records that wait for a write */
#define BINS 64        /* of a histogram */

struct tn_events {
    FILE *file;
    char *path;
    byte_buffer waiting; /* records */
    int32_t status;
    handle_mark mark;
};

/* ---- Protocol buffers: a field is its number and kind, then its value ---------------------------------- */

enum { VARINT = 0, EIGHT_BYTES = 1, LENGTH = 2, FOUR_BYTES = 5 };

static void put_varint(byte_buffer *m, uint64_t n)
{
    for (; n >= 0x80; n >>= 7) put_raw(m, &(uint8_t){(uint8_t)(n | 0x80)}, 1);
    put_raw(m, &(uint8_t){(uint8_t)n}, 1);
}

static void put_key(byte_buffer *m, uint32_t field, uint32_t kind)
{
    put_varint(m, field << 3 | kind);
}

static void put_int(byte_buffer *m, uint32_t field, int64_t n)
{
    put_key(m, field, VARINT);
    put_varint(m, (uint64_t)n);
}

static void put_double(byte_buffer *m, uint32_t field, double x)
{
    put_key(m, field, EIGHT_BYTES);
    put_raw(m, &x, sizeof x); /* little-endian, as every machine that Tenon runs on */
}

static void put_bytes(byte_buffer *m, uint32_t field, const void *bytes, size_t count)
{
    put_key(m, field, LENGTH);
    put_varint(m, count);
    put_raw(m, bytes, count);
}

/* Puts a message into another one, as a field, and frees it. */
static void put_message(byte_buffer *m, uint32_t field, byte_buffer *inner)
{
    put_bytes(m, field, inner->bytes, inner->count);
    m->failed |= inner->failed;
    free(inner->bytes);
}

/* ---- Records ------------------------------------------------------------------------------------------ */

/* CRC-32C (polynomial 0x1edc6f41, reflected), turned and shifted so that a checksum of a checksum differs from it. */
static uint32_t checksum(const uint8_t *bytes, size_t count)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0x82f63b78u & (0u - (crc & 1)));
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static int32_t refuse(int32_t status, const char *what, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "events: %.300s: %s", what, why);
    return tn_scope_fail(NULL, status, text);
}

static int32_t flush(tn_events *e)
{
    if (e->status) return refuse(e->status, e->path, "an earlier write failed");
    if (e->waiting.failed) return e->status = refuse(TN_E_OUT_OF_MEMORY, e->path, "out of host memory");
    size_t written = fwrite(e->waiting.bytes, 1, e->waiting.count, e->file);
    if (written != e->waiting.count || fflush(e->file)) e->status = refuse(TN_E_IO, e->path, strerror(errno));
    e->waiting.count = 0;
    return e->status;
}

int32_t tn_events_flush(tn_events *e)
{
    if (!e) return refuse(TN_E_ARGUMENT, "argument 'e'", "it is NULL");
    return handle_refuse(NULL, &e->mark, "events") ? TN_E_DEAD_HANDLE : flush(e);
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Adds a record of the message and frees it. */
static int32_t add_record(tn_events *e, byte_buffer *event)
{
    uint64_t length = event->count;
    uint32_t of_length = checksum((const uint8_t *)&length, sizeof length),
             of_event = checksum(event->bytes, event->count);
    e->waiting.failed |= event->failed;
    put_raw(&e->waiting, &length, sizeof length);
    put_raw(&e->waiting, &of_length, sizeof of_length);
    put_raw(&e->waiting, event->bytes, event->count);
    put_raw(&e->waiting, &of_event, sizeof of_event);
    free(event->bytes);
    return e->waiting.count >= KEPT || e->waiting.failed || e->status ? flush(e) : TN_OK;
}

/* Event {wall_time = 1, step = 2, summary = 5 {value = 1}}; frees the value. */
static int32_t add_value(tn_events *e, int64_t step, byte_buffer *value)
{
    byte_buffer summary = {0}, event = {0};
    put_double(&event, 1, seconds_now());
    put_int(&event, 2, step);
    put_message(&summary, 1, value);
    put_message(&event, 5, &summary);
    return add_record(e, &event);
}

/* ---- The file ----------------------------------------------------------------------------------------- */

/* FOLDER/events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER, by which TensorBoard finds it; `wx`: never a file that is there. */
static FILE *open_new(tn_events *e, const char *folder)
{
    char host[65] = "host";
    gethostname(host, sizeof host - 1);
    size_t length = strlen(folder) + strlen(host) + 80;
    e->path = malloc(length);
    for (int number = 0; e->path && number < 1000; number++) {
        snprintf(e->path, length, "%s/events.out.tfevents.%010lld.%s.%ld.%d", folder,
                 (long long)seconds_now(), host, (long)getpid(), number);
        FILE *file = fopen(e->path, "wxe");
        if (file || errno != EEXIST) return file;
    }
    return NULL;
}

int32_t tn_events_create(const char *folder, tn_events **out)
{
    if (!folder || !out)
        return refuse(TN_E_ARGUMENT, "events_create: argument 'folder' or 'out'", "it is NULL");
    *out = NULL;
    if (mkdir(folder, 0777) && errno != EEXIST) return refuse(TN_E_IO, folder, strerror(errno));
    tn_events *e = calloc(1, sizeof *e);
    if (!e) return refuse(TN_E_OUT_OF_MEMORY, folder, "out of host memory");
    e->file = open_new(e, folder);
    if (!e->file) {
        int32_t status = e->path ? refuse(TN_E_IO, e->path, strerror(errno))
                                 : refuse(TN_E_OUT_OF_MEMORY, folder, "out of host memory");
        free(e->path);
        free(e);
        return status;
    }
    byte_buffer event = {0};
    put_double(&event, 1, seconds_now());
    put_bytes(&event, 3, "brain.Event:2", 13); /* the version of the format */
    add_record(e, &event);
    int32_t status = flush(e);
    if (status)
        tn_events_destroy(e);
    else
        *out = e;
    return status;
}

int32_t tn_events_destroy(tn_events *e)
{
    if (!e) return TN_OK;
    if (!handle_end(&e->mark, "events", __builtin_return_address(0))) return TN_E_DEAD_HANDLE;
    int32_t status = flush(e);
    if (fclose(e->file) && !status) status = refuse(TN_E_IO, e->path, strerror(errno));
    free(e->waiting.bytes);
    free(e->path);
    handle_free(e);
    return status;
}

/* ---- Values ------------------------------------------------------------------------------------------- */

static const char *find_fault(const tn_events *e, const char *tag)
{
    return !e ? "argument 'e' is NULL" : !tag || !*tag ? "argument 'tag' is NULL or empty" : NULL;
}

/* A scope for the work of a call on tensors, without recording; NULL after failing `s` for bad arguments. */
static tn_scope *open_for(tn_scope *s, const tn_events *e, const char *tag, const char *call)
{
    const tn_scope_options options = {.size = sizeof options, .grad_mode = TN_GRAD_OFF};
    const char *fault = find_fault(e, tag);
    char text[128];
    if (!fault) return handle_refuse(s, &e->mark, "events") ? NULL : tn_scope_open_child(s, &options);
    snprintf(text, sizeof text, "%s: %s", call, fault);
    tn_scope_fail(s, TN_E_ARGUMENT, text);
    return NULL;
}

int32_t tn_events_scalar(tn_events *e, const char *tag, int64_t step, double value)
{
    const char *fault = find_fault(e, tag);
    if (fault) return refuse(TN_E_ARGUMENT, "events_scalar", fault);
    if (handle_refuse(NULL, &e->mark, "events")) return TN_E_DEAD_HANDLE;
    byte_buffer m = {0};
    float simple = (float)value;
    put_bytes(&m, 1, tag, strlen(tag));
    put_key(&m, 2, FOUR_BYTES);
    put_raw(&m, &simple, sizeof simple);
    return add_value(e, step, &m);
}

/* HistogramProto: min, max, num, sum and sum of squares, the upper ends of the bins, the counts. */
static void put_histogram(byte_buffer *m, const double figures[5], const double *counts)
{
    byte_buffer histogram = {0};
    double limits[BINS];
    for (int i = 0; i < BINS; i++)
        limits[i] = i + 1 < BINS ? figures[0] + (figures[1] - figures[0]) * (i + 1) / BINS : figures[1];
    for (uint32_t i = 0; i < 5; i++) put_double(&histogram, i + 1, figures[i]);
    put_bytes(&histogram, 6, limits, sizeof limits);
    put_bytes(&histogram, 7, counts, BINS * sizeof *counts);
    put_message(m, 5, &histogram);
}

int32_t tn_events_histogram(tn_scope *s, tn_events *e, const char *tag, int64_t step, tn_tensor *t)
{
    tn_scope *own = open_for(s, e, tag, "events_histogram");
    if (!own) return tn_scope_failed(s);
    double counts[BINS] = {0}, figures[5] = {0};
    tn_tensor *x = tn_to(own, tn_detach(own, t), TN_FLOAT32);
    x = tn_masked_select(own, x, tn_isfinite(own, x));
    if (!tn_scope_failed(own) && tn_tensor_numel(x) > 0) {
        figures[0] = tn_item_double(own, tn_amin(own, x));
        figures[1] = tn_item_double(own, tn_amax(own, x));
        figures[2] = (double)tn_tensor_numel(x);
        figures[3] = tn_item_double(own, tn_sum(own, x));
        figures[4] = tn_item_double(own, tn_sum(own, tn_mul(own, x, x)));
        tn_tensor *n =
            tn_histc(own, x, .bins = BINS, .min = TN_SCALAR(figures[0]), .max = TN_SCALAR(figures[1]));
        tn_to_host(own, tn_to(own, n, TN_FLOAT64), counts, sizeof counts);
    }
    int32_t status = tn_scope_close(own);
    if (status) return status;
    byte_buffer m = {0};
    put_bytes(&m, 1, tag, strlen(tag));
    put_histogram(&m, figures, counts);
    status = add_value(e, step, &m);
    return status ? tn_scope_fail(s, status, tn_last_error()->message) : TN_OK;
}

/* [channels, height, width] as uint8 [height, width, channels], row-major on the CPU; NULL when the scope failed. */
static tn_tensor *as_picture(tn_scope *s, tn_tensor *t)
{
    uint32_t rank = t ? tn_tensor_rank(t) : 0;
    const int64_t *sizes = t ? tn_tensor_sizes(t) : NULL;
    tn_dtype dtype = t ? tn_tensor_dtype(t) : 0;
    int32_t is_float =
        dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_FLOAT16 || dtype == TN_BFLOAT16;
    if (!t || !(rank == 2 || (rank == 3 && (sizes[0] == 1 || sizes[0] == 3))) ||
        !(is_float || dtype == TN_UINT8)) {
        tn_scope_fail(s, TN_E_ARGUMENT,
                      "events_image: argument 't': it must be [height, width], [1, height, width] or "
                      "[3, height, width] of uint8 or a floating dtype");
        return NULL;
    }
    tn_tensor *x = tn_detach(s, t);
    if (rank == 2) x = tn_unsqueeze(s, x, 0);
    if (is_float)
        x = tn_round(s, tn_mul_scalar(s,
                                      tn_clamp(s, tn_nan_to_num(s, tn_to(s, x, TN_FLOAT32)),
                                               .min = TN_SCALAR(0), .max = TN_SCALAR(1)),
                                      255));
    x = tn_permute(s, tn_to(s, x, TN_UINT8), TN_INTS(1, 2, 0));
    return tn_contiguous(s, tn_to_device(s, x, TN_CPU, TN_UINT8));
}

/* The picture as PNG; the caller frees `out`. 0 when there is no memory or no pixel. */
static size_t encode_png(const tn_tensor *picture, uint8_t **out)
{
    const int64_t *sizes = tn_tensor_sizes(picture);
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)sizes[1],
                       .height = (png_uint_32)sizes[0],
                       .format = sizes[2] == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY};
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    *out = malloc(bytes);
    if (*out && png_image_write_to_memory(&image, *out, &bytes, 0, tn_tensor_data(picture), 0, NULL))
        return bytes;
    free(*out);
    *out = NULL;
    return 0;
}

int32_t tn_events_image(tn_scope *s, tn_events *e, const char *tag, int64_t step, tn_tensor *t)
{
    tn_scope *own = open_for(s, e, tag, "events_image");
    if (!own) return tn_scope_failed(s);
    tn_tensor *picture = as_picture(own, t);
    uint8_t *png = NULL;
    size_t bytes = 0;
    byte_buffer m = {0}, image = {0};
    if (!tn_scope_failed(own)) {
        bytes = encode_png(picture, &png);
        if (!bytes)
            tn_scope_fail(own, TN_E_ARGUMENT, "events_image: argument 't': no PNG file can be made of it");
    }
    if (bytes) {
        const int64_t *sizes = tn_tensor_sizes(picture);
        put_bytes(&m, 1, tag, strlen(tag));
        put_int(&image, 1, sizes[0]);
        put_int(&image, 2, sizes[1]);
        put_int(&image, 3, sizes[2]); /* the colours: 1 grey, 3 red, green and blue */
        put_bytes(&image, 4, png, bytes);
        put_message(&m, 4, &image);
        int32_t status = add_value(e, step, &m);
        if (status) tn_scope_fail(own, status, tn_last_error()->message);
    }
    free(png);
    return tn_scope_close(own);
}
