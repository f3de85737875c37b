"""Every comparison there is: vector into masks and EXEC, scalar into SCC, all types, on edge values."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable

import numpy as np
import pytest

from tests.emulate.gfx12.snippet import FULL, execute, machine
from zluda_rr.emulate.gfx12.dispatch import operations
from zluda_rr.emulate.gfx12.machine import SCC_ROW, Machine

MASK = 0xF0FF_1FF7
INTEGER: dict[str, Callable[[int, int], bool]] = {
    "lt": operator.lt,
    "eq": operator.eq,
    "le": operator.le,
    "gt": operator.gt,
    "ne": operator.ne,
    "lg": operator.ne,
    "ge": operator.ge,
}
FLOAT: dict[str, Callable[[float, float], bool]] = {
    "lt": operator.lt,
    "eq": operator.eq,
    "le": operator.le,
    "gt": operator.gt,
    "lg": lambda x, y: x < y or x > y,
    "ge": operator.ge,
    "o": lambda x, y: not math.isnan(x) and not math.isnan(y),
    "u": lambda x, y: math.isnan(x) or math.isnan(y),
    "nge": lambda x, y: not x >= y,
    "nlg": lambda x, y: not (x < y or x > y),
    "ngt": lambda x, y: not x > y,
    "nle": lambda x, y: not x <= y,
    "neq": operator.ne,
    "nlt": lambda x, y: not x < y,
}
NUMBERS = [-math.inf, -2.0, -0.0, 0.0, 0.5, 2.0, math.inf, math.nan]
FORMATS = {"f16": "e", "f32": "f", "f64": "d"}


def integers(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    return [0, 1, 2, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1]


def words_of(kind: str) -> list[int]:
    """Eight values of a type as raw bits."""
    if kind in FORMATS:
        size = struct.calcsize(FORMATS[kind])
        return [int.from_bytes(struct.pack("<" + FORMATS[kind], x), "little") for x in NUMBERS] if size else []
    return integers(int(kind[1:]))


def value_of(kind: str, word: int) -> float:
    """The number behind raw bits."""
    bits = int(kind[1:])
    if kind in FORMATS:
        return float(struct.unpack("<" + FORMATS[kind], word.to_bytes(bits // 8, "little"))[0])
    return word - (1 << bits) if kind[0] == "i" and word >> (bits - 1) else word


def pairs_of(kind: str) -> list[tuple[int, int]]:
    words = words_of(kind)
    return [(x, y) for x in words for y in words]


def vector_machine(kind: str, waves: int) -> Machine:
    """Pairs of values over two waves: x in v[0:1], y in v[2:3]."""
    target = machine(waves)
    pairs = pairs_of(kind)
    for register, index, part in ((0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)):
        values = [pair[index] >> 32 * part & FULL for pair in pairs]
        target.vgpr[register] = np.resize(np.array(values, dtype=np.uint32), (waves, 32))
    return target


def operands(kind: str) -> str:
    if kind.endswith("64"):
        return "v[0:1], v[2:3]"
    return "v0.l, v2.l" if kind.endswith("16") else "v0, v2"


def relations(kind: str) -> dict[str, Callable[[float, float], bool]]:
    chosen = FLOAT if kind in FORMATS else INTEGER
    return {name: f for name, f in chosen.items() if f"v_cmp_{name}_{kind}" in operations()}  # type: ignore[return-value]


def expected_masks(kind: str, relation: Callable[[float, float], bool], execution: int) -> list[int]:
    flags = [relation(value_of(kind, x), value_of(kind, y)) for x, y in pairs_of(kind)]
    return [sum(flag << lane for lane, flag in enumerate(flags[w : w + 32])) & execution for w in (0, 32)]


@pytest.mark.parametrize("kind", [*FORMATS, "i16", "u16", "i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("execution", [FULL, MASK])
def test_vector(kind: str, execution: int) -> None:
    table = relations(kind)
    assert len(table) == (14 if kind in FORMATS else 6)
    target = vector_machine(kind, 2)
    target.sgpr[126] = execution
    execute(target, [f"v_cmp_{name}_{kind} s{10 + i}, {operands(kind)}" for i, name in enumerate(table)])
    for i, (name, relation) in enumerate(table.items()):
        assert target.sgpr[10 + i].tolist() == expected_masks(kind, relation, execution), name


@pytest.mark.parametrize("kind", [*FORMATS, "i16", "u16", "i32", "u32", "i64", "u64"])
def test_vector_into_exec(kind: str) -> None:
    table = relations(kind)
    lines = []
    for i, name in enumerate(table):
        compare = f"v_cmpx_{name}_{kind} {operands(kind)}"
        lines += [f"s_mov_b32 exec_lo, {MASK:#x}", compare, f"s_mov_b32 s{10 + i}, exec_lo"]
    target = execute(vector_machine(kind, 2), lines)
    for i, (name, relation) in enumerate(table.items()):
        assert target.sgpr[10 + i].tolist() == expected_masks(kind, relation, MASK), name


SCALAR = [
    (f"s_cmp_{name}_{kind}", kind, relation)
    for kinds, table in ((("i32", "u32", "u64"), INTEGER), (("f32", "f16"), FLOAT))
    for kind in kinds
    for name, relation in table.items()
    if f"s_cmp_{name}_{kind}" in operations()
]


def test_scalar() -> None:
    assert len(SCALAR) == 6 + 6 + 2 + 14 + 14
    for name, kind, relation in SCALAR:
        pairs = pairs_of(kind)
        target = machine(len(pairs))
        for register, index, part in ((0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)):
            target.sgpr[register] = [pair[index] >> 32 * part & FULL for pair in pairs]
        execute(target, [f"{name} {'s[0:1], s[2:3]' if kind == 'u64' else 's0, s2'}"])
        expected = [relation(value_of(kind, x), value_of(kind, y)) for x, y in pairs]  # type: ignore[arg-type]
        assert [bool(flag) for flag in target.sgpr[SCC_ROW]] == expected, name


@pytest.mark.parametrize(("kind", "exponent", "fraction"), [("f16", 5, 10), ("f32", 8, 23), ("f64", 11, 52)])
def test_classes(kind: str, exponent: int, fraction: int) -> None:
    """One value of each class, its mask bit alone and all the others."""
    top, quiet, sign = ((1 << exponent) - 1) << fraction, 1 << (fraction - 1), 1 << (exponent + fraction)
    one = ((1 << (exponent - 1)) - 1) << fraction
    values = [top | 1, top | quiet, sign | top, sign | one, sign | 1, sign, 0, 1, one, top]
    target = machine(1)
    target.vgpr[0, 0, :10] = [v & FULL for v in values]
    target.vgpr[1, 0, :10] = [v >> 32 for v in values]
    source = {"f16": "v0.l", "f32": "v0", "f64": "v[0:1]"}[kind]
    masks = ["v2.l" if kind == "f16" else "v2", "v3.l" if kind == "f16" else "v3"]
    target.vgpr[2, 0, :10] = [1 << lane for lane in range(10)]
    target.vgpr[3, 0, :10] = [0x3FF ^ 1 << lane for lane in range(10)]
    execute(target, [f"v_cmp_class_{kind} s{i}, {source}, {mask}" for i, mask in enumerate(masks)])
    assert [int(target.sgpr[i, 0]) & 0x3FF for i in range(2)] == [0x3FF, 0]
