/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the precision report that need no device: the measure of an error on numbers whose distance is
 * known, and exact functions against closed forms and tabulated values (DLMF; Abramowitz and Stegun).
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "../../kit/check/precision_sums.h"

static const precision_format *format(const char *name)
{
    const precision_format *f = precision_formats;
    while (strcmp(f->name, name) != 0) f++;
    return f;
}

static double error_of(const char *dtype, double got, double exact)
{
    mpfr_t e;
    mpfr_init2(e, 200);
    mpfr_set_d(e, exact, MPFR_RNDN);
    double error = precision_error(format(dtype), got, e);
    mpfr_clear(e);
    return error;
}

Test(precision, units)
{
    cr_assert_eq(error_of("float32", 1 + 0x1p-23, 1), 1);
    cr_assert_eq(error_of("float32", 1, 1 + 0x1p-24), -0.5);
    cr_assert_eq(error_of("float32", 1 - 0x1p-24, 1), -0.5, "the unit is that of the exact value, above it");
    cr_assert_eq(error_of("float64", 1 + 0x1p-52, 1), 1);
    cr_assert_eq(error_of("bfloat16", 1 + 0x1p-7, 1), 1);
    cr_assert_eq(error_of("float16", 2 + 0x1p-9, 2), 1);
    cr_assert_eq(error_of("float32", -3, -3), 0);
    cr_assert_eq(error_of("float32", -4, 4), -8 * 0x1p21, "a wrong sign is far away");
}

Test(precision, units_around_zero)
{
    cr_assert_eq(error_of("float32", 0x1p-149, 0), 1);
    cr_assert_eq(error_of("float32", 0, 0), 0);
    cr_assert_eq(error_of("float32", -0.0, 0), 0);
    cr_assert_eq(error_of("float32", 0, 0x1p-126), -0x1p23, "flushing the smallest normal number");
    cr_assert_eq(error_of("float32", 3 * 0x1p-149, 5 * 0x1p-149), -2);
    cr_assert_eq(error_of("float16", 0x1p-24, 0), 1);
    cr_assert_eq(error_of("float32", 0x1p-149, 0x1p-151), 0.75);
}

Test(precision, units_at_overflow)
{
    double most = 0x1.fffffep127;
    cr_assert_eq(error_of("float32", INFINITY, most), 1, "infinity stands one unit above the largest number");
    cr_assert_eq(error_of("float32", INFINITY, 1e300), 0);
    cr_assert_eq(error_of("float32", most, INFINITY), -1);
    cr_assert_eq(error_of("float32", -INFINITY, -1e300), 0);
    cr_assert_eq(error_of("float16", INFINITY, 65504), 1);
    cr_assert_eq(error_of("float32", INFINITY, 0x1p127), 0x1p23);
    cr_assert(isinf(error_of("float32", NAN, 1)) && isinf(error_of("float32", 1, NAN)));
    cr_assert_eq(error_of("float32", NAN, NAN), 0);
}

Test(precision, units_of_pairs)
{
    mpfr_t exact[2];
    for (int i = 0; i < 2; i++) mpfr_init2(exact[i], 100);
    mpfr_set_d(exact[0], 1, MPFR_RNDN);
    mpfr_set_d(exact[1], 0x1p-30, MPFR_RNDN);
    double got[2] = {1, 0x1p-30 + 0x1p-23};
    cr_assert_eq(precision_error_pair(format("complex64"), got, exact), 1, "the unit is the greater part's");
    got[1] = NAN;
    cr_assert(isinf(precision_error_pair(format("complex64"), got, exact)));
    for (int i = 0; i < 2; i++) mpfr_clear(exact[i]);
}

/* All patterns of the 16-bit formats come back, NaN apart, and numbers between two go to the even one. */
Test(precision, patterns)
{
    const char *const names[] = {"float16", "bfloat16"};
    for (int k = 0; k < 2; k++) {
        for (uint32_t bits = 0; bits < 0x10000u; bits++) {
            uint16_t in = (uint16_t)bits, out = 0;
            double x = precision_get(format(names[k]), &in, 0);
            if (x != x) continue;
            precision_put(format(names[k]), &out, 0, x);
            cr_assert_eq(in, out, "%s %04x became %04x", names[k], in, out);
        }
    }
    cr_assert_eq(precision_rounded(format("float16"), 1 + 0x1p-11), 1);
    cr_assert_eq(precision_rounded(format("float16"), 1 + 3 * 0x1p-11), 1 + 0x1p-9);
    cr_assert_eq(precision_rounded(format("float16"), 65519.99), 65504);
    cr_assert(isinf(precision_rounded(format("float16"), 65520)));
    cr_assert_eq(precision_rounded(format("float16"), 0x1p-25), 0);
    cr_assert_eq(precision_rounded(format("bfloat16"), 3.140625 + 0x1p-8), 3.140625);
}

/* ---- Exact functions ----------------------------------------------------------------------------------- */

static const precision_function *function(const char *name, const char *arguments)
{
    const precision_function *f = precision_functions;
    while (f->name && (strcmp(f->name, name) != 0 ||
                       strcmp(f->arguments ? f->arguments : "", arguments ? arguments : "") != 0))
        f++;
    cr_assert_not_null(f->name, "no %s", name);
    return f;
}

/* f(a, b) against a decimal text of more digits than are compared. */
static void expect(const char *name, const char *arguments, double n, double a, double b, const char *want)
{
    mpfr_t x[2], out, exact;
    for (int i = 0; i < 2; i++) mpfr_init2(x[i], 53);
    mpfr_inits2(160, out, exact, (mpfr_ptr)0);
    mpfr_set_d(x[0], a, MPFR_RNDN);
    mpfr_set_d(x[1], b, MPFR_RNDN);
    function(name, arguments)->real(out, x, &n);
    mpfr_set_str(exact, want, 10, MPFR_RNDN);
    mpfr_sub(exact, exact, out, MPFR_RNDN);
    if (mpfr_regular_p(out)) mpfr_div(exact, exact, out, MPFR_RNDN);
    double apart = mpfr_get_d(exact, MPFR_RNDN);
    cr_assert(fabs(apart) < 1e-19, "%s(%g, %g) is %.17g, off %g", name, a, b, mpfr_get_d(out, MPFR_RNDN),
              apart);
    for (int i = 0; i < 2; i++) mpfr_clear(x[i]);
    mpfr_clears(out, exact, (mpfr_ptr)0);
}

Test(precision, tabulated)
{
    expect("aten::exp", NULL, 0, 1, 0, "2.71828182845904523536028747135");
    expect("aten::lgamma", NULL, 0, 0.5, 0, "0.57236494292470008707171367567653");
    expect("aten::digamma", NULL, 0, 1, 0, "-0.57721566490153286060651209008");
    expect("aten::polygamma", "n=1", 1, 1, 0, "1.64493406684822643647241516665");      /* pi^2 / 6 */
    expect("aten::polygamma", "n=1", 1, 0.5, 0, "4.93480220054467930941724549994");    /* pi^2 / 2 */
    expect("aten::polygamma", "n=1", 1, -0.5, 0, "8.93480220054467930941724549994");   /* and 4 more */
    expect("aten::polygamma", "n=2", 2, 1, 0, "-2.40411380631918857079947632302");     /* -2 zeta(3) */
    expect("aten::special_zeta", NULL, 0, 4, 1, "1.08232323371113819151600369654");    /* pi^4 / 90 */
    expect("aten::special_zeta", NULL, 0, 2, -1.5, "9.37924664498912375386168994438"); /* pi^2/2 + 4 + 4/9 */
    expect("aten::i0", NULL, 0, 1, 0, "1.26606587775200833559824462521");
    expect("aten::special_i1", NULL, 0, -1, 0, "-0.56515910399248502720769602761");
    expect("aten::special_modified_bessel_k0", NULL, 0, 1, 0, "0.42102443824070833333562737921");
    expect("aten::special_modified_bessel_k1", NULL, 0, 1, 0, "0.60190723019723457473754000153");
    expect("aten::special_airy_ai", NULL, 0, 0, 0, "0.35502805388781723926006318600");
    expect("aten::special_bessel_j0", NULL, 0, 1, 0, "0.76519768655796655144971752610");
    expect("aten::special_erfcx", NULL, 0, 1, 0, "0.42758357615580700441075034449");
    expect("aten::erfinv", NULL, 0, 0.5, 0, "0.47693627620446987338141835364");
    expect("aten::igamma", NULL, 0, 1, 2, "0.86466471676338730810600050503"); /* 1 - e^-2 */
    expect("aten::igammac", NULL, 0, 1, 2, "0.13533528323661269189399949497");
    expect("aten::special_legendre_polynomial_p", NULL, 0, 0.5, 3, "-0.4375");
    expect("aten::special_hermite_polynomial_h", NULL, 0, 2, 4, "76"); /* 16x^4 - 48x^2 + 12 */
    expect("aten::special_laguerre_polynomial_l", NULL, 0, 3, 2, "-0.5");
    expect("aten::special_chebyshev_polynomial_t", NULL, 0, 0.5, 3, "-1");
}

/* Where two expansions meet they have to agree: both sides of the point, with the slope between. */
Test(precision, expansions_meet)
{
    const char *const names[] = {"aten::special_erfcx", "aten::special_i0e", "aten::special_i1e",
                                 "aten::special_scaled_modified_bessel_k0",
                                 "aten::special_scaled_modified_bessel_k1"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        mpfr_t x[1], below, above, slope;
        mpfr_init2(x[0], 200);
        mpfr_inits2(160, below, above, slope, (mpfr_ptr)0);
        const precision_function *f = function(names[i], NULL);
        mpfr_set_d(x[0], 250 - 0x1p-40, MPFR_RNDN);
        f->real(below, x, NULL);
        mpfr_set_d(x[0], 250 + 0x1p-40, MPFR_RNDN);
        f->real(above, x, NULL);
        mpfr_set_d(x[0], 249, MPFR_RNDN);
        precision_slope(f, slope, x, NULL, 0);
        double step = mpfr_get_d(slope, MPFR_RNDN) * 0x1p-39;
        mpfr_sub(above, above, below, MPFR_RNDN);
        cr_assert(fabs(mpfr_get_d(above, MPFR_RNDN) / step - 1) < 0.02, "%s", names[i]);
        mpfr_clears(x[0], below, above, slope, (mpfr_ptr)0);
    }
}

Test(precision, slopes)
{
    mpfr_t x[2], slope;
    mpfr_inits2(160, x[0], x[1], slope, (mpfr_ptr)0);
    mpfr_set_d(x[0], 20, MPFR_RNDN);
    precision_slope(function("aten::tanh", NULL), slope, x, NULL, 0);
    cr_assert_float_eq(mpfr_get_d(slope, MPFR_RNDN) / 1.6993417021166355e-17, 1, 1e-12); /* 1 / cosh^2 */
    mpfr_set_d(x[0], 3, MPFR_RNDN);
    mpfr_set_d(x[1], 2, MPFR_RNDN);
    precision_slope(function("aten::pow.Tensor_Tensor", NULL), slope, x, NULL, 1);
    cr_assert_float_eq(mpfr_get_d(slope, MPFR_RNDN), 9.8875105980129872, 1e-14); /* 9 log 3 */
    mpfr_set_d(x[0], 1e-300, MPFR_RNDN);
    mpfr_set_d(x[1], 1e300, MPFR_RNDN);
    precision_slope(function("aten::add.Tensor", NULL), slope, x, NULL, 0);
    cr_assert_eq(mpfr_get_d(slope, MPFR_RNDN), 1);
    mpfr_clears(x[0], x[1], slope, (mpfr_ptr)0);
}

static void expect_pair(const char *name, double re, double im, double want_re, double want_im)
{
    mpfr_t x[4], out[2];
    for (int i = 0; i < 4; i++) mpfr_init2(x[i], 53);
    for (int i = 0; i < 2; i++) mpfr_init2(out[i], 160);
    mpfr_set_d(x[0], re, MPFR_RNDN);
    mpfr_set_d(x[1], im, MPFR_RNDN);
    mpfr_set_d(x[2], 1, MPFR_RNDN);
    mpfr_set_d(x[3], 2, MPFR_RNDN);
    precision_pairs(name, out, x);
    double got_re = mpfr_get_d(out[0], MPFR_RNDN), got_im = mpfr_get_d(out[1], MPFR_RNDN);
    cr_assert(fabs(got_re - want_re) < 1e-14 && fabs(got_im - want_im) < 1e-14, "%s(%g%+gi) is %.17g%+.17gi",
              name, re, im, got_re, got_im);
    for (int i = 0; i < 4; i++) mpfr_clear(x[i]);
    for (int i = 0; i < 2; i++) mpfr_clear(out[i]);
}

Test(precision, pairs)
{
    const double pi = 3.14159265358979323846;
    expect_pair("aten::sqrt", -4, 0.0, 0, 2);
    expect_pair("aten::sqrt", -3, -4, 1, -2);
    expect_pair("aten::log", 0, 1, 0, pi / 2);
    expect_pair("aten::exp", 0, pi, -1, 0);
    expect_pair("aten::mul.Tensor", 3, 4, -5, 10);
    expect_pair("aten::div.Tensor", -5, 10, 3, 4);
    expect_pair("aten::pow.Tensor_Tensor", 1, 0, 1, 0);
    expect_pair("aten::abs", 3, -4, 5, 0);
    expect_pair("aten::sinh", 0, 1, 0, 0.84147098480789650665);
    expect_pair("aten::cos", 0, 1, 1.5430806348152437785, 0);
    expect_pair("aten::asin", 2, 1, 1.0634400235777520562, 1.4693517443681852733);
    expect_pair("aten::acosh", 2, -1, 1.4693517443681852733, -0.50735630321714456304);
    expect_pair("aten::atanh", 2, 1, 0.40235947810852509365, 1.3389725222944935611);
    expect_pair("aten::tanh", 1, 1, 1.0839233273386945435, 0.27175258531951171653);
}

/* ---- Inputs -------------------------------------------------------------------------------------------- */

Test(precision, inputs)
{
    precision_inputs a, b;
    const precision_function *f = function("aten::asin", NULL);
    cr_assert(precision_inputs_make(&a, f, format("float32"), 50, 7));
    cr_assert(precision_inputs_make(&b, f, format("float32"), 50, 7));
    cr_assert_eq(a.count, b.count);
    int64_t classes[PRECISION_CLASSES] = {0};
    for (int64_t i = 0; i < a.count; i++) {
        double x = a.x[0][i];
        classes[a.classes[i]]++;
        cr_assert(memcmp(&x, &b.x[0][i], sizeof x) == 0, "the same seed gives the same numbers");
        if (a.classes[i] == PRECISION_SPECIAL) continue;
        cr_assert(fabs(x) <= 1 && x == (double)(float)x);
        if (a.classes[i] == PRECISION_DENORMAL) cr_assert(fabs(x) < 0x1p-126);
        if (a.classes[i] == PRECISION_SMALL) cr_assert(fabs(x) < 0x1p-4);
    }
    cr_assert(classes[PRECISION_SMALL] == 50 && classes[PRECISION_LARGE] == 0 &&
              classes[PRECISION_NEAR] > 50);
    precision_inputs_finish(&a);
    precision_inputs_finish(&b);
    cr_assert(precision_inputs_make(&a, function("aten::exp2", NULL), format("bfloat16"), 1000, 7));
    /* Patterns from -1200 to 1200, zeros in the special ones: (0x4496 + 1 - 1) of each sign. */
    int64_t plain = 0;
    for (int64_t i = 0; i < a.count; i++) plain += a.classes[i] != PRECISION_SPECIAL;
    cr_assert_eq(plain, 2 * 0x4496, "every pattern once, not %lld", (long long)plain);
    precision_inputs_finish(&a);
}

/* ---- Sums ---------------------------------------------------------------------------------------------- */

static const sums_function *sums_of(const char *name)
{
    const sums_function *f = sums_functions;
    while (f->name && strcmp(f->name, name) != 0) f++;
    cr_assert_not_null(f->name, "no %s", name);
    return f;
}

static void numbers_init(mpfr_t *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) mpfr_init2(x[i], 320);
}
static void numbers_clear(mpfr_t *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) mpfr_clear(x[i]);
}

/* One row of `n` numbers: result i and the size of its terms. */
static void expect_row(const char *name, const double *x, int64_t n, int64_t i, double want, double scale)
{
    for (int32_t dim = 0; dim < 2; dim++) {
        sums_problem p;
        mpfr_t out[8], terms[8];
        cr_assert(sums_problem_init(&p, sums_of(name), 1, n, dim));
        memcpy(p.x[0], x, (size_t)n * sizeof(double));
        numbers_init(out, 8);
        numbers_init(terms, 8);
        sums_exact(&p, out, terms);
        double got = mpfr_get_d(out[i], MPFR_RNDN), got_scale = mpfr_get_d(terms[i], MPFR_RNDN);
        cr_assert_float_eq(got, want, 1e-15 * fabs(want), "%s: %.17g", name, got);
        cr_assert_float_eq(got_scale, scale, 1e-15 * scale, "%s: terms %.17g", name, got_scale);
        numbers_clear(out, 8);
        numbers_clear(terms, 8);
        sums_problem_finish(&p);
    }
}

Test(precision, sums_along_a_dimension)
{
    const double x[4] = {1e17, 1, -1e17, 3}, y[4] = {1, 2, 3, 6}, zeros[4] = {0};
    const double logs[3] = {0, 0.69314718055994530942, 1.60943791243410037460};
    expect_row("aten::sum.dim_IntList", x, 4, 0, 4, 2e17 + 4);
    expect_row("aten::mean.dim", x, 4, 0, 1, 5e16 + 1);
    expect_row("aten::cumsum", x, 4, 2, 1, 2e17 + 1);
    expect_row("aten::prod.dim_int", y, 4, 0, 36, 36);
    expect_row("aten::linalg_vector_norm", y, 4, 0, 7.0710678118654752440, 7.0710678118654752440);
    /* The mean is 3, deviations squared 4, 1, 0 and 9: 14 / 3; the condition sqrt(50 / 14). */
    expect_row("aten::var.correction", y, 4, 0, 14.0 / 3, 8.8191710368819694);
    expect_row("aten::logsumexp", logs, 3, 0, 2.0794415416798359283, 3.0794415416798359283); /* log 8 */
    expect_row("aten::softmax.int", logs, 3, 1, 0.25, 0.25 * 1.9162907318741550652);
    expect_row("aten::log_softmax.int", zeros, 4, 3, -1.3862943611198906188, 2.3862943611198906188);
}

Test(precision, sums_of_products)
{
    sums_problem p;
    mpfr_t out[32], terms[32];
    numbers_init(out, 32);
    numbers_init(terms, 32);
    cr_assert(sums_problem_init(&p, sums_of("aten::addmm"), 2, 3, 1));
    const double a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, -1, 1, 1, -1, 2}, c[4] = {10, 20, 30, -40};
    memcpy(p.x[0], a, sizeof a);
    memcpy(p.x[1], b, sizeof b);
    memcpy(p.x[2], c, sizeof c);
    sums_exact(&p, out, terms);
    const double want[4] = {10, 27, 33, -27}, size[4] = {16, 29, 45, 61};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(mpfr_get_d(out[i], MPFR_RNDN), want[i]);
        cr_assert_eq(mpfr_get_d(terms[i], MPFR_RNDN), size[i]);
    }
    sums_slopes(&p, out, 0, 2); /* a[0][2] meets the last row of b */
    const double slopes[4] = {-1, 2, 0, 0};
    for (int i = 0; i < 4; i++) cr_assert_float_eq(mpfr_get_d(out[i], MPFR_RNDN), slopes[i], 1e-25);
    sums_problem_finish(&p);
    /* One pixel of the image, one weight of the filter: where they meet. */
    cr_assert(sums_problem_init(&p, sums_of("aten::conv2d"), 1, 9, 1));
    p.x[0][2 * 4 + 1] = 5;
    p.x[1][1 * 3 + 0] = 7;
    sums_exact(&p, out, terms);
    for (int64_t i = 0; i < p.results; i++) cr_assert_eq(mpfr_get_d(out[i], MPFR_RNDN), i == 3 ? 35 : 0);
    sums_problem_finish(&p);
    numbers_clear(out, 32);
    numbers_clear(terms, 32);
}

/* What cancels is counted in units of what it is made of. */
Test(precision, errors_of_sums)
{
    double own;
    mpfr_t x[2];
    numbers_init(x, 2);
    mpfr_set_d(x[0], 1, MPFR_RNDN);
    mpfr_set_d(x[1], 1024, MPFR_RNDN);
    cr_assert_eq(sums_error(format("float32"), 1 + 0x1p-13, x[0], x[1], &own), 1);
    cr_assert_eq(own, 1024);
    mpfr_set_d(x[1], 0.5, MPFR_RNDN);
    cr_assert_eq(sums_error(format("float32"), 1 + 0x1p-23, x[0], x[1], &own), 1,
                 "never finer than the result");
    cr_assert(isinf(sums_error(format("float32"), NAN, x[0], x[1], &own)));
    numbers_clear(x, 2);
}

/* Cancelling terms do cancel, in rows and in products, and the seed decides. */
Test(precision, cancelling_sums)
{
    const char *const names[] = {"aten::sum.dim_IntList", "aten::mm", "aten::bmm", "aten::conv2d"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        sums_problem p, q;
        mpfr_t out[128], terms[128];
        cr_assert(sums_problem_init(&p, sums_of(names[k]), 6, 90, 1));
        cr_assert(sums_problem_init(&q, sums_of(names[k]), 6, 90, 1));
        sums_fill(&p, format("float32"), SUMS_CANCELLING, 5);
        sums_fill(&q, format("float32"), SUMS_CANCELLING, 5);
        cr_assert(memcmp(p.x[0], q.x[0], (size_t)p.counts[0] * sizeof(double)) == 0);
        numbers_init(out, 128);
        numbers_init(terms, 128);
        cr_assert_leq(p.results, 128);
        sums_exact(&p, out, terms);
        for (int64_t i = 0; i < p.results; i++)
            cr_assert_lt(fabs(mpfr_get_d(out[i], MPFR_RNDN)), 1e-5 * mpfr_get_d(terms[i], MPFR_RNDN), "%s",
                         names[k]);
        numbers_clear(out, 128);
        numbers_clear(terms, 128);
        sums_problem_finish(&p);
        sums_problem_finish(&q);
    }
}

/* ---- Complex special values ---------------------------------------------------------------------------- */

static void expect_special(const char *name, double re, double im, const double *want, const int32_t *kinds)
{
    precision_part out[2];
    double x[2] = {re, im};
    precision_pairs_special(name, x, 2, out);
    for (int k = 0; k < 2; k++) {
        cr_assert_eq(out[k].kind, kinds[k], "%s(%g, %g) part %d: kind %d", name, re, im, k, out[k].kind);
        if (kinds[k] >= PRECISION_PART_SOME_NAN) continue;
        int same = want[k] != want[k] ? out[k].value != out[k].value
                   : want[k] == 0
                       ? out[k].value == 0 && (kinds[k] || !signbit(out[k].value) == !signbit(want[k]))
                   : isinf(want[k]) ? (kinds[k] ? isinf(out[k].value) != 0 : out[k].value == want[k])
                                    : fabs(out[k].value - want[k]) < 1e-15;
        cr_assert(same, "%s(%g, %g) part %d is %g", name, re, im, k, out[k].value);
    }
}
#define SPECIAL(name, re, im, want_re, want_im, kind_re, kind_im)             \
    expect_special("aten::" name, re, im, (const double[]){want_re, want_im}, \
                   (const int32_t[]){kind_re, kind_im})
#define EXACT    PRECISION_PART_EXACT
#define SIGNLESS PRECISION_PART_SIGNLESS

/* Examples of ISO C, Annex G.6, and of symmetries that it states. */
Test(precision, special_pairs)
{
    const double pi = 3.14159265358979323846;
    SPECIAL("exp", -INFINITY, 2, -0.0, 0, EXACT, EXACT);
    SPECIAL("exp", INFINITY, -2, -INFINITY, -INFINITY, EXACT, EXACT);
    SPECIAL("exp", INFINITY, INFINITY, INFINITY, NAN, SIGNLESS, EXACT);
    SPECIAL("exp", NAN, -0.0, NAN, -0.0, EXACT, EXACT);
    SPECIAL("exp", 0, -0.0, 1, -0.0, EXACT, EXACT);
    SPECIAL("log", -0.0, 0, -INFINITY, pi, EXACT, EXACT);
    SPECIAL("log", -0.0, -0.0, -INFINITY, -pi, EXACT, EXACT);
    SPECIAL("log", NAN, INFINITY, INFINITY, NAN, EXACT, EXACT);
    SPECIAL("sqrt", -1, -0.0, 0, -1, EXACT, EXACT);
    SPECIAL("sqrt", NAN, -INFINITY, INFINITY, -INFINITY, EXACT, EXACT);
    SPECIAL("acos", -INFINITY, -INFINITY, 3 * pi / 4, INFINITY, EXACT, EXACT);
    SPECIAL("acosh", -INFINITY, 1, INFINITY, pi, EXACT, EXACT);
    SPECIAL("asinh", -INFINITY, 1, -INFINITY, 0, EXACT, EXACT);
    SPECIAL("asin", INFINITY, 0, pi / 2, INFINITY, EXACT, EXACT);
    SPECIAL("atanh", -1, 0, -INFINITY, 0, EXACT, EXACT);
    SPECIAL("atan", -INFINITY, 1, -pi / 2, 0, EXACT, EXACT);
    SPECIAL("cosh", -INFINITY, 0, INFINITY, 0, EXACT, PRECISION_PART_FREE);
    SPECIAL("sinh", -INFINITY, NAN, INFINITY, NAN, SIGNLESS, EXACT);
    SPECIAL("tanh", INFINITY, 2, 1, -0.0, EXACT, EXACT);
    SPECIAL("sin", 0, INFINITY, 0, INFINITY, EXACT, EXACT);
    SPECIAL("tan", 1, -INFINITY, 0, -1, EXACT, EXACT);
    SPECIAL("abs", NAN, -INFINITY, INFINITY, 0, EXACT, PRECISION_PART_FREE);
    SPECIAL("sigmoid", NAN, 1, 0, 0, PRECISION_PART_SOME_NAN, PRECISION_PART_SOME_NAN);
    SPECIAL("reciprocal", 0, 0, 0, 0, PRECISION_PART_FREE, PRECISION_PART_FREE);
    SPECIAL("log1p", -1, 0, 0, 0, PRECISION_PART_FREE, PRECISION_PART_FREE);
}

Test(precision, special_parts_are_judged_apart)
{
    const precision_format *f = format("complex64");
    const precision_part want[2] = {{-0.0, EXACT}, {INFINITY, SIGNLESS}},
                         nan[2] = {{NAN, PRECISION_PART_SOME_NAN}};
    cr_assert(precision_pair_fits(f, (const double[]){-0.0, -INFINITY}, want, 2));
    cr_assert_not(precision_pair_fits(f, (const double[]){0.0, INFINITY}, want, 2));
    cr_assert_not(precision_pair_fits(f, (const double[]){-0.0, NAN}, want, 2));
    cr_assert_not(precision_pair_fits(f, (const double[]){-0.0, 1e38}, want, 2));
    cr_assert(precision_pair_fits(f, (const double[]){1, NAN}, nan, 2));
    cr_assert_not(precision_pair_fits(f, (const double[]){1, 1}, nan, 2));
}
