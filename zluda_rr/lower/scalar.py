"""Scalar types of PTX and their LLVM counterparts.

Registers are kept as integers of their width; floating-point instructions bitcast at their edges, which LLVM
removes. A `pred` is an i1.
"""

from __future__ import annotations

import re

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
BITS = ("b16", "b32", "b64")
FLOATS = {"f16": "half", "f16x2": "<2 x half>", "f32": "float", "f64": "double"}
_WIDTHS = {"pred": 1, "f16x2": 32, "bf16x2": 32, "e4m3x2": 16, "e5m2x2": 16, "bf16": 16}
_NUMBERED = re.compile(r"(?:[bsu](8|16|32|64)|f(16|32|64))$")


def is_scalar(name: str) -> bool:
    """Whether a modifier is a type."""
    return name in _WIDTHS or bool(_NUMBERED.match(name))


def width(name: str) -> int:
    """Bits of a type: 32 for `f16x2`."""
    numbered = _NUMBERED.match(name)
    return _WIDTHS[name] if numbered is None else int(numbered[1] or numbered[2])


def is_float(name: str) -> bool:
    """Whether LLVM has the type as a floating-point type."""
    return name in FLOATS


def is_signed(name: str) -> bool:
    """Whether the type is a signed integer."""
    return name.startswith("s")


def llvm_type(name: str) -> str:
    """`float` for f32, `<2 x half>` for f16x2, else the integer of the width."""
    return FLOATS.get(name) or f"i{width(name)}"
