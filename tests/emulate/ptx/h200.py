"""What an H200 gives for every instruction form, recorded once so that CI compares without the GPU.

python -m tests.emulate.ptx.h200 prepare DIR     # writes DIR/launches.json
python tests/emulate/ptx/h200_run.py DIR/launches.json DIR/results.json   # on the machine with the GPU
python -m tests.emulate.ptx.h200 store DIR       # writes h200.json.xz beside this file
"""

from __future__ import annotations

import base64
import json
import lzma
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tests.emulate.ptx.cases import FLOATING, INTEGER
from tests.emulate.ptx.cases_convert import CONVERSIONS
from tests.emulate.ptx.harness import HEADER, Slots, Snippet, kernel
from tests.emulate.ptx.values import operands

GOLDEN = Path(__file__).with_name("h200.json.xz")
ROWS = 64
_MMA = """mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16
 {%d0, %d1}, {%a0, %a1, %a2, %a3}, {%a4, %a5}, {%a6, %a7};"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One snippet with its operands and, once recorded, what the GPU wrote: [threads, inputs], [threads, outputs]."""

    name: str
    snippet: Snippet
    inputs: Slots
    outputs: Slots | None = None
    ulp: int = 0


def _warp_cases() -> list[Recorded]:
    rng = np.random.default_rng(3)
    found = []
    for mode in ("up", "down", "bfly", "idx"):
        controls = rng.choice([(s << 8) | c for s in (0, 16, 24, 28, 30, 31) for c in (0, 31, 15)], 16).repeat(32)
        rows = np.stack([rng.integers(0, 1 << 32, 512), rng.integers(0, 41, 512), controls], axis=1)
        text = f"shfl.sync.{mode}.b32 %d0|%d1, %a0, %a1, %a2, -1;"
        found.append(Recorded(f"shfl {mode}", Snippet(text, ("b32",) * 3, ("b32", "pred")), rows.astype(np.uint64)))
    transpose = Snippet("movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;", ("b32",), ("b32",))
    found.append(Recorded("movmatrix", transpose, rng.integers(0, 1 << 32, (64, 1)).astype(np.uint64)))
    for name, mask in (("ordinary", 0xBFBFBFBF), ("large", 0x77777777), ("with NaN", 0xFFFFFFFF)):
        rows = rng.integers(0, 1 << 32, (512, 8)) & mask
        rows[:, 6:] &= 0xBFFFBFFF if name != "with NaN" else 0xFFFFFFFF
        found.append(Recorded(f"mma {name}", Snippet(_MMA, ("b32",) * 8, ("b32",) * 2), rows.astype(np.uint64)))
    return found


def _codec_cases() -> list[Recorded]:
    """All halves in both positions, all pairs of codes."""
    everything = np.arange(1 << 16, dtype=np.uint64)[:, None]
    other = np.uint64(0xC200)
    found = []
    for relu in ("", ".relu"):
        snippet = Snippet(f"cvt.rn.satfinite{relu}.e4m3x2.f16x2 %d0, %a0;", ("f16x2",), ("b16",))
        found.append(Recorded(f"encode low{relu}", snippet, everything | (other << np.uint64(16))))
        found.append(Recorded(f"encode high{relu}", snippet, (everything << np.uint64(16)) | other))
    decode = Snippet("cvt.rn.f16x2.e4m3x2 %d0, %a0;", ("b16",), ("b32",))
    return [*found, Recorded("decode", decode, everything)]


def launches() -> list[Recorded]:
    """Everything to run, in a fixed order."""
    forms = [
        Recorded(
            case.name, case.snippet, operands(case.snippet.inputs, ROWS, 7 + sum(case.name.encode())), ulp=case.ulp
        )
        for case in [*INTEGER, *FLOATING, *CONVERSIONS]
    ]
    return [*forms, *_warp_cases(), *_codec_cases()]


def _text(slots: Slots) -> str:
    return base64.b64encode(np.ascontiguousarray(slots, dtype=np.uint64).tobytes()).decode()


def prepare(folder: Path) -> None:
    items = [
        {
            "ptx": HEADER + item.snippet.module + kernel("k", item.snippet),
            "threads": len(item.inputs),
            "in": _text(item.inputs),
            "out_bytes": 8 * len(item.inputs) * len(item.snippet.outputs),
        }
        for item in launches()
    ]
    (folder / "launches.json").write_text(json.dumps(items))


def store(folder: Path) -> None:
    record = json.loads((folder / "results.json").read_text())
    items = [
        {
            "name": item.name,
            "snippet": asdict(item.snippet),
            "inputs": _text(item.inputs),
            "outputs": result,
            "ulp": item.ulp,
        }
        for item, result in zip(launches(), record["results"], strict=True)
    ]
    whole = {"device": record["device"], "cuda": record["cuda"], "ptx": HEADER.split("\n")[:2], "items": items}
    GOLDEN.write_bytes(lzma.compress(json.dumps(whole).encode(), preset=9))


def recorded() -> list[Recorded]:
    """The stored results."""
    items = json.loads(lzma.decompress(GOLDEN.read_bytes()))["items"]
    return [_recorded(item) for item in items]


def _recorded(item: dict[str, object]) -> Recorded:
    fields = item["snippet"]
    assert isinstance(fields, dict)
    snippet = Snippet(
        fields["text"], tuple(fields["inputs"]), tuple(fields["outputs"]), fields["declare"], fields["module"]
    )
    inputs, outputs = (
        np.frombuffer(base64.b64decode(str(item[key])), dtype=np.uint64) for key in ("inputs", "outputs")
    )
    threads = len(inputs) // max(1, len(snippet.inputs))
    return Recorded(
        str(item["name"]),
        snippet,
        inputs.reshape(threads, -1),
        outputs.reshape(threads, -1),
        int(str(item["ulp"])),
    )


if __name__ == "__main__":
    {"prepare": prepare, "store": store}[sys.argv[1]](Path(sys.argv[2]))
