/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_CPU_CHUNK_H
#define TENON_CPU_CHUNK_H

/* Elements of a run that a kernel gets. 1024 floats are 4 KiB: the buffers of four operands fit the
 * first-level cache, and the cost of a call is small against the run. */
#define CPU_CHUNK 1024

#endif
