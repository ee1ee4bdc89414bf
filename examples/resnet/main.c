/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ResNet-18 (He et al. 2016) on Fashion-MNIST, in bfloat16 by autocast, with a loader whose threads flip images.
 *
 *     resnet [FOLDER [EPOCHS [IMAGES]]]      FOLDER has the four files of the data set
 */
#include <stdlib.h>
#include <tenon/data.h>
#include <tenon/optim.h>
#include <tenon/progress.h>

enum { BATCH = 128, CLASSES = 10 };

/* ---- The model: parameters have torchvision's names ------------------------------------------------------ */

TN_MODULE_CLASS(BasicBlock, s, m, x)
{
    tn_tensor *y = tn_relu(s, tn_child_forward(s, m, "bn1", tn_child_forward(s, m, "conv1", x)));
    y = tn_child_forward(s, m, "bn2", tn_child_forward(s, m, "conv2", y));
    return tn_relu(s, tn_add(s, y, tn_child_forward(s, m, "downsample", x)));
}

static void conv3x3(tn_module *m, const char *name, int64_t in, int64_t out, int64_t stride)
{
    tn_conv2d_create(m, name, in, out, TN_INTS(3), .stride = TN_INTS(stride), .padding = TN_INTS(1),
                     .bias = 0);
}

static void block_create(tn_module *layer, int64_t in, int64_t out, int64_t stride)
{
    tn_module *m = tn_module_add(layer, NULL, &BasicBlock);
    conv3x3(m, "conv1", in, out, stride);
    tn_batch_norm2d_create(m, "bn1", out);
    conv3x3(m, "conv2", out, out, 1);
    tn_batch_norm2d_create(m, "bn2", out);
    tn_module *down = tn_module_add(m, "downsample", NULL); /* empty: the identity */
    if (stride > 1) {
        tn_conv2d_create(down, NULL, in, out, TN_INTS(1), .stride = TN_INTS(stride), .bias = 0);
        tn_batch_norm2d_create(down, NULL, out);
    }
}

/* The small form for images of 28 x 28: no pooling at the start. */
static tn_module *resnet18_create(tn_context *ctx)
{
    tn_module *net = tn_module_create(ctx, "resnet18", NULL);
    conv3x3(net, "conv1", 1, 64, 1);
    tn_batch_norm2d_create(net, "bn1", 64);
    tn_relu_create(net, "relu");
    const char *const names[] = {"layer1", "layer2", "layer3", "layer4"};
    for (int i = 0; i < 4; i++) {
        tn_module *layer = tn_module_add(net, names[i], NULL);
        block_create(layer, i ? 32 << i : 64, 64 << i, i ? 2 : 1);
        block_create(layer, 64 << i, 64 << i, 1);
    }
    tn_adaptive_avg_pool2d_create(net, "avgpool", TN_INTS(1));
    tn_flatten_create(net, "flatten");
    tn_linear_create(net, "fc", 512, CLASSES);
    return net;
}

/* ---- The data: images [1, 28, 28], labels ---------------------------------------------------------------- */

static tn_dataset *dataset_open(tn_scope *s, const char *folder, const char *part, int64_t most)
{
    tn_tensor *x = tn_idx_read(s, tn_text(s, "%s/%s-images-idx3-ubyte.gz", folder, part));
    tn_tensor *y = tn_idx_read(s, tn_text(s, "%s/%s-labels-idx1-ubyte.gz", folder, part));
    x = tn_to(s, tn_unsqueeze(s, tn_slice(s, x, .end = most), 1), TN_FLOAT32);
    x = tn_sub_scalar(s, tn_div_scalar(s, x, 90), 0.81); /* mean 0, deviation 1 */
    return tn_tensor_dataset_create(s, TN_TENSORS(x, tn_to(s, tn_slice(s, y, .end = most), TN_INT64)));
}

/* Flips half of the images; `seed` belongs to the sample, so a run is the same with any number of threads. */
static int32_t flip(void *user, tn_scope *s, uint64_t seed, tn_tensor **sample)
{
    (void)user;
    if (seed & 1) sample[0] = tn_flip(s, sample[0], TN_INTS(2));
    return tn_scope_failed(s);
}

/* ---- Training and testing -------------------------------------------------------------------------------- */

static int32_t test(tn_context *ctx, tn_module *net, tn_loader *loader)
{
    int64_t right = 0, all = 0;
    tn_module_train(net, 0);
    TN_STEP_WITH (outer, ctx, .grad_mode = TN_GRAD_OFF)
        TN_BATCHES (s, ctx, i, loader, batch) {
            tn_tensor *seen = tn_argmax(s, tn_module_forward(s, net, batch.data[0]), .dim = 1);
            right += tn_item_int(s, tn_sum(s, tn_eq(s, seen, batch.data[1])));
            all += tn_tensor_size(batch.data[1], 0);
        }
    if (!tn_step_status()) printf("test accuracy: %.2f %%\n", 100.0 * (double)right / (double)all);
    return tn_step_status();
}

TN_MAIN_ON_DEVICE(ctx, device, outer, argc, argv)
{
    const char *folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
    int64_t epochs = argc > 2 ? atoll(argv[2]) : 5, images = argc > 3 ? atoll(argv[3]) : INT64_MAX;
    tn_manual_seed(ctx, 0);
    TN_AUTO(tn_module) net = resnet18_create(ctx);
    TN_AUTO(tn_optimizer) o =
        tn_sgd_create(net, .lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = 1);
    TN_AUTO(tn_dataset) plain = dataset_open(outer, folder, "train", images);
    TN_AUTO(tn_dataset) tested = dataset_open(outer, folder, "t10k", images);
    TN_AUTO(tn_dataset) flipped = tn_map_dataset_create(plain, flip, NULL);
    TN_AUTO(tn_loader) train = tn_loader_create(flipped, .batch = BATCH, .shuffle = 1, .drop_last = 1,
                                                .workers = 2, .device = device);
    TN_AUTO(tn_loader) check = tn_loader_create(tested, .batch = 500, .device = device);
    TN_AUTO(tn_progress) p = tn_progress_create("training", epochs * tn_loader_batches(train),
                                                .unit = "images", .units_a_step = BATCH);
    for (int64_t epoch = 0, step = 0; epoch < epochs; epoch++) {
        tn_module_train(net, 1);
        TN_BATCHES (s, ctx, i, train, batch) {
            tn_tensor *loss = NULL;
            TN_WITHIN (low, s, .autocast = TN_SCOPE_AUTOCAST_ON, .autocast_dtype = TN_BFLOAT16) {
                tn_tensor *y = tn_module_forward(low, net, batch.data[0]);
                loss = tn_scope_return(low, tn_cross_entropy_loss(low, y, batch.data[1]));
            }
            tn_backward(s, loss);
            tn_optimizer_step(s, o, .lr = tn_lr_cosine(step++, 0.05, epochs * tn_loader_batches(train), 0));
            tn_optimizer_zero_grad(o);
            if (tn_progress_step(p))
                tn_progress_show(p, "epoch %lld, loss %.4f", (long long)epoch + 1, tn_item_double(s, loss));
        }
        TN_TRY(test(ctx, net, check));
    }
    return tn_module_save(net, "resnet18.safetensors");
}
