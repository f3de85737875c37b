"""What NVIDIA's tools write is read: every compression, container, kind of entry and place."""

import os
from pathlib import Path

import pytest

from tests.corpus.compilers import nvcc_13_5
from tests.image import samples
from tests.image.conftest import Samples
from zluda_rr.errors import UserError
from zluda_rr.image import Compression, Container, contents, modules_in, modules_in_bytes, read_single

HOME = Path(__file__).resolve().parents[2] / ".corpus"
DATA = Path(__file__).parent / "data"


def stripped(text: str) -> list[str]:
    """Lines without comments and outer blanks: what fatbinary keeps of a module."""
    return [" ".join(line.split("//")[0].split()) for line in text.rstrip().splitlines()]


@pytest.mark.parametrize("mode", sorted(samples.MODES))
def test_every_mode_of_fatbinary(mode: str, small: Samples) -> None:
    (module,) = modules_in(small.files[f"fatbin-{mode}"])
    assert stripped(module.text) == stripped(small.text)
    assert module.compression == samples.MODES[mode]
    assert module.container is Container.FATBIN
    assert (module.version, module.arch, module.entries) == ("9.0", "sm_89", ("small",))
    assert module.origin.endswith(": entry 1")


@pytest.mark.parametrize(
    ("name", "container", "place"),
    [("elf", Container.ELF, ".nv_fatbin+0x0, entry 1"), ("pe", Container.PE, ".nv_fatb+0x0, entry 1")],
)
def test_host_binaries(name: str, container: Container, place: str, small: Samples) -> None:
    (module,) = modules_in(small.files[name])
    assert stripped(module.text) == stripped(small.text)
    assert module.container is container
    assert module.origin == f"{small.files[name]}: {place}"


def test_a_cubin_keeps_its_source_for_debuggers(small: Samples, tmp_path: Path) -> None:
    (module,) = modules_in(small.files["cubin"])
    assert stripped(module.text) == stripped(small.text)
    assert module.container is Container.CUBIN
    plain = samples.cubin(tmp_path, "plain.cubin", small.ptx)
    with pytest.raises(UserError, match="without PTX; compile with -lineinfo"):
        modules_in(plain)


def test_stripped_and_relocatable_host_binaries(small: Samples, tmp_path: Path) -> None:
    folder = small.files["elf"].parent
    (module,) = modules_in(folder / "host.o")
    assert module.origin.endswith("host.o: .nv_fatbin+0x0, entry 1")
    data = bytearray(small.files["elf"].read_bytes())
    data[40:48] = bytes(8)  # e_shoff: no section table, as in a stripped game library
    data[60:62] = bytes(2)  # e_shnum
    bare = tmp_path / "bare.so"
    bare.write_bytes(data)
    (again,) = modules_in(bare)
    assert again.text == module.text
    assert ": offset 0x" in again.origin


def test_several_fatbins_in_one_file_in_order(small: Samples, tmp_path: Path) -> None:
    path = tmp_path / "archive.bin"
    parts = [small.files[f"fatbin-{mode}"].read_bytes() for mode in ("speed", "none", "size")]
    path.write_bytes(b"\x00junk".join(parts))
    assert [m.compression for m in modules_in(path)] == [Compression.LZ4, Compression.NONE, Compression.ZSTD]


def test_plain_string_in_a_binary(small: Samples, tmp_path: Path) -> None:
    path = tmp_path / "jit.dll"
    path.write_bytes(b"MZ\x90\x00" + bytes(60) + b"other\0" + small.text.encode() + b"\0tail")
    (module,) = modules_in(path)
    assert module.text == small.text
    assert module.container is Container.PE


def test_other_entries_are_named(small: Samples, tmp_path: Path) -> None:
    images = [
        samples.Image("elf", "89", samples.cubin(tmp_path, "a.cubin", small.ptx)),
        samples.Image("ptx", "89", small.ptx),
    ]
    flags = ("--ident=/some/where.cu", "--cmdline=--opt-level 3", "-g")
    path = samples.fatbin(tmp_path, "mixed.fatbin", images, "balance", *flags, tools=samples.cuda_tools())
    found = contents(path)
    assert [m.origin for m in found.modules] == [f"{path}: entry 2"]
    assert [str(s) for s in found.skipped] == [f"{path}: entry 1: machine code (cubin) for sm_89, no PTX"]


CONCATENATED = ["speed", "speed-named", "balance", "balance-named"]


def build_concatenated(folder: Path) -> None:
    """`fatbinary --concat` of CUDA 13.5: the small module for three targets in one compressed entry."""
    tools = nvcc_13_5(HOME).tool("fatbinary").parent
    images = []
    for arch in ("89", "90", "120a"):
        path = folder / f"{arch}.ptx"
        path.write_text(samples.SMALL_PTX.replace("sm_89", f"sm_{arch}"))
        images.append(samples.Image("ptx", arch, path))
    for name in CONCATENATED:
        mode, _, named = name.partition("-")
        flags = ("--concat", *(("--ident=a.cu", "--cmdline=--opt-level 3") if named else ()))
        samples.fatbin(folder, f"concat-{name}.fatbin", images, mode, *flags, tools=tools)


@pytest.mark.parametrize("name", CONCATENATED)
def test_concatenated_entries(name: str) -> None:
    modules = modules_in(DATA / f"concat-{name}.fatbin")
    assert [m.arch for m in modules] == ["sm_89", "sm_90", "sm_120a"]
    assert [m.origin.split(": ")[-1] for m in modules] == ["entry 1.1", "entry 1.2", "entry 1.3"]
    for module in modules:
        assert stripped(module.text) == stripped(samples.SMALL_PTX.replace("sm_89", module.arch))


@pytest.mark.skipif(not (HOME / "nvcc13.5").is_dir(), reason="needs CUDA 13.5: make corpus")
def test_the_committed_samples_are_what_cuda_13_5_writes(tmp_path: Path) -> None:
    build_concatenated(tmp_path)
    for name in CONCATENATED:
        file = f"concat-{name}.fatbin"
        assert (tmp_path / file).read_bytes() == (DATA / file).read_bytes(), file


def test_content_in_memory(small: Samples) -> None:
    for path in small.files.values():
        (there,) = modules_in(path)
        (here,) = modules_in_bytes(path.read_bytes(), str(path))
        assert here == there
    with pytest.raises(UserError, match="<image>: no PTX inside"):
        modules_in_bytes(b"MZ\0\0")


def test_directories_are_sorted_and_loops_harmless(small: Samples, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "z.ptx").write_text(small.text)
    (tmp_path / "a.ptx").write_text(small.text.replace("small", "other"))
    (tmp_path / "same.ptx").symlink_to(tmp_path / "a.ptx")
    (tmp_path / "sub" / "m.fatbin").write_bytes(small.files["fatbin-speed"].read_bytes())
    (tmp_path / "readme.md").write_text("```\n.version 9.0\n.target sm_89\n```\n")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    names = [Path(m.origin.split(": ")[0]).name for m in modules_in(tmp_path)]
    assert names == ["a.ptx", "z.ptx", "m.fatbin"]


def test_directory_without_ptx(tmp_path: Path) -> None:
    assert modules_in(tmp_path) == ()
    with pytest.raises(UserError, match="no PTX inside"):
        read_single(tmp_path)


def test_the_same_text_twice_needs_no_choice(small: Samples, tmp_path: Path) -> None:
    for name in ("a.ptx", "b.ptx"):
        (tmp_path / name).write_text(small.text)
    assert read_single(tmp_path).origin == str(tmp_path / "a.ptx")


def test_comments_do_not_count_as_entries(tmp_path: Path) -> None:
    path = tmp_path / "m.ptx"
    path.write_text(
        "/* .version 1.0 .entry no( */ // .entry neither(\n.version 9.0\n.target sm_89, debug\n.entry yes()\n"
    )
    (module,) = modules_in(path)
    assert (module.version, module.arch, module.entries) == ("9.0", "sm_89", ("yes",))


def test_names_that_cannot_be_printed(small: Samples, tmp_path: Path) -> None:
    path = tmp_path / "line\nbreak\udcff.ptx"
    path.write_text(small.text)
    (module,) = modules_in(path)
    assert module.origin == f"{tmp_path}/line\\nbreak\\udcff.ptx"
