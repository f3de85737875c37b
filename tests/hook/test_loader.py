"""What the loader receives, for each call, way in and container; and that everything else passes untouched."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from zluda_rr.hook import Library, library_path

from .sandbox import BY_FILE, CALLS, FATBIN, NOTE, REWRITTEN, TEXT, WAYS, Sandbox, c_compiler

# A text cannot go through these: the call for text in memory is used.
_BECOMES = {
    "cuModuleLoad": "cuModuleLoadData",
    "cuModuleLoadFatBinary": "cuModuleLoadData",
    "cuLibraryLoadFromFile": "cuLibraryLoadData",
}
_CONTAINERS = {"text": (TEXT, ()), "fatbin": (FATBIN, ("--raw",)), "wrapper": (FATBIN, ("--raw", "--wrapper", "good"))}


def received(call: str) -> tuple[str, int, bytes]:
    return _BECOMES.get(call, call), 0, REWRITTEN.encode()


@pytest.mark.parametrize("container", _CONTAINERS)
@pytest.mark.parametrize("call", CALLS)
def test_the_loader_receives_the_rewritten_module(box: Sandbox, call: str, container: str) -> None:
    image, flags = _CONTAINERS[container]
    if call in BY_FILE:
        flags = ("--raw",)
    box.store(image)
    outcome = box.run(call, "dlsym", image, *flags)
    assert outcome.loads == (received(call),)
    assert outcome.status == 0
    assert outcome.calls[0][0] == "cuInit"
    assert len(outcome.log) == 1
    assert f"{call}: replaced {NOTE}" in outcome.log[0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", ["cuModuleLoadData", "cuLibraryLoadData"])
def test_every_way_to_the_function(box: Sandbox, way: str, call: str) -> None:
    box.store(TEXT)
    assert box.run(call, way, TEXT).loads == (received(call),)


@pytest.mark.parametrize("way", WAYS)
def test_without_the_hook_the_original_arrives(box: Sandbox, way: str) -> None:
    """The tests above can fail."""
    box.store(TEXT)
    assert box.run("cuModuleLoadData", way, TEXT, LD_PRELOAD="").loads == (("cuModuleLoadData", 0, TEXT),)


@pytest.mark.parametrize("call", CALLS)
def test_an_unknown_module_passes_as_it_is(box: Sandbox, call: str) -> None:
    outcome = box.run(call, "dlsym", TEXT, ZLUDA_RR_MISS="off")
    name, status, data = outcome.loads[0]
    assert (name, status, len(outcome.loads)) == (call, 0, 1)
    assert data == TEXT or (call in BY_FILE and Path(data.decode()).read_bytes() == TEXT)


def test_a_module_that_the_loader_rejects_is_followed_by_the_original(box: Sandbox) -> None:
    for call in CALLS:
        box.store(TEXT)
        outcome = box.run(call, "dlsym", TEXT, FAKE_CUDA_REJECT="zrr_body")
        first, second = outcome.loads
        assert first == (_BECOMES.get(call, call), 218, REWRITTEN.encode())
        assert second[:2] == (call, 0)
        assert outcome.status == 0
        assert len(outcome.log) == 1, "a rewrite that was rejected is not logged as replaced"
        assert "rejects the rewritten module (error 218); original module" in outcome.log[0]
        assert "rejected" in (box.cache.folder / "runs.log").read_text().splitlines()[-1]


def test_the_proxy_stands_before_the_real_library(box: Sandbox, programs_with_proxy: Path) -> None:
    box.store(TEXT)
    for way in ("dlsym", "link", "proc", "proc2"):
        outcome = box.run("cuModuleLoadData", way, TEXT, LD_PRELOAD="", LD_LIBRARY_PATH=str(programs_with_proxy))
        assert outcome.loads == (received("cuModuleLoadData"),), way
        assert outcome.calls[0][0] == "cuInit", "a symbol of the real library, found through the proxy"


@pytest.fixture
def programs_with_proxy(box: Sandbox, tmp_path: Path) -> Path:
    folder = tmp_path / "proxy"
    folder.mkdir()
    shutil.copy(library_path(Library.PROXY), folder / "libcuda.so.1")
    shutil.copy(box.programs.cuda / "libcuda.so.1", folder / "libzluda_rr_real.so")
    return folder


def test_the_named_library_is_the_real_one(box: Sandbox, tmp_path: Path) -> None:
    box.store(TEXT)
    other = tmp_path / "libother.so"
    shutil.copy(box.programs.cuda / "libcuda.so.1", other)
    for way in WAYS:
        outcome = box.run("cuModuleLoadData", way, TEXT, ZLUDA_RR_CUDA_LIB=str(other))
        assert outcome.loads == (received("cuModuleLoadData"),), way
        assert outcome.libraries[-1] == "libother.so", way
    assert box.run("cuModuleLoadData", "dlsym", TEXT).libraries[-1] == "libcuda.so.1"


def test_the_entry_point_for_a_patched_zluda(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("ZLUDA_RR_CACHE_DIR", "ZLUDA_RR_MISS"):
        monkeypatch.setenv(name, box.env[name] if name != "ZLUDA_RR_MISS" else "off")
    library = ctypes.CDLL(str(library_path()))
    out, size = ctypes.c_void_p(), ctypes.c_size_t()
    transform = library.zluda_rr_transform
    assert transform(TEXT, ctypes.c_size_t(len(TEXT)), ctypes.byref(out), ctypes.byref(size)) == 0
    box.store(TEXT)
    for length in (len(TEXT), 0):
        assert transform(TEXT, ctypes.c_size_t(length), ctypes.byref(out), ctypes.byref(size)) == 1
        assert ctypes.string_at(out.value or 0, size.value + 1) == REWRITTEN.encode() + b"\0"
        library.zluda_rr_free(out)
    assert transform(TEXT, ctypes.c_size_t(len(TEXT)), None, None) == 0
    capfd.readouterr()


def test_exported_symbols() -> None:
    hooks = {*CALLS, "cuGetProcAddress", "cuGetProcAddress_v2"}
    hooks |= {f"cuLinkAdd{what}{version}" for what in ("Data", "File") for version in ("", "_v2")}
    for_zluda = {"zluda_rr_transform", "zluda_rr_bodies", "zluda_rr_free"}
    assert exported(library_path(Library.PRELOAD)) == hooks | for_zluda | {"dlsym", "dlopen", "dlmopen"}
    assert exported(library_path(Library.PROXY)) == hooks


def exported(library: Path) -> set[str]:
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".dynsym")
        return {s.name for s in table.iter_symbols() if s.name and s["st_shndx"] != "SHN_UNDEF"}


def test_needs_nothing_but_libc_and_libdl() -> None:
    from elftools.elf.elffile import ELFFile

    for library, expected in (
        (Library.PRELOAD, {"libc.so.6", "libdl.so.2"}),
        (Library.PROXY, {"libc.so.6", "libdl.so.2", "libzluda_rr_real.so"}),
    ):
        with library_path(library).open("rb") as stream:
            tags = list(ELFFile(stream).get_section_by_name(".dynamic").iter_tags())
        assert {t.needed for t in tags if t.entry.d_tag == "DT_NEEDED"} == expected
        assert library_path(library).stat().st_size < 64 << 10


def test_other_names_pass_through_dlsym_by_a_jump(tmp_path: Path, box: Sandbox) -> None:
    """`dlsym(RTLD_NEXT, …)` must still mean: behind the caller, not behind the hook."""
    for name, body in {
        "first": 'void *n(void){return dlsym(RTLD_NEXT,"who");} int who(void){return 1;}',
        "second": "int who(void){return 2;}",
        "main": 'void *n(void); int who(void); int main(void){int(*f)(void)=(int(*)(void))n(); printf("%d",f?f():0);}',
    }.items():
        (tmp_path / f"{name}.c").write_text(f"#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n{body}\n")
    here = ["-L.", "-Wl,-rpath,."]
    for command in (
        [*c_compiler(), "-shared", "-fPIC", "second.c", "-o", "libsecond.so"],
        [*c_compiler(), "-shared", "-fPIC", "first.c", "-o", "libfirst.so", "-ldl"],
        [*c_compiler(), "main.c", "-o", "main", *here, "-lfirst", "-Wl,--no-as-needed", "-lsecond"],
    ):
        subprocess.run(command, check=True, cwd=tmp_path)
    done = subprocess.run(["./main"], cwd=tmp_path, env=box.env, capture_output=True, text=True, check=True)
    assert done.stdout == "2"
