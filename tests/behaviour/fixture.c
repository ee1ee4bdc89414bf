/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, makers and comparisons of the tests of behaviour. See fixture.h. */
#include "fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void run_on(void (*body)(place *p), const char *device)
{
    place p = {0};
    cr_assert_eq(tn_context_create(NULL, &p.ctx), TN_OK);
    tn_set_fallback_policy(p.ctx, TN_FALLBACK_SILENT);
    p.device = tn_device_parse(p.ctx, device);
    if (p.device) {
        tn_scope_options options = {.size = sizeof(options), .device = p.device};
        p.s = tn_scope_open_with(p.ctx, &options);
        body(&p);
        cr_assert_eq(tn_scope_failed(p.s), TN_OK, "%s: %s", device,
                     tn_scope_error(p.s) ? tn_scope_error(p.s)->message : "");
        tn_scope_close(p.s);
    } else {
        printf("skipped: no device %s\n", device);
    }
    tn_context_destroy(p.ctx);
}

void on_each_device(void (*body)(place *p))
{
    run_on(body, "cpu");
    run_on(body, "reference:0");
}

tn_tensor *make(place *p, tn_dtype dtype, tn_ints sizes, const double *values)
{
    tn_tensor *t = tn_from_data(p->s, TN_FLOAT64, sizes, values, p->device);
    cr_assert_not_null(t);
    t = tn__to_copy(p->s, t, .dtype = dtype);
    cr_assert_not_null(t);
    return t;
}

void expect_sizes(place *p, const tn_tensor *t, tn_ints sizes)
{
    cr_assert_not_null(t, "%s", tn_scope_error(p->s) ? tn_scope_error(p->s)->message : "no tensor");
    cr_assert_eq(tn_tensor_rank(t), sizes.count);
    for (int64_t i = 0; i < sizes.count; i++) cr_assert_eq(tn_tensor_size(t, i), sizes.data[i]);
}

void expect_values(place *p, tn_tensor *t, int64_t count, const double *want, double tolerance)
{
    cr_assert_not_null(t, "%s", tn_scope_error(p->s) ? tn_scope_error(p->s)->message : "no tensor");
    cr_assert_eq(tn_tensor_numel(t), count);
    double *have = calloc((size_t)count, sizeof(double));
    tn_tensor *wide = tn__to_copy(p->s, tn_detach(p->s, t), .dtype = TN_FLOAT64);
    cr_assert_eq(tn_to_host(p->s, wide, have, (uint64_t)count * sizeof(double)), TN_OK);
    for (int64_t i = 0; i < count; i++) {
        int same = have[i] == want[i] || fabs(have[i] - want[i]) <= tolerance * (1 + fabs(want[i]));
        cr_assert(same, "element %lld is %.9g, not %.9g", (long long)i, have[i], want[i]);
    }
    free(have);
}

void expect_error(place *p, const char *part)
{
    cr_assert_neq(tn_scope_failed(p->s), TN_OK, "no error; expected: %s", part);
    cr_assert_not_null(strstr(tn_scope_error(p->s)->message, part), "%s", tn_scope_error(p->s)->message);
    tn_scope_clear(p->s);
}

void expect_text(place *p, const tn_tensor *t, const char *text)
{
    cr_assert_str_eq(tn_format(p->s, t, NULL), text);
}
