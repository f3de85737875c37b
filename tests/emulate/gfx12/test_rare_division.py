"""IEEE division as LLVM expands it (v_div_scale, v_div_fmas, v_div_fixup) against numpy's."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12 import CodeObject, load_code_object, run_kernel
from zluda_rr.emulate.gfx12.execute_valu_rare import _F32, div_scale
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.toolchain import compile_hip_kernel

SOURCE = """
typedef _Float16 half;
#define KERNEL(name, type)                                                                       \\
  extern "C" __attribute__((global)) void name(const type* a, const type* b, type* q) {         \\
    int i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();          \\
    q[i] = a[i] / b[i];                                                                          \\
  }
KERNEL(f16, half)
KERNEL(f32, float)
KERNEL(f64, double)
"""
COUNT = 64 * 16


@cache
def division() -> CodeObject:
    return load_code_object(compile_hip_kernel(SOURCE).code_object)


def operands(dtype: str, seed: int) -> NDArray[np.generic]:
    """Every kind of number: any bits (NaNs, infinities, denormals among them), near one, extremes, small integers."""
    rng = np.random.default_rng(seed)
    size = np.dtype(dtype).itemsize
    anything = np.frombuffer(rng.bytes(COUNT * size), dtype=dtype)
    near = rng.uniform(0.5, 2.0, COUNT).astype(dtype)
    info = np.finfo(dtype)
    extreme = rng.choice([info.max, info.tiny, info.smallest_subnormal, 0.0, -0.0, np.inf, -np.inf, 1.0], COUNT)
    whole = rng.integers(-20, 20, COUNT).astype(dtype)
    return np.choose(rng.integers(0, 4, COUNT), [anything, near, extreme.astype(dtype), whole]).astype(dtype)


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
@pytest.mark.parametrize("seed", range(3))
def test_division_is_correctly_rounded(name: str, seed: int) -> None:
    dtype = f"f{int(name[1:]) // 8}"
    a, b = operands(dtype, 2 * seed), operands(dtype, 2 * seed + 1)
    memory = AddressSpace()
    sources = {"a": a, "b": b, "q": np.zeros_like(a)}
    places = [memory.allocate(key, x.nbytes, data=x.view(np.uint8)) for key, x in sources.items()]
    kernarg = np.array(places, dtype=np.uint64).tobytes()
    run_kernel(division(), name, (COUNT // 64, 1, 1), (64, 1, 1), kernarg, memory, "exact")
    got = memory.view("q").view(dtype)
    with np.errstate(all="ignore"):
        expected = a / b
    nan = np.isnan(expected)
    assert (np.isnan(got) == nan).all()
    word = f"u{np.dtype(dtype).itemsize}"
    wrong = np.flatnonzero((got.view(word) != expected.view(word)) & ~nan)
    assert wrong.size == 0, [(a[i], b[i], got[i], expected[i]) for i in wrong[:5]]


def test_scaling_of_the_extremes() -> None:
    """The cases of V_DIV_SCALE in the manual, one row each: denominator, numerator, scaled denominator, flag."""
    rows = [
        (1.0, 0.0, np.nan, False),
        (0.0, 1.0, np.nan, False),
        (2.0**-20, 2.0**80, 2.0**44, True),
        (2.0**-140, 2.0**-80, 2.0**-76, False),
        (2.0**127, 1.0, 2.0**63, True),
        (2.0**127, 2.0**60, 2.0**63, False),
        (2.0**60, 2.0**-80, 2.0**60, True),
        (1.0, 2.0**-110, 2.0**64, False),
        (3.0, 5.0, 3.0, False),
    ]
    d, n = (np.array([row[i] for row in rows], dtype=np.float32) for i in (0, 1))
    scaled, flag = div_scale(d, d, n, _F32)
    np.testing.assert_array_equal(scaled, np.array([row[2] for row in rows], dtype=np.float32))
    assert flag.tolist() == [row[3] for row in rows]
