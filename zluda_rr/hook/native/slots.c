/* Entries: functions that stand in for one real function each.
 *
 * A program may have several CUDA libraries, close one and open it again, or be such a library itself and look the next
 * one up. So a name is never enough to know the real function: whoever looked a function up gets an entry that is bound
 * to that very function. An entry means exactly what the real address means, so it cannot become stale on its own; those
 * of libraries that are gone are used again when all are taken. Compiled in, since pages that are both written and
 * executed are not to be had everywhere. */
#define _GNU_SOURCE
#include "hooks.h"

#include <dlfcn.h>
#include <stdatomic.h>

enum { SLOTS = 16 }; /* as many as glibc has namespaces; the code below has the number in it */

typedef struct {
    _Atomic(void *) real;
    _Atomic(void *) library; /* where `real` was when it was bound; NULL: nowhere known, never used again */
} slot;
_Static_assert(sizeof(slot) == 16, "the code below");

#define HIDDEN __attribute__((visibility("hidden")))
extern slot zrr_slots[HOOKS * SLOTS] HIDDEN;
extern const function zrr_calls[HOOKS] HIDDEN;
slot zrr_slots[HOOKS * SLOTS];
__thread void *zrr_called __attribute__((tls_model("initial-exec")));

#define HOOK(kind, name, parameters, arguments) [kind] = (function)zrr_##name,
const function zrr_calls[HOOKS] = {
#include "hooks.def"
};
#undef HOOK

/* Each entry says its number and nothing else: the real function goes to zrr_called, the arguments stay where they are. */
#define ENTRY_BYTES 16
#define ENTRIES(first, jump)                                                                       \
    ".pushsection .text\n.balign 16\n.hidden zrr_entries\n.globl zrr_entries\nzrr_entries:\n"        \
    ".cfi_startproc\n.set zrr_n, 0\n.rept 16 * 12\n.balign 16\n" first ".set zrr_n, zrr_n + 1\n.endr\n" \
    "zrr_enter:\n" jump ".cfi_endproc\n.popsection\n"

#if defined(__x86_64__)
__asm__(ENTRIES("endbr64\n movl $zrr_n, %eax\n jmp zrr_enter\n",
                " movl %eax, %r10d\n shlq $4, %r10\n leaq zrr_slots(%rip), %r11\n movq (%r11,%r10), %r10\n"
                " movq zrr_called@GOTTPOFF(%rip), %r11\n movq %r10, %fs:(%r11)\n"
                " shrl $4, %eax\n leaq zrr_calls(%rip), %r11\n jmp *(%r11,%rax,8)\n"));
#elif defined(__aarch64__)
__asm__(ENTRIES("hint #34\n mov w16, #zrr_n\n b zrr_enter\n",
                " adrp x17, zrr_slots\n add x17, x17, :lo12:zrr_slots\n add x17, x17, x16, lsl #4\n ldr x17, [x17]\n"
                " mrs x9, tpidr_el0\n adrp x10, :gottprel:zrr_called\n ldr x10, [x10, :gottprel_lo12:zrr_called]\n"
                " str x17, [x9, x10]\n lsr x16, x16, #4\n adrp x17, zrr_calls\n add x17, x17, :lo12:zrr_calls\n"
                " ldr x17, [x17, x16, lsl #3]\n br x17\n"));
#else
#error "entries are written for x86_64 and aarch64, the machines that CUDA has"
#endif
extern const char zrr_entries[] HIDDEN;
_Static_assert(HOOKS == 12, "the number in ENTRIES");

/* Exported under another name than the one that is used here, which no library before this one can take over. */
#define HOOK(kind, name, parameters, arguments)                   \
    static result own_##name parameters {                         \
        zrr_called = zrr_real(kind, __builtin_return_address(0)); \
        return zrr_##name arguments;                              \
    }                                                             \
    ZRR_EXPORT result name parameters __attribute__((alias("own_" #name)));
#include "hooks.def"
#undef HOOK

static const struct {
    const char *name;
    function exported;
} hooks[HOOKS] = {
#define HOOK(kind, name, parameters, arguments) [kind] = {#name, (function)own_##name},
#include "hooks.def"
#undef HOOK
};

ZRR_NO_SANITIZER static slot *slot_of(enum hook kind, int n) { return &zrr_slots[kind * SLOTS + n]; }

ZRR_NO_SANITIZER static void *entry_of(enum hook kind, int n) {
    return (void *)(uintptr_t)(zrr_entries + ENTRY_BYTES * ((int)kind * SLOTS + n));
}

const char *zrr_hook_name(enum hook kind) { return hooks[kind].name; }

ZRR_NO_SANITIZER enum hook zrr_hook_of(const char *name) {
    enum hook kind = 0;
    while (kind < HOOKS && strcmp(hooks[kind].name, name) != 0) ++kind;
    return kind;
}

ZRR_NO_SANITIZER void *zrr_exported(enum hook kind) { return zrr_object(hooks[kind].exported); }

ZRR_NO_SANITIZER static void *library_of(void *address) {
    Dl_info about;
    return dladdr(address, &about) != 0 ? about.dli_fbase : NULL;
}

/* The slot's former function is not there any more: its library was closed. */
ZRR_NO_SANITIZER static bool take_over(slot *taken, void *real, void *library) {
    void *before = atomic_load(&taken->real), *from = atomic_load(&taken->library);
    if (from == NULL || library_of(before) == from) return false;
    atomic_store(&taken->library, NULL);
    if (!atomic_compare_exchange_strong(&taken->real, &before, real)) return false;
    atomic_store(&taken->library, library);
    return true;
}

ZRR_NO_SANITIZER void *zrr_bind(enum hook kind, void *real) {
    const char *first = entry_of(kind, 0), *at = real;
    if (at >= first && at < first + ENTRY_BYTES * SLOTS) return real; /* a library hands on what it was given */
    for (int n = 0; n < SLOTS; ++n)
        if (atomic_load(&slot_of(kind, n)->real) == real) return entry_of(kind, n);
    void *library = library_of(real);
    for (int n = 0; n < SLOTS; ++n) {
        void *none = NULL;
        const bool taken = atomic_compare_exchange_strong(&slot_of(kind, n)->real, &none, real);
        if (taken) atomic_store(&slot_of(kind, n)->library, library);
        if (taken || none == real) return entry_of(kind, n);
    }
    for (int n = 0; n < SLOTS; ++n)
        if (take_over(slot_of(kind, n), real, library)) return entry_of(kind, n);
    return NULL;
}
