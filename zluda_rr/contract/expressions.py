"""Integer expressions of rule files: + - *, `/` (exact or floor), ceil(a / b), names and numbers."""

from __future__ import annotations

import ast
from collections.abc import Mapping


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """Value of an expression such as `ceil((ex + sx) / 8)`. ValueError for anything else, KeyError for an unknown
    name.
    """
    return _value(ast.parse(text, mode="eval").body, names)


def _value(node: ast.expr, names: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, names), _value(node.right, names)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div):
            return left // right
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "ceil"
        and len(node.args) == 1
    ):
        quotient = node.args[0]
        if isinstance(quotient, ast.BinOp) and isinstance(quotient.op, ast.Div):
            return -(-_value(quotient.left, names) // _value(quotient.right, names))
    raise ValueError(f"not an integer expression: {ast.unparse(node)}")
