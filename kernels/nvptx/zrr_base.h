// NVIDIA side of the portability layer, in place of ../zrr_base.h: the same names, so that the bodies' sources compile
// for nvptx64 unchanged. The three headers of this folder stand before those beside it (zluda_rr/hook/nvptx.py).
//
// The bodies keep the gfx12 view of a lane (r = l & 15, h = l >> 4); only a product goes through NVIDIA's fragments.
#pragma once

#define ZRR_DEVICE static inline __attribute__((always_inline))
#define ZRR_BODY extern "C" __attribute__((used))

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

// A PTX .shared address fits 32 bits; shared pointers of this target have 64.
template <typename T>
ZRR_DEVICE ZRR_LDS T* lds_at(uint32_t base, uint32_t bytes = 0) {
    return reinterpret_cast<ZRR_LDS T*>((uint64_t)(base + bytes));
}

typedef ZRR_GLOBAL uint8_t* gptr;

ZRR_DEVICE gptr global_pointer(uint64_t address) { return reinterpret_cast<gptr>(address); }

template <typename T>
ZRR_DEVICE ZRR_GLOBAL T* global_at(gptr uniform, uint32_t lane_offset = 0) {
    return reinterpret_cast<ZRR_GLOBAL T*>(uniform + lane_offset);
}

ZRR_DEVICE uint32_t lane_id() {
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

// Lanes of a warp may run apart here, so ordering costs an instruction, unlike on gfx12.
ZRR_DEVICE void lds_order() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

ZRR_DEVICE uint32_t shuffle(uint32_t value, uint32_t lane) {
    uint32_t result;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(result) : "r"(value), "r"(lane));
    return result;
}

ZRR_DEVICE uint32_t other_half(uint32_t value) { return shuffle(value, lane_id() ^ 16); }

// The gfx12 builtins of the headers above this one.
ZRR_DEVICE float reciprocal(float x) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
ZRR_DEVICE float reciprocal_root(float x) {
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
ZRR_DEVICE uint32_t ballot(bool value) {
    uint32_t result;
    asm volatile("{.reg .pred %%p; setp.ne.u32 %%p, %1, 0; vote.sync.ballot.b32 %0, %%p, 0xffffffff;}"
                 : "=r"(result)
                 : "r"((uint32_t)value));
    return result;
}
// DPP controls: quad_perm 1,0,3,2 and 2,3,0,1, row_xmask:4.
ZRR_DEVICE uint32_t lane_exchange_by(uint32_t value, int control) {
    return shuffle(value, lane_id() ^ (control == 0xB1 ? 1 : control == 0x4E ? 2 : 4));
}

}  // namespace zrr

#define __builtin_amdgcn_rcpf zrr::reciprocal
#define __builtin_amdgcn_rsqf zrr::reciprocal_root
#define __builtin_amdgcn_ballot_w32 zrr::ballot
#define __builtin_amdgcn_sched_barrier(mask) ((void)(mask))
#define __builtin_amdgcn_update_dpp(old, value, control, row, bank, bound) zrr::lane_exchange_by(value, control)
