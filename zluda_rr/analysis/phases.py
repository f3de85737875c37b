"""mma fragments and phases.

A phase is one matrix product: the mma instructions whose accumulator chains, A fragments and B fragments form a
full grid. `k_steps` is the length of the chains (C of an mma is D of the one before), `m_tiles` and `n_tiles` are
the distinct A and B fragments divided by it. Counting fragments alone gives wrong shapes wherever K > 32 (seed 001
§2.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zluda_rr.ptx import Body, Register, Vector

from .values import Value, Values

MMA_FORM = ("m16n8k32", "row", "col", "f16", "e4m3", "e4m3", "f16")
MMA_WORDS = (2, 4, 2, 2)
"""Registers of D, A, B and C in that form (PTX ISA 9.7.14, m16n8k32)."""


@dataclass(frozen=True, slots=True)
class Mma:
    """One mma.sync: fragments as values. a has 4 words, b, c and d 2 (f16x2: rows g and g + 8)."""

    statement: int
    a: tuple[Value, ...]
    b: tuple[Value, ...]
    c: tuple[Value, ...]
    d: tuple[Value, ...]
    supported: bool  # m16n8k32, e4m3 operands, f16 accumulators, without a guard


@dataclass(frozen=True, slots=True)
class Phase:
    """A product. `chains[m, n]` are the mma of one 16x8 tile in k order; empty where `problem` says why there is no
    grid.
    """

    index: int
    mmas: tuple[Mma, ...]
    chains: Mapping[tuple[int, int], tuple[Mma, ...]]
    m_tiles: int
    n_tiles: int
    k_steps: int
    problem: str | None

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N, K."""
        return 16 * self.m_tiles, 8 * self.n_tiles, 32 * self.k_steps

    @property
    def first(self) -> int:
        """Statement number of the first mma."""
        return self.mmas[0].statement

    @property
    def last(self) -> int:
        """Statement number of the last mma."""
        return self.mmas[-1].statement

    def a(self, m: int, step: int) -> tuple[Value, ...]:
        """A fragment of m-tile m at a k step."""
        return self.chains[m, 0][step].a

    def b(self, n: int, step: int) -> tuple[Value, ...]:
        """B fragment of n-tile n at a k step."""
        return self.chains[0, n][step].b

    def c(self, m: int, n: int, half: int) -> Value:
        """Seed of a tile; half 0 is row g, half 1 row g + 8."""
        return self.chains[m, n][0].c[half]

    def d(self, m: int, n: int, half: int) -> Value:
        """Final accumulator of a tile."""
        return self.chains[m, n][-1].d[half]

    def relabelled(self, m_labels: Sequence[int], n_labels: Sequence[int]) -> Phase:
        """The same phase with tile m called m_labels[m] and tile n called n_labels[n]."""
        chains = {(m_labels[m], n_labels[n]): chain for (m, n), chain in self.chains.items()}
        return replace(self, chains=dict(sorted(chains.items())))


def collect_mma(body: Body, values: Values) -> tuple[Mma, ...]:
    """Every mma of a body in statement order."""
    found = []
    for statement in body.statements:
        if statement.opcode != "mma" or not statement.known:
            continue
        d, a, b, c = (_words(operand) for operand in statement.operands[:4])
        number = statement.number
        form = tuple(m for m in statement.modifiers if m not in ("sync", "aligned"))
        supported = form == MMA_FORM and tuple(map(len, (d, a, b, c))) == MMA_WORDS
        read_a, read_b, read_c = (tuple(values.value(number, r) for r in part) for part in (a, b, c))
        writes = tuple(Value(r, (number,)) for r in d)
        found.append(Mma(number, read_a, read_b, read_c, writes, supported and statement.guard is None))
    return tuple(found)


def _words(operand: object) -> tuple[str, ...]:
    elements = operand.elements if isinstance(operand, Vector) else (operand,)
    return tuple(e.name for e in elements if isinstance(e, Register))


def build_phase(index: int, mmas: Sequence[Mma]) -> Phase:
    """Recover chains and the tile grid of the mma of one phase."""
    ordered = tuple(sorted(mmas, key=lambda mma: mma.statement))
    odd = next((mma for mma in ordered if tuple(map(len, (mma.d, mma.a, mma.b, mma.c))) != MMA_WORDS), None)
    if odd is not None:
        words = "a fragment of s{} has not the registers of m16n8k32 with e4m3 operands and f16 accumulators"
        return Phase(index, ordered, {}, 0, 0, 0, words.format(odd.statement))
    chains, problem = _chains(ordered)
    if problem is None:
        grid, m_tiles, n_tiles, problem = _grid(chains)
        if problem is None:
            return Phase(index, ordered, grid, m_tiles, n_tiles, len(chains[0]), None)
    return Phase(index, ordered, {}, 0, 0, 0, problem)


def _chains(mmas: Sequence[Mma]) -> tuple[list[tuple[Mma, ...]], str | None]:
    by_result = {mma.d: mma for mma in mmas}
    previous = {mma.statement: by_result.get(mma.c) for mma in mmas}
    followed = [p.statement for p in previous.values() if p is not None]
    if len(followed) != len(set(followed)):
        twice = next(s for s in followed if followed.count(s) > 1)
        return [], f"two mma continue the accumulators of s{twice}"
    heads = {p.statement for p in previous.values() if p is not None}
    chains = []
    for mma in mmas:
        if mma.statement in heads:
            continue
        chain = [mma]
        while (before := previous[chain[-1].statement]) is not None:
            chain.append(before)
        chains.append(tuple(reversed(chain)))
    lengths = {len(chain) for chain in chains}
    if len(lengths) != 1:
        return [], f"accumulator chains of different lengths: {sorted(lengths)}"
    return sorted(chains, key=lambda chain: chain[0].statement), None


Grid = dict[tuple[int, int], tuple[Mma, ...]]


def _grid(chains: Sequence[tuple[Mma, ...]]) -> tuple[Grid, int, int, str | None]:
    rows: dict[tuple[tuple[Value, ...], ...], int] = {}
    columns: dict[tuple[tuple[Value, ...], ...], int] = {}
    grid: Grid = {}
    for chain in chains:
        m = rows.setdefault(tuple(mma.a for mma in chain), len(rows))
        n = columns.setdefault(tuple(mma.b for mma in chain), len(columns))
        if (m, n) in grid:
            return {}, 0, 0, f"s{chain[0].statement} repeats the tile of s{grid[m, n][0].statement}"
        grid[m, n] = chain
    steps, count = len(chains[0]), sum(map(len, chains))
    if len(rows) * len(columns) * steps != count:
        shape = f"{16 * len(rows)}/16 * {8 * len(columns)}/8 * {32 * steps}/32"
        return {}, 0, 0, f"M/16 * N/8 * K/32 = {shape} = {len(rows) * len(columns) * steps}, but there are {count} mma"
    return grid, len(rows), len(columns), None


def group_adjacent(body: Body, mmas: Sequence[Mma]) -> tuple[Phase, ...]:
    """Phases without a contract: maximal runs of adjacent mma, joined where only the union of neighbours is a
    product.
    """
    runs: list[list[Mma]] = []
    for mma in mmas:
        if runs and _adjacent(body, runs[-1][-1].statement, mma.statement):
            runs[-1].append(mma)
        else:
            runs.append([mma])
    phases: list[Phase] = []
    at = 0
    while at < len(runs):
        taken = 1
        phase = build_phase(len(phases) + 1, runs[at])
        while phase.problem is not None and taken < 96 and at + taken < len(runs):
            taken += 1
            wider = build_phase(phase.index, [mma for run in runs[at : at + taken] for mma in run])
            if wider.problem is None:
                phase = wider
        if phase.problem is not None:
            taken = 1
        phases.append(phase)
        at += taken
    return tuple(phases)


def _adjacent(body: Body, before: int, after: int) -> bool:
    return all(body[number].opcode == "mma" for number in range(before + 1, after))
