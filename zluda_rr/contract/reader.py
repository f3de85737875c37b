"""Reads and checks rule files.

A family file (`rules/<family>.toml`): `schema`, `family`; `launch`: `tile` (tokens per block), `extents` and `shift`
(`parameter` offset and `range`, both ends included), `even`; `buffers`: parameter offset of each pointer;
`arithmetic`: the constants of `ArithmeticRule`.

A layer file (`rules/<layer>.toml`): `schema`, `family`, `layer`, `entry` (kernel name), `parameters` (bytes of the
parameter block), `channels`, `heads`, `waves`, `branches`, `window` = { tokens = [x, y], ring }; `weights`: `bytes` of
the image and `regions` that no phase reads; `input`: `kind` = "embedding" (with the shared `array`) or "planes", `at` =
image offset of its weights; `output`: columns of `merge` and `logits`; `surfaces`: `parameter` offset of the handle,
`width`, `height` (expressions over ex, ey), `role`; `shared`: bytes of each array; `cut`: see `cuts.py`.

Every key is read, every other one is an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from zluda_rr.resources import resource_dir

from .cuts import read_cut
from .family import LayerNumbers, Window, expand
from .model import (
    ArithmeticRule,
    Buffer,
    ContractError,
    Launch,
    LayerContract,
    LayerCutRule,
    SharedArray,
    Surface,
    WeightRegion,
)
from .regions import weight_regions
from .table import Table

SCHEMA = 2
SURFACE_CHANNELS = 4


@dataclass(frozen=True, slots=True)
class Family:
    """What the layers of a family have in common. `buffers`: parameter offset of each pointer."""

    name: str
    tile: tuple[int, int]
    extents_offset: int
    extents_range: tuple[int, int]
    shift_offset: int
    shift_range: tuple[int, int]
    even: tuple[str, ...]
    buffers: Mapping[str, int]
    arithmetic: ArithmeticRule


def read_family(path: Path) -> Family:
    """Read and check the file of a family."""
    table = _table(path)
    launch = table.table("launch")
    extents, shift = launch.table("extents"), launch.table("shift")
    buffers, arithmetic = table.table("buffers"), table.table("arithmetic")
    family = Family(
        name=table.text("family"),
        tile=launch.pair("tile"),
        extents_offset=extents.number("parameter"),
        extents_range=extents.pair("range"),
        shift_offset=shift.number("parameter"),
        shift_range=shift.pair("range"),
        even=tuple(launch.names("even", ("ex", "ey", "sx", "sy"))),
        buffers={name: buffers.number(name) for name in ("weights", "input_planes", "plane_arena", "merged_planes")},
        arithmetic=ArithmeticRule(*(arithmetic.number(f.name) for f in fields(ArithmeticRule))),
    )
    for part in (extents, shift, launch, buffers, arithmetic, table):
        part.close()
    return family


def read_contract(path: Path) -> LayerContract:
    """Read and check a layer's file, and its family's beside it."""
    table = _table(path)
    name = table.text("family")
    family = read_family(path.parent / f"{name}.toml")
    contract = _contract(table, family)
    table.close()
    try:
        _check(contract)
    except ContractError as error:
        raise ContractError(f"{path}: {error}") from error
    return contract


def load_contracts(folder: Path | None = None) -> tuple[LayerContract, ...]:
    """All layers of a folder (the shipped rules by default), sorted by name."""
    return tuple(read_contract(path) for _, path in sorted(_layers(folder or resource_dir("rules"))))


def load_contract(layer: str, folder: Path | None = None) -> LayerContract:
    """The contract of one layer by name."""
    rules = dict(_layers(folder or resource_dir("rules")))
    if layer not in rules:
        raise ContractError(f"no rule file for layer {layer!r}; known layers: {', '.join(sorted(rules))}")
    return read_contract(rules[layer])


def _layers(folder: Path) -> Iterator[tuple[str, Path]]:
    """Rule files that another one of the folder is no family of."""
    for path in folder.glob("*.toml"):
        with path.open("rb") as file:
            head = file.read(4096)
        if b"\nlayer = " in head or b"\nentry = " in head:
            yield path.stem, path


def _table(path: Path) -> Table:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ContractError(f"{path}: {error}") from error
    if data.get("schema") != SCHEMA:
        raise ContractError(f"{path}: schema {data.get('schema')!r}, this version reads schema {SCHEMA}")
    return Table(str(path), {k: v for k, v in data.items() if k != "schema"})


def _contract(table: Table, family: Family) -> LayerContract:
    weights, output = table.table("weights"), table.table("output")
    numbers = _numbers(table, family, output)
    try:
        phases, end = expand(numbers)
    except ContractError as error:
        raise ContractError(f"{table.place}: {error}") from error
    nbytes = weights.number("bytes")
    stated = [
        WeightRegion(r.text("name"), r.number("at"), r.number("bytes"), r.choice("kind", ("features", "reserved")))
        for r in weights.tables("regions")
    ]
    if end != nbytes:
        raise ContractError(f"{table.place}: weights.bytes = {nbytes}, the phases end at {end}")
    surfaces, shared = table.table("surfaces"), table.table("shared", {})
    arrays = {name: shared.number(name) for name in shared}
    contract = LayerContract(
        layer=table.text("layer"),
        family=family.name,
        arithmetic=family.arithmetic,
        entry=table.text("entry"),
        parameter_bytes=table.number("parameters"),
        weights_parameter=family.buffers["weights"],
        weights_bytes=nbytes,
        weights=tuple(sorted((*stated, *weight_regions(phases)), key=lambda region: region.offset)),
        launch=Launch(
            table.number("waves"),
            family.tile,
            family.extents_offset,
            family.shift_offset,
            family.even,
            family.extents_range,
            family.shift_range,
        ),
        buffers=tuple(_buffers(numbers, family, nbytes)),
        surfaces=tuple(_surface(name, surfaces.table(name)) for name in surfaces),
        shared=tuple(SharedArray(name, size) for name, size in arrays.items()),
        phases=phases,
        cuts=tuple(read_cut(cut, phases, numbers, arrays) for cut in table.tables("cut")),
    )
    for part in (weights, output, surfaces, shared):
        part.close()
    return contract


def _numbers(table: Table, family: Family, output: Table) -> LayerNumbers:
    window, source = table.table("window"), table.table("input")
    kind = source.choice("kind", ("embedding", "planes"))
    numbers = LayerNumbers(
        channels=table.number("channels"),
        heads=table.number("heads"),
        branches=table.number("branches"),
        window=Window(window.pair("tokens"), window.number("ring")),
        input_kind=kind,
        input_at=source.number("at"),
        input_parameter=family.buffers["input_planes"] if kind == "planes" else 0,
        array=source.text("array") if kind == "embedding" else "",
        merge=output.number("merge", 0),
        logits=output.number("logits", 0),
    )
    if numbers.window.tokens != family.tile:
        raise ContractError(f"{table.place}: window {numbers.window.tokens} is not the launch's tile {family.tile}")
    window.close()
    source.close()
    return numbers


def _buffers(numbers: LayerNumbers, family: Family, weights: int) -> Iterator[Buffer]:
    """Linear memory behind the pointers; planes hold 32 bytes per token and slice, merged ones per 2x2 group [D 27]."""
    if numbers.input_kind == "planes":
        yield Buffer("input_planes", family.buffers["input_planes"], f"{numbers.channels} * ex * ey", "input")
    yield Buffer("weights", family.buffers["weights"], str(weights), "weights")
    yield Buffer("plane_arena", family.buffers["plane_arena"], f"{numbers.channels} * ex * ey", "output")
    if numbers.merge:
        yield Buffer("merged_planes", family.buffers["merged_planes"], f"{numbers.merge // 4} * ex * ey", "output")


def _surface(name: str, table: Table) -> Surface:
    surface = Surface(
        name,
        table.number("parameter"),
        table.text("width"),
        table.text("height"),
        SURFACE_CHANNELS,
        "f16",
        table.choice("role", ("input", "output")),
    )
    table.close()
    return surface


def _check(contract: LayerContract) -> None:
    end = 0
    for region in contract.weights:
        if region.offset != end:
            what = "inside the region before it" if region.offset < end else f"{region.offset - end} bytes after it"
            raise ContractError(f"weights {region.name}: starts at {region.offset}, {what}")
        end = region.offset + region.nbytes
    launch = contract.launch
    words = max((buffer.size(2, 2) // 4 for buffer in contract.buffers if buffer.role != "weights"), default=0)
    if words * launch.extents_range[1] ** 2 // 4 >= 1 << 31:
        raise ContractError(f"launch.extents: {launch.extents_range[1]} tokens per axis reach indices of 2^31")
    for cut in contract.cuts:
        for symbol in [b.symbol for b in cut.bodies] if isinstance(cut, LayerCutRule) else [cut.symbol]:
            if not symbol.startswith("zrr_"):
                raise ContractError(f"cut {cut.name}: body symbol {symbol!r} does not start with zrr_")
