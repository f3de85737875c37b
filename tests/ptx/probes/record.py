"""Record what ptxas says about every probe: `python -m tests.ptx.probes.record [--home FOLDER]`.

Two versions of ptxas are asked, from the package index: that of the `corpus` extra, and a newer one that is installed
below the folder.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import tempfile
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tests.corpus.build import COMPILERS
from tests.corpus.compilers import Nvcc, nvcc_13_0, nvcc_13_5

from . import Probe, Verdict, read_probes, write_verdicts

_ERROR = re.compile(r"(?:error|fatal)\s*:\s*(.*)")
_LONGEST = 90


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--home", type=Path, default=COMPILERS)
    compilers = [nvcc_13_0(), nvcc_13_5(options.parse_args().home)]
    found: dict[str, list[Verdict]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for probe in read_probes():
            found[probe.digest] = [judge(compiler, probe, Path(scratch)) for compiler in compilers]
    versions = [compiler.versions()["nvidia-cuda-nvcc"] for compiler in compilers]
    write_verdicts(versions, found)
    accepted = sum(any(v.accepted for v in verdicts) for verdicts in found.values())
    print(f"ptxas {', '.join(versions)}: {len(found)} probes, {accepted} accepted by at least one")


def judge(compiler: Nvcc, probe: Probe, scratch: Path) -> Verdict:
    """The verdict of one ptxas on one probe."""
    source, output = scratch / "probe.ptx", scratch / "probe.cubin"
    source.write_bytes(probe.module.encode())
    output.unlink(missing_ok=True)
    target = probe.target if probe.kind != "text" else _target(probe.text)
    command = [str(compiler.tool("ptxas")), "-arch", target, str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    if done.returncode == 0:
        return Verdict("", _value(output.read_bytes()) if probe.kind == "value" else None)
    error = _ERROR.search(done.stdout + done.stderr)
    message = error.group(1) if error else f"exit status {done.returncode}"
    message = message.replace(str(source), "probe.ptx")
    return Verdict("".join(c if c.isprintable() else "." for c in message)[:_LONGEST].strip() or "refused")


def _target(text: str) -> str:
    """The architecture that the text itself names: another would be refused for that alone."""
    named = re.search(r"\bsm_(?:90a?|100[af]?)\b", text)
    return named.group() if named else "sm_90"


def _value(cubin: bytes) -> int:
    """The 64 bits of the variable `value`."""
    elf = ELFFile(io.BytesIO(cubin))
    (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("value")
    section = elf.get_section(symbol["st_shndx"])
    if section["sh_type"] == "SHT_NOBITS":
        return 0
    at = symbol["st_value"]
    return int.from_bytes(section.data()[at : at + 8], "little", signed=True)


if __name__ == "__main__":
    main()
