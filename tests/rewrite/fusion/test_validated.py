"""The one way in: no kernel is fused without a validator's consent, and every outcome is told, kernel by kernel."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from zluda_rr.cli import main
from zluda_rr.errors import UserError
from zluda_rr.hook.options import Settings, read_settings
from zluda_rr.hook.transform import Wanted, transform_text
from zluda_rr.ptx import Module, parse, print_module
from zluda_rr.rewrite import fuse_entries, fuse_module, fusion

from .cases import CHAIN, module

PLAIN = print_module(module(CHAIN))
KERNEL = PLAIN[PLAIN.index(".visible") :]


@dataclass(frozen=True)
class Answer:
    equal: bool
    reason: str | None


class Judge:
    """Refuses the kernels of a list."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.asked: list[str] = []

    def __call__(self, original: Module, fused: Module, entry: str) -> Answer:
        assert original is not fused
        assert original.function(entry) is not None
        self.asked.append(entry)
        return Answer(entry not in self.refused, "the word at out+4" if entry in self.refused else None)


def several(*names: str) -> Module:
    head = PLAIN.removesuffix(KERNEL)
    return parse(head + "".join(KERNEL.replace("probe", name) for name in names) + ".visible .entry none() { ret; }\n")


def test_one_refused_kernel_does_not_stop_the_others() -> None:
    judge = Judge("second")
    program = several("first", "second", "third")
    fused, results = fuse_entries(program, validate=judge)
    assert judge.asked == ["first", "second", "third"]
    assert [result.left for result in results] == [
        None,
        "not shown equal: the word at out+4",
        None,
        "it has no products",
    ]
    texts = {f.name: print_module(Module("", (f,), "")) for f in fused.entries}
    assert "zrr_fc_product0" in texts["first"]
    assert "zrr_" not in texts["second"]
    assert "zrr_fc_product0" in texts["third"]


def test_the_default_validator_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Judge("probe")
    monkeypatch.setattr(fusion, "validate_fusion", judge)
    program = module(CHAIN)
    result = fuse_module(program, "probe")
    assert judge.asked == ["probe"]
    assert result.module is program
    assert result.body_sources == ()


def test_a_report_needs_no_validator() -> None:
    judge = Judge()
    assert fuse_module(module(CHAIN), "probe", write=False, validate=judge).left is None
    assert judge.asked == []


def test_only_entries() -> None:
    program = parse(".version 8.4\n.target sm_89\n.func f() { ret; }\n.extern .func g();\n")
    for name in ("f", "g", "h"):
        with pytest.raises(UserError, match=f"no entry {name}"):
            fuse_module(program, name)


def test_an_unknown_instruction_leaves_the_kernel() -> None:
    result = fuse_module(module(CHAIN + "frobnicate.b32 %w0, %w1;\n"), "probe")
    assert result.left is not None
    assert result.left.endswith("frobnicate.b32 is not in the instruction table")


def rewrite(path: Path, *options: str) -> str:
    arguments = ["rewrite", str(path), "-o", str(path.with_suffix(".out")), "--fusion", *options]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of three kernels and an empty one; the second is refused."""
    monkeypatch.setattr(fusion, "validate_fusion", Judge("second"))
    path = tmp_path / "module.ptx"
    path.write_text(print_module(several("first", "second")))
    return path


def test_rewrite_tells_every_outcome(sample: Path) -> None:
    output = rewrite(sample)
    assert "kernel    first\nfusion    2 products in WMMA order, 1 chains\n" in output
    assert "kernel    second\nfusion    left as it was: not shown equal: the word at out+4\n" in output
    assert "kernel    none\nfusion    left as it was: it has no products\n" in output
    assert max(map(len, output.splitlines())) <= 100
    assert "zrr_fc_product0" in sample.with_suffix(".out").read_text()


def test_rewrite_tells_every_outcome_as_json(sample: Path) -> None:
    found = json.loads(rewrite(sample, "--json"))
    assert (found["layer"], found["cuts"]) == (None, [])
    first, second = found["fusion"]["first"], found["fusion"]["second"]
    assert (first["fused"], first["left"], first["products"]) == (True, None, 2)
    assert (second["fused"], second["left"]) == (False, "not shown equal: the word at out+4")
    assert (second["products"], second["chains"]) == (0, [])
    assert first["seconds"] > 0
    assert first["validation_seconds"] >= 0


def test_a_module_that_is_left_keeps_its_text(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "validate_fusion", Judge("first", "second"))
    rewrite(sample)
    assert sample.with_suffix(".out").read_text() == sample.read_text()


FAMILY = "cuda_dldn_engine_swin_{}_kernel"


def settings() -> Settings:
    return read_settings()


def test_the_hooks_note_has_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [FAMILY.format(name) for name in ("one", "two")]
    monkeypatch.setattr(fusion, "validate_fusion", Judge(names[1]))
    entry = transform_text(print_module(several(*names)), Wanted.of(settings()))
    assert entry.kind.name == "REPLACED"
    assert "one (fusion)" in entry.note
    reason = "two refused: no rule for it; fusion left it as it was: not shown equal: the word at out+4"
    assert reason in entry.note
    monkeypatch.setattr(fusion, "validate_fusion", Judge(*names))
    entry = transform_text(print_module(several(*names)), Wanted.of(settings()))
    assert entry.kind.name == "UNCHANGED"
    assert reason in entry.note


def test_a_long_reason_is_cut() -> None:
    result = fuse_module(module(CHAIN), "probe", validate=lambda *_: Answer(False, "term\n" * 1000))
    assert result.left is not None
    assert len(result.left) < 300
    assert "\n" not in result.left
