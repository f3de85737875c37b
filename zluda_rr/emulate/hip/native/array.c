/* Arrays: texels in rows of a pitch that images may have. A card would swizzle them; what a program can see is the same. */
#include "emu.h"

#include <pthread.h>
#include <stdlib.h>

enum { UINT8 = 1, UINT16, UINT32, SINT8 = 8, SINT16, SINT32, HALF = 0x10, FLOAT = 0x20 }; /* hipArray_Format */
enum { PITCH = 128, EDGE = 16384 };
/* Layered, surface, cubemap, gather */
enum { LAYERED = 1, SURFACE = 2, CUBEMAP = 4, GATHER = 8 };
static const uint64_t MAGIC = 0x5A52524152524159; /* ZRRARRAY */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hipArray *all;

size_t emu_format_bytes(int format) {
    switch (format) {
    case UINT8:
    case SINT8:
        return 1;
    case UINT16:
    case SINT16:
    case HALF:
        return 2;
    case UINT32:
    case SINT32:
    case FLOAT:
        return 4;
    default:
        return 0;
    }
}

hipError_t emu_array(hipArray_t array) {
    pthread_mutex_lock(&lock);
    struct hipArray *at = all;
    while (at && at != array)
        at = at->next;
    pthread_mutex_unlock(&lock);
    return at && array ? hipSuccess : hipErrorInvalidHandle;
}

static size_t rows(const struct hipArray *a) { return a->height ? a->height : 1; }

emu_box emu_array_box(hipArray_t a, size_t x, size_t y, size_t z) {
    size_t slice = a->pitch * rows(a);
    return (emu_box){(char *)a->data + z * slice + y * a->pitch + x, a->pitch, slice};
}

bool emu_array_holds(hipArray_t a, size_t x, size_t y, size_t z, size_t width, size_t height, size_t depth) {
    size_t bytes = a->width * a->texel, slices = a->depth ? a->depth : 1;
    return x <= bytes && width <= bytes - x && y <= rows(a) && height <= rows(a) - y && z <= slices && depth <= slices - z;
}

static hipError_t create(hipArray_t *out, size_t width, size_t height, size_t depth, int format, unsigned channels,
                         unsigned flags) {
    TRY(emu_begin());
    size_t texel = emu_format_bytes(format) * channels;
    if (!out || !texel || (channels != 1 && channels != 2 && channels != 4) || !width || (depth && !height))
        DONE(hipErrorInvalidValue);
    if (width > EDGE || height > EDGE || depth > EDGE)
        DONE(hipErrorInvalidValue);
    if (flags & ~(unsigned)SURFACE)
        UNSUPPORTED("a layered, cubemap or gather array");
    struct hipArray *a = calloc(1, sizeof *a);
    if (!a)
        DONE(hipErrorOutOfMemory);
    *a = (struct hipArray){.magic = MAGIC, .width = width, .height = height, .depth = depth, .texel = texel,
                           .format = format, .channels = channels, .flags = flags,
                           .pitch = (width * texel + PITCH - 1) / PITCH * PITCH};
    size_t bytes = a->pitch * rows(a) * (depth ? depth : 1);
    hipError_t status = emu_allocate(bytes, EMU_GRANULE, EMU_INTERNAL, 0, &a->data);
    if (status != hipSuccess) {
        free(a);
        DONE(status);
    }
    pthread_mutex_lock(&lock);
    a->next = all;
    all = a;
    pthread_mutex_unlock(&lock);
    *out = a;
    DONE(hipSuccess);
}

static hipError_t destroy(hipArray_t array) {
    struct hipArray *found = NULL;
    pthread_mutex_lock(&lock);
    for (struct hipArray **at = &all; *at; at = &(*at)->next)
        if (*at == array) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!found)
        return hipErrorInvalidHandle;
    emu_release(found->data, true);
    free(found);
    return hipSuccess;
}

void emu_release_arrays(void) {
    while (all)
        destroy(all);
}

API hipError_t hipArrayCreate(hipArray_t *out, const HIP_ARRAY_DESCRIPTOR *d) {
    if (!d)
        DONE(hipErrorInvalidValue);
    return create(out, d->Width, d->Height, 0, d->Format, d->NumChannels, 0);
}
API hipError_t hipArray3DCreate(hipArray_t *out, const HIP_ARRAY3D_DESCRIPTOR *d) {
    if (!d)
        DONE(hipErrorInvalidValue);
    return create(out, d->Width, d->Height, d->Depth, d->Format, d->NumChannels, d->Flags);
}
API hipError_t hipArrayDestroy(hipArray_t array) { DONE(destroy(array)); }
API hipError_t hipFreeArray(hipArray_t array) { DONE(destroy(array)); }

API hipError_t hipArray3DGetDescriptor(HIP_ARRAY3D_DESCRIPTOR *out, hipArray_t a) {
    TRY(emu_array(a));
    if (!out)
        DONE(hipErrorInvalidValue);
    *out = (HIP_ARRAY3D_DESCRIPTOR){a->width, a->height, a->depth, a->format, a->channels, a->flags};
    DONE(hipSuccess);
}
API hipError_t hipArrayGetDescriptor(HIP_ARRAY_DESCRIPTOR *out, hipArray_t a) {
    TRY(emu_array(a));
    if (!out)
        DONE(hipErrorInvalidValue);
    *out = (HIP_ARRAY_DESCRIPTOR){a->width, a->height, a->format, a->channels};
    DONE(hipSuccess);
}

/* Format and channels of a channel description; 0 where it is none that exists. */
static int format_of(const hipChannelFormatDesc *d, unsigned *channels) {
    const int bits[4] = {d->x, d->y, d->z, d->w};
    *channels = 0;
    while (*channels < 4 && bits[*channels])
        ++*channels;
    for (unsigned i = 0; i < 4; i++)
        if (bits[i] != (i < *channels ? d->x : 0))
            return 0;
    switch (d->x << 2 | d->f) {
    case 8 << 2 | 0:
        return SINT8;
    case 16 << 2 | 0:
        return SINT16;
    case 32 << 2 | 0:
        return SINT32;
    case 8 << 2 | 1:
        return UINT8;
    case 16 << 2 | 1:
        return UINT16;
    case 32 << 2 | 1:
        return UINT32;
    case 16 << 2 | 2:
        return HALF;
    case 32 << 2 | 2:
        return FLOAT;
    default:
        return 0;
    }
}

API hipError_t hipMalloc3DArray(hipArray_t *out, const hipChannelFormatDesc *desc, hipExtent extent, unsigned flags) {
    unsigned channels;
    if (!desc)
        DONE(hipErrorInvalidValue);
    int format = format_of(desc, &channels);
    if (!format)
        DONE(hipErrorInvalidChannelDescriptor);
    return create(out, extent.width, extent.height, extent.depth, format, channels, flags);
}
API hipError_t hipMallocArray(hipArray_t *out, const hipChannelFormatDesc *desc, size_t width, size_t height,
                              unsigned flags) {
    return hipMalloc3DArray(out, desc, (hipExtent){width, height, 0}, flags);
}

API hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, int kind) {
    return (hipChannelFormatDesc){x, y, z, w, kind};
}
static hipChannelFormatDesc description(const struct hipArray *a) {
    int bits = 8 * (int)emu_format_bytes(a->format);
    int kind = a->format >= HALF ? 2 : a->format < SINT8;
    return (hipChannelFormatDesc){bits, a->channels > 1 ? bits : 0, a->channels > 2 ? bits : 0,
                                  a->channels > 3 ? bits : 0, kind};
}
API hipError_t hipGetChannelDesc(hipChannelFormatDesc *out, hipArray_t a) {
    TRY(emu_array(a));
    if (!out)
        DONE(hipErrorInvalidValue);
    *out = description(a);
    DONE(hipSuccess);
}
API hipError_t hipArrayGetInfo(hipChannelFormatDesc *desc, hipExtent *extent, unsigned *flags, hipArray_t a) {
    TRY(emu_array(a));
    if (desc)
        *desc = description(a);
    if (extent)
        *extent = (hipExtent){a->width, a->height, a->depth};
    if (flags)
        *flags = a->flags;
    DONE(hipSuccess);
}
