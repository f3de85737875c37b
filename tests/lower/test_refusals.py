"""What is not in the subset is an error that names the instruction and its line; and calls of bodies."""

from pathlib import Path

import pytest

from tests.lower.harness import kernel
from zluda_rr import lower
from zluda_rr.errors import UserError
from zluda_rr.ptx import parse

DECLARATIONS = ".reg .b64 %x; .reg .b16 %h; .reg .f32 %f; .reg .pred %p;"


@pytest.mark.parametrize(
    "statement",
    [
        "add.sat.u32 %d0, %a0, %a0;",
        "add.u16x2 %d0, %a0, %a0;",
        "add.f32.f16 %f, %h, %f;",
        "add.f32 %f, %f, 1;",
        "add.f32 %f, %f, %x;",
        "add.s32 %d0, %h, %a0;",
        "mov.b32 %d0, 1.5;",
        "mov.b32 %d0, {%h, %a0};",
        "and.b32 %d0, %a0, !%a0;",
        "min.xorsign.abs.f32 %f, %f, %f;",
        "ld.global.f32 %x, [%x];",
        "ld.global.v2.u32 %d0, [%x];",
        "ld.global.u32 %d0, [%h];",
        "ld.global.u32 {%d0, %d0}, [%x];",
        "ld.relaxed.gpu.global.u32 %d0, [%x];",
        "frobnicate.b32 %d0, %a0;",
        "add.s32 %d0, %a0;",
        "cvt.u32.f32 %d0, %f;",
        "cvt.rz.f32.s32 %f, %d0;",
        "cvt.rn.bf16.f32 %h, %f;",
        "fma.rn.bf16 %h, %h, %h, %h;",
        "cvta.to.shared.u64 %x, %x;",
        "add.rz.f32 %f, %f, %f;",
        "rcp.rz.f32 %f, %f;",
        "div.approx.f32 %f, %f, %f;",
        "cvt.rm.f16.f32 %h, %f;",
        "cvt.rn.satfinite.e5m2x2.f16x2 %h, %a0;",
        "atom.global.add.f32 %f, [%x], %f;",
        "atom.global.inc.u32 %d0, [%x], %a0;",
        "ld.local.u32 %d0, [%x];",
        "shfl.bfly.b32 %d0, %a0, 1, 31;",
        "bar.sync 1;",
        "bar.sync 0, 64;",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%d0, %d0}, {%a0, %a0, %a0, %a0}, {%a0, %a0}, {%a0, %a0};",
        "mov.u32 %d0, %clock;",
        "cvta.shared.u64 %x, %x;",
        "mov.b16 %h, 1.5;",
        "tex.2d.v4.f32.f32 {%f, %f, %f, %f}, [%x, {%f, %f}];",
    ],
)
def test_unsupported_statement_is_named_with_its_line(statement: str) -> None:
    module = kernel(f"\n\n{statement}", inputs=1, outputs=1, declarations=DECLARATIONS)
    line = next(i for i, text in enumerate(_text(statement).splitlines(), 1) if statement in text)
    with pytest.raises(lower.LoweringError) as caught:
        lower.lower_module(module, "probe")
    message = str(caught.value)
    assert "\n" not in message
    assert f"probe.ptx:{line}: " in message
    assert statement.split()[0] in message or "%clock" in message


def _text(statement: str) -> str:
    from zluda_rr.ptx import print_module

    return print_module(kernel(f"\n\n{statement}", inputs=1, outputs=1, declarations=DECLARATIONS))


def test_unknown_entry_lists_the_entries() -> None:
    with pytest.raises(UserError, match="no entry other; the module's entries: probe"):
        lower.lower_module(kernel("", inputs=1, outputs=1), "other")


def test_dynamic_shared_memory_is_refused() -> None:
    text = ".version 9.0\n.target sm_89\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n"
    text += ".visible .entry k()\n{\n ret;\n}\n"
    with pytest.raises(UserError, match="dynamic has no size"):
        lower.lower_module(parse(text), "k")


BODY = """
extern "C" __attribute__((device, used)) unsigned zrr_probe(unsigned a, unsigned long long b, unsigned scratch) {
    unsigned l = __builtin_amdgcn_mbcnt_lo(~0u, 0u);
    unsigned __attribute__((address_space(3)))* row = (unsigned __attribute__((address_space(3)))*)scratch;
    row[l] = a + (unsigned)(b >> 32) * SCALE;
    return scratch;
}
"""
CALL = """
    .shared .align 16 .b8 scratch[128];
    .reg .b32 %image;
    mov.u32 %image, scratch;
    mov.b64 %x, {%a0, %a0};
    {
    .param .b32 p0;
    st.param.b32 [p0+0], %a0;
    .param .b64 p1;
    st.param.b64 [p1+0], %x;
    .param .b32 p2;
    st.param.b32 [p2+0], %image;
    .param .b32 r;
    call.uni (r), zrr_probe, (p0, p1, p2);
    ld.param.b32 %image, [r+0];
    }
    mad.lo.s32 %image, %tid, 4, %image;
    xor.b32 %image, %image, 12;
    ld.shared.b32 %d0, [%image];
"""
DECLARATION = ".extern .func (.param .b32 r) zrr_probe (.param .b32 p0, .param .b64 p1, .param .b32 p2);\n"


def test_called_body_is_linked_and_inlined(tmp_path: Path) -> None:
    import numpy as np

    from zluda_rr.emulate.gfx12 import load_code_object, run_kernel
    from zluda_rr.emulate.memory import AddressSpace
    from zluda_rr.ptx import add_module_item

    body = tmp_path / "body.hip"
    body.write_text(BODY)
    module = add_module_item(kernel(CALL, inputs=1, outputs=1, declarations=DECLARATIONS), DECLARATION)
    compiled = lower.compile_module(module, "probe", bodies=[body], defines={"SCALE": "3"})
    assert "s_swappc" not in compiled.assembly
    assert "zrr_probe" not in compiled.assembly
    assert compiled.lds_bytes == 128
    memory = AddressSpace(capacity=1 << 20)
    words = np.arange(32, dtype=np.uint32) * 1000003
    source = memory.allocate("in", 128, data=words.view(np.uint8))
    target = memory.allocate("out", 128)
    params = np.array([source, target], np.uint64).tobytes()
    run_kernel(load_code_object(compiled.code_object), "probe", (1, 1, 1), (32, 1, 1), params, memory, "exact")
    out = memory.view("out").view(np.uint32)
    assert (out == (words * 4)[np.arange(32) ^ 3]).all()


def test_body_that_is_not_linked_is_an_error() -> None:
    from zluda_rr.ptx import add_module_item

    module = add_module_item(kernel(CALL, inputs=1, outputs=1, declarations=DECLARATIONS), DECLARATION)
    with pytest.raises(UserError, match="zrr_probe"):
        lower.compile_module(module, "probe")
