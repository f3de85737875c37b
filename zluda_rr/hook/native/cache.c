/* The cache folder: entries `KEY.zrr`, requests `KEY.img`, locks `KEY.lock`, the record `tool`, the log of runs.
 *
 * An entry, little-endian: 0 "ZRRENTRY" | 8 u32 format 1 | 12 u32 kind | 16 image hash (16 bytes) | 32 u64 image bytes
 * | 40 u32 note bytes | 44 u32 0 | 48 u64 payload bytes | 56 hash of payload and note | 72 u64 0 | 80 hash of bytes
 * 0..79 | 96 payload, note. A payload is PTX text with its NUL. Entries appear by rename only and are checked whole. */
#define _GNU_SOURCE
#include "zrr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 96, MAX_NOTE = 4096, LOG_BYTES = 1 << 20 };

/* mkdir -p with private folders; what exists is left as it is. */
static void make_folders(const char *path) {
    char part[1200];
    const size_t length = strlen(path);
    if (length >= sizeof part) return;
    memcpy(part, path, length + 1);
    for (char *at = part + 1; *at != 0; ++at)
        if (*at == '/') {
            *at = 0;
            mkdir(part, 0700);
            *at = '/';
        }
    mkdir(part, 0700);
}

zrr_cache zrr_cache_open(const zrr_settings *settings, bool create) {
    zrr_cache cache = {-1, "", ""};
    if (!zrr_cache_path(settings, cache.path, sizeof cache.path) || cache.path[0] != '/') {
        zrr_reason(cache.reason, "no cache folder: set ZLUDA_RR_CACHE_DIR to an absolute path");
        return cache;
    }
    if (create) make_folders(cache.path);
    const int fd = open(cache.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct stat about;
    if (fd < 0) {
        zrr_reason(cache.reason, "cache %.120s: %s", cache.path, strerror(errno));
        return cache;
    }
    if (fstat(fd, &about) != 0 || about.st_uid != geteuid() || (about.st_mode & 022) != 0) {
        zrr_reason(cache.reason, "cache %.120s: belongs to another user or others may write to it", cache.path);
        close(fd);
        return cache;
    }
    cache.folder = fd;
    return cache;
}

void zrr_cache_key(zrr_hash image, const zrr_settings *settings, const char *fingerprint, char key[ZRR_KEY_CHARS + 1]) {
    char text[4 * ZRR_VALUE_BYTES], hex[33];
    const int used =
        snprintf(text, sizeof text, "zluda-rr settings 1\ntarget=%s\nfusion=%s\nlayers=%s\ndisable=%s\ntool=%s\n",
                 settings->target, settings->fusion, settings->layers, settings->disable, fingerprint);
    zrr_hash_hex(image, key);
    zrr_hash_hex(zrr_hash_bytes(text, (size_t)used), hex);
    key[32] = '-';
    memcpy(key + 33, hex, 16);
    key[ZRR_KEY_CHARS] = 0;
}

typedef struct {
    char magic[8];
    uint32_t format, kind;
    zrr_hash image;
    uint64_t image_bytes;
    uint32_t note_bytes, reserved;
    uint64_t payload_bytes;
    zrr_hash body;
    uint64_t reserved2;
    zrr_hash header;
} entry_header;
_Static_assert(sizeof(entry_header) == HEADER, "the layout above");

static const char *header_problem(const entry_header *header, zrr_hash image, size_t image_bytes, size_t file_bytes) {
    if (memcmp(header->magic, "ZRRENTRY", 8) != 0 || header->format != 1) return "not an entry of this version";
    if (!zrr_hash_equal(header->header, zrr_hash_bytes(header, offsetof(entry_header, header)))) return "header damaged";
    if (header->kind != ZRR_REPLACED && header->kind != ZRR_UNCHANGED) return "unknown kind";
    if (!zrr_hash_equal(header->image, image) || header->image_bytes != image_bytes) return "made for another module";
    if (header->note_bytes > MAX_NOTE || header->payload_bytes > 4 * ZRR_MAX_IMAGE) return "impossible size";
    if (HEADER + header->note_bytes + header->payload_bytes != file_bytes) return "cut off";
    return NULL;
}

bool zrr_read_exactly(int fd, char *out, size_t size) {
    while (size > 0) {
        const ssize_t got = read(fd, out, size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        out += got;
        size -= (size_t)got;
    }
    return true;
}

/* Payload and note of a checked header into `entry`; a problem in words, or NULL. */
static const char *read_body(int fd, const entry_header *header, zrr_entry *entry) {
    const size_t payload = header->payload_bytes, note = header->note_bytes, size = payload + note;
    char *body = malloc(size + 1);
    if (body == NULL) return "no memory";
    const char *problem = NULL;
    if (!zrr_read_exactly(fd, body, size) || !zrr_hash_equal(header->body, zrr_hash_bytes(body, size)))
        problem = "contents damaged";
    else if (header->kind == ZRR_REPLACED && (payload < 2 || body[payload - 1] != 0))
        problem = "text without its end";
    if (problem != NULL) {
        free(body);
        return problem;
    }
    const size_t kept = note < sizeof entry->note ? note : sizeof entry->note - 1;
    memcpy(entry->note, body + payload, kept);
    entry->note[kept] = 0;
    entry->kind = (enum zrr_entry_kind)header->kind;
    if (header->kind == ZRR_REPLACED) {
        entry->payload = body;
        entry->size = payload - 1;
    } else {
        free(body);
    }
    return NULL;
}

zrr_entry zrr_cache_read(const zrr_cache *cache, const char *key, zrr_hash image, size_t image_bytes) {
    zrr_entry entry;
    memset(&entry, 0, sizeof entry);
    char name[ZRR_KEY_CHARS + 8];
    snprintf(name, sizeof name, "%s.zrr", key);
    const int fd = openat(cache->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return entry;
    const char *problem = NULL;
    struct stat about;
    entry_header header;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != geteuid())
        problem = "not a file of this user";
    else if (about.st_size < HEADER || !zrr_read_exactly(fd, (char *)&header, HEADER))
        problem = "cut off";
    else
        problem = header_problem(&header, image, image_bytes, (size_t)about.st_size);
    if (problem == NULL) problem = read_body(fd, &header, &entry);
    close(fd);
    if (problem != NULL) {
        entry.kind = ZRR_MISSING;
        zrr_reason(entry.dropped, "cache entry %.60s dropped: %s", key, problem);
        unlinkat(cache->folder, name, 0);
    }
    return entry;
}

bool zrr_cache_request(const zrr_cache *cache, const char *key, const zrr_image *image, char *reason) {
    char name[ZRR_KEY_CHARS + 8], temporary[ZRR_KEY_CHARS + 40];
    snprintf(name, sizeof name, "%s.img", key);
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", key, (long)getpid());
    const int fd = openat(cache->folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        zrr_reason(reason, "cache %.120s: %s", cache->path, strerror(errno));
        return false;
    }
    const bool written = zrr_write_all(fd, image->bytes, image->size);
    const int error = errno;
    if (close(fd) == 0 && written && renameat(cache->folder, temporary, cache->folder, name) == 0) return true;
    zrr_reason(reason, "cache %.120s: %s", cache->path, strerror(written ? errno : error));
    unlinkat(cache->folder, temporary, 0);
    return false;
}

void zrr_process_name(char *name, size_t size) {
    const int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd < 0 ? -1 : read(fd, name, size - 1);
    if (fd >= 0) close(fd);
    name[got > 0 ? got : 0] = 0;
    name[strcspn(name, "\n")] = 0;
    for (char *at = name; *at != 0; ++at)
        if ((unsigned char)*at <= 32) *at = '_';
}

void zrr_cache_record(const zrr_cache *cache, const char *event, const char *key, const char *note) {
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = openat(cache->folder, "runs.log", flags, 0600);
    struct stat about;
    if (fd >= 0 && fstat(fd, &about) == 0 && about.st_size > LOG_BYTES) {
        close(fd);
        renameat(cache->folder, "runs.log", cache->folder, "runs.log.1");
        fd = openat(cache->folder, "runs.log", flags, 0600);
    }
    if (fd < 0) return;
    char name[32], line[1024];
    zrr_process_name(name, sizeof name);
    int used = snprintf(line, sizeof line - 1, "%lld %ld %s %s %.32s %s", (long long)time(NULL), (long)getpid(),
                        name[0] != 0 ? name : "-", event, key, note);
    if (used > (int)sizeof line - 2) used = (int)sizeof line - 2;
    for (int i = 0; i < used; ++i)
        if ((unsigned char)line[i] < 32) line[i] = ' ';
    line[used++] = '\n';
    zrr_write_all(fd, line, (size_t)used);
    close(fd);
}
