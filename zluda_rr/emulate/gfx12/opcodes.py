"""The gfx1201 opcode table: opcodes.tsv parsed into operand signatures.

The data file is written by tests/tools/gfx12_opcodes from LLVM's assembler; its header describes the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from zluda_rr.emulate.gfx12.inst import Encoding, Type

__all__ = ["OperandSpec", "Signature", "opcode_table"]


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """One operand position. `type` is None for raw immediates."""

    field: str
    width: int
    type: Type | None
    written: bool = False
    optional: bool = False
    half: bool = False
    scalar: bool = False
    """A vector destination field that holds an SGPR code."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One opcode: mnemonic and operands in assembler order."""

    mnemonic: str
    encoding: Encoding
    operands: tuple[OperandSpec, ...]


def _operand(word: str) -> OperandSpec:
    field, width, kind = word.lstrip(">?").split(":")
    return OperandSpec(
        field=field,
        width=int(width.lstrip("hs")),
        type=None if kind == "raw" else Type(kind),
        written=word.startswith(">"),
        optional="?" in word,
        half=width.startswith("h"),
        scalar=width.startswith("s"),
    )


@cache
def opcode_table() -> Mapping[tuple[str, int], Signature]:
    """Signatures by (table, opcode); tables are the encodings, with VOPDX and VOPDY for the halves of VOPD."""
    text = Path(__file__).with_name("opcodes.tsv").read_text(encoding="utf-8")
    table = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, opcode, mnemonic, operands = line.split("\t")
        encoding = Encoding.VOPD if name.startswith("VOPD") else Encoding(name)
        specs = tuple(_operand(word) for word in operands.split())
        table[name, int(opcode, 16)] = Signature(mnemonic, encoding, specs)
    return table
