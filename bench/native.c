/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of the machine: memcpy with the same number of threads, products by OpenBLAS and oneDNN called
 * directly. A request for a product is {"open": "openblas", "batch": 1, "m": 1024, "n": 1024, "k": 1024,
 * "transposed": false}.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

#ifdef BENCH_OPENBLAS
#include <cblas.h>
#endif
#ifdef BENCH_DNNL
#include <dnnl.h>
#endif

typedef struct native {
    float *memory, *a, *b, *c; /* all in one block of memory */
    int64_t batch, m, n, k;
    int transposed; /* the right factor is stored [n, k] */
} native;

static int64_t number(const bench *b, const char *key, int64_t otherwise)
{
    const cJSON *item = cJSON_GetObjectItem(b->request, key);
    return cJSON_IsNumber(item) ? (int64_t)item->valuedouble : otherwise;
}

/* Begins an array of n elements at *next and moves *next to where the one behind it begins, on a line of the cache. */
static float *numbers(float **next, int64_t n)
{
    float *out = *next;
    for (int64_t i = 0; i < n; i++) out[i] = (float)(i % 97) / 97.0f;
    *next += (n / 16 + 1) * 16;
    return out;
}

static int native_open(bench *b)
{
    native *p = bench_state(b, sizeof *p);
    if (!p) return 1;
    *p = (native){.batch = number(b, "batch", 1),
                  .m = number(b, "m", 1),
                  .n = number(b, "n", 1),
                  .k = number(b, "k", 1),
                  .transposed = cJSON_IsTrue(cJSON_GetObjectItem(b->request, "transposed"))};
    int64_t a = p->batch * p->m * p->k, right = p->batch * p->k * p->n, c = p->batch * p->m * p->n;
    float *next = p->memory = aligned_alloc(64, ((uint64_t)(a + right + c) / 16 + 3) * 64);
    if (!next) return bench_absent(b, "no memory");
    p->a = numbers(&next, a);
    p->b = numbers(&next, right);
    p->c = numbers(&next, c);
    omp_set_num_threads(bench_threads());
    return 0;
}

static void native_close(bench *b)
{
    free(((native *)b->state)->memory);
}

/* Copies n elements of `m` from a to c, split over the threads. */
static int run_memcpy(bench *b, int64_t n)
{
    native *p = b->state;
    for (int64_t i = 0; i < n; i++) {
#pragma omp parallel num_threads(bench_threads())
        {
            int64_t thread = omp_get_thread_num(), count = omp_get_num_threads();
            int64_t begin = p->m * thread / count, end = p->m * (thread + 1) / count;
            memcpy(p->c + begin, p->a + begin, (size_t)(end - begin) * sizeof *p->c);
        }
    }
    return 0;
}

/* Small products of a batch are best split over threads as wholes. */
typedef int (*product_fn)(const native *p, int64_t i);

static int run_products(bench *b, int64_t n, product_fn product)
{
    native *p = b->state;
    int failed = 0;
    for (int64_t i = 0; i < n; i++) {
#pragma omp parallel for num_threads(bench_threads()) if (p->batch > 1) reduction(| : failed)
        for (int64_t k = 0; k < p->batch; k++) failed |= product(p, k);
    }
    return failed ? bench_absent(b, "the library refuses the product") : 0;
}

#ifdef BENCH_OPENBLAS
static int openblas_product(const native *p, int64_t i)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, p->transposed ? CblasTrans : CblasNoTrans, (int)p->m, (int)p->n,
                (int)p->k, 1.0f, p->a + i * p->m * p->k, (int)p->k, p->b + i * p->k * p->n,
                (int)(p->transposed ? p->k : p->n), 0.0f, p->c + i * p->m * p->n, (int)p->n);
    return 0;
}

static int run_openblas(bench *b, int64_t n)
{
    openblas_set_num_threads(bench_threads());
    return run_products(b, n, openblas_product);
}
#endif

#ifdef BENCH_DNNL
static int dnnl_product(const native *p, int64_t i)
{
    return dnnl_sgemm('N', p->transposed ? 'T' : 'N', p->m, p->n, p->k, 1.0f, p->a + i * p->m * p->k, p->k,
                      p->b + i * p->k * p->n, p->transposed ? p->k : p->n, 0.0f, p->c + i * p->m * p->n,
                      p->n) != dnnl_success;
}

static int run_dnnl(bench *b, int64_t n)
{
    return run_products(b, n, dnnl_product);
}
#endif

int main(int argc, char **argv)
{
    static const bench_case cases[] = {
        {"memcpy", native_open, run_memcpy, native_close, NULL},
#ifdef BENCH_OPENBLAS
        {"openblas", native_open, run_openblas, native_close, NULL},
#endif
#ifdef BENCH_DNNL
        {"onednn", native_open, run_dnnl, native_close, NULL},
#endif
    };
    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
