"""Compiled blocks: straight runs of instructions as flat lists of steps.

A block ends at a branch, at a place that a branch leads to, and where EXEC or MODE may change, since either
selects other steps. Blocks are cached per address, MODE and variant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import length_hint

from zluda_rr.emulate.gfx12.bind import Binder, Departure, Exit
from zluda_rr.emulate.gfx12.dispatch import builder_of
from zluda_rr.emulate.gfx12.execute_control import IGNORED, following, is_branch
from zluda_rr.emulate.gfx12.fetch import Step
from zluda_rr.emulate.gfx12.inst import Inst, Kind, Operand
from zluda_rr.emulate.gfx12.machine import Machine, ProgramFault, Variant
from zluda_rr.emulate.gfx12.table import Build

_LONGEST = 2048
"""Instructions per block: bounds what a run out of the code would compile."""
_SECOND_SLOT = 32
"""First work array of the second half of a VOPD."""


@dataclass(slots=True)
class Block:
    """A compiled run. `owners[i]` is the instruction of step i."""

    steps: tuple[Step, ...]
    owners: tuple[Inst, ...]
    leave: Exit
    addresses: tuple[int, ...]
    executed: int = 0
    """Waves that ran it."""

    def run(self) -> None:
        """Run every step; an exception says at which instruction it happened."""
        progress = iter(self.steps)
        try:
            for step in progress:
                step()
        except Exception as error:
            done = len(self.steps) - length_hint(progress)
            error.add_note(f"at {place_of(self.owners[done - 1])}")
            raise


def place_of(inst: Inst) -> str:
    """Text and address of an instruction for messages."""
    return f"{inst.address:#x}: {inst.text}"


class Compiler:
    """Compiles blocks of one program for one machine."""

    def __init__(self, machine: Machine, program: Mapping[int, Inst], table: Mapping[str, Build]) -> None:
        self._machine = machine
        self._program = program
        self._table = table
        self._blocks: dict[tuple[int, int, Variant], Block] = {}
        self._leaders = frozenset(inst.target for inst in program.values() if is_branch(inst))

    def take_counts(self) -> Counter[int]:
        """Executions of the instruction at each address, summed over waves, since the last call."""
        total: Counter[int] = Counter()
        for block in self._blocks.values():
            if block.executed:
                for address in block.addresses:
                    total[address] += block.executed
            block.executed = 0
        return total

    def block(self, address: int, mode: int, variant: Variant) -> Block:
        """The block that starts at `address`; the machine's MODE must be `mode`."""
        key = (address, mode, variant)
        found = self._blocks.get(key)
        if found is None:
            found = self._blocks[key] = self._compile(address, mode, variant)
        return found

    def _compile(self, address: int, mode: int, variant: Variant) -> Block:
        steps: list[Step] = []
        owners: list[Inst] = []
        addresses: list[int] = []
        leave: Exit | None = None
        at = address
        for _ in range(_LONGEST):
            inst = self._program.get(at)
            if inst is None:
                raise ProgramFault(f"no instruction at {at:#x}")
            addresses.append(at)
            at = following(inst)
            if inst.mnemonic not in IGNORED:
                binder = self._bind(inst, variant)
                fresh = [*binder.prepare, *binder.act]
                steps += fresh
                owners += [inst] * len(fresh)
                leave = binder.exit
                if leave is not None or binder.ends_block:
                    break
            if at in self._leaders:
                break
        return Block(tuple(steps), tuple(owners), leave or _fall_through(at, mode), tuple(addresses))

    def _bind(self, inst: Inst, variant: Variant) -> Binder:
        try:
            if inst.pair is not None:
                return self._bind_dual(inst, inst.pair, variant)
            binder = Binder(self._machine, inst, variant)
            builder_of(self._table, inst)(binder)
        except Exception as error:
            error.add_note(f"at {place_of(inst)}")
            raise
        return binder

    def _bind_dual(self, first: Inst, second: Inst, variant: Variant) -> Binder:
        """VOPD: both halves read all sources before either writes."""
        halves = []
        for number, half in enumerate((first, second)):
            plain = replace(half, mnemonic=half.mnemonic.replace("v_dual_", "v_"), pair=None)
            binder = Binder(self._machine, plain, variant, slot=_SECOND_SLOT * number)
            binder.snapshot = number == 1 and _reads(second, first.dst[0])
            builder_of(self._table, plain)(binder)
            halves.append(binder)
        one, two = halves
        one.prepare += two.prepare
        one.act += two.act
        return one


def _fall_through(address: int, mode: int) -> Exit:
    departures = [Departure(address, mode, None)]
    return lambda: departures


def _reads(inst: Inst, register: Operand) -> bool:
    """Whether an instruction (its destination counted, for accumulating ones) reads a VGPR."""
    return any(op.kind is Kind.VGPR and op.index == register.index for op in (*inst.src, *inst.dst))
