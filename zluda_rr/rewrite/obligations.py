"""The seven proof obligations of a cut, each shown by dataflow."""

from __future__ import annotations

from collections.abc import Iterable

from zluda_rr.analysis import Access, SharedArrayUse, Touch
from zluda_rr.contract import CutRule
from zluda_rr.ptx import Statement

from .hygiene import looping_definition
from .match import Kernel, LayerMatch
from .plan import (
    Obligation,
    Region,
    fragment_register,
    is_consumer,
    is_pure,
    operand_registers,
    outside_readers,
    scopes_of,
)

EFFECTS = frozenset(("st", "atom", "red", "sust", "call", "stmatrix", "cp", "mbarrier", "exit", "ret", "trap"))
IMAGE_LOADS = frozenset(("tex", "tld4", "suld", "ldmatrix", "ldu"))


def spans(numbers: Iterable[int]) -> str:
    """`s3..s7, s9` for statement numbers."""
    ordered = sorted(set(numbers))
    parts: list[list[int]] = []
    for number in ordered:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"s{a}" if a == b else f"s{a}..s{b}" for a, b in parts)


def single_entry(kernel: Kernel, region: Region) -> Obligation:
    """1: all statements from the first to the last mma are one straight line, and every mma is unconditional."""
    flow = kernel.flow
    first, last = flow.block_of(region.first), flow.block_of(region.last)
    guarded = [n for n in region.members if kernel.body[n].guard is not None]
    if guarded:
        return Obligation(1, False, f"{spans(guarded)} executes under a predicate", tuple(guarded))
    for block in range(first + 1, last + 1):
        others = [p for p in flow.predecessors[block] if p != block - 1]
        start = flow.blocks[block].start
        if others:
            jumps = tuple(flow.blocks[p].end for p in others)
            return Obligation(1, False, f"{spans(jumps)} branches into the cut at s{start}", (*jumps, start))
        leaving = [s for s in flow.successors[block - 1] if s != block]
        if leaving or block not in flow.successors[block - 1]:
            end = flow.blocks[block - 1].end
            return Obligation(1, False, f"s{end} branches out of the cut", (end,))
    where = f"s{region.first}..s{region.last} stand in one straight line"
    return Obligation(1, True, where, (region.first, region.last))


def outputs_returned(kernel: Kernel, region: Region) -> Obligation:
    """2: accumulators read outside are returned; readers in the gap are moved behind the calls where that is
    harmless.
    """
    final = {chain[-1].statement for chain in region.phase.chains.values()}
    readers: set[int] = set()
    for number in region.members:
        for register in kernel.body[number].defs:
            outside = outside_readers(kernel, region, number, register)
            if outside and number not in final:
                return Obligation(2, False, f"{spans(outside)} reads a partial sum of s{number}", (number, *outside))
            readers.update(outside)
            later = [n for n in range(number + 1, region.last + 1) if register in kernel.body[n].defs]
            if later and number in final:
                return Obligation(
                    2, False, f"{spans(later)} overwrites {register}, a result of s{number}", (number, *later)
                )
    problem = _unmovable(kernel, region) or _torn_scope(kernel, region)
    if problem is not None:
        return problem
    count = 2 * len(region.phase.chains)
    moved = f"; {spans(region.moved)} moved behind the calls" if region.moved else ""
    return Obligation(2, True, f"{count} accumulators returned, {len(readers)} readers{moved}", tuple(sorted(readers)))


def _unmovable(kernel: Kernel, region: Region) -> Obligation | None:
    """The first statement in the gap that depends on the cut and cannot be moved behind the calls."""
    inside, moved = set(region.members), set(region.moved)
    allowed = " or ".join(region.rule.consumers) or "allowed reader"
    for number in region.moved:
        statement = kernel.body[number]
        sources = {d for r in statement.uses for d in kernel.values.reaching(number, r)}
        if inside & sources and not is_consumer(statement, region.rule.consumers):
            text = f"s{number} reads a result of the cut inside its gap and is no {allowed}: {_one_line(statement)}"
            return Obligation(2, False, text, (number, *sorted(inside & sources)))
        if not is_pure(statement):
            text = f"s{number} depends on the cut inside its gap and cannot be moved: {_one_line(statement)}"
            return Obligation(2, False, text, (number,))
    written: dict[str, int] = {}  # by statements that stay, between here and the calls
    read: dict[str, int] = {}
    for number in range(region.last, region.first, -1):
        statement = kernel.body[number]
        if number not in moved:
            written.update(dict.fromkeys(statement.defs, number))
            read.update(dict.fromkeys(statement.uses, number))
            continue
        clash = [written[r] for r in (*statement.defs, *statement.uses) if r in written]
        clash += [read[r] for r in statement.defs if r in read]
        if clash:
            text = f"s{number} reads a result of the cut inside its gap and cannot pass s{clash[0]}"
            return Obligation(2, False, text, (number, clash[0]))
    return None


def _torn_scope(kernel: Kernel, region: Region) -> Obligation | None:
    """A moved statement whose scope does not move as a whole, or that uses two scopes."""
    moved = set(region.moved)
    scopes = {scope: number for number in region.moved for scope in scopes_of(kernel.body[number])}
    for statement in kernel.body.statements:
        used = scopes_of(statement)
        if not used & scopes.keys() or (statement.number in moved and len(used) == 1):
            continue
        number = scopes[min(used & scopes.keys())]
        text = f"s{number} depends on the cut inside its gap and shares a scope with s{statement.number}"
        return Obligation(2, False, text, (number, statement.number))
    return None


def _one_line(statement: Statement) -> str:
    return " ".join(statement.text.split())[:48].rstrip(";")


def inputs_defined(kernel: Kernel, region: Region) -> Obligation:
    """3: every fragment word sits unchanged in a register at the calls, and is defined on every path to them."""
    registers = operand_registers(kernel, region)
    again = looping_definition(kernel, region.members)
    if again is not None:
        return Obligation(3, False, f"s{again}, on which the operands depend, stands in a loop", (again,))
    moved = set(region.moved) | set(region.members)
    sources: set[int] = set()
    for (operand, tile, step, word), name in registers.items():
        place = f"{operand.upper()} word {word} of tile {tile}" + (f", step {step}" if step else "")
        if name is None:
            number, lost = _first_use(kernel, region, operand, tile, word)
            changed = [n for n in range(number, region.last) if lost in kernel.body[n].defs]
            where = f"overwritten by {spans(changed)}" if changed else "not visible at the calls"
            return Obligation(3, False, f"{place} ({lost}) is {where} before the calls", (number, *changed))
        defs = kernel.values.reaching(region.last, name)
        if not defs or moved.intersection(defs):
            return Obligation(3, False, f"{place} ({name}) has no definition before the calls", defs)
        if not any(kernel.flow.statement_dominates(d, region.last) for d in defs) and _avoidable(
            kernel, set(defs), region.last
        ):
            return Obligation(3, False, f"a path reaches the calls without {place} ({name})", defs)
        sources.update(defs)
    results = {r: n for n in region.members for r in kernel.body[n].defs}
    for name in registers.values():
        if name in results:
            text = f"{name} is an operand and takes a result: the first call would overwrite it"
            return Obligation(3, False, text, (results[name],))
    count = len(registers)
    return Obligation(
        3, True, f"{count} fragment words, defined by {len(sources)} statements before", tuple(sorted(sources))
    )


def _first_use(kernel: Kernel, region: Region, operand: str, tile: int, word: int) -> tuple[int, str]:
    position = 1 if operand == "a" else 2
    mma = next(
        chain[0] for (m, n), chain in sorted(region.phase.chains.items()) if tile == (m if operand == "a" else n)
    )
    return mma.statement, fragment_register(kernel, mma.statement, position, word)


def _avoidable(kernel: Kernel, defs: set[int], point: int) -> bool:
    """Is there a path from the entry to `point` that executes none of `defs`."""
    flow = kernel.flow
    blocked = {flow.block_of(d) for d in defs if flow.block_of(d) != flow.block_of(point) or d < point}
    seen, work = {0}, [0]
    while work:
        block = work.pop()
        if block in blocked:
            continue
        if block == flow.block_of(point):
            return True
        fresh = [s for s in flow.successors[block] if s not in seen]
        seen.update(fresh)
        work.extend(fresh)
    return False


def loads_named(kernel: Kernel, region: Region, match: LayerMatch) -> Obligation:
    """4: the gap loads only from what the rule allows; the mma themselves load nothing."""
    found = []
    for number in region.gap:
        statement = kernel.body[number]
        if statement.opcode in IMAGE_LOADS:
            return Obligation(
                4, False, f"s{number} ({statement.opcode}) reads what the contract does not name", (number,)
            )
        access = kernel.values.access(statement)
        if access is None or statement.opcode in ("st", "red") or access.space == "param":
            continue
        name = _named(access, match)
        if name not in region.rule.loads:
            what = f"{name}, which the cut does not name" if name else "an address the contract does not name"
            return Obligation(4, False, f"s{number} loads from {what}", (number,))
        found.append(number)
    detail = (
        f"{spans(found)} load {', '.join(region.rule.loads)}"
        if found
        else "no loads between the first and the last mma"
    )
    return Obligation(4, True, detail, tuple(found))


def stores_named(kernel: Kernel, region: Region, match: LayerMatch) -> Obligation:
    """5: the gap stores nothing the rule does not allow, and does nothing whose effect is unknown."""
    found = []
    for number in region.gap:
        statement = kernel.body[number]
        if statement.instruction is not None and not statement.known:
            return Obligation(5, False, f"s{number} ({statement.opcode}) has effects that are not known", (number,))
        if statement.opcode not in EFFECTS:
            continue
        access = kernel.values.access(statement)
        name = _named(access, match) if access is not None else None
        if name not in region.rule.stores:
            return Obligation(5, False, f"s{number} ({statement.opcode}) writes what the cut does not name", (number,))
        found.append(number)
    return Obligation(5, True, spans(found) or "no stores between the first and the last mma", tuple(found))


def _named(access: Access, match: LayerMatch) -> str | None:
    """The contract's name for what an access touches."""
    root = access.root
    if root is None:
        return None
    if root.kind == "shared":
        return next((name for name, variable in match.arrays.items() if variable == root.name), None)
    if root.kind == "parameter":
        return next((b.name for b in match.contract.buffers if b.offset == root.number), None)
    return None


def scratch_dead(kernel: Kernel, region: Region, variable: str | None, rule: CutRule) -> Obligation:
    """6: the lent array's bytes are read no more, and every earlier access is over when the body starts."""
    if variable is None or variable not in kernel.body.variables:
        return Obligation(6, False, f"no shared array is the contract's {rule.lend_array}")
    use = SharedArrayUse(kernel.body, kernel.flow, kernel.values, variable)
    if use.nbytes < rule.lend_bytes:
        return Obligation(6, False, f"{rule.lend_array} has {use.nbytes} bytes, the body is lent {rule.lend_bytes}")
    lent = (1 << rule.lend_bytes) - 1
    alive, readers = use.live_after(region.last)
    if alive & lent:
        reading = tuple(n for n in readers if use.touches[n].bits & lent)
        return Obligation(6, False, f"{spans(reading)} still reads lent bytes after the cut", reading)
    pending = [t for t in use.unordered_before(region.last) if t.bits & lent and not _is_over(kernel, region, t)]
    if pending:
        numbers = tuple(t.statement for t in pending)
        return Obligation(6, False, f"{spans(numbers)} may not be over in all lanes when the body starts", numbers)
    after = [t.statement for t in use.unordered_after(region.last) if t.bits & lent]
    if after:
        return Obligation(6, False, f"{spans(after)} follows the body without a barrier", tuple(after))
    before = sorted(n for n, t in use.touches.items() if t.reads and n < region.first)
    last = f"last read by s{before[-1]}" if before else "never read before"
    return Obligation(
        6, True, f"{rule.lend_bytes} bytes of {rule.lend_array}, {last}, none read after", tuple(before[-1:])
    )


def _is_over(kernel: Kernel, region: Region, touch: Touch) -> bool:
    """A load is over when what it loaded went into a warp-wide instruction that all lanes execute before the calls; on
    the way it may be packed, shifted and joined by whatever only computes.
    """
    statement = kernel.body[touch.statement]
    if touch.writes or statement.opcode not in ("ld", "ldu") or not statement.defs:
        return False
    outside = {*region.members, *region.moved}
    return all(_joins(kernel, region, outside, touch.statement, register) for register in statement.defs)


def _joins(kernel: Kernel, region: Region, outside: set[int], number: int, register: str) -> bool:
    """Does a product that dominates the calls, and is none of `outside`, need a value."""
    seen: set[tuple[int, str]] = set()
    work = [(number, register)]
    while work:
        place = work.pop()
        if place in seen:
            continue
        seen.add(place)
        for reader in kernel.uses.readers(*place):
            statement = kernel.body[reader]
            if statement.opcode == "mma" and reader not in outside:
                if kernel.flow.statement_dominates(reader, region.last):
                    return True
            elif is_pure(statement) and reader not in outside:
                work.extend((reader, name) for name in statement.defs)
    return False


def phases_equal(match: LayerMatch) -> Obligation:
    """7: every phase of the kernel is the contract's."""
    difference = match.first_difference()
    total = sum(len(row.found.phase.mmas) for row in match.rows if row.found is not None)
    if difference is not None:
        return Obligation(7, False, difference)
    ends = tuple(
        n for row in match.rows if row.found is not None for n in (row.found.phase.first, row.found.phase.last)
    )
    detail = f"{len(match.rows)} phases, {total} mma, every operand word as stated"
    return Obligation(7, True, detail, (min(ends), max(ends)))
