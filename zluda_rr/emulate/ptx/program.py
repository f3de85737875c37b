"""A body compiled to segments of operations, ready to run on any chunk of a grid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from zluda_rr.emulate.ptx import access, calls, compare, convert, data, floating, integer, surface, warp
from zluda_rr.emulate.ptx.compiler import Compiler, Defined, Op, Reader, SlotKind
from zluda_rr.emulate.ptx.integer import Handler
from zluda_rr.emulate.ptx.kinds import Mask, spec_of
from zluda_rr.emulate.ptx.layout import Layout
from zluda_rr.emulate.ptx.machine import Machine
from zluda_rr.emulate.ptx.problem import OracleError, Unsupported
from zluda_rr.ptx import Body, Guard, Register, Statement, Symbol

HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        **integer.HANDLERS,
        **floating.HANDLERS,
        **convert.HANDLERS,
        **compare.HANDLERS,
        **data.HANDLERS,
        **access.HANDLERS,
        **surface.HANDLERS,
        **warp.HANDLERS,
        **calls.HANDLERS,
    }
)


@dataclass(frozen=True, slots=True)
class Step:
    """One statement; `frees` are slots whose registers are dead after it, `records` slots to capture."""

    number: int
    op: Op
    frees: tuple[int, ...]
    records: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """End of a segment. kind "branch": to segment `target` where the guard holds; "exit": the lanes end;
    "barrier": they wait; "fall": plain end. Lanes that do none of it go on with the next segment."""

    kind: str
    statement: Statement | None = None
    guard: Reader | None = None
    target: int = -1


@dataclass(frozen=True, slots=True)
class Segment:
    """Statements that are entered only at the first and left only at the end."""

    steps: tuple[Step, ...]
    end: Branch
    opcodes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Program:
    """What `run_entry` executes. Slots are filled per chunk; see `Machine`."""

    body: Body
    segments: tuple[Segment, ...]
    slots: tuple[SlotKind, ...]
    layout: Layout


def compile_body(body: Body, layout: Layout, capture: frozenset[int], defined: Defined) -> Program:
    """Compile every statement; `defined` gives the functions of the module that have a body.

    OracleError names the first statement without semantics and its line.
    """
    compiler = Compiler(body, dict(layout.addresses), defined)
    starts = _segment_starts(body)
    segment_of = {start: index for index, start in enumerate(starts)}
    local = _segment_registers(body, starts)
    segments = []
    for index, start in enumerate(starts):
        end = starts[index + 1] if index + 1 < len(starts) else len(body.statements)
        statements = body.statements[start:end]
        segments.append(_segment(compiler, statements, segment_of, local.get(index, {}), capture))
    return Program(body, tuple(segments), tuple(compiler.slots), layout)


def refused_statements(body: Body, layout: Layout, defined: Defined) -> dict[int, OracleError]:
    """Every statement without semantics: its number and what `compile_body` would say of it."""
    compiler = Compiler(body, dict(layout.addresses), defined)
    found: dict[int, OracleError] = {}
    segment_of = dict.fromkeys(range(len(body.statements) + 1), 0)
    for statement in body.statements:
        try:
            if statement.instruction is None:
                continue
            if _ends_segment(statement):
                _terminator(compiler, statement, segment_of)
            else:
                _compile(compiler, statement)
        except OracleError as problem:
            found[statement.number] = problem
    return found


def _ends_segment(statement: Statement) -> bool:
    if statement.opcode in ("bra", "ret", "exit", "brx"):
        return True
    return _is_block_barrier(statement)


def _is_block_barrier(statement: Statement) -> bool:
    return statement.opcode in ("bar", "barrier") and "warp" not in statement.modifiers


def _segment_starts(body: Body) -> list[int]:
    """Indexes (from 0) of the statements that start a segment."""
    starts = {0}
    for index, statement in enumerate(body.statements):
        if statement.label is not None:
            starts.add(index)
        elif _ends_segment(statement):
            starts.add(index + 1)
    return sorted(start for start in starts if start < len(body.statements))


def _segment_registers(body: Body, starts: list[int]) -> dict[int, dict[int, list[str]]]:
    """For each segment, the registers that die inside it: index of the last statement that names them ->
    names.

    A register qualifies when no other segment names it and its first mention defines it unconditionally.
    """
    boundaries = set(starts)
    segment = -1
    home: dict[str, int | None] = {}
    last: dict[str, int] = {}
    for index, statement in enumerate(body.statements):
        segment += index in boundaries
        for name in (*statement.uses, *statement.defs):
            if name not in home:
                fresh = name in statement.defs and name not in statement.uses and statement.guard is None
                home[name] = segment if fresh else None
            elif home[name] != segment:
                home[name] = None
            last[name] = index
    dying: dict[int, dict[int, list[str]]] = {}
    for name, where in home.items():
        if where is not None:
            dying.setdefault(where, {}).setdefault(last[name], []).append(name)
    return dying


def _segment(
    compiler: Compiler,
    statements: tuple[Statement, ...],
    segment_of: Mapping[int, int],
    dying: Mapping[int, list[str]],
    capture: frozenset[int],
) -> Segment:
    end = Branch("fall")
    steps = []
    for statement in statements:
        if statement.instruction is None:
            continue
        if _ends_segment(statement):
            end = _terminator(compiler, statement, segment_of)
            continue
        op = _compile(compiler, statement)
        frees = tuple(compiler.slot(name) for name in dying.get(statement.number - 1, ()))
        records = tuple(compiler.slot(name) for name in statement.defs) if statement.number in capture else ()
        steps.append(Step(statement.number, op, frees, records))
    opcodes = Counter(statement.opcode for statement in statements if statement.instruction is not None)
    return Segment(tuple(steps), end, MappingProxyType(opcodes))


def place(statement: Statement) -> str:
    """Line, number and text of a statement, for messages."""
    return f"line {statement.line}, s{statement.number}: {' '.join(statement.text.split())}"


def _compile(compiler: Compiler, statement: Statement) -> Op:
    handler = HANDLERS.get(statement.opcode)
    try:
        if handler is None:
            raise Unsupported("the oracle has no semantics for this instruction")
        spec = spec_of(statement.opcode, statement.modifiers)
        try:
            op = handler(compiler, statement, spec)
        except ValueError as problem:  # operands that do not unpack as the instruction needs
            raise Unsupported("operand count or form") from problem
        return op if statement.guard is None else _guarded(compiler, statement.guard, op)
    except Unsupported as problem:
        raise OracleError(f"{place(statement)}: {problem}") from problem


def _guard_reader(compiler: Compiler, guard: Guard) -> Reader:
    read = compiler.reader(Register(guard.register), "pred")
    return (lambda r: ~read(r)) if guard.negated else read


def _terminator(compiler: Compiler, statement: Statement, segment_of: Mapping[int, int]) -> Branch:
    """The end of a segment that a control instruction makes."""
    opcode = statement.opcode
    guard = _guard_reader(compiler, statement.guard) if statement.guard is not None else None
    if opcode in ("ret", "exit"):
        return Branch("exit", statement, guard)
    if opcode == "bra":
        (target,) = statement.operands
        if not isinstance(target, Symbol):
            raise OracleError(f"{place(statement)}: the target is no label")
        return Branch("branch", statement, guard, segment_of[compiler.body.labels[target.name] - 1])
    plain = {"sync", "aligned", "cta"}.issuperset(statement.modifiers) and len(statement.operands) <= 1
    if opcode == "brx" or "sync" not in statement.modifiers or not plain:
        raise OracleError(f"{place(statement)}: the oracle has no semantics for this form")
    return Branch("barrier", statement, guard)


def _guarded(compiler: Compiler, guard: Guard, op: Op) -> Op:
    condition = _guard_reader(compiler, guard)

    def execute(machine: Machine, mask: Mask | None) -> None:
        chosen = condition(machine.r) if mask is None else condition(machine.r) & mask
        if chosen.all():
            op(machine, None)
        elif chosen.any():
            op(machine, chosen)

    return execute
