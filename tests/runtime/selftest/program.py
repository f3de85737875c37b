"""The self-test under each planted fault, in one process: prints the rows that failed, and one report.

usage: program.py ROWS FAULT...  (ROWS: patterns with commas between)
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from zluda_rr.runtime.selftest import Verdict, run_selftest, selftest_json


def main() -> None:
    chosen = Path(os.environ["ZLUDA_RR_TEST_FAULT"])
    results = {}
    for fault in sys.argv[2:]:
        chosen.write_text(fault)
        report = run_selftest(sys.argv[1].split(","))
        failed = [check.name for check, row in report.rows if row.verdict is Verdict.FAIL]
        results[fault] = {"failed": failed, "report": selftest_json(report)}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
