"""`zluda-rr compile`."""

from dataclasses import asdict
from pathlib import Path

import click

from zluda_rr.commands.options import ANY, FILE, JSON, MODULE, QUIET, print_json
from zluda_rr.toolchain import require_compilers


@click.command()
@click.argument("file", type=ANY)
@click.option("-o", "--output", type=FILE, required=True, help="Where the gfx1201 code object goes.")
@click.option("--entry", help="Kernel to compile; needed only where FILE has several.")
@MODULE
@JSON
@QUIET
def compile(file: Path, output: Path, entry: str | None, chosen: str | None, as_json: bool, quiet: bool) -> None:
    """Compile a PTX module of FILE (PTX or a container) to a gfx1201 code object, linked with the bodies it calls."""
    require_compilers()
    from zluda_rr.runtime import Progress, compile_file

    report = compile_file(file, output, entry, Progress(quiet), chosen)
    print_json(asdict(report)) if as_json else click.echo(str(report))
