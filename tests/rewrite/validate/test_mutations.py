"""Mutants of correctly fused kernels are rejected, or shown to be equal by other means.

An accepted mutant must have one of these reasons: its result is not used, or the words it exchanges do not matter (both
by a slice of the kernel, `slices`), or it gives the same bytes in the emulator on random data (a register with the same
value).
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.rewrite.fusion.cases import execute, helpers, words
from zluda_rr.ptx import Module
from zluda_rr.rewrite import fuse_module
from zluda_rr.rewrite.validate import validate_fusion

from .kernels import CORPUS, SAMPLES, SMALL, read
from .mutants import CHANGES, Mutant, Mutator
from .slices import Slice


@functools.cache
def pair(name: str) -> tuple[Module, Module, str]:
    """(original, fused, entry)."""
    if name in SMALL:
        original = SMALL[name]
    else:
        path = CORPUS if name.startswith("enc") else SAMPLES
        original = read(path / f"{name}.ptx.xz")
    entry = original.entries[0].name
    fused = fuse_module(original, entry).module
    assert validate_fusion(original, fused, entry).equal
    return original, fused, entry


def gives_the_same_bytes(original: Module, mutant: Mutant) -> bool:
    """On random data, in the gfx12 emulator."""
    data = words(2)
    outputs = [execute(module, data, 4, bodies=(helpers(),)) for module in (original, mutant.module)]
    return bool(np.array_equal(*outputs))


def survivors(name: str, count: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """(number of mutants by kind, accepted ones without a reason)."""
    original, fused, entry = pair(name)
    used = Slice(fused, entry)
    kinds: dict[str, int] = {}
    left = []
    for mutant in Mutator(fused, entry, seed).mutants(count):
        kinds[mutant.kind] = kinds.get(mutant.kind, 0) + 1
        if not validate_fusion(original, mutant.module, entry).equal:
            continue
        if used.reason(mutant.statement, mutant.after) is None and not (
            name in SMALL and gives_the_same_bytes(original, mutant)
        ):
            left.append(str(mutant))
    return kinds, left


def test_no_mutant_of_a_small_kernel_passes() -> None:
    """Over 200, of all kinds."""
    total: dict[str, int] = {}
    for name in SMALL:
        kinds, left = survivors(name, 75, seed=1)
        assert left == []
        for kind, number in kinds.items():
            total[kind] = total.get(kind, 0) + number
    assert sum(total.values()) > 200
    assert set(total) == set(CHANGES)


def test_most_mutants_are_no_equal_ones() -> None:
    """The search is for what validation finds: nearly all mutants are rejected by it, not excused by the slice."""
    original, fused, entry = pair("chain")
    verdicts = [validate_fusion(original, m.module, entry).equal for m in Mutator(fused, entry, 5).mutants(40)]
    assert verdicts.count(True) < 8


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 5))
@pytest.mark.parametrize(
    ("name", "count"), [*((n, 500) for n in SMALL), ("mlp3", 150), ("attention48", 150), ("enc0", 60)]
)
def test_no_mutant_passes(name: str, count: int, seed: int) -> None:
    kinds, left = survivors(name, count, seed)
    assert left == []
    assert sum(kinds.values()) > count // 2
