/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What complex functions are at zeros, infinities and NaN, part by part. Where a part is infinite or NaN the
 * tables of ISO C, Annex G.6, say it (functions that it lacks are judged where they follow from those that it
 * has, and otherwise by one rule: NaN stays NaN). At zeros of both signs it is the limit
 * from their side, for which the exact function is asked at a tiny number. Knows nothing of devices.
 */
#include <math.h>
#include <string.h>
#include "precision.h"

#define PI 3.14159265358979323846

/*
 * Rows of two letters for the input's parts and two for the result's, first match. The imaginary part is not
 * negative: other values follow from f(conj z) = conj f(z). So does the real part of odd and even functions.
 *
 * Inputs: 0 and N zeros, 1 one, f finite, p finite but not 0, u not 0, i and I infinities, n NaN, a anything.
 * Results: 0 z 1 i I n as they are, z a zero and j an infinity of either sign; q h t o quarters of pi; c and
 * s an infinity with the sign of cos y and sin y, C and S a zero with it, D one with that of sin 2y; ? not
 * said.
 */
typedef struct special_table {
    const char *name;
    int32_t parity; /* -1: odd, 1: even */
    const char *rows[16];
} special_table;

static const special_table tables[] = {
    {"exp", 0, {"finn", "fnnn", "i0i0", "IfCS", "ifcs", "Iizz", "iijn", "Inzz", "injn", "n0n0", "nann"}},
    {"log",
     0,
     {"N0Io", "00I0", "fiih", "fnnn", "Ifio", "ifi0", "Iiit", "iiiq", "inin", "Inin", "nfnn", "niin",
      "nnnn"}},
    {"sqrt", 0, {"aiii", "fnnn", "If0i", "ifi0", "Innj", "inin", "nfnn", "nnnn"}},
    {"acos",
     0,
     {"fihI", "0nhn", "Nnhn", "pnnn", "IfoI", "if0I", "IitI", "iiqI", "innj", "Innj", "nfnn", "ninI",
      "nnnn"}},
    {"acosh",
     0,
     {"fiih", "pnnn", "0nn?", "Nnn?", "Ifio", "ifi0", "Iiit", "iiiq", "inin", "Inin", "nfnn", "niin",
      "nnnn"}},
    {"asinh", -1, {"fiih", "fnnn", "ifi0", "iiiq", "inin", "n0n0", "npnn", "nijn", "nnnn"}},
    {"atanh", -1, {"0n0n", "10i0", "fi0h", "pnnn", "if0h", "ii0h", "in0n", "nfnn", "nizh", "nnnn"}},
    {"cosh", 1, {"0inz", "0nnz", "pinn", "pnnn", "i0i?", "ifcs", "iijn", "inin", "n0nz", "nunn", "nnnn"}},
    {"sinh", -1, {"0izn", "0nzn", "pinn", "pnnn", "i0i0", "ifcs", "iijn", "injn", "n0n0", "nunn", "nnnn"}},
    {"tanh", -1, {"0i?n", "0n?n", "pinn", "pnnn", "if1D", "ii1z", "in1z", "n0n0", "nunn", "nnnn"}},
};

/* Functions by those of the tables: f(z) = i^after g(i^before z) times a number. */
typedef struct special_function {
    const char *name, *table;
    int32_t turned; /* f(z) = -i g(i z); 2: f(z) = g(i z) */
    double factor;
} special_function;

static const special_function functions[] = {
    {"aten::exp", "exp", 0, 1},
    {"aten::exp2", "exp", 0, 1},
    {"aten::log", "log", 0, 1},
    {"aten::log2", "log", 0, 1.44269504088896340736},
    {"aten::log10", "log", 0, 0.43429448190325182765},
    {"aten::sqrt", "sqrt", 0, 1},
    {"aten::acos", "acos", 0, 1},
    {"aten::acosh", "acosh", 0, 1},
    {"aten::asinh", "asinh", 0, 1},
    {"aten::atanh", "atanh", 0, 1},
    {"aten::cosh", "cosh", 0, 1},
    {"aten::sinh", "sinh", 0, 1},
    {"aten::tanh", "tanh", 0, 1},
    {"aten::asin", "asinh", 1, 1},
    {"aten::atan", "atanh", 1, 1},
    {"aten::sin", "sinh", 1, 1},
    {"aten::tan", "tanh", 1, 1},
    {"aten::cos", "cosh", 2, 1},
};

static int32_t fits(char letter, double x)
{
    switch (letter) {
    case '0':
        return x == 0 && !signbit(x);
    case 'N':
        return x == 0 && signbit(x);
    case '1':
        return x == 1;
    case 'f':
        return isfinite(x);
    case 'p':
        return isfinite(x) && x != 0;
    case 'u':
        return x != 0 && x == x;
    case 'i':
        return isinf(x) && x > 0;
    case 'I':
        return isinf(x) && x < 0;
    case 'n':
        return x != x;
    default:
        return 1;
    }
}

static precision_part part_of(char letter, double y)
{
    switch (letter) {
    case '0':
        return (precision_part){0, PRECISION_PART_EXACT};
    case 'z':
        return (precision_part){0, PRECISION_PART_SIGNLESS};
    case '1':
        return (precision_part){1, PRECISION_PART_EXACT};
    case 'i':
        return (precision_part){INFINITY, PRECISION_PART_EXACT};
    case 'I':
        return (precision_part){-INFINITY, PRECISION_PART_EXACT};
    case 'j':
        return (precision_part){INFINITY, PRECISION_PART_SIGNLESS};
    case 'n':
        return (precision_part){NAN, PRECISION_PART_EXACT};
    case 'q':
        return (precision_part){PI / 4, PRECISION_PART_EXACT};
    case 'h':
        return (precision_part){PI / 2, PRECISION_PART_EXACT};
    case 't':
        return (precision_part){3 * PI / 4, PRECISION_PART_EXACT};
    case 'o':
        return (precision_part){PI, PRECISION_PART_EXACT};
    case 'c':
        return (precision_part){copysign(INFINITY, cos(y)), PRECISION_PART_EXACT};
    case 's':
        return (precision_part){copysign(INFINITY, sin(y)), PRECISION_PART_EXACT};
    case 'C':
        return (precision_part){copysign(0, cos(y)), PRECISION_PART_EXACT};
    case 'S':
        return (precision_part){copysign(0, sin(y)), PRECISION_PART_EXACT};
    case 'D':
        return (precision_part){copysign(0, sin(2 * y)), PRECISION_PART_EXACT};
    default:
        return (precision_part){NAN, PRECISION_PART_FREE};
    }
}

static void negate(precision_part *p)
{
    p->value = -p->value;
}

/* 1 if a row of the table matches. */
static int32_t look_up(const special_table *t, double x, double y, precision_part *out)
{
    int32_t mirrored = t->parity && signbit(x);
    if (mirrored) {
        x = -x;
        y = -y;
    }
    int32_t conjugate = signbit(y);
    if (conjugate) y = -y;
    for (int32_t i = 0; i < 16 && t->rows[i]; i++) {
        const char *row = t->rows[i];
        if (!fits(row[0], x) || !fits(row[1], y)) continue;
        for (int32_t k = 0; k < 2; k++) out[k] = part_of(row[2 + k], y);
        if (conjugate) negate(&out[1]);
        if (mirrored && t->parity < 0) negate(&out[0]);
        if (mirrored && t->parity < 0) negate(&out[1]);
        return 1;
    }
    return 0;
}

static int32_t from_tables(const char *name, const double *x, precision_part *out)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        const special_function *f = &functions[i];
        if (strcmp(f->name, name) != 0) continue;
        for (size_t k = 0; k < sizeof(tables) / sizeof(tables[0]); k++) {
            if (strcmp(tables[k].name, f->table) != 0) continue;
            if (!look_up(&tables[k], f->turned ? -x[1] : x[0], f->turned ? x[0] : x[1], out)) return 0;
        }
        if (f->turned == 1) { /* -i (a + b i) = b - a i */
            precision_part first = out[0];
            out[0] = out[1];
            out[1] = first;
            negate(&out[1]);
        }
        for (int32_t k = 0; k < 2; k++) out[k].value *= f->factor;
        return 1;
    }
    return 0;
}

/* ---- Limits at zeros ----------------------------------------------------------------------------------- */

#define TINY_EXPONENT 1200 /* stands for a zero */
#define ZERO_BELOW    500  /* exponents of results that stand for one */
#define POLE_ABOVE \
    500 /* results at poles, which depend on the side: a logarithm of the tiny number is one \
         */
#define SECOND_ORDER 2000 /* products of two of them: C leaves the sign open */

static void set_free(precision_part *out)
{
    out[0] = out[1] = (precision_part){NAN, PRECISION_PART_FREE};
}

static precision_part part_of_limit(mpfr_srcptr x)
{
    precision_part part = {mpfr_get_d(x, MPFR_RNDN), PRECISION_PART_EXACT};
    if (mpfr_nan_p(x)) part.kind = PRECISION_PART_FREE;
    if (mpfr_zero_p(x)) part.kind = PRECISION_PART_SIGNLESS;
    if (!mpfr_regular_p(x)) return part;
    if (mpfr_get_exp(x) < -ZERO_BELOW) part.value = mpfr_signbit(x) ? -0.0 : 0.0;
    if (mpfr_get_exp(x) < -SECOND_ORDER) part.kind = PRECISION_PART_SIGNLESS;
    return part;
}

static void limit_at(const char *name, const double *x, int32_t count, precision_part *out)
{
    mpfr_t at[2 * PRECISION_MAX_INPUTS], result[2];
    int32_t pole = 0;
    for (int32_t i = 0; i < count; i++) {
        mpfr_init2(at[i], 53);
        mpfr_set_d(at[i], x[i], MPFR_RNDN);
        if (x[i] == 0) mpfr_set_si_2exp(at[i], signbit(x[i]) ? -1 : 1, -TINY_EXPONENT, MPFR_RNDN);
    }
    for (int32_t i = 0; i < 2; i++) mpfr_init2(result[i], 160);
    precision_pairs(name, result, at);
    for (int32_t i = 0; i < 2; i++) {
        pole |= mpfr_cmpabs_ui(result[i], POLE_ABOVE) > 0;
        out[i] = part_of_limit(result[i]);
        mpfr_clear(result[i]);
    }
    if (pole) set_free(out);
    for (int32_t i = 0; i < count; i++) mpfr_clear(at[i]);
}

/* ---- All ----------------------------------------------------------------------------------------------- */

/* A sum adds the parts. */
static void sum_of(const double *x, double sign, precision_part *out)
{
    for (int32_t k = 0; k < 2; k++) out[k] = (precision_part){x[k] + sign * x[2 + k], PRECISION_PART_EXACT};
}

void precision_pairs_special(const char *name, const double *x, int32_t count, precision_part *out)
{
    int32_t finite = 1, zero = 0, nan = 0, infinite = 0;
    for (int32_t i = 0; i < count; i++) {
        finite &= isfinite(x[i]) != 0;
        nan |= x[i] != x[i];
        infinite |= isinf(x[i]) != 0;
    }
    for (int32_t i = 0; i < count; i += 2) zero |= x[i] == 0 && x[i + 1] == 0;
    set_free(out);
    if (strcmp(name, "aten::add.Tensor") == 0 || strcmp(name, "aten::sub.Tensor") == 0) {
        sum_of(x, strstr(name, "sub") ? -1 : 1, out);
    } else if (strcmp(name, "aten::abs") == 0) {
        out[0] = (precision_part){hypot(x[0], x[1]), PRECISION_PART_EXACT};
    } else if (strcmp(name, "aten::angle") == 0) {
        out[0] = (precision_part){atan2(x[1], x[0]), PRECISION_PART_EXACT};
    } else if (!from_tables(name, x, out)) {
        if (nan && !infinite)
            out[0].kind = out[1].kind = PRECISION_PART_SOME_NAN;
        else if (finite && count == 2 && (!zero || precision_is_regular_at_0(name)))
            limit_at(name, x, count, out);
        else
            set_free(out);
    }
}

/* An exact 0 or infinity of the table is not rounded. */
static int32_t part_fits(const precision_format *f, double got, const precision_part *want)
{
    if (want->value != want->value) return got != got;
    if (want->value == 0)
        return got == 0 && (want->kind == PRECISION_PART_SIGNLESS || !signbit(got) == !signbit(want->value));
    if (isinf(want->value))
        return isinf(got) && (want->kind == PRECISION_PART_SIGNLESS || got == want->value);
    return fabs(got - want->value) <= 4 * ldexp(1, ilogb(want->value) - f->digits + 1);
}

int32_t precision_pair_fits(const precision_format *f, const double *got, const precision_part *want,
                            int32_t parts)
{
    if (want[0].kind == PRECISION_PART_SOME_NAN) return got[0] != got[0] || (parts == 2 && got[1] != got[1]);
    for (int32_t k = 0; k < parts; k++)
        if (want[k].kind != PRECISION_PART_FREE && !part_fits(f, got[k], &want[k])) return 0;
    return 1;
}
