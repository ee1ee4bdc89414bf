/* SPDX-License-Identifier: Apache-2.0 */
/* SyncBatchNorm of two processes with half a batch each gives what batch norm gives for the whole batch. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/nn.h>
#include <unistd.h>

enum {
    CHANNELS = 3,
    ROWS = 5,
    FIRST = 2,
    WIDTH = 4,
    ROW = CHANNELS * WIDTH
}; /* the ranks have 2 and 3 rows */

/* Of some rows: output, gradients of the input, the weight and the bias, and the running averages behind a step. */
typedef struct result {
    double y[ROWS * ROW], grad[ROWS * ROW], weight[CHANNELS], bias[CHANNELS], mean[CHANNELS], var[CHANNELS],
        eval[ROW];
} result;

static double input(int i)
{
    return sin(1.7 * i) * (1 + i % 5) + i % 3;
}

static void read_all(tn_scope *s, tn_tensor *t, double *to)
{
    if (t) tn_to_host(s, t, to, (uint64_t)tn_tensor_numel(t) * 8);
}

/* One training step on rows [from, to), the loss being the sum of y * y * (1 + i / 10). */
static const char *step(tn_context *ctx, tn_device device, tn_communicator *c, int from, int to, result *out)
{
    static char text[512];
    double x[ROWS * ROW], factor[ROWS * ROW];
    tn_scope *s = tn_scope_open(ctx);
    tn_module *net = tn_module_create(ctx, "net", NULL), *norm;
    tn_module_to(net, device, TN_FLOAT64);
    norm = tn_batch_norm1d_create(net, "norm", CHANNELS, .eps = 0.01, .momentum = 0.3);
    tn_convert_sync_batchnorm(net, c);
    for (int i = 0; i < ROWS * ROW; i++) x[i] = input(i), factor[i] = 1 + i / 10.0;
    const tn_ints sizes = TN_INTS(to - from, CHANNELS, WIDTH);
    tn_tensor *in =
        tn_to_device(s, tn_from_data(s, TN_FLOAT64, sizes, x + from * ROW, TN_CPU), device, TN_FLOAT64);
    tn_tensor *by =
        tn_to_device(s, tn_from_data(s, TN_FLOAT64, sizes, factor + from * ROW, TN_CPU), device, TN_FLOAT64);
    tn_set_requires_grad(in, 1);
    tn_tensor *y = tn_module_forward(s, net, in);
    tn_backward(s, tn_sum(s, tn_mul(s, tn_mul(s, y, y), by)));
    read_all(s, y, out->y);
    read_all(s, tn_grad_of(s, in), out->grad);
    read_all(s, tn_grad_of(s, tn_module_tensor(norm, "weight")), out->weight);
    read_all(s, tn_grad_of(s, tn_module_tensor(norm, "bias")), out->bias);
    read_all(s, tn_module_tensor(norm, "running_mean"), out->mean);
    read_all(s, tn_module_tensor(norm, "running_var"), out->var);
    tn_module_train(net, 0);
    read_all(s, tn_module_forward(s, net, tn_narrow(s, in, 0, 0, 1)), out->eval);
    snprintf(text, sizeof text, "%s%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "",
             tn_module_failed(net) ? tn_module_error(net) : "");
    tn_module_destroy(net);
    tn_scope_close(s);
    return text;
}

static void send_all(int to, const void *bytes, size_t count)
{
    if (write(to, bytes, count) != (ssize_t)count) _exit(3);
}

/* A rank: takes the id from `ids`, or writes it there, and writes its result to `out`. */
static void run_rank(int rank, const int ids[2], int out)
{
    tn_context *ctx = NULL;
    tn_communicator *c = NULL;
    unsigned char id[128] = {0};
    uint64_t bytes = 0;
    result r;
    memset(&r, 0, sizeof r);
    if (tn_context_create(NULL, &ctx)) _exit(4);
    const tn_device device = tn_device_choose(ctx, "reference:0", NULL);
    if (!rank && tn_communicator_unique_id(ctx, device, id, sizeof id, &bytes)) _exit(5);
    if (!rank) send_all(ids[1], &bytes, sizeof bytes), send_all(ids[1], id, sizeof id);
    if (rank &&
        (read(ids[0], &bytes, sizeof bytes) != sizeof bytes || read(ids[0], id, sizeof id) != sizeof id))
        _exit(6);
    const tn_communicator_group group = {.size = sizeof group,
                                         .count = 1,
                                         .first_rank = (uint32_t)rank,
                                         .world = 2,
                                         .devices = &device,
                                         .id = id,
                                         .id_bytes = bytes};
    if (tn_communicator_join(ctx, &group, &c)) _exit(7);
    const char *wrong = step(ctx, device, c, rank ? FIRST : 0, rank ? ROWS : FIRST, &r);
    if (*wrong) fprintf(stderr, "rank %d: %s\n", rank, wrong);
    send_all(out, &r, sizeof r);
    tn_communicator_release(c);
    tn_context_destroy(ctx);
    _exit(*wrong != 0);
}

static void expect_close(const double *have, const double *want, int count, const char *what)
{
    for (int i = 0; i < count; i++)
        cr_assert(fabs(have[i] - want[i]) < 1e-12 * (1 + fabs(want[i])), "%s %d: %.17g, not %.17g", what, i,
                  have[i], want[i]);
}

Test(sync_batch_norm, two_processes_are_one_batch, .timeout = 60)
{
    int ids[2], ends[2][2], status;
    pid_t ranks[2];
    result have[2], want;
    cr_assert_eq(pipe(ids), 0);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(pipe(ends[i]), 0);
        ranks[i] = fork();
        if (!ranks[i]) run_rank(i, ids, ends[i][1]);
        close(ends[i][1]);
    }
    for (int i = 0; i < 2; i++) {
        uint8_t *to = (uint8_t *)&have[i];
        for (size_t at = 0; at < sizeof have[i];) {
            const ssize_t n = read(ends[i][0], to + at, sizeof have[i] - at);
            cr_assert_gt(n, 0, "rank %d", i);
            at += (size_t)n;
        }
        cr_assert_eq(waitpid(ranks[i], &status, 0), ranks[i]);
        cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "rank %d ended with 0x%x", i, (unsigned)status);
    }
    tn_context *ctx;
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    memset(&want, 0, sizeof want);
    cr_assert_str_eq(step(ctx, TN_CPU, NULL, 0, ROWS, &want), "");
    tn_context_destroy(ctx);
    expect_close(have[0].y, want.y, FIRST * ROW, "y of rank 0");
    expect_close(have[1].y, want.y + FIRST * ROW, (ROWS - FIRST) * ROW, "y of rank 1");
    expect_close(have[0].grad, want.grad, FIRST * ROW, "gradient of rank 0");
    expect_close(have[1].grad, want.grad + FIRST * ROW, (ROWS - FIRST) * ROW, "gradient of rank 1");
    for (int i = 0; i < 2; i++) {
        expect_close(have[i].mean, want.mean, CHANNELS, "running mean");
        expect_close(have[i].var, want.var, CHANNELS, "running variance");
    }
    expect_close(have[0].eval, want.eval, ROW, "evaluation");
    /* The gradients of parameters are those of a rank's own rows: the program adds them. */
    for (int i = 0; i < CHANNELS; i++)
        have[0].weight[i] += have[1].weight[i], have[0].bias[i] += have[1].bias[i];
    expect_close(have[0].weight, want.weight, CHANNELS, "gradient of the weight");
    expect_close(have[0].bias, want.bias, CHANNELS, "gradient of the bias");
}

Test(sync_batch_norm, ranks_of_one_process_are_refused)
{
    tn_context *ctx;
    tn_communicator *c;
    setenv("TENON_REFERENCE_DEVICES", "2", 1);
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    const tn_device first = tn_device_choose(ctx, "reference:0", NULL),
                    devices[] = {first, TN_DEVICE(TN_DEVICE_TYPE(first), 1)};
    cr_assert_eq(tn_communicator_create(ctx, devices, 2, &c), TN_OK);
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_module *norm = tn_batch_norm1d_create(net, "norm", 3);
    cr_assert_eq(tn_convert_sync_batchnorm(net, c), TN_E_ARGUMENT);
    cr_assert_not_null(strstr(tn_last_error()->message, "it has several ranks in this process"));
    cr_assert_str_eq(tn_module_class_name(norm), "BatchNorm1d");
    tn_module_destroy(net);
    tn_communicator_release(c);
    tn_context_destroy(ctx);
}
