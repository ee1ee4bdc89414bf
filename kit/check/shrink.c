/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded calls made smaller; see shrink.h. */
#include "shrink.h"

#include <math.h>
#include <string.h>

#define MAX_RANK 64

static double smaller(double v, int divisor)
{
    return v > SHRINK_KEPT && v == floor(v) ? fmax(2, ceil(v / divisor)) : v;
}

static void set(cJSON *item, double v)
{
    cJSON_SetNumberValue(item, v);
}

/* The dimension with the smallest stride among those not done yet, or -1. */
static int next_dimension(const double *strides, const int *done, int rank)
{
    int best = -1;
    for (int d = 0; d < rank; d++)
        if (!done[d] && (best < 0 || strides[d] < strides[best])) best = d;
    return best;
}

/* From the innermost dimension outwards: contiguous strides stay contiguous, gaps stay gaps, 0 stays 0. */
static void shrink_strides(cJSON *list, const double *before, const double *after, int rank)
{
    double strides[MAX_RANK], dense_before = 1, dense_after = 1;
    int done[MAX_RANK] = {0};
    for (int d = 0; d < rank; d++) strides[d] = cJSON_GetArrayItem(list, d)->valuedouble;
    for (int d = next_dimension(strides, done, rank); d >= 0; d = next_dimension(strides, done, rank)) {
        done[d] = 1;
        if (strides[d] == 0) continue;
        double stride = strides[d] > dense_before ? dense_after + 1 : dense_after;
        if (before[d] > 1) {
            dense_before = strides[d] * before[d];
            dense_after = stride * after[d];
        }
        set(cJSON_GetArrayItem(list, d), stride);
    }
}

static void shrink_tensor(cJSON *tensor, int divisor, int leading)
{
    cJSON *sizes = cJSON_GetObjectItem(tensor, "t"), *strides = cJSON_GetObjectItem(tensor, "s"), *item;
    cJSON *high = cJSON_GetObjectItem(tensor, "high");
    double before[MAX_RANK], after[MAX_RANK];
    int rank = 0, all = cJSON_GetArraySize(sizes);
    if (all <= leading) return;
    cJSON_ArrayForEach(item, sizes)
    {
        if (rank == MAX_RANK) return;
        before[rank] = item->valuedouble;
        after[rank] = leading && rank >= leading ? before[rank] : smaller(before[rank], divisor);
        set(item, after[rank++]);
    }
    if (strides && cJSON_GetArraySize(strides) == rank) shrink_strides(strides, before, after, rank);
    if (!leading && cJSON_IsNumber(high))
        set(high, smaller(high->valuedouble, divisor)); /* indices stay in range */
}

static void shrink_value(cJSON *value, int divisor, int leading)
{
    cJSON *item;
    if (cJSON_IsObject(value) && cJSON_GetObjectItem(value, "t")) {
        shrink_tensor(value, divisor, leading);
    } else if (cJSON_IsArray(value)) {
        cJSON_ArrayForEach(item, value) shrink_value(item, divisor, leading);
    } else if (!leading && cJSON_IsNumber(value)) {
        set(value, smaller(value->valuedouble, divisor));
    }
}

void shrink_call(cJSON *call, int divisor, int leading)
{
    cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(call, "args")) shrink_value(item, divisor, leading);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(call, "kwargs")) shrink_value(item, divisor, leading);
}
