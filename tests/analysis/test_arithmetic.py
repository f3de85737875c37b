"""lop3 in addresses: every table, computed for every lane."""

import random

from zluda_rr.analysis import lanes
from zluda_rr.analysis.arithmetic import compute
from zluda_rr.analysis.lanes import Atom, Form


def looked_up(form: list[Form], lut: int) -> Form | None:
    table = lanes.constant(lut, 64)
    return compute("lop3", ("b32",), [*form, table], 32, lambda value, signed: value)


def test_every_table_on_known_operands() -> None:
    rng = random.Random(5)
    columns = [tuple(rng.getrandbits(32) for _ in range(32)) for _ in range(3)]
    for lut in range(256):
        found = looked_up([Form(column, (), 32) for column in columns], lut)
        assert found is not None
        for lane, (x, y, z) in enumerate(zip(*columns, strict=True)):
            want = 0
            for bit in range(32):
                index = (x >> bit & 1) << 2 | (y >> bit & 1) << 1 | z >> bit & 1
                want |= (lut >> index & 1) << bit
            assert found.lanes[lane] & 0xFFFFFFFF == want, (lut, lane)


def test_an_unknown_operand_is_unknown_but_for_and_and_or() -> None:
    unknown, twelve, zero = lanes.atom(Atom("value", "%r1", 3), 32), lanes.constant(12, 32), lanes.constant(0, 32)
    assert looked_up([unknown, twelve, zero], 0x96) is None
    assert looked_up([unknown, twelve, zero], 0xC0) == lanes.bit_and(unknown, twelve)
    assert looked_up([unknown, twelve, zero], 0xFA) == lanes.bit_or(unknown, zero)
