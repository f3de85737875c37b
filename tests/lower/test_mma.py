"""mma lowering: pairing of statements, fragment layouts exhaustively, arithmetic, and a converter that must fail."""

from pathlib import Path

import numpy as np
import pytest

from tests.lower.direct_converter import direct_runtime
from tests.lower.harness import LANES, Words, kernel, run_lowered, run_oracle, without_nans
from zluda_rr.lower import pair_statements
from zluda_rr.lower.mma import zero_registers
from zluda_rr.ptx import linearise

MMA = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"
A, B = "{%a0, %a1, %a2, %a3}", "{{%a{0}, %a{1}}}"
TWO = f"""
    {MMA} {{%d0, %d1}}, {A}, {B.format(4, 5)}, {B.format(8, 9)};
    {MMA} {{%d2, %d3}}, {A}, {B.format(6, 7)}, {B.format(10, 11)};
"""
TWO_ZERO = f"""
    mov.u32 %zero, 0;
    {MMA} {{%d0, %d1}}, {A}, {B.format(4, 5)}, {{%zero, %zero}};
    {MMA} {{%d2, %d3}}, {A}, {B.format(6, 7)}, {{%zero, %zero}};
"""
ONE = f"{MMA} {{%d0, %d1}}, {A}, {B.format(4, 5)}, {B.format(8, 9)}; mov.u32 %d2, 0; mov.u32 %d3, 0;"
KINDS = ("f16x2",) * 4

E4M3_ONE = 0x38
LANE = np.arange(LANES)
G, T = LANE >> 2, LANE & 3


def two_mma(text: str = TWO):  # type: ignore[no-untyped-def]
    return kernel(text, inputs=12, outputs=4, declarations=".reg .b32 %zero;")


def fragment_a(a: np.ndarray) -> np.ndarray:
    """Words [warps, 32, 4] of A bytes [warps, 16 rows, 32 slots], by NVIDIA's layout."""
    out = np.zeros((len(a), LANES, 4, 4), np.uint8)
    for i in range(4):
        for j in range(4):
            out[:, :, i, j] = a[:, G + 8 * (i & 1), 4 * T + j + 16 * (i >> 1)]
    return out.reshape(len(a), LANES, 16).view(np.uint32)


def fragment_b(b: np.ndarray) -> np.ndarray:
    """Words [warps, 32, 2] of B bytes [warps, 32 slots, 8 columns]."""
    out = np.zeros((len(b), LANES, 2, 4), np.uint8)
    for i in range(2):
        for j in range(4):
            out[:, :, i, j] = b[:, 4 * T + j + 16 * i, G]
    return out.reshape(len(b), LANES, 8).view(np.uint32)


def fragment_c(c: np.ndarray) -> np.ndarray:
    """Words [warps, 32, 2] of C halves uint16[warps, 16, 8]."""
    out = np.zeros((len(c), LANES, 2, 2), np.uint16)
    for i in range(2):
        for half in range(2):
            out[:, :, i, half] = c[:, G + 8 * i, 2 * T + half]
    return out.reshape(len(c), LANES, 4).view(np.uint32)


def rows(a: np.ndarray, b: tuple[np.ndarray, np.ndarray], c: tuple[np.ndarray, np.ndarray]) -> Words:
    """Input rows of `two_mma`, one per lane."""
    parts = [fragment_a(a), fragment_b(b[0]), fragment_b(b[1]), fragment_c(c[0]), fragment_c(c[1])]
    return np.concatenate(parts, axis=2).reshape(-1, 12)


def e4m3_values() -> np.ndarray:
    """Value of each e4m3 byte, from the format's definition (NaN codes as NaN)."""
    code = np.arange(256)
    exponent, mantissa = code >> 3 & 15, code & 7
    value = np.where(exponent > 0, (8 + mantissa) * 2.0 ** (exponent - 10), mantissa * 2.0**-9)
    value = np.where((code & 127) == 127, np.nan, value)
    return np.where(code & 128, -value, value)


def distinct_bytes(shape: tuple[int, ...]) -> np.ndarray:
    """Finite e4m3 codes, different in neighbouring elements."""
    finite = np.array([code for code in range(256) if code & 127 != 127], np.uint8)
    return finite[np.arange(np.prod(shape)) * 37 % len(finite)].reshape(shape)


def split_output(out: Words) -> np.ndarray:
    """Halves [warps, 2 mma, 16, 8] of output rows."""
    halves = np.ascontiguousarray(out).view(np.uint16).reshape(-1, LANES, 2, 2, 2)
    result = np.zeros((len(halves), 2, 16, 8), np.uint16)
    for i in range(2):
        for c in range(2):
            result[:, :, G + 8 * i, 2 * T + c] = halves[:, :, :, i, c].transpose(0, 2, 1)
    return result


def test_every_element_of_a() -> None:
    """A is one at (row, slot) and zero elsewhere: row `row` of D is row `slot` of B, the rest zeros."""
    row, slot = (index.ravel() for index in np.meshgrid(np.arange(16), np.arange(32), indexing="ij"))
    warp = np.arange(512)
    a = np.zeros((512, 16, 32), np.uint8)
    a[warp, row, slot] = E4M3_ONE
    b = tuple(np.broadcast_to(tile, (512, 32, 8)) for tile in distinct_bytes((2, 32, 8)))
    zero = np.zeros((512, 16, 8), np.uint16)
    out = split_output(run_lowered(two_mma(TWO_ZERO), rows(a, (b[0], b[1]), (zero, zero)), 4))
    expected = np.zeros((512, 2, 16, 8), np.float16)
    for tile in range(2):
        expected[warp, tile, row] = e4m3_values()[b[tile][warp, slot]]
    assert (out.view(np.float16) == expected).all()


@pytest.mark.parametrize("tile", [0, 1])
def test_every_element_of_b(tile: int) -> None:
    """One n-tile's B is one at (slot, column): column `column` of its D is column `slot` of A."""
    slot, column = (index.ravel() for index in np.meshgrid(np.arange(32), np.arange(8), indexing="ij"))
    warp = np.arange(256)
    b = np.zeros((2, 256, 32, 8), np.uint8)
    b[tile, warp, slot, column] = E4M3_ONE
    a = np.broadcast_to(distinct_bytes((16, 32)), (256, 16, 32))
    zero = np.zeros((256, 16, 8), np.uint16)
    out = split_output(run_lowered(two_mma(), rows(a, (b[0], b[1]), (zero, zero)), 4))
    expected = np.zeros((256, 2, 16, 8), np.float16)
    expected[warp, tile, :, column] = e4m3_values()[a[warp, :, slot]]
    assert (out.view(np.float16) == expected).all()


def test_every_element_of_c_passes_through() -> None:
    """With A = 0, D is C, every f16 value included (NaN as NaN)."""
    halves = np.arange(1 << 16, dtype=np.uint16).reshape(-1, 2, 16, 8)
    warps = len(halves)
    zero_a, zero_b = np.zeros((warps, 16, 32), np.uint8), np.zeros((warps, 32, 8), np.uint8)
    out = split_output(run_lowered(two_mma(), rows(zero_a, (zero_b, zero_b), (halves[:, 0], halves[:, 1])), 4))
    nan = (halves & 0x7FFF) > 0x7C00
    # -0 + +0 is +0.
    expected = np.where(halves == 0x8000, 0, halves)
    assert (out[~nan] == expected[~nan]).all()
    assert ((out[nan] & 0x7FFF) > 0x7C00).all()


def random_tiles(warps: int, seed: int) -> Words:
    """Bytes over the whole finite range, with C near f16's rounding limits."""
    generator = np.random.default_rng(seed)
    finite = distinct_bytes((254,))
    a = generator.choice(finite, (warps, 16, 32))
    b = [generator.choice(finite, (warps, 32, 8)) for _ in range(2)]
    c = [generator.normal(0, 3000, (warps, 16, 8)).astype(np.float16).view(np.uint16) for _ in range(2)]
    return rows(a, (b[0], b[1]), (c[0], c[1]))


@pytest.mark.parametrize("model", ["exact", "sequential", "pairwise"])
@pytest.mark.parametrize("text", [TWO, TWO_ZERO, ONE], ids=["pair", "zero C", "alone"])
def test_random_tiles_equal_the_oracle(text: str, model: str) -> None:
    words = random_tiles(64, 3)
    expected = run_oracle(two_mma(text), words, 4, model=model)
    assert (run_lowered(two_mma(text), words, 4, model=model) == expected).all()


def test_nan_and_infinity_equal_the_oracle() -> None:
    words = random_tiles(32, 4)
    generator = np.random.default_rng(5)
    words[generator.random(words.shape) < 0.01] = 0x7F7FFFFF
    words[:, 8:][generator.random((len(words), 4)) < 0.05] = 0x7C00FC00
    expected = without_nans(run_oracle(two_mma(), words, 4), KINDS)
    assert (without_nans(run_lowered(two_mma(), words, 4), KINDS) == expected).all()


def test_chain_rounds_to_f16_after_each_k_step() -> None:
    """Two steps with C = previous D; sums that f32 would carry over and f16 must round in between."""
    chain = TWO + TWO.replace(B.format(8, 9), "{%d0, %d1}").replace(B.format(10, 11), "{%d2, %d3}")
    words = random_tiles(64, 6)
    expected = run_oracle(two_mma(chain), words, 4)
    assert (run_lowered(two_mma(chain), words, 4) == expected).all()


def test_direct_converter_is_wrong(tmp_path: Path) -> None:
    """NVIDIA's fragments straight into the WMMA operands (the rejected route) must not pass."""
    words = random_tiles(16, 7)
    wrong = run_lowered(two_mma(), words, 4, runtime=direct_runtime(tmp_path))
    assert (wrong != run_oracle(two_mma(), words, 4)).mean() > 0.5


# ------------------------------------------------------------------------------------------------------- pairing


def pairs(text: str) -> dict[int, int]:
    """Pairs as positions among the mma statements of `text`."""
    function = kernel(text, inputs=12, outputs=4, declarations=".reg .b32 %x, %y, %zero;").entries[0]
    body = linearise(function)
    numbers = [s.number for s in body.statements if s.opcode == "mma"]
    found = pair_statements(body.statements)
    return {numbers.index(first): numbers.index(second) for first, second in found.items()}


def step(d: str, a: str, b: str, c: str) -> str:
    return f"{MMA} {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};\n"


LOW, HIGH = "%a0, %a1, %a2, %a3", "%a4, %a5, %a6, %a7"


def test_adjacent_tiles_of_one_a_are_paired() -> None:
    assert pairs(TWO) == {0: 1}


def test_partner_may_stand_further_down_the_run() -> None:
    text = step("%d0, %d1", LOW, "%a8, %a9", "%a10, %a10") + step("%d2, %d3", HIGH, "%a8, %a9", "%a10, %a10")
    text += step("%x, %y", LOW, "%a10, %a11", "%a10, %a10")
    assert pairs(text) == {0: 2}


@pytest.mark.parametrize(
    "second",
    [
        step("%d2, %d3", HIGH, "%a10, %a11", "%a10, %a10"),
        step("%d2, %d3", LOW, "%a10, %a11", "%d0, %d1"),
        step("%d2, %d3", LOW, "%d0, %a11", "%a10, %a10"),
        step("%d0, %d3", LOW, "%a10, %a11", "%a10, %a10"),
        step("%d2, %a8", LOW, "%a10, %a11", "%a10, %a10"),
        "add.s32 %a10, %a10, 1;\n" + step("%d2, %d3", LOW, "%a10, %a11", "%a10, %a10"),
        "@%p " + step("%d2, %d3", LOW, "%a10, %a11", "%a10, %a10"),
    ],
    ids=["other A", "C chain", "B from D", "same D", "writes an operand", "statement between", "guarded"],
)
def test_dependent_tiles_are_not_paired(second: str) -> None:
    prefix = ".reg .pred %p; setp.eq.u32 %p, %a0, 0;\n"
    assert pairs(prefix + step("%d0, %d1", LOW, "%a8, %a9", "%a10, %a10") + second) == {}


def test_zero_registers_have_one_definition_that_is_zero() -> None:
    text = "mov.u32 %zero, 0; mov.u32 %x, 0; mov.u32 %x, 0; mov.u32 %y, 1; mov.u32 %d0, %x; mov.u32 %d1, %y;"
    text += "mov.u32 %d2, %zero; mov.u32 %d3, %zero;"
    function = kernel(text, inputs=1, outputs=4, declarations=".reg .b32 %x, %y, %zero;").entries[0]
    assert zero_registers(linearise(function)) == {"%zero"}
