"""`python -m tests.kernels.mutants [--body direct] [--limit N] [--again]`: judge all mutants of a body.

Results are appended to build/mutants-BODY.jsonl as they come; a second run goes on where the first stopped. One process
judges, at the lowest priority, and is replaced where a mutant keeps it busy for too long.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tests.kernels.mutants.judge import GREEN, SLOWER, Verdict
from tests.kernels.mutants.operators import Mutant
from tests.kernels.mutants.report import page, summary
from tests.kernels.mutants.sources import BODIES, all_mutants
from tests.kernels.mutants.worker import Worker


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernels.mutants", description=__doc__)
    parser.add_argument("--body", choices=sorted(BODIES), default="direct")
    parser.add_argument("--limit", type=int, default=None, help="judge at most so many")
    parser.add_argument("--again", action="store_true", help="judge those again that showed no difference")
    parser.add_argument("--report", action="store_true", help="judge none, print what is known")
    parser.add_argument("--page", action="store_true", help="with --report: print the body's part of docs/mutants.md")
    given = parser.parse_args()
    path = Path("build") / f"mutants-{given.body}.jsonl"
    path.parent.mkdir(exist_ok=True)
    known = read_results(path)
    wanted = all_mutants(given.body)
    if not given.report:
        missing = [m for m in wanted if m.name not in known or (given.again and known[m.name].outcome == GREEN)]
        _judge_all(given.body, missing[: given.limit], path)
        known = read_results(path)
    results = {m.name: known[m.name] for m in wanted if m.name in known}
    show = page if given.page else summary
    print(show(given.body, results, len(wanted)))


def read_results(path: Path) -> dict[str, Verdict]:
    """The last verdict on each mutant."""
    lines = path.read_text().splitlines() if path.is_file() else []
    records = [json.loads(line) for line in lines]
    return {r["name"]: Verdict(r["outcome"], r["why"], r["code"]) for r in records}


def _judge_all(body: str, mutants: list[Mutant], path: Path) -> None:
    worker, start = Worker(body), time.monotonic()
    with path.open("a") as results:
        for number, mutant in enumerate(mutants):
            verdict = worker.ask(mutant)
            if verdict is None:
                continue
            record = {"name": mutant.name, "outcome": verdict.outcome, "why": verdict.why, "code": verdict.code}
            results.write(json.dumps(record) + "\n")
            results.flush()
            if verdict.outcome in (GREEN, SLOWER) or number % 50 == 0:
                spent = time.monotonic() - start
                print(f"{number + 1}/{len(mutants)} {spent:.0f} s  {mutant.name}: {verdict.outcome}", file=sys.stderr)
    worker.stop()


if __name__ == "__main__":
    main()
