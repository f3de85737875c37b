"""`zluda-rr bench`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zluda_rr.commands.options import (
    ANY,
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
    from zluda_rr.runtime import BenchReport, Choice, Subject, TimingReport


@click.command()
@click.argument("file", type=ANY, required=False)
@MODULE
@LAYER
@CUT
@FUSION
@ZOC
@DEVICE
@JSON
@QUIET
@click.pass_context
def bench(
    context: click.Context,
    file: Path | None,
    chosen: str | None,
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

    The original is the shipped module, or the layers in FILE (PTX or a container), all of them where no --layer is
    given: one table then.
    """
    require_compilers()
    from zluda_rr.runtime import (
        BenchReport,
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

    if chosen is not None and file is None:
        raise UserError("--module is for a FILE")
    show = Progress(quiet)
    compiler = choose_backend(zoc, device) if device == "hip" else None
    zluda = None if zoc is None or compiler is not None else choose_backend(zoc)

    def measure(what: Subject, fused: bool) -> BenchReport | TimingReport:
        if compiler is not None:
            return time_variants(what, fused=fused, progress=show)
        return bench_layer(what, fused=fused, zluda=zluda, progress=show)

    if file is not None:
        choice = file_choice(context, layer, cuts, None, fusion, compiler or choose_backend(None))
        _bench_file(file, chosen, choice, measure, as_json=as_json)
        return
    report = measure(subject(layer, cut_names(layer, cuts), backend=compiler), use_fusion(fusion))
    if isinstance(report, BenchReport):
        print_json(bench_json(report)) if as_json else click.echo(bench_text(report))
    else:
        print_json(timing_json(report)) if as_json else click.echo(timing_text(report))


def _bench_file(
    file: Path,
    module: str | None,
    choice: Choice,
    measure: Callable[[Subject, bool], BenchReport | TimingReport],
    *,
    as_json: bool,
) -> None:
    from zluda_rr.runtime import Result, bench_rows_json, bench_table, each_layer, find_layers

    # Cuts as without --fusion: here it asks for one more kernel.
    cuts_first = replace(choice, fusion=False if choice.fusion is False else None)
    found = find_layers(file, cuts_first, module)

    def work(what: Subject) -> BenchReport | TimingReport:
        return measure(replace(what, fusion=False), what.fusion or bool(choice.fusion))

    rows = each_layer(found, work, lambda _: Result.MEASURED)
    print_json(bench_rows_json(file, rows)) if as_json else click.echo(bench_table(file, rows))
    if not any(row.report is not None for row in rows):
        raise UserError(f"{file}: no layer could be measured")
