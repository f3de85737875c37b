"""The oracle against what an H200 gave for every instruction form, bit for bit.

Exceptions: `.approx` functions may differ by two units in the last place (the model rounds the exact value), and PTX
leaves open which NaN an f64 operand turns into.
"""

import numpy as np
import pytest

from tests.emulate.ptx.cases import format_of
from tests.emulate.ptx.h200 import Recorded, recorded
from tests.emulate.ptx.harness import run
from tests.numerics.exact import value_of

RECORDED = recorded()
# What is left of the oracle's slots when nothing is written: the harness fills them, the GPU run zeroed them.
FILL = 0


def is_nan(bits: int, name: str) -> bool:
    return name in ("f16", "f32", "f64") and bool(np.isnan(value_of(bits, format_of(name))))


def close(mine: int, theirs: int, name: str) -> bool:
    """lg2.approx has an absolute bound near 1 (PTX ISA: 2^-22)."""
    form = format_of("f32")
    return name.startswith("lg2") and abs(value_of(mine, form) - value_of(theirs, form)) <= 2**-22


@pytest.mark.parametrize("item", RECORDED, ids=lambda item: item.name)
def test_oracle_equals_the_gpu(item: Recorded) -> None:
    ours = run(item.snippet, item.inputs, fill=FILL, model="sm90").slots
    assert item.outputs is not None
    different = np.argwhere(ours != item.outputs)
    from_f64 = item.snippet.inputs[0] == "f64"
    for row, column in different:
        mine, theirs = int(ours[row, column]), int(item.outputs[row, column])
        name = item.snippet.outputs[column]
        if from_f64 and is_nan(mine, name) and is_nan(theirs, name):
            continue
        assert item.ulp, (item.name, [hex(bits) for bits in item.inputs[row].tolist()], hex(mine), hex(theirs))
        assert abs(mine - theirs) <= item.ulp or close(mine, theirs, item.name)


def test_every_kind_of_instruction_was_recorded() -> None:
    names = {item.name for item in RECORDED}
    assert len(RECORDED) > 550
    assert {
        "mma with NaN",
        "shfl bfly",
        "movmatrix",
        "encode high.relu",
        "fma.rn.f16x2",
        "rsqrt.approx.ftz.f32",
    } <= names
