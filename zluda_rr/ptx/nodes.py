"""Syntax tree of a PTX module.

Every node is frozen, slotted and owns its text: `trivia` is what stands before it (spaces, line ends, comments),
`text` its own characters. Printing a module is concatenating trivia and text in order, so a parsed module prints byte
for byte. Analyses keep their results in side tables (`linearise`, `ControlFlow`, `DefUse`, `Liveness`), never in the
tree.

Lines and columns count from 1.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from .isa import Form
from .problem import PtxError

_NAMES = re.compile(r"(?<![\w$.])[A-Za-z_$%][\w$]*", re.ASCII)
# The state spaces and what may stand before them, functions and their other names.
_DECLARING = frozenset(
    [
        ".global",
        ".shared",
        ".const",
        ".local",
        ".param",
        ".tex",
        ".reg",
        ".visible",
        ".extern",
        ".weak",
        ".common",
        ".align",
        ".attribute",
        ".entry",
        ".func",
        ".alias",
    ]
)


def names_in(text: str) -> list[str]:
    """Everything in a text that can be a name, comments and all; no words behind a dot."""
    return _NAMES.findall(text)


class Span(NamedTuple):
    """Place of a node's own text (without its trivia): first line and column, last line."""

    line: int
    column: int
    end_line: int


# ------------------------------------------------------------------------------------------------------------- operands


@dataclass(frozen=True, slots=True)
class Register:
    """`%r12`, `%tid.x`, or a name declared by `.reg` in some scope (`low@3` once resolved)."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant as written.

    `value` is the signed integer for kind "int" and the raw IEEE bits for "f32" (32 bits) and "f64" (64 bits).
    """

    text: str
    kind: Literal["int", "f32", "f64"]
    value: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """Variable, function, parameter or label name; `offset` is the byte offset of `name+8`."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """`{%r1, %r2}`; an element may be the sink `_` (Symbol("_"))."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`; base is None for an absolute address. Offset in bytes."""

    base: Register | Symbol | None
    offset: int


@dataclass(frozen=True, slots=True)
class Pair:
    """`%r1|%p2`: two results of one instruction."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """`!%p1`."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Negative:
    """`-%r1`: an operand of vmad whose sign is changed."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Selected:
    """`%r1.h10`: a part of a register, as the video instructions read and write it; `selector` has no dot."""

    base: Register | Symbol
    selector: str


@dataclass(frozen=True, slots=True)
class Coordinates:
    """`[handle, {x, y}]` of tex, suld, sust; `sampler` for the three-part form `[texture, sampler, {x, y}]`.

    One coordinate may stand without its braces.
    """

    handle: Register | Symbol
    elements: tuple[Operand, ...]
    sampler: Register | Symbol | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A parenthesised list of a call."""

    elements: tuple[Operand, ...]


Operand = Register | Immediate | Symbol | Vector | Address | Pair | Negated | Negative | Selected | Coordinates | Group


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p1` or `@!%p1`."""

    register: str
    negated: bool


# ----------------------------------------------------------------------------------------------------------- body items


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One instruction up to and including its `;`.

    `shape` holds what all instructions of the same spelling share (opcode, modifiers, operand structure); `words` are
    the registers, constants and names that fill it, in textual order. Operands are built on demand.
    """

    trivia: str
    text: str
    span: Span
    shape: Shape
    words: tuple[str, ...]
    guard: Guard | None

    @property
    def opcode(self) -> str:
        """The first part of the name: `mma` of `mma.sync.aligned…`."""
        return self.shape.opcode

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The parts after the opcode, as written: `("sync", "aligned", …)`; `shared::cta` is one part."""
        return self.shape.modifiers

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Operands as written; names declared in a scope are still Symbols here (see `linearise`)."""
        return self.shape.fill(self.words)


@dataclass(frozen=True, slots=True, eq=False)
class Label:
    """`$L__BB0_1:`; text is the name with its colon."""

    trivia: str
    text: str
    span: Span
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class RegDecl:
    """`.reg .b32 %r<92>;` or `.reg .f16 low, high;`. `type` has no dot; `ranges` are the `<n>` forms (prefix, n).

    `lanes` is 2 or 4 for `.v2` and `.v4`: each name then stands for as many registers, `v.x` to `v.w`.
    """

    trivia: str
    text: str
    span: Span
    type: str
    names: tuple[str, ...]
    ranges: tuple[tuple[str, int], ...]
    lanes: int = 1

    def declared(self) -> Iterator[str]:
        """Every register name: `%r<3>` declares %r0, %r1 and %r2."""
        yield from self.names
        for prefix, count in self.ranges:
            for index in range(count):
                yield f"{prefix}{index}"


@dataclass(frozen=True, slots=True, eq=False)
class VarDecl:
    """A variable of any state space.

    `count` is the number of elements of an array, 1 for a scalar, None for `extern …[]`. `align` in bytes, None where
    not written. `init` is the initialiser's exact text after `=`.
    """

    trivia: str
    text: str
    span: Span
    space: str
    type: str
    align: int | None
    name: str
    count: int | None
    init: str | None
    linkage: tuple[str, ...]

    @property
    def nbytes(self) -> int | None:
        """Size in bytes, None for an array without a size."""
        return None if self.count is None else self.count * type_bytes(self.type)


@dataclass(frozen=True, slots=True, eq=False)
class Directive:
    """Any other directive: .loc, .file, .section, .pragma, .branchtargets, … `name` has no dot."""

    trivia: str
    text: str
    span: Span
    name: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A statement, declaration or header that the grammar does not know, kept as it stands.

    Nothing is known of what it does: `linearise` refuses the function that holds it, and every function that it may
    concern. `name` is what a message calls it, `problem` what the grammar says, and `at` where in `text`.
    """

    trivia: str
    text: str
    span: Span
    name: str
    problem: str
    at: int
    expected: tuple[str, ...] = ()

    def error(self, filename: str) -> PtxError:
        """The refusal, with the place."""
        before = self.text[: self.at]
        line = before.count("\n")
        start = before.rfind("\n") + 1
        indent = " " * (self.span.column - 1) if line == 0 else ""
        source = indent + self.text[start:].split("\n", 1)[0].rstrip()
        column = len(indent) + self.at - start + 1
        message = f"cannot read {self.name}: {self.problem}" if self.name else self.problem
        return PtxError(filename, self.span.line + line, column, message, source, self.expected)

    @property
    def declares_only(self) -> bool:
        """It gives names to things, so that it cannot concern a function that uses none of its names.

        Any other directive of module scope may hold for the whole module.
        """
        return self.name.partition(" ")[0] in _DECLARING

    @property
    def is_debug(self) -> bool:
        """It is for debuggers and changes no function."""
        return self.name in (".file", ".loc", ".section")


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """`{ … }`: a function body or a scope inside it. `closing` is the trivia before the `}`."""

    trivia: str
    span: Span
    items: tuple[BodyItem, ...]
    closing: str

    def walk(self) -> Iterator[BodyItem]:
        """Everything inside, the blocks and what they hold included, in order."""
        opened = [iter(self.items)]
        while opened:
            for item in opened[-1]:
                yield item
                if isinstance(item, Block):
                    opened.append(iter(item.items))
                    break
            else:
                opened.pop()


BodyItem = Instruction | Label | RegDecl | VarDecl | Directive | Block | Opaque


# --------------------------------------------------------------------------------------------------------- module items


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a function: `count` bytes for `.b8 name[40]`, 1 for a scalar. `type` has no dot, nor has `space`:
    "param", or "reg" for one that is a register of the function.
    """

    name: str
    type: str
    align: int | None
    count: int
    space: str = "param"

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.count * type_bytes(self.type)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """An entry or a device function; `text` is the header (with the final `;` of a declaration), body is None there.

    `directives` are the performance directives of the header: `{"maxntid": (128, 1, 1)}`. `unread` is the header itself
    where the grammar does not know it; then nothing but kind, name and body is filled in.
    """

    trivia: str
    text: str
    span: Span
    kind: Literal["entry", "func"]
    name: str
    linkage: tuple[str, ...]
    params: tuple[Param, ...]
    returns: tuple[Param, ...]
    directives: tuple[tuple[str, tuple[int, ...]], ...]
    body: Block | None
    unread: Opaque | None = None


ModuleItem = Function | VarDecl | RegDecl | Directive | Opaque


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A whole file; `closing` is the trivia after the last item. `filename` is only for messages."""

    filename: str
    items: tuple[ModuleItem, ...]
    closing: str

    @property
    def functions(self) -> tuple[Function, ...]:
        """Entries and functions, declarations included."""
        return tuple(item for item in self.items if isinstance(item, Function))

    @property
    def entries(self) -> tuple[Function, ...]:
        """The kernels that have a body."""
        return tuple(f for f in self.functions if f.kind == "entry" and f.body is not None)

    @property
    def opaque(self) -> tuple[Opaque, ...]:
        """What stands at module scope and is not understood, headers of functions among it."""
        found = (item.unread if isinstance(item, Function) else item for item in self.items)
        return tuple(item for item in found if isinstance(item, Opaque))

    @property
    def variables(self) -> tuple[VarDecl, ...]:
        """Module-scope variables."""
        return tuple(item for item in self.items if isinstance(item, VarDecl))

    def function(self, name: str) -> Function | None:
        """The definition of `name`, or its declaration, or None."""
        found = [f for f in self.functions if f.name == name]
        return next((f for f in found if f.body is not None), found[0] if found else None)

    def _words(self, name: str) -> tuple[str, ...]:
        return next((d.words for d in self.items if isinstance(d, Directive) and d.name == name), ())

    @property
    def version(self) -> str:
        """`9.0`."""
        return self._words("version")[0]

    @property
    def target(self) -> tuple[str, ...]:
        """`("sm_89",)`, with `"debug"` and the like after it; empty where not written."""
        return self._words("target")

    @property
    def address_size(self) -> int:
        """32 or 64 bits; PTX's default is 32."""
        words = self._words("address_size")
        return int(words[0]) if words else 32


def type_bytes(type_name: str) -> int:
    """Bytes of a fundamental type: 4 for `f32`, `b32`, `f16x2`. A pred has no size: KeyError."""
    return _TYPE_BYTES[type_name]


_TYPE_BYTES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bsuf" for bits in (8, 16, 32, 64) if kind + str(bits) != "f8"},
    "b128": 16,
    "f16x2": 4,
    "bf16": 2,
    "bf16x2": 4,
    "tf32": 4,
    "texref": 8,
    "samplerref": 8,
    "surfref": 8,
}


class Shape(Protocol):
    """What a parsed instruction spelling offers (`shapes.py`)."""

    @property
    def spelling(self) -> str: ...
    @property
    def opcode(self) -> str: ...
    @property
    def modifiers(self) -> tuple[str, ...]: ...
    @property
    def form(self) -> Form | None: ...
    @property
    def reads(self) -> tuple[int, ...]: ...
    @property
    def writes(self) -> tuple[int, ...]: ...
    def fill(self, words: Sequence[str], registers: Container[str] = ()) -> tuple[Operand, ...]: ...
