"""Options that several commands have, and what their values become."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from zluda_rr.runtime import Backend, Choice

FILE = click.Path(dir_okay=False, path_type=Path)
ANY = click.Path(path_type=Path)
MODULE = click.option("--module", "chosen", help="Module of a container: its number in `inspect`, or its sha256.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print a JSON document instead of text.")
QUIET = click.option("--quiet", is_flag=True, help="No progress lines on stderr.")
LAYER = click.option("--layer", default="enc0", show_default=True, help="Layer with a rule in rules/.")
BODY = click.option("--body", help="Body of the layer cut, `direct` or `staged`; default: direct.")
CUT = click.option(
    "--cut",
    "cuts",
    multiple=True,
    help="Cut of the rule, `layer` or `enc0.layer`; default: the whole layer where the rule has that cut.",
)


FUSION = click.option(
    "--fusion/--no-fusion",
    "fusion",
    default=None,
    help="Keep accumulators in WMMA order between products (rules/fragment-consumer.rule); with no --cut nothing else. "
    "Default: $ZLUDA_RR_FUSION.",
)


def use_fusion(switch: bool | None, default: bool = False) -> bool:
    from zluda_rr.rewrite import fusion_wanted

    return fusion_wanted(switch, os.environ, default=default)


ZOC = click.option(
    "--zoc",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="Compile with ZLUDA's offline compiler; without FILE with the one that $ZLUDA_RR_ZOC names.",
)


DEVICE = click.option(
    "--device",
    type=click.Choice(["emulator", "hip"]),
    default="emulator",
    show_default=True,
    help="hip: the card that HIP finds, or the emulated one under `hip-emulated`.",
)


def cut_names(layer: str, cuts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(cut.removeprefix(f"{layer}.") for cut in cuts)


def file_choice(
    context: click.Context,
    layer: str,
    cuts: tuple[str, ...],
    body: str | None,
    fusion: bool | None,
    backend: Backend,
) -> Choice:
    """What is asked of the layers in a file: all of them where no layer is given."""
    from click.core import ParameterSource

    from zluda_rr.runtime import Choice

    given = context.get_parameter_source("layer") is not ParameterSource.DEFAULT
    wanted = fusion
    if fusion is None and os.environ.get("ZLUDA_RR_FUSION") in ("0", "1"):
        wanted = use_fusion(None)
    return Choice(layer if given else None, cuts, body, wanted, backend)


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2))
