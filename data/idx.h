/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in the IDX format of the MNIST family, plain or gzip: two zero bytes, a type, a rank, big-endian
 * sizes, row-major elements. Only unsigned bytes are read.
 */
#ifndef TENON_DATA_IDX_H
#define TENON_DATA_IDX_H

#include <tenon/tenon.h>

/* The file as a uint8 tensor on the CPU, in the scope; NULL and a failed scope for a file that is absent,
 * truncated or of another type. */
tn_tensor *data_read_idx(tn_scope *s, const char *path);

#endif
