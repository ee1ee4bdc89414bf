/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tail of the normal curve: Phi(-z) = e^(-z^2 2) t P(t), t = 1 (1 + 0.3 z). P is a minimax fit of our
 * own for z up to 14.8 (error 4e-9), where Phi becomes 0 in float32. The includer has the type W,
 * ALWAYS_INLINE and FUSED_W(a, b, c), a b + c rounded once.
 */
#ifndef TENON_FORMULAS_NORMAL_TAIL_H
#define TENON_FORMULAS_NORMAL_TAIL_H

ALWAYS_INLINE W tail_ratio(W z)
{
    W t = 1 / FUSED_W((W)0.3, z, 1), q = (W)-0.02062719351256735;
    q = FUSED_W(q, t, (W)0.11245653050027064);
    q = FUSED_W(q, t, (W)-0.22826459355616785);
    q = FUSED_W(q, t, (W)0.19185522224315837);
    q = FUSED_W(q, t, (W)-0.07948476502091784);
    q = FUSED_W(q, t, (W)0.09619119985401706);
    q = FUSED_W(q, t, (W)0.07837720562284803);
    q = FUSED_W(q, t, (W)0.1102382231861847);
    q = FUSED_W(q, t, (W)0.11957146000302396);
    q = FUSED_W(q, t, (W)0.11968670894818666);
    return q * t;
}

#endif
