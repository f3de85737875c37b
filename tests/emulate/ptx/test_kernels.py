"""Kernels that nvcc 13.0 compiled, against numpy. `python -m tests.emulate.ptx.test_kernels` recompiles them."""

import struct
from pathlib import Path

import numpy as np
import pytest

from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.numerics import f16
from zluda_rr.ptx import Module, parse

HERE = Path(__file__).parent
RNG = np.random.default_rng(12)


@pytest.fixture(scope="module")
def kernels() -> Module:
    return parse((HERE / "kernels.ptx").read_text(), filename="kernels.ptx")


def launch(module: Module, entry: str, space: AddressSpace, grid: int, block: int, params: bytes) -> None:
    run_entry(
        module, entry, grid=(grid, 1, 1), block=(block, 1, 1), params=params, memory=space, model="exact", chunk_warps=3
    )


def test_block_sum(kernels: Module) -> None:
    space = AddressSpace(1 << 20)
    values = RNG.integers(-1000, 1000, 777, dtype=np.int32)
    source, total = space.allocate("values", values.nbytes, data=values.tobytes()), space.allocate("total", 4)
    launch(kernels, "block_sum", space, 3, 128, struct.pack("<QI4xQ", source, len(values), total))
    assert space.view("total").view(np.int32)[0] == values.sum()


def test_sort(kernels: Module) -> None:
    space = AddressSpace(1 << 20)
    rows = RNG.integers(0, 1 << 32, (192, 8), dtype=np.uint32)
    rows[::5] //= 1 << 30  # equal keys
    launch(kernels, "sort8", space, 4, 48, struct.pack("<Q", space.allocate("rows", rows.nbytes, data=rows.tobytes())))
    assert np.array_equal(space.view("rows").view(np.uint32).reshape(rows.shape), np.sort(rows, axis=1))


def test_softmax(kernels: Module) -> None:
    space = AddressSpace(1 << 20)
    rows = RNG.normal(0, 4, (5, 32)).astype(np.float16)
    source = space.allocate("in", rows.nbytes, data=rows.tobytes())
    target = space.allocate("out", rows.nbytes)
    launch(kernels, "softmax", space, 5, 32, struct.pack("<QQ", source, target))
    exact = np.exp(rows.astype(np.float64) - rows.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    out = space.view("out").view(np.float16).reshape(rows.shape)
    assert np.abs(out - exact).max() < 2**-11
    assert np.abs(out.astype(np.float64).sum(axis=1) - 1).max() < 2**-8


def test_polynomial(kernels: Module) -> None:
    space = AddressSpace(1 << 20)
    x = RNG.normal(0, 2, (100, 2)).astype(np.float16)
    source, target = space.allocate("x", x.nbytes, data=x.tobytes()), space.allocate("y", x.nbytes)
    launch(kernels, "polynomial", space, 2, 64, struct.pack("<QQI4x", source, target, 100))
    quarter = np.float16(0.25)
    fused = f16.round_half(0.25 * x.astype(np.float64) - 1.5).view(np.float16)  # exact in f64
    expected = [fused, quarter * x + x, np.maximum(quarter, -x), np.abs(x) - quarter]
    y = space.view("y").view(np.float16).reshape(x.shape)
    for row in range(100):
        assert np.array_equal(y[row], expected[row % 4][row])


def test_narrow_types_and_wide_division(kernels: Module) -> None:
    space = AddressSpace(1 << 20)
    octets = RNG.integers(0, 256, 64, dtype=np.uint8)
    source = space.allocate("in", 64, data=octets.tobytes())
    quotient, rest = space.allocate("quotient", 128), space.allocate("rest", 64)
    for divisor in (-77777, 12345678901, 3):
        launch(kernels, "narrow", space, 2, 32, struct.pack("<QqQQ", source, divisor, quotient, rest))
        for index, octet in enumerate(octets.tolist()):
            value = octet * 1000003 - 100000000
            exact = abs(value) // abs(divisor) * (1 if (value < 0) == (divisor < 0) else -1)
            wrapped = (exact + (1 << 15)) % (1 << 16) - (1 << 15)
            assert space.view("quotient").view(np.int16)[index] == wrapped
            remainder = value - exact * divisor
            assert space.view("rest").view(np.int8)[index] == (remainder + 128) % 256 - 128


if __name__ == "__main__":
    from tests.corpus.compilers import nvcc_13_0

    (HERE / "kernels.ptx").write_text(nvcc_13_0().compile(HERE / "kernels.cu", ()))
