"""mma.sync.m16n8k32 with e4m3 operands and f16 accumulators: pairing and emission.

Two mma that share their A fragment (adjacent n-tiles) make one 16x16 WMMA tile. The layout work is in
kernels/ptx_runtime.hip. What has no partner runs with zeros in the other half.
"""

from __future__ import annotations

from collections.abc import Sequence

from zluda_rr.lower.emitter import Emitter, operand_elements
from zluda_rr.ptx import Body, Immediate, Operand, Register, Statement

MODIFIERS = ("sync", "aligned", "m16n8k32", "row", "col", "f16", "e4m3", "e4m3", "f16")


def fragments(statement: Statement) -> tuple[tuple[Operand, ...], ...]:
    """(D, A, B, C) registers of an mma."""
    return tuple(operand_elements(operand) for operand in statement.operands)


def _is_mma(statement: Statement) -> bool:
    return statement.opcode == "mma" and statement.modifiers == MODIFIERS and statement.guard is None


def pair_statements(statements: Sequence[Statement]) -> dict[int, int]:
    """Pair each mma with the next one of its run that has the same A and does not depend on what lies between.

    Returns statement numbers, first to second. A run is a sequence of adjacent mma statements. The second moves up to
    the first, so no statement from the first on may write what it reads or writes, or read what it writes.
    """
    second: dict[int, int] = {}
    run: list[Statement] = []
    for statement in (*statements, None):
        if statement is not None and _is_mma(statement):
            run.append(statement)
            continue
        second.update(_pair_run(run))
        run = []
    return second


def _pair_run(run: Sequence[Statement]) -> dict[int, int]:
    second: dict[int, int] = {}
    taken: set[int] = set()
    for index, first in enumerate(run):
        if first.number in taken:
            continue
        a = fragments(first)[1]
        written: set[str] = set(first.defs)
        read: set[str] = set(first.uses)
        for candidate in run[index + 1 :]:
            free = written.isdisjoint((*candidate.uses, *candidate.defs)) and read.isdisjoint(candidate.defs)
            if candidate.number not in taken and fragments(candidate)[1] == a and free:
                second[first.number] = candidate.number
                taken.add(candidate.number)
                break
            written.update(candidate.defs)
            read.update(candidate.uses)
    return second


def zero_registers(body: Body) -> frozenset[str]:
    """Registers whose only definition is `mov …, 0`."""
    definitions: dict[str, int] = {}
    zeros: set[str] = set()
    for statement in body.statements:
        for register in statement.defs:
            definitions[register] = definitions.get(register, 0) + 1
        if statement.opcode == "mov" and statement.guard is None and isinstance(statement.operands[1], Immediate):
            target, source = statement.operands
            if isinstance(target, Register) and isinstance(source, Immediate) and source.value == 0:
                zeros.add(target.name)
    return frozenset(name for name in zeros if definitions[name] == 1)


def emit(e: Emitter, first: Statement, second: Statement | None, zeros: frozenset[str]) -> None:
    """Emit one tile: `first`, and `second` as its right n-tile."""
    _, a, b, c = fragments(first)
    nothing = (Immediate("0", "int", 0),) * 2
    right_b, right_c = fragments(second)[2:] if second is not None else (nothing, nothing)
    if not all(len(part) == count for part, count in ((a, 4), (b, 2), (c, 2))):
        raise e.refuse(first, "fragment sizes")
    arguments = [("<4 x i32>", _words(e, a)), ("<4 x i32>", _words(e, (*b, *right_b)))]
    seeds = (*c, *right_c)
    name = "zrt_mma_e4m3_pair_zero"
    if not all(_is_zero(seed, zeros) for seed in seeds):
        name = "zrt_mma_e4m3_pair"
        arguments.append(("<4 x i32>", _words(e, seeds)))
    results = e.elements(e.call("<4 x i32>", name, *arguments), "i32", 4)
    for statement, values in ((first, results[:2]), (second, results[2:])):
        if statement is not None:
            for register, value in zip(fragments(statement)[0], values, strict=True):
                e.set(register, value, "b32")


def _words(e: Emitter, operands: tuple[Operand, ...]) -> str:
    return e.vector(tuple(e.integer(operand, 32) for operand in operands), "i32")


def _is_zero(operand: Operand, zeros: frozenset[str]) -> bool:
    if isinstance(operand, Register):
        return operand.name in zeros
    return isinstance(operand, Immediate) and operand.value == 0
