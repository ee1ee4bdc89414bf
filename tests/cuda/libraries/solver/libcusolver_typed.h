/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of libcusolver.c for one dtype. NAMED gives their names, IS_DOUBLE says which dtype it is. */
int NAMED(potrf_bufferSize)(void *h, int triangle, int n, void *a, int lda, int *out)
{
    return ask("potrf_bufferSize", n, out);
}

int NAMED(potrf)(void *h, int triangle, int n, void *a, int lda, void *work, int length, int *info)
{
    const job j = {.algorithm = CHOLESKY,
                   .is_double = IS_DOUBLE,
                   .flag = triangle == SOLVER_UPPER,
                   .m = n,
                   .n = n,
                   .a = at(a),
                   .info = at(info),
                   .work = at(work),
                   .work_bytes = (size_t)length * 4};
    return start("potrf", h, lda, j);
}

int NAMED(getrf_bufferSize)(void *h, int m, int n, void *a, int lda, int *out)
{
    return ask("getrf_bufferSize", n, out);
}

int NAMED(getrf)(void *h, int m, int n, void *a, int lda, void *work, int *pivots, int *info)
{
    const job j = {.algorithm = LU,
                   .is_double = IS_DOUBLE,
                   .m = m,
                   .n = n,
                   .a = at(a),
                   .extra = at(pivots),
                   .info = at(info),
                   .work = at(work),
                   .work_bytes = 64};
    return start("getrf", h, lda, j);
}

int NAMED(getrs)(void *h, int operation, int n, int columns, const void *a, int lda, const int *pivots,
                 void *b, int ldb, int *info)
{
    const job j = {.algorithm = SOLVE,
                   .is_double = IS_DOUBLE,
                   .flag = operation == SOLVER_TRANSPOSED,
                   .m = n,
                   .n = n,
                   .k = columns,
                   .a = at(a),
                   .b = at(b),
                   .extra = at(pivots),
                   .info = at(info)};
    return ldb < n ? SOLVER_INVALID_VALUE : start("getrs", h, lda, j);
}

int NAMED(geqrf_bufferSize)(void *h, int m, int n, void *a, int lda, int *out)
{
    return ask("geqrf_bufferSize", n, out);
}

int NAMED(geqrf)(void *h, int m, int n, void *a, int lda, void *tau, void *work, int length, int *info)
{
    const job j = {.algorithm = QR,
                   .is_double = IS_DOUBLE,
                   .m = m,
                   .n = n,
                   .a = at(a),
                   .extra = at(tau),
                   .info = at(info),
                   .work = at(work),
                   .work_bytes = (size_t)length * 4};
    return start("geqrf", h, lda, j);
}

int NAMED(orgqr_bufferSize)(void *h, int m, int n, int k, const void *a, int lda, const void *tau, int *out)
{
    return ask("orgqr_bufferSize", n, out);
}

int NAMED(orgqr)(void *h, int m, int n, int k, void *a, int lda, const void *tau, void *work, int length,
                 int *info)
{
    const job j = {.algorithm = REFLECTORS,
                   .is_double = IS_DOUBLE,
                   .m = m,
                   .n = n,
                   .k = k,
                   .a = at(a),
                   .extra = at(tau),
                   .info = at(info),
                   .work = at(work),
                   .work_bytes = (size_t)length * 4};
    return k > n || n > m ? SOLVER_INVALID_VALUE : start("orgqr", h, lda, j);
}

int NAMED(syevd_bufferSize)(void *h, int mode, int triangle, int n, const void *a, int lda, const void *w,
                            int *out)
{
    return ask("syevd_bufferSize", n, out);
}

int NAMED(syevd)(void *h, int mode, int triangle, int n, void *a, int lda, void *w, void *work, int length,
                 int *info)
{
    const job j = {.algorithm = EIGENVALUES,
                   .is_double = IS_DOUBLE,
                   .flag = triangle == SOLVER_UPPER,
                   .wants_vectors = mode == SOLVER_VALUES_AND_VECTORS,
                   .m = n,
                   .n = n,
                   .a = at(a),
                   .extra = at(w),
                   .info = at(info),
                   .work = at(work),
                   .work_bytes = (size_t)length * 4};
    return start("syevd", h, lda, j);
}

int NAMED(gesvd_bufferSize)(void *h, int m, int n, int *out)
{
    return m < n ? SOLVER_INVALID_VALUE : ask("gesvd_bufferSize", n, out);
}

int NAMED(gesvd)(void *h, signed char left, signed char right, int m, int n, void *a, int lda, void *values,
                 void *u, int ldu, void *vt, int ldvt, void *work, int length, void *real_work, int *info)
{
    const int k = left == 'A' ? m : left == 'S' ? n : 0;
    const job j = {.algorithm = SINGULAR,
                   .is_double = IS_DOUBLE,
                   .m = m,
                   .n = n,
                   .k = k,
                   .a = at(a),
                   .b = at(u),
                   .c = at(vt),
                   .extra = at(values),
                   .info = at(info),
                   .work = at(work),
                   .work_bytes = (size_t)length * 4};
    return left != right || m < n || (k && (ldu < m || ldvt < n)) ? SOLVER_INVALID_VALUE
                                                                  : start("gesvd", h, lda, j);
}
