"""A contract as text: what `zluda-rr rules show` prints."""

from __future__ import annotations

from collections.abc import Iterator

from .model import LayerContract, LayerCutRule


def show_contract(contract: LayerContract) -> str:
    """Every field and every phase of a layer, expanded."""
    return "\n".join(_lines(contract)) + "\n"


def _lines(contract: LayerContract) -> Iterator[str]:
    launch = contract.launch
    yield f"layer {contract.layer}, family {contract.family}: {contract.entry}"
    yield f"  parameters {contract.parameter_bytes} bytes, weights at +{contract.weights_parameter}"
    block = "x".join(map(str, launch.block))
    low, high = launch.extents_range
    tile = "x".join(map(str, launch.tile))
    yield f"  launch: block {block}, tile {tile}, extents +{launch.extents_offset} in {low}..{high},"
    shift = "..".join(map(str, launch.shift_range))
    yield f"    shift +{launch.shift_offset} in {shift}, even: {', '.join(launch.even)}"
    yield "phases: number, MxNxK, mma, A, B, C"
    for row in contract.phases:
        shape = "x".join(map(str, row.shape))
        yield f"  {row.index:2}  {shape:10} {row.mma:3}  {row.a!s:34} {row.b!s:22} {row.c}"
    yield f"weight image: {contract.weights_bytes} bytes"
    for region in contract.weights:
        bounded = ", bounded" if region.bounded else ""
        yield f"  {region.offset:6} {region.nbytes:6}  {region.name} ({region.kind}{bounded})"
    yield "buffers and surfaces"
    for buffer in contract.buffers:
        yield f"  +{buffer.offset:<4} {buffer.name} ({buffer.role}): {buffer.expression} bytes"
    for surface in contract.surfaces:
        size = f"{surface.width} x {surface.height}, {surface.channels} x {surface.channel_type}"
        yield f"  +{surface.offset:<4} {surface.name} ({surface.role}): {size}"
    for array in contract.shared:
        yield f"  shared {array.name}: {array.nbytes} bytes"
    for cut in contract.cuts:
        yield f"cut {cut.name}: {cut.replaces}, lends {cut.lend_bytes} bytes of {cut.lend_array}"
        bodies = [b.symbol for b in cut.bodies] if isinstance(cut, LayerCutRule) else [cut.symbol]
        arguments = ", ".join(f"{a.count} {a.buffer or a.role}" for a in cut.arguments)
        yield f"  bodies: {', '.join(bodies)}; arguments: {arguments}"
        for store in cut.stores if isinstance(cut, LayerCutRule) else ():
            yield f"  stores: D{store.phase} to {store.buffer}, {store.layout}"
