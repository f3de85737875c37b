"""The verification ladder's rungs 5 and 6 (design.md §10): oracle, translated and rewritten kernel must agree."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from zluda_rr.runtime.compare import Difference, compare_outputs
from zluda_rr.runtime.device import Device, EmulatorDevice, Execution, OracleDevice, Program
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.variants import Subject, compile_variant, variants
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.runtime.workload import Launch, Shape, build_launch

MODELS = ("exact", "sequential", "pairwise")
DEFAULT_SHAPE = Shape(ex=42, ey=36, shift_x=4, shift_y=2)
DEFAULT_KINDS = tuple(WorkloadKind)
CAPTURE = "zrr_capture"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Outcome of a verification; `launches` counts kernel executions that were compared."""

    layer: str
    cuts: tuple[str, ...]
    equal: bool
    oracle_equal: bool | None
    models: tuple[str, ...]
    kinds: tuple[str, ...]
    blocks_per_launch: int
    launches: int
    bytes_compared: int
    first_difference: Difference | None


@dataclass(frozen=True, slots=True)
class _Tally:
    launches: int = 0
    compared: int = 0
    first: Difference | None = None
    oracle_first: Difference | None = None


def verify(
    what: Subject,
    *,
    shape: Shape = DEFAULT_SHAPE,
    kinds: Sequence[WorkloadKind] = DEFAULT_KINDS,
    models: Sequence[str] = MODELS,
    seed: int = 1,
    oracle: bool = True,
    progress: Progress | None = None,
) -> VerifyReport:
    """Run both kernels over every kind of data under every model and compare all outputs byte for byte.

    With `oracle` the translated kernel is also compared with the PTX oracle. At the first difference between
    translated and rewritten the first differing phase is found and the run stops.
    """
    show = progress or Progress(quiet=True)
    programs = variants(what, show)
    device = EmulatorDevice()
    tally = _Tally()
    for kind in kinds:
        launch = build_launch(what.contract, shape, kind, seed)
        for model in models:
            with show.step(f"run {launch.name} [{model}]"):
                tally = _compare_once(device, programs, launch, model, oracle, tally)
            if tally.first is not None:
                phase = first_differing_phase(what, launch, model, show)
                return _report(what, tally, kinds, models, shape, oracle, phase)
    return _report(what, tally, kinds, models, shape, oracle, None)


def _compare_once(
    device: Device, programs: tuple[Program, Program], launch: Launch, model: str, oracle: bool, tally: _Tally
) -> _Tally:
    translated, rewritten = (device.run(program, launch, model) for program in programs)
    compared, first = compare_outputs(f"{launch.name}[{model}]", launch.outputs, translated.memory, rewritten.memory)
    oracle_first = tally.oracle_first
    if oracle:
        expected = OracleDevice().run(programs[0], launch, model)
        _, difference = compare_outputs(f"{launch.name}[{model}]", launch.outputs, expected.memory, translated.memory)
        oracle_first = oracle_first or difference
    return _Tally(tally.launches + 1, tally.compared + compared, first, oracle_first)


def _report(
    what: Subject,
    tally: _Tally,
    kinds: Sequence[WorkloadKind],
    models: Sequence[str],
    shape: Shape,
    oracle: bool,
    phase: int | None,
) -> VerifyReport:
    first = tally.first
    if first is not None:
        first = replace(first, phase=phase)
    equal = first is None and tally.oracle_first is None
    return VerifyReport(
        what.contract.layer,
        what.cuts,
        equal,
        (tally.oracle_first is None) if oracle else None,
        tuple(models),
        tuple(kinds),
        shape.blocks,
        tally.launches,
        tally.compared,
        first or tally.oracle_first,
    )


def first_differing_phase(what: Subject, launch: Launch, model: str, progress: Progress) -> int | None:
    """The first phase whose accumulators differ between the two kernels, from modules that store them all."""
    untouched = replace(what, cuts=(), edit=None).rewrite(capture=True)
    rewritten = what.rewrite(capture=True)
    entry = what.contract.entry
    programs = (
        compile_variant("translated with capture", untouched.module, entry, (), progress),
        compile_variant("rewritten with capture", rewritten.module, entry, what.body_sources(rewritten), progress),
    )
    layout = rewritten.capture
    if layout is None:
        raise ValueError("a module rewritten with capture has a capture layout")
    blocks = launch.grid[0] * launch.grid[1]
    with progress.step("find the first differing phase"):
        expected, actual = (
            _captured(EmulatorDevice(), program, launch, model, blocks * layout.stride) for program in programs
        )
    for phase in layout.phases:
        ours, theirs = (
            run.memory.view(CAPTURE).reshape(blocks, layout.stride)[:, phase.offset : phase.offset + phase.nbytes]
            for run in (expected, actual)
        )
        if not np.array_equal(ours, theirs):
            return phase.index
    return None


def _captured(device: Device, program: Program, launch: Launch, model: str, nbytes: int) -> Execution:
    """Run with a capture buffer, whose pointer is the kernel's second parameter."""
    memory = launch.memory.copy()
    address = memory.allocate(CAPTURE, nbytes)
    params = launch.params + bytes(-len(launch.params) % 8) + address.to_bytes(8, "little")
    return device.run(program, replace(launch, memory=memory, params=params), model)
