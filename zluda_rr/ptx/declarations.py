"""Declarations, directives and function headers: from grammar tree to node fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Literal

from lark import Token, Tree

from .constants import DeclarationError, integer
from .grammar import ChunkTree
from .nodes import Function, Param, RegDecl, Span, VarDecl, type_bytes


def register_declaration(tree: ChunkTree, trivia: str, text: str, span: Span) -> RegDecl:
    """`.reg .b32 %r<92>, x;`"""
    names: list[str] = []
    ranges: list[tuple[str, int]] = []
    for item in tree.find_data("register_name"):
        words = [str(word) for word in item.children]
        if len(words) == 2:
            ranges.append((words[0], integer(words[1])))
        else:
            names.append(words[0])
    lanes = next((int(str(t)[2:]) for t in _tokens(tree, "VECTOR")), 1)
    return RegDecl(trivia, text, span, _type(tree), tuple(names[::-1]), tuple(ranges[::-1]), lanes)


def variable_declarations(
    tree: ChunkTree, trivia: str, text: str, span: Span, initialisers: Mapping[int, int]
) -> Iterator[VarDecl]:
    """One node for each name; of `.shared .b32 a, b;` the second node's text is `b;` and its trivia the space
    before. `initialisers`: offset of a `=` -> end of what follows it."""
    linkage = tuple(str(t.children[0])[1:] for t in _trees(tree, "linkage"))
    space = next(str(t)[1:] for t in _tokens(tree, "SPACE"))
    align = next((integer(str(t.children[0])) for t in _trees(tree, "align")), None)
    _check_size(tree)
    commas = [t.start_pos or 0 for t in _tokens(tree, "COMMA")]
    starts = [0, *(c + 1 for c in commas)]
    ends = [*starts[1:], len(text)]
    for start, end, declarator in zip(starts, ends, _trees(tree, "declarator"), strict=True):
        part = text[start:end]
        own = part.lstrip()
        lead = trivia if start == 0 else part[: len(part) - len(own)]
        name, init = str(declarator.children[0]), _init(declarator, text, initialisers)
        count = _count(declarator)
        count = None if count is None else count * _vector(tree)
        yield VarDecl(lead, own, span, space, _type(tree), align, name, count, init, linkage)


def function_header(tree: ChunkTree, trivia: str, text: str, span: Span) -> Function:
    """The function without its body."""
    linkage = tuple(str(t.children[0])[1:] for t in _trees(tree, "linkage"))
    kind: Literal["entry", "func"] = "entry" if next(_tokens(tree, "FUNCTION_KIND")) == ".entry" else "func"
    name = str(next(t for t in tree.children if isinstance(t, Token) and t.type in ("NAME", "REGISTER")))
    directives = tuple(
        (str(d.children[0])[1:], tuple(integer(str(n)) for n in d.children[1:]))
        for d in _trees(tree, "header_directive")
    )
    params, returns = _params(tree, "params"), _params(tree, "returns")
    return Function(trivia, text, span, kind, name, linkage, params, returns, directives, None)


def _params(tree: ChunkTree, which: str) -> tuple[Param, ...]:
    return tuple(_param(param) for group in _trees(tree, which) for param in _trees(group, "param"))


def _param(tree: ChunkTree) -> Param:
    name = str(next(t for t in tree.children if isinstance(t, Token) and t.type in ("NAME", "REGISTER")))
    aligned = [*_trees(tree, "align"), *_trees(tree, "pointer_align")]
    align = integer(str(aligned[0].children[0])) if aligned else None
    space = next(str(t)[1:] for t in _tokens(tree, "PARAM_SPACE"))
    if space != "reg":
        _check_size(tree)
    return Param(name, _type(tree), align, (_count(tree) or 0) * _vector(tree), space)


def _init(tree: ChunkTree, text: str, initialisers: Mapping[int, int]) -> str | None:
    """Exact text of the initialiser after its `=`."""
    start = next((t.start_pos or 0 for t in _tokens(tree, "EQUALS")), None)
    return None if start is None else text[start + 1 : initialisers[start]].strip()


def _count(tree: ChunkTree) -> int | None:
    """Elements over all dimensions, 1 without any, None when one is open."""
    dimensions = [d.children for d in _trees(tree, "dimension")]
    if not all(dimensions):
        return None
    return prod(integer(str(d[0])) for d in dimensions)


def _vector(tree: ChunkTree) -> int:
    return next((int(str(t.children[0])[2:]) for t in _trees(tree, "vector_type")), 1)


def _type(tree: ChunkTree) -> str:
    return next(str(t)[1:] for t in _tokens(tree, "TYPE"))


def _check_size(tree: ChunkTree) -> None:
    """Raises DeclarationError for what cannot lie in memory: a predicate."""
    try:
        type_bytes(_type(tree))
    except KeyError:
        raise DeclarationError(f"a .{_type(tree)} has no size") from None


def _trees(tree: ChunkTree, data: str) -> Iterator[ChunkTree]:
    return (child for child in tree.children if isinstance(child, Tree) and child.data == data)


def _tokens(tree: ChunkTree, kind: str) -> Iterator[Token]:
    return (child for child in tree.children if isinstance(child, Token) and child.type == kind)
