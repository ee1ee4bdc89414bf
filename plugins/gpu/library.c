/* SPDX-License-Identifier: Apache-2.0 */
/* Work for the vendor's libraries: what the family describes by nests becomes matrices, where it has their form. */
#include "gpu.h"

/*
 * The matrix of so many rows and columns with these strides, in bytes. 0: neither its rows nor its columns are contiguous
 * and apart from each other.
 */
static int32_t make_matrix(gpu_matrix *out, uint64_t rows, uint64_t columns, int64_t row, int64_t column,
                           int64_t bytes)
{
    int64_t n_rows = (int64_t)rows, n_columns = (int64_t)columns;
    row = n_rows == 1 ? n_columns : row / bytes;
    column = n_columns == 1 ? n_rows : column / bytes;
    out->is_transposed = !((column == 1 || n_columns == 1) && row >= n_columns);
    out->stride = out->is_transposed ? column : row;
    return !out->is_transposed || ((row == 1 || n_rows == 1) && column >= n_rows);
}

/* What is added becomes a matrix, or a bias if all rows get the same. */
static int32_t make_added(gpu_matrices *m, const gpu_nest *n, int64_t bytes)
{
    gpu_matrix added = m->added;
    int64_t row = n->strides[3][1], column = n->strides[3][0];
    int32_t is_bias = row == 0 && (m->rows > 1 || m->batches > 1) && added.batch_stride == 0 &&
                      (column == bytes || m->columns == 1);
    if (is_bias && m->beta == 1) {
        m->bias = added;
        m->added = (gpu_matrix){0};
        m->beta = 0;
        return 1;
    }
    return make_matrix(&m->added, m->rows, m->columns, row, column, bytes) && !m->added.is_transposed;
}

/* The number whose bits are those of a T. */
static double number_of(uint32_t dtype, uint64_t bits)
{
    float f;
    double d;
    memcpy(&f, &bits, sizeof f);
    memcpy(&d, &bits, sizeof d);
    return dtype == GPU_F64 ? d : (double)f;
}

/* 0: the product is not one of plain matrices of one dtype. */
static int32_t make_matrices(const gpu_product *p, gpu_matrices *m)
{
    gpu_nest n = p->nest;
    gpu_matrix *const matrices[] = {&m->out, &m->a, &m->b, &m->added};
    uint32_t count = p->memory[3] ? 4 : 3;
    int64_t bytes = gpu_code_bytes(n.dtypes[0]);
    if (n.rank < 2 || n.values[0] != 1 || !n.scalars[0]) return 0;
    gpu_nest_merge(&n, 2, count);
    if (n.rank > 3) return 0;
    *m = (gpu_matrices){.dtype = n.dtypes[0],
                        .rows = n.sizes[1],
                        .columns = n.sizes[0],
                        .depth = n.scalars[0],
                        .batches = n.rank == 3 ? n.sizes[2] : 1};
    for (uint32_t k = 0; k < count; k++) {
        if (n.dtypes[k] != m->dtype) return 0;
        matrices[k]->memory = p->memory[k];
        matrices[k]->offset = (uint64_t)n.offsets[k];
        matrices[k]->batch_stride = n.rank == 3 ? n.strides[k][2] / bytes : 0;
    }
    m->alpha = number_of(m->dtype, n.values[2]);
    if (count == 4) m->beta = number_of(m->dtype, n.values[3]);
    return make_matrix(&m->out, m->rows, m->columns, n.strides[0][1], n.strides[0][0], bytes) &&
           !m->out.is_transposed &&
           make_matrix(&m->a, m->rows, m->depth, n.strides[1][1], (int64_t)n.scalars[1], bytes) &&
           make_matrix(&m->b, m->depth, m->columns, (int64_t)n.scalars[2], n.strides[2][0], bytes) &&
           (count == 3 || make_added(m, &n, bytes));
}

/* The vendor's libraries for a call on these floats, or NULL. The device may have none, or they are switched off. */
static const gpu_library_driver *libraries_of(const tn_call *call, uint32_t dtype)
{
    const gpu_device *d = gpu_device_of(call);
    if (__atomic_load_n(&d->plugin->no_libraries, __ATOMIC_RELAXED)) return NULL;
    return dtype >= GPU_F16 && dtype <= GPU_F64 ? gpu_the_driver.libraries : NULL;
}

static int32_t queued(const tn_call *call)
{
    gpu_stream_uses_library(gpu_stream_of(call));
    return gpu_queued(call);
}

int32_t gpu_library_product(const gpu_product *p)
{
    const gpu_device *d = gpu_device_of(p->call);
    const gpu_library_driver *libraries = libraries_of(p->call, p->nest.dtypes[0]);
    gpu_matrices m;
    if (!libraries || !make_matrices(p, &m)) return TN_E_UNSUPPORTED;
    int32_t status = gpu_the_driver.status(d->handle);
    if (!status) status = libraries->product(d->handle, gpu_stream_of(p->call)->queue, p->call, &m);
    return status ? status : queued(p->call);
}

int32_t gpu_library_convolve(const tn_call *call, const gpu_convolution *c)
{
    const gpu_device *d = gpu_device_of(call);
    const gpu_library_driver *libraries = libraries_of(call, c->window->dtype);
    if (!libraries || !libraries->convolve) return TN_E_UNSUPPORTED;
    int32_t status = gpu_the_driver.status(d->handle);
    if (!status) status = libraries->convolve(d->handle, gpu_stream_of(call)->queue, call, c);
    return status ? status : queued(call);
}

int32_t gpu_library_can_attend(const tn_call *call, const gpu_attend *a)
{
    const gpu_device *d = gpu_device_of(call);
    const gpu_library_driver *libraries = libraries_of(call, a->dtype);
    if (!libraries || !libraries->attend || gpu_the_driver.status(d->handle)) return 0;
    return libraries->can_attend(d->handle, call, a);
}

int32_t gpu_library_attend(const tn_call *call, const gpu_attend *a)
{
    const gpu_device *d = gpu_device_of(call);
    const gpu_library_driver *libraries = libraries_of(call, a->dtype);
    if (!libraries || !libraries->attend) return TN_E_UNSUPPORTED;
    int32_t status = gpu_the_driver.status(d->handle);
    if (!status) status = libraries->attend(d->handle, gpu_stream_of(call)->queue, call, a);
    return status ? status : queued(call);
}

int32_t gpu_library_transform(const tn_call *call, const gpu_transform *t)
{
    const gpu_device *d = gpu_device_of(call);
    const gpu_library_driver *libraries = libraries_of(call, t->dtype);
    if (!libraries || !libraries->transform) return TN_E_UNSUPPORTED;
    int32_t status = gpu_the_driver.status(d->handle);
    if (!status) status = libraries->transform(d->handle, gpu_stream_of(call)->queue, call, t);
    return status ? status : queued(call);
}
