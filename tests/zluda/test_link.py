"""ZLUDA's own compiler links every body into its caller; needs it: `ZLUDA_RR_ZOC` names `zoc` with patch 0002."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from zluda_rr.hook.bitcode import committed_bitcode, load_manifest, needed_bodies
from zluda_rr.toolchain import llvm_binding

VARIABLE = "ZLUDA_RR_ZOC"
SYMBOLS = [(stem, symbol) for stem, record in load_manifest().items() for symbol in record.symbols]


@dataclass(frozen=True, slots=True)
class Zoc:
    """The offline compiler, working in a folder of its own."""

    program: str
    folder: Path

    def __call__(self, text: str, *bodies: str, arch: str = "gfx1201") -> tuple[str, str]:
        """Assembly, or nothing and the last line of what went wrong."""
        (self.folder / "k.ptx").write_text(text)
        options = []
        for stem in bodies:
            path = self.folder / f"{stem}.bc"
            path.write_bytes(committed_bitcode(stem))
            options += ["--link-bitcode", str(path)]
        output = self.folder / "out"
        command = [self.program, "--arch", arch, "--output-dir", str(output), *options, str(self.folder / "k.ptx")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return "", done.stderr
        assert (output / "k.elf").read_bytes().startswith(b"\x7fELF")
        return (output / "k.asm").read_text(), ""


@pytest.fixture
def zoc(tmp_path: Path) -> Zoc:
    program = os.environ.get(VARIABLE)
    if not program:
        pytest.skip(f"{VARIABLE} names no offline compiler of ZLUDA")
    return Zoc(program, tmp_path)


def parameters(stem: str, symbol: str) -> list[str]:
    """PTX types of a body's parameters, from its bitcode."""
    function = llvm_binding().parse_bitcode(committed_bitcode(stem)).get_function(symbol)
    return [{"i32": "b32", "i64": "b64"}[str(argument.type)] for argument in function.arguments]


def calling(symbol: str, types: list[str]) -> str:
    """A kernel of one wave that calls a body with words of a buffer, the last with the address of shared memory."""
    declared = ",\n".join(f"\t.param .{kind} {symbol}_param_{i}" for i, kind in enumerate(types))
    loads = "".join(f"\tld.global.{kind} %{kind}_{i}, [%in+{8 * i}];\n" for i, kind in enumerate(types[:-1]))
    sources = [*(f"%{kind}_{i}" for i, kind in enumerate(types[:-1])), "%base"]
    stores = "".join(
        f"\t.param .{kind} p{i};\n\tst.param.{kind} [p{i}], {source};\n"
        for i, (kind, source) in enumerate(zip(types, sources, strict=True))
    )
    registers = "".join(f"\t.reg .{kind} %{kind}_{i};\n" for i, kind in enumerate(types))
    arguments = ", ".join(f"p{i}" for i in range(len(types)))
    return f""".version 8.0
.target sm_89
.address_size 64
.extern .func  (.param .b32 {symbol}_result) {symbol}
(
{declared}
)
;
.visible .entry k(.param .u64 in, .param .u64 out)
.reqntid 32, 1, 1
{{
{registers}\t.reg .b32 %base, %image;
\t.reg .b64 %in, %out;
\t.shared .align 16 .b8 buffer[3200];
\tld.param.u64 %in, [in];
\tld.param.u64 %out, [out];
\tmov.u32 %base, buffer;
{loads}\t{{
{stores}\t.param .b32 r;
\tcall.uni (r), {symbol}, ({arguments});
\tld.param.b32 %image, [r];
\t}}
\tst.global.b32 [%out], %image;
\tret;
}}
"""


@pytest.mark.parametrize(("stem", "symbol"), SYMBOLS, ids=[symbol for _, symbol in SYMBOLS])
def test_every_body_becomes_part_of_the_kernel(zoc: Zoc, stem: str, symbol: str) -> None:
    text = calling(symbol, parameters(stem, symbol))
    assert needed_bodies(text) == (stem,)
    assembly, problem = zoc(text, stem)
    assert assembly, problem
    assert not re.search(r"s_(?:swappc|setpc|call)", assembly), "a call is left"
    assert symbol not in assembly, "a function is left"
    assert ("v_wmma_f32_16x16x16_fp8_fp8" in assembly) == ("swin" in symbol or "product" in symbol)
    assert re.search(r"\.private_segment_fixed_size: 0$", assembly, re.M)
    assert re.search(r"\.vgpr_spill_count: +0$", assembly, re.M)


def test_a_kernel_with_a_body_keeps_denormals(zoc: Zoc) -> None:
    """f16 ones: without an instruction of its own that asks for it a kernel would flush them, body included."""
    assembly, problem = zoc(calling("zrr_fc_half", ["b32"]), "fragment_consumer")
    assert assembly, problem
    assert re.search(r"\.amdhsa_float_denorm_mode_16_64 3$", assembly, re.M)
    for kind in ("32", "16_64"):
        assert re.search(rf"\.amdhsa_float_round_mode_{kind} 0$", assembly, re.M)


def test_several_files(zoc: Zoc) -> None:
    assembly, problem = zoc(calling("zrr_fc_half", ["b32"]), "swin_phase", "fragment_consumer")
    assert assembly, problem
    assert "v_wmma" not in assembly, "what is not called does not stay"


@pytest.mark.parametrize(
    ("types", "bodies", "arch", "expected"),
    [
        (["b32"], (), "gfx1201", "undefined hidden symbol: zrr_fc_half"),
        (["b32"], ("fragment_consumer",), "gfx1100", "is for gfx1201, not for gfx1100"),
        (["b64", "b32"], ("fragment_consumer",), "gfx1201", '"zrr_fc_half" is declared with other parameters'),
    ],
)
def test_a_body_that_does_not_fit_is_an_error(
    zoc: Zoc, types: list[str], bodies: tuple[str, ...], arch: str, expected: str
) -> None:
    assembly, problem = zoc(calling("zrr_fc_half", types), *bodies, arch=arch)
    assert not assembly
    assert expected in problem
