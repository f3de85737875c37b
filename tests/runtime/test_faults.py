"""Where a bad address came from, found by moving every buffer; and what is no program's fault."""

from __future__ import annotations

import pytest

from zluda_rr.emulate.gfx12 import EmulationError, ProgramFault
from zluda_rr.emulate.memory import Access, AddressSpace, MemoryFault
from zluda_rr.emulate.ptx import ExecutionFault
from zluda_rr.errors import UserError
from zluda_rr.runtime.faults import GAP, DeviceFault, Fault, named_faults, origin_of

SIZES = {"weights": 1000, "arena": 4096, "planes": 2048}


def space(guard: int) -> AddressSpace:
    memory = AddressSpace(1 << 26, guard)
    for name, nbytes in SIZES.items():
        memory.allocate(name, nbytes, writable=name != "weights")
    return memory


def attempt(buffer: str | None, offset: int, guard: int) -> tuple[Fault | None, AddressSpace]:
    """A store of eight bytes at an offset from a buffer, or at an address that no buffer has part in."""
    memory = space(guard)
    base = 0 if buffer is None else memory.allocations[buffer].address
    return Fault("device", "rewritten", "", "0x10: store", Access("store", base + offset, 8)), memory


@pytest.mark.parametrize(
    ("buffer", "offset", "said"),
    [
        ("arena", -128, "128 bytes before the start of arena"),
        ("arena", 4092, "4 bytes past the end of arena (4096 bytes)"),
        ("planes", -600_000, "600000 bytes before the start of planes"),  # nearer to arena
        ("planes", (1 << 32) - 64, "64 bytes before the start of planes, as an unsigned 32-bit offset"),
        ("weights", 16, "into weights, which may not be written"),
    ],
)
def test_the_buffer_that_was_meant_is_named(buffer: str, offset: int, said: str) -> None:
    fault, memory = attempt(buffer, offset, GAP)
    assert fault is not None
    origin = origin_of(lambda guard: attempt(buffer, offset, guard), fault, memory)
    assert origin is not None
    assert (origin.buffer, origin.offset, origin.outside) == (buffer, offset, said)


def test_an_address_of_no_buffer_has_no_origin() -> None:
    fault, memory = attempt(None, 0x1234, GAP)
    assert fault is not None
    assert origin_of(lambda guard: attempt(None, 0x1234, guard), fault, memory) is None
    assert origin_of(lambda guard: (None, space(guard)), fault, memory) is None


@pytest.mark.parametrize("error", [MemoryFault("m"), ExecutionFault("e"), ProgramFault("p")])
def test_what_a_program_does_wrong_is_its_fault(error: Exception) -> None:
    error.add_note("at 0x20: s_load")
    with pytest.raises(DeviceFault) as caught, named_faults("device", "rewritten", space(GAP)):
        raise error
    assert caught.value.fault.place == "0x20: s_load"
    assert str(caught.value) == f"device: rewritten kernel: {error}, at 0x20: s_load"


def test_what_the_emulator_does_not_know_is_one_line_and_no_fault() -> None:
    with pytest.raises(UserError) as caught, named_faults("device", "rewritten", space(GAP)):
        raise EmulationError("the emulator does not know 'v_foo'")
    assert not isinstance(caught.value, DeviceFault)
    assert str(caught.value) == "device cannot run the rewritten kernel: the emulator does not know 'v_foo'"
