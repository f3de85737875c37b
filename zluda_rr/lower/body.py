"""The statements of one function's body, in order, into an emitter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zluda_rr.lower import atomic, calls, compare, convert, floating, integer, memory, mma, operands, surface, warp
from zluda_rr.lower.emitter import Emitter
from zluda_rr.lower.handler import Handler
from zluda_rr.lower.problem import LoweringError
from zluda_rr.lower.scalar import is_float, is_scalar
from zluda_rr.ptx import ControlFlow, Liveness, Statement, Symbol

# Statements between barriers to LLVM's instruction scheduler. Several of its steps are quadratic in the length of a
# region, and an unrolled kernel is one region of 40,000 instructions; a run of mma is never divided.
_REGION = 250

_PLAIN: Mapping[str, Handler] = {
    **integer.HANDLERS,
    **floating.HANDLERS,
    **convert.HANDLERS,
    **compare.HANDLERS,
    **memory.HANDLERS,
    **atomic.HANDLERS,
    **surface.HANDLERS,
    **warp.HANDLERS,
    "call": calls.call,
}


def lower_body(e: Emitter) -> None:
    """All statements of the emitter's body; LoweringError for the first that is not supported."""
    for problem in refusals(e):
        raise problem


def refusals(e: Emitter) -> Iterator[LoweringError]:
    """Lower all statements; an error for each that is not supported, after which the emitter's text is of no use."""
    body = e.body
    if body.function.kind != "entry":
        calls.header(e)  # refuses what it cannot take
    partners, zeros = mma.pair_statements(body.statements), mma.zero_registers(body)
    seconds = frozenset(partners.values())
    e.start_block("start")
    initialise_undefined(e)
    region = 0
    for statement in body.statements:
        region += 1
        if region > _REGION and e.open and statement.opcode != "mma":
            e.call("void", "llvm.amdgcn.sched.barrier", ("i32", "0"))
            region = 0
        if statement.number in seconds:
            continue
        partner = partners.get(statement.number)
        try:
            _lower_statement(e, statement, None if partner is None else body[partner], zeros)
        except LoweringError as problem:
            yield problem
    if e.open:
        e.end_block(calls.return_text(e))


def initialise_undefined(e: Emitter) -> None:
    """Zero, as in the oracle, for every register that may be read before it is written. LLVM's undefined values are not
    an option: a branch on one removes all that follows, each use of one may see another value."""
    if not e.body.statements:
        return
    flow = ControlFlow(e.body)
    for name in sorted(Liveness(e.body, flow).live_in(1)):
        if is_scalar(e.body.registers.get(name, "")):
            e.write(name, "false" if e.register_width(name) == 1 else "0")


def _lower_statement(e: Emitter, s: Statement, partner: Statement | None, zeros: frozenset[str]) -> None:
    e.statement = s
    if s.label is not None:
        e.start_block(e.label(s.label))
        return
    if not e.open:
        e.start_block(e.fresh_block())
    operands.check(e, s)
    condition = ""
    if s.guard is not None:
        condition = e.read(s.guard.register)
        if s.guard.negated:
            condition = e.op(f"xor i1 {condition}, true")
    if s.opcode == "bra":
        _branch(e, s, condition)
    elif condition:
        e.guarded(condition, lambda: _instruction(e, s, partner, zeros))
    else:
        _instruction(e, s, partner, zeros)


def _branch(e: Emitter, s: Statement, condition: str) -> None:
    (target,) = s.operands
    if not isinstance(target, Symbol) or target.name not in e.body.labels:
        raise e.refuse(s, "target")
    if condition:
        after = e.fresh_block()
        e.end_block(f'br i1 {condition}, label %"{e.label(target.name)}", label %"{after}"')
        e.start_block(after)
    else:
        e.end_block(f'br label %"{e.label(target.name)}"')


def _instruction(e: Emitter, s: Statement, partner: Statement | None, zeros: frozenset[str]) -> None:
    if s.opcode == "ret":
        e.end_block(calls.return_text(e))
    elif s.opcode == "exit":
        if e.body.function.kind != "entry":
            raise e.refuse(s, "in a function")
        e.end_block("ret void")
    elif s.opcode == "mma":
        if s.modifiers != mma.MODIFIERS:
            raise e.refuse(s)
        mma.emit(e, s, partner, zeros)
    else:
        _handler(e, s)(e, s)


def _handler(e: Emitter, s: Statement) -> Handler:
    if s.opcode in _PLAIN:
        return _PLAIN[s.opcode]
    kind = next((name for name in s.modifiers if is_scalar(name)), "")
    table = floating.FLOAT_HANDLERS if is_float(kind) else integer.INTEGER_HANDLERS
    if s.opcode not in table:
        raise e.refuse(s)
    return table[s.opcode]
