/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of TENON_RECORD, as docs/record-format.md describes it: a head, then records of a tag, a checksum,
 * a length and a payload. Numbers are little-endian. The record shim writes it, `tenon replay` reads it.
 */
#ifndef TENON_RECORD_FORMAT_H
#define TENON_RECORD_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define RECORD_MAGIC      "TENONREC"
#define RECORD_VERSION    3u
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

/* Calls that a kernel made of the host: u32 type, u64 count, then count times u64. */
enum {
    RECORD_WORKSPACE = 1,     /* bytes */
    RECORD_RESIZE_OUTPUT = 2, /* output, sizes... */
    RECORD_RANDOM_RESERVE = 3 /* counters, seed, offset */
};

/*
 * The CRC-32 of zlib and PNG (polynomial 0xedb88320), by half bytes. A record's checksum is over its tag, its
 * length and its payload: begin with 0 and pass the result on from part to part.
 */
static inline uint32_t record_checksum(uint32_t sum, const void *data, size_t bytes)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const unsigned char *at = data;
    sum = ~sum;
    for (size_t i = 0; i < bytes; i++) {
        sum ^= at[i];
        sum = sum >> 4 ^ table[sum & 15];
        sum = sum >> 4 ^ table[sum & 15];
    }
    return ~sum;
}

#endif
