"""PTX types as numpy dtypes, and the parts of an instruction name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.ptx.problem import Unsupported

Array = NDArray[Any]
Mask = NDArray[np.bool_]

_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}

DTYPES = MappingProxyType(
    {
        **{f"{kind}{bits}": np.dtype(dtype) for kind in "bu" for bits, dtype in _UNSIGNED.items()},
        **{f"s{bits}": np.dtype(dtype) for bits, dtype in _SIGNED.items()},
        # Halves travel as bits; numerics.f16 does their arithmetic.
        "f16": np.dtype(np.uint16),
        "f16x2": np.dtype(np.uint32),
        "e4m3x2": np.dtype(np.uint16),
        "f32": np.dtype(np.float32),
        "f64": np.dtype(np.float64),
        "pred": np.dtype(np.bool_),
    }
)
"""The dtype in which an operand of a type is handed to an operation."""

STORAGE = MappingProxyType(
    {
        name: np.dtype(np.bool_) if name == "pred" else np.dtype(_UNSIGNED[8 * dtype.itemsize])
        for name, dtype in DTYPES.items()
    }
)
"""The dtype of a register declared with a type: its bits, unsigned."""

INTEGERS = frozenset(name for name in DTYPES if name[0] in "us")
BITS = frozenset(name for name in DTYPES if name[0] == "b")
FLOATS = frozenset({"f16", "f16x2", "f32", "f64"})


@dataclass(frozen=True, slots=True)
class Spec:
    """An instruction's name, taken apart: `types` are the type modifiers in order, `flags` all others."""

    opcode: str
    modifiers: tuple[str, ...]
    types: tuple[str, ...]
    flags: frozenset[str]

    @property
    def type(self) -> str:
        """The only type; Unsupported when there is none or more than one."""
        if len(self.types) != 1:
            raise Unsupported("one type is expected")
        return self.types[0]

    @property
    def vector(self) -> int:
        """4 for `.v4`, 1 for a scalar."""
        return next((int(flag[1:]) for flag in self.flags if flag in ("v2", "v4", "v8")), 1)

    def allow(self, flags: Collection[str], types: Collection[str] | None = None) -> None:
        """Unsupported for any flag or type that is not listed: no modifier is ever ignored silently."""
        for flag in sorted(self.flags.difference(flags)):
            raise Unsupported(f".{flag} has no semantics here")
        if types is not None:
            for name in self.types:
                if name not in types:
                    raise Unsupported(f".{name} has no semantics here")


def spec_of(opcode: str, modifiers: tuple[str, ...]) -> Spec:
    """Sort the parts of an instruction's name into types and flags."""
    types = tuple(part for part in modifiers if part in DTYPES)
    flags = frozenset(part for part in modifiers if part not in DTYPES)
    return Spec(opcode, modifiers, types, flags)
