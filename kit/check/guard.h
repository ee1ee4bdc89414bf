/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the CPU with guards: `tenon check --op` makes it the allocator of the CPU. Each block has a pattern before
 * and behind it, and is filled when it is given, so that writes outside of it, and elements that nobody writes, are
 * seen.
 */
#ifndef TENON_KIT_CHECK_GUARD_H
#define TENON_KIT_CHECK_GUARD_H

#include <tenon/tenon.h>

/* Before the first allocation on the CPU. Where it has no effect, the functions below find nothing. */
void guard_begin(tn_context *ctx);
/* New blocks are filled with this byte from now on. */
void guard_fill(uint8_t byte);
/* Whether a tensor lies in a block and memory behind its last element was written. `text` receives what is wrong. */
int guard_is_broken(const tn_tensor *t, char *text, size_t bytes);
/* The same of any block that is in use or was freed since the last call. */
int guard_any_is_broken(char *text, size_t bytes);

#endif
