"""A kernel compared with a layer's contract: every phase, word for word (`recognise.py`), and what is around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from zluda_rr.analysis import (
    Extent,
    Mma,
    Origins,
    Phase,
    Row,
    Shared,
    Source,
    Unknown,
    Values,
    build_phase,
    collect_mma,
    read_extent,
)
from zluda_rr.contract import LayerContract, PhaseRow, TermDifference
from zluda_rr.ptx import Body, ControlFlow, DefUse, Function, Module, linearise

from .recognise import Place, Recognition, recognise


@dataclass(frozen=True, eq=False)  # no slots: `origins` is made where a report asks for it
class Kernel:
    """A body with the analyses that matching and proving share."""

    function: Function
    body: Body
    flow: ControlFlow
    uses: DefUse
    values: Values
    mmas: tuple[Mma, ...]

    @cached_property
    def origins(self) -> Origins:
        """What every value depends on."""
        return Origins(self.body, self.values)


@dataclass(frozen=True, slots=True)
class RowMatch:
    """One row of the phases table: what the contract says, what was recovered, and how they differ."""

    expected: PhaseRow
    found: Row | None
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayerMatch:
    """A kernel compared with a contract. `arrays` maps the contract's shared arrays to the kernel's variables."""

    contract: LayerContract
    kernel: Kernel
    rows: tuple[RowMatch, ...]
    arrays: Mapping[str, str]
    weights: Extent
    differences: tuple[str, ...]
    recognition: Recognition

    @property
    def equal(self) -> bool:
        """Every row and the kernel's outside equal the contract."""
        return not self.differences and not any(row.differences for row in self.rows)

    def first_difference(self) -> str | None:
        """The first way in which the kernel is not the contract's, for a refusal."""
        phases = [f"phase {row.expected.index}: {text}" for row in self.rows for text in row.differences]
        stray = set(self.recognition.stray)  # often follows from a phase that differs
        around = [text for text in self.differences if text not in stray]
        return next(iter((*around, *phases, *self.differences)), None)


def analyse(module: Module, function: Function, block: tuple[int, int, int] | None = None) -> Kernel:
    """Statements, control flow, values and mma of one kernel."""
    body = linearise(function, module)
    flow = ControlFlow(body)
    uses = DefUse(body, flow)
    values = Values(body, uses, block)
    return Kernel(function, body, flow, uses, values, collect_mma(body, values))


def match_layer(kernel: Kernel, contract: LayerContract) -> LayerMatch:
    """Compare a kernel with a contract, row by row."""
    recognition = recognise(kernel.body, kernel.values, kernel.mmas, contract)
    arrays = _arrays(kernel, contract)
    rows = tuple(_row(row, recognition, arrays) for row in contract.phases)
    weights = read_extent(kernel.values, contract.weights_parameter)
    stray = [f"s{mma.statement} is no mma of m16n8k32" for mma in kernel.mmas if not mma.supported]
    differences = (*_outside(kernel, contract), *_image(contract, weights), *recognition.stray, *stray)
    return LayerMatch(contract, kernel, rows, arrays, weights, differences, recognition)


def _row(expected: PhaseRow, recognition: Recognition, arrays: Mapping[str, str]) -> RowMatch:
    placed = recognition.placed.get(expected.index, {})
    if not placed:
        return RowMatch(expected, None, (f"no mma belongs to it, the contract has {expected.mma}",))
    texts = [f"{what}: {difference}" for what, difference in recognition.differences.get(expected.index, ())]
    if len(placed) != expected.mma:
        texts.insert(0, f"{len(placed)} mma, the contract has {expected.mma}")
    phase = _phase(expected, placed)
    different = {what[:1]: difference for what, difference in recognition.differences.get(expected.index, ())}
    sources = (_found(name, source, different, arrays) for name, source in _operands(expected))
    return RowMatch(expected, Row(phase, *sources), tuple(texts))


def _operands(row: PhaseRow) -> tuple[tuple[str, Source], ...]:
    return ("A", row.a), ("B", row.b), ("C", row.c)


def _found(name: str, source: Source, different: Mapping[str, TermDifference], arrays: Mapping[str, str]) -> Source:
    if name in different:
        return Unknown(f"{different[name].found}")
    return replace(source, array=arrays.get(source.array, source.array)) if isinstance(source, Shared) else source


def _phase(expected: PhaseRow, placed: Mapping[Place, Mma]) -> Phase:
    """The mma of a phase under the contract's numbers of tiles."""
    m, n, k = expected.shape[0] // 16, expected.shape[1] // 8, expected.shape[2] // 32
    grid = {(i, j, s) for i in range(m) for j in range(n) for s in range(k)}
    if placed.keys() != grid:
        return build_phase(expected.index, list(placed.values()))
    mmas = tuple(sorted(placed.values(), key=lambda mma: mma.statement))
    chains = {(i, j): tuple(placed[i, j, s] for s in range(k)) for i in range(m) for j in range(n)}
    return Phase(expected.index, mmas, chains, m, n, k, None)


# ------------------------------------------------------------------------------------------------------ the outside


def _outside(kernel: Kernel, contract: LayerContract) -> list[str]:
    """Entry and parameter block."""
    function = kernel.function
    found = []
    if function.name != contract.entry:
        found.append(f"entry {function.name}, the contract has {contract.entry}")
    total = sum(parameter.nbytes for parameter in function.params)
    if len(function.params) != 1 or total != contract.parameter_bytes:
        found.append(
            f"{len(function.params)} parameters of {total} bytes, the contract has one of {contract.parameter_bytes}"
        )
    return found


def _image(contract: LayerContract, weights: Extent) -> list[str]:
    if weights.end > contract.weights_bytes or weights.first < 0:
        read = f"{weights.first}..{weights.end}"
        return [f"weight bytes {read} are read, the contract's image has {contract.weights_bytes} bytes"]
    return []


def _arrays(kernel: Kernel, contract: LayerContract) -> dict[str, str]:
    """The kernel's variables by the contract's names: the only shared array of a size is the one that is meant."""
    found = {}
    for array in contract.shared:
        same = [n for n, v in kernel.body.variables.items() if v.space == "shared" and v.nbytes == array.nbytes]
        if len(same) == 1:
            found[array.name] = same[0]
    return found
