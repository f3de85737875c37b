"""The table of docs/zluda-results.md: `python -m tests.zluda.results NAME=ZOC ...`, one ZLUDA compiler per state.

Each state compiles enc0 and enc1, the original module and what this project makes of it (enc0: the whole layer by its
engine body; enc1: fragment-consumer fusion). Counts are means per wave over one launch in the gfx12 emulator; "equal"
says whether every byte of every output equals the PTX oracle's under the three accumulation models; in outputs of
halves any NaN equals any NaN, as in `compare_outputs`.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.runtime.zluda_conversions import mismatches
from zluda_rr.emulate.gfx12 import CLASSES
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.errors import UserError
from zluda_rr.runtime import (
    MODELS,
    Launch,
    OracleDevice,
    Program,
    Progress,
    Shape,
    Subject,
    WorkloadKind,
    ZludaBackend,
    build_launch,
    compare_outputs,
    subject,
    zoc_path,
)
from zluda_rr.runtime.bench import DEFAULT_SHAPE, VariantCounts, counts_of, zluda_requests
from zluda_rr.runtime.faults import DeviceFault
from zluda_rr.runtime.variants import Request, compile_all

LAYERS = ("enc0", "enc1")
KIND = WorkloadKind.CANCELLATION
REWRITE = {"enc0": "layer body", "enc1": "fusion"}


@dataclass(frozen=True, slots=True)
class State:
    """A compiler and what it is called in the table."""

    name: str
    zoc: Path

    @classmethod
    def parse(cls, word: str) -> State:
        name, found, path = word.rpartition("=")
        if not found or not name:
            raise UserError(f"{word}: a state is NAME=ZOC")
        return cls(name, zoc_path(path))


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel of one state; without counts `problem` says why."""

    state: str
    layer: str
    kernel: str
    counts: VariantCounts | None = None
    equal: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A layer with what the oracle leaves in memory, by model."""

    what: Subject
    launch: Launch
    memories: dict[str, AddressSpace]


def reference(layer: str, shape: Shape, progress: Progress) -> Reference:
    what = subject(layer, (), fusion=layer == "enc1")
    launch = build_launch(what.contract, shape, KIND)
    program = Program("oracle", what.module, what.contract.entry)
    memories = {}
    for model in MODELS:
        with progress.step(f"oracle {layer} [{model}]"):
            memories[model] = OracleDevice().run(program, launch, model).memory
    return Reference(what, launch, memories)


def requests_of(what: Subject) -> tuple[tuple[str, Request], ...]:
    """Original and rewritten kernel."""
    original, rewritten = zluda_requests(what, fused=what.fusion)
    return ("original", original), (f"rewritten ({REWRITE[what.contract.layer]})", rewritten)


def row(state: State, ref: Reference, kernel: str, request: Request, progress: Progress) -> Row:
    """Compile with the state's compiler, run under every model, compare."""
    layer, backend = ref.what.contract.layer, ZludaBackend(state.zoc)
    try:
        (program,) = compile_all((request,), ref.what.contract.entry, progress, backend)
    except UserError as error:
        return Row(state.name, layer, kernel, problem=_complaint(state, error))
    device, wrong, counts = backend.device(), 0, None
    for model in MODELS:
        with progress.step(f"run {state.name}: {layer} {kernel} [{model}]"):
            try:
                execution = device.run(program, ref.launch, model)
            except DeviceFault as error:
                return Row(state.name, layer, kernel, problem=error.fault.message)
            except UserError as error:
                return Row(state.name, layer, kernel, problem=str(error))
        if counts is None and execution.stats is not None:
            counts = counts_of(execution.stats, program.code())
        _, difference = compare_outputs(
            model, ref.launch.outputs, ref.memories[model], execution.memory, nan_outputs=ref.launch.halves
        )
        wrong += difference is not None
    return Row(state.name, layer, kernel, counts, "yes" if not wrong else f"NO ({wrong} of {len(MODELS)} models)")


def table(rows: Sequence[Row]) -> str:
    """Markdown; a kernel that does not compile has its complaint instead of numbers."""
    heads = ("state", "layer", "kernel", "instructions", *CLASSES, "VGPRs", "scratch B", "LDS B", "equal to the oracle")
    lines = [_line(heads), _line(["---"] * 3 + ["---:"] * (len(heads) - 4) + ["---"])]
    for r in rows:
        start = [r.state, r.layer, r.kernel]
        if r.counts is None:
            lines.append(_line([*start, *["–"] * (len(heads) - 4), f"does not compile or run: {_quoted(r.problem)}"]))
            continue
        c = r.counts
        classes = [f"{c.by_class[name]:,.0f}" for name in CLASSES]
        sizes = [str(n) for n in (c.vgprs, c.scratch_bytes, c.lds_bytes)]
        lines.append(_line([*start, f"{c.instructions_per_wave:,.0f}", *classes, *sizes, r.equal]))
    return "\n".join(lines)


def _complaint(state: State, error: UserError) -> str:
    """Without the path of the compiler."""
    return str(error).removeprefix(f"{state.zoc}: ")


def _quoted(text: str) -> str:
    """A complaint as code in a cell of the table."""
    return f"`{text.replace('|', chr(92) + '|')}`"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def ratios(rows: Sequence[Row]) -> str:
    """The best translated original against the best rewritten kernel, per layer."""
    lines = []
    for layer in dict.fromkeys(r.layer for r in rows):
        counted = [(r.counts.instructions_per_wave, r) for r in rows if r.layer == layer and r.counts is not None]
        before = min((c for c in counted if c[1].kernel == "original"), key=lambda c: c[0], default=None)
        after = min((c for c in counted if c[1].kernel != "original"), key=lambda c: c[0], default=None)
        if before and after:
            lines.append(
                f"- {layer}: best original ({before[1].state}) {before[0]:,.0f}, best {after[1].kernel} "
                f"({after[1].state}) {after[0]:,.0f} instructions per wave: {before[0] / after[0]:.2f} times fewer"
            )
    return "\n".join(lines)


def conversions(states: Sequence[State], progress: Progress) -> str:
    """Whether all halves convert as the oracle has it, per state."""
    lines = [_line(["state", "65,536 halves, both positions, plain and relu"]), _line(["---", "---"])]
    for state in states:
        with progress.step(f"conversions {state.name}"):
            try:
                wrong = mismatches(state.zoc)
            except UserError as error:
                lines.append(_line([state.name, f"does not compile: {_quoted(_complaint(state, error))}"]))
                continue
        text = "equal" if not wrong else f"{len(wrong)} differ, first: `{wrong[0]}`"
        lines.append(_line([state.name, text]))
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.zluda.results", description=__doc__.splitlines()[0])
    parser.add_argument("states", nargs="+", metavar="NAME=ZOC", help="a compiler and its name in the table")
    parser.add_argument("--layer", choices=LAYERS, action="append", help="default: both")
    parser.add_argument("--quiet", action="store_true")
    given = parser.parse_args(arguments)
    states, progress = [State.parse(word) for word in given.states], Progress(given.quiet)
    references = [reference(layer, DEFAULT_SHAPE, progress) for layer in given.layer or LAYERS]
    rows = [
        row(state, ref, kernel, request, progress)
        for ref in references
        for kernel, request in requests_of(ref.what)
        for state in states
    ]
    shape = DEFAULT_SHAPE
    words = [word for layer in given.layer or () for word in ("--layer", layer)]
    words += [f"{state.name}=path/to/{state.name}/zoc" for state in states]
    shown = shlex.join(words)
    print(f"    .venv/bin/python -m tests.zluda.results {shown}\n")
    print(f"{shape.blocks} waves over {shape.ex}x{shape.ey} tokens, data: {KIND}; models {', '.join(MODELS)}.\n")
    print(f"{table(rows)}\n\n{ratios(rows)}\n\n{conversions(states, progress)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(f"results: {error}")
