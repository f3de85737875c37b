"""The verification ladder's rungs 5 and 6 (design.md §10): oracle, translated and rewritten kernel must agree.

"Translated" is the original module as the subject's backend compiles it: by this project's lowering, or by ZLUDA.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zluda_rr.contract import LayerCutRule
from zluda_rr.emulate.memory import MemoryFault
from zluda_rr.runtime.compare import Difference, compare_outputs
from zluda_rr.runtime.device import MODELS, Device, OracleDevice, Program
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.stages import PhaseDifference, first_differing_phase, oracle_probe, phase_probe
from zluda_rr.runtime.variants import Subject, variants
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.runtime.workload import Launch, Shape, build_launch

DEFAULT_SHAPE = Shape(ex=58, ey=58, shift_x=4, shift_y=2)  # 8 x 8 blocks, partial ones on all four sides
FAULT = "memory fault"  # the "output" of a kernel that left its buffers
DEFAULT_KINDS = tuple(WorkloadKind)


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
    compiler: str = "translated"


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

    With `oracle` the translated kernel is also compared with the PTX oracle. At the first difference the first
    differing phase is found and the run stops.
    """
    show = progress or Progress(quiet=True)
    programs = variants(what, show)
    device = what.backend.device()
    tally = _Tally()
    for kind in kinds:
        launch = build_launch(what.contract, shape, kind, seed)
        for model in models:
            with show.step(f"run {launch.name} [{model}]"):
                tally = _compare_once(device, programs, launch, model, oracle, tally)
            if tally.first is not None:
                found = first_differing_phase(what, launch, model, show)
                phase = _storing_phase(what, tally.first) if found is None else found.phase
                named = replace(tally.first, phase=phase)
                return _report(what, replace(tally, first=named), kinds, models, shape, oracle)
            if tally.oracle_first is not None:
                tally = replace(tally, oracle_first=_with_phase(what, tally.oracle_first, launch, model, show))
                return _report(what, tally, kinds, models, shape, oracle)
    return _report(what, tally, kinds, models, shape, oracle)


def _with_phase(what: Subject, difference: Difference, launch: Launch, model: str, show: Progress) -> Difference:
    """The difference from the oracle with the first phase whose accumulators differ; None where all agree."""
    probe = oracle_probe(what, show)
    with show.step("find the first phase that differs from the oracle"):
        found = probe.compare(launch, model)
    return replace(difference, phase=None if found is None else found.phase)


def _storing_phase(what: Subject, difference: Difference) -> int | None:
    """All accumulators agree, so it is the stores: the phase whose results the body stores to this output."""
    whole = [rule for rule in map(what.contract.cut, what.cuts) if isinstance(rule, LayerCutRule)]
    phases = [s.phase for rule in whole for s in rule.stores if difference.output in (s.buffer, FAULT)]
    return phases[0] if phases else None


def _compare_once(
    device: Device, programs: tuple[Program, Program], launch: Launch, model: str, oracle: bool, tally: _Tally
) -> _Tally:
    translated = device.run(programs[0], launch, model)
    label = f"{launch.name}[{model}]"
    try:
        rewritten = device.run(programs[1], launch, model)
    except MemoryFault as fault:
        return replace(tally, launches=tally.launches + 1, first=Difference(f"{label}: {fault}", FAULT, 0, 0, 0, 0))
    compared, first = compare_outputs(label, launch.outputs, translated.memory, rewritten.memory)
    oracle_first = tally.oracle_first
    if oracle:
        expected = OracleDevice().run(programs[0], launch, model)
        _, difference = compare_outputs(
            label, launch.outputs, expected.memory, translated.memory, nan_outputs=launch.halves
        )
        oracle_first = oracle_first or difference
    return _Tally(tally.launches + 1, tally.compared + compared, first, oracle_first)


def _report(
    what: Subject,
    tally: _Tally,
    kinds: Sequence[WorkloadKind],
    models: Sequence[str],
    shape: Shape,
    oracle: bool,
) -> VerifyReport:
    first = tally.first
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
        what.backend.name,
    )


def verify_stage(
    what: Subject,
    stage: int,
    *,
    shape: Shape = DEFAULT_SHAPE,
    kinds: Sequence[WorkloadKind] = DEFAULT_KINDS,
    models: Sequence[str] = MODELS,
    seed: int = 1,
    progress: Progress | None = None,
) -> VerifyReport:
    """Compare the accumulators of phase `stage` only; the kernels end there, so this is quick."""
    show = progress or Progress(quiet=True)
    probe = phase_probe(what, show, stage)
    tally = _Tally()
    for kind in kinds:
        launch = build_launch(what.contract, shape, kind, seed)
        for model in models:
            label = f"{launch.name}[{model}]"
            with show.step(f"run {label}, phase {stage}"):
                found = probe.compare(launch, model, first=stage)
            compared = probe.bytes_per_launch(launch, first=stage)
            first = None if found is None else _phase_difference(label, found)
            tally = _Tally(tally.launches + 1, tally.compared + compared, first)
            if first is not None:
                return _report(what, tally, kinds, models, shape, False)
    return _report(what, tally, kinds, models, shape, False)


def _phase_difference(label: str, found: PhaseDifference) -> Difference:
    place = "accumulator (block {}, m-tile {}, half {}, n-tile {}, lane {})".format(*found.word)
    return Difference(label, place, 0, found.expected, found.actual, found.count, found.phase)
