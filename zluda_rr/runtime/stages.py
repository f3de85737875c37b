"""Phase by phase: both kernels store every accumulator to a capture buffer, up to a phase where they end."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from zluda_rr.contract import LayerCutRule
from zluda_rr.errors import UserError
from zluda_rr.ptx import Address, Module, Register, Statement, edit_function, linearise
from zluda_rr.rewrite import CapturedPhase, CaptureLayout
from zluda_rr.runtime.compare import with_one_nan
from zluda_rr.runtime.device import Device, OracleDevice, Program
from zluda_rr.runtime.faults import DeviceFault
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.variants import Request, Subject, compile_all
from zluda_rr.runtime.workload import Launch

CAPTURE = "zrr_capture"
_POINTER = "%zrr_capture_at"


@dataclass(frozen=True, slots=True)
class PhaseDifference:
    """The first phase whose accumulators differ. `word` is (block, m-tile, half, n-tile, lane)."""

    phase: int
    word: tuple[int, ...]
    expected: int
    actual: int
    count: int
    fault: str | None = None
    """Why the second kernel did not come to its end; what it stored until then was compared."""


@dataclass(frozen=True, slots=True)
class PhaseProbe:
    """Two kernels with captures of phases 1..`until`, and the device that runs each."""

    layout: CaptureLayout
    until: int
    programs: tuple[Program, Program]
    devices: tuple[Device, Device]
    one_nan: bool = False
    """Whether any NaN equals any NaN (see `compare_outputs`)."""

    def compare(self, launch: Launch, model: str, first: int = 1) -> PhaseDifference | None:
        """Run both over `launch`; the first difference in phases `first`..`until`, in phase order."""
        pairs = zip(self.programs, self.devices, strict=True)
        (expected, wrong), (actual, fault) = (self._capture(*pair, launch, model) for pair in pairs)
        fault = fault or wrong
        for phase in self.layout.phases:
            if first <= phase.index <= self.until:
                found = _difference(phase, expected, actual)
                if found is not None:
                    return replace(found, fault=fault)
        return None if fault is None else PhaseDifference(self.until, (0, 0, 0, 0, 0), 0, 0, 0, fault)

    def bytes_per_launch(self, launch: Launch, first: int = 1) -> int:
        """Bytes that `compare` compares."""
        phases = [p.nbytes for p in self.layout.phases if first <= p.index <= self.until]
        return sum(phases) * launch.grid[0] * launch.grid[1]

    def _capture(
        self, program: Program, device: Device, launch: Launch, model: str
    ) -> tuple[npt.NDArray[np.uint32], str | None]:
        """[block, word] of the capture buffer, whose pointer is the kernel's second parameter; and the fault."""
        blocks, fault = launch.grid[0] * launch.grid[1], None
        memory = launch.memory.copy()
        address = memory.allocate(CAPTURE, blocks * self.layout.stride)
        params = launch.params + bytes(-len(launch.params) % 8) + address.to_bytes(8, "little")
        pointers = (*launch.pointers, len(params) - 8)
        probed = replace(launch, memory=memory, params=params, pointers=pointers)
        try:
            after = device.run(program, probed, model).memory
        except DeviceFault as error:
            after, fault = error.memory, str(error.fault)
        captured = after.view(CAPTURE)
        if self.one_nan:
            captured = with_one_nan(captured)
        return captured.view(np.uint32).reshape(blocks, -1), fault


def _difference(
    phase: CapturedPhase, expected: npt.NDArray[np.uint32], actual: npt.NDArray[np.uint32]
) -> PhaseDifference | None:
    words = slice(phase.offset // 4, (phase.offset + phase.nbytes) // 4)
    a, b = (run[:, words].reshape(-1, *phase.shape) for run in (expected, actual))
    where = np.argwhere(a != b)
    if not len(where):
        return None
    at = tuple(int(i) for i in where[0])
    return PhaseDifference(phase.index, at, int(a[at]), int(b[at]), len(where))


def phase_probe(what: Subject, progress: Progress, until: int | None = None) -> PhaseProbe:
    """Compile both kernels with captures. `until` ends them after that phase, which makes compiling quicker.

    A layer's body stores its own phases: it is compiled with ZRR_CAPTURE and takes the buffer as its last argument.
    """
    untouched = replace(what, cuts=(), edit=None, body=None, fusion=False).rewrite(capture=True)
    rewritten = what.rewrite(capture=True)
    layout = rewritten.capture
    if layout is None:
        raise ValueError("a module rewritten with capture has a capture layout")
    last = layout.phases[-1].index
    if until is not None and not 1 <= until <= last:
        raise UserError(f"{what.contract.layer} has no phase {until}; its phases are 1 to {last}")
    stop = until or last
    entry = what.contract.entry
    modules = [result.module if until is None else end_after(result.module, entry, layout, stop)
               for result in (untouched, rewritten)]  # fmt: skip
    requests = (
        Request(f"translated, phases 1-{stop}", modules[0]),
        Request(
            f"rewritten, phases 1-{stop}", modules[1], what.body_sources(rewritten), (*what.defines, *_defines(what))
        ),
    )
    translated, changed = compile_all(requests, entry, progress, what.backend)
    device = what.backend.device()
    return PhaseProbe(layout, stop, (translated, changed), (device, device))


def oracle_probe(what: Subject, progress: Progress) -> PhaseProbe:
    """The original kernel with all its captures, in the PTX oracle and as compiled."""
    untouched = replace(what, cuts=(), edit=None, body=None, fusion=False).rewrite(capture=True)
    if untouched.capture is None:
        raise ValueError("a module rewritten with capture has a capture layout")
    request = Request("original with captures", untouched.module)
    (program,) = compile_all((request,), what.contract.entry, progress, what.backend)
    last = untouched.capture.phases[-1].index
    devices = (OracleDevice(), what.backend.device())
    return PhaseProbe(untouched.capture, last, (program, program), devices, one_nan=True)


def _defines(what: Subject) -> tuple[tuple[str, str], ...]:
    whole = any(isinstance(what.contract.cut(name), LayerCutRule) for name in what.cuts)
    return (("ZRR_CAPTURE", "1"),) if whole else ()


def end_after(module: Module, entry: str, layout: CaptureLayout, phase: int) -> Module:
    """The module with a return behind the last captured store of `phase`; unchanged where a body stores them."""
    function = next(f for f in module.entries if f.name == entry)
    end = next(p.offset + p.nbytes for p in layout.phases if p.index == phase)
    stores = [s.number for s in linearise(function).statements if _captures(s, end)]
    if not stores:
        return module
    return edit_function(module, entry, insert_after={stores[-1]: "\tret;\n"})


def _captures(statement: Statement, end: int) -> bool:
    """Whether a statement stores to the capture buffer below byte `end`."""
    target = statement.operands[0] if statement.opcode == "st" else None
    return isinstance(target, Address) and target.base == Register(_POINTER) and target.offset < end


def search_probe(what: Subject, progress: Progress, until: int | None = None) -> PhaseProbe:
    """The original in the PTX oracle against the rewritten kernel: only the latter has to be compiled."""
    untouched = replace(what, cuts=(), edit=None, body=None, fusion=False).rewrite(capture=True)
    rewritten = what.rewrite(capture=True)
    layout, entry = rewritten.capture, what.contract.entry
    if layout is None:
        raise ValueError("a module rewritten with capture has a capture layout")
    stop = until or layout.phases[-1].index
    modules = [result.module if until is None else end_after(result.module, entry, layout, stop)
               for result in (untouched, rewritten)]  # fmt: skip
    macros = (*what.defines, *_defines(what))
    request = Request(f"rewritten, phases 1-{stop}", modules[1], what.body_sources(rewritten), macros)
    (changed,) = compile_all((request,), entry, progress, what.backend)
    original = Program("original", modules[0], entry)
    return PhaseProbe(layout, stop, (original, changed), (OracleDevice(), what.backend.device()), one_nan=True)


def first_differing_phase(what: Subject, launch: Launch, model: str, progress: Progress) -> PhaseDifference | None:
    """The first phase that differs from the PTX oracle over one launch: first the phases up to the last cut, then all
    of them. None where all agree (any NaN counting as any other)."""
    last = len(what.contract.phases)
    cut = max((what.contract.cut(name).phases[-1] for name in what.cuts), default=last)
    for until in (None,) if cut == last else (cut, None):
        probe = search_probe(what, progress, until)
        with progress.step("find the first differing phase"):
            found = probe.compare(launch, model)
        if found is not None:
            return found
    return None
