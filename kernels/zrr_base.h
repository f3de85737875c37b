// Attributes, integer types, address spaces and wave-level helpers of the engine. No HIP headers are used.
//
// Notation in every kernel file: lane l; NVIDIA view g = l >> 2, t = l & 3; gfx12 view r = l & 15, h = l >> 4.
// All code assumes wave32 and one wave per workgroup.
#pragma once

#define ZRR_DEVICE static inline __attribute__((device, always_inline))
// A body that rewritten PTX calls by name: scalar parameters only, one 32-bit result.
#define ZRR_BODY extern "C" __attribute__((device, always_inline, used))

typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;

typedef uint32_t uint32x2 __attribute__((ext_vector_type(2)));
typedef uint32_t uint32x4 __attribute__((ext_vector_type(4)));

#define ZRR_LDS __attribute__((address_space(3)))
#define ZRR_GLOBAL __attribute__((address_space(1)))

namespace zrr {

// Address of `bytes` past a shared-memory base given as a 32-bit LDS offset (PTX .shared address).
template <typename T>
ZRR_DEVICE ZRR_LDS T* lds_at(uint32_t base, uint32_t bytes = 0) {
    return reinterpret_cast<ZRR_LDS T*>(base + bytes);
}

// Pointers into global memory are wave-uniform (scalar registers); constants are added to them and a 32-bit per-lane
// offset comes last, so that a load needs no vector address arithmetic.
typedef ZRR_GLOBAL uint8_t* gptr;

ZRR_DEVICE gptr global_pointer(uint64_t address) { return reinterpret_cast<gptr>(address); }

template <typename T>
ZRR_DEVICE ZRR_GLOBAL T* global_at(gptr uniform, uint32_t lane_offset = 0) {
    return reinterpret_cast<ZRR_GLOBAL T*>(uniform + lane_offset);
}

ZRR_DEVICE uint32_t lane_id() { return __builtin_amdgcn_mbcnt_lo(~0u, 0u); }

// Orders shared-memory accesses of the lanes of one wave. The hardware executes a wave's LDS instructions in
// order, so this costs nothing; without it the compiler may move a lane's load above another lane's store.
ZRR_DEVICE void lds_order() {
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront", "local");
    __builtin_amdgcn_wave_barrier();
}

// Value of lane l ^ 16: the other half of the wave.
ZRR_DEVICE uint32_t other_half(uint32_t value) {
    return __builtin_amdgcn_permlanex16(value, value, 0x76543210u, 0xfedcba98u, true, false);
}

}  // namespace zrr
