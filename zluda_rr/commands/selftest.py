"""`zluda-rr selftest`."""

from __future__ import annotations

import sys

import click

from zluda_rr.commands.options import JSON, QUIET, print_json


@click.command()
@click.option(
    "--row", "rows", multiple=True, metavar="PATTERN", help="Only rows of these names; * stands for anything."
)
@JSON
@QUIET
def selftest(rows: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Ask the card that HIP finds whether it does what the kernels assume, and how fast (docs/selftest.md).

    The report names no user, machine or folder and may go into an issue as it is. Exit code 1 where a row failed.
    """
    from zluda_rr.runtime import Progress, run_selftest, selftest_json, selftest_text

    report = run_selftest(rows, Progress(quiet))
    print_json(selftest_json(report)) if as_json else click.echo(selftest_text(report))
    if report.failed:
        sys.exit(1)
