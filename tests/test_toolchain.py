"""Compilers and cache."""

import os
from pathlib import Path

import pytest

from zluda_rr import toolchain
from zluda_rr.errors import UserError

KERNEL = """
extern "C" __attribute__((global)) void probe(unsigned* out) {
    static __attribute__((shared)) unsigned row[32];
    unsigned l = __builtin_amdgcn_workitem_id_x();
    row[l] = l;
    __builtin_amdgcn_s_barrier();
    out[l] = row[l ^ 1] + VALUE;
}
extern "C" __attribute__((device)) unsigned zrr_unused(unsigned x) { return x + 1; }
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZLUDA_RR_CACHE_DIR", str(tmp_path / "cache"))


def test_hip_kernel_to_code_object_with_resources() -> None:
    compiled = toolchain.compile_hip_kernel(KERNEL, defines={"VALUE": "7"})
    assert compiled.code_object[:4] == b"\x7fELF"
    resources = compiled.resources("probe")
    assert resources.lds_bytes == 128
    assert resources.scratch_bytes == resources.vgpr_spills == resources.sgpr_spills == 0
    assert 0 < resources.vgprs < 16
    assert "zrr_unused" not in compiled.assembly


def test_resources_of_an_unknown_kernel() -> None:
    compiled = toolchain.compile_hip_kernel(KERNEL, defines={"VALUE": "7"})
    with pytest.raises(KeyError):
        compiled.resources("other")


def test_uncalled_device_functions_stay_in_the_ir() -> None:
    assert "@zrr_unused" in toolchain.compile_hip_text(KERNEL, defines={"VALUE": "1"})


def test_cache_hit_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    first = toolchain.compile_hip_kernel(KERNEL, defines={"VALUE": "7"})
    monkeypatch.setattr(toolchain, "_run", None)
    monkeypatch.setattr(toolchain, "_optimised_assembly", None)
    assert toolchain.compile_hip_kernel(KERNEL, defines={"VALUE": "7"}) == first


def test_cache_sees_defines_and_headers(tmp_path: Path) -> None:
    source, header = tmp_path / "a.hip", tmp_path / "a.h"
    source.write_text('#include "a.h"\nextern "C" __attribute__((device)) int f() { return N + VALUE; }\n')
    results = set()
    for number, value in ((1, "1"), (1, "10"), (100, "1")):
        header.write_text(f"#define N {number}\n")
        results.add(toolchain.compile_hip(source, defines={"VALUE": value}))
    assert len(results) == 3


def test_damaged_cache_folder_is_a_miss(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert toolchain.cache_get("00" * 32) is None
    toolchain.cache_put("00" * 32, b"data")
    assert toolchain.compile_hip_kernel(KERNEL, defines={"VALUE": "2"}).code_object


def test_cache_put_leaves_no_temporary_file(tmp_path: Path) -> None:
    key = toolchain.content_key("x")
    toolchain.cache_put(key, b"data")
    assert toolchain.cache_get(key) == b"data"
    assert [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()] == [key]


def test_content_key_separates_parts() -> None:
    assert toolchain.content_key("ab", "c") != toolchain.content_key("a", "bc")


def test_a_damaged_cache_entry_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZLUDA_RR_CACHE_DIR", str(tmp_path))
    key = "ab" * 32
    toolchain.cache_put(key, b"code object")
    path = tmp_path / "ab" / key
    good = path.read_bytes()
    for bad in (b"", good[:-1], good[:-1] + b"?", b"?" + good[1:], good + b"?"):
        path.write_bytes(bad)
        assert toolchain.cache_get(key) is None
    path.write_bytes(good)
    assert toolchain.cache_get(key) == b"code object"


def test_cache_dir_from_the_environment() -> None:
    assert toolchain.cache_dir({"ZLUDA_RR_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c")
    assert toolchain.cache_dir({"XDG_CACHE_HOME": "/x", "HOME": "/h"}) == Path("/x/zluda-rr")
    assert toolchain.cache_dir({"HOME": "/h"}) == Path("/h/.cache/zluda-rr")


def test_clang_error_is_one_line_with_the_place() -> None:
    with pytest.raises(toolchain.ToolError, match=r"^clang: source\.hip: .*:1:\d+: error: ") as caught:
        toolchain.compile_hip_text("int x = ;\n")
    assert "\n" not in str(caught.value)


def test_rejected_ir_is_one_line() -> None:
    with pytest.raises(toolchain.ToolError, match=r"^LLVM: ") as caught:
        toolchain.compile_ir(["define void @f() {"])
    assert "\n" not in str(caught.value)


def test_rejected_assembly_is_one_line() -> None:
    with pytest.raises(toolchain.ToolError, match=r"^assembler: .*error"):
        toolchain.assemble("v_no_such_instruction v0, v1\n")


def test_missing_source() -> None:
    with pytest.raises(toolchain.ToolError, match="no such HIP source"):
        toolchain.compile_hip(Path("/nonexistent/x.hip"))


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        (lambda: toolchain.compile_hip_text(KERNEL, defines={"VALUE": "3"}), "zluda-rr[build]"),
        (lambda: toolchain.compile_ir([""]), "zluda-rr[build]"),
        (lambda: toolchain.link_code_object(b""), "zluda-rr[build]"),
        (toolchain.nvcc, "zluda-rr[corpus]"),
        (toolchain.ptxas, "zluda-rr[corpus]"),
    ],
)
def test_missing_tool_names_the_extra(call, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="missing") as caught:
        call()
    assert extra in str(caught.value)


def test_nvidia_tools_are_executable() -> None:
    assert os.access(toolchain.ptxas(), os.X_OK)
    assert toolchain.nvcc().name == "nvcc"
