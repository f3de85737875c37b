"""Probes of PTX's syntax, legal and illegal, with the verdicts of NVIDIA's assembler.

`*.txt` hold the probes, one a line; `verdicts.tsv` what each ptxas said (`python -m tests.ptx.probes.record`). The
suite reads both and needs no ptxas.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
VERDICTS = HERE / "verdicts.tsv"

_DECLARATIONS = """\
.global .align 16 .b32 g[64];
.const .align 16 .b32 tab[4] = {1, 2, 3, 4};
.shared .align 128 .b8 sh[1024];
.global .texref t0;
.global .surfref s0;
.func f0() { ret; }
.func f00() { ret; }
.func g2(.param .b32 a) { ret; }
.func (.param .b32 r) g3(.param .b32 a) { st.param.b32 [r], 0; ret; }
.func (.reg .b32 r) f(.reg .b32 a) { mov.b32 r, a; ret; }
"""
_REGISTERS = """\
.reg .b16 %h<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
.reg .f64 %d<9>; .reg .pred %p<9>; .reg .b128 %q<3>;
ld.param.u64 %rd1, [p];
L1:
"""
_KERNEL = ".visible .entry k(.param .u64 p)"


@dataclass(frozen=True, slots=True)
class Probe:
    """One text. `kind` says where `text` stands in the module: "body" of the kernel, "module" scope, the kernel's
    "header", the initialiser of a 64-bit variable ("value"), or "text" for the whole module.
    """

    file: str
    line: int
    kind: str
    target: str
    version: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def module(self) -> str:
        """The whole module."""
        if self.kind == "text":
            return self.text
        head = f".version {self.version}\n.target {self.target}\n.address_size 64\n{_DECLARATIONS}"
        body = {"body": f"{self.text}\n", "value": ""}.get(self.kind, "")
        header = f" {self.text}" if self.kind == "header" else ""
        module = {"module": f"{self.text}\n", "value": f".global .align 8 .s64 value = {self.text};\n"}
        return f"{head}{module.get(self.kind, '')}{_KERNEL}{header}\n{{\n{_REGISTERS}{body}L2:\nret;\n}}\n"

    @property
    def digest(self) -> str:
        """What ties a verdict to the text it is about."""
        return hashlib.sha256(self.module.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one ptxas said: `message` is its first error, "" where it accepts. `value`: what a "value" probe became."""

    message: str
    value: int | None = None

    @property
    def accepted(self) -> bool:
        return not self.message


def read_probes() -> list[Probe]:
    """Every probe, in the order of the files."""
    return [probe for path in sorted(HERE.glob("*.txt")) for probe in _read(path)]


def _read(path: Path) -> list[Probe]:
    found = []
    kind, target, version = "", "", ""
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.startswith("@ ") and line[2:].split(" ")[0] in ("body", "module", "header", "text", "value"):
            kind, target, version = [*line[2:].split(" "), "sm_90", "9.0"][:3]
        elif line and not (number == 1 and line.startswith("#")):
            text = line.encode("raw_unicode_escape").decode("unicode_escape")
            found.append(Probe(path.name, number, kind, target, version, text))
    return found


def read_verdicts() -> dict[str, dict[str, Verdict]]:
    """Verdicts by digest, then by version of ptxas."""
    lines = VERDICTS.read_text(encoding="utf-8").split("\n")
    versions = lines[0].split("\t")[1:]
    found: dict[str, dict[str, Verdict]] = {}
    for line in lines[1:]:
        digest, *cells = line.split("\t")
        if digest:
            said = [cells[0] if cell == "=" else cell for cell in cells]
            found[digest] = dict(zip(versions, map(_verdict, said), strict=True))
    return found


def _verdict(cell: str) -> Verdict:
    if cell.startswith("+"):
        return Verdict("", int(cell[1:]) if cell[1:] else None)
    return Verdict(cell[2:])


def write_verdicts(versions: list[str], found: dict[str, list[Verdict]]) -> None:
    """Write `verdicts.tsv`: a digest and one cell for each version, "=" for the same as the first."""
    lines = ["\t".join(("probe", *versions))]
    for digest, verdicts in found.items():
        cells = [f"- {v.message}" if v.message else f"+{'' if v.value is None else v.value}" for v in verdicts]
        lines.append("\t".join((digest, cells[0], *("=" if cell == cells[0] else cell for cell in cells[1:]))))
    VERDICTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
