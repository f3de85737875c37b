"""Damaged and hostile containers: a reason in one line, bounded memory, never a traceback."""

import lzma
import random
import resource
import struct
import time
from pathlib import Path

import lz4.block
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.image.conftest import Samples
from tests.image.samples import SMALL_PTX
from zluda_rr.errors import UserError
from zluda_rr.image import Contents, contents, unpack
from zluda_rr.image.fatbin import fatbin_at, fatbin_texts
from zluda_rr.image.source import Source

LZ4, ZSTD = 0x2000, 0x8000
PAYLOAD = SMALL_PTX.encode()
SQUEEZED = {LZ4: lz4.block.compress(PAYLOAD, store_size=False), ZSTD: zstandard.compress(PAYLOAD)}


def entry(body: bytes = PAYLOAD, **fields: int) -> bytes:
    """An entry with the fields of docs/containers.md; any of them can be made to lie."""
    f = {"kind": 1, "version": 0x101, "header": 64, "payload": len(body), "compressed": 0, "options": 0, "minor": 0}
    f |= {"major": 9, "arch": 89, "name": 0, "name_bytes": 0, "flags": 0x11, "zero": 0, "uncompressed": 0} | fields
    return struct.pack("<HHIQIIHHIIIQQQ", *f.values()) + body


def packed(flag: int, **fields: int) -> bytes:
    data = SQUEEZED[flag]
    facts = {"flags": 0x11 | flag, "compressed": len(data), "uncompressed": len(PAYLOAD)}
    return entry(data, **(facts | fields))


def fatbin(*entries: bytes, nbytes: int | None = None, version: int = 1, header: int = 16) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, version, header, len(body) if nbytes is None else nbytes) + body


def read(data: bytes, folder: Path) -> Contents:
    path = folder / "damaged.bin"
    path.write_bytes(data)
    return contents(path)


def test_the_builders_make_sound_fatbins(tmp_path: Path) -> None:
    found = read(fatbin(entry(), packed(LZ4), packed(ZSTD)), tmp_path)
    assert [m.text for m in found.modules] == [SMALL_PTX] * 3
    assert found.skipped == ()


BOMB = zstandard.compress(bytes(200 << 20))
ALONE = {
    "no entry": (fatbin(), "no PTX inside"),
    "header only": (fatbin()[:12], "no PTX inside"),
    "other version": (fatbin(entry(bytes(8)), version=7), "no PTX inside"),
    "nothing after the header": (fatbin(nbytes=1 << 63), "claims"),
    "entry header cut": (fatbin(entry()[:63]), "63 bytes are left"),
    "payload past the end": (fatbin(entry(b"x" * 8)[:70]), "do not fit"),
    "payload of 2^64-1": (fatbin(entry() + b"", nbytes=None)[:24] + b"\xff" * 8 + fatbin(entry())[32:], "do not fit"),
    "header of nothing": (fatbin(entry(header=0)), "do not fit"),
    "header shorter than its fields": (fatbin(entry(header=63)), "do not fit"),
    "header past the end": (fatbin(entry(header=0xFFFFFFFF)), "do not fit"),
    "unknown kind": (fatbin(entry(kind=0x77)), "unknown kind 0x77"),
    "cubin only": (fatbin(entry(kind=2, arch=120, flags=0x100011)), "machine code .cubin. for sm_120a"),
    "both compressions": (fatbin(packed(LZ4, flags=0xA011)), "both LZ4 and zstd"),
    "LZ4 says less": (fatbin(packed(LZ4, uncompressed=100)), "broken LZ4"),
    "LZ4 says more": (fatbin(packed(LZ4, uncompressed=len(PAYLOAD) + 1)), "unpacks to only"),
    "LZ4 says nothing": (fatbin(packed(LZ4, uncompressed=0)), "broken LZ4|unpacks to"),
    "LZ4 says 2^63": (fatbin(packed(LZ4, uncompressed=1 << 63)), "over the bound"),
    "LZ4 is zstd": (fatbin(packed(ZSTD, flags=0x2011)), "broken LZ4"),
    "zstd is LZ4": (fatbin(packed(LZ4, flags=0x8011)), "broken zstd"),
    "zstd says less": (fatbin(packed(ZSTD, uncompressed=100)), "unpacks to more"),
    "zstd says more": (fatbin(packed(ZSTD, uncompressed=len(PAYLOAD) + 1)), "unpacks to only"),
    "zstd is cut": (fatbin(packed(ZSTD, compressed=40)), "broken zstd|unpacks to only"),
    "zstd bomb": (fatbin(entry(BOMB, flags=0x8011, compressed=len(BOMB), uncompressed=4096)), "unpacks to more"),
    "honest bomb": (fatbin(entry(BOMB, flags=0x8011, compressed=len(BOMB), uncompressed=200 << 20)), "over the bound"),
    "compressed size of nothing": (fatbin(packed(LZ4, compressed=0)), "claims 0 compressed"),
    "compressed size past the payload": (fatbin(packed(LZ4, compressed=1 << 31)), "compressed bytes in a payload"),
    "encrypted text": (fatbin(entry(bytes(random.Random(1).randbytes(400)))), "encrypted or damaged"),
    "encrypted ASCII": (fatbin(entry(b"U2FsdGVkX1" * 20)), "does not begin with .version"),
    "NUL inside": (fatbin(entry(PAYLOAD[:200] + b"\0" + PAYLOAD[200:])), "is NUL"),
    "concatenated without table": (fatbin(entry(kind=0x100)), "without its table"),
    "concatenated, table past the end": (
        fatbin(entry(struct.pack("<II", 2, 999), kind=0x100, header=72, payload=0)),
        "table claims",
    ),
    "concatenated, too many": (
        fatbin(entry(struct.pack("<II", 1 << 31, 8), kind=0x100, header=72, payload=0)),
        "ends here",
    ),
    "ELF header only": (b"\x7fELF" + bytes(60), "no PTX inside"),
    "cubin header only": (b"\x7fELF\x02\x01\x01" + bytes(11) + b"\xbe\x00" + bytes(44), "without PTX"),
    "PE header only": (b"MZ" + bytes(62), "no PTX inside"),
    "magic number alone": (b"\x50\xed\x55\xba" * 99, "no PTX inside|not UTF-8"),
    "xz bomb": (lzma.compress(bytes(65 << 20)), "more than 64 MiB"),
    "xz cut": (lzma.compress(PAYLOAD)[:-20], "broken xz"),
    "xz of a bad fatbin": (lzma.compress(fatbin(entry(header=0))), "do not fit"),
    "plain string without end": (b"MZ\0\0" + PAYLOAD, "without an end"),
    "plain string, not UTF-8": (b"MZ\0\0" + PAYLOAD + b"\xff\0", "not UTF-8"),
}


@pytest.mark.parametrize("name", sorted(ALONE))
def test_one_line_with_the_place(name: str, tmp_path: Path) -> None:
    data, message = ALONE[name]
    with pytest.raises(UserError, match=message) as caught:
        read(data, tmp_path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "damaged.bin"))


@pytest.mark.parametrize("name", sorted(ALONE))
def test_a_damaged_neighbour_is_skipped_in_a_directory(name: str, tmp_path: Path) -> None:
    (tmp_path / "good.ptx").write_text(SMALL_PTX)
    found = (tmp_path / "damaged.bin").write_bytes(ALONE[name][0]) and contents(tmp_path)
    assert isinstance(found, Contents)
    assert [Path(m.origin).name for m in found.modules] == ["good.ptx"]


def test_sound_entries_survive_a_damaged_one(tmp_path: Path) -> None:
    found = read(fatbin(packed(LZ4), packed(ZSTD, uncompressed=5), entry(kind=9), entry()), tmp_path)
    assert [m.origin.split(": ")[1] for m in found.modules] == ["entry 1", "entry 4"]
    assert [s.origin.split(": ")[1] for s in found.skipped] == ["entry 2", "entry 3"]


def test_a_cut_fatbin_gives_its_whole_entries(tmp_path: Path) -> None:
    data = fatbin(entry(), entry())
    found = read(data[:-1], tmp_path)
    assert len(found.modules) == 1
    assert "claims 1 bytes more" in found.skipped[0].reason
    assert "do not fit" in found.skipped[1].reason


def test_a_lying_fatbin_does_not_hide_the_next(tmp_path: Path) -> None:
    found = read(b"\0" + fatbin(entry(), nbytes=1 << 40) + fatbin(packed(LZ4)), tmp_path)
    assert [str(m.compression) for m in found.modules] == ["none", "lz4"]
    assert len(found.skipped) == 1
    assert "more than there are" in found.skipped[0].reason


@pytest.mark.parametrize(
    "data",
    [
        b"/*" * (1 << 20),
        b".version 9.0\n" + b"/*" * (1 << 20),
        b"\0.version 9.0" + b"\n" * (1 << 21),
        b"\0" + (b".version 9.0" + b"\n" * 3000) * 1000,
        b"\0" + fatbin(nbytes=1 << 60) * (1 << 17),
        b"\0" + b"\x50\xed\x55\xba" * (1 << 19),
    ],
    ids=["comments", "comments after the version", "one gap", "gaps", "lying headers", "magic numbers"],
)
def test_hostile_repetition_takes_linear_time(data: bytes, tmp_path: Path) -> None:
    start = time.process_time()
    survives(data, tmp_path)
    assert time.process_time() - start < 5


def test_fatbins_inside_fatbins_are_not_counted_twice(tmp_path: Path) -> None:
    inner = fatbin(entry())
    found = read(fatbin(entry(inner, kind=2), entry()), tmp_path)
    assert len(found.modules) == 1


def test_the_budget_is_spent_by_every_kind_of_entry() -> None:
    shared = struct.pack("<II", 1, 72) + entry(b"", header=0, payload=len(PAYLOAD))
    concatenated = entry(shared + PAYLOAD, kind=0x100, header=136, payload=len(PAYLOAD))
    for one in (entry(), packed(LZ4), packed(ZSTD), concatenated):
        data = Source.of(fatbin(one, one, one))
        extent = fatbin_at(data, 0, data.size)
        assert extent is not None
        budget = unpack.Budget("x", bytes_left=len(PAYLOAD) * 2 + 1)
        with pytest.raises(UserError, match="MiB of PTX"):
            list(fatbin_texts(data, extent, budget))


def test_the_number_of_entries_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="more than 100000 entries"):
        read(fatbin(entry(b"", kind=2) * (unpack.MAX_ENTRIES + 1)), tmp_path)


@pytest.mark.soak
def test_the_sum_of_all_modules_is_bounded(tmp_path: Path) -> None:
    text = PAYLOAD + b"\n" * (16 << 20)
    data = zstandard.compress(text)
    one = entry(data, flags=0x8011, compressed=len(data), uncompressed=len(text))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match="MiB of PTX"):
        read(fatbin(*[one] * 2000), tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20, "KiB: below 1 GiB"


# --- mutations ---------------------------------------------------------------------------------------------


def mutate(data: bytes, choose: random.Random) -> bytes:
    """A few random edits: bytes, whole fields set to boundary values, pieces cut out, doubled or moved."""
    out = bytearray(data)
    for _ in range(choose.randint(1, 4)):
        at = choose.randrange(len(out)) if out else 0
        kind = choose.randrange(6)
        if kind == 0 and out:
            out[at] = choose.randrange(256)
        elif kind == 1:
            width = choose.choice((2, 4, 8))
            value = choose.choice((0, 1, 63, 64, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1, len(out)))
            at &= ~1
            out[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        elif kind == 2:
            del out[at : at + choose.randrange(1, 200)]
        elif kind == 3:
            piece = out[at : at + choose.randrange(1, 200)]
            where = choose.randrange(len(out) + 1)
            out[where:where] = piece
        elif kind == 4:
            del out[at:]
        else:
            # Where the headers are: the first bytes of the file.
            spot = choose.randrange(min(len(out), 128)) if out else 0
            out[spot : spot + 1] = bytes([choose.randrange(256)])
    return bytes(out)


def survives(data: bytes, folder: Path) -> bool:
    """Read `data`; True when it held a module. Anything but a result or a one-line UserError raises."""
    try:
        return bool(read(data, folder).modules)
    except UserError as error:
        message = str(error)
    assert "\n" not in message, repr(message)
    return False


def bases(small: Samples) -> list[bytes]:
    data = Path(__file__).parent / "data"
    files = [*small.files.values(), *sorted(data.glob("*.fatbin"))]
    return [path.read_bytes() for path in files] + [fatbin(packed(LZ4), packed(ZSTD), entry(), entry(kind=2))]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**64))
def test_mutated_containers(seed: int, small: Samples, tmp_path: Path) -> None:
    choose = random.Random(seed)
    survives(mutate(choose.choice(bases(small)), choose), tmp_path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.sampled_from([b"\x7fELF", b"MZ", b"\x50\xed\x55\xba\x01\x00\x10\x00", b"\0"]), rest=st.binary(max_size=600)
)
def test_random_bytes(start: bytes, rest: bytes, tmp_path: Path) -> None:
    survives(start + rest, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_soak_mutated_containers(part: int, small: Samples, tmp_path: Path) -> None:
    """20,000 mutated containers in four parts; enough of them stay readable to reach the deep code."""
    choose = random.Random(part)
    files = bases(small)
    readable = sum(survives(mutate(choose.choice(files), choose), tmp_path) for _ in range(5_000))
    assert 500 < readable < 4_900
