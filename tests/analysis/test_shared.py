"""Which bytes of a shared array are alive at a point, and what is ordered by a barrier."""

from tests.analysis.snippets import Snippet
from zluda_rr.analysis import SharedArrayUse

POINT = "add.s32 %r99, %r99, 1;"
LANE = "mov.u32 %r1, %laneid; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.s32 %r4, %r3, %r2;"
BRANCH = "mov.u32 %r20, %ctaid.x; setp.eq.u32 %p1, %r20, 0;"


def use_of(lines: str) -> tuple[Snippet, SharedArrayUse, int]:
    snippet = Snippet(lines)
    return snippet, SharedArrayUse(snippet.body, snippet.flow, snippet.values, "tile"), snippet.number("%r99, 1")


def live(lines: str) -> int:
    """How many bytes of `tile` are alive after the point."""
    _, use, point = use_of(lines)
    return use.live_after(point)[0].bit_count()


def test_a_load_makes_its_bytes_live() -> None:
    assert live(LANE + POINT + "ld.shared.u32 %r5, [%r4+64];") == 128
    assert live(LANE + "ld.shared.u32 %r5, [%r4+64];" + POINT) == 0


def test_the_readers_are_named() -> None:
    snippet, use, point = use_of(LANE + "ld.shared.u32 %r5, [%r4];" + POINT + "ld.shared.u32 %r6, [%r4];")
    assert use.live_after(point)[1] == (snippet.number("%r6"),)


def test_a_store_in_between_ends_the_life_of_its_bytes() -> None:
    assert live(LANE + POINT + "st.shared.u32 [%r4], %r1; ld.shared.u32 %r5, [%r4];") == 0
    assert live(LANE + POINT + "st.shared.u16 [%r4], %rs1; ld.shared.u32 %r5, [%r4];") == 64


def test_a_store_that_not_every_lane_executes_ends_nothing() -> None:
    guarded = "@%p1 st.shared.u32 [%r4], %r1; ld.shared.u32 %r5, [%r4];"
    assert live(LANE + BRANCH + POINT + guarded) == 128
    branched = "@%p1 bra $L_a; st.shared.u32 [%r4], %r1; $L_a: ld.shared.u32 %r5, [%r4];"
    assert live(LANE + BRANCH + POINT + branched) == 128


def test_a_read_on_one_path_is_enough() -> None:
    lines = LANE + BRANCH + POINT + "@%p1 bra $L_a; ld.shared.u32 %r5, [%r4]; $L_a: mov.u32 %r6, 1;"
    assert live(lines) == 128


def test_a_loop_brings_the_read_behind_the_point() -> None:
    lines = LANE + BRANCH + "$L_a: ld.shared.u32 %r5, [%r4];" + POINT + "@%p1 bra $L_a;"
    assert live(lines) == 128


def test_another_array_does_not_count() -> None:
    assert live("mov.u32 %r3, other;" + POINT + "ld.shared.u32 %r5, [%r3];") == 0


def test_global_memory_does_not_count() -> None:
    lines = "ld.param.u64 %rd1, [kernel_param_0+40]; cvta.to.global.u64 %rd2, %rd1;"
    assert live(lines + POINT + "ld.global.u32 %r5, [%rd2]; ld.u32 %r6, [%rd2];") == 0


def test_an_unknown_address_and_an_unknown_instruction_count_as_everything() -> None:
    assert live("mov.u32 %r3, %ctaid.x;" + POINT + "ld.shared.u32 %r5, [%r3];") == 3200
    assert live("mov.u64 %rd3, %clock64;" + POINT + "ld.u32 %r5, [%rd3];") == 3200
    assert live(POINT + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r6];") == 3200


def test_an_unknown_index_into_the_array_counts_as_the_whole_array() -> None:
    lines = "mov.u32 %r1, %ctaid.x; mov.u32 %r3, tile; add.s32 %r4, %r3, %r1;"
    assert live(lines + POINT + "ld.shared.u32 %r5, [%r4];") == 3200


def test_barriers_order() -> None:
    access = "ld.shared.u32 %r5, [%r4];"
    for before, after, expected in (
        (access, "", (1, 0)),
        (access + "bar.sync 0;", "", (0, 0)),
        ("", access, (0, 1)),
        ("", "bar.sync 0;" + access, (0, 0)),
        (access + BRANCH + "@%p1 bra $L_a; bar.sync 0; $L_a:", "", (1, 0)),
    ):
        _, use, point = use_of(LANE + before + POINT + after)
        assert (len(use.unordered_before(point)), len(use.unordered_after(point))) == expected
