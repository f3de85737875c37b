"""The text of a cut: only its lines change, every register goes where the contract says, ptxas accepts it."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.rewrite.conftest import Captured, Others
from zluda_rr.contract import LayerContract
from zluda_rr.ptx import Module, linearise, print_module
from zluda_rr.rewrite import CutPlan, LayerMatch, RewriteResult, rewrite_module
from zluda_rr.rewrite.plan import fragment_register
from zluda_rr.toolchain import ptxas


def assemble(module: Module, folder: Path) -> None:
    source = folder / "module.ptx"
    source.write_text(print_module(module))
    command = [str(ptxas()), "-c", "-arch=sm_89", str(source), "-o", str(folder / "module.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


def test_ptxas_accepts_the_rewritten_module(rewritten: RewriteResult, tmp_path: Path) -> None:
    assemble(rewritten.module, tmp_path)


@pytest.mark.parametrize("cuts", [(), ("phase8",)])
def test_ptxas_accepts_capture(cuts: tuple[str, ...], captured: Captured, tmp_path: Path) -> None:
    assemble(captured(cuts).module, tmp_path)


def test_ptxas_accepts_another_compilers_module(others: Others, tmp_path: Path) -> None:
    assemble(others("enc0-nvrtc12.9").module, tmp_path)


def test_ptxas_accepts_moved_statements(shuffled: RewriteResult, tmp_path: Path) -> None:
    assert shuffled.plans[0].moved
    assemble(shuffled.module, tmp_path)


def test_only_the_cut_changes(enc0: Module, rewritten: RewriteResult, plan: CutPlan) -> None:
    """Without the declaration the texts agree up to the first replaced mma and from behind the last one."""
    before = print_module(enc0).splitlines()
    text = re.sub(r"\.extern \.func.*?\n;\n", "", print_module(rewritten.module), count=1, flags=re.DOTALL)
    after = text.splitlines()
    lines = {s.number: s.line for s in linearise(enc0.entries[0], enc0).statements}
    same = next(i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    behind = next(i for i, (a, b) in enumerate(zip(reversed(before), reversed(after), strict=False)) if a != b)
    assert lines[plan.first] - 3 <= same <= lines[plan.first]
    assert lines[plan.last] <= len(before) - behind <= lines[plan.last] + 6


def test_the_extern_is_declared_once_before_the_entry(rewritten: RewriteResult) -> None:
    text = print_module(rewritten.module)
    assert text.count(".extern .func  (.param .b32 zrr_swin_phase_result) zrr_swin_phase") == 1
    assert text.index(".extern .func") < text.index(".entry")
    declared = next(f for f in rewritten.module.functions if f.name == "zrr_swin_phase")
    assert [p.type for p in declared.params] == ["b32"] * 21
    assert [p.type for p in declared.returns] == ["b32"]


def test_arguments_and_results_are_those_of_the_mma(rewritten: RewriteResult, match: LayerMatch, plan: CutPlan) -> None:
    """For every replaced mma: its A, B and D registers stand at the places of its m-tile and n-tile, and C is 0."""
    replaced = set(plan.region)
    for (m, n), (mma,) in plan.phase.chains.items():
        replaced.discard(mma.statement)
        call = plan.calls[m // 3]
        words = [
            [fragment_register(match.kernel, mma.statement, o, w) for w in range(c)] for o, c in enumerate((2, 4, 2))
        ]
        assert list(call.arguments[4 * (m % 3) : 4 * (m % 3) + 4]) == words[1]
        assert list(call.arguments[12 + 2 * n : 14 + 2 * n]) == words[2]
        outputs = {o.half: o for o in call.outputs if (o.m, o.n) == (m, n)}
        for half in (0, 1):
            assert outputs[half].register == words[0][half]
            assert outputs[half].offset == 128 * ((m % 3) * 8 + half * 4 + n)
        assert all(match.kernel.values.of(value).is_zero for value in mma.c)
    assert not replaced


def test_printed_calls_follow_the_plan(rewritten: RewriteResult, plan: CutPlan) -> None:
    text = print_module(rewritten.module)
    blocks = re.findall(r"// zluda-rr: phase8.*?\n\t\}\n", text, re.DOTALL)
    assert len(blocks) == 2
    for block, call in zip(blocks, plan.calls, strict=True):
        passed = re.findall(r"st\.param\.b32 \[zrr_param(\d+)\], (\S+);", block)
        assert [int(i) for i, _ in passed] == list(range(21))
        assert [register for _, register in passed] == [*call.arguments[:20], "%zrr_base"]
        assert f"mov.u32 %zrr_base, {plan.scratch};" in block
        loads = re.findall(r"ld\.shared\.b32 (\S+), \[%zrr_image(?:\+(\d+))?\];", block)
        assert [(register, int(offset or 0)) for register, offset in loads] == [
            (o.register, o.offset) for o in call.outputs
        ]
        # the results are reloaded before the next call may overwrite them
        assert block.index("call.uni") < block.index("ld.shared")
        assert block.rindex("ld.shared") < len(block) - 4


def test_result(rewritten: RewriteResult, plan: CutPlan) -> None:
    assert rewritten.region == (plan.first, plan.last)
    assert rewritten.body_sources == ("swin_phase.hip",)
    assert "may be applied" in rewritten.text()
    assert max(map(len, rewritten.text().splitlines())) <= 100
    assert rewritten.json()["equal"] is True


def test_no_cut_changes_nothing(enc0: Module, contract: LayerContract) -> None:
    result = rewrite_module(enc0, contract, ())
    assert result.module is enc0
    assert (result.refused, result.region, result.plans) == (None, (0, 0), ())


def test_qualified_cut_name(enc0: Module, contract: LayerContract) -> None:
    assert rewrite_module(enc0, contract, ("enc0.phase8", "enc0.phase8")).plans[0].rule.name == "phase8"
