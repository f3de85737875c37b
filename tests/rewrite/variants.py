"""Modules that mean the same as a given one but look different: what another compiler could have written."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zluda_rr.ptx import Block, Body, BodyItem, Function, Instruction, Module, RegDecl, Statement, linearise, parse
from zluda_rr.ptx.printer import block_pieces

_CONTROL = ("bra", "brx", "ret", "exit", "bar", "barrier", "call", "trap")
_WRITES = ("st", "sust", "atom", "red", "suld")
_LOADS = ("ld", "tex")


def rename_registers(module: Module, entry: str) -> Module:
    """Every register gets another name and another number; names of inner scopes change too."""
    function = module.function(entry)
    assert function is not None
    assert function.body is not None
    items = "".join(_renamed_scopes(item) for item in function.body.items)
    text = _replaced(module, function, items)
    counts = {prefix: int(n) for prefix, n in re.findall(r"\.reg \.\w+\s+%([a-z]+)<(\d+)>", text)}
    fresh = {prefix: f"v{i}_" for i, prefix in enumerate(sorted(counts))}
    text = re.sub(r"(\.reg \.\w+\s+)%([a-z]+)<", lambda m: f"{m[1]}%{fresh[m[2]]}<", text)

    def renamed(found: re.Match[str]) -> str:
        prefix, number = found[1], int(found[2])
        return f"%{fresh[prefix]}{counts[prefix] - 1 - number}" if prefix in counts else found[0]

    return parse(re.sub(r"%([a-z]+)(\d+)\b", renamed, text), filename=module.filename)


def _renamed_scopes(item: BodyItem) -> str:
    if not isinstance(item, Block):
        return item.trivia + item.text
    scope = "".join(block_pieces(item))
    for declaration in item.items:
        for name in declaration.names if isinstance(declaration, RegDecl) else ():
            scope = re.sub(rf"(?<![%.\w]){name}\b", f"{name}_other", scope)
    return scope


@dataclass(frozen=True, slots=True)
class Unit:
    """An instruction or a whole scoped block, which moves as one."""

    text: str
    statements: tuple[Statement, ...]

    def names(self, kind: str) -> set[str]:
        """Registers that the unit defines ("defs") or reads ("uses")."""
        return {name for s in self.statements for name in getattr(s, kind)}

    def any_of(self, opcodes: Sequence[str]) -> bool:
        """Does the unit hold an instruction of these opcodes."""
        return any(s.opcode in opcodes for s in self.statements)


def shuffle(
    module: Module, entry: str, seed: int, choose: Callable[[random.Random, list[int]], int] | None = None
) -> Module:
    """Reorder independent statements of each basic block at random.

    Registers keep their read-after-write, write-after-read and write-after-write order, stores keep their place
    among all memory instructions, and nothing crosses a branch, a label or a barrier.
    """
    function = module.function(entry)
    assert function is not None
    assert function.body is not None
    body = linearise(function, module)
    rng = random.Random(seed)
    pieces: list[str] = []
    pending: list[Unit] = []

    def flush() -> None:
        pieces.extend(unit.text for unit in _permuted(pending, rng, choose))
        pending.clear()

    for text, statements, fixed in _units(function.body, body):
        unit = Unit(text, statements)
        if fixed or unit.any_of(_CONTROL):
            flush()
            pieces.append(text)
        else:
            pending.append(unit)
    flush()
    return parse(_replaced(module, function, "".join(pieces)), filename=module.filename)


def _units(block: Block, body: Body) -> list[tuple[str, tuple[Statement, ...], bool]]:
    found = []
    at = 0
    for item in block.items:
        text = "".join(block_pieces(item)) if isinstance(item, Block) else item.trivia + item.text
        count = _count(item)
        statements = body.statements[at : at + count]
        at += count
        fixed = not isinstance(item, Instruction | Block)
        found.append((text, statements, fixed))
    return found


def _count(item: object) -> int:
    if isinstance(item, Block):
        return sum(_count(inner) for inner in item.items)
    return (
        0
        if isinstance(item, RegDecl) or not hasattr(item, "span") or type(item).__name__ in ("VarDecl", "Directive")
        else 1
    )


def _permuted(
    units: list[Unit], rng: random.Random, choose: Callable[[random.Random, list[int]], int] | None
) -> list[Unit]:
    waiting = _dependences(units)
    followers: dict[int, list[int]] = {i: [] for i in range(len(units))}
    for i, before in enumerate(waiting):
        for j in before:
            followers[j].append(i)
    ready = [i for i, before in enumerate(waiting) if not before]
    order = []
    while ready:
        i = ready.pop(rng.randrange(len(ready)) if choose is None else choose(rng, ready))
        order.append(units[i])
        for j in followers[i]:
            waiting[j].discard(i)
            if not waiting[j]:
                ready.append(j)
    assert len(order) == len(units)
    return order


def _dependences(units: list[Unit]) -> list[set[int]]:
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    last_store: int | None = None
    loads: list[int] = []
    result: list[set[int]] = []
    for i, unit in enumerate(units):
        before: set[int] = set()
        for name in unit.names("uses"):
            if name in writer:
                before.add(writer[name])
        for name in unit.names("defs"):
            before.update(readers.get(name, ()))
            if name in writer:
                before.add(writer[name])
        if unit.any_of(_WRITES):
            before.update(loads)
            before.update(() if last_store is None else (last_store,))
            last_store, loads = i, []
        elif unit.any_of(_LOADS):
            before.update(() if last_store is None else (last_store,))
            loads.append(i)
        for name in unit.names("uses"):
            readers.setdefault(name, []).append(i)
        for name in unit.names("defs"):
            writer[name] = i
            readers[name] = []
        before.discard(i)
        result.append(before)
    return result


def _replaced(module: Module, function: Function, items: str) -> str:
    pieces = []
    for item in module.items:
        pieces += [item.trivia, item.text]
        if isinstance(item, Function) and item.body is not None:
            if item is function:
                pieces += [item.body.trivia, "{", items, item.body.closing, "}"]
            else:
                pieces += block_pieces(item.body)
    return "".join([*pieces, module.closing])
