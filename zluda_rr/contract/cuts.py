"""The cuts of a layer: what may be replaced, by what, and how the body is called.

A cut of one phase states `phase`, `consumers` and a `body` with the `rows` of one call; a cut of several `phases`
states `bodies`, the first being the default. Arguments and result image follow from the phases (the body ABI,
kernels/README.md): every argument is a .b32 or .b64 scalar, the result one .b32, the shared address of the image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from zluda_rr.analysis import Columns

from .family import LayerNumbers
from .model import (
    AnyCutRule,
    Argument,
    BodyChoice,
    ContractError,
    CutRule,
    LayerCutRule,
    PhaseRow,
    ResultImage,
    StoreRule,
    TokenImage,
)
from .table import Table

LANES = 32


def read_cut(table: Table, phases: Sequence[PhaseRow], numbers: LayerNumbers, shared: Mapping[str, int]) -> AnyCutRule:
    """One `[[cut]]` of a layer's file. `shared`: bytes of each shared array; one of them is lent to the body."""
    lend = table.choice("lend", tuple(shared))
    if "phase" in table:
        return _phase_cut(table, phases, lend, shared[lend])
    return _layer_cut(table, phases, numbers, lend, shared[lend])


def _phase(table: Table, phases: Sequence[PhaseRow], index: int) -> PhaseRow:
    if not 1 <= index <= len(phases):
        raise ContractError(f"{table.place}: phase {index} does not exist")
    return phases[index - 1]


def _phase_cut(table: Table, phases: Sequence[PhaseRow], lend: str, lent: int) -> CutRule:
    row = _phase(table, phases, table.number("phase"))
    body = table.table("body")
    rows = body.number("rows")
    if rows % 16 or not rows or row.shape[0] % rows:
        raise ContractError(f"{table.place}: {rows} rows per call do not divide the phase")
    tiles, columns = rows // 16, row.shape[1] // 8
    rule = CutRule(
        name=table.text("name"),
        reason=table.text("reason"),
        source=table.text("source"),
        phase=row.index,
        consumers=table.names("consumers", ("pack",), ()),
        loads=("weights",),
        stores=(),
        lend_array=lend,
        lend_bytes=lent,
        symbol=body.text("symbol"),
        body_file=body.text("file"),
        rows=rows,
        arguments=(
            Argument("a", 4 * tiles, "b32"),
            Argument("b", 2 * columns, "b32"),
            Argument("scratch", 1, "b32"),
        ),
        result=ResultImage("b32", 4, 8 * columns * LANES, 4 * columns * LANES, 4 * LANES, _image_bytes(rows, columns)),
    )
    body.close()
    return rule


def _image_bytes(rows: int, columns: int) -> int:
    """Lane-major image: word (m, half, n) of lane l at 4l + 128*(2*columns*m + columns*half + n)."""
    return 4 * LANES * 2 * columns * (rows // 16)


def _layer_cut(table: Table, phases: Sequence[PhaseRow], numbers: LayerNumbers, lend: str, lent: int) -> LayerCutRule:
    first, last = (_phase(table, phases, index) for index in table.pair("phases"))
    if first.index >= last.index:
        raise ContractError(f"{table.place}: phases {first.index} to {last.index}")
    stores = tuple(_stores(phases, numbers, first.index, last.index))
    rows, columns, _ = last.shape
    bodies = tuple(BodyChoice(b.text("name"), b.text("symbol"), b.text("file")) for b in table.tables("bodies"))
    if not bodies:
        raise ContractError(f"{table.place}: no bodies")
    return LayerCutRule(
        name=table.text("name"),
        reason=table.text("reason"),
        source=table.text("source"),
        first=first.index,
        last=last.index,
        loads=("weights",),
        stores=stores,
        lend_array=lend,
        lend_bytes=lent,
        bodies=bodies,
        arguments=tuple(_arguments(first, stores)),
        # f16[rows][columns] by token: word (m, half, n) at 16m + 8half + (l >> 2) rows, 8n + 2(l & 3) columns [D 25].
        result=TokenImage("b32", 2 * columns, 4, 32 * columns, 16 * columns, 16, 2 * rows * columns),
    )


def _stores(phases: Sequence[PhaseRow], numbers: LayerNumbers, first: int, last: int) -> Iterator[StoreRule]:
    """The last branch goes to the planes, the merge to the merged planes."""
    outputs = len(phases) - bool(numbers.merge) - bool(numbers.logits)
    if first <= outputs <= last:
        yield StoreRule("plane_arena", outputs, "planes", numbers.slices)
    if numbers.merge and first <= outputs + 1 <= last:
        yield StoreRule("merged_planes", outputs + 1, "merged planes", numbers.merge // 32)


def _arguments(first: PhaseRow, stores: Sequence[StoreRule]) -> Iterator[Argument]:
    """a[4m + i]: register i of m-tile m of the first phase. c[n]: its seeds of n-tile n, the same for every row."""
    yield Argument("a", first.shape[0] // 4, "b32")
    if isinstance(first.c, Columns):
        yield Argument("c", first.shape[1] // 8, "b32")
    for buffer in ("weights", *(store.buffer for store in stores)):
        yield Argument("buffer", 1, "b64", buffer)
    yield Argument("extents", 2, "b32")
    yield Argument("origin", 2, "b32")
    yield Argument("scratch", 1, "b32")
