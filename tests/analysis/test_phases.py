"""Shapes from chains: the trap is that counting fragments doubles K, M and N of every phase with several k steps."""

import pytest

from tests.analysis.snippets import Snippet
from zluda_rr.analysis import build_phase, collect_mma, group_adjacent


def mma(d: int, a: int, b: int, c: int) -> str:
    """An mma whose D is registers d, d+1; A a..a+3; B b, b+1; C c, c+1."""
    form = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"
    return (
        f"{form} {{%r{d}, %r{d + 1}}}, {{%r{a}, %r{a + 1}, %r{a + 2}, %r{a + 3}}}, "
        f"{{%r{b}, %r{b + 1}}}, {{%r{c}, %r{c + 1}}};"
    )


def product(m_tiles: int, n_tiles: int, k_steps: int) -> str:
    """A whole product; D of tile (m, n) after step s is at 100 + 2*((m*n_tiles + n)*k_steps + s)."""
    lines = []
    for m in range(m_tiles):
        for n in range(n_tiles):
            for s in range(k_steps):
                d = 100 + 2 * ((m * n_tiles + n) * k_steps + s)
                lines.append(mma(d, 4 * (m * k_steps + s), 40 + 2 * (n * k_steps + s), 90 if s == 0 else d - 2))
    return "\n".join(lines)


def phases_of(lines: str) -> list[tuple[int, tuple[int, int, int], str | None]]:
    snippet = Snippet(lines)
    found = group_adjacent(snippet.body, collect_mma(snippet.body, snippet.values))
    return [(len(phase.mmas), phase.shape, phase.problem) for phase in found]


@pytest.mark.parametrize(("m", "n", "k"), [(6, 4, 1), (4, 4, 3), (1, 8, 4), (4, 2, 1), (2, 3, 2)])
def test_true_shape(m: int, n: int, k: int) -> None:
    assert phases_of(product(m, n, k)) == [(m * n * k, (16 * m, 8 * n, 32 * k), None)]


def test_runs_are_separate_phases() -> None:
    lines = product(2, 2, 1) + "\nmov.u32 %r90, 5;\n" + product(1, 2, 1).replace("%r1", "%r2")
    assert [shape for _, shape, _ in phases_of(lines)] == [(32, 16, 32), (16, 16, 32)]


def test_a_run_that_other_statements_interrupt_is_one_phase() -> None:
    lines = product(2, 3, 1).split("\n")
    lines.insert(4, "mov.u32 %r300, 5;")
    assert phases_of("\n".join(lines)) == [(6, (32, 24, 32), None)]


def test_a_missing_tile_is_no_product() -> None:
    lines = "\n".join(product(2, 2, 1).split("\n")[:-1])
    ((count, _, problem),) = phases_of(lines)
    assert count == 3
    assert problem == "M/16 * N/8 * K/32 = 32/16 * 16/8 * 32/32 = 4, but there are 3 mma"


def test_chains_of_different_lengths_are_no_product() -> None:
    lines = "\n".join(product(1, 2, 2).split("\n")[:-1])
    ((_, _, problem),) = phases_of(lines)
    assert problem == "accumulator chains of different lengths: [1, 2]"


def test_a_repeated_tile_is_no_product() -> None:
    ((_, _, problem),) = phases_of(mma(100, 0, 40, 90) + mma(102, 0, 40, 90))
    assert problem is not None
    assert "s2 repeats the tile of s1" in problem


def test_a_split_chain_is_no_product() -> None:
    ((_, _, problem),) = phases_of(mma(100, 0, 40, 90) + mma(102, 4, 42, 100) + mma(104, 8, 44, 100))
    assert problem == "two mma continue the accumulators of s1"


def test_renumbered_tiles() -> None:
    snippet = Snippet(product(2, 3, 2))
    phase = build_phase(1, collect_mma(snippet.body, snippet.values))
    turned = phase.relabelled([1, 0], [2, 0, 1])
    assert turned.chains[1, 2] == phase.chains[0, 0]
    assert turned.d(0, 0, 1) == phase.d(1, 1, 1)
    assert (turned.first, turned.last, turned.shape) == (phase.first, phase.last, phase.shape)


def test_other_mma_forms_and_predicates_are_not_supported() -> None:
    lines = mma(100, 0, 40, 90) + "@%p1 " + mma(102, 0, 42, 90)
    lines += "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, "
    lines += "{%f4,%f5,%f6,%f7};"
    snippet = Snippet(lines)
    assert [m.supported for m in collect_mma(snippet.body, snippet.values)] == [True, False, False]


def test_fragments_of_another_size_are_no_product() -> None:
    damaged = mma(100, 0, 40, 90).replace("{%r40, %r41}", "{%r40}")
    ((_, _, problem),) = phases_of(mma(102, 0, 42, 92) + damaged)
    assert problem == "a fragment of s2 has not the registers of m16n8k32 with e4m3 operands and f16 accumulators"


def test_an_instruction_that_the_table_lacks_is_no_mma() -> None:
    snippet = Snippet(mma(100, 0, 40, 90).replace("m16n8k32", "m17n8k32"))
    assert collect_mma(snippet.body, snippet.values) == ()
