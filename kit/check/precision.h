/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The precision report: what a device computes against what MPFR says it should have. This header has the
 * parts that need no device: formats of numbers, the measure of an error, exact functions, inputs.
 *
 * Numbers travel as float64, which holds those of every dtype in question.
 */
#ifndef TENON_KIT_PRECISION_H
#define TENON_KIT_PRECISION_H

#include <cjson/cJSON.h>
#include <mpfr.h>
#include <stdint.h>
#include <tenon/tenon.h>

/* ---- Numbers and errors ------------------------------------------------------------------------------ */

/* How the numbers of a dtype are spaced; of a complex one, those of its parts. */
typedef struct precision_format {
    tn_dtype dtype;
    const char *name;
    int32_t digits;  /* bits of the significand, the hidden one among them */
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
/* Of a pair: the distance between them, in units of the last place of the exact pair's greater part. */
double precision_error_pair(const precision_format *f, const double *got, mpfr_t *exact);
/* The unit itself, as a power of two. */
int32_t precision_unit(const precision_format *f, mpfr_srcptr exact);

/* ---- Exact functions --------------------------------------------------------------------------------- */

#define PRECISION_MAX_INPUTS 3

/*
 * Writes f(x[0], ...) with an error far below the last bit of `out`, at whatever precision out has. `p` are
 * the numbers among the arguments that are no tensors, in the order of the schema.
 */
typedef void (*precision_real)(mpfr_t out, mpfr_t *x, const double *p);

/* What is asked of a function's inputs. */
#define PRECISION_DEGREE   1u  /* the second input is a small whole number */
#define PRECISION_LIMITED  2u  /* the second input is within the first one's range, too */
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
    const double *near; /* roots, poles, edges of under- and overflow; ended by NaN, or NULL */
    double opencl;      /* greatest error that OpenCL allows for float32; 0: it does not say */
} precision_function;

extern const precision_function precision_functions[]; /* ended by name NULL */

/* d f / d x[which]: central differences at whatever precision they need. */
void precision_slope(const precision_function *f, mpfr_t out, mpfr_t *x, const double *p, int32_t which);

/* Complex functions, by the operator's name: whether there is one, and its value at the pairs x. The result's
 * imaginary part is 0 where it is real. */
int32_t precision_has_pairs(const char *name);
void precision_pairs(const char *name, mpfr_t *out, mpfr_t *x);
/* 0 for those with a pole at 0, whose limit there depends on the side. */
int32_t precision_is_regular_at_0(const char *name);

/* What is known of one part of a complex result at a special value. */
enum {
    PRECISION_PART_EXACT,    /* the value, to a few units of the last place; a zero with its sign */
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
/* Whether what came, of 1 or 2 parts, is as known. */
int32_t precision_pair_fits(const precision_format *f, const double *got, const precision_part *want,
                            int32_t parts);

/* ---- Inputs ------------------------------------------------------------------------------------------ */

enum {
    PRECISION_SMALL,    /* below 1/16 */
    PRECISION_MEDIUM,   /* 1/16 to 16 */
    PRECISION_LARGE,    /* from 16 on */
    PRECISION_NEAR,     /* next to roots, poles and edges */
    PRECISION_DENORMAL, /* the input or the exact result is */
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
    int64_t lost; /* NaN where a number should be, or the other way round */
    double greatest, p99, mean;
    double of_result; /* where errors are counted in units of terms: the greatest in units of the result */
    /* The input of the greatest error; of a problem (precision_sums.h) the number of the result. */
    double worst[2 * PRECISION_MAX_INPUTS];
    double got[2], want[2];
} precision_stats;

/* Of `count` errors, which are reordered. */
void precision_stats_finish(precision_stats *stats, double *errors, int64_t count);

/* A special value at which something else came than the definition says. */
typedef struct precision_surprise {
    double x[2 * PRECISION_MAX_INPUTS];
    double got[2], want[2]; /* the second of pairs only */
} precision_surprise;
#define PRECISION_MAX_SURPRISES 6

/* What one device did. */
typedef struct precision_column {
    precision_stats classes[PRECISION_CLASSES];
    precision_stats slope;  /* the gradient's errors; count 0: not measured */
    int32_t flushes;        /* denormal results came as 0 */
    int32_t same_again;     /* the same bits over repeats */
    int32_t same_elsewhere; /* and on another stream */
    int32_t same_threads;   /* and with one thread */
    int64_t special_count, surprise_count;
    precision_surprise surprises[PRECISION_MAX_SURPRISES];
} precision_column;

/* One operator and dtype: what is reported. */
typedef struct precision_row {
    const precision_function *function;
    const precision_format *format;
    const char *const *class_names; /* precision_class_names, or others; NULL for a class that is not there */
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
/* The greatest error over the classes that a bound speaks of: all but denormal and special numbers. */
double precision_greatest(const precision_column *column);

/* Calls the function on a device: `inputs->count` is the number of results; `out` gets one number for each
 * element, or two for pairs; *out_format theirs. With which >= 0 the gradient for that input. `raw` (may be
 * NULL) gets the bytes. NULL or the reason. */
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
    const precision_shape *shapes; /* of the inputs; NULL: as many elements as there are, in one dimension */
    int32_t which;                 /* -1: the value */
    const double *weights;         /* the gradient of the result; NULL: ones */
    tn_stream *stream;             /* NULL: the current one */
} precision_call;
int32_t precision_run(const precision_call *call, double *out, void *raw, const precision_format **out_format,
                      char *reason, size_t reason_bytes);
/* Whether the bits of `raw` come again: over repeats, on another stream, with one thread. `numbers` and
 * `again` are room for the result. */
void precision_repeats(precision_call *call, precision_column *column, double *numbers, const void *raw,
                       void *again, size_t bytes);
/* The numbers among the arguments that are no tensors, as precision_real wants them. */
void precision_numbers(const precision_options *o, const precision_function *f, double *p, int32_t count);

/* A number of a report; JSON has no word for some. `key` is NULL in arrays. */
void precision_add_number(cJSON *j, const char *key, double x);

#endif
