/* One line per event, to stderr or to a file. Failing to log is never an error. */
#define _GNU_SOURCE
#include "zrr.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
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
    if (level_of(settings) < (int)level) return;
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
    }
    zrr_write_all(fd, line, (size_t)used); /* one write: lines of several processes do not mix */
    if (fd != STDERR_FILENO) close(fd);
}
