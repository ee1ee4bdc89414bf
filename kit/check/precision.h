/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The precision report: results of a device against MPFR. This header has the parts that need no device:
 * formats of numbers, the measure of an error, exact functions, inputs.
 *
 * Numbers are passed as float64, which holds the values of every dtype that is measured.
 */
#ifndef TENON_KIT_PRECISION_H
#define TENON_KIT_PRECISION_H

#include <cjson/cJSON.h>
#include <mpfr.h>
#include <stdint.h>
#include <tenon/tenon.h>

/* ---- Numbers and errors ------------------------------------------------------------------------------ */

/* The format of a dtype's numbers; of a complex dtype, the format of its parts. */
typedef struct precision_format {
    tn_dtype dtype;
    const char *name;
    int32_t digits;  /* bits of the significand, with the hidden one */
    int32_t least;   /* the smallest normal number is 2^least */
    int32_t most;    /* all are below 2^(most + 1) */
    int32_t complex; /* pairs of them */
} precision_format;

/* NULL for dtypes that are not measured. */
const precision_format *precision_format_of(tn_dtype dtype);
extern const precision_format precision_formats[]; /* ended by dtype 0 */
/* Part i of an array in memory: element i, or for pairs part i % 2 of element i / 2. */
double precision_get(const precision_format *f, const void *data, int64_t i);
/* Rounds to nearest, ties to even. */
void precision_put(const precision_format *f, void *data, int64_t i, double x);
double precision_rounded(const precision_format *f, double x);

/*
 * The signed error of `got` in units of the last place that the exact value has in the format. That unit
 * never falls below the smallest denormal number, which is also the unit of an exact 0. Infinity counts as
 * 2^(most + 1), where it begins, in both: a result that overflows a little early is a little wrong. A NaN
 * where a number should be, or the other way round, is infinitely wrong.
 */
double precision_error(const precision_format *f, double got, mpfr_srcptr exact);
/* For a pair: the distance in units in the last place of the exact pair's greater part. */
double precision_error_pair(const precision_format *f, const double *got, mpfr_t *exact);
/* The exponent of that unit. */
int32_t precision_unit(const precision_format *f, mpfr_srcptr exact);

/* ---- Exact functions --------------------------------------------------------------------------------- */

#define PRECISION_MAX_INPUTS 3

/*
 * Writes f(x[0], ...) with an error far below the last bit of `out`, at the precision of `out`. `p` has the
 * arguments that are not tensors, in the order of the schema.
 */
typedef void (*precision_real)(mpfr_t out, mpfr_t *x, const double *p);

/* Properties of a function and its inputs. */
#define PRECISION_DEGREE   1u  /* the second input is a small whole number */
#define PRECISION_LIMITED  2u  /* the range also limits the second input */
#define PRECISION_EXACT    4u  /* nothing is rounded: any error is a wrong result */
#define PRECISION_TERMS    16u /* a sum: errors are counted in units of its greatest term or result */
#define PRECISION_NO_SLOPE 8u  /* no gradient, or one that is 0 nearly everywhere */

/* One operator with one set of arguments. */
typedef struct precision_function {
    const char *name;      /* "aten::exp" */
    const char *arguments; /* "n=2"; NULL: the schema's defaults */
    int32_t inputs;
    uint32_t flags;
    precision_real real;
    double low, high;   /* of inputs; 0, 0: no limit */
    const double *near; /* roots, poles, limits of underflow and overflow; ended by NaN, or NULL */
    double opencl;      /* greatest error that OpenCL allows for float32; 0: it does not say */
} precision_function;

extern const precision_function precision_functions[]; /* ended by name NULL */

/* d f / d x[which] by central differences at sufficient precision. */
void precision_slope(const precision_function *f, mpfr_t out, mpfr_t *x, const double *p, int32_t which);

/* Complex functions, by operator name: whether there is one, and its value at the pairs x. The imaginary
 * part is 0 for a real result. */
int32_t precision_has_pairs(const char *name);
void precision_pairs(const char *name, mpfr_t *out, mpfr_t *x);
/* 0 for functions with a pole at 0 whose limit depends on the side. */
int32_t precision_is_regular_at_0(const char *name);

/* What is required of one part of a complex result at a special value. */
enum {
    PRECISION_PART_EXACT,    /* the value, to a few units in the last place; a zero with its sign */
    PRECISION_PART_SIGNLESS, /* a zero or an infinity of either sign */
    PRECISION_PART_SOME_NAN, /* this part or the other one is NaN */
    PRECISION_PART_FREE      /* nothing */
};
typedef struct precision_part {
    double value;
    int32_t kind;
} precision_part;
/* Both parts of a function at the parts x, `count` of them. */
void precision_pairs_special(const char *name, const double *x, int32_t count, precision_part *out);
/* Whether a result of 1 or 2 parts is as required. */
int32_t precision_pair_fits(const precision_format *f, const double *got, const precision_part *want,
                            int32_t parts);

/* ---- Inputs ------------------------------------------------------------------------------------------ */

enum {
    PRECISION_SMALL,    /* below 1/16 */
    PRECISION_MEDIUM,   /* 1/16 to 16 */
    PRECISION_LARGE,    /* from 16 on */
    PRECISION_NEAR,     /* next to roots, poles and edges */
    PRECISION_DENORMAL, /* the input or the exact result is denormal */
    PRECISION_SPECIAL,  /* zeros, infinities, NaN, the extremes of the format */
    PRECISION_CLASSES
};
extern const char *const precision_class_names[PRECISION_CLASSES];

/* Inputs of one function, all classes together. Pairs of complex inputs stand as two arrays each. */
typedef struct precision_inputs {
    int64_t count;
    int32_t arrays;
    double *x[2 * PRECISION_MAX_INPUTS];
    uint8_t *classes;
} precision_inputs;

/*
 * `samples` of each class, the same for the same seed; all 65536 patterns where a function of one input has a
 * 16-bit dtype and samples is not below `PRECISION_EXHAUSTIVE`. 0 when out of memory.
 */
#define PRECISION_EXHAUSTIVE 1000
int32_t precision_inputs_make(precision_inputs *out, const precision_function *f,
                              const precision_format *format, int64_t samples, uint64_t seed);
void precision_inputs_finish(precision_inputs *inputs);
/* The next random number, and one from [0, 1). */
uint64_t precision_next(uint64_t *state);
double precision_share(uint64_t *state);

/* ---- Measuring --------------------------------------------------------------------------------------- */

typedef struct precision_stats {
    int64_t count;
    int64_t lost; /* NaN instead of a number, or a number instead of NaN */
    double greatest, p99, mean;
    double of_result; /* where errors are counted in units of terms: the greatest in units of the result */
    /* The input of the greatest error; of a problem (precision_sums.h) the number of the result. */
    double worst[2 * PRECISION_MAX_INPUTS];
    double got[2], want[2];
} precision_stats;

/* Statistics of `count` errors, which are reordered. */
void precision_stats_finish(precision_stats *stats, double *errors, int64_t count);

/* A special value with a result other than the definition's. */
typedef struct precision_surprise {
    double x[2 * PRECISION_MAX_INPUTS];
    double got[2], want[2]; /* the second one for pairs only */
} precision_surprise;
#define PRECISION_MAX_SURPRISES 6

/* Measurements of one device. */
typedef struct precision_column {
    precision_stats classes[PRECISION_CLASSES];
    precision_stats slope;  /* the gradient's errors; count 0: not measured */
    int32_t flushes;        /* denormal results were flushed to 0 */
    int32_t same_again;     /* the same bits over repeats */
    int32_t same_elsewhere; /* and on another stream */
    int32_t same_threads;   /* and with one thread */
    int64_t special_count, surprise_count;
    precision_surprise surprises[PRECISION_MAX_SURPRISES];
} precision_column;

/* The report of one operator and dtype. */
typedef struct precision_row {
    const precision_function *function;
    const precision_format *format;
    const char *const *class_names; /* names of the classes; NULL for an unused class */
    precision_column device, cpu;
    int32_t has_cpu;
    char skipped[200]; /* why nothing was measured; "" otherwise */
} precision_row;

typedef struct precision_options {
    tn_context *ctx;
    tn_device device;
    tn_device cpu; /* 0: no column for it */
    int64_t samples;
    uint64_t seed;
} precision_options;

/* Measures. 0 when out of memory. */
int32_t precision_measure(const precision_options *o, precision_row *row);
/* The greatest error over the classes to which bounds apply: all but denormal and special numbers. */
double precision_greatest(const precision_column *column);

/* Calls the function on a device. `inputs->count` is the number of results; `out` gets a number for each
 * element, or two for pairs, in *out_format. With which >= 0 the gradient for that input instead. `raw`
 * (may be NULL) gets the bytes. Returns NULL or the reason of a failure. */
typedef struct precision_shape {
    int32_t dims;
    int64_t sizes[4];
} precision_shape;
typedef struct precision_call {
    const precision_options *options;
    tn_device device;
    const precision_function *function;
    const precision_format *format;
    const precision_inputs *inputs;
    const precision_shape *shapes; /* shape of the inputs; NULL: one dimension */
    int32_t which;                 /* -1: the value */
    const double *weights;         /* the gradient of the result; NULL: ones */
    tn_stream *stream;             /* NULL: the current one */
} precision_call;
int32_t precision_run(const precision_call *call, double *out, void *raw, const precision_format **out_format,
                      char *reason, size_t reason_bytes);
/* Whether repeats, another stream and one thread give the bits of `raw` again. `numbers` and `again` are
 * room for the result. */
void precision_repeats(precision_call *call, precision_column *column, double *numbers, const void *raw,
                       void *again, size_t bytes);
/* The arguments that are not tensors, as precision_real takes them. */
void precision_numbers(const precision_options *o, const precision_function *f, double *p, int32_t count);

/* Adds a number to a report; JSON cannot express some of them. `key` is NULL in arrays. */
void precision_add_number(cJSON *j, const char *key, double x);

#endif
