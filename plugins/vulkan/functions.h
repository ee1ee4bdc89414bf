/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the mathematical library in float32, since those of Vulkan may be wrong by many ULP, and need not
 * be right for infinities and NaN. In the dialect of device code, without a fused multiply-add: some drivers round
 * twice there. Polynomials are minimax fits of our own. Errors are those of tests/vulkan/functions.c.
 */
#ifndef TENON_VULKAN_FUNCTIONS_H
#define TENON_VULKAN_FUNCTIONS_H

#define NOT_A_NUMBER gpu_float_of_bits(0x7fc00000u)
#define LN_2         0.693147182f
#define HALF_PI      1.57079637f

/* ---- Numbers as sums of two ---------------------------------------------------------------------------------- */

typedef struct float_pair {
    float high, low;
} float_pair;

/* |a| >= |b|, or a is 0. */
GPU_FUNCTION float_pair pair_sum(float a, float b)
{
    float_pair sum;
    sum.high = a + b;
    sum.low = b - (sum.high - a);
    return sum;
}

/* The first 12 bits of a number: products of such numbers are exact. */
GPU_FUNCTION float upper_half(float a)
{
    return gpu_float_of_bits(gpu_bits_of_float(a) & 0xfffff000u);
}

/* a b and its rounding error: T. Dekker, "A floating-point technique", 1971. */
GPU_FUNCTION float_pair pair_product(float a, float b)
{
    float a_high = upper_half(a), a_low = a - a_high, b_high = upper_half(b), b_low = b - b_high;
    float_pair product;
    product.high = a * b;
    product.low = ((a_high * b_high - product.high) + a_high * b_low + a_low * b_high) + a_low * b_low;
    return product;
}

/* a b + c without a rounding of the product. */
GPU_FUNCTION float fused(float a, float b, float c)
{
    float_pair product = pair_product(a, b);
    float sum = product.high + c, part = sum - product.high;
    float lost = (product.high - (sum - part)) + (c - part) + product.low;
    return lost - lost == 0.0f ? sum + lost : sum; /* infinite sums have lost nothing */
}
#define fused fused

typedef float W;
#define FUSED_W fused
#include "error_function.h"
#include "normal_tail.h"

GPU_FUNCTION float fn_copysign(float a, float sign)
{
    return gpu_float_of_bits((gpu_bits_of_float(a) & 0x7fffffffu) | (gpu_bits_of_float(sign) & 0x80000000u));
}

/* x times a power of two, in two steps, since the power alone may be no float32. */
GPU_FUNCTION float times_power_of_2(float x, int32_t power)
{
    int32_t half = power / 2;
    return x * gpu_float_of_bits((uint32_t)(half + 127) << 23) *
           gpu_float_of_bits((uint32_t)(power - half + 127) << 23);
}

/* ---- Powers of e -------------------------------------------------------------------------------------------- */

/* (e^r - 1 - r) / r^2 for |r| up to ln(2) / 2. */
GPU_FUNCTION float exp_rest(float r)
{
    float p = 0.00019919380429200828f;
    p = p * r + 0.0013947224942967296f;
    p = p * r + 0.008333262987434864f;
    p = p * r + 0.04166625440120697f;
    p = p * r + 0.1666666716337204f;
    return p * r + 0.5f;
}

/* x - n ln(2); n times the first part of ln(2) is exact. */
GPU_FUNCTION float exp_reduced(float x, float n)
{
    return (x - n * 0.693145751953125f) - n * 1.4286068203094173e-06f;
}

/* e^(x + rest), where rest is small. */
GPU_FUNCTION float exp_of_sum(float x, float rest)
{
    if (x != x) return x;
    if (x > 89.0f) return INFINITY;
    if (x < -104.0f) return 0.0f;
    float n = fn_rint(x * 1.44269502f), r = exp_reduced(x, n) + rest;
    return times_power_of_2(1.0f + (r + r * r * exp_rest(r)), (int32_t)n);
}

GPU_FUNCTION float fn_exp(float x)
{
    return exp_of_sum(x, 0.0f);
}

GPU_FUNCTION float fn_exp2(float x)
{
    if (x != x) return x;
    if (x > 128.5f) return INFINITY;
    if (x < -151.0f) return 0.0f;
    float n = fn_rint(x), r = (x - n) * LN_2;
    return times_power_of_2(1.0f + (r + r * r * exp_rest(r)), (int32_t)n);
}

GPU_FUNCTION float fn_expm1(float x)
{
    if (x != x || x == 0.0f) return x;
    if (x > 89.0f) return INFINITY;
    if (x < -18.0f) return -1.0f;
    float n = fn_rint(x * 1.44269502f), r = exp_reduced(x, n), rest = r + r * r * exp_rest(r);
    if (n == 0.0f) return rest;
    if (n > 24.0f) return times_power_of_2(1.0f + rest, (int32_t)n);
    float power = times_power_of_2(1.0f, (int32_t)n);
    return power * rest + (power - 1.0f);
}

GPU_FUNCTION float fn_tanh(float x)
{
    float z = fn_fabs(x), t = x * x;
    if (z < 0.625f) {
        float p = 0.0020710178650915623f;
        p = p * t - 0.008099174126982689f;
        p = p * t + 0.021669359877705574f;
        p = p * t - 0.05394112691283226f;
        p = p * t + 0.13333162665367126f;
        p = p * t - 0.333333283662796f;
        return fn_copysign(x + x * (t * p), x);
    }
    return fn_copysign(z > 9.1f ? 1.0f : 1.0f - 2.0f / (fn_exp(2.0f * z) + 1.0f), x) +
           (x - x == 0.0f || z > 1.0f ? 0.0f : x);
}

/* (e^z + e^-z) / 2, and with sign -1 the difference. */
GPU_FUNCTION float mean_of_powers(float z, float sign)
{
    if (z > 88.0f) {
        float root = fn_exp(0.5f * z);
        return 0.5f * root * root;
    }
    float power = fn_exp(z);
    return 0.5f * power + sign * (0.5f / power);
}

GPU_FUNCTION float fn_cosh(float x)
{
    return mean_of_powers(fn_fabs(x), 1.0f);
}

GPU_FUNCTION float fn_sinh(float x)
{
    float z = fn_fabs(x), t = x * x;
    if (z < 1.0f) {
        float p = 2.8180634217278566e-06f;
        p = p * t + 0.00019835961575154215f;
        p = p * t + 0.008333351463079453f;
        p = p * t + 0.1666666716337204f;
        return fn_copysign(x + x * (t * p), x);
    }
    return fn_copysign(mean_of_powers(z, -1.0f), x);
}

/* ---- Logarithms --------------------------------------------------------------------------------------------- */

/* A positive number as 2^power (1 + high), with 1 + high between sqrt(1/2) and sqrt(2): `low` is the power. */
GPU_FUNCTION float_pair fraction_and_power(float x)
{
    uint32_t bits = gpu_bits_of_float(x);
    float_pair parts;
    float power = 0.0f;
    if (bits < 0x00800000u) { /* denormal: its fraction is an exact number */
        bits = gpu_bits_of_float((float)bits);
        power = -149.0f;
    }
    power += (float)((int32_t)(bits >> 23) - 127);
    float mantissa = gpu_float_of_bits((bits & 0x7fffffu) | 0x3f800000u);
    if (mantissa > 1.41421354f) {
        mantissa *= 0.5f;
        power += 1.0f;
    }
    parts.high = mantissa - 1.0f;
    parts.low = power;
    return parts;
}

/* What a logarithm is for numbers that have none, or infinity; 0 for others. */
GPU_FUNCTION float without_logarithm(float x)
{
    if (x != x || x < 0.0f) return x != x ? x : NOT_A_NUMBER;
    return (gpu_bits_of_float(x) & 0x7fffffffu) == 0u ? -INFINITY : x == INFINITY ? x : 0.0f;
}

/* log(1 + f) - f for f of fraction_and_power. */
GPU_FUNCTION float log_rest(float f)
{
    float square = f * f, p = 0.06757530570030212f;
    p = p * f - 0.11694324761629105f;
    p = p * f + 0.1189352497458458f;
    p = p * f - 0.12403086572885513f;
    p = p * f + 0.1421855241060257f;
    p = p * f - 0.16668090224266052f;
    p = p * f + 0.2000216692686081f;
    p = p * f - 0.25000008940696716f;
    p = p * f + 0.3333331048488617f;
    return square * f * p - 0.5f * square;
}

GPU_FUNCTION float fn_log(float x)
{
    float special = without_logarithm(x);
    if (!(special == 0.0f)) return special;
    float_pair parts = fraction_and_power(x);
    float rest = log_rest(parts.high) + parts.low * 1.4286068203094173e-06f;
    float_pair sum = pair_sum(parts.low * 0.693145751953125f, parts.high);
    return sum.high + (sum.low + rest);
}

/* log(1 + f) as a pair, by the series of 2 atanh(f / (2 + f)). */
GPU_FUNCTION float_pair log_of_fraction(float f)
{
    float below = 2.0f + f, below_rest = f - (below - 2.0f), s = f / below;
    float_pair product = pair_product(s, below);
    float s_rest = (((f - product.high) - product.low) - s * below_rest) / below, z = s * s;
    float p = 0.19592194259166718f;
    p = p * z + 0.22175666689872742f;
    p = p * z + 0.28572121262550354f;
    p = p * z + 0.3999999463558197f;
    p = p * z + 0.6666666865348816f;
    return pair_sum(2.0f * s, 2.0f * s_rest + s * z * p);
}

/* (power + the logarithm of a fraction in another base), where 1 / ln(base) is a pair. */
GPU_FUNCTION float log_in_base(float x, float high, float low, float power_high, float power_low)
{
    float special = without_logarithm(x);
    if (!(special == 0.0f)) return special;
    float_pair parts = fraction_and_power(x), log = log_of_fraction(parts.high);
    float_pair product = pair_product(log.high, high), sum = pair_sum(parts.low * power_high, product.high);
    return sum.high + (sum.low + (product.low + log.low * high + log.high * low + parts.low * power_low));
}

GPU_FUNCTION float fn_log2(float x)
{
    return log_in_base(x, 1.4426950216293335f, 1.9259629911266175e-08f, 1.0f, 0.0f);
}

GPU_FUNCTION float fn_log10(float x)
{
    return log_in_base(x, 0.4342944920063019f, -1.0103050052231683e-08f, 0.301025390625f,
                       4.605038981195214e-06f);
}

GPU_FUNCTION float fn_log1p(float x)
{
    float u = 1.0f + x;
    if (u == 1.0f) return x;
    if (!(u > 0.0f) || u == INFINITY) return fn_log(u);
    float lost = x < 1.0f ? x - (u - 1.0f) : 1.0f - (u - x);
    return fn_log(u) + lost / u;
}

GPU_FUNCTION float fn_asinh(float x)
{
    float z = fn_fabs(x), t = x * x;
    if (z < 0.5f) {
        float p = 0.008963416330516338f;
        p = p * t - 0.019840197637677193f;
        p = p * t + 0.029977712780237198f;
        p = p * t - 0.04460926353931427f;
        p = p * t + 0.07499869912862778f;
        p = p * t - 0.1666666567325592f;
        return fn_copysign(x + x * (t * p), x);
    }
    return fn_copysign(z > 1e9f ? fn_log(z) + LN_2 : fn_log1p(z + t / (1.0f + fn_sqrt(t + 1.0f))), x);
}

GPU_FUNCTION float fn_acosh(float x)
{
    float t = x - 1.0f;
    if (x < 1.0f) return NOT_A_NUMBER;
    return x > 1e9f ? fn_log(x) + LN_2 : fn_log1p(t + fn_sqrt(2.0f * t + t * t));
}

GPU_FUNCTION float fn_atanh(float x)
{
    float z = fn_fabs(x), t = x * x;
    if (z < 0.5f) {
        float p = 0.17684322595596313f;
        p = p * t + 0.023765435442328453f;
        p = p * t + 0.10307513177394867f;
        p = p * t + 0.10963178426027298f;
        p = p * t + 0.14295178651809692f;
        p = p * t + 0.1999971568584442f;
        p = p * t + 0.3333333730697632f;
        return fn_copysign(x + x * (t * p), x);
    }
    if (z > 1.0f) return NOT_A_NUMBER;
    return fn_copysign(0.5f * fn_log1p(2.0f * z / (1.0f - z)), x);
}

/* ---- Powers -------------------------------------------------------------------------------------------------- */

GPU_FUNCTION float fn_pow(float a, float b)
{
    if (b == 0.0f || a == 1.0f) return 1.0f;
    if (a != a || b != b) return a + b;
    float base = fn_fabs(a), size = fn_fabs(b);
    int32_t is_whole = size >= 8388608.0f || fn_floor(b) == b;
    int32_t is_odd = is_whole && size < 16777216.0f && ((int32_t)size & 1) != 0;
    float sign = is_odd ? fn_copysign(1.0f, a) : 1.0f;
    if (base == 1.0f && size == INFINITY) return 1.0f;
    if (size == INFINITY) return (base > 1.0f) == (b > 0.0f) ? INFINITY : 0.0f;
    if ((gpu_bits_of_float(base)) == 0u) return b < 0.0f ? sign * INFINITY : sign * 0.0f;
    if (base == INFINITY) return b < 0.0f ? sign * 0.0f : sign * INFINITY;
    if (a < 0.0f && !is_whole) return NOT_A_NUMBER;
    float_pair parts = fraction_and_power(base), log = log_of_fraction(parts.high);
    float_pair sum = pair_sum(parts.low * 0.693145751953125f, log.high);
    sum = pair_sum(sum.high, sum.low + (log.low + parts.low * 1.4286068203094173e-06f));
    float about = b * sum.high;
    if (about > 90.0f) return sign * INFINITY;
    if (about < -105.0f) return sign * 0.0f;
    float_pair product = pair_product(b, sum.high);
    return sign * exp_of_sum(product.high, product.low + b * sum.low);
}

GPU_FUNCTION float fn_hypot(float a, float b)
{
    float x = fn_fabs(a), y = fn_fabs(b), most = x > y ? x : y, least = x > y ? y : x;
    if (x == INFINITY || y == INFINITY) return INFINITY;
    if (x != x || y != y) return a + b;
    float scale = most > 1e18f ? 5.42101086e-20f : most < 1e-18f ? 1.84467441e19f : 1.0f; /* powers of two */
    float p = most * scale, q = least * scale;
    return fn_sqrt(p * p + q * q) / scale;
}

/* The rest has the sign of a, and is exact: one bit of the quotient after the other. */
GPU_FUNCTION float fn_fmod(float a, float b)
{
    float x = fn_fabs(a), y = fn_fabs(b);
    if (a != a || b != b || x == INFINITY || y == 0.0f) return NOT_A_NUMBER;
    if (x < y) return a;
    uint32_t x_bits = gpu_bits_of_float(x), y_bits = gpu_bits_of_float(y);
    int32_t x_power = (int32_t)(x_bits >> 23), y_power = (int32_t)(y_bits >> 23);
    uint32_t rest = x_power ? (x_bits & 0x7fffffu) | 0x800000u : x_bits,
             by = y_power ? (y_bits & 0x7fffffu) | 0x800000u : y_bits;
    if (x_power == 0) x_power = 1;
    if (y_power == 0) y_power = 1;
    for (; x_power > y_power; x_power--) rest = (rest % by) << 1;
    rest %= by;
    if (rest == 0u) return fn_copysign(0.0f, a);
    /* rest 2^(y_power - 150), which is exact. */
    return fn_copysign(times_power_of_2((float)rest, y_power - 150), a);
}

/*
 * trunc(a / b) as if the division rounded correctly, from the remainder of integers: a driver may divide so that 41 / 41 is less
 * than 1. Quotients from 2^24 on are integers, whatever their error.
 */
GPU_FUNCTION float fn_truncated_quotient(float a, float b)
{
    float x = fn_fabs(a), y = fn_fabs(b), ratio = a / b;
    if (a != a || b != b || x == INFINITY || y == 0.0f) return ratio;
    uint32_t x_bits = gpu_bits_of_float(x), y_bits = gpu_bits_of_float(y);
    float sign = gpu_float_of_bits((gpu_bits_of_float(a) ^ gpu_bits_of_float(b)) & 0x80000000u);
    if (x_bits < y_bits) return sign;
    int32_t x_power = (int32_t)(x_bits >> 23), y_power = (int32_t)(y_bits >> 23);
    uint64_t over = x_power ? (x_bits & 0x7fffffu) | 0x800000u : x_bits,
             by = y_power ? (y_bits & 0x7fffffu) | 0x800000u : y_bits;
    int32_t power = (x_power ? x_power : 1) - (y_power ? y_power : 1);
    if (power > 39) return ratio;
    over = over << (uint32_t)power;
    uint64_t whole = over / by, rest = over - whole * by;
    if (whole >= 0x1000000u) return ratio;
    /* Quotients between 2^k and 2^(k + 1) are multiples of 2^(k - 23): within half of that the next integer is the rounded one. */
    uint32_t k = (gpu_bits_of_float((float)(uint32_t)whole) >> 23) - 127u;
    if ((by - rest) << (24u - k) <= by) whole = whole + 1u;
    return fn_copysign((float)(uint32_t)whole, sign);
}
#define truncated_quotient(a, b) fn_truncated_quotient(a, b)

/* ---- Angles -------------------------------------------------------------------------------------------------- */

/* 2 / pi in words of 32 bits, behind one of zeros. */
static const uint32_t two_by_pi[9] = {0u,          0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                      0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};

GPU_FUNCTION uint64_t word_at(int32_t bit, int32_t k)
{
    int32_t i = bit / 32 + k;
    uint32_t shift = (uint32_t)(bit % 32);
    uint64_t both = (uint64_t)two_by_pi[i] << 32 | two_by_pi[i < 8 ? i + 1 : 8];
    return both >> (32u - shift) & 0xffffffffu;
}

/*
 * x as a quarter turn (`low`: 0 to 3) and an angle between -pi/4 and pi/4 (`high`). M. Payne, R. Hanek, "Radian reduction",
 * 1983: of 2 / pi only the bits that count are multiplied, in whole numbers.
 */
GPU_FUNCTION float_pair quarter_and_angle(float x)
{
    float_pair result;
    float z = fn_fabs(x);
    result.high = x;
    result.low = 0.0f;
    if (z <= 0.785398185f) return result;
    if (!(z < INFINITY)) {
        result.high = NOT_A_NUMBER;
        return result;
    }
    uint32_t bits = gpu_bits_of_float(z);
    uint64_t mantissa = (bits & 0x7fffffu) | 0x800000u;
    int32_t bit = (int32_t)(bits >> 23) - 152 + 32;
    uint64_t low = mantissa * word_at(bit, 2), middle = mantissa * word_at(bit, 1) + (low >> 32);
    uint64_t high = mantissa * word_at(bit, 0) + (middle >> 32), turns = high << 32 | (middle & 0xffffffffu);
    uint32_t quarter = (uint32_t)(turns >> 62);
    int64_t rest = (int64_t)(turns << 2); /* from -1/2 to 1/2, times 2^64 */
    if (rest < 0) quarter++;
    float angle = (float)rest * 8.51530339e-20f; /* pi / 2^65 */
    result.high = x < 0.0f ? -angle : angle;
    result.low = (float)((x < 0.0f ? 4u - quarter : quarter) & 3u);
    return result;
}

GPU_FUNCTION float sin_of_angle(float r)
{
    float z = r * r, p = 2.7175644845556235e-06f;
    p = p * z - 0.00019839256128761917f;
    p = p * z + 0.008333329111337662f;
    p = p * z - 0.1666666716337204f;
    return fn_copysign(r + r * (z * p), r);
}

GPU_FUNCTION float cos_of_angle(float r)
{
    float z = r * r, p = 2.4431203200947493e-05f;
    p = p * z - 0.0013887305976822972f;
    p = p * z + 0.04166664555668831f;
    return 1.0f - (0.5f * z - z * z * p);
}

/* The sine of an angle behind so many quarter turns. */
GPU_FUNCTION float sin_of_turned(float r, float quarter)
{
    float value = quarter == 1.0f || quarter == 3.0f ? cos_of_angle(r) : sin_of_angle(r);
    return quarter >= 2.0f ? -value : value;
}

GPU_FUNCTION float fn_sin(float x)
{
    float_pair turned = quarter_and_angle(x);
    return sin_of_turned(turned.high, turned.low);
}

GPU_FUNCTION float fn_cos(float x)
{
    float_pair turned = quarter_and_angle(x);
    return sin_of_turned(turned.high, turned.low == 3.0f ? 0.0f : turned.low + 1.0f);
}

GPU_FUNCTION float fn_tan(float x)
{
    float_pair turned = quarter_and_angle(x);
    float r = turned.high, z = r * r, p = 0.004526382312178612f;
    p = p * z - 0.00021662688232026994f;
    p = p * z + 0.011079211719334126f;
    p = p * z + 0.02118733897805214f;
    p = p * z + 0.05407852679491043f;
    p = p * z + 0.13332496583461761f;
    p = p * z + 0.3333335518836975f;
    float tangent = r + r * (z * p);
    return turned.low == 1.0f || turned.low == 3.0f ? -1.0f / tangent : tangent;
}

/* x in half turns. */
GPU_FUNCTION float_pair quarter_of_half_turns(float x)
{
    float quarter = fn_rint(2.0f * x), rest = x - 0.5f * quarter;
    float_pair turned;
    turned.high = rest * 3.1415927410125732f + rest * -8.742278000372485e-08f;
    turned.low = (float)((int32_t)(quarter - 4.0f * fn_floor(quarter * 0.25f)));
    return turned;
}

GPU_FUNCTION float fn_sinpi(float x)
{
    float_pair turned = quarter_of_half_turns(x);
    return sin_of_turned(turned.high, turned.low);
}

GPU_FUNCTION float fn_cospi(float x)
{
    float_pair turned = quarter_of_half_turns(x);
    return sin_of_turned(turned.high, turned.low == 3.0f ? 0.0f : turned.low + 1.0f);
}

/* For |x| up to 1/2. */
GPU_FUNCTION float asin_near(float x)
{
    float z = x * x, p = 0.03763008862733841f;
    p = p * z + 0.014358493499457836f;
    p = p * z + 0.031828686594963074f;
    p = p * z + 0.04451446980237961f;
    p = p * z + 0.0750051736831665f;
    p = p * z + 0.16666659712791443f;
    return fn_copysign(x + x * (z * p), x);
}

GPU_FUNCTION float fn_asin(float x)
{
    float z = fn_fabs(x);
    if (z <= 0.5f) return asin_near(x);
    return fn_copysign(HALF_PI - (2.0f * asin_near(fn_sqrt(0.5f * (1.0f - z))) + 4.37113883e-8f), x) +
           (z <= 1.0f ? 0.0f : NOT_A_NUMBER);
}

GPU_FUNCTION float fn_acos(float x)
{
    float z = fn_fabs(x);
    if (z <= 0.5f) return HALF_PI - (asin_near(x) + 4.37113883e-8f);
    float half = 2.0f * asin_near(fn_sqrt(0.5f * (1.0f - z)));
    return (x < 0.0f ? 3.1415927410125732f - (half + 8.74227766e-8f) : half) +
           (z <= 1.0f ? 0.0f : NOT_A_NUMBER);
}

GPU_FUNCTION float atan_near(float x)
{
    float z = x * x, p = -0.06081743165850639f;
    p = p * z + 0.1059535965323448f;
    p = p * z - 0.1424376666545868f;
    p = p * z + 0.1999848484992981f;
    p = p * z - 0.33333316445350647f;
    return fn_copysign(x + x * (z * p), x);
}

GPU_FUNCTION float fn_atan(float x)
{
    float z = fn_fabs(x);
    if (z <= 0.41421357f) return atan_near(x);
    float angle = z > 2.41421366f ? HALF_PI - (atan_near(1.0f / z) + 4.37113883e-8f)
                                  : 0.785398185f + (atan_near((z - 1.0f) / (z + 1.0f)) - 2.18556941e-8f);
    return fn_copysign(angle, x) + (x != x ? x : 0.0f);
}

GPU_FUNCTION float fn_atan2(float y, float x)
{
    float a = fn_fabs(x), b = fn_fabs(y), sign = fn_copysign(1.0f, x), angle;
    if (x != x || y != y) return x + y;
    if (b == 0.0f)
        angle = 0.0f;
    else if (a == INFINITY && b == INFINITY)
        angle = 0.785398185f;
    else if (b > a)
        angle = HALF_PI - (fn_atan(a / b) + 4.37113883e-8f);
    else
        angle = fn_atan(b / a);
    return fn_copysign(sign < 0.0f ? 3.1415927410125732f - (angle + 8.74227766e-8f) : angle, y);
}

/* ---- The error function and the gamma function ----------------------------------------------------------------- */

GPU_FUNCTION float fn_erf(float x)
{
    if (x != x) return x;
    return x > ERF_MIDDLE || x < -ERF_MIDDLE ? fn_copysign(1.0f - fn_exp(erf_exponent(x)), x) : erf_near(x);
}

/* Through the tail of the normal curve: erfc(x) = 2 Phi(-sqrt(2) x). */
GPU_FUNCTION float fn_erfc(float x)
{
    if (x != x) return x;
    if (x < 0.75f) return 1.0f - fn_erf(x);
    if (x > 10.1f) return 0.0f;
    float_pair square = pair_product(x, x);
    return 2.0f * exp_of_sum(-square.high, -square.low) * tail_ratio(1.41421354f * x);
}

/* log(gamma(x)) for x from 1/2 on. */
GPU_FUNCTION float lgamma_above(float x)
{
    float shift = 0.0f, product = 1.0f;
    if (x > 8.0f) { /* Stirling's series */
        float inverse = 1.0f / x, z = inverse * inverse, log = fn_log(x);
        float series = inverse * (0.0833333358f - z * (0.00277777785f - z * 0.000793650805f));
        return x > 1e16f ? x * (log - 1.0f) : (x - 0.5f) * (log - 1.0f) + (0.418938533f + series);
    }
    for (; x > 2.5f; x -= 1.0f) product *= x - 1.0f;
    if (x < 1.5f) shift = -fn_log(x);
    float z = x - (x < 1.5f ? 1.0f : 2.0f);
    float p = -5.371660881792195e-05f;
    p = p * z + 0.0001153484481619671f;
    p = p * z - 0.00022028962848708034f;
    p = p * z + 0.0005054832436144352f;
    p = p * z - 0.0011931814951822162f;
    p = p * z + 0.002890984993427992f;
    p = p * z - 0.007385522127151489f;
    p = p * z + 0.02058078721165657f;
    p = p * z - 0.0673523023724556f;
    p = p * z + 0.32246702909469604f;
    p = p * z + 0.42278432846069336f;
    return z * p + (product == 1.0f ? shift : fn_log(product));
}

GPU_FUNCTION float fn_lgamma(float x)
{
    if (x != x) return x;
    if (fn_fabs(x) == INFINITY) return INFINITY;
    if (x >= 0.5f) return lgamma_above(x);
    if (fn_floor(x) == x) return INFINITY;
    if (fn_fabs(x) < 1e-6f) return -fn_log(fn_fabs(x));
    /* gamma(x) gamma(1 - x) = pi / sin(pi x) */
    return (1.14472985f - fn_log(fn_fabs(fn_sinpi(x)))) - lgamma_above(1.0f - x);
}

#endif
