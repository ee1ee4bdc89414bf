/* SPDX-License-Identifier: Apache-2.0 */
/* Making a stream succeeds and gives none. */
#include "../honest.h"

static int32_t create_nothing(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    *out_stream = NULL;
    return TN_OK;
}

void lie(void)
{
    the.stream.create = create_nothing;
}
