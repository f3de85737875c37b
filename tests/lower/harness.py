"""Runs small PTX kernels twice, in the PTX oracle and lowered in the gfx12 emulator."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zluda_rr import lower
from zluda_rr.emulate.gfx12 import load_code_object, run_kernel
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.ptx import Module, parse

Words = NDArray[np.uint32]
LANES = 32

# Values at which instructions behave specially: signs, limits, powers of two, shift amounts, f32 and f16 classes.
SPECIAL = np.array(
    [
        0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000,
        0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000,
        0x00000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x7F7FFFFF, 0x3F800001, 0x4B000000, 0xCF000000, 0x4F000000,
        0x3C003C00, 0xBC003C00, 0x7BFF0400, 0x04000001, 0x83FF0001, 0x7C00FC00, 0x5F005EFF, 0xDF40DF80, 0x80000000,
    ],
    dtype=np.uint32,
)  # fmt: skip


def kernel(statements: str, *, inputs: int, outputs: int, declarations: str = "") -> Module:
    """A kernel `probe(in, out)`: each thread loads %a0.. (b32), runs `statements`, stores %d0.. (b32)."""
    loads = "\n".join(f"    ld.global.u32 %a{i}, [%in+{4 * i}];" for i in range(inputs))
    stores = "\n".join(f"    st.global.u32 [%out+{4 * i}], %d{i};" for i in range(outputs))
    return parse(
        f"""
.version 9.0
.target sm_89
.address_size 64
.visible .entry probe(
    .param .u64 probe_in,
    .param .u64 probe_out
)
{{
    .reg .b64 %in, %out, %base, %offset;
    .reg .b32 %index, %cta, %tid;
    .reg .b32 %a<{max(inputs, 1)}>;
    .reg .b32 %d<{outputs}>;
    {declarations}
    mov.u32 %cta, %ctaid.x;
    mov.u32 %tid, %tid.x;
    mad.lo.s32 %index, %cta, 32, %tid;
    ld.param.u64 %base, [probe_in];
    cvta.to.global.u64 %base, %base;
    mul.wide.u32 %offset, %index, {4 * inputs};
    add.s64 %in, %base, %offset;
    ld.param.u64 %base, [probe_out];
    cvta.to.global.u64 %base, %base;
    mul.wide.u32 %offset, %index, {4 * outputs};
    add.s64 %out, %base, %offset;
{loads}
    {statements}
{stores}
    ret;
}}
""",
        filename="probe.ptx",
    )


def _memory(words: Words, outputs: int, extra: Mapping[str, Words]) -> tuple[AddressSpace, bytes, int]:
    threads = words.shape[0]
    blocks = -(-threads // LANES)
    memory = AddressSpace(capacity=1 << 26)
    padded = np.zeros((blocks * LANES, max(words.shape[1], 1)), np.uint32)
    padded[:threads, : words.shape[1]] = words
    source = memory.allocate("in", padded.nbytes, data=padded.ravel().view(np.uint8), writable=False)
    target = memory.allocate("out", 4 * outputs * blocks * LANES)
    for name, data in extra.items():
        memory.allocate(name, data.nbytes, data=data.ravel().view(np.uint8))
    return memory, np.array([source, target], np.uint64).tobytes(), blocks


def run_lowered(
    module: Module, words: Words, outputs: int, *, model: str = "exact", runtime: Path | None = None
) -> Words:
    """Output words [threads, outputs] of the lowered kernel."""
    memory, params, blocks = _memory(words, outputs, {})
    compiled = lower.compile_module(module, "probe", runtime=runtime)
    code = load_code_object(compiled.code_object)
    run_kernel(code, "probe", (blocks, 1, 1), (LANES, 1, 1), params, memory, model)
    return memory.view("out").view(np.uint32).reshape(-1, outputs)[: words.shape[0]].copy()


def run_oracle(module: Module, words: Words, outputs: int, *, model: str = "exact") -> Words:
    """Output words [threads, outputs] of the PTX oracle."""
    memory, params, blocks = _memory(words, outputs, {})
    run_entry(module, "probe", grid=(blocks, 1, 1), block=(LANES, 1, 1), params=params, memory=memory, model=model)
    return memory.view("out").view(np.uint32).reshape(-1, outputs)[: words.shape[0]].copy()


def without_nans(words: Words, kinds: tuple[str, ...]) -> Words:
    """Every NaN of a column of kind f32 or f16x2 replaced by one pattern: gfx12 keeps a payload where PTX has a fixed
    NaN, and the lowering (like ZLUDA) leaves that as it is."""
    out = words.copy()
    for column, kind in enumerate(kinds):
        if kind == "f32":
            values = out[:, column]
            values[(values & 0x7FFFFFFF) > 0x7F800000] = 0x7FFFFFFF
        elif kind == "f16x2":
            halves = np.ascontiguousarray(out[:, column]).view(np.uint16)
            halves[(halves & 0x7FFF) > 0x7C00] = 0x7FFF
            out[:, column] = halves.view(np.uint32)
    return out


def assert_same(module: Module, words: Words, kinds: tuple[str, ...], *, model: str = "exact") -> None:
    """The lowered kernel and the oracle give the same bytes; `kinds` are the types of the output words (b32, f32,
    f16x2), of which NaNs count as equal."""
    expected = without_nans(run_oracle(module, words, len(kinds), model=model), kinds)
    actual = without_nans(run_lowered(module, words, len(kinds), model=model), kinds)
    different = np.argwhere(expected != actual)
    if len(different):
        row, column = different[0]
        raise AssertionError(
            f"{len(different)} of {expected.size} words differ; first: inputs {[hex(w) for w in words[row]]}, "
            f"word {column}: oracle {expected[row, column]:#010x}, lowered {actual[row, column]:#010x}"
        )


def operands(count: int, *, seed: int = 0, random: int = 2048, pairs: bool = True) -> Words:
    """Input rows: every pair of special values in the first two columns, then random words and random floats."""
    generator = np.random.default_rng(seed)
    if count == 1 or not pairs:
        special = np.repeat(SPECIAL[:, None], count, axis=1)
    else:
        left, right = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
        rest = [generator.choice(SPECIAL, left.size) for _ in range(count - 2)]
        special = np.stack([left, right, *rest], axis=1)
    bits = generator.integers(0, 1 << 32, (random, count), dtype=np.uint32)
    return np.concatenate([special, bits])
