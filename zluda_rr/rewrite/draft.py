"""The rule of a layer that nobody has written yet, inferred from its kernel.

The family's structure is taken for granted; the layer's numbers follow from the products of the kernel, recovered
without a rule. What was inferred is then expanded and compared with the kernel word for word, like any rule, so a draft
says of itself whether it holds.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from zluda_rr.analysis import (
    Bias,
    Canonical,
    Columns,
    Derived,
    InputNorm,
    Operands,
    Row,
    Shared,
    Term,
    Terms,
    Weights,
    group_adjacent,
)
from zluda_rr.contract import (
    ContractError,
    Family,
    LayerNumbers,
    Window,
    expand,
    read_contract,
    read_family,
)
from zluda_rr.errors import UserError
from zluda_rr.ptx import Coordinates, Function, Module, Statement, Symbol, parse

from .match import Kernel, analyse, match_layer

_INPUT_OPS, _OUTPUT_OPS = ("suld", "tex", "tld4"), ("sust",)


@dataclass(frozen=True, slots=True)
class SurfaceUse:
    """A surface or texture by its parameter; `halved`: addressed by halved coordinates."""

    parameter: int
    role: str
    halved: bool


@dataclass(frozen=True, slots=True)
class Draft:
    """A rule file's text; `open` is what could not be inferred, `difference` the first way in which the kernel is not
    what the text says (None: every operand word is).
    """

    layer: str
    text: str
    open: tuple[str, ...]
    difference: str | None


def draft_rule(text: str, family: Path, *, filename: str = "<ptx>", entry: str | None = None) -> Draft:
    """Infer the rule of one kernel. UserError where it is no layer of the family."""
    module = parse(text, filename=filename)
    function = _entry(module, entry)
    rule = read_family(family)
    kernel = analyse(module, function, (32, 1, 1))
    rows = _rows(kernel, rule)
    numbers = _numbers(rows, rule, f"{filename}: {function.name}")
    layer = _layer_name(function.name)
    surfaces = tuple(_surfaces(kernel, rule))
    rule_text, problems = _text(layer, function, kernel, numbers, surfaces, rule)
    return Draft(layer, rule_text, tuple(problems), _difference(rule_text, family, kernel))


def _entry(module: Module, name: str | None) -> Function:
    found = [f for f in module.entries if name in (None, f.name) and any("mma" in s for s in _opcodes(module, f))]
    if len(found) != 1:
        names = ", ".join(f.name for f in module.entries[:10]) or "none"
        wanted = f"no kernel {name} with products" if name else f"{len(found)} kernels with products: name one"
        raise UserError(f"{module.filename}: {wanted}; entries here: {names}")
    return found[0]


def _opcodes(module: Module, function: Function) -> set[str]:
    return {s.opcode for s in analyse(module, function).body.statements}


def _rows(kernel: Kernel, family: Family) -> list[Row]:
    operands = Operands(kernel.body, kernel.values, kernel.origins, family.buffers["weights"])
    return [operands.add(phase) for phase in group_adjacent(kernel.body, kernel.mmas)]


# ------------------------------------------------------------------------------------------------------------- numbers


def _numbers(rows: Sequence[Row], family: Family, place: str) -> LayerNumbers:
    scores = [row for row in rows if isinstance(row.c, Bias)]
    branches = [row for row in rows if isinstance(row.a, Derived) and row.a.kind == "activation"]
    if not scores or not branches:
        found = f"{len(scores)} score and {len(branches)} branch products found"
        raise UserError(f"{place}: no layer of the family: {found}")
    queries, keys, _ = scores[0].phase.shape
    channels = branches[0].phase.shape[1]
    ring = (keys - queries) // (2 * sum(family.tile))
    merge = next((row for row in rows if isinstance(row.a, Derived) and row.a.kind == "merge"), None)
    planes = next((row.a for row in rows if isinstance(row.a, InputNorm)), None)
    array = next((row.a.array for row in rows if isinstance(row.a, Shared)), "")
    first = min(row.b.at for row in rows if isinstance(row.b, Weights))
    last = rows[-1]
    extra = last is not branches[-1] and last is not merge and isinstance(last.c, Columns)
    return LayerNumbers(
        channels=channels,
        heads=len(scores),
        branches=len(branches),
        window=Window(family.tile, ring),
        input_kind="planes" if planes is not None else "embedding",
        input_at=planes.gain if planes is not None else first,
        input_parameter=planes.parameter if planes is not None else 0,
        array=_identifier(array),
        merge=merge.phase.shape[1] if merge is not None else 0,
        logits=last.phase.shape[1] if extra else 0,
    )


def _identifier(mangled: str) -> str:
    """The last name of a mangled one: `_ZZ…12input_tensor` is input_tensor."""
    for found in re.finditer(r"(\d+)(?=[A-Za-z_])", mangled):
        name = mangled[found.end() :]
        if len(name) == int(found.group()):
            return name
    return re.sub(r"\W", "_", mangled)


def _layer_name(entry: str) -> str:
    """What stands between the family's name and `_kernel`; the whole name where there is no such part."""
    found = re.search(r"_swin_(\w+?)_kernel$", entry) or re.search(r"((?:enc|dec)\d+)", entry)
    return found.group(1) if found else re.sub(r"\W", "_", entry)


def _surfaces(kernel: Kernel, family: Family) -> Iterator[SurfaceUse]:
    """Handles that image instructions take from parameters, in order of their first use."""
    canonical = Canonical(kernel.body, kernel.values, Terms(), family.buffers["weights"], (32, 1, 1))
    seen: dict[int, SurfaceUse] = {}
    for statement in kernel.body.statements:
        if statement.opcode not in (*_INPUT_OPS, *_OUTPUT_OPS):
            continue
        place = next((o for o in statement.operands if isinstance(o, Coordinates)), None)
        if place is None or isinstance(place.handle, Symbol):
            continue
        handle = canonical.terms.table[canonical.register(statement.number, place.handle.name)]
        if handle[0] == "param":
            offset = int(str(handle[1]))
            role = "input" if statement.opcode in _INPUT_OPS else "output"
            seen.setdefault(offset, SurfaceUse(offset, role, _halved(canonical, statement, place)))
    yield from sorted(seen.values(), key=lambda use: (use.role != "input", use.parameter))


def _halved(canonical: Canonical, statement: Statement, place: Coordinates) -> bool:
    terms = canonical.terms
    work = [canonical.operand(statement, element, 32) for element in place.elements]
    seen: set[Term] = set()
    while work:
        term = work.pop()
        if term in seen:
            continue
        seen.add(term)
        content = terms.table[term]
        if str(content[0]).startswith("shr.") and terms.uniform(terms.children(term)[-1]) == 1:
            return True
        work.extend(terms.children(term))
    return False


# ---------------------------------------------------------------------------------------------------------------- text


def _text(
    layer: str,
    function: Function,
    kernel: Kernel,
    numbers: LayerNumbers,
    surfaces: Sequence[SurfaceUse],
    family: Family,
) -> tuple[str, list[str]]:
    _, end = expand(numbers)
    problems = ["names of surfaces and weight regions", "sizes of surfaces: halved or not is all that shows", "cuts"]
    if any("%tid.z" in str(s.words) for s in kernel.body.statements if s.instruction is not None):
        problems.append("waves: the kernel reads %tid.z, so a block has several; 1 is written")
    tokens = "x".join(map(str, family.tile))
    lines = [
        f"# Layer {layer}, drafted from its kernel over the family {family.name} (windows of {tokens} tokens).",
        "schema = 2",
        f'family = "{family.name}"',
        f'layer = "{layer}"',
        f'entry = "{function.name}"',
        f"parameters = {sum(p.nbytes for p in function.params)}",
        f"channels = {numbers.channels}",
        f"heads = {numbers.heads}",
        "waves = 1",
        f"branches = {numbers.branches}",
        f"window = {{ tokens = {list(numbers.window.tokens)}, ring = {numbers.window.ring} }}",
        "",
        "[weights]",
        f"bytes = {end}",
    ]
    if numbers.input_at and numbers.input_kind == "embedding":
        lines.append(f'regions = [{{ name = "reserved", at = 0, bytes = {numbers.input_at}, kind = "reserved" }}]')
    lines += ["", "[input]", f'kind = "{numbers.input_kind}"', f"at = {numbers.input_at}"]
    if numbers.array:
        lines.append(f'array = "{numbers.array}"')
    lines += ["", "[output]", f"merge = {numbers.merge}", f"logits = {numbers.logits}", "", "[surfaces]"]
    lines += [_surface_line(number, use) for number, use in enumerate(surfaces)]
    arrays = {_identifier(n): v.nbytes for n, v in kernel.body.variables.items() if v.space == "shared"}
    if arrays:
        lines += ["", "[shared]", *(f"{name} = {nbytes}" for name, nbytes in arrays.items())]
    return "\n".join(lines) + "\n", problems


def _surface_line(number: int, use: SurfaceUse) -> str:
    size = 'width = "ex / 2", height = "ey / 2"' if use.halved else 'width = "ex", height = "ey"'
    return f'surface{number} = {{ parameter = {use.parameter}, {size}, role = "{use.role}" }}'


def _difference(text: str, family: Path, kernel: Kernel) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / family.name).write_bytes(family.read_bytes())
        path = Path(folder) / "draft.toml"
        path.write_text(text, encoding="utf-8")
        try:
            contract = read_contract(path)
        except ContractError as error:
            return str(error).replace(folder, "draft")
    return match_layer(kernel, contract).first_difference()
