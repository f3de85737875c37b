"""Syntax tree to text."""

from __future__ import annotations

from collections.abc import Iterator

from .nodes import Block, Function, Module


def print_module(module: Module) -> str:
    """The module's exact text: what was parsed, byte for byte."""
    return "".join(_module_pieces(module))


def _module_pieces(module: Module) -> Iterator[str]:
    for item in module.items:
        yield item.trivia
        yield item.text
        if isinstance(item, Function) and item.body is not None:
            yield from block_pieces(item.body)
    yield module.closing


def block_pieces(block: Block) -> Iterator[str]:
    """The pieces of a block, its leading trivia included."""
    opened = [(block, iter(block.items))]
    yield block.trivia
    yield "{"
    while opened:
        current, items = opened[-1]
        for item in items:
            yield item.trivia
            if isinstance(item, Block):
                yield "{"
                opened.append((item, iter(item.items)))
                break
            yield item.text
        else:
            opened.pop()
            yield current.closing
            yield "}"
