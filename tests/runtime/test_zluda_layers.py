"""Whole layers as ZLUDA compiles them, against the PTX oracle and against each other, byte for byte."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.runtime.test_mutations import exchange_arguments
from tests.runtime.zluda_compiler import needs_zoc, zoc
from zluda_rr.ptx import Module, edit_function, linearise
from zluda_rr.runtime import Shape, Subject, VerifyReport, WorkloadKind, ZludaBackend, subject, verify

SHAPE = Shape(ex=26, ey=18, shift_x=4, shift_y=2)
KINDS = (WorkloadKind.CANCELLATION, WorkloadKind.SPECIAL)
CANCELLING = (WorkloadKind.CANCELLATION,)

pytestmark = needs_zoc


def layer(name: str, cuts: tuple[str, ...] = (), *, fusion: bool = False) -> Subject:
    return subject(name, cuts, fusion=fusion, backend=ZludaBackend(zoc()))


def proved(report: VerifyReport) -> None:
    assert report.first_difference is None
    assert report.equal
    assert report.oracle_equal
    assert report.compiler == "zluda"
    assert report.bytes_compared > 0


def test_enc0_and_the_layer_body() -> None:
    """Original and rewritten module, the body linked as bitcode, under the three accumulation models."""
    proved(verify(layer("enc0"), shape=SHAPE, kinds=KINDS))


@pytest.mark.parametrize("name", ["enc0", "enc1"])
def test_fusion(name: str) -> None:
    """Fragment-consumer fusion alone: `mma` and conversions that stay are ZLUDA's own."""
    proved(verify(layer(name, fusion=True), shape=SHAPE, kinds=KINDS, models=("sequential",)))


def exchange_weights(module: Module) -> Module:
    """Exchange the B words of the first product: its two k16 halves meet the wrong weights."""
    entry = module.entries[0]
    mma = next(s for s in linearise(entry).statements if s.opcode == "mma")
    first, second = mma.uses[4:6]
    text = mma.text.replace(f"{{{first}, {second}}}", f"{{{second}, {first}}}")
    assert text != mma.text
    return edit_function(module, entry.name, delete=(mma.number,), insert_after={mma.number: f"\t{text}\n"})


def test_an_exchanged_operand_is_found() -> None:
    """A verification that cannot fail proves nothing."""
    broken = replace(layer("enc0"), cuts=(), edit=exchange_weights)
    report = verify(broken, shape=SHAPE, kinds=CANCELLING, models=("exact",), oracle=False)
    assert not report.equal
    assert report.first_difference is not None


def test_exchanged_arguments_of_a_body_are_found() -> None:
    broken = replace(layer("enc0", ("phase8",)), edit=exchange_arguments)
    report = verify(broken, shape=SHAPE, kinds=CANCELLING, models=("exact",), oracle=False)
    assert report.first_difference is not None
    assert report.first_difference.phase == 8
