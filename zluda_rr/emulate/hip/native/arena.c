/* The arena: one memfd, mapped three times. The program sees the lower half (device memory) without access rights, as a
 * card's memory is, and the upper half (pinned and managed memory) readable and writable, at one address that is also the
 * device's. This library works through a second mapping, the helper through its own.
 *
 * In front of the arena lies the table that the helper checks accesses against: one word per granule with the number
 * of valid bytes (0..256) and two flags. Blocks keep a free granule between them, so a run over the end is seen. */
#define _GNU_SOURCE
#include "emu.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIRST = 1 << 14 }; /* the granule begins a block; bit 15, read-only, is the helper's */
static const uint64_t DEFAULT_LIMIT = 4ull << 30;
static const size_t PUNCH = 1 << 20; /* freed blocks from this size on give their pages back */

typedef struct {
    uint64_t start, end; /* granules; the free one behind is not counted */
    emu_block block;
} slot;

typedef struct {
    slot *slots;
    size_t count, room;
    uint64_t first, end; /* granules */
} region;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static hipError_t ready = hipErrorNotInitialized;
static bool forked, failed;
static int fd = -1;
static uint64_t base, half, limit, used, table_bytes;
static uint16_t *table;
static unsigned char *alias;
static region regions[2];

static void in_child(void) { forked = true; }

/* Bytes from text such as 512M or 4G; 0 where it is none. */
static uint64_t parse_size(const char *text) {
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    unsigned shift = *end == 'G' || *end == 'g' ? 30 : *end == 'M' || *end == 'm' ? 20 : *end == 'K' || *end == 'k' ? 10 : 0;
    bool good = end != text && *text != '-' && !errno && !end[shift ? 1 : 0] && value <= (1ull << 40) >> shift;
    return good ? value << shift : 0;
}

static uint64_t read_limit(void) {
    const char *text = getenv("ZLUDA_RR_HIP_MEMORY");
    if (!text || !*text)
        return DEFAULT_LIMIT;
    uint64_t value = parse_size(text);
    if (!value)
        emu_say("ZLUDA_RR_HIP_MEMORY=%s is no size; give bytes, or a number with K, M or G (up to 1024G)", text);
    return value;
}

static hipError_t map_arena(void) {
    limit = read_limit();
    if (!limit)
        return hipErrorNoDevice;
    half = (2 * limit + (64u << 20) + EMU_PAGE - 1) / EMU_PAGE * EMU_PAGE; /* room for guards and fragments */
    table_bytes = (2 * half / EMU_GRANULE * sizeof *table + EMU_PAGE - 1) / EMU_PAGE * EMU_PAGE;
    fd = (int)syscall(SYS_memfd_create, "hip-emulated", 1u /* MFD_CLOEXEC */);
    if (fd < 0 || ftruncate(fd, (off_t)(table_bytes + 2 * half))) {
        emu_say("no shared memory for the device: %s", strerror(errno));
        return hipErrorOutOfMemory;
    }
    int flags = MAP_SHARED | MAP_NORESERVE;
    void *own = mmap(NULL, table_bytes + 2 * half, PROT_READ | PROT_WRITE, flags, fd, 0);
    unsigned char *user = mmap(NULL, 2 * half, PROT_NONE, flags, fd, (off_t)table_bytes);
    if (own == MAP_FAILED || user == MAP_FAILED || mprotect(user + half, half, PROT_READ | PROT_WRITE)) {
        emu_say("no address space for the device's memory: %s; give less with ZLUDA_RR_HIP_MEMORY", strerror(errno));
        return hipErrorOutOfMemory;
    }
    madvise(user, 2 * half, MADV_DONTFORK);
    table = own;
    alias = (unsigned char *)own + table_bytes;
    base = (uint64_t)(uintptr_t)user;
    regions[0] = (region){.first = 1, .end = half / EMU_GRANULE - 1};
    regions[1] = (region){.first = half / EMU_GRANULE + 1, .end = 2 * half / EMU_GRANULE - 1};
    return hipSuccess;
}

static void begin_once(void) {
    pthread_atfork(NULL, NULL, in_child);
    ready = map_arena();
}

hipError_t emu_begin(void) {
    pthread_once(&once, begin_once);
    if (forked) {
        static bool said;
        if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
            emu_say("the device does not outlive fork; initialise HIP in the child instead");
        return hipErrorNotInitialized;
    }
    if (ready == hipSuccess && __atomic_load_n(&failed, __ATOMIC_RELAXED))
        return hipErrorLaunchFailure;
    return ready;
}

void emu_set_failed(bool value) { __atomic_store_n(&failed, value, __ATOMIC_RELAXED); }
int emu_arena_fd(void) { return fd; }
uint64_t emu_arena_base(void) { return base; }
uint64_t emu_arena_size(void) { return 2 * half; }
uint64_t emu_table_bytes(void) { return table_bytes; }

/* First block of a region that starts behind `granule`. */
static size_t position(const region *where, uint64_t granule) {
    size_t low = 0, high = where->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (where->slots[middle].start > granule)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* First fit: index of the new block, its start in `start`; -1 where there is no room. */
static long fit(const region *where, uint64_t granules, uint64_t align, uint64_t *start) {
    uint64_t at = where->first;
    for (size_t i = 0; i <= where->count; i++) {
        uint64_t end = i < where->count ? where->slots[i].start - 1 : where->end;
        uint64_t shift = base / EMU_GRANULE; /* the address is aligned, not the offset */
        uint64_t aligned = (at + shift + align - 1) / align * align - shift;
        if (aligned + granules <= end) {
            *start = aligned;
            return (long)i;
        }
        if (i < where->count)
            at = where->slots[i].end + 1;
    }
    return -1;
}

static bool grow(region *where) {
    if (where->count < where->room)
        return true;
    size_t room = where->room ? 2 * where->room : 64;
    slot *slots = realloc(where->slots, room * sizeof *slots);
    if (!slots)
        return false;
    where->slots = slots;
    where->room = room;
    return true;
}

static void mark(uint64_t start, uint64_t size) {
    uint64_t whole = size / EMU_GRANULE;
    for (uint64_t i = 0; i < whole; i++)
        table[start + i] = EMU_GRANULE;
    if (size % EMU_GRANULE)
        table[start + whole] = (uint16_t)(size % EMU_GRANULE);
    table[start] |= FIRST;
}

hipError_t emu_allocate(size_t size, size_t align, enum emu_kind kind, unsigned flags, void **out) {
    *out = NULL;
    if (!size)
        return hipSuccess;
    if (size > limit)
        return hipErrorOutOfMemory;
    uint64_t granules = (size + EMU_GRANULE - 1) / EMU_GRANULE, start;
    region *where = &regions[kind == EMU_HOST || kind == EMU_MANAGED];
    hipError_t status = hipErrorOutOfMemory;
    pthread_mutex_lock(&lock);
    if (used + granules * EMU_GRANULE <= limit && grow(where)) {
        long index = fit(where, granules, align > EMU_GRANULE ? align / EMU_GRANULE : 1, &start);
        if (index >= 0) {
            memmove(where->slots + index + 1, where->slots + index, (where->count - (size_t)index) * sizeof(slot));
            emu_block block = {base + start * EMU_GRANULE, size, kind, flags};
            where->slots[index] = (slot){start, start + granules, block};
            where->count++;
            used += granules * EMU_GRANULE;
            mark(start, size);
            *out = (void *)(uintptr_t)block.start;
            status = hipSuccess;
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}

bool emu_in_arena(const void *pointer) { return base && (uint64_t)(uintptr_t)pointer - base < 2 * half; }

/* The block around an arena pointer; its region and index besides. The lock is held. */
static slot *around(const void *pointer, region **where) {
    uint64_t granule = ((uint64_t)(uintptr_t)pointer - base) / EMU_GRANULE;
    *where = &regions[granule >= half / EMU_GRANULE];
    size_t after = position(*where, granule);
    if (!after)
        return NULL;
    slot *found = &(*where)->slots[after - 1];
    return (uint64_t)(uintptr_t)pointer < found->block.start + found->block.size ? found : NULL;
}

static void drop(region *where, slot *gone) {
    memset(table + gone->start, 0, (gone->end - gone->start) * sizeof *table);
    uint64_t bytes = (gone->end - gone->start) * EMU_GRANULE, first = gone->start * EMU_GRANULE;
    uint64_t page = (first + EMU_PAGE - 1) / EMU_PAGE * EMU_PAGE;
    if (bytes >= PUNCH)
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(table_bytes + page),
                  (off_t)((first + bytes - page) / EMU_PAGE * EMU_PAGE));
    used -= bytes;
    size_t index = (size_t)(gone - where->slots);
    memmove(gone, gone + 1, (--where->count - index) * sizeof(slot));
}

hipError_t emu_release(void *pointer, bool internal) {
    if (!pointer)
        return hipSuccess;
    if (!emu_in_arena(pointer))
        return hipErrorInvalidValue;
    region *where;
    pthread_mutex_lock(&lock);
    slot *found = around(pointer, &where);
    bool own = found && found->block.start == (uint64_t)(uintptr_t)pointer &&
               (found->block.kind == EMU_INTERNAL) == internal;
    if (own)
        drop(where, found);
    pthread_mutex_unlock(&lock);
    return own ? hipSuccess : hipErrorInvalidValue;
}

void emu_release_all(void) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 2; i++)
        while (regions[i].count)
            drop(&regions[i], &regions[i].slots[regions[i].count - 1]);
    pthread_mutex_unlock(&lock);
}

bool emu_find(const void *pointer, emu_block *out) {
    if (!emu_in_arena(pointer))
        return false;
    region *where;
    pthread_mutex_lock(&lock);
    slot *found = around(pointer, &where);
    if (found)
        *out = found->block;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

void *emu_bytes(const void *pointer, size_t size) {
    if (!emu_in_arena(pointer))
        return (void *)(uintptr_t)pointer;
    emu_block block;
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    if (!emu_find(pointer, &block) || size > block.start + block.size - address)
        return NULL;
    return alias + (address - base);
}

void emu_usage(size_t *available, size_t *total) {
    pthread_mutex_lock(&lock);
    *available = limit - used;
    *total = limit;
    pthread_mutex_unlock(&lock);
}
