"""Byte-for-byte comparison of what two runs of one launch left in memory."""

from dataclasses import dataclass

import numpy as np

from zluda_rr.emulate.memory import AddressSpace


@dataclass(frozen=True, slots=True)
class Difference:
    """The first differing byte of one output, and how many bytes of it differ."""

    launch: str
    output: str
    offset: int
    expected: int
    actual: int
    count: int
    phase: int | None = None

    def __str__(self) -> str:
        place = f"{self.launch}: {self.output} byte {self.offset}"
        phase = "" if self.phase is None else f"; first differing phase: {self.phase}"
        return f"{place}: expected 0x{self.expected:02x}, got 0x{self.actual:02x} ({self.count} bytes differ){phase}"


def compare_outputs(
    launch: str, outputs: tuple[str, ...], expected: AddressSpace, actual: AddressSpace
) -> tuple[int, Difference | None]:
    """Number of bytes compared, and the first difference in the order of `outputs`, if any."""
    compared = 0
    first: Difference | None = None
    for name in outputs:
        a, b = expected.view(name), actual.view(name)
        compared += a.size
        differing = np.flatnonzero(a != b)
        if differing.size and first is None:
            at = int(differing[0])
            first = Difference(launch, name, at, int(a[at]), int(b[at]), int(differing.size))
    return compared, first
