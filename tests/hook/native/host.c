/* A program that loads a module: host CALL WAY IMAGE [--threads N] [--repeat N] [--pause MS] [--sigchld handler|ignore]
 * [--closed] [--files N] [--file-bytes N] [--wrapper good|2|null|bad] [--raw] [--time] [--library PATH]
 * [--stack BYTES] [--filter] [--reopen FILE] [--early FILE]
 *
 * WAY: link (the symbol as the dynamic linker binds it), dlsym, next (dlsym of RTLD_NEXT), proc, proc2 (cuGetProcAddress).
 * The image ends at a page without access, with a NUL before it unless --raw. Prints `status S`, `sigchld N children N`,
 * `fds N` before and after, and with --time the microseconds of every load, by the clock and of this
 * thread's processor time. --filter: a seccomp filter that ends the process at process_vm_readv. --reopen: descriptor 2 is
 * closed, and FILE gets it; --early: before the library is opened. The values of cuModuleLoadDataEx's options are printed after the call. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int (*load_f)(void **, const void *);
typedef int (*load_ex_f)(void **, const void *, unsigned, int *, void **);
typedef int (*library_f)(void **, const void *, int *, void **, unsigned, int *, void **, unsigned);

static volatile sig_atomic_t signals, children;
static void on_child(int number) {
    (void)number;
    ++signals;
    while (waitpid(-1, NULL, WNOHANG) > 0) ++children;
}

static const char *call, *path, *way = "dlsym", *cuda = "libcuda.so.1";
static void *image;
static void *function;
static int repeat = 1, pause_ms;
static bool timed, logs;

static void *resolve(void) {
    void *library = dlopen(cuda, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) return NULL;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    if (init == NULL || init(0) != 0) return NULL;
    void *found = NULL;
    if (strcmp(way, "link") == 0) return dlsym(RTLD_DEFAULT, call);
    if (strcmp(way, "next") == 0) return dlsym(RTLD_NEXT, call);
    if (strcmp(way, "proc") == 0) {
        int (*proc)(const char *, void **, int, uint64_t) = dlsym(library, "cuGetProcAddress");
        return proc(call, &found, 11030, 0) == 0 ? found : NULL;
    }
    if (strcmp(way, "proc2") == 0) {
        int (*proc)(const char *, void **, int, uint64_t, int *) = dlsym(library, "cuGetProcAddress_v2");
        void *again = NULL;
        if (proc("cuGetProcAddress", &again, 12000, 0, NULL) != 0) return NULL;
        *(void **)&proc = again;
        int status = -1;
        return proc(call, &found, 12000, 0, &status) == 0 && status == 0 ? found : NULL;
    }
    return dlsym(library, call);
}

static int load_with_log(void) {
    char info[64] = "", errors[64] = "";
    int options[] = {7, 3, 4, 5, 6};
    void *module = NULL, *values[] = {(void *)70, info, (void *)sizeof info, errors, (void *)sizeof errors};
    const int status = ((load_ex_f)function)(&module, image, 5, options, values);
    printf("values %ld %ld info %s errors %s\n", (long)values[2], (long)values[4], info, errors);
    return status;
}

static int load(void) {
    if (logs) return load_with_log();
    void *module = NULL, *values[] = {(void *)70}, *none[] = {NULL};
    int options[] = {7}, preserved[] = {1};
    const void *what = strcmp(call, "cuModuleLoad") == 0 || strcmp(call, "cuLibraryLoadFromFile") == 0 ? path : image;
    if (strncmp(call, "cuLibrary", 9) == 0)
        return ((library_f)function)(&module, what, options, values, 1, preserved, none, 1);
    if (strcmp(call, "cuModuleLoadDataEx") == 0) return ((load_ex_f)function)(&module, what, 1, options, values);
    return ((load_f)function)(&module, what);
}

static long long now_us(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void *thread(void *argument) {
    int status = 0;
    for (int i = 0; i < repeat; ++i) {
        const long long clock_us = now_us(CLOCK_MONOTONIC), busy_us = now_us(CLOCK_THREAD_CPUTIME_ID);
        status = load();
        if (timed)
            printf("us %lld %lld\n", now_us(CLOCK_MONOTONIC) - clock_us, now_us(CLOCK_THREAD_CPUTIME_ID) - busy_us);
        if (pause_ms > 0 && i + 1 < repeat) {
            struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000L};
            while (nanosleep(&pause, &pause) != 0 && errno == EINTR) {
            }
        }
    }
    *(int *)argument = status;
    return NULL;
}

static int count_fds(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL) ++count;
    if (folder != NULL) closedir(folder);
    return count;
}

static void *guarded(const void *bytes, size_t size) {
    const size_t pages = (size + 4095) / 4096 + (size == 0);
    char *area = mmap(NULL, (pages + 1) * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || mprotect(area + pages * 4096, 4096, PROT_NONE) != 0) exit(9);
    memcpy(area + pages * 4096 - size, bytes, size);
    return area + pages * 4096 - size;
}

static bool reopen(const char *file) {
    close(2);
    return open(file, O_RDWR | O_CREAT, 0600) == 2;
}

static int filter(void) {
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, 0x80000000U /* end the process */),
                                 BPF_STMT(BPF_RET | BPF_K, 0x7fff0000U /* allow */)};
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, 2, &program) == 0;
}

static void read_image(bool raw) {
    FILE *file = fopen(path, "rb");
    struct stat about;
    if (file == NULL || fstat(fileno(file), &about) != 0) exit(9);
    char *bytes = calloc(1, (size_t)about.st_size + 1);
    if (fread(bytes, 1, (size_t)about.st_size, file) != (size_t)about.st_size) exit(9);
    fclose(file);
    image = guarded(bytes, (size_t)about.st_size + (raw ? 0 : 1));
    free(bytes);
}

int main(int count, char **arguments) {
    if (count < 4) return 9;
    call = arguments[1];
    way = arguments[2];
    path = arguments[3];
    int threads = 1;
    bool raw = false, closed = false;
    const char *wrapper = NULL, *reopened = NULL;
    size_t stack = 0;
    for (int i = 4; i < count; ++i) {
        const char *name = arguments[i];
        if (strcmp(name, "--raw") == 0) raw = true;
        else if (strcmp(name, "--time") == 0) timed = true;
        else if (strcmp(name, "--closed") == 0) closed = true;
        else if (strcmp(name, "--logs") == 0) logs = true;
        else if (strcmp(name, "--filter") == 0) {
            if (!filter()) return 9;
        }
        else if (++i == count) return 9;
        else if (strcmp(name, "--stack") == 0) stack = (size_t)atol(arguments[i]);
        else if (strcmp(name, "--reopen") == 0) reopened = arguments[i];
        else if (strcmp(name, "--early") == 0) {
            if (!reopen(arguments[i])) return 9;
        }
        else if (strcmp(name, "--threads") == 0) threads = atoi(arguments[i]);
        else if (strcmp(name, "--repeat") == 0) repeat = atoi(arguments[i]);
        else if (strcmp(name, "--library") == 0) cuda = arguments[i];
        else if (strcmp(name, "--pause") == 0) pause_ms = atoi(arguments[i]);
        else if (strcmp(name, "--wrapper") == 0) wrapper = arguments[i];
        else if (strcmp(name, "--sigchld") == 0) signal(SIGCHLD, arguments[i][0] == 'h' ? on_child : SIG_IGN);
        else if (strcmp(name, "--files") == 0 || strcmp(name, "--file-bytes") == 0) {
            const rlim_t most = (rlim_t)atoi(arguments[i]);
            const struct rlimit limit = {most, most};
            setrlimit(name[6] == 's' ? RLIMIT_NOFILE : RLIMIT_FSIZE, &limit);
        }
    }
    read_image(raw);
    if (wrapper != NULL) {
        const bool second = wrapper[0] == '2', good = wrapper[0] == 'g' || second;
        const uint64_t place = good ? (uint64_t)(uintptr_t)image : wrapper[0] == 'n' ? 0 : 0x123456789000;
        const uint64_t words[3] = {second ? 0x2466243b1 : 0x1466243b1, place, 0};
        image = guarded(words, sizeof words);
    }
    function = resolve();
    if (function == NULL) {
        printf("unresolved\n");
        return 3;
    }
    if (closed) { /* output goes to descriptor 9 */
        dup2(1, 9);
        close(0), close(1), close(2);
    }
    if (reopened != NULL && !reopen(reopened)) return 9;
    const int before = count_fds();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack > 0 && pthread_attr_setstacksize(&attributes, stack) != 0) return 9;
    pthread_t ids[256];
    int status[256] = {0};
    for (int i = 0; i < threads; ++i)
        if (pthread_create(&ids[i], &attributes, thread, &status[i]) != 0) return 9;
    int worst = 0;
    for (int i = 0; i < threads; ++i) {
        pthread_join(ids[i], NULL);
        if (status[i] != 0) worst = status[i];
    }
    const int after = count_fds();
    if (closed) dup2(9, 1);
    printf("status %d\nsigchld %d children %d\nfds %d %d\n", worst, (int)signals, (int)children, before, after);
    return 0;
}
