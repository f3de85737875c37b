"""One text of a fatbin changed: nothing else moves, whatever the entries are."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.image.samples import SMALL_PTX
from tests.image.test_damaged import LZ4, ZSTD, entry, fatbin, mutate, packed
from zluda_rr.hook.cache import Entry, Kind
from zluda_rr.hook.options import read_settings
from zluda_rr.hook.transform import transform_image
from zluda_rr.image import Fatbin, Loader, modules_in_bytes

_FATBIN_HEADER = 16


def walked(data: bytes) -> list[bytes]:
    """Entries by their own sizes, without the code under test; what is too short for one ends the list."""
    found, at = [], _FATBIN_HEADER
    while len(data) - at >= 64:
        header, payload = struct.unpack_from("<4xIQ", data, at)
        found.append(data[at : at + header + payload])
        at += header + payload
    return [*found, data[at:]]


def padded(piece: bytes) -> bytes:
    """An entry whose payload has its size rounded up to 8, as fatbinary writes it."""
    extra = -len(piece) % 8
    size = struct.unpack_from("<Q", piece, 8)[0] + extra
    return piece[:8] + struct.pack("<Q", size) + piece[16:] + bytes(extra)


_NAMED = entry(header=64 + 16, name=64, name_bytes=5)[:64] + b"a.cu\0".ljust(16, b"\0") + SMALL_PTX.encode()
_ENTRIES = st.sampled_from(
    [
        (True, padded(entry())),
        (True, padded(packed(LZ4, arch=75))),
        (True, padded(packed(ZSTD, arch=120))),
        (True, padded(_NAMED)),
        (False, padded(entry(bytes(40), kind=2))),
        (False, padded(entry(b"x" * 33, kind=8))),
        (False, padded(packed(LZ4, uncompressed=3))),
        (False, padded(entry(b"not PTX"))),
    ]
)
_TEXTS = st.sampled_from(["// new\n" + SMALL_PTX, SMALL_PTX + "// müde\n", SMALL_PTX.replace("9.0", "8.7")])


@settings(deadline=None, max_examples=50)
@given(
    st.lists(_ENTRIES, min_size=1, max_size=6), st.integers(0, 5), _TEXTS, st.sampled_from([b"", bytes(8), bytes(63)])
)
def test_only_the_chosen_entry_changes(entries: list[tuple[bool, bytes]], which: int, text: str, tail: bytes) -> None:
    data = fatbin(*(piece for _, piece in entries), tail)
    image = Fatbin.of(data)
    assert image is not None
    texts = list(image.texts())
    assert len(texts) == sum(is_text for is_text, _ in entries)
    if not texts:
        return
    chosen = texts[which % len(texts)]
    changed = image.with_text(chosen, text)
    number = int(chosen.place.removeprefix("entry ")) - 1
    before, after = walked(data), walked(changed)
    assert [a == b for a, b in zip(after, before, strict=True)] == [i != number for i in range(len(before))]
    assert len(changed) == _FATBIN_HEADER + struct.unpack_from("<Q", changed, 8)[0]
    header = struct.unpack_from("<I", after[number], 4)[0]
    assert header == struct.unpack_from("<I", before[number], 4)[0]
    assert after[number][64:header] == before[number][64:header], "name and options"
    assert after[number][header:].rstrip(b"\0") == text.encode()
    assert after[number].endswith(b"\0")
    assert len(after[number]) % 8 == 0
    major, minor = struct.unpack_from("<xxHH", after[number], 22)[1], struct.unpack_from("<H", after[number], 24)[0]
    assert f"{major}.{minor}" == modules_in_bytes(changed)[which % len(texts)].version


def test_what_each_loader_takes() -> None:
    texts = {75: entry(arch=75), 120: packed(ZSTD, arch=120), 90: packed(LZ4, arch=90, flags=0x102011)}
    image = Fatbin.of(fatbin(*texts.values(), entry(bytes(8), kind=2)))
    assert image is not None
    assert [t.target for t in image.texts()] == ["sm_75", "sm_120", "sm_90a"]

    def takes(loader: Loader, *unread: str) -> str | None:
        found = image.chosen(loader, lambda text: text.target not in unread)
        return None if found is None else found.target

    assert takes(Loader.ZLUDA) == "sm_90a"
    assert takes(Loader.ZLUDA, "sm_90a") == "sm_120"
    assert takes(Loader.ZLUDA, "sm_90a", "sm_120", "sm_75") is None
    assert takes(Loader.NVIDIA, "sm_120") == "sm_120"


@pytest.mark.parametrize("part", range(2))
def test_damaged_fatbins_stay_or_stay_readable(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is done to a fatbin, the transform gives an entry; what it replaces has the new text in it."""
    new = SMALL_PTX + "// rewritten\n"
    monkeypatch.setattr("zluda_rr.hook.transform.transform_text", lambda *_: Entry(Kind.REPLACED, "enc0", new))
    name = b"cuda_dldn_engine_swin_enc0_kernel"
    text = SMALL_PTX.encode().replace(b"entry small(", b"entry %s(" % name)
    shared = struct.pack("<II", 1, 72) + entry(b"", header=0, payload=len(text))
    joined = entry(shared + text, kind=0x100, header=136, payload=len(text))
    sound = [
        fatbin(entry(text), entry(bytes(30), kind=2), entry(text)),
        fatbin(joined),
        fatbin(joined, entry(text, arch=90)),
    ]
    choose, replaced = random.Random(part), 0
    for _ in range(200):
        data = mutate(choose.choice(sound), choose)
        target = choose.choice(["zluda", "nvptx"])
        made = transform_image(data, read_settings({"ZLUDA_RR_TARGET": target}))
        if made.kind is Kind.REPLACED and made.fatbin:
            replaced += 1
            assert any(module.text == new for module in modules_in_bytes(made.fatbin)), data.hex()
    assert replaced > 20
