"""Entries, keys and the folder, from the Python side; the hash against its published value and against the C code."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zluda_rr.errors import UserError
from zluda_rr.hook.cache import Cache, Entry, Kind, entry_key, locked, unpack
from zluda_rr.hook.murmur import hash_hex, murmur128
from zluda_rr.hook.options import NATIVE, read_settings
from zluda_rr.hook.tool import covered_files, current_tool

from .sandbox import TEXT, c_compiler


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "0" * 32),
        (b"hello", "cbd8a7b341bd9b025b1e906a48ae1d19"),
        (b"hello, world", "342fac623a5ebc8e4cdcbc079642414d"),
    ],
)
def test_published_values(data: bytes, expected: str) -> None:
    """MurmurHash3_x64_128 with seed 0, as the mmh3 package's documentation gives it."""
    assert hash_hex(murmur128(data)) == expected


@pytest.fixture(scope="module")
def native_hash(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("hash") / "hash.so"
    command = [*c_compiler(), "-shared", "-fPIC", "-O2", str(NATIVE / "hash.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=100))
def test_both_sides_hash_alike(native_hash: ctypes.CDLL, data: bytes) -> None:
    native_hash.zrr_hash_bytes.restype = Hash
    native = native_hash.zrr_hash_bytes(data, ctypes.c_size_t(len(data)))
    assert native.low.to_bytes(8, "little") + native.high.to_bytes(8, "little") == murmur128(data)


@given(
    note=st.text(max_size=100),
    text=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=100),
)
def test_entries_survive_and_every_flipped_bit_is_noticed(note: str, text: str) -> None:
    entry = Entry(Kind.REPLACED, note, text)
    data = entry.pack(TEXT)
    assert unpack(data) == entry
    for position in range(0, len(data), 7):
        spoiled = bytearray(data)
        spoiled[position] ^= 1 << position % 8
        with pytest.raises(ValueError, match="damaged"):
            unpack(bytes(spoiled))


def test_keys_differ_by_everything_that_matters() -> None:
    keys = {
        entry_key(murmur128(image), read_settings(env), fingerprint)
        for image in (b"a", b"b")
        for env in ({}, {"ZLUDA_RR_TARGET": "nvptx"}, {"ZLUDA_RR_DISABLE": "enc0"}, {"ZLUDA_RR_FUSION": "0"})
        for fingerprint in ("", "1", "2")
    }
    assert len(keys) == 24
    assert entry_key(murmur128(b"a"), read_settings({"ZLUDA_RR_LOG": "debug"}), "") in keys


def fresh(tmp_path: Path) -> Cache:
    cache = Cache(tmp_path / "cache" / "hook")
    cache.prepare()
    return cache


def test_prune_and_clear(tmp_path: Path) -> None:
    cache = fresh(tmp_path)
    keys = [entry_key(murmur128(bytes([i])), read_settings({}), "x") for i in range(4)]
    for i, key in enumerate(keys):
        cache.write(f"{key}.zrr", Entry(Kind.REPLACED, "n", "t" * 1000).pack(bytes([i])))
    (cache.folder / f"{keys[0]}.zrr").write_bytes(b"damaged")
    (cache.folder / f"{keys[1]}.lock").write_bytes(b"")
    (cache.folder / f"{keys[1]}.123.tmp").write_bytes(b"left by a killed process")
    (cache.folder / "mine.txt").write_text("not ours")
    with locked(cache.folder / f"{keys[2]}.lock", wait=False):
        (cache.folder / f"{keys[2]}.img").write_bytes(b"in use")
        assert cache.prune(1 << 20) == 1
        assert (cache.folder / f"{keys[2]}.img").exists(), "a rewrite under way keeps its request"
    assert [p.stem for p in cache.entries()] == keys[1:]
    assert not list(cache.folder.glob("*.tmp"))
    assert cache.prune(2500) == 1
    assert [p.stem for p in cache.entries()] == keys[2:]
    assert cache.clear() == 2
    assert sorted(p.name for p in cache.folder.iterdir()) == ["mine.txt"]


def test_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    cache = fresh(tmp_path)
    cache.folder.chmod(0o777)
    with pytest.raises(UserError, match="others may write"):
        cache.prepare()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="ZLUDA_RR_CACHE_DIR"):
        Cache(tmp_path / "file" / "hook").prepare()


def test_the_fingerprint_covers_what_a_rewrite_depends_on() -> None:
    names = {p.name for p in covered_files()}
    assert {
        "enc0.toml",
        "swin_phase.hip",
        "swin_phase.ptx.xz",
        "splice.py",
        "grammar.lark",
        "transform.py",
        "fatbin.py",
    } <= names
    tool = current_tool("/bin/true")
    assert tool == current_tool("/bin/true")
    assert len(tool.fingerprint) == 32
    assert "enc0" in tool.layers


def test_the_fingerprint_changes_with_a_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = current_tool("x").fingerprint
    extra = tmp_path / "extra.rule"
    extra.write_text("one")
    files = (*covered_files(), extra)
    monkeypatch.setattr("zluda_rr.hook.tool.covered_files", lambda: files)
    first = current_tool("x").fingerprint
    extra.write_text("two")
    assert len({before, first, current_tool("x").fingerprint}) == 3
