/* One line per event, to stderr or to a file. Failing to log is never an error. */
#define _GNU_SOURCE
#include "zrr.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool write_all(int fd, const char *at, size_t size) {
    while (size > 0) {
        const ssize_t done = write(fd, at, size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        at += done;
        size -= (size_t)done;
    }
    return true;
}

/* A closed pipe behind stderr, or a limit on file sizes, is an error here and not the host's end. */
bool zrr_write_all(int fd, const void *bytes, size_t size) {
    sigset_t deadly, before, waiting;
    sigemptyset(&deadly);
    sigaddset(&deadly, SIGPIPE);
    sigaddset(&deadly, SIGXFSZ);
    sigpending(&waiting);
    const bool had[2] = {sigismember(&waiting, SIGPIPE) == 1, sigismember(&waiting, SIGXFSZ) == 1};
    sigprocmask(SIG_BLOCK, &deadly, &before); /* this thread's mask on Linux */
    const bool written = write_all(fd, bytes, size);
    const int error = errno;
    if (!written && ((error == EPIPE && !had[0]) || (error == EFBIG && !had[1]))) {
        const struct timespec now = {0, 0};
        sigdelset(&deadly, error == EPIPE ? SIGXFSZ : SIGPIPE);
        while (sigtimedwait(&deadly, NULL, &now) < 0 && errno == EINTR) {
        }
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return written;
}

/* ---- The host's descriptor 2 is written to only while it is what it was when this library was loaded: a host that
 * closed it may have a file of its own there. ---- */

static struct {
    atomic_int state; /* 0: not looked at */
    dev_t device, special;
    ino_t file;
} standard_error;
enum { UNKNOWN = 0, CLOSED = 1, OPEN = 2 };

/* What a launcher, a shell or a service gives as standard error. Opened late, this library may find something else
 * there: a file that is also read, a connection. */
static bool fit_for_errors(const struct stat *about) {
    struct sockaddr peer = {0};
    socklen_t size = sizeof peer;
    if (S_ISREG(about->st_mode)) return (fcntl(STDERR_FILENO, F_GETFL) & O_ACCMODE) == O_WRONLY;
    if (S_ISSOCK(about->st_mode))
        return getsockname(STDERR_FILENO, &peer, &size) == 0 && peer.sa_family == AF_UNIX;
    return S_ISCHR(about->st_mode) || S_ISFIFO(about->st_mode);
}

void zrr_log_start(bool first) {
    const int error = errno;
    struct stat about;
    int state = CLOSED;
    if (fstat(STDERR_FILENO, &about) == 0 && (first || fit_for_errors(&about))) {
        standard_error.device = about.st_dev;
        standard_error.special = about.st_rdev;
        standard_error.file = about.st_ino;
        state = OPEN;
    }
    atomic_store(&standard_error.state, state);
    errno = error;
}

static bool standard_error_is_the_same(void) {
    struct stat now;
    if (atomic_load(&standard_error.state) == UNKNOWN) zrr_log_start(false);
    return atomic_load(&standard_error.state) == OPEN && fstat(STDERR_FILENO, &now) == 0 &&
           now.st_dev == standard_error.device && now.st_rdev == standard_error.special &&
           now.st_ino == standard_error.file;
}

void zrr_reason(char *reason, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, ZRR_REASON_BYTES, format, arguments);
    va_end(arguments);
}

static int level_of(const zrr_settings *settings) {
    return strcmp(settings->log, "off") == 0 ? 0 : strcmp(settings->log, "debug") == 0 ? ZRR_DEBUG : ZRR_INFO;
}

void zrr_log(const zrr_settings *settings, enum zrr_level level, const char *format, ...) {
    if (settings == NULL || level_of(settings) < (int)level) return;
    char line[1024];
    int used = snprintf(line, sizeof line, "zluda-rr[%ld]: ", (long)getpid());
    va_list arguments;
    va_start(arguments, format);
    const int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    va_end(arguments);
    if (more < 0) return;
    used += more;
    if (used > (int)sizeof line - 2) used = (int)sizeof line - 2;
    for (int i = 0; i < used; ++i) /* an event is one line, whatever a file name contains */
        if ((unsigned char)line[i] < 32) line[i] = '?';
    line[used++] = '\n';
    int fd = STDERR_FILENO;
    if (settings->log_file[0] != 0) {
        fd = open(settings->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
        if (fd < 0) return;
    } else if (!standard_error_is_the_same()) {
        return;
    }
    zrr_write_all(fd, line, (size_t)used); /* one write: lines of several processes do not mix */
    if (fd != STDERR_FILENO) close(fd);
}
