/* Preloaded before the hook: creating files fails with $FAULT_OPEN (an errno), writing regular files with $FAULT_WRITE. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t write(int fd, const void *bytes, size_t size) {
    const char *fault = getenv("FAULT_WRITE");
    struct stat about;
    if (fault != NULL && size > 1000 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
        errno = atoi(fault);
        return -1;
    }
    return syscall(SYS_write, fd, bytes, size);
}

int openat(int folder, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    const char *fault = getenv("FAULT_OPEN");
    if (fault != NULL && (flags & O_CREAT) != 0) {
        errno = atoi(fault);
        return -1;
    }
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}
