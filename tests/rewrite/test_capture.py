"""Both instrumented modules store the same words at the same places."""

import re
import struct

import numpy as np

from tests.emulate.ptx.harness import HEADER
from tests.rewrite.conftest import Captured
from zluda_rr.contract import LayerContract
from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import run_entry
from zluda_rr.ptx import Module, parse, print_module
from zluda_rr.rewrite import LayerMatch, instrument_phases
from zluda_rr.rewrite.capture import _PROLOGUE
from zluda_rr.rewrite.plan import fragment_register

STORE = re.compile(r"st\.global\.b32 \[%zrr_capture_at\+(\d+)\], (\S+);")


def test_every_accumulator_is_stored_once_in_canonical_order(
    enc0: Module, contract: LayerContract, match: LayerMatch
) -> None:
    module, layout = instrument_phases(enc0, contract)
    stores = dict(reversed(found) for found in STORE.findall(print_module(module)))
    assert layout.stride == 4 * 32 * 2 * sum(r.shape[0] // 16 * (r.shape[1] // 8) for r in contract.phases)
    expected = {}
    for row, place in zip(match.rows, layout.phases, strict=True):
        assert row.found is not None
        phase = row.found.phase
        assert place.shape == (phase.m_tiles, 2, phase.n_tiles, 32)
        for (m, n), chain in phase.chains.items():
            for half in (0, 1):
                word = (m * 2 + half) * phase.n_tiles + n
                register = fragment_register(match.kernel, chain[-1].statement, 0, half)
                expected[register] = str(place.offset + 4 * 32 * word)
    assert stores == expected


def test_the_rewritten_module_stores_the_same_words(captured: Captured) -> None:
    original, result = captured(()), captured(("phase8",))
    assert result.capture == original.capture
    assert sorted(STORE.findall(print_module(original.module))) == sorted(STORE.findall(print_module(result.module)))


def test_phase_8_is_stored_after_the_reloads(captured: Captured) -> None:
    result = captured(("phase8",))
    text = print_module(result.module)
    assert result.capture is not None
    place = result.capture.phases[7]
    stored = [(m.start(), m[2]) for m in STORE.finditer(text) if 0 <= int(m[1]) - place.offset < place.nbytes]
    assert len(stored) == 48
    for at, register in stored:
        assert text.index(f"ld.shared.b32 {register}, [%zrr_image") < at


def test_the_capture_pointer_is_the_second_parameter(captured: Captured) -> None:
    first, second = captured(("phase8",)).module.entries[0].params
    assert (first.nbytes, second.type, second.name) == (1032, "u64", "zrr_capture")


def test_lanes_and_blocks_write_where_the_layout_says() -> None:
    """The prologue alone, executed: word w of lane l in block (x, y) of a 3 x 2 grid."""
    stride, words = 768, 768 // 4
    text = HEADER + ".visible .entry k(.param .u64 zrr_capture)\n{\n" + _PROLOGUE.format(stride=stride)
    text += "\t.reg .b32 %x, %y;\n\tmov.u32 %x, %laneid;\n\tmov.u32 %y, %ctaid.x;\n\tmad.lo.u32 %x, %y, 1000, %x;\n"
    text += "\tmov.u32 %y, %ctaid.y;\n\tmad.lo.u32 %x, %y, 100000, %x;\n"
    text += "\tst.global.b32 [%zrr_capture_at+512], %x;\n\tret;\n}\n"
    memory = AddressSpace()
    base = memory.allocate("capture", 6 * stride)
    run_entry(
        parse(text), "k", grid=(3, 2, 1), block=(32, 1, 1), params=struct.pack("<Q", base), memory=memory, model="exact"
    )
    stored = memory.view("capture").view(np.uint32).reshape(2, 3, words)
    expected = np.zeros_like(stored)
    y, x, lane = np.meshgrid(np.arange(2), np.arange(3), np.arange(32), indexing="ij")
    expected[:, :, 128:160] = 100000 * y + 1000 * x + lane
    assert np.array_equal(stored, expected)
