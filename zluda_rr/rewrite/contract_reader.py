"""Reads and checks rule files (their keys: `contract.py`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zluda_rr.analysis import (
    Bias,
    Columns,
    Derived,
    InputNorm,
    InputResidual,
    Residual,
    Shared,
    Source,
    Weights,
    Zero,
)
from zluda_rr.resources import resource_dir

from .contract import (
    AnyCutRule,
    Argument,
    BodyChoice,
    Buffer,
    ContractError,
    CutRule,
    Launch,
    LayerContract,
    LayerCutRule,
    PhaseRow,
    ResultImage,
    SharedArray,
    StoreForm,
    Surface,
    TokenImage,
    WeightRegion,
)

SCHEMA = 1


def read_contract(path: Path) -> LayerContract:
    """Read and check a rule file."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ContractError(f"{path}: {error}") from error
    if data.get("schema") != SCHEMA:
        raise ContractError(f"{path}: schema {data.get('schema')!r}, this version reads schema {SCHEMA}")
    try:
        contract = _contract(data)
    except (KeyError, TypeError, ValueError) as error:
        raise ContractError(f"{path}: {type(error).__name__}: {error}") from error
    _check(path, contract)
    return contract


def load_contracts(folder: Path | None = None) -> tuple[LayerContract, ...]:
    """All rule files of a folder (the shipped rules by default), sorted by name."""
    return tuple(read_contract(path) for path in sorted((folder or resource_dir("rules")).glob("*.toml")))


def load_contract(layer: str, folder: Path | None = None) -> LayerContract:
    """The contract of one layer by name."""
    rules = {path.stem: path for path in (folder or resource_dir("rules")).glob("*.toml")}
    if layer not in rules:
        raise ContractError(f"no rule file for layer {layer!r}; known layers: {', '.join(sorted(rules))}")
    return read_contract(rules[layer])


# ------------------------------------------------------------------------------------------------------------- reading


def _contract(data: Mapping[str, Any]) -> LayerContract:
    phases = tuple(_phase(row) for row in data["phase"])
    stated = [
        WeightRegion(r["name"], int(r["at"]), int(r["bytes"]), r["kind"]) for r in data["weights"].get("region", ())
    ]
    return LayerContract(
        layer=data["layer"],
        entry=data["entry"],
        parameter_bytes=int(data["parameters"]["bytes"]),
        weights_parameter=int(data["weights"]["parameter"]),
        weights_bytes=int(data["weights"]["bytes"]),
        weights=tuple(sorted((*stated, *weight_regions(phases)), key=lambda region: region.offset)),
        launch=_launch(data["launch"]),
        buffers=tuple(Buffer(b["name"], int(b["parameter"]), b["bytes"], b["role"]) for b in data.get("buffer", ())),
        surfaces=tuple(_surface(s) for s in data.get("surface", ())),
        shared=tuple(
            SharedArray(s["name"], int(s["bytes"]), s.get("feeds", {}).get("phase")) for s in data.get("shared", ())
        ),
        phases=phases,
        cuts=tuple(_cut(rule) for rule in data.get("cut", ())),
    )


def _launch(data: Mapping[str, Any]) -> Launch:
    x, y, z = (int(v) for v in data["block"])
    width, height = (int(v) for v in data["tile"])
    low, high = (int(v) for v in data["shift_range"])
    gx, gy, gz = (str(v) for v in data["grid"])
    return Launch(
        block=(x, y, z),
        tile=(width, height),
        extents_offset=int(data["extents"]["parameter"]),
        shift_offset=int(data["shift"]["parameter"]),
        grid=(gx, gy, gz),
        even=tuple(data.get("even", ())),
        shift_range=(low, high),
    )


def _surface(data: Mapping[str, Any]) -> Surface:
    return Surface(
        data["name"],
        int(data["parameter"]),
        data["width"],
        data["height"],
        int(data["channels"]),
        data["channel_type"],
        data["role"],
    )


def _phase(data: Mapping[str, Any]) -> PhaseRow:
    m, n, k = (int(v) for v in data["shape"])
    a, b, c = (_source(data[operand]) for operand in ("a", "b", "c"))
    return PhaseRow(
        index=int(data["index"]),
        shape=(m, n, k),
        mma=int(data["mma"]),
        a=a,
        b=b,
        c=c,
        epilogue=data.get("epilogue", ""),
        source=data.get("source", ""),
        form=(data["form"]["a"], data["form"]["b"], data["form"]["c"]) if "form" in data else None,
    )


def _source(data: Mapping[str, Any]) -> Source:
    kind = data["kind"]
    if kind == "zero":
        return Zero()
    if kind == "weights":
        return Weights(int(data["at"]), int(data["bytes"]), data.get("order", "k-inner"))
    if kind == "columns":
        return Columns(int(data["at"]), int(data["bytes"]))
    if kind == "bias":
        return Bias(int(data["at"]), int(data["bytes"]))
    if kind == "shared":
        return Shared(data["array"], tuple((int(first), int(step)) for first, step in data["rows"]))
    if kind == "residual":
        return Residual(int(data["phase"]), data.get("table"))
    if kind == "input-norm":
        return InputNorm(int(data["parameter"]), int(data["plane"]), int(data["gain"]))
    if kind == "input-residual":
        return InputResidual(int(data["parameter"]), int(data["table"]))
    if kind in ("pack", "relu-pack", "activation", "norm", "softmax", "transpose", "merge"):
        return Derived(kind, int(data["phase"]), data.get("gain"))
    raise ValueError(f"operand kind {kind!r}")


def _cut(data: Mapping[str, Any]) -> AnyCutRule:
    if "phase" in data["region"]:
        return _phase_cut(data)
    result, region, lend = data["result"], data["region"], data["lend"]
    return LayerCutRule(
        name=data["name"],
        reason=data["reason"],
        source=data["source"],
        first=int(region["first"]),
        last=int(region["last"]),
        loads=tuple(data.get("loads", ())),
        stores=tuple(
            StoreForm(s["buffer"], int(s["count"]), s["form"], int(s["phase"])) for s in data.get("store", ())
        ),
        lend_array=lend["array"],
        lend_bytes=int(lend["bytes"]),
        bodies=tuple(BodyChoice(b["name"], b["symbol"], b["file"]) for b in data["body"]),
        arguments=_arguments(data),
        result=TokenImage(result["type"], *(int(result[key]) for key in ("row", "column", "m", "half", "n", "bytes"))),
    )


def _arguments(data: Mapping[str, Any]) -> tuple[Argument, ...]:
    return tuple(Argument(a["role"], int(a["count"]), a["type"], a.get("buffer", "")) for a in data["argument"])


def _phase_cut(data: Mapping[str, Any]) -> CutRule:
    body, result, lend = data["body"], data["result"], data["lend"]
    image = ResultImage(result["type"], *(int(result[key]) for key in ("lane", "m", "half", "n", "bytes")))
    return CutRule(
        name=data["name"],
        reason=data["reason"],
        source=data["source"],
        phase=int(data["region"]["phase"]),
        consumers=tuple(data.get("consumers", ())),
        loads=tuple(data.get("loads", ())),
        stores=tuple(data.get("stores", ())),
        lend_array=lend["array"],
        lend_bytes=int(lend["bytes"]),
        symbol=body["symbol"],
        body_file=body["file"],
        rows=int(body["rows"]),
        arguments=_arguments(data),
        result=image,
    )


def weight_regions(phases: Sequence[PhaseRow]) -> tuple[WeightRegion, ...]:
    """The parts of the weight image that the phases read: B, seeds, bias, tables and gains (a gain once)."""
    bounded = _normed(phases)
    planes = max((row.a.plane + row.shape[2] // 32 for row in phases if isinstance(row.a, InputNorm)), default=0)
    regions: dict[WeightRegion, None] = {}
    for row in phases:
        inside = row.index in bounded
        for source in (row.a, row.b, row.c):
            columns = 2 * row.shape[1]
            match source:
                case Weights(at, nbytes):
                    region = WeightRegion(f"P{row.index}.b", at, nbytes, "matrix")
                case Columns(at, nbytes):
                    region = WeightRegion(f"P{row.index}.c", at, nbytes, "column", inside)
                case Bias(at, nbytes):
                    region = WeightRegion(f"P{row.index}.bias", at, nbytes, "score_bias")
                case InputNorm(_, _, gain):
                    region = WeightRegion("input.gain", gain, 64 * planes, "gain")
                case InputResidual(_, table):
                    region = WeightRegion(f"P{row.index}.table", table, columns, "table", inside)
                case Residual(_, table) if table is not None:
                    region = WeightRegion(f"P{row.index}.table", table, columns, "table", inside)
                case Derived("norm", phase, gain) if gain is not None:
                    region = WeightRegion(f"D{phase}.gain", gain, 2 * phases[phase - 1].shape[1], "gain")
                case _:
                    continue
            regions[region] = None
    return tuple(regions)


def _normed(phases: Sequence[PhaseRow]) -> set[int]:
    """Phases whose D reaches a norm, themselves or as a residual of one that does."""
    found = {row.a.phase for row in phases if isinstance(row.a, Derived) and row.a.kind == "norm"}
    for row in reversed(phases):
        if row.index in found and isinstance(row.c, Residual):
            found.add(row.c.phase)
    return found


# ------------------------------------------------------------------------------------------------------------ checking


def _check(path: Path, contract: LayerContract) -> None:
    def refuse(place: str, reason: str) -> None:
        raise ContractError(f"{path}: {place}: {reason}")

    for position, row in enumerate(contract.phases, 1):
        m, n, k = row.shape
        if row.index != position:
            refuse(f"phase {row.index}", f"is number {position} in the file")
        if m % 16 or n % 8 or k % 32 or (m // 16) * (n // 8) * (k // 32) != row.mma:
            refuse(f"phase {row.index}", f"shape {m}x{n}x{k} does not give {row.mma} mma")
        if isinstance(row.b, Weights) and row.b.nbytes != n * k:
            refuse(f"phase {row.index}", f"B of {row.b.nbytes} bytes, N*K is {n * k}")
        for source in (row.b, row.c):
            if isinstance(source, Weights | Columns | Bias) and source.at + source.nbytes > contract.weights_bytes:
                refuse(f"phase {row.index}", f"{source} ends after the weight image of {contract.weights_bytes} bytes")
        for source in (row.a, row.b, row.c):
            if isinstance(source, Derived | Residual) and not 1 <= source.phase < row.index:
                refuse(f"phase {row.index}", f"{source} is not an earlier phase")
    end = 0
    for region in contract.weights:
        if region.offset < end:
            refuse(f"weights {region.name}", f"starts at {region.offset}, inside the region before it")
        end = region.offset + region.nbytes
    for rule in contract.cuts:
        place = f"cut {rule.name}"
        symbols = [b.symbol for b in rule.bodies] if isinstance(rule, LayerCutRule) else [rule.symbol]
        phases = (rule.first, rule.last) if isinstance(rule, LayerCutRule) else (rule.phase, rule.phase)
        if not 1 <= phases[0] <= phases[1] <= len(contract.phases):
            refuse(place, f"phase {phases[0] if phases[0] < 1 else phases[1]} does not exist")
        for symbol in symbols:
            if not symbol.startswith("zrr_"):
                refuse(place, f"body symbol {symbol!r} does not start with zrr_")
        if isinstance(rule, LayerCutRule):
            continue
        if contract.phases[rule.phase - 1].shape[0] % rule.rows or rule.rows % 16:
            refuse(f"cut {rule.name}", f"{rule.rows} rows per call do not divide the phase")
