"""Command line. Click commands only; every command calls one function of a package below."""

import click


@click.group()
def main() -> None:
    """Recognise, rewrite and prove DLSS Ray Reconstruction kernels for RDNA4."""
