/* Texture and surface objects: handles are addresses of hardware descriptors in device memory, which the helper encodes.
 * Two dimensions, or one as an image of one row. */
#include "emu.h"

#include <string.h>

enum { OBJECT_BYTES = 64, TEXTURE = 1, SURFACE = 2 };

/* What the helper makes descriptors from (images.py); all fields little-endian. */
typedef struct {
    uint64_t base;
    uint32_t width, height, pitch, format, channels, normalized_float, address_x, address_y, linear,
        normalized_coordinates, srgb, unused;
} image_request;

static hipError_t create(void **out, image_request *request, unsigned tag) {
    unsigned char words[OBJECT_BYTES];
    void *place;
    emu_part part = {request, sizeof *request};
    TRY(emu_ask(EMU_IMAGE, &part, 1, words, sizeof words, NULL));
    TRY(emu_allocate(OBJECT_BYTES, EMU_GRANULE, EMU_INTERNAL, tag, &place));
    memcpy(emu_bytes(place, OBJECT_BYTES), words, OBJECT_BYTES);
    *out = place;
    DONE(hipSuccess);
}

static hipError_t destroy(void *object, unsigned tag) {
    emu_block block;
    TRY(emu_begin());
    if (!object)
        DONE(hipSuccess);
    if (!emu_find(object, &block) || block.kind != EMU_INTERNAL || block.flags != tag)
        DONE(hipErrorInvalidValue);
    DONE(emu_release(object, true));
}

static hipError_t of_array(hipArray_t array, image_request *request) {
    hipError_t status = emu_array(array);
    if (status != hipSuccess)
        return status;
    if (array->depth) {
        static bool said;
        return emu_unsupported("an image object of three dimensions", &said);
    }
    request->base = (uint64_t)(uintptr_t)array->data;
    request->width = (uint32_t)array->width;
    request->height = (uint32_t)(array->height ? array->height : 1);
    request->pitch = (uint32_t)array->pitch;
    request->format = (uint32_t)array->format;
    request->channels = array->channels;
    return hipSuccess;
}

static hipError_t of_pitched(void *pointer, size_t width, size_t height, size_t pitch, int format, unsigned channels,
                             image_request *request) {
    size_t texel = emu_format_bytes(format) * channels;
    if (!texel || !width || !height || width > 16384 || height > 16384 || pitch < width * texel || pitch % 128 ||
        !emu_bytes(pointer, pitch * (height - 1) + width * texel) || (uintptr_t)pointer % EMU_GRANULE)
        return hipErrorInvalidValue;
    request->base = (uint64_t)(uintptr_t)pointer;
    request->width = (uint32_t)width;
    request->height = (uint32_t)height;
    request->pitch = (uint32_t)pitch;
    request->format = (uint32_t)format;
    request->channels = channels;
    return hipSuccess;
}

/* hipArray_Format of a channel: kind 0 signed, 1 unsigned, 2 float. */
static int format_of(const hipChannelFormatDesc *d) {
    int step = d->x == 8 ? 0 : d->x == 16 ? 1 : 2;
    return d->f == 2 ? (d->x == 16 ? 0x10 : 0x20) : (d->f ? 0x01 : 0x08) + step;
}

static unsigned channels_of(const hipChannelFormatDesc *d) {
    return 1u + !!d->y + !!d->z + !!d->w;
}

static hipError_t resource(const hipResourceDesc *d, image_request *request) {
    static bool said;
    switch (d->resType) {
    case hipResourceTypeArray:
        return of_array(d->res.array.array, request);
    case hipResourceTypePitch2D:
        return of_pitched(d->res.pitch2D.devPtr, d->res.pitch2D.width, d->res.pitch2D.height,
                          d->res.pitch2D.pitchInBytes, format_of(&d->res.pitch2D.desc),
                          channels_of(&d->res.pitch2D.desc), request);
    default:
        return emu_unsupported("a texture of linear or mipmapped memory", &said);
    }
}

API hipError_t hipCreateTextureObject(hipTextureObject_t *out, const hipResourceDesc *source, const hipTextureDesc *how,
                                      const void *view) {
    TRY(emu_begin());
    if (!out || !source || !how)
        DONE(hipErrorInvalidValue);
    if (view)
        UNSUPPORTED("a resource view of a texture");
    image_request request = {.address_x = (uint32_t)how->addressMode[0],
                             .address_y = (uint32_t)how->addressMode[1],
                             .linear = (uint32_t)how->filterMode,
                             .normalized_coordinates = how->normalizedCoords != 0,
                             .normalized_float = how->readMode == 1,
                             .srgb = how->sRGB != 0};
    TRY(resource(source, &request));
    return create(out, &request, TEXTURE);
}
API hipError_t hipDestroyTextureObject(hipTextureObject_t object) { return destroy(object, TEXTURE); }

API hipError_t hipTexObjectCreate(hipTextureObject_t *out, const HIP_RESOURCE_DESC *source, const HIP_TEXTURE_DESC *how,
                                  const void *view) {
    TRY(emu_begin());
    if (!out || !source || !how || source->flags)
        DONE(hipErrorInvalidValue);
    if (view)
        UNSUPPORTED("a resource view of a texture");
    image_request request = {.address_x = (uint32_t)how->addressMode[0],
                             .address_y = (uint32_t)how->addressMode[1],
                             .linear = (uint32_t)how->filterMode,
                             .normalized_coordinates = (how->flags & HIP_TRSF_NORMALIZED_COORDINATES) != 0,
                             .normalized_float = !(how->flags & HIP_TRSF_READ_AS_INTEGER),
                             .srgb = (how->flags & HIP_TRSF_SRGB) != 0};
    if (source->resType == hipResourceTypePitch2D)
        TRY(of_pitched(source->res.pitch2D.devPtr, source->res.pitch2D.width, source->res.pitch2D.height,
                       source->res.pitch2D.pitchInBytes, source->res.pitch2D.format, source->res.pitch2D.numChannels,
                       &request));
    else if (source->resType == hipResourceTypeArray)
        TRY(of_array(source->res.array.hArray, &request));
    else
        UNSUPPORTED("a texture of linear or mipmapped memory");
    return create(out, &request, TEXTURE);
}
API hipError_t hipTexObjectDestroy(hipTextureObject_t object) { return destroy(object, TEXTURE); }

API hipError_t hipCreateSurfaceObject(hipSurfaceObject_t *out, const hipResourceDesc *source) {
    TRY(emu_begin());
    if (!out || !source || source->resType != hipResourceTypeArray)
        DONE(hipErrorInvalidValue);
    image_request request = {.address_x = 1, .address_y = 1};
    TRY(of_array(source->res.array.array, &request));
    return create(out, &request, SURFACE);
}
API hipError_t hipDestroySurfaceObject(hipSurfaceObject_t object) { return destroy(object, SURFACE); }
