/* The intercepted calls: their kinds, what stands in for them, and where the real ones are. */
#ifndef ZRR_HOOKS_H
#define ZRR_HOOKS_H

#include "zrr.h"

#include <link.h>
#include <string.h>

typedef int result;   /* CUresult; 0 is success */
typedef void *handle; /* CUmodule, CUlibrary, CUlinkState */
typedef void (*function)(void);

enum hook {
#define HOOK(kind, name, parameters, arguments) kind,
#include "hooks.def"
#undef HOOK
    HOOKS
};

#define HOOK(kind, name, parameters, arguments) result zrr_##name parameters;
#include "hooks.def"
#undef HOOK

/* The real function of the call that has just been made in this thread; read first of all. */
extern __thread void *zrr_called __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* ISO C has no conversion between object and function pointers; dlsym's result is one all the same. */
ZRR_NO_SANITIZER static inline void *zrr_object(function f) {
    void *object = NULL;
    memcpy(&object, &f, sizeof object);
    return object;
}
#define ZRR_CALL(type, object) (*(type *)&(void *){object})

/* ---- slots.c ---- */

const char *zrr_hook_name(enum hook kind);
enum hook zrr_hook_of(const char *name); /* HOOKS: none of ours */
/* The function that this library exports under the hook's name. */
void *zrr_exported(enum hook kind);
/* A function that stands in for `real` and for no other, however many libraries there are. NULL: too many of them. */
void *zrr_bind(enum hook kind, void *real);

/* ---- find.c ---- */

typedef void *(*zrr_dlsym_f)(void *, const char *);

zrr_dlsym_f zrr_real_dlsym(void);
void *zrr_next_version(const char *name);
struct link_map *zrr_map_of(const void *address);
/* What `caller` (an address in its code) reaches by this name where this library is not there; NULL: nothing. */
void *zrr_behind(enum hook kind, const void *caller);
/* The same for a call by the exported name, which has to go somewhere: else the CUDA library that is or can be loaded. */
void *zrr_real(enum hook kind, const void *caller);
/* The function `kind` of the library that `real` is in, with a reference on that library: give it to dlclose. */
void *zrr_partner(enum hook kind, void *real, void **library);
/* What is handed out for `real`: a bound entry; the function itself where the plugin is off or entries are used up. */
void *zrr_handed_out(enum hook kind, void *real);

#endif
