"""Kernels that do not come to their end: what happened, and which buffer a bad address was made from.

A fault of the program is a difference to whoever compares kernels, never a traceback. What an emulator does not know is
another matter: that is one line to the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from zluda_rr.emulate.gfx12 import DecodeError, EmulationError, ProgramFault
from zluda_rr.emulate.memory import Access, AddressSpace, MemoryFault
from zluda_rr.emulate.ptx import ExecutionFault
from zluda_rr.errors import UserError

GAP = 1 << 20
"""Unmapped bytes around every buffer of a launch: an address outside of one is in none."""
SHIFT = 1 << 12
"""How much wider the gaps of the second space are: buffer number n then lies n * SHIFT bytes further."""
_NEGATIVE_32 = (1 << 32) - (1 << 26)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a kernel did not come to its end. `place` is the instruction or statement, empty where it is in `message`."""

    device: str
    program: str
    message: str
    place: str
    access: Access | None = None

    def __str__(self) -> str:
        return f"{self.program} kernel: {self.message}" + (f", at {self.place}" if self.place else "")


class DeviceFault(UserError):  # noqa: N818 - named as MemoryFault is
    """A program's fault. `memory` is the launch's memory as the kernel left it."""

    def __init__(self, fault: Fault, memory: AddressSpace) -> None:
        super().__init__(f"{fault.device}: {fault}")
        self.fault = fault
        self.memory = memory


@contextmanager
def named_faults(device: str, program: str, memory: AddressSpace) -> Iterator[None]:
    """Faults of the program as DeviceFault; what the emulator does not know as one line of UserError."""
    try:
        yield
    except (MemoryFault, ExecutionFault, ProgramFault) as error:
        access = error.access if isinstance(error, MemoryFault) else None
        raise DeviceFault(Fault(device, program, str(error), _place(error), access), memory) from error
    except (EmulationError, DecodeError) as error:
        place = _place(error)
        at = f", at {place}" if place else ""
        raise UserError(f"{device} cannot run the {program} kernel: {error}{at}") from error


def _place(error: BaseException) -> str:
    """The instruction, which the gfx12 emulator notes on the exception."""
    notes = [note.removeprefix("at ") for note in getattr(error, "__notes__", [])]
    return notes[0] if notes else ""


@dataclass(frozen=True, slots=True)
class Origin:
    """The buffer that a bad address was made from, the byte counted from its start, and how far outside that is."""

    buffer: str
    offset: int
    outside: str


class _Attempt(Protocol):
    def __call__(self, guard: int) -> tuple[Fault | None, AddressSpace]:
        """Run in a space with these gaps: the fault, and the memory."""


def origin_of(attempt: _Attempt, fault: Fault, memory: AddressSpace) -> Origin | None:
    """Where a bad global address came from, found by running once more with every buffer moved by another distance.

    The nearest buffer need not be the one that was meant. None where the second run does not fail in the same place, or
    where the address does not move with any buffer.
    """
    if fault.access is None:
        return None
    moved, second = attempt(GAP + SHIFT)
    if moved is None or moved.access is None or moved.place != fault.place:
        return None
    for name, allocation in memory.allocations.items():
        distance = second.allocations[name].address - allocation.address
        if moved.access.address - fault.access.address == distance:
            return _origin(fault.access, name, allocation.address, allocation.nbytes)
    return None


def _origin(access: Access, name: str, start: int, nbytes: int) -> Origin:
    offset = access.address - start
    if offset < 0:
        outside = f"{-offset} bytes before the start of {name}"
    elif offset + access.nbytes > nbytes:
        outside = f"{offset + access.nbytes - nbytes} bytes past the end of {name} ({nbytes} bytes)"
        if _NEGATIVE_32 <= offset < 1 << 32:  # added as an unsigned lane offset
            outside = f"{(1 << 32) - offset} bytes before the start of {name}, as an unsigned 32-bit offset"
    else:
        outside = f"into {name}, which may not be written"
    return Origin(name, offset, outside)
