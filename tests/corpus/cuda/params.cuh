// Parameters read through one register that holds the block's address + 80 (seed 001 section 1.1; RR_PARAM_BASE).
#pragma once

#include "fragments.cuh"

namespace rr {

class ParameterBase {
public:
    __device__ __forceinline__ explicit ParameterBase(u64 start) : base_(start + 80) {}
    __device__ __forceinline__ uint2 extents() const {
        uint2 v;
        asm volatile("ld.param.v2.u32 {%0, %1}, [%2+-80];" : "=r"(v.x), "=r"(v.y) : "l"(base_));
        return v;
    }
    __device__ __forceinline__ ushort2 shift() const {
        ushort2 v;
        asm volatile("ld.param.v2.u16 {%0, %1}, [%2];" : "=h"(v.x), "=h"(v.y) : "l"(base_));
        return v;
    }
    /// The 64-bit parameter at byte `Offset` of the block.
    template <int Offset>
    __device__ __forceinline__ u64 word() const {
        u64 v;
        asm volatile("ld.param.u64 %0, [%1+%2];" : "=l"(v) : "l"(base_), "n"(Offset - 80));
        return v;
    }

private:
    u64 base_;
};

}  // namespace rr
