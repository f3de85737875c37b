"""Hash-consed terms: equal numbers mean equal values.

A term is an integer; `Terms.nodes[term]` says what it stands for. A *row* is a tuple of 32 terms, the value of one
register in every lane of a warp. Terms are normalised when they are made, with facts of the PTX ISA only: a word is the
concatenation of its halves, an instruction on `f16x2` is that on both halves, sums are a base plus a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

LANES = 32
Row = tuple[int, ...]
Key = int | tuple[int, ...]
_HALF = 0xFFFF


class Table(dict[Key, int]):
    """Terms of one operation by their operands; a missing one is made."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Key], int]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Key) -> int:
        term = self[key] = self._make(key)
        return term


class Terms:
    """All terms of one comparison. Nodes are tuples with the operation first."""

    def __init__(self) -> None:
        self.nodes: list[tuple[object, ...]] = []
        self._tables: dict[Hashable, Table] = {}
        self._atoms: dict[Hashable, int] = {}
        self._constants: dict[int, int] = {}
        self._values: dict[int, int] = {}
        self.low = Table(self._low)
        self.high = Table(self._high)
        self.join = Table(self._join)
        self.inverse = Table(self._inverse)
        self.choice = Table(self._choice)

    # ------------------------------------------------------------------------------------------------------- leaves

    def constant(self, value: int) -> int:
        """The term of an unsigned number. Its width is that of the register it is in; wider means zero-extended."""
        term = self._constants.get(value)
        if term is None:
            term = self._constants[value] = self._new(("constant", value))
            self._values[term] = value
        return term

    def value(self, term: int) -> int | None:
        """The number that a term is; None where it is no constant."""
        return self._values.get(term)

    def atom(self, *name: Hashable) -> int:
        """An unknown with a name."""
        term = self._atoms.get(name)
        if term is None:
            term = self._atoms[name] = self._new(("atom", *name))
        return term

    def per_lane(self, *name: Hashable) -> Row:
        """An unknown in every lane."""
        return tuple([self.atom(*name, lane) for lane in range(LANES)])

    def _new(self, node: tuple[object, ...]) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    # --------------------------------------------------------------------------------------------------- operations

    def table(self, name: Hashable) -> Table:
        """Operation without a known meaning: a function of its operands."""
        found = self._tables.get(name)
        if found is None:
            nodes = self.nodes

            def make(key: Key) -> int:
                nodes.append((name, key))
                return len(nodes) - 1

            found = self._tables[name] = Table(make)
        return found

    def derived(self, name: Hashable, make: Callable[[Key], int]) -> Table:
        """Operation whose terms `make` normalises."""
        key = ("derived", name)
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = Table(make)
        return found

    def commutative(self, name: Hashable, fold: Callable[..., int | None] | None = None) -> Table:
        """Operation whose first two operands may change places. `fold` computes it for constants."""
        plain = self.table(name) if fold is None else self.folding(name, fold)

        def make(key: Key) -> int:
            assert isinstance(key, tuple)
            a, b, *rest = key
            return plain[(a, b, *rest) if a <= b else (b, a, *rest)]

        return self.derived(("commutative", name), make)

    def folding(self, name: Hashable, fold: Callable[..., int | None]) -> Table:
        """Operation that `fold` computes where all operands are constants (and it does not give None)."""
        plain, values = self.table(name), self._values

        def make(key: Key) -> int:
            known = [values.get(k) for k in (key if isinstance(key, tuple) else (key,))]
            result = None if None in known else fold(*known)
            return plain[key] if result is None else self.constant(result)

        return self.derived(("folding", name), make)

    def halves(self, name: Hashable, commutes: bool) -> Table:
        """Instruction on two halves of a word as two instructions `name` on 16 bits."""
        single = self.commutative(name) if commutes else self.table(name)
        low, high, join = self.low, self.high, self.join

        def make(key: Key) -> int:
            operands = key if isinstance(key, tuple) else (key,)
            first, second = tuple([low[k] for k in operands]), tuple([high[k] for k in operands])
            if len(operands) == 1:
                return join[single[first[0]], single[second[0]]]
            return join[single[first], single[second]]

        return self.derived(("halves", name), make)

    # ------------------------------------------------------------------------------------------------------- halves

    def _low(self, key: Key) -> int:
        assert isinstance(key, int)
        node = self.nodes[key]
        if node[0] == "join":
            return int(node[1])  # type: ignore[call-overload,no-any-return]
        value = self._values.get(key)
        return self._new(("low", key)) if value is None else self.constant(value & _HALF)

    def _high(self, key: Key) -> int:
        assert isinstance(key, int)
        node = self.nodes[key]
        if node[0] == "join":
            return int(node[2])  # type: ignore[call-overload,no-any-return]
        value = self._values.get(key)
        return self._new(("high", key)) if value is None else self.constant(value >> 16 & _HALF)

    def _join(self, key: Key) -> int:
        assert isinstance(key, tuple)
        low, high = key
        one, two = self.nodes[low], self.nodes[high]
        if one[0] == "low" and two[0] == "high" and one[1] == two[1]:
            return int(one[1])  # type: ignore[call-overload,no-any-return]
        a, b = self._values.get(low), self._values.get(high)
        if a is not None and b is not None and max(a, b) <= _HALF:
            return self.constant(a | b << 16)
        return self._new(("join", low, high))

    # --------------------------------------------------------------------------------------------------- predicates

    def _inverse(self, key: Key) -> int:
        assert isinstance(key, int)
        node = self.nodes[key]
        if node[0] == "inverse":
            return int(node[1])  # type: ignore[call-overload,no-any-return]
        return self._new(("inverse", key))

    def _choice(self, key: Key) -> int:
        """Key: (predicate, value where it is true, value where it is false)."""
        assert isinstance(key, tuple)
        which, yes, no = key
        if yes == no:
            return yes
        known = self._values.get(which)
        if known is not None:
            return yes if known else no
        node = self.nodes[which]
        if node[0] == "inverse":
            return self.choice[int(node[1]), no, yes]  # type: ignore[call-overload]
        return self._new(("choice", which, yes, no))

    # --------------------------------------------------------------------------------------------------------- sums

    def sum(self, bits: int) -> Table:
        """Addition modulo 2^bits: (base, constant) is kept apart, so that addresses of other lanes can be compared."""
        return self.derived(("sum", bits), lambda key: self._sum(bits, key))

    def difference(self, bits: int) -> Table:
        """Subtraction modulo 2^bits."""
        plain, total, mask = self.table(("difference", bits)), self.sum(bits), (1 << bits) - 1

        def make(key: Key) -> int:
            assert isinstance(key, tuple)
            value = self._values.get(key[1])
            return plain[key] if value is None else total[key[0], self.constant(-value & mask)]

        return self.derived(("difference", bits), make)

    def _sum(self, bits: int, key: Key) -> int:
        assert isinstance(key, tuple)
        mask = (1 << bits) - 1
        (x, first), (y, second) = self._split(key[0], bits), self._split(key[1], bits)
        offset = first + second & mask
        if x is None and y is None:
            return self.constant(offset)
        if x is None or y is None:
            base = y if x is None else x
            assert base is not None
        else:
            base = self.table(("add", bits))[min(x, y), max(x, y)]
        return base if offset == 0 else self.table(("plus", bits))[base, self.constant(offset)]

    def _split(self, term: int, bits: int) -> tuple[int | None, int]:
        value = self._values.get(term)
        if value is not None:
            return None, value
        node = self.nodes[term]
        if node[0] == ("plus", bits):
            base, offset = node[1]  # type: ignore[misc]
            return base, self._values[offset]
        return term, 0

    # --------------------------------------------------------------------------------------------------------- text

    def text(self, term: int, depth: int = 3) -> str:
        """A term for people, down to a depth."""
        node = self.nodes[term]
        if node[0] == "constant":
            value = self._values[term]
            return str(value) if value < 1024 else hex(value)
        if node[0] == "atom":
            return ":".join(str(part) for part in node[1:])
        operands = node[1] if len(node) == 2 and isinstance(node[1], tuple) else node[1:]
        assert isinstance(operands, Iterable)
        name = node[0] if isinstance(node[0], str) else ".".join(map(str, node[0]))  # type: ignore[call-overload]
        if depth == 0:
            return f"{name}(…)"
        return f"{name}({', '.join(self.text(int(o), depth - 1) for o in operands)})"
