/* The rewriter's program: found, and known to be something that the kernel can start, before a process is made for it. */
#define _GNU_SOURCE
#include "zrr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool find(const char *name, char *path, size_t size) {
    if (strchr(name, '/') != NULL) {
        const int used = snprintf(path, size, "%s", name);
        return used > 0 && (size_t)used < size && name[0] == '/' && access(path, X_OK) == 0;
    }
    const char *search = getenv("PATH");
    while (search != NULL && *search != 0) {
        const size_t length = strcspn(search, ":");
        const int used = snprintf(path, size, "%.*s/%s", (int)length, search, name);
        if (length > 0 && search[0] == '/' && used > 0 && (size_t)used < size && access(path, X_OK) == 0) return true;
        search += length + (search[length] == ':');
    }
    return false;
}

/* A script without its interpreter is the common case: a Python that was updated or removed. */
static bool can_start(const char *path, char *reason) {
    char head[256] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t got = fd < 0 ? -1 : read(fd, head, sizeof head - 1);
    const int error = errno;
    if (fd >= 0) close(fd);
    if (fd < 0 && error == EACCES) return true; /* a program may be executable and not readable */
    if (got >= 4 && memcmp(head, "\x7f" "ELF", 4) == 0) return true;
    if (got < 3 || memcmp(head, "#!", 2) != 0) {
        zrr_reason(reason, "cannot run the rewriter %.120s: %s", path, strerror(got < 0 ? error : ENOEXEC));
        return false;
    }
    char *interpreter = head + 2 + strspn(head + 2, " \t");
    interpreter[strcspn(interpreter, " \t\r\n")] = 0;
    if (access(interpreter, X_OK) == 0) return true;
    zrr_reason(reason, "cannot run the rewriter %.90s: its interpreter %.90s: %s", path, interpreter, strerror(errno));
    return false;
}

bool zrr_program_find(const char *name, char *path, size_t size, char *reason) {
    if (find(name, path, size)) return can_start(path, reason);
    zrr_reason(reason, "no program %.120s; set ZLUDA_RR_TOOL or run `zluda-rr doctor`", name);
    return false;
}
