"""Plausible source lines for every mnemonic, from which the assembler picks the real operand signature.

For each mnemonic all plausible operand shapes of its family are assembled; the first accepted line of each
opcode is its signature, so plainer shapes come first. Nothing here knows any opcode.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

LITERALS = ("0x12345678", "0x1234")
"""Stand for the K operand of fmaak/fmamk, by operand size."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A source line template.

    `shapes` in text order: v/s register or h 16-bit half followed by the width in dwords, or a fixed word.
    """

    mnemonic: str
    shapes: tuple[str, ...]
    suffix: str = ""
    tail: str = ""
    head: str = ""

    def line(self, moved: int | None = None, amount: int = 0, substitute: str | None = None) -> str:
        """Source text; operand `moved` gets its register number raised by `amount` or replaced outright."""
        words = []
        for position, shape in enumerate(self.shapes):
            text = token(shape, 16 * position + (amount if position == moved else 0))
            words.append(substitute if position == moved and substitute is not None else text)
        return f"{self.head}{self.mnemonic}{self.suffix} {', '.join(words)} {self.tail}"


def is_register(shape: str) -> bool:
    """Whether the shape is a register (and no fixed word)."""
    return shape[0] in "vhs" and shape[1:].isdigit()


def token(shape: str, number: int) -> str:
    """Assembler spelling of a register of that shape, or the shape itself when it is a fixed word."""
    if not is_register(shape):
        return shape
    kind, width = shape[0], int(shape[1:])
    if kind == "h":
        return f"v{number}.l"
    return f"{kind}{number}" if width == 1 else f"{kind}[{number}:{number + width - 1}]"


def step_of(shape: str) -> int:
    """log2 of the register step that is legal for the shape (SGPR tuples are aligned)."""
    return {1: 0, 2: 1}.get(int(shape[1:]), 2) if shape[0] == "s" else 0


def _product(mnemonic: str, *choices: Sequence[str], suffix: str = "", tail: str = "") -> Iterator[Candidate]:
    for shapes in itertools.product(*choices):
        yield Candidate(mnemonic, shapes, suffix, tail)


def _is_wide(mnemonic: str) -> bool:
    return any(word in mnemonic for word in ("wmma", "swmmac", "qsad"))


def short_vector(mnemonic: str) -> Iterator[Candidate]:
    """The 32-bit forms: VOP1, VOP2 and VOPC."""
    words = ("h1", "v1", "v2")
    vcc = ("vcc_lo",)
    if mnemonic.endswith(("aak_f32", "amk_f32", "aak_f16", "amk_f16")):
        for literal in LITERALS:
            yield from _product(mnemonic, words, words, (literal,), words)
            yield from _product(mnemonic, words, words, words, (literal,))
        return
    yield Candidate(mnemonic, (), "_e32")
    # The assembler also accepts these without the implied vcc, so they come first.
    yield from _product(mnemonic, words, vcc, words, words, vcc, suffix="_e32")
    yield from _product(mnemonic, words, words, words, vcc, suffix="_e32")
    yield from _product(mnemonic, vcc, words, words, suffix="_e32")
    yield from _product(mnemonic, (*words, "s1"), words, suffix="_e32")
    yield from _product(mnemonic, words, words, words, suffix="_e32")


def long_vector(mnemonic: str) -> Iterator[Candidate]:
    """The 64-bit forms: VOP3, VOP3SD and VOP3P (their assembler suffix is optional where there is no e32)."""
    if _is_wide(mnemonic):
        words: tuple[str, ...] = ("v1", "v2", "v4", "v8")
        yield from _product(mnemonic, words, words, words, words)
        return
    words = ("h1", "v1", "v2", "s1")
    results = (*words, "s2")
    for suffix in ("_e64", ""):
        yield Candidate(mnemonic, (), suffix)
        for count in (1, 2, 3):
            yield from _product(mnemonic, results, *[words] * count, suffix=suffix)
        for count in (2, 3):
            yield from _product(mnemonic, ("v1", "v2"), ("s1",), *[("v1", "v2", "s1")] * count, suffix=suffix)


def dual(mnemonic: str) -> Iterator[Candidate]:
    """Both halves of VOPD: the candidate's operands are those of the probed half."""
    literal = LITERALS[0]
    for shapes in (("v1", "v1"), ("v1", "v1", "v1"), ("v1", "v1", literal, "v1"), ("v1", "v1", "v1", literal)):
        yield Candidate(mnemonic, shapes, tail=":: v_dual_mov_b32 v201, v202")
        yield Candidate(mnemonic, shapes, head="v_dual_mov_b32 v201, v202 :: ")


def scalar(mnemonic: str) -> Iterator[Candidate]:
    """SOP1, SOP2, SOPC, SOPK, SOPP."""
    words, imm = ("s1", "s2"), ("0x0001",)
    yield Candidate(mnemonic, ())
    for count in (1, 2, 3):
        yield from _product(mnemonic, *[words] * count)
    yield Candidate(mnemonic, imm)
    yield from _product(mnemonic, words, imm)
    yield from _product(mnemonic, imm, ("s1", LITERALS[0]))
    yield from _product(mnemonic, ("s1",), ("s1",), (LITERALS[0],), ("s1",))
    yield from _product(mnemonic, ("s1",), ("s1",), ("s1",), (LITERALS[0],))


def scalar_memory(mnemonic: str) -> Iterator[Candidate]:
    """SMEM."""
    yield Candidate(mnemonic, ())
    for base in ("s2", "s4"):
        yield from _product(mnemonic, ("s1", "s2", "s3", "s4", "s8", "s16"), (base,), ("s1",))
        yield Candidate(mnemonic, (base, "0x0", "s1", "0"))
    yield Candidate(mnemonic, ("0x0", "s1", "0"))


_DATA = ("v1", "v2", "v3", "v4", "v8", "v16")


def local_memory(mnemonic: str) -> Iterator[Candidate]:
    """DS."""
    yield Candidate(mnemonic, ())
    for count in (1, 2, 3):
        yield from _product(mnemonic, *[_DATA[:4]] * count)
    yield from _product(mnemonic, ("v1", "v2", "v4"), ("v1",), ("v1", "v2"), ("v1", "v2", "v4", "v8"))


def vector_memory(mnemonic: str) -> Iterator[Candidate]:
    """FLAT, GLOBAL, SCRATCH and BUFFER; the returning form of an atomic comes first: it has all operands."""
    family = mnemonic.split("_")[0]
    returns = "th:TH_ATOMIC_RETURN"
    if family == "buffer":
        for tail in (f"offen {returns}", "offen"):
            yield from _product(mnemonic, _DATA, ("v1",), ("s4",), ("s1",), tail=tail)
        yield Candidate(mnemonic, ())
        return
    address, base = {"flat": ("v2", ()), "global": ("v1", ("s2",)), "scratch": ("v1", ("s1",))}[family]
    bases = [(word,) for word in base]
    if "atomic" in mnemonic:
        yield from _product(mnemonic, _DATA[:4], (address,), _DATA[:4], *bases, tail=returns)
    load = "load" in mnemonic
    yield from _product(mnemonic, *([_DATA, (address,)] if load else [(address,), _DATA]), *bases)
    yield from _product(mnemonic, (address,), *bases)
    yield from _product(mnemonic, _DATA, *bases)
    yield Candidate(mnemonic, ())


def image(mnemonic: str) -> Iterator[Candidate]:
    """VIMAGE and VSAMPLE: one texel coordinate, one channel."""
    sampler = ("s4",) if "sample" in mnemonic else ()
    yield Candidate(mnemonic, ("v1", "v1", "s8", *sampler), tail="dmask:0x1 dim:SQ_RSRC_IMG_1D")


def candidates(mnemonic: str) -> Iterable[Candidate]:
    """All candidate lines of a mnemonic."""
    family = mnemonic.split("_")[0]
    if mnemonic.startswith("v_dual_"):
        return dual(mnemonic)
    if family == "v":
        return itertools.chain(short_vector(mnemonic), long_vector(mnemonic))
    if family == "ds":
        return local_memory(mnemonic)
    if family == "image":
        return image(mnemonic)
    if family != "s":
        return vector_memory(mnemonic)
    is_memory = any(word in mnemonic for word in ("_load_", "_prefetch_", "_dcache_"))
    return scalar_memory(mnemonic) if is_memory else scalar(mnemonic)
