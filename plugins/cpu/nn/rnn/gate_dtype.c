/* SPDX-License-Identifier: Apache-2.0 */
/* glu and weight normalisation. */
#include "nn/words.h"
#include "gate.h"

ALWAYS_INLINE T sigmoid(T x)
{
    return 1 / (1 + exponential(-x));
}

static void glu(const cpu_gate *g, int64_t begin, int64_t end)
{
    for (int64_t o = begin; o < end; o++) {
        const E *restrict a = (const E *)g->x + o * 2 * g->inner, *restrict b = a + g->inner;
        E *restrict out = (E *)g->out + o * g->inner;
        for (int64_t i = 0; i < g->inner; i++) store(&out[i], load(&a[i]) * sigmoid(load(&b[i])));
    }
}

static void glu_backward(const cpu_gate *g, int64_t begin, int64_t end)
{
    for (int64_t o = begin; o < end; o++) {
        const E *restrict a = (const E *)g->x + o * 2 * g->inner, *restrict b = a + g->inner;
        const E *restrict grad = (const E *)g->grad + o * g->inner;
        E *restrict to_a = (E *)g->out + o * 2 * g->inner, *restrict to_b = to_a + g->inner;
        for (int64_t i = 0; i < g->inner; i++) {
            T gate = sigmoid(load(&b[i])), up = load(&grad[i]);
            store(&to_a[i], gate * up);
            store(&to_b[i], (1 - gate) * gate * up * load(&a[i]));
        }
    }
}

static void weight_norm(const cpu_weight_norm *w, int64_t begin, int64_t end)
{
    for (int64_t s = begin; s < end; s++) {
        double sum = 0, norm;
        T scale;
        for (int64_t o = 0; o < w->outer; o++) {
            const E *v = (const E *)w->v + (o * w->slices + s) * w->inner;
            for (int64_t i = 0; i < w->inner; i++) sum += (double)load(&v[i]) * (double)load(&v[i]);
        }
        norm = sqrt(sum);
        if (w->wide_norms)
            ((float *)w->norms)[s] = (float)norm;
        else
            store(&((E *)w->norms)[s], (T)norm);
        scale = (T)((double)load(&((const E *)w->g)[s]) / norm);
        for (int64_t o = 0; o < w->outer; o++) {
            int64_t at = (o * w->slices + s) * w->inner;
            for (int64_t i = at; i < at + w->inner; i++)
                store(&((E *)w->out)[i], load(&((const E *)w->v)[i]) * scale);
        }
    }
}

static void weight_norm_backward(const cpu_weight_norm *w, int64_t begin, int64_t end)
{
    for (int64_t s = begin; s < end; s++) {
        double dot = 0, g = (double)load(&((const E *)w->g)[s]);
        double norm = w->wide_norms ? (double)((const float *)w->norms_in)[s]
                                    : (double)load(&((const E *)w->norms_in)[s]);
        for (int64_t o = 0; o < w->outer; o++) {
            int64_t at = (o * w->slices + s) * w->inner;
            for (int64_t i = at; i < at + w->inner; i++)
                dot += (double)load(&((const E *)w->v)[i]) * (double)load(&((const E *)w->grad)[i]);
        }
        store(&((E *)w->g_grad)[s], (T)(dot / norm));
        for (int64_t o = 0; o < w->outer; o++) {
            int64_t at = (o * w->slices + s) * w->inner;
            for (int64_t i = at; i < at + w->inner; i++)
                store(&((E *)w->out)[i], (T)(g / norm *
                                             ((double)load(&((const E *)w->grad)[i]) -
                                              (double)load(&((const E *)w->v)[i]) * dot / (norm * norm))));
        }
    }
}

CPU_KERNELS(cpu_gate_kernels, .glu = glu, .glu_backward = glu_backward, .weight_norm = weight_norm,
            .weight_norm_backward = weight_norm_backward);
