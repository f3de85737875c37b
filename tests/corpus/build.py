"""Builds the reference modules: `python -m tests.corpus.build` compiles every variant and writes `ptx/*.ptx.xz`.

The PTX is real compiler output. One thing is changed in the text: the entry's C++ name is shortened to the original's,
whose shared arrays carry the parameter type in their names while the entry does not (rr-details.md 48).
"""

from __future__ import annotations

import hashlib
import lzma
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .compilers import Compiler, nvcc_13_0, nvcc_13_5, nvrtc_12_9

HERE = Path(__file__).parent
SOURCES = HERE / "cuda"
OUTPUT = HERE / "ptx"
COMPILERS = HERE.parents[1] / ".corpus"

_MANGLED_ENTRY = re.compile(r"\b_Z\d+(cuda_dldn_engine_\w+?_kernel)\d+Dldn\w+?ParamsStruct(?=_param_|\b)")


@dataclass(frozen=True, slots=True)
class Variant:
    """One module of the corpus: file name stem, source, compiler and preprocessor defines."""

    name: str
    source: str
    compiler: str
    defines: tuple[str, ...] = ()


def _layer(layer: str) -> tuple[Variant, ...]:
    """The five modules of one layer."""
    source = f"{layer}.cu"
    return (
        Variant(layer, source, "nvcc13.0"),
        Variant(f"{layer}-reordered", source, "nvcc13.0", ("RR_REORDERED",)),
        Variant(f"{layer}-parambase", source, "nvcc13.0", ("RR_PARAM_BASE",)),
        Variant(f"{layer}-nvcc13.5", source, "nvcc13.5"),
        Variant(f"{layer}-nvrtc12.9", source, "nvrtc12.9"),
    )


VARIANTS = (*_layer("enc0"), *_layer("enc1"), Variant("rr", "rr.cu", "nvcc13.0"))


def compiler(name: str) -> Compiler:
    """The compiler called `name`, installed on first use."""
    if name == "nvcc13.0":
        return nvcc_13_0()
    if name == "nvcc13.5":
        return nvcc_13_5(COMPILERS)
    return nvrtc_12_9(COMPILERS)


def rename_entry(ptx: str) -> str:
    """`_Z33<name>35<type>` and its parameter symbols to `<name>`; shared arrays (`_ZZ33…`) keep theirs."""
    return _MANGLED_ENTRY.sub(r"\1", ptx)


def build(variant: Variant) -> str:
    """PTX text of one variant."""
    return rename_entry(compiler(variant.compiler).compile(SOURCES / variant.source, variant.defines))


def module_path(name: str) -> Path:
    """The committed module called `name`."""
    return OUTPUT / f"{name}.ptx.xz"


def read_module(name: str) -> str:
    """Text of the committed module called `name`."""
    return lzma.decompress(module_path(name).read_bytes()).decode()


def compress(ptx: str) -> bytes:
    """xz without a time stamp: the same text gives the same bytes."""
    return lzma.compress(ptx.encode(), format=lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)


def manifest_entry(variant: Variant, ptx: str) -> str:
    """TOML table of one module: what built it, with which packages, and the digest of its text."""
    lines = [
        f'[modules."{variant.name}"]',
        f'source = "cuda/{variant.source}"',
        f'compiler = "{variant.compiler}"',
        "defines = [" + ", ".join(f'"{d}"' for d in variant.defines) + "]",
        f"lines = {ptx.count(chr(10))}",
        f'sha256 = "{hashlib.sha256(ptx.encode()).hexdigest()}"',
        f'[modules."{variant.name}".packages]',
        *(f'{name} = "{version}"' for name, version in sorted(compiler(variant.compiler).versions().items())),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Build all variants, or those named; the manifest keeps the entries of the others."""
    unknown = sorted(set(arguments) - {v.name for v in VARIANTS})
    if unknown:
        print(f"no variant {', '.join(unknown)}: add it to VARIANTS in tests/corpus/build.py", file=sys.stderr)
        return 2
    manifest = OUTPUT / "manifest.toml"
    entries = read_entries(manifest.read_text())
    for variant in [v for v in VARIANTS if not arguments or v.name in arguments]:
        ptx = build(variant)
        module_path(variant.name).write_bytes(compress(ptx))
        entries[variant.name] = manifest_entry(variant, ptx)
        print(f"{variant.name}: {variant.compiler}, {ptx.count(chr(10))} lines")
    head = "# Written by `make corpus`: what each module of this folder was built with.\n\n"
    manifest.write_text(head + "\n".join(entries[v.name] for v in VARIANTS if v.name in entries))
    return 0


def read_entries(manifest: str) -> dict[str, str]:
    """The tables of a manifest by module, as `manifest_entry` wrote them."""
    starts = [(m.start(), m[1]) for m in re.finditer(r'^\[modules\."([^"]+)"\]$', manifest, re.M)]
    ends = [*(at for at, _ in starts[1:]), len(manifest)]
    return {name: manifest[at:end].rstrip("\n") + "\n" for (at, name), end in zip(starts, ends, strict=True)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
