"""The type of an instruction's lowering."""

from __future__ import annotations

from collections.abc import Callable

from zluda_rr.lower.emitter import Emitter
from zluda_rr.ptx import Statement

# Appends the statement's IR to the emitter; the guard has been dealt with. Raises LoweringError.
Handler = Callable[[Emitter, Statement], None]
