/* libhiprtc: HIP's compiler as a library. It is not there; programs that only look for it get an answer. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define API __attribute__((visibility("default")))
enum { INTERNAL_ERROR = 11 }; /* hiprtcResult */

static int refuse(const char *what, bool *said) {
    if (!__atomic_exchange_n(said, true, __ATOMIC_RELAXED))
        fprintf(stderr, "libhiprtc (emulated): %s is not there; compile for gfx1201 beforehand\n", what);
    return INTERNAL_ERROR;
}

#define NAME(name)                                                                                                     \
    API int name(void);                                                                                                \
    API int name(void) {                                                                                               \
        static bool said;                                                                                              \
        return refuse(#name, &said);                                                                                   \
    }
NAME(hiprtcAddNameExpression)
NAME(hiprtcCompileProgram)
NAME(hiprtcCreateProgram)
NAME(hiprtcDestroyProgram)
NAME(hiprtcGetBitcode)
NAME(hiprtcGetBitcodeSize)
NAME(hiprtcGetCode)
NAME(hiprtcGetCodeSize)
NAME(hiprtcGetLoweredName)
NAME(hiprtcGetProgramLog)
NAME(hiprtcGetProgramLogSize)
NAME(hiprtcLinkAddData)
NAME(hiprtcLinkAddFile)
NAME(hiprtcLinkComplete)
NAME(hiprtcLinkCreate)
NAME(hiprtcLinkDestroy)

API int hiprtcVersion(int *major, int *minor) {
    if (!major || !minor)
        return 3; /* invalid input */
    *major = 7;
    *minor = 15;
    return 0;
}

API const char *hiprtcGetErrorString(int code) {
    return code == 0 ? "HIPRTC_SUCCESS" : code == INTERNAL_ERROR ? "HIPRTC_ERROR_INTERNAL_ERROR" : "HIPRTC error";
}
