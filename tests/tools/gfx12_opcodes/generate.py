"""Write zluda_rr/emulate/gfx12/opcodes.tsv from LLVM's assembler: `python -m tests.tools.gfx12_opcodes.generate`.

The mnemonics come from the string table of the assembler itself, so the list is complete by construction;
those of other GPUs are rejected by `-target-cpu gfx1201` and drop out. The opcode is read from the bytes, the
field of an operand from the bits that change with its register number, its type from how literals assemble.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.tools.gfx12_opcodes.assembler import Assembled, assemble_chunks
from tests.tools.gfx12_opcodes.probe import LITERALS, Candidate, candidates, is_register, step_of
from zluda_rr.emulate.gfx12.encodings import FORMATS, format_of
from zluda_rr.emulate.gfx12.inst import Encoding

TARGET = Path(__file__).parents[3] / "zluda_rr" / "emulate" / "gfx12" / "opcodes.tsv"
HEADER = """\
# gfx1201 opcodes, written by tests/tools/gfx12_opcodes/generate.py from LLVM's assembler; do not edit.
# table<tab>opcode<tab>mnemonic<tab>operands in assembler order, each [>][?]field:dwords:type
# (> written; ? present only with th bit 0, for atomics that return). Dwords are h1 for a 16-bit half
# of a register, and have an s in front where a vector destination field holds an SGPR.
"""
_MNEMONIC = rb"[\x04-\x40](?=(?:v_|s_|ds_|global_|flat_|scratch_|buffer_)[a-z0-9_]+)"
_IMAGE = ("image_load", "image_sample", "image_sample_lz", "image_store")
"""Of the image instructions those that compute kernels are compiled to."""
_VOPD_FIELDS = {"VOPDX": ("vdstx", "srcx0", "vsrcx1"), "VOPDY": ("vdsty", "srcy0", "vsrcy1")}
_WRITTEN = frozenset({"vdst", "sdst", "vdstx", "vdsty"})


def mnemonics() -> list[str]:
    """Every length-prefixed AMDGPU mnemonic in the binary of the assembler (all GPUs), sorted.

    Mnemonics that only the second half of VOPD has are in no such table, but in the operand texts.
    """
    import ziglang

    binary = (Path(next(iter(ziglang.__path__))) / "zig").read_bytes()
    found = {word.decode() for word in re.findall(rb":: (v_dual_[a-z0-9_]+) ", binary)}
    for match in re.finditer(_MNEMONIC, binary):
        start = match.start() + 1
        word = binary[start : start + binary[match.start()]]
        if re.fullmatch(rb"[a-z0-9_]+", word):
            found.add(word.decode())
    found.update(name for name in _IMAGE if bytes([len(name)]) + name.encode() in binary)
    return sorted(found)


@dataclass(frozen=True, slots=True)
class Row:
    """One opcode of one table with the first candidate that LLVM accepted for it."""

    table: str
    opcode: int
    mnemonic: str
    candidate: Candidate


def _bits(code: bytes, field: tuple[int, int]) -> int:
    return int.from_bytes(code, "little") >> field[0] & ((1 << field[1]) - 1)


def classify(candidate: Candidate, got: Assembled) -> Row | None:
    """Table, opcode and canonical mnemonic of an accepted candidate; None for graphics-only formats."""
    encoding = format_of(int.from_bytes(got.code[:4], "little"))
    if encoding is None:
        return None
    table = str(encoding)
    opcode = _bits(got.code, FORMATS[encoding].opcode)
    name = got.text.split()[0]
    if encoding is Encoding.VOPD:
        table = "VOPDY" if candidate.head else "VOPDX"
        name = got.text.split("::")[1].split()[0] if candidate.head else name
        opcode = _bits(got.code, FORMATS[encoding].fields["opy"]) if candidate.head else opcode
    return Row(table, opcode, re.sub(r"_e(32|64)$", "", name), candidate)


def first_accepted(names: Iterable[str]) -> list[Row]:
    """The plainest accepted candidate of every opcode, sorted by table and opcode."""
    tried = [candidate for name in names for candidate in candidates(name)]
    rows: dict[tuple[str, int], Row] = {}
    for candidate, got in zip(tried, assemble_chunks(c.line() for c in tried), strict=True):
        row = classify(candidate, got) if got is not None else None
        if row is not None:
            rows.setdefault((row.table, row.opcode), row)
    return [rows[key] for key in sorted(rows)]


_PROBES = ("0.3", "0x3800")
_LINES_PER_OPERAND = 1 + len(_PROBES)


def operand_probes(row: Row) -> list[str]:
    """For each operand: its register moved, then the constants that tell its type."""
    lines = []
    for position, shape in enumerate(row.candidate.shapes):
        step = 1 << step_of(shape) if is_register(shape) else 0
        lines.append(row.candidate.line(position, step))
        lines += [row.candidate.line(position, 0, text) for text in _PROBES]
    return lines


def _literal(got: Assembled | None) -> int | None:
    return int.from_bytes(got.code[-4:], "little") if got and len(got.code) in (8, 12) else None


def type_of(row: Row, shape: str, fraction: Assembled | None, half: Assembled | None) -> str:
    """Operand type from how 0.3 and 0x3800 (f16 bits of 0.5) assemble in its place."""
    width = int(shape[1:])
    value = _literal(fraction)
    is_float = half is not None and "0.5" in half.text
    if value == 0x3E9A:
        return "bf16" if shape[0] == "h" else "pk_bf16"
    if shape[0] == "h":
        return "f16" if is_float else "b16"
    if value == 0x34CD:
        return "pk_f16" if row.table.startswith(("VOP3P", "VOP2", "VOPD")) else "f16"
    if width > 2:
        return "wide"
    return "f64" if value == 0x3FD33333 else ("b64" if width == 2 else "b32")


def fixed_operand(row: Row, position: int, shape: str) -> str:
    """Operands that are words instead of registers: immediates, K literals and the implied vcc."""
    if shape == "vcc_lo":
        return (">" if position < 2 and len(row.candidate.shapes) - position > 1 else "") + "vcc:1:b32"
    if shape in LITERALS:
        return "literal:1:" + ("f16" if row.mnemonic.endswith("f16") else "b32")
    if row.table == "SMEM":
        return "ioffset:1:raw" if shape == "0x0" else "length:1:raw"
    if row.table == "SOP1":
        return "ssrc0:1:raw" if "sendmsg" in row.mnemonic else "ssrc0:1:b32"
    return "simm16:1:raw"


def field_of(row: Row, base: Assembled, moved: Assembled | None, shape: str) -> str:
    """The field whose bits changed when the register number rose by one step."""
    assert moved is not None, (row, base)
    changed = int.from_bytes(base.code, "little") ^ int.from_bytes(moved.code, "little")
    lowest = (changed & -changed).bit_length() - 1 - step_of(shape)
    encoding = Encoding(row.table)
    if encoding is Encoding.SMEM and lowest < 0:
        return "sbase"
    names = dict(FORMATS[encoding].fields)
    if encoding is Encoding.VOP3:
        names["sdst"] = FORMATS[Encoding.VOP3SD].fields["sdst"]
    hits = [name for name, (low, _) in names.items() if low == lowest and name not in ("abs", "simm16", "neg_hi")]
    assert len(hits) == 1, (row, lowest, hits)
    return hits[0]


def _is_written(row: Row, field: str) -> bool:
    if row.table in ("VIMAGE", "VSAMPLE"):
        return field == "vdata" and "store" not in row.mnemonic
    if row.table == "BUFFER":
        return field == "vdst" and "store" not in row.mnemonic
    return field in _WRITTEN and "setreg" not in row.mnemonic and "prefetch" not in row.mnemonic


def operands_of(row: Row, base: Assembled, probes: Sequence[Assembled | None]) -> list[str]:
    """The operand column of one row."""
    words = []
    vopd = list(_VOPD_FIELDS.get(row.table, ()))
    for position, shape in enumerate(row.candidate.shapes):
        if not is_register(shape):
            words.append(fixed_operand(row, position, shape))
            continue
        moved, fraction, half = probes[_LINES_PER_OPERAND * position : _LINES_PER_OPERAND * (position + 1)]
        field = vopd.pop(0) if vopd else field_of(row, base, moved, shape)
        written = _is_written(row, field)
        mark = (">" if written else "") + ("?" if written and "RETURN" in row.candidate.tail else "")
        width = shape if shape[0] == "h" or (field == "vdst" and shape[0] == "s") else shape[1:]
        words.append(f"{mark}{field}:{width}:{type_of(row, shape, fraction, half)}")
    return words


def table_text(names: Iterable[str]) -> str:
    """The whole data file for the given mnemonics."""
    rows = first_accepted(names)
    lines: list[str] = []
    for row in rows:
        lines.append(row.candidate.line())
        lines += operand_probes(row)
    answers = assemble_chunks(lines)
    text, start = [HEADER], 0
    for row in rows:
        count = 1 + _LINES_PER_OPERAND * len(row.candidate.shapes)
        base, *probes = answers[start : start + count]
        start += count
        assert base is not None, row
        operands = operands_of(row, base, probes)
        table = "VOP3SD" if row.table == "VOP3" and any("sdst" in word for word in operands) else row.table
        text.append(f"{table}\t{row.opcode:#x}\t{row.mnemonic}\t{' '.join(operands)}\n")
    return "".join(text)


def main() -> None:
    TARGET.write_text(table_text(mnemonics()))
    print(f"wrote {TARGET.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
