"""What `verify` says about a difference: the phase in which it begins, or where a fault came from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from zluda_rr.contract import LayerCutRule
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.runtime.compare import Difference
from zluda_rr.runtime.device import Device, Program
from zluda_rr.runtime.faults import DeviceFault, Fault, origin_of
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.stages import first_differing_phase
from zluda_rr.runtime.variants import Subject
from zluda_rr.runtime.workload import Recipe

FAULT = "memory fault"  # the "output" of a kernel that left its buffers, where no buffer is known
NO_END = "no end"  # of one that failed otherwise


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains differences of one subject over one launch. Without `search` no phase is looked for."""

    what: Subject
    recipe: Recipe
    model: str
    progress: Progress
    search: bool = True

    def difference(self, found: Difference) -> Difference:
        """The difference with the first differing phase; where all accumulators agree, with the one that stores."""
        phase = self._searched()
        if phase is not None:
            return replace(found, phase=phase)
        stored = self._storing_phase(found.output)
        return replace(found, phase=stored, stored=stored is not None) if self.search else found

    def fault(self, label: str, program: Program, device: Device, error: DeviceFault) -> Difference:
        """A fault as a difference: the buffer that was missed and by how much, and the phase that stores there."""
        fault, text = error.fault, str(error.fault)
        with self.progress.step("find the buffer of the bad address"):
            origin = origin_of(lambda guard: self._attempt(program, device, guard), fault, error.memory)
        if origin is None:
            output = FAULT if fault.access is not None else NO_END
            return Difference(label, output, 0, 0, 0, 0, self._searched(), text)
        access = fault.access
        assert access is not None
        text = f"{access.nbytes}-byte {access.what} at {access.address:#x}, {origin.outside}"
        text = str(replace(fault, message=text))
        stored = self._storing_phase(origin.buffer) if access.what == "store" else None
        phase = self._searched() if stored is None else stored
        return Difference(label, origin.buffer, origin.offset, 0, 0, 0, phase, text, stored is not None)

    def _searched(self) -> int | None:
        if not self.search:
            return None
        found = first_differing_phase(self.what, self.recipe.launch(), self.model, self.progress)
        return None if found is None else found.phase

    def _storing_phase(self, output: str) -> int | None:
        """The phase whose results the body stores to this output."""
        whole = [rule for rule in map(self.what.contract.cut, self.what.cuts) if isinstance(rule, LayerCutRule)]
        phases = [store.phase for rule in whole for store in rule.stores if store.buffer == output]
        return phases[0] if phases else None

    def _attempt(self, program: Program, device: Device, guard: int) -> tuple[Fault | None, AddressSpace]:
        launch = self.recipe.launch(guard)
        try:
            device.run(program, launch, self.model)
        except DeviceFault as error:
            return error.fault, error.memory
        return None, launch.memory
