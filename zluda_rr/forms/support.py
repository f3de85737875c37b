"""Which forms the oracle executes and the lowering takes, asked of both for every form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zluda_rr import lower
from zluda_rr.emulate import ptx as oracle
from zluda_rr.forms.probe import Probe, probe_kernel
from zluda_rr.ptx import parse


@dataclass(frozen=True, slots=True)
class Support:
    """What the oracle and the lowering say of a form: "" where they take it, else their refusal."""

    probe: Probe
    oracle: str
    lowering: str


def support(probes: Sequence[Probe]) -> tuple[Support, ...]:
    """Both answers for each probe, from one kernel that holds them all."""
    kernel = probe_kernel(probes, stores=False)
    module = parse(kernel.text, filename="forms.ptx")
    executes = oracle.refused_statements(module, "probe")
    lowers = lower.refused_statements(module, "probe")
    return tuple(
        Support(probe, str(executes.get(line, "")), str(lowers.get(line, "")))
        for probe, line in zip(probes, kernel.lines, strict=True)
    )
