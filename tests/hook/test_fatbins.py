"""A fatbin's replacement is the fatbin with one entry changed: the one that the loader takes (docs/containers.md)."""

import io
import struct
from pathlib import Path

import lz4.block
import pytest
import zstandard
from click.testing import CliRunner

from tests.image import samples
from zluda_rr.cli import main
from zluda_rr.hook.cache import Cache, Entry, Kind, unpack
from zluda_rr.hook.options import read_settings
from zluda_rr.hook.transform import transform_image
from zluda_rr.image import Fatbin, modules_in, modules_in_bytes, read_ptx, shipped_module

from .sandbox import TEXT, Sandbox
from .test_commands import cli, run  # noqa: F401 (fixture)

_FLAGS = {"none": 0, "lz4": 0x2000, "zstd": 0x8000}
_PACK = {
    "none": bytes,
    "lz4": lambda text: lz4.block.compress(text, store_size=False),
    "zstd": zstandard.compress,
}
ENTRY = "cuda_dldn_engine_swin_enc0_kernel"
BROKEN = b".version 9.0\n.target sm_120\n.address_size 64\n.visible .entry k()\n{\n"


def entry(content: bytes, arch: int = 89, mode: str = "none", kind: int = 1, flags: int = 0x11) -> bytes:
    """One entry as fatbinary writes it."""
    packed = _PACK[mode](content)
    size, whole = (0, 0) if mode == "none" else (len(packed), len(content))
    body = packed + bytes(-len(packed) % 8)
    fields = (kind, 0x101, 64, len(body), size, 0, 0, 9, arch, 0, 0, flags | _FLAGS[mode], 0, whole)
    return struct.pack("<HHIQIIHHIIIQQQ", *fields) + body


def fatbin(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def pieces(data: bytes) -> list[bytes]:
    """The entries of a sound fatbin, whole; by their own sizes, without the code under test."""
    assert data[:4] == b"\x50\xed\x55\xba"
    assert len(data) == 16 + int.from_bytes(data[8:16], "little")
    found, at = [], 16
    while at < len(data):
        header, payload = struct.unpack_from("<4xIQ", data, at)
        found.append(data[at : at + header + payload])
        at += header + payload
    return found


def content(piece: bytes) -> bytes:
    assert struct.unpack_from("<I", piece, 16)[0] == 0, "uncompressed"
    return piece[64:].rstrip(b"\0")


@pytest.fixture(scope="module")
def enc0() -> bytes:
    return read_ptx(shipped_module("enc0")).encode()


@pytest.fixture(scope="module")
def other(enc0: bytes) -> bytes:
    """A module of a family kernel that no rule is for, and small."""
    return TEXT.replace(b"entry k(", b"entry someone_elses(")


_KNOWN: dict[str, dict[str, Entry]] = {}


def transformed(data: bytes, **env: str) -> Entry:
    """What becomes of an image; a text that was rewritten before is not rewritten again."""
    return transform_image(data, read_settings(env), _KNOWN.setdefault(str(env), {}))


def replaced(data: bytes, **env: str) -> bytes:
    made = transformed(data, **env)
    assert made.kind is Kind.REPLACED, made.note
    assert unpack(made.pack(data)) == made
    return made.fatbin


def several(enc0: bytes, other: bytes, mode: str) -> bytes:
    machine = entry(bytes(range(200)), 120, kind=2)
    return fatbin(entry(other, 75, mode), entry(enc0, 80, "lz4"), machine, entry(enc0, 89, mode))


@pytest.mark.parametrize("mode", _FLAGS)
def test_every_compression(enc0: bytes, other: bytes, mode: str) -> None:
    image = several(enc0, other, mode)
    before, after = pieces(image), pieces(replaced(image))
    assert after[:3] == before[:3]
    assert b"zrr_swin_enc0" in content(after[3])


def test_the_loader_receives_the_whole_fatbin(cli: Sandbox, enc0: bytes, other: bytes) -> None:  # noqa: F811
    """Through the library and the real rewriter: `cuModuleLoadData` gets every entry, one of them new."""
    image = several(enc0, other, "zstd")
    outcome = cli.run("cuModuleLoadFatBinary", "dlsym", image, "--raw", "--wrapper", "good")
    call, status, received = outcome.loads[0]
    assert (call, status) == ("cuModuleLoadData", 0), outcome.log
    assert "replaced enc0" in outcome.log[0]
    before, after = pieces(image), pieces(received)
    assert after[:3] == before[:3]
    assert b"zrr_swin_enc0" in content(after[3])
    assert after[3][24:40] == before[3][24:40], "version and architecture"
    texts = [module.text.encode() for module in modules_in_bytes(received)]
    assert [text == enc0 for text in texts] == [False, True, False]
    assert texts[0] == other.rstrip(b"\0")


def test_a_fatbin_whose_text_the_loader_does_not_take_stays(enc0: bytes, other: bytes) -> None:
    made = transform_image(fatbin(entry(enc0), entry(other, 120)), read_settings({}))
    assert made.kind is Kind.UNCHANGED
    assert "entry 2 for sm_120, which the loader takes: no kernel of a layer" in made.note


def test_zluda_takes_the_last_that_parses(enc0: bytes, other: bytes) -> None:
    image = fatbin(entry(other, 120), entry(enc0, 75), entry(BROKEN, 120, "zstd"))
    before, after = pieces(image), pieces(replaced(image))
    assert [a == b for a, b in zip(after, before, strict=True)] == [True, False, True]


def test_nvidia_takes_the_newest(enc0: bytes, other: bytes) -> None:
    image = fatbin(entry(other, 75), entry(enc0, 89), entry(enc0, 80), entry(other, 86))
    before, after = pieces(image), pieces(replaced(image, ZLUDA_RR_TARGET="nvptx"))
    assert [a == b for a, b in zip(after, before, strict=True)] == [True, False, True, True]


def cubin_of(text: str, folder: Path, arch: str) -> bytes:
    path = folder / f"{arch}.ptx"
    path.write_text(text.replace("sm_89", arch))
    return samples.cubin(folder, f"{arch}.cubin", path, arch=arch).read_bytes()


def test_machine_code_before_the_new_text_goes_only_if_its_kernels_are_there(enc0: bytes, tmp_path: Path) -> None:
    """Kernels named as in the text, and not: NVIDIA's driver takes machine code first."""
    same = cubin_of(samples.SMALL_PTX.replace("small(", f"{ENTRY}("), tmp_path, "sm_89")
    strange = cubin_of(samples.SMALL_PTX, tmp_path, "sm_90")
    older = entry(same, 86, kind=2)
    covered = fatbin(older, entry(same, 89, "zstd", kind=2), entry(enc0, 89))
    before, after = pieces(covered), pieces(replaced(covered, ZLUDA_RR_TARGET="nvptx"))
    assert after[0] == before[0], "a device with this architecture cannot run the text"
    assert len(after) == 2
    assert pieces(replaced(covered))[:2] == before[:2], "ZLUDA takes no machine code"
    uncovered = fatbin(entry(same, 89, kind=2), entry(strange, 90, kind=2), entry(enc0, 89))
    made = transformed(uncovered, ZLUDA_RR_TARGET="nvptx")
    assert "the driver may take entry 2, machine code for sm_90" in made.note
    assert pieces(made.fatbin)[:2] == pieces(uncovered)[:2]
    damaged = fatbin(entry(same[:300], 89, kind=2), entry(enc0, 89))
    assert len(pieces(replaced(damaged, ZLUDA_RR_TARGET="nvptx"))) == 2


def concatenated(*texts: bytes, arch: int = 89) -> bytes:
    """`fatbinary --concat` of CUDA 13.5 (docs/containers.md), zstd."""
    joined, items = b"", b""
    for text in texts:
        body = text + bytes(8 - len(text) % 8)
        fields = (1, 0x101, len(joined), len(body), 0, 0, 0, 9, arch, 0, 0, 0x11, 0, 0)
        items += struct.pack("<HHIQIIHHIIIQQQ", *fields)
        joined += body
    table = struct.pack("<II", len(texts), 8 + len(items)) + items
    packed = zstandard.compress(joined)
    body = packed + bytes(-len(packed) % 8)
    fields = (0x100, 0x101, 64 + len(table), len(body), len(packed), 64, 0, 9, arch, 0, 0, 0x8011, 0, len(joined))
    return struct.pack("<HHIQIIHHIIIQQQ", *fields) + table + body


def test_a_concatenated_entry_gives_way_to_its_items(enc0: bytes, other: bytes) -> None:
    image = fatbin(concatenated(other, enc0, BROKEN))
    after = pieces(replaced(image))
    assert [content(piece) for piece in (after[0], after[2])] == [other, BROKEN]
    assert b"zrr_swin_enc0" in content(after[1])
    # ZLUDA passes over concatenated entries where there is another.
    image = fatbin(concatenated(other, enc0), entry(enc0, 75))
    assert pieces(replaced(image))[0] == pieces(image)[0]


def test_the_samples_of_fatbinary_survive_a_change_of_each_text() -> None:
    """Names and options of NVIDIA's own tool stay; the changed text is read back from its place."""
    for path in sorted((Path(samples.__file__).parent / "data").glob("*.fatbin")):
        data = path.read_bytes()
        image = Fatbin.of(data)
        assert image is not None
        before = list(image.texts())
        for number, text in enumerate(before):
            changed = image.with_text(text, text.text + "// more\n")
            after = [module.text for module in modules_in_bytes(changed)]
            assert after == [t.text + ("// more\n" if i == number else "") for i, t in enumerate(before)], path.name


def test_a_fatbin_of_fatbinary(enc0: bytes, tmp_path: Path) -> None:
    """Written by NVIDIA's tool with a name and options: only the payload and its sizes change."""
    path = tmp_path / "enc0.ptx"
    path.write_bytes(enc0)
    images = [samples.Image("ptx", arch, path) for arch in ("89", "90")]
    flags = ("--ident=/some/where.cu", "--cmdline=--opt-level 3")
    data = samples.fatbin(tmp_path, "x.fatbin", images, "balance", *flags, tools=samples.cuda_tools()).read_bytes()
    before, after = pieces(data), pieces(replaced(data))
    assert before[0] == after[0]
    header = struct.unpack_from("<I", before[1], 4)[0]
    assert header > 64
    assert before[1][64:header] == after[1][64:header]
    assert modules_in_bytes(replaced(data))[1].entries == (ENTRY,)


def test_several_fatbins_in_one_library(cli: Sandbox, enc0: bytes, other: bytes) -> None:  # noqa: F811
    """`precompile` stores the one that matters, whole; the program that loads it gets it without a miss."""
    wanted = fatbin(entry(other, 75, "lz4"), entry(enc0, 89, "zstd"))
    library = cli.folder / "game" / "libgame.so"
    library.parent.mkdir()
    library.write_bytes(b"\x7fELF" + bytes(4092) + fatbin(entry(other)) + wanted + bytes(64) + fatbin(entry(other, 80)))
    code, printed = run("precompile", "--quiet", "--list-skipped", str(library.parent))
    assert code == 0
    assert printed.count("replaced: enc0") == 2
    assert printed.count("no kernel of a rule") == 3
    assert "3 modules that no rule concerns" in printed
    outcome = cli.run("cuModuleLoadData", "dlsym", wanted, "--raw", ZLUDA_RR_MISS="off")
    assert pieces(outcome.loads[0][2])[0] == pieces(wanted)[0]
    assert outcome.loads[0][2] != wanted
    assert len(Cache(cli.cache.folder).entries()) == 2
    assert not list(cli.cache.folder.glob("*.lock"))


def test_a_wrapper_of_several_fatbins_passes(cli: Sandbox) -> None:  # noqa: F811
    """Version 2 of the wrapper lists more fatbins than the one that it points to."""
    image = fatbin(entry(TEXT))
    outcome = cli.run("cuModuleLoadFatBinary", "dlsym", image, "--raw", "--wrapper", "2", ZLUDA_RR_LOG="debug")
    assert outcome.loads[0][0] == "cuModuleLoadFatBinary"
    assert "fatbin wrapper: not of version 1" in outcome.log[0]


def test_rewrite_of_a_fatbin_writes_a_fatbin(enc0: bytes, other: bytes, tmp_path: Path) -> None:
    source, output = tmp_path / "in.fatbin", tmp_path / "out.fatbin"
    source.write_bytes(fatbin(entry(other, 75), entry(enc0, 89, "zstd"), entry(BROKEN, 120)))
    for name in ("out.fatbin", "out.ptx"):
        done = CliRunner().invoke(main, ["rewrite", str(source), "-o", str(tmp_path / name), "--cut", "phase8"])
        assert done.exit_code == 0, done.output
    after = pieces(output.read_bytes())
    assert [after[i] == pieces(source.read_bytes())[i] for i in range(3)] == [True, False, True]
    assert content(after[1]) == (tmp_path / "out.ptx").read_bytes().rstrip(b"\0")
    assert [m.arch for m in modules_in(output)][:2] == ["sm_89", "sm_89"]
    chosen = CliRunner().invoke(main, ["rewrite", str(source), "-o", str(output), "--module", "1"])
    assert chosen.exit_code == 2
    assert "entries here: someone_elses" in chosen.stderr


def test_the_pieces_can_tell(enc0: bytes, other: bytes) -> None:
    """The check above fails for a text in place of a fatbin, and for a fatbin with an entry less."""
    with pytest.raises(AssertionError):
        pieces(enc0)
    two, one = fatbin(entry(other), entry(enc0)), fatbin(entry(enc0))
    assert pieces(two) != pieces(one)
    assert io.BytesIO(two).read(4) == io.BytesIO(one).read(4)
