"""Loads, stores, atomics and addresses of every state space."""

import numpy as np
import pytest

from tests.emulate.ptx.harness import Snippet, run
from zluda_rr.emulate.memory import AddressSpace, MemoryFault

FULL = np.arange(32, dtype=np.uint64)[:, None]


def space_with(nbytes: int, *, writable: bool = True, seed: int = 1) -> tuple[AddressSpace, int, np.ndarray]:
    """A buffer of random bytes: the space, its address, a copy of its bytes."""
    space = AddressSpace(1 << 22)
    data = np.random.default_rng(seed).integers(0, 256, nbytes, dtype=np.uint8)
    return space, space.allocate("buffer", nbytes, data=data.tobytes(), writable=writable), data


@pytest.mark.parametrize(
    ("form", "nbytes", "register"),
    [
        ("u8", 1, "b32"),
        ("s8", 1, "b32"),
        ("b8", 1, "b16"),
        ("u16", 2, "b32"),
        ("s16", 2, "b64"),
        ("b16", 2, "b16"),
        ("u32", 4, "b32"),
        ("f32", 4, "f32"),
        ("s32", 4, "b64"),
        ("b64", 8, "b64"),
    ],
)
@pytest.mark.parametrize("qualifier", ["global", "global.nc", "weak.global.ca", "volatile.global", ""])
def test_scalar_loads_extend(form: str, nbytes: int, register: str, qualifier: str) -> None:
    space, base, data = space_with(32 * nbytes + nbytes)
    text = f"ld{'.' if qualifier else ''}{qualifier}.{form} %d0, [%a0+{nbytes}];"
    where = base + nbytes * np.arange(32, dtype=np.uint64)[:, None]
    slots = run(Snippet(text, ("b64",), (register,)), where, memory=space).slots[:, 0]
    width = int(register[1:])
    for lane in range(32):
        raw = data[nbytes * (lane + 1) : nbytes * (lane + 2)].tobytes()
        value = int.from_bytes(raw, "little", signed=form[0] == "s")
        assert int(slots[lane]) == value & ((1 << width) - 1)


@pytest.mark.parametrize(
    ("vector", "form", "nbytes"), [(2, "b16", 2), (4, "b16", 2), (2, "b32", 4), (4, "b32", 4), (2, "b64", 8)]
)
@pytest.mark.parametrize("space_name", ["global", "shared", "local"])
def test_vectors_move_in_order(vector: int, form: str, nbytes: int, space_name: str) -> None:
    """Copy a vector from global memory to the space and back, elements reversed."""
    total = vector * nbytes
    space, base, data = space_with(32 * total)
    names = [f"%v{i}" for i in range(vector)]
    declare = f".shared .align 16 .b8 box[512];\n.local .align 16 .b8 den[16];\n.reg .{form} {', '.join(names)};\n"
    declare += ".reg .b64 %at; .reg .b32 %lane;\n"
    own = {
        "global": "mov.b64 %at, %a0;",
        "shared": f"mov.u32 %lane, %laneid; mul.wide.u32 %at, %lane, {total}; mov.u64 %a0, box; add.u64 %at, %at, %a0;",
        "local": "mov.u64 %at, den;",
    }[space_name]
    text = f"""ld.global.v{vector}.{form} {{{", ".join(names)}}}, [%a0];
    {own}
    st.{space_name}.v{vector}.{form} [%at], {{{", ".join(reversed(names))}}};
    ld.{space_name}.v{vector}.{form} {{{", ".join(f"%d{i}" for i in range(vector))}}}, [%at];"""
    where = base + total * np.arange(32, dtype=np.uint64)[:, None]
    outcome = run(Snippet(text, ("b64",), (form,) * vector, declare=declare), where, memory=space)
    expected = data.view(f"u{nbytes}").reshape(32, vector)[:, ::-1]
    assert np.array_equal(outcome.slots, expected)
    if space_name == "global":
        assert np.array_equal(outcome.memory.view("buffer").view(f"u{nbytes}").reshape(32, vector), expected)


def test_masked_lanes_neither_load_nor_store() -> None:
    space, base, data = space_with(128)
    text = """setp.lt.u32 %p, %a1, 8; mov.b32 %d0, 1;
    @%p ld.global.b32 %d0, [%a0]; @%p st.global.b32 [%a0], %a1;"""
    where = np.array([[base + 4 * lane if lane < 8 else 4, lane] for lane in range(32)], dtype=np.uint64)
    outcome = run(Snippet(text, ("b64", "b32"), ("b32",), declare=".reg .pred %p;\n"), where, memory=space)
    assert outcome.slots[:, 0].tolist() == data.view(np.uint32)[:8].tolist() + [1] * 24
    assert outcome.memory.view("buffer").view(np.uint32)[:9].tolist() == [*range(8), data.view(np.uint32)[8]]


def test_stores_of_narrow_types_take_the_low_bits() -> None:
    space, base, _ = space_with(64)
    text = "st.global.b8 [%a0], %a1; st.global.u16 [%a0+2], %a1; mov.b32 %d0, 0;"
    where = np.array([[base + 4 * (lane % 16), 0xA1B2C3D4 + lane] for lane in range(32)], dtype=np.uint64)
    outcome = run(Snippet(text, ("b64", "b32"), ("b32",)), where, memory=space)
    view = outcome.memory.view("buffer").reshape(16, 4)
    # Lanes 16..31 store last.
    assert view[:, 0].tolist() == [0xD4 + lane for lane in range(16, 32)]
    assert view.view(np.uint16)[:, 1].tolist() == [0xC3D4 + lane for lane in range(16, 32)]


def test_generic_addresses_reach_every_space() -> None:
    """Even lanes aim at shared memory, odd ones at local or global memory, in one instruction."""
    space, base, data = space_with(256)
    declare = ".shared .align 8 .b8 box[256];\n.local .align 8 .b8 den[8];\n.reg .b64 %s, %l; .reg .pred %p, %q;\n"
    text = """mov.u64 %s, box; cvta.shared.u64 %s, %s; mad.wide.u32 %s, %a1, 8, %s;
    mov.u64 %l, den; cvta.local.u64 %l, %l;
    and.b32 %d0, %a1, 1; setp.eq.u32 %p, %d0, 0; and.b32 %d0, %a1, 2; setp.eq.u32 %q, %d0, 0;
    selp.b64 %a0, %l, %a0, %q; selp.b64 %a0, %s, %a0, %p;
    st.u32 [%a0], %a1; ld.u32 %d0, [%a0]; cvta.to.shared.u64 %s, %s; ld.shared.u32 %d1, [%s];
    ld.local.u32 %d2, [den];"""
    where = np.array([[base + 8 * lane, lane] for lane in range(32)], dtype=np.uint64)
    outcome = run(Snippet(text, ("b64", "b32"), ("b32",) * 3, declare=declare), where, memory=space)
    assert outcome.slots[:, 0].tolist() == list(range(32))
    assert outcome.slots[:, 1].tolist() == [lane if lane % 2 == 0 else 0 for lane in range(32)]
    assert outcome.slots[:, 2].tolist() == [lane if lane % 4 == 1 else 0 for lane in range(32)]
    words = outcome.memory.view("buffer").view(np.uint32)[::2]
    assert words.tolist() == [lane if lane % 4 == 3 else int(data.view(np.uint32)[2 * lane]) for lane in range(32)]


def test_parameters_through_registers_and_symbols() -> None:
    text = """mov.b64 %p, p_in; add.s64 %p, %p, 16; ld.param.u64 %d0, [%p+-8]; ld.param.u64 %d1, [p_out];
    ld.param.v2.u32 {%d2, %d3}, [p_in+8];"""
    outcome = run(Snippet(text, ("b64",), ("b64", "b64", "b32", "b32"), declare=".reg .b64 %p;\n"), FULL)
    address = outcome.memory.allocations["out"].address
    assert outcome.slots[5].tolist() == [address, address, address & 0xFFFFFFFF, address >> 32]


def test_module_variables_are_placed_and_initialised() -> None:
    module = """.global .align 4 .u32 counter;
.const .align 4 .b32 table[4] = {1, 0x10, -1, 7};
.global .align 4 .f32 half = 0f3F000000;
"""
    text = """and.b32 %d0, %a0, 3; mov.u64 %t, table; mad.wide.u32 %t, %d0, 4, %t; ld.const.b32 %d0, [%t];
    ld.global.f32 %d1, [half]; atom.global.add.u32 %d2, [counter], 2;"""
    outcome = run(Snippet(text, ("b32",), ("b32", "f32", "u32"), declare=".reg .b64 %t;\n", module=module), FULL)
    assert outcome.slots[:, 0].tolist() == [1, 16, 0xFFFFFFFF, 7] * 8
    assert np.all(outcome.slots[:, 1] == 0x3F000000)
    assert sorted(outcome.slots[:, 2].tolist()) == list(range(0, 64, 2))
    assert outcome.memory.view("ptx:counter").view(np.uint32).tolist() == [64]


@pytest.mark.parametrize(
    ("operation", "final"),
    [("add", sum(range(32))), ("max", 31), ("min", 0), ("or", 31), ("and", 0), ("xor", 0), ("exch", 31)],
)
def test_atomics_see_each_other(operation: str, final: int) -> None:
    form = "b32" if operation in ("or", "and", "xor", "exch") else "u32"
    text = f"""mov.u32 %t, box; atom.shared.{operation}.{form} %d0, [%t], %a0;
    bar.sync 0; ld.shared.b32 %d1, [%t];"""
    snippet = Snippet(text, ("b32",), ("b32", "b32"), declare=".shared .b32 box; .reg .b32 %t;\n")
    slots = run(snippet, FULL).slots
    assert np.all(slots[:, 1] == final)
    assert slots[0, 0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ld.global.b32 %d0, [%a0+128];", r"4-byte load at 0x7f\w+: 0 bytes past the end of 'buffer'"),
        ("st.global.b32 [%a0+-4], %d0;", r"4-byte store at .*4 bytes before 'buffer'"),
        ("ld.global.b32 %d0, [%a0+2];", "misaligned 4-byte access"),
        ("ld.global.v4.b32 {%d0,%d0,%d0,%d0}, [%a0+8];", "misaligned 16-byte access"),
        (
            "mov.u64 %a0, box; ld.shared.b32 %d0, [%a0+64];",
            "4-byte access at 0x40 of shared memory, which has 64 bytes",
        ),
        ("ld.shared.b32 %d0, [box+-4];", "of shared memory, which has 64 bytes"),
        ("ld.local.b32 %d0, [den+8];", "of local memory"),
        ("mov.u64 %a0, p_in; ld.param.b32 %d0, [%a0+16];", "4-byte load at offset 16 of a parameter block of 16 bytes"),
        ("mov.u64 %a0, 0; ld.b32 %d0, [%a0];", "4-byte load at 0x0"),
    ],
)
def test_bad_accesses_fault_with_their_statement(text: str, message: str) -> None:
    space, base, _ = space_with(128)
    declare = ".shared .align 4 .b8 box[64];\n.local .align 4 .b8 den[8];\n"
    snippet = Snippet(text, ("b64",), ("b32",), declare=declare)
    with pytest.raises(
        MemoryFault, match=rf"line \d+, s\d+: (ld|st)\..*: .*{message}|line \d+, s\d+: ld.b32.*{message}"
    ):
        run(snippet, np.full((32, 1), base, dtype=np.uint64), memory=space)


def test_read_only_buffers_refuse_stores() -> None:
    space, base, _ = space_with(128, writable=False)
    with pytest.raises(MemoryFault, match="read-only 'buffer'"):
        run(Snippet("st.global.b32 [%a0], 1;", ("b64",), ("b32",)), np.full((32, 1), base, np.uint64), memory=space)


def test_dynamic_shared_memory_follows_the_static() -> None:
    declare = ".shared .align 4 .b8 box[12];\n.reg .b32 %t;\n"
    module = ".extern .shared .align 16 .b8 heap[];\n"
    text = "mov.u32 %d0, heap; mov.u32 %t, box; st.shared.b32 [heap+28], %a0; ld.shared.b32 %d1, [heap+28];"
    snippet = Snippet(text, ("b32",), ("b32", "b32"), declare=declare, module=module)
    slots = run(snippet, FULL, dynamic_shared=32).slots
    assert slots[0].tolist() == [16, 31]
    with pytest.raises(MemoryFault, match="shared memory, which has 44 bytes"):
        run(snippet, FULL, dynamic_shared=28)
