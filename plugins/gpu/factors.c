/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factors of matrices and what is solved with them: the vendor's library works in place, on column-major matrices one after the
 * other. The family has no kernels for it; without a library these calls are the CPU's. Libraries do not say that their work can be
 * captured, so no graph has it.
 */
#include "gpu.h"

#include <stdio.h>

static uint64_t size_from_end(const tn_tensor_desc *t, uint32_t i)
{
    return t->rank > i ? (uint64_t)t->sizes[t->rank - 1 - i] : 1;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t batches_of(const tn_tensor_desc *t)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d + 2 < t->rank; d++) n *= (uint64_t)t->sizes[d];
    return n;
}

/* ---- Matrices in column-major order ------------------------------------------------------------------------- */

/* Sizes of a batch of matrices, or of vectors. */
typedef struct shape {
    uint32_t rank;
    const int64_t *sizes;
} shape;

static shape shape_of(const tn_tensor_desc *t)
{
    return (shape){t->rank, t->sizes};
}

/*
 * The nest of a copy. Operand `packed`, 0 or 1, is memory without gaps, where columns of a matrix are contiguous, or rows if
 * `is_row_major`; the other one is t, broadcast to the shape.
 */
static gpu_nest nest_of(shape s, const tn_tensor_desc *t, uint32_t packed, int32_t is_row_major,
                        uint64_t offset)
{
    gpu_nest n = {.rank = s.rank, .numel = 1};
    int64_t stride = gpu_bytes(t->dtype);
    for (uint32_t d = 0; d < s.rank; d++) {
        n.sizes[d] = (uint32_t)s.sizes[s.rank - 1 - d];
        n.numel *= n.sizes[d];
    }
    for (uint32_t i = 0; i < s.rank; i++) {
        uint32_t d = i < 2 && !is_row_major ? 1 - i : i;
        n.strides[packed][d] = stride;
        stride *= n.sizes[d];
    }
    gpu_nest_add(&n, 1 - packed, t);
    n.offsets[packed] = (int64_t)offset;
    n.dtypes[packed] = n.dtypes[1 - packed];
    return n;
}

static int32_t pack(const tn_call *call, gpu_place to, shape s, const tn_tensor_desc *from,
                    int32_t is_row_major)
{
    gpu_nest n = nest_of(s, from, 0, is_row_major, to.offset);
    return gpu_move_elements(call, &n, to.memory, from->allocation, gpu_bytes(from->dtype));
}

static int32_t unpack(const tn_call *call, const tn_tensor_desc *to, gpu_place from, int32_t is_row_major)
{
    gpu_nest n = nest_of(shape_of(to), to, 1, is_row_major, from.offset);
    return gpu_move_elements(call, &n, to->allocation, from.memory, gpu_bytes(to->dtype));
}

static int32_t is_column_major(const tn_tensor_desc *t)
{
    int64_t stride = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        uint32_t d = t->rank - 1 - (i < 2 ? 1 - i : i);
        if (t->sizes[d] != 1 && t->strides[d] != stride) return 0;
        stride *= t->sizes[d];
    }
    return 1;
}

/* Where the library works on a result: its own memory if the order is right, else a workspace. */
static int32_t place_of(const tn_call *call, const tn_tensor_desc *t, int32_t is_row_major, gpu_place *out)
{
    *out = (gpu_place){t->allocation, t->byte_offset};
    if (!is_row_major && is_column_major(t)) return TN_OK;
    return gpu_workspace(call, gpu_numel(t) * gpu_bytes(t->dtype), &out->memory, &out->offset);
}

static int32_t store(const tn_call *call, const tn_tensor_desc *t, gpu_place from, int32_t is_row_major)
{
    int32_t is_own = from.memory == t->allocation && from.offset == t->byte_offset && !is_row_major;
    return is_own ? TN_OK : unpack(call, t, from, is_row_major);
}

/* ---- Calls of the library ----------------------------------------------------------------------------------- */

static int32_t factor(const tn_call *call, const gpu_factors *f)
{
    const gpu_device *d = gpu_device_of(call);
    int32_t status = gpu_the_driver.status(d->handle);
    if (!status) status = gpu_the_driver.libraries->factor(d->handle, gpu_stream_of(call)->queue, call, f);
    return status ? status : gpu_queued(call);
}

static gpu_factors factors_of(uint32_t kind, const tn_tensor_desc *matrices)
{
    return (gpu_factors){.kind = kind,
                         .dtype = (uint32_t)gpu_dtype(matrices->dtype),
                         .rows = size_from_end(matrices, 1),
                         .columns = size_from_end(matrices, 0),
                         .batches = batches_of(matrices)};
}

/* What a call asks for, without memory. The arguments are those of the functions below. */
static gpu_factors describe(const tn_call *call, uint32_t kind)
{
    gpu_factors f = factors_of(kind, gpu_tensor(call->args[0]));
    const uint64_t rows = f.rows, columns = f.columns;
    f.count = least(rows, columns);
    switch (kind) {
    case GPU_FACTOR_CHOLESKY:
        f.is_upper = (uint32_t)tn_value_as_bool(call->args[1]);
        break;
    case GPU_FACTOR_REFLECTORS:
        f.count = size_from_end(gpu_tensor(call->args[1]), 0);
        break;
    case GPU_FACTOR_EIGENVALUES:
        f.is_upper = call->args[1].as.string[0] == 'U' || call->args[1].as.string[0] == 'u';
        f.wants_vectors = (uint32_t)tn_value_as_bool(call->args[2]);
        break;
    case GPU_FACTOR_SINGULAR: /* of a wide matrix the transpose */
        f.wants_vectors = (uint32_t)tn_value_as_bool(call->args[2]);
        f.rows = rows < columns ? columns : rows;
        f.columns = f.count;
        f.right_sides = tn_value_as_bool(call->args[1]) ? f.rows : f.columns;
        break;
    default:
        break;
    }
    return f;
}

/* Infos that no result has room for. */
static int32_t spare_infos(const tn_call *call, gpu_factors *f)
{
    return gpu_workspace(call, f->batches * sizeof(int32_t), &f->infos.memory, &f->infos.offset);
}

/*
 * Work in place: `in` is copied to f->a, and the library changes it. `extra` (pivots, reflectors, eigenvalues) and
 * `infos` are results, too; NULL: they are not.
 */
static int32_t run(const tn_call *call, gpu_factors *f, const tn_tensor_desc *in, int32_t is_row_major,
                   const tn_tensor_desc *extra, const tn_tensor_desc *infos)
{
    gpu_contiguous of_extra = {0}, of_infos = {0};
    int32_t status = extra ? gpu_contiguous_begin(call, extra, &of_extra) : TN_OK;
    if (!status) status = infos ? gpu_contiguous_begin(call, infos, &of_infos) : spare_infos(call, f);
    if (status) return status;
    if (extra) f->extra = (gpu_place){of_extra.memory, (uint64_t)of_extra.offset};
    if (infos) f->infos = (gpu_place){of_infos.memory, (uint64_t)of_infos.offset};
    status = pack(call, f->a, shape_of(in), in, is_row_major);
    if (!status) status = factor(call, f);
    if (!status && extra) status = gpu_contiguous_end(call, &of_extra);
    return !status && infos ? gpu_contiguous_end(call, &of_infos) : status;
}

/* ---- Cholesky ----------------------------------------------------------------------------------------------- */

/* Zeroes rectangles of `rows` by `columns` in every batch: `count` of them, `step` rows and columns after each other. */
typedef struct rectangles {
    uint64_t row, column, rows, columns, count, step;
} rectangles;

static int32_t clear(const tn_call *call, const gpu_factors *f, rectangles r, gpu_place zero)
{
    const int64_t bytes = gpu_code_bytes(f->dtype), n = (int64_t)f->columns;
    gpu_nest nest = {
        .rank = 4,
        .sizes = {(uint32_t)r.rows, (uint32_t)r.columns, (uint32_t)r.count, (uint32_t)f->batches},
        .numel = (uint32_t)(r.rows * r.columns * r.count * f->batches),
        .strides = {{bytes, n * bytes, (int64_t)r.step * (n + 1) * bytes, n * n * bytes}},
        .dtypes = {f->dtype, f->dtype}};
    nest.offsets[0] = (int64_t)f->a.offset + ((int64_t)r.row + (int64_t)r.column * n) * bytes;
    nest.offsets[1] = (int64_t)zero.offset;
    return nest.numel ? gpu_move_elements(call, &nest, f->a.memory, zero.memory, (uint32_t)bytes) : TN_OK;
}

/*
 * Zeroes the triangle that the factor does not use, without the diagonal: squares beside it of 1, 2, 4, ... elements a side, and
 * what is left of the last one of each size.
 */
static int32_t clear_other_side(const tn_call *call, const gpu_factors *f)
{
    static const uint64_t nothing[2] = {0, 0};
    const uint64_t n = f->columns;
    gpu_place zero;
    int32_t status = gpu_workspace(call, sizeof nothing, &zero.memory, &zero.offset);
    if (!status)
        status = gpu_the_driver.fill(gpu_device_of(call)->handle, gpu_stream_of(call)->queue, zero.memory,
                                     zero.offset, sizeof nothing, nothing, sizeof nothing);
    for (uint64_t side = 1; side < n && !status; side *= 2) {
        const uint64_t whole = n / (2 * side), rest = n % (2 * side);
        const uint64_t last = rest > side ? rest - side : 0, at = whole * 2 * side;
        rectangles all = {0, side, side, side, whole, 2 * side}, part = {at, at + side, side, last, 1, 0};
        if (f->is_upper) {
            all.row = side, all.column = 0;
            part = (rectangles){at + side, at, last, side, 1, 0};
        }
        status = clear(call, f, all, zero);
        if (!status) status = clear(call, f, part, zero);
    }
    return status;
}

/* linalg_cholesky_ex(self, upper, check_errors) -> L, info */
static int32_t cholesky(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    gpu_factors f = describe(call, GPU_FACTOR_CHOLESKY);
    int32_t status = place_of(call, out, 0, &f.a);
    if (status) return status;
    status = run(call, &f, gpu_tensor(call->args[0]), 0, NULL, gpu_tensor(call->outs[1]));
    if (!status) status = clear_other_side(call, &f);
    return status ? status : store(call, out, f.a, 0);
}

/* ---- LU, QR ------------------------------------------------------------------------------------------------- */

/* linalg_lu_factor_ex(A, pivot, check_errors) -> LU, pivots, info; geqrf(self) -> a, tau */
static int32_t factor_with_extra(const tn_call *call, uint32_t kind, const tn_tensor_desc *infos)
{
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    gpu_factors f = describe(call, kind);
    int32_t status = place_of(call, out, 0, &f.a);
    if (status) return status;
    status = run(call, &f, gpu_tensor(call->args[0]), 0, gpu_tensor(call->outs[1]), infos);
    return status ? status : store(call, out, f.a, 0);
}

static int32_t lu_factor(void *self, const tn_call *call)
{
    return factor_with_extra(call, GPU_FACTOR_LU, gpu_tensor(call->outs[2]));
}

static int32_t qr_factor(void *self, const tn_call *call)
{
    return factor_with_extra(call, GPU_FACTOR_QR, NULL);
}

/* Vectors that the library reads, one for each matrix. */
static int32_t read_extra(const tn_call *call, const tn_tensor_desc *t, shape s, gpu_factors *f)
{
    int32_t status =
        gpu_workspace(call, f->batches * f->count * gpu_bytes(t->dtype), &f->extra.memory, &f->extra.offset);
    return status ? status : pack(call, f->extra, s, t, 1);
}

/* linalg_householder_product(input, tau) */
static int32_t householder_product(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]), *tau = gpu_tensor(call->args[1]);
    gpu_factors f = describe(call, GPU_FACTOR_REFLECTORS);
    int32_t status = place_of(call, out, 0, &f.a);
    if (status) return status;
    status = read_extra(call, tau, shape_of(tau), &f);
    if (!status) status = run(call, &f, gpu_tensor(call->args[0]), 0, NULL, NULL);
    return status ? status : store(call, out, f.a, 0);
}

/* ---- Systems of equations ----------------------------------------------------------------------------------- */

/*
 * linalg_lu_solve(LU, pivots, B, left, adjoint): A X = B, or X A = B, which is A' X' = B'. Right sides are columns; in the
 * second form they are the rows of B.
 */
static int32_t lu_solve(void *self, const tn_call *call)
{
    const tn_tensor_desc *lu = gpu_tensor(call->args[0]), *pivots = gpu_tensor(call->args[1]);
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    const int32_t is_left = tn_value_as_bool(call->args[3]), is_adjoint = tn_value_as_bool(call->args[4]);
    const uint64_t n = size_from_end(lu, 0);
    int64_t sizes[TN_MAX_RANK];
    gpu_place a, b;
    memcpy(sizes, out->sizes, out->rank * sizeof *sizes);
    sizes[out->rank - 1] = sizes[out->rank - 2] = (int64_t)n;
    int32_t status = place_of(call, out, !is_left, &b);
    if (!status)
        status = gpu_workspace(call, batches_of(out) * n * n * gpu_bytes(lu->dtype), &a.memory, &a.offset);
    if (status) return status;
    gpu_factors f = factors_of(GPU_FACTOR_SOLVE, out);
    f.a = a;
    f.rows = f.columns = f.count = n;
    f.right_sides = size_from_end(out, is_left ? 0 : 1);
    f.is_transposed = (uint32_t)(is_left == is_adjoint);
    f.b = b;
    status = read_extra(call, pivots, (shape){out->rank - 1, sizes}, &f);
    if (!status) status = spare_infos(call, &f);
    if (!status) status = pack(call, a, (shape){out->rank, sizes}, lu, 0);
    if (!status) status = pack(call, b, shape_of(out), gpu_tensor(call->args[2]), !is_left);
    if (!status) status = factor(call, &f);
    return status ? status : store(call, out, b, !is_left);
}

/* ---- Eigenvalues -------------------------------------------------------------------------------------------- */

/* Waits for the infos: there is no result that could say that a matrix has failed. */
static int32_t check_infos(const tn_call *call, const gpu_factors *f, const char *name, const char *repeated)
{
    const gpu_device *d = gpu_device_of(call);
    void *queue = gpu_stream_of(call)->queue;
    for (uint64_t first = 0; first < f->batches; first += 256) {
        int32_t infos[256];
        const uint64_t count = least(f->batches - first, 256);
        char where[48] = "";
        int32_t status = gpu_the_driver.read(d->handle, queue, infos, f->infos.memory,
                                             f->infos.offset + first * sizeof *infos, count * sizeof *infos);
        if (!status) status = gpu_the_driver.queue_finish(d->handle, queue);
        if (status) return status;
        for (uint64_t i = 0; i < count; i++) {
            if (!infos[i]) continue;
            if (gpu_tensor(call->args[0])->rank > 2)
                snprintf(where, sizeof where, "(Batch element %llu): ", (unsigned long long)(first + i));
            return gpu_error(
                d->plugin, TN_E_ARGUMENT,
                "%s: %sThe algorithm failed to converge because the input matrix is ill-conditioned or has "
                "too many repeated %s (error code: %d).",
                name, where, repeated, (int)infos[i]);
        }
    }
    return TN_OK;
}

/* _linalg_eigh(A, UPLO, compute_v) -> eigenvalues, eigenvectors */
static int32_t eigenvalues(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *out = gpu_tensor(call->outs[1]);
    const uint64_t bytes = gpu_numel(in) * gpu_bytes(in->dtype);
    gpu_factors f = describe(call, GPU_FACTOR_EIGENVALUES);
    int32_t status =
        f.wants_vectors ? place_of(call, out, 0, &f.a) : gpu_workspace(call, bytes, &f.a.memory, &f.a.offset);
    if (status) return status;
    status = run(call, &f, in, 0, gpu_tensor(call->outs[0]), NULL);
    if (!status) status = check_infos(call, &f, "linalg.eigh", "eigenvalues");
    return status || !f.wants_vectors ? status : store(call, out, f.a, 0);
}

/*
 * _linalg_svd(A, full_matrices, compute_uv, driver) -> U, S, Vh. The library wants at least as many rows as columns, so of a wide
 * matrix it gets the transpose: then its left vectors are the rows of Vh, and its right ones the columns of U.
 */
static int32_t singular_values(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]);
    const uint64_t m = size_from_end(in, 1), n = size_from_end(in, 0), bytes = gpu_bytes(in->dtype);
    const int32_t is_wide = m < n;
    const tn_tensor_desc *left = gpu_tensor(call->outs[is_wide ? 2 : 0]),
                         *right = gpu_tensor(call->outs[is_wide ? 0 : 2]);
    gpu_factors f = describe(call, GPU_FACTOR_SINGULAR);
    int32_t status = gpu_workspace(call, gpu_numel(in) * bytes, &f.a.memory, &f.a.offset);
    if (status) return status;
    if (f.wants_vectors) {
        status = place_of(call, left, is_wide, &f.b);
        if (!status) status = place_of(call, right, is_wide, &f.c);
    }
    if (!status) status = run(call, &f, in, is_wide, gpu_tensor(call->outs[1]), NULL);
    if (!status) status = check_infos(call, &f, "linalg.svd", "singular values");
    if (status || !f.wants_vectors) return status;
    status = store(call, left, f.b, is_wide);
    return status ? status : store(call, right, f.c, is_wide);
}

/* ---- Rows --------------------------------------------------------------------------------------------------- */

/* The library is asked last, since its answer takes longest. */
static const char *can_factor(void *self, const tn_call *call, uint32_t kind)
{
    const gpu_device *d = gpu_device_of(call);
    const gpu_library_driver *libraries = gpu_the_driver.libraries;
    if (gpu_stream_capture(gpu_stream_of(call))) return "libraries for factors of matrices are not captured";
    if (__atomic_load_n(&d->plugin->no_libraries, __ATOMIC_RELAXED)) return "libraries are switched off";
    if (!libraries || !libraries->can_factor) return "there is no library for factors of matrices";
    for (uint32_t i = 0; i < call->n_args; i++) {
        const tn_tensor_desc *t = gpu_argument_tensor(call, i);
        if (t && !gpu_numel(t)) return "a tensor is empty";
    }
    const char *why = gpu_can_run(self, call);
    if (why) return why;
    const gpu_factors f = describe(call, kind);
    return libraries->can_factor(d->handle, call, &f);
}

static const char *can_solve(void *self, const tn_call *call)
{
    return can_factor(self, call, GPU_FACTOR_SOLVE);
}

static const char *can_qr(void *self, const tn_call *call)
{
    return can_factor(self, call, GPU_FACTOR_QR);
}

static const char *can_multiply_reflectors(void *self, const tn_call *call)
{
    return can_factor(self, call, GPU_FACTOR_REFLECTORS);
}

static const char *can_find_eigenvalues(void *self, const tn_call *call)
{
    return can_factor(self, call, GPU_FACTOR_EIGENVALUES);
}

static const char *can_find_singular_values(void *self, const tn_call *call)
{
    return call->args[3].tag != TN_TAG_NONE ? "a driver is asked for"
                                            : can_factor(self, call, GPU_FACTOR_SINGULAR);
}

/* (A, pivot or upper, check_errors): the CPU looks at infos at once, and computes without pivots. */
static const char *can_factor_ex(void *self, const tn_call *call, uint32_t kind)
{
    return tn_value_as_bool(call->args[2]) ? "errors are asked for at once" : can_factor(self, call, kind);
}

static const char *can_cholesky(void *self, const tn_call *call)
{
    return can_factor_ex(self, call, GPU_FACTOR_CHOLESKY);
}

static const char *can_lu(void *self, const tn_call *call)
{
    return tn_value_as_bool(call->args[1]) ? can_factor_ex(self, call, GPU_FACTOR_LU)
                                           : "the library always chooses pivots";
}

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, 0};

#define ROW(text, function, can) GPU_ROW(ANY, text, dtypes, .run = function, .can_run = can)
static const tn_kernel_row rows[] = {
    ROW("linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor "
        "info)",
        cholesky, can_cholesky),
    ROW("linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor "
        "pivots, Tensor "
        "info)",
        lu_factor, can_lu),
    ROW("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> "
        "Tensor",
        lu_solve, can_solve),
    ROW("geqrf(Tensor self) -> (Tensor a, Tensor tau)", qr_factor, can_qr),
    ROW("_linalg_eigh(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor eigenvalues, Tensor "
        "eigenvectors)",
        eigenvalues, can_find_eigenvalues),
    ROW("_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> "
        "(Tensor U, Tensor "
        "S, Tensor Vh)",
        singular_values, can_find_singular_values),
    ROW("linalg_householder_product(Tensor input, Tensor tau) -> Tensor", householder_product,
        can_multiply_reflectors),
};
const gpu_rows gpu_factor_rows = GPU_ROW_LIST(rows);
