"""Statement numbering and name resolution of one function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from . import isa
from .collection import no_collection
from .grammar import ChunkError
from .nodes import (
    Block,
    BodyItem,
    Directive,
    Function,
    Guard,
    Instruction,
    Label,
    Module,
    Opaque,
    Operand,
    RegDecl,
    Span,
    VarDecl,
    names_in,
)
from .problem import PtxError
from .vectors import VectorRegisters


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """Statement `number` (s1, s2, …): an instruction or a label, with names resolved.

    Names declared in an inner scope get `@n`, n the ordinal of the scope in the function (`low@3`), so a name means one
    register everywhere in the function. The same holds for variables and labels of inner scopes.
    """

    number: int
    line: int
    instruction: Instruction | None
    label: str | None
    words: tuple[str, ...]
    """The instruction's words (registers, constants, names in textual order), resolved."""
    guard: Guard | None
    defs: tuple[str, ...]
    """Registers written."""
    uses: tuple[str, ...]
    """Registers read, each once, guard and address bases included; special registers (%tid.x) are not listed."""
    known: bool
    """False: not in the instruction table. Then `defs` is empty and every register operand is in `uses`."""
    _registers: Mapping[str, str] = field(repr=False)
    _operands: list[tuple[Operand, ...]] = field(repr=False, default_factory=list)

    @property
    def opcode(self) -> str:
        """`""` for a label."""
        return "" if self.instruction is None else self.instruction.shape.opcode

    @property
    def modifiers(self) -> tuple[str, ...]:
        """`()` for a label."""
        return () if self.instruction is None else self.instruction.shape.modifiers

    @property
    def spelling(self) -> str:
        """Opcode and modifiers: `add.rn.f16x2`; `""` for a label."""
        return "" if self.instruction is None else self.instruction.shape.spelling

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Operands with resolved names; names declared by `.reg` in any scope are Registers. Built once, when asked
        for.
        """
        if self.instruction is None:
            return ()
        if not self._operands:
            self._operands.append(self.instruction.shape.fill(self.words, self._registers))
        return self._operands[0]

    @property
    def form(self) -> isa.Form | None:
        """The form in the instruction table; None for a label and an unknown instruction."""
        return None if self.instruction is None else self.instruction.shape.form

    @property
    def text(self) -> str:
        """Source text without leading trivia; `name:` for a label."""
        return f"{self.label}:" if self.instruction is None else self.instruction.text


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """The linearised body of a function; `statements[i]` has number i + 1."""

    function: Function
    statements: tuple[Statement, ...]
    registers: Mapping[str, str]
    """Unique name -> type without dot (`b32`, `f16`, `pred`)."""
    variables: Mapping[str, VarDecl]
    """Unique name -> declaration; those of the module too, when `linearise` was given it."""
    labels: Mapping[str, int]
    """Unique name -> statement number."""
    branch_targets: Mapping[str, tuple[str, ...]]
    """Label of a `.branchtargets` list -> the labels in it."""

    def __getitem__(self, number: int) -> Statement:
        """Statement by number, from 1."""
        return self.statements[number - 1]


def linearise(function: Function, module: Module | None = None, *, filename: str = "<ptx>") -> Body:
    """Number the statements of a function that has a body.

    A statement ends at `;`; a label is one; directives, declarations and lone braces are none; a multi-line
    instruction is one, at its first line. Raises PtxError for a register that is nowhere declared or declared twice
    in a scope, and for a function that holds something opaque or that something opaque in the module may concern.
    """
    if function.body is None:
        raise ValueError(f"{function.name} has no body")
    name = module.filename if module is not None else filename
    builder = _Builder(function, name)
    _refuse_opaque(function, module, name)
    if module is not None:
        builder.variables.update((variable.name, variable) for variable in module.variables)
    with no_collection():
        builder.walk(function.body)
    builder.check_declared()
    if module is not None:
        builder.check_opaque(module)
    return Body(
        function,
        tuple(builder.statements),
        builder.registers,
        builder.variables,
        builder.labels,
        builder.branch_targets,
    )


MAX_REGISTERS = 4_000_000
"""Of one function; nvcc needs fewer than one for each line."""


def _refuse_opaque(function: Function, module: Module | None, filename: str) -> None:
    """Its own header, and directives of the module that may hold for every function."""
    if function.unread is not None:
        raise function.unread.error(filename)
    for item in module.opaque if module is not None else ():
        if not item.declares_only and not item.is_debug:
            raise item.error(filename)


class _Builder:
    __slots__ = (
        "branch_targets",
        "filename",
        "function",
        "labels",
        "registers",
        "scopes",
        "seen",
        "statements",
        "variables",
        "vectors",
    )

    def __init__(self, function: Function, filename: str) -> None:
        self.function = function
        self.filename = filename
        self.statements: list[Statement] = []
        self.registers: dict[str, str] = {}
        self.variables: dict[str, VarDecl] = {}
        self.labels: dict[str, int] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.scopes = 0
        self.seen: set[str] = set()
        self.vectors = VectorRegisters()

    def walk(self, body: Block) -> None:
        """Of each block the declarations first (a name is visible in all of it), then its statements in order."""
        names = self._enter(body, self._parameters())
        opened: list[tuple[Iterator[BodyItem], dict[str, str]]] = [(iter(body.items), names)]
        pending = ""  # the label a .branchtargets list belongs to
        while opened:
            items, rename = opened[-1]
            for item in items:
                if type(item) is Instruction:
                    self._instruction(item, rename)
                elif type(item) is Label:
                    pending = rename.get(item.name, item.name)
                    self._label(item, pending)
                elif type(item) is Block:
                    opened.append((iter(item.items), self._enter(item, rename)))
                    pending = ""
                    break
                elif type(item) is Directive and item.name == "branchtargets":
                    self.branch_targets[pending] = tuple(rename.get(word, word) for word in item.words)
            else:
                opened.pop()

    def _parameters(self) -> dict[str, str]:
        """Registers that are parameters; the spellings of the lanes of vectors among them."""
        lanes: dict[str, str] = {}
        for param in (*self.function.returns, *self.function.params):
            if param.space == "reg" and param.count == 1:
                self.registers[param.name] = param.type
            elif param.space == "reg":
                lanes |= self.vectors.declare(param.name, param.count, "")
                self.registers.update(dict.fromkeys(lanes.values(), param.type))
        return lanes

    def _enter(self, block: Block, outer: dict[str, str]) -> dict[str, str]:
        """Enter the block's names; the renaming that holds inside it."""
        suffix = f"@{self.scopes}" if self.scopes else ""
        self.scopes += 1
        own: dict[str, str] = {}
        lanes: dict[str, str] = {}
        for item in block.items:
            if type(item) is RegDecl:
                self._registers(item, suffix, own, lanes)
            elif type(item) is VarDecl:
                self.variables[item.name + suffix] = item
                self.seen.update(names_in(item.text))
                own[item.name] = item.name + suffix
            elif type(item) is Label:
                own[item.name] = item.name + suffix
            elif type(item) is Opaque:
                raise item.error(self.filename)
        if suffix and own:
            return {**outer, **own, **lanes}
        return {**outer, **lanes} if lanes else outer

    def _registers(self, item: RegDecl, suffix: str, own: dict[str, str], lanes: dict[str, str]) -> None:
        count = item.lanes * (len(item.names) + sum(n for _, n in item.ranges))
        if len(self.registers) + count > MAX_REGISTERS:
            raise self._error(f"more than {MAX_REGISTERS} registers in one function", item.span, item.text)
        for name in item.declared():
            declared = {name: name + suffix} if item.lanes == 1 else self.vectors.declare(name, item.lanes, suffix)
            for unique in dict.fromkeys(declared.values()):
                if unique in self.registers:
                    raise self._error(f"register {name} is declared twice in this scope", item.span, item.text)
                self.registers[unique] = item.type
            (own if item.lanes == 1 else lanes).update(declared)

    def _label(self, item: Label, unique: str) -> None:
        if unique in self.labels:
            raise self._error(f"label {item.name} is defined twice in this scope", item.span, item.text)
        number = len(self.statements) + 1
        self.labels[unique] = number
        self.statements.append(Statement(number, item.span.line, None, unique, (), None, (), (), True, self.registers))

    def _instruction(self, item: Instruction, rename: dict[str, str]) -> None:
        if self.vectors:
            item = self._lanes(item)
        words, guard, shape, registers = item.words, item.guard, item.shape, self.registers
        if rename and not rename.keys().isdisjoint(words):
            words = tuple([rename.get(word, word) for word in words])
        defs = tuple([words[i] for i in shape.writes if words[i] in registers])
        if len(defs) < len(shape.writes):
            special = next((words[i] for i in shape.writes if isa.is_special_register(words[i])), None)
            if special is not None:
                raise self._error(f"{special} is read-only", item.span, item.text)
        uses = [words[i] for i in shape.reads if words[i] in registers]
        if guard is not None:
            if guard.register in rename:
                guard = Guard(rename[guard.register], guard.negated)
            if guard.register not in registers:
                raise self._error(f"register {guard.register} is not declared", item.span, item.text)
            uses.append(guard.register)
            self.seen.add(guard.register)
        self.seen.update(words)
        self.statements.append(
            Statement(
                len(self.statements) + 1,
                item.span.line,
                item,
                None,
                words,
                guard,
                defs,
                tuple(dict.fromkeys(uses)) if len(uses) > 1 else tuple(uses),
                shape.form is not None,
                registers,
            )
        )

    def _lanes(self, item: Instruction) -> Instruction:
        """The instruction with `{v.x, v.y}` for a whole vector register `v`."""
        try:
            return self.vectors.spell_out(item)
        except ChunkError:
            raise self._error("a whole vector register is not understood here", item.span, item.text) from None

    def check_opaque(self, module: Module) -> None:
        """Nothing that the module declares in a way that is not understood may be used."""
        used = self.seen - {self.function.name}
        for item in module.opaque:
            if item.declares_only and not used.isdisjoint(names_in(item.text)):
                raise item.error(self.filename)

    def check_declared(self) -> None:
        """Every `%name` must be declared or special."""
        unknown = {
            word
            for word in self.seen
            if word[0] == "%"
            and word not in self.registers
            and word not in self.labels
            and not isa.is_special_register(word)
        }
        if not unknown:
            return
        for statement in self.statements:
            item = statement.instruction
            for word in statement.words if statement.guard is None else (statement.guard.register, *statement.words):
                if word in unknown and item is not None:
                    raise self._error(f"register {word} is not declared", item.span, item.text)

    def _error(self, message: str, span: Span, text: str) -> PtxError:
        source = " " * (span.column - 1) + text.split("\n", 1)[0].rstrip()
        return PtxError(self.filename, span.line, span.column, message, source)
