/* Option values: the driver writes results into the caller's array. The rewritten module is tried with a copy, so that
 * the original, when it has to follow, is loaded with what the caller passed. */
#include "zrr.h"

#include <stdlib.h>
#include <string.h>

/* CUjit_option: a buffer for text; the option after it is the buffer's size. */
enum { INFO_BUFFER = 3, ERROR_BUFFER = 5, MAX_OPTIONS = 4096, MAX_SAVED = 1 << 20 };

static size_t buffer_bytes(const zrr_values *what, const int *options, int option) {
    for (unsigned i = 0; i < what->count; ++i)
        if (options[i] == option + 1) return (unsigned)(uintptr_t)what->caller[i];
    return 0;
}

static void save_buffer(zrr_values *what, const int *options, int option, zrr_saved *saved) {
    for (unsigned i = 0; i < what->count; ++i) {
        if (options[i] != option) continue;
        const size_t size = buffer_bytes(what, options, option);
        if (size == 0 || size > MAX_SAVED || !zrr_readable(what->caller[i], size)) return;
        saved->bytes = malloc(size);
        if (saved->bytes == NULL) return;
        saved->place = what->caller[i];
        saved->size = size;
        memcpy(saved->bytes, saved->place, size);
        return;
    }
}

bool zrr_values_copy(zrr_values *what, const int *options, void **values, unsigned count) {
    memset(what, 0, sizeof *what);
    what->caller = what->trial = values;
    if (count == 0 || values == NULL) return true;
    if (count > MAX_OPTIONS || (what->trial = malloc(count * sizeof *values)) == NULL) return false;
    what->count = count;
    memcpy(what->trial, values, count * sizeof *values);
    if (options == NULL) return true; /* not options of the compiler: no buffers among them */
    save_buffer(what, options, INFO_BUFFER, &what->saved[0]);
    save_buffer(what, options, ERROR_BUFFER, &what->saved[1]);
    return true;
}

void zrr_values_settle(zrr_values *what, bool accepted) {
    if (what->count > 0 && accepted) memcpy(what->caller, what->trial, what->count * sizeof *what->caller);
    for (int i = 0; i < 2; ++i) {
        if (!accepted && what->saved[i].bytes != NULL) memcpy(what->saved[i].place, what->saved[i].bytes, what->saved[i].size);
        free(what->saved[i].bytes);
    }
    if (what->count > 0) free(what->trial);
}
