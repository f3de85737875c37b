"""Kernels that nvcc compiled and that are no layers of the family, and enc0: fused, they give the same bytes."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.corpus.build import SOURCES, compress
from tests.corpus.compilers import nvcc_13_0
from zluda_rr.emulate.gfx12 import Stats, load_code_object, run_kernel
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.lower import compile_module
from zluda_rr.ptx import Module, parse
from zluda_rr.rewrite import fuse_module, report_fusion

from .cases import helpers

SAMPLES = Path(__file__).with_name("samples")
BLOCKS = 3
MODELS = ("exact", "sequential", "pairwise")


@dataclass(frozen=True)
class Sample:
    """A compiled kernel `name(w, in, out)`: weights are bytes up to `halves`, then f16; in and out are per block."""

    name: str
    halves: int
    weights: int
    in_bytes: int
    out_bytes: int
    chains: tuple[tuple[int, int, str], ...]


MLP3 = Sample("mlp3", 12288, 12288 + 384, 2048, 4096, ((1, 2, "A"), (2, 3, "A")))
ATTENTION48 = Sample(
    "attention48", 3072, 3136 + 9 * 512, 1536, 3072, ((1, 3, "A"), (1, 3, "B"), (2, 4, "B"), (3, 4, "A"), (4, 5, "A"))
)
SAMPLE_KERNELS = (MLP3, ATTENTION48)
by_name = pytest.mark.parametrize("sample", SAMPLE_KERNELS, ids=lambda s: s.name)


def text_of(name: str) -> str:
    return lzma.decompress((SAMPLES / f"{name}.ptx.xz").read_bytes()).decode()


def data_of(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Weights and inputs in e4m3, and normal f16 after the weights.

    A token's first slot is 448 in one WMMA of a step and -448 in the other, against the same weight: what is left is of
    the size of f32's rounding, so that the accumulation models differ.
    """
    generator = np.random.default_rng(5)
    codes = np.array([c for c in range(256) if 0 < c & 127 < 0x40], np.uint8)
    weights = generator.choice(codes, sample.weights)
    weights.reshape(-1, 2, 4)[:, 1] = weights.reshape(-1, 2, 4)[:, 0]
    half_words = generator.normal(0, 1, (sample.weights - sample.halves) // 2).astype(np.float16)
    weights[sample.halves :] = half_words.view(np.uint8)
    inputs = generator.choice(codes, sample.in_bytes * BLOCKS)
    inputs.reshape(-1, 2, 16)[:, :, 0] = [0x7E, 0xFE]
    return weights, inputs


def run(sample: Sample, module: Module, fused: bool) -> tuple[list[np.ndarray], Stats]:
    """Output bytes under every model, and the last run's counts."""
    compiled = compile_module(module, sample.name, bodies=(helpers(),) if fused else ())
    code, outputs = load_code_object(compiled.code_object), []
    weights, inputs = data_of(sample)
    for model in MODELS:
        memory = AddressSpace(capacity=1 << 22)
        addresses = [
            memory.allocate("w", weights.nbytes, data=weights),
            memory.allocate("in", inputs.nbytes, data=inputs),
            memory.allocate("out", sample.out_bytes * BLOCKS),
        ]
        parameters = np.array(addresses, np.uint64).tobytes()
        stats = run_kernel(code, sample.name, (BLOCKS, 1, 1), (32, 1, 1), parameters, memory, model)
        outputs.append(memory.view("out").copy())
    return outputs, stats


@by_name
def test_the_sources_give_the_committed_modules(sample: Sample) -> None:
    text = nvcc_13_0().compile(SOURCES / f"{sample.name}.cu", ())
    assert text == text_of(sample.name)
    assert compress(text) == (SAMPLES / f"{sample.name}.ptx.xz").read_bytes()


@by_name
def test_fused_gives_the_same_bytes_for_fewer_instructions(sample: Sample) -> None:
    module = parse(text_of(sample.name), filename=f"{sample.name}.ptx")
    result = fuse_module(module, sample.name)
    before, stats_before = run(sample, module, False)
    after, stats_after = run(sample, result.module, True)
    assert all((a == b).all() for a, b in zip(before, after, strict=True))
    assert len(np.unique(before[0])) > 100
    assert stats_after.instructions_per_wave < 0.6 * stats_before.instructions_per_wave
    assert stats_after.by_mnemonic["ds_bpermute_b32"] < 0.25 * stats_before.by_mnemonic["ds_bpermute_b32"]
    chains = report_fusion(result).chains
    assert tuple((c.producer, c.consumer, c.operand) for c in chains) == sample.chains


def test_the_models_differ_on_this_data() -> None:
    """Otherwise equality under all three would say nothing. (The other kernel's requantisation hides it.)"""
    outputs, _ = run(ATTENTION48, parse(text_of("attention48")), False)
    assert any((outputs[0] != other).any() for other in outputs[1:])
