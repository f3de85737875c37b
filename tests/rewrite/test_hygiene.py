"""Names, scopes, loops and arithmetic that a splice could get wrong without noticing: each is refused.

Every module here is accepted by ptxas or nearly so; each was once rewritten into one that computes something else.
"""

import pytest

from zluda_rr.contract import LayerContract
from zluda_rr.errors import UserError
from zluda_rr.ptx import Module, add_module_item, edit_function, linearise
from zluda_rr.rewrite import CutPlan, rewrite_module


def reason(module: Module, contract: LayerContract, cut: str = "phase8") -> str:
    """Why the cut is refused, as an error or as an obligation."""
    try:
        result = rewrite_module(module, contract, (cut,))
    except UserError as error:
        return str(error)
    assert result.refused is not None
    return result.refused


def with_seed(module: Module, plan: CutPlan, seed: str, at_start: str) -> Module:
    """The first mma of phase 8 with C = {seed, seed} instead of the zero register."""
    entry = module.entries[0].name
    text = statement_text(module, plan.first)
    body, _, seeds = text.rpartition("{")
    assert "}" in seeds
    changed = f"\t{body}{{{seed}, {seed}}};\n"
    return edit_function(module, entry, delete=(plan.first,), insert_after={plan.first: changed}, at_start=at_start)


def statement_text(module: Module, number: int) -> str:
    return " ".join(linearise(module.entries[0]).statements[number - 1].text.split())


def test_names_of_ours_in_the_module(enc0: Module, contract: LayerContract) -> None:
    entry = contract.entry
    register = edit_function(enc0, entry, at_start="\t.reg .b32 %zrr_base;\n")
    assert "zrr_base" in reason(register, contract)
    variable = add_module_item(enc0, ".global .b32 zrr_swin_phase;\n")
    assert "zrr_swin_phase" in reason(variable, contract)
    assert "zrr_swin_phase" in reason(variable, contract, "layer")


def test_a_comment_with_our_name_is_no_name(enc0: Module, contract: LayerContract) -> None:
    commented = add_module_item(enc0, "// zrr_swin_phase is what a rewrite would call here\n")
    assert rewrite_module(commented, contract, ("phase8",)).refused is None


def test_a_scope_that_hides_an_argument(enc0: Module, contract: LayerContract, plan: CutPlan) -> None:
    argument = plan.calls[0].arguments[0]
    text = statement_text(enc0, plan.last)
    scoped = f"\t{{\n\t.reg .b32 {argument};\n\tmov.u32 {argument}, 7;\n\t{text}\n\tmov.u32 {argument}, 9;\n\t}}\n"
    # Where the last mma reads the register itself, the analysis already sees another fragment word.
    hidden = edit_function(enc0, contract.entry, delete=(plan.last,), insert_after={plan.last: scoped})
    assert "scope" in reason(hidden, contract) or "obligation" in reason(hidden, contract)


def test_a_result_that_overwrites_an_argument_of_the_next_call(
    enc0: Module, contract: LayerContract, plan: CutPlan
) -> None:
    """The last mma's D goes to a register that holds a word of B; the second call would get the first one's result."""
    b_word = plan.calls[0].arguments[12]
    d_word = plan.calls[1].outputs[-1].register
    text = statement_text(enc0, plan.last)
    assert d_word in text.split("}")[0]
    changed = f"\t{text.replace(d_word, b_word, 1)}\n\tmov.u32 {d_word}, {b_word};\n"
    module = edit_function(enc0, contract.entry, delete=(plan.last,), insert_after={plan.last: changed})
    assert "obligation" in reason(module, contract)


@pytest.mark.parametrize(
    "lines",
    [
        "\tmov.u32 %zc, 2147483647;\n\tadd.sat.s32 %zc, %zc, 1;\n\tand.b32 %zc, %zc, 1006648320;\n",
        (
            "\t.reg .f32 %zf;\n\t.reg .b16 %zh;\n\tmov.f32 %zf, 1.5;\n\tcvt.rn.f16.f32 %zh, %zf;\n"
            "\tmov.b32 %zc, {%zh, %zh};\n"
        ),
        (
            "\t.reg .b32 %zs, %zu;\n\tld.param.s16 %zs, [PARAM+200];\n\tld.param.u16 %zu, [PARAM+200];\n"
            "\tsub.s32 %zc, %zs, %zu;\n"
        ),
    ],
    ids=["saturating", "decimal constant", "signed and unsigned load"],
)
def test_a_seed_that_is_not_zero(lines: str, enc0: Module, contract: LayerContract, plan: CutPlan) -> None:
    parameter = enc0.entries[0].params[0].name
    start = "\t.reg .b32 %zc;\n" + lines.replace("PARAM", parameter)
    assert "obligation 7" in reason(with_seed(enc0, plan, "%zc", start), contract)


def test_the_same_edit_with_a_zero_is_accepted(enc0: Module, contract: LayerContract, plan: CutPlan) -> None:
    module = with_seed(enc0, plan, "%zc", "\t.reg .b32 %zc;\n\tmov.u32 %zc, 5;\n\tsub.s32 %zc, %zc, %zc;\n")
    assert rewrite_module(module, contract, ("phase8",)).refused is None


def test_an_operand_made_in_a_loop(enc0: Module, contract: LayerContract, plan: CutPlan) -> None:
    """`%zc = %ze - (the %ze of the turn before)` is not zero, although both have one name and one definition."""
    start = (
        "\t.reg .b32 %zc, %zd, %ze, %zi;\n\t.reg .pred %zp;\n\tmov.u32 %zi, 0;\n$L_again:\n\tmov.u32 %ze, %clock;\n"
        "\tsub.s32 %zc, %ze, %zd;\n\tmov.u32 %zd, %ze;\n\tadd.s32 %zi, %zi, 1;\n\tsetp.lt.u32 %zp, %zi, 9;\n"
        "\t@%zp bra $L_again;\n"
    )
    assert "stands in a loop" in reason(with_seed(enc0, plan, "%zc", start), contract)


@pytest.mark.parametrize(
    "lines",
    [
        "\t.reg .b64 %far;\n\tld.param.u64 %far, [PARAM+200];\n\tld.shared.u32 %extra, [%far+64];\n",
        "\tmov.u32 %extra, NOISE;\n\tld.shared.u32 %extra, [%extra+-3136];\n",
    ],
    ids=["through a parameter", "beyond another array"],
)
def test_a_read_of_shared_memory_that_cannot_be_placed(
    lines: str, enc0: Module, contract: LayerContract, plan: CutPlan
) -> None:
    noise = plan.scratch.replace("12input_tensor", "11input_noise")
    parameter = enc0.entries[0].params[0].name
    text = "\t.reg .b32 %extra;\n" + lines.replace("PARAM", parameter).replace("NOISE", noise)
    module = edit_function(enc0, contract.entry, insert_after={plan.last + 1: text})
    assert "obligation 6" in reason(module, contract)


def test_a_scope_that_would_be_torn(enc0: Module, contract: LayerContract, plan: CutPlan) -> None:
    """A pack in the gap that must move, in a scope with a value that would stay behind."""
    register = next(o.register for call in plan.calls for o in call.outputs if (o.m, o.n, o.half) == (0, 0, 0))
    lines = (
        "\t{\n\t.reg .b16 v, w;\n\tmov.u16 w, 3;\n\tmov.u32 %x2, 5;\n"
        f"\tcvt.rn.satfinite.e4m3x2.f16x2 v, {register};\n\tadd.s16 %h0, v, w;\n\t}}\n"
    )
    gap = plan.region[12]
    start = "\t.reg .b16 %h0;\n\t.reg .b32 %x2;\n"
    module = edit_function(enc0, contract.entry, insert_before={gap: lines}, at_start=start)
    assert "obligation 2" in reason(module, contract)
