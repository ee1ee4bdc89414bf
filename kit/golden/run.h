/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_KIT_GOLDEN_RUN_H
#define TENON_KIT_GOLDEN_RUN_H

#include <stdint.h>

typedef struct golden_options {
    const char *folder; /* with cases/ in it */
    const char *device; /* NULL: cpu */
    const char *filter; /* extended regular expression over operator names, NULL: all */
    const char *json;   /* file to write, or NULL */
    uint32_t jobs;      /* processes at once, 1 to 64 */
    uint32_t timeout;   /* seconds for one file */
    int verbose;        /* each failure */
    int all;            /* operators without failures, too */
} golden_options;

/* 0: all passed, 1: some did not, 2: the call was wrong, or something could not be read or
 * written. */
int golden_run(const golden_options *options);

#endif
