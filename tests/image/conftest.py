"""Containers shared by the tests, built once per run."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.image import samples
from zluda_rr.image import read_ptx, shipped_module


@dataclass(frozen=True, slots=True)
class Samples:
    """Paths by name; `ptx` is the text that all of them hold."""

    ptx: Path
    text: str
    files: dict[str, Path]


def build(folder: Path, text: str, modes: tuple[str, ...]) -> Samples:
    ptx = folder / "module.ptx"
    ptx.write_text(text)
    tools = samples.cuda_tools()
    images = [samples.Image("ptx", "89", ptx)]
    files = {f"fatbin-{m}": samples.fatbin(folder, f"{m}.fatbin", images, m, tools=tools) for m in modes}
    source = samples.embedding_source(folder, images, modes[-1])
    files["elf"] = samples.shared_object(folder, source)
    files["pe"] = samples.windows_dll(folder, source)
    files["cubin"] = samples.cubin(folder, "module.cubin", ptx, "-lineinfo")
    return Samples(ptx, text, files)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """The small kernel in every compression and container."""
    return build(tmp_path_factory.mktemp("small"), samples.SMALL_PTX, tuple(samples.MODES))


@pytest.fixture(scope="session")
def enc0(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """The reference module, uncompressed, LZ4 and zstd, and the other containers with zstd."""
    text = read_ptx(shipped_module("enc0"))
    return build(tmp_path_factory.mktemp("enc0"), text, ("none", "speed", "balance"))
