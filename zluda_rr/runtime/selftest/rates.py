"""Micro-benchmarks of the rates that the cost model assumes (kernels/selftest/rates.hip)."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np

from zluda_rr.runtime.cost import ASSUMED_RATES, CLOCK_HZ, SIMDS, AssumedRate
from zluda_rr.runtime.selftest.rig import Out, Rig
from zluda_rr.runtime.selftest.rows import Check, Row, Verdict
from zluda_rr.runtime.selftest.times import EMULATED_TIMES

__all__ = ["RATE_CHECKS"]

PER_LOOP = 32
"""Instructions of the measured kind in one round of a kernel's loop."""
_BASE = "fma_f32"
_FULL = (1024, 256)  # blocks, threads: every SIMD has several waves
_LOOPS, _ROUNDS = 2000, 5
_CHAIN_THREADS = (32, 256, 1024)
_CHAIN_LOOPS = 40_000
_TOLERANCE = 0.1


def _slope_ms(rig: Rig, kernel: str, blocks: int, threads: int, loops: int) -> float:
    """Milliseconds of `loops` rounds: the difference between twice as many and as many, without the launch."""
    shorter, longer = (_once(rig, kernel, blocks, threads, count) for count in (loops, 2 * loops))
    return longer - shorter


def _cycles(rig: Rig, kernel: str, blocks: int, threads: int, loops: int, base: tuple[int, int]) -> list[float]:
    """Cycles of one instruction by the time of v_fma_f32 in `base` (blocks, threads), which counts as one.

    Both are measured in turn, so that a clock that rises meanwhile changes both; the first pair only warms up.
    """
    pairs = [
        (_slope_ms(rig, kernel, blocks, threads, loops), _slope_ms(rig, _BASE, *base, loops))
        for _ in range(_ROUNDS + 1)
    ]
    return [taken / one for taken, one in pairs[1:]]


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
        found = _cycles(rig, assumed.kernel, *_FULL, _LOOPS, _FULL)
        expected = f"{assumed.cycles:g} cycles ({assumed.source})"
        return _judged(found, assumed.cycles, expected)

    return ask


def _judged(found: Sequence[float], assumed: float, expected: str) -> Row:
    cycles = statistics.median(found)
    near = abs(cycles - assumed) <= _TOLERANCE * assumed
    result = f"{cycles:.2f} cycles, " + ("as assumed" if near else f"the model assumes {assumed:g}")
    numbers = {"cycles": cycles, "least": min(found), "most": max(found), "assumed": assumed, "as_assumed": near}
    return Row(result, expected, Verdict.INFO, (), numbers)


def _base(rig: Rig) -> Row:
    """SIMDs times clock, from the rate of v_fma_f32 in a full device."""
    if rig.is_emulated:
        return _runs(rig, (_BASE,))
    milliseconds = statistics.median(_slope_ms(rig, _BASE, *_FULL, _LOOPS) for _ in range(_ROUNDS + 1))
    waves = _FULL[0] * _FULL[1] // 32
    rate = waves * _LOOPS * PER_LOOP / (milliseconds * 1e-3)
    expected = f"{SIMDS * CLOCK_HZ / 1e9:.0f} G instructions a second ({SIMDS} SIMDs at {CLOCK_HZ / 1e9:.2f} GHz)"
    result = f"{rate / 1e9:.0f} G instructions a second"
    return Row(result, expected, Verdict.INFO, (), {"instructions_per_second": rate, "ms": milliseconds})


def _stalls(rig: Rig) -> Row:
    """A chain of dependent v_fma_f32, with and without s_delay_alu, in one workgroup of 1, 8 and 32 waves."""
    if rig.is_emulated:
        return _runs(rig, ("chain", "chain_hinted"))
    details, numbers = [], {}
    for threads in _CHAIN_THREADS:
        plain, hinted = (
            statistics.median(_cycles(rig, name, 1, threads, _CHAIN_LOOPS, (1, 32)))
            for name in ("chain", "chain_hinted")
        )
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
