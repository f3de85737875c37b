/* Streams and events. All work has finished when its call returns, so every stream is empty and every recorded event
 * has happened; what is left is to tell handles from garbage and to keep the times. */
#define _GNU_SOURCE
#include "emu.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef struct handle {
    struct handle *next;
    unsigned flags;
    int priority;
    bool recorded;
    double milliseconds;
} handle;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static handle *streams, *events;
static const uintptr_t LEGACY = 1, PER_THREAD = 2;
enum { DISABLE_TIMING = 2 };

static handle *create(handle **list, unsigned flags) {
    handle *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return NULL;
    fresh->flags = flags;
    pthread_mutex_lock(&lock);
    fresh->next = *list;
    *list = fresh;
    pthread_mutex_unlock(&lock);
    return fresh;
}

/* Takes a handle out of its list; NULL where it is not there. */
static handle *take(handle **list, const void *wanted) {
    handle *found = NULL;
    pthread_mutex_lock(&lock);
    for (handle **at = list; *at; at = &(*at)->next)
        if (*at == wanted) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

static bool holds(handle *const *list, const void *wanted) {
    pthread_mutex_lock(&lock);
    const handle *at = *list;
    while (at && at != wanted)
        at = at->next;
    pthread_mutex_unlock(&lock);
    return at != NULL;
}

hipError_t emu_check_stream(hipStream_t stream) {
    uintptr_t value = (uintptr_t)stream;
    return !value || value == LEGACY || value == PER_THREAD || holds(&streams, stream) ? hipSuccess : hipErrorInvalidHandle;
}

API hipError_t hipStreamCreateWithPriority(hipStream_t *out, unsigned flags, int priority) {
    TRY(emu_begin());
    if (!out || flags > 1)
        DONE(hipErrorInvalidValue);
    handle *fresh = create(&streams, flags);
    if (!fresh)
        DONE(hipErrorOutOfMemory);
    fresh->priority = priority;
    *out = (hipStream_t)fresh;
    DONE(hipSuccess);
}
API hipError_t hipStreamCreateWithFlags(hipStream_t *out, unsigned flags) {
    return hipStreamCreateWithPriority(out, flags, 0);
}
API hipError_t hipStreamCreate(hipStream_t *out) { return hipStreamCreateWithPriority(out, 0, 0); }
API hipError_t hipStreamDestroy(hipStream_t stream) {
    handle *found = take(&streams, stream);
    free(found);
    DONE(found ? hipSuccess : hipErrorInvalidHandle);
}

static hipError_t finished(hipStream_t stream) {
    TRY(emu_check_stream(stream));
    DONE(emu_begin());
}
API hipError_t hipStreamQuery(hipStream_t stream) { return finished(stream); }
API hipError_t hipStreamQuery_spt(hipStream_t stream) { return finished(stream); }
API hipError_t hipStreamSynchronize(hipStream_t stream) { return finished(stream); }
API hipError_t hipStreamSynchronize_spt(hipStream_t stream) { return finished(stream); }

static handle *own(hipStream_t stream) { return (uintptr_t)stream > PER_THREAD ? (handle *)stream : NULL; }
API hipError_t hipStreamGetFlags(hipStream_t stream, unsigned *out) {
    TRY(emu_check_stream(stream));
    if (!out)
        DONE(hipErrorInvalidValue);
    *out = own(stream) ? own(stream)->flags : 0;
    DONE(hipSuccess);
}
API hipError_t hipStreamGetPriority(hipStream_t stream, int *out) {
    TRY(emu_check_stream(stream));
    if (!out)
        DONE(hipErrorInvalidValue);
    *out = own(stream) ? own(stream)->priority : 0;
    DONE(hipSuccess);
}
API hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t *out) {
    TRY(emu_check_stream(stream));
    if (!out)
        DONE(hipErrorInvalidValue);
    *out = 0;
    DONE(hipSuccess);
}
API int hipGetStreamDeviceId(hipStream_t stream) { return emu_check_stream(stream) == hipSuccess ? 0 : -1; }

API hipError_t hipStreamAddCallback(hipStream_t stream, void (*call)(hipStream_t, hipError_t, void *), void *data,
                                    unsigned flags) {
    TRY(emu_check_stream(stream));
    if (!call || flags)
        DONE(hipErrorInvalidValue);
    call(stream, emu_begin(), data);
    DONE(hipSuccess);
}
API hipError_t hipLaunchHostFunc(hipStream_t stream, void (*call)(void *), void *data) {
    TRY(emu_check_stream(stream));
    if (!call)
        DONE(hipErrorInvalidValue);
    call(data);
    DONE(hipSuccess);
}

/* Nothing is ever being captured. */
API hipError_t hipStreamIsCapturing(hipStream_t stream, int *out) {
    TRY(emu_check_stream(stream));
    if (!out)
        DONE(hipErrorInvalidValue);
    *out = 0;
    DONE(hipSuccess);
}
API hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, int *status, unsigned long long *id, void **graph,
                                          const void ***dependencies, size_t *count) {
    (void)id, (void)graph, (void)dependencies;
    if (count)
        *count = 0;
    return hipStreamIsCapturing(stream, status);
}
API hipError_t hipThreadExchangeStreamCaptureMode(int *mode) { DONE(mode ? hipSuccess : hipErrorInvalidValue); }

API hipError_t hipEventCreateWithFlags(hipEvent_t *out, unsigned flags) {
    TRY(emu_begin());
    if (!out)
        DONE(hipErrorInvalidValue);
    handle *fresh = create(&events, flags);
    *out = (hipEvent_t)fresh;
    DONE(fresh ? hipSuccess : hipErrorOutOfMemory);
}
API hipError_t hipEventCreate(hipEvent_t *out) { return hipEventCreateWithFlags(out, 0); }
API hipError_t hipEventDestroy(hipEvent_t event) {
    handle *found = take(&events, event);
    free(found);
    DONE(found ? hipSuccess : hipErrorInvalidHandle);
}

API hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
    TRY(emu_check_stream(stream));
    if (!holds(&events, event))
        DONE(hipErrorInvalidHandle);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    handle *at = (handle *)event;
    at->milliseconds = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
    at->recorded = true;
    DONE(emu_begin());
}
API hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags) {
    (void)flags;
    return hipEventRecord(event, stream);
}
/* An event that was never recorded has nothing to wait for. */
static hipError_t happened(hipEvent_t event) {
    if (!holds(&events, event))
        DONE(hipErrorInvalidHandle);
    DONE(emu_begin());
}
API hipError_t hipEventQuery(hipEvent_t event) { return happened(event); }
API hipError_t hipEventSynchronize(hipEvent_t event) { return happened(event); }
API hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
    (void)flags;
    TRY(emu_check_stream(stream));
    return happened(event);
}
API hipError_t hipEventElapsedTime(float *out, hipEvent_t first, hipEvent_t last) {
    if (!out)
        DONE(hipErrorInvalidValue);
    if (!holds(&events, first) || !holds(&events, last))
        DONE(hipErrorInvalidHandle);
    const handle *a = (handle *)first, *b = (handle *)last;
    if (!a->recorded || !b->recorded || (a->flags | b->flags) & DISABLE_TIMING)
        DONE(hipErrorInvalidHandle);
    *out = (float)(b->milliseconds - a->milliseconds);
    DONE(hipSuccess);
}
