/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains a small convolutional network on Fashion-MNIST on the best device found, tests it, writes the loss
 * curve and the weights, reads the weights back and tests them again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "demo.h"

#define TEST_BATCH 1000

typedef struct run {
    const options *o;
    tn_context *ctx;
    tn_device device;
    tn_dataset *train, *test;
    tn_loader *train_loader, *test_loader;
    tn_module *net;
    tn_optimizer *optimizer;
    tn_progress *progress;
    double *loss;
    int64_t steps, step;
} run;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int failed(const char *what, const tn_scope *s)
{
    const tn_error *e = s ? tn_scope_error(s) : tn_last_error();
    fflush(stdout); /* keep the order of both streams */
    fprintf(stderr, "fashion_mnist: %s: %s\n", what, e ? e->message : "unknown error");
    return 1;
}

static int choose_device(run *r)
{
    const char *reason = "";
    char name[64];
    int32_t n = tn_device_count(r->ctx, NULL);
    for (int32_t i = 0; i < n; i++) {
        tn_device_facts facts = {.size = sizeof facts};
        tn_device d = tn_device_at(r->ctx, i);
        if (tn_device_get_facts(r->ctx, d, &facts)) continue;
        printf("device %-14s %s, %.1f GiB\n", tn_device_format(r->ctx, d, name, sizeof name), facts.name,
               (double)facts.total_memory / (1 << 30));
    }
    r->device = tn_device_choose(r->ctx, r->o->device, &reason);
    if (r->device & TN_DEVICE_MISSING) return failed("device", NULL);
    printf("chosen %s: %s\n", tn_device_format(r->ctx, r->device, name, sizeof name), reason);
    return 0;
}

/* Loss values stay on the device; they are read together. */
static void read_losses(run *r, tn_scope *s, tn_tensor **pending, int64_t *n_pending)
{
    int64_t first = r->step - *n_pending;
    for (int64_t i = 0; i < *n_pending; i++) {
        r->loss[first + i] = tn_item_double(s, pending[i]);
        tn_release(pending[i]);
    }
    *n_pending = 0;
}

static tn_tensor *train_step(run *r, tn_scope *s)
{
    tn_profile_range_begin(r->ctx, "training step");
    tn_tensors batch = tn_loader_next(s, r->train_loader);
    tn_tensor *x = dataset_normalized(s, tn_list_at(batch, 0)), *y = tn_list_at(batch, 1);
    tn_tensor *loss = tn_cross_entropy_loss(s, model_forward(r->net, s, x, r->o->dtype), y);
    tn_backward(s, loss);
    tn_optimizer_step(s, r->optimizer,
                      .lr = tn_lr_warm_up_cosine(r->step, r->o->lr, r->steps * 3 / 20, r->steps));
    tn_optimizer_zero_grad(r->optimizer);
    tn_profile_range_end(r->ctx);
    return loss ? tn_retain(tn_detach(s, loss)) : NULL;
}

static int train_epoch(run *r)
{
    tn_tensor *pending[32];
    int64_t n_pending = 0, batches = tn_loader_batches(r->train_loader);
    for (int64_t b = 0; b < batches; b++) {
        tn_scope *s = tn_scope_open(r->ctx);
        pending[n_pending] = train_step(r, s);
        n_pending++;
        r->step++;
        int32_t is_due = tn_progress_step(r->progress);
        if (!tn_scope_failed(s) && (is_due || n_pending == 32 || b == batches - 1))
            read_losses(r, s, pending, &n_pending);
        if (!tn_scope_failed(s) && is_due) tn_progress_show(r->progress, "loss %.4f", r->loss[r->step - 1]);
        if (tn_scope_failed(s)) {
            while (n_pending > 0) tn_release(pending[--n_pending]);
            failed("training", s);
            tn_scope_close(s);
            return 1;
        }
        tn_scope_close(s);
    }
    return 0;
}

/* The fraction of right answers; fills counts[truth][answer]. Negative on failure. */
static double test(run *r, int64_t counts[CLASSES][CLASSES])
{
    tn_scope_options no_grad = {.size = sizeof no_grad, .grad_mode = TN_GRAD_OFF};
    int64_t right = 0, answers[TEST_BATCH], truths[TEST_BATCH];
    memset(counts, 0, CLASSES * sizeof *counts);
    tn_module_train(r->net, 0);
    for (int64_t i = 0; i < tn_loader_batches(r->test_loader); i++) {
        tn_scope *s = tn_scope_open_with(r->ctx, &no_grad);
        tn_tensors batch = tn_loader_next(s, r->test_loader);
        tn_tensor *x = tn_list_at(batch, 0), *y = tn_list_at(batch, 1);
        int64_t n = tn_tensor_size(x, 0);
        tn_tensor *logits = model_forward(r->net, s, dataset_normalized(s, x), r->o->dtype);
        tn_to_host(s, tn_argmax(s, logits, .dim = 1), answers, (uint64_t)n * 8);
        tn_to_host(s, y, truths, (uint64_t)n * 8);
        if (tn_scope_failed(s)) {
            failed("testing", s);
            tn_scope_close(s);
            return -1;
        }
        tn_scope_close(s);
        for (int64_t k = 0; k < n; k++) {
            counts[truths[k]][answers[k]]++;
            right += truths[k] == answers[k];
        }
    }
    return (double)right / (double)tn_dataset_count(r->test);
}

static void print_confusion(int64_t counts[CLASSES][CLASSES])
{
    static const char *const names[CLASSES] = {"T-shirt", "trouser", "pullover", "dress", "coat",
                                               "sandal",  "shirt",   "sneaker",  "bag",   "boot"};
    printf("%-10s", "is \\ seen");
    for (int i = 0; i < CLASSES; i++) printf("%9s", names[i]);
    printf("\n");
    for (int i = 0; i < CLASSES; i++) {
        printf("%-10s", names[i]);
        for (int k = 0; k < CLASSES; k++) printf("%9lld", (long long)counts[i][k]);
        printf("\n");
    }
}

static int train(run *r, tn_scope *s)
{
    int status = 0;
    tn_manual_seed(r->ctx, (uint64_t)r->o->seed);
    r->net = model_create(r->ctx, r->device);
    if (tn_module_failed(r->net)) {
        fflush(stdout);
        fprintf(stderr, "fashion_mnist: model: %s\n", tn_module_error(r->net));
        return 1;
    }
    tn_tensor *image = tn_zeros(s, TN_INTS(1, 1, 28, 28), .device = r->device);
    const char *summary = tn_module_summary(s, r->net, TN_TENSORS(image));
    if (!summary) return failed("model", s);
    printf("%s", summary);
    r->steps = tn_dataset_count(r->train) / r->o->batch * r->o->epochs;
    if (!r->steps) {
        fflush(stdout);
        fprintf(stderr, "fashion_mnist: a batch of %lld is more than the %lld images there are\n",
                (long long)r->o->batch, (long long)tn_dataset_count(r->train));
        return 1;
    }
    r->train_loader = tn_loader_create(r->train, .batch = r->o->batch, .shuffle = 1, .drop_last = 1,
                                       .workers = 1, .device = r->device, .seed = (uint64_t)r->o->seed);
    r->test_loader = tn_loader_create(r->test, .batch = TEST_BATCH, .workers = 1, .device = r->device);
    if (!r->train_loader || !r->test_loader) return failed("data", NULL);
    r->loss = calloc((size_t)r->steps + 1, sizeof *r->loss);
    r->optimizer = tn_adamw_create(r->net, .lr = r->o->lr, .weight_decay = r->o->weight_decay);
    if (!r->loss || !r->optimizer) {
        fprintf(stderr, "fashion_mnist: no memory\n");
        return 1;
    }
    double started = now();
    r->progress = tn_progress_create("training", r->steps, .to = stdout, .unit = "images",
                                     .units_a_step = (double)r->o->batch);
    for (int64_t e = 0; e < r->o->epochs && !status; e++) status = train_epoch(r);
    tn_progress_destroy(r->progress);
    if (!status) printf("trained %lld steps in %.1f s\n", (long long)r->steps, now() - started);
    return status;
}

/* Creates the folder for the results and checks that it is writable: before the training, not after. */
static int prepare_output(const char *folder)
{
    char inside[4096];
    int cut = snprintf(inside, sizeof inside, "%s/.", folder) >= (int)sizeof inside;
    mkdir(folder, 0777);
    if (!cut && access(inside, W_OK | X_OK) == 0) return 0;
    fprintf(stderr, "fashion_mnist: --output '%s': cannot write there: %s\n", folder,
            strerror(cut ? ENAMETOOLONG : errno));
    return 1;
}

/* Writes curve and weights, reads the weights back and tests again. */
static int save_and_reload(run *r, tn_scope *s, double accuracy)
{
    char path[4096];
    int64_t counts[CLASSES][CLASSES];
    double again;
    snprintf(path, sizeof path, "%s/loss.svg", r->o->output);
    const tn_series loss = {.y = r->loss, .count = r->steps, .smooth = 0.97};
    if (tn_plot_svg(path, TN_SERIES(loss), .title = "training loss by step", .x_label = "step",
                    .y_label = "loss"))
        return failed(path, NULL);
    printf("wrote %s\n", path);
    snprintf(path, sizeof path, "%s/weights.safetensors", r->o->output);
    if (tn_module_save(r->net, path)) return failed(path, NULL);
    tn_tensors all = tn_module_parameters(s, r->net);
    for (int64_t i = 0; i < all.count; i++) tn_init_constant(s, all.data[i], 0);
    if (tn_scope_failed(s)) return failed("weights", s);
    if (tn_module_load(r->net, path, TN_STRICT)) return failed(path, NULL);
    again = test(r, counts);
    printf("wrote %s and read it back: accuracy %.2f %%\n", path, 100 * again);
    if (again == accuracy) return 0;
    fprintf(stderr, "fashion_mnist: the accuracy differs after reading the weights back\n");
    return 1;
}

static int work(run *r, tn_scope *s)
{
    int64_t counts[CLASSES][CLASSES];
    double accuracy;
    r->train = dataset_open(s, r->o, "train", r->o->train_images);
    r->test = dataset_open(s, r->o, "t10k", 0);
    if (tn_scope_failed(s)) return failed("data", s);
    printf("%lld training images, %lld test images, %lld threads\n", (long long)tn_dataset_count(r->train),
           (long long)tn_dataset_count(r->test), (long long)tn_get_num_threads(r->ctx));
    if (train(r, s)) return 1;
    accuracy = test(r, counts);
    if (accuracy < 0) return 1;
    print_confusion(counts);
    printf("test accuracy: %.2f %%\n", 100 * accuracy);
    return save_and_reload(r, s, accuracy);
}

int main(int argc, char **argv)
{
    options o;
    run r = {.o = &o};
    tn_scope *s;
    int status = options_read(&o, argc, argv);
    if (status || (status = prepare_output(o.output))) return status;
    setvbuf(stdout, NULL, _IOLBF, 0); /* line buffered, also into a pipe */
    if (tn_context_create(NULL, &r.ctx)) return failed("context", NULL);
    tn_set_deterministic(r.ctx, 1);
    if (o.threads) tn_set_num_threads(r.ctx, (int32_t)o.threads);
    status = choose_device(&r);
    if (!status) {
        s = tn_scope_open(r.ctx);
        status = work(&r, s);
        tn_scope_close(s);
    }
    tn_optimizer_destroy(r.optimizer);
    tn_module_destroy(r.net);
    tn_loader_destroy(r.train_loader);
    tn_loader_destroy(r.test_loader);
    tn_dataset_destroy(r.train);
    tn_dataset_destroy(r.test);
    free(r.loss);
    tn_context_destroy(r.ctx);
    return status;
}
