"""Addresses: which pointer, which bytes of every lane, in all the spellings compilers use."""

import pytest

from tests.analysis.snippets import Snippet
from zluda_rr.analysis import Access, Atom, Value, read_extent
from zluda_rr.analysis.lanes import LANES

W = Atom("parameter", "u64", 40)
LOAD_W = "ld.param.u64 %rd1, [kernel_param_0+40]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, %laneid;"
TABLE = tuple(4 * (lane & 3) for lane in range(LANES))
FRAGMENT = tuple(16 * lane for lane in range(LANES))


def access(lines: str, text: str = "ld.global") -> Access:
    snippet = Snippet(lines)
    found = snippet.values.access(snippet.body[snippet.number(text)])
    assert found is not None
    return found


@pytest.mark.parametrize(
    "lines",
    [
        "shl.b32 %r2, %r1, 2; cvt.u64.u32 %rd3, %r2; and.b64 %rd4, %rd3, 12; add.s64 %rd5, %rd2, %rd4;",
        "shl.b32 %r2, %r1, 2; and.b32 %r3, %r2, 12; cvt.u64.u32 %rd4, %r3; add.s64 %rd5, %rd4, %rd2;",
        "and.b32 %r2, %r1, 3; mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd2, %rd4;",
        "and.b32 %r2, %r1, 3; mad.wide.u32 %rd5, %r2, 4, %rd2;",
        "bfe.u32 %r2, %r1, 0, 2; mul.wide.s32 %rd4, %r2, 4; add.u64 %rd5, %rd2, %rd4;",
        (
            "mul.lo.s32 %r2, %r1, 4; cvt.u64.u32 %rd3, %r2; mov.b64 %rd6, 12; and.b64 %rd4, %rd3, %rd6; "
            "add.s64 %rd5, %rd2, %rd4;"
        ),
        (
            "mov.u32 %r9, %tid.x; shl.b32 %r2, %r9, 2; and.b32 %r3, %r2, 12; mul.wide.u32 %rd4, %r3, 1; "
            "add.s64 %rd5, %rd2, %rd4;"
        ),
    ],
)
def test_table_base_in_every_spelling(lines: str) -> None:
    found = access(LOAD_W + lines + "ld.global.u32 %r4, [%rd5+37056];")
    assert (found.root, found.nbytes, found.exact) == (W, 4, True)
    assert found.offset.signed() == tuple(37056 + o for o in TABLE)
    assert found.extent() == (37056, 37072)


def test_offset_joined_by_or_before_the_conversion() -> None:
    lines = "shl.b32 %r2, %r1, 2; and.b32 %r3, %r2, 12; or.b32 %r5, %r3, 5120; cvt.u64.u32 %rd4, %r5;"
    found = access(LOAD_W + lines + "add.s64 %rd5, %rd2, %rd4; ld.global.u32 %r4, [%rd5+16];")
    assert found.offset.signed() == tuple(5136 + o for o in TABLE)


@pytest.mark.parametrize(
    "pointer",
    [
        "ld.param.u64 %rd2, [kernel_param_0+40];",
        "mov.b64 %rd7, kernel_param_0; ld.param.u64 %rd2, [%rd7+40];",
        (
            "mov.b64 %rd7, kernel_param_0; add.s64 %rd8, %rd7, 80; ld.param.u64 %rd1, [%rd8+-40]; "
            "cvta.to.global.u64 %rd2, %rd1;"
        ),
        (
            "mov.b64 %rd7, kernel_param_0; add.s64 %rd8, %rd7, 80; mov.u64 %rd9, %rd8; ld.param.u64 %rd1, [%rd9+-40]; "
            "cvta.to.global.u64 %rd3, %rd1; cvta.global.u64 %rd4, %rd3; cvta.to.global.u64 %rd2, %rd4;"
        ),
        "ld.param.v2.u64 {%rd10, %rd2}, [kernel_param_0+32];",
    ],
)
@pytest.mark.parametrize("load", ["ld.weak.global.ca.v4.u32", "ld.v4.u32", "ld.global.nc.v4.b32"])
def test_every_base_register_of_the_image_is_the_same_pointer(pointer: str, load: str) -> None:
    lines = (
        "mov.u32 %r1, %laneid; mul.wide.u32 %rd20, %r1, 16; add.s64 %rd21, %rd2, %rd20; add.s64 %rd22, %rd21, 21696;"
    )
    found = access(f"{pointer} {lines} {load} {{%r4, %r5, %r6, %r7}}, [%rd22];", f"{load} {{")
    assert found.root == W
    assert found.offset.signed() == tuple(21696 + o for o in FRAGMENT)
    assert found.nbytes == 16


def test_shared_address_through_a_symbol() -> None:
    lines = (
        "mov.u32 %r1, %laneid; shr.u32 %r2, %r1, 2; shl.b32 %r3, %r2, 5; shl.b32 %r4, %r1, 2; and.b32 %r5, %r4, 12;"
        "or.b32 %r6, %r5, %r3; mov.u32 %r7, tile; add.s32 %r8, %r7, %r6; ld.shared.u32 %r9, [%r8+352];"
    )
    found = access(lines, "ld.shared")
    assert found.root == Atom("shared", "tile")
    assert found.offset.signed() == tuple(352 + 32 * (lane >> 2) + 4 * (lane & 3) for lane in range(LANES))


def test_generic_address_of_shared_memory() -> None:
    lines = "mov.u64 %rd1, tile; cvta.shared.u64 %rd2, %rd1; add.s64 %rd3, %rd2, 64; ld.u32 %r1, [%rd3];"
    found = access(lines, "ld.u32")
    assert (found.space, found.root, found.extent()) == ("generic", Atom("shared", "tile"), (64, 68))


def test_address_with_an_unknown_index_keeps_its_pointer() -> None:
    lines = "mov.u32 %r2, %ctaid.x; mad.lo.s32 %r3, %r2, 9, %r1; mul.wide.s32 %rd3, %r3, 4; add.s64 %rd4, %rd2, %rd3;"
    found = access(LOAD_W + lines + "ld.global.u32 %r4, [%rd4];")
    assert found.root == W
    assert not found.exact
    assert found.extent() is None


def test_two_pointers_are_no_root() -> None:
    lines = "ld.param.u64 %rd3, [kernel_param_0+48]; add.s64 %rd4, %rd2, %rd3; ld.global.u32 %r4, [%rd4];"
    assert access(LOAD_W + lines).root is None


def test_the_same_address_on_both_paths_is_known_and_different_ones_are_not() -> None:
    template = (
        LOAD_W + "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 0; @%p1 bra $L_a; add.s64 %rd3, %rd2, 64; bra $L_b; "
        "$L_a: add.s64 %rd3, %rd2, {0}; $L_b: ld.global.u32 %r4, [%rd3];"
    )
    assert access(template.format(64)).extent() == (64, 68)
    assert access(template.format(68)).root is None


def test_a_guarded_definition_makes_the_value_unknown() -> None:
    lines = "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 0; add.s64 %rd3, %rd2, 64; @%p1 add.s64 %rd3, %rd2, 128;"
    assert access(LOAD_W + lines + "ld.global.u32 %r4, [%rd3];").root is None


def test_a_loop_counter_is_unknown() -> None:
    lines = (
        "mov.u64 %rd3, %rd2; mov.u32 %r2, 0; $L_loop: add.s64 %rd3, %rd3, 16; ld.global.u32 %r4, [%rd3]; "
        "add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, 4; @%p1 bra $L_loop;"
    )
    assert not access(LOAD_W + lines).exact


def test_tid_is_the_lane_only_for_a_block_of_one_warp() -> None:
    lines = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 16; ld.param.u64 %rd1, [kernel_param_0+40];"
    lines += "add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r4, [%rd4];"
    for block, exact in (((32, 1, 1), True), ((64, 1, 1), False), (None, False)):
        snippet = Snippet(lines, block)
        found = snippet.values.access(snippet.body[snippet.number("ld.global")])
        assert found is not None
        assert found.exact is exact


def test_copies_are_looked_through() -> None:
    snippet = Snippet("mov.u32 %r1, %laneid; mov.b32 %r2, %r1; mov.u32 %r3, %r2; add.s32 %r4, %r3, 1;")
    assert snippet.values.value(snippet.number("add"), "%r3") == Value("%r1", (1,))


def test_a_constant_of_two_halves_is_known() -> None:
    snippet = Snippet("mov.u16 %rs1, 0; mov.b32 %r1, {%rs1, %rs1}; mov.b32 %r2, {%rs1, 5}; add.s32 %r3, %r1, %r2;")
    add = snippet.number("add")
    assert snippet.values.register(add, "%r1").is_zero
    assert snippet.values.register(add, "%r2").lanes[0] == 5 << 16


def test_extent_of_a_buffer() -> None:
    lines = (
        LOAD_W
        + "mul.wide.u32 %rd3, %r1, 16; add.s64 %rd4, %rd2, %rd3; ld.global.v4.u32 {%r2,%r3,%r4,%r5}, [%rd4+95936];"
    )
    lines += "shl.b32 %r6, %r1, 2; cvt.u64.u32 %rd5, %r6; and.b64 %rd6, %rd5, 12; add.s64 %rd7, %rd2, %rd6;"
    lines += (
        "ld.global.u32 %r7, [%rd7+96464]; mov.u32 %r8, %ctaid.x; mul.wide.u32 %rd8, %r8, 4; add.s64 %rd9, %rd2, %rd8;"
    )
    lines += "ld.global.u32 %r9, [%rd9];"
    snippet = Snippet(lines)
    found = read_extent(snippet.values, 40)
    # The table's last lane reaches further than its immediate says (seed 001 §2.2).
    assert (found.first, found.end, found.loads) == (95936, 96480, 2)
    assert found.unresolved == (snippet.number("ld.global", 2),)
