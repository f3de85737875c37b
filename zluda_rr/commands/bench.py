"""`zluda-rr bench`."""

import click

from zluda_rr.commands.options import CUT, DEVICE, FUSION, JSON, LAYER, QUIET, ZOC, cut_names, print_json, use_fusion
from zluda_rr.toolchain import require_compilers


@click.command()
@LAYER
@CUT
@FUSION
@ZOC
@DEVICE
@JSON
@QUIET
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
        timed = subject(layer, cut_names(layer, cuts), backend=choose_backend(zoc, device))
        times = time_variants(timed, fused=use_fusion(fusion), progress=Progress(quiet))
        print_json(timing_json(times)) if as_json else click.echo(timing_text(times))
        return
    zluda = None if zoc is None else choose_backend(zoc)
    what = subject(layer, cut_names(layer, cuts))
    report = bench_layer(what, fused=use_fusion(fusion), zluda=zluda, progress=Progress(quiet))
    print_json(bench_json(report)) if as_json else click.echo(bench_text(report))
