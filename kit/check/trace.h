/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded calls without data: a file, plain or gzip, with a call in each line as kit/calls/request.h
 * describes it, and "n", how often it was made. Calls of an operator that differ only in sizes and numbers
 * have one *form*; one call of each form is run for all.
 */
#ifndef TENON_KIT_CHECK_TRACE_H
#define TENON_KIT_CHECK_TRACE_H

#include "check.h"

typedef struct trace_form {
    const char *op;   /* "aten::add.Tensor" */
    const char *text; /* the smallest call of the form, a line of JSON */
    const char
        *large;      /* the largest one up to --max-bytes, for measurements; the smallest if all are larger */
    const char *key; /* text that describes the form */
    uint64_t calls;  /* number of calls in the program */
    uint32_t distinct;
    double bytes;       /* of the tensors among the arguments, of all calls together */
    double text_bytes;  /* of the call in `text` */
    double large_bytes; /* of the one in `large` */
} trace_form;
typedef struct trace {
    trace_form *forms;
    uint32_t count;
    char error[256]; /* the file cannot be used; or "" */
} trace;

/* Reads the file that the options name, or the installed one. All memory is the list's. */
void trace_read(check_list *list, const check_options *options, trace *out);
/* Bytes of the tensors among the arguments of one call. */
double trace_bytes(const cJSON *call);
/* Makes the arguments of a call on a device, with their recorded strides. Returns their number; errors are
 * in the scope. `args` has room for REQUEST_MAX_ARGUMENTS. */
uint32_t trace_arguments(tn_scope *s, uint32_t op, const char *text, tn_device device, tn_value *args);

#endif
