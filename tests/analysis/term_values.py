"""What a term is worth, lane by lane: the meaning against which normal forms are tested. Shares no code with them."""

from __future__ import annotations

from collections.abc import Mapping

from zluda_rr.analysis import Term, Terms

Lanes = list[int]


def value(terms: Terms, term: Term, leaves: Mapping[Term, Lanes], bits: int) -> Lanes:
    """Numbers of a term of `bits` bits in 32 lanes, from those of its leaves."""
    if term in leaves:
        return [v & (1 << bits) - 1 for v in leaves[term]]
    operation, *operands = terms.table[term]
    mask = (1 << bits) - 1

    def of(operand: object, width: int) -> Lanes:
        assert isinstance(operand, Term)
        return value(terms, operand, leaves, width)

    match operation:
        case "poly":
            total = [0] * 32
            for monomial, lanes in terms.poly(term).items():
                product = list(lanes)
                for factor in monomial:
                    product = [p * f for p, f in zip(product, of(factor, bits), strict=True)]
                total = [t + p for t, p in zip(total, product, strict=True)]
            return [t & mask for t in total]
        case "pair":
            return [low | high << 16 for low, high in zip(of(operands[0], 16), of(operands[1], 16), strict=True)]
        case "half":
            return [v >> 16 * int(str(operands[0])) & 0xFFFF for v in of(operands[1], 32)]
        case "select":
            rows = zip(of(operands[0], bits), of(operands[1], bits), of(operands[2], 1), strict=True)
            return [yes if condition else no for yes, no, condition in rows]
        case "sext" | "zext":
            source = int(str(operands[0]))
            found = of(operands[2], source)
            if operation == "sext":
                found = [v - (1 << source) if v >> source - 1 else v for v in found]
            return [v & mask for v in found]
        case "gather":
            inner = of(operands[1], bits)
            assert isinstance(operands[0], tuple)
            return [inner[s] for s in operands[0]]
        case "neg.f16":
            return [v ^ 0x8000 for v in of(operands[0], 16)]
        case "abs.f16":
            return [v & 0x7FFF for v in of(operands[0], 16)]
        case "not":
            return [1 - v for v in of(operands[0], 1)]
        case "any":
            return [int(any(row)) for row in zip(*(of(o, 1) for o in operands), strict=True)]
        case "==":
            width = int(str(operands[2]))
            return [int(a == b) for a, b in zip(of(operands[0], width), of(operands[1], width), strict=True)]
        case "<":
            width = int(str(operands[1]))
            signed = operands[0] == "signed"
            a, b = ([_signed(v, width) if signed else v for v in of(o, width)] for o in operands[2:])
            return [int(x < y) for x, y in zip(a, b, strict=True)]
    return _bitwise(str(operation), of(operands[0], bits), of(operands[1], _second(str(operation), bits)), bits)


def _second(operation: str, bits: int) -> int:
    return 32 if operation.startswith("sh") else bits


def _bitwise(operation: str, a: Lanes, b: Lanes, bits: int) -> Lanes:
    name, _, kind = operation.partition(".")
    mask = (1 << bits) - 1
    rows = list(zip(a, b, strict=True))
    if name in ("and", "or", "xor"):
        return [{"and": x & y, "or": x | y, "xor": x ^ y}[name] for x, y in rows]
    if name == "shl":
        return [x << min(y, bits) & mask for x, y in rows]
    assert name == "shr", operation
    return [(_signed(x, bits) if kind.startswith("s") else x) >> min(y, bits) & mask for x, y in rows]


def _signed(v: int, bits: int) -> int:
    return v - (1 << bits) if v >> bits - 1 else v
