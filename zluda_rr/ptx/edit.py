"""Edits that touch only the lines they change. An edit makes new text and parses it, so its result is always well
formed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from .nodes import Block, BodyItem, Function, Instruction, Label, Module, Opaque
from .parser import parse
from .printer import block_pieces, print_module
from .scan import blank_comments


def edit_function(
    module: Module,
    function_name: str,
    *,
    delete: Collection[int] = (),
    insert_before: Mapping[int, str] | None = None,
    insert_after: Mapping[int, str] | None = None,
    at_start: str = "",
    in_front: str = "",
) -> Module:
    """A new module in which statements of one function are deleted and PTX lines inserted.

    Numbers are those of `linearise`. `at_start` goes right after the body's `{` (register declarations), `in_front`
    (declarations) on lines of their own before the function. A deletion takes the whole line where nothing else is on
    it, a scoped block whose statements all go, and the inline-asm markers around it. An insertion before the first
    (after the last) statement of a scoped block is placed outside that block, so that the statements after it see what
    it declares. Insertions at deleted statements stay. Raises KeyError for an unknown function or statement, PtxError
    for an insertion that is not PTX.
    """
    before, after = insert_before or {}, insert_after or {}
    text = print_module(module)
    layout = _layout(module, function_name)
    missing = {*delete, *before, *after} - layout.statements.keys()
    if missing:
        raise KeyError(f"{function_name} has no statement s{min(missing)}")
    insertions = [(layout.anchor_before(text, n), 2 * n, lines) for n, lines in before.items()]
    insertions += [(layout.anchor_after(text, n), 2 * n + 1, lines) for n, lines in after.items()]
    if at_start:
        insertions.append((_line_end(text, layout.open + 1), 0, at_start))
    if in_front:
        insertions.append((_line_start(text, layout.header), 0, in_front))
    edited = _apply(text, _deletions(text, layout, set(delete)), sorted(insertions))
    return _understood(parse(edited, filename=module.filename), function_name, len(module.opaque))


def add_module_item(module: Module, text: str, *, before: str | None = None) -> Module:
    """A new module with `text` (a declaration) on its own lines before function `before`, or before the first
    function."""
    offset = 0
    source = print_module(module)
    for item in module.items:
        offset += len(item.trivia)
        if isinstance(item, Function):
            if before in (None, item.name):
                edited = _apply(source, [], [(_line_start(source, offset), 0, text)])
                return _understood(parse(edited, filename=module.filename), item.name, len(module.opaque))
            if item.body is not None:
                offset += sum(map(len, block_pieces(item.body)))
        offset += len(item.text)
    raise KeyError(f"no function {before}" if before else "no function in the module")


def replace_statements(
    module: Module, function_name: str, texts: Mapping[int, str], *, at_start: str = "", in_front: str = ""
) -> Module:
    """A new module in which statements of one function have other texts, in the same places and scopes.

    Numbers are those of `linearise`. `at_start` goes right after the body's `{`, `in_front` (declarations) on lines of
    their own in front of the module's first function. Raises KeyError and PtxError as `edit_function` does.
    """
    source = print_module(module)
    layout = _layout(module, function_name)
    pieces: list[tuple[int, int, str]] = []
    for number, text in texts.items():
        if number not in layout.statements:
            raise KeyError(f"{function_name} has no statement s{number}")
        pieces.append((*layout.statements[number], text))
    if at_start:
        pieces.append((layout.open + 1, layout.open + 1, f"\n{at_start}\n"))
    if in_front:
        at = _line_start(source, _first_function(module))
        lead = "" if at == 0 or source[at - 1] == "\n" else "\n"
        pieces.append((at, at, lead + in_front))
    out, at = [], 0
    for begin, end, text in sorted(pieces):
        out += [source[at:begin], text]
        at = end
    return parse("".join((*out, source[at:])), filename=module.filename)


def _first_function(module: Module) -> int:
    """Offset of the first function's own text."""
    offset = 0
    for item in module.items:
        offset += len(item.trivia)
        if isinstance(item, Function):
            return offset
        offset += len(item.text)
    raise KeyError("no function in the module")


def change_instructions(module: Module, change: Callable[[Instruction], str | None]) -> Module:
    """A new module in which `change` gives instructions other texts (None: as it is); the same object for none."""
    source = print_module(module)
    out: list[str] = []
    at = 0
    for begin, instruction in _instructions(module):
        text = change(instruction)
        if text is not None:
            out += [source[at:begin], text]
            at = begin + len(instruction.text)
    return parse("".join((*out, source[at:])), filename=module.filename) if out else module


def _instructions(module: Module) -> Iterator[tuple[int, Instruction]]:
    """Every instruction with the offset of its text."""
    offset = 0
    for item in module.items:
        offset += len(item.trivia) + len(item.text)
        if isinstance(item, Function) and item.body is not None:
            layout = _Layout(open=offset + len(item.body.trivia))
            layout.place(item.body, offset)
            yield from layout.instructions
            offset += sum(map(len, block_pieces(item.body)))


def define_functions(module: Module, bodies: Mapping[str, str]) -> Module:
    """A new module with texts in place of the first declarations of functions; later ones of the same go."""
    out: list[str] = []
    seen: set[str] = set()
    for item in module.items:
        if isinstance(item, Function) and item.body is None and item.name in bodies:
            out.append(item.trivia + ("" if item.name in seen else bodies[item.name]))
            seen.add(item.name)
            continue
        out += [item.trivia, item.text]
        if isinstance(item, Function) and item.body is not None:
            out += block_pieces(item.body)
    return parse("".join((*out, module.closing)), filename=module.filename)


def add_parameter(module: Module, entry: str, text: str) -> Module:
    """A new module in which an entry has one more parameter, its last. KeyError for an unknown entry."""
    source = print_module(module)
    layout = _layout(module, entry)
    function = module.function(entry)
    assert function is not None
    at = layout.header + _list_end(function)
    last = f",\n\t{text}" if function.params else f"\n\t{text}"
    if "(" not in blank_comments(function.text):
        last = f" ({last})"
    return parse(source[:at] + last + source[at:], filename=module.filename)


def _list_end(entry: Function) -> int:
    """Offset in an entry's header behind its last parameter; behind its name where there is no list."""
    header = blank_comments(entry.text)
    at = header.find("(")
    if at < 0:
        start = header.index(".entry") + len(".entry")
        return header.index(entry.name, start) + len(entry.name)
    depth = 0
    for position in range(at, len(header)):
        depth += {"(": 1, ")": -1}.get(header[position], 0)
        if depth == 0:
            return len(header[:position].rstrip())
    raise AssertionError("a parsed header closes its parameter list")


def _understood(edited: Module, function_name: str, opaque_before: int) -> Module:
    """The result of an edit; PtxError where it brought in something opaque."""
    function = edited.function(function_name)
    inside = function.body.walk() if function is not None and function.body is not None else ()
    opaque = next((item for item in inside if isinstance(item, Opaque)), None)
    if opaque is None and len(edited.opaque) > opaque_before:
        opaque = edited.opaque[-1]
    if opaque is not None:
        raise opaque.error(edited.filename)
    return edited


# --------------------------------------------------------------------------------------------------------------- layout


@dataclass(slots=True)
class _Scope:
    """A block: offsets of its braces, and the numbers of its first and last statement (last < first: none)."""

    open: int
    close: int
    first: int
    last: int


@dataclass(slots=True)
class _Layout:
    """Where a function's statements and scoped blocks are in the module's text; scopes are in order of their `{`."""

    open: int = 0
    header: int = 0
    """Where the function's own text begins."""
    statements: dict[int, tuple[int, int]] = field(default_factory=dict)
    scopes: list[_Scope] = field(default_factory=list)
    instructions: list[tuple[int, Instruction]] = field(default_factory=list)

    def place(self, body: Block, offset: int) -> None:
        """Enter a function's body, whose trivia begins at `offset`."""
        opened: list[tuple[Block, Iterator[BodyItem], _Scope]] = []

        def enter(block: Block) -> int:
            scope = _Scope(offset + len(block.trivia), 0, len(self.statements) + 1, 0)
            self.scopes.append(scope)
            opened.append((block, iter(block.items), scope))
            return scope.open + 1

        offset = enter(body)
        while opened:
            block, items, scope = opened[-1]
            for item in items:
                if isinstance(item, Block):
                    offset = enter(item)
                    break
                start = offset + len(item.trivia)
                offset = start + len(item.text)
                if isinstance(item, Instruction | Label):
                    self.statements[len(self.statements) + 1] = (start, offset)
                if isinstance(item, Instruction):
                    self.instructions.append((start, item))
            else:
                opened.pop()
                scope.close = offset + len(block.closing)
                scope.last = len(self.statements)
                offset = scope.close + 1

    def anchor_before(self, text: str, number: int) -> int:
        at = self.statements[number][0]
        for scope in self.scopes[1:]:
            if scope.first == number and scope.last >= number:
                at = scope.open
                break
        marker = _BEGIN.search(text, max(0, at - 200), at)
        return marker.start() if marker else _line_start(text, at)

    def anchor_after(self, text: str, number: int) -> int:
        at = self.statements[number][1]
        for scope in self.scopes[1:]:
            if scope.last == number and scope.first <= number:
                at = scope.close + 1
                break
        marker = _END.match(text, at)
        return marker.end() if marker else _line_end(text, at)


def _layout(module: Module, function_name: str) -> _Layout:
    offset = 0
    for item in module.items:
        header = offset + len(item.trivia)
        offset = header + len(item.text)
        if not isinstance(item, Function) or item.body is None:
            continue
        if item.name == function_name:
            layout = _Layout(open=offset + len(item.body.trivia), header=header)
            layout.place(item.body, offset)
            return layout
        offset += sum(map(len, block_pieces(item.body)))
    raise KeyError(f"no function {function_name} with a body")


# -------------------------------------------------------------------------------------------------------------- changes

_BEGIN = re.compile(r"[ \t]*// begin inline asm[ \t]*\r?\n[ \t\r\n]*\Z")
_END = re.compile(r"[ \t\r\n]*// end inline asm[ \t]*(?:\r?\n)?")
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\n]*)?(?:\n|\r\n|\Z)")
_BLANK_LINE_END = re.compile(r"[ \t]*(?:\r?\n|\Z)")


def _line_start(text: str, at: int) -> int:
    """Start of the line when only blanks stand before `at`, else `at`."""
    start = text.rfind("\n", 0, at) + 1
    return start if text[start:at].strip(" \t") == "" else at


def _line_end(text: str, at: int) -> int:
    """Start of the next line when only blanks or a comment follow, else `at`."""
    found = _REST_OF_LINE.match(text, at)
    return found.end() if found else at


def _deletions(text: str, layout: _Layout, numbers: set[int]) -> list[tuple[int, int]]:
    """Ranges of text to leave out, ascending and apart from one another."""
    ranges = [layout.statements[number] for number in numbers]
    for scope in layout.scopes[1:]:
        if scope.first <= scope.last and all(n in numbers for n in range(scope.first, scope.last + 1)):
            ranges.append((scope.open, scope.close + 1))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and (start <= merged[-1][1] or not text[merged[-1][1] : start].strip()):
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return [_widen(text, start, end) for start, end in merged]


def _widen(text: str, start: int, end: int) -> tuple[int, int]:
    """Take the inline-asm markers along, or else the whole line."""
    begin = _BEGIN.search(text, max(0, start - 200), start)
    finish = _END.match(text, end)
    if begin and finish:
        return begin.start(), finish.end()
    line = _line_start(text, start)
    rest = _BLANK_LINE_END.match(text, end)
    at_line_start = line == 0 or text[line - 1] == "\n"
    return (line, rest.end()) if rest and at_line_start else (start, end)


def _apply(text: str, deletions: list[tuple[int, int]], insertions: list[tuple[int, int, str]]) -> str:
    """Text without the deleted ranges, with each insertion on lines of its own (in the text's own line ends)."""
    newline = "\r\n" if "\r\n" in text else "\n"
    pieces: list[str] = []
    kept_until = 0
    pending = list(deletions)

    def keep(until: int) -> None:
        nonlocal kept_until
        while pending and pending[0][0] <= until:
            start, end = pending[0]
            pieces.append(text[kept_until : max(start, kept_until)])
            kept_until = max(kept_until, min(end, until))
            if end > until:
                return
            pending.pop(0)
        pieces.append(text[kept_until:until])
        kept_until = max(kept_until, until)

    for at, _, lines in insertions:
        keep(at)
        if not _ends_line(pieces):
            pieces.append(newline)
        own = lines if lines.endswith("\n") else lines + "\n"
        pieces.append(own.replace("\r\n", "\n").replace("\n", newline))
    keep(len(text))
    return "".join(pieces)


def _ends_line(pieces: list[str]) -> bool:
    for piece in reversed(pieces):
        if piece:
            return piece.endswith("\n")
    return True
