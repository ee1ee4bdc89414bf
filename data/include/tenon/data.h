/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data: readers of files, data sets, and loaders that make batches of them on threads of their own.
 *
 *     tn_tensor *images = tn_idx_read(s, "train-images.gz"), *labels = tn_idx_read(s, "train-labels.gz");
 *     tn_dataset *set = tn_tensor_dataset_create(s, TN_TENSORS(images, labels));
 *     tn_loader *l = tn_loader_create(set, .batch = 128, .shuffle = 1, .workers = 2, .device = device);
 *     for (int64_t i = 0; i < epochs * tn_loader_batches(l); i++) TN_STEP(s, ctx) {
 *         tn_tensors batch = tn_loader_next(s, l);
 *         tn_tensor *x = tn_list_at(batch, 0), *y = tn_list_at(batch, 1);
 *         ...
 *     }
 *     tn_loader_destroy(l);
 *     tn_dataset_destroy(set);
 *
 * Threads: a reader may run on any thread. A data set is read by all workers of its loaders at once. A loader
 * is used by one thread at a time.
 */
#ifndef TENON_DATA_H
#define TENON_DATA_H

#include <tenon/nn.h>

#ifndef TN_PLUGIN
TN_BEGIN_DECLS

/* ---- Readers --------------------------------------------------------------------------------------------
 * Tensors on the CPU, in the scope. NULL on failure, with the path in the error. Its status is TN_E_NOT_FOUND where there is no
 * file, TN_E_IO for one that cannot be read, TN_E_CORRUPT for one that is damaged, TN_E_UNSUPPORTED for one that holds what the
 * error names. */

/* IDX, the format of the MNIST files, also compressed by gzip: uint8, int8, int16, int32, float32,
 * float64. */
TN_API TN_SCOPED tn_tensor *tn_idx_read(tn_scope *s, const char *path);
/* NumPy's .npy: bool, integers, float16 to float64, complex, in either byte order and either order of
 * elements. */
TN_API TN_SCOPED tn_tensor *tn_npy_read(tn_scope *s, const char *path);
/* All arrays of an .npz, under their names without ".npy". The list belongs to the scope. */
TN_API tn_named_tensors tn_npz_read(tn_scope *s, const char *path);
/* Writes what numpy.load reads, row-major. A new file replaces the old one at the end, as tn_safetensors_save does it. */
TN_API int32_t tn_npy_save(tn_scope *s, const char *path, tn_tensor *t);

/*
 * Lines of numbers: [lines, columns]. Empty lines are left out, spaces around a number too, and an empty
 * field is NaN (an error for integers, as is an integer that the dtype does not have). Numbers may stand in double
 * quotes. An error names the line, from 1 on, and the column, from 0 on.
 */
typedef struct tn_csv_options {
    uint32_t options_size TN_OPTION(sizeof(struct tn_csv_options));
    tn_dtype dtype TN_OPTION(); /* of the result; 0: float64 */
    const char *path TN_OPTION();
    const struct tn_options_have_names *options_have_names
    TN_OPTION();                    /* unused: `.skip_lines = 1`; one without its name does not compile */
    int64_t skip_lines TN_OPTION(); /* at the start of the file: headings */
    tn_ints columns TN_OPTION();    /* the columns to take, from 0 on, in this order; empty: all */
    char delimiter TN_OPTION();     /* 0: a comma */
    char reserved[7] TN_OPTION();
} tn_csv_options;
TN_API TN_SCOPED tn_tensor *tn_csv_read_with(tn_scope *s, const tn_csv_options *options);
#ifndef __cplusplus /* in C++ they are functions, at the end of this file */
#define tn_csv_read(s, ...)                                                                    \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(tn_csv_read_with( \
        s, &(tn_csv_options){.options_size = sizeof(tn_csv_options), .path = __VA_ARGS__})))
#endif

/*
 * Elements as they are in memory, from byte `offset` of the file on, a multiple of an element's bytes; no
 * bool. The first size may be -1: as many rows as the rest of the file is, which must have no part of one. The
 * tensor stands over the pages of the file, which are read when they are touched. Writing to it does not
 * change the file, which must not be made shorter while the tensor lives (a read past its end raises SIGBUS).
 */
TN_API TN_SCOPED tn_tensor *tn_raw_map(tn_scope *s, const char *path, tn_dtype dtype, tn_ints sizes,
                                       int64_t offset);

/* Channels of images. Grey with alpha has 2, colour 3, colour with alpha 4. */
#define TN_IMAGE_AS_IT_IS 0u
#define TN_IMAGE_GREY     1u
#define TN_IMAGE_RGB      3u
#define TN_IMAGE_RGBA     4u
/* A PNG or JPEG: uint8 [channels, height, width]. Palettes become colours and 16 bits become 8. At most 2^28
 * pixels. */
TN_API TN_SCOPED tn_tensor *tn_image_read(tn_scope *s, const char *path, uint32_t channels);
/* The same from memory. */
TN_API TN_SCOPED tn_tensor *tn_image_decode(tn_scope *s, const void *bytes, uint64_t count,
                                            uint32_t channels);

/* ---- Data sets ---------------------------------------------------------------------------------------- */

typedef struct tn_dataset tn_dataset;

#define TN_SAMPLE_MAX 8 /* tensors of one sample */

/* One thread at a time calls get and get_batch: for readers that are not safe for threads. */
#define TN_DATASET_ONE_THREAD 1u

/*
 * A kind of data set, of the program's own. The struct must live as long as the data sets made from it.
 *
 *   count      samples there are; asked once, when the data set is made
 *   get        writes the tensors of a sample to out[0], out[1], ... (TN_SAMPLE_MAX places, NULL at the
 *              start). Random changes take their numbers from `seed`, which depends on the loader's seed, the
 *              epoch and the place in it alone: tn_generator_create, or arithmetic. Returns the status of the
 *              scope, which it fails on errors.
 *   get_batch  the same for many samples at once, stacked along a new first dimension; NULL: get and a copy
 *              of each
 *   finish     before the data set is freed; NULL: nothing
 *
 * Calls come from the threads of loaders, with gradients off.
 */
typedef struct tn_dataset_class {
    uint32_t size;
    uint32_t flags; /* TN_DATASET_... */
    const char *name;
    int64_t (*count)(void *user);
    int32_t (*get)(void *user, tn_scope *s, int64_t index, uint64_t seed, tn_tensor **out);
    int32_t (*get_batch)(void *user, tn_scope *s, tn_ints indices, const uint64_t *seeds, tn_tensor **out);
    void (*finish)(void *user);
} tn_dataset_class;

/* NULL and tn_last_error() for a bad class, and when out of memory; then `finish` is not called. */
TN_API tn_dataset *tn_dataset_create(tn_context *ctx, const tn_dataset_class *class_, TN_NULLABLE void *user);
/* After the loaders and data sets that use it. */
TN_API void tn_dataset_destroy(TN_TAKES TN_NULLABLE tn_dataset *d);
#ifdef TN_AUTO_TYPE
TN_AUTO_TYPE(tn_dataset, tn_dataset_destroy)
#endif
TN_API int64_t tn_dataset_count(const tn_dataset *d) TN_ANY_THREAD;
/* One sample: the tensors in out[0..TN_SAMPLE_MAX - 1], NULL from their number on. Returns the status of the
 * scope. */
TN_API int32_t tn_dataset_get(tn_scope *s, tn_dataset *d, int64_t index, uint64_t seed, tn_tensor **out);

/* Rows of tensors: sample i is row i of each. The tensors are copied to the CPU if they are elsewhere. */
TN_API tn_dataset *tn_tensor_dataset_create(tn_scope *s, tn_tensors tensors);
/* The samples `indices` of another data set, which must live longer. */
TN_API tn_dataset *tn_subset_dataset_create(tn_dataset *of, tn_ints indices);
/* The samples of several data sets, one after the other; they must live longer. */
TN_API tn_dataset *tn_concat_dataset_create(tn_dataset *const *of, int64_t count);
/* Another data set (which must live longer) with a function on each sample: `change` exchanges tensors in
 * `sample`, which has TN_SAMPLE_MAX places. */
typedef int32_t (*tn_sample_function)(void *user, tn_scope *s, uint64_t seed, tn_tensor **sample);
TN_API tn_dataset *tn_map_dataset_create(tn_dataset *of, tn_sample_function change, TN_NULLABLE void *user);
/*
 * The images of a folder of folders: out[0] is the image (tn_image_read), out[1] its class, int64. Classes
 * are the names of the folders in the order of their bytes. Files that do not end in .png, .jpg or .jpeg are
 * left out.
 */
TN_API tn_dataset *tn_folder_dataset_create(tn_context *ctx, const char *path, uint32_t channels);
/* Name of a class, or NULL; and the path of image i, or NULL. Of other data sets NULL. */
TN_API const char *tn_folder_class(const tn_dataset *d, int64_t i);
TN_API const char *tn_folder_path(const tn_dataset *d, int64_t i);
/*
 * A file of token numbers (uint8, uint16, int32, uint32 or int64) that is mapped, not read. Sample i is the
 * tokens [i * step, i * step + length) and, in out[1], the same one further, both int64 [length]. `step` 0:
 * length.
 */
TN_API tn_dataset *tn_token_dataset_create(tn_context *ctx, const char *path, tn_dtype dtype, int64_t length,
                                           int64_t step);

/* ---- Worker processes --------------------------------------------------------------------------------- */

/*
 * Processes that read samples, for readers that are not safe for threads and should still run at the same time.
 *
 * They are made at the beginning of main, while the program has one thread: a copy of a process with several threads has
 * locks that nobody opens any more, and devices without their drivers' threads. TN_E_STATE if there are more. A call inside TN_MAIN
 * is early enough. Each process makes a context of its own and calls `open`, with a copy of what `user` is now, for its data set.
 *
 *     tn_workers *w;
 *     TN_TRY(tn_workers_create(4, open_images, "images", &w));
 *     tn_dataset *set = tn_workers_dataset_create(ctx, w);
 *     tn_loader *l = tn_loader_create(set, .batch = 32, .shuffle = 1, .workers = 4);
 *
 * A loader with as many workers as there are processes keeps all of them at work; order, seeds, errors and its state are as
 * with any data set. The tensors of a batch come in memory that the processes share, without a copy in the program.
 * A process that dies is an error of the batch that it read; the others go on.
 */
typedef struct tn_workers tn_workers;
/* In the process. The data set lives as long as it; NULL is the error of every batch. */
typedef tn_dataset *(*tn_workers_open)(void *user, tn_context *ctx);
TN_API int32_t tn_workers_create(int32_t count, tn_workers_open open, TN_NULLABLE void *user,
                                 TN_OUT TN_GIVES tn_workers **out);
/* A data set whose samples are read by the processes, which must live longer. NULL and tn_last_error() on failure. */
TN_API tn_dataset *tn_workers_dataset_create(tn_context *ctx, tn_workers *w);
/* The number of process i for the system; 0 if there is none. */
TN_API int64_t tn_workers_process(const tn_workers *w, int32_t i);
/* Ends the processes, and waits for what they are reading. */
TN_API void tn_workers_destroy(TN_TAKES TN_NULLABLE tn_workers *w);
#ifdef TN_AUTO_TYPE
TN_AUTO_TYPE(tn_workers, tn_workers_destroy)
#endif

/* ---- Loaders ------------------------------------------------------------------------------------------ */

typedef struct tn_loader tn_loader;

/* An order of samples of the program's own. */
typedef struct tn_sampler { /* frozen: it stands within tn_loader_options */
    uint32_t size;
    uint32_t reserved;
    void *user;
    /* The samples of an epoch, int64 [count]; `g` is seeded by the loader's seed and the epoch. */
    TN_SCOPED tn_tensor *(*order)(void *user, tn_scope *s, tn_generator *g, int64_t epoch, int64_t count);
} tn_sampler;

/*
 * The order of epoch e is a function of `seed` and e alone, so that it is the same with any number of
 * workers:
 *
 *   sampler   what it gives
 *   weights   (float [count of the data set]) `samples` draws, each with these chances; with replacement
 *   shuffle   a permutation
 *   none      0, 1, 2, ...
 *
 * Of `ranks` loaders, number `rank` then takes each ranks-th sample of this order. Where they do not come
 * out even, the first samples come once more at the end (with drop_last the last ones are left out).
 */
typedef struct tn_loader_options {
    uint32_t options_size TN_OPTION(sizeof(struct tn_loader_options));
    int32_t shuffle TN_OPTION();
    tn_dataset *dataset TN_OPTION();
    const struct tn_options_have_names *options_have_names
    TN_OPTION();                   /* unused: `.batch = 8`; one without its name does not compile */
    int64_t batch TN_OPTION(1);    /* samples of a batch */
    int64_t samples TN_OPTION();   /* of an epoch, for weights and samplers; 0: as many as the data set has */
    int32_t drop_last TN_OPTION(); /* leaves out a last batch that is smaller */
    int32_t workers TN_OPTION();   /* threads; 0: tn_loader_next reads itself */
    int32_t prefetch TN_OPTION(2); /* batches that each worker makes ahead */
    tn_device device
    TN_OPTION(); /* of the batches; 0: CPU. Where the device pins memory, copies do not block */
    uint64_t seed TN_OPTION();
    int32_t rank TN_OPTION(), ranks TN_OPTION(1);
    tn_tensor *weights TN_OPTION(); /* copied */
    tn_sampler sampler TN_OPTION(); /* .order NULL: none */
    /* Makes a batch of samples: tensor k of sample i is samples[i * TN_SAMPLE_MAX + k], of the batch out[k].
     * NULL: stacks them along a new first dimension. */
    int32_t (*collate)(void *user, tn_scope *s, tn_tensor *const *samples, int64_t count, tn_tensor **out)
        TN_OPTION();
    void *collate_user TN_OPTION();
} tn_loader_options;
/* NULL and tn_last_error() on bad options. The data set must live longer. */
TN_API tn_loader *tn_loader_create_with(const tn_loader_options *options);
#ifndef __cplusplus
#define tn_loader_create(...)                                                                 \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(                 \
        tn_loader_create_with(&(tn_loader_options){.options_size = sizeof(tn_loader_options), \
                                                   .batch = 1,                                \
                                                   .prefetch = 2,                             \
                                                   .ranks = 1,                                \
                                                   .dataset = __VA_ARGS__})))
#endif
/* Ends the threads. */
TN_API void tn_loader_destroy(TN_TAKES TN_NULLABLE tn_loader *l);
#ifdef TN_AUTO_TYPE
TN_AUTO_TYPE(tn_loader, tn_loader_destroy)
#endif

/* Batches of an epoch. */
TN_API int64_t tn_loader_batches(const tn_loader *l);
/*
 * The next batch: the tensors of the scope that the samples became. Epochs follow each other without an end.
 * On failure the list is empty, and the error names the sample and its batch; the next call goes on with the
 * next batch.
 */
TN_API tn_tensors tn_loader_next(tn_scope *s, tn_loader *l);

/* An epoch: a step (TN_STEPS, program.h) with number i for each batch. Not for a loader that stands inside an epoch.
 *
 *     TN_BATCHES(s, ctx, i, loader, batch) { tn_tensor *x = tn_list_at(batch, 0), *y = tn_list_at(batch, 1); ... } */
#define TN_BATCHES(s, ctx, i, loader, batch)                       \
    TN_STEPS (s, ctx, i, (loader) ? tn_loader_batches(loader) : 1) \
        for (tn_tensors batch = tn_loader_next(s, loader); batch.count; batch.count = 0)

/* Where a loader stands. A loader of the same options goes on from there with the same batches. */
typedef struct tn_loader_state {
    uint32_t size;
    uint32_t reserved;
    uint64_t seed;
    int64_t epoch, batch; /* of the next batch */
} tn_loader_state;
/* The caller sets out->size. */
TN_API void tn_loader_get_state(const tn_loader *l, TN_OUT tn_loader_state *out);
/* TN_E_ARGUMENT if there is no such epoch or batch. */
TN_API int32_t tn_loader_set_state(tn_loader *l, const tn_loader_state *state);

/* The error of a failed call says where the program made it. */
#ifndef TN_NO_PLACES
static inline tn_tensor *tn_data_read_at(const char *file, int32_t line,
                                         tn_tensor *(*read)(tn_scope *, const char *), tn_scope *s,
                                         const char *path)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *t = read(s, path);
    if (!t || before) tn_place_after(s, before, file, line);
    return t;
}
static inline tn_named_tensors tn_npz_read_at(const char *file, int32_t line, tn_scope *s, const char *path)
{
    int32_t before = tn_scope_place_begin(s);
    tn_named_tensors list = tn_npz_read(s, path);
    if (!list.data || before) tn_place_after(s, before, file, line);
    return list;
}
static inline int32_t tn_npy_save_at(const char *file, int32_t line, tn_scope *s, const char *path,
                                     tn_tensor *t)
{
    int32_t before = tn_scope_place_begin(s), status = tn_npy_save(s, path, t);
    if (status || before) tn_place_after(s, before, file, line);
    return status;
}
static inline tn_tensor *tn_csv_read_at(const char *file, int32_t line, tn_scope *s, const tn_csv_options *o)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *t = tn_csv_read_with(s, o);
    if (!t || before) tn_place_after(s, before, file, line);
    return t;
}
static inline tn_tensor *tn_raw_map_at(const char *file, int32_t line, tn_scope *s, const char *path,
                                       tn_dtype dtype, tn_ints sizes, int64_t offset)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *t = tn_raw_map(s, path, dtype, sizes, offset);
    if (!t || before) tn_place_after(s, before, file, line);
    return t;
}
static inline tn_tensor *tn_image_read_at(const char *file, int32_t line, tn_scope *s, const char *path,
                                          uint32_t channels)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *t = tn_image_read(s, path, channels);
    if (!t || before) tn_place_after(s, before, file, line);
    return t;
}
static inline tn_tensors tn_loader_next_at(const char *file, int32_t line, tn_scope *s, tn_loader *l)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensors batch = tn_loader_next(s, l);
    if (!batch.count || before)
        tn_place_inner(s, before, file, line); /* a function of the program's may have failed */
    return batch;
}
#define tn_idx_read(...)      tn_data_read_at(__FILE__, __LINE__, tn_idx_read, __VA_ARGS__)
#define tn_npy_read(...)      tn_data_read_at(__FILE__, __LINE__, tn_npy_read, __VA_ARGS__)
#define tn_npz_read(...)      tn_npz_read_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_npy_save(...)      tn_npy_save_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_csv_read_with(...) tn_csv_read_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_raw_map(...)       tn_raw_map_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_image_read(...)    tn_image_read_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_loader_next(...)   tn_loader_next_at(__FILE__, __LINE__, __VA_ARGS__)
#endif
#if !defined(TN_NO_PLACES) && !defined(__cplusplus)
/* Functions whose arguments must live longer than the call are not macros over a block. */
static inline tn_dataset *tn_dataset_create_at(const char *file, int32_t line, tn_context *ctx,
                                               const tn_dataset_class *class_, void *user)
{
    uint64_t before = tn_error_count();
    tn_dataset *result = tn_dataset_create(ctx, class_, user);
    tn_error_place(before, file, (uint32_t)line);
    return result;
}
static inline tn_dataset *tn_map_dataset_create_at(const char *file, int32_t line, tn_dataset *of,
                                                   tn_sample_function change, void *user)
{
    uint64_t before = tn_error_count();
    tn_dataset *result = tn_map_dataset_create(of, change, user);
    tn_error_place(before, file, (uint32_t)line);
    return result;
}
static inline int32_t tn_workers_create_at(const char *file, int32_t line, int32_t count,
                                           tn_workers_open open, void *user, tn_workers **out)
{
    uint64_t before = tn_error_count();
    int32_t result = tn_workers_create(count, open, user, out);
    tn_error_place(before, file, (uint32_t)line);
    return result;
}
#define tn_dataset_create(...)         tn_dataset_create_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_map_dataset_create(...)     tn_map_dataset_create_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_workers_create(...)         tn_workers_create_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_image_decode(...)           TN_PLACED_IN(tn_image_decode, __VA_ARGS__)
#define tn_dataset_get(...)            TN_PLACED_IN(tn_dataset_get, __VA_ARGS__)
#define tn_tensor_dataset_create(...)  TN_PLACED_IN(tn_tensor_dataset_create, __VA_ARGS__)
#define tn_subset_dataset_create(...)  TN_PLACED(tn_subset_dataset_create(__VA_ARGS__))
#define tn_concat_dataset_create(...)  TN_PLACED(tn_concat_dataset_create(__VA_ARGS__))
#define tn_folder_dataset_create(...)  TN_PLACED(tn_folder_dataset_create(__VA_ARGS__))
#define tn_token_dataset_create(...)   TN_PLACED(tn_token_dataset_create(__VA_ARGS__))
#define tn_workers_dataset_create(...) TN_PLACED(tn_workers_dataset_create(__VA_ARGS__))
#define tn_loader_create_with(...)     TN_PLACED(tn_loader_create_with(__VA_ARGS__))
#define tn_loader_set_state(...)       TN_PLACED(tn_loader_set_state(__VA_ARGS__))
#endif

#ifdef __cplusplus
/* tn_loader_create(set, {.batch = 32}) from C++20 on; before it `tn_loader_options o; o.batch = 32;`. */
static inline tn_loader *tn_loader_create(tn_dataset *dataset, tn_loader_options o = {})
{
    o.dataset = dataset;
    return tn_loader_create_with(&o);
}
static inline tn_tensor *tn_csv_read(tn_scope *s, const char *path, tn_csv_options o = {},
                                     tn_place at = tn_place::here())
{
    o.path = path;
    tn_placed placed(s, at);
    return (tn_csv_read_with)(s, &o);
}
#endif

TN_END_DECLS
#endif
#endif
