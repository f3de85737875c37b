"""Device memory: reads give what was written, and nothing outside an allocation can be touched."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zluda_rr.emulate.memory import BASE, GUARD, AddressSpace, MemoryFault

CAPACITY = 1 << 16


def addresses(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


@given(
    nbytes=st.sampled_from([1, 2, 4, 8, 12, 16]),
    offsets=st.lists(st.integers(0, 64), min_size=1, max_size=8),
    seed=st.integers(0, 2**32 - 1),
)
def test_store_and_load_agree_with_a_bytearray(nbytes: int, offsets: list[int], seed: int) -> None:
    space = AddressSpace(CAPACITY)
    base = space.allocate("buffer", 96, align=16)
    data = np.random.default_rng(seed).integers(0, 256, (len(offsets), nbytes), dtype=np.uint8)
    model = bytearray(96)
    for offset, row in zip(offsets, data, strict=True):
        model[offset : offset + nbytes] = row.tobytes()
    where = addresses(*(base + offset for offset in offsets))
    for place, row in zip(where, data, strict=True):
        space.store(addresses(int(place)), row[None])
    assert space.view("buffer").tobytes() == bytes(model)
    expected = [bytes(model[offset : offset + nbytes]) for offset in offsets]
    assert [row.tobytes() for row in space.load(where, nbytes)] == expected


def test_words_are_little_endian_and_last_store_wins() -> None:
    space = AddressSpace(CAPACITY)
    base = space.allocate("words", 16)
    space.store_u32(addresses(base + 4, base + 8, base + 4), np.array([1, 2, 0x01020304], dtype=np.uint32))
    assert space.view("words").tolist() == [0, 0, 0, 0, 4, 3, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0]
    assert space.load_u32(addresses(base + 8, base + 4)).tolist() == [2, 0x01020304]


@pytest.mark.parametrize(
    ("offset", "nbytes", "message"),
    [
        (-1, 1, "1 bytes before 'a'"),
        (0, 0, ""),
        (13, 4, "13 bytes into 'a'"),
        (16, 1, "0 bytes past the end of 'a'"),
        (16 + GUARD - 1, 1, "past the end of 'a'|before 'b'"),
        (-BASE, 4, "bytes before 'a'"),
    ],
)
def test_accesses_outside_fault(offset: int, nbytes: int, message: str) -> None:
    space = AddressSpace(CAPACITY)
    base = space.allocate("a", 16)
    space.allocate("b", 16)
    if nbytes == 0:
        assert len(space.load(addresses(base), 16)) == 1
        return
    where = addresses(base, base + offset)
    with pytest.raises(MemoryFault, match=message):
        space.load(where, nbytes)
    with pytest.raises(MemoryFault, match=message):
        space.store(where, np.zeros((2, nbytes), dtype=np.uint8))


def test_read_only_allocations_load_but_do_not_store() -> None:
    space = AddressSpace(CAPACITY)
    base = space.allocate("weights", 8, data=b"\x01\x02\x03\x04", writable=False)
    assert space.load_u32(addresses(base, base + 4)).tolist() == [0x04030201, 0]
    with pytest.raises(MemoryFault, match="read-only 'weights'"):
        space.store_u32(addresses(base), np.zeros(1, dtype=np.uint32))


def test_word_access_demands_alignment() -> None:
    space = AddressSpace(CAPACITY)
    base = space.allocate("a", 16)
    with pytest.raises(MemoryFault, match="misaligned"):
        space.load_u32(addresses(base + 2))


def test_copies_are_independent_and_views_are_live() -> None:
    space = AddressSpace(CAPACITY)
    base = space.allocate("a", 4, data=b"abcd")
    view = space.view("a")
    other = space.copy()
    space.allocate("later", 1 << 12)
    view[:] = 7
    assert space.load_u32(addresses(base)).tolist() == [0x07070707]
    assert other.view("a").tobytes() == b"abcd"
    assert "later" not in other.allocations
    assert other.allocate("later", 4) == space.allocations["later"].address


@pytest.mark.parametrize(
    "arguments",
    [("a", 4, 256), ("c", 4, 3), ("c", CAPACITY, 256), ("c", -1, 256)],
)
def test_bad_allocations_are_refused(arguments: tuple[str, int, int]) -> None:
    space = AddressSpace(CAPACITY)
    space.allocate("a", 4)
    name, nbytes, align = arguments
    with pytest.raises(ValueError):  # noqa: PT011 - several messages
        space.allocate(name, nbytes, align=align)
    with pytest.raises(ValueError, match="bytes of data"):
        space.allocate("d", 2, data=b"abc")
