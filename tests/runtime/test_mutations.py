"""A verification that cannot fail proves nothing: broken bodies and broken calls must be found, and the phase named.

The data is `cancellation`: on ordinary data a wrong K grouping changes no output byte (engine.md §5).
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.mutations import MUTATIONS, PHASE_MUTATIONS
from zluda_rr.ptx import Module, edit_function, linearise
from zluda_rr.runtime import Shape, Subject, WorkloadKind, subject, verify, verify_stage

SHAPE = Shape(ex=26, ey=18, shift_x=4, shift_y=2)
CANCELLING = (WorkloadKind.CANCELLATION,)
BODY = "swin_phase.hip"


def mutant(name: str, folder: Path) -> Subject:
    return replace(subject("enc0", ("phase8",)), bodies=(MUTATIONS[name].apply(folder) / BODY,))


def exchange_arguments(module: Module) -> Module:
    """Exchange two fragment registers of the first call: a0 and a1, rows g and g + 8 of the first m-tile."""
    entry = module.entries[0]
    statements = linearise(entry).statements
    call = next(s.number for s in statements if s.opcode == "call")
    stores = [s for s in statements[:call] if s.opcode == "st" and "param" in s.modifiers][-21:]
    first, second = stores[:2]
    return edit_function(
        module,
        entry.name,
        delete=(first.number, second.number),
        insert_after={
            first.number: f"\t{first.text.replace(first.uses[0], second.uses[0])}\n",
            second.number: f"\t{second.text.replace(second.uses[0], first.uses[0])}\n",
        },
    )


@pytest.mark.parametrize("name", sorted(mutation.name for mutation in PHASE_MUTATIONS))
def test_a_broken_body_is_found_in_phase_8(name: str, tmp_path: Path) -> None:
    report = verify_stage(mutant(name, tmp_path), 8, shape=SHAPE, kinds=CANCELLING)
    assert not report.equal
    assert report.first_difference is not None
    assert report.first_difference.phase == 8


def test_exchanged_arguments_are_found_in_phase_8() -> None:
    broken = replace(subject("enc0", ("phase8",)), edit=exchange_arguments)
    report = verify_stage(broken, 8, shape=SHAPE, kinds=CANCELLING)
    assert not report.equal
    assert report.first_difference is not None
    assert report.first_difference.phase == 8


def test_a_whole_verification_finds_the_phase_by_itself(tmp_path: Path) -> None:
    """The rejected direct converter (seed 002): outputs differ, and verify names the phase without being told."""
    report = verify(mutant("direct_converter", tmp_path), shape=SHAPE, kinds=CANCELLING, oracle=False)
    assert not report.equal
    assert report.first_difference is not None
    assert report.first_difference.output in {"plane_arena", "merged_planes", "blend", "gate", "half"}
    assert report.first_difference.phase == 8


def test_the_unbroken_body_is_equal_on_the_same_data() -> None:
    report = verify_stage(subject("enc0", ("phase8",)), 8, shape=SHAPE, kinds=CANCELLING)
    assert report.equal
    assert report.bytes_compared == 3 * SHAPE.blocks * 96 * 32 * 2
