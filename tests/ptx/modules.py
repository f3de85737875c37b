"""Texts the front end's tests share."""

import lzma
from functools import cache
from pathlib import Path

SAMPLES = Path(__file__).parent / "samples"
CORPUS = Path(__file__).parent.parent / "corpus" / "ptx"

HEADER = ".version 9.0\n.target sm_89\n.address_size 64\n\n"


@cache
def read(path: Path) -> str:
    """A PTX file, compressed or not, line ends untouched."""
    data = path.read_bytes()
    return (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8")


def sample(name: str) -> str:
    """One of the nvcc outputs in samples/: plain, lineinfo or debug."""
    path = SAMPLES / f"features-{name}.ptx"
    return read(path if path.exists() else path.with_suffix(".ptx.xz"))


def corpus_files() -> list[Path]:
    """The compiled reference modules."""
    return sorted(CORPUS.glob("*.ptx.xz"))


def all_files() -> list[Path]:
    """Every PTX text of the tests."""
    return sorted([*SAMPLES.glob("*.ptx"), *SAMPLES.glob("*.ptx.xz"), *corpus_files()])


def entry(body: str, *, registers: str = ".reg .pred %p<8>;\n\t.reg .b32 %r<32>;\n\t.reg .b64 %rd<8>;") -> str:
    """A module with one kernel `k` of the given statements."""
    return f"{HEADER}.visible .entry k(\n\t.param .b64 k_param_0\n)\n{{\n\t{registers}\n\n{body}\n}}\n"
