"""Both instrumented modules store the same words at the same places."""

import re

from tests.rewrite.conftest import Captured
from zluda_rr.ptx import Module, print_module
from zluda_rr.rewrite import LayerContract, LayerMatch, instrument_phases
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
