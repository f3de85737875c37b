"""`zluda-rr hip-emulated`."""

import click


@click.command("hip-emulated", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def hip_emulated(command: tuple[str, ...]) -> None:
    """Run COMMAND, any HIP program, on an emulated RX 9070 XT: no card is needed (docs/hip.md)."""
    from zluda_rr.emulate.hip import run_emulated

    run_emulated(command)
