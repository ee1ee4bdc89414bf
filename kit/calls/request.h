/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of operators as JSON has them:
 *
 *     {"op": "aten::add.Tensor", "args": [...], "kwargs": {"alpha": 2}}
 *
 * Numbers, bools, null, strings and lists stand for themselves, but a float is {"f": "0.5"}, a dtype is
 * {"dtype": "float16"}, a layout {"layout": "strided"}, and a tensor
 * {"t": sizes, "d": dtype, "s": strides, "o": storage offset, "low": 0, "high": 1, "offsets": true, "seed": 0}, where
 * the last six may be absent. The schema says what type a list has.
 */
#ifndef TENON_KIT_REQUEST_H
#define TENON_KIT_REQUEST_H

#include <cjson/cJSON.h>
#include <tenon/tenon.h>

#define REQUEST_MAX_ARGUMENTS 32

/* Fills `args` (room for REQUEST_MAX_ARGUMENTS) with the arguments of the request and returns their number. Tensors are
 * on the CPU; the scope owns all of them and gets the error. */
uint32_t request_arguments(tn_scope *s, uint32_t op, const cJSON *request, tn_value *args);

/* The value of one argument; `type` is its type in the schema. The scope owns what it points to. */
tn_value request_value(tn_scope *s, const cJSON *j, const char *type);

#endif
