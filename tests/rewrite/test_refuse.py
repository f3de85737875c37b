"""Every obligation can fail, and the refusal names it."""

from dataclasses import replace

import pytest

from zluda_rr.contract import LayerContract
from zluda_rr.errors import UserError
from zluda_rr.ptx import Module, edit_function, parse, print_module
from zluda_rr.rewrite import CutPlan, LayerMatch, RewriteResult, rewrite_module
from zluda_rr.rewrite.plan import fragment_register


@pytest.fixture
def entry(contract: LayerContract) -> str:
    return contract.entry


def refused(module: Module, contract: LayerContract) -> RewriteResult:
    result = rewrite_module(module, contract, ("phase8",))
    assert result.refused is not None
    assert result.module is module
    assert result.plans == ()
    return result


def assert_refused(module: Module, contract: LayerContract, number: int, *words: str) -> None:
    result = refused(module, contract)
    assert result.refused is not None
    assert f"obligation {number} (" in result.refused
    for word in words:
        assert word in result.refused
    failed = [o.number for o in result.reports[0].obligations if o.holds is False]
    assert failed[0] == number


def accumulator(plan: CutPlan, m: int = 0, n: int = 0) -> str:
    return next(o.register for call in plan.calls for o in call.outputs if (o.m, o.n, o.half) == (m, n, 0))


def tensor_load(plan: CutPlan, name: str = "%extra") -> str:
    """A load of one word of the lent array, with the registers it needs."""
    return f"\t.reg .b32 {name};\n\tmov.u32 {name}, {plan.scratch};\n\tld.shared.u32 {name}, [{name}+4];\n"


GUARD = "\t.reg .pred %guard;\n\t.reg .b32 %which;\n\tmov.u32 %which, %ctaid.x;\n\tsetp.eq.u32 %guard, %which, 3;\n"
FOREIGN = "\t.reg .b32 %extra;\n\t.reg .b64 %foreign;\n\tmov.u64 %foreign, 4096;\n"


def in_gap(plan: CutPlan) -> int:
    return plan.region[12]


def test_1_a_branch_enters_the_cut(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    before = plan.first - 3
    module = edit_function(
        enc0,
        entry,
        insert_before={in_gap(plan): "$L_into_the_cut:\n", before: "\t@%guard bra $L_into_the_cut;\n"},
        at_start=GUARD,
    )
    assert_refused(module, contract, 1, "branches into the cut")


def test_1_a_branch_leaves_the_cut(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    module = edit_function(
        enc0,
        entry,
        insert_before={in_gap(plan): "\t@%guard bra $L_out_of_the_cut;\n"},
        insert_after={plan.last + 5: "$L_out_of_the_cut:\n"},
        at_start=GUARD,
    )
    assert_refused(module, contract, 1, "out of the cut")


def test_2_a_second_reader_in_the_gap(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    reader = f"\t.reg .b32 %extra;\n\tadd.f16x2 %extra, {accumulator(plan)}, {accumulator(plan)};\n"
    module = edit_function(enc0, entry, insert_before={in_gap(plan): reader})
    assert_refused(module, contract, 2, "inside its gap", "add.f16x2")


def test_2_a_value_made_in_the_cut_is_used_after_it(
    enc0: Module, contract: LayerContract, entry: str, plan: CutPlan
) -> None:
    """A value computed from an accumulator in the gap, read by the next epilogue: no output of the body."""
    source, target = accumulator(plan), "%leaving"
    module = edit_function(
        enc0,
        entry,
        insert_before={in_gap(plan): f"\txor.b32 {target}, {source}, 1;\n"},
        insert_after={plan.last + 4: f"\tst.global.b32 [%foreign], {target};\n"},
        at_start=f"\t.reg .b32 {target};\n" + FOREIGN,
    )
    assert_refused(module, contract, 2, "xor.b32")


def test_2_an_accumulator_is_overwritten_in_the_gap(
    enc0: Module, contract: LayerContract, entry: str, plan: CutPlan
) -> None:
    module = edit_function(enc0, entry, insert_before={in_gap(plan): f"\tmov.u32 {accumulator(plan)}, 5;\n"})
    result = refused(module, contract)
    assert result.refused is not None
    assert "obligation 2 (" in result.refused or "obligation 7 (" in result.refused


def test_2_a_consumer_that_cannot_be_moved(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    """A pack in the gap may be moved, but not past a statement that needs its old register."""
    lines = f"\tcvt.rn.satfinite.e4m3x2.f16x2 %packed, {accumulator(plan)};\n"
    module = edit_function(
        enc0,
        entry,
        insert_before={in_gap(plan): lines, plan.region[15]: "\tmov.b16 %packed, 3;\n"},
        at_start="\t.reg .b16 %packed;\n",
    )
    assert_refused(module, contract, 2, "cannot pass")


def test_2_what_follows_from_a_consumer_must_be_pure(
    enc0: Module, contract: LayerContract, entry: str, plan: CutPlan
) -> None:
    """A store of a packed word in the gap depends on the cut; moving it behind the calls could reorder memory."""
    lines = f"\tcvt.rn.satfinite.e4m3x2.f16x2 %packed, {accumulator(plan)};\n\tst.global.b16 [%foreign], %packed;\n"
    module = edit_function(
        enc0, entry, insert_before={in_gap(plan): lines}, at_start="\t.reg .b16 %packed;\n" + FOREIGN
    )
    assert_refused(module, contract, 2, "cannot be moved", "st.global.b16")


def test_a_pack_in_the_gap_is_moved(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    lines = f"\tcvt.rn.satfinite.e4m3x2.f16x2 %packed, {accumulator(plan)};\n"
    module = edit_function(enc0, entry, insert_before={in_gap(plan): lines}, at_start="\t.reg .b16 %packed;\n")
    result = rewrite_module(module, contract, ("phase8",))
    assert result.refused is None
    assert len(result.plans[0].moved) == 1
    text = print_module(result.module)
    assert text.index("cvt.rn.satfinite.e4m3x2.f16x2 %packed") > text.index("phase8, zrr_swin_phase, call 2 of 2")


def test_3_an_argument_register_is_clobbered(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    """A weight word that no mma reads any more is overwritten before the calls, which stand at the last mma."""
    register = plan.calls[0].arguments[12]
    module = edit_function(enc0, entry, insert_before={plan.region[-2]: f"\tmov.u32 {register}, 7;\n"})
    assert_refused(module, contract, 3, register, "overwritten by")


def test_3_a_path_without_the_argument(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    """A branch over a weight load of phase 8: its words are undefined on that path."""
    load = next(d for d in _definitions(enc0, contract, plan.calls[0].arguments[12]))
    module = edit_function(
        enc0,
        entry,
        insert_before={load: "\t@%guard bra $L_skip;\n"},
        insert_after={load: "$L_skip:\n"},
        at_start=GUARD,
    )
    assert_refused(module, contract, 3, "a path reaches the calls without")


def _definitions(module: Module, contract: LayerContract, register: str) -> tuple[int, ...]:
    from zluda_rr.rewrite import match_entry

    return match_entry(module, contract).kernel.uses.defs(register)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ld.global.u32 %extra, [%foreign+64];", ("an address the contract does not name",)),
        ("ld.u32 %extra, [%foreign];", ("an address the contract does not name",)),
    ],
)
def test_4_a_load_of_something_unnamed(
    line: str, words: tuple[str, ...], enc0: Module, contract: LayerContract, entry: str, plan: CutPlan
) -> None:
    module = edit_function(
        enc0,
        entry,
        insert_before={in_gap(plan): f"\t{line}\n"},
        at_start=FOREIGN,
    )
    assert_refused(module, contract, 4, *words)


def test_4_weights_may_be_loaded_in_the_gap(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    lines = f"\tld.param.u64 %foreign, [{entry}_param_0+40];\n\tld.global.u32 %extra, [%foreign+128];\n"
    module = edit_function(enc0, entry, insert_before={in_gap(plan): lines}, at_start=FOREIGN)
    assert rewrite_module(module, contract, ("phase8",)).refused is None


@pytest.mark.parametrize("line", ["st.global.u32 [%foreign], %extra;", "red.global.add.u32 [%foreign], 1;"])
def test_5_a_store_in_the_gap(line: str, enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    module = edit_function(enc0, entry, insert_before={in_gap(plan): f"\t{line}\n"}, at_start=FOREIGN)
    assert_refused(module, contract, 5, "writes what the cut does not name")


def test_6_lent_bytes_are_read_after_the_cut(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    module = edit_function(enc0, entry, insert_after={plan.last + 3: tensor_load(plan)})
    assert_refused(module, contract, 6, "still reads lent bytes")


def test_6_a_store_lives_across_the_cut(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    """Written before the cut, read after it."""
    store = f"\t.reg .b32 %place;\n\tmov.u32 %place, {plan.scratch};\n\tst.shared.u32 [%place], %place;\n"
    module = edit_function(
        enc0,
        entry,
        insert_before={plan.first - 4: store + "\tbar.sync 0;\n"},
        insert_after={plan.last + 3: tensor_load(plan)},
    )
    assert_refused(module, contract, 6, "still reads lent bytes")


def test_6_a_read_before_is_not_over(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    module = edit_function(enc0, entry, insert_before={plan.first - 4: tensor_load(plan)})
    assert_refused(module, contract, 6, "may not be over")


def tensor_store(plan: CutPlan, name: str) -> str:
    """A store of one word of the lent array, with the register it needs."""
    return f"\t.reg .b32 {name};\n\tmov.u32 {name}, {plan.scratch};\n\tst.shared.u32 [{name}+4], {name};\n"


@pytest.mark.parametrize("barrier", ["", "\tbar.sync 0;\n"])
def test_6_a_store_before_needs_a_barrier(
    barrier: str, enc0: Module, contract: LayerContract, entry: str, plan: CutPlan
) -> None:
    module = edit_function(enc0, entry, insert_before={plan.first - 4: tensor_store(plan, "%early") + barrier})
    if barrier:
        assert rewrite_module(module, contract, ("phase8",)).refused is None
    else:
        assert_refused(module, contract, 6, "may not be over")


@pytest.mark.parametrize("barrier", ["", "\tbar.sync 0;\n"])
def test_6_a_store_after_needs_a_barrier(
    barrier: str, enc0: Module, contract: LayerContract, entry: str, plan: CutPlan
) -> None:
    """Another lane may still read the body's image when this lane has left the body."""
    module = edit_function(enc0, entry, insert_after={plan.last + 1: barrier + tensor_store(plan, "%late")})
    if barrier:
        assert rewrite_module(module, contract, ("phase8",)).refused is None
    else:
        assert_refused(module, contract, 6, "without a barrier")


def test_6_the_array_is_too_small(enc0: Module, contract: LayerContract) -> None:
    rule = replace(contract.cuts[0], lend_bytes=4096)
    assert_refused(enc0, replace(contract, cuts=(rule,)), 6, "lent 4096")


def test_7_a_weight_fragment_from_another_address(enc0_text: str, contract: LayerContract) -> None:
    """The second tile of phase 8's weights, 21696 + 512, moved by one tile into phase 9's."""
    assert enc0_text.count(", 22208;") == 1
    module = parse(enc0_text.replace(", 22208;", ", 22720;"))
    assert_refused(module, contract, 7)


def test_7_a_weight_fragment_from_another_buffer(
    enc0: Module, contract: LayerContract, match: LayerMatch, entry: str, plan: CutPlan
) -> None:
    register = plan.calls[0].arguments[12]
    load = match.kernel.uses.defs(register)[0]
    address = match.kernel.body[load].uses[0]
    lines = f"\tld.param.u64 {address}, [{entry}_param_0+48];\n\tcvta.to.global.u64 {address}, {address};\n"
    module = edit_function(enc0, entry, insert_before={load: lines})
    assert_refused(module, contract, 7, "B of n-tile 0", "found load(48")


def test_7_one_mma_less(enc0: Module, contract: LayerContract, entry: str, plan: CutPlan) -> None:
    module = edit_function(enc0, entry, delete={plan.last})
    assert_refused(module, contract, 7, "23 mma, the contract has 24")


def test_7_one_mma_more(enc0: Module, contract: LayerContract, match: LayerMatch, entry: str, plan: CutPlan) -> None:
    copied = match.kernel.body[plan.last].text
    register = fragment_register(match.kernel, plan.last, 0, 0)
    copied = copied.replace(register, "%again")
    module = edit_function(enc0, entry, insert_after={plan.last: f"\t{copied}\n"}, at_start="\t.reg .b32 %again;\n")
    assert_refused(module, contract, 7, "phase 10: B of n-tile 11")


def test_7_two_fragment_words_exchanged(enc0_text: str, contract: LayerContract, plan: CutPlan) -> None:
    a = plan.calls[0].arguments
    quad = f"{{{a[0]}, {a[1]}, {a[2]}, {a[3]}}}"
    swapped = f"{{{a[1]}, {a[0]}, {a[2]}, {a[3]}}}"
    assert quad in enc0_text
    assert_refused(parse(enc0_text.replace(quad, swapped)), contract, 7)


def test_7_another_gain(enc0_text: str, contract: LayerContract) -> None:
    assert enc0_text.count(", 6272;") == 1
    text = enc0_text.replace(", 6272;", ", 6208;")
    assert_refused(parse(text), contract, 7)


def test_7_parameter_block(enc0_text: str, contract: LayerContract) -> None:
    text = enc0_text.replace("_param_0[1032]", "_param_0[1040]")
    assert_refused(parse(text), contract, 7, "1040 bytes")


def test_unknown_entry_is_a_user_error(enc0_text: str, contract: LayerContract) -> None:
    module = parse(enc0_text.replace("cuda_dldn_engine_swin_enc0_kernel", "another_kernel"))
    with pytest.raises(UserError, match=r"no entry cuda_dldn_engine_swin_enc0_kernel.*another_kernel"):
        rewrite_module(module, contract, ("phase8",))


def test_unknown_cut_is_a_user_error(enc0: Module, contract: LayerContract) -> None:
    with pytest.raises(UserError, match="no cut named 'phase99'; it has: phase8, layer"):
        rewrite_module(enc0, contract, ("phase99",))
