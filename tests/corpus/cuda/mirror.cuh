// Token coordinates outside the image.
#pragma once

namespace rr {

/// Reflection at the borders, then a clamp for blocks that lie wholly outside (rr-details.md 22).
__device__ __forceinline__ int mirror(int v, int extent) {
    v = v < 0 ? -v : v;
    v = v >= extent ? 2 * extent - 2 - v : v;
    return max(0, min(v, extent - 1));
}

}  // namespace rr
