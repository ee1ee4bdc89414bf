/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a tree of modules is still there: for optimisers, averages and the graph of a call, which keep its tensors alive, but
 * not the tree. The object outlives the tree as long as somebody holds it.
 */
#ifndef TENON_MODULE_LIFE_H
#define TENON_MODULE_LIFE_H

#include <tenon/nn.h>

typedef struct module_life module_life;

/* That of the tree of m, with a reference for the caller. */
module_life *module_life_of(const tn_module *m);
/* NULL is ignored. */
void module_life_release(module_life *life);
/* 1 if the tree was destroyed; NULL is a tree that is there. */
int32_t module_life_is_over(const module_life *life);
/* TN_OK; TN_E_DEAD_HANDLE if the tree was destroyed, which fails the scope: "SGD: module 'net' was destroyed". */
int32_t module_life_check(tn_scope *s, const module_life *life, const char *who);

#endif
