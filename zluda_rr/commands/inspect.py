"""`zluda-rr inspect`."""

from pathlib import Path

import click

from zluda_rr.commands.options import ANY, FILE, FUSION, JSON, MODULE, print_json, use_fusion


@click.command()
@click.argument("file", type=ANY)
@MODULE
@FUSION
@JSON
@click.option("--html", "page", type=FILE, help="Write the report as one self-contained HTML page instead.")
def inspect(file: Path, chosen: str | None, fusion: bool | None, as_json: bool, page: Path | None) -> None:
    """Phases, contract and cuts of the kernels in FILE: PTX, fatbin, cubin, ELF, PE, or a directory of them."""
    from zluda_rr.commands.inspection import inspect_file, page_file

    if page is not None:
        click.echo(page_file(file, page, chosen), nl=False)
        return
    report = inspect_file(file, chosen, as_json=as_json, fusion=use_fusion(fusion, default=True))
    click.echo(report, nl=False) if isinstance(report, str) else print_json(report)
