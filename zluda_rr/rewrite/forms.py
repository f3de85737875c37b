"""The arithmetic of a layer's epilogues, word for word, as digests that a contract can state.

The phases table says where operands come from; a form says what is done to them on the way. It is the digest of the
canonical terms (`zluda_rr.analysis.terms`) of all words of one operand of one phase, in the order of tiles, k steps
and words; the leaves are accumulators, weight bytes, parameters and constants. One changed constant, another order
of additions or another shuffle distance gives another digest. For stores a form covers guard, address and value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from zluda_rr.analysis import Canonical, Phase, Term

from .match import Kernel, LayerMatch

OPERANDS = ("A", "B", "C")
_DIGEST = 8


def digest(terms: Iterable[Term]) -> str:
    """One digest of terms in order."""
    return blake2b("\n".join(terms).encode(), digest_size=_DIGEST).hexdigest()


def canonical_terms(match: LayerMatch) -> Canonical:
    """Terms of a recognised kernel; final accumulators, weight words and parameters are leaves."""
    cells = {}
    for row in match.rows:
        if row.found is None or row.found.phase.problem is not None:
            continue
        for (m, n), chain in row.found.phase.chains.items():
            for half, value in enumerate(chain[-1].d):
                cells[value.defs[0], value.register] = (row.found.phase.index, m, half, n)
    arrays = {variable: name for name, variable in match.arrays.items()}
    kernel = match.kernel
    return Canonical(kernel.body, kernel.values, cells, arrays, match.contract.weights_parameter)


def operand_terms(canonical: Canonical, phase: Phase) -> tuple[list[Term], list[Term], list[Term]]:
    """Terms of A by (m-tile, k step, register), of B by (n-tile, k step, register), of C by (m-tile, n-tile, half)."""
    steps = range(phase.k_steps)
    of = canonical.of
    a = [of(v) for m in range(phase.m_tiles) for s in steps for v in phase.a(m, s)]
    b = [of(v) for n in range(phase.n_tiles) for s in steps for v in phase.b(n, s)]
    c = [of(phase.c(m, n, half)) for m in range(phase.m_tiles) for n in range(phase.n_tiles) for half in (0, 1)]
    return a, b, c


def phase_forms(canonical: Canonical, match: LayerMatch) -> dict[int, tuple[str, str, str]]:
    """Forms of A, B and C of every recovered phase."""
    found = {}
    for row in match.rows:
        if row.found is not None and row.found.phase.problem is None:
            a, b, c = operand_terms(canonical, row.found.phase)
            found[row.expected.index] = (digest(a), digest(b), digest(c))
    return found


def form_differences(canonical: Canonical, match: LayerMatch) -> list[str]:
    """Operands whose arithmetic is not the one that the contract states."""
    found = phase_forms(canonical, match)
    differences = []
    for row in match.contract.phases:
        if row.form is None:
            differences.append(f"phase {row.index}: the contract states no form of its arithmetic")
            continue
        for operand, wanted, actual in zip(OPERANDS, row.form, found.get(row.index, ("", "", "")), strict=True):
            if wanted != actual:
                text = f"{operand} is computed otherwise (form {actual or 'none'}, the contract has {wanted})"
                differences.append(f"phase {row.index}: {text}")
    return differences


# -------------------------------------------------------------------------------------------------------------- stores


@dataclass(frozen=True, slots=True)
class GuardedStore:
    """A store of the cut: statement, buffer, and the terms of the condition it executes under, address and value."""

    statement: int
    buffer: str
    guard: Term
    address: Term
    value: Term


def path_guard(kernel: Kernel, canonical: Canonical, statement: int, spine: frozenset[int]) -> Term | None:
    """Condition under which a statement executes, given that its region's spine (blocks that always execute) does. None
    where it is not a chain of branches from the spine.
    """
    flow = kernel.flow
    block = flow.block_of(statement)
    conditions: list[Term] = []
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
    terms = canonical.terms
    return terms.negation(terms.disjunction(terms.negation(c) for c in conditions))


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


def store_form(stores: Iterable[GuardedStore]) -> str:
    """One digest of stores in any order."""
    return digest(sorted(" ".join((s.guard, s.address, s.value)) for s in stores))


# ------------------------------------------------------------------------------------------------------------- listing


def listing(match: LayerMatch, canonical: Canonical, stores: Mapping[str, GuardedStore]) -> str:
    """The forms as text: of every phase the first word of A, B and C, and one store per buffer."""
    lines = []
    forms = phase_forms(canonical, match)
    for row in match.rows:
        if row.found is None or row.found.phase.problem is not None:
            continue
        words = operand_terms(canonical, row.found.phase)
        index = row.expected.index
        for operand, form, terms in zip(OPERANDS, forms[index], words, strict=True):
            lines.append(f"phase {index}, {operand}: {len(terms)} words, form {form}; word 0:")
            lines += canonical.terms.listing({"word": terms[0]})
    for buffer, store in stores.items():
        lines.append(f"stores to {buffer}; the first:")
        lines += canonical.terms.listing({"guard": store.guard, "address": store.address, "value": store.value})
    return "\n".join(lines) + "\n"
