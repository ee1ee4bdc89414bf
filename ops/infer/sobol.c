/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of Sobol sequences. The state has a row of 30 direction numbers for each dimension. */
#include "ops/infer/infer.h"

enum { BITS = 30, MAX_DIMENSION = 1111 };

static int32_t check_long(tni_frame *f, const tn_tensor *t, const char *name)
{
    if (dtype_of(t) == TN_INT64) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "%s needs to be of type Long", name);
}

static int32_t check_state(tni_frame *f, const tn_tensor *state, int64_t dimension)
{
    tni_text text;
    TNI_TRY(check_long(f, state, "sobolstate"));
    if (dimension < 1 || dimension > MAX_DIMENSION)
        return tni_fail(f, TN_E_ARGUMENT, "argument 'dimension': expected 1 to %d (got %lld)", MAX_DIMENSION,
                        (long long)dimension);
    if (rank_of(state) == 2 && sizes_of(state)[0] == dimension && sizes_of(state)[1] == BITS) return TN_OK;
    return tni_fail(f, TN_E_SHAPE, "argument 'sobolstate': expected size [%lld, %d] (got %s)",
                    (long long)dimension, BITS, tni_sizes_text(state, &text));
}

/* (quasi or self, n, sobolstate, dimension, num_generated, ...) */
static int32_t check_step(tni_frame *f)
{
    const tn_tensor *quasi = tni_arg_tensor(f, 0);
    int64_t n = tni_arg_int(f, 1), dimension = tni_arg_int(f, 3), generated = tni_arg_int(f, 4);
    tni_text text;
    TNI_TRY(check_long(f, quasi, "quasi"));
    TNI_TRY(check_state(f, tni_arg_tensor(f, 2), dimension));
    if (rank_of(quasi) != 1 || sizes_of(quasi)[0] != dimension)
        return tni_fail(f, TN_E_SHAPE, "argument 'quasi': expected size [%lld] (got %s)",
                        (long long)dimension, tni_sizes_text(quasi, &text));
    if (n < 0 || generated < 0 || n > (INT64_C(1) << BITS) - 1 - generated)
        return tni_fail(f, TN_E_ARGUMENT, "argument 'n': a sequence has %lld points (got %lld after %lld)",
                        (INT64_C(1) << BITS) - 1ll, (long long)n, (long long)generated);
    return TN_OK;
}

int32_t infer_sobol_engine_initialize_state(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    TNI_TRY(check_state(f, self, tni_arg_int(f, 1)));
    return tni_out_like(f, 0, self, 0);
}

int32_t infer_sobol_engine_ff(tni_frame *f)
{
    TNI_TRY(check_step(f));
    return tni_out_like(f, 0, tni_arg_tensor(f, 0), 0);
}

int32_t infer_sobol_engine_draw(tni_frame *f)
{
    tn_dtype dtype = tni_arg_dtype(f, 5);
    const int64_t sizes[] = {tni_arg_int(f, 1), tni_arg_int(f, 3)};
    TNI_TRY(check_step(f));
    if (!dtype) dtype = TN_FLOAT32;
    if (dtype != TN_FLOAT32 && dtype != TN_FLOAT64)
        return tni_fail(f, TN_E_DTYPE, "\"_sobol_engine_draw\" not implemented for '%s'",
                        tni_dtype_error_name(dtype));
    f->keep_dtype = UINT32_MAX;
    TNI_TRY(tni_out(f, 0, dtype, 2, sizes));
    return tni_out(f, 1, TN_INT64, 1, sizes + 1);
}

/* (self, ltm, dimension): ltm has a matrix of bits for each dimension. */
int32_t infer_sobol_engine_scramble(tni_frame *f)
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    const tn_tensor *ltm = tni_arg_tensor(f, 1);
    int64_t dimension = tni_arg_int(f, 2);
    tni_text text;
    TNI_TRY(check_state(f, self, dimension));
    TNI_TRY(check_long(f, ltm, "ltm"));
    if (rank_of(ltm) != 3 || sizes_of(ltm)[0] != dimension || sizes_of(ltm)[1] != BITS ||
        sizes_of(ltm)[2] != BITS)
        return tni_fail(f, TN_E_SHAPE, "argument 'ltm': expected size [%lld, %d, %d] (got %s)",
                        (long long)dimension, BITS, BITS, tni_sizes_text(ltm, &text));
    return tni_out_like(f, 0, self, 0);
}
