"""Recognises a layer in a kernel: every mma is assigned to the phase of the contract that its operands belong to.

The assignment looks at what an mma reads (weight bytes, seeds, earlier accumulators), never at where it stands, so
phases whose instructions another compiler interleaves are still told apart. A kernel matches when every recovered
row equals the contract's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zluda_rr.analysis import (
    Bias,
    Columns,
    Derived,
    Extent,
    Leaf,
    Mma,
    Operands,
    Origins,
    Row,
    Shared,
    Source,
    Values,
    Weights,
    build_phase,
    collect_mma,
    read_extent,
)
from zluda_rr.ptx import Body, ControlFlow, DefUse, Function, Module, linearise

from .contract import LayerContract, PhaseRow


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A body with the analyses that matching and proving share."""

    function: Function
    body: Body
    flow: ControlFlow
    uses: DefUse
    values: Values
    origins: Origins
    mmas: tuple[Mma, ...]


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

    @property
    def equal(self) -> bool:
        """Every row and the kernel's outside equal the contract."""
        return not self.differences and not any(row.differences for row in self.rows)

    def first_difference(self) -> str | None:
        """The first way in which the kernel is not the contract's, for a refusal."""
        for text in self.differences:
            return text
        for row in self.rows:
            for text in row.differences:
                return f"phase {row.expected.index}: {text}"
        return None


def analyse(module: Module, function: Function, block: tuple[int, int, int] | None = None) -> Kernel:
    """Statements, control flow, values, origins and mma of one kernel."""
    body = linearise(function, module)
    flow = ControlFlow(body)
    uses = DefUse(body, flow)
    values = Values(body, uses, block)
    return Kernel(function, body, flow, uses, values, Origins(body, values), collect_mma(body, values))


def match_layer(kernel: Kernel, contract: LayerContract) -> LayerMatch:
    """Compare a kernel with a contract, row by row."""
    operands = Operands(kernel.body, kernel.values, kernel.origins, contract.weights_parameter)
    groups, stray = _assign(kernel, contract, operands)
    rows: list[RowMatch] = []
    arrays: dict[str, str] = {}
    for expected in contract.phases:
        rows.append(_match_row(expected, groups.get(expected.index, []), operands, arrays))
    weights = read_extent(kernel.values, contract.weights_parameter)
    outside = [*_outside(kernel, contract), *_image(contract, weights)]
    differences = [*outside, *stray, *_arrays(kernel, contract, arrays)]
    return LayerMatch(contract, kernel, tuple(rows), arrays, weights, tuple(differences))


def _match_row(expected: PhaseRow, mmas: Sequence[Mma], operands: Operands, arrays: dict[str, str]) -> RowMatch:
    if not mmas:
        return RowMatch(expected, None, (f"no mma belongs to it, the contract has {expected.mma}",))
    phase = build_phase(expected.index, mmas)
    rows = expected.a if isinstance(expected.a, Shared) else None
    found = operands.add(phase, rows)
    if rows is not None and isinstance(found.a, Shared):
        arrays[rows.array] = found.a.array
    return RowMatch(expected, found, tuple(_differences(expected, found)))


def _differences(expected: PhaseRow, found: Row) -> list[str]:
    phase = found.phase
    differences = []
    odd = next((mma for mma in phase.mmas if not mma.supported), None)
    if odd is not None:
        differences.append(f"s{odd.statement} is not a plain mma.m16n8k32 of e4m3 with f16 accumulators")
    if len(phase.mmas) != expected.mma:
        differences.append(f"{len(phase.mmas)} mma, the contract has {expected.mma}")
    if phase.problem is not None:
        return [*differences, phase.problem]
    if phase.shape != expected.shape:
        differences.append(f"shape {_shape(phase.shape)}, the contract has {_shape(expected.shape)}")
    pairs: tuple[tuple[str, Source, Source], ...] = (
        ("A", expected.a, found.a),
        ("B", expected.b, found.b),
        ("C", expected.c, found.c),
    )
    for name, wanted, actual in pairs:
        if isinstance(wanted, Shared) and isinstance(actual, Shared):
            actual = replace(actual, array=wanted.array)
        if wanted != actual:
            differences.append(f"{name} is {actual}, the contract has {wanted}")
    return differences


def _shape(shape: tuple[int, int, int]) -> str:
    return "x".join(map(str, shape))


# ---------------------------------------------------------------------------------------------------------- assignment


def _assign(kernel: Kernel, contract: LayerContract, operands: Operands) -> tuple[dict[int, list[Mma]], list[str]]:
    """mma by phase, and what could not be assigned."""
    groups: dict[int, list[Mma]] = {}
    phase_of: dict[int, int] = {}
    stray = []
    for mma in kernel.mmas:
        index = _phase_of(mma, kernel.origins, contract, operands, phase_of)
        if isinstance(index, str):
            stray.append(f"s{mma.statement}: mma of no phase: {index}")
            continue
        phase_of[mma.statement] = index
        groups.setdefault(index, []).append(mma)
    return groups, stray


def _phase_of(
    mma: Mma, origins: Origins, contract: LayerContract, operands: Operands, phase_of: Mapping[int, int]
) -> int | str:
    b = [origins.of(value) for value in mma.b]
    if not any(_accumulators(origins, info.full) for info in b):
        leaves = [leaf for info in b for leaf in operands.loads(info.direct)]
        found = _by_image(leaves, operands, contract, "b")
        return found if isinstance(found, int) else f"B is {found}"
    c = [origins.of(value) for value in mma.c]
    seeds = [leaf for info in c for leaf in operands.loads(info.direct)]
    if seeds and not any(_accumulators(origins, info.full) for info in c):
        found = _by_image(seeds, operands, contract, "c")
        return found if isinstance(found, int) else f"C is {found}"
    return _by_producer(mma, origins, contract, phase_of)


def _by_image(leaves: Sequence[Leaf], operands: Operands, contract: LayerContract, operand: str) -> int | str:
    """The phase in whose region of the weight image all `leaves` lie."""
    phases = set()
    for leaf in leaves:
        placed = operands.image_offsets(leaf)
        if placed is None:
            return f"loaded by s{leaf.statement} from another address than the weight image"
        lanes, width = placed
        row = next(
            (row for row in contract.phases if _covers(getattr(row, operand), min(lanes), max(lanes) + width)), None
        )
        if row is None:
            return f"loaded by s{leaf.statement} from weight bytes {min(lanes)}..{max(lanes) + width} of no phase"
        phases.add(row.index)
    if len(phases) != 1:
        return f"from {len(phases)} phases' weights" if phases else "not loaded"
    return phases.pop()


def _covers(source: Source, first: int, end: int) -> bool:
    return isinstance(source, Weights | Columns | Bias) and source.at <= first and end <= source.at + source.nbytes


def _by_producer(mma: Mma, origins: Origins, contract: LayerContract, phase_of: Mapping[int, int]) -> int | str:
    """The phase without weights and seeds whose A comes from the phase that made this mma's A."""
    direct = 0
    for value in mma.a:
        direct |= origins.of(value).direct
    producers = {phase_of.get(leaf.statement, 0) for leaf in _accumulators(origins, direct)}
    for row in contract.phases:
        from_registers = isinstance(row.b, Derived) and not isinstance(row.c, Bias)
        if from_registers and isinstance(row.a, Derived) and producers == {row.a.phase}:
            return row.index
    return f"A is made of D{', D'.join(map(str, sorted(producers)))}" if producers else "A comes from no phase"


def _accumulators(origins: Origins, bits: int) -> list[Leaf]:
    return [leaf for leaf in origins.expand(bits) if leaf.kind == "accumulator"]


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


def _arrays(kernel: Kernel, contract: LayerContract, arrays: Mapping[str, str]) -> list[str]:
    found = []
    for array in contract.shared:
        variable = kernel.body.variables.get(arrays.get(array.name, ""))
        if array.feeds is None:
            continue
        if variable is None:
            found.append(f"no shared array feeds phase {array.feeds}")
        elif variable.nbytes != array.nbytes:
            found.append(f"{array.name} has {variable.nbytes} bytes, the contract has {array.nbytes}")
    return found
