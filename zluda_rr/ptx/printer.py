"""Syntax tree to text."""

from .nodes import Module


def print_module(module: Module) -> str:
    """The module's exact text."""
    raise NotImplementedError
