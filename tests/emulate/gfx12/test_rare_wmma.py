"""WMMA of f16, bf16 and integers against matrix products of values placed by the documented layout."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.emulate.gfx12.snippet import execute, machine
from zluda_rr.emulate.gfx12.inst import Special
from zluda_rr.emulate.gfx12.machine import Machine

Matrix = NDArray[np.float64]
A, B, C, D = 0, 8, 16, 24


def fragment(codes: NDArray[np.unsignedinteger], bits: int) -> NDArray[np.uint32]:
    """Registers `[count, 32]` of a 16 x K matrix: lane l holds row l & 15, columns n*(l >> 4) to n*(l >> 4) + n - 1."""
    per_lane = codes.shape[1] // 2
    registers = np.zeros((per_lane * bits // 32, 32), dtype=np.uint32)
    for lane in range(32):
        for i in range(per_lane):
            code = int(codes[lane & 15, per_lane * (lane >> 4) + i])
            registers[i * bits // 32, lane] |= np.uint32(code << (i * bits % 32))
    return registers


def element(target: Machine, row: int, column: int, bits: int) -> int:
    """D[row, column]: lane of the column and of the row's half, 8 rows per lane."""
    lane, i = column + 16 * (row >> 3), row & 7
    word = int(target.vgpr[D + i * bits // 32, 0, lane])
    return word >> (i * bits % 32) & ((1 << bits) - 1)


def place_c(target: Machine, codes: NDArray[np.unsignedinteger], bits: int) -> None:
    target.vgpr[C : C + 8, 0] = 0
    for row in range(16):
        for column in range(16):
            lane, i = column + 16 * (row >> 3), row & 7
            target.vgpr[C + i * bits // 32, 0, lane] |= np.uint32(int(codes[row, column]) << (i * bits % 32))


def multiply(
    line: str, a: NDArray[np.uint32], b: NDArray[np.uint32], c: NDArray[np.unsignedinteger], bits: int
) -> Machine:
    target = machine()
    for first, registers in ((A, a), (B, b)):
        target.vgpr[first : first + len(registers), 0] = registers
    place_c(target, c, bits)
    target.sgpr[Special.EXEC_LO] = 0x0000_0001  # ignored
    return execute(target, [line])


def halves(rng: np.random.Generator, dtype: type, shape: tuple[int, int]) -> tuple[NDArray[np.uint16], Matrix]:
    values = (rng.integers(-16, 17, shape) / 4).astype(dtype)
    return values.view(np.uint16), values.astype(np.float64)


@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize("model", ["exact", "sequential", "pairwise"])
def test_float_products(name: str, dtype: type, model: str) -> None:
    """Sums that are exact in f32, so that every model agrees."""
    rng = np.random.default_rng(1)
    (a, av), (b, bv) = halves(rng, dtype, (16, 16)), halves(rng, dtype, (16, 16))
    cv = rng.integers(-100, 100, (16, 16)).astype(np.float32)
    line = f"v_wmma_f32_16x16x16_{name} v[{D}:{D + 7}], v[{A}:{A + 3}], v[{B}:{B + 3}], v[{C}:{C + 7}]"
    target = machine()
    target.model = model
    target.vgpr[A : A + 4, 0], target.vgpr[B : B + 4, 0] = fragment(a, 16), fragment(b, 16)
    place_c(target, cv.view(np.uint32), 32)
    execute(target, [line])
    expected = (av @ bv.T + cv).astype(np.float32).view(np.uint32)
    assert [[element(target, r, c, 32) for c in range(16)] for r in range(16)] == expected.tolist()


@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_16_bit_results_are_rounded_once(name: str, dtype: type) -> None:
    rng = np.random.default_rng(2)
    (a, av), (b, bv) = halves(rng, dtype, (16, 16)), halves(rng, dtype, (16, 16))
    c, cv = halves(rng, dtype, (16, 16))
    line = f"v_wmma_{name}_16x16x16_{name} v[{D}:{D + 3}], v[{A}:{A + 3}], v[{B}:{B + 3}], v[{C}:{C + 3}]"
    target = multiply(line, fragment(a, 16), fragment(b, 16), c, 16)
    expected = (av @ bv.T + cv).astype(dtype).view(np.uint16)
    assert [[element(target, r, q, 16) for q in range(16)] for r in range(16)] == expected.tolist()


def test_negation_by_parity_of_k_and_of_c() -> None:
    rng = np.random.default_rng(3)
    (a, av), (b, bv) = halves(rng, np.float16, (16, 16)), halves(rng, np.float16, (16, 16))
    cv = rng.integers(-9, 9, (16, 16)).astype(np.float32)
    line = (f"v_wmma_f32_16x16x16_f16 v[{D}:{D + 7}], v[{A}:{A + 3}], v[{B}:{B + 3}], v[{C}:{C + 7}] "
            "neg_lo:[1,0,1] neg_hi:[0,1,0]")  # fmt: skip
    target = multiply(line, fragment(a, 16), fragment(b, 16), cv.view(np.uint32), 32)
    odd = np.arange(16) & 1
    expected = (np.where(odd, av, -av) @ np.where(odd, -bv, bv).T - cv).astype(np.float32).view(np.uint32)
    got = np.array([[element(target, r, q, 32) for q in range(16)] for r in range(16)], dtype=np.uint32)
    assert got.view(np.float32).tolist() == expected.view(np.float32).tolist()


@pytest.mark.parametrize(("bits", "depth"), [(8, 16), (4, 16), (4, 32)])
@pytest.mark.parametrize("signs", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_integer_products(bits: int, depth: int, signs: tuple[int, int]) -> None:
    rng = np.random.default_rng(bits + depth)
    codes = [rng.integers(0, 1 << bits, (16, depth)).astype(np.uint32) for _ in range(2)]
    values = [
        (x.astype(np.int64) ^ (1 << bits - 1)) - (1 << bits - 1) if s else x.astype(np.int64)
        for x, s in zip(codes, signs, strict=True)
    ]
    c = rng.integers(0, 1 << 32, (16, 16)).astype(np.uint32)
    count = depth // 2 * bits // 32
    registers = [f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}" for first in (A, B)]
    line = (f"v_wmma_i32_16x16x{depth}_iu{bits} v[{D}:{D + 7}], {registers[0]}, {registers[1]}, v[{C}:{C + 7}] "
            f"neg_lo:[{signs[0]},{signs[1]},0]")  # fmt: skip
    exact = values[0] @ values[1].T + c.view(np.int32).astype(np.int64)
    plain = multiply(line, *(fragment(x, bits) for x in codes), c, 32)
    clamped = multiply(f"{line} clamp", *(fragment(x, bits) for x in codes), c, 32)
    for row in range(16):
        for column in range(16):
            value = int(exact[row, column])
            assert element(plain, row, column, 32) == value & 0xFFFF_FFFF
            assert element(clamped, row, column, 32) == max(-(2**31), min(2**31 - 1, value)) & 0xFFFF_FFFF


def test_inline_constant_as_c() -> None:
    a = fragment(np.full((16, 16), 0x3C00, dtype=np.uint16), 16)
    for constant, value in (("0", 16.0), ("1.0", 17.0)):
        line = f"v_wmma_f32_16x16x16_f16 v[{D}:{D + 7}], v[{A}:{A + 3}], v[{B}:{B + 3}], {constant}"
        target = multiply(line, a, a, np.zeros((16, 16), np.uint32), 32)
        assert (target.vgpr[D : D + 8, 0].view(np.float32) == value).all()
