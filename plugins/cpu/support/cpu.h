/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every family of the CPU plugin shares: the plugin's state, row lists, errors, readers of arguments and
 * tensors, scratch memory and the parallel loops. Files that are compiled per dtype and level also use the words
 * of kernels/vocabulary.h.
 */
#ifndef TENON_CPU_H
#define TENON_CPU_H

#define TN_PLUGIN
#include <tenon/plugin.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Levels of the instruction set in rising order; each includes those below it. */
#define CPU_LEVEL_BASE   0u /* x86-64, or whatever the compiler's default is */
#define CPU_LEVEL_AVX2   1u /* AVX2, FMA, F16C */
#define CPU_LEVEL_AVX512 2u /* AVX-512 F, BW, CD, DQ, VL */
#define CPU_LEVEL_COUNT  3u

/* The plugin's state, one for each context; `self` of every slot and kernel. */
typedef struct cpu_state {
    const tn_host *host;
    uint32_t row_count;
    uint32_t level;
    tn_kernel_row *rows;
    tn_kernels_interface kernels;
    atomic_int no_huge_pages; /* a setting */
} cpu_state;

/* The level of this process: the highest that the CPU, the build and TENON_CPU_LEVEL allow. Read at load. */
uint32_t cpu_level(void);
/* 0: TENON_CPU_LEVEL is not the name of a level. */
int32_t cpu_level_is_known(void);

/* The slot of a dtype in tables (kernels/dtypes.h), or -1. */
int32_t cpu_slot(tn_dtype dtype);

/* ---- Row lists --------------------------------------------------------------------------------------- */

/* A file with rows defines `cpu_NAME_rows` and `cpu_NAME_row_count`, and plugin.c lists NAME. */
#define CPU_ROW_COUNT(rows) (uint32_t)(sizeof(rows) / sizeof((rows)[0]))

/* A row for tensors of any strides, and one for contiguous tensors. A NULL list means all dtypes. Further
 * members of tn_kernel_row may follow. */
#define CPU_ROW(row_schema, list, function, ...) \
    CPU_CONTIGUOUS_ROW(row_schema, list, function, .strides = TN_STRIDES_ANY, __VA_ARGS__)
#define CPU_CONTIGUOUS_ROW(row_schema, list, function, ...)                                         \
    {                                                                                               \
        .size = sizeof(tn_kernel_row), .schema = (row_schema), .dtypes = (list), .run = (function), \
        __VA_ARGS__                                                                                 \
    }

/* Zero-terminated dtype lists for rows. */
extern const tn_dtype cpu_float32_dtypes[];    /* float32 */
extern const tn_dtype cpu_full_float_dtypes[]; /* float32 float64 */
extern const tn_dtype cpu_half_dtypes[];       /* float16 bfloat16 */
extern const tn_dtype cpu_float_dtypes[];      /* float16 bfloat16 float32 float64 */
extern const tn_dtype cpu_complex_dtypes[];    /* complex64 complex128 */
extern const tn_dtype cpu_inexact_dtypes[];    /* floats and complex */
extern const tn_dtype cpu_integer_dtypes[];    /* uint8 int8 int16 int32 int64 */
extern const tn_dtype cpu_integral_dtypes[];   /* bool and integers */
extern const tn_dtype cpu_real_dtypes[];       /* integers and floats */
extern const tn_dtype cpu_ordered_dtypes[];    /* bool, integers, floats */
extern const tn_dtype cpu_number_dtypes[];     /* integers, floats, complex */
extern const tn_dtype cpu_all_dtypes[];        /* bool, integers, floats, complex */
extern const tn_dtype cpu_every_real_dtypes[]; /* bool, all integers, floats */
extern const tn_dtype cpu_everything_dtypes[]; /* bool, all integers, floats, complex32 and complex */

/* ---- Errors ------------------------------------------------------------------------------------------ */

/* Records a formatted error and returns `status`. */
int32_t cpu_error(const tn_call *call, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- Arguments --------------------------------------------------------------------------------------- */

/* The tensor at argument i, or NULL if it is absent. */
static inline const tn_tensor_desc *tensor_arg(const tn_call *call, uint32_t i)
{
    tn_tensor *t = i < call->n_args ? tn_value_as_tensor(call->args[i]) : NULL;
    return t ? tn_desc(t) : NULL;
}
/* The tensor of output i, or NULL if it is not asked for. */
static inline const tn_tensor_desc *tensor_out(const tn_call *call, uint32_t i)
{
    tn_tensor *t = i < call->n_outs ? tn_value_as_tensor(call->outs[i]) : NULL;
    return t ? tn_desc(t) : NULL;
}
static inline int64_t int_arg(const tn_call *call, uint32_t i)
{
    return tn_value_as_int(call->args[i]);
}
static inline double float_arg(const tn_call *call, uint32_t i)
{
    return tn_value_as_float(call->args[i]);
}
static inline bool bool_arg(const tn_call *call, uint32_t i)
{
    return tn_value_as_bool(call->args[i]);
}
static inline bool is_none_arg(const tn_call *call, uint32_t i)
{
    return i >= call->n_args || call->args[i].tag == TN_TAG_NONE;
}
/* Item k of the integer list at argument i. An int or a list of one item applies to every k; an absent or
 * empty list gives `otherwise`. */
static inline int64_t list_arg(const tn_call *call, uint32_t i, uint32_t k, int64_t otherwise)
{
    const tn_value *v = &call->args[i];
    if (v->tag == TN_TAG_INT) return v->as.i;
    if (v->tag != TN_TAG_INTS || v->count == 0) return otherwise;
    return v->as.ints[v->count == 1 ? 0 : k];
}
/* Item k of the list of bools at argument i; false beyond its end. */
static inline bool mask_arg(const tn_call *call, uint32_t i, uint32_t k)
{
    const tn_value *v = &call->args[i];
    return v->tag == TN_TAG_BOOLS && k < v->count && v->as.bools[k];
}
/* The real and imaginary part of the scalar at argument i. */
static inline void scalar_arg(const tn_call *call, uint32_t i, double out[2])
{
    const tn_value *v = &call->args[i];
    out[0] = tn_value_as_float(*v);
    out[1] = v->tag == TN_TAG_COMPLEX ? v->as.floats[1] : 0;
}

/* ---- Tensors ----------------------------------------------------------------------------------------- */

/* The product of the sizes of dimensions [begin, end). */
static inline int64_t cpu_span(const tn_tensor_desc *d, uint32_t begin, uint32_t end)
{
    int64_t n = 1;
    for (uint32_t i = begin; i < end; i++) n *= d->sizes[i];
    return n;
}
static inline int64_t cpu_numel(const tn_tensor_desc *d)
{
    return cpu_span(d, 0, d->rank);
}
static inline bool cpu_is_contiguous(const tn_tensor_desc *d)
{
    int64_t expected = 1;
    for (uint32_t i = d->rank; i-- > 0;) {
        if (d->sizes[i] != 1 && d->strides[i] != expected) return false;
        expected *= d->sizes[i];
    }
    return true;
}

static inline const tn_operand *cpu_operand(const tn_nest *nest, uint32_t i)
{
    return (const tn_operand *)(const void *)((const char *)nest->operands +
                                              (uint64_t)i * nest->operand_bytes);
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
static inline int64_t round_up(int64_t x, int64_t step)
{
    return ceil_div(x, step) * step;
}
/* The product of three spatial sizes. */
static inline int64_t cpu_volume(const int64_t size[3])
{
    return size[0] * size[1] * size[2];
}

/* ---- Memory ------------------------------------------------------------------------------------------ */

/* Memory until the end of the call, aligned to 64 bytes, from the thread of the call only. NULL and a recorded
 * error if out of memory. */
void *cpu_scratch(const tn_call *call, uint64_t bytes);

/* The same from any thread, to be given back with cpu_free: for worker threads, and for large memory that is
 * needed for a part of the call. cpu_free accepts NULL. */
void *cpu_alloc(const tn_call *call, int64_t bytes);
void cpu_free(const tn_call *call, void *memory, int64_t bytes);

/* ---- Parallel loops ---------------------------------------------------------------------------------- */

/* Items [begin, end) of a loop; `thread` is below cpu_thread_count(call). */
typedef void (*cpu_range_fn)(void *user, int64_t begin, int64_t end, int32_t thread);

/* The most threads that a parallel loop of this call uses, at least 1. */
int32_t cpu_thread_count(const tn_call *call);

/* Both loops run on the calling thread alone when they are called inside a parallel loop. */

/*
 * Gives each thread one run of consecutive items of [0, n). Runs are multiples of `grain`, except the last, so
 * n <= grain stays on the calling thread. For work whose result does not depend on where runs begin.
 */
void cpu_parallel_for(const tn_call *call, int64_t n, int64_t grain, cpu_range_fn fn, void *user);
/* Defines the cpu_range_fn `name`, which only makes the call `work`; it may use `job`, the user's `type`, `begin` and `end`. */
#define CPU_RANGE(name, type, work)                                          \
    static void name(void *user, int64_t begin, int64_t end, int32_t thread) \
    {                                                                        \
        const type *job = user;                                              \
        work;                                                                \
    }

/*
 * Cuts [0, n) into ranges of `grain` items, which depend on n and grain alone, and runs them in any order. A
 * thread takes the next range when it has finished one, so slower cores take fewer.
 */
void cpu_parallel_ranges(const tn_call *call, int64_t n, int64_t grain, cpu_range_fn fn, void *user);

/* The grain that gives each range about `work` units when an item costs `cost`. */
static inline int64_t grain_for(int64_t work, int64_t cost)
{
    return max_i64(1, work / max_i64(1, cost));
}

#endif
