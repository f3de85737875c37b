"""The layer cut: accepted in every build, its text, and every obligation that can fail."""

import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.rewrite.conftest import corpus
from tests.rewrite.variants import rename_registers, shuffle
from zluda_rr.contract import LayerContract, LayerCutRule
from zluda_rr.image import read_ptx
from zluda_rr.ptx import Module, edit_function, parse, print_module
from zluda_rr.rewrite import LayerMatch, LayerPlan, RewriteResult, rewrite_module
from zluda_rr.toolchain import ptxas

BUILDS = ("enc0", "enc0-nvcc13.5", "enc0-nvrtc12.9", "enc0-reordered", "enc0-parambase")


@pytest.fixture(scope="module")
def build(contract: LayerContract) -> Callable[[str], RewriteResult]:
    return cache(lambda name: rewrite_module(parse(read_ptx(corpus(name))), contract, ("layer",)))


@pytest.fixture(scope="module")
def result(build: Callable[[str], RewriteResult]) -> RewriteResult:
    return build("enc0")


def layer_plan(result: RewriteResult) -> LayerPlan:
    (plan,) = result.plans
    assert isinstance(plan, LayerPlan)
    return plan


def assert_applied(result: RewriteResult) -> None:
    assert result.refused is None
    assert [o.holds for o in result.reports[0].obligations] == [True] * 7
    assert all(o.detail for o in result.reports[0].obligations)
    text = print_module(result.module)
    assert "mma.sync" not in text
    assert text.count("call.uni (zrr_result), zrr_swin_enc0,") == 1
    assert text.count("ld.shared.b32") == 16
    assert "st.global" not in text.split("call.uni")[1]


@pytest.mark.parametrize("name", BUILDS)
def test_every_build(name: str, build: Callable[[str], RewriteResult]) -> None:
    assert_applied(build(name))


def test_all_registers_renamed(enc0: Module, contract: LayerContract) -> None:
    assert_applied(rewrite_module(rename_registers(enc0, contract.entry), contract, ("layer",)))


@pytest.mark.parametrize("seed", [0, 3])
def test_independent_statements_shuffled(seed: int, enc0: Module, contract: LayerContract) -> None:
    """Products of the first phase stand before the last fragment is loaded, and E22's code among the last ones."""
    shuffled = rewrite_module(shuffle(enc0, contract.entry, seed), contract, ("layer",))
    assert_applied(shuffled)
    assert layer_plan(shuffled).region.kept


def test_prologue_and_last_epilogue_stay(enc0: Module, result: RewriteResult) -> None:
    plan = layer_plan(result)
    before, after = print_module(enc0), print_module(result.module)
    lines, new = before.splitlines(), after.splitlines()
    assert new[-400:] == lines[-400:]
    assert after.count("sust.b.2d") == before.count("sust.b.2d")
    assert plan.last - plan.first > 14_000
    assert len(new) < 5_000 < len(lines) / 8


def test_arguments(result: RewriteResult) -> None:
    """24 fragment words, 4 seeds, three pointers read from the parameters, extents, origin, scratch."""
    text = print_module(result.module)
    declared = next(f for f in result.module.functions if f.name == "zrr_swin_enc0")
    assert [p.type for p in declared.params] == ["b32"] * 28 + ["b64"] * 3 + ["b32"] * 5
    passed = re.findall(r"st\.param\.b(?:32|64) \[zrr_param(\d+)\], (\S+);", text)
    assert [int(i) for i, _ in passed] == list(range(36))
    names = [register for _, register in passed]
    assert names[28:] == ["%zrr_pointer"] * 3 + ["%zrr_ex", "%zrr_ey", "%zrr_x0", "%zrr_y0", "%zrr_base"]
    loads = re.findall(r"ld\.param\.u64 %zrr_pointer, \[\S+\+(\d+)\];", text)
    assert loads == ["40", "48", "56"]


def test_results_lie_by_token(result: RewriteResult) -> None:
    plan = layer_plan(result)
    assert sorted(o.offset for o in plan.outputs) == [
        512 * m + 256 * half + 16 * n for m in range(4) for half in (0, 1) for n in (0, 1)
    ]
    assert all(o.live for o in plan.outputs)


def test_the_staged_body(enc0: Module, contract: LayerContract) -> None:
    staged = rewrite_module(enc0, contract, ("layer",), body="staged")
    assert staged.body_sources == ("swin_enc0_staged.hip",)
    assert "call.uni (zrr_result), zrr_swin_enc0_staged," in print_module(staged.module)


@pytest.mark.parametrize("capture", [False, True])
def test_ptxas_accepts_it(capture: bool, enc0: Module, contract: LayerContract, tmp_path: Path) -> None:
    module = rewrite_module(enc0, contract, ("layer",), capture=capture).module
    source = tmp_path / "module.ptx"
    source.write_text(print_module(module))
    command = [str(ptxas()), "-c", "-arch=sm_89", str(source), "-o", str(tmp_path / "module.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


def test_overlapping_cuts_are_refused(enc0: Module, contract: LayerContract) -> None:
    from zluda_rr.errors import UserError

    with pytest.raises(UserError, match="cuts layer and phase8 overlap"):
        rewrite_module(enc0, contract, ("phase8", "layer"))


# ------------------------------------------------------------------------------------------------------------- refusals


def assert_refused(module: Module, contract: LayerContract, number: int, *words: str) -> None:
    result = rewrite_module(module, contract, ("layer",))
    assert result.module is module
    assert result.refused is not None
    assert f"obligation {number} (" in result.refused
    for word in words:
        assert word in result.refused


def replaced(text: str, old: str, new: str, *, count: int = 1) -> Module:
    assert text.count(old) >= count, old
    return parse(text.replace(old, new, count))


def test_1_a_branch_into_the_cut(
    enc0: Module, contract: LayerContract, result: RewriteResult, match: LayerMatch
) -> None:
    first, third = layer_plan(result).first, match.rows[2].found
    assert third is not None
    module = edit_function(
        enc0,
        contract.entry,
        insert_before={
            first: "\tsetp.eq.s32 %skip, %tid.x, 40;\n\t@%skip bra $inside;\n",
            third.phase.first: "$inside:\n",
        },
        at_start="\t.reg .pred %skip;\n",
    )
    assert_refused(module, contract, 1)


def test_a_branch_around_the_cut_is_none_of_its_business(
    enc0: Module, contract: LayerContract, result: RewriteResult
) -> None:
    plan = layer_plan(result)
    module = edit_function(
        enc0,
        contract.entry,
        insert_before={plan.first: "\tsetp.eq.s32 %skip, %tid.x, 40;\n\t@%skip bra $over;\n"},
        insert_after={plan.last: "$over:\n"},
        at_start="\t.reg .pred %skip;\n",
    )
    around = rewrite_module(module, contract, ("layer",))
    assert_applied(around)
    text = print_module(around.module)
    assert text.index("bra $over") < text.index("call.uni") < text.index("ld.shared.b32") < text.index("$over:")


def test_1_a_return_inside(enc0: Module, contract: LayerContract, result: RewriteResult) -> None:
    lines = "\tsetp.eq.s32 %skip, %tid.x, 40;\n\t@%skip ret;\n"
    middle = layer_plan(result).first + 700
    module = edit_function(enc0, contract.entry, insert_before={middle: lines}, at_start="\t.reg .pred %skip;\n")
    assert_refused(module, contract, 1)


def test_2_an_inner_accumulator_read_behind_the_cut(
    enc0: Module, contract: LayerContract, result: RewriteResult, match: LayerMatch
) -> None:
    found = match.rows[19].found
    assert found is not None
    register = found.phase.d(0, 0, 0).register
    module = edit_function(
        enc0,
        contract.entry,
        insert_after={
            layer_plan(result).last: f"\txor.b32 %leak, {register}, %laneid;\n\tst.shared.b32 [%leak], %leak;\n"
        },
        at_start="\t.reg .b32 %leak;\n",
    )
    assert_refused(module, contract, 2, register)


@pytest.mark.parametrize("tile", [0, 1])
def test_3_a_fragment_that_changes(
    tile: int, enc0: Module, contract: LayerContract, result: RewriteResult, match: LayerMatch
) -> None:
    """A word changed before its first use is another word, which is passed as well; between uses it is two words."""
    first = match.rows[0].found
    assert first is not None
    register = layer_plan(result).region.arguments[0].register
    reader = first.phase.chains[0, tile][0].statement
    module = edit_function(
        enc0, contract.entry, insert_before={reader: f"\t@%late mov.b32 {register}, 0;\n"},
        at_start="\t.reg .pred %late;\n\tsetp.eq.s32 %late, %ctaid.x, 2;\n",
    )  # fmt: skip
    refused = rewrite_module(module, contract, ("layer",)).refused
    assert (refused is None) == (tile == 0), refused


def test_4_a_load_from_elsewhere(enc0: Module, contract: LayerContract, result: RewriteResult) -> None:
    lines = f"\tld.param.u64 %other, [{contract.entry}_param_0+48];\n\tld.global.u32 %word, [%other];\n"
    middle = layer_plan(result).first + 700
    module = edit_function(
        enc0, contract.entry, insert_before={middle: lines}, at_start="\t.reg .b64 %other;\n\t.reg .b32 %word;\n"
    )
    assert_refused(module, contract, 4, "plane_arena, which the cut does not name")


def test_5_another_store(enc0: Module, contract: LayerContract, result: RewriteResult) -> None:
    lines = f"\tld.param.u64 %other, [{contract.entry}_param_0+40];\n\tst.global.u32 [%other], %laneid;\n"
    middle = layer_plan(result).first + 700
    module = edit_function(enc0, contract.entry, insert_before={middle: lines}, at_start="\t.reg .b64 %other;\n")
    assert_refused(module, contract, 5, "writes what the cut does not name")


@pytest.mark.parametrize(
    ("pattern", "new", "words"),
    [
        (
            r"(setp\.ge\.s32\s+%p\d+, %r\d+, %r\d+;)",
            lambda m: m[0].replace(".ge.", ".gt."),
            "plane_arena: plane 0, m-tile 0, half 0, word 0: guard",
        ),
        (
            r"(setp\.ge\.u32\s+%p\d+, %r\d+, %r\d+;)",
            lambda m: m[0].replace(".ge.", ".gt."),
            "merged_planes: plane 0, m-tile 0, half 0, word 0: guard",
        ),
        (
            r"(mul\.wide\.s32\s+%rd\d+, %r\d+, )4;",
            lambda m: f"{m[1]}8;",
            "plane_arena: plane 0, m-tile 0, half 0, word 0: address",
        ),
    ],
    ids=["guard of E20", "guard of E21", "address of E20"],
)
def test_5_a_changed_store(
    pattern: str, new: Callable[[re.Match[str]], str], words: str, enc0_text: str, contract: LayerContract
) -> None:
    start = enc0_text.rindex("movmatrix")
    text, count = re.subn(pattern, new, enc0_text[start:], count=1)
    assert count == 1
    assert_refused(parse(enc0_text[:start] + text), contract, 5, words)


def test_6_lent_bytes_read_behind_the_cut(enc0: Module, contract: LayerContract, result: RewriteResult) -> None:
    plan = layer_plan(result)
    lines = (
        f"\tmov.u32 %again, {plan.scratch};\n\tld.shared.u32 %again, [%again+16];\n\tst.local.u32 [%again], %again;\n"
    )
    module = edit_function(enc0, contract.entry, insert_after={plan.last: lines}, at_start="\t.reg .b32 %again;\n")
    assert_refused(module, contract, 6, "still reads lent bytes")


@pytest.mark.parametrize(
    ("old", "new", "phase", "words"),
    [
        ("0f3DA60DD6;", "0f3DA70DD6;", 14, "0x2d30, found 0x2d38"),  # activation: its quadratic coefficient
        ("0f3C8CCB50;", "0f3C8CDB50;", 6, "0x2466, found 0x2467"),  # softmax: scale of the scores
        ("0d3F20000000000000;", "0d3F10000000000000;", 3, "0x800, found 0x400"),  # norm: 2^-13
    ],
    ids=["activation", "softmax", "norm"],
)
def test_7_a_changed_constant(
    old: str, new: str, phase: int, words: str, enc0_text: str, contract: LayerContract
) -> None:
    assert_refused(
        replaced(enc0_text, old, new), contract, 7, f"phase {phase}: A of m-tile 0, k step 0", f"expected {words}"
    )


def after_phase_2(text: str) -> int:
    """Where E2 begins."""
    at = -1
    for _ in range(48):
        at = text.index("mma.sync", at + 1)
    return at


def edited(text: str, pattern: str, new: Callable[[re.Match[str]], str]) -> Module:
    start = after_phase_2(text)
    changed, count = re.subn(pattern, new, text[start:], count=1, flags=re.S)
    assert count == 1
    return parse(text[:start] + changed)


def test_7_another_order_of_additions(enc0_text: str, contract: LayerContract) -> None:
    """(x0 + x2) + (x1 + x3) becomes (x0 + x3) + (x1 + x2): the operands of two neighbouring sums change places."""
    add = r"add\.f16x2 (%r\d+),(%r\d+),(%r\d+);"
    pattern = rf"{add}(.{{1,80}}?){add}"
    module = edited(
        enc0_text, pattern, lambda m: f"add.f16x2 {m[1]},{m[2]},{m[7]};{m[4]}add.f16x2 {m[5]},{m[6]},{m[3]};"
    )
    assert_refused(module, contract, 7, "phase 3: A of m-tile 0, k step 0")


def test_7_relu_dropped(enc0_text: str, contract: LayerContract) -> None:
    module = parse(enc0_text.replace("cvt.rn.satfinite.relu.", "cvt.rn.satfinite."))
    assert_refused(module, contract, 7, "phase 2: A of m-tile 0, k step 0, word 0: expected e4m3x2.relu(")


def test_7_another_order_of_multiplications(enc0_text: str, contract: LayerContract) -> None:
    """x * (inv * gain) becomes (x * inv) * gain."""
    start = enc0_text.index("rsqrt.approx")
    products = re.compile(
        r"mul\.f16 (%rs\d+),(%rs\d+),(%rs\d+);(.{1,120}?mul\.f16 .{1,120}?)mul\.f16 (%rs\d+),(%rs\d+),\1;", re.S
    )
    changed, count = products.subn(
        lambda m: f"mul.f16 {m[1]},{m[2]},{m[6]};{m[4]}mul.f16 {m[5]},{m[3]},{m[1]};", enc0_text[start:], count=1
    )
    assert count == 1
    assert_refused(parse(enc0_text[:start] + changed), contract, 7, "phase 3: A of m-tile 0, k step 0")


def test_7_another_shuffle_distance(enc0_text: str, contract: LayerContract) -> None:
    module = edited(enc0_text, r"(shfl\.sync\.bfly\.b32 %r\d+,%r\d+,)%r\d+,", lambda m: f"{m[1]}4,")
    assert_refused(module, contract, 7, "phase 3: A of m-tile 0, k step 0")


def test_default_cut(contract: LayerContract) -> None:
    assert contract.default_cuts == ("layer",)
    rule = contract.cut("enc0.layer")
    assert isinstance(rule, LayerCutRule)
    assert [body.name for body in rule.bodies] == ["direct", "staged"]
