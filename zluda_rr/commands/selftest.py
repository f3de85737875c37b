"""`zluda-rr selftest`."""

from __future__ import annotations

import json
import sys

import click

__all__ = ["register"]


@click.command()
@click.option(
    "--row", "rows", multiple=True, metavar="PATTERN", help="Only rows of these names; * stands for anything."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document instead of text.")
@click.option("--quiet", is_flag=True, help="No progress lines on stderr.")
def selftest(rows: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Ask the card that HIP finds whether it does what the kernels assume, and how fast (docs/selftest.md).

    The report names no user, machine or folder and may go into an issue as it is. Exit code 1 where a row failed.
    """
    from zluda_rr.runtime import Progress, run_selftest, selftest_json, selftest_text

    report = run_selftest(rows, Progress(quiet))
    click.echo(json.dumps(selftest_json(report), indent=2) if as_json else selftest_text(report))
    if report.failed:
        sys.exit(1)


def register(program: click.Group) -> None:
    """Add the command."""
    program.add_command(selftest)
