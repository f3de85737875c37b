"""Rule files: what they say, and where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from zluda_rr.errors import UserError
from zluda_rr.resources import resource_dir
from zluda_rr.rewrite import fusion_rules
from zluda_rr.rewrite.patterns import RuleError, load_rules, read_rules

HEAD = 'rule one {\n  reason "r" source "s"\n'
WRONG = {
    HEAD + "  match { $d = add.f16 $a $b; }\n  carry;\n}": (3, 27, "expected"),
    HEAD + "  match { $d = add.f16 $a, $b; }\n  where uses $q == 1;\n  carry;\n}": (4, 14, "$q is in no line"),
    HEAD + "  match { x: $d = add.f16 $a, $b; }\n  where before x y;\n  carry;\n}": (
        4,
        18,
        "no line of the match is labelled y",
    ),
    HEAD + "  match { $d = add.f16 $a, $b; }\n  emit {\n    | mov.b32 $d, $z;\n  }\n}": (5, 19, "$z is in no line"),
    HEAD + "  match { $d = add.f16 $a, $b; }\n}": (4, 1, "carry"),
    HEAD + "  match { $d = add.f16 $a, $b; $e = neg.f16 $d; }\n  carry;\n}": (1, 6, "a carry rule has one line"),
    HEAD + "  match { $d = add.f16 $a, $b; }\n  carry;\n}\n" + HEAD: (
        6,
        6,
        "rule one is defined twice, first in line 1",
    ),
    "rule two {": (1, 10, "expected reason"),
    "%": (1, 1, "expected rule"),
    "": (1, 1, "expected a rule"),
}


@pytest.mark.parametrize("text", WRONG)
def test_errors_point_into_the_file(text: str) -> None:
    line, column, message = WRONG[text]
    if text.endswith(HEAD):
        text += "  match { $d = neg.f16 $a; }\n  carry;\n}"
    with pytest.raises(RuleError) as caught:
        read_rules(text, filename="x.rule")
    shown = str(caught.value).splitlines()
    assert shown[0].startswith(f"x.rule:{line}:{column}: ")
    assert message in shown[0]
    assert shown[2] == " " * (column + 1) + "^"


def test_a_missing_file_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the rule file"):
        load_rules(tmp_path / "none.rule")


def test_the_shipped_rules() -> None:
    rules = fusion_rules()
    assert len({rule.name for rule in rules}) == len(rules)
    assert all(rule.reason and rule.source for rule in rules)
    assert rules[0].place == f"{resource_dir('rules') / 'fragment-consumer.rule'}:8"


def test_opcodes() -> None:
    (rule,) = read_rules(HEAD + "  match { $d = add|sub.rn?.*.f16x2 $a, $b; }\n  carry;\n}")
    expression = rule.lines[0].expression
    for spelling in ("add.f16x2", "sub.rn.f16x2", "add.rn.ftz.sat.f16x2", "add.ftz.f16x2"):
        assert expression.match(spelling)
    for spelling in ("mul.f16x2", "add.f16", "add.f16x2.x", "xadd.f16x2"):
        assert not expression.match(spelling)


def test_comments_and_labels() -> None:
    text = (
        "# a comment\n"
        + HEAD
        + "  match {\n    at: $d|_ = shfl.sync $v, 0x1f, -1; # here\n  }\n  emit {\n    | mov $d, $v~;\n  }\n}"
    )
    (rule,) = read_rules(text)
    assert rule.lines[0].label == "at"
    assert rule.template == ("mov $d, $v~;",)
    assert rule.results == ("d",)
