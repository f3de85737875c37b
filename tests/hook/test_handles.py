"""Every call reaches the library whose handle or symbol the program used, with the plugin on and off."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from .sandbox import NATIVE, REWRITTEN, TEXT, Outcome, Sandbox, c_compiler

ON_AND_OFF = ["1", "0"]


def compile_shared(source: str, output: Path, *flags: str) -> Path:
    """A library of the tests, with its file's name as its name."""
    command = [*c_compiler(), "-O1", "-shared", "-fPIC", f"-Wl,-soname,{output.name}", str(NATIVE / source)]
    subprocess.run([*command, "-o", str(output), "-ldl", *flags], check=True)
    return output


@dataclass(frozen=True, slots=True)
class Libraries:
    """Two CUDA libraries, a shim, one that interposes, a plugin linked against each of the two, a program."""

    folder: Path

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    folder = tmp_path_factory.mktemp("libraries")
    first = compile_shared("fake_cuda.c", folder / "libfirst.so")
    second = compile_shared("fake_cuda.c", folder / "libsecond.so")
    compile_shared("shim.c", folder / "libshim.so")
    compile_shared("shim.c", folder / "libnext.so", "-DNEXT")
    for name, against in (("one", first), ("two", second)):
        link = (f"-L{folder}", "-Wl,-rpath,$ORIGIN", f"-l{against.stem.removeprefix('lib')}")
        compile_shared("plugin.c", folder / f"plugin_{name}.so", *link)
    compile_shared("plugin.c", folder / "plugin_opens.so", "-DOPENS")
    program = [*c_compiler(), "-O1", str(NATIVE / "handles.c"), "-o", str(folder / "handles"), "-ldl", "-lpthread"]
    subprocess.run(program, check=True)
    linked = [f"-L{folder}", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed", "-lfirst"]
    subprocess.run([*program[:-3], str(folder / "linked"), "-ldl", "-lpthread", *linked], check=True)
    return Libraries(folder)


def drive(box: Sandbox, made: Libraries, *steps: str, program: str = "handles", **env: str) -> Outcome:
    """The program's steps, and what the libraries received."""
    image = box.folder / "image"
    image.write_bytes(TEXT)
    (box.folder / "record").mkdir(exist_ok=True)
    whole = {**box.env, "FAKE_CUDA_DIR": str(box.folder / "record"), "HANDLES_IMAGE": str(image), **env}
    command = [made[program], *(step.replace("@", f"{made.folder}/") for step in steps)]
    pipe = subprocess.PIPE
    outcome = box.finish(subprocess.Popen(command, env=whole, stdout=pipe, stderr=pipe, text=True))
    assert "an" not in outcome.printed, "an error is left for dlerror"
    return outcome


def expect(outcome: Outcome, on: str, *libraries: str) -> None:
    """Who received the module, in order, and in which form."""
    assert outcome.libraries == libraries
    assert [call[2] for call in outcome.loads] == [REWRITTEN.encode() if on == "1" else TEXT] * len(libraries)
    assert outcome.status == 0


@pytest.mark.parametrize("on", ON_AND_OFF)
@pytest.mark.parametrize("how", ["dlsym", "proc", "proc2"])
def test_closed_and_opened_again(box: Sandbox, made: Libraries, how: str, on: str) -> None:
    """At another place each time, and more often than there are entries."""
    box.store(TEXT)
    steps = ["open,1,@libfirst.so", f"load,{how},1", "close,1", "bury,1"] * 40
    outcome = drive(box, made, *steps, ZLUDA_RR=on)
    expect(outcome, on, *["libfirst.so"] * 40)
    assert len(outcome.log) == (40 if on == "1" else 0), "each was replaced"


@pytest.mark.parametrize("on", ON_AND_OFF)
def test_two_libraries_in_one_process(box: Sandbox, made: Libraries, on: str) -> None:
    box.store(TEXT)
    both = ["open,1,@libfirst.so", "open,2,@libsecond.so"]
    loads = [
        "load,dlsym,2",
        "load,dlsym,1",
        "load,proc,2",
        "load,proc,1",
        "load,proc2,2",
        "load,proc2,1",
        "load,dlsym,2",
    ]
    order = ["libsecond.so", "libfirst.so"] * 3 + ["libsecond.so"]
    expect(drive(box, made, *both, *loads, ZLUDA_RR=on), on, *order)
    shared = [f"{step},global" for step in both]
    bare = drive(box, made, *shared, *loads, LD_PRELOAD="").libraries
    expect(drive(box, made, *shared, *loads, ZLUDA_RR=on), on, *bare)


@pytest.mark.parametrize("on", ON_AND_OFF)
def test_a_function_goes_on_meaning_its_library(box: Sandbox, made: Libraries, on: str) -> None:
    box.store(TEXT)
    steps = ("open,1,@libfirst.so", "keep,dlsym,1", "open,2,@libsecond.so", "again", "load,dlsym,2", "close,1", "again")
    expect(drive(box, made, *steps, ZLUDA_RR=on), on, "libfirst.so", "libsecond.so", "libsecond.so")


@pytest.mark.parametrize("on", ON_AND_OFF)
@pytest.mark.parametrize("how", ["dlsym", "proc2"])
def test_a_shim_that_looks_the_real_library_up(box: Sandbox, made: Libraries, how: str, on: str) -> None:
    box.store(TEXT)
    outcome = drive(
        box, made, "open,1,@libshim.so", f"load,{how},1", "again", ZLUDA_RR=on, SHIM_REAL=made["libfirst.so"]
    )
    expect(outcome, on, "libfirst.so", "libfirst.so")
    assert len(outcome.log) == (2 if on == "1" else 0), "the shim's own call is not looked at again"


@pytest.mark.parametrize("on", ON_AND_OFF)
@pytest.mark.parametrize("order", ["before", "behind"])
@pytest.mark.parametrize("how", ["link", "default", "next", "dlsym"])
def test_another_library_that_interposes(box: Sandbox, made: Libraries, order: str, on: str, how: str) -> None:
    """It calls what is next after itself, whether it stands before this library or behind it."""
    box.store(TEXT)
    both = [str(box.programs.hook), made["libnext.so"]]
    preload = ":".join(both if order == "behind" else both[::-1])
    steps = ("open,1,@libfirst.so,global", f"load,{how},1")
    outcome = drive(box, made, *steps, program="linked", ZLUDA_RR=on, LD_PRELOAD=preload)
    expect(outcome, on, "libfirst.so")
    bare = drive(box, made, *steps, program="linked", ZLUDA_RR=on, LD_PRELOAD=made["libnext.so"])
    assert bare.libraries == outcome.libraries
    assert bare.printed == outcome.printed, "as without the hook"


@pytest.mark.parametrize("on", ON_AND_OFF)
def test_plugins_that_are_linked_against_different_libraries(box: Sandbox, made: Libraries, on: str) -> None:
    box.store(TEXT)
    steps = ("open,1,@plugin_one.so", "open,2,@plugin_two.so", "play,2", "play,1", "play,2", "close,2", "play,1")
    outcome = drive(box, made, *steps, "bury,2", "open,2,@plugin_two.so", "play,2", ZLUDA_RR=on)
    expect(outcome, on, *("libsecond.so", "libfirst.so") * 2, "libsecond.so")


@pytest.mark.parametrize("on", ON_AND_OFF)
def test_a_call_by_name_goes_where_the_name_leads_now(box: Sandbox, made: Libraries, on: str) -> None:
    """One place in the program, and the library behind it is another after a while."""
    box.store(TEXT)
    steps = ["open,1,@libfirst.so,global", "load,link", "again", "close,1", "bury,1", "open,2,@libsecond.so,global"]
    outcome = drive(box, made, *steps, "load,link", "again", ZLUDA_RR=on)
    expect(outcome, on, "libfirst.so", "libfirst.so", "libsecond.so", "libsecond.so")


@pytest.mark.parametrize("on", ON_AND_OFF)
def test_the_global_scope_comes_before_a_plugins_own(box: Sandbox, made: Libraries, on: str) -> None:
    box.store(TEXT)
    steps = ("open,1,@libfirst.so,global", "open,2,@plugin_two.so", "play,2")
    with_hook = drive(box, made, *steps, ZLUDA_RR=on)
    assert with_hook.libraries == drive(box, made, *steps, LD_PRELOAD="").libraries
    expect(with_hook, on, "libfirst.so")


@pytest.mark.parametrize("on", ON_AND_OFF)
def test_a_library_in_another_namespace(box: Sandbox, made: Libraries, on: str) -> None:
    box.store(TEXT)
    steps = ("open,1,@libfirst.so", "new,2,@libfirst.so", "new,3,@libsecond.so")
    loads = ("load,dlsym,3", "load,dlsym,1", "load,proc2,3", "load,dlsym,2")
    outcome = drive(box, made, *steps, *loads, ZLUDA_RR=on)
    expect(outcome, on, "libsecond.so", "libfirst.so", "libsecond.so", "libfirst.so")


@pytest.mark.parametrize("on", ON_AND_OFF)
@pytest.mark.parametrize("how", ["default", "next"])
def test_where_no_library_is_there_is_none(box: Sandbox, made: Libraries, on: str, how: str) -> None:
    """A program that asks whether there is CUDA gets the answer that it would get without the hook."""
    outcome = drive(box, made, f"load,{how}", ZLUDA_RR=on, LD_LIBRARY_PATH="")
    assert outcome.printed["nothing"] == (1,), "and dlerror tells of it"
    outcome = drive(box, made, "open,1,@libfirst.so", f"load,{how}", ZLUDA_RR=on, LD_LIBRARY_PATH="")
    assert outcome.printed["nothing"] == (1,), "a library that was opened for others only"


def test_a_named_library_without_the_function_leaves_no_error(box: Sandbox, made: Libraries) -> None:
    box.store(TEXT)
    outcome = drive(box, made, "open,1,@libfirst.so", "load,dlsym,1", ZLUDA_RR_CUDA_LIB="/nonexistent/libcuda.so")
    expect(outcome, "1", "libfirst.so")


@pytest.mark.parametrize("on", ON_AND_OFF)
def test_threads_that_open_and_close(box: Sandbox, made: Libraries, on: str) -> None:
    box.store(TEXT)
    outcome = drive(box, made, "threads,8,40,@libfirst.so,@libsecond.so", ZLUDA_RR=on, ZLUDA_RR_LOG="off")
    assert sorted(outcome.libraries) == ["libfirst.so"] * 160 + ["libsecond.so"] * 160
    assert {call[2] for call in outcome.loads} == {REWRITTEN.encode() if on == "1" else TEXT}


def test_a_file_goes_to_the_library_that_was_asked(box: Sandbox, made: Libraries) -> None:
    """The call for text in memory, which takes the place of the call for files, is that of the same library."""
    box.store(TEXT)
    opened = ("open,1,@libfirst.so,global", "open,2,@libsecond.so", "new,3,@libsecond.so", "new,4,@libfirst.so")
    outcome = drive(box, made, *opened, "load,file,2", "load,file,4", "load,file,3", "load,file,1")
    expect(outcome, "1", "libsecond.so", "libfirst.so", "libsecond.so", "libfirst.so")
    assert {call[0] for call in outcome.loads} == {"cuModuleLoadData"}
    expect(drive(box, made, opened[0], opened[2], "load,file,3"), "1", "libsecond.so")
    for name in ("libsecond.so", "libfirst.so"):
        outcome = box.run("cuModuleLoad", "dlsym", TEXT, "--raw", "--library", made[name])
        assert outcome.loads == (("cuModuleLoadData", 0, REWRITTEN.encode()),)
        assert outcome.libraries[-1] == name
