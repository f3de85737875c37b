"""What an operand word is, by the operations on the way to it."""

from __future__ import annotations

from . import origins as op
from .origins import Summary


def kind_of(info: Summary) -> str:
    """What a word is, by everything that happens on the way from the accumulators to it; mixed conversions have no
    name.
    """
    direct, plain = info.direct_ops, op.E4M3
    if info.ops & op.OTHER:
        return "unknown operations"
    if info.ops & op.RSQRT:
        return "norm" if direct == op.MULTIPLY | plain else "unknown operations"
    if info.ops & op.RECIPROCAL:
        return (
            "softmax" if direct & plain and not direct & (op.RELU | op.SHUFFLE | op.TRANSPOSE) else "unknown operations"
        )
    named = {plain: "pack", op.RELU: "relu-pack", plain | op.TRANSPOSE: "transpose"}
    if direct in named:
        return named[direct]
    if direct & op.SHUFFLE:
        return (
            "merge"
            if direct & plain and not direct & ~(plain | op.SHUFFLE | op.SELECT | op.BITS)
            else "unknown operations"
        )
    elementwise = op.MULTIPLY | op.ADD | op.CLAMP
    return "activation" if direct & plain and not direct & ~(plain | elementwise) else "unknown operations"
