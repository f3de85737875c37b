"""The pattern language of `rules/*.rule` (docs/rules.md)."""

from .language import CAPTURE_USE, Condition, Line, Rule, RuleError, load_rules, read_rules
from .matcher import Match, RuleIndex, SearchLimitError, Source, Term, Value, find

__all__ = [
    "CAPTURE_USE",
    "Condition",
    "Line",
    "Match",
    "Rule",
    "RuleError",
    "RuleIndex",
    "SearchLimitError",
    "Source",
    "Term",
    "Value",
    "find",
    "load_rules",
    "read_rules",
]
