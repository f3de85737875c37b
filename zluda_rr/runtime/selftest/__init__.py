"""`zluda-rr selftest`: what a card does, row by row, against what the project assumes (docs/selftest.md)."""

from zluda_rr.runtime.selftest.rows import Check, Row, Verdict
from zluda_rr.runtime.selftest.run import SelftestReport, checks, run_selftest, selftest_json, selftest_text

__all__ = ["Check", "Row", "SelftestReport", "Verdict", "checks", "run_selftest", "selftest_json", "selftest_text"]
