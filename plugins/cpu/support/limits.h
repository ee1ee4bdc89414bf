/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the process that libraries do not survive: they end it, or try for ever, when memory is refused. */
#ifndef TENON_CPU_LIMITS_H
#define TENON_CPU_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

/* Whether ulimit -v or -d leaves less than 1 GiB and 128 MiB for each processor: the buffer that OpenBLAS takes for each
 * thread. */
static inline bool cpu_memory_is_tight(void)
{
    const uint64_t need = ((uint64_t)sysconf(_SC_NPROCESSORS_ONLN) << 27) + (1 << 30);
    struct rlimit space, data;
    return (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur < need) ||
           (getrlimit(RLIMIT_DATA, &data) == 0 && data.rlim_cur < need);
}

#define CPU_MEMORY_IS_TIGHT "ulimit -v or -d leaves less than 1 GiB and 128 MiB for each processor"

#endif
