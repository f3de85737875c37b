/* MurmurHash3 x64 128: 2.6 MB in about a millisecond. It guards against accidents, not against an attacker, who would
 * have to write into the user's own cache folder in the first place. */
#include "zrr.h"

#include <stdio.h>
#include <string.h>

static uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

static uint64_t mix(uint64_t k) {
    k ^= k >> 33;
    k *= 0xff51afd7ed558ccdULL;
    k ^= k >> 33;
    k *= 0xc4ceb9fe1a85ec53ULL;
    return k ^ (k >> 33);
}

static uint64_t read64(const unsigned char *at) {
    uint64_t word = 0;
    memcpy(&word, at, 8); /* little-endian hosts only, as CUDA's */
    return word;
}

zrr_hash zrr_hash_bytes(const void *bytes, size_t size) {
    const uint64_t c1 = 0x87c37b91114253d5ULL, c2 = 0x4cf5ad432745937fULL;
    const unsigned char *at = bytes;
    uint64_t h1 = 0, h2 = 0;
    for (size_t block = 0; block < size / 16; ++block, at += 16) {
        h1 ^= rotate(read64(at) * c1, 31) * c2;
        h1 = (rotate(h1, 27) + h2) * 5 + 0x52dce729;
        h2 ^= rotate(read64(at + 8) * c2, 33) * c1;
        h2 = (rotate(h2, 31) + h1) * 5 + 0x38495ab5;
    }
    const size_t rest = size & 15;
    if (rest > 0) {
        unsigned char tail[16] = {0};
        memcpy(tail, at, rest);
        h2 ^= rotate(read64(tail + 8) * c2, 33) * c1;
        h1 ^= rotate(read64(tail) * c1, 31) * c2;
    }
    h1 ^= size;
    h2 ^= size;
    h1 += h2;
    h2 += h1;
    h1 = mix(h1);
    h2 = mix(h2);
    h1 += h2;
    h2 += h1;
    return (zrr_hash){h1, h2};
}

void zrr_hash_hex(zrr_hash hash, char text[33]) {
    snprintf(text, 33, "%016llx%016llx", (unsigned long long)hash.low, (unsigned long long)hash.high);
}
