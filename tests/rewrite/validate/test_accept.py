"""Modules that fusion gets right are accepted, for less time than fusion needs."""

from __future__ import annotations

import gc
import time

import pytest

from zluda_rr.ptx import Module
from zluda_rr.rewrite import fuse_module
from zluda_rr.rewrite.validate import Verdict, validate_fusion

from .kernels import CORPUS, SAMPLES, SMALL, read


def fused_and_timed(module: Module) -> tuple[Verdict, float, float]:
    """(verdict, seconds of fusion, seconds of validation); processor time."""
    entry = module.entries[0].name
    gc.collect()
    times = [time.process_time()]
    fused = fuse_module(module, entry).module
    times.append(time.process_time())
    assert fused is not module
    verdict = validate_fusion(module, fused, entry)
    times.append(time.process_time())
    return verdict, times[1] - times[0], times[2] - times[1]


@pytest.mark.parametrize(("name", "effects"), [("mlp3", 32), ("attention48", 24)])
def test_samples(name: str, effects: int) -> None:
    verdict, *_ = fused_and_timed(read(SAMPLES / f"{name}.ptx.xz"))
    assert verdict.equal, verdict.reason
    assert (verdict.effects, verdict.branches) == (effects, 1)


def test_enc0_for_less_than_the_fusion_costs() -> None:
    """83 stores, barriers and other effects in 111 blocks. The better time of two: the machine may be busy."""
    module = read(CORPUS / "enc0.ptx.xz")
    runs = [fused_and_timed(module) for _ in range(2)]
    verdict = runs[0][0]
    assert verdict.equal, verdict.reason
    assert (verdict.blocks, verdict.effects, verdict.branches, verdict.values) == (111, 83, 69, 36)
    assert min(validation for *_, validation in runs) < 1.15 * min(fusion for _, fusion, _ in runs)


@pytest.mark.soak
def test_enc1() -> None:
    verdict, *_ = fused_and_timed(read(CORPUS / "enc1.ptx.xz"))
    assert verdict.equal, verdict.reason
    assert (verdict.blocks, verdict.effects) == (143, 66)


@pytest.mark.parametrize("name", SMALL)
def test_control_flow(name: str) -> None:
    verdict, *_ = fused_and_timed(SMALL[name])
    assert verdict.equal, verdict.reason


@pytest.mark.parametrize("name", SMALL)
def test_a_module_equals_itself(name: str) -> None:
    assert validate_fusion(SMALL[name], SMALL[name], "probe").equal
