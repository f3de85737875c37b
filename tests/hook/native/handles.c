/* A program that opens and closes CUDA libraries: handles STEP… Each step is words with commas between:
 *   open,N,PATH[,global|deep]  new,N,PATH (a namespace of its own)  close,N  bury,N (nothing may lie there any more)
 *   load,dlsym|proc|proc2|next|default|link|file,N   the module $HANDLES_IMAGE through handle N; `keep,…` only looks up, `again`
 *   calls what was looked up last; play,N   the function `play` of a plugin;   threads,COUNT,ROUNDS,PATH,PATH
 * Prints `status S` for each load, or `nothing` and whether dlerror tells of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int (*load_f)(void **, const void *);
extern int cuModuleLoadData(void **, const void *) __attribute__((weak));

static void *handles[64];
static struct {
    void *from;
    size_t size;
} places[64];
static char image[1 << 16];
static load_f last;
static const void *what = image;

static int extent(struct dl_phdr_info *info, size_t size, void *place) {
    (void)size;
    size_t end = 0;
    if ((void *)info->dlpi_addr != *(void **)place) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz > end)
            end = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    ((size_t *)place)[1] = end;
    return 1;
}

static void opened(int n, void *handle) {
    if (handle == NULL) {
        puts(dlerror());
        exit(9);
    }
    handles[n] = handle;
    places[n].from = (void *)((struct link_map *)handle)->l_addr;
    dl_iterate_phdr(extent, &places[n]);
}

static load_f find_quietly(const char *how, void *handle) {
    void *found = NULL;
    static const char name[] = "cuModuleLoadData";
    if (strcmp(how, "dlsym") == 0) return (load_f)dlsym(handle, name);
    if (strcmp(how, "file") == 0) return (load_f)dlsym(handle, "cuModuleLoad");
    if (strcmp(how, "next") == 0) return (load_f)dlsym(RTLD_NEXT, name);
    if (strcmp(how, "default") == 0) return (load_f)dlsym(RTLD_DEFAULT, name);
    if (strcmp(how, "link") == 0) return cuModuleLoadData;
    if (strcmp(how, "proc") == 0) {
        int (*proc)(const char *, void **, int, uint64_t) = dlsym(handle, "cuGetProcAddress");
        return proc != NULL && proc(name, &found, 11030, 0) == 0 ? (load_f)found : NULL;
    }
    int (*proc)(const char *, void **, int, uint64_t, int *) = dlsym(handle, "cuGetProcAddress_v2");
    return proc != NULL && proc(name, &found, 12000, 0, NULL) == 0 ? (load_f)found : NULL;
}

/* A look-up that finds something leaves no error behind. */
static load_f find(const char *how, void *handle) {
    dlsym(handle, "no such function");
    load_f found = find_quietly(how, handle);
    if (found != NULL && strcmp(how, "link") != 0 && dlerror() != NULL) puts("an error is left");
    return found;
}

static void load(load_f function) {
    void *module = NULL;
    if (function == NULL)
        printf("nothing %d\n", dlerror() != NULL);
    else
        printf("status %d\n", function(&module, what));
    fflush(stdout);
}

static char *paths[2];
static int rounds;

static void *thread(void *argument) {
    for (int i = 0; i < rounds; ++i) {
        void *module = NULL, *library = dlopen(paths[(i + (int)(intptr_t)argument) % 2], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) abort();
        if (find(i % 3 == 0 ? "proc2" : "dlsym", library)(&module, image) != 0) abort();
        dlclose(library);
    }
    return NULL;
}

static void threads(int count) {
    pthread_t ids[64];
    for (int i = 0; i < count; ++i) pthread_create(&ids[i], NULL, thread, (void *)(intptr_t)i);
    for (int i = 0; i < count; ++i) pthread_join(ids[i], NULL);
}

static void step(char *text) {
    char *word[5] = {NULL}, *rest = NULL;
    int count = 0;
    for (char *at = strtok_r(text, ",", &rest); at != NULL && count < 5; at = strtok_r(NULL, ",", &rest)) word[count++] = at;
    const int number = word[1] != NULL ? atoi(word[1]) : 0;
    if (strcmp(word[0], "open") == 0) {
        const int how = word[3] == NULL ? RTLD_LOCAL : word[3][0] == 'g' ? RTLD_GLOBAL : RTLD_DEEPBIND;
        opened(number, dlopen(word[2], RTLD_NOW | how));
    } else if (strcmp(word[0], "new") == 0) {
        opened(number, dlmopen(LM_ID_NEWLM, word[2], RTLD_NOW));
    } else if (strcmp(word[0], "close") == 0) {
        dlclose(handles[number]);
    } else if (strcmp(word[0], "bury") == 0) {
        if (mmap(places[number].from, places[number].size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                 0) != places[number].from)
            exit(9);
    } else if (strcmp(word[0], "load") == 0) {
        what = strcmp(word[1], "file") == 0 ? getenv("HANDLES_IMAGE") : image;
        load(last = find(word[1], word[2] != NULL ? handles[atoi(word[2])] : NULL));
    } else if (strcmp(word[0], "keep") == 0) {
        last = find(word[1], word[2] != NULL ? handles[atoi(word[2])] : NULL);
    } else if (strcmp(word[0], "again") == 0) {
        load(last);
    } else if (strcmp(word[0], "play") == 0) {
        int (*play)(const void *) = dlsym(handles[number], "play");
        printf("status %d\n", play(image));
        fflush(stdout);
    } else if (strcmp(word[0], "threads") == 0) {
        rounds = atoi(word[2]);
        paths[0] = word[3];
        paths[1] = word[4];
        threads(number);
    }
}

int main(int count, char **arguments) {
    FILE *file = fopen(getenv("HANDLES_IMAGE"), "rb");
    if (file == NULL || fread(image, 1, sizeof image - 1, file) == 0) return 9;
    fclose(file);
    for (int i = 1; i < count; ++i) step(arguments[i]);
    return 0;
}
