"""Click commands of the patch series."""

from __future__ import annotations

from pathlib import Path

import click

_SOURCE = click.option(
    "--source", type=click.Path(path_type=Path), required=True, help="Root of a git checkout of ZLUDA."
)


@click.group()
def zluda() -> None:
    """The patches for ZLUDA (docs/zluda.md)."""


@zluda.command("apply")
@_SOURCE
@click.option("--system-llvm", is_flag=True, help="Also the patch for building against the system's LLVM 22.")
def zluda_apply(source: Path, system_llvm: bool) -> None:
    """Apply what is missing of the patches: all of it or nothing."""
    from zluda_rr.zluda import apply_series, load_series

    click.echo(apply_series(source, load_series(), system_llvm=system_llvm))


@zluda.command("check")
@_SOURCE
def zluda_check(source: Path) -> None:
    """Which patches are applied, and which can be. Changes nothing."""
    from zluda_rr.zluda import describe_series, load_series

    for line in describe_series(source, load_series()):
        click.echo(line)


@zluda.command("revert")
@_SOURCE
def zluda_revert(source: Path) -> None:
    """Take the patches back: all of it or nothing."""
    from zluda_rr.zluda import load_series, revert_series

    click.echo(revert_series(source, load_series()))


COMMANDS = (zluda,)
