/* Starts the helper process and talks to it: one request at a time over a socket pair. The helper is not a child of the
 * program, which may wait for its own children; it ends when the socket closes. */
#define _GNU_SOURCE
#include "emu.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef ZRR_HIP_PYTHON
#error "ZRR_HIP_PYTHON: the interpreter, ZRR_HIP_ROOT: the folder of the zluda_rr package"
#endif

extern char **environ;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int channel = -1;
static bool broken;

enum { SOCKET_AT = 3, MEMORY_AT = 4, TEXT_BYTES = 1024, ARGUMENT_BYTES = 65536 };
/* ZLUDA_RR_HIP_HELPER names another module, for tests with a broken emulator. */
static const char PROGRAM[] = "import importlib, os, sys; sys.path.insert(0, sys.argv[1]); "
                              "name = os.environ.get('ZLUDA_RR_HIP_HELPER') or 'zluda_rr.emulate.hip.helper'; "
                              "importlib.import_module(name).main(sys.argv[2:])";

/* What a preloaded sanitizer or a proxy would do to the interpreter is not wanted there. */
static char **clean_environment(void) {
    size_t count = 0, kept = 0;
    while (environ && environ[count])
        count++;
    char **result = malloc((count + 1) * sizeof *result);
    for (size_t i = 0; result && i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) && strncmp(environ[i], "PYTHON", 6))
            result[kept++] = environ[i];
    if (result)
        result[kept] = NULL;
    return result;
}

/* In the grandchild: only calls that are safe after fork in a program with threads. */
static void become_helper(int socket_fd, char *const *arguments, char *const *environment) {
    int memory = fcntl(emu_arena_fd(), F_DUPFD, 10), link = fcntl(socket_fd, F_DUPFD, 10);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    if (memory >= 0 && link >= 0 && dup2(link, SOCKET_AT) >= 0 && dup2(memory, MEMORY_AT) >= 0) {
        syscall(SYS_close_range, 5u, ~0u, 0u); /* a pipe of the program's would stay open here */
        execve(ZRR_HIP_PYTHON, arguments, environment);
    }
    static const char text[] = "libamdhip64 (emulated): cannot start " ZRR_HIP_PYTHON "; build the library anew\n";
    if (write(2, text, sizeof text - 1) < 0)
        _exit(126);
    _exit(127);
}

static hipError_t start(void) {
    int pair[2];
    char base[32], size[32], table[32], arguments_at[32];
    void *segment; /* kernel arguments; the helper writes them, kernels may only read them */
    if (emu_allocate(ARGUMENT_BYTES, EMU_PAGE, EMU_INTERNAL, 0, &segment) != hipSuccess)
        return hipErrorOutOfMemory;
    snprintf(arguments_at, sizeof arguments_at, "%llu", (unsigned long long)(uintptr_t)segment);
    snprintf(base, sizeof base, "%llu", (unsigned long long)emu_arena_base());
    snprintf(size, sizeof size, "%llu", (unsigned long long)emu_arena_size());
    snprintf(table, sizeof table, "%llu", (unsigned long long)emu_table_bytes());
    char *arguments[] = {(char *)ZRR_HIP_PYTHON, (char *)"-EP", (char *)"-c", (char *)PROGRAM,
                         (char *)ZRR_HIP_ROOT, base, size, table, arguments_at, NULL};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return hipErrorOperatingSystem;
    char **environment = clean_environment();
    pid_t child = environment ? fork() : -1;
    if (!child) {
        pid_t helper = fork();
        if (!helper)
            become_helper(pair[1], arguments, environment);
        _exit(helper < 0);
    }
    free(environment);
    close(pair[1]);
    int state = 1;
    while (child > 0 && waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    if (child < 0) {
        emu_say("cannot start the emulator's process: %s", strerror(errno));
        close(pair[0]);
        return hipErrorOperatingSystem;
    }
    channel = pair[0];
    return hipSuccess;
}

static bool send_all(struct iovec *parts, int count) {
    while (count) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
        ssize_t sent = sendmsg(channel, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return false;
        while (count && (size_t)sent >= parts->iov_len) {
            sent -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count) {
            parts->iov_base = (char *)parts->iov_base + sent;
            parts->iov_len -= (size_t)sent;
        }
    }
    return true;
}

static bool receive_all(void *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t got = recv(channel, (char *)bytes + done, size - done, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* Reads past what the caller has no room for. */
static bool skip(size_t size) {
    char waste[256];
    for (; size; size -= size < sizeof waste ? size : sizeof waste)
        if (!receive_all(waste, size < sizeof waste ? size : sizeof waste))
            return false;
    return true;
}

static bool exchange(enum emu_request request, const emu_part *parts, int count, hipError_t *status, void *answer,
                     size_t capacity, size_t *answered) {
    struct iovec vector[8];
    uint32_t header[2] = {request, 0}, reply[2];
    vector[0] = (struct iovec){header, sizeof header};
    for (int i = 0; i < count; i++) {
        vector[i + 1] = (struct iovec){(void *)(uintptr_t)parts[i].bytes, parts[i].size};
        header[1] += (uint32_t)parts[i].size;
    }
    if (!send_all(vector, count + 1) || !receive_all(reply, sizeof reply))
        return false;
    *status = (hipError_t)reply[0];
    char text[TEXT_BYTES];
    bool good = *status == hipSuccess;
    void *place = good ? answer : text;
    size_t room = good ? capacity : sizeof text - 1, wanted = reply[1] < room ? reply[1] : room;
    if (!receive_all(place, wanted) || !skip(reply[1] - wanted))
        return false;
    if (answered)
        *answered = wanted;
    if (!good && wanted) {
        text[wanted] = 0;
        emu_say("%s", text);
    }
    return true;
}

hipError_t emu_ask(enum emu_request request, const emu_part *parts, int count, void *answer, size_t capacity,
                   size_t *answered) {
    hipError_t status = hipErrorLaunchFailure;
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += parts[i].size;
    if (total > UINT32_MAX)
        return hipErrorInvalidValue;
    pthread_mutex_lock(&lock);
    if (channel < 0 && !broken && start() != hipSuccess)
        broken = true;
    if (!broken && !exchange(request, parts, count, &status, answer, capacity, answered)) {
        emu_say("the emulator's process has ended; nothing can be launched any more");
        broken = true;
    }
    if (broken)
        status = hipErrorLaunchFailure;
    pthread_mutex_unlock(&lock);
    return status;
}

void emu_stop_helper(void) {
    pthread_mutex_lock(&lock);
    if (channel >= 0)
        close(channel);
    channel = -1;
    broken = false;
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void end(void) { emu_stop_helper(); }
