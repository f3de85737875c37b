"""`zluda-rr demo`."""

import sys

import click

from zluda_rr.commands.options import DEVICE, QUIET
from zluda_rr.toolchain import require_compilers


@click.command()
@DEVICE
@QUIET
def demo(device: str, quiet: bool) -> None:
    """The whole path on the shipped module: inspect, rewrite, compile both, run both, compare every byte."""
    require_compilers()
    from zluda_rr.runtime import Progress, choose_backend, run_demo

    if not run_demo(Progress(quiet), choose_backend(None, device)):
        sys.exit(1)
