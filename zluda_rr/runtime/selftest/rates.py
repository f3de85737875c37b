"""Micro-benchmarks of the rates that the cost model assumes (kernels/selftest/rates.hip)."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from zluda_rr.runtime.cost import ASSUMED_RATES, CLOCK_HZ, SIMDS, AssumedRate
from zluda_rr.runtime.selftest.rig import Out, Rig
from zluda_rr.runtime.selftest.rows import Check, Row, Verdict
from zluda_rr.runtime.selftest.times import EMULATED_TIMES

__all__ = ["RATE_CHECKS", "slope_ms"]

PER_LOOP = 32
"""Instructions of the measured kind in one round of a kernel's loop."""
_BASE = "fma_f32"
_FULL = (1024, 256)  # blocks, threads: every SIMD has several waves
_LOOPS, _ROUNDS = 2000, 5
_CHAIN_THREADS = (32, 256, 1024)
_CHAIN_LOOPS = 40_000
_TOLERANCE = 0.1


def slope_ms(rig: Rig, kernel: str, blocks: int, threads: int, loops: int, rounds: int = _ROUNDS) -> float:
    """Milliseconds of `loops` rounds: the median difference between twice as many and as many, without the launch."""
    differences = []
    for _ in range(rounds):
        times = [_once(rig, kernel, blocks, threads, count) for count in (loops, 2 * loops)]
        differences.append(times[1] - times[0])
    return statistics.median(differences)


def _once(rig: Rig, kernel: str, blocks: int, threads: int, loops: int) -> float:
    with rig.prepared("rates", kernel, [loops, Out((1,), np.uint32)], blocks, threads) as (start, fetch):
        milliseconds = rig.device.runtime.timed(start)
        fetch()
    return milliseconds


def _runs(rig: Rig, kernels: tuple[str, ...]) -> Row:
    """On the emulated device: the kernels are executed once, their times are not told."""
    for kernel in kernels:
        rig.launch("rates", kernel, [1, Out((1,), np.uint32)], 1, 32)
    return Row(EMULATED_TIMES + "; the kernels ran", "a time", Verdict.SKIPPED)


def _rate(assumed: AssumedRate) -> Callable[[Rig], Row]:
    """Cycles of one instruction in a full device, by the time of a v_fma_f32, which counts as one."""

    def ask(rig: Rig) -> Row:
        if rig.is_emulated:
            return _runs(rig, (assumed.kernel,))
        base = slope_ms(rig, _BASE, *_FULL, _LOOPS)
        taken = slope_ms(rig, assumed.kernel, *_FULL, _LOOPS)
        cycles = taken / base
        expected = f"{assumed.cycles:g} cycles ({assumed.source})"
        return _judged(cycles, assumed.cycles, expected, {"cycles": cycles, "ms": taken, "base_ms": base})

    return ask


def _judged(cycles: float, assumed: float, expected: str, numbers: dict[str, Any]) -> Row:
    near = abs(cycles - assumed) <= _TOLERANCE * assumed
    result = f"{cycles:.2f} cycles, " + ("as assumed" if near else f"the model assumes {assumed:g}")
    return Row(result, expected, Verdict.INFO, (), {**numbers, "assumed": assumed, "as_assumed": near})


def _base(rig: Rig) -> Row:
    """SIMDs times clock, from the rate of v_fma_f32 in a full device."""
    if rig.is_emulated:
        return _runs(rig, (_BASE,))
    milliseconds = slope_ms(rig, _BASE, *_FULL, _LOOPS)
    waves = _FULL[0] * _FULL[1] // 32
    rate = waves * _LOOPS * PER_LOOP / (milliseconds * 1e-3)
    expected = f"{SIMDS * CLOCK_HZ / 1e9:.0f} G instructions a second ({SIMDS} SIMDs at {CLOCK_HZ / 1e9:.2f} GHz)"
    result = f"{rate / 1e9:.0f} G instructions a second"
    return Row(result, expected, Verdict.INFO, (), {"instructions_per_second": rate, "ms": milliseconds})


def _stalls(rig: Rig) -> Row:
    """A chain of dependent v_fma_f32, with and without s_delay_alu, in one workgroup of 1, 8 and 32 waves."""
    if rig.is_emulated:
        return _runs(rig, ("chain", "chain_hinted"))
    base = slope_ms(rig, _BASE, 1, 32, _CHAIN_LOOPS)
    details, numbers = [], {}
    for threads in _CHAIN_THREADS:
        plain, hinted = (slope_ms(rig, name, 1, threads, _CHAIN_LOOPS) / base for name in ("chain", "chain_hinted"))
        numbers[f"{threads // 32} waves"] = {"plain": plain, "hinted": hinted}
        details.append(f"{threads // 32} waves: {plain:.2f} cycles a step without the hint, {hinted:.2f} with it")
    many = numbers[f"{_CHAIN_THREADS[-1] // 32} waves"]
    gain = many["plain"] / many["hinted"]
    result = f"without the hint {gain:.2f} times as long at {_CHAIN_THREADS[-1] // 32} waves"
    expected = "5 cycles alone; without the hint no other wave fills the gap (Mesa, aco_insert_delay_alu.cpp)"
    return Row(result, expected, Verdict.INFO, tuple(details), numbers)


RATE_CHECKS = (
    Check("rate-base", "How many v_fma_f32 does the device issue?", _base),
    *(Check(f"rate-{rate.name}", f"How many cycles does {rate.what} take?", _rate(rate)) for rate in ASSUMED_RATES),
    Check("rate-stall", "What does an ALU dependence cost, with and without s_delay_alu?", _stalls),
)
