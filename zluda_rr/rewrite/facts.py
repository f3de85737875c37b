"""What holds in every launch of a layer, and proofs from it.

Facts come from the contract alone: ranges and evenness of extents and shift, the block's place in the grid. Normal
forms are tried first; the solver sees what they leave open.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from zluda_rr.analysis import Integers, Solver, Term, Terms, replaced
from zluda_rr.contract import ExpectedStore, LayerContract


def launch_facts(terms: Terms, contract: LayerContract) -> list[Term]:
    """Conditions on parameters and block index."""
    launch = contract.launch
    found = []
    for axis, (extent, shift) in enumerate((("ex", "sx"), ("ey", "sy"))):
        e = terms.make("param", launch.extents_offset + 4 * axis, 4)
        s = terms.make("param", launch.shift_offset + 2 * axis, 2)
        block = terms.make("special", f"%ctaid.{'xy'[axis]}")
        last = (launch.extents_range[1] + launch.shift_range[1]) // launch.tile[axis]
        for value, (low, high), bits in (
            (e, launch.extents_range, 32),
            (s, launch.shift_range, 16),
            (block, (0, last), 32),
        ):
            found.append(terms.compare("ge", f"u{bits}", value, terms.constant(low, bits), bits))
            found.append(terms.compare("le", f"u{bits}", value, terms.constant(high, bits), bits))
        for name, value, bits in ((extent, e, 32), (shift, s, 16)):
            if name in launch.even:
                odd = terms.bitwise("and", value, terms.constant(1, bits), bits)
                found.append(terms.compare("eq", f"u{bits}", odd, terms.constant(0, bits), bits))
    return found


def launch_integers(terms: Terms, contract: LayerContract) -> Integers:
    """Numbers under the same ranges."""
    launch = contract.launch
    ranges: dict[Term, tuple[int, int]] = {}
    even = []
    for axis, (extent, shift) in enumerate((("ex", "sx"), ("ey", "sy"))):
        e = terms.make("param", launch.extents_offset + 4 * axis, 4)
        s = terms.make("param", launch.shift_offset + 2 * axis, 2)
        block = terms.make("special", f"%ctaid.{'xy'[axis]}")
        last = (launch.extents_range[1] + launch.shift_range[1]) // launch.tile[axis]
        ranges |= {e: launch.extents_range, s: launch.shift_range, block: (0, last)}
        even += [value for name, value in ((extent, e), (shift, s)) if name in launch.even]
    return Integers(terms, ranges, even)


class Prover:
    """Guards and addresses of one match. `solved` counts what normal forms did not settle."""

    def __init__(self, terms: Terms, contract: LayerContract) -> None:
        self._terms = terms
        self._contract = contract
        self._guards: dict[tuple[Term, Term], bool] = {}
        self._equal: dict[tuple[Term, Term, Term], bool] = {}
        self.solved = 0

    @cached_property
    def _integers(self) -> Integers:
        return launch_integers(self._terms, self._contract)

    @cached_property
    def _solver(self) -> Solver:
        return Solver(self._terms, launch_facts(self._terms, self._contract))

    def same_guard(self, store: ExpectedStore, found: Term) -> bool:
        """Is a store executed just when it is stated to be."""
        key = (store.guard, found)
        if key not in self._guards:
            plain = found == store.guard or self._plain_guard(store, found)
            self._guards[key] = plain or self._as_integers(store, found) or self._solved_guard(store, found)
        return self._guards[key]

    def _plain_guard(self, store: ExpectedStore, found: Term) -> bool:
        """Bounds as stated, and besides them only that the index is not negative, which they imply."""
        terms = self._terms
        stated, actual = (set(self._refusals(g)) for g in (store.guard, found))
        negative = terms.compare("lt", "s32", store.index, terms.constant(0, 32), 32)
        return stated <= actual and actual - stated <= {negative}

    def _as_integers(self, store: ExpectedStore, found: Term) -> bool:
        """The same in the normal form of numbers that do not wrap."""
        condition, terms = self._integers.condition, self._terms
        stated, actual = (set(self._refusals(condition(g))) for g in (store.guard, found))
        negative = condition(terms.compare("lt", "s32", store.index, terms.constant(0, 32), 32))
        return stated <= actual and actual - stated <= {negative}

    def _solved_guard(self, store: ExpectedStore, found: Term) -> bool:
        self.solved += 1
        found = self._known_factors(found, store.guard, ())
        if self._plain_guard(store, found):
            return True
        terms = self._terms
        lemma = terms.disjunction((terms.negation(store.guard), self._not_negative(store)))
        both = terms.conjunction((store.guard, found))
        neither = terms.negation(terms.disjunction((store.guard, found)))
        return self._solver.implied(terms.disjunction((both, neither)), (lemma,))

    def _not_negative(self, store: ExpectedStore) -> Term:
        """The index of a word that is stored lies in the buffer, and that is smaller than 2^31 words."""
        return self._terms.compare("ge", "s32", store.index, self._terms.constant(0, 32), 32)

    def _refusals(self, guard: Term) -> Iterable[Term]:
        """The conditions any one of which keeps a store from being executed."""
        negated = self._terms.negation(guard)
        if self._terms.operation(negated) == "any":
            return self._terms.children(negated)
        return (negated,)

    def same_address(self, store: ExpectedStore, stated: Term, guard: Term, found: Term) -> bool:
        """Is an address the stated one wherever the store is executed."""
        if stated == found:
            return True
        simpler = self._assuming(found, frozenset(self._refusals(guard)))
        if simpler == stated or self._same_number(store, stated, guard, found):
            return True
        key = (store.guard, stated, simpler)
        if key not in self._equal:
            self.solved += 1
            under = (store.guard, self._not_negative(store))
            simpler = self._known_factors(simpler, stated, under)
            self._equal[key] = simpler == stated or self._solver.equal(simpler, stated, 64, under)
        return self._equal[key]

    def _same_number(self, store: ExpectedStore, stated: Term, guard: Term, found: Term) -> bool:
        """Are two addresses the same number, where the store's stated guard holds and so does its own."""
        false = {c for g in (store.guard, guard) for c in self._refusals(self._integers.condition(g))}
        negative = self._terms.compare("lt", "s32", store.index, self._terms.constant(0, 32), 32)
        numbers = self._integers.assuming({*false, self._integers.condition(negative)})
        left, right = (numbers.number(address, 64) for address in (stated, found))
        return left == right

    def _assuming(self, term: Term, false: frozenset[Term]) -> Term:
        """The term where these conditions are known to be false: choices by them are made."""

        def choose(part: Term) -> Term | None:
            if self._terms.operation(part) != "select":
                return None
            yes, no, condition = self._terms.children(part)
            parts = self._terms.children(condition) if self._terms.operation(condition) == "any" else [condition]
            if set(parts) <= false:
                return no
            if self._terms.negation(condition) in false:
                return yes
            return None

        return self._terms.rebuilt(term, choose)

    def _known_factors(self, found: Term, stated: Term, under: Iterable[Term]) -> Term:
        """The term with its unknowns replaced by those of the stated one that they are proved to equal: products of
        unknowns are no bits to the solver, their factors are.
        """
        terms = self._terms
        ours, theirs = (self._factors(t) for t in (stated, found))
        same: dict[Term, Term] = {}
        for factor in theirs - ours:
            for wanted in ours - theirs:
                if self._solver.equal(factor, wanted, 32, under):
                    same[factor] = wanted
                    break
        return replaced(terms, found, same) if same else found

    def _factors(self, term: Term) -> set[Term]:
        """Unknowns of 32 bits behind a term's sums and extensions."""
        found: set[Term] = set()
        work = [term]
        while work:
            part = work.pop()
            if self._terms.operation(part) in ("poly", "sext", "zext", "not", "any", "<", "=="):
                work.extend(self._terms.children(part))
            elif self._terms.operation(part) not in ("param", "special"):
                found.add(part)
        return found
