"""The verification ladder's rungs 5 and 6 (design.md §10): oracle, translated and rewritten kernel must agree.

"Translated" is the original module as the subject's backend compiles it: by this project's lowering, or by ZLUDA.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from zluda_rr.runtime.compare import Difference, compare_outputs
from zluda_rr.runtime.device import MODELS, Device, Execution, OracleDevice, Program
from zluda_rr.runtime.explain import Explainer
from zluda_rr.runtime.faults import GAP, DeviceFault
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.stages import PhaseDifference, oracle_probe, phase_probe
from zluda_rr.runtime.variants import Subject, variants
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.runtime.workload import Launch, Shape, recipes

DEFAULT_SHAPE = Shape(ex=58, ey=58, shift_x=4, shift_y=2)  # 8 x 8 blocks, partial ones on all four sides
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
    search: bool = True,
    progress: Progress | None = None,
) -> VerifyReport:
    """Run both kernels over every kind of data under every model and compare all outputs byte for byte.

    Data at an edge runs over two blocks under the first model only. With `oracle` the translated kernel is also
    compared with the PTX oracle. A kernel that faults differs. At the first difference the run stops, and with
    `search` the first differing phase is found.
    """
    show = progress or Progress(quiet=True)
    device = what.backend.device()
    pair = _Pair(device, variants(what, show), OracleDevice() if oracle else None)
    tally = _Tally()
    for kind in kinds:
        with show.step(f"run {kind} at the edges") if kind.at_an_edge else nullcontext():
            quiet = Progress(quiet=True) if kind.at_an_edge else show
            for recipe in recipes(what.contract, shape, kind, seed):
                for model in models[:1] if kind.at_an_edge else models:
                    explain = Explainer(what, recipe, model, quiet, search)
                    tally = pair.compare(recipe.launch(GAP), model, explain, tally)
                    if tally.first is not None or tally.oracle_first is not None:
                        return _report(what, tally, kinds, models, shape, oracle)
    return _report(what, tally, kinds, models, shape, oracle)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The translated and the rewritten kernel on their device, and whether the oracle runs too."""

    device: Device
    programs: tuple[Program, Program]
    oracle: OracleDevice | None

    def compare(self, launch: Launch, model: str, explain: Explainer, tally: _Tally) -> _Tally:
        """The tally with one more launch."""
        translated, rewritten = self.programs
        label = f"{launch.name}[{model}]"
        tally = replace(tally, launches=tally.launches + 1)
        with explain.progress.step(f"run {launch.name} [{model}]"):
            expected = _attempt(self.oracle, translated, launch, model) if self.oracle else None
            before, after = (_attempt(self.device, program, launch, model) for program in self.programs)
        if self.oracle and isinstance(expected, DeviceFault):  # the module itself does what it must not
            return replace(tally, oracle_first=explain.fault(label, translated, self.oracle, expected))
        if isinstance(before, DeviceFault):
            found = explain.fault(label, translated, self.device, before)
            return replace(tally, oracle_first=found) if self.oracle else replace(tally, first=found)
        if isinstance(after, DeviceFault):
            return replace(tally, first=explain.fault(label, rewritten, self.device, after))
        compared, first = compare_outputs(label, launch.outputs, before.memory, after.memory)
        tally = replace(tally, compared=tally.compared + compared)
        if first is not None:
            return replace(tally, first=explain.difference(first))
        if isinstance(expected, Execution):
            halves = launch.halves
            _, first = compare_outputs(label, launch.outputs, expected.memory, before.memory, nan_outputs=halves)
            if first is not None:
                return replace(tally, oracle_first=_with_phase(explain, first, launch, model))
        return tally


def _attempt(device: Device, program: Program, launch: Launch, model: str) -> Execution | DeviceFault:
    try:
        return device.run(program, launch, model)
    except DeviceFault as fault:
        return fault


def _with_phase(explain: Explainer, difference: Difference, launch: Launch, model: str) -> Difference:
    """The difference from the oracle with the first phase whose accumulators differ; None where all agree."""
    if not explain.search:
        return difference
    probe = oracle_probe(explain.what, explain.progress)
    with explain.progress.step("find the first phase that differs from the oracle"):
        found = probe.compare(launch, model)
    return replace(difference, phase=None if found is None else found.phase)


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
        for recipe in recipes(what.contract, shape, kind, seed):
            launch = recipe.launch()
            for model in models[:1] if kind.at_an_edge else models:
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
    return Difference(label, place, 0, found.expected, found.actual, found.count, found.phase, found.fault)
