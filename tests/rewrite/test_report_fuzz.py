"""Any text gives a report or a one-line error: whole reports over mutated modules, never a traceback."""

import lzma
import random
from pathlib import Path

import pytest

from zluda_rr.errors import UserError
from zluda_rr.ptx import linearise, parse
from zluda_rr.rewrite import inspect_json, inspect_text

SAMPLES = Path(__file__).parent / "fusion" / "samples"
TOKENS = (
    ";", ",", "{", "}", "[", "]", "%r1", "%rd1", "%p1", "%tid.x", "0", "-1", "4294967296", "1.5", "0f3F800000", ".u32",
    ".f16x2",
    ".sat", ".reg .b32 %r1;", "mma.sync", "ret;", "bra $L__BB0_1;", "@%p1 ", "$L:", "ld.shared.u32 ",
    "st.global.v4.u32 ",
    "cvt.rn.satfinite.e4m3x2.f16x2 ", "shfl.sync.bfly.b32 ", "//", "/*", "\r\n", "\x00", "é", "",
)  # fmt: skip


def windows() -> list[str]:
    """Modules of a few hundred lines cut out of real ones: their head, then a run of statements, then the end."""
    found = []
    for name in ("mlp3", "attention48"):
        text = lzma.decompress((SAMPLES / f"{name}.ptx.xz").read_bytes()).decode()
        lines = text.splitlines(keepends=True)
        body = next(i for i, line in enumerate(lines) if line.startswith("{"))
        declared = next(i for i in range(body, len(lines)) if lines[i].startswith("\tld.param"))
        for start in range(declared, len(lines) - 150, len(lines) // 6):
            candidate = "".join([*lines[:declared], *lines[start : start + 140], "\tret;\n}\n"])
            try:
                linearise(parse(candidate).entries[0])
            except UserError:
                continue  # the window cuts a scope or an instruction
            found.append(candidate)
    return found


def mutated(text: str, chooser: random.Random) -> str:
    for _ in range(chooser.choice([1, 1, 1, 2, 5])):
        at = chooser.randrange(len(text))
        kind = chooser.randrange(4)
        if kind == 0:
            text = text[:at] + chooser.choice(TOKENS) + text[at + chooser.choice([0, 1, 3, 12]) :]
        elif kind == 1:
            text = text[:at] + text[at + chooser.choice([1, 5, 30, 200]) :]
        elif kind == 2:
            lines = text.splitlines(keepends=True)
            lines.insert(chooser.randrange(len(lines)), chooser.choice(lines))
            text = "".join(lines)
        else:
            words = [match for match in ("%r", "%rs", "%rd", "%p") if match in text]
            text = text.replace(chooser.choice(words) + str(chooser.randrange(40)), "%r7", 1) if words else text
    return text


def survive(seed: int, count: int) -> int:
    """Reports made; every other input was refused with a UserError."""
    chooser = random.Random(seed)
    originals = windows()
    assert len(originals) > 3
    made = 0
    for number in range(count):
        text = mutated(chooser.choice(originals), chooser)
        try:
            (inspect_text if number % 2 else inspect_json)(text, filename="fuzz.ptx")
        except UserError:
            continue
        except Exception as error:
            error.add_note(f"seed {seed}, input {number}:\n{text}")
            raise
        made += 1
    return made


def test_mutated_modules_give_a_report_or_an_error() -> None:
    assert 40 < survive(1, 150) < 150


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 10))
def test_twenty_thousand_mutated_modules(seed: int) -> None:
    assert survive(seed, 2_500) > 500
