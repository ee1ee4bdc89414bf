/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the loader share: compiled plugins, a folder that goes away, a context. */
#ifndef TESTS_PLUGIN_FIXTURE_H
#define TESTS_PLUGIN_FIXTURE_H

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/context.h"
#include "dispatcher/plugin/elf_info.h"

/* Path of skewed.c compiled for a case. Static storage, overwritten by the next call. */
const char *skewed(const char *name);
/* Reads and compares the block of a file; *reason has the text. */
int32_t examine(const char *path, tni_elf_info *out, tni_reason *reason);
/* A context without rooms. */
tn_context *plain_context(void);
/* A fresh folder, mode 0755; absolute. */
const char *make_folder(void);
void remove_folder(const char *folder);
/* What stands in a folder; names that begin with a dot do not count. */
uint32_t count_entries(const char *folder);
/* Writes a file, mode 0644. */
void write_file(const char *path, const void *bytes, size_t count);
void write_text(const char *folder, const char *name, const char *text);
/* The whole file, to be freed. */
unsigned char *read_file(const char *path, size_t *out_bytes);

#define assert_contains(text, part) \
    cr_assert(strstr((text), (part)) != NULL, "expected '%s' in '%s'", (part), (text))

#endif
