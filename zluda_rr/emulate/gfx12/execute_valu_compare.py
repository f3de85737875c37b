"""Vector comparisons into lane masks (`v_cmp_*`) and into EXEC (`v_cmpx_*`).

Lanes that are not enabled give 0. Source: AMD "RDNA4" Instruction Set Architecture, chapter 16, VOPC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.bind import Binder
from zluda_rr.emulate.gfx12.table import Build, per_lane

Array = NDArray[Any]
Relation = Callable[[Array, Array], Array]

_INTEGER: dict[str, Relation] = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ne": np.not_equal,
    "ge": np.greater_equal,
}


def _not(relation: Relation) -> Relation:
    return lambda x, y: ~relation(x, y)


def _ordered(x: Array, y: Array) -> Array:
    return np.asarray((x == x) & (y == y))


def _less_or_greater(x: Array, y: Array) -> Array:
    return (x < y) | (x > y)


FLOAT_RELATIONS: dict[str, Relation] = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "lg": _less_or_greater,
    "ge": np.greater_equal,
    "o": _ordered,
    "u": _not(_ordered),
    "nge": _not(np.greater_equal),
    "nlg": _not(_less_or_greater),
    "ngt": _not(np.greater),
    "nle": _not(np.less_equal),
    "neq": np.not_equal,
    "nlt": _not(np.less),
}

_FIELDS = {"f": (8, 23), "h": (5, 10), "d": (11, 52)}


def classify(bits: Array, exponent_bits: int, fraction_bits: int) -> Array:
    """Class number of each float, as the bit in v_cmp_class's mask: 0 sNaN, 1 qNaN, 2 -inf, 3 -normal,
    4 -denormal, 5 -0, 6 +0, 7 +denormal, 8 +normal, 9 +inf."""
    kind = bits.dtype.type
    fraction = bits & kind((1 << fraction_bits) - 1)
    exponent = (bits >> kind(fraction_bits)) & kind((1 << exponent_bits) - 1)
    negative = (bits >> kind(exponent_bits + fraction_bits)) != 0
    top = exponent == (1 << exponent_bits) - 1
    magnitude = np.where(top, 9, np.where(exponent != 0, 8, np.where(fraction != 0, 7, 6)))
    signed = np.where(negative, 11 - magnitude, magnitude)
    quiet = (fraction >> kind(fraction_bits - 1)) != 0
    return np.where(top & (fraction != 0), np.where(quiet, 1, 0), signed)


def _class(letter: str) -> Build:
    raw = {"f": "u", "h": "w", "d": "q"}[letter]
    exponent, fraction = _FIELDS[letter]

    def formula(bits: Array, mask: Array) -> Array:
        return np.asarray((np.right_shift(mask.astype(np.int64), classify(bits, exponent, fraction)) & 1) != 0)

    def build(b: Binder) -> None:
        op = b.inst.src[0]
        bits = b.vector(0, raw)
        top = bits.dtype.type(1 << (exponent + fraction))
        if op.abs:
            bits = b.derive(lambda v: v & ~top, bits)
        if op.neg:
            bits = b.derive(lambda v: v ^ top, bits)
        b.emit("b", formula, bits, b.vector(1, "w" if letter == "h" else "u"))

    return build


def operations() -> dict[str, Build]:
    """Builders by mnemonic."""
    table: dict[str, Build] = {}
    for name, letter in (("f16", "h"), ("f32", "f"), ("f64", "d")):
        for relation, formula in FLOAT_RELATIONS.items():
            table[f"{relation}_{name}"] = per_lane(letter * 2, "b", formula)
        table[f"class_{name}"] = _class(letter)
    integers = (("i16", "s"), ("u16", "w"), ("i32", "i"), ("u32", "u"), ("i64", "l"), ("u64", "q"))
    for name, letter in integers:
        for relation, formula in _INTEGER.items():
            table[f"{relation}_{name}"] = per_lane(letter * 2, "b", formula)
    return {f"v_{prefix}_{name}": build for prefix in ("cmp", "cmpx") for name, build in table.items()}
