"""The pattern language of `rules/*.rule` (docs/rules.md)."""

from .language import CAPTURE_USE, Condition, Line, Rule, RuleError, load_rules, read_rules
from .matcher import Match, RuleIndex, Source, Term, Value, find

__all__ = [
    "CAPTURE_USE",
    "Condition",
    "Line",
    "Match",
    "Rule",
    "RuleError",
    "RuleIndex",
    "Source",
    "Term",
    "Value",
    "find",
    "load_rules",
    "read_rules",
]
