/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels over LAPACK share: the loop over the matrices of a batch, copies in and out of contiguous
 * columns, scratch memory and the meaning of `info`. One thread works on a matrix, so results do not depend
 * on the number of threads.
 */
#ifndef TENON_CPU_LINALG_BATCH_H
#define TENON_CPU_LINALG_BATCH_H

#include "support/cpu.h"
#include "vendor/lapack.h"

typedef struct cpu_batches cpu_batches;
/* Works on one item of the batch, with scratch memory of the thread. It reports through `infos`, not by
 * errors. */
typedef void (*cpu_matrix_fn)(const cpu_batches *b, int64_t item, char *scratch);

struct cpu_batches {
    const tn_call *call;
    const cpu_lapack *lapack;
    const void *job; /* the operator's data */
    tn_dtype dtype;
    int64_t bytes;      /* of an element */
    int64_t real_bytes; /* of its real part */
    bool is_complex;
    uint32_t rank; /* of the batch */
    const int64_t *sizes;
    int64_t count;   /* items */
    int64_t scratch; /* bytes that an item needs */
    int64_t cost;    /* of an item, in operations */
    cpu_matrix_fn run;
    int *infos; /* LAPACK's info for each item, or NULL if the operator does not use it */
};

/* A batch with the leading dimensions of `like`, whose last `tail` dimensions are the item. `dtype` is
 * that of the matrices. */
cpu_batches cpu_batches_of(const tn_call *call, const tn_tensor_desc *like, uint32_t tail, tn_dtype dtype);
/* Runs all items. */
int32_t cpu_batches_run(cpu_batches *b);
/* The same with `infos`, which `use` (may be NULL) reads afterwards. */
typedef int32_t (*cpu_infos_fn)(const cpu_batches *b);
int32_t cpu_batches_run_with_infos(cpu_batches *b, cpu_infos_fn use);

/* can_run of all rows: NULL, or the reason why not. */
const char *cpu_linalg_can_run(void *self, const tn_call *call);

/* ---- items of tensors, broadcast over the batch ---- */

/* A matrix in memory, strides in elements. */
typedef struct cpu_matrix {
    char *at;
    int64_t rows, columns, row, column;
} cpu_matrix;

cpu_matrix cpu_matrix_of(const cpu_batches *b, const tn_tensor_desc *t, int64_t item);
/* A vector is a matrix of one column. */
cpu_matrix cpu_vector_of(const cpu_batches *b, const tn_tensor_desc *t, int64_t item);
/* One element for each item. */
char *cpu_number_of(const cpu_batches *b, const tn_tensor_desc *t, int64_t item);
cpu_matrix cpu_transposed(cpu_matrix m);
/* The first rows and columns. */
cpu_matrix cpu_corner(cpu_matrix m, int64_t rows, int64_t columns);
/* Copies to and from contiguous columns `ld` elements apart. */
void cpu_matrix_read(cpu_matrix m, void *to, int64_t ld, int64_t bytes);
void cpu_matrix_write(const void *from, int64_t ld, cpu_matrix m, int64_t bytes);
/* Conjugates `count` contiguous elements in place. */
void cpu_conjugate(const cpu_batches *b, void *data, int64_t count);
/* Whether no element is NaN or infinite: on some of those functions of LAPACK do not end. */
bool cpu_is_finite(const cpu_batches *b, cpu_matrix m);
void cpu_fill_zero(cpu_matrix m, int64_t bytes);
/* Ones of the dtype on the diagonal, zeros elsewhere. */
void cpu_fill_unit(const cpu_batches *b, cpu_matrix m);

/* ---- scratch memory of an item ---- */

/* The bytes of n elements, rounded up to a multiple of 64. */
static inline int64_t cpu_part_bytes(int64_t n, int64_t bytes)
{
    return round_up(max_i64(n, 1) * bytes, 64);
}
/* Takes the next part of the scratch memory. */
static inline void *cpu_take_part(char **scratch, int64_t n, int64_t bytes)
{
    char *part = *scratch;
    *scratch += cpu_part_bytes(n, bytes);
    return part;
}
/* Leading dimensions are 1 at least. */
static inline int cpu_leading(int64_t rows)
{
    return (int)max_i64(rows, 1);
}
/* The length of the work array, which LAPACK's size query wrote to its first element. */
int cpu_work_length(const cpu_batches *b, const void *work);

/* ---- errors ---- */

/* Checks that LAPACK's 32-bit integers can hold the sizes. */
int32_t cpu_check_lapack_sizes(const tn_call *call, const tn_tensor_desc *t);
/* Checks that the int32 pivots are rows from 1 to `rows`, or with `pairs`, for LDL, also pairs of negated rows. LAPACK
 * does not. */
int32_t cpu_check_pivots(const tn_call *call, const tn_tensor_desc *pivots, const char *name, int64_t rows,
                         bool pairs);
/* An error in ATen's words for the first info that is not 0; TN_OK if all are 0. */
int32_t cpu_info_error(const tn_call *call, const char *name, const int *infos, int64_t count,
                       bool is_matrix);
/* The infos as an int32 tensor. */
void cpu_write_infos(const cpu_batches *b, const tn_tensor_desc *to);

#define CPU_LINALG_ROW(text, function) \
    CPU_ROW("aten::" text, cpu_linalg_dtypes, function, .can_run = cpu_linalg_can_run)
extern const tn_dtype cpu_linalg_dtypes[];

#endif
