"""Reaching definitions against the textbook iteration over single statements."""

from hypothesis import given, settings

from tests.ptx.modules import entry
from tests.ptx.programs import REGISTERS, Program, programs
from zluda_rr.ptx import ControlFlow, DefUse, linearise, parse

NAMES = (*REGISTERS, "%p1", "%rd1")


def brute_reaching(program: Program) -> dict[int, set[tuple[int, str]]]:
    """(definition, register) pairs that hold before each statement, by iteration to the fixed point."""
    before: dict[int, set[tuple[int, str]]] = {n: set() for n in program.numbers()}
    changed = True
    while changed:
        changed = False
        for number in program.numbers():
            op = program.ops[number - 1]
            after = {(d, r) for d, r in before[number] if r not in op.certain} | {(number, r) for r in op.possible}
            for following in program.after(number):
                if following and not after <= before[following]:
                    before[following] |= after
                    changed = True
    return before


def undefined_at(program: Program, register: str) -> set[int]:
    """Statements that some path from the entry meets without a certain definition before."""
    seen: set[int] = set()
    pending = [1]
    while pending:
        number = pending.pop()
        if number == 0 or number in seen:
            continue
        seen.add(number)
        if register not in program.ops[number - 1].certain:
            pending += program.after(number)
    return seen


def live_statements(program: Program) -> set[int]:
    seen: set[int] = set()
    pending = [1]
    while pending:
        number = pending.pop()
        if number and number not in seen:
            seen.add(number)
            pending += program.after(number)
    return seen


@settings(max_examples=100, deadline=None)
@given(programs())
def test_reaching(program: Program) -> None:
    chains = DefUse(program.body, ControlFlow(program.body))
    expected = brute_reaching(program)
    for number in program.numbers():
        for register in NAMES:
            assert chains.reaching(number, register) == {d for d, r in expected[number] if r == register}


@settings(max_examples=100, deadline=None)
@given(programs())
def test_lists_and_readers(program: Program) -> None:
    chains = DefUse(program.body, ControlFlow(program.body))
    expected = brute_reaching(program)
    for register in NAMES:
        defs = [n for n in program.numbers() if register in program.ops[n - 1].possible]
        uses = [n for n in program.numbers() if register in program.ops[n - 1].reads]
        assert chains.defs(register) == tuple(defs)
        assert chains.uses(register) == tuple(uses)
        certain = len(defs) == 1 and register in program.ops[defs[0] - 1].certain
        assert chains.is_single_def(register) == certain
        for number in defs:
            readers = tuple(use for use in uses if (number, register) in expected[use])
            assert chains.readers(number, register) == readers


@settings(max_examples=100, deadline=None)
@given(programs())
def test_defined_on_every_path(program: Program) -> None:
    chains = DefUse(program.body, ControlFlow(program.body))
    for register in REGISTERS:
        undefined = undefined_at(program, register)
        for number in live_statements(program):
            assert chains.is_defined_before(number, register) == (number not in undefined)


def test_what_instructions_read_and_write() -> None:
    body = linearise(
        parse(
            entry(
                """
        @%p1 ld.global.v2.u32 {%r1, %r2}, [%rd1+8];
        st.shared.u32 [%r3], %r4;
        shfl.sync.down.b32 %r5|%p2, %r6, %r7, 31, -1;
        mov.u32 %r8, %tid.x;
        mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16 {%r1,%r2},{%r3,%r3,%r4,%r4},{%r5,%r6},{%r1,%r2};
        setp.eq.and.s32 %p3|%p4, %r1, %r2, !%p5;
        sust.b.2d.v2.b16.zero [%rd2, {%r1, %r2}], {%r3, %r4};
        atom.global.add.u32 %r1, [%rd3], %r2;
        red.global.add.u32 [%rd3], %r2;
        bar.sync 0;
        call.uni (%r1), %rd4, (%r2), prototype;
        prefetch.global.L2 [%rd5];"""
            )
        ).entries[0]
    )
    assert [(s.defs, s.uses) for s in body.statements] == [
        (("%r1", "%r2"), ("%rd1", "%p1")),
        ((), ("%r3", "%r4")),
        (("%r5", "%p2"), ("%r6", "%r7")),
        (("%r8",), ()),
        (("%r1", "%r2"), ("%r3", "%r4", "%r5", "%r6", "%r1", "%r2")),
        (("%p3", "%p4"), ("%r1", "%r2", "%p5")),
        ((), ("%rd2", "%r1", "%r2", "%r3", "%r4")),
        (("%r1",), ("%rd3", "%r2")),
        ((), ("%rd3", "%r2")),
        ((), ()),
        (("%r1",), ("%rd4", "%r2")),
        ((), ("%rd5",)),
    ]
    assert all(s.known for s in body.statements)
