/* How far a module image reaches. The loader passes a bare pointer: PTX text ends at its NUL, a fatbin says its size in
 * its header, and neither is believed before the pages are known to be readable.
 *
 * Layouts (public: CUDA's fatbinary_section.h): wrapper {u32 0x466243b1, u32 version, pointer data, pointer unused};
 * fatbin {u32 0xba55ed50, u16 version, u16 header bytes, u64 bytes that follow the header}. */
#define _GNU_SOURCE
#include "zrr.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, WORD = 8 };

/* The kernel looks at the word for us: rt_sigprocmask with an impossible `how` reads the set and then refuses, so a bad
 * address is an error code and not a signal. It needs no descriptor, changes nothing, may be called anywhere, and no
 * sandbox does without it (process_vm_readv ends a process under some filters). */
static bool word_readable(uintptr_t at) {
    at &= ~(uintptr_t)(WORD - 1);
    return at != 0 && (syscall(SYS_rt_sigprocmask, ~0L, at, NULL, WORD) == 0 || errno != EFAULT); /* 0 means no set */
}

bool zrr_readable(const void *bytes, size_t size) {
    const uintptr_t from = (uintptr_t)bytes, to = from + size;
    if (size == 0 || to < from) return false;
    for (uintptr_t at = from; at < to; at = (at & ~(uintptr_t)(PAGE - 1)) + PAGE) {
        if (!word_readable(at)) return false;
        if (at + PAGE < at) break;
    }
    return true;
}

/* A copy of `size` bytes from anywhere: headers are looked at before their place is trusted. Byte by byte, since a
 * sanitizer's memcpy cannot look at a wild pointer that happens to be readable. */
ZRR_NO_SANITIZER static bool peek(unsigned char *out, const void *from, size_t size) {
    const volatile unsigned char *at = from;
    if (!zrr_readable(from, size)) return false;
    for (size_t i = 0; i < size; ++i) out[i] = at[i];
    return true;
}

static uint64_t read_field(const unsigned char *at, size_t size) {
    uint64_t value = 0;
    memcpy(&value, at, size);
    return value;
}

static zrr_image refuse(zrr_image image, const char *reason) {
    image.bytes = NULL;
    zrr_reason(image.reason, "%s", reason);
    return image;
}

/* Length of PTX text; `limit` bytes are known to be readable, or 0: look page by page. */
static bool text_length(const unsigned char *text, size_t limit, size_t *length) {
    if (limit > 0) {
        const unsigned char *end = memchr(text, 0, limit);
        *length = end != NULL ? (size_t)(end - text) : limit;
        return true;
    }
    size_t known = 0;
    for (size_t step = PAGE - ((uintptr_t)text & (PAGE - 1)); known < ZRR_MAX_IMAGE; known += step, step = PAGE) {
        /* After the first page ask for many at once, but fall back to single pages near the end of a mapping. */
        if (known >= PAGE && zrr_readable(text + known, 64 * PAGE)) step = 64 * PAGE;
        if (step == PAGE || known == 0)
            if (!zrr_readable(text + known, step)) return false;
        const unsigned char *end = memchr(text + known, 0, step);
        if (end != NULL) {
            *length = (size_t)(end - text);
            return true;
        }
    }
    return false;
}

static bool starts_ptx(const unsigned char *text, size_t size) {
    size_t at = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < size && (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r'))) ++at;
    return at < size && (text[at] == '.' || (text[at] == '/' && at + 1 < size && (text[at + 1] == '/' || text[at + 1] == '*')));
}

static zrr_image examine_fatbin(zrr_image image, const unsigned char *at, size_t limit) {
    unsigned char head[16];
    if ((limit > 0 && limit < sizeof head) || !peek(head, at, sizeof head))
        return refuse(image, "fatbin: shorter than its header, or not readable");
    const uint64_t header = read_field(head + 6, 2), files = read_field(head + 8, 8);
    if (read_field(head, 4) != 0xba55ed50) return refuse(image, "fatbin wrapper: points to something else");
    if (read_field(head + 4, 2) != 1 || header < 16 || header > 64) return refuse(image, "fatbin: unknown header");
    if (files == 0 || files > ZRR_MAX_IMAGE) return refuse(image, "fatbin: impossible size");
    const size_t size = (size_t)(header + files);
    if (limit > 0 ? size > limit : !zrr_readable(at, size)) return refuse(image, "fatbin: its size reaches past its memory");
    image.bytes = at;
    image.size = size;
    image.kind = "fatbin";
    return image;
}

static zrr_image examine_wrapper(zrr_image image, const unsigned char *at, size_t limit) {
    unsigned char words[16];
    uintptr_t data = 0;
    if (limit > 0) return refuse(image, "fatbin wrapper in a file");
    if (!peek(words, at, sizeof words)) return refuse(image, "fatbin wrapper: cut off");
    /* Version 2 has a list of fatbins behind it, which one fatbin cannot stand for. */
    if (read_field(words + 4, 4) != 1) return refuse(image, "fatbin wrapper: not of version 1");
    memcpy(&data, words + 8, sizeof data);
    return examine_fatbin(image, (const unsigned char *)data, 0);
}

zrr_image zrr_image_examine(const void *pointer, size_t limit) {
    zrr_image image = {NULL, 0, "", ""};
    const unsigned char *at = pointer;
    if (at == NULL) return refuse(image, "no image");
    if (limit > ZRR_MAX_IMAGE) return refuse(image, "larger than any module this knows");
    unsigned char first[4];
    if ((limit > 0 && limit < sizeof first) || !peek(first, at, sizeof first))
        return refuse(image, "shorter than any module, or not readable");
    const uint64_t magic = read_field(first, sizeof first);
    if (magic == 0xba55ed50) return examine_fatbin(image, at, limit);
    if (magic == 0x466243b1) return examine_wrapper(image, at, limit);
    if (magic == 0x464c457f) return refuse(image, "machine code (ELF), no PTX in it");
    const size_t page_rest = PAGE - ((uintptr_t)at & (PAGE - 1));
    if (!starts_ptx(at, limit > 0 ? limit : page_rest)) return refuse(image, "neither PTX text nor a fatbin");
    if (!text_length(at, limit, &image.size)) return refuse(image, "PTX text without an end");
    image.bytes = at;
    image.kind = "ptx";
    return image;
}
