/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the precision report about operators whose results depend on many elements: reductions,
 * normalisations along a dimension, products of matrices. A problem is one call with its numbers. MPFR gives
 * each exact result and the size of its terms; errors are measured in units of that size. Only
 * precision_sums_measure.c knows a device.
 */
#ifndef TENON_KIT_PRECISION_SUMS_H
#define TENON_KIT_PRECISION_SUMS_H

#include "precision.h"

/* Classes of inputs, in place of those by size; the index of the special one is the same. */
enum {
    SUMS_UNIFORM,    /* of one size; sums have one sign */
    SUMS_WIDE,       /* of both signs and many orders of magnitude */
    SUMS_CANCELLING, /* terms cancel, or a spread is small next to the mean */
    SUMS_MANY,       /* uniform, a hundred thousand at the default number of samples */
    SUMS_CLASSES
};
extern const char *const sums_class_names[PRECISION_CLASSES]; /* NULL: no such class */

/* How the numbers of a problem are chosen, besides its class. */
enum {
    SUMS_OF_TERMS,   /* they are added */
    SUMS_OF_FACTORS, /* multiplied: around 1, so that the product stays in range */
    SUMS_OF_POWERS,  /* exponents of e */
    SUMS_OF_SPREADS  /* taken from their mean */
};

#define SUMS_MAX_INPUTS 3
#define SUMS_MAX_DIMS   4

typedef struct sums_problem sums_problem;

/* One row of n elements: one result, or n; `scale` gets the size of each result's terms. */
typedef void (*sums_row)(mpfr_t *out, mpfr_t *scale, const mpfr_t *x, int64_t n);
/* Where term t of result r is in the first two inputs. */
typedef void (*sums_term)(const sums_problem *p, int64_t r, int64_t t, int64_t *first, int64_t *second);

typedef struct sums_function {
    const char *name;
    const char *label;     /* what the report says of the arguments, or NULL */
    const char *arguments; /* "dim=[D]": D stands for the dimension, N for the number of its elements */
    int32_t inputs;
    int32_t kind;    /* SUMS_OF_... */
    int32_t strided; /* measured along the first dimension, too */
    int32_t classes; /* bits of the classes that are used */
    sums_row row;    /* for operators along a dimension, */
    int32_t each;    /* with a result for each element */
    sums_term term;  /* for products */
    /* Sizes of the inputs of a product of `rows` by `rows` results of n terms; returns the number of terms. */
    int64_t (*sizes)(sums_problem *p, int64_t rows, int64_t n);
} sums_function;

extern const sums_function sums_functions[]; /* ended by name NULL */

struct sums_problem {
    const sums_function *f;
    int32_t dims[SUMS_MAX_INPUTS];
    int64_t sizes[SUMS_MAX_INPUTS][SUMS_MAX_DIMS];
    int64_t counts[SUMS_MAX_INPUTS];
    double *x[SUMS_MAX_INPUTS]; /* in row-major order */
    int64_t rows, n;            /* along a dimension: how many, of how many elements; n terms of a product */
    int32_t dim;                /* 0: elements of a row are `rows` apart */
    int64_t results;
};

/* ---- Problems ------------------------------------------------------------------------------------------ */

/* Room for numbers; 0 when out of memory. */
int32_t sums_problem_init(sums_problem *p, const sums_function *f, int64_t rows, int64_t n, int32_t dim);
void sums_problem_finish(sums_problem *p);
/* Numbers of a class; the same for the same seed. */
void sums_fill(sums_problem *p, const precision_format *format, int32_t class, uint64_t seed);
/* Rows of zeros, infinities, NaN and denormal numbers. 0 when out of memory. */
int32_t sums_problem_special(sums_problem *p, const sums_function *f, const precision_format *format,
                             int32_t dim);

/* ---- Exact values -------------------------------------------------------------------------------------- */

/* All results and the sizes of their terms, both initialised with the precision to work in. */
void sums_exact(const sums_problem *p, mpfr_t *out, mpfr_t *scale);
/* d out[r] / d x[which][i] for all r, as differences of exact values. */
void sums_slopes(const sums_problem *p, mpfr_t *out, int32_t which, int64_t i);
/*
 * The error in units of the last place of the terms: of the greater of |exact| and scale. *of_result gets the
 * same in units of the result's own.
 */
double sums_error(const precision_format *f, double got, mpfr_srcptr exact, mpfr_srcptr scale,
                  double *of_result);

/* ---- Measuring ----------------------------------------------------------------------------------------- */

/* Fills the row, whose format is set. 0 when out of memory. */
int32_t sums_measure(const precision_options *o, const sums_function *f, precision_row *row);

#endif
