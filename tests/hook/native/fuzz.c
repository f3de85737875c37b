/* Random images through the C code: fuzz COUNT SEED CACHE SEEDS. Every image lies against a page without access on one side, in
 * memory that ends exactly there. Every eighth turn a mutated entry or record from the folder SEEDS (`tool`, `entry`, both
 * for the text below, `name`, the entry's) is put into the folder CACHE and the text is looked up. SEEDS also has `body`,
 * the name of a file of bitcode in CACHE, for texts that ask for it. Prints one line. */
#define _GNU_SOURCE
#include "zrr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AREA = 4 * 4096 };

static uint64_t state;
static uint64_t next(void) { /* splitmix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}
static size_t below(size_t bound) { return (size_t)(next() % bound); }

static const char ptx[] = "// comment\n.version 9.0\n.target sm_89\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n";

static size_t build(unsigned char *out) {
    const uint64_t size = 16 + below(3000);
    switch (below(4)) {
        case 0: memcpy(out, ptx, sizeof ptx); return sizeof ptx;
        case 1: {
            const uint64_t head[2] = {0x00100001ba55ed50ULL, size};
            memcpy(out, head, 16);
            for (size_t i = 16; i < 16 + size; ++i) out[i] = (unsigned char)next();
            return (size_t)(16 + size);
        }
        case 2: {
            const uint64_t words[3] = {0x1466243b1ULL, (uint64_t)(uintptr_t)out + 24, 0}, head[2] = {0x00100001ba55ed50ULL, size};
            memcpy(out, words, 24);
            memcpy(out + 24, head, 16);
            return (size_t)(40 + size);
        }
        default:
            for (size_t i = 0; i < size; ++i) out[i] = (unsigned char)next();
            return (size_t)size;
    }
}

static size_t mutate(unsigned char *bytes, size_t size) {
    for (size_t n = below(6); n > 0 && size > 4; --n) switch (below(4)) {
            case 0: bytes[below(size)] ^= (unsigned char)(1u << below(8)); break;
            case 1: bytes[below(size < 24 ? size : 24)] = (unsigned char)next(); break;
            case 2: size = 1 + below(size); break;
            default: {
                const uint64_t value = below(2) ? next() : (uint64_t)below(1 << 16);
                if (size >= 16) memcpy(bytes + 8, &value, 8);
            }
        }
    return size;
}

typedef struct {
    unsigned char bytes[16384];
    size_t size;
} seed;

static seed read_seed(const char *folder, const char *name) {
    seed read = {{0}, 0};
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) exit(2);
    read.size = fread(read.bytes, 1, sizeof read.bytes, file);
    fclose(file);
    return read;
}

static void put(const char *folder, const char *name, seed what, bool spoil) {
    if (spoil) what.size = mutate(what.bytes, what.size);
    /* Mostly deeper than the header's hash: that one is made right again. */
    if (spoil && what.size > 96 && below(4) != 0) {
        const zrr_hash head = zrr_hash_bytes(what.bytes, 80);
        memcpy(what.bytes + 80, &head, 16);
    }
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL) exit(2);
    fwrite(what.bytes, 1, what.size, file);
    fclose(file);
}

/* A text with names of bitcode, half of them spoiled, up to the page without access; whether files were named. */
static bool bodies(char *end, const char *name) {
    char text[512] = ".version 9.0";
    size_t size = strlen(text);
    for (size_t n = 1 + below(3); n > 0; --n)
        size += (size_t)snprintf(text + size, sizeof text - size, "\n// zluda-rr bitcode %s\n", name);
    if (below(2)) size = mutate((unsigned char *)text, size);
    memcpy(end - size, text, size);
    char *paths = NULL;
    const int status = zrr_bodies(end - size, size, &paths);
    if ((status == 1) != (paths != NULL)) abort();
    free(paths);
    return status == 1;
}

/* What a rewriter printed, of any length and bytes, mostly with the line of its exit status: one line of bounded size. */
static void failure(const zrr_cache *cache, const char *folder) {
    static seed said;
    char text[ZRR_REASON_BYTES];
    said.size = below(sizeof said.bytes - 64);
    for (size_t i = 0; i < said.size; ++i) said.bytes[i] = below(8) == 0 ? '\n' : (unsigned char)next();
    if (below(4) != 0)
        said.size += (size_t)sprintf((char *)said.bytes + said.size, "\nzluda-rr: exit status %d\n", (int)below(300));
    put(folder, "fuzz.err", said, false);
    zrr_queue_failure(cache, "fuzz", text);
    if (memchr(text, 0, sizeof text) == NULL || strchr(text, '\n') != NULL) abort();
}

/* Values of options with numbers and pointers of all kinds: what was passed is there again after a refusal. */
static void values(char *end) {
    int options[8];
    void *given[8], *before[8];
    const unsigned count = (unsigned)below(9);
    for (unsigned i = 0; i < 8; ++i) {
        options[i] = (int)below(8);
        given[i] = below(3) == 0 ? end - below(AREA) : (void *)(uintptr_t)(below(2) ? next() : below(1 << 12));
    }
    memcpy(before, given, sizeof given);
    zrr_values trial;
    if (!zrr_values_copy(&trial, options, given, count)) abort();
    for (unsigned i = 0; i < trial.count; ++i) trial.trial[i] = (void *)(uintptr_t)next();
    zrr_values_settle(&trial, false);
    if (memcmp(before, given, sizeof given) != 0) abort();
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    const long images = atol(arguments[1]);
    state = strtoull(arguments[2], NULL, 10);
    char *area = mmap(NULL, AREA + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || mprotect(area, 4096, PROT_NONE) != 0) return 2;
    if (mprotect(area + 4096 + AREA, 4096, PROT_NONE) != 0) return 2;
    unsigned char *scratch = malloc(AREA);
    const seed tool = read_seed(arguments[4], "tool"), entry = read_seed(arguments[4], "entry");
    seed name = read_seed(arguments[4], "name");
    name.bytes[name.size] = 0;
    seed body = read_seed(arguments[4], "body");
    body.bytes[body.size] = 0;
    zrr_settings *settings = zrr_settings_read();
    zrr_cache cache = zrr_cache_open(settings, false);
    long accepted = 0, replaced = 0, named = 0;
    uint64_t sum = 0;
    for (long i = 0; i < images; ++i) {
        /* Built where it will lie, so that pointers in it are right. */
        memset(area + 4096, 0, AREA);
        size_t size = build((unsigned char *)area + 4096);
        size = mutate((unsigned char *)area + 4096, size);
        char *image = area + 4096;
        if (below(2)) {
            memcpy(scratch, image, size);
            memset(image, 0xa5, AREA);
            image = area + 4096 + AREA - size;
            memcpy(image, scratch, size);
        }
        const zrr_image found = zrr_image_examine(image, below(2) ? 0 : size);
        if (found.bytes != NULL) {
            ++accepted;
            sum += zrr_hash_bytes(found.bytes, found.size).low;
        }
        zrr_replacement text;
        if (i % 16 == 0 && zrr_replace("fuzz", image, 0, &text)) zrr_accepted(&text, false);
        if (i % 4 == 0) named += bodies(area + 4096 + AREA, (const char *)body.bytes);
        if (i % 4 == 1) values(area + 4096 + AREA);
        if (i % 8 == 2) failure(&cache, arguments[3]);
        if (i % 8 != 0) continue;
        const size_t which = below(8);
        put(arguments[3], "tool", tool, which == 0);
        put(arguments[3], (const char *)name.bytes, entry, which > 1);
        if (zrr_replace("fuzz", ptx, 0, &text)) {
            ++replaced;
            if (below(2))
                zrr_accepted(&text, false);
            else
                zrr_rejected(&text, 218, below(2) ? 0 : 218);
        }
    }
    free(settings);
    free(scratch);
    printf("%ld images, %ld accepted, %ld replaced, %ld named, %llx\n", images, accepted, replaced, named, (unsigned long long)sum);
    return 0;
}
