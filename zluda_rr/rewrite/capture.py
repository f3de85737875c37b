"""Instrumentation for `verify`: every phase's accumulators, stored to a buffer at the end of the phase.

The kernel gets a second parameter, `.param .u64 zrr_capture`, at the next multiple of 8 after the first. Lane l of
block b writes word w of a phase at `capture + b*stride + offset(phase) + 4*(32*w + l)` bytes, b = ctaid.y*nctaid.x
+ ctaid.x, and `w = (2*m + half)*n_tiles + n`: the same order whether the phase was replaced or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zluda_rr.analysis import Phase
from zluda_rr.ptx import Module, add_parameter

from .layer_cut import LayerPlan
from .match import LayerMatch
from .plan import CutPlan, fragment_register
from .splice import Splice

LANES = 32
PARAMETER = "zrr_capture"


@dataclass(frozen=True, slots=True)
class CapturedPhase:
    """Where one phase's words are, in bytes from a block's start. `shape` is (m_tiles, 2 halves, n_tiles, 32 lanes)."""

    index: int
    offset: int
    nbytes: int
    shape: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class CaptureLayout:
    """The capture buffer: `stride` bytes per block."""

    stride: int
    phases: tuple[CapturedPhase, ...]


def capture_layout(phases: Iterable[Phase]) -> CaptureLayout:
    """Phases one after another."""
    offset = 0
    placed = []
    for phase in phases:
        shape = (phase.m_tiles, 2, phase.n_tiles, LANES)
        nbytes = 4 * 2 * phase.m_tiles * phase.n_tiles * LANES
        placed.append(CapturedPhase(phase.index, offset, nbytes, shape))
        offset += nbytes
    return CaptureLayout(offset, tuple(placed))


def capture_edits(
    match: LayerMatch, every: Iterable[CutPlan | LayerPlan], splice: Splice, layout: CaptureLayout
) -> Splice:
    """Add the stores of all phases to the edits of the cuts. A layer's body stores its phases itself."""
    every = tuple(every)
    plans = [plan for plan in every if isinstance(plan, CutPlan)]
    inside = {index for plan in every if isinstance(plan, LayerPlan) for index in plan.phases}
    replaced = {plan.phase.index: plan for plan in plans}
    moved_by = {number: plan for plan in plans for number in plan.moved}
    before, after = dict(splice.insert_before), dict(splice.insert_after)
    for row, place in zip(match.rows, layout.phases, strict=True):
        assert row.found is not None
        phase = row.found.phase
        if phase.index in inside:
            continue
        plan = replaced.get(phase.index)
        if plan is not None:
            before[plan.last] += "".join(text for _, text in _stores(match, phase, place))
            continue
        for number, text in _stores(match, phase, place):
            mover = moved_by.get(number)
            if mover is not None:  # the tile is now computed behind the calls
                before[mover.last] += text
            else:
                after[number] = after.get(number, "") + text
    return Splice(splice.delete, before, after, splice.at_start + _PROLOGUE.format(stride=layout.stride))


def _stores(match: LayerMatch, phase: Phase, place: CapturedPhase) -> Iterable[tuple[int, str]]:
    """(statement that makes the tile, its two stores)."""
    for (m, n), chain in phase.chains.items():
        number = chain[-1].statement
        lines = []
        for half in (0, 1):
            register = fragment_register(match.kernel, number, 0, half)
            word = (2 * m + half) * phase.n_tiles + n
            lines.append(f"\tst.global.b32 [%zrr_capture_at+{place.offset + 4 * LANES * word}], {register};\n")
        yield number, "".join(lines)


_PROLOGUE = """\
	.reg .b32 %zrr_capture_x, %zrr_capture_y;
	.reg .b64 %zrr_capture_at, %zrr_capture_step;
	mov.u32 %zrr_capture_x, %nctaid.x;
	mov.u32 %zrr_capture_y, %ctaid.y;
	mul.lo.u32 %zrr_capture_x, %zrr_capture_x, %zrr_capture_y;
	mov.u32 %zrr_capture_y, %ctaid.x;
	add.u32 %zrr_capture_x, %zrr_capture_x, %zrr_capture_y;
	ld.param.u64 %zrr_capture_at, [zrr_capture];
	cvta.to.global.u64 %zrr_capture_at, %zrr_capture_at;
	mul.wide.u32 %zrr_capture_step, %zrr_capture_x, {stride};
	add.u64 %zrr_capture_at, %zrr_capture_at, %zrr_capture_step;
	mov.u32 %zrr_capture_x, %laneid;
	mul.wide.u32 %zrr_capture_step, %zrr_capture_x, 4;
	add.u64 %zrr_capture_at, %zrr_capture_at, %zrr_capture_step;
"""


def add_capture_parameter(module: Module, function: str) -> Module:
    """The module with `.param .u64 zrr_capture` as the entry's last parameter."""
    return add_parameter(module, function, f".param .u64 {PARAMETER}")
