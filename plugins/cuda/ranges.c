/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges for NVIDIA's profilers: each launch is in one with the name of its operator. NVTX is a header of the toolkit; its functions
 * do nothing unless a profiler has put a library into the process (NVTX_INJECTION64_PATH), which is looked for at the first range.
 */
#include "cuda_driver.h"

#include <nvtx3/nvToolsExt.h>

int32_t cuda_range_begin(const char *name)
{
    return nvtxRangePushA(name) >= 0;
}

void cuda_range_end(void)
{
    nvtxRangePop();
}
