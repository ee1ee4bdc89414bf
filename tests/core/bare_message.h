/* SPDX-License-Identifier: Apache-2.0 */
/* The text of an error without the place of the program's call, for tests that compare the whole text. */
#ifndef TESTS_CORE_BARE_MESSAGE_H
#define TESTS_CORE_BARE_MESSAGE_H

#include <stdio.h>
#include <string.h>
#include <tenon/context.h>

static inline const char *bare_message(const tn_error *e)
{
    char place[512];
    if (!e || !e->file) return e ? e->message : "";
    snprintf(place, sizeof place, "%s:%u: ", e->file, e->line);
    return strncmp(e->message, place, strlen(place)) ? "its place is not at its start"
                                                     : e->message + strlen(place);
}

#endif
