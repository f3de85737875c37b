"""The counts of a run, and docs/mutants.md: its survivors with the reason why each is equivalent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from tests.kernels.mutants.judge import GREEN, RED, REFUSED, SAME, SLOWER, Verdict

# A pattern of mutants' names and why such a mutant gives the same bytes. The first that fits counts.
REASONS = (
    (r" operation < -> <=", "one more pass of an unrolled loop, over an element that no array has: it is dropped"),
    (r"deletion __builtin_amdgcn_(fence|wave_barrier)", "an order that compiler and LDS keep here without being told"),
    (r"zrr_merge\.h:10:", "masks and bounds of a DPP exchange in which every lane reads a lane that exists"),
    (r"sched_barrier|zrr_attention\.h:111:", "the compiler's scheduling only"),
    (
        r"zrr_direct\.h:240:\S+ constant 2 -> 1",
        "reads elements that no array has: undefined, and no case shows what this compiler makes of it",
    ),
    (r"zrr_norm\.h:58:\S+ constant 1 -> 0", "the sum of energies, none negative, is only tested for being finite"),
    (r"448\.0f -> 448\.25f", "448.25 is 448 as e4m3 too"),
    (r"224\.0f -> 224\.125f", "twice 224.125 is 448 as e4m3 too"),
    (r"constant (32|16)\.0f -> \d", "a proof with room: what then runs without clamps still cannot overflow"),
    (r"1024\.0f -> ", "a proof with room: seeds and tables of that length still cannot overflow"),
)
UNEXPLAINED = "NOT EXPLAINED"


def reason(name: str) -> str:
    """Why a survivor is equivalent."""
    return next((why for pattern, why in REASONS if re.search(pattern, name)), UNEXPLAINED)


def summary(body: str, results: Mapping[str, Verdict], total: int) -> str:
    """Counts by outcome, the share of red ones, and the names of the survivors."""
    lines = _counts(body, results, total)
    for outcome in (GREEN, SLOWER):
        lines += [f"{outcome}: {name}: {reason(name)}" for name, v in sorted(results.items()) if v.outcome == outcome]
    return "\n".join(lines)


def _counts(body: str, results: Mapping[str, Verdict], total: int) -> list[str]:
    counts = Counter(verdict.outcome for verdict in results.values())
    tried = counts[RED] + counts[GREEN] + counts[SLOWER]
    share = 100 * (counts[RED] + counts[SLOWER]) / tried if tried else 0.0
    lists = f"{counts[REFUSED]} do not compile, {counts[SAME]} give the same code"
    reds = f"{counts[RED]} red by their bytes, {counts[SLOWER]} by their instruction count, {share:.1f} % together"
    first = f"{body}: {len(results)} of {total} judged; {lists}."
    return [first, f"Of the other {tried}: {reds}; {counts[GREEN]} green."]


def page(body: str, results: Mapping[str, Verdict], total: int) -> str:
    """The part of docs/mutants.md about one body."""
    lines = [*_counts(body, results, total), "", "| mutant | outcome | why it gives the same bytes |", "|---|---|---|"]
    for name, verdict in sorted(results.items()):
        if verdict.outcome in (GREEN, SLOWER):
            why = verdict.why if verdict.outcome == SLOWER else reason(name)
            cell = name.replace("|", "\\|")
            lines.append(f"| `{cell}` | {verdict.outcome} | {why} |")
    return "\n".join(lines) + "\n"
