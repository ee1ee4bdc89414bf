/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inputs of the precision report, by class. They are uniform over exponents, so every order of magnitude of
 * a format occurs; the same seed gives the same numbers. This file knows only the ranges and points of
 * functions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "precision.h"

const char *const precision_class_names[PRECISION_CLASSES] = {"small", "medium",   "large",
                                                              "near",  "denormal", "special"};

#define SMALL_BELOW  (-4) /* exponents: small is below 2^-4, large from 2^4 on */
#define LARGE_FROM   4
#define NEAR_STEPS   24 /* neighbours on each side of a point */
#define NEAR_SCALES  20 /* and points at distances of 2^-k */
#define DEGREE_MOST  13
#define FAR_EXPONENT 64 /* for unlimited functions, half of the large inputs are below 2^this */

typedef struct draw {
    const precision_function *f;
    const precision_format *format;
    precision_inputs *out;
    uint64_t state;
    int64_t capacity;
    int64_t samples;
} draw;

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t precision_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double precision_share(uint64_t *state)
{
    return (double)(precision_next(state) >> 11) * 0x1p-53;
}

static uint64_t next(draw *d)
{
    return precision_next(&d->state);
}
static double share(draw *d)
{
    return precision_share(&d->state);
}

/* A random significand at an exponent from [low, high). */
static double magnitude(draw *d, int32_t low, int32_t high)
{
    int32_t exponent = low + (int32_t)(next(d) % (uint64_t)(high - low));
    return precision_rounded(d->format, ldexp(1 + share(d), exponent));
}

static int32_t inside(const precision_function *f, double x)
{
    return (f->low == 0 && f->high == 0) || (x >= f->low && x <= f->high);
}

static int32_t grow(draw *d)
{
    precision_inputs *in = d->out;
    if (in->count < d->capacity) return 1;
    int64_t capacity = d->capacity ? 2 * d->capacity : 4096;
    for (int32_t i = 0; i < in->arrays; i++) {
        double *grown = realloc(in->x[i], (size_t)capacity * sizeof(double));
        if (!grown) return 0;
        in->x[i] = grown;
    }
    uint8_t *classes = realloc(in->classes, (size_t)capacity);
    if (!classes) return 0;
    in->classes = classes;
    d->capacity = capacity;
    return 1;
}

/* One element; x has as many numbers as there are arrays. */
static int32_t add(draw *d, const double *x, uint8_t class)
{
    precision_inputs *in = d->out;
    if (!grow(d)) return 0;
    for (int32_t i = 0; i < in->arrays; i++) in->x[i][in->count] = x[i];
    in->classes[in->count++] = class;
    return 1;
}

/* A number of a class for input i; one outside the function's range is moved into it by its sign. */
static double number_of(draw *d, int32_t i, int32_t class)
{
    const precision_format *f = d->format;
    int32_t limited = i == 0 || d->f->flags & PRECISION_LIMITED;
    for (int tries = 0; tries < 64; tries++) {
        double x;
        if (i == 1 && d->f->flags & PRECISION_DEGREE) return (double)(next(d) % DEGREE_MOST);
        int32_t far = next(d) % 2 && f->most > FAR_EXPONENT ? FAR_EXPONENT : f->most + 1;
        if (f->complex && far > f->most / 2) far = f->most / 2; /* squares of parts stay in range */
        int32_t deep = next(d) % 2 && f->least < -FAR_EXPONENT ? -FAR_EXPONENT : f->least;
        if (limited && d->f->high > 0 && isfinite(d->f->high) && ilogb(d->f->high) + 1 < far)
            far = ilogb(d->f->high) + 1;
        if (limited && d->f->low > 0 && ilogb(d->f->low) > deep) deep = ilogb(d->f->low);
        if (class == PRECISION_SMALL)
            x = deep < SMALL_BELOW ? magnitude(d, deep, SMALL_BELOW) : (double)NAN;
        else if (class == PRECISION_MEDIUM)
            x = magnitude(d, SMALL_BELOW, LARGE_FROM);
        else if (class == PRECISION_LARGE)
            x = far > LARGE_FROM ? magnitude(d, LARGE_FROM, far) : (double)NAN;
        else
            x = precision_rounded(f, ldexp(share(d), f->least));
        if (next(d) % 2) x = -x;
        if (!limited || inside(d->f, x)) return x;
        if (inside(d->f, -x)) return -x;
    }
    return NAN;
}

/* Tuples with members of one class, or (every fourth) of the class and another one. */
static int32_t add_class(draw *d, int32_t class)
{
    double x[2 * PRECISION_MAX_INPUTS];
    for (int64_t n = 0; n < d->samples; n++) {
        int32_t usable = 1;
        for (int32_t i = 0; i < d->out->arrays; i++) {
            int32_t input = d->format->complex ? i / 2 : i;
            int32_t other = i > 0 && n % 4 == 3 ? PRECISION_MEDIUM : class;
            x[i] = number_of(d, input, other);
            usable &= x[i] == x[i];
        }
        if (usable && !add(d, x, (uint8_t) class)) return 0;
    }
    return 1;
}

static int32_t add_point(draw *d, double point)
{
    double x[PRECISION_MAX_INPUTS];
    if (!inside(d->f, point)) return 1;
    for (int32_t i = 1; i < d->f->inputs; i++) {
        x[i] = number_of(d, i, PRECISION_MEDIUM);
        /* Powers of numbers near 1 need large exponents. */
        if (next(d) % 2 && !(d->f->flags & (PRECISION_DEGREE | PRECISION_LIMITED)))
            x[i] = number_of(d, i, PRECISION_LARGE);
    }
    x[0] = point;
    return add(d, x, PRECISION_NEAR);
}

static int32_t add_near(draw *d)
{
    const precision_format *f = d->format;
    for (const double *point = d->f->near; point && *point == *point; point++) {
        double center = precision_rounded(f, *point);
        if (!isfinite(center) || fabs(center) >= ldexp(1, f->most)) continue;
        double place = ldexp(1, (center == 0 ? f->least : ilogb(center)) - f->digits + 1);
        for (int32_t k = -NEAR_STEPS; k <= NEAR_STEPS; k++)
            if (!add_point(d, precision_rounded(f, center + k * place))) return 0;
        for (int32_t k = 2; k < 2 + NEAR_SCALES; k++)
            for (int32_t sign = -1; sign <= 1; sign += 2)
                if (!add_point(d,
                               precision_rounded(f, center + sign * ldexp(1 + share(d), ilogb(center) - k))))
                    return 0;
    }
    return 1;
}

/* All pairs of parts, and pairs of pairs. */
static int32_t add_special_pairs(draw *d)
{
    const double values[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN};
    int32_t count = (int32_t)(sizeof(values) / sizeof(values[0])), all = 1;
    double x[2 * PRECISION_MAX_INPUTS];
    for (int32_t i = 0; i < d->out->arrays; i++) all *= count;
    for (int32_t n = 0; n < all; n++) {
        int32_t rest = n;
        for (int32_t i = 0; i < d->out->arrays; i++, rest /= count) x[i] = values[rest % count];
        if (!add(d, x, PRECISION_SPECIAL)) return 0;
    }
    return 1;
}

static int32_t add_special(draw *d)
{
    const precision_format *f = d->format;
    double most = ldexp(2 - ldexp(1, 1 - f->digits), f->most), least = ldexp(1, f->least);
    double tiny = ldexp(1, f->least - f->digits + 1);
    const double values[] = {0,     -0.0,  1,      -1,   INFINITY, -INFINITY, NAN, most,
                             -most, least, -least, tiny, -tiny,    2,         0.5};
    int32_t count = (int32_t)(sizeof(values) / sizeof(values[0])), all = 1;
    double x[PRECISION_MAX_INPUTS];
    for (int32_t i = 0; i < d->f->inputs; i++) all *= count;
    if (d->f->inputs > 2) all = count * count; /* the third follows the first */
    for (int32_t n = 0; n < all; n++) {
        for (int32_t i = 0; i < d->f->inputs; i++) x[i] = values[i == 1 ? n / count : n % count];
        if (d->f->flags & PRECISION_DEGREE) x[1] = (double)(n / count % 4);
        if (!add(d, x, PRECISION_SPECIAL)) return 0;
    }
    return 1;
}

static uint8_t class_of(const precision_format *f, double x)
{
    if (!isfinite(x) || x == 0) return PRECISION_SPECIAL;
    if (fabs(x) < ldexp(1, f->least)) return PRECISION_DENORMAL;
    return ilogb(x) < SMALL_BELOW  ? PRECISION_SMALL
           : ilogb(x) < LARGE_FROM ? PRECISION_MEDIUM
                                   : PRECISION_LARGE;
}

/* All numbers of a 16-bit format. */
static int32_t add_patterns(draw *d)
{
    for (uint32_t bits = 0; bits < 0x10000u; bits++) {
        uint16_t pattern = (uint16_t)bits;
        double x = precision_get(d->format, &pattern, 0);
        uint8_t class = class_of(d->format, x);
        if (class == PRECISION_SPECIAL || !inside(d->f, x)) continue;
        if (!add(d, &x, class)) return 0;
    }
    return 1;
}

int32_t precision_inputs_make(precision_inputs *out, const precision_function *f,
                              const precision_format *format, int64_t samples, uint64_t seed)
{
    draw d = {.f = f, .format = format, .out = out, .state = seed, .samples = samples};
    int32_t ok = 1;
    memset(out, 0, sizeof(*out));
    out->arrays = f->inputs * (format->complex ? 2 : 1);
    for (const char *c = f->name; *c; c++) d.state = d.state * 31 + (unsigned char)*c;
    if (format->digits <= 11 && f->inputs == 1 && samples >= PRECISION_EXHAUSTIVE) {
        ok = add_patterns(&d);
    } else {
        for (int32_t class = PRECISION_SMALL; class <= PRECISION_LARGE && ok; class ++)
            ok = add_class(&d, class);
        ok = ok && (format->complex || (add_near(&d) && add_class(&d, PRECISION_DENORMAL)));
    }
    ok = ok && (format->complex ? add_special_pairs(&d) : add_special(&d));
    if (!ok) precision_inputs_finish(out);
    return ok;
}

void precision_inputs_finish(precision_inputs *inputs)
{
    for (int32_t i = 0; i < inputs->arrays; i++) free(inputs->x[i]);
    free(inputs->classes);
    memset(inputs, 0, sizeof(*inputs));
}
