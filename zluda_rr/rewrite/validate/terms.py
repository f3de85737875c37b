"""Hash-consed terms: equal numbers mean equal values.

A *term* is a number; `Terms.nodes[term]` says what it stands for. A term is a function of the lane, unless it is
*uniform*, one value for all. An *item* is a term in one lane, `32 * term + lane` (lane 0 where the term is uniform),
and names one value: items are equal only if the values are. Terms are normalised when they are made, with facts of the
PTX ISA only: a word is the concatenation of its halves, an instruction on `f16x2` is that on both halves, sums are a
base plus a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

LANES = 32
Key = int | tuple[int, ...]
Node = tuple[Hashable, object]
"""(operation, operands): terms for most; items where the operation's name begins with "items"."""
_HALF = 0xFFFF


class Table(dict[Key, int]):
    """Terms of one operation by their operands; a missing one is made."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Key], int]) -> None:
        super().__init__()
        self._make = make

    def forget(self) -> None:
        """End the table's use."""
        self._make = _gone

    def __missing__(self, key: Key) -> int:
        term = self[key] = self._make(key)
        return term


class Terms:
    """All terms of one comparison."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.uniform: list[bool] = []
        self._tables: dict[Hashable, Table] = {}
        self._atoms: dict[Hashable, int] = {}
        self._values: dict[int, int] = {}
        self._constants: dict[int, int] = {}
        self.low = Table(lambda key: self._part(key, "low", 0))
        self.high = Table(lambda key: self._part(key, "high", 1))
        self.join = Table(self._join)
        self.inverse = Table(self._inverse)
        self.choice = Table(self._choice)
        self._elements: dict[int, int] = {}
        self.named: dict[int, int] = {}
        """Uniform terms that are another name of an item, with the item."""

    # ------------------------------------------------------------------------------------------------------- leaves

    def new(self, name: Hashable, operands: object, *, uniform: bool) -> int:
        """A term that is unlike all others."""
        self.nodes.append((name, operands))
        self.uniform.append(uniform)
        return len(self.nodes) - 1

    def constant(self, value: int) -> int:
        """The term of an unsigned number. Its width is that of the register it is in; wider means zero-extended."""
        term = self._constants.get(value)
        if term is None:
            term = self._constants[value] = self.new("constant", value, uniform=True)
            self._values[term] = value
        return term

    def value(self, term: int) -> int | None:
        """The number that a term is; None where it is no constant."""
        return self._values.get(term)

    def atom(self, *name: Hashable, uniform: bool) -> int:
        """An unknown with a name."""
        term = self._atoms.get(name)
        if term is None:
            term = self._atoms[name] = self.new("atom", name, uniform=uniform)
        return term

    def element(self, item: int) -> int:
        """The uniform term with the value of an item. Not to be mixed with the item itself: see `item_of`."""
        if self.uniform[item // LANES]:
            return item // LANES
        found = self._elements.get(item)
        if found is None:
            found = self._elements[item] = self.new("element", item, uniform=True)
            self.named[found] = item
        return found

    def name_by_lane(self, elements: Sequence[int]) -> int:
        """A term whose value in lane i is the uniform term `elements[i]`; those must not have been used as items."""
        term = self.new("by lane", tuple(elements), uniform=False)
        for lane, element in enumerate(elements):
            self._elements[term * LANES + lane] = element
            self.named[element] = term * LANES + lane
        return term

    def item_of(self, term: int, lane: int) -> int:
        """The item of a term in a lane."""
        if not self.uniform[term]:
            return term * LANES + lane
        return self.named.get(term, term * LANES)

    # --------------------------------------------------------------------------------------------------- operations

    def table(self, name: Hashable) -> Table:
        """Operation without a known meaning: a function of its operands."""
        found = self._tables.get(name)
        if found is None:
            nodes, uniform = self.nodes, self.uniform

            def make(key: Key) -> int:
                nodes.append((name, key))
                uniform.append(uniform[key] if isinstance(key, int) else False not in [uniform[k] for k in key])
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
            a, b, *rest = _several(key)
            return plain[(a, b, *rest) if a <= b else (b, a, *rest)]

        return self.derived(("commutative", name), make)

    def folding(self, name: Hashable, fold: Callable[..., int | None]) -> Table:
        """Operation that `fold` computes where all operands are constants (and it does not give None)."""
        plain, values = self.table(name), self._values

        def make(key: Key) -> int:
            known = [values.get(k) for k in _several(key)]
            result = None if None in known else fold(*known)
            return plain[key] if result is None else self.constant(result)

        return self.derived(("folding", name), make)

    def halves(self, name: Hashable, *, commutes: bool) -> Table:
        """Instruction on two halves of a word as two instructions `name` on 16 bits."""
        single = self.commutative(name) if commutes else self.table(name)
        low, high, join = self.low, self.high, self.join

        def make(key: Key) -> int:
            first, second = tuple([low[k] for k in _several(key)]), tuple([high[k] for k in _several(key)])
            return join[single[first], single[second]]

        return self.derived(("halves", name), make)

    # ------------------------------------------------------------------------------------------------------- halves

    def _part(self, key: Key, name: str, side: int) -> int:
        assert isinstance(key, int)
        operation, operands = self.nodes[key]
        if operation == "join":
            return operands[side]  # type: ignore[index,no-any-return]
        if operation == "element":
            assert isinstance(operands, int)
            part = (self.low, self.high)[side][operands // LANES]
            return self.element(self.item_of(part, operands % LANES))
        value = self._values.get(key)
        if value is not None:
            return self.constant(value >> 16 * side & _HALF)
        return self.new(name, key, uniform=self.uniform[key])

    def _join(self, key: Key) -> int:
        low, high = _several(key)
        one, two = self.nodes[low], self.nodes[high]
        if one[0] == "low" and two[0] == "high" and one[1] == two[1]:
            return one[1]  # type: ignore[return-value]
        a, b = self._values.get(low), self._values.get(high)
        if a is not None and b is not None and max(a, b) <= _HALF:
            return self.constant(a | b << 16)
        return self.new("join", key, uniform=self.uniform[low] and self.uniform[high])

    # --------------------------------------------------------------------------------------------------- predicates

    def _inverse(self, key: Key) -> int:
        assert isinstance(key, int)
        operation, operands = self.nodes[key]
        if operation == "inverse":
            return operands  # type: ignore[return-value]
        if operation == "element":
            assert isinstance(operands, int)
            return self.element(self.item_of(self.inverse[operands // LANES], operands % LANES))
        value = self._values.get(key)
        return self.new("inverse", key, uniform=self.uniform[key]) if value is None else self.constant(int(not value))

    def _choice(self, key: Key) -> int:
        """Key: (predicate, value where it is true, value where it is false)."""
        which, yes, no = _several(key)
        if yes == no:
            return yes
        known = self._values.get(which)
        if known is not None:
            return yes if known else no
        operation, operands = self.nodes[which]
        if operation == "inverse":
            assert isinstance(operands, int)
            return self.choice[operands, no, yes]
        return self.table("choice")[key]

    # --------------------------------------------------------------------------------------------------------- sums

    def sum(self, bits: int) -> Table:
        """Addition modulo 2^bits: (base, constant) is kept apart, so that addresses of other lanes can be compared."""
        return self.derived(("sum", bits), lambda key: self._sum(bits, *_several(key)))

    def difference(self, bits: int) -> Table:
        """Subtraction modulo 2^bits."""
        plain, total, mask = self.table(("difference", bits)), self.sum(bits), (1 << bits) - 1

        def make(key: Key) -> int:
            first, second = _several(key)
            value = self._values.get(second)
            return plain[key] if value is None else total[first, self.constant(-value & mask)]

        return self.derived(("difference", bits), make)

    def _sum(self, bits: int, one: int, two: int) -> int:
        (x, first), (y, second) = self._split(one, bits), self._split(two, bits)
        offset = first + second & (1 << bits) - 1
        if x is None and y is None:
            return self.constant(offset)
        if x is not None and y is not None:
            base = self.table(("add", bits))[min(x, y), max(x, y)]
        else:
            base = x if x is not None else y  # type: ignore[assignment]
        return base if offset == 0 else self.table(("plus", bits))[base, self.constant(offset)]

    def _split(self, term: int, bits: int) -> tuple[int | None, int]:
        value = self._values.get(term)
        if value is not None:
            return None, value
        operation, operands = self.nodes[term]
        if operation == ("plus", bits):
            assert isinstance(operands, tuple)
            return operands[0], self._values[operands[1]]
        return term, 0

    def place(self, item: int, bits: int) -> tuple[int, int]:
        """An address as (item of the base or -1, constant)."""
        base, offset = self._split(item // LANES, bits)
        return (-1 if base is None else self.item_of(base, item % LANES)), offset

    def release(self) -> None:
        """Let go of everything, so that no cycle is left to the garbage collector."""
        self._tables.clear()
        self.nodes.clear()
        for table in (self.low, self.high, self.join, self.inverse, self.choice):
            table.clear()
            table.forget()

    # --------------------------------------------------------------------------------------------------------- text

    def operands(self, item: int) -> tuple[str, list[int]]:
        """What an item is made of, as items; a leaf's name says everything."""
        term, lane = divmod(item, LANES)
        name, operands = self.nodes[term]
        if name == "constant":
            assert isinstance(operands, int)
            return (str(operands) if operands < 1024 else hex(operands)), []
        if name == "atom":
            suffix = "" if self.uniform[term] else f"@{lane}"
            return ":".join(map(str, operands)) + suffix, []  # type: ignore[call-overload]
        if name == "element":
            return self.operands(operands)  # type: ignore[arg-type]
        if name == "by lane":
            return self.operands(operands[lane] * LANES)  # type: ignore[index]
        text = name if isinstance(name, str) else " ".join(str(part) for part in name)  # type: ignore[attr-defined]
        if text.startswith("items"):
            by_lane = text.startswith("items by lane: ")
            chosen = operands[lane] if by_lane else operands  # type: ignore[index]
            text = text.removeprefix("items by lane: ").removeprefix("items: ")
            if text.startswith("load "):
                return f"{text} of {self._address(chosen)}", []
            assert isinstance(chosen, tuple)
            return text, list(chosen)
        assert isinstance(operands, int | tuple)
        return text, [self.item_of(k, lane) for k in _several(operands)]

    def _address(self, key: object) -> str:
        """The address in the key of a load: (item of the base or -1, constant, …), maybe with a lane."""
        assert isinstance(key, tuple)
        base, offset = key[0][:2] if isinstance(key[0], tuple) else key[:2]
        return hex(offset) if base < 0 else f"[{self.text(base)} + {offset}]"

    def text(self, item: int, depth: int = 2) -> str:
        """An item for people, down to a depth."""
        name, operands = self.operands(item)
        if not operands:
            return name
        return f"{name}({', '.join(self.text(o, depth - 1) for o in operands) if depth else '…'})"

    def first_difference(self, one: int, two: int) -> tuple[int, int]:
        """Go down into two different items as long as they differ in an operand of the same operation."""
        while True:
            (name, first), (other, second) = self.operands(one), self.operands(two)
            pairs = [(a, b) for a, b in zip(first, second, strict=False) if a != b]
            if name != other or len(first) != len(second) or not pairs:
                return one, two
            one, two = pairs[0]


def _several(key: Key) -> Sequence[int]:
    return key if isinstance(key, tuple) else (key,)


def _gone(key: Key) -> int:
    raise AssertionError("the terms are released")
