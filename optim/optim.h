/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimisers over leaves with gradients. A step reads tn_grad_of and writes the parameters in place, without
 * recording; parameters without a gradient are skipped.
 */
#ifndef TENON_OPTIM_H
#define TENON_OPTIM_H

#include <tenon/tenon.h>

/* Stochastic gradient descent with momentum, as in PyTorch: v = momentum * v + g; p = p - lr * v. */
typedef struct optim_sgd {
    double lr, momentum, weight_decay;
    uint32_t count;
    tn_tensor **parameters; /* borrowed */
    tn_tensor **velocity;   /* one reference each; NULL before the first step */
} optim_sgd;
int32_t optim_sgd_init(optim_sgd *o, tn_tensor **parameters, uint32_t count, double lr, double momentum,
                       double weight_decay);
int32_t optim_sgd_step(optim_sgd *o, tn_scope *s);
void optim_sgd_finish(optim_sgd *o);

/*
 * Loshchilov and Hutter, "Decoupled weight decay regularization", 2019. Complex parameters count as pairs of
 * real ones.
 */
typedef struct optim_adamw {
    double lr, beta1, beta2, eps, weight_decay;
    int64_t step;
    uint32_t count;
    tn_tensor **parameters; /* borrowed */
    tn_tensor **mean;       /* of the gradients, real; NULL before the first step */
    tn_tensor **square;     /* of their squares */
} optim_adamw;
/* betas 0.9 and 0.999, eps 1e-8. The caller may change the numbers between steps. */
int32_t optim_adamw_init(optim_adamw *o, tn_tensor **parameters, uint32_t count, double lr,
                         double weight_decay);
int32_t optim_adamw_step(optim_adamw *o, tn_scope *s);
void optim_adamw_finish(optim_adamw *o);

/* Learning rate that rises linearly over `warm_up` of all steps and falls along half a cosine to 0. */
double optim_warm_up_cosine(double peak, int64_t step, int64_t steps, double warm_up);

/* The error of a failed step says where the program called it. */
#ifndef TN_NO_PLACES
static inline int32_t optim_sgd_step_at(const char *file, int32_t line, optim_sgd *o, tn_scope *scope)
{
    int32_t before = tn_scope_place_begin(scope), status = optim_sgd_step(o, scope);
    if (status || before) tn_place_after(scope, before, file, line);
    return status;
}
static inline int32_t optim_adamw_step_at(const char *file, int32_t line, optim_adamw *o, tn_scope *scope)
{
    int32_t before = tn_scope_place_begin(scope), status = optim_adamw_step(o, scope);
    if (status || before) tn_place_after(scope, before, file, line);
    return status;
}
#define optim_sgd_step(...)   optim_sgd_step_at(__FILE__, __LINE__, __VA_ARGS__)
#define optim_adamw_step(...) optim_adamw_step_at(__FILE__, __LINE__, __VA_ARGS__)
#endif

#endif
