"""Deliberate faults in the engine's kernels, as text patches that tests apply to a copy of the sources.

Each one must turn a comparison red; the kernels themselves hold no test switches.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from zluda_rr.resources import resource_dir


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in a file of `kernels/`; `old` occurs there exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutation:
    """A named fault: what it breaks and the edits that make it."""

    name: str
    breaks: str
    edits: tuple[Edit, ...]

    def apply(self, destination: Path) -> Path:
        """Copy `kernels/` to `destination`, patched; returns `destination`. AssertionError if a patch is stale."""
        shutil.copytree(resource_dir("kernels"), destination, dirs_exist_ok=True)
        for edit in self.edits:
            path = destination / edit.file
            text = path.read_text()
            count = text.count(edit.old)
            assert count == 1, f"{self.name}: the patched text occurs {count} times in {edit.file}"
            path.write_text(text.replace(edit.old, edit.new))
        return destination


_STAGE_WORD = """            *lds_at<uint32_t>(image + kStride * g + 4 * t,
                              kStride * (16 * m + 8 * (i & 1)) + 16 * (i >> 1)) = frag[4 * m + i];
"""
_STAGE_LOGICAL = """            for (int j = 0; j < 2; ++j)
                *lds_at<uint16_t>(image + kStride * g + 2 * t,
                                  kStride * (16 * m + 8 * (i & 1)) + 8 * (i >> 1) + 16 * j) =
                    (uint16_t)(frag[4 * m + i] >> (16 * j));
"""
_SLOT_WORD = """            *lds_at<uint32_t>(slots + 16 * g + 4 * t,
                              (kRows * (v & 1) + 16 * tile + 8 * (v >> 1)) * 16) = words[4 * tile + v];
"""
_SLOT_LOGICAL = """            for (int j = 0; j < 2; ++j)
                *lds_at<uint16_t>(slots + 16 * g + 2 * t + 8 * (v & 1),
                                  (kRows * j + 16 * tile + 8 * (v >> 1)) * 16) =
                    (uint16_t)(words[4 * tile + v] >> (16 * j));
"""

PHASE_MUTATIONS = (
    Mutation(
        "logical_k",
        "K grouped by logical k 0..15 / 16..31 instead of slots: other f32 sums inside a k32 step",
        (
            Edit("zrr_staged.h", _STAGE_WORD, _STAGE_LOGICAL),
            Edit("zrr_staged.h", _SLOT_WORD, _SLOT_LOGICAL),
        ),
    ),
    Mutation(
        "operand_halves_swapped",
        "the two halves of the weight operand exchanged between the half-waves",
        (
            Edit(
                "zrr_staged.h",
                "(slots + 16 * index + 8 * (lane_id() >> 4))",
                "(slots + 16 * index + 8 * ((lane_id() >> 4) ^ 1))",
            ),
        ),
    ),
    Mutation(
        "rounding_skipped",
        "no rounding to f16 after a k32 step: the extra f32 bits are cut off",
        (
            Edit(
                "zrr_f16.h",
                "round_pair(float low, float high) { return round_scaled(low, high, 1.0f); }",
                "round_pair(float low, float high) {\n"
                "    return __builtin_bit_cast(half2, __builtin_amdgcn_cvt_pkrtz(low, high));\n}",
            ),
        ),
    ),
    Mutation(
        "direct_converter",
        "NVIDIA fragments handed to the WMMAs as they are, without the exchange through the image",
        (
            Edit(
                "swin_phase.hip",
                "const kop a0 = kop_image(slots, column), a1 = kop_image(slots, column + 32);",
                "const kop a0 = {{b[4 * u], b[4 * u + 2]}}, a1 = {{b[4 * u + 1], b[4 * u + 3]}};",
            ),
            Edit(
                "swin_phase.hip",
                "const uint32_t column = tile_column<RowOrder::direct>(lane_id() & 15, u);\n",
                "\n",
            ),
            Edit(
                "swin_phase.hip",
                "const kop b0 = swin_operand<32>(scratch, 16 * m, 0), b1 = swin_operand<32>(scratch, 16 * m, 1);",
                "const kop b0 = {{a[4 * m], a[4 * m + 1]}}, b1 = {{a[4 * m + 2], a[4 * m + 3]}};",
            ),
        ),
    ),
)

DIRECT_MUTATIONS = (
    Mutation(
        "row_order",
        "weight rows in column order instead of slot order",
        (
            Edit(
                "zrr_direct.h",
                "64 * (2 * (r >> 2) + (r & 1)) + 32 * h + 512 * ((r >> 1) & 1)",
                "64 * (r & 7) + 32 * h + 512 * (r >> 3)",
            ),
        ),
    ),
    Mutation(
        "no_half_wave_exchange",
        "row sums without the other half-wave's columns",
        (Edit("zrr_norm.h", "    sum = sum + as_half2(other_half(as_bits(sum)));\n", ""),),
    ),
    Mutation(
        "bias_slot",
        "score bias from the neighbouring 16-byte slot",
        (Edit("zrr_attention.h", "2 * pair) + 16 * load;", "2 * pair) + 16 * (load ^ 1);"),),
    ),
    Mutation(
        "addition_order",
        "f16 row sums: VGPR bit 2 before the tile parity",
        (
            Edit(
                "zrr_norm.h",
                "(partial[0][0] + partial[1][0]) + (partial[0][1] + partial[1][1])",
                "(partial[0][0] + partial[0][1]) + (partial[1][0] + partial[1][1])",
            ),
        ),
    ),
    Mutation(
        "step_rounding_skipped",
        "no rounding to f16 between the key steps of P.V",
        (Edit("zrr_attention.h", "if (s + 1 < kSteps) acc[u][c] = round_in_f32(acc[u][c]);", ""),),
    ),
    Mutation(
        "no_guard",
        "arena stores of tokens left and right of the extents",
        (Edit("swin_enc0.hip", "if ((uint32_t)x < ex && (uint32_t)y < ey)", "if ((uint32_t)y < ey)"),),
    ),
)

# Conditions under which the direct body leaves clamps out: each fault shows only on data at that condition's edge.
BOUND_MUTATIONS = (
    Mutation(
        "epsilon",
        "the norm's epsilon halved: wrong once a row's squares sum to about as little",
        (Edit("zrr_norm.h", "0x1p-13f", "0x1p-14f"),),
    ),
    Mutation(
        "gain_bound",
        "gains up to 250 taken for harmless to the heads",
        (Edit("swin_enc0.hip", "beyond(gain, 32.0f)", "beyond(gain, 250.0f)"),),
    ),
    Mutation(
        "byte_left_out",
        "one byte in four of the weights not looked at",
        (Edit("zrr_direct.h", "0x40404040u", "0x40404000u"),),
    ),
    Mutation(
        "half_of_the_columns",
        "every other column of seeds and tables not looked at",
        (Edit("zrr_direct.h", "!(sum.x + sum.y <= (_Float16)1024.0f)", "!(sum.x <= (_Float16)1024.0f)"),),
    ),
    Mutation(
        "branch_gain_bound",
        "gains up to 64 taken for harmless to the branches",
        (Edit("swin_enc0.hip", "beyond(gain, 16.0f)", "beyond(gain, 64.0f)"),),
    ),
    Mutation(
        "residual_not_looked_at",
        "a residual at f16's end taken for harmless to the branches",
        (Edit("swin_enc0.hip", "none(large_values | large_table)", "none((large_values & false) | large_table)"),),
    ),
)

FAULT_MUTATIONS = (
    Mutation(
        "no_merged_guard",
        "merged planes stored for tokens outside of the extents",
        (Edit("swin_enc0.hip", "if (inside) store_token(planes", "if (inside || true) store_token(planes"),),
    ),
    Mutation(
        "no_end",
        "a loop that never ends behind phase 20",
        (
            Edit(
                "swin_enc0.hip",
                "    merge_and_store(w, planes, ex,",
                '    while (ex) asm volatile("");\n    merge_and_store(w, planes, ex,',
            ),
        ),
    ),
    Mutation(
        "trap",
        "a trap behind phase 20",
        (
            Edit(
                "swin_enc0.hip",
                "    merge_and_store(w, planes, ex,",
                "    __builtin_trap();\n    merge_and_store(w, planes, ex,",
            ),
        ),
    ),
    Mutation(
        "shared_beyond",
        "the result stored behind the lent bytes",
        (
            Edit(
                "swin_enc0.hip",
                "const uint32_t own = scratch + 32 * tile_token(lane.r, 0) + 16 * lane.h;",
                "const uint32_t own = scratch + 65536 + 16 * lane.h;",
            ),
        ),
    ),
    Mutation(
        "weights_beyond",
        "seeds of the last phase read from a megabyte away",
        (Edit("swin_enc0.hip", "w + Enc0::kLastSeeds", "w + (1 << 20) - 64"),),
    ),
)

MUTATIONS: dict[str, Mutation] = {
    mutation.name: mutation for mutation in (*PHASE_MUTATIONS, *DIRECT_MUTATIONS, *BOUND_MUTATIONS, *FAULT_MUTATIONS)
}
