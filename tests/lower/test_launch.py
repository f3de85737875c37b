"""What a launch decides, what nobody defined, and names: whole small kernels in the oracle and lowered."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.harness import assert_same, kernel, operands, run_lowered
from zluda_rr import lower
from zluda_rr.emulate.gfx12 import EmulationError, load_code_object, run_kernel
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.ptx import parse

WORD = ("b32",)
DECLARATIONS = ".reg .b32 %r, %s, %t; .reg .b64 %x; .reg .b16 %h; .reg .f32 %f; .reg .pred %p, %q;"

SIZES = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 p) {directive}
{{
    .reg .b32 %r<12>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %ntid.x; mov.u32 %r2, %ntid.y; mov.u32 %r3, %ntid.z;
    mov.u32 %r4, %tid.x; mov.u32 %r5, %tid.y; mov.u32 %r6, %tid.z; mov.u32 %r7, %ctaid.x; mov.u32 %r10, %nctaid.x;
    mad.lo.u32 %r8, %r6, %r2, %r5;
    mad.lo.u32 %r8, %r8, %r1, %r4;
    mul.lo.u32 %r9, %r1, %r2; mul.lo.u32 %r9, %r9, %r3;
    mad.lo.u32 %r8, %r7, %r9, %r8;
    mul.wide.u32 %rd2, %r8, 16; add.s64 %rd1, %rd1, %rd2;
    st.global.v4.u32 [%rd1], {{%r1, %r2, %r3, %r10}};
    ret;
}}
"""


@pytest.mark.parametrize(
    ("directive", "block"),
    [
        ("", (32, 1, 1)),
        ("", (7, 2, 2)),
        (".maxntid 128, 1, 1", (64, 1, 1)),
        (".maxntid 128", (16, 4, 2)),
        (".reqntid 16, 4, 1", (16, 4, 1)),
    ],
)
def test_block_size_is_the_launch_s(directive: str, block: tuple[int, int, int]) -> None:
    module = parse(SIZES.format(directive=directive))
    results = []
    for lowered in (False, True):
        memory = AddressSpace(1 << 20)
        params = memory.allocate("out", 16 * 3 * 128).to_bytes(8, "little")
        if lowered:
            code = load_code_object(lower.compile_module(module, "k").code_object)
            run_kernel(code, "k", (3, 1, 1), block, params, memory, "exact")
        else:
            run_entry(module, "k", grid=(3, 1, 1), block=block, params=params, memory=memory, model="exact")
        results.append(memory.view("out").view(np.uint32).reshape(-1, 4).copy())
    assert np.array_equal(*results)
    threads = 3 * block[0] * block[1] * block[2]
    assert (results[1][:threads] == [*block, 3]).all()


def test_a_larger_block_than_the_code_object_allows_is_no_launch() -> None:
    code = load_code_object(lower.compile_module(parse(SIZES.format(directive=".maxntid 64")), "k").code_object)
    memory = AddressSpace(1 << 20)
    params = memory.allocate("out", 1 << 14).to_bytes(8, "little")
    with pytest.raises(EmulationError, match="65 threads, at most 64"):
        run_kernel(code, "k", (1, 1, 1), (65, 1, 1), params, memory, "exact")


# Nothing defines %r, %p, %f, %x, %h or the shared array: zeros in the oracle.
UNDEFINED = {
    "guard": "mov.u32 %d0, 5; @%p mov.u32 %d0, 6; @!%p add.u32 %d0, %d0, %a0;",
    "branch": "mov.u32 %d0, 5; @%p bra AWAY; mov.u32 %d0, %a0; AWAY:",
    "branch around everything": "mov.u32 %d0, 5; @!%p bra ON; mov.u32 %d0, 9; ret; ON: add.u32 %d0, %d0, %a0;",
    "operand": "add.u32 %d0, %r, %a0; xor.b32 %r, %r, %r; add.u32 %d0, %d0, %r;",
    "twice the same": "sub.u32 %d0, %r, %r; add.u32 %d0, %d0, %a0;",
    "selection": "selp.b32 %d0, %a0, 7, %p;",
    "combined comparison": "setp.eq.and.u32 %q, %a0, %a0, %p; selp.b32 %d0, 1, %a0, %q;",
    "float": "add.f32 %f, %f, 0f3F800000; mov.b32 %d0, %f; add.u32 %d0, %d0, %a0;",
    "divisor": "div.u32 %d0, %a0, %r; rem.s32 %s, %a0, %r; xor.b32 %d0, %d0, %s;",
    "shift amount": "shl.b32 %d0, %a0, %r;",
    "defined in one arm": "setp.lt.s32 %q, %a0, 0; @%q mov.u32 %r, 3; add.u32 %d0, %r, %a0;",
    "defined in a loop": (
        "mov.u32 %s, 3; and.b32 %t, %a0, 1; AGAIN: add.u32 %r, %r, %t; sub.u32 %s, %s, 1; setp.ne.u32 %q, %s, 0; "
        "@%q bra AGAIN; add.u32 %d0, %r, %a0;"
    ),
    "address": "cvt.u64.u32 %x, %r; add.s64 %x, %x, %in; ld.global.u32 %d0, [%x];",
    "stored": "st.global.u32 [%out], %r; ld.global.u32 %d0, [%out]; add.u32 %d0, %d0, %a0;",
    "shuffled": "shfl.sync.idx.b32 %d0, %r, 3, 31, -1; add.u32 %d0, %d0, %a0;",
    "voted": "vote.sync.ballot.b32 %d0, %p, -1; add.u32 %d0, %d0, %a0;",
}


@pytest.mark.parametrize("name", UNDEFINED)
def test_undefined_values_are_zeros_everywhere(name: str) -> None:
    assert_same(kernel(UNDEFINED[name], inputs=1, outputs=1, declarations=DECLARATIONS), operands(1), WORD)


def test_shared_memory_that_nobody_wrote_is_something() -> None:
    """Not zeros, but the same for whoever looks: LLVM must not take the branch for undefined."""
    text = ".shared .align 4 .b8 nothing[128]; ld.shared.u32 %r, [nothing]; setp.eq.u32 %q, %r, 0; mov.u32 %d0, %a0; "
    module = kernel(text + "@%q mov.u32 %d0, 4;", inputs=1, outputs=1, declarations=DECLARATIONS)
    words = operands(1)
    result = run_lowered(module, words, 1)
    assert ((result == words) | (result == 4)).all()


def test_without_the_initialisation_llvm_removes_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The case is a real one: this is what a branch on LLVM's undefined value gives."""
    monkeypatch.setattr("zluda_rr.lower.body.initialise_undefined", lambda e: None)
    text = "mov.u32 %d0, 5; st.global.u32 [%out], %d0; @%p mov.u32 %d0, 6;"
    module = kernel(text, inputs=1, outputs=1, declarations=DECLARATIONS)
    assert "global_store" not in lower.compile_module(module, "probe").assembly


def test_an_endless_loop_is_kept() -> None:
    """LLVM may take out a loop without effects that it is told to end."""
    text = "setp.eq.u32 %p, %a0, 77; AGAIN: @%p bra AGAIN; mov.u32 %d0, %a0;"
    module = kernel(text, inputs=1, outputs=1, declarations=DECLARATIONS)
    assert "s_cbranch" in lower.compile_module(module, "probe").assembly


@pytest.mark.parametrize("name", ["k$1", "$k", "_k_$", "k" * 3000])
def test_names_of_kernels(name: str) -> None:
    module = parse(SIZES.format(directive="").replace("entry k(", f"entry {name}("))
    compiled = lower.compile_module(module, name)
    assert compiled.vgprs > 0
    assert list(load_code_object(compiled.code_object).kernels) == [name]


@pytest.mark.parametrize("stem", ["$x", "x" * 2000, "$L__BB0_1", "%a$b"])
def test_names_inside_a_kernel(stem: str) -> None:
    """Two of each that differ only at their ends: registers, labels, shared arrays."""
    label = stem.replace("%a$", "")
    text = f"""
    .reg .b32 {stem}1, {stem}2;
    .shared .align 4 .b8 {label}s1[128]; .shared .align 4 .b8 {label}s2[128];
    mov.u32 {stem}1, {label}s1; mov.u32 {stem}2, {label}s2;
    mad.lo.u32 {stem}1, %tid, 4, {stem}1; mad.lo.u32 {stem}2, %tid, 4, {stem}2;
    st.shared.u32 [{stem}1], %a0; st.shared.u32 [{stem}2], %tid;
    ld.shared.u32 {stem}1, [{stem}1]; ld.shared.u32 {stem}2, [{stem}2];
    setp.lt.s32 %p, %a0, 0;
    @%p bra {label}l1;
    bra {label}l2;
    {label}l1: add.u32 {stem}1, {stem}1, 5;
    {label}l2: sub.u32 %d0, {stem}1, {stem}2;
    """
    assert_same(kernel(text, inputs=1, outputs=1, declarations=DECLARATIONS), operands(1), WORD)


def test_a_name_of_the_lowering_s_own_is_refused() -> None:
    module = parse(SIZES.format(directive="").replace("entry k(", "entry zrt_lane_id("))
    with pytest.raises(lower.LoweringError, match="zrt_lane_id: names that start with zrt_"):
        lower.lower_module(module, "zrt_lane_id")
