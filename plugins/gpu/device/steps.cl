/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of optimisers in one pass over a parameter, its gradient and its state: contiguous, of the dtype GPU_DTYPE. An item
 * has s.run elements. The number of the step is read from `step`, where there is one.
 */
#include "dialect.h"

#define GPU_STEP     GPU_BYTES(GPU_DTYPE)
#define GPU_AT(p, i) gpu_load((p) + (int64_t)(i) * GPU_STEP, GPU_DTYPE)
#define GPU_PUT(p, i, value) gpu_store((p) + (int64_t)(i) * GPU_STEP, GPU_DTYPE, value)

/* The gradient of element i: unscaled and stored, then the one to descend along. */
GPU_FUNCTION T gpu_gradient(GPU_GLOBAL uint8_t *grad, uint32_t i, const gpu_step *s, T scale)
{
    T g = GPU_AT(grad, i);
    if (s->flags & GPU_STEP_SCALED) {
        GPU_PUT(grad, i, g / scale);
        g = GPU_AT(grad, i);
    }
    return s->flags & GPU_STEP_MAXIMIZE ? -g : g;
}

/* 1 if a gradient was not finite: then the step is left out. */
#define GPU_BEGIN                                                                                                     \
    uint32_t begin = gpu_item() * s.run, end = s.numel - begin < s.run ? s.numel : begin + s.run;                    \
    if (begin >= s.numel) return;                                                                                    \
    if (s.flags & GPU_STEP_CHECKED && *(GPU_GLOBAL const float *)(found + s.offsets[GPU_STEP_FOUND]) == 1.0f) return; \
    T scaling = s.flags & GPU_STEP_SCALED ? (T) * (GPU_GLOBAL const float *)(scale + s.offsets[GPU_STEP_SCALE]) : (T)1; \
    param += s.offsets[GPU_STEP_PARAM];                                                                              \
    grad += s.offsets[GPU_STEP_GRAD];                                                                                \
    first += s.offsets[GPU_STEP_FIRST];

/* numbers: weight decay, momentum, learning rate, 1 - dampening. */
GPU_KERNEL void sgd_step(GPU_GLOBAL uint8_t *param, GPU_GLOBAL uint8_t *grad, GPU_GLOBAL uint8_t *first,
                         GPU_GLOBAL const uint8_t *scale, GPU_GLOBAL const uint8_t *found, gpu_step s)
{
    T decay = gpu_value(s.numbers[0]), momentum = gpu_value(s.numbers[1]), lr = gpu_value(s.numbers[2]);
    T rest = gpu_value(s.numbers[3]);
    GPU_BEGIN
    for (uint32_t i = begin; i < end; i++) {
        T p = GPU_AT(param, i), g = gpu_gradient(grad, i, &s, scaling) + decay * p;
        if (momentum != 0) {
            T b = s.flags & GPU_STEP_FIRST_TIME ? g : momentum * GPU_AT(first, i) + rest * g;
            GPU_PUT(first, i, b);
            g = s.flags & GPU_STEP_NESTEROV ? g + momentum * b : b;
        }
        GPU_PUT(param, i, p - lr * g);
    }
}

/*
 * D. Kingma, J. Ba, "Adam", 2015; decoupled decay: I. Loshchilov, F. Hutter, 2019. numbers: learning rate, beta1, beta2,
 * weight decay, eps.
 */
GPU_KERNEL void adam_step(GPU_GLOBAL uint8_t *param, GPU_GLOBAL uint8_t *grad, GPU_GLOBAL uint8_t *first,
                          GPU_GLOBAL uint8_t *second, GPU_GLOBAL uint8_t *largest, GPU_GLOBAL const uint8_t *step,
                          GPU_GLOBAL const uint8_t *scale, GPU_GLOBAL const uint8_t *found, gpu_step s)
{
    T lr = gpu_value(s.numbers[0]), beta1 = gpu_value(s.numbers[1]), beta2 = gpu_value(s.numbers[2]);
    T decay = gpu_value(s.numbers[3]), eps = gpu_value(s.numbers[4]);
    GPU_BEGIN
    T t = gpu_load(step + s.offsets[GPU_STEP_COUNT], s.step_dtype);
    /* 1 - beta^t without cancellation. */
    T rate = lr / -FN(expm1)(t * FN(log)(beta1)), root = FN(sqrt)(-FN(expm1)(t * FN(log)(beta2)));
    T added = s.flags & GPU_STEP_DECOUPLED ? (T)0 : decay, kept = s.flags & GPU_STEP_DECOUPLED ? 1 - lr * decay : (T)1;
    second += s.offsets[GPU_STEP_SECOND];
    if (s.flags & GPU_STEP_LARGEST) largest += s.offsets[GPU_STEP_MOST];
    for (uint32_t i = begin; i < end; i++) {
        T p = GPU_AT(param, i), g = gpu_gradient(grad, i, &s, scaling) + added * p;
        T m = GPU_AT(first, i), v = GPU_AT(second, i);
        m += (1 - beta1) * (g - m);
        v = beta2 * v + (1 - beta2) * g * g;
        GPU_PUT(first, i, m);
        GPU_PUT(second, i, v);
        if (s.flags & GPU_STEP_LARGEST) {
            T old = GPU_AT(largest, i);
            v = old > v ? old : v;
            GPU_PUT(largest, i, v);
        }
        GPU_PUT(param, i, kept * p - rate * m / (FN(sqrt)(v) / root + eps));
    }
}
