"""enc0 with the layer rule off: every chain of the layer, the same bytes, and the cost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from zluda_rr.rewrite import FusionReport, fuse_module, report_fusion
from zluda_rr.runtime import (
    EmulatorDevice,
    Progress,
    Shape,
    Subject,
    WorkloadKind,
    build_launch,
    compare_outputs,
    subject,
)
from zluda_rr.runtime.device import Program
from zluda_rr.runtime.variants import variants

SHAPE = Shape(ex=18, ey=12, shift_x=4, shift_y=2)
# Phases whose accumulators reach an A or B operand without an exchange (rr-module.md, phase table).
CHAINS_A = {
    *((1, 2), (2, 3), (2, 4), (3, 5), (5, 6), (6, 7), (2, 8), (2, 9), (8, 10), (10, 11), (11, 12), (12, 13), (13, 14)),
    *((12, 15), (15, 16), (12, 17), (17, 18), (12, 19), (19, 20), (20, 22)),
}
CHAINS_B = {(3, 5), (4, 6), (8, 10), (9, 11)}
CHAINS_C = {(2, 7), (7, 12), (12, 14), (14, 16), (16, 18), (18, 20)}


@pytest.fixture(scope="module")
def report() -> FusionReport:
    what = subject("enc0", ())
    return report_fusion(fuse_module(what.module, what.contract.entry))


def test_every_chain_of_the_layer_is_found(report: FusionReport) -> None:
    found = {operand: {(c.producer, c.consumer) for c in report.chains if c.operand == operand} for operand in "ABC"}
    assert found == {"A": CHAINS_A, "B": CHAINS_B, "C": CHAINS_C}
    assert report.products == 268


def test_what_leaves_wmma_order_is_what_other_code_reads(report: FusionReport) -> None:
    """The merge's shuffles (P20), the stores of planes (P20, P21) and the logits' gather (P22); nothing else."""
    assert {refused.producers for refused in report.refused} == {(20,), (21,), (22,)}


def test_rules_are_recorded(report: FusionReport) -> None:
    applied = {record.rule: len(record.places) for record in report.rules}
    assert applied["product"] == 268
    assert applied["transpose_first"] == applied["transpose_second"] == 24
    assert applied["pack_relu"] == 24
    assert all(record.reason and record.source for record in report.rules)
    assert sum(record.seconds for record in report.rules) > 0


def differences(what: Subject, programs: Sequence[Program], model: str) -> list[float]:
    """Instructions per wave of both kernels, after their bytes were found equal."""
    device = EmulatorDevice()
    launch = build_launch(what.contract, SHAPE, WorkloadKind.CANCELLATION)
    first, second = (device.run(program, launch, model) for program in programs)
    _, difference = compare_outputs("enc0", launch.outputs, first.memory, second.memory)
    assert difference is None
    assert first.stats is not None
    assert second.stats is not None
    assert second.stats.by_mnemonic["ds_bpermute_b32"] <= 0.2 * first.stats.by_mnemonic["ds_bpermute_b32"]
    return [first.stats.instructions_per_wave, second.stats.instructions_per_wave]


def test_fused_gives_the_same_bytes_for_about_half_the_instructions() -> None:
    what = subject("enc0", (), fusion=True)
    assert what.cuts == ()
    programs = variants(what, Progress(quiet=True))
    for model in ("exact", "sequential", "pairwise"):
        translated, fused = differences(what, programs, model)
        assert fused <= 0.55 * translated


def test_the_cut_wins_where_both_apply() -> None:
    """Phase 8 is the body's; the chains around it are fused, and P8's result comes from shared memory."""
    rewritten = subject("enc0", ("phase8",)).rewrite().module
    result = fuse_module(rewritten, rewritten.entries[0].name)
    assert report_fusion(result).products == 268 - 12
    called = {function.name for function in result.module.functions}
    assert {"zrr_swin_phase", "zrr_fc_product0"} <= called
