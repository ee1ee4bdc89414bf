/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every file of the CPU plugin shares: its state, the row lists that plugin.c joins, errors, argument
 * readers and the parallel loop. Kernels proper (kernels/, compiled once per dtype and level) see
 * kernels/vocabulary.h instead.
 */
#ifndef TENON_CPU_H
#define TENON_CPU_H

#define TN_PLUGIN
#include <tenon/plugin.h>

/* Levels of the instruction set, upward. Each includes those below. */
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
} cpu_state;

/* The level that this process runs at: the best of CPU, build and TENON_CPU_LEVEL. Read once, at load. */
uint32_t cpu_level(void);

/* ---- Row lists --------------------------------------------------------------------------------------- */

/* Each file with rows has a list `cpu_NAME_rows` and its length `cpu_NAME_row_count`; plugin.c names both. */
#define CPU_ROW_COUNT(rows) (uint32_t)(sizeof(rows) / sizeof((rows)[0]))

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
extern const tn_dtype cpu_everything_dtypes[]; /* these, unsigned integers and complex32 */

/* ---- Errors ------------------------------------------------------------------------------------------ */

/* Records an error with printf's words and returns `code`. */
int32_t cpu_error(const tn_call *call, int32_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- Arguments --------------------------------------------------------------------------------------- */

/* Descriptor of a tensor argument or result; NULL when absent. */
static inline const tn_tensor_desc *cpu_arg(const tn_call *call, uint32_t i)
{
    tn_tensor *t = i < call->n_args ? tn_value_as_tensor(call->args[i]) : NULL;
    return t ? tn_desc(t) : NULL;
}
static inline const tn_tensor_desc *cpu_out(const tn_call *call, uint32_t i)
{
    tn_tensor *t = i < call->n_outs ? tn_value_as_tensor(call->outs[i]) : NULL;
    return t ? tn_desc(t) : NULL;
}
static inline int64_t cpu_numel(const tn_tensor_desc *d)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < d->rank; i++) n *= d->sizes[i];
    return n;
}

static inline const tn_operand *cpu_operand(const tn_nest *nest, uint32_t i)
{
    return (const tn_operand *)(const void *)((const char *)nest->operands +
                                              (uint64_t)i * nest->operand_bytes);
}

/* Host scratch memory for the length of the call, aligned to 64 bytes; NULL (and an error recorded) when
 * there is none. */
void *cpu_scratch(const tn_call *call, uint64_t bytes);

/* ---- The parallel loop ------------------------------------------------------------------------------- */

/*
 * Runs fn(user, begin, end, thread) over [0, n) cut into one run of consecutive items for each thread; runs
 * are multiples of `grain` but for the last, so that n <= grain stays on the calling thread. `thread` is
 * below cpu_thread_count(call). Within another parallel loop it is serial.
 */
typedef void (*cpu_range_fn)(void *user, int64_t begin, int64_t end, int32_t thread);
void cpu_parallel_for(const tn_call *call, int64_t n, int64_t grain, cpu_range_fn fn, void *user);
/* The most threads that a parallel loop of this call uses, at least 1. */
int32_t cpu_thread_count(const tn_call *call);

#endif
