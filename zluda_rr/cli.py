"""Command line. Click commands only; every command calls one function of a package below."""

import errno
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from zluda_rr.commands import register_selftest
from zluda_rr.errors import UserError
from zluda_rr.hook import register as register_hook
from zluda_rr.toolchain import require_compilers
from zluda_rr.zluda import register as register_zluda


class _Group(click.Group):
    """A user's error is one line on stderr and exit code 2; anything else is our bug and raises."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(f"zluda-rr: {error}", err=True)
            sys.exit(2)
        except OSError as error:
            if error.errno != errno.ENOSPC or error.filename is not None:
                raise
            click.echo("zluda-rr: no space left behind standard output or in the temporary folder; make some", err=True)
            sys.exit(2)


@click.group(cls=_Group)
@click.version_option(package_name="zluda-rr")
def main() -> None:
    """Recognise, rewrite and prove DLSS Ray Reconstruction kernels for RDNA4."""


_FILE = click.Path(dir_okay=False, path_type=Path)
_ANY = click.Path(path_type=Path)
_MODULE = click.option("--module", "chosen", help="Module of a container: its number in `inspect`, or its sha256.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON document instead of text.")
_QUIET = click.option("--quiet", is_flag=True, help="No progress lines on stderr.")
_LAYER = click.option("--layer", default="enc0", show_default=True, help="Layer with a rule in rules/.")
_BODY = click.option("--body", help="Body of the layer cut, `direct` or `staged`; default: direct.")
_CUT = click.option(
    "--cut",
    "cuts",
    multiple=True,
    help="Cut of the rule, `layer` or `enc0.layer`; default: the whole layer where the rule has that cut.",
)


_FUSION = click.option(
    "--fusion/--no-fusion",
    "fusion",
    default=None,
    help="Keep accumulators in WMMA order between products (rules/fragment-consumer.rule); with no --cut nothing else. "
    "Default: $ZLUDA_RR_FUSION.",
)


def _fusion(switch: bool | None, default: bool = False) -> bool:
    from zluda_rr.rewrite import fusion_wanted

    return fusion_wanted(switch, os.environ, default=default)


_ZOC = click.option(
    "--zoc",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="Compile with ZLUDA's offline compiler; without FILE with the one that $ZLUDA_RR_ZOC names.",
)


_DEVICE = click.option(
    "--device",
    type=click.Choice(["emulator", "hip"]),
    default="emulator",
    show_default=True,
    help="hip: the card that HIP finds, or the emulated one under `hip-emulated`.",
)


def _cut_names(layer: str, cuts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(cut.removeprefix(f"{layer}.") for cut in cuts)


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2))


@main.command()
@click.argument("file", type=_ANY)
@_MODULE
@_FUSION
@_JSON
@click.option("--html", "page", type=_FILE, help="Write the report as one self-contained HTML page instead.")
def inspect(file: Path, chosen: str | None, fusion: bool | None, as_json: bool, page: Path | None) -> None:
    """Phases, contract and cuts of the kernels in FILE: PTX, fatbin, cubin, ELF, PE, or a directory of them."""
    from zluda_rr.inspection import inspect_file, page_file

    if page is not None:
        click.echo(page_file(file, page, chosen), nl=False)
        return
    report = inspect_file(file, chosen, as_json=as_json, fusion=_fusion(fusion, default=True))
    click.echo(report, nl=False) if isinstance(report, str) else _print_json(report)


@main.command()
@click.argument("a", type=_ANY)
@click.argument("b", type=_ANY)
@_JSON
def diff(a: Path, b: Path, as_json: bool) -> None:
    """What changed from module A to module B of the same layers: phases, operands, offsets, epilogues, parameters."""
    from zluda_rr.inspection import diff_files
    from zluda_rr.rewrite import difference_json, difference_text

    found = diff_files(a, b)
    _print_json(difference_json(found)) if as_json else click.echo(difference_text(found), nl=False)
    if not found.equal:
        sys.exit(1)


@main.command()
@click.argument("file", type=_ANY)
@click.option("-o", "--output", type=_FILE, required=True, help="Where the rewritten module goes.")
@_MODULE
@_LAYER
@_CUT
@_BODY
@click.option(
    "--target",
    type=click.Choice(["zluda", "nvptx"]),
    default="zluda",
    show_default=True,
    help="nvptx: put the bodies into the module as PTX, for NVIDIA's own driver.",
)
@click.option(
    "--bitcode",
    type=_ANY,
    help="Write the LLVM bitcode of the bodies that the module calls into this folder, for ZLUDA's compiler.",
)
@click.option("--no-contraction", is_flag=True, help="Forbid ptxas to fuse multiplications and additions.")
@_FUSION
@_JSON
def rewrite(
    file: Path,
    output: Path,
    chosen: str | None,
    layer: str,
    cuts: tuple[str, ...],
    body: str | None,
    target: str,
    bitcode: Path | None,
    no_contraction: bool,
    fusion: bool | None,
    as_json: bool,
) -> None:
    """Replace the cuts of a layer in FILE (PTX or a container) by calls of engine bodies.

    The output is PTX text; of a fatbin the fatbin with the one entry changed that the loader takes, unless its name
    ends in .ptx.

    Refuses unless every obligation holds.
    """
    from zluda_rr.hook import finishing, storing_bitcode
    from zluda_rr.image import Loader
    from zluda_rr.runtime import rewrite_file

    if bitcode is not None and target != "zluda":
        raise UserError(f"--bitcode is for --target zluda; with --target {target} the bodies are in the module")
    finish = finishing(target == "nvptx", no_contraction)
    if bitcode is not None:
        finish = storing_bitcode(finish, bitcode)
    names, loader = _cut_names(layer, cuts), Loader(target)
    result = rewrite_file(file, output, layer, names, chosen, finish, body, fusion=_fusion(fusion), loader=loader)
    _print_json(result.json()) if as_json else click.echo(result.text(), nl=False)


@main.command()
@click.argument("file", type=_ANY)
@click.option("-o", "--output", type=_FILE, required=True, help="Where the gfx1201 code object goes.")
@click.option("--entry", help="Kernel to compile; needed only where FILE has several.")
@_MODULE
@_JSON
@_QUIET
def compile(file: Path, output: Path, entry: str | None, chosen: str | None, as_json: bool, quiet: bool) -> None:
    """Compile a PTX module of FILE (PTX or a container) to a gfx1201 code object, linked with the bodies it calls."""
    require_compilers()
    from zluda_rr.runtime import Progress, compile_file

    report = compile_file(file, output, entry, Progress(quiet), chosen)
    _print_json(asdict(report)) if as_json else click.echo(str(report))


@main.command()
@_LAYER
@_CUT
@_BODY
@click.option(
    "--model",
    "models",
    multiple=True,
    type=click.Choice(["exact", "sequential", "pairwise"]),
    help="Accumulation model; default: exact, sequential, pairwise.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(["random", "cancellation", "saturating", "special"]),
    help="Kind of data; default: all.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of weights and inputs.")
@click.option("--stage", type=int, help="Compare only the accumulators of this phase.")
@click.option("--oracle/--no-oracle", default=True, help="Also compare the translated kernel with the PTX oracle.")
@_FUSION
@_ZOC
@_DEVICE
@_JSON
@_QUIET
def verify(
    layer: str,
    cuts: tuple[str, ...],
    body: str | None,
    models: tuple[str, ...],
    kinds: tuple[str, ...],
    seed: int,
    stage: int | None,
    oracle: bool,
    fusion: bool | None,
    zoc: str | None,
    device: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Prove in the emulator, or on a card, that a layer's rewritten kernel equals the translated one byte for byte."""
    require_compilers()
    from zluda_rr.runtime import Progress, WorkloadKind, choose_backend, subject, verify_stage, verify_text
    from zluda_rr.runtime import verify as verify_layer

    backend = choose_backend(zoc, device)
    what = subject(layer, _cut_names(layer, cuts), body=body, fusion=_fusion(fusion), backend=backend)
    chosen = models or backend.device().models
    data = tuple(WorkloadKind(kind) for kind in kinds) or tuple(WorkloadKind)
    show = Progress(quiet)
    if stage is None:
        report = verify_layer(what, models=chosen, kinds=data, seed=seed, oracle=oracle, progress=show)
    else:
        report = verify_stage(what, stage, models=chosen, kinds=data, seed=seed, progress=show)
    _print_json(asdict(report)) if as_json else click.echo(verify_text(report))
    if not report.equal:
        sys.exit(1)


@main.command()
@_LAYER
@_CUT
@_FUSION
@_ZOC
@_DEVICE
@_JSON
@_QUIET
def bench(
    layer: str,
    cuts: tuple[str, ...],
    fusion: bool | None,
    zoc: str | None,
    device: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Instruction counts per wave, registers and memory of the translated against the rewritten kernel.

    With --device hip times of both by the device's events instead.

    With --fusion also of the kernel with fragment-consumer fusion alone (`fused`), with --zoc also of both as ZLUDA
    compiles them (`zluda`, `zluda_rewritten`).
    """
    require_compilers()
    from zluda_rr.runtime import (
        Progress,
        bench_json,
        bench_text,
        choose_backend,
        subject,
        time_variants,
        timing_json,
        timing_text,
    )
    from zluda_rr.runtime import bench as bench_layer

    if device == "hip":
        timed = subject(layer, _cut_names(layer, cuts), backend=choose_backend(zoc, device))
        times = time_variants(timed, fused=_fusion(fusion), progress=Progress(quiet))
        _print_json(timing_json(times)) if as_json else click.echo(timing_text(times))
        return
    zluda = None if zoc is None else choose_backend(zoc)
    what = subject(layer, _cut_names(layer, cuts))
    report = bench_layer(what, fused=_fusion(fusion), zluda=zluda, progress=Progress(quiet))
    _print_json(bench_json(report)) if as_json else click.echo(bench_text(report))


@main.command()
@_DEVICE
@_QUIET
def demo(device: str, quiet: bool) -> None:
    """The whole path on the shipped module: inspect, rewrite, compile both, run both, compare every byte."""
    require_compilers()
    from zluda_rr.runtime import Progress, choose_backend, run_demo

    if not run_demo(Progress(quiet), choose_backend(None, device)):
        sys.exit(1)


@main.command("hip-emulated", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def hip_emulated(command: tuple[str, ...]) -> None:
    """Run COMMAND, any HIP program, on an emulated RX 9070 XT: no card is needed (docs/hip.md)."""
    from zluda_rr.emulate.hip import run_emulated

    run_emulated(command)


register_hook(main)
register_zluda(main)
register_selftest(main)
