"""Values that a shuffle read from a lane that does not execute: followed, and a fault where they matter."""

import numpy as np
import pytest

from tests.emulate.ptx.harness import Snippet, run
from zluda_rr.emulate.ptx import ExecutionFault

UNDEFINED = """mov.u32 %lane, %laneid; setp.lt.u32 %p, %lane, 8; mov.b32 %d0, 77; mov.b32 %t, 5;
@%p shfl.sync.down.b32 %t, %a0, 1, 31, -1;
"""
"""%t is undefined in lane 7, defined in all others."""
DECLARE = ".reg .b32 %lane, %t, %u; .reg .pred %p, %q, %s; .reg .b64 %at;\n"


def test_an_undefined_value_that_nothing_depends_on_is_no_fault() -> None:
    """Computed with, exchanged, left out by selp, overwritten: the lanes that store something store what is defined."""
    text = (
        UNDEFINED
        + """add.u32 %u, %t, 100; setp.gt.u32 %q, %u, 3; selp.b32 %u, %u, 9, %q;
    shfl.sync.up.b32 %u, %u, 0, 0, -1;
    setp.ne.u32 %s, %lane, 7; selp.b32 %d0, %u, %d0, %s; mov.b32 %t, 0;
    mov.b32 %u, %t; add.u32 %d0, %d0, %u;"""
    )
    slots = run(Snippet(text, ("b32",), ("b32",), declare=DECLARE), np.arange(32, dtype=np.uint64)[:, None]).slots
    assert slots[:, 0].tolist() == [101, 102, 103, 104, 105, 106, 107, 77] + [105] * 24


@pytest.mark.parametrize(
    "use",
    [
        "mov.b32 %d0, %t;",  # the harness stores it
        "shfl.sync.up.b32 %d0, %t, 1, 0, -1;",  # to the next lane
        "and.b32 %u, %t, 4; cvt.u64.u32 %at, %u; ld.global.b32 %u, [%at];",
        "setp.gt.u32 %q, %t, 3; @%q bra OVER; mov.b32 %d0, 1; OVER:",
        "setp.gt.u32 %q, %t, 3; @%q mov.b32 %d0, 1;",
        "setp.gt.u32 %q, %t, 3; vote.sync.any.pred %s, %q, -1; selp.b32 %d0, 1, 0, %s;",
        "setp.gt.u32 %q, %t, 3; selp.b32 %d0, 1, 0, %q;",
        "setp.ne.u32 %s, %lane, 7; selp.b32 %d0, 1, %t, %s;",
        "prmt.b32 %u, %t, %t, 0x1032; mov.b32 %d0, %u;",
    ],
)
def test_an_undefined_value_that_matters_is_a_fault(use: str) -> None:
    snippet = Snippet(UNDEFINED + use, ("b32",), ("b32",), declare=DECLARE)
    with pytest.raises(ExecutionFault, match="reads from a lane that does not execute it"):
        run(snippet, np.arange(32, dtype=np.uint64)[:, None])
