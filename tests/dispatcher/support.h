/* SPDX-License-Identifier: Apache-2.0 */
/* Operators and kernels that tests define, and a context and a scope for them. */
#ifndef TESTS_DISPATCHER_SUPPORT_H
#define TESTS_DISPATCHER_SUPPORT_H

#include <criterion/criterion.h>
#include <tenon/tenon.h>

extern tn_context *ctx;
extern tn_scope *s;

/* init and fini of test suites. */
void open_context(void);
void close_context(void);

/* Defines an operator by its schema alone. The text must outlive the context. */
uint32_t define(const char *schema);
uint32_t define_with(const tn_operator_def *def);
/* A row that takes any strides. */
void add_row(const char *device, const char *schema, int32_t priority, tn_kernel_fn run,
             tn_can_run_fn can_run);
/* A kernel that leaves its outputs as they are. */
int32_t do_nothing(void *self, const tn_call *call);

/* A uint8 tensor of two elements that are 2^32 bytes apart, in pages that nobody touches. */
tn_tensor *far_elements(void);

/* A call on the scope with one result. */
#define CALL(op, ...)                                  \
    call_on_scope(op, (const tn_value[]){__VA_ARGS__}, \
                  sizeof((const tn_value[]){__VA_ARGS__}) / sizeof(tn_value))
tn_tensor *call_on_scope(uint32_t op, const tn_value *args, uint32_t n_args);
/* The scope has failed with this status and a text that contains `part`; clears it. */
void expect_failure(int32_t status, const char *part);
/* The same of the last error of this thread. */
void expect_last_error(int32_t status, const char *part);

/* An operator that is not defined: the status, and a part of the text. */
#define REFUSE(status, part, ...) refuse_definition((tn_operator_def){__VA_ARGS__}, status, part)
void refuse_definition(tn_operator_def def, int32_t status, const char *part);

#endif
