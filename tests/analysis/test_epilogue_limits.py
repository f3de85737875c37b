"""Kernels that no compiler would write: deep and doubled expressions end, without a traceback."""

import pytest

from tests.analysis.snippets import Snippet
from zluda_rr.analysis import find_epilogues

CHAINS = {
    "doubled sums": "add.f16x2 %r1, %r1, %r1;\n",
    "doubled products": "mul.f16x2 %r1, %r1, %r1;\n",
    "selects": "selp.b32 %r1, %r1, %r2, %p1;\n",
    "doubled selects": "selp.b32 %r1, %r1, %r1, %p1;\n",
    "shuffles": "shfl.sync.down.b32 %r1, %r1, 4, 31, -1;\n",
    "f32 sums": "add.f32 %f1, %f1, %f1;\n",
    "accumulated": "fma.rn.f16x2 %r1, %r2, %r2, %r1;\n",
    "repacked": "mov.b32 {%rs1, %rs2}, %r1; add.f16 %rs1, %rs1, %rs2; mov.b32 %r1, {%rs1, %rs2};\n",
}
ENDS = {
    "f32 sums": "div.approx.f32 %f2, 0f3F800000, %f1; cvt.rn.f16.f32 %rs3, %f2; mul.f16 %rs4, %rs3, %rs3;",
}
END = "cvt.rn.satfinite.e4m3x2.f16x2 %rs3, %r1; st.global.u16 [%rd1], %rs3;"


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_thousands(name: str) -> None:
    start = (
        "ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+4]; setp.eq.s32 %p1, %r2, 0; mov.f32 %f1, 0f3F800000;\n"
    )
    snippet = Snippet(start + CHAINS[name] * 3000 + ENDS.get(name, END))
    (prologue,) = find_epilogues(snippet.body, snippet.values, snippet.origins, [])
    assert prologue.operations == ()
    assert prologue.uncharacterised
