"""Edits that touch only the lines they change."""

from collections.abc import Collection, Mapping

from .nodes import Module


def edit_function(
    module: Module,
    function_name: str,
    *,
    delete: Collection[int] = (),
    insert_before: Mapping[int, str] | None = None,
    insert_after: Mapping[int, str] | None = None,
    at_start: str = "",
) -> Module:
    """A new module in which statements of one function are deleted and PTX lines inserted.

    Numbers are those of `linearise`. `at_start` goes right after the body's `{` (register declarations). The result is
    parsed again, so a bad insertion raises PtxError. An insertion before the first (after the last) statement of a scoped
    block is placed outside that block, where it is visible to the statements that follow.
    """
    raise NotImplementedError


def add_module_item(module: Module, text: str, *, before: str | None = None) -> Module:
    """A new module with `text` (a declaration) before function `before`, or before the first function."""
    raise NotImplementedError
