/* What the cases share: checks that end the program, a module, memory, launches. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "abi.h"
#include "calls.h"

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        hipError_t status_ = (call);                                                                                   \
        if (status_) {                                                                                                 \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorName(status_));                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define FAILS(call, code) EXPECT((call) == (code))

hipFunction_t kernel(const char *name);
void launch(hipFunction_t f, unsigned blocks, unsigned threads, unsigned lds, hipStream_t stream, void **params);
void *device(size_t size, const void *content);

/* program_memory.c */
void memory(void);
void limit(void);

#endif
