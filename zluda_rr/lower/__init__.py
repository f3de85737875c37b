"""Lowering of the PTX subset to gfx1201 machine code, the translated baseline (ZLUDA's way of doing it)."""

from zluda_rr.lower.compile import CompiledKernel, compile_module
from zluda_rr.lower.kernel import lower_module, refused_statements
from zluda_rr.lower.mma import pair_statements
from zluda_rr.lower.problem import LoweringError

__all__ = ["CompiledKernel", "LoweringError", "compile_module", "lower_module", "pair_statements", "refused_statements"]
