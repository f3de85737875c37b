"""Parts of conditions exchanged for equal ones."""

from __future__ import annotations

from collections.abc import Mapping

from .terms import Term, Terms


def replaced(terms: Terms, term: Term, same: Mapping[Term, Term]) -> Term:
    """A condition or an integer with unknowns of its sums exchanged; what has no rule here stays as it is."""
    operation, *operands = terms.table[term]
    inner = [operand for operand in operands if isinstance(operand, Term)]
    match operation:
        case "not":
            return terms.negation(replaced(terms, inner[0], same))
        case "any":
            return terms.disjunction(replaced(terms, part, same) for part in inner)
        case "<" | "==":
            a, b = (terms.rebuilt(side, same.get) for side in inner)
            bits = next(operand for operand in operands if type(operand) is int)
            relation, kind = ("eq", "u") if operation == "==" else ("lt", str(operands[0])[0])
            return terms.compare(relation, f"{kind}{bits}", a, b, bits)
    return terms.rebuilt(term, same.get)
