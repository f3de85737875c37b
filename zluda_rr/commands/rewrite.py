"""`zluda-rr rewrite`."""

from pathlib import Path

import click

from zluda_rr.commands.options import (
    ANY,
    BODY,
    CUT,
    FILE,
    FUSION,
    JSON,
    LAYER,
    MODULE,
    cut_names,
    print_json,
    use_fusion,
)
from zluda_rr.errors import UserError


@click.command()
@click.argument("file", type=ANY)
@click.option("-o", "--output", type=FILE, required=True, help="Where the rewritten module goes.")
@MODULE
@LAYER
@CUT
@BODY
@click.option(
    "--target",
    type=click.Choice(["zluda", "nvptx"]),
    default="zluda",
    show_default=True,
    help="nvptx: put the bodies into the module as PTX, for NVIDIA's own driver.",
)
@click.option(
    "--bitcode",
    type=ANY,
    help="Write the LLVM bitcode of the bodies that the module calls into this folder, for ZLUDA's compiler.",
)
@click.option("--no-contraction", is_flag=True, help="Forbid ptxas to fuse multiplications and additions.")
@FUSION
@JSON
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
    names, loader = cut_names(layer, cuts), Loader(target)
    result = rewrite_file(file, output, layer, names, chosen, finish, body, fusion=use_fusion(fusion), loader=loader)
    print_json(result.json()) if as_json else click.echo(result.text(), nl=False)
