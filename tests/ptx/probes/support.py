"""What the tests of the probes share."""

from __future__ import annotations

from collections.abc import Iterator

from zluda_rr.ptx import Block, BodyItem, Module, Opaque


def opaque(module: Module) -> list[Opaque]:
    """Every opaque node of a module."""
    inside = (item for function in module.functions if function.body for item in items(function.body))
    return [*module.opaque, *(item for item in inside if isinstance(item, Opaque))]


def items(block: Block) -> Iterator[BodyItem]:
    """Everything in a block, inner blocks' items too."""
    pending = [block]
    while pending:
        for item in pending.pop().items:
            yield item
            if isinstance(item, Block):
                pending.append(item)
