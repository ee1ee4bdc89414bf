/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a row of a profile. */
#ifndef TESTS_CORE_PROFILE_ROW_H
#define TESTS_CORE_PROFILE_ROW_H

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>
#include <tenon/profile.h>

/* The first row of a kind (-1: any) with a name and with a part of the shapes; zeros if there is none. */
static inline tn_profile_row profile_row(const tn_profile *p, int32_t kind, const char *name,
                                         const char *shapes)
{
    tn_profile_row row = {.size = sizeof row};
    for (uint32_t i = 0; i < tn_profile_count(p); i++) {
        cr_assert_eq(tn_profile_get(p, i, &row), TN_OK);
        if (kind >= 0 && row.kind != (uint32_t)kind) continue;
        if (!strcmp(row.name, name) && strstr(row.shapes, shapes)) return row;
    }
    return (tn_profile_row){.size = sizeof row, .name = "", .shapes = ""};
}

#endif
