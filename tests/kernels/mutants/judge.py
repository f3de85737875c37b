"""Verdicts on mutants: compiled, run on the data most likely to tell, until something differs."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.kernels import edges, enc0
from tests.kernels.mutants.operators import Mutant
from zluda_rr import toolchain
from zluda_rr.emulate.gfx12 import EmulationError
from zluda_rr.emulate.memory import MemoryFault
from zluda_rr.resources import resource_dir
from zluda_rr.runtime.weights import WorkloadKind

SAME, REFUSED, RED, SLOWER, GREEN = "same code", "does not compile", "red", "slower", "green"
BLOCKS = 20_000  # straight runs of instructions; the unmutated body takes some hundreds
SLOWER_BY = {"inside": 1.005}  # of data on which every clamp can be left out; else 1.02
_PATHS = re.compile(r"^(?:; ModuleID|source_filename).*$", re.M)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`why` is the first case that differed, or the fault; `code` identifies the assembly."""

    outcome: str
    why: str = ""
    code: str = ""


@dataclass
class Judge:
    """Judges mutants of one body; holds the unmutated body, and every verdict by assembly, so that equal code is
    judged once."""

    body: enc0.Body
    folder: Path
    seen: dict[str, Verdict] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    original: str = ""

    @classmethod
    def of(cls, body: enc0.Body) -> Judge:
        """A judge with a copy of `kernels/` of its own."""
        folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        shutil.copytree(resource_dir("kernels"), folder / "kernels")
        judge = cls(body, folder / "kernels")
        ir = judge._ir()
        assembly = judge._assembly(ir)
        judge.original = assembly
        judge.seen[_key(ir)] = judge.seen[_key(assembly)] = Verdict(SAME)
        return judge

    def close(self) -> None:
        """Remove the copy."""
        shutil.rmtree(self.folder.parent, ignore_errors=True)

    def suites(self) -> Iterator[edges.Suite]:
        """The data, quickest and most telling first."""
        yield self._plain
        yield self._bounds
        yield self._single
        yield self._sequential
        yield self._inside

    @cached_property
    def _plain(self) -> edges.Suite:
        return edges.suite("plain", {**edges.plain(), **edges.edges(WorkloadKind.SMALL)})

    @cached_property
    def _bounds(self) -> edges.Suite:
        return edges.suite("bounds", edges.edges(WorkloadKind.BOUNDS))

    @cached_property
    def _single(self) -> edges.Suite:
        return edges.suite("single", edges.edges(WorkloadKind.SINGLE))

    @cached_property
    def _inside(self) -> edges.Suite:
        return edges.suite("inside", edges.inside())

    @cached_property
    def _sequential(self) -> edges.Suite:
        more = {f"{name}, seed 11": image for name, image in edges.plain(11).items()}
        return edges.suite("sequential", {**more, **edges.edges(WorkloadKind.SMALL, 2)}, "sequential", seed=4)

    def judge(self, mutant: Mutant) -> Verdict:
        """The verdict on one mutant."""
        path = self.folder / mutant.file
        source = path.read_text()
        try:
            path.write_text(mutant.apply(source))
            return self._verdict()
        except toolchain.ToolError as error:
            return Verdict(REFUSED, str(error)[:160])
        finally:
            path.write_text(source)

    def _verdict(self) -> Verdict:
        ir = self._ir()
        if _key(ir) in self.seen:
            return self.seen[_key(ir)]
        assembly = self._assembly(ir)
        key = _key(assembly)
        if key not in self.seen:
            self.seen[key] = self._tried(assembly, key)
        self.seen[_key(ir)] = self.seen[key]
        return self.seen[key]

    def _tried(self, assembly: str, key: str) -> Verdict:
        slower = ""
        for suite in self.suites():
            try:
                result, stats = self._run(assembly, suite)
            except (MemoryFault, EmulationError, AssertionError, ValueError) as fault:
                return Verdict(RED, f"{suite.name}: {type(fault).__name__}: {str(fault)[:80]}", key)
            if wrong := suite.differences(result):
                return Verdict(RED, f"{suite.name}: {wrong[0]} and {len(wrong) - 1} more", key)
            least = self._count(suite)
            if stats.instructions_per_wave > SLOWER_BY.get(suite.name, 1.02) * least:
                slower = slower or f"{suite.name}: {stats.instructions_per_wave:.0f} instructions for {least:.0f}"
        return Verdict(SLOWER, slower, key) if slower else Verdict(GREEN, "", key)

    def _count(self, suite: edges.Suite) -> float:
        """Instructions per wave of the unmutated body. RuntimeError where that is wrong already."""
        if suite.name not in self.counts:
            result, stats = self._run(self.original, suite)
            if wrong := suite.differences(result):
                raise RuntimeError(f"the unmutated body is wrong: {suite.name}, {wrong[0]}")
            self.counts[suite.name] = stats.instructions_per_wave
        return self.counts[suite.name]

    def _ir(self) -> str:
        text = enc0.KERNEL.format(
            source=self.body.source, body=self.body.function, lds_bytes=enc0.LENT_BYTES, lds_offset=0
        )
        ir = toolchain.compile_hip_text(text, includes=[self.folder], defines=dict(self.body.defines), flags=["-w"])
        return _PATHS.sub("", ir)

    def _assembly(self, ir: str) -> str:
        return toolchain.compile_ir_assembly([ir])

    def _run(self, assembly: str, suite: edges.Suite) -> tuple[enc0.Result, enc0.Stats]:
        compiled = toolchain.Compiled(toolchain.link_code_object(toolchain.assemble(assembly)), assembly)
        return enc0.run(compiled, suite.image, suite.codes, suite.model, extents=suite.extents, block_limit=BLOCKS)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
