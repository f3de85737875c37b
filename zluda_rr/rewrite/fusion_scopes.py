"""What inserted text must respect: scopes that hide registers, and stretches in which the carry flag is alive."""

from __future__ import annotations

from collections.abc import Iterator

from zluda_rr.ptx import Block, Body, ControlFlow, Instruction, Label, RegDecl, Statement

_FLAG_READERS = ("addc", "subc", "madc")


class Scopes:
    """The scopes around each statement of a body."""

    def __init__(self, body: Body) -> None:
        self._chains: dict[int, tuple[tuple[str, frozenset[str]], ...]] = {}
        self._scopes = 0
        self._statements = 0
        assert body.function.body is not None
        self._enter(body.function.body, ())

    def _enter(self, block: Block, outer: tuple[tuple[str, frozenset[str]], ...]) -> None:
        suffix = f"@{self._scopes}" if self._scopes else ""
        self._scopes += 1
        names = frozenset(name for item in block.items if isinstance(item, RegDecl) for name in item.declared())
        chain = ((suffix, names), *outer) if names or not suffix else outer
        for item in block.items:
            if isinstance(item, Instruction | Label):
                self._statements += 1
                self._chains[self._statements] = chain
            elif isinstance(item, Block):
                self._enter(item, chain)

    def written(self, number: int, register: str) -> str | None:
        """How text at a statement names a register (`low@3` is `low`); None where another one is meant by that."""
        name, at, scope = register.partition("@")
        for suffix, names in self._chains[number]:
            if name in names:
                return name if suffix == at + scope else None
        return None


def flag_alive(body: Body, flow: ControlFlow) -> frozenset[int]:
    """Statements in front of or behind which the carry flag holds a value that an `addc`, `subc` or `madc` reads.

    A call does not preserve the flag (PTX ISA, Extended-Precision Integer Arithmetic), so none may be put there.
    """
    if not any(_reads_flag(statement) for statement in body.statements):
        return frozenset()
    alive_in: dict[int, bool] = {}
    changed = True
    while changed:
        changed = False
        for block in reversed(flow.blocks):
            after = any(alive_in.get(i, False) for i in flow.successors[block.index])
            before = [alive for _, alive, _ in _backwards(body, block.start, block.end, after)][-1]
            if before != alive_in.get(block.index, False):
                alive_in[block.index] = before
                changed = True
    found: set[int] = set()
    for block in flow.blocks:
        after = any(alive_in.get(i, False) for i in flow.successors[block.index])
        found.update(n for n, b, a in _backwards(body, block.start, block.end, after) if a or b)
    return frozenset(found)


def _backwards(body: Body, start: int, end: int, alive: bool) -> Iterator[tuple[int, bool, bool]]:
    """(statement, alive before it, alive behind it), last statement first."""
    for number in range(end, start - 1, -1):
        statement, behind = body[number], alive
        if sets_flag(statement) and statement.guard is None:
            alive = False
        alive = alive or _reads_flag(statement)
        yield number, alive, behind


def sets_flag(statement: Statement) -> bool:
    """Does an instruction set the carry flag."""
    return "cc" in statement.modifiers


def _reads_flag(statement: Statement) -> bool:
    return statement.opcode in _FLAG_READERS
