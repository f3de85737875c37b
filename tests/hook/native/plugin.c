/* A game's library that is linked against a CUDA library. -DOPENS: that opens one by itself instead. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

extern int cuModuleLoadData(void **module, const void *image);

int play(const void *image) {
    void *module = NULL;
#ifdef OPENS
    int (*load)(void **, const void *) =
        (int (*)(void **, const void *))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuModuleLoadData");
    return load(&module, image);
#else
    return cuModuleLoadData(&module, image);
#endif
}
