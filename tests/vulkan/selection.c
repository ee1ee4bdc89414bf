/* SPDX-License-Identifier: Apache-2.0 */
/* The largest elements of many short lines, which GPUs select without a sort. */
#include <criterion/criterion.h>
#include <tenon/tenon.h>
#define DEVICE "vulkan"
#include "../gpu/device_suite.h"

TestSuite(selection, .init = open_without_fallback, .fini = close_device);

enum { LINES = 70000, SIZE = 5, KEPT = 2 }; /* more lines than half of what keeps any device busy */

Test(selection, of_many_short_lines)
{
    static float numbers[LINES][SIZE], values[LINES][KEPT];
    static int64_t places[LINES][KEPT];
    for (int i = 0; i < LINES * SIZE; i++) numbers[i / SIZE][i % SIZE] = (float)((int64_t)i * 7919 % 1009);
    tn_tensor *lines = tn_from_data(s, TN_FLOAT32, TN_INTS(LINES, SIZE), numbers, device);
    tn_topk_result best = tn_topk(s, lines, KEPT);
    cr_assert_eq(tn_to_host(s, best.values, values, sizeof values), TN_OK, "%s",
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_to_host(s, best.indices, places, sizeof places), TN_OK);
    for (int i = 0; i < LINES; i++)
        for (int k = 0; k < KEPT; k++) {
            int larger = 0;
            for (int j = 0; j < SIZE; j++) larger += numbers[i][j] > values[i][k];
            cr_assert_eq(larger, k, "line %d", i);
            cr_assert_eq(numbers[i][places[i][k]], values[i][k], "line %d", i);
        }
}
