/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process for cases about several: `tenon check` itself, started with --partner. It receives a tensor of 0, 1, 2,
 * ... (and waits on its stream for the event that comes along), triples it in place, and answers. Drivers of vendors
 * refuse memory that comes back to the process that exported it, so one process cannot play both sides.
 */
#ifndef TENON_KIT_CHECK_PARTNER_H
#define TENON_KIT_CHECK_PARTNER_H

#include <sys/types.h>
#include "check.h"

#define PARTNER_COUNT 1000 /* elements of the tensor, float32 */

typedef struct partner {
    pid_t pid;
    int socket;
} partner;

/* 0: the case has failed. */
int partner_start(partner *p, const check_target *t, check_result *out);
/* Waits until it has the tensor and the event, behind which it waits next. 0: the case has failed. */
int partner_received(const partner *p, check_result *out);
/* Waits for its answer. 0: the case has failed, with what the partner says. */
int partner_answer(const partner *p, check_result *out);
/* Lets it end, and waits for that. */
void partner_finish(partner *p);

/* The partner's own life; the exit status of the process. */
int check_partner(const check_options *options);

#endif
