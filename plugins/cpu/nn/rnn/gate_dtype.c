/* SPDX-License-Identifier: Apache-2.0 */
/* glu and weight normalisation for one dtype and level. */
#include "nn/exponential.h"
#include "gate.h"

static acc sigmoid(acc x)
{
    return 1 / (1 + exponential(-x));
}

static void glu(const cpu_gate *g, int64_t begin, int64_t end)
{
    for (int64_t o = begin; o < end; o++) {
        const T *restrict a = (const T *)g->x + o * 2 * g->inner, *restrict b = a + g->inner;
        T *restrict out = (T *)g->out + o * g->inner;
        for (int64_t i = 0; i < g->inner; i++) out[i] = store(load(a[i]) * sigmoid(load(b[i])));
    }
}

static void glu_backward(const cpu_gate *g, int64_t begin, int64_t end)
{
    for (int64_t o = begin; o < end; o++) {
        const T *restrict a = (const T *)g->x + o * 2 * g->inner, *restrict b = a + g->inner;
        const T *restrict grad = (const T *)g->grad + o * g->inner;
        T *restrict to_a = (T *)g->out + o * 2 * g->inner, *restrict to_b = to_a + g->inner;
        for (int64_t i = 0; i < g->inner; i++) {
            acc gate = sigmoid(load(b[i])), up = load(grad[i]);
            to_a[i] = store(gate * up);
            to_b[i] = store((1 - gate) * gate * up * load(a[i]));
        }
    }
}

static void weight_norm(const cpu_weight_norm *w, int64_t begin, int64_t end)
{
    for (int64_t s = begin; s < end; s++) {
        double sum = 0, norm;
        acc scale;
        for (int64_t o = 0; o < w->outer; o++) {
            const T *v = (const T *)w->v + (o * w->slices + s) * w->inner;
            for (int64_t i = 0; i < w->inner; i++) sum += (double)load(v[i]) * (double)load(v[i]);
        }
        norm = sqrt(sum);
        if (w->wide_norms)
            ((float *)w->norms)[s] = (float)norm;
        else
            ((T *)w->norms)[s] = store((acc)norm);
        scale = (acc)((double)load(((const T *)w->g)[s]) / norm);
        for (int64_t o = 0; o < w->outer; o++) {
            int64_t at = (o * w->slices + s) * w->inner;
            for (int64_t i = at; i < at + w->inner; i++)
                ((T *)w->out)[i] = store(load(((const T *)w->v)[i]) * scale);
        }
    }
}

static void weight_norm_backward(const cpu_weight_norm *w, int64_t begin, int64_t end)
{
    for (int64_t s = begin; s < end; s++) {
        double dot = 0, g = (double)load(((const T *)w->g)[s]);
        double norm = w->wide_norms ? (double)((const float *)w->norms_in)[s]
                                    : (double)load(((const T *)w->norms_in)[s]);
        for (int64_t o = 0; o < w->outer; o++) {
            int64_t at = (o * w->slices + s) * w->inner;
            for (int64_t i = at; i < at + w->inner; i++)
                dot += (double)load(((const T *)w->v)[i]) * (double)load(((const T *)w->grad)[i]);
        }
        ((T *)w->g_grad)[s] = store((acc)(dot / norm));
        for (int64_t o = 0; o < w->outer; o++) {
            int64_t at = (o * w->slices + s) * w->inner;
            for (int64_t i = at; i < at + w->inner; i++)
                ((T *)w->out)[i] = store((acc)(g / norm *
                                               ((double)load(((const T *)w->grad)[i]) -
                                                (double)load(((const T *)w->v)[i]) * dot / (norm * norm))));
        }
    }
}

extern const cpu_gate_kernels K(cpu_gate_kernels);
const cpu_gate_kernels K(cpu_gate_kernels) = {
    .glu = glu,
    .glu_backward = glu_backward,
    .weight_norm = weight_norm,
    .weight_norm_backward = weight_norm_backward,
};
