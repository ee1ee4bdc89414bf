/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ResNet-18 (He et al. 2016) on Fashion-MNIST, in mixed precision, with a loader whose threads flip images.
 *
 *     resnet [FOLDER [EPOCHS [IMAGES]]]      FOLDER has the four files of the data set
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/data.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include <tenon/progress.h>

enum { BATCH = 128, CLASSES = 10 };
#define FOLDER "/usr/share/datasets/fashion-mnist"

static int failed(const char *what)
{
    fprintf(stderr, "resnet: %s: %s\n", what, tn_last_error() ? tn_last_error()->message : "unknown error");
    return 1;
}

/* ---- The model ----------------------------------------------------------------------------------------- */

typedef struct block {
    tn_module *conv1, *norm1, *conv2, *norm2, *down; /* down NULL: the identity */
} block;

static tn_tensor *block_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    (void)more;
    const block *b = tn_module_state(m);
    tn_tensor *x = in.data[0];
    tn_tensor *y = tn_relu(s, tn_module_forward(s, b->norm1, tn_module_forward(s, b->conv1, x)));
    y = tn_module_forward(s, b->norm2, tn_module_forward(s, b->conv2, y));
    return tn_relu(s, tn_add(s, y, b->down ? tn_module_forward(s, b->down, x) : x));
}

static tn_module *conv3x3(tn_module *m, const char *name, int64_t in, int64_t out, int64_t stride)
{
    return tn_conv2d_create(m, name, in, out, TN_INTS(3), .stride = TN_INTS(stride), .padding = TN_INTS(1),
                            .bias = 0);
}

static void block_create(tn_module *parent, const char *name, int64_t in, int64_t out, int64_t stride)
{
    static const tn_module_class kind = {
        .size = sizeof kind, .name = "BasicBlock", .state_bytes = sizeof(block), .forward = block_forward};
    tn_module *m = tn_module_add(parent, name, &kind), *down = NULL;
    if (!m) return;
    block b = {conv3x3(m, "conv1", in, out, stride), tn_batch_norm2d_create(m, "bn1", out),
               conv3x3(m, "conv2", out, out, 1), tn_batch_norm2d_create(m, "bn2", out), NULL};
    if (stride > 1) {
        down = tn_module_add(m, "downsample", NULL);
        tn_conv2d_create(down, "0", in, out, TN_INTS(1), .stride = TN_INTS(stride), .bias = 0);
        tn_batch_norm2d_create(down, "1", out);
    }
    b.down = down;
    *(block *)tn_module_state(m) = b;
}

/* The small form for images of 28 x 28: no pooling at the start. Parameters have torchvision's names. */
static tn_module *resnet18_create(tn_context *ctx, tn_device device)
{
    tn_module *net = tn_module_create(ctx, "resnet18", NULL);
    char name[16];
    int64_t in = 64;
    tn_module_to(net, device, 0);
    conv3x3(net, "conv1", 1, in, 1);
    tn_batch_norm2d_create(net, "bn1", in);
    tn_relu_create(net, "relu");
    for (int i = 1; i <= 4; i++) {
        int64_t out = 32 << i;
        snprintf(name, sizeof name, "layer%d", i);
        tn_module *layer = tn_module_add(net, name, NULL);
        block_create(layer, "0", in, out, i > 1 ? 2 : 1);
        block_create(layer, "1", out, out, 1);
        in = out;
    }
    tn_adaptive_avg_pool2d_create(net, "avgpool", TN_INTS(1));
    tn_flatten_create(net, "flatten");
    tn_linear_create(net, "fc", in, CLASSES);
    return net;
}

/* ---- The data: images [1, 28, 28], labels -------------------------------------------------------------- */

static tn_dataset *dataset_open(tn_scope *s, const char *folder, const char *part, int64_t most)
{
    char path[2][1024];
    snprintf(path[0], sizeof path[0], "%s/%s-images-idx3-ubyte.gz", folder, part);
    snprintf(path[1], sizeof path[1], "%s/%s-labels-idx1-ubyte.gz", folder, part);
    tn_tensor *x = tn_idx_read(s, path[0]), *y = tn_idx_read(s, path[1]);
    if (x && most && most < tn_tensor_sizes(x)[0]) {
        x = tn_narrow(s, x, 0, 0, most);
        y = tn_narrow(s, y, 0, 0, most);
    }
    x = tn_sub_scalar(s, tn_div_scalar(s, tn_to(s, tn_unsqueeze(s, x, 1), TN_FLOAT32), 90),
                      0.81); /* mean 0, deviation 1 */
    return tn_tensor_dataset_create(s, TN_TENSORS(x, tn_to(s, y, TN_INT64)));
}

/* Flips half of the images; `seed` belongs to the sample, so a run is the same with any number of threads. */
static int32_t flip(void *user, tn_scope *s, uint64_t seed, tn_tensor **sample)
{
    (void)user;
    if (seed & 1) sample[0] = tn_flip(s, sample[0], TN_INTS(2));
    return tn_scope_failed(s);
}

/* ---- Training and testing ------------------------------------------------------------------------------ */

static int train_epoch(tn_context *ctx, tn_module *net, tn_optimizer *o, tn_loader *loader, int64_t epoch,
                       int64_t epochs)
{
    const tn_scope_options low = {
        .size = sizeof low, .autocast = TN_SCOPE_AUTOCAST_ON, .autocast_dtype = TN_BFLOAT16};
    char label[32];
    int64_t batches = tn_loader_batches(loader);
    snprintf(label, sizeof label, "epoch %lld", (long long)epoch + 1);
    tn_progress *p = tn_progress_create(label, batches, .unit = "images", .units_a_step = BATCH);
    tn_module_train(net, 1);
    for (int64_t i = 0; i < batches && !tn_step_status(); i++) TN_STEP(s, ctx)
        {
            tn_tensors batch = tn_loader_next(s, loader);
            tn_scope *inner = tn_scope_open_child(s, &low);
            tn_tensor *loss = batch.count == 2
                                  ? tn_cross_entropy_loss(inner, tn_module_forward(inner, net, batch.data[0]),
                                                          batch.data[1])
                                  : NULL;
            if (loss) tn_scope_return(inner, loss);
            tn_scope_close(inner);
            tn_backward(s, loss);
            tn_optimizer_step(s, o, .lr = tn_lr_cosine(epoch * batches + i, 0.05, epochs * batches, 0));
            tn_optimizer_zero_grad(o);
            if (tn_progress_step(p)) tn_progress_show(p, "loss %.4f", tn_item_double(s, loss));
        }
    tn_progress_destroy(p);
    return tn_step_status() ? failed("training") : 0;
}

static int test(tn_context *ctx, tn_module *net, tn_loader *loader)
{
    const tn_scope_options no_grad = {.size = sizeof no_grad, .grad_mode = TN_GRAD_OFF};
    int64_t right = 0, all = 0, batches = tn_loader_batches(loader);
    tn_scope *outer = tn_scope_open_with(ctx, &no_grad);
    tn_module_train(net, 0);
    for (int64_t i = 0; i < batches && !tn_scope_failed(outer); i++) {
        tn_scope *s = tn_scope_open_child(outer, NULL);
        tn_tensors batch = tn_loader_next(s, loader);
        if (batch.count == 2) {
            tn_tensor *seen = tn_argmax(s, tn_module_forward(s, net, batch.data[0]), .dim = 1);
            right += tn_item_int(s, tn_sum(s, tn_eq(s, seen, batch.data[1])));
            all += tn_tensor_sizes(batch.data[1])[0];
        }
        tn_scope_close(s);
    }
    if (tn_scope_close(outer)) return failed("testing");
    printf("test accuracy: %.2f %%\n", 100.0 * (double)right / (double)all);
    return 0;
}

static int run(tn_context *ctx, tn_device device, const char *folder, int64_t epochs, int64_t images)
{
    tn_scope *s = tn_scope_open(ctx);
    tn_dataset *plain = dataset_open(s, folder, "train", images),
               *tested = dataset_open(s, folder, "t10k", images);
    tn_dataset *flipped = plain ? tn_map_dataset_create(plain, flip, NULL) : NULL;
    tn_module *net = resnet18_create(ctx, device);
    tn_loader *train = NULL, *check = NULL;
    tn_optimizer *o = NULL;
    int status = 0;
    if (!flipped || !tested) {
        status = failed("data");
    } else if (tn_module_failed(net)) {
        fprintf(stderr, "resnet: model: %s\n", tn_module_error(net));
        status = 1;
    } else {
        train = tn_loader_create(flipped, .batch = BATCH, .shuffle = 1, .drop_last = 1, .workers = 2,
                                 .device = device);
        check = tn_loader_create(tested, .batch = 500, .device = device);
        o = tn_sgd_create(net, .lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = 1);
        if (!train || !check || !o) status = failed("loaders and optimiser");
    }
    for (int64_t epoch = 0; !status && epoch < epochs; epoch++) {
        status = train_epoch(ctx, net, o, train, epoch, epochs);
        if (!status) status = test(ctx, net, check);
    }
    if (!status && tn_module_save(net, "resnet18.safetensors")) status = failed("resnet18.safetensors");
    if (!status) puts("wrote resnet18.safetensors");
    tn_loader_destroy(train);
    tn_loader_destroy(check);
    tn_optimizer_destroy(o);
    tn_module_destroy(net);
    tn_dataset_destroy(flipped);
    tn_dataset_destroy(plain);
    tn_dataset_destroy(tested);
    tn_scope_close(s);
    return status;
}

int main(int argc, char **argv)
{
    int64_t epochs = argc > 2 ? atoll(argv[2]) : 5, images = argc > 3 ? atoll(argv[3]) : 0;
    tn_context *ctx;
    if (epochs <= 0 || images < 0) return fputs("usage: resnet [FOLDER [EPOCHS [IMAGES]]]\n", stderr), 2;
    if (tn_context_create(NULL, &ctx)) return failed("context");
    tn_manual_seed(ctx, 0);
    int status = run(ctx, tn_device_choose(ctx, NULL, NULL), argc > 1 ? argv[1] : FOLDER, epochs, images);
    tn_context_destroy(ctx);
    return status;
}
