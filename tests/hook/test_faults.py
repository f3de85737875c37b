"""Injected faults: whatever happens, the loader receives the original bytes, the host goes on, one line says why."""

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from zluda_rr.hook.cache import Entry, Kind
from zluda_rr.hook.murmur import murmur128

from .sandbox import CALL, FATBIN, NOTE, REWRITTEN, TEXT, Sandbox, assert_original


def header(size: int, *, version: int = 1, header_bytes: int = 16) -> bytes:
    return struct.pack("<IHHQ", 0xBA55ED50, version, header_bytes, size)


# ---- images: name -> (bytes, flags of the host, words of the log at level debug). The memory ends where the bytes end.

IMAGES = {
    "fatbin cut off in its header": (header(64)[:12], (), "not readable"),
    "fatbin cut off behind its header": (header(64), (), "past its memory"),
    "fatbin with a size far too large": (header(1 << 62) + FATBIN[16:], (), "impossible size"),
    "fatbin with a size that overflows": (header((1 << 64) - 8) + FATBIN[16:], (), "impossible size"),
    "fatbin one page too long": (header(64 + 4096) + FATBIN[16:], (), "past its memory"),
    "fatbin of no bytes": (header(0) + FATBIN[16:], (), "impossible size"),
    "fatbin of another version": (header(64, version=7) + FATBIN[16:], (), "unknown header"),
    "fatbin with a strange header size": (header(64, header_bytes=3) + FATBIN[16:], (), "unknown header"),
    "wrapper that points nowhere": (FATBIN, ("--wrapper", "null"), "not readable"),
    "wrapper that points to no memory": (FATBIN, ("--wrapper", "bad"), "not readable"),
    "wrapper around something else": (TEXT, ("--wrapper", "good"), "points to something else"),
    "text without an end": (TEXT, (), "without an end"),
    "one byte": (b".", (), "not readable"),
    "machine code": (b"\x7fELF" + bytes(60), (), "machine code"),
    "random bytes": (bytes(range(128, 255)), (), "neither PTX text nor a fatbin"),
    "compressed bytes of another tool": (b"\xfd7zXZ\x00" + bytes(range(90)), (), "neither PTX text nor a fatbin"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_that_are_no_modules(box: Sandbox, name: str) -> None:
    image, flags, reason = IMAGES[name]
    size = "24" if "--wrapper" in flags else str(min(len(image), 64))
    outcome = box.run(CALL, "dlsym", image, "--raw", *flags, ZLUDA_RR_LOG="debug", FAKE_CUDA_BYTES=size)
    assert outcome.status == 0
    assert len(outcome.loads) == 1
    assert len(outcome.log) == 1
    assert reason in outcome.log[0]
    if "--wrapper" not in flags:
        assert outcome.loads[0][2] == image[: len(outcome.loads[0][2])]
    quiet = box.run(CALL, "dlsym", image, "--raw", *flags, FAKE_CUDA_BYTES=size)
    assert quiet.log == ()


# ---- the cache: each fault is a function that spoils a good entry


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def replaced_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        path.unlink()
        make(path)

    return spoil


def repacked(path: Path, offset: int, value: bytes) -> None:
    """A field changed, with the header's hash made right again."""
    data = bytearray(path.read_bytes())
    data[offset : offset + len(value)] = value
    data[80:96] = murmur128(bytes(data[:80]))
    path.write_bytes(data)


def without_nul(data: bytes) -> bytes:
    """An entry whose text does not end in NUL, everything else right."""
    body = bytearray(data[96:])
    body[len(REWRITTEN)] = ord("x")
    head = bytearray(data[:80])
    head[56:72] = murmur128(bytes(body))
    return bytes(head) + murmur128(bytes(head)) + bytes(body)


ENTRIES: dict[str, Callable[[Path], object]] = {
    "bit flipped in the magic": lambda p: flip(p, 0),
    "bit flipped in the kind": lambda p: flip(p, 12),
    "bit flipped in the header's hash": lambda p: flip(p, 90),
    "bit flipped in the note": lambda p: flip(p, len(p.read_bytes()) - 1),
    "bit flipped in the text": lambda p: flip(p, 130),
    "last byte missing": lambda p: p.write_bytes(p.read_bytes()[:-1]),
    "half of the header": lambda p: p.write_bytes(p.read_bytes()[:40]),
    "empty": lambda p: p.write_bytes(b""),
    "one byte too many": lambda p: p.write_bytes(p.read_bytes() + b"\0"),
    "made for another module": lambda p: p.write_bytes(Entry(Kind.REPLACED, NOTE, REWRITTEN).pack(b"other")),
    "huge sizes": lambda p: repacked(p, 48, struct.pack("<Q", 1 << 60)),
    "sizes that overflow": lambda p: repacked(p, 48, struct.pack("<Q", (1 << 64) - 96)),
    "unknown kind": lambda p: repacked(p, 12, struct.pack("<I", 9)),
    "text without its NUL": lambda p: p.write_bytes(without_nul(Entry(Kind.REPLACED, NOTE, REWRITTEN).pack(TEXT))),
    "a folder": replaced_by(lambda p: p.mkdir()),
    "a link to a good entry": lambda p: p.rename(p.with_suffix(".x")) and p.symlink_to(p.with_suffix(".x")),
    "a pipe": replaced_by(os.mkfifo),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_spoiled_entries(box: Sandbox, name: str) -> None:
    path = box.store(TEXT)
    ENTRIES[name](path)
    outcome = box.run(CALL, "dlsym", TEXT, ZLUDA_RR_MISS="off")
    assert outcome.status == 0
    assert outcome.loads == ((CALL, 0, TEXT),)
    dropped = [line for line in outcome.log if "dropped" in line]
    if name not in ("a link to a good entry",):
        assert len(dropped) == 1
    if name not in ("a folder", "a link to a good entry"):
        assert not os.path.lexists(path), "a spoiled entry is removed"


def test_a_spoiled_entry_is_made_again(box: Sandbox) -> None:
    box.rewriter(box.prepared(TEXT))
    flip(box.store(TEXT), 130)
    outcome = box.run(CALL, "dlsym", TEXT)
    assert outcome.loads == ((CALL, 0, REWRITTEN.encode()),)
    assert box.runs == 1


# ---- the folder and the record


def test_switched_off(box: Sandbox) -> None:
    box.store(TEXT)
    outcome = box.run(CALL, "dlsym", TEXT, ZLUDA_RR="0")
    assert outcome.loads == ((CALL, 0, TEXT),)
    assert outcome.log == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_folder_of_another_user(box: Sandbox) -> None:
    box.store(TEXT)
    os.chown(box.cache.folder, 12345, 12345)
    assert_original(box.run(CALL, "dlsym", TEXT), reason="belongs to another user")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_entry_of_another_user(box: Sandbox) -> None:
    os.chown(box.store(TEXT), 12345, 12345)
    outcome = box.run(CALL, "dlsym", TEXT, ZLUDA_RR_MISS="off")
    assert outcome.loads == ((CALL, 0, TEXT),)


def test_folder_that_others_may_write(box: Sandbox) -> None:
    box.store(TEXT)
    box.cache.folder.chmod(0o777)
    assert_original(box.run(CALL, "dlsym", TEXT), reason="others may write")


def test_folder_behind_a_link(box: Sandbox) -> None:
    box.store(TEXT)
    box.cache.folder.rename(box.folder / "elsewhere")
    box.cache.folder.symlink_to(box.folder / "elsewhere")
    assert_original(box.run(CALL, "dlsym", TEXT), reason="cache ")


def test_folder_that_cannot_be_made(box: Sandbox) -> None:
    (box.folder / "file").write_text("")
    outcome = box.run(CALL, "dlsym", TEXT, ZLUDA_RR_CACHE_DIR=str(box.folder / "file"))
    assert_original(outcome, reason="Not a directory")


def test_no_folder(box: Sandbox) -> None:
    outcome = box.run(CALL, "dlsym", TEXT, ZLUDA_RR_CACHE_DIR="relative/cache")
    assert_original(outcome, reason="no cache folder")


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_no_space(box: Sandbox, fault: int) -> None:
    box.rewriter(box.prepared(TEXT * 40))
    preload = f"{box.programs.faults}:{box.programs.hook}"
    outcome = box.run(CALL, "dlsym", TEXT * 40, LD_PRELOAD=preload, FAULT_WRITE=str(fault))
    assert_original(outcome, TEXT * 40, os.strerror(fault))
    assert box.runs == 0
    assert not list(box.cache.folder.glob("*.img")), "no half request stays behind"
    flags = ("--repeat", "3")
    again = box.run(CALL, "dlsym", TEXT * 40, *flags, LD_PRELOAD=preload, FAULT_WRITE=str(fault), ZLUDA_RR_MISS="async")
    assert [os.strerror(fault) in line for line in again.log] == [True] * 3, "what failed is said, not what did not"
    assert not list(box.cache.folder.glob("*.tmp"))


@pytest.mark.parametrize("fault", [errno.EROFS, errno.EACCES, errno.EMFILE])
def test_nothing_can_be_created(box: Sandbox, fault: int) -> None:
    preload = f"{box.programs.faults}:{box.programs.hook}"
    outcome = box.run(CALL, "dlsym", TEXT, LD_PRELOAD=preload, FAULT_OPEN=str(fault))
    assert_original(outcome, reason=os.strerror(fault))
    box.store(TEXT)
    hit = box.run(CALL, "dlsym", TEXT, LD_PRELOAD=preload, FAULT_OPEN=str(fault))
    assert hit.loads == ((CALL, 0, REWRITTEN.encode()),), "what is there can still be read"


@pytest.mark.parametrize("spoil", ["cut", "flip", "foreign"])
def test_damaged_record_is_a_miss(box: Sandbox, spoil: str) -> None:
    box.store(TEXT)
    tool = box.cache.folder / "tool"
    data = tool.read_bytes()
    tool.write_bytes({"cut": data[:-5], "flip": data.replace(b"enc0", b"enc9"), "foreign": b"x" * 500}[spoil])
    assert_original(box.run(CALL, "dlsym", TEXT, ZLUDA_RR_MISS="off"), reason="not in the cache")


def test_changed_rules_are_a_miss(box: Sandbox, tmp_path: Path) -> None:
    rule = tmp_path / "rule.toml"
    rule.write_text("one")
    box.write_tool("/nonexistent", (rule,))
    box.store(TEXT)
    assert box.run(CALL, "dlsym", TEXT).loads[0][2] == REWRITTEN.encode()
    rule.write_text("two!")
    assert_original(box.run(CALL, "dlsym", TEXT, ZLUDA_RR_MISS="off"), reason="not in the cache")


# ---- settings


SETTINGS = {
    "ZLUDA_RR": "maybe",
    "ZLUDA_RR_MISS": "later",
    "ZLUDA_RR_LOG": "loud",
    "ZLUDA_RR_FUSION": "2",
    "ZLUDA_RR_TARGET": "riscv",
    "ZLUDA_RR_TIMEOUT": "-1",
    "ZLUDA_RR_CUDA_LIB": "/nonexistent/libcuda.so",
    "ZLUDA_RR_LAYERS": "enc77",
    "ZLUDA_RR_CACHE_DIR": "x" * 2000,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_impossible_settings_are_reported_once_and_ignored(box: Sandbox, name: str) -> None:
    if name == "ZLUDA_RR_LAYERS":
        box.env[name] = SETTINGS[name]
    box.store(TEXT)
    env = {} if name == "ZLUDA_RR_LAYERS" else {name: SETTINGS[name]}
    if name == "ZLUDA_RR_CACHE_DIR":
        env["XDG_CACHE_HOME"] = str(box.folder / "xdg")
    outcome = box.run(CALL, "dlsym", TEXT, "--repeat", "2", **env)
    assert outcome.status == 0
    assert len([line for line in outcome.log if name in line]) in ((1,) if name != "ZLUDA_RR_LAYERS" else (1, 2))
    if name not in ("ZLUDA_RR_CACHE_DIR",):
        assert [load[2] for load in outcome.loads] == [REWRITTEN.encode()] * 2


def test_a_broken_config_file_is_ignored(box: Sandbox) -> None:
    folder = Path(box.env["HOME"]) / ".config" / "zluda-rr"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_bytes(
        b'ZLUDA_RR_LOG = \xff\xfe\nZLUDA_RR_MISS = [\nZLUDA_RR_FUSION = "\n' + b"x" * 40000
    )
    box.store(TEXT)
    assert box.run(CALL, "dlsym", TEXT).loads == ((CALL, 0, REWRITTEN.encode()),)


def test_log_file_that_cannot_be_written(box: Sandbox) -> None:
    box.store(TEXT)
    outcome = box.run(
        CALL, "dlsym", TEXT, ZLUDA_RR_LOG_FILE="/nonexistent/folder/log", ZLUDA_RR_DUMP_DIR="/nonexistent"
    )
    assert outcome.loads == ((CALL, 0, REWRITTEN.encode()),)


def test_log_file_and_dumps(box: Sandbox) -> None:
    dumps = box.folder / "dumps"
    dumps.mkdir()
    box.store(TEXT)
    log = box.folder / "log"
    outcome = box.run(CALL, "dlsym", TEXT, ZLUDA_RR_LOG_FILE=str(log), ZLUDA_RR_DUMP_DIR=str(dumps))
    assert outcome.log == ()
    assert "replaced enc0 (phase8)" in log.read_text()
    contents = {p.name.split(".", 1)[1]: p.read_bytes() for p in dumps.iterdir()}
    assert contents == {"original.ptx": TEXT, "rewritten.ptx": REWRITTEN.encode()}


def test_a_module_that_stays_is_remembered(box: Sandbox) -> None:
    box.store(TEXT, Entry(Kind.UNCHANGED, "enc0 refused: obligation 7"))
    box.rewriter("true")
    assert_original(box.run(CALL, "dlsym", TEXT), reason="enc0 refused: obligation 7")
    assert box.runs == 0
