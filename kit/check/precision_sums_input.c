/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the problems of precision_sums.h, by class. This file knows only the kind of inputs of a
 * function. */
#include <math.h>
#include <string.h>
#include "precision_sums.h"

const char *const sums_class_names[PRECISION_CLASSES] = {"uniform", "wide", "cancelling",
                                                         "many",    NULL,   "special"};

#define WIDE_REACH       20 /* exponents of wide terms are within this; of float16 within WIDE_REACH_16 */
#define WIDE_REACH_16    5
#define OFFSET_OF_POWERS 100 /* cancels when the greatest exponent is subtracted */

typedef struct draw {
    const precision_format *format;
    uint64_t state;
    int32_t class;
} draw;

static double wide(draw *d, int32_t low, int32_t high)
{
    int32_t exponent = low + (int32_t)(precision_next(&d->state) % (uint64_t)(high - low));
    double x = ldexp(1 + precision_share(&d->state), exponent);
    return precision_next(&d->state) % 2 ? -x : x;
}

static double term_number(draw *d)
{
    int32_t reach = d->format->most > WIDE_REACH ? WIDE_REACH : WIDE_REACH_16;
    if (d->class == SUMS_WIDE) return wide(d, -reach, reach);
    return d->class == SUMS_CANCELLING ? wide(d, -3, 3) : precision_share(&d->state);
}
/* Powers of 2 around 0, whose sum is a random walk of a few steps. */
static double factor_number(draw *d)
{
    double x = precision_share(&d->state) - 0.5;
    if (d->class == SUMS_WIDE) return wide(d, -3, 4);
    return exp2(d->class == SUMS_MANY ? x / 32 : x / 2);
}
static double power_number(draw *d)
{
    double x = precision_share(&d->state);
    if (d->class == SUMS_WIDE) return wide(d, -10, 6);
    return d->class == SUMS_CANCELLING ? OFFSET_OF_POWERS + 4 * x : 10 * x - 5;
}
/* A mean with half the digits: its square leaves no digits for the spread. */
static double spread_number(draw *d)
{
    double x = precision_share(&d->state);
    if (d->class == SUMS_WIDE) return term_number(d);
    return d->class == SUMS_CANCELLING ? ldexp(1, d->format->digits / 2) + x : x;
}

/* -x except for its last bits. */
static double opposite(const draw *d, double x, int64_t i)
{
    return precision_rounded(d->format, -x * (1 + ldexp((double)(i % 5) - 2, 2 - d->format->digits)));
}

/* The second half of each row cancels the first; then the row is shuffled. */
static void cancel_rows(draw *d, sums_problem *p)
{
    int64_t along = p->dim ? 1 : p->rows, across = p->dim ? p->n : 1;
    for (int64_t row = 0; row < p->rows; row++) {
        double *x = p->x[0] + row * across;
        for (int64_t i = 0; i < p->n / 2; i++) x[(i + p->n / 2) * along] = opposite(d, x[i * along], i);
        for (int64_t i = p->n - 1; i > 0; i--) {
            int64_t other = (int64_t)(precision_next(&d->state) % (uint64_t)(i + 1));
            double kept = x[i * along];
            x[i * along] = x[other * along];
            x[other * along] = kept;
        }
    }
}
/* The same for the terms of products, without shuffling. */
static void cancel_products(draw *d, sums_problem *p)
{
    int64_t first[2], second[2];
    for (int64_t r = 0; r < p->results; r++) {
        for (int64_t t = 0; t < p->n / 2; t++) {
            p->f->term(p, r, t, &first[0], &second[0]);
            p->f->term(p, r, t + p->n / 2, &first[1], &second[1]);
            p->x[0][first[1]] = p->x[0][first[0]];
            p->x[1][second[1]] = opposite(d, p->x[1][second[0]], second[0]);
        }
    }
}

void sums_fill(sums_problem *p, const precision_format *format, int32_t class, uint64_t seed)
{
    static double (*const of_kind[])(draw *) = {term_number, factor_number, power_number, spread_number};
    draw d = {.format = format, .state = seed + (uint64_t) class, .class = class};
    for (const char *c = p->f->name; *c; c++) d.state = d.state * 31 + (unsigned char)*c;
    for (int32_t k = 0; k < p->f->inputs; k++)
        for (int64_t i = 0; i < p->counts[k]; i++)
            p->x[k][i] = precision_rounded(format, of_kind[p->f->kind](&d));
    if (class != SUMS_CANCELLING || p->f->kind != SUMS_OF_TERMS) return;
    p->f->row ? cancel_rows(&d, p) : cancel_products(&d, p);
}

#define SPECIAL_LENGTH 4
#define SPECIAL_ROWS   11

int32_t sums_problem_special(sums_problem *p, const sums_function *f, const precision_format *format,
                             int32_t dim)
{
    const double least = ldexp(1, format->least), tiny = ldexp(1, format->least - format->digits + 1);
    const double values[SPECIAL_ROWS][SPECIAL_LENGTH] = {{NAN, 1, 2, 3},
                                                         {INFINITY, 1, 2, 3},
                                                         {-INFINITY, 1, 2, 3},
                                                         {INFINITY, -INFINITY, 1, 2},
                                                         {0, 1, NAN, INFINITY},
                                                         {0, 0, 0, 0},
                                                         {-0.0, -0.0, -0.0, -0.0},
                                                         {tiny, tiny, 2 * tiny, 0},
                                                         {least, -tiny, 0, 0},
                                                         {1, 1, 1, 1},
                                                         {-INFINITY, -INFINITY, -INFINITY, -INFINITY}};
    static const double factors[5] = {1, 0, -1, 2, 0.5};
    if (!sums_problem_init(p, f, SPECIAL_ROWS, SPECIAL_LENGTH, dim)) return 0;
    for (int64_t i = 0; i < p->counts[0]; i++) {
        int64_t row = i / SPECIAL_LENGTH, column = i % SPECIAL_LENGTH;
        if (f->row && !dim) {
            row = i % SPECIAL_ROWS;
            column = i / SPECIAL_ROWS;
        }
        p->x[0][i] = values[row % SPECIAL_ROWS][column];
    }
    for (int32_t k = 1; k < f->inputs; k++)
        for (int64_t i = 0; i < p->counts[k]; i++) p->x[k][i] = factors[i % 5];
    return 1;
}
