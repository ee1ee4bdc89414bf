/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context with the reference device and a stream beside the default one, for tests of waits. Public headers
 * and the shared library alone.
 */
#ifndef TESTS_CHAOS_FIXTURE_H
#define TESTS_CHAOS_FIXTURE_H

#include <criterion/criterion.h>
#include <tenon/ops.h>
#include <tenon/tenon.h>

#define COUNT 64

typedef struct world {
    tn_context *ctx;
    tn_scope *s;
    tn_device device;
    tn_stream *home, *side; /* the default stream and one of the test's */
} world;

world open_world(void);
void close_world(world *w);
/* Makes a stream the current one. */
void on(world *w, tn_stream *stream);
/* The side stream waits for the default one and becomes current. */
void move_to_side(world *w);

/* float64 on reference:0 */
tn_tensor *filled(world *w, int64_t count, double value);
tn_tensor *plus(world *w, tn_tensor *t, double value);
/* The same with requires_grad. */
tn_tensor *leaf(world *w, double value);

void expect_sound(tn_scope *s);
/* All elements are `want`; read on the current stream. */
void expect_all(world *w, const tn_tensor *t, double want);

#endif
