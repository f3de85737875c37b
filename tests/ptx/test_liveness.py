"""Liveness against a search for a path to a use."""

from hypothesis import given, settings

from tests.ptx.modules import corpus_files, entry, read
from tests.ptx.programs import Program, programs
from zluda_rr.ptx import Body, ControlFlow, Liveness, linearise, parse


def is_live(program: Program, number: int, register: str) -> bool:
    """Is there a path from before the statement to a read of the register without a certain definition on it."""
    seen: set[int] = set()
    pending = [number]
    while pending:
        current = pending.pop()
        if current == 0 or current in seen:
            continue
        seen.add(current)
        op = program.ops[current - 1]
        if register in op.reads:
            return True
        if register not in op.certain:
            pending += program.after(current)
    return False


@settings(max_examples=100, deadline=None)
@given(programs())
def test_live_sets(program: Program) -> None:
    liveness = Liveness(program.body, ControlFlow(program.body))
    names = {r for op in program.ops for r in op.reads | op.possible}
    for number in program.numbers():
        assert liveness.live_in(number) == {r for r in names if is_live(program, number, r)}
        after = {
            r for r in names for following in program.after(number) if following and is_live(program, following, r)
        }
        assert liveness.live_out(number) == after


def straight_line(count: int) -> Body:
    lines = [f"add.s32 %r{n % 30 + 1}, %r{n * 7 % 30 + 1}, %r{n * 11 % 30 + 1};" for n in range(count)]
    return linearise(parse(entry("\n".join([*lines, "ret;"]))).entries[0])


def test_long_blocks_agree_with_one_backward_walk() -> None:
    """Longer than the distance between remembered points, at every statement."""
    body = straight_line(1000)
    liveness = Liveness(body, ControlFlow(body))
    live: set[str] = set()
    for statement in reversed(body.statements):
        assert liveness.live_out(statement.number) == live
        live = live - set(statement.defs) | set(statement.uses)
        assert liveness.live_in(statement.number) == live


def test_the_kernel_starts_with_nothing_live() -> None:
    """nvcc defines every register before it reads it, so a live register at the entry is an error of the analysis."""
    for path in corpus_files()[:2]:
        module = parse(read(path))
        for kernel in module.entries:
            body = linearise(kernel, module)
            assert Liveness(body, ControlFlow(body)).live_in(1) == frozenset()
