"""Executes probes in the PTX oracle and, lowered, in the gfx12 emulator, and finds where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.forms.rows import PITCH, TEXEL, WIDTH, Slots, facts, rows
from zluda_rr import lower
from zluda_rr.emulate.gfx12 import load_code_object, run_kernel
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.forms import Probe, ProbeKernel, probe_kernel
from zluda_rr.forms.probe import BLOB_BYTES, WIDE
from zluda_rr.ptx import Module, parse

_EXPONENT = {"f16": (0x7C00, 0x03FF), "f32": (0x7F800000, 0x007FFFFF), "f64": (0x7FF << 52, (1 << 52) - 1)}
# How far an .approx function may be from the oracle's, in units of the last place: gfx12's instructions are modelled as
# exact, and where denormals are kept the result is scaled and rounded once more.
APPROX_ULP = 2


@dataclass(frozen=True, slots=True)
class Difference:
    """The first row in which a probe's result differs."""

    probe: Probe
    slot: int
    row: int
    oracle: int
    lowered: int

    def __str__(self) -> str:
        return (
            f"{self.probe.name}: row {self.row}, slot {self.slot}: oracle {self.oracle:#x}, lowered {self.lowered:#x}"
        )


def _space(inputs: Slots, out_bytes: int) -> tuple[AddressSpace, bytes]:
    """Memory with the inputs, the outputs and a surface; the kernel's parameters."""
    memory = AddressSpace(capacity=inputs.nbytes + out_bytes + (1 << 22))
    count = len(inputs)
    texels = np.random.default_rng(5).integers(0, 256, PITCH * count, dtype=np.uint8)
    base = memory.allocate("texels", texels.nbytes, data=texels)
    descriptor = np.zeros(8, np.uint32)
    descriptor[:2] = np.array([base], np.uint64).view(np.uint32)
    descriptor[2:6] = WIDTH, count, PITCH, TEXEL
    handle = memory.allocate("descriptor", 32, data=descriptor.view(np.uint8))
    filled = inputs.copy()
    facts(filled, handle, base)
    source = memory.allocate("in", filled.nbytes, data=filled.ravel().view(np.uint8))
    target = memory.allocate("out", out_bytes)
    blob = np.random.default_rng(6).integers(0, 256, BLOB_BYTES, dtype=np.uint8).tobytes()
    return memory, np.array([source, target], np.uint64).tobytes() + bytes(16) + blob


def _results(memory: AddressSpace, kernel: ProbeKernel) -> Slots:
    return memory.view("out").view(np.uint64).reshape(-1, kernel.row_bytes // 8)


def run_oracle(module: Module, memory: AddressSpace, params: bytes, blocks: int) -> None:
    run_entry(module, "probe", grid=(blocks, 1, 1), block=(32, 1, 1), params=params, memory=memory, model="exact")


def run_lowered(module: Module, memory: AddressSpace, params: bytes, blocks: int) -> None:
    code = load_code_object(lower.compile_module(module, "probe").code_object)
    run_kernel(code, "probe", (blocks, 1, 1), (32, 1, 1), params, memory, "exact")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the oracle and the lowered kernel wrote for the probes of one kernel."""

    probes: Sequence[Probe]
    kernel: ProbeKernel
    oracle: Slots
    lowered: Slots

    def differences(self) -> list[Difference]:
        """The first difference of each probe that has one."""
        found = []
        for probe, slot in zip(self.probes, self.kernel.slots, strict=True):
            difference = _first_difference(probe, slot, self.oracle, self.lowered)
            if difference is not None:
                found.append(difference)
        return found

    def constant(self) -> list[str]:
        """Probes of which no result depends on the operands, and which therefore show nothing."""
        return [
            probe.name
            for probe, slot in zip(self.probes, self.kernel.slots, strict=True)
            if probe.outputs and len(np.unique(self.oracle[:, slot : slot + len(probe.outputs)], axis=0)) < 2
        ]


def compare(probes: Sequence[Probe], *, count: int = 1024, seed: int = 1) -> Comparison:
    """Run all probes in one kernel on `count` rows of operands, in both."""
    kernel = probe_kernel(probes)
    module = parse(kernel.text, filename="forms.ptx")
    inputs = rows(count, seed)
    outcome = []
    for launch in (run_oracle, run_lowered):
        memory, params = _space(inputs, count * kernel.row_bytes)
        launch(module, memory, params, count // 32)
        outcome.append(_results(memory, kernel))
    return Comparison(probes, kernel, *outcome)


SLOW = ("atom", "red")
"""The oracle does these one lane after the other."""


def _first_difference(probe: Probe, slot: int, oracle: Slots, lowered: Slots) -> Difference | None:
    for place, kind in enumerate(probe.outputs):
        ours, theirs = oracle[:, slot + place], lowered[:, slot + place]
        approx = APPROX_ULP if "approx" in probe.spelling.modifiers or "full" in probe.spelling.modifiers else 0
        different = np.flatnonzero(~_equal(ours, theirs, _compared_as(probe, kind), approx))
        if len(different):
            row = int(different[0])
            return Difference(probe, slot + place, row, int(ours[row]), int(theirs[row]))
    return None


def _compared_as(probe: Probe, kind: str) -> str:
    """Moves, selections and loads keep the bits; a computed float is compared as one."""
    moved = ("mov", "ld", "st", "selp", "slct", "shfl", "suld", "sust", "prmt", "movmatrix")
    if probe.spelling.pattern.opcode == "mma":
        return "f16x2"
    return "b64" if probe.spelling.pattern.opcode in moved or probe.variant == WIDE else kind


def _equal(a: Slots, b: Slots, kind: str, ulp: int) -> NDArray[np.bool_]:
    """Equal bits, or both NaN: gfx12 keeps a NaN's payload where PTX has a fixed one."""
    if kind in ("f16x2", "bf16x2"):
        low = _equal(a & np.uint64(0xFFFF), b & np.uint64(0xFFFF), kind[:-2], ulp)
        return low & _equal(a >> np.uint64(16), b >> np.uint64(16), kind[:-2], ulp)
    same: NDArray[np.bool_] = a == b
    if kind not in _EXPONENT:
        return same
    exponent, fraction = (np.uint64(word) for word in _EXPONENT[kind])
    nan = ((a & exponent) == exponent) & ((a & fraction) != 0) & ((b & exponent) == exponent) & ((b & fraction) != 0)
    if not ulp:
        return same | nan
    # Neighbouring floats of one sign have neighbouring bits; a NaN is never near.
    finite = ((a & exponent) != exponent) & ((b & exponent) != exponent)
    near = finite & (np.abs(a.view(np.int64) - b.view(np.int64)) <= ulp)
    return same | nan | near


def batches(probes: Sequence[Probe], size: int) -> list[Sequence[Probe]]:
    """The probes in kernels. Those with .ftz twice: by themselves, so that the kernel's mode flushes f32 denormals, and
    together with an instruction that keeps them. Those that compute with other floats also in a mode that flushes f32.
    """
    flushing = [probe for probe in probes if "ftz" in probe.spelling.modifiers]
    others = [probe for probe in probes if "ftz" not in probe.spelling.modifiers]
    keeping = [probe for probe in others if probe.spelling.name == "add.f32"][:1]
    found = [flushing[start : start + size] for start in range(0, len(flushing), size)]
    found += [[*keeping, *batch] for batch in found] if keeping else []
    if flushing:
        unaffected = [probe for probe in others if _beside_flushing(probe)]
        found += [[flushing[0], *unaffected[start : start + size]] for start in range(0, len(unaffected), size)]
    return found + [others[start : start + size] for start in range(0, len(others), size)]


def _beside_flushing(probe: Probe) -> bool:
    """Whether a probe computes with floats and leaves a kernel's mode flushing."""
    opcode, words = probe.spelling.pattern.opcode, set(probe.spelling.modifiers)
    kinds = {*_EXPONENT, "f16x2"}
    computes = opcode not in ("ld", "st", "set", "mov", "selp", "slct") and not words.isdisjoint(kinds)
    return computes and ("f32" not in words or (opcode == "cvt" and "f64" not in words and "f16" in words))
