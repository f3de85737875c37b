"""The seven proof obligations of a layer cut, each shown by dataflow."""

from __future__ import annotations

from zluda_rr.analysis import Access, SharedArrayUse
from zluda_rr.ptx import ControlFlow, Statement

from .facts import Prover
from .hygiene import looping_definition
from .layer_region import LayerRegion
from .match import Kernel, LayerMatch
from .obligations import EFFECTS, IMAGE_LOADS, spans
from .plan import Obligation, is_pure, only_computes
from .stores import StoreDifference, compare_stores, stored_halves

_JOINS = ("mov", "prmt", "selp")
_ORDERING = frozenset(("bar", "barrier", "membar", "fence"))


def layer_entry(kernel: Kernel, region: LayerRegion) -> Obligation:
    """1: the region's blocks are entered at the first and left at the last one only, and hold no loop."""
    flow = kernel.flow
    entry, end = flow.block_of(region.first), flow.block_of(region.last)
    if not (flow.dominates(entry, end) and flow.post_dominates(end, entry)):
        detail = f"a path passes only one of s{region.first} and s{region.last}"
        return Obligation(1, False, detail, (region.first, region.last))
    if flow.reaches(region.last, region.first):
        return Obligation(1, False, f"a loop leads from s{region.last} back to s{region.first}")
    problem = _stray_edge(flow, entry, end)
    if problem is not None:
        return problem
    guarded = [n for n in region.replaced if n not in region.stores and _is_conditional(kernel.body[n])]
    if guarded:
        return Obligation(1, False, f"{spans(guarded)} executes under a predicate", tuple(guarded))
    inner = end - entry + 1
    detail = (
        f"s{region.first}..s{region.last}: {inner} blocks, {len(region.spine)} of them on every path, no edge crosses"
    )
    return Obligation(1, True, detail, (region.first, region.last))


def _is_conditional(statement: Statement) -> bool:
    """More than a value of its own lane depends on whether a predicated statement is executed. Choices of values may be
    predicated: what they choose is compared as any other term.
    """
    if statement.guard is None or statement.opcode == "bra":
        return False
    return statement.opcode in ("mma", "shfl", "movmatrix", "vote") or not only_computes(statement)


def _stray_edge(flow: ControlFlow, entry: int, end: int) -> Obligation | None:
    for block in range(entry, end + 1):
        start, stop = flow.blocks[block].start, flow.blocks[block].end
        if block != entry:
            outside = [flow.blocks[p].end for p in flow.predecessors[block] if not entry <= p < end or p >= block]
            if outside:
                return Obligation(1, False, f"{spans(outside)} branches into the cut at s{start}", (*outside, start))
        if block != end and (block in flow.exits or any(not block < s <= end for s in flow.successors[block])):
            return Obligation(1, False, f"s{stop} branches out of the cut", (stop,))
    return None


def layer_outputs(kernel: Kernel, region: LayerRegion) -> Obligation:
    """2: only results of the last phase are read outside; whatever else the rest needs is computed behind the call."""
    if region.leaks:
        leak = region.leaks[0]
        detail = f"s{leak.reader} reads {leak.register}, a product of the cut that the body does not return"
        return Obligation(2, False, detail, (leak.reader, *leak.defs))
    for number in region.moved:
        statement = kernel.body[number]
        if kernel.flow.block_of(number) not in region.spine:
            return Obligation(2, False, f"s{number} is needed after the cut and does not always execute", (number,))
        if not (is_pure(statement) or _is_harmless_load(kernel, number)):
            return Obligation(2, False, f"s{number} is needed after the cut and cannot be emitted again", (number,))
    several = _overwritten(kernel, region)
    if several is not None:
        return several
    count = len(region.returned)
    detail = f"{count} registers returned; {spans(region.moved) or 'nothing'} emitted again behind the call"
    return Obligation(2, True, detail, (*(n for n, _ in region.returned), *region.moved))


def _overwritten(kernel: Kernel, region: LayerRegion) -> Obligation | None:
    """Whatever crosses the border by name must have one definition, so that no order of execution can mix values.
    Definitions that the cut removes do not count: products that are written over their own C.
    """
    removed = set(region.replaced)
    returned = set(region.returned)
    names = [(n, r) for n in (*region.kept, *region.moved) for r in kernel.body[n].defs]
    for number, register in (*names, *region.returned):
        others = [n for n in kernel.uses.defs(register) if n != number]
        others = [n for n in others if n not in removed or (n, register) in returned]
        if others:
            return Obligation(
                2, False, f"{register} of s{number} is also defined by {spans(others)}", (number, *others)
            )
    return None


def _is_harmless_load(kernel: Kernel, number: int) -> bool:
    """A load that gives the same before and behind the body: parameters, and shared bytes that are not lent."""
    statement = kernel.body[number]
    access = kernel.values.access(statement)
    if access is None or access.kind != "load" or statement.guard is not None or access.root is None:
        return False
    if access.root.kind == "block":
        return True
    return access.root.kind == "shared" and access.exact  # that the bytes are not lent ones is obligation 6


def layer_inputs(kernel: Kernel, region: LayerRegion) -> Obligation:
    """3: every fragment word and seed is defined on every path to the call, by statements in front of it."""
    for value in region.arguments:
        if "@" in value.register:
            return Obligation(3, False, f"{value.register} of s{value.reader} is not visible at the call", value.defs)
        inside = [n for n in value.defs if n >= region.first]
        if set(inside) - set(region.kept) or not value.defs:
            return Obligation(3, False, f"{value.register} has no definition in front of the call", value.defs)
        if not kernel.uses.is_defined_before(value.reader, value.register):
            return Obligation(3, False, f"a path reaches the cut without {value.register}", value.defs)
    for number in region.kept:
        statement = kernel.body[number]
        access = kernel.values.access(statement)
        plain = is_pure(statement) or (access is not None and access.kind == "load" and statement.guard is None)
        if not plain or kernel.flow.block_of(number) not in region.spine:
            return Obligation(3, False, f"s{number}, needed for the call, cannot stand in front of it", (number,))
    stale = _stale(kernel, region)
    if stale is not None:
        return stale
    again = looping_definition(kernel, [d for value in region.arguments for d in value.defs])
    if again is not None:
        return Obligation(3, False, f"s{again}, on which the arguments depend, stands in a loop", (again,))
    defs = {n for value in region.arguments for n in value.defs}
    count = len(region.arguments)
    detail = f"{count} words, defined by {spans(defs)}; pointers, extents and origin are read from the parameters"
    return Obligation(3, True, detail, tuple(sorted(defs)))


def _stale(kernel: Kernel, region: LayerRegion) -> Obligation | None:
    """A statement moved behind the call must not find a register that a kept one has overwritten."""
    written = {register for n in region.kept for register in kernel.body[n].defs}
    for number in region.moved:
        for register in kernel.body[number].uses:
            defs = kernel.values.reaching(number, register) if register in kernel.body.registers else ()
            if register in written and not set(defs) <= set(region.kept):
                return Obligation(3, False, f"{register} is overwritten before s{number} reads it", (number, *defs))
    return None


def layer_loads(kernel: Kernel, region: LayerRegion, match: LayerMatch) -> Obligation:
    """4: the region reads parameters, bytes of the weight image, and what else the rule names."""
    staying = {*region.moved, *region.kept}
    weights: list[tuple[int, int]] = []
    others: list[int] = []
    for number in range(region.first, region.last + 1):
        statement = kernel.body[number]
        if number in staying:
            continue
        if statement.opcode in IMAGE_LOADS:
            return Obligation(
                4, False, f"s{number} ({statement.opcode}) reads what the contract does not name", (number,)
            )
        access = kernel.values.access(statement)
        if access is None or access.kind == "store":
            continue
        name = load_name(access, match)
        if name not in ("parameters", *region.rule.loads):
            what = f"{name}, which the cut does not name" if name else "an address the contract does not name"
            return Obligation(4, False, f"s{number} loads from {what}", (number,))
        extent = access.extent()
        if name == "weights" and (extent is None or extent[0] < 0 or extent[1] > match.contract.weights_bytes):
            return Obligation(
                4, False, f"s{number} reads weight bytes {extent} of {match.contract.weights_bytes}", (number,)
            )
        (weights.append(extent) if name == "weights" and extent is not None else others.append(number))
    read = f"weight bytes {min(a for a, _ in weights)}..{max(b for _, b in weights)}" if weights else "no weights"
    return Obligation(
        4, True, f"{len(weights)} loads of {read}; {spans(others) or 'none'} of {_list(region)}", tuple(others)
    )


def _list(region: LayerRegion) -> str:
    return ", ".join(("parameters", *(name for name in region.rule.loads if name != "weights")))


def load_name(access: Access, match: LayerMatch) -> str | None:
    """The contract's name for what a load reads."""
    root = access.root
    if root is None:
        return None
    if root.kind == "block":
        return "parameters"
    if root.kind == "shared":
        return next((name for name, variable in match.arrays.items() if variable == root.name), None)
    if root.kind == "parameter":
        return next((b.name for b in match.contract.buffers if b.offset == root.number), None)
    return None


def layer_stores(kernel: Kernel, region: LayerRegion, match: LayerMatch) -> Obligation:
    """5: every effect is a store that the body performs: same guard, address and value, and as many of them."""
    named = set(region.stores)
    for number in range(region.first, region.last + 1):
        statement = kernel.body[number]
        if statement.instruction is not None and not statement.known:
            return Obligation(5, False, f"s{number} ({statement.opcode}) has effects that are not known", (number,))
        if (statement.opcode in EFFECTS or statement.opcode in _ORDERING) and number not in named:
            return Obligation(5, False, f"s{number} ({statement.opcode}) writes what the cut does not name", (number,))
    outside = [n for n in region.stores if not region.first <= n <= region.last]
    if outside:
        return Obligation(5, False, f"s{outside[0]} writes a buffer of the cut outside it", (outside[0],))
    canonical = match.recognition.canonical
    found = stored_halves(kernel, canonical, region.stores, region.spine)
    if isinstance(found, StoreDifference):
        return Obligation(5, False, str(found), (found.statement,))
    prover = Prover(canonical.terms, match.contract)
    different = compare_stores(match, region.rule, found, prover)
    if different is not None:
        return Obligation(5, False, str(different), (different.statement,) if different.statement else ())
    parts = [f"all words of D{store.phase} to {store.buffer}" for store in region.rule.stores]
    detail = f"{len(found)} half words: {', '.join(parts)}" if parts else "no stores"
    if prover.solved:
        detail += f"; {prover.solved} guards and addresses by the solver"
    return Obligation(5, True, detail, region.stores)


def layer_scratch(kernel: Kernel, region: LayerRegion, variable: str | None) -> Obligation:
    """6: the lent bytes are read no more, and what read them before has its words in the call's arguments."""
    rule = region.rule
    if variable is None or variable not in kernel.body.variables:
        return Obligation(6, False, f"no shared array is the contract's {rule.lend_array}")
    use = SharedArrayUse(kernel.body, kernel.flow, kernel.values, variable)
    if use.nbytes < rule.lend_bytes:
        return Obligation(6, False, f"{rule.lend_array} has {use.nbytes} bytes, the body is lent {rule.lend_bytes}")
    lent = (1 << rule.lend_bytes) - 1
    alive, readers = use.live_after(region.last)
    moved = [n for n in region.moved if n in use.touches and use.touches[n].bits & lent]
    if alive & lent or moved:
        reading = tuple(moved) + tuple(n for n in readers if use.touches[n].bits & lent)
        return Obligation(6, False, f"{spans(reading)} still reads lent bytes after the cut", reading)
    passed = _behind(kernel, region)
    before = [t for t in use.unordered_before(region.first) if t.bits & lent]
    inside = [use.touches[n] for n in range(region.first, region.last + 1) if n in use.touches]
    for touch in (*before, *(t for t in inside if t.bits & lent)):
        if touch.writes or touch.statement not in passed:
            detail = f"s{touch.statement} may not be over in all lanes when the body starts"
            return Obligation(6, False, detail, (touch.statement,))
    after = [t.statement for t in use.unordered_after(region.last) if t.bits & lent]
    if after:
        return Obligation(6, False, f"{spans(after)} follows the body without a barrier", tuple(after))
    reads = sorted(n for n, t in use.touches.items() if t.reads and n in passed)
    detail = f"{rule.lend_bytes} bytes of {rule.lend_array}: last read by {spans(reads)}, whose words are arguments"
    return Obligation(6, True, detail, tuple(reads))


def _behind(kernel: Kernel, region: LayerRegion) -> set[int]:
    """Statements whose results the call's arguments are made of: a lane that has its arguments is past them."""
    found: set[int] = set()
    work = [(n, value.register) for value in region.arguments for n in value.defs]
    while work:
        number, _ = work.pop()
        if number in found:
            continue
        found.add(number)
        statement = kernel.body[number]
        if is_pure(statement) or statement.opcode in _JOINS:
            for register in statement.uses:
                if register in kernel.body.registers:
                    work.extend((n, register) for n in kernel.values.reaching(number, register))
    return found
