"""The issue-cost model: an estimate of kernel time from executed instructions (engine.md §5). Never a measurement."""

from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class AssumedRate:
    """Issue cycles that the model gives an instruction, as `zluda-rr selftest` measures them on a card.

    `kernel` is the micro-benchmark in kernels/selftest/rates.hip; `cycles` count v_fma_f32 as one.
    """

    name: str
    kernel: str
    what: str
    cycles: float
    source: str


_CALCULATOR = "ROCm amd_matrix_instruction_calculator, rdna4: 8 cycles, coexec False"
_SPEED_MODEL = "LLVM GFX12SpeedModel"
_UNKNOWN = "not documented; the model counts it as any VALU instruction"

ASSUMED_RATES = (
    AssumedRate("wmma", "wmma_fp8", "an FP8 WMMA of 16x16x16", ISSUE_CYCLES["wmma"], _CALCULATOR),
    AssumedRate("wmma-and-fma", "wmma_and_fma", "an FP8 WMMA and eight v_fma_f32", 16, _CALCULATOR),
    AssumedRate("cvt-fp8", "cvt_pk_fp8_f32", "v_cvt_pk_fp8_f32", ISSUE_CYCLES["valu"], _UNKNOWN),
    AssumedRate("cvt-f16", "cvt_f32_f16", "v_cvt_f32_f16", ISSUE_CYCLES["valu"], _UNKNOWN),
    AssumedRate("fma-mix", "fma_mix_f32", "v_fma_mix_f32", ISSUE_CYCLES["valu"], _UNKNOWN),
    AssumedRate("fma-mixlo", "fma_mixlo_f16", "v_fma_mixlo_f16", ISSUE_CYCLES["valu"], _UNKNOWN),
    AssumedRate("pk-fma", "pk_fma_f16", "v_pk_fma_f16", ISSUE_CYCLES["valu"], _SPEED_MODEL),
    AssumedRate("vopd", "dual_fmac_f32", "a VOPD pair of v_fmac_f32", ISSUE_CYCLES["valu"], "ROCm profiler pages"),
    AssumedRate("rcp", "rcp_f32", "v_rcp_f32", ISSUE_CYCLES["transcendental"], _SPEED_MODEL),
    AssumedRate("exp", "exp_f32", "v_exp_f32", ISSUE_CYCLES["transcendental"], _SPEED_MODEL),
    AssumedRate(
        "lds-b128", "ds_load_b128", "ds_load_b128", ISSUE_CYCLES["lds"], "issue only; no bandwidth is modelled"
    ),
)
