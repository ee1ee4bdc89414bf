/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error function in float32 by two minimax fits of our own, each with an error below 1 ULP: x P(x^2) up to
 * ERF_MIDDLE, beyond that 1 - e^-Q(x), which rounds to 1 from ERF_END on. The includer has ALWAYS_INLINE.
 */
#ifndef TENON_FORMULAS_ERROR_FUNCTION_H
#define TENON_FORMULAS_ERROR_FUNCTION_H

#define ERF_MIDDLE 0.92f
#define ERF_END    4.0f
ALWAYS_INLINE float erf_near(float x)
{
    float t = x * x, p = 8.404849359067157e-05f;
    p = p * t - 0.0008151340298354626f;
    p = p * t + 0.0052018375135958195f;
    p = p * t - 0.026859745383262634f;
    p = p * t + 0.11283702403306961f;
    p = p * t - 0.37612634897232056f;
    p = p * t + 0.12837916709551256f; /* 2 / sqrt(pi) - 1 */
    return x + x * p;
}
ALWAYS_INLINE float erf_exponent(float x)
{
    float z = x < 0 ? -x : x, q = -1.2379352938296506e-06f;
    z = z > ERF_END ? ERF_END : z;
    q = q * z + 1.9962602891610004e-05f;
    q = q * z - 0.00011845849076053128f;
    q = q * z + 0.0001209728725370951f;
    q = q * z + 0.0027831157203763723f;
    q = q * z - 0.0228597242385149f;
    q = q * z + 0.10588133335113525f;
    q = q * z + 0.6349491477012634f;
    q = q * z + 1.1289033889770508f;
    q = q * z - 7.298511627595872e-05f;
    return -q;
}
#endif
