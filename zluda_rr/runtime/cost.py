"""The issue-cost model: an estimate of kernel time from executed instructions (engine.md §5). Never a measurement."""

from collections.abc import Mapping

# Issue cycles per instruction of a class; scalar, wait and branch instructions overlap with vector work.
ISSUE_CYCLES: Mapping[str, int] = {
    "valu": 1,
    "transcendental": 4,
    "wmma": 8,
    "lds": 1,
    "global": 1,
    "scratch": 1,
    "salu": 0,
    "branch": 0,
    "wait": 0,
    "other": 0,
}
SIMDS = 128  # RX 9070 XT: 64 compute units of two
CLOCK_HZ = 2.97e9
REFERENCE_WAVES = 14_973  # enc0 at 1280 x 736 tokens, shift 4 (rr-details.md 26)


def estimated_ms(by_class: Mapping[str, float], waves: int = REFERENCE_WAVES) -> float:
    """Estimated milliseconds of one launch of `waves` waves whose mean per-wave counts are `by_class`."""
    cycles = sum(ISSUE_CYCLES[name] * count for name, count in by_class.items())
    return cycles * waves / (SIMDS * CLOCK_HZ) * 1e3


# Measured on an RX 9070 XT, in one launch per frame of the reference size: the kernel as ZLUDA translates it (seed 000
# §7). The only measured number; everything else here is an estimate.
MEASURED_TRANSLATED_MS: Mapping[str, float] = {"enc0": 3.879}
