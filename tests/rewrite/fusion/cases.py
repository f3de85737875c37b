"""Small kernels around products, run as they are and fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.lower.harness import LANES, Words, kernel
from tests.lower.test_mma import random_tiles
from zluda_rr.emulate.gfx12 import load_code_object, run_kernel
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.lower import compile_module
from zluda_rr.ptx import Module
from zluda_rr.resources import resource_dir
from zluda_rr.rewrite import FusionReport, FusionResult, Validator, fuse_module, report_fusion
from zluda_rr.rewrite.patterns import Rule

MMA = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"
INPUTS = 16
"""Words per lane: A 0..3, B of two n-tiles 4..7, C 8..11, anything 12..15."""
REGISTERS = """.reg .b32 %zero, %one, %x<4>, %y<4>, %z<8>, %u<8>, %v<4>, %w<4>, %ones;
    .reg .b16 %h<16>; .reg .pred %p<4>; .reg .b64 %wide<4>;"""

PRODUCE = f"""
    mov.u32 %zero, 0;
    mov.u32 %one, 1;
    {MMA} {{%x0, %x1}}, {{%a0, %a1, %a2, %a3}}, {{%a4, %a5}}, {{%zero, %zero}};
    {MMA} {{%x2, %x3}}, {{%a0, %a1, %a2, %a3}}, {{%a6, %a7}}, {{%zero, %zero}};
"""
"""Accumulators %x0, %x1 (first n-tile, row halves) and %x2, %x3."""


def convert(first: str, source: str, variants: Sequence[str] = ("", "", "", "")) -> str:
    """Requantise %source0.. into fragment words %first0, %first1 (row halves); `variants`: "" or ".relu" for each."""
    lines = [f"cvt.rn.satfinite{variants[i]}.e4m3x2.f16x2 %h{i}, %{source}{i};" for i in range(4)]
    return "\n".join((*lines, f"mov.b32 %{first}0, {{%h0, %h2}};", f"mov.b32 %{first}1, {{%h1, %h3}};\n"))


def consume(a: str = "u", c: str = "%a8, %a9", g: str = "%a10, %a11") -> str:
    """A product of %a0, %a1 (both words of the fragment) into %d0..%d3."""
    fragment = f"{{%{a}0, %{a}1, %{a}0, %{a}1}}"
    return f"""
    {MMA} {{%d0, %d1}}, {fragment}, {{%a4, %a5}}, {{{c}}};
    {MMA} {{%d2, %d3}}, {fragment}, {{%a6, %a7}}, {{{g}}};
"""


CHAIN = PRODUCE + convert("u", "x") + consume()


def module(text: str, outputs: int = 4) -> Module:
    """A kernel `probe` of statements over %a<16> that sets %d<outputs>."""
    return kernel(text, inputs=INPUTS, outputs=outputs, declarations=REGISTERS)


def words(warps: int = 4, seed: int = 3) -> Words:
    """Input words [32 * warps, 16]: finite e4m3 codes over the whole range, f16 C, and moderate f16 pairs."""
    generator = np.random.default_rng(seed)
    more = generator.normal(0, 2, (32 * warps, 8)).astype(np.float16).view(np.uint32)
    return np.concatenate([random_tiles(warps, seed), more], axis=1)


@dataclass(frozen=True)
class Outcome:
    """Outputs of the original and the fused kernel, and what fusion reported."""

    original: Words
    fused: Words
    result: FusionResult

    @property
    def equal(self) -> bool:
        return bool((self.original == self.fused).all())

    @property
    def report(self) -> FusionReport:
        return report_fusion(self.result)

    @property
    def reasons(self) -> set[str]:
        return {refused.reason for refused in self.report.refused}


def helpers() -> Path:
    return resource_dir("kernels") / "fragment_consumer.hip"


def execute(program: Module, data: Words, outputs: int, *, model: str = "exact", bodies: Sequence[Path] = ()) -> Words:
    """Output words [threads, outputs] of the compiled kernel."""
    memory = AddressSpace(capacity=1 << 22)
    source = memory.allocate("in", data.nbytes, data=np.ascontiguousarray(data).ravel().view(np.uint8), writable=False)
    target = memory.allocate("out", 4 * outputs * len(data))
    compiled = compile_module(program, "probe", bodies=bodies)
    parameters = np.array([source, target], np.uint64).tobytes()
    grid = (len(data) // LANES, 1, 1)
    run_kernel(load_code_object(compiled.code_object), "probe", grid, (LANES, 1, 1), parameters, memory, model)
    return memory.view("out").view(np.uint32).reshape(-1, outputs).copy()


def compare(
    text: str,
    *,
    outputs: int = 4,
    model: str = "exact",
    rules: Sequence[Rule] | None = None,
    body: Path | None = None,
    data: Words | None = None,
    validate: Validator | None = None,
) -> Outcome:
    """Run a kernel both ways on the same data."""
    program = module(text, outputs)
    result = fuse_module(program, "probe", rules, validate=validate)
    chosen = words() if data is None else data
    bodies = (body or helpers(),) if result.plan.steps else ()
    original = execute(program, chosen, outputs, model=model)
    return Outcome(original, execute(result.module, chosen, outputs, model=model, bodies=bodies), result)
