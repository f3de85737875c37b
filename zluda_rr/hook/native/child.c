/* The rewrite runs in a process of its own that has nothing of the host's.
 *
 * It runs at low priority.
 * A plain fork would copy a game's page tables and descriptors and would send it SIGCHLD. Here a helper shares the
 * memory until it executes (as vfork and posix_spawn do), has exit signal 0, so that neither the host's SIGCHLD handler
 * nor its wait calls see it, and starts the program as its own child, which init adopts: nobody has to reap it. */
#define _GNU_SOURCE
#include "zrr.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* A program that hangs ends after this many seconds whatever it does. */
enum { CHILD_SECONDS = 3600, STACK = 64 << 10, LOCK_FD = 3, DONE_FD = 4, WORKER_FD = 5, FIRST_CLOSED = 6, NICE = 10 };
/* ioprio_set(2): best effort, the last of its levels. */
enum { IOPRIO_WHO_PROCESS = 1, IOPRIO_LAST = 2 << 13 | 7 };

/* The shell only waits, and says how the program ended: nobody else can, since nobody may be its parent. */
static const char supervise[] =
    "\"$0\" hook-child \"$1\" \"$2\" & p=$!\n"
    "exec 3>&- 5>&-\n"
    "trap 'kill -9 $p' ALRM\n"
    "wait $p; s=$?\n"
    "[ $s -eq 0 ] || echo \"zluda-rr: exit status $s\" >&2\n";

typedef struct {
    char **arguments, **environment;
    int null, lock, done, worker, errors;
    char *stack; /* of the second process */
} plan;

/* Only system calls from here to execve: the memory is the host's. */
ZRR_NO_SANITIZER static void close_descriptors(void) {
#ifdef SYS_close_range
    if (syscall(SYS_close_range, FIRST_CLOSED, ~0U, 0) == 0) return;
#else
    if (syscall(436, FIRST_CLOSED, ~0U, 0) == 0) return;
#endif
    struct rlimit limit = {1024, 1024};
    getrlimit(RLIMIT_NOFILE, &limit);
    const int end = limit.rlim_cur > 65536 ? 65536 : (int)limit.rlim_cur;
    for (int fd = FIRST_CLOSED; fd < end; ++fd) close(fd);
}

ZRR_NO_SANITIZER static int program(void *argument) {
    const plan *what = argument;
    struct sigaction normal;
    memset(&normal, 0, sizeof normal);
    normal.sa_handler = SIG_DFL;
    for (int number = 1; number < 65; ++number) sigaction(number, &normal, NULL);
    setsid();
    for (int fd = 0; fd < 2; ++fd) dup2(what->null, fd);
    dup2(what->errors, STDERR_FILENO);
    dup2(what->lock, LOCK_FD);
    dup2(what->done, DONE_FD);
    dup2(what->worker, WORKER_FD);
    close_descriptors();
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (chdir("/") != 0) _exit(126);
    alarm(CHILD_SECONDS);
    /* Of this process alone: on Linux a priority belongs to a thread. Never higher than it was. */
    if (getpriority(PRIO_PROCESS, 0) < NICE) setpriority(PRIO_PROCESS, 0, NICE);
    if (syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0) < IOPRIO_LAST)
        syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_LAST);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(what->arguments[0], what->arguments, what->environment);
    const int error = errno;
    if (write(DONE_FD, &error, sizeof error) < 0) _exit(126);
    _exit(127);
}

ZRR_NO_SANITIZER static int helper(void *argument) {
    const plan *what = argument;
    const int started = clone(program, what->stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, argument);
    _exit(started < 0 ? 1 : 0);
}

static bool start(plan *what, char *reason) {
    char *stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stacks == MAP_FAILED) {
        zrr_reason(reason, "no memory for a process: %s", strerror(errno));
        return false;
    }
    what->stack = stacks + STACK;
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* no handler of the host runs while its memory is shared */
    const pid_t pid = clone(helper, stacks + STACK, CLONE_VM | CLONE_VFORK, what);
    const int error = errno;
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, __WCLONE) < 0 && errno == EINTR) {
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    munmap(stacks, 2 * STACK);
    if (pid > 0 && status == 0) return true;
    zrr_reason(reason, "cannot start a process: %s", pid > 0 ? "clone failed" : strerror(error));
    return false;
}

/* The host's environment without what would pull this library or another Python into the child. */
static char **child_environment(void) {
    static const char *const dropped[] = {"LD_PRELOAD=", "LD_AUDIT=", "PYTHONHOME=", "PYTHONPATH=", "PYTHONSTARTUP="};
    size_t count = 0;
    while (environ != NULL && environ[count] != NULL) ++count;
    char **copy = malloc((count + 1) * sizeof *copy);
    size_t kept = 0;
    for (size_t i = 0; copy != NULL && i < count && environ[i] != NULL; ++i) {
        bool keep = true;
        for (size_t d = 0; d < sizeof dropped / sizeof dropped[0]; ++d)
            keep = keep && strncmp(environ[i], dropped[d], strlen(dropped[d])) != 0;
        if (!keep) continue;
        const char *made = strncmp(environ[i], "XDG_CACHE_HOME=", 15) == 0    ? zrr_absolute_xdg("XDG_CACHE_HOME")
                           : strncmp(environ[i], "XDG_CONFIG_HOME=", 16) == 0 ? zrr_absolute_xdg("XDG_CONFIG_HOME")
                                                                              : NULL;
        copy[kept++] = made != NULL ? (char *)(uintptr_t)made : environ[i];
    }
    if (copy != NULL) copy[kept] = NULL;
    return copy;
}

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* The child's end closes the pipe, or it says with one byte that this module is done; more bytes are the error of execve. */
static bool wait_end(int fd, int wait_ms, char *reason) {
    const long long end = now_ms() + wait_ms;
    for (;;) {
        const long long left = end - now_ms();
        struct pollfd what = {fd, POLLIN, 0};
        const int ready = poll(&what, 1, left > 0 ? (int)left : 0);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) {
            zrr_reason(reason, "the rewrite takes longer than %d ms; it goes on and serves the next load", wait_ms);
            return false;
        }
        int error = 0;
        const ssize_t got = read(fd, &error, sizeof error);
        if (got < 0 && errno == EINTR) continue;
        if (got == (ssize_t)sizeof error) zrr_reason(reason, "cannot run the rewriter: %s", strerror(error));
        return got == 0 || got == 1;
    }
}

static int high_duplicate(int fd) { return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 16); }

/* Where the rewriter's standard error goes: a file beside the request, else nowhere. */
static int error_file(const zrr_cache *cache, const char *key) {
    char name[ZRR_KEY_CHARS + 8];
    snprintf(name, sizeof name, "%s.err", key);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const int fd = openat(cache->folder, name, flags, 0600), high = high_duplicate(fd);
    if (fd >= 0) close(fd);
    return high;
}

static void remove_error_file(const zrr_cache *cache, const char *key) {
    char name[ZRR_KEY_CHARS + 8];
    snprintf(name, sizeof name, "%s.err", key);
    unlinkat(cache->folder, name, 0);
}

static void close_all(const plan *what) {
    const int all[] = {what->null, what->lock, what->done, what->worker, what->errors};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
        if (all[i] >= 0) close(all[i]);
}

bool zrr_child_run(const char *name, const zrr_cache *cache, const char *key, zrr_locks locks, int wait_ms, char *reason) {
    static char shell[] = "/bin/sh", option[] = "-c", command[] = "hook-child";
    struct {
        char program[1200], folder[sizeof cache->path], key[ZRR_KEY_CHARS + 1], script[sizeof supervise];
    } *text = malloc(sizeof *text); /* a thread's stack may be small */
    int ends[2] = {-1, -1};
    bool ok = text != NULL && zrr_program_find(name, text->program, sizeof text->program, reason);
    if (text == NULL) zrr_reason(reason, "no memory for a process");
    if (ok) {
        memcpy(text->folder, cache->path, sizeof text->folder);
        memcpy(text->key, key, sizeof text->key);
        memcpy(text->script, supervise, sizeof text->script);
        char *supervised[] = {shell, option, text->script, text->program, text->folder, text->key, NULL};
        char *alone[] = {text->program, command, text->folder, text->key, NULL};
        const int opened = open("/dev/null", O_RDWR | O_CLOEXEC);
        plan what = {access(shell, X_OK) == 0 ? supervised : alone, child_environment(), high_duplicate(opened),
                     high_duplicate(locks.lock), -1, high_duplicate(locks.worker), error_file(cache, key), NULL};
        if (what.errors < 0) what.errors = high_duplicate(opened);
        if (opened >= 0) close(opened);
        if (pipe2(ends, O_CLOEXEC) == 0) what.done = high_duplicate(ends[1]);
        if (ends[1] >= 0) close(ends[1]);
        ok = what.environment != NULL && what.null >= 0 && what.lock >= 0 && what.done >= 0 && what.worker >= 0 &&
             what.errors >= 0;
        if (!ok)
            zrr_reason(reason, "no descriptors or memory for a process");
        else
            ok = start(&what, reason);
        free(what.environment);
        close_all(&what);
        if (!ok) remove_error_file(cache, key); /* nothing was begun, so nothing failed */
    }
    if (ok && wait_ms > 0) ok = wait_end(ends[0], wait_ms, reason);
    if (ends[0] >= 0) close(ends[0]);
    free(text);
    return ok;
}
