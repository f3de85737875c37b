"""Runs original and fused kernels in the PTX oracle, the called functions as numpy models (model.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pytest

from tests.lower.harness import LANES, Words
from tests.lower.test_mma import random_tiles
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import program as oracle
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.emulate.ptx.compiler import Compiler, Op
from zluda_rr.emulate.ptx.integer import Handler
from zluda_rr.emulate.ptx.kinds import Mask, Spec
from zluda_rr.emulate.ptx.machine import Extern, ExternCall, Machine
from zluda_rr.ptx import Module, Statement

from . import model, products


@dataclass
class Flag:
    """The carry flag of every lane, [warps, 32]. A call leaves anything in it."""

    value: np.ndarray = field(default_factory=lambda: np.zeros((1, LANES), np.uint32))
    _anything: np.random.Generator = field(default_factory=lambda: np.random.default_rng(9))

    def spoil(self) -> None:
        self.value = self._anything.integers(0, 2, (1, LANES), np.uint32)


def _carrying(flag: Flag, plain: Handler | None, opcode: str) -> Handler:
    """Handler of add, sub and their carrying forms on 32 bits; `plain` takes what has no carry."""

    def handler(compiler: Compiler, statement: Statement, spec: Spec) -> Op:
        reads, writes = opcode in ("addc", "subc"), "cc" in statement.modifiers
        if plain is not None and not writes:
            return plain(compiler, statement, spec)
        assert statement.modifiers[-1] == "u32"
        target, *sources = statement.operands
        write = compiler.writer(target, "u32")
        first, second = (compiler.reader(source, "u32") for source in sources)

        def execute(machine: Machine, mask: Mask | None) -> None:
            a, b = first(machine.r).astype(np.int64), second(machine.r).astype(np.int64)
            old = np.broadcast_to(flag.value, machine.shape).astype(np.int64)
            given = old if reads else 0
            total = a + b + given if opcode.startswith("add") else a - b - given
            write(machine, (total & 0xFFFFFFFF).astype(np.uint32), mask)
            if writes:
                carry = (total >> 32 & 1).astype(np.uint32)
                flag.value = carry if mask is None else np.where(mask, carry, old).astype(np.uint32)

        return execute

    return handler


@contextmanager
def with_carry(flag: Flag) -> Iterator[None]:
    """The oracle with a carry flag, which it has not itself."""
    known: Mapping[str, Handler] = oracle.HANDLERS
    more = {name: _carrying(flag, known.get(name), name) for name in ("add", "sub", "addc", "subc")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "HANDLERS", MappingProxyType({**known, **more}))
        yield


def _functions(flag: Flag) -> Mapping[str, Extern]:
    """products.FUNCTIONS in numpy."""

    def mix(call: ExternCall) -> Words:
        flag.spoil()
        lane = np.arange(LANES, dtype=np.uint32)[None, :]
        return call.arguments[0] ^ (lane * np.uint32(201326603))

    def even(call: ExternCall) -> Words:
        flag.spoil()
        return call.arguments[0] ^ np.uint32(1006648320)

    return {products.MIX: mix, products.MIX_EVEN: even}


@dataclass(frozen=True)
class Accepted:
    """A validator's consent."""

    equal: bool = True
    reason: str | None = None


def consent(original: Module, fused: Module, entry: str) -> Accepted:
    """The validator that accepts everything: then what runs is what fusion made."""
    return Accepted()


def inputs(warps: int, seed: int) -> Words:
    """Input words [32 * warps, 16]: finite e4m3 codes over the whole range, f16 C, and moderate f16 pairs."""
    generator = np.random.default_rng(seed)
    more = generator.normal(0, 2, (LANES * warps, 8)).astype(np.float16).view(np.uint32)
    return np.concatenate([random_tiles(warps, seed), more], axis=1)


def run(module: Module, entry: str, data: Words, accumulation: str, parameter: int = 0x3C012E07) -> Words:
    """Output words [threads, OUTPUTS] of one kernel."""
    memory = AddressSpace(capacity=1 << 20)
    source = memory.allocate("in", data.nbytes, data=np.ascontiguousarray(data).ravel().view(np.uint8), writable=False)
    target = memory.allocate("out", 4 * products.OUTPUTS * len(data))
    buffer = np.array([source, target], np.uint64).tobytes() + np.array([parameter], np.uint32).tobytes()
    flag = Flag()
    functions = {**model.externs(accumulation, flag.spoil), **_functions(flag)}
    with with_carry(flag):
        run_entry(
            module,
            entry,
            grid=(len(data) // LANES, 1, 1),
            block=(LANES, 1, 1),
            params=buffer,
            memory=memory,
            model=accumulation,
            externs=functions,
        )
    return memory.view("out").view(np.uint32).reshape(-1, products.OUTPUTS).copy()
