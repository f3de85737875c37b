"""The matcher sees structure: the same kernel in other spellings is recognised and cut."""

import random

import pytest

from tests.rewrite.conftest import Others
from tests.rewrite.variants import rename_registers, shuffle
from zluda_rr.contract import LayerContract
from zluda_rr.ptx import Module, edit_function, linearise, print_module
from zluda_rr.rewrite import RewriteResult, rewrite_module

OTHER_BUILDS = ("enc0-nvcc13.5", "enc0-nvrtc12.9", "enc0-reordered", "enc0-parambase")


def assert_applied(result: RewriteResult) -> None:
    assert result.refused is None
    assert all(obligation.holds for report in result.reports for obligation in report.obligations)
    text = print_module(result.module)
    assert text.count("call.uni (zrr_result), zrr_swin_phase") == 2
    assert text.count("mma.sync") == 536 - 24


def test_reference_module(rewritten: RewriteResult) -> None:
    assert_applied(rewritten)


@pytest.mark.parametrize("name", OTHER_BUILDS)
def test_other_compilers_and_sources(name: str, others: Others) -> None:
    assert_applied(others(name))


def test_all_registers_renamed(enc0: Module, contract: LayerContract) -> None:
    renamed = rename_registers(enc0, contract.entry)
    before, after = (set(linearise(m.entries[0], m).registers) for m in (enc0, renamed))
    assert len(before) == len(after)
    assert not before & after
    assert_applied(rewrite_module(renamed, contract, ("phase8",)))


def test_independent_statements_shuffled(shuffled: RewriteResult) -> None:
    """Any order that respects the dependences: mma of different phases interleave, readers stand between them."""
    assert_applied(shuffled)
    assert shuffled.plans[0].moved  # readers of accumulators do stand in the gap and are moved by proof


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_shuffles(seed: int, enc0: Module, contract: LayerContract) -> None:
    assert_applied(rewrite_module(shuffle(enc0, contract.entry, seed), contract, ("phase8",)))


def test_neighbours_exchanged(enc0: Module, contract: LayerContract) -> None:
    """A gentle reorder: mostly the old order, now and then the next independent statement first."""

    def nearly_in_order(rng: random.Random, ready: list[int]) -> int:
        ranked = sorted(range(len(ready)), key=lambda i: ready[i])
        return ranked[min(len(ranked) - 1, int(rng.expovariate(1.0)))]

    shuffled = shuffle(enc0, contract.entry, 11, nearly_in_order)
    assert print_module(shuffled) != print_module(enc0)
    assert_applied(rewrite_module(shuffled, contract, ("phase8",)))


def test_extra_code_before_the_cut(enc0: Module, contract: LayerContract) -> None:
    extra = "\t.reg .b32 %extra, %more;\n\tmov.u32 %extra, %clock;\n\txor.b32 %more, %extra, 5;\n"
    assert_applied(rewrite_module(edit_function(enc0, contract.entry, at_start=extra), contract, ("phase8",)))
