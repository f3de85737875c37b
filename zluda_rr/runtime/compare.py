"""Byte-for-byte comparison of what two runs of one launch left in memory."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zluda_rr.emulate.memory import AddressSpace


@dataclass(frozen=True, slots=True)
class Difference:
    """The first differing byte of one output, and how many bytes of it differ.

    A kernel that does not come to its end differs by a `fault`. `output` is then the buffer whose address the bad
    access was made from, `offset` counts from that buffer's start and is negative before it, and `phase` is the one
    that stores to the buffer, or the first whose accumulators are wrong or missing. With `stored` it is the phase of
    the store that is at fault.
    """

    launch: str
    output: str
    offset: int
    expected: int
    actual: int
    count: int
    phase: int | None = None
    fault: str | None = None
    stored: bool = False

    def __str__(self) -> str:
        phase = ""
        if self.phase is not None:
            phase = f"; phase {self.phase}'s store" if self.stored else f"; first differing phase: {self.phase}"
        if self.fault is not None:
            return f"{self.launch}: {self.fault}{phase}"
        place = f"{self.launch}: {self.output} byte {self.offset}"
        return f"{place}: expected 0x{self.expected:02x}, got 0x{self.actual:02x} ({self.count} bytes differ){phase}"


def compare_outputs(
    launch: str,
    outputs: tuple[str, ...],
    expected: AddressSpace,
    actual: AddressSpace,
    nan_outputs: Collection[str] = (),
) -> tuple[int, Difference | None]:
    """Number of bytes compared, and the first difference in the order of `outputs`, if any.

    Outputs in `nan_outputs` hold f16: there any NaN equals any NaN. PTX returns one NaN, AMD hardware passes on the
    operand's payload, so oracle and machine code can agree on no more than that (PTX ISA, "Floating-Point
    Representations"). Translated and rewritten machine code are compared without this allowance.
    """
    compared = 0
    first: Difference | None = None
    for name in outputs:
        a, b = expected.view(name), actual.view(name)
        if name in nan_outputs:
            a, b = with_one_nan(a), with_one_nan(b)
        compared += a.size
        differing = np.flatnonzero(a != b)
        if differing.size and first is None:
            at = int(differing[0])
            first = Difference(launch, name, at, int(a[at]), int(b[at]), int(differing.size))
    return compared, first


def with_one_nan(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """A copy of f16 data with every NaN as 0x7fff."""
    halves = data.copy().view(np.uint16)
    halves[(halves & 0x7FFF) > 0x7C00] = 0x7FFF
    return halves.view(np.uint8)
