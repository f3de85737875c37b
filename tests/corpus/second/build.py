"""Builds the second source: `python -m tests.corpus.second.build [NAME…]` compiles every variant, or those named, and
writes `ptx/*.ptx.xz`; the manifest is written only for all.
"""

from __future__ import annotations

import hashlib
import lzma
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.corpus.build import compiler, compress, rename_entry

HERE = Path(__file__).parent
SOURCE = HERE / "enc0_second.cu"
OUTPUT = HERE / "ptx"
MANIFEST = OUTPUT / "manifest.toml"


@dataclass(frozen=True, slots=True)
class Variant:
    """One module: compiler, target sm_`arch`, macros without their prefix `SECOND_`."""

    compiler: str
    arch: str
    defines: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Stem of the module's file."""
        macros = "-".join(d.replace("=", "").lower() for d in self.defines)
        return "-".join(part for part in (self.compiler, f"sm{self.arch}", macros) if part)


def _variants() -> Iterable[Variant]:
    """Every compiler with every target, each in three spellings that between them use every macro."""
    spellings = (
        (),
        ("UNSIGNED", "STORE=1", "SWAP", "HALVES"),
        ("STORE=2", "LANEID", "TOGETHER"),
    )
    for name in ("nvcc13.0", "nvcc13.5", "nvrtc12.9"):
        for arch in ("89", "90", "100", "120"):
            for defines in spellings:
                yield Variant(name, arch, defines)
    for defines in (("UNSIGNED",), ("UNSIGNED", "STORE=2", "TOGETHER"), ("STORE=1", "HALVES"), ("SWAP", "LANEID")):
        yield Variant("nvcc13.0", "89", defines)
    yield Variant("nvcc13.0", "120", ("UNSIGNED", "LANEID", "TOGETHER"))


VARIANTS = tuple(_variants())


def build(variant: Variant) -> str:
    """PTX text of one variant."""
    defines = [f"SECOND_{d}" for d in variant.defines]
    return rename_entry(compiler(variant.compiler).compile(SOURCE, defines, variant.arch))


def module_path(variant: Variant) -> Path:
    """The committed module of a variant."""
    return OUTPUT / f"{variant.name}.ptx.xz"


def read(variant: Variant) -> str:
    """Text of the committed module of a variant."""
    return lzma.decompress(module_path(variant).read_bytes()).decode()


def digest(text: str) -> str:
    """sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def manifest(texts: dict[str, str]) -> str:
    """What the modules were built from, and the digest of each."""
    lines = ["# Written by `python -m tests.corpus.second.build`.", "", f'source = "{digest(SOURCE.read_text())}"', ""]
    return "\n".join([*lines, "[modules]", *(f'"{name}" = "{digest(text)}"' for name, text in texts.items())]) + "\n"


def recorded() -> dict[str, object]:
    """The manifest."""
    return tomllib.loads(MANIFEST.read_text())


def main(arguments: Sequence[str]) -> int:
    """Build."""
    OUTPUT.mkdir(exist_ok=True)
    texts = {}
    for variant in VARIANTS:
        if arguments and variant.name not in arguments:
            continue
        texts[variant.name] = build(variant)
        module_path(variant).write_bytes(compress(texts[variant.name]))
        print(f"{variant.name}: {texts[variant.name].count(chr(10))} lines", flush=True)
    if not arguments:
        MANIFEST.write_text(manifest(texts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
