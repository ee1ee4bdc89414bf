/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gelu of float32 and its derivative, a vector of 16 elements at a time, for levels with AVX-512: there a table of 16
 * numbers is one register, and a look-up one instruction. gelu.c has the formulas for other levels.
 *
 * With z = |a| and Phi(-z) = e^(-z^2 / 2) m(z), the results are
 *
 *     gelu(a) = max(a, 0) - z e^(-z^2 / 2) m(z)
 *     gelu'(a) = e^(-z^2 / 2) s(z) for a < 0, else 1 minus it;   s(z) = m(z) - z / sqrt(2 pi)
 *
 * m and s are fits of our own in 16 segments of z, each `value` + d P(d) with d = z - `centre`. The centre is a float at
 * which the function is very nearly a float, too, and for s in the segment of its root the root. So the sum's rounding
 * error is known, and it is carried along with all others of size.
 */
#ifndef TENON_CPU_GELU_TABLES_H
#define TENON_CPU_GELU_TABLES_H

#include "vector_math.h"

/* A segment is named by the exponent and the upper two bits of z + 1.1, for z up to 14.9. */
#define SEGMENT_SHIFT 1.1f
#define SEGMENT_BITS  21
#define SIZE_END      14.8f /* sizes are cut here; results no longer change */

enum { SEGMENT_CENTRE, SEGMENT_VALUE, SEGMENT_FIRST, SEGMENT_LAST = SEGMENT_FIRST + 5, SEGMENT_ROWS };

/* m */
static const float tail_segments[SEGMENT_ROWS][16] = {
    {1.15004432f, 1.65004289f, 2.15003419f, 2.6500206f, 3.40004659f, 4.40004826f, 5.40006876f, 6.400033f,
     7.90016985f, 9.90013027f, 11.9000902f, 13.9002171f, 0.0f, 0.27500385f, 0.52501291f, 0.775010049f},
    {0.242285565f, 0.192988038f, 0.159147188f, 0.13478303f, 0.109082639f, 0.0865700468f, 0.0715680495f,
     0.0609123632f, 0.0497249216f, 0.0398975164f, 0.0332924202f, 0.0285541434f, 0.5f, 0.406750143f,
     0.344086081f, 0.295939088f},
    {-0.120303147f, -0.0805037394f, -0.0567703843f, -0.0417644754f, -0.0280562304f, -0.0180298984f,
     -0.0124698924f, -0.0091011459f, -0.00610695593f, -0.00395167107f, -0.00275947643f, -0.00203348952f,
     -0.398942292f, -0.28708443f, -0.218292639f, -0.169586509f},
    {0.0519658066f, 0.0300767031f, 0.0185444597f, 0.0120531572f, 0.00684508262f, 0.00361881568f,
     0.00211488828f, 0.00133236486f, 0.000739473384f, 0.000387730397f, 0.00022720189f, 0.000144098827f,
     0.250000834f, 0.163900405f, 0.114739805f, 0.082253933f},
    {-0.0201794002f, -0.0102918409f, -0.00563302916f, -0.0032744417f, -0.00159403519f, -0.000702265766f,
     -0.00034977289f, -0.000191318599f, -8.8315428e-05f, -3.76940116e-05f, -1.85838217e-05f, -1.01613132e-05f,
     -0.133002102f, -0.0806690454f, -0.0526855737f, -0.0352803469f},
    {0.00718948804f, 0.00327376882f, 0.00160829653f, 0.000843855261f, 0.000356160919f, 0.000132146117f,
     5.65001756e-05f, 2.69741995e-05f, 1.04124601e-05f, 3.63222512e-06f, 1.51027041e-06f, 7.13136501e-07f,
     0.0627428815f, 0.0354291238f, 0.0217716265f, 0.0137264561f},
    {-0.00240526022f, -0.000984700047f, -0.000437269366f, -0.000208544589f, -7.80435075e-05f,
     -2.45084539e-05f, -9.02143165e-06f, -3.76673142e-06f, -1.2404837e-06f, -3.52297889e-07f,
     -1.23523407e-07f, -5.01776469e-08f, -0.0278004669f, -0.0142791877f, -0.00820754468f, -0.00490463292f},
    {0.000745600788f, 0.000276533712f, 0.000112627829f, 4.99514354e-05f, 1.61540192e-05f, 4.35849051e-06f,
     1.40615361e-06f, 5.12009819e-07f, 1.42178962e-07f, 3.33365371e-08f, 9.98940841e-09f, 3.46650308e-09f,
     0.0119343037f, 0.00526842894f, 0.00283080759f, 0.00169918209f},
};

/* s */
static const float slope_segments[SEGMENT_ROWS][16] = {
    {1.00000155f, 1.65001655f, 2.15007567f, 2.65001559f, 3.40006256f, 4.40014458f, 5.40002298f, 6.40005255f,
     7.90008163f, 9.90011597f, 11.9000425f, 13.9002285f, 0.0f, 0.275004894f, 0.600001633f, 0.751791537f},
    {-0.13736482f, -0.465271205f, -0.698611259f, -0.922420025f, -1.24734652f, -1.6688354f, -2.08272886f,
     -2.49233937f, -3.10195112f, -3.90967727f, -4.71413755f, -5.51683474f, 0.5f, 0.297038764f, 0.0889742449f,
     -6.93438551e-09f},
    {-0.536306083f, -0.479447603f, -0.455711126f, -0.440706879f, -0.426998287f, -0.416971475f, -0.411412358f,
     -0.408043385f, -0.405049354f, -0.40289396f, -0.401701778f, -0.400975764f, -0.797884583f, -0.686026335f,
     -0.600879848f, -0.572406173f},
    {0.0621070899f, 0.0300775338f, 0.0185437612f, 0.0120531963f, 0.00684501044f, 0.00361861964f,
     0.00211493345f, 0.00133234914f, 0.000739500509f, 0.000387732085f, 0.000227209559f, 0.000144098478f,
     0.250001669f, 0.163900018f, 0.10358873f, 0.0847563669f},
    {-0.0250856373f, -0.0102922572f, -0.00563275116f, -0.00327433576f, -0.00159407232f, -0.00070230203f,
     -0.000349887414f, -0.000191184008f, -8.83606117e-05f, -3.77009019e-05f, -1.85851368e-05f,
     -1.01703363e-05f, -0.133023769f, -0.0806759372f, -0.0466007218f, -0.0365817063f},
    {0.00924864598f, 0.00327307032f, 0.00160808035f, 0.000844209979f, 0.000356079894f, 0.000132060741f,
     5.65089722e-05f, 2.70260516e-05f, 1.0400664e-05f, 3.63145159e-06f, 1.50023345e-06f, 7.126132e-07f,
     0.0629999265f, 0.0354570858f, 0.0188458208f, 0.0143149234f},
    {-0.00309686945f, -0.000983921229f, -0.000437369832f, -0.000209950289f, -7.78706672e-05f,
     -2.42566894e-05f, -8.72404871e-06f, -4.14528768e-06f, -1.2108942e-06f, -3.47524718e-07f,
     -1.22792443e-07f, -4.37075762e-08f, -0.0292250495f, -0.0139562273f, -0.00720847445f, -0.00516180974f},
    {0.000773712411f, 0.00028578582f, 0.000114067618f, 4.65932644e-05f, 1.63877012e-05f, 4.55523059e-06f,
     1.41553255e-06f, 3.67823446e-07f, 1.51077629e-07f, 3.40452715e-08f, 1.57594542e-08f, 3.96420985e-09f,
     0.014928638f, 0.00398078561f, 0.00266174506f, 0.00162077055f},
};

/* 2^(j / 16): the bits of the nearest float, less j << 19; and what it lacks, as a share. */
static const uint32_t root_bits[16] = {0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3, 0x3f7837f0, 0x3f76f532,
                                       0x3f75fed7, 0x3f75583f, 0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c,
                                       0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d};
static const float root_rest[16] = {0.0f,
                                    4.62854715e-08f,
                                    -1.19921575e-08f,
                                    4.72978243e-08f,
                                    3.19341815e-08f,
                                    3.62105723e-08f,
                                    -3.09907193e-08f,
                                    -7.47521334e-09f,
                                    1.71142709e-08f,
                                    -3.04768335e-08f,
                                    5.23333421e-09f,
                                    6.10759177e-09f,
                                    -1.47196051e-08f,
                                    -5.25879518e-09f,
                                    -6.12825968e-09f,
                                    5.14060927e-09f};

ALWAYS_INLINE V look_up(const void *table, __m512i index)
{
    return _mm512_permutexvar_ps(index, _mm512_loadu_ps(table));
}
ALWAYS_INLINE V all(float x)
{
    return _mm512_set1_ps(x);
}

/* (1 + more) scale is 2^64 e^(-z^2 / 2), which is a normal number. */
typedef struct bell {
    V scale, more;
} bell;
#define UNSCALED 0x1p-64f
/* z^2 = k ln 2 / 8 + u, with ln 2 / 8 in two parts, of which the first has few bits; e^(-u / 2) is a polynomial. */
ALWAYS_INLINE bell bell_of(V z)
{
    const V shift = all(0x1.8p23f + 64 * 16);
    V square = z * z, square_rest = _mm512_fmsub_ps(z, z, square);
    V whole = _mm512_fmadd_ps(square, all(-11.5415602f), shift), k = whole - shift;
    V u =
        _mm512_fmadd_ps(k, all(0x1.62ep-4f), square) + _mm512_fmadd_ps(k, all(3.99327291e-06f), square_rest);
    V more = _mm512_fmadd_ps(u, all(-0.0208337698f), all(0.125004157f));
    __m512i bits = _mm512_castps_si512(whole);
    __m512i root = _mm512_castps_si512(look_up(root_bits, bits));
    return (bell){
        .scale = _mm512_castsi512_ps(_mm512_add_epi32(root, _mm512_slli_epi32(bits, 19))),
        .more = _mm512_fmadd_ps(u * u, more, _mm512_fmadd_ps(u, all(-0.5f), look_up(root_rest, bits))),
    };
}

/* head + rest */
typedef struct two_parts {
    V head, rest;
} two_parts;
ALWAYS_INLINE two_parts segment_value(const float table[][16], V z)
{
    __m512i index = _mm512_srli_epi32(_mm512_castps_si512(z + all(SEGMENT_SHIFT)), SEGMENT_BITS);
    V d = z - look_up(table[SEGMENT_CENTRE], index), value = look_up(table[SEGMENT_VALUE], index);
    V square = d * d, p[3];
    for (int i = 0; i < 3; i++)
        p[i] = _mm512_fmadd_ps(look_up(table[SEGMENT_FIRST + 2 * i + 1], index), d,
                               look_up(table[SEGMENT_FIRST + 2 * i], index));
    V part = d * _mm512_fmadd_ps(_mm512_fmadd_ps(p[2], square, p[1]), square, p[0]), sum = value + part;
    return (two_parts){.head = sum, .rest = part - (sum - value)};
}
/* factor (head + rest) (1 + more) */
ALWAYS_INLINE two_parts scaled_parts(V factor, two_parts a, V more)
{
    V head = factor * a.head, rest = _mm512_fmsub_ps(factor, a.head, head);
    return (two_parts){.head = head,
                       .rest = _mm512_fmadd_ps(factor, _mm512_fmadd_ps(a.head, more, a.rest), rest)};
}

/* |a|, cut; NaN becomes the limit. */
ALWAYS_INLINE V size_of_lanes(V a)
{
    return _mm512_range_ps(a, all(SIZE_END), 2 | 2 << 2);
}
/*
 * What vfixupimmps makes of each class of numbers: it keeps them (1), or puts a NaN (2, 3), -0 (7) or 1 (10) in their
 * place. The classes are NaN, signalling NaN, 0, 1, -Inf, Inf, numbers below and above 0.
 */
#define CLASSES(nan, signalling, zero, one, below_all, above_all, below, above)                      \
    ((nan) | (signalling) << 4 | (zero) << 8 | (one) << 12 | (below_all) << 16 | (above_all) << 20 | \
     (below) << 24 | (above) << 28)
ALWAYS_INLINE V replaced(V a, uint32_t by_class)
{
    return _mm512_fixupimm_ps(a, a, _mm512_set1_epi32((int)by_class), 0);
}

ALWAYS_INLINE V gelu_lanes(V a)
{
    V z = size_of_lanes(a);
    bell b = bell_of(z);
    two_parts m = segment_value(tail_segments, z);
    V factor = z * b.scale, factor_rest = _mm512_fmsub_ps(z, b.scale, factor);
    two_parts tail = scaled_parts(factor, m, b.more);
    V sum = tail.head + _mm512_fmadd_ps(factor_rest, m.head, tail.rest);
    V positive = replaced(a, CLASSES(1u, 2u, 1u, 1u, 3u, 1u, 7u, 1u)); /* of -Inf gelu is NaN */
    return _mm512_fnmadd_ps(sum, all(UNSCALED), positive);
}
ALWAYS_INLINE V gelu_slope_lanes(V g, V a)
{
    V z = size_of_lanes(a);
    bell b = bell_of(z);
    two_parts slope = scaled_parts(b.scale * all(UNSCALED), segment_value(slope_segments, z), b.more);
    V one = replaced(a, CLASSES(1u, 2u, 10u, 10u, 10u, 10u, 10u, 10u));
    V above = one - slope.head;
    V above_rest = ((one - above) - slope.head) - slope.rest;
    __mmask16 negative = _mm512_cmp_ps_mask(a, all(0), _CMP_LT_OQ);
    slope.head = _mm512_mask_mov_ps(above, negative, slope.head);
    slope.rest = _mm512_mask_mov_ps(above_rest, negative, slope.rest);
    return _mm512_fmadd_ps(g, slope.head, g * slope.rest);
}

#endif
