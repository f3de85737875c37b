"""Random kernels around products (products.py): what fusion makes of them is the same, or they stay as they were."""

from __future__ import annotations

import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.lower.harness import Words
from zluda_rr.emulate.gfx12 import load_code_object, run_kernel
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.errors import UserError
from zluda_rr.lower import compile_module
from zluda_rr.ptx import Module, linearise, parse, print_module
from zluda_rr.rewrite import fuse_entries, fusion_rules, report_fusion
from zluda_rr.rewrite.patterns import Rule
from zluda_rr.rewrite.validate import validate_fusion
from zluda_rr.toolchain import ptxas

from . import products
from .cases import helpers
from .execution import Accepted, inputs, run

MODELS = ("exact", "sequential", "pairwise")
PARTS, SOAK_PARTS = 10, 40
KERNELS, SOAK_KERNELS = 500, 20_000


@cache
def rules() -> tuple[Rule, ...]:
    return fusion_rules()


def check(seed: int, counts: Counter[str]) -> None:
    """Fuse every kernel of a random module, whatever the validator says, and compare each with the original, in the
    oracle: what fusion makes has to be right without its help, and it has to accept nearly all of that.
    """
    sample = products.random_module(seed)
    original = parse(sample.text, filename=f"seed {seed}")

    def ask(before: Module, after: Module, entry: str) -> Accepted:
        counts["shown"] += validate_fusion(before, after, entry).equal
        return Accepted()

    fused, results = fuse_entries(original, rules=rules(), validate=ask)
    data = inputs(2, seed % 7)
    for result in results:
        counts["kernels"] += 1
        if not result.fused:
            assert result.left
            continue
        counts["fused"] += 1
        counts["chains"] += bool(report_fusion(result).chains)
        counts.update(sample.features)
        model = MODELS[seed % 3]
        before, after = (run(module, result.entry, data, model) for module in (original, fused))
        assert (before == after).all(), f"seed {seed}: {result.entry}"
        counts["alive"] += bool((before != 0).any())


def check_part(first: int, kernels: int) -> Counter[str]:
    """`kernels` kernels or a few more, from consecutive seeds."""
    counts: Counter[str] = Counter()
    seed = first
    while counts["kernels"] < kernels:
        check(seed, counts)
        seed += 1
    return counts


@pytest.mark.parametrize("part", range(PARTS))
def test_fused_is_never_wrong(part: int) -> None:
    counts = check_part(10_000 * part, KERNELS // PARTS)
    assert counts["fused"] > 0.5 * counts["kernels"]
    assert counts["chains"] > 0.2 * counts["kernels"]
    assert counts["alive"] > 0.9 * counts["kernels"]
    assert counts["shown"] >= 0.9 * counts["fused"]
    assert min(counts[name] for name in ("negated", "shared", "swapped", "loop", "several entries", "flagged")) > 0


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_PARTS))
def test_fused_is_never_wrong_in_20_000_kernels(part: int) -> None:
    counts = check_part(1_000_000 + 10_000 * part, SOAK_KERNELS // SOAK_PARTS)
    print(counts["kernels"], "kernels,", counts["fused"], "fused,", counts["shown"], "shown equal")


def emulated(module: Module, entry: str, seed: int, bodies: tuple[Path, ...]) -> Words:
    """Output words of the compiled kernel."""
    data = inputs(2, seed % 7)
    memory = AddressSpace(capacity=1 << 20)
    source = memory.allocate("in", data.nbytes, data=data.ravel().view("u1"), writable=False)
    target = memory.allocate("out", 4 * products.OUTPUTS * len(data))
    buffer = source.to_bytes(8, "little") + target.to_bytes(8, "little") + (0x3C012E07).to_bytes(4, "little")
    code = load_code_object(compile_module(module, entry, bodies=bodies).code_object)
    run_kernel(code, entry, (2, 1, 1), (32, 1, 1), buffer, memory, MODELS[seed % 3])
    return memory.view("out").view("u4").copy()


def emulate(seeds: range, kernels: int) -> None:
    """The same through the compiler, the helpers' own code and the machine-code emulator, where they can be lowered."""
    done = 0
    for seed in seeds:
        sample = products.random_module(seed)
        original = parse(sample.text, filename=f"seed {seed}")
        fused, results = fuse_entries(original, rules=rules())
        for result in results:
            if not result.fused or done == kernels or "$" in result.entry:
                continue
            try:
                before = emulated(original, result.entry, seed, ())
            except UserError:
                continue
            done += 1
            after = emulated(fused, result.entry, seed, (helpers(),))
            assert (before == after).all(), f"seed {seed}: {result.entry}"
    assert done == kernels


def test_the_compiled_kernels_are_equal_too() -> None:
    emulate(range(500_000, 500_100), 8)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_many_compiled_kernels_are_equal_too(part: int) -> None:
    emulate(range(510_000 + 10_000 * part, 520_000 + 10_000 * part), 50)


def test_the_kernels_are_ptx_before_and_after(tmp_path: Path) -> None:
    """ptxas takes both; the parser has every operand of the builder as it was built."""
    for seed in range(8):
        sample = products.random_module(seed)
        original = parse(sample.text)
        assert print_module(original) == sample.text
        for function in original.entries:
            assert all(statement.known for statement in linearise(function, original).statements)
        for text in (sample.text, print_module(fuse_entries(original, rules=rules())[0])):
            (tmp_path / "module.ptx").write_text(text)
            command = [str(ptxas()), "-c", "-O0", "-arch=sm_89", "module.ptx", "-o", "module.cubin"]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"seed {seed}: {done.stderr}"
