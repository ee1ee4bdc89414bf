/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders: the same batches with any number of workers, errors by sample, and going on in the middle of an epoch. */
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <criterion/criterion.h>
#include "bytes.h"
#include "suite.h"

TestSuite(loader, .init = begin, .fini = end, .timeout = 60);
TestSuite(dataset, .init = begin, .fini = end);

/* Sample i is the number i. */
static tn_dataset *numbers(int64_t n)
{
    tn_dataset *d = tn_tensor_dataset_create(s, TN_TENSORS(tn_arange(s, TN_SCALAR(n), .dtype = TN_INT64)));
    expect_sound(s);
    cr_assert_not_null(d);
    return d;
}

/* The numbers of the next `batches` batches, one after another. Returns how many. */
static int64_t take_numbers(tn_loader *l, int64_t batches, int64_t *out)
{
    int64_t n = 0;
    for (int64_t i = 0; i < batches; i++) {
        tn_scope *step = tn_scope_open(ctx);
        tn_tensors batch = tn_loader_next(step, l);
        expect_sound(step);
        cr_assert_geq(batch.count, 1);
        const int64_t count = tn_tensor_size(batch.data[0], 0);
        cr_assert_eq(tn_to_host(step, batch.data[0], out + n, (uint64_t)count * 8), TN_OK);
        n += count;
        tn_scope_close(step);
    }
    return n;
}

static void expect_numbers(tn_loader *l, int64_t batches, tn_ints want)
{
    int64_t have[256];
    cr_assert_not_null(l, "%s", tn_last_error() ? tn_last_error()->message : "");
    cr_assert_eq(take_numbers(l, batches, have), want.count);
    for (int64_t i = 0; i < want.count; i++)
        cr_assert_eq(have[i], want.data[i], "%lld: %lld", (long long)i, (long long)have[i]);
}

Test(loader, destroyed_twice_is_an_error_with_debug_handles)
{
    setenv("TENON_DEBUG", "handles", 1);
    tn_dataset *d = numbers(5);
    tn_loader *l = tn_loader_create(d, .batch = 2, .workers = 2);
    tn_loader_destroy(l);
    tn_dataset_destroy(d);
    tn_clear_error();
    tn_loader_destroy(l);
    expect_last_error("loader was destroyed and is destroyed again at ");
    tn_dataset_destroy(d);
    expect_last_error("tensor_dataset was destroyed and is destroyed again at ");
    cr_assert_eq(tn_loader_next(s, l).count, 0);
    expect_error(s, "loader: it was destroyed and is used again");
    cr_assert_eq(tn_loader_set_state(l, &(tn_loader_state){.size = sizeof(tn_loader_state)}),
                 TN_E_DEAD_HANDLE);
    tn_tensor *out[TN_SAMPLE_MAX];
    cr_assert_eq(tn_dataset_get(s, d, 0, 0, out), TN_E_DEAD_HANDLE);
    expect_error(s, "dataset: it was destroyed and is used again");
    tn_dataset *late = numbers(5);
    tn_loader *reader = tn_loader_create(late, .batch = 2);
    tn_dataset_destroy(late);
    cr_assert_eq(tn_loader_next(s, reader).count, 0);
    expect_error(s, "dataset: it was destroyed and is used again");
    tn_loader_destroy(reader);
    unsetenv("TENON_DEBUG");
}

Test(loader, batches_in_order)
{
    tn_dataset *d = numbers(5);
    tn_loader *l = tn_loader_create(d, .batch = 2);
    cr_assert_eq(tn_loader_batches(l), 3);
    expect_numbers(l, 4, TN_INTS(0, 1, 2, 3, 4, 0, 1)); /* epochs follow each other */
    tn_loader_destroy(l);
    l = tn_loader_create(d, .batch = 2, .drop_last = 1, .workers = 2);
    cr_assert_eq(tn_loader_batches(l), 2);
    expect_numbers(l, 3, TN_INTS(0, 1, 2, 3, 0, 1));
    tn_loader_destroy(l);
    tn_dataset_destroy(d);
}

/* Three epochs of 50 samples in another order each, the same with 0 to 5 workers. */
Test(loader, one_order_with_any_number_of_workers)
{
    tn_dataset *d = numbers(50);
    int64_t want[150], have[150];
    for (int32_t workers = 0; workers <= 5; workers++) {
        tn_loader *l = tn_loader_create(d, .batch = 7, .shuffle = 1, .workers = workers, .seed = 3,
                                        .prefetch = 1 + workers % 3);
        cr_assert_eq(take_numbers(l, 24, workers ? have : want), 150);
        if (workers) cr_assert_arr_eq(have, want, sizeof want, "%d workers", workers);
        tn_loader_destroy(l);
    }
    for (int epoch = 0; epoch < 3; epoch++) {
        int seen[50] = {0};
        for (int i = 0; i < 50; i++) seen[want[50 * epoch + i]]++;
        for (int i = 0; i < 50; i++) cr_assert_eq(seen[i], 1, "sample %d in epoch %d", i, epoch);
    }
    cr_assert_neq(memcmp(want, want + 50, 400), 0);
    tn_loader *l = tn_loader_create(d, .batch = 7, .shuffle = 1, .seed = 4);
    take_numbers(l, 24, have);
    cr_assert_neq(memcmp(want, have, sizeof want), 0);
    tn_loader_destroy(l);
    tn_dataset_destroy(d);
}

/* A random change, and a pause so that workers overtake each other. */
static int32_t add_noise(void *user, tn_scope *scope, uint64_t seed, tn_tensor **sample)
{
    (void)user;
    nanosleep(&(struct timespec){.tv_nsec = (long)(seed % 4) * 300000}, NULL);
    sample[1] = tn_scalar_tensor_of(scope, tn_value_int((int64_t)(seed >> 1)), TN_INT64, TN_CPU);
    return tn_scope_failed(scope);
}

Test(loader, random_changes_are_the_same_with_any_number_of_workers)
{
    tn_dataset *d = numbers(24), *noisy = tn_map_dataset_create(d, add_noise, NULL);
    int64_t want[48], have[48];
    for (int32_t workers = 0; workers <= 4; workers++) {
        tn_loader *l = tn_loader_create(noisy, .batch = 5, .shuffle = 1, .workers = workers, .seed = 9);
        int64_t *out = workers ? have : want, n = 0;
        for (int i = 0; i < 10; i++) {
            tn_tensor *noise = tn_list_at(tn_loader_next(s, l), 1);
            expect_sound(s);
            memcpy(out + n, tn_tensor_data(noise), (size_t)tn_tensor_size(noise, 0) * 8);
            n += tn_tensor_size(noise, 0);
        }
        cr_assert_eq(n, 48);
        if (workers) cr_assert_arr_eq(have, want, sizeof want, "%d workers", workers);
        tn_loader_destroy(l);
    }
    for (int i = 0; i < 48; i++)
        for (int k = 0; k < i; k++)
            cr_assert_neq(want[i], want[k]); /* of each sample in each epoch another seed */
    tn_dataset_destroy(noisy);
    tn_dataset_destroy(d);
}

/* ---- Errors ------------------------------------------------------------------------------------------------ */

static int64_t ten(void *user)
{
    (void)user;
    return 10;
}

static int32_t fails_at_4(void *user, tn_scope *scope, int64_t index, uint64_t seed, tn_tensor **out)
{
    (void)user;
    (void)seed;
    if (index == 4) return tn_scope_fail(scope, TN_E_CORRUPT, "image 4 is damaged");
    if (index == 7) return TN_E_IO; /* and says nothing */
    if (index == 9) return TN_OK;   /* without a tensor */
    out[0] = tn_ones(scope, TN_INTS(index == 6 ? 3 : 2));
    return tn_scope_failed(scope);
}

Test(loader, an_error_of_a_worker_names_the_sample)
{
    static const tn_dataset_class class = {
        .size = sizeof class, .name = "bad", .count = ten, .get = fails_at_4};
    tn_dataset *d = tn_dataset_create(ctx, &class, NULL);
    for (int32_t workers = 0; workers <= 3; workers += 3) {
        tn_loader *l = tn_loader_create(d, .batch = 2, .workers = workers);
        cr_assert_eq(tn_loader_next(s, l).count, 1);
        cr_assert_eq(tn_loader_next(s, l).count, 1);
        cr_assert_eq(tn_loader_next(s, l).count, 0);
        cr_assert_eq(tn_scope_failed(s), TN_E_CORRUPT);
        expect_error(s, "image 4 is damaged (sample 4, batch 2 of epoch 0)");
        tn_loader_next(s, l); /* the next call goes on behind it */
        cr_assert_eq(tn_scope_failed(s), TN_E_IO);
        expect_error(s, "bad: it failed without an error in the scope (sample 7, batch 3 of epoch 0)");
        tn_loader_next(s, l);
        expect_error(s, "bad: a sample has no tensor (sample 9, batch 4 of epoch 0)");
        cr_assert_eq(tn_loader_next(s, l).count, 1);
        tn_loader_destroy(l);
    }
    tn_loader *l = tn_loader_create(d, .batch = 8, .workers = 1);
    tn_loader_next(s, l);
    expect_error(s, "image 4 is damaged (sample 4, batch 0 of epoch 0)");
    tn_loader_destroy(l);
    tn_dataset *part = tn_subset_dataset_create(d, TN_INTS(5, 6));
    l = tn_loader_create(part, .batch = 2);
    tn_loader_next(s, l);
    expect_error(s, "tensor 0 of sample 1 is float32 [3], of sample 0 in the same batch it is float32 [2]");
    tn_loader_destroy(l);
    tn_dataset_destroy(part);
    tn_dataset_destroy(d);
}

static int32_t breaks(void *user, tn_scope *scope, uint64_t seed, tn_tensor **sample)
{
    (void)seed;
    atomic_store((atomic_uint *)user, __LINE__ + 1);
    sample[0] = tn_mm(scope, sample[0], sample[0]);
    return tn_scope_failed(scope);
}

/* The line of the call in the program's function, once, with any number of workers. */
Test(loader, an_error_in_a_function_of_the_program_has_its_line)
{
    atomic_uint line = 0;
    tn_dataset *d = numbers(4), *broken = tn_map_dataset_create(d, breaks, &line);
    for (int32_t workers = 0; workers <= 2; workers += 2) {
        tn_loader *l = tn_loader_create(broken, .batch = 2, .workers = workers);
        tn_loader_next(s, l);
        cr_assert_eq(tn_scope_error(s)->line, atomic_load(&line), "%d workers: %s", workers,
                     tn_scope_error(s)->message);
        char start[512];
        snprintf(start, sizeof start, "%s:%u: mm: ", __FILE__, atomic_load(&line));
        cr_assert_eq(strncmp(tn_scope_error(s)->message, start, strlen(start)), 0, "%s",
                     tn_scope_error(s)->message);
        expect_error(s, "(sample 0, batch 0 of epoch 0)");
        tn_loader_destroy(l);
    }
    tn_dataset_destroy(broken);
    tn_dataset_destroy(d);
}

Test(loader, wrong_options)
{
    tn_dataset *d = numbers(4);
    cr_assert_null(tn_loader_create(NULL));
    expect_last_error("argument 'dataset'");
    cr_assert_null(tn_loader_create(d, .batch = 0));
    expect_last_error("argument 'batch': it must be from 1 to 2147483647, got 0");
    cr_assert_null(tn_loader_create(d, .workers = -1));
    expect_last_error("argument 'workers': it must be from 0 to 1024, got -1");
    cr_assert_null(tn_loader_create(d, .prefetch = 0));
    expect_last_error(
        "argument 'prefetch': it must be positive, and at most 65536 over all workers, got 0 for 0");
    cr_assert_null(tn_loader_create(d, .ranks = 0));
    expect_last_error("argument 'ranks': it must be positive, got 0");
    cr_assert_null(tn_loader_create_with(&(tn_loader_options){.dataset = d, .batch = 1}));
    expect_last_error("tn_loader_options: options_size is 0; set it to sizeof(tn_loader_options)");
    cr_assert_null(tn_subset_dataset_create(NULL, TN_INTS(1)));
    cr_assert_null(tn_loader_create(NULL));
    expect_last_error("argument 'dataset': it is NULL (the last error: ");
    cr_assert_null(tn_loader_create(d, .batch = 5, .drop_last = 1));
    expect_last_error("4 samples make no batch of 5");
    tn_dataset *none = numbers(0);
    cr_assert_null(tn_loader_create(none, .batch = 5));
    expect_last_error("argument 'dataset': it has no samples");
    tn_dataset_destroy(none);
    cr_assert_null(tn_loader_create(d, .rank = 2, .ranks = 2));
    expect_last_error("argument 'rank': it must be from 0 to ranks - 1, got 2 of 2");
    cr_assert_null(tn_loader_create(d, .samples = 2));
    expect_last_error("argument 'samples'");
    cr_assert_null(tn_loader_create(d, .weights = tn_ones(s, TN_INTS(3))));
    expect_last_error(
        "argument 'weights': it must have one number for each of the 4 samples, got 3 in 1 dimensions");
    cr_assert_null(tn_loader_create(d, .device = TN_DEVICE(TN_INTERNED_CPU, 7)));
    expect_last_error("argument 'device': device cpu:7: ");
    tn_loader_next(s, NULL);
    expect_error(s, "argument 'l'");
    tn_dataset_destroy(d);
}

/* ---- Going on ---------------------------------------------------------------------------------------------- */

Test(loader, goes_on_in_the_middle_of_an_epoch)
{
    tn_dataset *d = numbers(30);
    int64_t all[90], rest[90];
    tn_loader_state state = {.size = sizeof state};
    for (int32_t workers = 0; workers <= 3; workers++) {
        tn_loader *l = tn_loader_create(d, .batch = 4, .shuffle = 1, .workers = workers, .seed = 5);
        int64_t n = take_numbers(l, 11, all);
        tn_loader_get_state(l, &state); /* workers are ahead of it */
        cr_assert(state.seed == 5 && state.epoch == 1 && state.batch == 3, "%lld", (long long)state.batch);
        int64_t more = take_numbers(l, 9, all + n);
        cr_assert_eq(tn_loader_set_state(l, &state), TN_OK);
        cr_assert_eq(take_numbers(l, 9, rest), more);
        cr_assert_arr_eq(rest, all + n, (size_t)more * 8);
        tn_loader_destroy(l);
        l = tn_loader_create(d, .batch = 4, .shuffle = 1, .workers = 2); /* another one, of another seed */
        cr_assert_eq(tn_loader_set_state(l, &state), TN_OK);
        cr_assert_eq(take_numbers(l, 9, rest), more);
        cr_assert_arr_eq(rest, all + n, (size_t)more * 8);
        state.batch = 8;
        cr_assert_eq(tn_loader_set_state(l, &state), TN_E_ARGUMENT);
        expect_last_error("there is no batch 8 in epoch 1 (an epoch has 8)");
        tn_loader_destroy(l);
    }
    tn_dataset_destroy(d);
}

/* ---- Orders ------------------------------------------------------------------------------------------------ */

Test(loader, ranks_share_an_epoch)
{
    tn_dataset *d = numbers(7);
    int64_t have[2][8];
    int seen[7] = {0};
    for (int32_t rank = 0; rank < 2; rank++) {
        tn_loader *l = tn_loader_create(d, .batch = 2, .shuffle = 1, .rank = rank, .ranks = 2, .workers = 1);
        cr_assert_eq(take_numbers(l, tn_loader_batches(l), have[rank]), 4);
        for (int i = 0; i < 4; i++) seen[have[rank][i]]++;
        tn_loader_destroy(l);
    }
    for (int i = 0; i < 7; i++)
        cr_assert_eq(seen[i], i == have[0][0] ? 2 : 1); /* the first one fills the end */
    cr_assert_eq(have[1][3], have[0][0]);
    tn_loader *l = tn_loader_create(d, .batch = 3, .rank = 1, .ranks = 2, .drop_last = 1);
    expect_numbers(l, 1, TN_INTS(1, 3, 5));
    tn_loader_destroy(l);
    tn_dataset_destroy(d);
}

Test(loader, weights)
{
    tn_dataset *d = numbers(4);
    tn_tensor *weights = tn_from_data(s, TN_FLOAT64, TN_INTS(4), (double[]){0, 3, 0, 1}, TN_CPU);
    tn_loader *l = tn_loader_create(d, .batch = 500, .weights = weights, .samples = 4000, .seed = 1);
    int64_t have[4000];
    int64_t seen[4] = {0};
    cr_assert_eq(tn_loader_batches(l), 8);
    take_numbers(l, 8, have);
    for (int i = 0; i < 4000; i++) seen[have[i]]++;
    cr_assert_eq(seen[0] + seen[2], 0);
    cr_assert(seen[1] > 2860 && seen[1] < 3140, "%lld", (long long)seen[1]); /* 3000, 5 deviations of 27 */
    tn_loader_destroy(l);
    tn_dataset_destroy(d);
}

static tn_tensor *backwards(void *user, tn_scope *scope, tn_generator *g, int64_t epoch, int64_t count)
{
    (void)g;
    *(int64_t *)user = epoch;
    return tn_arange_start_step(scope, TN_SCALAR(count - 1), TN_SCALAR(-1), TN_SCALAR(-1), .dtype = TN_INT64);
}

Test(loader, samplers_of_the_program)
{
    tn_dataset *d = numbers(3);
    int64_t epoch = -1;
    const tn_sampler sampler = {.size = sizeof sampler, .user = &epoch, .order = backwards};
    tn_loader *l = tn_loader_create(d, .batch = 2, .sampler = sampler);
    expect_numbers(l, 4, TN_INTS(2, 1, 0, 2, 1, 0));
    cr_assert_eq(epoch, 1);
    tn_loader_destroy(l);
    l = tn_loader_create(d, .batch = 2, .sampler = sampler, .samples = 5, .workers = 1);
    tn_loader_next(s, l);
    expect_error(s, "the sampler gave the sample 4 (expected 0 to 2)");
    tn_loader_destroy(l);
    tn_dataset_destroy(d);
}

static tn_tensor *on_a_device(void *user, tn_scope *scope, tn_generator *g, int64_t epoch, int64_t count)
{
    (void)g;
    (void)epoch;
    return tn_arange(scope, TN_SCALAR(count), .dtype = TN_INT64, .device = *(tn_device *)user);
}

/* The null device has memory with addresses of the host, as integrated devices have. */
Test(loader, a_sampler_on_a_device)
{
    tn_device null = tn_device_parse(ctx, "null:0");
    tn_dataset *d = numbers(3);
    const tn_sampler sampler = {.size = sizeof sampler, .user = &null, .order = on_a_device};
    tn_loader *l = tn_loader_create(d, .batch = 2, .sampler = sampler);
    tn_loader_next(s, l);
    expect_error(s, "the sampler's tensor is not on the CPU");
    tn_loader_destroy(l);
    tn_dataset_destroy(d);
}

static int32_t sum_samples(void *user, tn_scope *scope, tn_tensor *const *samples, int64_t count,
                           tn_tensor **out)
{
    out[0] = samples[0];
    for (int64_t i = 1; i < count; i++) out[0] = tn_add(scope, out[0], samples[i * TN_SAMPLE_MAX]);
    out[0] = tn_unsqueeze(scope, tn_mul_scalar(scope, out[0], *(const int64_t *)user), 0);
    return tn_scope_failed(scope);
}

Test(loader, batches_of_the_program)
{
    tn_dataset *d = numbers(4);
    int64_t factor = 10;
    tn_loader *l =
        tn_loader_create(d, .batch = 2, .workers = 2, .collate = sum_samples, .collate_user = &factor);
    expect_numbers(l, 2, TN_INTS(10, 50));
    tn_loader_destroy(l);
    tn_dataset_destroy(d);
}

/* Through pinned memory to a device that works later than its calls: by rows, by samples, and without workers. */
Test(loader, batches_on_a_device)
{
    const tn_device device = tn_device_parse(ctx, "reference:0");
    tn_dataset *d = numbers(30), *noisy = tn_map_dataset_create(d, add_noise, NULL);
    int64_t want[60], have[60];
    tn_loader *l = tn_loader_create(d, .batch = 4, .shuffle = 1, .seed = 2);
    take_numbers(l, 16, want);
    tn_loader_destroy(l);
    for (int32_t workers = 0; workers <= 2; workers++) {
        l = tn_loader_create(workers == 1 ? d : noisy, .batch = 4, .shuffle = 1, .seed = 2,
                             .workers = workers, .device = device);
        tn_tensors batch = tn_loader_next(s, l);
        cr_assert_eq(batch.count, workers == 1 ? 1 : 2);
        cr_assert_eq(tn_tensor_device(batch.data[0]), device);
        cr_assert_eq(tn_to_host(s, batch.data[0], have, 32), TN_OK);
        take_numbers(l, 15, have + 4);
        cr_assert_arr_eq(have, want, sizeof want, "%d workers", workers);
        tn_loader_destroy(l);
    }
    tn_dataset_destroy(noisy);
    tn_dataset_destroy(d);
}

/* ---- Data sets --------------------------------------------------------------------------------------------- */

static atomic_int inside, most_inside;

static int32_t count_inside(void *user, tn_scope *scope, int64_t index, uint64_t seed, tn_tensor **out)
{
    (void)user;
    (void)seed;
    int now = atomic_fetch_add(&inside, 1) + 1;
    if (now > atomic_load(&most_inside)) atomic_store(&most_inside, now);
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    atomic_fetch_sub(&inside, 1);
    out[0] = tn_scalar_tensor_of(scope, tn_value_int(index), TN_INT64, TN_CPU);
    return tn_scope_failed(scope);
}

Test(dataset, readers_that_are_not_safe_for_threads)
{
    static const tn_dataset_class class = {
        .size = sizeof class, .flags = TN_DATASET_ONE_THREAD, .count = ten, .get = count_inside};
    tn_dataset *d = tn_dataset_create(ctx, &class, NULL);
    tn_loader *l = tn_loader_create(d, .batch = 1, .workers = 4);
    int64_t have[30];
    take_numbers(l, 30, have);
    cr_assert_eq(atomic_load(&most_inside), 1);
    tn_loader_destroy(l);
    tn_dataset_destroy(d);
}

Test(dataset, over_others)
{
    tn_dataset *d = numbers(5), *part = tn_subset_dataset_create(d, TN_INTS(4, 0)),
               *both = tn_concat_dataset_create((tn_dataset *[]){part, d}, 2);
    cr_assert_eq(tn_dataset_count(both), 7);
    tn_loader *l = tn_loader_create(both, .batch = 4);
    expect_numbers(l, 2, TN_INTS(4, 0, 0, 1, 2, 3, 4));
    tn_loader_destroy(l);
    cr_assert_null(tn_subset_dataset_create(d, TN_INTS(5)));
    expect_last_error("5 is not in [0, 5)");
    tn_tensor *out[TN_SAMPLE_MAX];
    cr_assert_eq(tn_dataset_get(s, both, 7, 0, out), TN_E_INDEX);
    expect_error(s, "7 is not in [0, 7)");
    tn_tensor_dataset_create(s, TN_TENSORS(tn_ones(s, TN_INTS(2)), tn_ones(s, TN_INTS(3))));
    expect_error(s, "tensor 1 has 3 rows (expected 2)");
    tn_dataset_destroy(both);
    tn_dataset_destroy(part);
    tn_dataset_destroy(d);
}

static void copy_file(const char *from, const char *to)
{
    size_t count;
    uint8_t *bytes = contents(from, &count);
    FILE *file = fopen(to, "wb");
    cr_assert(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
    free(bytes);
}

Test(dataset, folders_of_images)
{
    static const char *const files[][2] = {
        {"b/2.png", "rgb.png"}, {"b/1.PNG", "rgba.png"}, {"a/x.jpg", "rgb.jpg"}, {"a/read.me", "rgb.png"}};
    char folder[] = "/tmp/tenon_folder_XXXXXX", path[128];
    cr_assert_not_null(mkdtemp(folder));
    for (const char *name = "ab"; *name; name++) {
        snprintf(path, sizeof path, "%s/%c", folder, *name);
        mkdir(path, 0777);
    }
    cr_assert_null(tn_folder_dataset_create(ctx, folder, TN_IMAGE_RGB));
    expect_last_error("there is no image in its folders, one for each class");
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
        copy_file(path_of(files[i][1]), path);
    }
    tn_dataset *d = tn_folder_dataset_create(ctx, folder, TN_IMAGE_RGB);
    cr_assert_not_null(d, "%s", tn_last_error()->message);
    cr_assert_eq(tn_dataset_count(d), 3);
    cr_assert_str_eq(tn_folder_class(d, 0), "a");
    cr_assert_str_eq(tn_folder_class(d, 1), "b");
    cr_assert_null(tn_folder_class(d, 2));
    cr_assert_not_null(strstr(tn_folder_path(d, 1), "/b/1.PNG"));
    tn_tensor *out[TN_SAMPLE_MAX];
    static const int64_t labels[] = {0, 1, 1}, heights[] = {16, 2, 2};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(tn_dataset_get(s, d, i, 0, out), TN_OK, "%s", tn_scope_error(s)->message);
        cr_assert_eq(tn_item_int(s, out[1]), labels[i]);
        cr_assert_eq(tn_tensor_size(out[0], 0), 3);
        cr_assert_eq(tn_tensor_size(out[0], 1), heights[i]);
    }
    tn_dataset_destroy(d);
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i][0]);
        unlink(path);
    }
    for (const char *name = "ab"; *name; name++) {
        snprintf(path, sizeof path, "%s/%c", folder, *name);
        rmdir(path);
    }
    rmdir(folder);
    cr_assert_null(tn_folder_dataset_create(ctx, "/nowhere", 0));
    cr_assert_eq(tn_last_error()->code, TN_E_NOT_FOUND);
    expect_last_error("folder_dataset: '/nowhere': No such file");
}

Test(dataset, tokens)
{
    const uint16_t tokens[] = {5, 6, 7, 8, 9, 65535};
    const char *path = file_of(tokens, sizeof tokens);
    tn_dataset *d = tn_token_dataset_create(ctx, path, TN_UINT16, 2, 0);
    tn_tensor *out[TN_SAMPLE_MAX];
    cr_assert_eq(tn_dataset_count(d), 2); /* the last token is a target alone */
    cr_assert_eq(tn_dataset_get(s, d, 1, 0, out), TN_OK);
    EXPECT(s, out[0], 7, 8);
    EXPECT(s, out[1], 8, 9);
    tn_dataset_destroy(d);
    d = tn_token_dataset_create(ctx, path, TN_UINT16, 3, 1);
    cr_assert_eq(tn_dataset_count(d), 3);
    cr_assert_eq(tn_dataset_get(s, d, 2, 0, out), TN_OK);
    EXPECT(s, out[0], 7, 8, 9);
    EXPECT(s, out[1], 8, 9, 65535);
    tn_dataset_destroy(d);
    cr_assert_null(tn_token_dataset_create(ctx, path, TN_FLOAT32, 3, 1));
    expect_last_error("argument 'dtype'");
    cr_assert_null(tn_token_dataset_create(ctx, "/nowhere/a", TN_UINT16, 3, 1));
    cr_assert_eq(tn_last_error()->code, TN_E_NOT_FOUND);
    expect_last_error("No such file");
}
