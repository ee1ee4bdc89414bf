/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that runs cases. It reads numbers of cases, one on each line, and answers each with a line of
 * JSON. The number -1 asks for the subject and the list of cases.
 */
#ifndef TENON_KIT_CHECK_WORKER_H
#define TENON_KIT_CHECK_WORKER_H

#include <stdio.h>
#include "check.h"

/* Serves until its input ends. The exit status of the process: 0, or 3 when the plugin cannot be used. */
int check_serve(const check_options *options, const check_source *sources, uint32_t count, FILE *in,
                FILE *out);
/* Runs one case; `out` gets its result. */
void check_run_case(check_target *t, const check_case *c, check_result *out);
/* A result as JSON, and back. The second takes `data` out of the object. */
cJSON *check_result_json(const check_result *r);
void check_result_read(cJSON *line, check_result *out);
/* The plugin and device under test, as in the report. */
cJSON *check_subject(const check_target *t);

#endif
