/* SPDX-License-Identifier: Apache-2.0 */
/* A batch of a loader with 0 to 4 workers, threads or processes: 32 images of 128 x 128 from PNG, or 128 rows of a tensor. */
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/data.h>
#include "bench.h"

#define IMAGES 64
#define SIDE   128
#define WAYS   7 /* of loading each kind of data */

typedef struct loading {
    tn_dataset *set;
    tn_loader *loader;
} loading;

typedef struct loading_case {
    int32_t decodes, workers;
    tn_workers **processes; /* NULL: threads read */
} loading_case;

static void *png; /* the bytes of one image */
static size_t png_bytes;

static int64_t image_count(void *user)
{
    (void)user;
    return IMAGES;
}

static int32_t image_get(void *user, tn_scope *s, int64_t index, uint64_t seed, tn_tensor **out)
{
    (void)user;
    (void)index;
    (void)seed;
    out[0] = tn_image_decode(s, png, png_bytes, TN_IMAGE_RGB);
    return tn_scope_failed(s);
}

/* A picture that compresses like a photograph: a ramp with noise in the low bits. */
static int make_png(void)
{
    png_image image = {.version = PNG_IMAGE_VERSION, .width = SIDE, .height = SIDE, .format = PNG_FORMAT_RGB};
    static uint8_t pixels[SIDE * SIDE * 3];
    uint32_t state = 1;
    for (int i = 0; i < SIDE * SIDE * 3; i++) {
        state = state * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)(i / (3 * SIDE) + (state >> 28));
    }
    if (!png_image_write_get_memory_size(image, png_bytes, 0, pixels, 0, NULL)) return 1;
    png = malloc(png_bytes);
    return !png || !png_image_write_to_memory(&image, png, &png_bytes, 0, pixels, 0, NULL);
}

static tn_dataset *open_images(void *user, tn_context *ctx)
{
    static const tn_dataset_class images = {
        .size = sizeof images, .name = "images", .count = image_count, .get = image_get};
    return tn_dataset_create(ctx, &images, user);
}

static tn_dataset *open_rows(void *user, tn_context *ctx)
{
    (void)user;
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_zeros(s, TN_INTS(6000, 1, 28, 28), .dtype = TN_UINT8), *y = tn_zeros(s, TN_INTS(6000));
    tn_dataset *set = tn_tensor_dataset_create(s, TN_TENSORS(x, y));
    tn_scope_close(s);
    return set;
}

static int loader_open(bench *b)
{
    const loading_case *c = b->current->data;
    loading *l = bench_state(b, sizeof *l);
    if (!l) return 1;
    if (c->decodes && !png) return bench_absent(b, "the image cannot be written");
    if (c->processes && !*c->processes) return bench_absent(b, "the processes cannot be made");
    l->set = c->processes ? tn_workers_dataset_create(b->ctx, *c->processes)
             : c->decodes ? open_images(NULL, b->ctx)
                          : open_rows(NULL, b->ctx);
    if (l->set)
        l->loader =
            tn_loader_create(l->set, .batch = c->decodes ? 32 : 128, .shuffle = 1, .workers = c->workers);
    return l->loader ? 0 : bench_failed(b, NULL);
}

static void loader_close(bench *b)
{
    loading *l = b->state;
    tn_loader_destroy(l->loader);
    tn_dataset_destroy(l->set);
}

static int loader_run(bench *b, int64_t n)
{
    loading *l = b->state;
    int status = 0;
    for (int64_t i = 0; i < n && !status; i++) {
        tn_scope *s = tn_scope_open(b->ctx);
        tn_loader_next(s, l->loader);
        if (tn_scope_failed(s)) status = bench_failed(b, s);
        tn_scope_close(s);
    }
    return status;
}

int main(int argc, char **argv)
{
    /* Made before the first thread of the program: for rows, then for images, 1, 2 and 4 of them. */
    static tn_workers *processes[6];
    if (make_png()) png = NULL;
    for (int i = 0; i < 6; i++)
        if (tn_workers_create(1 << i % 3, i < 3 ? open_rows : open_images, NULL, &processes[i]))
            processes[i] = NULL;
    static const int32_t workers[WAYS] = {0, 1, 2, 4, 1, 2, 4}; /* the last three are processes */
    loading_case ways[2 * WAYS];
    char names[2 * WAYS][32];
    bench_case cases[2 * WAYS];
    for (int i = 0; i < 2 * WAYS; i++) {
        const int decodes = i / WAYS, way = i % WAYS, process = way - (WAYS - 3);
        ways[i] =
            (loading_case){decodes, workers[way], process < 0 ? NULL : &processes[3 * decodes + process]};
        snprintf(names[i], sizeof names[i], "%s_%d%s", decodes ? "images" : "rows", workers[way],
                 process < 0 ? "" : "_process");
        cases[i] = (bench_case){names[i], loader_open, loader_run, loader_close, &ways[i]};
    }
    int status = bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
    for (int i = 0; i < 6; i++) tn_workers_destroy(processes[i]);
    return status;
}
