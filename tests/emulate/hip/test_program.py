"""The emulated library under programs in C: what each case checks stands in program.c."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.emulate.hip.conftest import HERE, Site
from zluda_rr.toolchain import c_compiler, compile_hip_kernel

QUIET = (
    "vector_add", "reduction", "atomics", "module_globals", "texture", "pitched_texture",
    "surface", "streams_and_events",
    "arguments_and_lds", "memory", "threads",
)  # fmt: skip


@pytest.fixture(scope="module")
def quiet(site: Site, program: Path) -> subprocess.CompletedProcess[str]:
    """All cases one after another in one process."""
    return site.run(program, site.code_object, *QUIET)


@pytest.mark.parametrize("case", QUIET)
def test_values_are_right(quiet: subprocess.CompletedProcess[str], case: str) -> None:
    assert f"{case}: ok" in quiet.stdout.splitlines(), quiet.stdout + quiet.stderr


def test_nothing_is_said_where_all_is_right(quiet: subprocess.CompletedProcess[str]) -> None:
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_limit_on_memory(site: Site, program: Path) -> None:
    done = site.run(program, site.code_object, "limit", environ={"ZLUDA_RR_HIP_MEMORY": "64M"})
    assert (done.returncode, done.stdout) == (0, "limit: ok\n")


@pytest.mark.parametrize("text", ["lots", "-1", "4GB", "0", "2000G"])
def test_a_limit_that_is_no_size(site: Site, program: Path, text: str) -> None:
    done = site.run(program, site.code_object, "vector_add", environ={"ZLUDA_RR_HIP_MEMORY": text})
    assert done.returncode == 1
    assert done.stderr.startswith(f"libamdhip64 (emulated): ZLUDA_RR_HIP_MEMORY={text} is no size; give bytes, or")


def test_a_model_that_does_not_exist(site: Site, program: Path) -> None:
    done = site.run(program, site.code_object, "vector_add", environ={"ZLUDA_RR_HIP_MODEL": "fast"})
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "libamdhip64 (emulated): ZLUDA_RR_HIP_MODEL=fast: choose one of exact, sequential, pairwise",
        "libamdhip64 (emulated): the emulator's process has ended; nothing can be launched any more",
    ]


def test_faults_are_named(site: Site, program: Path) -> None:
    done = site.run(program, site.code_object, "fault")
    assert (done.returncode, done.stdout) == (0, "fault: ok\n")
    beyond, null = done.stderr.splitlines()
    assert "kernel fill: 4-byte store at 0x" in beyond
    assert "0 bytes past the end of the 64 bytes at 0x" in beyond
    assert beyond.endswith("global_store_b32 v[0:1], v3, off")
    assert "4-byte store at 0x0: not in the device's memory" in null


def test_constants_and_freed_memory_are_out_of_reach(site: Site, program: Path) -> None:
    done = site.run(program, site.code_object, "protection")
    assert (done.returncode, done.stdout) == (0, "protection: ok\n")
    assert "which kernels may only read" in done.stderr.splitlines()[0]


def test_fork_and_device_pointers_on_the_host(site: Site, program: Path) -> None:
    done = site.run(program, site.code_object, "device_pointer_on_host")
    assert (done.returncode, done.stdout) == (0, "device_pointer_on_host: ok\n")
    assert "does not outlive fork" in done.stderr


def test_processes_at_once(site: Site, program: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda case: site.run(program, site.code_object, case), QUIET[:2]))
    assert [run.stdout for run in runs] == [f"{case}: ok\n" for case in QUIET[:2]]


def helpers(site: Site) -> list[str]:
    """Helper processes that have this session's marker in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"ZRR_TEST={site.work}".encode() in path.read_bytes():
                found.append(path.with_name("cmdline").read_text())
        except OSError:
            continue
    return [line for line in found if "emulate.hip.helper" in line]


def test_the_helper_ends_with_the_program(site: Site, program: Path) -> None:
    environ = {**os.environ, "LD_LIBRARY_PATH": str(site.library), "ZRR_TEST": str(site.work)}
    loop = [str(program), str(site.code_object), "never_ends"]
    with subprocess.Popen(loop, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "launching\n"
        assert len(helpers(site)) == 1
        time.sleep(0.3)  # into the launch
        running.kill()
    deadline = time.monotonic() + 20
    while helpers(site) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert helpers(site) == []


def bundle(code_object: bytes, name: bytes = b"hipv4-amdgcn-amd-amdhsa--gfx1201") -> bytes:
    """Clang's offload bundle of an empty host part and a code object."""
    names = (b"host-x86_64-unknown-linux-gnu-", name)
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 2)
    for entry, data in zip(names, (b"", code_object), strict=True):
        head += struct.pack("<QQQ", 4096, len(data), len(entry)) + entry
    return head.ljust(4096, b"\0") + code_object


def test_a_program_as_hipcc_makes_it(site: Site) -> None:
    """<<<>>> and device variables: clang's own registration code, kernels in an offload bundle."""
    source = HERE / "registered.hip"
    fat = site.work / "registered.hipfb"
    fat.write_bytes(bundle(compile_hip_kernel(source).code_object))
    clang = [sys.executable, "-m", "ziglang", "clang", "-x", "hip", "--cuda-host-only", "-nogpuinc", "-nogpulib"]
    include = ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(fat)]
    half = site.work / "registered.o"
    subprocess.run([*clang, "-O1", "-fPIC", "-c", *include, "-o", str(half), str(source)], check=True)
    whole = site.work / "registered"
    subprocess.run([*c_compiler("tests"), str(half), f"-L{site.library}", "-lamdhip64", "-o", str(whole)], check=True)
    done = site.run(whole)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
