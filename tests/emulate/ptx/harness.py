"""Runs a few PTX lines on every lane: inputs and outputs are 8-byte slots of a buffer, as raw bits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from zluda_rr.emulate.memory import AddressSpace
from zluda_rr.emulate.ptx import OracleStats, run_entry
from zluda_rr.ptx import parse

Slots = NDArray[np.uint64]

HEADER = ".version 8.7\n.target sm_89\n.address_size 64\n"
_WIDTH = {"pred": 32, "f16x2": 32, "e4m3x2": 16, "u8": 16, "s8": 16, "b8": 16}


def register_bits(type_name: str) -> int:
    """Width of the register that holds a type: 8-bit values live in 16-bit ones."""
    return _WIDTH.get(type_name) or int(type_name[1:])


@dataclass(frozen=True, slots=True)
class Snippet:
    """`text` uses %a0, %a1, … (inputs) and writes %d0, %d1, …; `declare` are lines inside the body before it."""

    text: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    declare: str = ""
    module: str = field(default="")


def _load(index: int, type_name: str, count: int) -> str:
    bits = register_bits(type_name)
    target = "%x" if type_name == "pred" else f"%a{index}"
    line = f"ld.global.b{bits} {target}, [%in+{8 * index}];\n"
    return line + (f"setp.ne.b32 %a{index}, %x, 0;\n" if type_name == "pred" else "")


def _store(index: int, type_name: str) -> str:
    if type_name == "pred":
        return f"selp.b32 %x, 1, 0, %d{index};\nst.global.b32 [%out+{8 * index}], %x;\n"
    return f"st.global.b{register_bits(type_name)} [%out+{8 * index}], %d{index};\n"


def _declare(prefix: str, types: tuple[str, ...]) -> str:
    return "".join(
        f".reg .{'pred' if name == 'pred' else f'b{register_bits(name)}'} %{prefix}{index};\n"
        for index, name in enumerate(types)
    )


def kernel(name: str, snippet: Snippet) -> str:
    """Entry `name`(in, out): thread i of the grid reads its row of `in` and writes its row of `out`."""
    n_in, n_out = max(1, len(snippet.inputs)), max(1, len(snippet.outputs))
    loads = "".join(_load(index, type_name, n_in) for index, type_name in enumerate(snippet.inputs))
    stores = "".join(_store(index, type_name) for index, type_name in enumerate(snippet.outputs))
    return f"""
.visible .entry {name}(.param .u64 p_in, .param .u64 p_out)
{{
.reg .b64 %in; .reg .b64 %out; .reg .b64 %w; .reg .b32 %x; .reg .b32 %i; .reg .b32 %n; .reg .b32 %b;
{_declare("a", snippet.inputs)}{_declare("d", snippet.outputs)}{snippet.declare}
ld.param.u64 %in, [p_in];
ld.param.u64 %out, [p_out];
mov.u32 %i, %tid.x;
mov.u32 %n, %ntid.x;
mov.u32 %b, %ctaid.x;
mad.lo.u32 %i, %b, %n, %i;
mul.wide.u32 %w, %i, {8 * n_in};
add.u64 %in, %in, %w;
mul.wide.u32 %w, %i, {8 * n_out};
add.u64 %out, %out, %w;
{loads}{snippet.text}
{stores}ret;
}}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Output slots [threads, outputs], the memory after the run, and the oracle's counts."""

    slots: Slots
    memory: AddressSpace
    stats: OracleStats


def run(
    snippet: Snippet,
    inputs: Slots,
    *,
    block: int = 32,
    fill: int = 0xEE,
    model: str = "exact",
    memory: AddressSpace | None = None,
    **options: object,
) -> Outcome:
    """Run the snippet on rows of raw input bits [threads, inputs]; outputs that no thread writes hold `fill` bytes."""
    threads = len(inputs)
    assert threads % block == 0
    space = memory if memory is not None else AddressSpace(1 << 22)
    rows = np.ascontiguousarray(inputs, dtype=np.uint64) if inputs.size else np.zeros((threads, 1), np.uint64)
    source = space.allocate("in", rows.nbytes, data=rows.tobytes())
    n_out = max(1, len(snippet.outputs))
    target = space.allocate("out", 8 * threads * n_out)
    out = space.view("out")
    masked = out.reshape(threads, n_out, 8)
    masked[:] = 0
    for index, name in enumerate(snippet.outputs):
        masked[:, index, : register_bits(name) // 8] = fill
    stats = run_entry(
        parse(HEADER + snippet.module + kernel("k", snippet)),
        "k",
        grid=(threads // block, 1, 1),
        block=(block, 1, 1),
        params=source.to_bytes(8, "little") + target.to_bytes(8, "little"),
        memory=space,
        model=model,
        **options,  # type: ignore[arg-type]
    )
    return Outcome(out.view(np.uint64).reshape(threads, n_out), space, stats)
