"""Registers that a predicated statement writes anew: `mov d, b; @p mov d, a` is a choice."""

from __future__ import annotations

from collections.abc import Sequence

from zluda_rr.ptx import Body

_CROSS_LANE = frozenset(("shfl", "vote", "match", "redux", "movmatrix", "mma", "activemask"))
"""What an instruction of these gives depends on the lanes that execute it."""
_CONTROL = frozenset(("bra", "brx", "ret", "exit", "trap"))


def predicated(body: Body, defs: Sequence[int]) -> tuple[int, ...] | None:
    """Definitions of one register that reach a use together, in the order in which they are executed, the first one
    unconditional and every other predicated; None where they are anything else.

    All must stand in one basic block. Then whatever the first one wrote passed all the others on its way to the use,
    and each of them either wrote the register or left what was there.
    """
    if len(defs) < 2:  # none: a register that nothing writes
        return None
    first, *others = sorted(defs)
    if body[first].guard is not None:
        return None
    for number in others:
        statement = body[number]
        if statement.guard is None or statement.opcode in _CROSS_LANE:
            return None
    for number in range(first + 1, others[-1] + 1):
        statement = body[number]
        if statement.label is not None or statement.opcode in _CONTROL:
            return None
    return (first, *others)
