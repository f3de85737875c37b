"""Every layer that has a body, translated and rewritten, against the oracle's bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from zluda_rr.contract import LayerContract, load_contracts
from zluda_rr.emulate.memory import AddressSpace, MemoryFault
from zluda_rr.numerics.mma import WMMA_MODELS
from zluda_rr.runtime.compare import Difference, compare_outputs
from zluda_rr.runtime.device import OracleDevice, Program
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.selftest.rig import Rig
from zluda_rr.runtime.selftest.rows import Check, Row, Verdict
from zluda_rr.runtime.variants import subject, variants
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.runtime.workload import Launch, Shape, build_launch

__all__ = ["LayerPrograms", "layer_checks", "layers_with_bodies"]

SHAPE = Shape(ex=10, ey=10, shift_x=4, shift_y=2)  # 2 x 2 blocks, all of them partial


@dataclass(slots=True)
class LayerPrograms:
    """A layer's kernels and the oracle's results, made when first asked for."""

    contract: LayerContract
    _programs: tuple[Program, Program] | None = None
    _expected: dict[tuple[WorkloadKind, str], AddressSpace] = field(default_factory=dict)

    def programs(self, progress: Progress) -> tuple[Program, Program]:
        """Translated and rewritten."""
        if self._programs is None:
            self._programs = variants(subject(self.contract.layer, ()), progress)
        return self._programs

    def launch(self, kind: WorkloadKind) -> Launch:
        return build_launch(self.contract, SHAPE, kind)

    def expected(self, launch: Launch, kind: WorkloadKind, model: str, progress: Progress) -> AddressSpace:
        """The oracle's memory after the launch."""
        if (kind, model) not in self._expected:
            translated = self.programs(progress)[0]
            self._expected[kind, model] = OracleDevice().run(translated, launch, model).memory
        return self._expected[kind, model]


def layers_with_bodies() -> tuple[LayerContract, ...]:
    """Contracts whose default cuts are there."""
    return tuple(contract for contract in load_contracts() if contract.default_cuts)


def layer_checks() -> tuple[Check, ...]:
    """Two rows a layer."""
    checks = []
    for contract in layers_with_bodies():
        layer = LayerPrograms(contract)
        for index, variant in enumerate(("translated", "rewritten")):
            question = f"Does {contract.layer}, {variant}, give the oracle's bytes?"
            checks.append(Check(f"{contract.layer}-{variant}", question, _asking(layer, index)))
    return tuple(checks)


def _asking(layer: LayerPrograms, index: int) -> Callable[[Rig], Row]:
    return lambda rig: _compared(rig, layer, index)


def _compared(rig: Rig, layer: LayerPrograms, index: int) -> Row:
    """One launch a kind of data. The emulated device is asked for its models in turn; of a card, one must fit all."""
    program = layer.programs(rig.progress)[index]
    fitting = set(WMMA_MODELS)
    details, compared = [], 0
    for number, kind in enumerate(WorkloadKind):
        launch = layer.launch(kind)
        asked = [WMMA_MODELS[number % len(WMMA_MODELS)]] if rig.is_emulated else list(WMMA_MODELS)
        try:
            found = rig.device.run(program, launch, asked[0]).memory
        except MemoryFault as fault:
            return Row(f"{kind}: {fault}", "the oracle's bytes", Verdict.FAIL)
        for model in asked:
            expected = layer.expected(launch, kind, model, rig.progress)
            count, difference = compare_outputs(launch.name, launch.outputs, expected, found, launch.halves)
            if difference is not None:
                fitting.discard(model)
                details.append(f"{kind}, {model}: {_told(difference)}")
        compared += count
    return _judged(rig, fitting, compared, tuple(details))


def _judged(rig: Rig, fitting: set[str], compared: int, details: tuple[str, ...]) -> Row:
    told = f"{compared} bytes of {len(WorkloadKind)} launches"
    models = [name for name in WMMA_MODELS if name in fitting]
    good = not details if rig.is_emulated else bool(fitting)
    numbers = {"bytes": compared, "models": models}
    if not good:
        return Row("differs from the oracle", "the oracle's bytes", Verdict.FAIL, details, numbers)
    result = f"{told} equal" if rig.is_emulated else f"{told} equal to the model {', '.join(models)}"
    return Row(result, "the oracle's bytes", Verdict.PASS, (), numbers)


def _told(difference: Difference) -> str:
    place = f"{difference.output} byte {difference.offset}"
    pair = f"expected 0x{difference.expected:02x}, got 0x{difference.actual:02x}"
    return f"{place}: {pair} ({difference.count} bytes differ)"
