"""The entry point: calls of extern functions, captures, statistics, and errors that name the place."""

import numpy as np
import pytest

from tests.emulate.ptx.harness import HEADER, Snippet, kernel, run
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import ExternCall, OracleError, run_entry
from zluda_rr.ptx import linearise, parse

LANES = np.arange(64, dtype=np.uint64)[:, None]
MODULE = ".extern .func (.param .b32 r) zrr_scale(.param .b32 a, .param .b64 b);\n"
CALL = """st.shared.b32 [box], %a0;
{ .param .b32 first; .param .b64 second; .param .b32 back;
 st.param.b32 [first], %a0; st.param.b64 [second], %w0;
 call.uni (back), zrr_scale, (first, second);
 ld.param.b32 %d0, [back]; }
ld.shared.b32 %d1, [box];"""
SNIPPET = Snippet(
    "cvt.u64.u32 %w0, %a0; mul.lo.u64 %w0, %w0, 3;\n" + CALL,
    ("b32",),
    ("b32", "b32"),
    declare=".reg .b64 %w0; .shared .b32 box;\n",
    module=MODULE,
)


def test_extern_functions_run_their_python_model() -> None:
    seen: list[ExternCall] = []

    def scale(call: ExternCall) -> np.ndarray:
        seen.append(call)
        words = call.shared.view(np.uint32)
        words[:, 0] += np.uint32(1000)
        block = call.block_of_warp[:, None]
        return (call.arguments[0] + call.arguments[1].astype(np.uint32) + block).astype(np.uint32)

    slots = run(SNIPPET, LANES, externs={"zrr_scale": scale}).slots
    assert slots[:, 0].tolist() == [4 * lane + lane // 32 for lane in range(64)]
    assert slots[:, 1].tolist() == [1031] * 32 + [1063] * 32  # the last lane of each block stored last
    assert [argument.dtype for argument in seen[0].arguments] == [np.uint32, np.uint64]
    assert seen[0].active.all()
    assert seen[0].active.shape == (2, 32)


def test_a_call_without_a_model_is_an_error() -> None:
    with pytest.raises(OracleError, match=r"line \d+: call to zrr_scale, which has no model"):
        run(SNIPPET, LANES)


def test_a_model_must_return_what_the_function_declares() -> None:
    with pytest.raises(TypeError, match=r"must return uint32\[warps, 32\]"):
        run(SNIPPET, LANES, externs={"zrr_scale": lambda call: call.arguments[1]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("frobnicate.b32 %d0, %a0;", r"line 25, s14: frobnicate\.b32 %d0, %a0;: the oracle has no semantics"),
        ("add.rz.f32 %d0, %a0, %a0;", r"line 25, s14: add\.rz\.f32 .*: \.rz has no semantics here"),
        ("wmma.load.a.sync.aligned %d0, [%a0];", "s14: wmma"),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%d0,%d0},{%a0,%a0,%a0,%a0},{%a0,%a0},{%a0,%a0};", "mma"),
        ("fma.rz.f64 %w, %w, %w, %w;", r"\.rz has no semantics"),
        ("suld.b.1d.b32.zero %d0, [%w, {%a0}];", r"suld.*(2d|coordinates|1d)"),
        ("mov.u32 %d0, %clock;", "%clock"),
        ("bar.red.popc.u32 %d0, 0, %a1;", "no semantics"),
        ("mov.b32 %d0, nowhere;", "nowhere"),
        ("ld.global.v2.b32 {%d0}, [%w];", "vector length"),
    ],
)
def test_what_has_no_semantics_is_named(text: str, message: str) -> None:
    with pytest.raises(OracleError, match=message) as caught:
        run(Snippet(text, ("b32", "pred"), ("b32",)), np.zeros((32, 2), dtype=np.uint64))
    assert "\n" not in str(caught.value)


def test_wrong_launches_are_refused() -> None:
    module = parse(HEADER + kernel("k", Snippet("", ("b32",), ())), filename="some.ptx")
    arguments = {"grid": (1, 1, 1), "block": (32, 1, 1), "memory": AddressSpace(1 << 16)}
    with pytest.raises(OracleError, match="k takes 16 bytes of parameters, 8 were given"):
        run_entry(module, "k", params=bytes(8), model="exact", **arguments)
    with pytest.raises(OracleError, match=r"some\.ptx: no kernel other; entries: k"):
        run_entry(module, "other", params=bytes(16), model="exact", **arguments)
    with pytest.raises(OracleError, match="no accumulation model 'fast'"):
        run_entry(module, "k", params=bytes(16), model="fast", **arguments)


def test_captures_are_the_registers_a_statement_defines() -> None:
    snippet = Snippet("mul.wide.u32 %w0, %a0, 5;\ncvt.u32.u64 %d0, %w0;", ("b32",), ("b32",), ".reg .b64 %w0;\n")
    module = parse(HEADER + kernel("k", snippet))
    function = module.function("k")
    assert function is not None
    body = linearise(function, module)
    (number,) = [s.number for s in body.statements if s.defs == ("%w0",)]
    outcome = run(snippet, LANES, capture=(number,), chunk_warps=1)
    (values,) = outcome.stats.captured[number]
    assert values.dtype == np.uint64
    assert values.tolist() == (LANES.reshape(2, 32) * np.uint64(5)).tolist()


def test_statistics_count_warps_that_execute() -> None:
    text = "setp.lt.u32 %p, %a0, 32; @%p bra OVER; mul.lo.u32 %d0, %a0, %a0; OVER: mov.b32 %d1, 1;"
    outcome = run(Snippet(text, ("b32",), ("b32", "b32"), declare=".reg .pred %p;\n"), LANES)
    assert (outcome.stats.blocks, outcome.stats.warps) == (2, 2)
    assert outcome.stats.executed["mul"] == 1 + 2 * 2  # the address arithmetic multiplies twice in both warps
    assert outcome.stats.executed["ret"] == 2


def test_grids_have_three_axes_and_report_progress() -> None:
    text = """mov.u32 %d0, %ctaid.x; mov.u32 %d1, %ctaid.y; mov.u32 %d2, %tid.y; mov.u32 %d3, %nctaid.y;
    mov.u32 %x, %nctaid.x; mad.lo.u32 %i, %d1, %x, %d0; mov.u32 %x, %ntid.y; mad.lo.u32 %i, %i, %x, %d2;
    mov.u32 %x, %ntid.x; mov.u32 %n, %tid.x; mad.lo.u32 %i, %i, %x, %n;
    ld.param.u64 %out, [p_out]; mul.wide.u32 %w, %i, 32; add.u64 %out, %out, %w;"""
    module = parse(HEADER + kernel("k", Snippet(text, (), ("b32",) * 4)))
    space = AddressSpace(1 << 20)
    source, target = space.allocate("in", 8 * 96), space.allocate("out", 32 * 96)
    done: list[tuple[int, int]] = []
    run_entry(
        module,
        "k",
        grid=(3, 2, 1),
        block=(8, 2, 1),
        params=source.to_bytes(8, "little") + target.to_bytes(8, "little"),
        memory=space,
        model="exact",
        chunk_warps=2,
        progress=lambda blocks, total: done.append((blocks, total)),
    )
    slots = space.view("out").view(np.uint64).reshape(2, 3, 2, 8, 4)
    for y, x, row, column in np.ndindex(2, 3, 2, 8):
        assert slots[y, x, row, column].tolist() == [x, y, row, 2]
    assert done == [(2, 6), (4, 6), (6, 6)]
