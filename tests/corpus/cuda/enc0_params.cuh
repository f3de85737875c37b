// Parameter block of enc0 and two ways to read it: plainly, or all through one register base (RR_PARAM_BASE).
#pragma once

#include "params.cuh"

/// 1032 bytes, by value; the reserved bytes belong to uses of the original that the documents do not describe.
struct DldnEngineFusedSwinEnc0ParamsStruct {
    unsigned int ex, ey;                              // +0 extents in tokens
    unsigned char reserved_8[32];
    const unsigned char* weights;                     // +40 prepared weight image, 54,560 bytes
    unsigned int* arena;                              // +48 32*ex*ey bytes
    unsigned int* merged;                             // +56 two planes of 32*(ex/2)*(ey/2) bytes
    unsigned char reserved_64[16];
    unsigned short shift_x, shift_y;                  // +80 block origin shift, even
    unsigned char reserved_84[28];
    cudaSurfaceObject_t remainder, gated, half_size;  // +112, +120, +128 outputs, four f16 per token
    unsigned char reserved_136[168];
    cudaSurfaceObject_t input;                        // +304 four f16 per token
    unsigned char reserved_312[720];
};
static_assert(sizeof(DldnEngineFusedSwinEnc0ParamsStruct) == 1032, "parameter block");

namespace rr {

#ifndef RR_PARAM_BASE

class Enc0Params {
public:
    __device__ __forceinline__ explicit Enc0Params(const DldnEngineFusedSwinEnc0ParamsStruct& p) : p_(p) {}
    __device__ __forceinline__ uint2 extents() const { return make_uint2(p_.ex, p_.ey); }
    __device__ __forceinline__ const u8* weights() const { return p_.weights; }
    __device__ __forceinline__ u32* arena() const { return p_.arena; }
    __device__ __forceinline__ u32* merged() const { return p_.merged; }
    __device__ __forceinline__ ushort2 shift() const { return make_ushort2(p_.shift_x, p_.shift_y); }
    __device__ __forceinline__ cudaSurfaceObject_t remainder() const { return p_.remainder; }
    __device__ __forceinline__ cudaSurfaceObject_t gated() const { return p_.gated; }
    __device__ __forceinline__ cudaSurfaceObject_t half_size() const { return p_.half_size; }
    __device__ __forceinline__ cudaSurfaceObject_t input() const { return p_.input; }

private:
    const DldnEngineFusedSwinEnc0ParamsStruct& p_;
};

#else

class Enc0Params {
public:
    __device__ __forceinline__ explicit Enc0Params(const DldnEngineFusedSwinEnc0ParamsStruct&) : base_(start()) {}
    __device__ __forceinline__ uint2 extents() const { return base_.extents(); }
    __device__ __forceinline__ ushort2 shift() const { return base_.shift(); }
    __device__ __forceinline__ const u8* weights() const { return reinterpret_cast<const u8*>(base_.word<40>()); }
    __device__ __forceinline__ u32* arena() const { return reinterpret_cast<u32*>(base_.word<48>()); }
    __device__ __forceinline__ u32* merged() const { return reinterpret_cast<u32*>(base_.word<56>()); }
    __device__ __forceinline__ cudaSurfaceObject_t remainder() const { return base_.word<112>(); }
    __device__ __forceinline__ cudaSurfaceObject_t gated() const { return base_.word<120>(); }
    __device__ __forceinline__ cudaSurfaceObject_t half_size() const { return base_.word<128>(); }
    __device__ __forceinline__ cudaSurfaceObject_t input() const { return base_.word<304>(); }

private:
    static __device__ __forceinline__ u64 start() {
        u64 address;
        asm volatile("mov.b64 %0, _Z33cuda_dldn_engine_swin_enc0_kernel35DldnEngineFusedSwinEnc0ParamsStruct_param_0;"
                     : "=l"(address));
        return address;
    }
    ParameterBase base_;
};

#endif

}  // namespace rr
