/* The rest of HIP: every symbol exists, returns hipErrorNotSupported and says so once. */
#include "emu.h"

#define NAME(name)                                                                                                     \
    API hipError_t name(void);                                                                                         \
    API hipError_t name(void) { UNSUPPORTED(#name); }
#include "unsupported.def"
#undef NAME

/* Texts where others return a code. */
API const char *hipApiName(uint32_t id) {
    (void)id;
    return "unknown";
}
API const char *hipKernelNameRef(hipFunction_t function) {
    return emu_check_function(function) == hipSuccess ? function->name : "";
}
API const char *hipKernelNameRefByPtr(const void *host, hipStream_t stream) {
    (void)stream;
    hipFunction_t function;
    return emu_registered_function(host, &function) == hipSuccess ? function->name : "";
}

/* Not HIP: the order in which WMMA sums (exact, sequential, pairwise), which a card decides for itself. */
API hipError_t zludaRrHipSetModel(const char *name) {
    TRY(emu_begin());
    size_t size = 0;
    while (name && name[size])
        size++;
    emu_part part = {name, size};
    DONE(emu_ask(EMU_MODEL, &part, 1, NULL, 0, NULL));
}
