"""Every half through ZLUDA's e4m3x2 conversions: `python -m tests.runtime.zluda_conversions [ZOC]`.

Without ZOC the compiler is the one `ZLUDA_RR_ZOC` names. Exit code 1 where a byte differs from `numerics.e4m3`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zluda_rr.emulate.gfx12 import load_code_object, run_kernel
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.errors import UserError
from zluda_rr.numerics.e4m3 import encode_half_pairs
from zluda_rr.runtime import compile_with_zoc, zoc_path

HALVES = 1 << 16
THREADS = 256
MULTIPLIER, ADDEND = 40503, 12345  # odd: x -> x * MULTIPLIER + ADDEND is a permutation of the halves

_BODY = """
.visible .entry conversions(.param .u64 inputs, .param .u64 outputs)
{
\t.reg .b64 %rd<8>;
\t.reg .b32 %r<8>;
\t.reg .b16 %rs<4>;
\tld.param.u64 %rd1, [inputs];
\tld.param.u64 %rd2, [outputs];
\tmov.u32 %r1, %tid.x;
\tmov.u32 %r2, %ctaid.x;
\tmad.lo.s32 %r3, %r2, 256, %r1;
\tmul.wide.u32 %rd3, %r3, 4;
\tadd.s64 %rd4, %rd1, %rd3;
\tadd.s64 %rd5, %rd2, %rd3;
\tld.global.u32 %r4, [%rd4];
\tcvt.rn.satfinite.e4m3x2.f16x2 %rs1, %r4;
\tcvt.rn.satfinite.relu.e4m3x2.f16x2 %rs2, %r4;
\tmov.b32 %r5, {%rs1, %rs2};
\tst.global.u32 [%rd5], %r5;
\tret;
}
"""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One wrong pair of bytes."""

    relu: bool
    halves: int
    expected: int
    actual: int

    def __str__(self) -> str:
        form = "cvt.rn.satfinite.relu" if self.relu else "cvt.rn.satfinite"
        return f"{form}.e4m3x2.f16x2 of {self.halves:#010x}: expected {self.expected:#06x}, got {self.actual:#06x}"


def module_text() -> str:
    """The module under test."""
    return ".version 8.1\n.target sm_89\n.address_size 64\n" + _BODY


def packed_inputs() -> np.ndarray:
    """65,536 words: word i holds half i below, and above it a permutation of the halves."""
    low = np.arange(HALVES, dtype=np.uint32)
    return low | (low * np.uint32(MULTIPLIER) + np.uint32(ADDEND)) % np.uint32(HALVES) << np.uint32(16)


def mismatches(zoc: Path) -> list[Mismatch]:
    """All differences, plain ones first."""
    compiled = compile_with_zoc(zoc, module_text(), "conversions")
    memory = AddressSpace(1 << 20)
    packed = packed_inputs()
    source = memory.allocate("inputs", packed.nbytes, data=packed.view(np.uint8), writable=False)
    target = memory.allocate("outputs", packed.nbytes)
    kernarg = np.array([source, target], np.uint64).tobytes()
    code, grid = load_code_object(compiled.code_object), (HALVES // THREADS, 1, 1)
    run_kernel(code, "conversions", grid, (THREADS, 1, 1), kernarg, memory, "exact")
    got = memory.view("outputs").view(np.uint16).reshape(-1, 2)
    found = []
    for column, relu in enumerate((False, True)):
        expected, actual = encode_half_pairs(packed, relu=relu), got[:, column]
        for index in np.flatnonzero(expected != actual):
            found.append(Mismatch(relu, int(packed[index]), int(expected[index]), int(actual[index])))
    return found


def main() -> None:
    try:
        zoc = zoc_path(sys.argv[1] if len(sys.argv) > 1 else None)
        wrong = mismatches(zoc)
    except UserError as error:
        sys.exit(f"zluda_conversions: {error}")
    print(f"{2 * HALVES} words compared, {len(wrong)} differ")
    for mismatch in wrong[:20]:
        print(mismatch)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
