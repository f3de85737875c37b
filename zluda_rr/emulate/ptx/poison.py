"""Values that PTX leaves undefined, followed lane by lane until they matter.

A shuffle that reads from a lane which does not execute it gives an undefined value, and a program may compute with it
as long as nothing depends on it. NVIDIA's own last epilogue does: lanes beyond the extents branch over full-mask
shuffles, and the lanes that would read from them store nothing. The oracle marks such registers; what is computed
from a marked one is marked, and it is a fault when a marked value reaches memory, an address, a call, a predicate of
execution or a branch. No two fills are compared: a mark never gets lost, whatever the values are.

A mark goes away only where the register is written anew or `selp` leaves the marked operand out. Everything else is
taken to depend on all of its operands, so a fault may come too early, never too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.ptx.kinds import Mask
from zluda_rr.emulate.ptx.machine import Machine
from zluda_rr.emulate.ptx.problem import ExecutionFault
from zluda_rr.ptx import Negated, Operand, Register, Statement

Slots = Mapping[str, int]
_ARITHMETIC_EFFECTS = frozenset(("ld", "ldu", "tex", "tld4", "suld", "ldmatrix"))
_WHOLE_WARP = frozenset(("vote", "match", "redux", "movmatrix", "mma"))


def reads_marked(machine: Machine, what: str) -> ExecutionFault:
    """The fault of a marked value where it matters."""
    return ExecutionFault(f"{what} a value that shfl.sync reads from a lane that does not execute it")


def check_guard(machine: Machine, slot: int | None, mask: Mask) -> None:
    """ExecutionFault where lanes decide on a marked predicate whether, or what, to execute next."""
    marked = machine.poison.get(slot) if slot is not None else None
    if marked is not None and (marked & mask).any():
        raise reads_marked(machine, "control depends on")


def follow(machine: Machine, statement: Statement, slots: Slots, mask: Mask | None) -> None:
    """Marks after a statement, from those before it; call it just before the statement is executed."""
    active = machine.full if mask is None else mask
    if statement.guard is not None:
        slot = slots[statement.guard.register]
        check_guard(machine, slot, active)
        chosen = machine.r[slot]
        active = active & (~chosen if statement.guard.negated else chosen)
    if statement.opcode == "shfl":
        return  # marks its own result: it alone knows the source lanes
    marked = _chosen(machine, statement, slots) if statement.opcode == "selp" else _any(machine, statement.uses, slots)
    if marked is not None and statement.opcode in _WHOLE_WARP:
        marked = np.repeat((marked & active).any(axis=1, keepdims=True), marked.shape[1], axis=1)
    effect = not statement.defs or statement.opcode in _ARITHMETIC_EFFECTS or statement.opcode in ("atom", "call")
    if marked is not None and effect and (marked & active).any():
        raise reads_marked(machine, "an access, call or barrier takes")
    for name in statement.defs:
        mark(machine, slots[name], marked, active)


def mark(machine: Machine, slot: int, marked: Mask | None, active: Mask) -> None:
    """Set the marks of a register that the active lanes write."""
    old = machine.poison.pop(slot, None)
    if marked is None and old is None:
        return
    nothing = np.zeros_like(active)
    new = np.where(active, nothing if marked is None else marked, nothing if old is None else old)
    if new.any():
        machine.poison[slot] = new


def shuffled(
    machine: Machine, slots: tuple[int | None, tuple[int, ...]], source: NDArray[np.int64], missing: Mask
) -> Mask | None:
    """Marks of a shuffle's result: its source lane does not execute, or its value or control operands are marked."""
    value, others = slots
    found = missing
    marks = machine.poison.get(value) if value is not None else None
    if marks is not None:
        found = found | np.take_along_axis(marks, source, axis=1)
    for slot in others:
        if slot in machine.poison:
            found = found | machine.poison[slot]
    return found if found.any() else None


def _any(machine: Machine, names: Iterable[str], slots: Slots) -> Mask | None:
    found: Mask | None = None
    for name in names:
        marks = machine.poison.get(slots.get(name, -1))
        if marks is not None:
            found = marks if found is None else found | marks
    return found


def _chosen(machine: Machine, statement: Statement, slots: Slots) -> Mask | None:
    """selp: marks of the operand that it takes, and of its predicate."""
    yes, no, condition = (_marks(machine, operand, slots) for operand in statement.operands[1:4])
    predicate = statement.operands[3]
    if (yes is None and no is None) or not isinstance(predicate, Register):
        return _any(machine, statement.uses, slots)
    nothing = np.zeros(machine.shape, dtype=np.bool_)
    taken = np.where(machine.r[slots[predicate.name]], nothing if yes is None else yes, nothing if no is None else no)
    return taken if condition is None else taken | condition


def _marks(machine: Machine, operand: Operand, slots: Slots) -> Mask | None:
    inner = operand.operand if isinstance(operand, Negated) else operand
    return machine.poison.get(slots.get(inner.name, -1)) if isinstance(inner, Register) else None
