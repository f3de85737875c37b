"""What `make demo` runs: the whole path on the shipped enc0 module, with a short table at the end."""

import click

from zluda_rr.image import read_ptx, shipped_module
from zluda_rr.rewrite import inspect_text
from zluda_rr.runtime.backend import Backend, LoweringBackend
from zluda_rr.runtime.compare import compare_outputs
from zluda_rr.runtime.device import Device, Execution, OracleDevice, Program
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.variants import subject, variants
from zluda_rr.runtime.weights import WorkloadKind
from zluda_rr.runtime.workload import Launch, Shape, build_launch

LAYER = "enc0"
SHAPE = Shape(ex=42, ey=36, shift_x=4, shift_y=2)  # 6 x 5 blocks, partial ones on every side
KIND = WorkloadKind.CANCELLATION
MODEL = "sequential"  # of the three models the one that depends most on order; a card has its own


def run_demo(progress: Progress, backend: Backend | None = None) -> bool:
    """Inspect, rewrite, compile both, run both and the oracle, compare; True when every byte is equal."""
    chosen = backend or LoweringBackend()
    device = chosen.device()
    path = shipped_module(LAYER)
    with progress.step("inspect"):
        report = inspect_text(read_ptx(path), filename=path.name)
    click.echo(report)
    what = subject(LAYER, (), backend=chosen)
    translated, rewritten = variants(what, progress)
    launch = build_launch(what.contract, SHAPE, KIND)
    oracle = _run(OracleDevice(), translated, launch, progress)
    before = _run(device, translated, launch, progress)
    after = _run(device, rewritten, launch, progress)
    click.echo(f"{SHAPE.blocks} blocks over {SHAPE.ex}x{SHAPE.ey} tokens, data: {KIND}, mma model: {MODEL}")
    same_oracle = _compare("PTX oracle = translated kernel", launch, oracle, before)
    same = _compare("translated = rewritten kernel", launch, before, after)
    _counts(translated, before, rewritten, after)
    click.echo(f"byte-identical: {'yes' if same and same_oracle else 'NO'}")
    return same and same_oracle


def _run(device: Device, program: Program, launch: Launch, progress: Progress) -> Execution:
    with progress.step(f"run {program.name} on {device.name}"):
        return device.run(program, launch, MODEL)


def _compare(label: str, launch: Launch, expected: Execution, actual: Execution) -> bool:
    """One line per output, so that a reader sees that all of them were looked at."""
    click.echo(label)
    equal = True
    for output in launch.outputs:
        compared, difference = compare_outputs(launch.name, (output,), expected.memory, actual.memory)
        equal = equal and difference is None
        click.echo(f"  {output:<16} {compared:>9,} bytes  {'equal' if difference is None else str(difference)}")
    return equal


def _counts(translated: Program, before: Execution, rewritten: Program, after: Execution) -> None:
    click.echo(f"{'':<24}{'translated':>12}{'rewritten':>12}")
    stats = [execution.stats for execution in (before, after) if execution.stats is not None]
    counted = (
        ("instructions per wave", [s.instructions_per_wave for s in stats]),
        ("  WMMA", [s.by_class["wmma"] for s in stats]),
        ("  LDS", [s.by_class["lds"] for s in stats]),
    )
    for label, values in (
        *(counted if stats else ()),
        ("VGPRs", [float(program.code().vgprs) for program in (translated, rewritten)]),
        ("scratch bytes", [float(program.code().scratch_bytes) for program in (translated, rewritten)]),
    ):
        click.echo(f"{label:<24}" + "".join(f"{value:>12,.0f}" for value in values))
