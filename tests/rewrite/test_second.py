"""The second source of enc0: another author's kernel, every compiler and target, is recognised and cut."""

import pytest

from tests.corpus.second.build import VARIANTS, Variant, read
from zluda_rr.contract import LayerContract
from zluda_rr.ptx import parse
from zluda_rr.rewrite import rewrite_module
from zluda_rr.runtime import Shape, Subject, WorkloadKind, verify

QUICK = {
    "nvcc13.0-sm89",
    "nvcc13.5-sm100-unsigned-store1-swap-halves",
    "nvrtc12.9-sm120-store2-laneid-together",
}
SHAPE = Shape(ex=10, ey=10, shift_x=4, shift_y=2)


def parameters(quick: set[str]) -> list[object]:
    return [pytest.param(v, id=v.name, marks=[] if v.name in quick else [pytest.mark.soak]) for v in VARIANTS]


@pytest.mark.parametrize("variant", parameters(QUICK))
@pytest.mark.parametrize("cut", ["layer", "phase8"])
def test_accepted(variant: Variant, cut: str, contract: LayerContract) -> None:
    result = rewrite_module(parse(read(variant), filename=variant.name), contract, (cut,))
    assert result.refused is None


@pytest.mark.soak
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v.name in QUICK], ids=lambda v: v.name)
def test_oracle_translated_and_rewritten_are_equal(variant: Variant, contract: LayerContract) -> None:
    what = Subject(contract, parse(read(variant), filename=variant.name), ("layer",))
    report = verify(what, shape=SHAPE, kinds=(WorkloadKind.RANDOM,), models=("exact",))
    assert report.equal
    assert report.oracle_equal
