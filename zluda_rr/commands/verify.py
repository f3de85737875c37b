"""`zluda-rr verify`."""

import sys
from dataclasses import asdict

import click

from zluda_rr.commands.options import (
    BODY,
    CUT,
    DEVICE,
    FUSION,
    JSON,
    LAYER,
    QUIET,
    ZOC,
    cut_names,
    print_json,
    use_fusion,
)
from zluda_rr.toolchain import require_compilers


@click.command()
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
    type=click.Choice(["random", "cancellation", "saturating", "special"]),
    help="Kind of data; default: all.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of weights and inputs.")
@click.option("--stage", type=int, help="Compare only the accumulators of this phase.")
@click.option("--oracle/--no-oracle", default=True, help="Also compare the translated kernel with the PTX oracle.")
@FUSION
@ZOC
@DEVICE
@JSON
@QUIET
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
    what = subject(layer, cut_names(layer, cuts), body=body, fusion=use_fusion(fusion), backend=backend)
    chosen = models or backend.device().models
    data = tuple(WorkloadKind(kind) for kind in kinds) or tuple(WorkloadKind)
    show = Progress(quiet)
    if stage is None:
        report = verify_layer(what, models=chosen, kinds=data, seed=seed, oracle=oracle, progress=show)
    else:
        report = verify_stage(what, stage, models=chosen, kinds=data, seed=seed, progress=show)
    print_json(asdict(report)) if as_json else click.echo(verify_text(report))
    if not report.equal:
        sys.exit(1)
