/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_CPU_CHUNK_H
#define TENON_CPU_CHUNK_H

/*
 * The most elements of a run. 1024 floats are 4 KiB: the buffers of four operands fit the first-level cache,
 * and a run is long against the cost of a call.
 */
#define CPU_CHUNK 1024

#endif
