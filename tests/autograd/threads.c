/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that use one graph at once: tensors that end while a run reaches them, views that two threads read. */
#include "suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <tenon/inspect.h>

TestSuite(threads, .init = begin, .timeout = 120);

#define ROUNDS 300
#define HOOKS  5000 /* of one node: so long takes it to look through them */

/* Both threads of a pair begin a round at the same moment: a barrier puts threads to sleep. */
static atomic_int round_of[2];
static void meet(int self, int round)
{
    atomic_store(&round_of[self], round);
    while (atomic_load(&round_of[!self]) < round) continue;
}

/* ---- A tensor whose gradient is retained ends while backward reaches it ---- */

static tn_tensor *ending;

static void *release_in_each_round(void *user)
{
    (void)user;
    for (int i = 1; i <= ROUNDS; i++) {
        meet(1, 2 * i - 1);
        for (volatile int delay = i * 37 % 20000; delay > 0; delay--) continue;
        tn_release(ending);
        meet(1, 2 * i);
    }
    return NULL;
}

/* `user`: the round, where the run is about to reach the tensor. */
static int32_t leave_gradients(void *user, tn_scope *scope, tn_tensor **grads, uint32_t count)
{
    (void)scope, (void)grads, (void)count;
    if (user) meet(0, *(const int *)user);
    return TN_OK;
}

static void count_line(void *user, int32_t level, const char *text)
{
    (void)level, (void)text;
    atomic_fetch_add((atomic_int *)user, 1);
}

/* Released handles are kept and marked, and their use is logged. */
Test(threads, a_tensor_that_retains_its_gradient_ends_during_the_run, .init = NULL)
{
    atomic_int lines = 0;
    pthread_t other;
    tn_context *watched = NULL;
    tn_context_options options = {.size = sizeof options,
                                  .flags = TN_CONTEXT_DEBUG_HANDLES,
                                  .log = count_line,
                                  .log_user = &lines,
                                  .plugin_path = getenv("TENON_TEST_CPU")};
    cr_assert_eq(tn_context_create(&options, &watched), TN_OK);
    tn_scope *mine = tn_scope_open(watched);
    tn_tensor *x = VECTOR(mine, 1, 1, 2, 3);
    pthread_create(&other, NULL, release_in_each_round, NULL);
    for (int i = 1; i <= ROUNDS; i++) {
        tn_scope *inner = tn_scope_open_child(mine, NULL);
        ending = tn_retain(tn_mul(inner, x, x));
        for (int k = 0; k < HOOKS; k++) {
            uint64_t handle;
            tn_node_register_hook(tn_grad_fn(ending), 0, leave_gradients, NULL, &handle);
        }
        cr_assert_eq(tn_retain_grad(ending), TN_OK);
        tn_tensor *loss = tn_sum(inner, ending);
        int round = 2 * i - 1;
        uint64_t handle;
        tn_node_register_hook(tn_grad_fn(loss), 0, leave_gradients, &round, &handle);
        tn_drop(inner, ending);
        tn_backward(inner, loss);
        meet(0, 2 * i);
        expect_sound(inner);
        tn_scope_close(inner);
    }
    pthread_join(other, NULL);
    EXPECT(mine, tn_grad_of(mine, x), 2.0 * ROUNDS, 4.0 * ROUNDS, 6.0 * ROUNDS);
    tn_scope_close(mine);
    tn_context_destroy(watched);
    cr_assert_eq(lines, 0, "released tensors were used %d times", (int)lines);
}

/* ---- A view whose base was written is read by two threads ---- */

static tn_tensor *view_of_written;

static void square_view(tn_tensor **out)
{
    tn_scope *mine = tn_scope_open(ctx);
    *out = tn_retain(tn_sum(mine, tn_mul(mine, view_of_written, view_of_written)));
    expect_sound(mine);
    tn_scope_close(mine);
}

static void *square_in_each_round(void *user)
{
    for (int i = 1; i <= ROUNDS; i++) {
        meet(1, 2 * i - 1);
        square_view(user);
        meet(1, 2 * i);
    }
    return NULL;
}

/* Its history is brought up to date by whoever reads it first: d/dx of (6 x)^2 by each thread. */
Test(threads, a_view_of_a_written_base_is_read_by_two_threads)
{
    tn_tensor *losses[2];
    pthread_t other;
    tn_tensor *x = VECTOR(s, 1, 1, 2);
    pthread_create(&other, NULL, square_in_each_round, &losses[1]);
    for (int i = 1; i <= ROUNDS; i++) {
        tn_scope *inner = tn_scope_open_child(s, NULL);
        tn_tensor *base = tn_mul_scalar(inner, x, 2);
        view_of_written = tn_view(inner, base, TN_INTS(2, 1));
        tn_mul_scalar_(inner, base, 3);
        meet(0, 2 * i - 1);
        square_view(&losses[0]);
        meet(0, 2 * i);
        tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
        tn_backward_with(inner, TN_TENSORS(losses[0], losses[1]), &keep);
        expect_sound(inner);
        tn_release(losses[0]);
        tn_release(losses[1]);
        tn_scope_close(inner);
        EXPECT(s, tn_grad_of(s, x), 144, 288);
        tn_set_grad(x, NULL);
    }
    pthread_join(other, NULL);
    end();
}

/* ---- A function of the program that asks for a gradient while operators add to it ---- */

typedef struct asking {
    tn_tensor *tensors[2];
    int is_inside, calls;
} asking;

static void ask(void *user, const tn_call_info *info, uint64_t *token)
{
    asking *a = user;
    (void)info, (void)token;
    if (a->is_inside++) return;
    tn_scope *mine = tn_scope_open(ctx);
    for (int i = 0; i < 2; i++) {
        cr_assert_not_null(tn_grad_of(mine, a->tensors[i]));
        (void)tn_node_name(tn_grad_fn(a->tensors[i]));
    }
    a->calls++;
    tn_scope_close(mine);
    a->is_inside = 0;
}

Test(threads, an_observer_asks_for_the_gradient_that_its_call_adds_to, .timeout = 20)
{
    tn_tensor *x = VECTOR(s, 1, 3), *y = tn_mul(s, x, x), *z = tn_mul_scalar(s, y, 5);
    asking a = {.tensors = {x, y}};
    const tn_observer observer = {.size = sizeof observer, .user = &a, .enter = ask};
    const tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
    uint64_t handle;
    cr_assert_eq(tn_retain_grad(y), TN_OK);
    tn_backward_with(s, TN_TENSORS(z), &keep);
    cr_assert_eq(tn_observer_add(ctx, &observer, &handle), TN_OK);
    tn_backward_with(s, TN_TENSORS(z), &keep);
    tn_observer_remove(ctx, handle);
    cr_assert_geq(a.calls, 2);
    EXPECT(s, tn_grad_of(s, x), 60);
    EXPECT(s, tn_grad_of(s, y), 10);
    end();
}
