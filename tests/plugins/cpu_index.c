/* SPDX-License-Identifier: Apache-2.0 */
/* Gather, scatter and their family on the CPU plugin. */
#include "fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(cpu_index, gather_along_both_dimensions)
{
    float got[4];
    fixture f;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4});
    fixture_tensor i = fixture_tensor_make(&f, TN_INT64, 2, (int64_t[]){2, 2}, (int64_t[]){0, 0, 1, 0});
    fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){2, 2}, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_int(1), fixture_value(&i), tn_value_bool(0)};
    tn_value out = fixture_value(&o);
    cr_assert_eq(fixture_run(&f, "aten::gather", args, 4, &out, 1, NULL), TN_OK);
    fixture_read(&f, &o, got);
    cr_assert_arr_eq(got, ((float[]){1, 1, 4, 3}), 16);
    args[1] = tn_value_int(0);
    cr_assert_eq(fixture_run(&f, "aten::gather", args, 4, &out, 1, NULL), TN_OK);
    fixture_read(&f, &o, got);
    cr_assert_arr_eq(got, ((float[]){1, 2, 3, 2}), 16);
    fixture_close(&f);
}

Test(cpu_index, an_index_outside_is_found_at_every_place)
{
    enum { N = 19 };
    int64_t n = N, three = 3;
    fixture f;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 1, &three, (float[]){1, 2, 3});
    fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, NULL);
    for (int at = 0; at < 2 * N; at++) {
        int64_t index[N] = {0, 2, 1};
        char want[80];
        index[at % N] = at < N ? 3 : -1;
        snprintf(want, sizeof want, "index %lld is out of bounds for dimension 0 with size 3",
                 (long long)index[at % N]);
        fixture_tensor i = fixture_tensor_make(&f, TN_INT64, 1, &n, index);
        tn_value args[] = {fixture_value(&x), tn_value_int(0), fixture_value(&i), tn_value_bool(0)};
        tn_value out = fixture_value(&o);
        cr_assert_eq(fixture_run(&f, "aten::gather", args, 4, &out, 1, NULL), TN_E_INDEX);
        cr_assert_str_eq(f.error_message, want);
        fixture_tensor_free(&f, &i);
    }
    fixture_close(&f);
}

Test(cpu_index, an_index_outside_is_refused_in_atens_words)
{
    int64_t n = 3, one = 1;
    fixture f;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, (float[]){1, 2, 3});
    fixture_tensor i = fixture_tensor_make(&f, TN_INT64, 1, &one, (int64_t[]){5});
    fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT32, 1, &one, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_int(0), fixture_value(&i), tn_value_bool(0)};
    tn_value out = fixture_value(&o);
    cr_assert_eq(fixture_run(&f, "aten::gather", args, 4, &out, 1, NULL), TN_E_INDEX);
    cr_assert_str_eq(f.error_message, "index 5 is out of bounds for dimension 0 with size 3");
    cr_assert_eq(fixture_run(&f, "aten::index_select", args, 3, &out, 1, NULL), TN_E_INDEX);
    cr_assert_str_eq(f.error_message, "index out of range in self: got 5, dimension 0 has size 3");
    tn_tensor *list[] = {args[2].as.tensor};
    tn_value indices[] = {args[0], tn_value_tensors(list, 1)};
    cr_assert_eq(fixture_run(&f, "aten::index.Tensor", indices, 2, &out, 1, NULL), TN_E_INDEX);
    cr_assert_str_eq(f.error_message, "index 5 is out of bounds for dimension 0 with size 3");
    fixture_close(&f);
}

/* Rows that meet at the same place are added in their order, so threads do not change the result. */
Test(cpu_index, index_put_accumulates)
{
    enum { TOKENS = 1000, WIDTH = 40, WORDS = 10 };
    static float rows[TOKENS * WIDTH], got[WORDS * WIDTH];
    static int64_t words[TOKENS];
    int64_t tokens = TOKENS;
    fixture f;
    for (int i = 0; i < TOKENS; i++) {
        words[i] = i % WORDS - (i % 2 ? WORDS : 0); /* negative ones count from the end */
        for (int k = 0; k < WIDTH; k++) rows[i * WIDTH + k] = (float)k;
    }
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){WORDS, WIDTH}, NULL);
    fixture_tensor i = fixture_tensor_make(&f, TN_INT64, 1, &tokens, words);
    fixture_tensor v = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){TOKENS, WIDTH}, rows);
    tn_value self = fixture_value(&x), index = fixture_value(&i), out = self;
    tn_tensor *list[] = {index.as.tensor};
    tn_value args[] = {self, tn_value_tensors(list, 1), fixture_value(&v), tn_value_bool(1),
                       tn_value_bool(0)};
    f.threads = 2;
    cr_assert_eq(fixture_run(&f, "aten::_index_put_impl_", args, 5, &out, 1, NULL), TN_OK);
    fixture_read(&f, &x, got);
    for (int w = 0; w < WORDS; w++)
        for (int k = 0; k < WIDTH; k++) cr_assert_eq(got[w * WIDTH + k], (float)(k * TOKENS / WORDS));
    fixture_close(&f);
}

Test(cpu_index, scatter_reduce_mean_with_and_without_self)
{
    int64_t n = 2, m = 3;
    float got[2];
    fixture f;
    fixture_open(&f);
    for (int include = 0; include < 2; include++) {
        fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 1, &n, (float[]){10, 20});
        fixture_tensor i = fixture_tensor_make(&f, TN_INT64, 1, &m, (int64_t[]){0, 0, 0});
        fixture_tensor s = fixture_tensor_make(&f, TN_FLOAT32, 1, &m, (float[]){1, 2, 3});
        tn_value args[] = {fixture_value(&x), tn_value_int(0),         fixture_value(&i),
                           fixture_value(&s), tn_value_string("mean"), tn_value_bool(include)};
        tn_value out = args[0];
        cr_assert_eq(fixture_run(&f, "aten::scatter_reduce_.two", args, 6, &out, 1, NULL), TN_OK);
        fixture_read(&f, &x, got);
        cr_assert_eq(got[0], include ? 4 : 2);
        cr_assert_eq(got[1], 20);
        fixture_tensor_free(&f, &x);
        fixture_tensor_free(&f, &i);
        fixture_tensor_free(&f, &s);
    }
    fixture_close(&f);
}

Test(cpu_index, cat_flip_and_triangles)
{
    float got[9];
    fixture f;
    fixture_open(&f);
    fixture_tensor a = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){2, 1}, (float[]){1, 2});
    fixture_tensor b = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){2, 2}, (float[]){3, 4, 5, 6});
    fixture_tensor o = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){2, 3}, NULL);
    tn_value out = fixture_value(&o);
    tn_tensor *list[] = {fixture_value(&a).as.tensor, fixture_value(&b).as.tensor};
    tn_value args[] = {tn_value_tensors(list, 2), tn_value_int(-1)};
    cr_assert_eq(fixture_run(&f, "aten::cat", args, 2, &out, 1, NULL), TN_OK);
    fixture_read(&f, &o, got);
    cr_assert_arr_eq(got, ((float[]){1, 3, 4, 2, 5, 6}), 24);
    fixture_tensor p = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){2, 3}, NULL);
    tn_value flipped = fixture_value(&p), flip[] = {out, tn_value_ints((int64_t[]){0, 1}, 2)};
    cr_assert_eq(fixture_run(&f, "aten::flip", flip, 2, &flipped, 1, NULL), TN_OK);
    fixture_read(&f, &p, got);
    cr_assert_arr_eq(got, ((float[]){6, 5, 2, 4, 3, 1}), 24);
    tn_value lower[] = {out, tn_value_int(-1)};
    cr_assert_eq(fixture_run(&f, "aten::tril", lower, 2, &flipped, 1, NULL), TN_OK);
    fixture_read(&f, &p, got);
    cr_assert_arr_eq(got, ((float[]){0, 0, 0, 2, 0, 0}), 24);
    fixture_close(&f);
}

Test(cpu_index, nonzero_sizes_its_result)
{
    int64_t got[4], none = 0;
    fixture f;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 2, (int64_t[]){2, 2}, (float[]){0, 1, -2, 0});
    fixture_tensor o = fixture_tensor_make(&f, TN_INT64, 1, &none, NULL);
    tn_value arg = fixture_value(&x), out = fixture_value(&o);
    cr_assert_eq(fixture_run(&f, "aten::nonzero", &arg, 1, &out, 1, NULL), TN_OK);
    cr_assert_eq(o.desc.rank, 2);
    fixture_read(&f, &o, got);
    cr_assert_arr_eq(got, ((int64_t[]){0, 1, 1, 0}), 32);
    fixture_close(&f);
}
