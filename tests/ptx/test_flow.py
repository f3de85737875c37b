"""Blocks, edges, dominators against brute force over single statements."""

from hypothesis import given, settings

from tests.ptx.modules import entry, sample
from tests.ptx.programs import Program, programs
from zluda_rr.ptx import ControlFlow, linearise, parse


def reachable(program: Program, start: int, without: int = 0) -> set[int]:
    """Statements (0: leaving) that paths from `start` meet, `start` itself included, none through `without`."""
    seen: set[int] = set()
    pending = [] if start == without else [start]
    while pending:
        number = pending.pop()
        if number in seen or (without and number == without):
            continue
        seen.add(number)
        pending += program.after(number) if number else ()
    return seen


@settings(max_examples=100, deadline=None)
@given(programs())
def test_edges(program: Program) -> None:
    flow = ControlFlow(program.body)
    assert [n for block in flow.blocks for n in range(block.start, block.end + 1)] == list(program.numbers())
    for block in flow.blocks:
        inner = range(block.start, block.end)
        assert all(program.after(n) == (n + 1,) for n in inner)
        expected = set(program.after(block.end))
        found = {flow.blocks[i].start for i in flow.successors[block.index]} | (
            {0} if block.index in flow.exits else set()
        )
        assert found == expected
        for target in flow.successors[block.index]:
            assert block.index in flow.predecessors[target]
    edges = sum(map(len, flow.successors))
    assert edges == sum(map(len, flow.predecessors))


@settings(max_examples=100, deadline=None)
@given(programs())
def test_dominators(program: Program) -> None:
    flow = ControlFlow(program.body)
    live = reachable(program, 1)
    for a in flow.blocks:
        without = reachable(program, 1, without=a.start)
        for b in flow.blocks:
            expected = a.start in live and b.start in live and b.start not in without
            assert flow.dominates(a.index, b.index) == expected
        assert flow.is_reachable(a.index) == (a.start in live)


@settings(max_examples=100, deadline=None)
@given(programs())
def test_immediate_dominators_are_the_nearest(program: Program) -> None:
    flow = ControlFlow(program.body)
    for block in flow.blocks:
        strict = [b.index for b in flow.blocks if b.index != block.index and flow.dominates(b.index, block.index)]
        nearest = flow.immediate_dominator(block.index)
        assert (nearest is None) == (not strict)
        assert nearest is None or all(flow.dominates(other, nearest) for other in strict)


@settings(max_examples=100, deadline=None)
@given(programs())
def test_post_dominators(program: Program) -> None:
    flow = ControlFlow(program.body)
    leaves = {b.index for b in flow.blocks if 0 in reachable(program, b.start)}
    for a in flow.blocks:
        for b in flow.blocks:
            on_every_path = 0 not in reachable(program, b.start, without=a.start)
            assert flow.post_dominates(a.index, b.index) == ({a.index, b.index} <= leaves and on_every_path)
    for block in flow.blocks:
        strict = [b.index for b in flow.blocks if b.index != block.index and flow.post_dominates(b.index, block.index)]
        nearest = flow.immediate_post_dominator(block.index)
        assert (nearest is None) == (not strict)
        assert nearest is None or all(flow.post_dominates(other, nearest) for other in strict)


@settings(max_examples=100, deadline=None)
@given(programs(max_size=9))
def test_statement_queries(program: Program) -> None:
    flow = ControlFlow(program.body)
    live = reachable(program, 1)
    for a in program.numbers():
        beyond = {n for following in program.after(a) for n in reachable(program, following)}
        without = reachable(program, 1, without=a)
        for b in program.numbers():
            assert flow.reaches(a, b) == (b in beyond)
            if a != b and b in live:
                assert flow.statement_dominates(a, b) == (b not in without)


def test_branch_tables() -> None:
    text = entry(
        "$L_table: .branchtargets\n\t$L_1,\n\t$L_2;\n\tbrx.idx %r1, $L_table;\n$L_1:\n\tmov.u32 %r2, 1;\n$L_2:\n\tret;"
    )
    body = linearise(parse(text).entries[0])
    flow = ControlFlow(body)
    assert body.branch_targets == {"$L_table": ("$L_1", "$L_2")}
    assert [(b.start, b.end) for b in flow.blocks] == [(1, 2), (3, 4), (5, 6)]
    assert flow.successors == ((1, 2), (2,), ())


def test_empty_body() -> None:
    flow = ControlFlow(linearise(parse(entry("")).entries[0]))
    assert flow.blocks == ()


def test_loops_in_scoped_assembly_are_loops() -> None:
    module = parse(sample("plain"))
    kernel = module.function("features")
    assert kernel is not None
    body = linearise(kernel, module)
    flow = ControlFlow(body)
    loops = [name for name in body.labels if name.startswith("LOOP@")]
    assert len(loops) == 2
    for name in loops:
        number = body.labels[name]
        assert flow.reaches(number, number)
