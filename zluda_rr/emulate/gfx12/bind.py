"""Results: binds a formula to the registers it reads and writes, as steps without arguments.

The plain case (all lanes, a numpy ufunc, no modifiers) becomes one `functools.partial` that writes straight
into the register file. Everything else computes a fresh array and commits it under the masks of the variant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.gfx12.fetch import DTYPES, Fetch, Step
from zluda_rr.emulate.gfx12.floats import clamp, default_nan, flush_f16, flush_f32, round_f16
from zluda_rr.emulate.gfx12.inst import Kind, Operand, Special
from zluda_rr.emulate.gfx12.machine import LANES, SCC_ROW, SINK_ROW, Machine, Variant

Array = NDArray[Any]
Commit = Callable[[Any], None]
Formula = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Departure:
    """Where waves go at the end of a block: address, MODE bits, and which (None: all that are active).
    Parked ones go on only once their workgroup's barrier is complete."""

    address: int
    mode: int
    waves: Array | None
    parked: bool = False


Exit = Callable[[], list[Departure]]

_OMOD = {1: 2.0, 2: 4.0, 3: 0.5}


class Binder(Fetch):
    """Collects the steps of one instruction: first all of `prepare`, then all of `act`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.act: list[Step] = []
        self.ends_block = False
        """Set when the lane masks may change."""
        self.exit: Exit | None = None
        """Set when the program counter or MODE may change."""

    # Vector results

    def emit(self, letter: str, formula: Formula, *args: Array, target: Operand | None = None) -> None:
        """Write `formula(*args)` to the destination, per lane; `b` packs booleans into a lane mask."""
        op = self.inst.dst[0] if target is None else target
        if letter in "fdh" and isinstance(formula, np.ufunc):
            formula = self.guarded(formula)
        finish = self._finish(letter)
        if self._is_plain(letter, op) and not finish:
            out = self.machine.vgpr[op.index].view(DTYPES[letter])
            if isinstance(formula, np.ufunc):
                self.act.append(partial(formula, *args, out=out))
            else:
                self.act.append(_plain(formula, args, out))
            return
        commit = self.committer(letter, op)
        compute = _chain(formula, finish)
        self.act.append(lambda: commit(compute(*args)))

    def emit_many(self, letters: str, formula: Formula, *args: Array) -> None:
        """Write the tuple `formula(*args)` to the destinations, all computed before any is written."""
        commits = [self.committer(letter, op) for letter, op in zip(letters, self.inst.dst, strict=False)]

        def act() -> None:
            for commit, value in zip(commits, formula(*args), strict=True):
                commit(value)

        self.act.append(act)

    def _is_plain(self, letter: str, op: Operand) -> bool:
        full = self.variant is Variant.FULL and self.write_mask is None
        return full and op.kind is Kind.VGPR and letter in "uif"

    def guarded(self, formula: Formula) -> Formula:
        """The formula with the hardware's sign for NaNs that it makes itself.

        numpy calls the machine's `invalid` hook when an operation was invalid, so the usual case pays one test.
        """
        invalid = self.machine.invalid

        def checked(*args: Array) -> Array:
            result: Array = formula(*args)
            if invalid:
                invalid.clear()
                return default_nan(result, *args)
            return result

        return checked

    def _finish(self, letter: str) -> list[Callable[[Array], Array]]:
        """Output modifiers and roundings between a formula and the register."""
        if letter not in "fhd":
            return []
        steps: list[Callable[[Array], Array]] = []
        mode, mods = self.machine.mode, self.inst.mods
        keep = (mode.denorm_32 if letter == "f" else mode.denorm_16_64) & 2
        if letter == "h":
            steps.append(partial(round_f16, mode=mode.round_16_64, overflow_clamps=mode.fp16_ovfl))
        if not keep and letter in "fh":
            steps.append(flush_f32 if letter == "f" else _flush_half)
            if mods.get("omod"):  # the hardware ignores it where denormal outputs are kept
                steps.append(partial(_scaled, factor=_OMOD[mods["omod"]]))
        if mods.get("clamp"):
            steps.append(clamp)
        return steps

    def committer(self, letter: str, op: Operand) -> Commit:
        """A function that writes an array to a destination under the masks of the variant."""
        if letter == "b":
            return self._flag_committer(op)
        if op.kind is not Kind.VGPR:
            return self.scalar_committer(letter, op)
        if letter in "qld":
            low, high = (self.machine.vgpr[op.index + i] for i in range(2))
            return _split(self._masked(low), self._masked(high))
        register = self.machine.vgpr[op.index]
        if letter in "wsh":
            halves = register.view("u2").reshape(*register.shape, 2)
            return self._masked(halves[..., op.half or 0])
        return self._masked(register)

    def _masked(self, out: Array) -> Commit:
        """Commit to an unsigned view of a register; values of any type of that size."""
        word = out.dtype
        if self.variant is Variant.FULL and self.write_mask is None:

            def write(value: Array) -> None:
                out[...] = value.view(word)

            return write
        machine, flags = self.machine, self.write_mask
        mask = machine.lane_mask if out.itemsize == 4 else machine.thin_lane_mask

        def blend(value: Array) -> None:
            change = np.bitwise_xor(value.view(word), out)
            if flags is not None:
                np.multiply(change, flags, out=change)
            else:
                np.bitwise_and(change, mask, out=change)
            np.bitwise_xor(out, change, out=out)

        return blend

    def _flag_committer(self, op: Operand) -> Commit:
        machine = self.machine
        enabled = machine.lanes if self.write_mask is None else self.write_mask
        kept = np.empty((machine.waves, LANES), dtype=np.bool_)
        store = self.scalar_committer("u", op)

        def commit(flags: Array) -> None:
            np.logical_and(flags, enabled, out=kept)
            store(np.packbits(kept, axis=-1, bitorder="little").view(np.uint32)[:, 0])

        return commit

    # Scalar results

    def emit_scalar(self, letters: str, formula: Formula, *args: Array) -> None:
        """Write per-wave values. `formula` returns one value for one letter, else a tuple; the letter `c` is
        SCC, any other the next destination."""
        commits: list[Commit] = []
        for letter in letters:
            if letter == "c":
                commits.append(_row_committer(self.machine, SCC_ROW, self.variant))
            else:
                commits.append(self.scalar_committer(letter, self.inst.dst[len(commits)]))
        if len(commits) == 1:
            commit = commits[0]
            self.act.append(lambda: commit(formula(*args)))
            return

        def act() -> None:
            for commit, value in zip(commits, formula(*args), strict=True):
                commit(value)

        self.act.append(act)

    def scalar_committer(self, letter: str, op: Operand) -> Commit:
        """A function that writes one value per wave to a scalar register or pair."""
        machine, variant = self.machine, self.variant
        row = self.row(op)
        if row == Special.NULL:
            row = SINK_ROW
        if letter in "qld":
            pair = (row, row if row == SINK_ROW else row + 1)
            commit = _split(*(_row_committer(machine, r, variant) for r in pair))
        elif letter == "h":
            commit = _as_half(_row_committer(machine, row, variant), machine)
        else:
            commit = _row_committer(machine, row, variant)
        if row != Special.EXEC_LO:
            return commit
        self.ends_block = True

        def commit_exec(value: Array) -> None:
            commit(value)
            machine.refresh_lanes()

        return commit_exec


def _plain(formula: Formula, args: Sequence[Array], out: Array) -> Step:
    def step() -> None:
        out[...] = formula(*args)

    return step


def _chain(formula: Formula, finish: Sequence[Callable[[Array], Array]]) -> Formula:
    if not finish:
        return formula

    def compute(*args: Array) -> Array:
        value: Array = formula(*args)
        for change in finish:
            value = change(value)
        return value

    return compute


def _split(low: Commit, high: Commit) -> Commit:
    def commit(value: Array) -> None:
        bits = np.asarray(value).view(np.uint64)
        low((bits & np.uint64(0xFFFF_FFFF)).astype(np.uint32))
        high((bits >> np.uint64(32)).astype(np.uint32))

    return commit


def _row_committer(machine: Machine, row: int, variant: Variant) -> Commit:
    """Writes 32-bit values (or booleans, for SCC) of any dtype to a row of the scalar file."""
    out = machine.sgpr[row]
    active = machine.active

    def bits(value: Array) -> Array:
        value = np.asarray(value)
        return value if value.dtype == np.bool_ else value.view(np.uint32)

    if variant is Variant.WAVES:
        return lambda value: np.copyto(out, bits(value), where=active)
    return lambda value: np.copyto(out, bits(value))


def _as_half(commit: Commit, machine: Machine) -> Commit:
    mode = machine.mode

    def round_and_commit(value: Array) -> None:
        half = round_f16(value, mode.round_16_64, mode.fp16_ovfl)
        commit(np.asarray(half).view(np.uint16).astype(np.uint32))

    return round_and_commit


def _flush_half(half: Array) -> Array:
    return flush_f16(half.astype(np.float32)).astype(np.float16)


def _scaled(value: Array, factor: float) -> Array:
    """Output multiplier; it turns -0 into +0."""
    return np.asarray(value * value.dtype.type(factor) + value.dtype.type(0))
