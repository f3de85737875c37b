"""The stores of a layer cut against those that the contract states: guard, address and value of every half word.

A found store is split into half words and compared with the expected ones by value first; its guard and address then
have to be the expected ones, by normal form or by proof. Whole words and pieces, branches and predicates, signed and
unsigned bounds are all the same here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zluda_rr.analysis import Canonical, Term, element_bytes
from zluda_rr.contract import ExpectedStore, LayerCutRule, TermDifference, smallest_difference, term_text

from .facts import Prover
from .match import Kernel, LayerMatch


@dataclass(frozen=True, slots=True)
class StoredHalf:
    """16 bits that a statement stores, if `guard`."""

    statement: int
    guard: Term
    address: Term
    value: Term


@dataclass(frozen=True, slots=True)
class StoreDifference:
    """Which stored word is not as stated, and how."""

    place: str
    part: str  # guard, address, value, number
    difference: TermDifference | None
    statement: int

    def __str__(self) -> str:
        if self.difference is None:
            return f"{self.place}: {self.part}"
        return f"{self.place}: {self.part}: {self.difference}"


def path_guard(kernel: Kernel, canonical: Canonical, statement: int, spine: frozenset[int]) -> Term | None:
    """Condition under which a statement executes, given that its region's spine (blocks that always execute) does. None
    where it is not a chain of branches from the spine.
    """
    flow, terms = kernel.flow, canonical.terms
    block = flow.block_of(statement)
    conditions = []
    guard = kernel.body[statement].guard
    if guard is not None:
        taken = canonical.register(statement, guard.register)
        conditions.append(terms.negation(taken) if guard.negated else taken)
    while block not in spine:
        before = flow.predecessors[block]
        if len(before) != 1:
            return None
        (origin,) = before
        condition = _edge(kernel, canonical, origin, block)
        if condition is None:
            return None
        conditions.append(condition)
        block = origin
    return terms.conjunction(conditions)


def _edge(kernel: Kernel, canonical: Canonical, origin: int, target: int) -> Term | None:
    """Condition on which control goes from the end of one block to another."""
    flow = kernel.flow
    if flow.successors[origin] == (target,):
        return canonical.terms.truth((True,) * 32)
    last = kernel.body[flow.blocks[origin].end]
    if last.opcode != "bra" or last.guard is None or len(set(flow.successors[origin])) != 2:
        return None
    taken = canonical.register(last.number, last.guard.register)
    if last.guard.negated:
        taken = canonical.terms.negation(taken)
    return canonical.terms.negation(taken) if flow.blocks[origin].end + 1 == flow.blocks[target].start else taken


def stored_halves(
    kernel: Kernel, canonical: Canonical, statements: Iterable[int], spine: frozenset[int]
) -> list[StoredHalf] | StoreDifference:
    """The half words that statements store."""
    found = []
    terms = canonical.terms
    for number in statements:
        statement = kernel.body[number]
        guard = path_guard(kernel, canonical, number, spine)
        if guard is None:
            return StoreDifference(f"s{number}", "executes under a condition that is not understood", None, number)
        values = canonical.halves(statement, statement.operands[1], element_bytes(statement))
        if values is None or statement.opcode != "st":
            return StoreDifference(f"s{number}", "writes a buffer of the cut in another way", None, number)
        address = canonical.address(statement)
        for i, value in enumerate(values):
            found.append(StoredHalf(number, guard, terms.add(address, terms.constant(2 * i, 64), 64), value))
    return found


def compare_stores(
    match: LayerMatch, rule: LayerCutRule, halves: Sequence[StoredHalf], prover: Prover
) -> StoreDifference | None:
    """The first way in which stores are not the rule's; None where all are."""
    terms = match.recognition.canonical.terms
    left: dict[Term, list[tuple[ExpectedStore, int]]] = {}
    for store in (s for r in rule.stores for s in match.recognition.expected.stores(r)):
        for i in (0, 1):
            left.setdefault(terms.half(store.value, i), []).append((store, i))
    unplaced = []
    for half in halves:
        candidates = left.get(half.value)
        if not candidates:
            unplaced.append(half)
            continue
        store, index = candidates.pop(0)
        different = _different(match, store, index, half, prover)
        if different is not None:
            return different
    missing = [place for places in left.values() for place in places]
    if unplaced:
        return _unplaced(match, unplaced[0], missing, prover)
    if missing:
        store, index = missing[0]
        return StoreDifference(store.place, f"half {index} is not stored", None, 0)
    return None


def _different(
    match: LayerMatch, store: ExpectedStore, index: int, half: StoredHalf, prover: Prover
) -> StoreDifference | None:
    terms = match.recognition.canonical.terms
    if not prover.same_guard(store, half.guard):
        return _named(match, store, "guard", store.guard, half.guard, half.statement)
    address = terms.add(store.address, terms.constant(2 * index, 64), 64)
    if not prover.same_address(store, address, half.guard, half.address):
        return _named(match, store, "address", address, half.address, half.statement)
    return None


def _unplaced(
    match: LayerMatch, half: StoredHalf, missing: Sequence[tuple[ExpectedStore, int]], prover: Prover
) -> StoreDifference:
    """A stored value that is none of the layer's: the word whose place it takes is the one to compare with."""
    terms = match.recognition.canonical.terms
    for store, index in missing:
        address = terms.add(store.address, terms.constant(2 * index, 64), 64)
        if prover.same_address(store, address, half.guard, half.address):
            return _named(match, store, "value", terms.half(store.value, index), half.value, half.statement)
    text = f"stores {term_text(terms, half.value)}, which is no word of the layer left to store"
    return StoreDifference(f"s{half.statement}", text, None, half.statement)


def _named(
    match: LayerMatch, store: ExpectedStore, part: str, wanted: Term, found: Term, statement: int
) -> StoreDifference:
    canonical = match.recognition.canonical
    a, b = smallest_difference(canonical.terms, wanted, found)
    origin = canonical.origin.get(b, statement)
    difference = TermDifference(term_text(canonical.terms, a), term_text(canonical.terms, b), origin)
    return StoreDifference(store.place, part, difference, statement)
