"""What the operations of a Swin layer mean, once: terms with parameters, trees and rounding order included.

A *word* is a 32-bit term of two halves: columns 2t and 2t + 1 of an 8-column tile, t = lane & 3, for one row. Constants
and orders come from the family's rule (`Arithmetic`); where each is documented is said beside it. "[D n]" is item n of
docs/reference/rr-details.md, "[1 E5]" epilogue E5 of the record of enc1, summarised in docs/reference/README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zluda_rr.analysis import Term, Terms, shuffle_sources

from .model import ArithmeticRule

LANES = range(32)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Builds the family's terms in `terms`."""

    terms: Terms
    rule: ArithmeticRule

    # ------------------------------------------------------------------------------------------------- leaves

    def cell(self, phase: int, m: int, half: int, n: int) -> Term:
        """Word of a phase's result: rows 16m + 8half + g (g = lane >> 2), columns 8n + 2t, 8n + 2t + 1."""
        return self.terms.make("D", phase, m, half, n)

    def partial(self, phase: int, m: int, half: int, n: int, step: int) -> Term:
        """The same after k step `step`, before the last one."""
        return self.terms.make("partial D", phase, m, half, n, step)

    def image(self, at: int, stride: int, group: int = 31) -> Term:
        """Word of the weight image at byte `at + stride * (lane & group)`."""
        halves = (self.terms.make("W", tuple(at + 2 * i + stride * (lane & group) for lane in LANES)) for i in (0, 1))
        return self.terms.pair(*halves)

    def columns(self, at: int, n: int) -> Term:
        """One f16 per column, 2 bytes each: the word of tile n [1 §1.1]."""
        return self.image(at + 16 * n, 4, 3)

    def weight(self, at: int, steps: int, n: int, step: int, word: int) -> Term:
        """B word of 16-byte lane slots: tile = steps*(n >> 1) + step of 512 bytes each [D 13, 41]."""
        return self.image(at + 512 * (steps * (n >> 1) + step) + 8 * (n & 1) + 4 * word, 16)

    def score_bias(self, at: int, m_tiles: int, m: int, half: int, n: int) -> Term:
        """Seed of a score tile [D 16]."""
        return self.image(at + 512 * (m_tiles * (n >> 1) + m) + 8 * (n & 1) + 4 * half, 16)

    # ------------------------------------------------------------------------------------------------- elementwise

    def constant(self, value: int) -> Term:
        """f16 bits."""
        return self.terms.constant(value, 16)

    def op(self, name: str, *operands: Term) -> Term:
        """An f16 instruction: result rounded to nearest even."""
        return self.terms.half_operation(name, name, operands)

    def halves(self, word: Term) -> tuple[Term, Term]:
        """Low and high half."""
        return self.terms.half(word, 0), self.terms.half(word, 1)

    def pack(self, low: Term, high: Term, relu: bool = False) -> Term:
        """cvt.rn.satfinite{.relu}.e4m3x2.f16x2: two halves to two bytes [D 10]."""
        return self.terms.make("e4m3x2.relu" if relu else "e4m3x2", low, high)

    def packed(self, first: Term, second: Term, relu: bool = False) -> Term:
        """Operand word of tiles n and n + 2: bytes in slot order, tile n in the low half [D 17]."""
        return self.terms.pair(self.pack(*self.halves(first), relu), self.pack(*self.halves(second), relu))

    def residual(self, word: Term, table: Term | None) -> Term:
        """C: an earlier result, plus a per-column table added half by half [D 19]."""
        if table is None:
            return word
        return self.terms.pair(*(self.op("add", self.terms.half(word, i), self.terms.half(table, i)) for i in (0, 1)))

    def activation(self, word: Term) -> Term:
        """x * (1/2 + y * (slope - curve * |y|)), y = min(max(x, -limit), limit) [1 E15]."""
        rule = self.rule

        def half(x: Term) -> Term:
            limit = self.constant(rule.activation_limit)
            y = self.op("min", self.op("max", x, self.op("neg", limit)), limit)
            bent = self.op("mul", self.constant(rule.activation_curve), self.op("abs", y))
            slope = self.op("sub", self.constant(rule.activation_slope), bent)
            return self.op("mul", x, self.op("add", self.op("mul", y, slope), self.constant(rule.activation_offset)))

        return self.terms.pair(*map(half, self.halves(word)))

    def exponent(self, word: Term) -> Term:
        """Cubic exponent without a row maximum: the polynomial's bits shifted into an f16 [1 E5]."""
        rule = self.rule

        def half(x: Term) -> Term:
            bound = self.constant(rule.exponent_bound)
            scaled = self.op("mul", x, self.constant(rule.exponent_scale))
            m = self.op("min", self.op("max", scaled, self.op("neg", bound)), bound)
            t = self.op("fma", m, self.op("neg", m), self.constant(rule.exponent_linear))
            return self.op("fma", m, t, self.constant(rule.exponent_offset))

        terms = self.terms
        bits = terms.pair(*map(half, self.halves(word)))
        shifted = terms.shifted("shl", bits, terms.constant(rule.exponent_shift, 32), 32, False)
        return terms.bitwise("and", shifted, terms.constant(rule.exponent_mask, 32), 32)

    # ------------------------------------------------------------------------------------------------- rows

    def row_sum(self, words: Sequence[Term]) -> Term:
        """f16 sum of one row's columns: tiles of one parity pairwise and left to right, even + odd, then the four
        lanes of the row by butterflies of 1 and 2, then low + high [D 51, 53].
        """

        def parity(values: Sequence[Term]) -> Term:
            pairs = [self.op("add", values[i], values[i + 1]) for i in range(0, len(values) - 1, 2)]
            pairs += values[len(values) & ~1 :]
            total = pairs[0]
            for part in pairs[1:]:
                total = self.op("add", total, part)
            return total

        halves = []
        for index in (0, 1):
            column = [self.terms.half(word, index) for word in words]
            halves.append(self.op("add", parity(column[0::2]), parity(column[1::2])))
        word = self.terms.pair(*halves)
        for distance in (1, 2):
            other = self.shuffled("bfly", word, distance, 31)
            word = self.terms.pair(*(self.op("add", *(self.terms.half(w, i) for w in (word, other))) for i in (0, 1)))
        return self.op("add", *self.halves(word))

    def shuffled(self, mode: str, word: Term, distance: int, clamp: int) -> Term:
        """shfl.sync of all lanes by one distance."""
        return self.terms.gathered(shuffle_sources(mode, (distance,) * len(LANES), clamp), word)

    def inverse(self, function: str, value: Term) -> Term:
        """An approximate f32 function of a half, rounded to f16 [1 §1.3]."""
        wide = self.terms.make(f"{function}.approx.ftz.f32", self.terms.make("cvt.f32.f16", value))
        return self.terms.make("cvt.f16.f32", wide)

    def norm(self, words: Sequence[Term], gains: Sequence[Term]) -> list[Term]:
        """Row of normed words: x * (rsqrt(sum of squares + epsilon) * gain); the sum is not divided by the number of
        columns [D 8, 9].
        """

        def scaled(word: Term, gain: Term) -> Term:
            return self.terms.pair(*(
                self.op("mul", self.terms.half(word, i), self.op("mul", inverse, self.terms.half(gain, i)))
                for i in (0, 1)
            ))  # fmt: skip

        squares = [self.terms.pair(*(self.op("mul", x, x) for x in self.halves(word))) for word in words]
        total = self.op("add", self.row_sum(squares), self.constant(self.rule.norm_epsilon))
        inverse = self.inverse("rsqrt", total)
        return [scaled(word, gain) for word, gain in zip(words, gains, strict=True)]

    def softmax(self, words: Sequence[Term]) -> list[Term]:
        """Row of probabilities: exponents times the inverse of their sum [1 E5]."""
        exponents = [self.exponent(word) for word in words]
        inverse = self.inverse("rcp", self.row_sum(exponents))
        return [
            self.terms.pair(*(self.op("mul", self.terms.half(word, i), inverse) for i in (0, 1))) for word in exponents
        ]

    # ------------------------------------------------------------------------------------------------- tiles

    def transposed(self, word: Term) -> Term:
        """movmatrix of an 8x8 tile [D 17]."""
        return self.terms.make("movmatrix.b16.m8n8.trans", word)

    def merged(self, upper: Term, lower: Term, dx: int) -> Term:
        """2x2 merge between lanes: operand word of two token rows, `upper` y and `lower` y + 2, for column parity dx
        [D 11]: lanes with bit 2 clear take `upper`, the others `lower`, from the lane of x = 2X + dx.
        """
        first = self.terms.truth(not lane & 4 for lane in LANES)
        if dx == 0:
            return self.terms.select(upper, self.shuffled("up", lower, 4, 0), first)
        return self.terms.select(self.shuffled("down", upper, 4, 31), lower, first)
