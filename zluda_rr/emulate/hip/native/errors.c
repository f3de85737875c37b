/* Errors: codes, texts, the last one of each thread, and what is said on stderr. */
#include "emu.h"

#include <stdarg.h>
#include <string.h>

static _Thread_local hipError_t last_error;

hipError_t emu_note(hipError_t status) {
    if (status != hipSuccess && status != hipErrorNotReady)
        last_error = status;
    return status;
}

void emu_say(const char *format, ...) {
    char line[1200];
    int start = snprintf(line, sizeof line, "libamdhip64 (emulated): ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + start, sizeof line - (size_t)start - 1, format, arguments);
    va_end(arguments);
    strcat(line, "\n");
    fputs(line, stderr);
}

hipError_t emu_unsupported(const char *what, bool *said) {
    if (!__atomic_exchange_n(said, true, __ATOMIC_RELAXED))
        emu_say("%s is not there; it returns hipErrorNotSupported", what);
    return hipErrorNotSupported;
}

static const struct {
    hipError_t code;
    const char *name, *text;
} known[] = {
#define ERROR(name, value, text) {value, #name, text},
#include "errors.def"
#undef ERROR
};

static int place(hipError_t code) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code)
            return (int)i;
    return -1;
}

API const char *hipGetErrorName(hipError_t code) { return place(code) < 0 ? "hipErrorUnknown" : known[place(code)].name; }

API const char *hipGetErrorString(hipError_t code) {
    return place(code) < 0 ? "unknown error" : known[place(code)].text;
}

API hipError_t hipDrvGetErrorName(hipError_t code, const char **text) {
    if (!text || place(code) < 0)
        DONE(hipErrorInvalidValue);
    *text = hipGetErrorName(code);
    DONE(hipSuccess);
}

API hipError_t hipDrvGetErrorString(hipError_t code, const char **text) {
    if (!text || place(code) < 0)
        DONE(hipErrorInvalidValue);
    *text = hipGetErrorString(code);
    DONE(hipSuccess);
}

API hipError_t hipPeekAtLastError(void) { return last_error; }

API hipError_t hipGetLastError(void) {
    hipError_t found = last_error;
    last_error = hipSuccess;
    return found;
}

API hipError_t hipExtGetLastError(void) { return hipGetLastError(); }
