/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into every program and library of a coverage build: registers its runtime's counts; see counts.c. */
void __gcov_dump(void);
void counts_register(void (*dump)(void));
void counts_unregister(void (*dump)(void));

static __attribute__((constructor)) void begin(void)
{
    counts_register(__gcov_dump);
}

static __attribute__((destructor)) void end(void)
{
    counts_unregister(__gcov_dump);
}
