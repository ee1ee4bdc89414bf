/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4) of a file's content: the key of stored verdicts and of lists of allowed libraries. */
#ifndef TNI_PLUGIN_SHA256_H
#define TNI_PLUGIN_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define TNI_SHA256_TEXT_BYTES 65

typedef struct tni_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* added so far */
    unsigned char block[64];
} tni_sha256;

void tni_sha256_init(tni_sha256 *h);
void tni_sha256_add(tni_sha256 *h, const void *data, size_t bytes);
/* Adds a file from its beginning; 0 when it cannot be read (errno says why). */
int32_t tni_sha256_add_file(tni_sha256 *h, int fd);
/* The digest as 64 hexadecimal digits. */
void tni_sha256_text(tni_sha256 *h, char text[TNI_SHA256_TEXT_BYTES]);
/* Of a whole file; 0 as above. */
int32_t tni_sha256_file(int fd, char text[TNI_SHA256_TEXT_BYTES]);

#endif
