"""What an expression computes, in the layers' terms: activation, softmax, norm, residual, stencil.

Each formula is written once as the expression it must be; a value is recognised when it is that very node (or, for
sums over a row, a tree of the right leaves). All arithmetic is f16 unless said otherwise; constants are f16 bits.
Sources: seed 001 E5 (softmax), E14 (norm), E15 (activation), E32 (stencil), with the corrections of the layers'
details (nine logits and nine taps, gain multiplied into the inverse first).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from .expressions import Expressions
from .operands import Cell

# Clamped cubic activation: x * (0.5 + y * (0.412109375 - 0.0810546875 * |y|)), y = clamp(x, -2, 2).
_SLOPE, _CURVE, _HALF, _LIMIT = 0x3698, 0x2D30, 0x3800, 0x4000
# Exponent of the softmax: m = clamp(x * 0.0171814, +-0.556152), u = 1.375 + m * (0.927246 - m * m), bits(u) << 5.
_SCALE, _BOUND, _LINEAR, _OFFSET, _MANTISSA = 0x2466, 0x3873, 0x3B6B, 0x3D80, 0x7FE0
_EPSILON = 0x0800  # 2**-13
_LOG2E, _MINUS_LOG2E, _ONE = 0x3FB8AA3B, 0xBFB8AA3B, 0x3F800000
_QUARTER = 0x3400
_MOST_TERMS = 512
_DEEPEST = 64  # selects and shuffles behind one another; a gather has six


class Meaning(NamedTuple):
    """What a value is.

    `cell` and `column` (half of the f16x2 pair) where it belongs to one accumulator; `words` are the loaded words
    behind a table or a gain; `terms` counts those of a sum.
    """

    kind: str
    phase: int = 0
    cell: Cell | None = None
    column: int = 0
    words: tuple[int, ...] = ()
    terms: int = 0


_UNKNOWN = Meaning("unknown")


class Formulas:
    """Meanings of nodes.

    `cells` says which accumulator an mma result is, by (statement, word); `joined_phase` which phase a value comes from
    that control flow has joined, by register and definitions (0: none, or several).
    """

    def __init__(
        self,
        expressions: Expressions,
        cells: Mapping[tuple[int, int], Cell],
        n_tiles: Mapping[int, int],
        joined_phase: Callable[[str, tuple[int, ...]], int],
    ) -> None:
        self._e = expressions
        self._cells = cells
        self._n_tiles = n_tiles
        self._joined_phase = joined_phase
        self._memo: dict[int, Meaning] = {}
        self._gathers: dict[int, int] = {}

    def of(self, node: int) -> Meaning:
        """The meaning of an f16 value, kind "unknown" where it is none of the formulas."""
        known = self._memo.get(node)
        if known is None:
            self._memo[node] = _UNKNOWN  # a value that depends on itself
            known = self._memo[node] = self._recognise(node)
        return known

    def _recognise(self, node: int) -> Meaning:
        e = self._e
        operator, *rest = e.nodes[node]
        if operator == "f16":
            return Meaning("constant")
        if operator == "decode":
            return Meaning("input", words=(int(rest[0]),))
        if operator == "half":
            return self._half(int(rest[0]), int(rest[1]))
        if operator in ("word", "opaque", "select", "shfl"):
            return self._leaf(node, 0)
        if operator == "mul":
            return self._product(node, *e.operands(node))
        if operator == "and":
            return self._exponent(node, int(rest[0]))
        if operator == "add":
            return self._sum(*e.operands(node))
        if operator == "sub":
            return self._difference(*e.operands(node))
        if operator == "fma":
            return self._stencil(node)
        if operator == "round":
            return self._gate(int(rest[0]))
        return _UNKNOWN

    def _half(self, whole: int, half: int) -> Meaning:
        operator, *rest = self._e.nodes[whole]
        if operator == "trans":
            inner = self._leaf(int(rest[0]), half)
            return inner._replace(kind="transpose") if inner.kind == "accumulator" else _UNKNOWN
        return self._leaf(whole, half)

    def _leaf(self, whole: int, half: int) -> Meaning:
        operator, *rest = self._e.nodes[whole]
        if operator == "acc":
            cell = self._cells.get((int(rest[0]), int(rest[1])))
            return Meaning("accumulator", cell.phase, cell, half) if cell is not None else _UNKNOWN
        if operator == "word":
            return Meaning("word", words=(whole,))
        phase = self._gathered(whole)
        return Meaning("gathered", phase) if phase else _UNKNOWN

    def _gathered(self, node: int, depth: int = 0) -> int:
        """The one phase whose accumulators lanes selected and exchanged to make a value; 0: it is not that."""
        if node not in self._gathers:
            self._gathers[node] = self._gathered_anew(node, depth) if depth <= _DEEPEST else 0
        return self._gathers[node]

    def _gathered_anew(self, node: int, depth: int) -> int:
        operator, *rest = self._e.nodes[node]
        if operator == "opaque":
            return self._joined_phase(str(rest[0]), rest[1])
        if operator == "acc":
            return self._leaf(node, 0).phase
        if operator == "select":
            phases = {self._gathered(int(side), depth + 1) for side in rest[:2]}
            return phases.pop() if len(phases) == 1 else 0
        return self._gathered(int(rest[-1]), depth + 1) if operator == "shfl" else 0

    # ------------------------------------------------------------------------------------------- elementwise formulas

    def activation(self, x: int) -> int:
        """The node of the activation of x."""
        make, constant = self._e.make, self._e.constant
        y = make("min", make("max", x, constant(_LIMIT | 0x8000)), constant(_LIMIT))
        slope = make("sub", constant(_SLOPE), make("mul", constant(_CURVE), make("abs", y)))
        return make("mul", x, make("add", constant(_HALF), make("mul", y, slope)))

    def exponent(self, x: int) -> int:
        """The node of the softmax exponent of x."""
        make, constant = self._e.make, self._e.constant
        scaled = make("mul", x, constant(_SCALE))
        m = make("min", make("max", scaled, constant(_BOUND | 0x8000)), constant(_BOUND))
        t = make("fma", m, make("neg", m), constant(_LINEAR))
        return make("and", make("shl", make("fma", m, t, constant(_OFFSET)), 5, 0), _MANTISSA)

    def _exponent(self, node: int, shifted: int) -> Meaning:
        leaves = self._accumulators_below(shifted)
        for leaf in leaves:
            meaning = self.of(leaf)
            if meaning.kind == "accumulator" and self.exponent(leaf) == node:
                return meaning._replace(kind="exponent")
        return _UNKNOWN

    def _accumulators_below(self, node: int, limit: int = 24) -> list[int]:
        """Accumulator halves that an elementwise expression is made of."""
        found: list[int] = []
        work: list[int] = [node]
        seen: set[int] = set()
        while work and len(seen) < limit:
            at = work.pop()
            if at in seen:
                continue
            seen.add(at)
            if self._e.operator(at) == "half":
                found.append(at)
            else:
                work.extend(self._e.operands(at))
        return found

    def _product(self, node: int, a: int, b: int) -> Meaning:
        for x, other in ((a, b), (b, a)):
            meaning = self.of(x)
            if meaning.kind == "accumulator" and self.activation(x) == node:
                return meaning._replace(kind="activation")
            if meaning.kind == "exponent":
                summed = self._inverse(other, "rcp.f32", None, "exponent")
                if summed is not None and summed[:3] == (meaning.phase, *self._row(meaning)):
                    return meaning._replace(kind="softmax", terms=summed[3])
            if meaning.kind in ("accumulator", "input"):
                gained = self._gained(other, meaning)
                if gained is not None:
                    return gained
        return self._light(a, b)

    @staticmethod
    def _row(meaning: Meaning) -> tuple[int, int]:
        assert meaning.cell is not None
        return meaning.cell.m, meaning.cell.half

    def _gained(self, node: int, x: Meaning) -> Meaning | None:
        """x * (1/norm * gain)."""
        if self._e.operator(node) != "mul":
            return None
        for inverse, gain in (self._e.operands(node), self._e.operands(node)[::-1]):
            words = self.of(gain)
            if words.kind != "word":
                continue
            summed = self._inverse(inverse, "rsqrt.f32", _EPSILON, "square")
            if summed is None:
                continue
            if x.kind == "input":
                return Meaning("input norm", words=words.words, terms=summed[3])
            if summed[:3] == (x.phase, *self._row(x)):
                return x._replace(kind="norm", words=words.words, terms=summed[3])
        return None

    # ------------------------------------------------------------------------------------------- sums over a row

    def _inverse(self, node: int, function: str, epsilon: int | None, of: str) -> tuple[int, int, int, int] | None:
        """(phase, m, half, terms) of the row whose sum is inverted: round(function(widen(sum [+ epsilon])))."""
        e = self._e
        for operator in ("round", function, "widen"):
            if e.operator(node) != operator:
                return None
            node = e.operands(node)[0]
        if epsilon is not None:
            parts = set(e.operands(node)) if e.operator(node) == "add" else set()
            if e.constant(epsilon) not in parts or len(parts) != 2:
                return None
            node = next(iter(parts - {e.constant(epsilon)}))
        return self._row_sum(node, of)

    def _row_sum(self, node: int, of: str) -> tuple[int, int, int, int] | None:
        """Sum over all columns of one row: in the lane, over the four lanes of the row, low + high half."""
        if self._e.operator(node) != "add":
            return None
        rows = set()
        terms = 0
        columns: set[int] = set()
        for part in self._e.operands(node):
            inside = self._butterflied(part)
            leaves = self._flatten(inside, "add") if inside is not None else []
            meanings = [self._term(leaf, of) for leaf in leaves]
            if not leaves or len(set(leaves)) != len(leaves) or any(m is None for m in meanings):
                return None
            found = [m for m in meanings if m is not None]
            terms += 4 * len(found)
            if len({m.kind for m in found}) != 1:
                return None
            if found[0].cell is None:
                rows.add((0, 0, 0))
                continue
            rows.update((m.phase, *self._row(m)) for m in found)
            columns.update(m.column for m in found)
            if {m.cell.n for m in found if m.cell is not None} != set(range(self._n_tiles.get(found[0].phase, 0))):
                return None
        return (*rows.pop(), terms) if len(rows) == 1 and (not columns or columns == {0, 1}) else None

    def _term(self, leaf: int, of: str) -> Meaning | None:
        if of == "exponent":
            meaning = self.of(leaf)
            return meaning if meaning.kind == "exponent" else None
        operands = self._e.operands(leaf)
        if self._e.operator(leaf) != "mul" or operands[0] != operands[1]:
            return None
        meaning = self.of(operands[0])
        return meaning if meaning.kind in ("accumulator", "input") else None

    def _butterflied(self, node: int) -> int | None:
        """What is summed over the four lanes of a row: x + x(lane ^ 1), then the same with lane ^ 2."""
        distances = set()
        for _ in range(2):
            if self._e.operator(node) != "add":
                return None
            for own, other in (self._e.operands(node), self._e.operands(node)[::-1]):
                moved = self._e.nodes[other]
                if moved[0] == "shfl" and moved[1] == "bfly" and moved[3] == own:
                    distances.add(moved[2])
                    node = own
                    break
            else:
                return None
        return node if distances == {1, 2} else None

    def _flatten(self, node: int, operator: str) -> list[int]:
        """Terms of a tree of one operator; none where there are too many for any row (a sum doubled and doubled)."""
        found: list[int] = []
        work = [node]
        while work:
            if len(found) + len(work) > _MOST_TERMS:
                return []
            at = work.pop()
            if self._e.operator(at) == operator:
                work.extend(self._e.operands(at))
            else:
                found.append(at)
        return found

    # ------------------------------------------------------------------------------------------- sums with a table

    def _sum(self, a: int, b: int) -> Meaning:
        first, second = self.of(a), self.of(b)
        for x, table in ((first, second), (second, first)):
            if table.kind == "word" and x.kind in ("accumulator", "input"):
                return x._replace(kind=f"{x.kind} plus table", words=table.words)
        return self._mean(a, b)

    # ------------------------------------------------------------------------------------------- the final epilogue

    def softmax_weight(self, node: int) -> tuple[Meaning, int] | None:
        """A weight of a true softmax, exp(x - max) / sum in f32 over logits that lanes have exchanged, and its x."""
        e = self._e
        if e.operator(node) != "mul":
            return None
        for one, inverse in (e.operands(node), e.operands(node)[::-1]):
            if e.operator(one) != "round" or e.operator(inverse) != "round":
                continue
            over = e.operands(inverse)[0]
            if e.operator(over) != "div.f32" or e.nodes[e.operands(over)[0]] != ("bits", _ONE):
                continue
            terms = self._flatten(e.operands(over)[1], "add.f32")
            if e.operands(one)[0] not in terms:
                continue
            logits = [self._shifted_logit(term) for term in terms]
            maxima = {logit[1] for logit in logits if logit is not None}
            values = {logit[0] for logit in logits if logit is not None}
            if None in logits or len(maxima) != 1 or set(self._flatten(maxima.pop(), "max")) != values:
                continue
            meanings = [self.of(value) for value in values]
            own = self._shifted_logit(e.operands(one)[0])
            if own is not None and {m.kind for m in meanings} == {"gathered"}:
                return Meaning("weight", meanings[0].phase, terms=len(values)), own[0]
        return None

    def _shifted_logit(self, node: int) -> tuple[int, int] | None:
        """(x, maximum) of ex2((x - maximum) * log2 e)."""
        e = self._e
        argument = self._scaled_exponent(node, _LOG2E)
        if argument is None or e.operator(argument) != "sub":
            return None
        x, maximum = e.operands(argument)
        return x, maximum

    def _scaled_exponent(self, node: int, factor: int) -> int | None:
        e = self._e
        if e.operator(node) != "ex2.f32" or e.operator(e.operands(node)[0]) != "mul.f32":
            return None
        a, b = e.operands(e.operands(node)[0])
        for wide, scale in ((a, b), (b, a)):
            if e.operator(wide) == "widen" and e.nodes[scale] == ("bits", factor):
                return e.operands(wide)[0]
        return None

    def _gate(self, node: int) -> Meaning:
        """f16 sigmoid in f32: 1 / (1 + ex2(-x * log2 e))."""
        e = self._e
        if e.operator(node) != "div.f32" or e.nodes[e.operands(node)[0]] != ("bits", _ONE):
            return _UNKNOWN
        for term in self._flatten(e.operands(node)[1], "add.f32"):
            x = self._scaled_exponent(term, _MINUS_LOG2E)
            if x is not None and self.of(x).kind == "gathered":
                return self.of(x)._replace(kind="gate")
        return _UNKNOWN

    def _stencil(self, node: int) -> Meaning:
        """Taps times softmax weights, added up: fma over pairs, the two halves added, one more tap."""
        taps: list[tuple[int, int]] = []
        work = [node]
        phase = count = 0
        while work:
            if len(taps) + len(work) > _MOST_TERMS:
                return _UNKNOWN
            at = work.pop()
            operator = self._e.operator(at)
            if operator == "add":
                work.extend(self._e.operands(at))
            elif operator == "fma":
                a, b, rest = self._e.operands(at)
                weight = self.softmax_weight(a) or self.softmax_weight(b)
                tap = b if self.softmax_weight(a) else a
                if weight is None or self.of(tap).kind != "word":
                    return _UNKNOWN
                taps.append((tap, weight[1]))
                phase, count = weight[0].phase, weight[0].terms
                work.append(rest)
            elif self._e.nodes[at] not in (("f16", 0), ("bits", 0)):
                return _UNKNOWN
        words = tuple(self.of(tap).words[0] for tap, _ in taps)
        if len({weight for _, weight in taps}) != len(taps) or len(taps) != count:
            return _UNKNOWN
        return Meaning("stencil", phase, words=words, terms=len(taps))

    def _light(self, a: int, b: int) -> Meaning:
        """Products of the final epilogue: gate * colour, gate * gate, a quarter of a colour."""
        kinds = {self.of(a).kind, self.of(b).kind}
        phase = self.of(a).phase or self.of(b).phase
        if kinds == {"gate", "stencil"}:
            return Meaning("gated", phase)
        if kinds == {"gate"}:
            return Meaning("gate product", phase)
        if kinds == {"constant", "remainder"} and self._e.constant(_QUARTER) in (a, b):
            return Meaning("quarter", phase)
        weight = self.softmax_weight(self._e.make("mul", a, b))
        return weight[0] if weight is not None else _UNKNOWN

    def _difference(self, a: int, b: int) -> Meaning:
        if self.of(a).kind == "stencil" and self.of(b).kind == "gated":
            return Meaning("remainder", self.of(a).phase)
        return _UNKNOWN

    def _mean(self, a: int, b: int) -> Meaning:
        """x + x(lane + 1), then the same with lane + 8: the mean of a 2 x 2 group in its first lane."""
        for own, other in ((a, b), (b, a)):
            moved = self._e.nodes[other]
            if moved[0] == "shfl" and moved[1] == "down" and moved[3] == own:
                meaning = self.of(own)
                wanted = {"quarter": ("pair mean", 1), "pair mean": ("mean", 8)}.get(meaning.kind)
                if wanted is not None and moved[2] == wanted[1]:
                    return meaning._replace(kind=wanted[0])
        return _UNKNOWN
