/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that fail on request. This program's definitions stand before the C library's for the code that is
 * linked statically into it: the n-th call fails, all others go on to the C library.
 */
#ifndef TESTS_CORE_SYSTEM_CALLS_H
#define TESTS_CORE_SYSTEM_CALLS_H

#include <stdint.h>

/* In place of an errno: the call returns 0, as read does at the end of a file. */
#define RETURNS_ZERO (-1)

/* The n-th call from now on fails with this errno. n is 0: none does. */
void fail_system_call(int32_t n, int error);
/* 1: the call that was to fail was made. Calls go on to succeed. */
int32_t system_call_failed(void);

#endif
