/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, FIPS 180-4 sections 5 and 6.2. */
#include "dispatcher/plugin/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 65536

/* Fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static void take_block(tni_sha256 *h, const unsigned char *block)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, h->state, sizeof(s));
    for (int i = 0; i < 64; i++) {
        uint32_t e = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t a = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t one = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
        uint32_t two = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof(s[0]));
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) h->state[i] += s[i];
}

void tni_sha256_init(tni_sha256 *h)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(h->state, start, sizeof(start));
    h->bytes = 0;
}

void tni_sha256_add(tni_sha256 *h, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        size_t used = h->bytes % 64, n = 64 - used < bytes ? 64 - used : bytes;
        if (n == 64) {
            take_block(h, from);
        } else {
            memcpy(h->block + used, from, n);
            if (used + n == 64) take_block(h, h->block);
        }
        h->bytes += n;
        from += n;
        bytes -= n;
    }
}

void tni_sha256_text(tni_sha256 *h, char text[TNI_SHA256_TEXT_BYTES])
{
    static const unsigned char padding[64] = {0x80};
    unsigned char length[8];
    uint64_t bits = h->bytes * 8;
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
    tni_sha256_add(h, padding, 1 + (119 - h->bytes % 64) % 64);
    tni_sha256_add(h, length, 8);
    for (int i = 0; i < 8; i++) snprintf(text + 8 * i, 9, "%08x", h->state[i]);
}

int32_t tni_sha256_add_file(tni_sha256 *h, int fd)
{
    char buffer[READ_BYTES];
    for (off_t at = 0;;) {
        ssize_t n = pread(fd, buffer, sizeof(buffer), at);
        if (n == 0) return 1;
        if (n < 0 && errno != EINTR) return 0;
        if (n < 0) continue;
        tni_sha256_add(h, buffer, (size_t)n);
        at += n;
    }
}

int32_t tni_sha256_file(int fd, char text[TNI_SHA256_TEXT_BYTES])
{
    tni_sha256 h;
    tni_sha256_init(&h);
    if (!tni_sha256_add_file(&h, fd)) return 0;
    tni_sha256_text(&h, text);
    return 1;
}
