/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bessel functions of orders 0 and 1 and the Airy function Ai, for float64. Around roots they stay exact to
 * the last digits:
 *
 * - up to LAST_ROOT by the Taylor series about the nearest root, which is known to twice the digits; the
 *   differential equation gives each coefficient from the ones before it, so only the root and the slope are
 *   tabulated (DLMF 10.2.1, 9.2.1);
 * - beyond that by amplitude and phase (Harrison, "Fast and accurate Bessel function computation", 2009);
 *   both come from Hankel's series (DLMF 10.17, 9.7), the phase as a wide number where the cosine is small;
 * - near 0 by the power series.
 *
 * All else is in long double, whose extra bits (11 with most C compilers) absorb rounding errors; where there
 * are none, results are off by a few more ULP.
 */
#include "phase.h"
#include "special.h"

#include <stdbool.h>

#define PI_LONG         3.14159265358979323846264338327950288L
#define EULER           0.5772156649015328606065121L
#define ROOT_2_BY_PI    0.7978845608028653558798921L /* sqrt(2 / pi) */
#define ROOT_PI         1.772453850905516027298167L
#define NEGLIGIBLE      1e-21L  /* a term below this share of the sum changes nothing */
#define NEGLIGIBLE_WIDE 1e-33   /* the same of a wide sum */
#define LAST_ROOT       46      /* from here on the error e^-2x of Hankel's series is negligible */
#define LAST_AIRY_ROOT  (-15.5) /* here 2x is zeta, two thirds of the root to 3/2 */
#define LOW_COSINE      0.004L  /* below this the phase needs more digits than a long double has */

/* ---- Roots and the series about them ------------------------------------------------------------------- */

/* A root is high + low; slope is the derivative there. */
typedef struct root {
    double high;
    long double low, slope;
} root;

static const root roots_of_j0[] = {
    {2.404825557695773, -1.176691651530894122087e-16L, -0.5191474972894667881402L},
    {5.520078110286311, 8.088597146146722309154e-17L, 0.3402648065583681485649L},
    {8.653727912911013, -2.928126073207789875681e-16L, -0.2714522999283819203881L},
    {11.791534439014281, 2.812956912778734803339e-16L, 0.232459831364724778856L},
    {14.930917708487787, -7.070514505983073498394e-16L, -0.2065464330779960268291L},
    {18.071063967910924, -9.658048089426208208992e-16L, 0.1877288030404394320809L},
    {21.21163662987926, 4.94707742878406856267e-16L, -0.1732658942292298697358L},
    {24.352471530749302, 9.169067133951065762329e-16L, 0.1617015506892500044539L},
    {27.493479132040253, 1.61919417933020843679e-15L, -0.1521812137705945367627L},
    {30.634606468431976, -5.390359852115135393651e-16L, 0.1441659776863732076427L},
    {33.77582021357357, 1.454224241250595085766e-15L, -0.137296943408502972456L},
    {36.917098353664045, -9.276489358569364551699e-16L, 0.1313246266686679307673L},
    {40.05842576462824, -2.678265147714973655449e-16L, -0.1260694971272734069309L},
    {43.19979171317673, 8.5571330387673305287e-16L, 0.1213986247717501517726L},
    {46.341188371661815, -9.077974138465360308302e-16L, -0.1172111988906653830336L},
};
static const root roots_of_j1[] = {
    {3.8317059702075125, -1.526918409008806746755e-16L, -0.402759395702552972096L},
    {7.015586669815619, -9.414165653410389098243e-17L, 0.3001157525261325632066L},
    {10.173468135062722, 4.482162274768888723577e-16L, -0.2497048770578431977497L},
    {13.323691936314223, 2.600408064718813269732e-16L, 0.2183594072478729621342L},
    {16.470630050877634, -1.61901954479812810192e-15L, -0.1964653714686571828778L},
    {19.615858510468243, -1.00444563452661597869e-15L, 0.1800633753443155542094L},
    {22.760084380592772, -4.925749373614922400115e-16L, -0.16718460047381804549L},
    {25.903672087618382, 4.894530726419824768651e-16L, 0.1567249862528522302362L},
    {29.046828534916855, -2.799892014010184672901e-16L, -0.1480111099727775440918L},
    {32.189679910974405, -1.548160912550383914839e-15L, 0.140605798183982254058L},
    {35.33230755008387, -3.261164931849642373927e-15L, -0.1342112403100006880004L},
    {38.474766234771614, 7.193676286738654420151e-16L, 0.1286166220720699547704L},
    {41.61709421281445, 5.70045268022753379639e-16L, -0.123667960769837125535L},
    {44.75931899765282, 2.327604101991116773926e-15L, 0.1192498120106894738939L},
};
static const root roots_of_y0[] = {
    {0.8935769662791675, 2.659623153972038464392e-17L, 0.8794208024971947710548L},
    {3.957678419314858, -1.076434069756270578231e-16L, -0.402542671775024235722L},
    {7.086051060301773, -8.835285723085408112001e-17L, 0.3000976149104751862253L},
    {10.222345043496418, -7.967395050308808944628e-16L, -0.2497012375146847795769L},
    {13.361097473872764, -6.626109493712529117431e-16L, 0.2183582965976713382373L},
    {16.50092244152809, 1.01874642124457543505e-15L, -0.1964649378950167707265L},
    {19.64130970088794, -1.373808524517417615613e-15L, 0.1800631763375441876124L},
    {22.782028047291558, 1.590592775868124874455e-15L, -0.1671844980510107312153L},
    {25.922957653180923, -2.254067267232835966155e-16L, 0.156724928850240786787L},
    {29.064030252728397, 9.251916379120068510808e-16L, -0.1480110756111356666966L},
    {32.20520411649328, 3.240071558384456877462e-15L, 0.1406057765075006561564L},
    {35.34645230521432, -1.794648376985214751253e-16L, -0.1342112260388340394273L},
    {38.48775665308154, -2.86050016888244252922e-15L, 0.1286166123369796766632L},
    {41.62910446621381, -2.589820155928850490481e-15L, -0.1236679539272367981412L},
    {44.77048660722199, 3.128883685479239164405e-15L, 0.1192498070764811728682L},
};
static const root roots_of_y1[] = {
    {2.197141326031017, -4.825983587645496576192e-17L, 0.5207864124022675111072L},
    {5.429681040794135, 4.162514026670376973882e-16L, -0.3403180455234405582259L},
    {8.596005868331169, 2.841583834006366612944e-16L, 0.2714598773115335450267L},
    {11.749154830839881, 2.946638166840918667087e-17L, -0.2324617660170387411323L},
    {14.897442128336726, -6.07214899550680861914e-16L, 0.2065471103565925999159L},
    {18.043402276727857, -1.449988921314896524251e-15L, -0.1877290919149096989978L},
    {21.188068934142212, 1.086303886431732209982e-15L, 0.1732660352691198653032L},
    {24.33194257135691, 2.940063934282991185659e-16L, -0.1617016266586240935351L},
    {27.475294980449224, -4.016530675717971760217e-16L, 0.1521812578603752047481L},
    {30.618286491641115, -1.057431176076561645895e-16L, -0.1441660048181650380677L},
    {33.76101779610933, -2.822359089687843547782e-15L, 0.137296960911874680753L},
    {36.90355531614295, 1.014839093361194062761e-15L, -0.1313246384078653111253L},
    {40.045944640266875, 1.474510542974268745765e-15L, 0.1260695052608898155398L},
    {43.18821809739321, 4.425924983353592113203e-16L, -0.1213986305651239652279L},
    {46.33039925070169, -2.041581399722056249775e-15L, 0.1172112031163972513684L},
};
static const root roots_of_airy[] = {
    {-2.338107410459767, -3.91226040981830527772e-17L, 0.7012108227206913624907L},
    {-4.08794944413097, -3.387261694242900708088e-16L, -0.8031113696548639636343L},
    {-5.520559828095551, -2.674142599618633303313e-16L, 0.865204025894151930843L},
    {-6.786708090071759, -9.563013436557569576107e-17L, -0.9108507370496018030737L},
    {-7.944133587120853, 3.40213917084442762381e-17L, 0.9473357094415677655949L},
    {-9.02265085334098, 2.232760273702880935934e-16L, -0.9779228085694986109516L},
    {-10.040174341558085, -6.280996829789570710878e-16L, 1.004370122660311968498L},
    {-11.008524303733262, -8.20211460039292322104e-16L, -1.027738688820786176723L},
    {-11.936015563236262, -1.790968991890384522717e-16L, 1.048720648588189547956L},
    {-12.828776752865757, -3.953846277907549174721e-16L, -1.067793859157427834651L},
    {-13.691489035210719, 6.550617508624347513448e-16L, 1.085302831350700032067L},
    {-14.527829951775335, -3.328185258550053113894e-16L, -1.101504570277496811798L},
    {-15.340755135977997, -2.977418624693061598809e-16L, 1.116596177932656084545L},
};

#define COUNT(roots) ((int32_t)(sizeof(roots) / sizeof((roots)[0])))

/* The root nearest to x; the table is sorted. */
static const root *nearest(const root *roots, int32_t count, double x)
{
    const root *best = roots;
    for (int32_t i = 1; i < count && fabs(x - roots[i].high) < fabs(x - best->high); i++) best = &roots[i];
    return best;
}

static long double distance(const root *r, double x)
{
    return ((long double)x - r->high) - r->low;
}

/*
 * Adds the terms c[1] t + c[2] t^2 + ...; each coefficient is next(c[n - 1], c[n - 2], ...), from the four
 * before it.
 */
typedef struct expansion {
    long double at; /* the root */
    long double order_squared;
    long double c[4]; /* of t^n, t^(n - 1), ... */
} expansion;

/* x^2 y'' + x y' + (x^2 - nu^2) y = 0: the coefficient of t^(m + 2). */
static long double bessel_next(const expansion *e, long double m)
{
    long double r = e->at;
    long double sum = r * (m + 1) * (2 * m + 1) * e->c[0] + (m * m + r * r - e->order_squared) * e->c[1] +
                      2 * r * e->c[2] + e->c[3];
    return -sum / (r * r * (m + 2) * (m + 1));
}
/* y'' = x y */
static long double airy_next(const expansion *e, long double m)
{
    return (e->at * e->c[1] + e->c[2]) / ((m + 1) * (m + 2));
}

static long double about_root(const root *r, double order, double x,
                              long double (*next)(const expansion *, long double))
{
    expansion e = {.at = r->high + r->low, .order_squared = order * order, .c = {r->slope}};
    long double t = distance(r, x), power = t, sum = r->slope * t, term = sum, last;
    for (int32_t m = 0; m < 200; m++) {
        long double c = next(&e, m);
        for (int32_t k = 3; k > 0; k--) e.c[k] = e.c[k - 1];
        e.c[0] = c;
        last = term;
        power *= t;
        term = c * power;
        sum += term;
        if (fabsl(term) + fabsl(last) <= fabsl(sum) * NEGLIGIBLE) break;
    }
    return sum;
}

/* ---- Far out ------------------------------------------------------------------------------------------- */

/*
 * Hankel's series in 1 / x with terms a_k(nu) / x^k: the even ones with alternating signs are P, the odd ones
 * Q. The order is passed as 36 nu^2, an integer for all orders here.
 */
typedef struct series {
    long double p, q;
} series;

static series hankel(long double x, double order36)
{
    series s = {1, 0};
    long double term = 1;
    for (int32_t k = 1; k < 200; k++) {
        double odd = 6 * k - 3;
        long double next = term * (order36 - odd * odd) / (72 * k * x);
        if (fabsl(next) >= fabsl(term)) break;
        term = next;
        *(k % 2 ? &s.q : &s.p) += k % 4 < 2 ? term : -term;
        if (fabsl(term) < NEGLIGIBLE) break;
    }
    return s;
}

static wide arc_tangent(wide a)
{
    wide square = wide_mul(a, a), sum = {0, 0};
    for (int32_t k = 9; k >= 0; k--)
        sum = wide_sub(wide_div(wide_of(1), wide_of(2 * k + 1)), wide_mul(square, sum));
    return wide_mul(sum, a);
}

/* atan(Q / P) as a wide number; Q / P is small. */
static wide hankel_angle(wide x, double order36)
{
    wide p = {1, 0}, q = {0, 0}, term = {1, 0}, inverse = wide_div(wide_div(wide_of(1), wide_of(72)), x);
    for (int32_t k = 1; k < 200; k++) {
        double odd = 6 * k - 3, before = fabs(term.high);
        term = wide_div(wide_mul(wide_scale(term, order36 - odd * odd), inverse), wide_of(k));
        if (fabs(term.high) >= before) break;
        wide *part = k % 2 ? &q : &p;
        *part = k % 4 < 2 ? wide_add(*part, term) : wide_sub(*part, term);
        if (fabs(term.high) < NEGLIGIBLE_WIDE) break;
    }
    return arc_tangent(wide_div(q, p));
}

/* sin(quadrant pi / 2 + angle) */
static long double sine(int32_t quadrant, wide angle)
{
    long double s = sinl(angle.high), c = cosl(angle.high), low = angle.low;
    long double value = quadrant % 2 ? c - low * s : s + low * c;
    return quadrant & 2 ? -value : value;
}

/* x - halves pi / 4 of a wide x. */
static wide reduced(wide x, int32_t halves, int32_t *quadrant)
{
    int32_t more = 0;
    wide angle = phase_reduce(x.high, halves, quadrant), rest = {x.low, 0};
    if (fabs(x.low) >= 1) rest = phase_reduce(fabs(x.low), 0, &more);
    if (x.low <= -1) {
        rest = wide_negative(rest);
        more = -more;
    }
    *quadrant = (*quadrant + more) & 3;
    return wide_add(angle, rest);
}

/* sqrt(P^2 + Q^2) sin(x - halves pi / 4 + turns pi / 2 + atan(Q / P)) */
static long double oscillation(wide x, double order36, int32_t halves, int32_t turns)
{
    int32_t quadrant;
    series s = hankel((long double)x.high + x.low, order36);
    wide angle = reduced(x, halves, &quadrant);
    long double lag = atanl(s.q / s.p);
    quadrant += turns;
    long double value = sine(quadrant, wide_add(angle, wide_sum((double)lag, (double)(lag - (double)lag))));
    if (fabsl(value) < LOW_COSINE) value = sine(quadrant, wide_add(angle, hankel_angle(x, order36)));
    return value * sqrtl(s.p * s.p + s.q * s.q);
}

static double far_bessel(int32_t order, double x, int32_t turns)
{
    return (double)(ROOT_2_BY_PI / sqrtl(x) * oscillation(wide_of(x), 36 * order, 2 * order + 1, turns));
}

/* ---- J and Y ------------------------------------------------------------------------------------------- */

/* (x / 2)^n / n! sum_k (-x^2 / 4)^k n! / (k! (k + n)!); with sign 1 the series of I. */
static long double power_series(int32_t n, long double x, int32_t sign)
{
    long double quarter = sign * x * x / 4, term = n ? x / 2 : 1, sum = term;
    for (long double k = 1; k < 300; k++) {
        term *= quarter / (k * (k + n));
        sum += term;
        if (fabsl(term) <= fabsl(sum) * NEGLIGIBLE) break;
    }
    return sum;
}

/* DLMF 10.8.2 and 10.8.1. */
static long double small_y0(long double x)
{
    long double quarter = -x * x / 4, term = 1, harmonic = 0, sum = 0;
    for (long double k = 1; k < 100; k++) {
        term *= quarter / (k * k);
        harmonic += 1 / k;
        sum -= term * harmonic;
        if (fabsl(term * harmonic) <= fabsl(sum) * NEGLIGIBLE) break;
    }
    return 2 / PI_LONG * ((logl(x / 2) + EULER) * power_series(0, x, -1) + sum);
}
static long double small_y1(long double x)
{
    long double quarter = -x * x / 4, term = 1, sum = 0, psi = -2 * EULER + 1; /* psi(1) + psi(2) */
    for (long double k = 0; k < 100; k++) {
        sum += term * psi;
        if (fabsl(term * psi) <= fabsl(sum) * NEGLIGIBLE) break;
        term *= quarter / ((k + 1) * (k + 2));
        psi += 1 / (k + 1) + 1 / (k + 2);
    }
    return (2 * logl(x / 2) * power_series(1, x, -1) - 2 / x - x / 2 * sum) / PI_LONG;
}

/* Whether the series about the root converges fast; the pole at 0 limits its radius. */
static bool is_near(const root *r, double x)
{
    return fabs(x - r->high) <= 0.4 * r->high;
}

static double bessel_j(int32_t order, double x, const root *roots, int32_t count)
{
    const root *r = nearest(roots, count, x);
    if (x > LAST_ROOT) return far_bessel(order, x, 1);
    return (double)(is_near(r, x) ? about_root(r, order, x, bessel_next) : power_series(order, x, -1));
}
static double bessel_y(int32_t order, double x, const root *roots, int32_t count)
{
    const root *r = nearest(roots, count, x);
    if (x != x || x < 0 || isinf(x)) return NAN;
    if (x == 0) return -INFINITY;
    if (x > LAST_ROOT) return far_bessel(order, x, 0);
    return (double)(is_near(r, x) ? about_root(r, order, x, bessel_next) : order ? small_y1(x) : small_y0(x));
}

/* As in ATen there is no limit at infinity. */
double special_j0(double x)
{
    return x - x != 0 ? NAN : bessel_j(0, fabs(x), roots_of_j0, COUNT(roots_of_j0));
}
double special_j1(double x)
{
    double size = x - x != 0 ? NAN : bessel_j(1, fabs(x), roots_of_j1, COUNT(roots_of_j1));
    return signbit(x) ? -size : size;
}
double special_y0(double x)
{
    return bessel_y(0, x, roots_of_y0, COUNT(roots_of_y0));
}
double special_y1(double x)
{
    return bessel_y(1, x, roots_of_y1, COUNT(roots_of_y1));
}
double special_spherical_j0(double x)
{
    if (isinf(x)) return 0;
    return fabs(x) < 1e-4 ? 1 - x * x / 6 : sin(x) / x;
}

/* ---- I ------------------------------------------------------------------------------------------------- */

/* I_n(x) e^-x for x >= 0: by the power series, whose terms are all positive, or by Hankel's. */
static long double scaled_i(int32_t n, double x)
{
    long double term = 1, sum = 1;
    if (isinf(x)) return 0;
    if (x <= 30) return power_series(n, x, 1) * expl(-(long double)x);
    for (int32_t k = 1; k < 200; k++) {
        double odd = 2 * k - 1;
        long double next = -term * (4 * n * n - odd * odd) / (8 * k * (long double)x);
        if (fabsl(next) >= fabsl(term)) break;
        term = next;
        sum += term;
        if (fabsl(term) < NEGLIGIBLE) break;
    }
    return sum * (ROOT_2_BY_PI / 2) / sqrtl(x);
}
/* Multiplies by e^x in two factors, so it overflows only if the product does. */
static double unscale(long double scaled, double x)
{
    long double half = expl((long double)x / 2);
    if (isinf(x)) return NAN; /* as ATen has it */
    return x > 800 ? (double)INFINITY : (double)(scaled * half * half);
}
double special_i0e(double x)
{
    return x != x ? x : (double)scaled_i(0, fabs(x));
}
double special_i1e(double x)
{
    return x != x ? x : copysign((double)scaled_i(1, fabs(x)), x);
}
double special_i0(double x)
{
    return x != x ? x : unscale(scaled_i(0, fabs(x)), fabs(x));
}
double special_i1(double x)
{
    return x != x ? x : copysign(unscale(scaled_i(1, fabs(x)), fabs(x)), x);
}

/* ---- K ------------------------------------------------------------------------------------------------- */

/*
 * K_nu(x) e^x for nu = 0, 1/3 and 1 (as 36 nu^2) and x >= 1: by Hankel's series, or by the integral over t of
 * exp(-x (cosh t - 1)) cosh(nu t) with the trapezoidal rule, whose error here is e^(x - pi^2 / step) (DLMF
 * 3.5(i)). cosh t - 1 at multiples of a step follows from the two values before.
 */
static long double scaled_k(int32_t order36, long double x)
{
    static const long double first = 0.007822677825710859846949686L;  /* cosh(1 / 8) - 1 */
    static const long double third = 0.0008681811495647872486862132L; /* cosh(1 / 24) - 1 */
    const long double share = order36 == 0 ? 0 : order36 == 4 ? third : first;
    long double sum = 0.5L, term = 1;
    if (x >= 25) {
        long double turned = 1;
        for (int32_t k = 1; k < 200 && fabsl(turned) > NEGLIGIBLE; k++) {
            double odd = 6 * k - 3;
            turned *= (order36 - odd * odd) / (72 * k * x);
            term += turned;
        }
        return term * sqrtl(PI_LONG / 2 / x);
    }
    long double size = first, before = 0, weight = share, weight_before = 0;
    for (int32_t k = 1; k < 200 && term > sum * NEGLIGIBLE; k++) {
        long double next = 2 * size - before + 2 * first * (size + 1);
        long double next_weight = 2 * weight - weight_before + 2 * share * (weight + 1);
        term = expl(-x * size) * (weight + 1);
        sum += term;
        before = size;
        size = next;
        weight_before = weight;
        weight = next_weight;
    }
    return sum / 8;
}

/* Series about 0, A and S 9.6.13 and 9.6.11. */
static long double small_k0(long double x)
{
    long double quarter = x * x / 4, term = 1, harmonic = 0, sum = 0;
    for (long double k = 1; k < 50; k++) {
        term *= quarter / (k * k);
        harmonic += 1 / k;
        sum += term * harmonic;
        if (term < NEGLIGIBLE) break;
    }
    return -(logl(x / 2) + EULER) * power_series(0, x, 1) + sum;
}
static long double small_k1(long double x)
{
    long double quarter = x * x / 4, term = 1, sum = 0, psi = -2 * EULER + 1;
    for (long double k = 0; k < 50; k++) {
        sum += term * psi;
        term *= quarter / ((k + 1) * (k + 2));
        psi += 1 / (k + 1) + 1 / (k + 2);
        if (term < NEGLIGIBLE) break;
    }
    return 1 / x + logl(x / 2) * power_series(1, x, 1) - x / 4 * sum;
}
static double any_k(int32_t n, double x, int32_t scaled)
{
    long double exact = x;
    if (x == 0) return INFINITY;
    if (x < 0 || x != x) return NAN;
    if (isinf(x)) return 0;
    if (x <= 1) return (double)((n ? small_k1(exact) : small_k0(exact)) * (scaled ? expl(exact) : 1));
    return (double)(scaled_k(36 * n, exact) * (scaled ? 1 : expl(-exact)));
}
double special_k0(double x)
{
    return any_k(0, x, 0);
}
double special_k1(double x)
{
    return any_k(1, x, 0);
}
double special_scaled_k0(double x)
{
    return any_k(0, x, 1);
}
double special_scaled_k1(double x)
{
    return any_k(1, x, 1);
}

/* ---- Airy ---------------------------------------------------------------------------------------------- */

/* DLMF 9.4.1; between the last root and 1 nothing cancels. */
static long double airy_series(long double x)
{
    long double z = x * x * x, f = 1, g = x, term_f = 1, term_g = x;
    for (long double k = 1; k < 100; k++) {
        term_f *= z / ((3 * k - 1) * (3 * k));
        term_g *= z / ((3 * k) * (3 * k + 1));
        f += term_f;
        g += term_g;
        if (fabsl(term_f) + fabsl(term_g) < NEGLIGIBLE) break;
    }
    return 0.3550280538878172392600632L * f - 0.2588194037928067984051836L * g;
}

/* Two thirds of x^(3/2). */
static wide airy_zeta(double x)
{
    return wide_div(wide_scale(wide_scale(wide_sqrt(x), x), 2), wide_of(3));
}

double special_airy_ai(double x)
{
    if (x != x) return x;
    if (isinf(x)) return 0;
    if (x < -1e20) return NAN; /* no digit of the phase is left */
    if (x < LAST_AIRY_ROOT) {
        long double size = ROOT_PI * sqrtl(sqrtl(-(long double)x));
        return (double)(oscillation(airy_zeta(-x), 4, 1, 1) / size);
    }
    if (x < -1.4) return (double)about_root(nearest(roots_of_airy, COUNT(roots_of_airy), x), 0, x, airy_next);
    if (x < 1) return (double)airy_series(x);
    if (x > 1000) return 0;
    wide zeta = airy_zeta(x);
    long double decay = expl(-(long double)zeta.high) * (1 - (long double)zeta.low);
    return (double)(sqrtl((long double)x / 3) / PI_LONG * scaled_k(4, (long double)zeta.high + zeta.low) *
                    decay);
}
