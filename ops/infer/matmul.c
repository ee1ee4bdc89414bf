/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices and vectors, distances. */
#include <string.h>
#include <tenon/ops.h>
#include "ops/infer/infer.h"

static int32_t check_same_dtype(tni_frame *f, const tn_tensor *a, const tn_tensor *b)
{
    if (dtype_of(a) == dtype_of(b)) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                    tni_dtype_error_name(dtype_of(a)), tni_dtype_error_name(dtype_of(b)));
}

static int32_t check_matrices(tni_frame *f, const tn_tensor *a, const tn_tensor *b)
{
    if (rank_of(a) != 2)
        return tni_fail(f, TN_E_SHAPE, "mat1 must be a matrix, got %u-D tensor", a->desc.rank);
    if (rank_of(b) != 2)
        return tni_fail(f, TN_E_SHAPE, "mat2 must be a matrix, got %u-D tensor", b->desc.rank);
    if (sizes_of(a)[1] != sizes_of(b)[0])
        return tni_fail(f, TN_E_SHAPE, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                        (long long)sizes_of(a)[0], (long long)sizes_of(a)[1], (long long)sizes_of(b)[0],
                        (long long)sizes_of(b)[1]);
    return check_same_dtype(f, a, b);
}

int32_t infer_mm(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0), *b = tni_arg_tensor(f, 1);
    if (rank_of(a) != 2) return tni_fail(f, TN_E_SHAPE, "self must be a matrix");
    TNI_TRY(check_matrices(f, a, b));
    const int64_t sizes[] = {sizes_of(a)[0], sizes_of(b)[1]};
    return tni_out(f, 0, dtype_of(a), 2, sizes);
}

/* The added tensor must expand to the product's shape. */
static int32_t check_added(tni_frame *f, const tn_tensor *self, uint32_t rank, const int64_t *sizes)
{
    tni_text a, b;
    for (int64_t i = 0; i < rank_of(self); i++) {
        int64_t d = (int64_t)rank - rank_of(self) + i, have = sizes_of(self)[i];
        if (d < 0)
            return tni_fail(f, TN_E_SHAPE,
                            "expand(%s, size=%s): the number of sizes provided (%u) must be greater or equal "
                            "to the number of dimensions in the tensor (%u)",
                            tni_sizes_text(self, &a), tni_list_text((tn_ints){sizes, rank}, &b), rank,
                            self->desc.rank);
        if (have != 1 && have != sizes[d])
            return tni_fail(f, TN_E_SHAPE,
                            "The expanded size of the tensor (%lld) must match the existing size (%lld) at "
                            "non-singleton dimension %lld.  Target sizes: %s.  Tensor sizes: %s",
                            (long long)sizes[d], (long long)have, (long long)d,
                            tni_list_text((tn_ints){sizes, rank}, &b), tni_sizes_text(self, &a));
    }
    return TN_OK;
}

int32_t infer_addmm(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *a = tni_arg_tensor(f, 1), *b = tni_arg_tensor(f, 2);
    TNI_TRY(check_matrices(f, a, b));
    if (dtype_of(self) != dtype_of(a))
        return tni_fail(f, TN_E_DTYPE, "self and mat2 must have the same dtype, but got %s and %s",
                        tni_dtype_error_name(dtype_of(self)), tni_dtype_error_name(dtype_of(a)));
    const int64_t sizes[] = {sizes_of(a)[0], sizes_of(b)[1]};
    TNI_TRY(check_added(f, self, 2, sizes));
    TNI_TRY(tni_check_scalars(f, wide_dtype(dtype_of(self))));
    return tni_out(f, 0, dtype_of(self), 2, sizes);
}

static int32_t check_scalar_types(tni_frame *f, const tn_tensor *a, const tn_tensor *b)
{
    if (dtype_of(a) == dtype_of(b)) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "expected scalar type %s but found %s", tni_dtype_error_name(dtype_of(a)),
                    tni_dtype_error_name(dtype_of(b)));
}

static int32_t check_batches(tni_frame *f, const tn_tensor *a, const tn_tensor *b)
{
    if (rank_of(a) != 3) return tni_fail(f, TN_E_SHAPE, "batch1 must be a 3D tensor");
    if (rank_of(b) != 3) return tni_fail(f, TN_E_SHAPE, "batch2 must be a 3D tensor");
    if (sizes_of(a)[0] != sizes_of(b)[0] || sizes_of(a)[2] != sizes_of(b)[1])
        return tni_fail(f, TN_E_SHAPE,
                        "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but "
                        "got: [%lld, %lld].",
                        (long long)sizes_of(a)[0], (long long)sizes_of(a)[2], (long long)sizes_of(b)[0],
                        (long long)sizes_of(b)[1]);
    return check_scalar_types(f, a, b);
}

int32_t infer_bmm(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0), *b = tni_arg_tensor(f, 1);
    TNI_TRY(check_batches(f, a, b));
    const int64_t sizes[] = {sizes_of(a)[0], sizes_of(a)[1], sizes_of(b)[2]};
    return tni_out(f, 0, dtype_of(a), 3, sizes);
}

int32_t infer_baddbmm(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *a = tni_arg_tensor(f, 1), *b = tni_arg_tensor(f, 2);
    TNI_TRY(check_batches(f, a, b));
    if (dtype_of(self) != dtype_of(a))
        return tni_fail(f, TN_E_DTYPE,
                        "Input dtypes must be the same, got: input: %s, batch1: %s, batch2: %s",
                        tni_dtype_error_name(dtype_of(self)), tni_dtype_error_name(dtype_of(a)),
                        tni_dtype_error_name(dtype_of(b)));
    const int64_t sizes[] = {sizes_of(a)[0], sizes_of(a)[1], sizes_of(b)[2]};
    TNI_TRY(check_added(f, self, 3, sizes));
    TNI_TRY(tni_check_scalars(f, wide_dtype(dtype_of(self))));
    return tni_out(f, 0, dtype_of(self), 3, sizes);
}

static int32_t check_matrix_vector(tni_frame *f, const tn_tensor *m, const tn_tensor *v)
{
    if (rank_of(m) != 2 || rank_of(v) != 1)
        return tni_fail(f, TN_E_SHAPE, "vector + matrix @ vector expected, got 1, %u, %u", m->desc.rank,
                        v->desc.rank);
    if (sizes_of(m)[1] != sizes_of(v)[0])
        return tni_fail(f, TN_E_SHAPE, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                        (long long)sizes_of(m)[0], (long long)sizes_of(m)[0], (long long)sizes_of(m)[1],
                        (long long)sizes_of(v)[0]);
    return check_scalar_types(f, m, v);
}

int32_t infer_mv(tni_frame *f)
{
    const tn_tensor *m = tni_arg_tensor(f, 0);
    TNI_TRY(check_matrix_vector(f, m, tni_arg_tensor(f, 1)));
    return tni_out(f, 0, dtype_of(m), 1, sizes_of(m));
}

int32_t infer_addmv(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *m = tni_arg_tensor(f, 1);
    TNI_TRY(check_matrix_vector(f, m, tni_arg_tensor(f, 2)));
    if (rank_of(self) > 1 || (self->numel != 1 && self->numel != sizes_of(m)[0]))
        return tni_fail(f, TN_E_SHAPE, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                        (long long)self->numel, (long long)sizes_of(m)[0], (long long)sizes_of(m)[1],
                        (long long)sizes_of(m)[1]);
    if (dtype_of(self) != dtype_of(m))
        return tni_fail(f, TN_E_DTYPE, "addmv input tensors must have the same dtype, but got %s, %s, and %s",
                        tni_dtype_error_name(dtype_of(self)), tni_dtype_error_name(dtype_of(m)),
                        tni_dtype_error_name(dtype_of(m)));
    TNI_TRY(tni_check_scalars(f, dtype_of(self)));
    return tni_out(f, 0, dtype_of(self), 1, sizes_of(m));
}

/* dot, vdot. */
int32_t infer_dot(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0), *b = tni_arg_tensor(f, 1);
    if (rank_of(a) != 1 || rank_of(b) != 1)
        return tni_fail(f, TN_E_SHAPE, "1D tensors expected, but got %uD and %uD tensors", a->desc.rank,
                        b->desc.rank);
    if (dtype_of(a) != dtype_of(b))
        return tni_fail(f, TN_E_DTYPE, "dot : expected both vectors to have same dtype, but found %s and %s",
                        tni_dtype_error_name(dtype_of(a)), tni_dtype_error_name(dtype_of(b)));
    if (a->numel != b->numel)
        return tni_fail(f, TN_E_SHAPE,
                        "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same "
                        "number of elements, but got %lld and %lld elements respectively",
                        (long long)a->numel, (long long)b->numel, (long long)a->numel, (long long)b->numel);
    return tni_out(f, 0, dtype_of(a), 0, NULL);
}

/*
 * linear (input, weight, bias): input @ weight.T + bias over the last dimension. A 1-D weight removes the
 * dimension.
 */
int32_t infer_linear(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 0), *weight = tni_arg_tensor(f, 1),
                    *bias = tni_arg_tensor(f, 2);
    int64_t rank = rank_of(input), sizes[TN_MAX_RANK], out = rank_of(weight) == 2 ? sizes_of(weight)[0] : 1;
    if (rank_of(weight) != 1 && rank_of(weight) != 2)
        return tni_fail(f, TN_E_SHAPE, "weight must have 1 or 2 dimensions, got %u", weight->desc.rank);
    if (rank == 0)
        return tni_fail(f, TN_E_SHAPE,
                        "both arguments to linear need to be at least 1D, but they are 0D and %uD",
                        weight->desc.rank);
    if (sizes_of(input)[rank - 1] != sizes_of(weight)[rank_of(weight) - 1])
        return tni_fail(f, TN_E_SHAPE, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                        (long long)tni_product(sizes_of(input), 0, rank - 1),
                        (long long)sizes_of(input)[rank - 1],
                        (long long)sizes_of(weight)[rank_of(weight) - 1], (long long)out);
    if (dtype_of(input) != dtype_of(weight))
        return tni_fail(f, TN_E_DTYPE, "mat1 and mat2 must have the same dtype, but got %s and %s",
                        tni_dtype_error_name(dtype_of(input)), tni_dtype_error_name(dtype_of(weight)));
    if (bias && dtype_of(bias) != dtype_of(weight))
        return tni_fail(f, TN_E_DTYPE, "self and mat2 must have the same dtype, but got %s and %s",
                        tni_dtype_error_name(dtype_of(bias)), tni_dtype_error_name(dtype_of(weight)));
    memcpy(sizes, sizes_of(input), (size_t)rank * sizeof(int64_t));
    if (rank_of(weight) == 2)
        sizes[rank - 1] = out;
    else
        rank--;
    if (bias) TNI_TRY(check_added(f, bias, (uint32_t)rank, sizes));
    return tni_out(f, 0, dtype_of(input), (uint32_t)rank, sizes);
}

/* linalg_cross (self, other, dim): broadcast. */
int32_t infer_linalg_cross(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0), *b = tni_arg_tensor(f, 1);
    tni_promotion p = {0};
    tni_shape shape = {.rank = 0};
    int64_t dim;
    if (rank_of(a) != rank_of(b))
        return tni_fail(f, TN_E_SHAPE, "linalg.cross: inputs must have the same number of dimensions.");
    TNI_TRY(tni_arg_dim(f, 2, rank_of(a), &dim));
    if (rank_of(a) == 0 || sizes_of(a)[dim] != 3 || sizes_of(b)[dim] != 3)
        return tni_fail(f, TN_E_SHAPE,
                        "linalg.cross: inputs dimension %lld must have length 3. Got %lld and %lld",
                        (long long)dim, (long long)(rank_of(a) ? sizes_of(a)[dim] : 1),
                        (long long)(rank_of(b) ? sizes_of(b)[dim] : 1));
    TNI_TRY(tni_broadcast(&shape, a->desc.rank, sizes_of(a)));
    TNI_TRY(tni_broadcast(&shape, b->desc.rank, sizes_of(b)));
    tni_promotion_add(&p, dtype_of(a), 0, 0);
    tni_promotion_add(&p, dtype_of(b), 0, 0);
    f->call_dtype = tni_promotion_result(&p, tni_default_dtype(f->ctx));
    return tni_out(f, 0, f->call_dtype, shape.rank, shape.sizes);
}

/* ---- distances ---- */

/* _cdist_forward (x1, x2, p, mode): batches broadcast, rows against rows. */
int32_t infer_cdist(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0), *b = tni_arg_tensor(f, 1);
    int64_t ra = rank_of(a), rb = rank_of(b);
    tni_shape shape = {.rank = 0};
    if (ra < 2 || rb < 2)
        return tni_fail(f, TN_E_SHAPE, "cdist only supports at least 2D tensors, X1 got: %lldD",
                        (long long)ra);
    if (sizes_of(a)[ra - 1] != sizes_of(b)[rb - 1])
        return tni_fail(f, TN_E_SHAPE, "X1 and X2 must have the same number of columns. X1: %lld X2: %lld",
                        (long long)sizes_of(a)[ra - 1], (long long)sizes_of(b)[rb - 1]);
    TNI_TRY(tni_check_dtype_like(f, 1, a));
    if (!(tni_arg_float(f, 2) >= 0))
        return tni_fail(f, TN_E_ARGUMENT, "cdist only supports non-negative p values");
    int64_t mode = f->args[3].tag == TN_TAG_NONE ? 0 : tni_arg_int(f, 3);
    if (mode < 0 || mode > 2)
        return tni_fail(f, TN_E_ARGUMENT, "possible modes: 0, 1, 2, but was: %lld", (long long)mode);
    TNI_TRY(tni_broadcast(&shape, (uint32_t)ra - 2, sizes_of(a)));
    TNI_TRY(tni_broadcast(&shape, (uint32_t)rb - 2, sizes_of(b)));
    shape.sizes[shape.rank++] = sizes_of(a)[ra - 2];
    shape.sizes[shape.rank++] = sizes_of(b)[rb - 2];
    return tni_out(f, 0, dtype_of(a), shape.rank, shape.sizes);
}

/* _cdist_backward (grad, x1, x2, p, cdist): the gradient of x1, broadcast over the batches of both. */
int32_t infer_cdist_backward(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 1), *b = tni_arg_tensor(f, 2);
    tni_shape shape = {.rank = 0};
    if (rank_of(a) < 2 || rank_of(b) < 2)
        return tni_fail(f, TN_E_SHAPE, "cdist only supports at least 2D tensors");
    if (sizes_of(a)[rank_of(a) - 1] != sizes_of(b)[rank_of(b) - 1])
        return tni_fail(f, TN_E_SHAPE, "X1 and X2 must have the same number of columns. X1: %lld X2: %lld",
                        (long long)sizes_of(a)[rank_of(a) - 1], (long long)sizes_of(b)[rank_of(b) - 1]);
    for (uint32_t i = 0; i < 5; i += i == 2 ? 2 : 1) TNI_TRY(tni_check_dtype_like(f, i, a));
    TNI_TRY(tni_broadcast(&shape, a->desc.rank - 2, sizes_of(a)));
    TNI_TRY(tni_broadcast(&shape, b->desc.rank - 2, sizes_of(b)));
    shape.sizes[shape.rank++] = sizes_of(a)[rank_of(a) - 2];
    shape.sizes[shape.rank++] = sizes_of(b)[rank_of(b) - 2];
    TNI_TRY(tni_check_sizes(f, 0, shape.rank, shape.sizes));
    TNI_TRY(tni_check_sizes(f, 4, shape.rank, shape.sizes));
    shape.sizes[shape.rank - 1] = sizes_of(a)[rank_of(a) - 1];
    return tni_out(f, 0, dtype_of(a), shape.rank, shape.sizes);
}

/* The number of pairs of rows. */
static int32_t count_pairs(tni_frame *f, const tn_tensor *self, int64_t *out)
{
    if (rank_of(self) != 2)
        return tni_fail(f, TN_E_SHAPE, "pdist only supports 2D tensors, got: %uD", self->desc.rank);
    int64_t n = sizes_of(self)[0];
    *out = n > 1 ? n * (n - 1) / 2 : 0;
    return TN_OK;
}

int32_t infer_pdist(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t count;
    TNI_TRY(count_pairs(f, self, &count));
    return tni_out(f, 0, dtype_of(self), 1, &count);
}

/* _pdist_backward (grad, self, p, pdist). */
int32_t infer_pdist_backward(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 1);
    int64_t count;
    TNI_TRY(count_pairs(f, self, &count));
    for (uint32_t i = 0; i < 4; i += 3) {
        TNI_TRY(tni_check_dtype_like(f, i, self));
        TNI_TRY(tni_check_sizes(f, i, 1, &count));
    }
    return tni_out_like(f, 0, self, 0);
}

/* ---- products with packed weights ---- */

static int32_t check_packed_input(tni_frame *f, const tn_tensor *a, const tn_tensor *scales, const char *who)
{
    if (!is_float(dtype_of(a)) || dtype_of(a) == TN_FLOAT64)
        return tni_fail(f, TN_E_DTYPE, "%s : expect A to be either 32-bit or 16-bit float tensor.", who);
    if (rank_of(a) != 2) return tni_fail(f, TN_E_SHAPE, "%s : expect A to be a matrix", who);
    return check_scalar_types(f, a, scales);
}

/* _weight_int8pack_mm (self, mat2, scales). */
int32_t infer_weight_int8pack_mm(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0), *b = tni_arg_tensor(f, 1), *scales = tni_arg_tensor(f, 2);
    const char *who = "_weight_int8pack_mm_cpu";
    if (dtype_of(b) != TN_INT8) return tni_fail(f, TN_E_DTYPE, "%s : expect B to be int8 tensor.", who);
    TNI_TRY(check_packed_input(f, a, scales, who));
    if (rank_of(b) != 2 || sizes_of(b)[1] != sizes_of(a)[1])
        return tni_fail(f, TN_E_SHAPE, "%s : expect B.size(1) == %lld", who, (long long)sizes_of(a)[1]);
    if (rank_of(scales) != 1 || sizes_of(scales)[0] != sizes_of(b)[0])
        return tni_fail(f, TN_E_SHAPE, "%s : expect scales to be 1d tensor with size %lld", who,
                        (long long)sizes_of(b)[0]);
    const int64_t sizes[] = {sizes_of(a)[0], sizes_of(b)[0]};
    f->keep_dtype = UINT32_MAX;
    return tni_out(f, 0, dtype_of(a), 2, sizes);
}

/* _convert_weight_to_int4pack_for_cpu (self, innerKTiles): two integers in a byte. */
int32_t infer_convert_weight_to_int4pack(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    const char *who = "_convert_weight_to_int4pack_cpu";
    if (dtype_of(self) != TN_INT32) return tni_fail(f, TN_E_DTYPE, "%s : expect weight to be kInt.", who);
    if (rank_of(self) != 2) return tni_fail(f, TN_E_SHAPE, "%s : expect weight to be 2D tensor.", who);
    if (sizes_of(self)[0] % 16) return tni_fail(f, TN_E_SHAPE, "%s : expect N to be dividable by 16", who);
    if (sizes_of(self)[1] % 2)
        return tni_fail(f, TN_E_SHAPE, "_convert_weight_to_int4pack: expect K to be dividable by 2");
    const int64_t sizes[] = {sizes_of(self)[0], sizes_of(self)[1] / 2};
    f->keep_dtype = UINT32_MAX;
    return tni_out(f, 0, TN_UINT8, 2, sizes);
}

/* _weight_int4pack_mm_for_cpu (self, mat2, qGroupSize, qScaleAndZeros). */
int32_t infer_weight_int4pack_mm(tni_frame *f)
{
    const tn_tensor *a = tni_arg_tensor(f, 0), *b = tni_arg_tensor(f, 1), *scales = tni_arg_tensor(f, 3);
    const char *who = "_weight_int4pack_mm_cpu";
    int64_t group = tni_arg_int(f, 2);
    if (dtype_of(b) != TN_UINT8 || rank_of(b) != 2)
        return tni_fail(f, TN_E_DTYPE, "%s : expect B to be a uint8 matrix.", who);
    TNI_TRY(check_packed_input(f, a, scales, who));
    int64_t k = sizes_of(a)[1], n = sizes_of(b)[0];
    if (sizes_of(b)[1] * 2 != k)
        return tni_fail(f, TN_E_SHAPE, "%s : expect B.size(1) to be K/2, got %lld", who,
                        (long long)sizes_of(b)[1]);
    if (group != 32 && group != 64 && group != 128 && group != 256)
        return tni_fail(f, TN_E_ARGUMENT, "%s: expect qGroupSize to be 32, 64, 128 or 256, got %lld", who,
                        (long long)group);
    if (k % group)
        return tni_fail(f, TN_E_SHAPE,
                        "%s: expect K to be divisible by qGroupSize, got K:%lld, qGroupSize:%lld", who,
                        (long long)k, (long long)group);
    if (rank_of(scales) != 3 || sizes_of(scales)[0] < k / group || sizes_of(scales)[1] != n ||
        sizes_of(scales)[2] != 2)
        return tni_fail(f, TN_E_SHAPE, "%s: expect qScaleAndZeros to be 3d tensor with sizes [:, %lld, 2]",
                        who, (long long)n);
    const int64_t sizes[] = {sizes_of(a)[0], n};
    f->keep_dtype = UINT32_MAX;
    return tni_out(f, 0, dtype_of(a), 2, sizes);
}
