"""`install` and `uninstall` on a folder that looks like ZLUDA's."""

import json
import os
from pathlib import Path

import pytest

from zluda_rr.errors import UserError
from zluda_rr.hook import install as package
from zluda_rr.hook.install import MANIFEST, install, uninstall

from .sandbox import REWRITTEN, TEXT, Sandbox


def tree(folder: Path) -> dict[str, object]:
    return {p.name: os.readlink(p) if p.is_symlink() else p.read_bytes() for p in folder.iterdir()}


def zluda(tmp_path: Path, layout: str) -> Path:
    folder = tmp_path / "zluda"
    folder.mkdir()
    (folder / "libnvml.so").write_bytes(b"other")
    real = {"link": "libcuda.so", "reverse": "libcuda.so.1", "outside": "libnvcuda.so", "two": "libcuda.so.1"}[layout]
    (folder / real).write_bytes(b"the real library")
    if layout == "link":
        (folder / "libcuda.so.1").symlink_to("libcuda.so")
    elif layout == "reverse":
        (folder / "libcuda.so").symlink_to("libcuda.so.1")
    elif layout == "outside":
        for name in ("libcuda.so", "libcuda.so.1"):
            (folder / name).symlink_to("libnvcuda.so")
    else:
        (folder / "libcuda.so").write_bytes(b"the real library")
    return folder


@pytest.mark.parametrize("layout", ["link", "reverse", "outside", "two"])
def test_installed_twice_and_removed_as_if_never_there(tmp_path: Path, layout: str) -> None:
    folder = zluda(tmp_path, layout)
    before = tree(folder)
    assert "installed" in install(folder)
    after = tree(folder)
    assert after["libcuda.so.1"] == after["libcuda.so"] != b"the real library"
    assert (folder / "libzluda_rr_real.so").read_bytes() == b"the real library"
    assert "already installed" in install(folder)
    assert tree(folder) == after
    uninstall(folder)
    assert tree(folder) == before
    with pytest.raises(UserError, match="not installed here"):
        uninstall(folder)
    assert tree(folder) == before


def test_only_one_name(tmp_path: Path) -> None:
    folder = tmp_path / "zluda"
    folder.mkdir()
    (folder / "libcuda.so.1").write_bytes(b"x")
    install(folder)
    assert not (folder / "libcuda.so").exists()
    uninstall(folder)
    assert tree(folder) == {"libcuda.so.1": b"x"}


def test_refusals_change_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        install(tmp_path / "nothing")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match=r"no libcuda\.so"):
        install(empty)
    assert tree(empty) == {}
    (empty / "libcuda.so.1").symlink_to("gone")
    with pytest.raises(UserError, match="points to no file"):
        install(empty)
    assert tree(empty) == {"libcuda.so.1": "gone"}


def test_a_file_that_changed_since_is_not_touched(tmp_path: Path) -> None:
    folder = zluda(tmp_path, "link")
    install(folder)
    (folder / "libcuda.so").write_bytes(b"a newer ZLUDA")
    now = tree(folder)
    with pytest.raises(UserError, match=r"libcuda\.so changed since"):
        uninstall(folder)
    assert tree(folder) == now
    install(folder)  # takes the newer one over
    assert (folder / "libzluda_rr_real.so").read_bytes() == b"a newer ZLUDA"
    uninstall(folder)
    assert tree(folder)["libcuda.so"] == b"a newer ZLUDA"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"proxy_sha256": "x", "replaced": [{"name": "../x", "link": "", "moved": ""}]}']
)
def test_a_foreign_manifest_is_refused(tmp_path: Path, text: str) -> None:
    folder = zluda(tmp_path, "link")
    (folder / MANIFEST).write_text(text)
    before = tree(folder)
    for act in (install, uninstall):
        with pytest.raises(UserError, match="not a manifest"):
            act(folder)
    assert tree(folder) == before


def test_a_newer_proxy_replaces_an_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = zluda(tmp_path, "link")
    before = tree(folder)
    old = tmp_path / "old.so"
    old.write_bytes(b"an older proxy")
    with monkeypatch.context() as patch:
        patch.setattr(package, "library_path", lambda _: old)
        install(folder)
    install(folder)
    assert json.loads((folder / MANIFEST).read_text())["replaced"][0]["name"] == "libcuda.so.1"
    assert (folder / "libcuda.so").read_bytes() != b"an older proxy"
    assert (folder / "libzluda_rr_real.so").read_bytes() == b"the real library"
    uninstall(folder)
    assert tree(folder) == before


def test_an_install_cut_short_can_be_undone(tmp_path: Path) -> None:
    folder = zluda(tmp_path, "two")
    before = tree(folder)
    install(folder)
    # As if the process had ended after the first name: the second still is what it was.
    os.replace(folder / "libcuda.so.before-zluda-rr", folder / "libcuda.so")
    uninstall(folder)
    assert tree(folder) == before


def test_the_installed_proxy_works(box: Sandbox, tmp_path: Path) -> None:
    folder = tmp_path / "zluda"
    folder.mkdir()
    (folder / "libcuda.so").write_bytes((box.programs.cuda / "libcuda.so.1").read_bytes())
    (folder / "libcuda.so.1").symlink_to("libcuda.so")
    install(folder)
    box.store(TEXT)
    outcome = box.run("cuModuleLoadDataEx", "proc2", TEXT, LD_PRELOAD="", LD_LIBRARY_PATH=str(folder))
    assert outcome.loads[0][2] == REWRITTEN.encode()
    uninstall(folder)
    again = box.run("cuModuleLoadDataEx", "proc2", TEXT, LD_PRELOAD="", LD_LIBRARY_PATH=str(folder))
    assert again.loads[0][2] == TEXT
