"""The program: its commands, and what an error looks like."""

import errno
import sys
from typing import Any

import click

from zluda_rr.commands import COMMANDS
from zluda_rr.errors import UserError


class _Group(click.Group):
    """A user's error is one line on stderr and exit code 2; anything else is our bug and raises."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(f"zluda-rr: {error}", err=True)
            sys.exit(2)
        except OSError as error:
            if error.errno != errno.ENOSPC or error.filename is not None:
                raise
            click.echo("zluda-rr: no space left behind standard output or in the temporary folder; make some", err=True)
            sys.exit(2)


@click.group(cls=_Group)
@click.version_option(package_name="zluda-rr")
def main() -> None:
    """Recognise, rewrite and prove DLSS Ray Reconstruction kernels for RDNA4."""


for _command in COMMANDS:
    main.add_command(_command)
