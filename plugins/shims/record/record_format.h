/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of TENON_RECORD, as docs/record-format.md describes it: a head, then records of a tag, a length
 * and a payload. Numbers are little-endian. Written by the record shim, read by `tenon replay`.
 */
#ifndef TENON_RECORD_FORMAT_H
#define TENON_RECORD_FORMAT_H

#define RECORD_MAGIC      "TENONREC"
#define RECORD_VERSION    1u
#define RECORD_HEAD_BYTES 16u /* magic, version, 0 */

enum {
    RECORD_PLUGIN = 1, /* u32 index, text name, text version */
    RECORD_BLOB = 2,   /* u64 id, bytes to the end */
    RECORD_CALL = 3,   /* u64 number, u32 plugin, i32 status, text slot, u32 count, arguments */
    RECORD_KERNEL = 4, /* see docs/record-format.md */
    RECORD_END = 5     /* u64 number of records before */
};

/* Arguments of a RECORD_CALL: u32 type, u32 is_output, then by type. */
enum {
    RECORD_NUMBER = 0, /* u64; handles are numbers too */
    RECORD_TEXT = 1,   /* text */
    RECORD_BYTES = 2   /* u64 id of a blob, 0: none */
};

/* Where a tensor's memory lies. */
enum {
    RECORD_DEVICE_MEMORY = 0, /* in an allocation of the plugin */
    RECORD_HOST_NUMBER = 1,   /* one element in host memory */
    RECORD_OTHER_MEMORY = 2   /* the program's own, on a host device */
};

/* Calls of the host that a kernel made: u32 type, u64 count, then count times u64. */
enum {
    RECORD_WORKSPACE = 1,     /* bytes */
    RECORD_RESIZE_OUTPUT = 2, /* output, sizes... */
    RECORD_RANDOM_RESERVE = 3 /* counters, seed, offset */
};

#endif
