"""Functions that the module defines: arguments, results, frames, divergence, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from zluda_rr.emulate.memory import AddressSpace, MemoryFault
from zluda_rr.emulate.ptx import ExecutionFault, OracleError, link, run_entry
from zluda_rr.ptx import parse

HEADER = ".version 8.4\n.target sm_89\n.address_size 64\n"
# square(x) = x * x through local memory; poly(x, {a, b}) = square(x) * a + b, where a and b come as one array of bytes.
FUNCTIONS = """
.func (.param .b32 result) square(.param .b32 x)
{
	.reg .b32 %r<4>;
	.local .align 4 .b8 frame[8];
	ld.param.b32 %r1, [x];
	st.local.b32 [frame+4], %r1;
	ld.local.b32 %r2, [frame+4];
	mul.lo.u32 %r3, %r1, %r2;
	st.param.b32 [result], %r3;
	ret;
}
.func (.param .b32 result) poly(.param .b32 x, .param .align 8 .b8 ab[8])
{
	.reg .b32 %r<6>;
	ld.param.b32 %r1, [x];
	{
	.param .b32 in;
	.param .b32 out;
	st.param.b32 [in], %r1;
	call (out), square, (in);
	ld.param.b32 %r2, [out];
	}
	ld.param.v2.b32 {%r3, %r4}, [ab];
	mad.lo.u32 %r5, %r2, %r3, %r4;
	st.param.b32 [result], %r5;
	ret;
}
"""
KERNEL = """
.visible .entry k(.param .u64 p_out)
{
	.reg .pred %p;
	.reg .b32 %r<8>;
	.reg .b64 %rd<4>;
	ld.param.u64 %rd1, [p_out];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	mov.b32 %r5, 7;
	setp.lt.u32 %p, %r1, 20;
	@!%p bra DONE;
	{
	.param .b32 x;
	.param .align 8 .b8 ab[8];
	.param .b32 y;
	st.param.b32 [x], %r1;
	mov.b32 %r2, 3;
	mov.b32 %r3, 100;
	st.param.v2.b32 [ab], {%r2, %r3};
	call.uni (y), poly, (x, ab);
	ld.param.b32 %r5, [y];
	}
DONE:
	st.global.b32 [%rd3], %r5;
	ret;
}
"""


def outputs(text: str, **options: int) -> np.ndarray:
    memory = AddressSpace(1 << 20)
    target = memory.allocate("out", 256)
    where = {"grid": (1, 1, 1), "block": (64, 1, 1), "params": target.to_bytes(8, "little")}
    run_entry(parse(HEADER + text), "k", memory=memory, model="exact", **where, **options)
    return memory.view("out").view(np.uint32).copy()


def test_nested_calls_from_some_lanes() -> None:
    """Two warps, one of them split and one that does not call; arguments of four bytes and of eight in one array."""
    lane = np.arange(64)
    assert outputs(FUNCTIONS + KERNEL).tolist() == np.where(lane < 20, lane * lane * 3 + 100, 7).tolist()


def test_a_function_may_stand_behind_its_caller() -> None:
    declared = ".func (.param .b32 result) poly(.param .b32 x, .param .align 8 .b8 ab[8]);\n"
    assert (outputs(declared + KERNEL + FUNCTIONS) == outputs(FUNCTIONS + KERNEL)).all()


def test_what_is_linked_once_runs_in_any_space() -> None:
    module, first, second = parse(HEADER + FUNCTIONS + KERNEL), AddressSpace(1 << 20), AddressSpace(1 << 20)
    second.allocate("other", 512)
    linked = link(module, "k", first)
    assert linked.movable
    for memory in (first, second):
        target = memory.allocate("out", 256)
        where = {"grid": (1, 1, 1), "block": (64, 1, 1), "params": target.to_bytes(8, "little")}
        run_entry(linked, "k", memory=memory, model="exact", **where)
    assert (first.view("out") == second.view("out")).all()


def test_shared_variables_of_the_module_are_the_same_in_a_function() -> None:
    text = """
.shared .align 4 .b32 box[2];
.func put(.param .b32 x)
{
	.reg .b32 %r<2>;
	.shared .align 4 .b32 own[4];
	ld.param.b32 %r1, [x];
	st.shared.b32 [own], 5;
	st.shared.b32 [box+4], %r1;
	ret;
}
.visible .entry k(.param .u64 p_out)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<2>;
	.param .b32 x;
	ld.param.u64 %rd1, [p_out];
	mov.b32 %r1, 9;
	st.shared.b32 [box], 4;
	st.param.b32 [x], %r1;
	call put, (x);
	ld.shared.b32 %r2, [box];
	ld.shared.b32 %r3, [box+4];
	st.global.v2.b32 [%rd1], {%r2, %r3};
	ret;
}
"""
    assert outputs(text)[:2].tolist() == [4, 9]


def test_shared_variables_of_its_own_are_not_its_caller_s_of_that_name() -> None:
    text = """
.func put()
{
	.shared .align 4 .b32 own;
	st.shared.b32 [own], 5;
	ret;
}
.visible .entry k(.param .u64 p_out)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<2>;
	.shared .align 4 .b32 own;
	ld.param.u64 %rd1, [p_out];
	st.shared.b32 [own], 4;
	call put;
	ld.shared.b32 %r1, [own];
	st.global.b32 [%rd1], %r1;
	ret;
}
"""
    assert outputs(text)[0] == 4


BARRIER = """
.shared .align 4 .b32 box[64];
.func (.param .b32 result) turned(.param .b32 x)
{
	.reg .b32 %r<6>;
	ld.param.b32 %r1, [x];
	mov.u32 %r2, box;
	mad.lo.u32 %r3, %r1, 4, %r2;
	st.shared.b32 [%r3], %r1;
	bar.sync 0;
	sub.s32 %r4, 63, %r1;
	mad.lo.u32 %r3, %r4, 4, %r2;
	ld.shared.b32 %r5, [%r3];
	st.param.b32 [result], %r5;
	ret;
}
.visible .entry k(.param .u64 p_out)
{
	.reg .pred %p;
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	.param .b32 x;
	.param .b32 y;
	ld.param.u64 %rd1, [p_out];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	st.param.b32 [x], %r1;
	call (y), turned, (x);
	ld.param.b32 %r2, [y];
	st.global.b32 [%rd3], %r2;
	ret;
}
"""


def test_a_barrier_in_a_function_joins_the_warps() -> None:
    assert outputs(BARRIER).tolist() == [63 - lane for lane in range(64)]


@pytest.mark.parametrize("where", ["call (y), turned, (x);", "bar.sync 0;"])
def test_a_barrier_in_a_function_waits_for_those_that_are_not_in_it(where: str) -> None:
    """The second warp calls later, or has returned already: PTX would join them, the oracle says that it does not."""
    early = "setp.gt.u32 %p, %r1, 31;\n\t@%p "
    text = BARRIER.replace(".reg .b32 %r<6>;", ".reg .b32 %r<6>;\n\t.reg .pred %p;")
    if where.startswith("call"):
        text = text.replace(where, f"{early}bra LATER;\n\t{where}\n\tret;\nLATER:\n\t{where}")
    else:
        text = text.replace(where, f"{early}ret;\n\t{where}")
    with pytest.raises(ExecutionFault, match="not reached by every live thread of its block in the same call"):
        outputs(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("call (out), square, (in)", "call (out), poly, (in, ab)"), "poly calls itself"),
        (("call.uni (y), poly, (x, ab)", "call.uni (y), poly, (x)"), "the arguments are not those of its definition"),
        (("st.param.b32 [result], %r3;\n\tret;", "st.param.b32 [result], %r3;\n\texit;"), "square ends its thread"),
        (("mul.lo.u32 %r3, %r1, %r2;", "isspacep.global %p, %rd1;"), r"line \d+, s\d+: "),
    ],
)
def test_what_has_no_semantics_is_refused_by_name(change: tuple[str, str], message: str) -> None:
    text = (FUNCTIONS + KERNEL).replace(*change)
    assert text != FUNCTIONS + KERNEL
    with pytest.raises(OracleError, match=message):
        outputs(text.replace(".reg .b32 %r<4>;", ".reg .b32 %r<4>;\n\t.reg .pred %p;\n\t.reg .b64 %rd<2>;"))


def test_a_fault_in_a_function_names_call_and_statement() -> None:
    text = (FUNCTIONS + KERNEL).replace("[frame+4], %r1", "[frame+400], %r1")
    with pytest.raises(MemoryFault, match=r"call\.uni .*: line \d+, s\d+: call .*: line \d+, s\d+: st\.local.*local"):
        outputs(text)


@pytest.mark.parametrize("statement", ["bra AGAIN;", "setp.eq.u32 %p, %r1, %r1;\n@%p bra AGAIN;"])
def test_a_loop_without_end_is_a_fault(statement: str) -> None:
    text = FUNCTIONS + KERNEL.replace("DONE:", f"DONE:\nAGAIN:\n\t{statement}")
    with pytest.raises(ExecutionFault, match="endless loop"):
        outputs(text, segment_limit=1000)
