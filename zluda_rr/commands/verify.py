"""`zluda-rr verify`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zluda_rr.commands.options import (
    ANY,
    BODY,
    CUT,
    DEVICE,
    FUSION,
    JSON,
    LAYER,
    MODULE,
    QUIET,
    ZOC,
    cut_names,
    file_choice,
    print_json,
    use_fusion,
)
from zluda_rr.errors import UserError
from zluda_rr.toolchain import require_compilers

if TYPE_CHECKING:
    from zluda_rr.runtime import Choice, Subject, VerifyReport


@click.command()
@click.argument("file", type=ANY, required=False)
@MODULE
@LAYER
@CUT
@BODY
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
    type=click.Choice(["random", "cancellation", "saturating", "special", "small", "bounds", "single"]),
    help="Kind of data; default: all, with --stage the first four (docs/mutants.md).",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of weights and inputs.")
@click.option("--stage", type=int, help="Compare only the accumulators of this phase.")
@click.option("--oracle/--no-oracle", default=True, help="Also compare the translated kernel with the PTX oracle.")
@click.option("--search/--no-search", default=True, help="After a difference find the first phase that differs.")
@click.option(
    "--kernels",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the bodies' sources in place of the shipped kernels/: for bodies under development.",
)
@FUSION
@ZOC
@DEVICE
@JSON
@QUIET
@click.pass_context
def verify(
    context: click.Context,
    file: Path | None,
    chosen: str | None,
    layer: str,
    cuts: tuple[str, ...],
    body: str | None,
    models: tuple[str, ...],
    kinds: tuple[str, ...],
    seed: int,
    stage: int | None,
    oracle: bool,
    search: bool,
    kernels: Path | None,
    fusion: bool | None,
    zoc: str | None,
    device: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Prove in the emulator, or on a card, that a layer's rewritten kernel equals the translated one byte for byte.

    The original is the shipped module, or the layers in FILE (PTX or a container), all of them where no --layer is
    given: one table then.
    """
    require_compilers()
    from zluda_rr.runtime import Progress, WorkloadKind, choose_backend, subject, verify_stage, verify_text
    from zluda_rr.runtime import verify as verify_layer

    if chosen is not None and file is None:
        raise UserError("--module is for a FILE")
    if kernels is not None and file is not None:
        raise UserError("--kernels is for the shipped modules")
    backend, show = choose_backend(zoc, device), Progress(quiet)
    accumulation = models or backend.device().models
    default = [kind for kind in WorkloadKind if stage is None or not kind.at_an_edge]
    data = tuple(WorkloadKind(kind) for kind in kinds) or tuple(default)

    def compare(what: Subject) -> VerifyReport:
        if stage is not None:
            return verify_stage(what, stage, models=accumulation, kinds=data, seed=seed, progress=show)
        return verify_layer(
            what, models=accumulation, kinds=data, seed=seed, oracle=oracle, search=search, progress=show
        )

    if file is not None:
        choice = file_choice(context, layer, cuts, body, fusion, backend)
        _verify_file(file, chosen, choice, compare, as_json=as_json)
        return
    names, fused = cut_names(layer, cuts), use_fusion(fusion)
    report = compare(subject(layer, names, body=body, fusion=fused, backend=backend, kernels=kernels))
    print_json(asdict(report)) if as_json else click.echo(verify_text(report))
    if not report.equal:
        sys.exit(1)


def _verify_file(
    file: Path, module: str | None, choice: Choice, compare: Callable[[Subject], VerifyReport], *, as_json: bool
) -> None:
    from zluda_rr.runtime import Result, each_layer, find_layers, verify_rows_json, verify_table

    found = find_layers(file, choice, module)
    rows = each_layer(found, compare, lambda report: Result.EQUAL if report.equal else Result.DIFFERS)
    print_json(verify_rows_json(file, rows)) if as_json else click.echo(verify_table(file, rows))
    if any(row.result is Result.DIFFERS for row in rows):
        sys.exit(1)
    if not any(row.report is not None for row in rows):
        raise UserError(f"{file}: no layer could be compared")
