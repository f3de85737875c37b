"""The reference page docs/instructions.md: the instruction table with what the oracle and the lowering take.

`python -m zluda_rr.forms.page > docs/instructions.md` rewrites it; a test fails when it is stale.
"""

from collections.abc import Callable, Iterator, Sequence

from zluda_rr.forms.probe import probe_of
from zluda_rr.forms.spelling import spellings
from zluda_rr.forms.summary import Words, summarise
from zluda_rr.forms.support import Support, support
from zluda_rr.ptx import form_text, isa, operands_text

_HEAD = """# PTX instructions

Made from `zluda_rr/ptx/instructions.toml` by `python -m zluda_rr.forms.page`; do not edit.

The table drives the validity check, definitions and uses of registers, the PTX oracle and the lowering. An instruction
that is not in it still parses and prints; an analysis that would have to know it says so by name. Sections are those of
the PTX ISA manual 9.0.

`[…]` is optional, `{a b}` a choice, `.T{…}` a choice that operand types refer to. The order of modifiers in a module
does not matter. `→` marks what an instruction writes; roles: address, coordinates, label, function, params, any.

The last two columns say which forms the oracle executes and which the lowering (`compile`, `verify`) takes; both
refuse every other one by its name. `–` is the form without that modifier. The table is wider than PTX: some
combinations that it allows no compiler takes. What the lowering takes gives the oracle's result bit for bit on
adversarial operands (`tests/forms`), with two exceptions: a NaN's payload, which gfx12 keeps where NVIDIA has a fixed
NaN, and `.approx`, within two units of the last place where denormals are kept. Where a line has more than 12,000
forms (ld, st, atom, red, mma), those are counted that differ from a plain one in two modifiers, or in space, type and
vector length.
"""


def instruction_page() -> str:
    """The page's whole text; asks the oracle and the lowering about every form."""
    return page_of(support([probe_of(spelling) for spelling in spellings()]))


def page_of(answers: Sequence[Support]) -> str:
    """The page for given answers."""
    return "".join(f"{line}\n" for line in _lines(answers))


def _lines(answers: Sequence[Support]) -> Iterator[str]:
    by_pattern: dict[str, list[Support]] = {}
    for answer in answers:
        by_pattern.setdefault(answer.probe.spelling.pattern.syntax, []).append(answer)
    accepted = sum(not answer.oracle for answer in answers), sum(not answer.lowering for answer in answers)
    yield from _HEAD.splitlines()
    yield ""
    yield f"Of {len(answers)} forms the oracle executes {accepted[0]}, and the lowering takes {accepted[1]}."
    section = ""
    for pattern in isa.patterns():
        title = pattern.section.partition(":")[0]
        if title != section:
            section = title
            yield ""
            yield f"## {title}"
            yield ""
            yield "| instruction | form | operands | oracle | lowering |"
            yield "|---|---|---|---|---|"
        found = by_pattern.get(pattern.syntax, [])
        columns = [_summary(pattern, found, lambda a: a.oracle), _summary(pattern, found, lambda a: a.lowering)]
        if ":" in columns[1] and all(bool(answer.oracle) == bool(answer.lowering) for answer in found):
            columns[1] = "the same"
        link = f"[{pattern.opcode}]({isa.page_link(pattern.section)})"
        yield f"| {link} | `{form_text(pattern)}` | {operands_text(pattern)} | {columns[0]} | {columns[1]} |"


def _summary(pattern: isa.Pattern, answers: Sequence[Support], refusal: Callable[[Support], str]) -> str:
    """The forms of a line; the number of operands counts as a modifier where it varies."""
    if not answers:
        return "an earlier line's"
    counts = {answer.probe.spelling.operands for answer in answers}
    names = [modifier.name for modifier in pattern.modifiers] + ["operands"] * (len(counts) > 1)
    taken: dict[Words, bool] = {}
    for answer in answers:
        spelling = answer.probe.spelling
        words = (*spelling.words, *([str(spelling.operands)] if len(counts) > 1 else []))
        taken[words] = not refusal(answer)
    return summarise(names, taken)


if __name__ == "__main__":
    print(instruction_page(), end="")
