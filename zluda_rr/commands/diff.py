"""`zluda-rr diff`."""

import sys
from pathlib import Path

import click

from zluda_rr.commands.options import ANY, JSON, print_json


@click.command()
@click.argument("a", type=ANY)
@click.argument("b", type=ANY)
@JSON
def diff(a: Path, b: Path, as_json: bool) -> None:
    """What changed from module A to module B of the same layers: phases, operands, offsets, epilogues, parameters."""
    from zluda_rr.commands.inspection import diff_files
    from zluda_rr.rewrite import difference_json, difference_text

    found = diff_files(a, b)
    print_json(difference_json(found)) if as_json else click.echo(difference_text(found), nl=False)
    if not found.equal:
        sys.exit(1)
