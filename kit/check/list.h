/* SPDX-License-Identifier: Apache-2.0 */
/* The list that sources add cases to, and the lists of exceptions; for the runner alone. */
#ifndef TENON_KIT_CHECK_LIST_H
#define TENON_KIT_CHECK_LIST_H

#include <regex.h>
#include "check.h"

struct check_list {
    const check_options *options;
    check_case *cases;
    uint32_t count, room;
    void **blocks; /* of check_memory */
    uint32_t n_blocks;
    regex_t filter;
    int has_filter;
};

/* 0, or 1 when the filter is not a regular expression (message on stderr). */
int check_list_init(check_list *list, const check_options *options);
void check_list_finish(check_list *list);

typedef struct check_exception {
    char *pattern; /* of names of cases, matched by fnmatch */
    char *reason;
    int32_t kind; /* CHECK_UNSUPPORTED or CHECK_EXPECTED_FAILURE */
    uint32_t used;
} check_exception;
typedef struct check_exceptions {
    check_exception *items;
    uint32_t count;
} check_exceptions;

/* Reads one list: on each line a pattern, blanks, a reason; '#' begins a comment. 0, or 1 with a message
 * on stderr. NULL is an empty list. */
int check_exceptions_read(check_exceptions *e, const char *path, int32_t kind);
void check_exceptions_finish(check_exceptions *e);
/* Writes into the result what the lists say of a case. */
void check_exceptions_apply(check_exceptions *e, const char *name, check_result *out);

#endif
