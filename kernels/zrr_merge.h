// Patch merge and the stores of planes.
#pragma once

#include "zrr_direct.h"

namespace zrr {

// Value of lane l ^ 1.
ZRR_DEVICE uint32_t neighbour(uint32_t value) {
    return (uint32_t)__builtin_amdgcn_update_dpp((int)value, (int)value, 0xB1 /* quad_perm 1,0,3,2 */, 0xf, 0xf, true);
}

// 2 x 2 merge of an 8 x 8 patch (token 8y + x in token tiles 0..3) into one tile of 16 merged tokens.
//
// A lane's token of tile 2s + u is x = 2(r >> 2) + (r & 1), y = 4s + 2((r >> 1) & 1) + u, so dy is the tile parity and
// dx the lowest lane bit. Merged token of lane r: X = r >> 2, Y = 2(r & 1) + ((r >> 1) & 1): the lane's dx becomes
// its tile pair s. step[2 dy + dx] is the operand of that k step; half of it comes from the neighbouring lane.
ZRR_DEVICE void merge_patch(const Operand (&token)[4], const Lane& lane, Operand (&step)[4]) {
    const bool odd = lane.r & 1;
#pragma unroll
    for (int dy = 0; dy < 2; ++dy)
#pragma unroll
        for (int w = 0; w < 2; ++w)
#pragma unroll
            for (int d = 0; d < 2; ++d) {
                const uint32_t upper = token[dy].half[w].word[d], lower = token[2 + dy].half[w].word[d];
                // Both exchanges run in all lanes; only then is one selected.
                const uint32_t from_lower = neighbour(lower), from_upper = neighbour(upper);
                step[2 * dy].half[w].word[d] = odd ? from_lower : upper;
                step[2 * dy + 1].half[w].word[d] = odd ? lower : from_upper;
            }
}

ZRR_DEVICE uint32_t merged_x(uint32_t r) { return r >> 2; }
ZRR_DEVICE uint32_t merged_y(uint32_t r) { return 2 * (r & 1) + ((r >> 1) & 1); }

// Store a token's 32 slots (two 8-byte pieces per lane) at `token` of a plane of 32-byte tokens.
ZRR_DEVICE void store_token(gptr plane, uint32_t token, const Operand& bytes, const Lane& lane) {
#pragma unroll
    for (int w = 0; w < 2; ++w)
        *global_at<uint32x2>(plane + 16 * w, 32 * token + lane.columns) =
            uint32x2{bytes.half[w].word[0], bytes.half[w].word[1]};
}

}  // namespace zrr
