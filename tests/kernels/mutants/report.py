"""The counts of a run, and its survivors with the reason why each is equivalent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tests.kernels.mutants.judge import GREEN, RED, REFUSED, SAME, SLOWER, Verdict


def summary(body: str, results: Mapping[str, Verdict], total: int) -> str:
    """Counts by outcome, the share of red ones, and the names of the survivors."""
    counts = Counter(verdict.outcome for verdict in results.values())
    tried = counts[RED] + counts[GREEN] + counts[SLOWER]
    share = 100 * counts[RED] / tried if tried else 0.0
    lines = [
        f"{body}: {len(results)} of {total} mutants judged; {counts[REFUSED]} do not compile, {counts[SAME]} compile to the "
        "same code",
        f"of the other {tried}: {counts[RED]} red ({share:.1f} %), {counts[SLOWER]} only slower, {counts[GREEN]} green",
    ]
    for outcome in (GREEN, SLOWER):
        lines += [f"{outcome}: {name}" for name, v in sorted(results.items()) if v.outcome == outcome]
    return "\n".join(lines)
